"""The gate on models that are really trained: five trusted retrains, another one that passes, a leak that does not."""

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning.callbacks import BivShapCallback, RedundancyGate
from bivshap_lightning.gate import judge
from tests.callbacks.modules import Module, table, valid_loader
from tests.test_cli import call, refused

LEAK = 5


def audit(folder: Path, seed: int, *, leaks: bool = False, gate: RedundancyGate | None = None) -> Path:
    """Train on the table and audit; a leaking model saw its labels in the last column."""
    torch.manual_seed(seed)
    x, y = table(512, seed=1).tensors
    if leaks:
        x = x.clone()
        x[:, LEAK] = y + 0.1 * torch.randn(len(y))
    options = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False,
               "enable_checkpointing": False, "default_root_dir": folder / str(seed)}  # fmt: skip
    module = Module()
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    pl.Trainer(max_epochs=8, **options).fit(module, loader, valid_loader())
    callback = BivShapCallback(
        n_samples=24, target="label", compare_with=(), panels=False, background=table(8, seed=2).tensors[0],
        on_error="raise",
    )  # fmt: skip
    callbacks = [callback] if gate is None else [callback, gate]
    pl.Trainer(callbacks=callbacks, **options).validate(module, valid_loader(), verbose=False)
    (path,) = (folder / str(seed) / "bivshap").glob("*.json")
    return path


@pytest.fixture(scope="module")
def trusted(tmp_path_factory) -> tuple[Path, list[Path]]:
    folder = tmp_path_factory.mktemp("retrains")
    return folder, [audit(folder, seed) for seed in range(5)]


def test_a_retrain_passes_and_a_leak_fails_by_name(trusted):
    folder, records = trusted
    code, output = call("calibrate", *records, "-o", folder / "gate.toml")
    assert code == 0, output
    assert "warning" not in output
    assert output.count("\npassed  ") == 5
    assert call("gate", audit(folder, 10), "--rules", folder / "gate.toml")[0] == 0
    leaked = audit(folder, 11, leaks=True)
    code, output = call("gate", leaked, "--rules", folder / "gate.toml")
    assert code == 1
    assert f"\n  {LEAK}: place " in output
    assert "first now" in output
    code, _ = call("history", *records[:2], leaked, "--rules", folder / "gate.toml", "-o", folder / "history.html")
    assert code == 0
    assert "2 of 3 records passed" in (folder / "history.html").read_text()
    (folder / "gate.reference.json").write_text((folder / "gate.reference.json").read_text().replace("0.1", "0.2", 1))
    assert refused(*call("gate", leaked, "--rules", folder / "gate.toml"))


def test_the_training_loop_uses_the_reference(trusted):
    folder, records = trusted
    assert call("calibrate", *records, "-o", folder / "loop.toml")[0] == 0
    gate = RedundancyGate(folder / "loop.toml")
    path = audit(folder, 12, gate=gate)
    assert gate.verdict.passed
    assert gate.verdict.results == judge(path, folder / "loop.toml").results
