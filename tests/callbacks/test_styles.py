"""Training with audits is bit-identical to training without, for every style of model: or the audit says why not."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from bivshap_lightning.callbacks import BivShapCallback
from tests import counting
from tests.callbacks.bad_inputs import BAD_INPUT
from tests.callbacks.hidden_state_modules import HIDDEN_STATE
from tests.callbacks.outside_state_modules import OUTSIDE_STATE
from tests.callbacks.style_modules import STYLES, Style
from tests.callbacks.training_styles import TRAINING

TABLE = [*STYLES, *HIDDEN_STATE, *OUTSIDE_STATE, *TRAINING, *BAD_INPUT]

AUDIT = {
    "n_samples": 4,
    "compare_with": ("feature_ablation", "integrated_gradients"),
    "n_evaluations": 64,
    "panels": False,
    "every_n_epochs": 1,
}

# The Trainer, what compilers add, and dictionaries by the address of an object.
LEFT_OUT = ("_trainer", "_compiler_ctx", "_metric_attributes", "_torchdynamo_wrapper_id")


def describe(value: Any, seen: frozenset[int] = frozenset()) -> Any:
    """Anything a module may hold as nested tuples of plain values, equal exactly if the bits are."""
    if id(value) in seen or isinstance(value, (pl.Trainer, torch.utils.data.DataLoader)):
        return "..."
    seen = seen | {id(value)}
    if isinstance(value, Tensor):
        assert not value.is_inference()
        if value.is_meta:
            return ("meta", tuple(value.shape))
        bits = value.detach().to_dense().clone(memory_format=torch.contiguous_format).reshape(-1)
        grad = None if not value.is_leaf or value.grad is None else describe(value.grad, seen)
        return (str(value.dtype), tuple(value.shape), value.requires_grad, bits.view(torch.uint8).tolist(), grad)
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.tolist())
    if isinstance(value, torch.Generator):
        return value.get_state().tolist()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state(legacy=False))
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, Mapping):
        return tuple((str(k), describe(v, seen)) for k, v in value.items())
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(map(repr, value)))
    if hasattr(value, "__iter__") and hasattr(value, "__len__") and not isinstance(value, (str, nn.Module)):
        return tuple(describe(v, seen) for v in value)
    if callable(value) and hasattr(value, "__closure__"):
        cells = value.__closure__ or ()
        return tuple(describe(c.cell_contents, seen) for c in cells if not callable(c.cell_contents))
    if isinstance(value, (int, float, str, bool, type(None))):
        return repr(value)
    if type(value).__module__.startswith("tests.") and not isinstance(value, nn.Module):
        slots = [getattr(value, name) for name in getattr(value, "__slots__", ())]
        return (describe(slots, seen), describe(getattr(value, "__dict__", {}), seen))
    if isinstance(value, torch.jit.ScriptModule):
        state = describe(value.state_dict(), seen)
        return (state, describe([getattr(value, name, None) for name in ("n_calls", "last", "training")], seen))
    if isinstance(value, nn.Module):
        parts = {k: v for k, v in vars(value).items() if k not in LEFT_OUT}
        # The numbers of hooks come from a counter of torch that all modules share.
        return describe(
            {k: list(v.values()) if "hooks" in k and isinstance(v, dict) else v for k, v in parts.items()}, seen
        )
    return type(value).__name__


def difference(a: Any, b: Any, path: str = "") -> str | None:
    """Where two descriptions differ first."""
    if a == b:
        return None
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            name = f".{x[0]}" if isinstance(x, tuple) and x and isinstance(x[0], str) else f"[{k}]"
            if x != y:
                return difference(x, y, path + name)
    return f"{path}: {str(a)[:200]} is not {str(b)[:200]}"


class Recorder(pl.Callback):
    """What a training run leaves behind, and what its validations said."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, str]] = []
        self.failed: list[float] = []
        self.states: list[Any] = []

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.sanity_checking:
            metrics = trainer.callback_metrics
            self.epochs.append({k: repr(float(v)) for k, v in metrics.items() if not k.startswith("bivshap/")})
            self.failed += [float(v) for k, v in metrics.items() if k == "bivshap/failed"]
            self.states.append(describe(pl_module))

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.module = describe(pl_module)
        self.optimizers = [describe(o.state_dict()) for o in trainer.optimizers]
        self.schedulers = [describe(c.scheduler.state_dict()) for c in trainer.lr_scheduler_configs]
        self.metrics = {k: repr(float(v)) for k, v in trainer.callback_metrics.items() if not k.startswith("bivshap/")}
        self.n_steps = trainer.global_step
        classes = [c for c in type(pl_module).__mro__ if c.__module__.startswith("tests.")]
        self.classes = [{k: repr(v) for k, v in vars(c).items() if isinstance(v, (int, list))} for c in classes]
        self.draws = (torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random())  # noqa: NPY002


def run(style: Style, folder: Path, *, audits: bool) -> tuple[Recorder, list[str]]:
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    counting.n_calls = 0
    recorder = Recorder()
    options = dict(style.trainer)
    callbacks = options.pop("callbacks", list)()
    extra = [BivShapCallback(**AUDIT | style.audit)] if audits else []
    trainer = pl.Trainer(
        callbacks=[*callbacks, *extra, recorder], accelerator="cpu", devices=1, default_root_dir=folder, logger=False,
        enable_progress_bar=False, enable_model_summary=False,
        **{"max_epochs": 2, "num_sanity_val_steps": 0, "enable_checkpointing": False} | options,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(style.make(), *style.loaders())
    return recorder, [str(w.message) for w in caught if "BivShapCallback" in str(w.message)]


@pytest.mark.parametrize(
    "style", [pytest.param(s, id=s.name, marks=[pytest.mark.slow] if s.slow else []) for s in TABLE]
)
def test_training_is_bit_identical_with_and_without_audits(style, tmp_path):
    expected, _ = run(style, tmp_path, audits=False)
    found, messages = run(style, tmp_path, audits=True)
    assert len(found.failed) == len(found.epochs) > 0
    for name in ("epochs", "states", "module", "optimizers", "schedulers", "metrics", "n_steps", "classes", "draws"):
        assert difference(getattr(found, name), getattr(expected, name), name) is None
    if style.refused is None:
        assert messages == []
        assert set(found.failed) == {0.0}
    else:
        assert set(found.failed) == {1.0}
        assert all(re.search(style.refused, message, re.DOTALL) for message in messages), messages


def test_the_table_is_long_enough():
    assert len({style.name for style in TABLE}) == len(TABLE) > 200
