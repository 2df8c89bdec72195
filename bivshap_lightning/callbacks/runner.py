"""An audit on all processes of a Trainer: which samples, which process explains which, and what happens after an error.

Usually every process explains some chunks of the samples. If the forward pass of the model communicates between
processes (collectives of its own, or parameters that are spread over processes), all processes must make the same
forward passes: then each explains all samples, and what depends on the clock is decided by rank zero. A model that
communicates in some forward passes only is met by :class:`~bivshap_lightning.callbacks.collectives.CollectiveGuard`
before it does, and the audit begins again in this way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import nn

from bivshap_lightning.audit.audit import Audit, AuditResult, AuditSettings, ChunkResult
from bivshap_lightning.audit.batches import Batch, Forward, has_two_players, read_batch
from bivshap_lightning.audit.changes import DrawnSample
from bivshap_lightning.audit.selection import CHUNK, SampleChunk, SampleSelection
from bivshap_lightning.audit.task import Task, TaskError, TaskName, find_task
from bivshap_lightning.callbacks.background import AutomaticRemoval
from bivshap_lightning.callbacks.collectives import (
    AttributedErrors,
    CollectiveError,
    CollectiveGuard,
    ModelError,
    failure_anywhere,
)
from bivshap_lightning.callbacks.lightning import (
    MisconfigurationException,
    any_process,
    gather_objects,
    is_sharded,
    last_epoch,
    logged_step,
    rank_zero_info,
    rank_zero_warn,
)
from bivshap_lightning.callbacks.progress import audit_progress
from bivshap_lightning.callbacks.trainer_state import trainer_preserved
from bivshap_lightning.game import Game
from bivshap_lightning.game.model import global_rngs_kept

T = TypeVar("T")


class FailedAudit(Exception):  # noqa: N818 - it is no error of its own, all processes have it
    """An audit that failed, on all processes.

    Args:
        cause: the error.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class AuditRunner:
    """Chooses the samples of audits and explains them on all processes.

    Args:
        settings: what is computed.
        n_samples: over all processes.
        time_budget: seconds per audit, or None.
        feature_names: a name per player, or None.
        input_fn: finds the inputs in a batch.
        forward_fn: called instead of the module.
        dataloader_idx: which of several validation dataloaders is explained.

    Attributes:
        in_lockstep: whether all processes made the same forward passes in the last audit.
        task: found in the first audit.
        resolved: the settings with what follows from the task and from the kind of data.
        removal: what replaces absent players where the user gave no rows.
        seconds_after: what followed the explanations in the last audit: panels, the record.
        comparison_seconds: what other explainers took in the last audit, here; None if they did not run.
    """

    may_set_up = False

    def __init__(
        self,
        settings: AuditSettings,
        *,
        n_samples: int,
        time_budget: float | None = None,
        feature_names: Sequence[str] | None = None,
        input_fn: Callable[[Any], Any] | None = None,
        forward_fn: Callable[..., Any] | None = None,
        dataloader_idx: int = 0,
    ) -> None:
        Audit(settings, torch.device("cpu"))  # refuses unknown explainers right away
        self.settings, self.n_samples, self.time_budget = settings, n_samples, time_budget
        self.feature_names, self.input_fn, self.forward_fn = feature_names, input_fn, forward_fn
        self.removal = AutomaticRemoval(dataloader_idx, input_fn, may_set_up=self.may_set_up)
        self._selections: dict[str, SampleSelection] = {}
        self._wanted: dict[str, list[str]] = {}
        self._batch_error: BaseException | None = None
        self.in_lockstep = self._communicates = False
        self.task: Task | None = None
        self.resolved = settings
        self.comparison_seconds: float | None = None
        self.seconds_after = 0.0
        self._drawn: dict[str, dict[int, DrawnSample]] = {}
        self._last: dict[str, tuple[int, int, AuditResult]] = {}

    def has_samples(self, stage: str) -> bool:
        """Whether batches of a stage have been offered."""
        return stage in self._selections

    def sample_keys(self, stage: str) -> list[str]:
        """The keys of the chosen samples of a stage."""
        return list(self._selections[stage].keys)

    def state_dict(self) -> dict[str, list[str]]:
        """The keys of the chosen samples of all stages, for a checkpoint."""
        return {**self._wanted, **{stage: list(s.keys) for stage, s in self._selections.items() if s.is_chosen}}

    def load_state_dict(self, state: Mapping[str, Iterable[str]]) -> None:
        """Look for the same samples again."""
        self._wanted = {stage: list(keys) for stage, keys in state.items()}
        self._selections, self._drawn, self._last = {}, {}, {}

    def offer(self, trainer: Any, batch: Any, stage: str) -> None:
        """Consider the samples of a batch, until the choice is made."""
        selection = self._selection(trainer, stage)
        if selection.is_chosen or self._batch_error is not None:
            return
        try:
            found = read_batch(batch, self.input_fn, trainer.lightning_module.forward)
            selection.offer(found, has_two_players(found, self.settings.feature_mask))
        except Exception as error:  # raised at the end of the epoch, when all processes can agree about it
            self._batch_error = error

    def run(
        self, trainer: Any, pl_module: Any, stage: str, start: float, *, compare: bool = True
    ) -> tuple[AuditResult | None, BaseException | None]:
        """Run an audit on all processes.

        Args:
            trainer: the Trainer.
            pl_module: the model.
            stage: whose samples.
            start: when the time budget begins, by :func:`time.perf_counter`.
            compare: whether other explainers run as well.

        Returns:
            What was found, or the error if the audit failed, here or on any other process.
        """
        own, self._batch_error = self._batch_error, None
        failure = failure_anywhere(trainer, own)
        if failure is not None:
            self._selections.pop(stage, None)
            self._drawn.pop(stage, None)
            self._last.pop(stage, None)
            return None, failure
        with torch.inference_mode(False), torch.no_grad(), global_rngs_kept([pl_module.device]):
            selection = self._choose(trainer, stage)
            if not selection.is_chosen:
                return None, MisconfigurationException(
                    "`dataloader_idx` must name a dataloader that yields samples with at least two players, got one "
                    "that yielded none."
                )
            was_known = self._communicates
            try:
                return self._attempt(trainer, pl_module, selection, stage, start, compare=compare), None
            except FailedAudit as failed:
                if was_known or not self._communicates:
                    return None, failed.cause
            rank_zero_info(
                "bivshap: the model communicates between processes in some of its passes; the audit begins again, with "
                "the same passes on all processes"
            )
            try:
                return self._attempt(trainer, pl_module, selection, stage, start, compare=compare), None
            except FailedAudit as failed:
                return None, failed.cause

    def _attempt(
        self, trainer: Any, pl_module: Any, selection: SampleSelection, stage: str, start: float, *, compare: bool
    ) -> AuditResult:
        """Explain the samples.

        Raises:
            FailedAudit: on all processes.
        """
        try:
            self._prepare(trainer, pl_module, selection, stage)
        except FailedAudit:
            raise
        except Exception as error:  # all processes know the same there, and so fail alike
            raise FailedAudit(error) from error
        if self.resolved.gamma is None:
            sizes = self._on_all(trainer, pl_module, lambda: self._sizes(trainer, pl_module, selection))
            self.resolved = self.resolved.with_relative_gamma(sizes)
        agree = trainer.strategy.broadcast if self.in_lockstep else None
        settings = self.resolved if compare else replace(self.resolved, compare_with=())
        drawn = self._drawn.get(stage, {})
        with audit_progress(trainer, selection.n_mine) as bar:
            audit = Audit(settings, pl_module.device, self.feature_names, agree=agree, progress=bar, earlier=drawn)
            try:
                parts = self._on_all(
                    trainer, pl_module, lambda: self._explain(trainer, pl_module, audit, selection, start)
                )
            finally:
                self.comparison_seconds = audit.comparison_seconds if compare else None
        self._drawn[stage] = audit.drawn
        return self._with_change(trainer, stage, audit.combine(parts))

    def _with_change(self, trainer: Any, stage: str, result: AuditResult) -> AuditResult:
        """The result with what changed since the last audit of the stage."""
        before = self._last.get(stage)
        self._last[stage] = (last_epoch(trainer), logged_step(trainer), result)
        return result if before is None else result.with_change_since(before[2], before[0], before[1])

    def about(self, trainer: Any, stage: str) -> dict[str, Any]:
        """Which audit this is, for the record."""
        return {
            "stage": stage,
            "epoch": last_epoch(trainer),
            "step": logged_step(trainer),
            "world_size": trainer.world_size,
            "time_budget": self.time_budget,
            "n_samples": self.n_samples,
            "sample_keys": self.sample_keys(stage),
            # Asked of the trainer on all processes, because it may reduce over them.
            "validation_metrics": {
                tag: float(value) for tag, value in trainer.callback_metrics.items() if not tag.startswith("bivshap/")
            },
        }

    def _on_all(self, trainer: Any, pl_module: Any, compute: Callable[[], list[T]]) -> list[T]:
        """What all processes computed together.

        Raises:
            FailedAudit: one of them failed.
        """
        mine = self._guarded(trainer, pl_module, compute, together=self.in_lockstep)
        everyone = [part for found in gather_objects(trainer, mine) for part in found]
        return mine if self.in_lockstep else everyone

    def _guarded(self, trainer: Any, pl_module: Any, compute: Callable[[], T], *, together: bool) -> T:
        """What this process computed, if all of them succeeded.

        Raises:
            FailedAudit: one of them failed, or made a collective that the others did not make.
        """
        own: BaseException | None = None
        is_guarded = trainer.world_size > 1 and torch.distributed.is_initialized() and not is_sharded(trainer)
        guard = CollectiveGuard(trainer, together=together) if is_guarded else None
        try:
            with trainer_preserved(pl_module), guard or nullcontext():
                mine = compute()
        except ModelError as error:
            if is_sharded(trainer):  # the others wait in a collective of the strategy, which only an end can end
                raise error.cause from None
            own = error
        except Exception as error:
            own = error
        if guard is not None and guard.refusal:
            own = CollectiveError(guard.refusal)  # without the frames of the first, which hold the process group
        failure = failure_anywhere(trainer, own)
        if guard is not None:
            guard.forget()
            # Known from now on, because another audit would come to the same.
            self._communicates |= any_process(trainer, RuntimeError() if guard.found else None)
        if failure is not None:
            raise FailedAudit(failure) from failure
        return mine

    def _sizes(self, trainer: Any, pl_module: Any, selection: SampleSelection) -> list[tuple[int, float]]:
        """Players and `u(all) - u(none)` of the samples that this process has to explain."""
        audit = Audit(self.resolved, pl_module.device)
        found: list[tuple[int, float]] = []
        for chunk in selection.chunks(pl_module.device):
            found += audit.sizes(self._forward(trainer, pl_module, chunk.batch), chunk)
        return found

    def _selection(self, trainer: Any, stage: str) -> SampleSelection:
        if stage not in self._selections:
            wanted = self._wanted.get(stage, ())
            self._selections[stage] = SampleSelection(
                self.n_samples, self.settings.seed, trainer.global_rank, trainer.world_size, wanted
            )
        return self._selections[stage]

    def _choose(self, trainer: Any, stage: str) -> SampleSelection:
        """The samples, chosen together with all other processes when this is the first audit of the stage."""
        selection = self._selection(trainer, stage)
        if not selection.is_chosen:
            n_missing = selection.choose(lambda value: gather_objects(trainer, value))
            if n_missing:
                rank_zero_warn(
                    f"BivShapCallback did not find {n_missing} of its samples again and chose new ones: the validation "
                    "data changed since the checkpoint."
                )
        return selection

    def _prepare(self, trainer: Any, pl_module: Any, selection: SampleSelection, stage: str) -> None:
        """Find out the task, what replaces absent players, and which process explains what.

        All processes put the same sample through the model.

        Raises:
            TaskError: the task cannot be told.
        """

        def gather(value: Any) -> list[Any]:
            return gather_objects(trainer, value)

        batch = selection.example(gather, pl_module.device)
        trial = replace(self.settings, behavior="output", target=0, task="auto", background=None)
        game = self._guarded(
            trainer,
            pl_module,
            lambda: Audit(trial, pl_module.device).game(self._forward(trainer, pl_module, batch), batch),
            together=True,
        )
        self.in_lockstep = is_sharded(trainer) or self._communicates
        selection.distribute(gather, chunk_size=self._chunk_size(trainer), everywhere=self.in_lockstep)
        if self.task is None:
            labels = [label for part in gather(selection.labels()) for label in part]
            self.task = find_task(
                self.settings.task, torch.stack(labels) if labels else None, game.n_outputs, pl_module
            )
            rank_zero_info(f"bivshap: task {self.task.name} ({self.task.reason})")
        resolved = self._resolve(self.task.name, game, pl_module)
        self.resolved = self.removal.resolve(resolved, trainer, batch, game, selection, stage)

    def _resolve(self, task: TaskName, game: Game, pl_module: nn.Module) -> AuditSettings:
        """The settings with what follows from the task."""
        behavior = self.settings.behavior or ("output" if task == "regression" else "probability")
        settings = replace(self.settings, task=task, behavior=behavior)
        if task == "regression" and game.n_outputs > 1 and settings.target is None:
            raise TaskError(
                f"`target` must name one of {game.n_outputs} outputs of a regression, got None. Write "
                'BivShapCallback(task="regression", target=0) for the first.'
            )
        if task == "multilabel" and settings.link == "auto":
            ends_in_sigmoid = isinstance(list(pl_module.modules())[-1], nn.Sigmoid)
            settings = replace(settings, link="identity" if ends_in_sigmoid else "sigmoid")
        return settings

    def _chunk_size(self, trainer: Any) -> int:
        """Few enough samples that every process has some to explain while training waits."""
        return min(CHUNK, math.ceil(self.n_samples / int(trainer.world_size)))

    def _explain(
        self, trainer: Any, pl_module: Any, audit: Audit, selection: SampleSelection, start: float
    ) -> list[ChunkResult]:
        """The chunks that this process has to explain."""
        # Panels and the record come after it, and take as long as the last time.
        deadline = math.inf if self.time_budget is None else start + self.time_budget - self.seconds_after
        parts: list[ChunkResult] = []
        n_left = selection.n_mine
        for chunk in selection.chunks(pl_module.device):
            now = time.perf_counter()
            until = now + (deadline - now) * len(chunk.places) / n_left
            parts.append(self._explain_chunk(audit, self._forward(trainer, pl_module, chunk.batch), chunk, until))
            n_left -= len(chunk.places)
        return parts

    def _explain_chunk(self, audit: Audit, forward: nn.Module, chunk: SampleChunk, deadline: float) -> ChunkResult:
        return audit.explain(forward, chunk, deadline)

    def _forward(self, trainer: Any, pl_module: Any, batch: Batch) -> nn.Module:
        module = trainer.strategy.model if is_sharded(trainer) else pl_module
        forward = Forward(module, batch, self.forward_fn, trainer.precision_plugin.forward_context)
        return AttributedErrors(forward) if is_sharded(trainer) else forward
