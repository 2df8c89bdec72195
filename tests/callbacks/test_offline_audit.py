"""`bivshap audit`: resumed and spread over processes it finds the same, whatever Lightning and config it is given."""

import contextlib
import importlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch

from bivshap_lightning.audit.audit import Audit
from bivshap_lightning.audit.batches import Batch, Forward
from bivshap_lightning.audit.chunk_store import ChunkStore
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.audit.selection import SampleSelection
from bivshap_lightning.callbacks import BivShapCallback
from tests.callbacks.projects import CPU, MODULE, NAMES, QUICK, content

THOROUGH = [*CPU, "--audit.n_samples=44", "--audit.method=sampling", "--audit.n_evaluations=400", "--chunk-size=4",
            "--audit.compare_with=[kernel_shap, shapley_sampling, integrated_gradients]", "--audit.panels.n_samples=1",
            "--audit.panels.n_classes=1"]  # fmt: skip
N_CHUNKS = 11


def start(project: Path, *arguments, script: bool = False, **kwargs) -> subprocess.Popen:
    """The command in a process group of its own, from the folder of the user's module."""
    entry = [Path(sys.executable).with_name("bivshap")] if script else [sys.executable, "-m", "bivshap_lightning.cli"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*map(str, entry), "audit", "--checkpoint", "model.ckpt", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | kwargs
    return subprocess.Popen(command, cwd=project, env=environment, text=True, start_new_session=True, **pipes)


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=200)
    return process.returncode, out, err


def same_record(one: Path, other: Path, *, apart_from: tuple[str, ...] = ()) -> None:
    """Bit by bit, but for the cost and what is said to differ."""
    records = [AuditRecord.load(folder / "audit.json") for folder in (one, other)]
    a, b = (record.to_fields() for record in records)
    for fields in (a, b):
        del fields["cost"]
        for name in apart_from:
            del fields["run"][name]
    assert a == b
    x, y = (record.arrays for record in records)
    assert x.keys() == y.keys()
    assert all(np.array_equal(x[name], y[name]) for name in x)


@pytest.fixture(scope="module")
def uninterrupted(project) -> Path:
    """The thorough audit in one go, watched at a terminal."""
    (project / "rows.txt").unlink(missing_ok=True)
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 100))
    shown = []

    def watch() -> None:
        with contextlib.suppress(OSError):  # how a closed terminal reads
            while block := os.read(master, 4096):
                shown.append(block)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    arguments = ["--model", "audited.Counting", *NAMES[2:], *THOROUGH, "-o", "whole"]
    process = start(project, *arguments, script=True, stderr=slave)
    os.close(slave)
    code, out, _ = finish(process)
    watcher.join(timeout=10)
    os.close(master)
    assert code == 0
    assert re.search(r"explaining: +100%.*44/44", b"".join(shown).decode())
    assert re.fullmatch(
        r"(?s:column .*\. Retrain to confirm\.\n)"
        r"bivshap: .*nothing to explain here: .*describe noise\. 44 samples, .*; "
        r"record whole/audit.json, arrays whole/audit.npz, report whole/report.html, tensorboard whole/tensorboard\n",
        out,
    )
    (project / "rows.txt").rename(project / "rows_whole.txt")
    return project / "whole"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_audit_goes_on_where_it_stopped(project, uninterrupted):
    arguments = ["--model", "audited.Counting", *NAMES[2:], *THOROUGH, "-o", "killed"]
    kept = project / "killed" / "unfinished"
    process = start(project, *arguments)
    deadline = time.monotonic() + 150
    while len(list(kept.glob("*.npz"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    parts = sorted(kept.glob("*.npz"))
    assert 4 <= len(parts) < N_CHUNKS
    assert not (project / "killed" / "audit.json").exists()
    parts[0].write_bytes(parts[0].read_bytes()[:-100])  # a damaged part is no part
    (kept / ".half.npz.0.tmp").write_bytes(b"half")
    (project / "rows.txt").unlink()
    code, _, err = finish(start(project, *arguments))
    assert (code, "explaining" in err) == (0, False)
    same_record(project / "killed", uninterrupted)
    assert not kept.exists()
    spent, whole = (sum(map(int, (project / name).read_text().split())) for name in ("rows.txt", "rows_whole.txt"))
    assert spent < whole * (N_CHUNKS - len(parts) + 1.5) / N_CHUNKS


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_processes_find_what_one_finds(project, uninterrupted):
    spread = ["--trainer.devices", "2", "--trainer.strategy", "ddp", "-o", "two", "--json"]
    process = start(project, "--model", "audited.Counting", *NAMES[2:], *THOROUGH, *spread, script=True)
    code, out, err = finish(process)
    assert code == 0, err
    told = json.loads(out)
    assert told["n_samples"] == 44
    assert (told["record"], told["report"]) == ("two/audit.json", "two/report.html")
    assert told["metrics"]["bivshap/post_hoc_accuracy/ours"] == pytest.approx(
        AuditRecord.load(uninterrupted / "audit.json").metrics["bivshap/post_hoc_accuracy/ours"].value
    )
    assert AuditRecord.load(project / "two" / "audit.json").run.world_size == 2
    same_record(project / "two", uninterrupted, apart_from=("world_size",))
    assert "<html" in (project / "two" / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_failure_on_one_of_two_processes_is_reported_once(project):
    spread = ["--trainer.devices", "2", "--trainer.strategy", "ddp", "-o", "broken", "--json", "--chunk-size", "2"]
    process = start(project, "--model", "audited.Broken", *NAMES[2:], *QUICK, *spread)
    code, out, err = finish(process)
    assert code == 3
    assert json.loads(out) == {"error": "the audit failed on another process: ArithmeticError: cannot be empty"}
    assert re.search(r"the audit failed at .*audited.py, line \d+, in forward: ArithmeticError: cannot be empty", err)
    assert not (project / "broken" / "audit.json").exists()


@pytest.mark.slow
def test_every_exit_code_in_a_real_process(project):
    refused = start(project, "--model", "audited.Nothing", "-o", "codes")
    broken = start(project, "--model", "audited.Broken", *NAMES[2:], *QUICK, "-o", "broken")
    done = start(project, *NAMES, *QUICK, "-o", "codes", "--json")
    code, out, err = finish(refused)
    assert (code, out) == (2, "")
    assert err.startswith("bivshap: `--model` must be the import path of a LightningModule")
    assert err.count("\n") == 1
    code, out, err = finish(broken)
    assert (code, out) == (3, "")
    assert "\nTraceback (most recent call last):\n" in err
    assert re.search(r"^bivshap: the audit failed at .*/audited.py, line \d+, in forward: ArithmeticError: ", err, re.M)
    code, out, err = finish(done)
    assert code == 0, err
    assert json.loads(out)["n_samples"] == 4


def test_options_lists_all_arguments(call):
    code, out, _ = call("--checkpoint", "model.ckpt", *NAMES, "--options")
    assert code == 0
    for name in ("--model.hidden", "--data.n", "--trainer.devices", "--audit.n_samples"):
        assert name in out
    assert "--audit.time_budget" not in out


def test_the_record_says_which_model_it_is_about(project, call, tmp_path):
    rules = tmp_path / "gate.toml"
    rules.write_text('[[rule]]\nmetric = "bivshap/redundancy/density"\nmax = 1.0\n')
    arguments = ["--checkpoint", "model.ckpt", *NAMES, *QUICK, "-o", tmp_path / "out", "--rules", rules]
    code, _, err = call(*arguments)
    assert code == 0, err
    run = AuditRecord.load(tmp_path / "out" / "audit.json").run
    saved = content(project)
    assert (run.epoch, run.step, run.stage) == (saved["epoch"], saved["global_step"], "validate")
    assert (run.checkpoint, run.model, len(run.checkpoint_sha256)) == ("model.ckpt", "audited.Net", 64)
    assert "Passed" in (tmp_path / "out" / "report.html").read_text()
    assert not (tmp_path / "out" / "unfinished").exists()
    # A failed run leaves no record of an earlier one behind that could pass for its own.
    code, _, _ = call(*arguments, "--audit.feature_names=[a]")
    assert code == 2
    assert not any((tmp_path / "out" / name).exists() for name in ("audit.json", "audit.npz", "report.html"))


def test_the_same_numbers_as_in_training(project, call, tmp_path):
    """The callback in a Trainer of one's own finds what the command finds."""
    audited = importlib.import_module("audited")
    model = audited.Net.load_from_checkpoint(project / "model.ckpt", weights_only=True)
    callback = BivShapCallback(
        n_samples=4, compare_with=("feature_ablation",), n_evaluations=64, panels=False, write_record=False
    )
    trainer = pl.Trainer(accelerator="cpu", logger=False, callbacks=[callback], enable_progress_bar=False)
    trainer.validate(model, audited.Data(), verbose=False)
    assert call("--checkpoint", "model.ckpt", *NAMES, *QUICK, "-o", tmp_path)[0] == 0
    assert callback.record().metrics == AuditRecord.load(tmp_path / "audit.json").metrics


@pytest.mark.parametrize("subclass", [True, False], ids=["class_path", "arguments alone"])
def test_configs_of_lightning_cli(project, call, tmp_path, subclass):
    from pytorch_lightning.cli import LightningCLI

    audited = importlib.import_module("audited")
    words = ["--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false",
             "--trainer.enable_model_summary=false", f"--trainer.default_root_dir={tmp_path}", "--data.n=32",
             "--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=no_such_number",
             "--trainer.callbacks.strict=false", "--seed_everything=3"]  # fmt: skip
    if subclass:
        named = ["--model=audited.Net", "--model.hidden=5", "--model.activation=torch.nn.Tanh", "--data=audited.Data"]
        LightningCLI(
            pl.LightningModule, pl.LightningDataModule, subclass_mode_model=True, subclass_mode_data=True,
            args=["fit", *named, *words],
        )  # fmt: skip
    else:
        LightningCLI(audited.Net, audited.Data, args=["fit", "--model.hidden=5", *words])
    (config,), (checkpoint,) = list(tmp_path.rglob("config.yaml")), list(tmp_path.rglob("*.ckpt"))
    arguments = ["--checkpoint", checkpoint, "--config", config, *QUICK, "-o", tmp_path / "out"]
    if not subclass:
        code, _, err = call(*arguments)
        assert code == 2
        assert f"got none, and no class_path in {config}. Pass --model" in err
        arguments += NAMES
    code, _, err = call(*arguments)
    assert code == 0, err
    record = AuditRecord.load(tmp_path / "out" / "audit.json")
    assert len(record.samples) == 4
    assert "EarlyStopping" not in err


def test_either_lightning(project, call, tmp_path):
    text = MODULE.replace("import pytorch_lightning as pl", "import lightning.pytorch as pl")
    (project / "audited_other.py").write_text(text)
    arguments = ["--checkpoint", "model.ckpt", "--model", "audited_other.Net", *QUICK, "-o", tmp_path]
    code, _, err = call(*arguments, "--data", "audited_other.Data")
    assert code == 0, err
    code, _, err = call(*arguments, "--data", "audited.Data")
    assert code == 2
    assert "`--data` must come from the same Lightning as `--model`" in err


@pytest.fixture
def audit(project):
    """An audit of the project's model on chunks of three, ready to explain."""
    audited = importlib.import_module("audited")
    settings = BivShapCallback(method="sampling", n_evaluations=300, gamma=1e-5).settings
    module = audited.Net.load_from_checkpoint(project / "model.ckpt", weights_only=True).eval()
    probe = SampleSelection(9, seed=0)
    for x, y in audited.Data().val_dataloader():
        probe.offer(Batch((x,), y))
    probe.choose(lambda value: [value])
    probe.distribute(lambda value: [value], chunk_size=3)
    chunks = list(probe.chunks())
    forward = Forward(module, chunks[0].batch, None, contextlib.nullcontext)
    return lambda: Audit(settings, torch.device("cpu")), forward, chunks


def equal(a, b) -> bool:
    """Bit by bit, whatever is in it."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return all(equal(v, vars(b)[k]) for k, v in vars(a).items() if k[0] != "_") if hasattr(a, "__dict__") else a == b


def test_a_part_depends_on_nothing_that_ran_before(audit):
    """Our design and those of all default rivals are drawn anew for every chunk."""
    new, forward, chunks = audit
    in_order = new()
    parts = [in_order.explain(forward, chunk, np.inf) for chunk in chunks]
    torch.rand(5)
    alone = new().explain(forward, chunks[2], np.inf)
    assert equal(alone, parts[2])
    assert parts[2].method == "sampling"
    assert not equal(parts[1], parts[2])
    there, back = new().combine(parts), new().combine(parts[::-1])
    assert there.numbers == back.numbers
    assert [s.index for s in back.samples] == list(range(9))


def test_parts_come_back_from_disk_bit_by_bit(audit, tmp_path):
    new, forward, chunks = audit
    store = ChunkStore(tmp_path / "kept", {"checkpoint": "a", "settings": {"seed": 0}})
    assert store.load(chunks[0], store.finished()) is None
    part = new().explain(forward, chunks[0], np.inf)
    store.save(chunks[0], part)
    assert equal(store.load(chunks[0], store.finished()), part)
    assert store.load(chunks[1], store.finished()) is None
    other = ChunkStore(tmp_path / "kept", {"checkpoint": "b", "settings": {"seed": 0}})
    assert other.load(chunks[0], other.finished()) is None
    (path,) = (tmp_path / "kept").iterdir()
    path.write_bytes(path.read_bytes()[:-7])
    assert store.load(chunks[0], store.finished()) is None
    store.remove()
    store.remove()
    assert not (tmp_path / "kept").exists()


def test_parts_with_pictures_and_words_come_back_too(tmp_path):
    from tests.callbacks.modules import Pictures

    batch = Batch((torch.rand(3, 1, 8, 8),), torch.arange(3))
    probe = SampleSelection(3, seed=0)
    probe.offer(batch)
    probe.choose(lambda value: [value])
    probe.distribute(lambda value: [value])
    (chunk,) = probe.chunks()
    callback = BivShapCallback(n_evaluations=600, compare_with=(), gamma=1e-5)
    forward = Forward(Pictures().eval(), batch, None, contextlib.nullcontext)
    part = Audit(callback.settings, torch.device("cpu")).explain(forward, chunk, np.inf)
    part.samples[0] = type(part.samples[0])(**vars(part.samples[0]) | {"words": ["a", "日本"]})
    assert part.samples[0].image.shape == (1, 8, 8)
    store = ChunkStore(tmp_path, {})
    store.save(chunk, part)
    assert equal(store.load(chunk, store.finished()), part)


@pytest.mark.parametrize(
    ("change", "reused"),
    [
        ([], True),
        (["--audit.seed=1"], False),
        (["--audit.n_evaluations=65"], False),
        (["--chunk-size=3"], False),
        (["--trainer.precision=64-true"], False),
        (["--checkpoint", "other.ckpt"], False),
    ],
    ids=str,
)
def test_only_the_same_audit_takes_up_finished_parts(project, call, tmp_path, monkeypatch, change, reused):
    other = content(project)
    other["state_dict"]["net.0.weight"] += 0.1
    torch.save(other, project / "other.ckpt")
    arguments = ["--checkpoint", "model.ckpt", *NAMES, *QUICK, "--chunk-size=2", "-o", tmp_path]
    explain, n_explained = Audit.explain, []

    def until_the_second(self, *args):
        if len(n_explained) == 1:
            raise KeyboardInterrupt
        n_explained.append(1)
        return explain(self, *args)

    monkeypatch.setattr(Audit, "explain", until_the_second)
    code, _, err = call(*arguments)
    assert (code, err) == (130, "bivshap: interrupted; run the same command again to resume.\n")
    assert len(list((tmp_path / "unfinished").glob("*.npz"))) == 1
    monkeypatch.setattr(Audit, "explain", lambda self, *args: n_explained.append(2) or explain(self, *args))
    code, _, err = call(*arguments, *change)
    assert code == 0, err
    assert n_explained.count(2) == (1 if reused else 2)
    assert not (tmp_path / "unfinished").exists()


@pytest.mark.parametrize(
    ("words", "players", "removal"),
    [
        (
            ["bivshap_lightning.game.players.Segments", "--audit.feature_mask.n=3", "--audit.baselines=0.5"],
            ["steps 0-3", "steps 4-7", "steps 8-11"],
            r"baseline 0\.5",
        ),
        (
            ["[0,0,1,1,2,2,3,3,3,3,3,3]", "--audit.baselines=[0,0,0,1,1,1,0,0,0,0,0,0]"],
            ["0", "1", "2", "3"],
            r"one baseline row for all samples #[0-9a-f]{8}",
        ),
    ],
)
def test_players_and_replacements_can_be_made_on_the_command_line(project, call, tmp_path, words, players, removal):
    code, _, err = call(
        "--checkpoint", "model.ckpt", *NAMES, *QUICK, "--audit.feature_mask", *words, "-o", tmp_path / "out"
    )
    assert code == 0, err
    record = AuditRecord.load(tmp_path / "out" / "audit.json")
    assert list(record.samples[0].players) == players
    assert re.fullmatch(removal, record.configuration.removal)
    assert record.configuration.players.startswith(("Segments(n=3", "#"))


def test_the_samples_of_another_record_can_be_explained_again(project, call, tmp_path):
    first = ["--checkpoint", "model.ckpt", *NAMES, *QUICK, "-o", tmp_path / "first"]
    assert call(*first)[0] == 0
    keys = AuditRecord.load(tmp_path / "first" / "audit.json").run.sample_keys
    again = [*first[:-1], tmp_path / "again", "--audit.n_samples=7"]
    assert call(*again, "--like", tmp_path / "first" / "audit.json")[0] == 0
    assert AuditRecord.load(tmp_path / "again" / "audit.json").run.sample_keys == keys
    code, _, err = call(*again, "--like", tmp_path / "nothing.json")
    assert code == 2
    assert "nothing.json" in err
