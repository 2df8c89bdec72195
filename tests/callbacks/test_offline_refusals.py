"""`bivshap audit`: what it refuses, with one line that says why, and what it never runs."""

import contextlib
import os
import pathlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from bivshap_lightning.audit.record import AuditRecord
from tests.callbacks.projects import NAMES, QUICK, content


class Payload:
    """Runs code where it is unpickled carelessly."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def test_a_checkpoint_runs_nothing_unless_trusted(project, call, tmp_path):
    mark = tmp_path / "it_ran"
    torch.save({**content(project), "more": Payload(mark)}, tmp_path / "evil.ckpt")
    arguments = ["--checkpoint", tmp_path / "evil.ckpt", *NAMES, *QUICK, "-o", tmp_path / "out"]
    code, out, err = call(*arguments)
    assert (code, out, mark.exists()) == (2, "", False)
    assert re.fullmatch(r"bivshap: `--checkpoint` must hold .* got posix\.mkdir in .*--trust-checkpoint\.\n", err)
    assert call(*arguments, "--trust-checkpoint")[0] == 0
    assert mark.exists()


def test_harmless_objects_need_trust_too(project, call, tmp_path):
    torch.save({**content(project), "more": pathlib.PurePosixPath("a")}, tmp_path / "path.ckpt")
    code, _, err = call("--checkpoint", tmp_path / "path.ckpt", *NAMES, *QUICK, "-o", tmp_path / "out")
    assert code == 2
    assert "got pathlib.PurePosixPath in" in err


def test_a_checkpoint_names_no_class_to_make_unless_trusted(project, call, tmp_path):
    saved = {"hidden": 8, "activation": {"class_path": "torch.nn.Tanh"}}
    torch.save({**content(project), "hyper_parameters": saved}, tmp_path / "class.ckpt")
    arguments = ["--checkpoint", tmp_path / "class.ckpt", *NAMES, *QUICK, "-o", tmp_path / "out"]
    code, _, err = call(*arguments)
    assert code == 2
    assert "`--model.activation` must be given: the checkpoint only names a class for it, torch.nn.Tanh" in err
    assert call(*arguments, "--trust-checkpoint")[0] == 0
    by_word = AuditRecord.load(tmp_path / "out" / "audit.json").arrays["weights"]
    assert call(*arguments, "--model.activation", "torch.nn.Tanh")[0] == 0
    assert np.array_equal(by_word, AuditRecord.load(tmp_path / "out" / "audit.json").arrays["weights"])
    assert call("--checkpoint", "model.ckpt", *NAMES, *QUICK, "-o", tmp_path / "relu")[0] == 0
    assert not np.array_equal(by_word, AuditRecord.load(tmp_path / "relu" / "audit.json").arrays["weights"])


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda whole: whole[: len(whole) // 2], "must be an intact checkpoint file"),
        (lambda whole: b"", "must be an intact checkpoint file"),
        (lambda whole: b"no checkpoint", "must be an intact checkpoint file"),
        (lambda whole: None, "must be a readable file"),
    ],
    ids=["truncated", "empty", "text", "missing"],
)
def test_damaged_files(project, call, tmp_path, damage, match):
    damaged = damage((project / "model.ckpt").read_bytes())
    if damaged is not None:
        (tmp_path / "damaged.ckpt").write_bytes(damaged)
    code, out, err = call("--checkpoint", tmp_path / "damaged.ckpt", *NAMES, *QUICK, "-o", tmp_path / "out")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(f"^bivshap: `--checkpoint` {match}, got .*damaged.ckpt", err)


def test_files_that_hold_something_else(project, call, tmp_path):
    weights = content(project)["state_dict"]
    renamed = {name.replace("net.2.bias", "net.2.other"): value for name, value in weights.items()}
    files = {
        "bare": (weights, "got no `state_dict`"),
        "list": ([1], "got no `state_dict` in .*list.ckpt, only list"),
        "keys": ({**content(project), "state_dict": renamed}, r"weights of Net.*Missing.*net\.2\.bias.*net\.2\.other"),
    }
    for name, (value, match) in files.items():
        torch.save(value, tmp_path / f"{name}.ckpt")
        code, _, err = call("--checkpoint", tmp_path / f"{name}.ckpt", *NAMES, *QUICK, "-o", tmp_path / "out")
        assert code == 2
        assert re.search(match, err), err
        assert err.count("\n") == 1


RULE = '[[rule]]\nmetric = "bivshap/redundancy/density"\nmax_absolute_change = 0.1\n'


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ([], "`--model` must name the class of the LightningModule, got none. Pass --model"),
        (["--model", "Net"], "got Net, where there is nothing of that name"),
        (["--model", "no.such.Net"], "got no.such.Net, where there is nothing of that name"),
        (["--model", "audited.Data"], "got audited.Data, where there is something else"),
        ([*NAMES[:2], "--data", "audited.Net"], "`--data` must be the import path of a LightningDataModule"),
        ([*NAMES[:2]], "`--data` must be the import path of a datamodule with a val_dataloader, got none in Net"),
        ([*NAMES[:2], "--data", "audited.Bare"], "with a val_dataloader, got none in Bare"),
        ([*NAMES, "--stage", "test"], "with a test_dataloader, got none in Data"),
        ([*NAMES, "--data.n", "0"], "`--data` must yield samples for --stage validate, got none"),
        (["--model", "audited.WithoutSteps", *NAMES[2:]], "validation_step"),
        ([*NAMES, "--trainer.devics", "2"], "nrecognized arguments: --trainer.devics 2. List all"),
        ([*NAMES, "stray"], "nrecognized arguments: stray"),
        ([*NAMES, "--model.hidden", "many"], r'"model.hidden": Expected a <class .int.>. Got value: many'),
        ([*NAMES, "--model.hidden", "9"], "size mismatch for net.0.weight"),
        ([*NAMES, "--audit.time_budget", "9"], "nrecognized arguments: --audit.time_budget"),
        ([*NAMES, "--audit.n_samples", "0"], "`n_samples` must be at least 1, got 0"),
        ([*NAMES, "--audit.compare_with=[nothing]"], "got 'nothing'"),
        ([*NAMES, "--audit.feature_names=[a, b]"], "`feature_names` must name all 12 players, got 2"),
        ([*NAMES, "--trainer.strategy", "hope"], "`--trainer` must have arguments that fit together: .*hope"),
        ([*NAMES, "--chunk-size", "0"], "`--chunk-size` must be at least 1, got 0"),
        ([*NAMES, "--rules", "none.toml"], "none.toml"),
        ([*NAMES, "--rules", "change.toml"], "`--against` must be a previous record for rules about changes"),
        ([*NAMES, "--against", "none.json"], "none.json"),
        ([*NAMES, "--config", "none.yaml"], r"`--config` must be a YAML file .*none.yaml \(No such file"),
        ([*NAMES, "--config", "list.yaml"], "`--config` must be a YAML file .*something else in list.yaml"),
        ([*NAMES, "--config", "args.yaml"], "mapping model.init_args, got list in args.yaml"),
        ([*NAMES, "-o", "audited.py"], r"`--output` must be a folder to write to, got audited.py"),
    ],
)
def test_refusals(project, call, arguments, match):
    (project / "change.toml").write_text(RULE)
    (project / "list.yaml").write_text("[1, 2]")
    (project / "args.yaml").write_text("model: {class_path: audited.Net, init_args: [1]}")
    with contextlib.ExitStack() as stack:
        if "--data.n" in arguments:
            stack.enter_context(pytest.warns(UserWarning, match="length of `DataLoader` across ranks is zero"))
        code, out, err = call("--checkpoint", "model.ckpt", *QUICK, "-o", "refused", *arguments)
    assert (code, out) == (2, "")
    assert re.search(match, err), err
    assert err.startswith("bivshap: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("module", "match"),
    [
        (
            "imports_too_much",
            r"imports_too_much.py, line 1, in <module>: ModuleNotFoundError: .*'no_such",
        ),
        ("misspelt", r"misspelt.py, line 1: SyntaxError"),
    ],
)
def test_errors_in_the_users_module_show_where(call, module, match):
    code, out, err = call("--checkpoint", "model.ckpt", "--model", f"{module}.Net")
    assert (code, out) == (3, "")
    assert re.search(rf"^bivshap: the audit failed at .*{match}", err)
    assert "Traceback (most recent call last)" in err


def test_without_jsonargparse(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonargparse", None)
    code, out, err = call("--checkpoint", "model.ckpt", *NAMES)
    assert (code, out) == (2, "")
    assert err.endswith("needs jsonargparse, which is not installed. pip install 'jsonargparse[signatures]>=4.32'\n")
