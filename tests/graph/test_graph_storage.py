"""Files: exact round trips, readable by plain NumPy and JSON, and refused with the reason when wrong."""

import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph

SUFFIXES = pytest.mark.parametrize("suffix", ["npz", "json"])

ODD_NAMES = ["", " ", "père", "数", "😀", 'a"b\\', "line\nbreak", "a,b", "0", "\ud800", "x\x01"]


def example(**changes):
    arguments = {
        "weights": [[0, 0.1], [-1 / 3, 0]],
        "names": ["a", "b"],
        "shapley": [1e-300, -2.5],
        "standard_error": [[0, 1e-7], [0.2, 0]],
        "provenance": {"method": "kernel", "seed": 0, "nested": {"list": [1, None, "ü"]}},
    }
    arguments |= changes
    return ExplanationGraph(arguments.pop("weights"), **arguments)


def assert_same(graph, other):
    for array in ("weights", "standard_error", "shapley", "shapley_standard_error"):
        np.testing.assert_array_equal(getattr(graph, array), getattr(other, array), strict=True)
    assert graph.names == other.names
    assert all(type(name) is str for name in other.names)
    assert graph.provenance == other.provenance


def write_json(path, **changes):
    """The example as a JSON file with some fields replaced, or left out where the value is `...`."""
    example().save(path)
    record = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({field: value for field, value in record.items() if value is not ...}))
    return path


# Round trips


@SUFFIXES
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_explanation_graph_round_trips_exactly(tmp_path, suffix, data):
    n_players = data.draw(st.integers(1, 4))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    weights = np.array(data.draw(st.lists(finite, min_size=n_players**2, max_size=n_players**2)))
    weights = weights.reshape(n_players, n_players)
    np.fill_diagonal(weights, 0)
    text = st.text(st.characters(exclude_characters="\0", exclude_categories=()))
    names = data.draw(st.lists(text, min_size=n_players, max_size=n_players, unique=True))
    shapley = data.draw(st.none() | st.lists(finite, min_size=n_players, max_size=n_players))
    graph = ExplanationGraph(
        weights, names=names, shapley=shapley, standard_error=np.abs(weights), provenance={"names": names}
    )
    graph.save(tmp_path / f"graph.{suffix}")
    loaded = ExplanationGraph.load(tmp_path / f"graph.{suffix}")
    assert_same(graph, loaded)
    assert loaded.weights.tobytes() == graph.weights.tobytes()  # the sign of zero, too


@SUFFIXES
def test_mean_graphs_and_log_odds_round_trip_exactly(tmp_path, suffix):
    log_odds = example(weights=[[0, 2.0], [1.0, 0]], shapley=[1, -3], provenance=None)
    known = {"shapley_standard_error": [0.1, 0.3], "pairwise_standard_error": [[0, 0.1], [0.1, 0]]}
    graph = example(log_odds=log_odds, **known)
    mean = ExplanationGraph.mean([graph, example(weights=[[0, -0.1], [0.5, 0]], log_odds=log_odds)])
    for saved in (graph, mean):
        saved.save(tmp_path / f"graph.{suffix}")
        loaded = ExplanationGraph.load(tmp_path / f"graph.{suffix}")
        assert_same(saved, loaded)
        assert loaded.scale == saved.scale
        assert np.array_equal(loaded.pairwise_error, saved.pairwise_error)
        for name in ("log_odds", "absolute"):
            nested, other = getattr(saved, name), getattr(loaded, name)
            assert (nested is None) == (other is None)
            if nested is not None:
                np.testing.assert_array_equal(nested.weights, other.weights)
                np.testing.assert_array_equal(nested.shapley, other.shapley)
                np.testing.assert_array_equal(nested.shapley_standard_error, other.shapley_standard_error)
    np.testing.assert_array_equal(loaded.log_odds.absolute.weights, mean.log_odds.absolute.weights)


@SUFFIXES
def test_odd_names_survive(tmp_path, suffix):
    path = str(tmp_path / f"graph.{suffix}")
    graph = ExplanationGraph(np.zeros((len(ODD_NAMES),) * 2), names=ODD_NAMES)
    graph.save(path)
    assert_same(graph, ExplanationGraph.load(path))
    graph.redundancy().save(path)
    assert RedundancyGraph.load(path).names == tuple(ODD_NAMES)


@SUFFIXES
@pytest.mark.parametrize("rule", ["noise", "paper"])
def test_redundancy_graph_round_trips_exactly(tmp_path, suffix, rule):
    h = example().redundancy(0.15, rule=rule)
    h.save(tmp_path / f"h.{suffix}")
    loaded = RedundancyGraph.load(tmp_path / f"h.{suffix}")
    assert loaded.adjacency.tolist() == h.adjacency.tolist() == [[False, True], [False, False]]
    assert loaded.undecided.tolist() == h.undecided.tolist()
    assert h.n_undecided == (1 if rule == "noise" else 0)
    assert (loaded.names, loaded.gamma, loaded.rule, loaded.confidence) == (h.names, 0.15, rule, h.confidence)


def test_npz_is_read_by_plain_numpy(tmp_path):
    graph = example()
    graph.save(tmp_path / "graph.npz")
    with np.load(tmp_path / "graph.npz", allow_pickle=False) as archive:
        assert archive["weights"].tolist() == graph.weights.tolist()
        assert archive["names"].tolist() == ["a", "b"]
        assert archive["shapley"].tolist() == graph.shapley.tolist()
        assert archive["standard_error"].tolist() == graph.standard_error.tolist()
        assert json.loads(str(archive["header"])) == {
            "kind": "bivshap_lightning.ExplanationGraph",
            "version": 1,
            "provenance": graph.provenance,
        }


def test_json_is_read_by_plain_json(tmp_path):
    graph = example(shapley=None)
    graph.save(tmp_path / "graph.json")
    assert json.loads((tmp_path / "graph.json").read_text()) == {
        "kind": "bivshap_lightning.ExplanationGraph",
        "version": 1,
        "weights": [[0, 0.1], [-1 / 3, 0]],
        "names": ["a", "b"],
        "shapley": None,
        "standard_error": [[0, 1e-7], [0.2, 0]],
        "provenance": graph.provenance,
    }


def test_graphs_are_read_and_analysed_without_torch(tmp_path):
    for suffix in ("npz", "json"):
        example().save(tmp_path / f"graph.{suffix}")
    script = """
import sys
blocked = ("torch", "lightning", "pytorch_lightning", "captum", "matplotlib", "pandas")
sys.modules.update(dict.fromkeys(blocked))
from bivshap_lightning.graph import ExplanationGraph
for suffix in ("npz", "json"):
    graph = ExplanationGraph.load(f"graph.{suffix}")
    h = graph.redundancy(0.15)
    h.quotient(), h.transitivity, h.sources_and_sinks("paper"), graph.order(personalized=True)
    print(graph.names, h.sinks)
"""
    # The checkout may be importable from the working directory only.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["('a', 'b') (1,)"] * 2


# Writing


@SUFFIXES
def test_saving_replaces_the_file_and_leaves_nothing_behind(tmp_path, suffix):
    path = tmp_path / f"graph.{suffix.upper()}"
    path.write_text("old")
    example().save(path)
    assert_same(example(), ExplanationGraph.load(path))
    assert list(tmp_path.iterdir()) == [path]


@SUFFIXES
def test_a_failed_save_leaves_the_old_file_alone(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"graph.{suffix}"
    example().save(path)
    before = path.read_bytes()

    def full_disk(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        example(weights=np.zeros((2, 2))).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["graph.txt", "graph", ".npz"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=rf"`path` must end in \.npz or \.json, got '{name}'"):
        example().save(tmp_path / name)
    with pytest.raises(ValueError, match=rf"`path` must end in \.npz or \.json, got '{name}'"):
        ExplanationGraph.load(tmp_path / name)


# Refusals


@SUFFIXES
def test_missing_file(tmp_path, suffix):
    with pytest.raises(FileNotFoundError):
        ExplanationGraph.load(tmp_path / f"none.{suffix}")


@SUFFIXES
@pytest.mark.parametrize("content", [b"", b"not a graph", b"\x93NUMPY", b"PK\x03\x04"])
def test_damaged_files_are_refused(tmp_path, suffix, content):
    path = tmp_path / f"graph.{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"`path` must be an intact \.{suffix} file, got .*graph"):
        ExplanationGraph.load(path)


@SUFFIXES
def test_truncated_files_are_refused(tmp_path, suffix):
    path = tmp_path / f"graph.{suffix}"
    example().save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="`path` must be an intact"):
        ExplanationGraph.load(path)


def test_flipped_bits_are_refused(tmp_path):
    path = tmp_path / "graph.npz"
    example(weights=np.zeros((2, 2))).save(path)
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("weights.npy").header_offset + 60
    content = bytearray(path.read_bytes())
    content[start : start + 20] = bytes(20)
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="`path` must be an intact"):
        ExplanationGraph.load(path)


def test_pickles_and_single_arrays_are_refused(tmp_path):
    path = tmp_path / "graph.npz"
    header = np.array('{"kind": "bivshap_lightning.ExplanationGraph", "version": 1}')
    np.savez(path, header=header, weights=np.array([[{}]], dtype=object))
    with pytest.raises(ValueError, match=r"`path` must be an intact \.npz file, .*allow_pickle=False"):
        ExplanationGraph.load(path)
    with path.open("wb") as file:
        np.save(file, np.zeros(2))
    with pytest.raises(ValueError, match=r"`path` must be an intact \.npz file"):
        ExplanationGraph.load(path)


def test_archives_without_header_are_refused(tmp_path):
    np.savez(tmp_path / "graph.npz", weights=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"`path` must be an intact \.npz file, .*'header'"):
        ExplanationGraph.load(tmp_path / "graph.npz")


@SUFFIXES
def test_other_kinds_are_refused(tmp_path, suffix):
    path = tmp_path / f"h.{suffix}"
    example().redundancy().save(path)
    with pytest.raises(ValueError, match=r"kind 'bivshap_lightning\.ExplanationGraph', got '.*RedundancyGraph'"):
        ExplanationGraph.load(path)
    example().save(path)
    with pytest.raises(ValueError, match=r"kind 'bivshap_lightning\.RedundancyGraph', got '.*ExplanationGraph'"):
        RedundancyGraph.load(path)


@pytest.mark.parametrize(("content", "found"), [("[1, 2]", "'list'"), ("{}", "None")])
def test_json_that_is_no_record_is_refused(tmp_path, content, found):
    (tmp_path / "graph.json").write_text(content)
    with pytest.raises(ValueError, match=f"`path` must hold a record of kind .*, got {found}"):
        ExplanationGraph.load(tmp_path / "graph.json")


@pytest.mark.parametrize("version", [2, 0, "1", 1.0, True, ...])
def test_other_versions_are_refused(tmp_path, version):
    path = write_json(tmp_path / "graph.json", version=version)
    with pytest.raises(ValueError, match=r"`path` must hold format version 1, got .*json\. (Upgrade|Write)"):
        ExplanationGraph.load(path)


@pytest.mark.parametrize("field", ["weights", "names", "shapley", "standard_error", "provenance"])
def test_missing_fields_are_named(tmp_path, field):
    path = write_json(tmp_path / "graph.json", **{field: ...})
    with pytest.raises(ValueError, match=rf"`path` must hold all fields, got none for \['{field}'\] in .*json"):
        ExplanationGraph.load(path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"weights": [[0, float("nan")], [0, 0]]}, r"`weights` must be finite, got nan at \[0, 1\]"),
        ({"weights": [[0, None], [0, 0]]}, "`weights` must hold real numbers"),
        ({"weights": [[0, 1], [0]]}, "inhomogeneous"),
        ({"names": ["a", 1]}, "`names` must be strings"),
        ({"names": 3}, "not iterable"),
        ({"shapley": [1, 2, 3]}, r"`shapley` must have shape \(2,\)"),
        ({"standard_error": [[0, -1], [0, 0]]}, "`standard_error` must be >= 0"),
        ({"provenance": [1]}, "`provenance` must be a mapping"),
    ],
)
def test_invalid_contents_are_refused_with_file_and_place(tmp_path, changes, reason):
    path = write_json(tmp_path / "graph.json", **changes)
    with pytest.raises(ValueError, match=rf"`path` must hold a valid graph, got .*graph\.json: .*{reason}"):
        ExplanationGraph.load(path)


def test_invalid_redundancy_graph_is_refused(tmp_path):
    path = tmp_path / "h.json"
    example().redundancy().save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "gamma": -1}))
    with pytest.raises(ValueError, match=r"`path` must hold a valid graph, got .*h\.json: `gamma` must be"):
        RedundancyGraph.load(path)
