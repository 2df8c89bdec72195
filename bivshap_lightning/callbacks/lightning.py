"""Lightning under both of its package names, `pytorch_lightning` and `lightning.pytorch`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.utilities import rank_zero_info, rank_zero_only, rank_zero_warn

__all__ = ["EitherCallback", "MisconfigurationException", "any_process", "gather_objects", "is_fitting",
           "is_sharded", "last_epoch", "logged_step", "package_of", "rank_zero_info",
           "rank_zero_only", "rank_zero_warn", "tensorboard_writers"]  # fmt: skip

_PACKAGES = ["pytorch_lightning", *(["lightning.pytorch"] if find_spec("lightning") else [])]

if TYPE_CHECKING:
    from pytorch_lightning import Callback as EitherCallback
else:
    # A subclass of both, so that the Trainer and the LightningCLI of either package accept it.
    class EitherCallback(*(import_module(name).Callback for name in _PACKAGES)):
        """The base class of callbacks for every installed Lightning package."""


# Strategies that spread parameters over processes: all must make the same forward passes.
SHARDED = ("FSDPStrategy", "DeepSpeedStrategy", "ModelParallelStrategy")


def package_of(kind: type, base: str) -> ModuleType | None:
    """The Lightning package whose `base`, such as "LightningModule", a class inherits from; None if neither."""
    packages = (import_module(name) for name in _PACKAGES)
    return next((package for package in packages if issubclass(kind, getattr(package, base))), None)


def is_sharded(trainer: Any) -> bool:
    """Whether the parameters of the model are spread over processes."""
    return any(kind.__name__ in SHARDED for kind in type(trainer.strategy).__mro__)


def gather_objects(trainer: Any, value: Any) -> list[Any]:
    """A value from every process, on every process, in order of rank."""
    if trainer.world_size == 1 or not torch.distributed.is_initialized():
        return [value]
    values: list[Any] = [None] * trainer.world_size
    torch.distributed.all_gather_object(values, value)
    return values


def logged_step(trainer: Any) -> int:
    """The step at which Lightning writes what is logged at the end of validation."""
    fitting = str(getattr(trainer.state.fn, "value", trainer.state.fn)).startswith("fit")
    return max(0, trainer.global_step - 1) if fitting else int(trainer.global_step)


def last_epoch(trainer: Any) -> int:
    """The epoch that runs or, once training has ended, the last that ran: `current_epoch` is one more by then."""
    return max(0, int(trainer.fit_loop.epoch_progress.current.ready) - 1)


def tensorboard_writers(trainer: Any) -> list[Any]:
    """The TensorBoard writers among the Trainer's loggers, on rank zero; none elsewhere."""
    if not trainer.is_global_zero:
        return []
    experiments = [logger.experiment for logger in trainer.loggers if type(logger).__name__ == "TensorBoardLogger"]
    return [e for e in experiments if type(e).__module__.startswith("torch.utils.tensorboard")]


def any_process(trainer: Any, error: BaseException | None) -> bool:
    """Whether any process had an error. A collective: every process must call it."""
    return bool(trainer.strategy.reduce_boolean_decision(error is not None, all=False))


def is_fitting(trainer: Any) -> bool:
    """Whether the Trainer fits, rather than validating or testing alone."""
    return bool(trainer.training) or str(getattr(trainer.state.fn, "value", "")) == "fit"
