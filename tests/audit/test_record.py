"""Audit records: what is written is read back, archived formats load, and whatever is wrong is refused by name."""

import contextlib
import copy
import io
import json
import os
import pickle
import random
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from bivshap_lightning import AuditRecord, ExplanationGraph, cli
from bivshap_lightning.audit import record_files
from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.audit.json_fields import OPTIONAL
from bivshap_lightning.audit.record import Configuration, GraphSummary, SampleSummary, as_record
from bivshap_lightning.audit.record_arrays import verify_arrays
from bivshap_lightning.audit.record_files import READABLE_VERSIONS, RECORD_VERSION, StoredArrays
from bivshap_lightning.metrics.catalogue import estimate_over
from bivshap_lightning.views.html import render_page
from tests.records import ARRAYS, STACK, P, fields, npz, record, sealed, summary, true_fields, weights_of, write

ARCHIVE = Path(__file__).parent / "archive"


@pytest.mark.parametrize("version", READABLE_VERSIONS)
def test_archived_records_load(version):
    found = AuditRecord.load(ARCHIVE / f"version_{version}.json")
    assert [sample.class_name for sample in found.samples] == ["cat", "cat", "dog", "dog"]
    assert found.arrays["weights"].shape == (4, 4, 4)
    assert found.arrays["image_0"].shape == (2, 2)
    assert set(found.class_graphs) == {"cat", "dog"}
    assert found.metrics["bivshap/post_hoc_accuracy/ours"].value > 0
    assert found.configuration.link == "auto"


def test_the_current_version_is_archived():
    assert RECORD_VERSION in READABLE_VERSIONS
    assert json.loads((ARCHIVE / f"version_{RECORD_VERSION}.json").read_text())["version"] == RECORD_VERSION


def test_what_is_written_is_read(tmp_path):
    found = AuditRecord.load(ARCHIVE / f"version_{RECORD_VERSION}.json")
    again = AuditRecord.load(found.save(tmp_path / "deep" / "audit.json"))
    assert again == found
    assert again.source == str(tmp_path / "deep" / "audit.json")
    assert all(np.array_equal(again.arrays[name], array) for name, array in found.arrays.items())
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["audit.json", "audit.npz"]


def test_records_can_be_sent_to_other_processes(tmp_path):
    found = AuditRecord.load(write(tmp_path / "audit.json", true_fields()))
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert np.array_equal(again.arrays["weights"], STACK)
    assert again.class_graphs["cat"].names == ("a", "b", "c", "d")


def test_a_record_that_contradicts_itself_is_not_written(tmp_path):
    found = record()
    bad = replace(found, configuration=replace(found.configuration, gamma=-1.0))
    with pytest.raises(RecordError, match=r"configuration\.gamma must be 0 or more, got -1\.0"):
        bad.save(tmp_path / "audit.json")
    assert not list(tmp_path.iterdir())


def test_records_too_large_to_be_read_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files, "MAX_UNPACKED_BYTES", 100)
    with pytest.raises(RecordError, match=r"`arrays` must take at most 100 bytes, got 1,280\. Audit fewer samples"):
        replace(record(), arrays={"weights": STACK}).save(tmp_path / "audit.json")


def test_hardest_samples_come_first():
    def sample(index, label, gain):
        return SampleSummary(index=index, label=label, target="a", gain=gain, **shared)

    shared = GraphSummary.fields_of(ExplanationGraph([[0, 1], [1, 0]]), 1e-5)
    configuration = Configuration("logit", "auto", "automatic", "baseline 0", "predicted", 1e-5)
    found = (sample(0, "a", 0.9), sample(1, "a", 0.1), sample(2, "b", 0.8), sample(3, None, None))
    assert AuditRecord(configuration=configuration, samples=found).hardest_samples() == [2, 3, 1, 0]
    fixed = replace(configuration, target=0)
    assert AuditRecord(configuration=fixed, samples=found).hardest_samples() == [3, 1, 2, 0]
    values = tuple(sample(k, None, gain) for k, gain in enumerate((-5.0, 0.2, -0.1, 3.0)))
    of_values = replace(configuration, task="regression")
    assert AuditRecord(configuration=of_values, samples=values).hardest_samples() == [2, 1, 3, 0]


def test_only_records_and_paths(tmp_path):
    found = record()
    assert as_record(found) is found
    with pytest.raises(TypeError, match="`record` must be an AuditRecord or the path of one, got dict"):
        as_record({})


def changed(content, place, value):
    """A copy of JSON values with another one at a place; a callable makes it from the old one."""
    new = copy.deepcopy(content)
    parent = new
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value(parent[place[-1]]) if callable(value) else value
    return new


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (("configuration", "gamma"), -1, r"configuration\.gamma must be 0 or more"),
        (("configuration", "gamma"), float("inf"), r"configuration\.gamma must be a finite number, got inf"),
        (("configuration", "link"), None, r"configuration\.link must be a text, got None"),
        (("configuration", "target"), 1.5, r"configuration\.target must be a text or a whole number, got 1\.5"),
        (("configuration", "seed"), 10**30, r"configuration\.seed must be a whole number"),
        (("versions",), [], r"versions must be an object, got \[\]"),
        (("run", "sample_keys"), {}, r"run\.sample_keys must be a list, got \{\}"),
        (("run", "sample_keys"), ["a", "b", "a", "c", "d"], r"run\.sample_keys must be different, got \['a'\]"),
        (("run", "sample_keys"), ["a"], r"sample_keys must be empty or name all samples, up to index 19, got .1 keys"),
        (("run", "colour"), "red", r"run must be without unknown fields such as 'colour'; upgrade"),
        (("run",), {"stage": "test"}, r"run must be complete, with 'checkpoint', got \['stage'\]"),
        (("samples",), [], "samples must hold at least one sample"),
        (("samples", 1, "index"), 0, r"samples must be different, with one index each, got \[0\]"),
        (("samples", 1, "index"), -3, r"samples\[1\]\.index must be 0 or more, got -3"),
        (("samples", 1, "index"), True, r"samples\[1\]\.index must be a whole number, got True"),
        (("samples", 1, "players"), [], r"samples\[1\]\.players must name at least one player"),
        (("samples", 1, "players"), ["a"] * 4, r"samples\[1\]\.players must be different names"),
        (("samples", 1, "ranking"), [], r"samples\[1\]\.ranking must list every player once"),
        (("samples", 1, "sources"), ["a", "a"], r"samples\[1\]\.sources must be different names"),
        (("samples", 1, "sinks"), ["z"], r"samples\[1\]\.sinks must be players, got \('z',\)"),
        (("samples", 1, "groups"), [["a"]], r"samples\[1\]\.groups must be disjoint, of two players or more"),
        (("samples", 1, "groups"), [["a", "b"], ["b", "c"]], r"samples\[1\]\.groups must be disjoint"),
        (("samples", 1, "groups"), [["a", "z"]], r"samples\[1\]\.groups must consist of players"),
        (("samples", 1, "density"), 1.5, r"samples\[1\]\.density must lie in \[0, 1\], got 1\.5"),
        (("samples", 1, "n_undecided"), 11, r"samples\[1\]\.n_undecided must lie between 0 and 10, got 11"),
        (("samples", 1, "words"), ["one"], r"samples\[1\]\.words must hold one word per player"),
        (("samples", 1, "scores"), {f"{P}mask_sinks_accuracy": 2}, r"scores\['biv.*accuracy'\] must lie in \[0, 1\]"),
        (("samples", 1, "gain"), "much", r"samples\[1\]\.gain must be a finite number or null, got 'much'"),
        (("classes", "cow"), lambda _: summary(weights_of()), "classes must be classes of samples, got 'cow'"),
        (("metrics", f"{P}density", "value"), 1.5, r"density'\]\.value must lie in \[0, 1\], got 1\.5"),
        (("metrics", f"{P}density", "value"), 0.5, r"must be what the samples say, 0\.0833333, got 0\.5"),
        (("metrics", f"{P}density", "standard_error"), -1, r"standard_error must be 0 or more, got -1"),
        (("class_metrics", "cat", "n_samples"), 11, r"class_metrics\['cat'\]\.n_samples must be 10, got 11"),
        (("class_metrics", "cow"), {"n_samples": 0, "metrics": {}}, "class_metrics must be of classes of samples"),
        (("class_metrics", "cat", "metrics", f"{P}share_removable", "value"), 0.3, "be what the samples say, 0.25"),
        (("curves", "ours", "accuracy"), [1.0], r"curves\['ours'\] must have as many values of each kind"),
        (("curves", "ours", "accuracy"), [1.0, 2.0], r"curves\['ours'\]\.accuracy must lie in \[0, 1\]"),
        (("curves", "ours", "standard_error"), [0.0, -1.0], r"curves\['ours'\]\.standard_error must be 0 or more"),
        (("cost", "seconds"), -1, r"cost\.seconds must be 0 or more"),
    ],
)  # fmt: skip
def test_impossible_fields_are_named(place, value, match):
    content = true_fields()
    if place[-1] in ("cow", "colour"):
        content = changed(content, place[:-1], lambda old: old | {place[-1]: None})
    with pytest.raises(RecordError, match=match):
        AuditRecord.from_fields(changed(content, place, value), source="file")


OTHER = np.array([[0, 1, 0, 1], [1, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 0]], dtype=np.float32)
NOISY = np.full((20, 4, 4), 0.5) * (1 - np.eye(4))


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"weights": np.tile(OTHER, (20, 1, 1))}, r"samples\[0\]\.groups must be what the arrays say"),
        ({"weights": np.zeros((20, 4, 4))}, r"samples\[0\]\.density must be what the arrays say, 12 redundant pairs"),
        ({"weights": STACK, "standard_error": NOISY}, r"\[0\]\.density must be what the arrays say, 0 redundant pairs"),
        ({"weights": STACK[:19]}, r"arrays\['weights'\] must hold 20 samples, got \(19, 4, 4\)"),
        ({"weights": STACK[:, :3, :3]}, r"arrays must hold \(4, 4\) weights for sample 0, got \(3, 3\)"),
        ({"weights": np.float32(1)}, r"arrays\['weights'\] must hold 20 samples, got \(\)"),
        ({}, r"arrays must hold \(4, 4\) weights for sample 0, got None"),
        ({"weights": np.where(STACK == 0, np.nan, STACK)}, "arrays of sample 0 must form a graph, got others"),
        ({"weights": np.where(STACK == 0, np.inf, STACK)}, "arrays of sample 0 must form a graph, got others"),
        ({"weights": STACK.astype(str)}, r"arrays\['weights'\] must hold numbers, got 'U'"),
        ({"weights": STACK, "noise": STACK}, "arrays must be arrays of its samples, got 'noise'"),
        ({"weights": STACK, "image_20": STACK}, "arrays must be arrays of its samples, got 'image_20'"),
        ({"weights": STACK, "image_0": np.zeros((2, 2), np.uint8)}, "hold a picture of sample 0 and its players"),
        ({"weights": STACK, "image_0": np.zeros((2, 2), np.uint8), "segments_0": np.full((2, 2), 9)}, "hold a picture"),
        ({"weights": STACK, "shapley": np.ones((20, 4))}, r"samples\[0\]\.gain must be the sum of its Shapley values"),
    ],
)  # fmt: skip
def test_arrays_that_contradict_the_fields_are_named(tmp_path, arrays, match):
    path = write(tmp_path / "audit.json", true_fields(), npz(**arrays))
    with pytest.raises(RecordError, match=match):
        AuditRecord.load(path)


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (("samples", 12, "density"), 1 / 6, r"samples\[12\]\.density must be what the arrays say, 0 redundant pairs"),
        (("samples", 12, "n_undecided"), 1, r"samples\[12\]\.n_undecided must be what the arrays say, 0, got 1"),
        (("samples", 12, "groups"), [["c", "d"]], r"samples\[12\]\.groups must be what the arrays say"),
        (("samples", 2, "groups"), [], r"samples\[2\]\.groups must be what the arrays say"),
        (("samples", 12, "sources"), ["a"], r"samples\[12\]\.sources must be what the arrays say, got \('a',\)"),
        (("samples", 12, "sinks"), ["a"], r"samples\[12\]\.sinks must be what the arrays say"),
        (("classes", "dog", "density"), 0.5, r"classes\['dog'\]\.density must be what the arrays say"),
        (("classes", "dog", "groups"), [["a", "b"]], r"classes\['dog'\]\.groups must be what the arrays say"),
        (("classes", "dog", "players"), list("dcba"), r"classes\['dog'\]\.players must be those of the arrays"),
    ],
)  # fmt: skip
def test_fields_that_contradict_the_arrays_are_named(tmp_path, place, value, match):
    content = changed(true_fields(), place, value) | {"metrics": {}, "class_metrics": {}}
    with pytest.raises(RecordError, match=match):
        AuditRecord.load(write(tmp_path / "audit.json", content))


def test_edges_within_rounding_of_gamma_may_go_either_way(tmp_path):
    """0.1 is more than gamma = 0.1 - 1e-9 in double precision; stored in single precision nobody can tell."""
    gamma, weights = 0.1 - 1e-9, weights_of()
    weights[0, 1] = weights[1, 0] = 0.1
    for redundant in (False, True):
        decided = weights.copy()
        decided[0, 1] = decided[1, 0] = 0.0 if redundant else 0.2
        found = summary(decided) | {"ranking": summary(weights)["ranking"], "gamma": gamma}
        content = fields([("cat", found)], {}, {"cat": found}, gamma=gamma) | {"class_metrics": {}}
        content["samples"][0]["gain"] = None
        path = write(tmp_path / "audit.json", content, npz(weights=weights[None].astype(np.float32)))
        assert bool(AuditRecord.load(path).samples[0].groups) is redundant


def zipped(**entries: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            archive.writestr(f"{name}.npy", data)
    return file.getvalue()


def npy(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    "data",
    [
        b"", b"PK", ARRAYS[:-30], zipped(weights=b""), zipped(weights=b"\x93NUMPY\x07\x00"), zipped(header=npy(b"{}")),
        zipped(weights=npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (")),  # tokenize.TokenError
        zipped(weights=npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (10**9, 10**9), }")),
        zipped(weights=npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }")),
        zipped(weights=npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }")),
        zipped(weights=npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"cos\nsystem\n")),
        zipped(weights=npy(b"[" * 5000)), zipped(header=npz()[:40]),
    ],
)  # fmt: skip
def test_arrays_that_cannot_be_unpacked(tmp_path, data):
    path = write(tmp_path / "audit.json", true_fields(), data)
    with pytest.raises(RecordError, match=r"`arrays` must be an intact NPZ file, got .*record\.npz"):
        AuditRecord.load(path)


def test_damage_inside_an_array_is_found_when_it_is_unpacked():
    data = bytearray(zipped(header=npz_header(), weights=npz_entry(np.zeros(99_999))))
    data[data.index(b"weights.npy") + 99_999] ^= 1
    arrays = StoredArrays(bytes(data), "file")
    with pytest.raises(RecordError, match=r"`arrays` must be an intact NPZ file, got file \(Bad CRC-32"):
        arrays["weights"]
    with pytest.raises(KeyError, match="shapley"):
        StoredArrays(ARRAYS, "file")["shapley"]


def npz_header() -> bytes:
    return npz_entry(np.array(json.dumps({"kind": record_files.KIND, "version": RECORD_VERSION})))


def npz_entry(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_sizes_are_limited(tmp_path, monkeypatch):
    path = write(tmp_path / "audit.json", true_fields())
    for name, what in (("MAX_JSON_BYTES", "record"), ("MAX_NPZ_BYTES", "arrays")):
        with monkeypatch.context() as patch:
            patch.setattr(record_files, name, 100)
            with pytest.raises(RecordError, match=rf"`{what}` must have at most 100 bytes, got \S+ in "):
                AuditRecord.load(path)
    monkeypatch.setattr(record_files, "MAX_UNPACKED_BYTES", 100)
    with pytest.raises(RecordError, match=r"`arrays` must unpack to at most 100 bytes, got [\d,]+ in "):
        AuditRecord.load(path)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs files whose size is not known in advance")
def test_files_of_unknown_size_are_limited_too(monkeypatch):
    monkeypatch.setattr(record_files, "MAX_JSON_BYTES", 10)
    with pytest.raises(RecordError, match=r"`record` must have at most 10 bytes, got more in /proc/self/status"):
        AuditRecord.load("/proc/self/status")


@pytest.mark.parametrize("depth", [100, 900, 3000, 20_000, 200_000])
def test_deeply_nested_content_is_refused(tmp_path, depth):
    head = json.dumps({"kind": record_files.KIND, "version": RECORD_VERSION})[:-1]
    (tmp_path / "audit.json").write_text(f'{head}, "samples": {"[" * depth}{"]" * depth}}}')
    with pytest.raises(RecordError, match=r"`record` must (be an intact JSON file|hold what was written), got "):
        AuditRecord.load(tmp_path / "audit.json")


def test_a_file_that_promises_little_and_unpacks_to_much_is_not_unpacked(tmp_path):
    """A gigabyte of zeros in a megabyte: refused by its header, before anything is allocated."""
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2000000000,), }"
    bomb = zipped(weights=npy(header, bytes(10**6)))
    with pytest.raises(RecordError, match=r"intact NPZ file.*of 1000076 bytes, not 8000000076"):
        AuditRecord.load(write(tmp_path / "audit.json", true_fields(), bomb))


def test_files_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "folder.json").mkdir()
    for name, match in (("pipe", "must be a regular file"), ("zero", "must be a regular file"), ("folder", "a folder"),
                        ("none", "No such file"), ("a\0b", "embedded null byte")):  # fmt: skip
        with pytest.raises(RecordError, match=match):
            AuditRecord.load(f"{tmp_path}/{name}.json")
    path = write(tmp_path / "audit.json", true_fields())
    (tmp_path / "record.npz").unlink()
    (tmp_path / "record.npz").symlink_to("/dev/zero")
    with pytest.raises(RecordError, match="`arrays` must be a regular file"):
        AuditRecord.load(path)
    with pytest.raises(RecordError, match=r"must be the JSON file of an audit, got .* Pass .*record\.json"):
        AuditRecord.load(tmp_path / "record.npz")


@pytest.mark.parametrize(
    "arrays",
    [None, [], {}, "x", {"file": 3, "sha256": "x"}, {"file": "x.npz"}, {"file": "../x.npz", "sha256": "x"},
     {"file": "", "sha256": "x"}, {"file": "x\0", "sha256": "x"}, {"file": "x", "sha256": None},
     {"file": "x", "sha256": "y", "more": 1}],
)  # fmt: skip
def test_wrong_types_where_the_arrays_are_named(tmp_path, arrays):
    path = tmp_path / "audit.json"
    path.write_bytes(sealed(true_fields() | {"arrays": arrays}))
    with pytest.raises(RecordError, match="arrays must name a file and its sha256, got "):
        AuditRecord.load(path)


def test_long_keys_are_shortened_in_messages(tmp_path):
    content = true_fields()
    content["metrics"]["a" * 10_000_000] = {"value": "x", "standard_error": 0.0}
    with pytest.raises(RecordError, match=r"metrics\['aaaaaaaaaaaa\.\.\.aaaaaaaaaaaaa'\]\.value must be a finite") as e:
        AuditRecord.from_fields(content)
    assert len(str(e.value)) < 300


@dataclass(frozen=True)
class NotedConfiguration(Configuration):
    note: str = field(default="none", metadata=OPTIONAL)


@dataclass(frozen=True, kw_only=True)
class NotedRecord(AuditRecord):
    configuration: NotedConfiguration


def test_a_new_field_is_one_line(tmp_path):
    """It is written, read and shown, files without it load with its default, and its type is verified."""
    old = NotedRecord.load(ARCHIVE / f"version_{RECORD_VERSION}.json")
    assert old.configuration.note == "none"
    new = replace(old, configuration=replace(old.configuration, note="first <b>"))
    again = NotedRecord.load(new.save(tmp_path / "audit.json"))
    assert again.configuration.note == "first <b>"
    assert "first &lt;b&gt;" in render_page(again)
    content = changed(again.to_fields(), ("configuration", "note"), 3)
    with pytest.raises(RecordError, match=r"configuration\.note must be a text, got 3"):
        NotedRecord.from_fields(content)
    with pytest.raises(RecordError, match="configuration must be without unknown fields such as 'note'; upgrade"):
        AuditRecord.load(tmp_path / "audit.json")


# Mutations, seeded, with recomputed checksums.

STRANGE = [None, "x", -1, 2.5, True, [], {}, [None], float("nan"), float("inf"), -0.5, 10**400, {"value": 1}, 2**60]
N_MUTATIONS = 3000


def places_in(value, path=()):
    """Every place in JSON values."""
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places_in(child, (*path, key))


def at(content, place):
    for key in place:
        content = content[key]
    return content


def is_same_kind(old, new) -> bool:
    """Whether one JSON value may stand for another as far as types go."""

    def kind(value):
        return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value)

    return kind(old) == kind(new) or old is None or new is None


@contextlib.contextmanager
def mutated(content, place, value):
    """Another value at a place, for a while: copies would take longer than the test."""
    parent = at(content, place[:-1])
    old, parent[place[-1]] = parent[place[-1]], value
    try:
        yield
    finally:
        parent[place[-1]] = old


def refusal(content, arrays=None) -> str:
    """Why a record is refused; empty if it is not."""
    try:
        found = AuditRecord.from_fields(content, source="file")
        if arrays is not None:
            verify_arrays(replace(found, arrays=arrays))
    except RecordError as error:
        return str(error)
    return ""


def archived() -> dict:
    return AuditRecord.load(ARCHIVE / f"version_{RECORD_VERSION}.json").to_fields()


def test_values_of_another_type_are_refused_wherever_they_stand():
    content, generator, n_refused = archived(), random.Random(0), 0
    places = list(places_in(content))
    for _ in range(N_MUTATIONS):
        place, strange = generator.choice(places), generator.choice(STRANGE)
        old = at(content, place)
        with mutated(content, place, strange):
            message = refusal(content)
        if message:
            assert message.startswith("file: ")
            n_refused += 1
        else:
            assert is_same_kind(old, strange) or place == ("configuration", "target"), (place, old, strange)
            assert not isinstance(strange, float) or abs(strange) < 9, (place, strange)
    assert n_refused > 0.9 * N_MUTATIONS


def test_missing_and_unknown_fields_are_refused_wherever_they_stand():
    content, generator = archived(), random.Random(1)
    free = (
        "metrics", "scores", "versions", "classes", "class_metrics", "curves", "skipped", "evaluations_per_sample",
        "roles", "validation_metrics",
    )  # fmt: skip
    optional = (
        "roles", "interchangeable", "substitutes", "partners", "sweep", "notes", "gamma_rule", "task", "sufficient",
        "columns", "validation_metrics", "compared_epoch", "background", "change",
    )  # fmt: skip
    typed = [
        p for p in places_in(content)
        if isinstance(p[-1], str) and (len(p) == 1 or p[-2] not in free) and p[-1] not in optional
        and (p[-1] != "gamma" or p[0] not in ("samples", "classes"))
    ]  # fmt: skip
    for place in generator.choices(typed, k=500):
        parent = at(content, place[:-1])
        removed = parent.pop(place[-1])
        assert f"must be complete, with {place[-1]!r}" in refusal(content)
        parent[place[-1]] = removed
        parent["colour"] = "red"
        assert "must be without unknown fields such as 'colour'" in refusal(content)
        del parent["colour"]


def test_numbers_that_follow_from_others_cannot_be_changed():
    """Whatever the samples or the arrays determine."""
    path = ARCHIVE / f"version_{RECORD_VERSION}.json"
    content, generator = archived(), random.Random(2)
    arrays, samples = AuditRecord.load(path).arrays, AuditRecord.load(path).samples
    derived = [
        place for place in places_in(content)
        if (place[0] in ("metrics", "class_metrics") and place[-1] == "value" and estimate_over(place[-2], samples))
        or (place[0] in ("samples", "classes") and place[-1] in ("density", "n_undecided", "gain"))
    ]  # fmt: skip
    for place in generator.choices(derived, k=400):
        shift = generator.choice([-1, 1]) if place[-1] == "n_undecided" else generator.choice([-0.3, 0.01, 0.4])
        with mutated(content, place, at(content, place) + shift):
            assert refusal(content, arrays), (place, shift)


def test_whatever_the_bytes_of_the_arrays(tmp_path):
    """Random bytes changed, checksums right: refused, or the arrays still say the same."""
    content, generator, n_refused = true_fields(), random.Random(3), 0
    for _ in range(600):
        data = bytearray(ARRAYS)
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        path = write(tmp_path / "audit.json", content, bytes(data))
        try:
            found = AuditRecord.load(path)
        except RecordError:
            n_refused += 1
        else:
            assert np.array_equal(found.arrays["weights"] <= 1e-5, STACK <= 1e-5)
    assert n_refused > 300


def test_the_command_line_never_breaks_and_never_passes_damage(tmp_path, capsys):
    rules = tmp_path / "gate.toml"
    rules.write_text(
        f'[[rule]]\nmetric = "{P}density"\nmin = 0\nmax = 1\n[[rule]]\nmetric = "class_graph/density"\nmax = 1\n'
    )
    content, generator = true_fields(), random.Random(4)
    places = list(places_in(content))
    path = tmp_path / "audit.json"
    for k in range(150):
        place, strange = generator.choice(places), generator.choice(STRANGE)
        write(path, changed(content, place, strange))
        against = ["--against", str(path)] if k % 2 else []
        code = cli.main(["gate", str(path), "--rules", str(rules), *against])
        said = capsys.readouterr()
        if code == 2:
            assert said.err.startswith("bivshap: ")
            assert "audit.json" in said.err
        else:
            assert code == 0, (place, strange, said)
            assert is_same_kind(at(content, place), strange) or place == ("configuration", "target")
