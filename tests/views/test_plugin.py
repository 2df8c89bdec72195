"""The tab's routes against event files as the callback writes them: every route, every bad request, every odd log."""

import argparse
import json
import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.base_plugin import TBContext
from torch.utils.tensorboard import SummaryWriter
from werkzeug.test import Client

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.gate import Rule, judge
from bivshap_lightning.gate.verdict_file import save_verdict
from bivshap_lightning.metrics.catalogue import find_number
from bivshap_lightning.views import write_index
from bivshap_lightning.views.explorer import assets
from bivshap_lightning.views.explorer.payload import sample_key
from bivshap_lightning.views.tensorboard.log_files import (
    RecordNotFoundError,
    log_directories,
    record_file,
    run_folder,
)
from bivshap_lightning.views.tensorboard.plugin import MAX_POINTS, BivShapPlugin
from tests.gate.importance_records import importance_record
from tests.views.explorer.logs import COLUMNS, drifting, picture_arrays, random_graph, save_record, write_run

TAG = "bivshap/record/validate"
ARCHIVE = Path(__file__).parent / "explorer" / "archive"
STEP = {"run": "a", "tag": TAG, "step": 10}


class Tab:
    """The plugin on a log directory, with TensorBoard's own (slow) reader of event files."""

    def __init__(self, logdir: Path | None = None, *, spec: str = "", runs: dict[str, Path] | None = None) -> None:
        multiplexer = EventMultiplexer()
        if logdir is not None:
            multiplexer.AddRunsFromDirectory(str(logdir))
        for name, path in (runs or {}).items():
            multiplexer.AddRunsFromDirectory(str(path), name)
        multiplexer.Reload()
        flags = argparse.Namespace(logdir="" if logdir is None else str(logdir), logdir_spec=spec)
        provider = MultiplexerDataProvider(multiplexer, flags.logdir or spec)
        self.plugin = BivShapPlugin(TBContext(data_provider=provider, flags=flags, logdir=flags.logdir or spec))
        self.apps = self.plugin.get_plugin_apps()

    def ask(self, route: str, **query):
        return Client(self.apps[f"/{route}"]).get("/", query_string=query)

    def json(self, route: str, **query):
        answer = self.ask(route, **query)
        assert answer.status_code == 200, answer.text
        return answer.json


def read_graph(data: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """Header and arrays of the bytes of a graph."""
    assert data[:4] == b"BVSG"
    (length,) = struct.unpack("<I", data[4:8])
    header = json.loads(data[8 : 8 + length])
    arrays = {}
    for name, place in header["arrays"].items():
        start = 8 + length + place["offset"]
        assert start % 8 == 0
        count = int(np.prod(place["shape"]))
        arrays[name] = np.frombuffer(data, place["dtype"], count, start).reshape(place["shape"])
    return header, arrays


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """Two runs of a table, one of pictures."""
    folder = tmp_path_factory.mktemp("logs")
    write_run(folder / "a", [0, 10, 20], drifting(COLUMNS, 3, 0.004), ["x", "x", "y"])
    write_run(folder / "b", [0], drifting(COLUMNS, 3, 0.0), ["x", "x", "y"])
    names = [f"part {k}" for k in range(9)]
    write_run(folder / "c" / "nested", [5], drifting(names, 1, 0.0), ["x"], pictures=picture_arrays(9, [0]))
    return folder


@pytest.fixture(scope="module")
def tab(logs) -> Tab:
    return Tab(logs)


def test_runs_and_steps_are_listed(tab):
    assert [entry["run"] for entry in tab.json("runs")["runs"]] == ["a", "b", "c/nested"]
    steps = tab.json("index", run="a")["steps"]
    assert [(s["step"], s["epoch"], s["stage"], s["tag"]) for s in steps] == [
        (0, 0, "validate", TAG), (10, 1, "validate", TAG), (20, 2, "validate", TAG)
    ]  # fmt: skip
    assert steps[1]["record"] == "bivshap/validate_epoch0001_step0000010.json"


def test_a_record_is_described_with_what_its_numbers_mean(tab):
    record = tab.json("record", **STEP)
    assert [s["id"] for s in record["subjects"]][:2] == ["class:x", "class:y"]
    assert {s["id"] for s in record["subjects"][2:]} == {"sample:0", "sample:1", "sample:2"}
    numbers = {n["tag"]: n for n in record["numbers"]}
    kept = numbers["bivshap/redundancy/accuracy_with_representatives"]
    assert kept["meaning"] == find_number(kept["tag"]).meaning
    assert kept["control"] == {"tag": "bivshap/redundancy/random_removal_accuracy", "value": 0.62}
    assert kept["lower"] < kept["value"] <= kept["upper"]
    assert numbers["bivshap/insertion_auc/kernel_shap"]["explainer"] == "kernel_shap"
    assert numbers["mine <i>"]["meaning"] == ""
    assert (record["verdict"], record["evaluations"]["ours"]) == (None, 256)


def test_the_verdict_beside_a_record_is_shown(tmp_path):
    write_run(tmp_path / "a", [10], drifting(COLUMNS, 2, 0.0), ["x", "y"])
    (path,) = (tmp_path / "a" / "bivshap").glob("*.json")
    tab, rule = Tab(tmp_path), Rule(metric="bivshap/insertion_auc/ours", min=0.99)
    assert tab.json("record", **STEP)["verdict"] is None
    kept = save_verdict(judge(path, [rule]), path)
    verdict = tab.json("record", **STEP)["verdict"]
    assert (verdict["passed"], verdict["rules"][0]["status"]) == (False, "fail")
    assert "min 0.99" in verdict["rules"][0]["reason"]
    kept.write_text("{")
    assert "must hold a verdict" in tab.json("record", **STEP)["verdict"]["error"]
    kept.unlink()
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text("{}")
    kept.symlink_to(elsewhere)
    assert tab.json("record", **STEP)["verdict"] is None


def test_the_graph_of_a_sample_is_sent_as_it_is_stored(tab, logs):
    record = AuditRecord.load(logs / "a" / "bivshap" / "validate_epoch0001_step0000010.json")
    answer = tab.ask("graph", **STEP, subject="sample:2")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    header, arrays = read_graph(answer.data)
    graph = record.sample_graphs[2]
    for name, stored in (("weights", "weights"), ("standard_error", "standard_error"), ("shapley", "shapley")):
        assert arrays[name].dtype == np.float32
        np.testing.assert_array_equal(arrays[name], record.arrays[stored][2])
    assert header["names"] == COLUMNS
    assert header["default_gamma"] == graph.relative_gamma
    assert header["orders"]["keep"] == graph.order("keep").tolist()
    assert header["orders"]["pagerank"] == graph.order(personalized=True).tolist()
    np.testing.assert_array_equal(arrays["axis_late"], 2 * graph.potential)
    np.testing.assert_allclose(arrays["pairs"], graph.pairwise, rtol=1e-6)


def test_the_mean_graph_of_a_class_loses_nothing(tab, logs):
    record = AuditRecord.load(logs / "a" / "bivshap" / "validate_epoch0001_step0000010.json")
    header, arrays = read_graph(tab.ask("graph", **STEP, subject="class:x").data)
    mean = record.class_graphs["x"]
    np.testing.assert_array_equal(arrays["weights"].astype(np.float64), mean.weights)
    np.testing.assert_array_equal(arrays["absolute_weights"].astype(np.float64), mean.absolute.weights)
    assert (header["n_graphs"], header["axis_kind"]) == (2, "class")


def test_pictures_come_with_their_parts(tab):
    moment = {"run": "c/nested", "tag": TAG, "step": 5}
    for subject in ("sample:0", "class:x"):
        _, arrays = read_graph(tab.ask("graph", **moment, subject=subject).data)
        assert (arrays["image"].shape, arrays["segments"].shape) == ((24, 24, 3), (24, 24))
        assert set(arrays["segments"].ravel()) == set(range(9))


def test_importances_over_the_run(tab, logs):
    series = tab.json("series", run="a", tag=TAG, subject="sample:0")
    assert [point["epoch"] for point in series["points"]] == [0, 1, 2]
    record = AuditRecord.load(logs / "a" / "bivshap" / "validate_epoch0002_step0000020.json")
    graph, last = record.sample_graphs[0], series["points"][-1]
    np.testing.assert_array_equal(last["importance"], np.abs(graph.shapley))
    assert last["roles"] == list(graph.roles().roles)
    assert (series["n_missing"], series["n_steps"]) == (0, 3)


@pytest.mark.parametrize(
    ("route", "query", "code", "words"),
    [
        ("index", {}, 400, "`run` must be given"),
        ("index", {"run": "nowhere"}, 404, "no run 'nowhere'"),
        ("index", {"run": "../a"}, 404, "no run '../a'"),
        ("record", STEP | {"step": ""}, 400, "`step` must be given"),
        ("record", STEP | {"step": "ten"}, 400, "`step` must be a whole number, got 'ten'"),
        ("record", STEP | {"step": "1e1"}, 400, "whole number"),
        ("record", STEP | {"step": "9" * 30}, 400, "whole number"),
        ("record", STEP | {"step": -1}, 404, "no record of tag"),
        ("record", STEP | {"tag": "loss"}, 404, "no record of tag 'loss' at step 10"),
        ("graph", STEP, 400, "`subject` must be given"),
        ("graph", STEP | {"subject": "sample:-1"}, 400, "must be class:<name> or sample:<index>"),
        ("graph", STEP | {"subject": "file:../../x"}, 400, "must be class:<name> or sample:<index>"),
        ("graph", STEP | {"subject": "sample:99"}, 422, "must be a sample of the record, got sample 99"),
        ("graph", STEP | {"subject": "class:z"}, 422, "must be a class with a mean graph, got class 'z'"),
        ("series", {"run": "a", "tag": "loss", "subject": "sample:0"}, 404, "no records of tag 'loss'"),
    ],
)
def test_bad_requests_are_refused_with_the_reason(tab, route, query, code, words):
    answer = tab.ask(route, **query)
    assert answer.status_code == code
    assert words in answer.json["error"]


def test_only_get_is_answered(tab):
    assert Client(tab.apps["/runs"]).post("/").status_code == 405


def test_the_files_of_the_explorer_are_served(tab):
    for name in (*assets.MODULES, assets.STYLE_SHEET):
        answer = tab.ask(name)
        assert answer.status_code == 200
        assert answer.data
        assert answer.headers["Content-Type"].split(";")[0] == assets.CONTENT_TYPES[Path(name).suffix]
    assert set(tab.apps) == {f"/{name}" for name in (*assets.MODULES, assets.STYLE_SHEET)} | {
        "/runs", "/index", "/record", "/graph", "/series"
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"`name` must be a file of the explorer, got '\.\./numbers\.py'"):
        assets.read_asset("../numbers.py")


def test_modules_are_bundled_after_what_they_import(monkeypatch):
    script = assets.bundled_script()
    assert script.count("modules[") > len(assets.MODULES)
    assert "\nimport " not in script
    assert "\nexport " not in script
    monkeypatch.setattr(assets, "MODULES", assets.MODULES[::-1])
    assets.bundled_script.cache_clear()
    with pytest.raises(ValueError, match="`MODULES` must list a module after those it imports"):
        assets.bundled_script()
    assets.bundled_script.cache_clear()


def test_no_markup_is_made_from_strings():
    for name in assets.MODULES:
        text = assets.read_asset(name)
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert forbidden not in text, (name, forbidden)


def test_every_module_can_be_read_in_one_sitting():
    lengths = {name: len(assets.read_asset(name).splitlines()) for name in assets.MODULES}
    assert max(lengths.values()) <= 400, lengths


def test_an_empty_and_a_foreign_log_directory(tmp_path):
    assert Tab(tmp_path).json("runs") == {"runs": []}
    with SummaryWriter(str(tmp_path / "other")) as writer:
        writer.add_scalar("loss", 1.0, 0)
        writer.add_text("note", "hello", 0)
    foreign = Tab(tmp_path)
    assert foreign.json("runs") == {"runs": []}
    assert foreign.ask("index", run="other").status_code == 404
    assert foreign.plugin.is_active() is False


def test_without_data_provider_or_flags():
    plugin = BivShapPlugin(TBContext(logdir="x"))
    assert Client(plugin.get_plugin_apps()["/runs"]).get("/").json == {"runs": []}


def test_a_half_written_event_file(tmp_path):
    write_run(tmp_path / "a", [0, 10, 20], drifting(COLUMNS, 1, 0.0), ["x"])
    (events,) = (tmp_path / "a").glob("events*")
    events.write_bytes(events.read_bytes()[:-70])
    steps = Tab(tmp_path).json("index", run="a")["steps"]
    assert [step["step"] for step in steps] == [0, 10]


def test_deleted_and_damaged_records(tmp_path):
    write_run(tmp_path / "a", [0, 10, 20], drifting(COLUMNS, 1, 0.0), ["x"])
    first, second, third = sorted((tmp_path / "a" / "bivshap").glob("*.json"))
    first.unlink()
    second.with_suffix(".npz").write_bytes(b"not an archive")
    tab = Tab(tmp_path)
    gone = tab.ask("record", run="a", tag=TAG, step=0)
    assert gone.status_code == 404
    assert "validate_epoch0000_step0000000.json is not there" in gone.json["error"]
    damaged = tab.ask("record", run="a", tag=TAG, step=10)
    assert damaged.status_code == 422
    assert "damaged" in damaged.json["error"]
    assert tab.ask("record", run="a", tag=TAG, step=20).status_code == 200
    third.with_suffix(".npz").unlink()
    assert "step0000020.npz is not there" in Tab(tmp_path).ask("record", run="a", tag=TAG, step=20).json["error"]
    series = tab.json("series", run="a", tag=TAG, subject="sample:0")
    assert (series["points"], series["n_missing"]) == ([], 3)


def test_a_record_that_was_written_again_is_read_again(tmp_path):
    write_run(tmp_path / "a", [0], drifting(COLUMNS, 1, 0.0), ["x"])
    tab = Tab(tmp_path)
    assert len(tab.json("record", run="a", tag=TAG, step=0)["subjects"]) == 2
    (path,) = (tmp_path / "a" / "bivshap").glob("*.json")
    save_record(path, [random_graph(3, k) for k in range(2)], ["x", "x"])
    assert len(tab.json("record", run="a", tag=TAG, step=0)["subjects"]) == 3


def test_many_steps_and_runs_list_at_once(tmp_path):
    for run in range(20):
        with SummaryWriter(str(tmp_path / f"run {run}")) as writer:
            for step in range(30):
                write_index(
                    writer, tmp_path / f"run {run}" / "bivshap" / f"{step}.json", step, stage="test", epoch=step
                )
    tab = Tab(tmp_path)
    assert len(tab.json("runs")["runs"]) == 20
    assert tab.json("index", run="run 7")["steps"][-1]["epoch"] == 29


def test_the_view_over_time_reads_some_of_many_records(tmp_path, monkeypatch):
    import bivshap_lightning.views.tensorboard.plugin as module

    monkeypatch.setattr(module, "MAX_POINTS", 3)
    write_run(tmp_path / "a", range(7), drifting(COLUMNS[:4], 1, 0.0), ["x"])
    series = Tab(tmp_path).json("series", run="a", tag=TAG, subject="sample:0")
    assert [point["step"] for point in series["points"]] == [0, 3, 6]
    assert (series["n_steps"], MAX_POINTS) == (7, 40)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../../outside/secret.json", "outside the log directory"),
        ("bivshap/../../../outside/secret.json", "outside the log directory"),
        ("/etc/passwd.json", "an absolute path"),
        ("bivshap/record.txt", "names no JSON file"),
        ("bivshap\\record.json", "names no JSON file"),
        ("bivshap/re\0cord.json", "names no JSON file"),
        ("bivshap/nothing.json", "nothing.json is not there"),
        ("bivshap/link.json", "a symbolic link leads to the record"),
        ("linked/secret.json", "a symbolic link leads to the record"),
        ("bivshap/folder.json", "folder.json is not a regular file"),
        (None, "names no JSON file"),
        (7, "names no JSON file"),
    ],
)
def test_paths_outside_the_log_directory_are_refused(tmp_path, path, words):
    """An event file may come from anywhere: what it names is served only from inside the log directory."""
    outside, run = tmp_path / "outside", tmp_path / "logs" / "a"
    save_record(outside / "secret.json", [random_graph(3)], ["x"])
    (run / "bivshap" / "folder.json").mkdir(parents=True)
    (run / "bivshap" / "link.json").symlink_to(outside / "secret.json")
    (run / "linked").symlink_to(outside)
    directories = log_directories(str(tmp_path / "logs"), None)
    with pytest.raises(RecordNotFoundError, match=words):
        record_file(directories, "a", path)


def test_a_hostile_event_file_reads_nothing_outside(tmp_path):
    run = tmp_path / "logs" / "a"
    save_record(tmp_path / "secret.json", [random_graph(3)], ["x"])
    with SummaryWriter(str(run)) as writer:
        write_index(writer, tmp_path / "secret.json", 0, stage="validate", epoch=0)
    tab = Tab(tmp_path / "logs")
    (step,) = tab.json("index", run="a")["steps"]
    assert step["record"] == "../../secret.json"
    answer = tab.ask("record", run="a", tag=step["tag"], step=0)
    assert answer.status_code == 404
    assert "outside the log directory" in answer.json["error"]


def test_arrays_behind_a_link_are_refused(tmp_path):
    write_run(tmp_path / "logs" / "a", [0], drifting(COLUMNS, 1, 0.0), ["x"])
    (arrays,) = (tmp_path / "logs" / "a" / "bivshap").glob("*.npz")
    arrays.rename(tmp_path / "elsewhere.npz")
    arrays.symlink_to(tmp_path / "elsewhere.npz")
    answer = Tab(tmp_path / "logs").ask("record", run="a", tag=TAG, step=0)
    assert answer.status_code == 404
    assert "a symbolic link leads to the record" in answer.json["error"]


def test_a_run_may_lie_behind_a_link_of_the_user(tmp_path):
    """TensorBoard's own advice for several directories is a tree of links to them."""
    write_run(tmp_path / "elsewhere", [0], drifting(COLUMNS, 1, 0.0), ["x"])
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a").symlink_to(tmp_path / "elsewhere")
    assert Tab(tmp_path / "logs").ask("record", run="a", tag=TAG, step=0).status_code == 200


def test_a_record_of_another_logger_inside_the_log_directory(tmp_path):
    save_record(tmp_path / "csv" / "bivshap" / "r.json", [random_graph(3)], ["x"])
    with SummaryWriter(str(tmp_path / "tb" / "version_0")) as writer:
        write_index(writer, tmp_path / "csv" / "bivshap" / "r.json", 0, stage="validate", epoch=None)
    assert Tab(tmp_path).ask("record", run="tb/version_0", tag=TAG, step=0).status_code == 200


def test_several_log_directories_by_name(tmp_path):
    write_run(tmp_path / "one" / "train", [0], drifting(COLUMNS, 1, 0.0), ["x"])
    write_run(tmp_path / "two", [0], drifting(COLUMNS, 1, 0.0), ["x"])
    spec = f"first:{tmp_path / 'one'},{tmp_path / 'two'}"
    tab = Tab(spec=spec, runs={"first": tmp_path / "one", str(tmp_path / "two"): tmp_path / "two"})
    runs = [entry["run"] for entry in tab.json("runs")["runs"]]
    assert len(runs) == 2
    for run in runs:
        assert tab.ask("record", run=run, tag=TAG, step=0).status_code == 200


def test_remote_logs_are_said_to_be_remote():
    with pytest.raises(RecordNotFoundError, match="read from local disks only"):
        run_folder(log_directories("gs://bucket/logs", None), "a")
    with pytest.raises(RecordNotFoundError, match="no log directory has a run 'b'"):
        run_folder(log_directories(None, "a:/logs"), "b")


def test_an_index_that_is_no_json(tmp_path):
    from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_TENSOR, Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    data = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="bivshap"), data_class=DATA_CLASS_TENSOR)
    with SummaryWriter(str(tmp_path / "a")) as writer:
        for step, text in enumerate((b"{", b"[1]", b'{"record": 3, "epoch": "x"}', b"\xff")):
            tensor = TensorProto(dtype=DT_STRING, string_val=[text])
            writer._get_file_writer().add_summary(
                Summary(value=[Summary.Value(tag="t", tensor=tensor, metadata=data)]), step
            )
    tab = Tab(tmp_path)
    steps = tab.json("index", run="a")["steps"]
    assert [(s["record"], s["epoch"], s["stage"]) for s in steps] == [(None, None, "")] * 4
    assert tab.ask("record", run="a", tag="t", step=0).status_code == 404


def test_committed_logs_can_be_read():
    """Logs that were written by an earlier state of the package: index, record and arrays still fit together."""
    tab = Tab(ARCHIVE)
    assert [entry["run"] for entry in tab.json("runs")["runs"]] == ["run"]
    assert [step["step"] for step in tab.json("index", run="run")["steps"]] == [0, 4]
    header, arrays = read_graph(tab.ask("graph", run="run", tag=TAG, step=4, subject="sample:0").data)
    assert header["names"] == ["a", "b", "c", "d"]
    assert arrays["weights"].shape == (4, 4)


def test_the_entry_point_names_the_plugin():
    import configparser
    from importlib.metadata import EntryPoint

    config = configparser.ConfigParser()
    config.read(Path(__file__).parents[2] / "setup.cfg")
    name, _, value = config["options.entry_points"]["tensorboard_plugins"].strip().partition(" = ")
    assert EntryPoint(name, value, "tensorboard_plugins").load() is BivShapPlugin
    assert "views/explorer/static/*" in config["options.package_data"]["bivshap_lightning"]


def test_loading_the_plugin_imports_nothing_heavy():
    code = (
        "import sys\n"
        "import bivshap_lightning.views.tensorboard.plugin\n"
        "heavy = {'torch', 'matplotlib', 'scipy', 'pandas', 'sknetwork', 'lightning', 'captum'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_callback_writes_what_the_tab_reads(tmp_path):
    """A real Trainer, with the record in the folder of another logger than TensorBoard's."""
    import pytorch_lightning as pl
    from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger

    from bivshap_lightning.callbacks import BivShapCallback
    from tests.callbacks.modules import Module, train_loader, valid_loader

    loggers = [CSVLogger(tmp_path, name="csv", version=""), TensorBoardLogger(tmp_path, name="tb", version="")]
    callback = BivShapCallback(n_samples=4, compare_with=(), panels=False, every_n_epochs=1, on_error="raise")
    trainer = pl.Trainer(
        max_epochs=2, logger=loggers, callbacks=[callback], accelerator="cpu", enable_progress_bar=False,
        enable_checkpointing=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Module(), train_loader(), valid_loader())
    tab = Tab(tmp_path)
    assert [entry["run"] for entry in tab.json("runs")["runs"]] == ["tb"]
    steps = tab.json("index", run="tb")["steps"]
    assert [step["epoch"] for step in steps] == [0, 1]
    moment = {"run": "tb", "tag": TAG, "step": steps[-1]["step"]}
    assert len([s for s in tab.json("record", **moment)["subjects"] if s["kind"] == "sample"]) == 4
    header, _ = read_graph(tab.ask("graph", **moment, subject="sample:0").data)
    record = AuditRecord.load(sorted((tmp_path / "csv" / "bivshap").glob("*.json"))[-1])
    assert header["orders"]["keep"] == record.sample_graphs[0].order("keep").tolist()


def test_a_sample_is_known_by_the_key_at_its_index():
    """Where an audit ended early, some of the chosen samples are missing."""
    record = importance_record([[0.5, 0.3, 0.2]] * 2, keys=("a", "b", "c"))
    partial = replace(record, samples=(record.samples[0], replace(record.samples[1], index=2)))
    assert [sample_key(partial, ("sample", name)) for name in ("0", "1", "2")] == ["a", None, "c"]
