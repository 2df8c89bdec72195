"""Many audits in one training run: memory, objects, descriptors, threads and temporary files stay flat.

The run has a process and a folder for temporary files of its own, so that nothing else is counted.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import pytorch_lightning as pl
from pytorch_lightning.loggers import TensorBoardLogger

from bivshap_lightning.callbacks import BivShapCallback, PanelOptions
from tests.callbacks.modules import Module, train_loader, valid_loader

ROOT = Path(__file__).resolve().parents[2]


def used() -> dict:
    """What this process holds."""
    gc.collect()
    return {
        "objects": len(gc.get_objects()),
        "memory": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "temporary files": sorted(os.listdir(tempfile.gettempdir())),
    }


def train(folder: str, n_epochs: int) -> None:
    """Audit every epoch, and print what is held after a fifth of them and after the last."""
    seen = []

    class Watch(pl.Callback):
        def on_validation_end(self, trainer, pl_module) -> None:
            if trainer.current_epoch in (n_epochs // 5, n_epochs - 1):
                seen.append(used())

    callback = BivShapCallback(
        n_samples=6, compare_with=("feature_ablation",), n_evaluations=64, on_error="raise", every_n_epochs=1,
        panels=PanelOptions(n_samples=1, n_classes=0),
    )  # fmt: skip
    pl.Trainer(
        max_epochs=n_epochs, accelerator="cpu", devices=1, default_root_dir=folder, callbacks=[callback, Watch()],
        logger=TensorBoardLogger(folder, name="tb", version=""), num_sanity_val_steps=0, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False,
    ).fit(Module(), train_loader(16), valid_loader(16))  # fmt: skip
    assert len(callback.history) == n_epochs
    print(json.dumps(seen))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts what a process holds by Linux's /proc")
@pytest.mark.parametrize(
    "n_epochs",
    [pytest.param(30, marks=pytest.mark.slow), pytest.param(200, marks=pytest.mark.exhaustive)],
)
@pytest.mark.timeout(1500)
def test_nothing_grows_over_many_epochs(tmp_path, n_epochs):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    code = f"from tests.callbacks.test_soak import train; train({str(tmp_path)!r}, {n_epochs})"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    before, after = json.loads(run.stdout.splitlines()[-1])
    n_audits = n_epochs - 1 - n_epochs // 5
    assert after["objects"] - before["objects"] < n_audits * 20  # the history keeps a few objects for each audit
    assert after["memory"] - before["memory"] < 30e6
    assert after["descriptors"] <= before["descriptors"]
    assert len(after["threads"]) <= len(before["threads"]), (before["threads"], after["threads"])
    assert after["temporary files"] == before["temporary files"]
