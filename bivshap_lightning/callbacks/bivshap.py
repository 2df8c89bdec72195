"""`BivShapCallback`: audits a model while it is trained, and changes nothing about the training."""

from __future__ import annotations

import math
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from bivshap_lightning.audit.audit import AuditResult, AuditSettings
from bivshap_lightning.audit.default_removal import background_of
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.audit.record_changes import CHANGE
from bivshap_lightning.audit.task import TaskName
from bivshap_lightning.callbacks.collectives import failure_anywhere
from bivshap_lightning.callbacks.lightning import (
    EitherCallback,
    gather_objects,
    is_fitting,
    last_epoch,
    logged_step,
    rank_zero_info,
    rank_zero_warn,
    tensorboard_writers,
)
from bivshap_lightning.callbacks.output import Output, PanelOptions, advice_on, summary_line
from bivshap_lightning.callbacks.runner import AuditRunner
from bivshap_lightning.callbacks.schedule import DEFAULT_MAX_SHARE, AuditSchedule, cost_of
from bivshap_lightning.explainers.registry import ExplainerLike
from bivshap_lightning.explainers.stages import check_target_error
from bivshap_lightning.game.behavior import BehaviorName

DEFAULT_COMPARISON = ("kernel_shap", "shapley_sampling", "integrated_gradients", "feature_ablation")
FIRST_PICTURES = 0.7
"""Seconds that pictures and record of the first audit are guessed to take; those of later ones are known."""


class BivShapCallback(EitherCallback):
    """Explains a fixed set of validation samples after validation epochs: graphs, metrics, panels, a record.

    Trained weights, optimizer state and all later random draws are the same with and without it. Numbers are logged
    through Lightning's own `log`, so that `EarlyStopping` and `ModelCheckpoint` see all of them and any logger the main
    ones (all with ``PanelOptions(all_scalars=True)``); the table of numbers in the documentation lists every tag:
    ``bivshap/post_hoc_accuracy/<explainer>`` and other metrics of rankings for "ours" and for each explainer of
    `compare_with`, ``bivshap/roles/...``, ``bivshap/redundancy/...``, ``bivshap/estimate/standard_error``,
    ``bivshap/change/...``, ``bivshap/cost/...`` and ``bivshap/failed``.

    Args:
        n_samples: how many validation samples are explained, over all processes. They are chosen once, the same number
            of each class as far as possible.
        target: None for the predicted class, "label" for the class in the data, or an index.
        task: "binary", "multiclass", "multilabel", "regression", or "auto" for the rules of
            :mod:`bivshap_lightning.audit.task`; the first audit logs what it found. Of independent labels each sample
            explains one that is on, in turn, so that every label gets a graph.
        behavior: what is read off the model's scores, as in :class:`~bivshap_lightning.BivariateShapley`; None for the
            output of a regression and the probability of a class.
        link: what the scores mean: "softmax" (class logits), "sigmoid" (independent logits), "identity"
            (probabilities), or "auto" for the rule of :mod:`bivshap_lightning.game.behavior`.
        baselines: what replaces an absent player: a number (for texts the id of a token), a tensor,
            ``Blur(3)`` or ``ChannelMean()`` for images, ``ZeroEmbedding()`` for texts. None: zero, unless `background`
            is given, or 8 to 32 rows of the training data for tables (2-D inputs with floats among them).
        background: instead of baselines, rows over which values are averaged: the rows, how many to draw from the
            training data (from the validation data where that cannot be read), or "package.module:name" of rows.
        feature_mask: integer player ids, or a maker of players: ``Grid(4)`` or ``Superpixels(50)`` for images,
            ``Tokens(tokenizer)`` for texts (pictures then show the sentence), ``Columns({"colour": "col_*"}, columns)``
            for tables, ``Segments(10)`` for series, or any function of the inputs. None: columns of tables, 8 x 8
            patches of images, steps of sequences, tokens that the batch's attention mask does not hide. Samples with
            fewer than two players, such as empty texts, are never chosen.
        feature_names: a name per player.
        class_names: a name per class.
        input_fn: finds the inputs in a batch: returns them, or (inputs, labels).
        forward_fn: called as ``forward_fn(module, *inputs)`` instead of the module itself; returns scores (N, C).
        dataloader_idx: which of several validation dataloaders is explained.
        method: how values are found, as in :class:`~bivshap_lightning.BivariateShapley`.
        n_evaluations: at most this many model rows per sample for our explanation; None for the paper's
            ``2 * (2 * F + 2048)``.
        target_error: rows of a sample stop once the relative error of its E2 is estimated to be at most this. None for
            0.2 if `n_evaluations` is not given either, and otherwise for all rows.
        compare_with: other explainers of the same games: names, Captum methods or instances, or any object that can
            explain a game. Each may spend as many model rows on a sample as ours did (what ours drew twice counts
            up to 2 %), and stops where it has converged. Rows that are known already count too, but are not evaluated
            again. Without `every_n_epochs` they run at the first and the last audit and when `max_share` allows; in
            between their last numbers are logged again.
        gamma: the largest absolute weight that counts as redundant. None: relative to what there is to explain, the
            smaller of 1 % and 15 % / F of the mean `abs(u(all) - u(none))` over the samples. F is each sample's own
            number of players, so that texts of different lengths have different ones. The paper's is 1e-5.
        seed: of the choice of samples and of the coalitions, which are the same in every epoch.
        perturbations_per_eval: at most this many times the number of samples in one forward pass; None chooses.
        every_n_epochs: audit after the validation of epochs 0, n, 2n, ..., whatever it costs; in between the last
            values are logged again. None: as often as `max_share` allows.
        max_share: without `every_n_epochs`, the largest share of the run's time that audits may take. The first
            validation and the end of fitting are always audited, and others leave room for the one at the end.
        time_budget: seconds per audit; evaluations are cut down and other explainers left out to meet it. The accuracy
            that was reached is ``bivshap/estimate/standard_error``.
        panels: draw pictures and tables, into TensorBoard or into files; :class:`PanelOptions` say how many, and which
            numbers are charted.
        write_record: write a record of each audit to ``<log_dir>/bivshap``.
        on_error: "warn" leaves training untouched and logs ``bivshap/failed``; "raise" raises on all processes.
        name: first part of all tags and name of the folder of records. With several callbacks of one name in a Trainer,
            the later ones are called ``bivshap_2`` and so on.

    Attributes:
        result: of the last audit.
        record_path: where its record was written, on all processes; None if it was not.
        history: epoch, step and logged numbers of every audit.

    Example:
        >>> from pytorch_lightning import Trainer
        >>> trainer = Trainer(callbacks=[BivShapCallback(n_samples=8)], logger=False, accelerator="cpu")
    """

    def __init__(
        self,
        *,
        n_samples: int = 16,
        target: int | Literal["label"] | None = None,
        task: TaskName | Literal["auto"] = "auto",
        behavior: BehaviorName | None = None,
        link: Literal["auto", "softmax", "sigmoid", "identity"] = "auto",
        baselines: float | list[float] | Tensor | Callable[..., Any] | tuple[Any, ...] | None = None,
        background: Any = None,
        feature_mask: list[int] | Tensor | Callable[..., Any] | tuple[Any, ...] | None = None,
        feature_names: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
        input_fn: Callable[[Any], Any] | None = None,
        forward_fn: Callable[..., Any] | None = None,
        dataloader_idx: int = 0,
        method: ExplainerLike = "auto",
        n_evaluations: int | None = None,
        target_error: float | None = None,
        compare_with: Sequence[Any] = DEFAULT_COMPARISON,
        gamma: float | None = None,
        seed: int = 0,
        perturbations_per_eval: int | None = None,
        every_n_epochs: int | None = None,
        max_share: float = DEFAULT_MAX_SHARE,
        time_budget: float | None = None,
        panels: bool | PanelOptions = True,
        write_record: bool = True,
        on_error: Literal["warn", "raise"] = "warn",
        name: str = "bivshap",
    ) -> None:
        super().__init__()
        if n_samples < 1:
            raise ValueError(f"`n_samples` must be at least 1, got {n_samples}.")
        if time_budget is not None and time_budget <= 0:
            raise ValueError(f"`time_budget` must be a positive number of seconds, got {time_budget}.")
        if on_error not in ("warn", "raise"):
            raise ValueError(f"`on_error` must be 'warn' or 'raise', got {on_error!r}.")
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            raise ValueError(f"`name` must consist of letters, digits, '_', '-' and '.', got {name!r}.")
        self.settings = AuditSettings(
            method=method,
            behavior=behavior,
            link=link,
            target=target,
            n_evaluations=n_evaluations,
            gamma=gamma,
            seed=seed,
            compare_with=tuple(compare_with),
            baselines=torch.tensor(baselines) if isinstance(baselines, list) else baselines,
            background=background_of(background),
            feature_mask=torch.tensor(feature_mask) if isinstance(feature_mask, list) else feature_mask,
            perturbations_per_eval=perturbations_per_eval,
            task=task,
            target_error=None if target_error is None else check_target_error(target_error),
        )
        self.runner = self._make_runner(
            self.settings,
            n_samples=n_samples,
            time_budget=time_budget,
            feature_names=feature_names,
            input_fn=input_fn,
            forward_fn=forward_fn,
            dataloader_idx=dataloader_idx,
        )
        self.schedule = AuditSchedule(every_n_epochs, max_share)
        self.on_error, self.dataloader_idx = on_error, dataloader_idx
        self.panels = panels if isinstance(panels, PanelOptions) else PanelOptions(draw=panels)
        self.name = self._given_name = name
        self.runner.seconds_after = FIRST_PICTURES if self.panels.draw else 0.0
        self.output = Output(class_names, self.panels, write_record=write_record)
        self.result: AuditResult | None = None
        self.record_path: Path | None = None
        self.history: list[dict[str, Any]] = []
        self._run: dict[str, Any] = {}
        self._cost: dict[str, float] = {}
        self._logged: dict[str, float] = {}
        self._triggered = self._is_current = False
        self._compared: tuple[int, AuditResult] | None = None
        self._epoch_start: float | None = None

    @property
    def state_key(self) -> str:
        """Identifies the state of this callback among several in the same Trainer, such as one per label."""
        settings = self.settings
        return self._generate_state_key(
            name=self._given_name,
            target=settings.target,
            behavior=str(settings.behavior),
            method=str(settings.method),
            dataloader_idx=self.dataloader_idx,
            seed=settings.seed,
        )

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Number callbacks of one name, so that they log under different tags and write into different folders."""
        alike = [c for c in trainer.callbacks if isinstance(c, BivShapCallback) and c._given_name == self._given_name]
        place = alike.index(self) if self in alike else 0
        self.name = self.output.prefix = self._given_name if place == 0 else f"{self._given_name}_{place + 1}"

    def _make_runner(self, settings: AuditSettings, **arguments: Any) -> AuditRunner:
        return AuditRunner(settings, **arguments)

    @property
    def failed(self) -> bool:
        """Whether the last audit failed."""
        return self._logged.get("bivshap/failed", 0.0) > 0

    def trigger(self) -> None:
        """Audit after the next validation epoch, independently of the schedule."""
        self._triggered = True

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: which samples are explained, and the history."""
        return {
            "sample_keys": self.runner.state_dict(),
            "background": self.runner.removal.state_dict(),
            "history": self.history,
            "logged": self._logged,
            "layouts": self.output.state_dict(),
            "schedule": self.schedule.state_dict(),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the choice of samples and the history."""
        self.runner.load_state_dict(state_dict["sample_keys"])
        self.runner.removal.load_state_dict(state_dict["background"])
        self.history, self._logged = list(state_dict["history"]), dict(state_dict["logged"])
        self.output.load_state_dict(state_dict["layouts"])
        self.schedule.load_state_dict(state_dict["schedule"])

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Start to measure the run's time."""
        self.schedule.start_run()
        self._compared = None

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock, to know an audit's share of the epoch."""
        self._epoch_start = time.perf_counter()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock where there is no training epoch."""
        if not trainer.sanity_checking and (self._epoch_start is None or not is_fitting(trainer)):
            self._epoch_start = time.perf_counter()

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock."""
        self._epoch_start = time.perf_counter()

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Offer the samples of a batch, until the fixed set is chosen."""
        self._offer(trainer, batch, dataloader_idx, "validate")

    def on_test_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Offer the samples of a batch, until the fixed set is chosen."""
        self._offer(trainer, batch, dataloader_idx, "test")

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Audit if it is time to, and log."""
        if trainer.sanity_checking:
            return
        asked = self._triggered or not is_fitting(trainer)
        is_last = is_fitting(trainer) and trainer.current_epoch + 1 == trainer.max_epochs
        due = asked or self.schedule.is_due(trainer.current_epoch)
        compare = asked or is_last or self._compared is None or self.schedule.may_compare()
        # Clocks differ: rank zero decides for all processes.
        due, compare = trainer.strategy.broadcast((due, compare))
        with self.schedule.other_work():
            self._end_of_epoch(trainer, pl_module, "validate", due=due, compare=compare)

    def on_test_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Audit, and log."""
        self._end_of_epoch(trainer, pl_module, "test")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Audit the trained model unless its last validation was audited; warn if nothing was audited at all."""
        if self.schedule.every_n_epochs is None and not self._is_current and self.runner.has_samples("validate"):
            self._run_audit(trainer, pl_module, "validate", compare=True)
            charted = {self.output.tag(tag): v for tag, v in self._logged.items() if self.output.is_charted(tag)}
            self.output.describe(self._logged, tensorboard_writers(trainer))
            for logger in trainer.loggers:
                logger.log_metrics(charted, step=logged_step(trainer))
        if "bivshap/failed" not in self._logged:
            rank_zero_warn(
                "BivShapCallback audited nothing: no validation ran in epochs that `every_n_epochs` names (0, n, 2n, "
                f"...), got every_n_epochs={self.schedule.every_n_epochs} and check_val_every_n_epoch="
                f"{trainer.check_val_every_n_epoch}. Give the model a validation dataloader, or use every_n_epochs=1."
            )

    def _offer(self, trainer: Any, batch: Any, dataloader_idx: int, stage: str) -> None:
        if not trainer.sanity_checking and dataloader_idx == self.dataloader_idx:
            with self.schedule.other_work():
                self.runner.offer(trainer, batch, stage)

    def _end_of_epoch(
        self, trainer: Any, pl_module: Any, stage: str, *, due: bool = True, compare: bool = True
    ) -> None:
        # An audit without the comparison is not the last one: the end of fitting has one with it.
        self._is_current = due and (compare or not self.settings.compare_with)
        if due:
            self._triggered = False
            self._run_audit(trainer, pl_module, stage, compare=compare)
        self.output.describe(self._logged, tensorboard_writers(trainer))
        for tag, value in self._logged.items():
            # Equal on all processes; `sync_dist` only prevents a warning of Lightning.
            pl_module.log(
                self.output.tag(tag), torch.tensor(value, device=pl_module.device), sync_dist=trainer.world_size > 1,
                logger=None if self.output.is_charted(tag) else False,
            )  # fmt: skip

    def _run_audit(self, trainer: Any, pl_module: Any, stage: str, *, compare: bool) -> None:
        start = time.perf_counter()
        result, error = self.runner.run(trainer, pl_module, stage, start, compare=compare)
        explained = time.perf_counter()
        if result is not None:
            if compare or self._compared is None:
                self._compared = (last_epoch(trainer), result)
            self.result = result if compare else result.with_comparison(self._compared[1], self._compared[0])
            error = self._publish(trainer, stage, start, explained)
        self._logged["bivshap/failed"] = 0.0 if error is None else 1.0
        self.runner.seconds_after = time.perf_counter() - explained
        self.schedule.add(time.perf_counter() - start, self.runner.comparison_seconds)
        self._handle_error(trainer, error)

    def _handle_error(self, trainer: Any, error: BaseException | None) -> None:
        """Raise on all processes or warn on one."""
        if error is None:
            return
        if self.on_error == "raise":
            raise error
        detail = "".join(traceback.format_exception_only(error)).strip()
        rank_zero_warn(
            f"BivShapCallback could not audit epoch {last_epoch(trainer)}; training goes on.\n{detail}\n"
            "Pass on_error='raise' to stop here, or leave the callback out."
        )

    def _publish(self, trainer: Any, stage: str, start: float, explained: float) -> BaseException | None:
        """Numbers for the log, then, on rank zero, panels, record and one line. Returns the error if that failed."""
        result = cast(AuditResult, self.result)
        lasting = {tag: value for tag, value in self._logged.items() if not tag.startswith(CHANGE)}
        self._logged = lasting | {name: value for name, (value, _) in result.numbers.items()}
        self._run = self._about(trainer, stage)
        path, self.record_path = self._path_of_record(trainer), None
        self._cost = cost_of(result, start, self._epoch_start)
        own: BaseException | None = None
        if trainer.is_global_zero and path is not None:
            try:
                self.output.write(
                    result, self.runner.resolved, self._run, self._cost, path, tensorboard_writers(trainer)
                )
            except Exception as error:
                own = error
        if (failure := failure_anywhere(trainer, own)) is not None:
            return failure
        self.record_path = path if self.output.writes_record else None
        self._cost = gather_objects(trainer, cost_of(result, start, self._epoch_start))[0]
        self._logged |= {f"bivshap/cost/{name}": value for name, value in self._cost.items()}
        moment = {name: self._run[name] for name in ("epoch", "step", "stage")}
        advice = advice_on(
            self._cost,
            [past["numbers"] for past in self.history],
            comparison_seconds=self.runner.comparison_seconds,
            output_seconds=time.perf_counter() - explained,
            time_budget=self.runner.time_budget,
            next_audit=self._next_audit(trainer),
        )
        self.history.append({**moment, "numbers": self._logged | {"bivshap/failed": 0.0}})
        rank_zero_info(f"bivshap: epoch {last_epoch(trainer)}, {self.summary()}{advice}")
        return None

    def _next_audit(self, trainer: Any) -> str:
        """When the next audit of a fit follows, in words; empty outside of one."""
        if not is_fitting(trainer) or not self._cost["epochs"]:
            return ""
        seconds, n_epochs = self._cost["seconds"], trainer.max_epochs
        n_left = math.inf if n_epochs is None or n_epochs < 0 else n_epochs - last_epoch(trainer) - 1
        comparison = self.runner.comparison_seconds
        return self.schedule.next_audit(seconds, comparison, seconds / self._cost["epochs"], n_left) if n_left else ""

    def _about(self, trainer: Any, stage: str) -> dict[str, Any]:
        return self.runner.about(trainer, stage)

    def summary(self) -> str:
        """What the last audit found and what it cost, in one line."""
        if self.result is None:
            raise RuntimeError("`summary` must be asked for after an audit, got none so far.")
        return summary_line(self.result, self.runner.resolved, self._cost)

    def record(self) -> AuditRecord:
        """The record of the last audit."""
        if self.result is None:
            raise RuntimeError("`record` must be asked for after an audit, got none so far.")
        return self.output.record(self.result, self.runner.resolved, self._run, self._cost)

    def _path_of_record(self, trainer: Any) -> Path | None:
        """Where the record goes: to the same folder on all processes, nowhere with `fast_dev_run`."""
        if trainer.fast_dev_run:
            return None
        name = "{stage}_epoch{epoch:04d}_step{step:07d}.json".format_map(self._run)
        return Path(trainer.strategy.broadcast(trainer.log_dir or trainer.default_root_dir)) / self.name / name
