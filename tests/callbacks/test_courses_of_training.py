"""Runs that are interrupted, fail, are resumed or fitted again end bit by bit as they do without audits."""

import contextlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.tuner import Tuner

from bivshap_lightning.callbacks import BivShapCallback
from tests.callbacks.style_modules import Layers, loaders
from tests.callbacks.test_styles import AUDIT, describe, difference
from tests.callbacks.training_styles import OwnLoaders

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's, on each of these courses


def trainer(folder: Path, audits: bool, *callbacks: pl.Callback, max_epochs: int = 2) -> pl.Trainer:
    extra = [BivShapCallback(**AUDIT)] if audits else []
    return pl.Trainer(
        callbacks=[*callbacks, *extra], max_epochs=max_epochs, accelerator="cpu", devices=1, default_root_dir=folder,
        logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=bool(callbacks),
        num_sanity_val_steps=0,
    )  # fmt: skip


def left(run: pl.Trainer, module: pl.LightningModule) -> Any:
    """Module, optimizers, and what the generators draw next."""
    draws = (torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random())  # noqa: NPY002
    return describe(module), [describe(o.state_dict()) for o in run.optimizers], draws


class Stopped(Layers):
    """Raises an error in the second epoch."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if self.current_epoch == 1 and batch_idx == 1:
            raise self.error
        return super().training_step(batch, batch_idx)


class StoppedInAudit(Layers):
    """Is interrupted where everything is removed, which only audits do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x == 0).all(dim=1).any()):
            self.frozen.running_mean += 1
            raise KeyboardInterrupt
        return super().forward(x)


def fitted_again(folder: Path, audits: bool) -> Any:
    run, module = trainer(folder, audits), Layers()
    run.fit(module, *loaders())
    run.fit_loop.max_epochs = 4
    run.fit(module, *loaders())
    return left(run, module)


def stopped(folder: Path, audits: bool, error: type[BaseException]) -> Any:
    run, module = trainer(folder, audits), Stopped(error)
    with contextlib.suppress(error, SystemExit):
        run.fit(module, *loaders())
    assert run.current_epoch == 1
    return left(run, module)


def interrupted(folder: Path, audits: bool) -> Any:
    return stopped(folder, audits, KeyboardInterrupt)


def failed(folder: Path, audits: bool) -> Any:
    return stopped(folder, audits, ArithmeticError)


def resumed_within_an_epoch(folder: Path, audits: bool) -> Any:
    saved = ModelCheckpoint(dirpath=folder / "saved", filename="{step}", every_n_train_steps=4, save_top_k=-1)
    trainer(folder, audits, saved).fit(Layers(), *loaders())
    run, module = trainer(folder, audits, max_epochs=3), Layers()
    run.fit(module, *loaders(), ckpt_path=folder / "saved" / "step=4.ckpt")
    return left(run, module)


def tuned(folder: Path, audits: bool) -> Any:
    run, module = trainer(folder, audits), OwnLoaders()
    Tuner(run).lr_find(module, num_training=8)
    run.fit(module)
    return left(run, module)


def validated_before(folder: Path, audits: bool) -> Any:
    run, module = trainer(folder, audits), Layers()
    run.validate(module, loaders()[1], verbose=False)
    run.fit(module, *loaders())
    return left(run, module)


def seeded(course: Any, folder: Path, audits: bool) -> Any:
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    return course(folder / str(audits), audits)


@pytest.mark.parametrize(
    "course", [fitted_again, interrupted, failed, resumed_within_an_epoch, tuned, validated_before]
)
def test_a_run_ends_as_without_audits(course, tmp_path):
    expected, found = (seeded(course, tmp_path, audits) for audits in (False, True))
    assert difference(found, expected) is None


def test_an_interrupted_audit_leaves_the_model_as_the_epoch_did(tmp_path):
    def stopped_in_audit(folder: Path, audits: bool) -> Any:
        run, module = trainer(folder, audits, max_epochs=1), StoppedInAudit()
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            run.fit(module, *loaders())
        assert run.interrupted == audits
        return {name: value.tolist() for name, value in module.state_dict().items()}

    expected, found = (seeded(stopped_in_audit, tmp_path, audits) for audits in (False, True))
    assert found == expected
