"""Keeps an audit out of the Trainer: what the model logs, and what it writes to what its Trainer leads to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any, NoReturn

from pytorch_lightning.loggers.logger import DummyLogger

from bivshap_lightning.game.errors import ModelStateError
from bivshap_lightning.game.state.modules import objects_preserved

# Callbacks whose state is not that of training: those of Lightning, and ours. Bars move meanwhile.
_NOT_FOLLOWED = ("bivshap_lightning", "lightning", "pytorch_lightning")


@contextmanager
def trainer_preserved(module: Any) -> Iterator[None]:
    """Within this context the model may be called; afterwards its Trainer is what it was before.

    What a LightningModule logs in its forward pass is ignored: an audit is not part of the user's metrics. Besides
    `log` and `log_dict` these are the loggers of its Trainer, as in `self.logger.experiment.add_scalar(...)`. Put back
    are the Trainer's attributes (such as `should_stop`), metrics, its loops, data sets, loaders,
    datamodule, learning rate schedulers and the user's own callbacks, and the options of its optimizers, which refuse
    to be stepped.

    Args:
        module: the LightningModule, or one that holds it.

    Raises:
        ModelStateError: something was changed that could not be put back.
    """
    modules = [m for m in module.modules() if callable(getattr(m, "log_dict", None))]
    trainers = list({id(t): t for m in modules if (t := getattr(m, "_trainer", None)) is not None}.values())
    with ExitStack() as stack:
        stack.enter_context(_attributes_kept(trainers))
        reached = [found for trainer in trainers for found in _reached_from(trainer)]
        optimizers = [optimizer for trainer in trainers for optimizer in trainer.optimizers]
        own = chain(module.modules(), module.parameters(), module.buffers(), optimizers)
        stack.enter_context(objects_preserved(reached, without=own))
        for trainer in trainers:
            if trainer.loggers:
                trainer.loggers = [DummyLogger() for _ in trainer.loggers]
        for optimizer in optimizers:
            stack.enter_context(_replaced(optimizer, step=_refuse_step))
        for trainer in trainers:
            for results in _results_of(trainer):  # of the function that `log` calls
                stack.enter_context(_replaced(results, log=_ignore, reset=_ignore))
        for m in modules:
            stack.enter_context(_replaced(m, log=_ignore, log_dict=_ignore))
        yield


@contextmanager
def _attributes_kept(trainers: list[Any]) -> Iterator[None]:
    attributes = [(owned, dict(owned)) for trainer in trainers for owned in _attributes_of(trainer)]
    try:
        yield
    finally:
        for now, before in attributes:
            now.clear()
            now.update(before)


def _attributes_of(trainer: Any) -> Iterator[dict[str, Any]]:
    """Attributes that are put back, while what they hold is left alone."""
    loops = (trainer.fit_loop, trainer.fit_loop.epoch_loop)
    for owner in (trainer, *loops, trainer._logger_connector, trainer.strategy):
        yield vars(owner)
    for config in trainer.lr_scheduler_configs:
        yield vars(config.scheduler)
    for optimizer in trainer.optimizers:
        yield from optimizer.param_groups


def _reached_from(trainer: Any) -> Iterator[Any]:
    """What a model can reach through its Trainer, and what is put back with all that it holds."""
    connector = trainer._logger_connector
    yield from (connector._callback_metrics, connector._logged_metrics, connector._progress_bar_metrics)
    yield from (trainer.train_dataloader, trainer.val_dataloaders, trainer.test_dataloaders)
    datamodule = getattr(trainer, "datamodule", None)
    if datamodule is not None:
        yield vars(datamodule)
    for callback in trainer.callbacks:
        kinds = type(callback).__mro__
        is_own = kinds[0].__module__.partition(".")[0] not in _NOT_FOLLOWED
        if is_own and all(kind.__name__ != "ProgressBar" for kind in kinds):
            yield vars(callback)


def _results_of(trainer: Any) -> Iterator[Any]:
    """What has been logged in the epochs that run."""
    training = trainer.fit_loop.epoch_loop
    yield from (loop._results for loop in (training, training.val_loop, trainer.validate_loop, trainer.test_loop))


@contextmanager
def _replaced(owner: Any, **methods: Any) -> Iterator[None]:
    """Give an object other methods for a while."""
    hidden = {name: vars(owner)[name] for name in methods if name in vars(owner)}
    vars(owner).update(methods)
    try:
        yield
    finally:
        for name in methods:
            vars(owner).pop(name, None)
        vars(owner).update(hidden)


def _ignore(*args: Any, **options: Any) -> None:
    pass


def _refuse_step(*args: Any, **options: Any) -> NoReturn:
    raise ModelStateError(
        "`model` must not step an optimizer of the Trainer in forward, got a call of `step`. Step it in training_step."
    )
