"""`BivShapCallback`: audits a model while it is trained, and changes nothing about the training."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from bivshap_lightning.audit.audit import Audit, Findings, Part, Settings
from bivshap_lightning.audit.batches import Batch, Forward, has_interactions, understand
from bivshap_lightning.audit.selection import CHUNK, Chunk, Probe
from bivshap_lightning.callbacks.lightning import (
    EitherCallback,
    MisconfigurationException,
    any_process,
    gather_objects,
    is_fitting,
    is_sharded,
    logged_step,
    logging_disabled,
    rank_zero_info,
    rank_zero_warn,
    tensorboard_writers,
)
from bivshap_lightning.callbacks.output import Output, advice_on, summary_line
from bivshap_lightning.explainers.bivariate import Method
from bivshap_lightning.game.behavior import BehaviorName
from bivshap_lightning.game.model import global_rngs_kept

DEFAULT_BASELINES = ("kernel_shap", "shapley_sampling", "integrated_gradients", "feature_ablation")
ELSEWHERE = "the audit failed on another process, whose log says why"


class BivShapCallback(EitherCallback):
    """Explains a fixed set of validation samples after each validation epoch: graphs, metrics, panels, a record.

    Trained weights, optimizer state and all later random draws are the same with and without it. Logged, through
    Lightning's own `log` (so that any logger, `EarlyStopping` and `ModelCheckpoint` see them):

    * ``bivshap/posthoc_accuracy/<explainer>``, ``bivshap/insertion_auc/<explainer>``,
      ``bivshap/deletion_auc/<explainer>``, where the explainer is "ours" or the name of a baseline;
    * ``bivshap/redundancy/<quantity>``: "accuracy_with_representatives", "share_removable", "density" and everything
      else that the redundancy metrics report;
    * ``bivshap/estimate/standard_error``: mean over all edges, zero when exact;
    * ``bivshap/cost/seconds``, ``bivshap/cost/forwards`` (model rows), ``bivshap/cost/share_of_epoch``;
    * ``bivshap/failed``: 1 if the last audit failed.

    Args:
        every_n_epochs: audit after the validation of epochs 0, n, 2n, ...; in between the last values are logged again.
        probe_size: how many validation samples are explained, over all processes. Chosen once, by class in turn.
        budget: model rows per sample for our explanation; None for the paper's ``2 * (2 * F + 2048)``, or enumeration
            if that is cheaper.
        time_budget: seconds per audit; evaluations are cut down and baselines left out to meet it. The accuracy that
            was reached is ``bivshap/estimate/standard_error``.
        baselines: Captum methods to compare with, by name or instance.
        baseline_budget: model rows per sample for each of them, but at least four per player; None for Captum's
            habits, which can take long.
        method: as in :class:`~bivshap_lightning.BivariateShapley`.
        behavior: as there.
        target: None for the predicted class, "label" for the class in the data, or an index.
        replacement: what stands in for an absent player: None (zero), a number (for texts the id of a token), a tensor,
            ``Blur(3)`` or ``ChannelMean()`` for images, ``ZeroEmbedding()`` for texts.
        background: instead, rows over which values are averaged.
        feature_mask: integer player ids, or a maker of players: ``Grid(4)`` or ``Superpixels(50)`` for images,
            ``Tokens(tokenizer)`` for texts (pictures then show the sentence), ``Columns({"colour": "col_*"}, columns)``
            for tables, ``Segments(10)`` for series, or any function of the inputs. None: columns of tables, 8 x 8
            patches of images, steps of sequences, tokens that the batch's attention mask does not hide. Samples with
            fewer than two players, such as empty texts, are never chosen.
        feature_names: a name per player.
        class_names: a name per class.
        gamma: the largest weight that counts as redundant.
        seed: of the choice of samples and of the coalitions, which are the same in every epoch.
        input_fn: finds the inputs in a batch: returns them, or (inputs, labels).
        forward_fn: called as ``forward_fn(module, *inputs)`` instead of the module itself; returns scores (N, C).
        dataloader_idx: which of several validation dataloaders is explained.
        n_panel_samples: samples that get a picture, here and in the record, which also keeps one per class; 0 for none.
        n_panel_classes: classes that get pictures and tables.
        write_panels: draw pictures and tables, into TensorBoard or into files.
        write_record: write a record of each audit to ``<log_dir>/bivshap``.
        perturbations_per_eval: at most this many times the number of samples in one forward pass; None chooses.
        on_error: "warn" leaves training untouched and logs ``bivshap/failed``; "raise" raises on all processes.

    Attributes:
        findings: of the last audit.
        history: epoch, step and logged numbers of every audit.

    Example:
        >>> from pytorch_lightning import Trainer
        >>> trainer = Trainer(callbacks=[BivShapCallback(probe_size=8)], logger=False, accelerator="cpu")
    """

    def __init__(
        self,
        *,
        every_n_epochs: int = 1,
        probe_size: int = 16,
        budget: int | None = None,
        time_budget: float | None = None,
        baselines: Sequence[Any] = DEFAULT_BASELINES,
        baseline_budget: int | None = 256,
        method: Method = "auto",
        behavior: BehaviorName = "probability",
        link: Literal["auto", "softmax", "sigmoid", "identity"] = "auto",
        target: int | Literal["label"] | None = None,
        replacement: float | list[float] | Tensor | Callable[..., Any] | tuple[Any, ...] | None = None,
        background: Any = None,
        feature_mask: list[int] | Tensor | Callable[..., Any] | tuple[Any, ...] | None = None,
        feature_names: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
        gamma: float = 1e-5,
        seed: int = 0,
        input_fn: Callable[[Any], Any] | None = None,
        forward_fn: Callable[..., Any] | None = None,
        dataloader_idx: int = 0,
        n_panel_samples: int = 4,
        n_panel_classes: int = 10,
        write_panels: bool = True,
        write_record: bool = True,
        perturbations_per_eval: int | None = None,
        on_error: Literal["warn", "raise"] = "warn",
    ) -> None:
        super().__init__()
        for name, value in {"every_n_epochs": every_n_epochs, "probe_size": probe_size}.items():
            if value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}.")
        if time_budget is not None and time_budget <= 0:
            raise ValueError(f"`time_budget` must be a positive number of seconds, got {time_budget}.")
        if on_error not in ("warn", "raise"):
            raise ValueError(f"`on_error` must be 'warn' or 'raise', got {on_error!r}.")
        self.settings = Settings(
            method=method,
            behavior=behavior,
            link=link,
            target=target,
            budget=budget,
            gamma=gamma,
            seed=seed,
            baselines=tuple(baselines),
            baseline_budget=baseline_budget,
            replacement=torch.tensor(replacement) if isinstance(replacement, list) else replacement,
            background=background,
            feature_mask=torch.tensor(feature_mask) if isinstance(feature_mask, list) else feature_mask,
            perturbations_per_eval=perturbations_per_eval,
        )
        Audit(self.settings, torch.device("cpu"))  # refuses unknown baselines right away
        self.every_n_epochs, self.probe_size, self.time_budget = every_n_epochs, probe_size, time_budget
        self.feature_names, self.on_error, self.dataloader_idx = feature_names, on_error, dataloader_idx
        self.input_fn, self.forward_fn = input_fn, forward_fn
        self.output = Output(class_names, n_panel_samples, n_panel_classes, write_panels, write_record)
        self.findings: Findings | None = None
        self.history: list[dict[str, Any]] = []
        self._run: dict[str, Any] = {}
        self._cost: dict[str, float] = {}
        self._logged: dict[str, float] = {}
        self._probes: dict[str, Probe] = {}
        self._wanted: dict[str, list[str]] = {}
        self._batch_error: BaseException | None = None
        self._triggered = False
        self._epoch_start: float | None = None

    @property
    def failed(self) -> bool:
        """Whether the last audit failed."""
        return self._logged.get("bivshap/failed", 0.0) > 0

    def trigger(self) -> None:
        """Audit after the next validation epoch, whatever the schedule says."""
        self._triggered = True

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: which samples are explained, and the history."""
        keys = {stage: list(probe.keys) for stage, probe in self._probes.items() if probe.is_chosen}
        return {
            "probe_keys": {**self._wanted, **keys},
            "history": self.history,
            "logged": self._logged,
            "layouts": self.output.state_dict(),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take up the same samples and the history again."""
        self._wanted = {stage: list(keys) for stage, keys in state_dict["probe_keys"].items()}
        self.history, self._logged = list(state_dict["history"]), dict(state_dict["logged"])
        self.output.load_state_dict(state_dict["layouts"])
        self._probes = {}

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
        """Look at samples for the probe, until it is chosen."""
        self._offer(trainer, batch, dataloader_idx, "validate")

    def on_test_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Look at samples for the probe, until it is chosen."""
        self._offer(trainer, batch, dataloader_idx, "test")

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Audit if it is time to, and log."""
        due = self._triggered or not is_fitting(trainer) or trainer.current_epoch % self.every_n_epochs == 0
        if not trainer.sanity_checking:
            self._end_of_epoch(trainer, pl_module, "validate", due=due)

    def on_test_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Audit, and log."""
        self._end_of_epoch(trainer, pl_module, "test", due=True)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Say so if there was nothing to audit after."""
        if "bivshap/failed" not in self._logged:
            rank_zero_warn(
                "BivShapCallback audited nothing: no validation ran in epochs that `every_n_epochs` names (0, n, 2n, "
                f"...), got every_n_epochs={self.every_n_epochs} and check_val_every_n_epoch="
                f"{trainer.check_val_every_n_epoch}. Give the model a validation dataloader, or use every_n_epochs=1."
            )

    def _offer(self, trainer: Any, batch: Any, dataloader_idx: int, stage: str) -> None:
        if trainer.sanity_checking or dataloader_idx != self.dataloader_idx:
            return
        if stage not in self._probes:
            self._probes[stage] = self._new_probe(trainer, stage)
        if not self._probes[stage].is_chosen and self._batch_error is None:
            try:
                found = understand(batch, self.input_fn)
                self._probes[stage].offer(found, has_interactions(found, self.settings.feature_mask))
            except Exception as error:  # settled at the end of the epoch, together with all other processes
                self._batch_error = error

    def _new_probe(self, trainer: Any, stage: str) -> Probe:
        wanted = self._wanted.get(stage, ())
        return Probe(self.probe_size, self.settings.seed, trainer.global_rank, trainer.world_size, wanted)

    def _end_of_epoch(self, trainer: Any, pl_module: Any, stage: str, *, due: bool) -> None:
        if due:
            self._triggered = False
            start = time.perf_counter()
            error = self._audit(trainer, pl_module, stage, start)
            if error is None:
                error = self._publish(trainer, stage, start)
            self._logged["bivshap/failed"] = 0.0 if error is None else 1.0
            self._settle(trainer, error)
        for name, value in self._logged.items():
            # Equal on all processes; synchronised all the same, which keeps Lightning from advising to do so.
            pl_module.log(name, torch.tensor(value, device=pl_module.device), sync_dist=trainer.world_size > 1)

    def _audit(self, trainer: Any, pl_module: Any, stage: str, start: float) -> BaseException | None:
        """Run an audit. Returns the error if it failed, here or on any other process."""
        own, self._batch_error = self._batch_error, None
        if any_process(trainer, own):
            self._probes.pop(stage, None)
            return own or RuntimeError(ELSEWHERE)
        audit = Audit(self.settings, pl_module.device, self.feature_names)
        with torch.inference_mode(False), torch.no_grad(), global_rngs_kept([pl_module.device]):
            probe = self._chosen_probe(trainer, stage)
            if not probe.is_chosen:
                return MisconfigurationException(
                    f"`dataloader_idx` must name a dataloader that yields samples, got {self.dataloader_idx}, which "
                    "yielded none."
                )
            parts: list[Part] = []
            try:
                with logging_disabled(pl_module):
                    parts = self._explain(trainer, pl_module, audit, probe, start)
            except Exception as error:
                own = error
            if any_process(trainer, own):
                return own or RuntimeError(ELSEWHERE)
            everyone = [part for found in gather_objects(trainer, parts) for part in found]
            # With parameters spread over processes, all explained the same samples.
            self.findings = audit.findings(parts if is_sharded(trainer) else everyone)
        return None

    def _explain(self, trainer: Any, pl_module: Any, audit: Audit, probe: Probe, start: float) -> list[Part]:
        """The parts that this process has to find."""
        deadline = math.inf if self.time_budget is None else start + self.time_budget
        parts: list[Part] = []
        n_left = probe.n_mine
        for chunk in probe.chunks(pl_module.device):
            now = time.perf_counter()
            until = now + (deadline - now) * len(chunk.places) / n_left
            parts.append(self._explain_chunk(audit, self._forward(trainer, pl_module, chunk.batch), chunk, until))
            n_left -= len(chunk.places)
        return parts

    def _explain_chunk(self, audit: Audit, forward: Forward, chunk: Chunk, deadline: float) -> Part:
        return audit.explain(forward, chunk, deadline)

    def _chosen_probe(self, trainer: Any, stage: str) -> Probe:
        """The probe, chosen together with all other processes when this is the first audit of the stage."""
        probe = self._probes.setdefault(stage, self._new_probe(trainer, stage))
        if not probe.is_chosen:
            n_missing = probe.choose(
                lambda value: gather_objects(trainer, value),
                chunk_size=self._chunk_size(trainer),
                everywhere=is_sharded(trainer),
            )
            if n_missing:
                rank_zero_warn(
                    f"BivShapCallback did not find {n_missing} of its samples again and chose new ones: the validation "
                    "data changed since the checkpoint."
                )
        return probe

    def _chunk_size(self, trainer: Any) -> int:
        """Few enough samples that every process has some to explain while training waits."""
        return min(CHUNK, math.ceil(self.probe_size / int(trainer.world_size)))

    def _forward(self, trainer: Any, pl_module: Any, batch: Batch) -> Forward:
        module = trainer.strategy.model if is_sharded(trainer) else pl_module
        return Forward(module, batch, self.forward_fn, trainer.precision_plugin.forward_context)

    def _settle(self, trainer: Any, error: BaseException | None) -> None:
        """Raise on all processes or warn on one."""
        if error is None:
            return
        if self.on_error == "raise":
            raise error
        detail = "".join(traceback.format_exception_only(error)).strip()
        rank_zero_warn(
            f"BivShapCallback could not audit epoch {trainer.current_epoch}; training goes on.\n{detail}\n"
            "Pass on_error='raise' to stop here, or leave the callback out."
        )

    def _publish(self, trainer: Any, stage: str, start: float) -> BaseException | None:
        """Numbers for the log, then, on rank zero, panels, record and one line. Returns the error if that failed."""
        findings = cast(Findings, self.findings)
        self._logged |= {name: value for name, (value, _) in findings.numbers.items()}
        self._run = self._about(trainer, stage)
        path = self._record_path(trainer)
        self._cost = self._cost_of(findings, start)
        own: BaseException | None = None
        if trainer.is_global_zero and path is not None:
            try:
                self.output.write(findings, self.settings, self._run, self._cost, path, tensorboard_writers(trainer))
            except Exception as error:
                own = error
        if any_process(trainer, own):
            return own or RuntimeError(ELSEWHERE)
        self._cost = gather_objects(trainer, self._cost_of(findings, start))[0]
        self._logged |= {f"bivshap/cost/{name}": value for name, value in self._cost.items()}
        numbers = dict(self._logged) | {"bivshap/failed": 0.0}
        moment = {name: self._run[name] for name in ("epoch", "step", "stage")}
        advice = advice_on(self._cost, [past["numbers"] for past in self.history])
        self.history.append({**moment, "numbers": numbers})
        rank_zero_info(f"bivshap: epoch {trainer.current_epoch}, {self.summary()}{advice}")
        return None

    def _about(self, trainer: Any, stage: str) -> dict[str, Any]:
        """Which audit this is."""
        return {
            "stage": stage,
            "epoch": trainer.current_epoch,
            "step": logged_step(trainer),
            "world_size": trainer.world_size,
            "time_budget": self.time_budget,
            "probe_size": self.probe_size,
            "probe_keys": list(self._probes[stage].keys),
        }

    def summary(self) -> str:
        """What the last audit found and what it cost, in one line."""
        if self.findings is None:
            raise RuntimeError("`summary` must be asked for after an audit, got none so far.")
        return summary_line(self.findings, self.settings.gamma, self._cost)

    def record(self) -> dict[str, Any]:
        """What the record of the last audit says, without the arrays."""
        if self.findings is None:
            raise RuntimeError("`record` must be asked for after an audit, got none so far.")
        return self.output.fields(self.findings, self.settings, self._run, self._cost)

    def _cost_of(self, findings: Findings, start: float) -> dict[str, float]:
        seconds = time.perf_counter() - start
        epoch = start - self._epoch_start if self._epoch_start is not None else 0.0
        return {
            "seconds": seconds,
            "forwards": float(findings.n_forwards),
            "share_of_epoch": seconds / (epoch + seconds) if epoch + seconds > 0 else 1.0,
        }

    def _record_path(self, trainer: Any) -> Path | None:
        """Where the record goes: to the same folder on all processes, nowhere in a trial run."""
        if trainer.fast_dev_run:
            return None
        name = "{stage}_epoch{epoch:04d}_step{step:07d}.json".format_map(self._run)
        return Path(trainer.strategy.broadcast(trainer.log_dir or trainer.default_root_dir)) / "bivshap" / name
