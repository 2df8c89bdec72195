"""`RedundancyGate`: the rules of the release gate, judged in the training loop after every audit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import torch

from bivshap_lightning.audit.audit import AuditResult
from bivshap_lightning.audit.record import AuditRecord, as_record
from bivshap_lightning.callbacks.bivshap import BivShapCallback
from bivshap_lightning.callbacks.lightning import (
    EitherCallback,
    MisconfigurationException,
    gather_objects,
    last_epoch,
    logged_step,
    rank_zero_warn,
    tensorboard_writers,
)
from bivshap_lightning.gate import GateError, RecordError, Rule, Verdict, judge
from bivshap_lightning.gate.rules_file import as_gate
from bivshap_lightning.gate.verdict_file import save_verdict
from bivshap_lightning.metrics.catalogue import find_number
from bivshap_lightning.views.tensorboard.summaries import describe_scalars

TAG = "bivshap/gate/passed"


class RedundancyGate(EitherCallback):
    """Judges each audit of :class:`BivShapCallback` by the same rules as `bivshap gate`, and logs the verdict.

    Logged as ``bivshap/gate/passed``, 1 or 0, so that `ModelCheckpoint` and `EarlyStopping` can monitor it. In epochs
    without an audit the last verdict is logged again. An audit that failed, or that lacks a number of the rules, does
    not pass. An audit at the end of fitting is judged there. Verdicts are kept in the folder `verdicts` beside the
    records, and TensorBoard's tab shows them.

    Args:
        rules: the path of a rules file, or rules.
        on_fail: "log" only logs and warns; "stop" ends training after this epoch, "raise" at once, on all processes.
        against: the record of the previous model, or its path; rules about changes need it.

    Attributes:
        verdict: the last one, None before the first audit; a checkpoint keeps it.
        reason: why it did not pass, by rule; empty if it did.

    Example:
        >>> from pytorch_lightning import Trainer
        >>> from bivshap_lightning.gate import Rule
        >>> gate = RedundancyGate([Rule(metric="bivshap/redundancy/accuracy_with_representatives", min=0.8)])
        >>> trainer = Trainer(callbacks=[BivShapCallback(), gate], logger=False, accelerator="cpu")
    """

    def __init__(
        self,
        rules: str | os.PathLike[str] | Sequence[Rule],
        *,
        on_fail: Literal["log", "stop", "raise"] = "log",
        against: AuditRecord | str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        if on_fail not in ("log", "stop", "raise"):
            raise ValueError(f"`on_fail` must be 'log', 'stop' or 'raise', got {on_fail!r}.")
        self._gate, self.on_fail = as_gate(rules), on_fail
        self.rules = self._gate.rules
        # Read now: other processes may have another file system, and a missing file is found before training.
        self.against = None if against is None else as_record(against)
        has_reference = self._gate.reference is not None
        changes = [r.name for r in self.rules if r.needs_previous and not (r.is_record_drift and has_reference)]
        if changes and self.against is None:
            raise ValueError(f"`against` must be a previous record for rules about changes, got None for {changes}.")
        self.verdict: Verdict | None = None
        self._judged: AuditResult | None = None
        self._described: set[str] = set()

    @property
    def reason(self) -> str:
        """Why the last verdict is not a pass; empty if it is."""
        return "" if self.verdict is None else self.verdict.reason

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: the last verdict."""
        return {"verdict": None if self.verdict is None else self.verdict.to_json()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the last verdict."""
        text = state_dict["verdict"]
        self.verdict = None if text is None else Verdict.from_json(text)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Refuse a Trainer without BivShapCallback, or with it after the gate."""
        audits = [k for k, callback in enumerate(trainer.callbacks) if isinstance(callback, BivShapCallback)]
        if len(audits) != 1:
            raise MisconfigurationException(
                f"RedundancyGate must find one BivShapCallback among the Trainer's callbacks, got {len(audits)}. "
                "Pass Trainer(callbacks=[BivShapCallback(), RedundancyGate(...)])."
            )
        if audits[0] > trainer.callbacks.index(self):
            raise MisconfigurationException(
                "RedundancyGate must come after BivShapCallback, got it before: it would judge the audit of an earlier "
                "epoch. Swap the two in Trainer(callbacks=[...])."
            )

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Judge the audit of this epoch, if there was one, and log."""
        if not trainer.sanity_checking:
            self._end_of_epoch(trainer, pl_module)

    def on_test_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Judge the audit, and log."""
        self._end_of_epoch(trainer, pl_module)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Judge an audit that was made at the end of fitting, and log."""
        verdict = self._judge(trainer, only_new=True)
        if verdict is not None:
            self._describe(trainer)
            for logger in trainer.loggers:
                logger.log_metrics({TAG: float(verdict.passed)}, step=logged_step(trainer))
            self._apply(trainer, verdict)

    def _end_of_epoch(self, trainer: Any, pl_module: Any) -> None:
        verdict = self._judge(trainer)
        value = torch.tensor(float(self._passed), device=pl_module.device)
        self._describe(trainer)
        pl_module.log(TAG, value, sync_dist=trainer.world_size > 1)
        if verdict is not None:
            self._apply(trainer, verdict)

    def _describe(self, trainer: Any) -> None:
        """Explain the number in TensorBoard, before it is logged for the first time."""
        entry = find_number(TAG)
        for writer in tensorboard_writers(trainer):
            if entry is not None and writer.log_dir not in self._described:
                describe_scalars(writer, {TAG: entry.description})
                self._described.add(writer.log_dir)

    @property
    def _passed(self) -> bool:
        return self.verdict is not None and self.verdict.passed

    def _judge(self, trainer: Any, *, only_new: bool = False) -> Verdict | None:
        """A new verdict, the same on all processes; None if there is nothing new to judge."""
        audit = next(c for c in trainer.callbacks if isinstance(c, BivShapCallback))
        verdict = None if only_new and audit.result is self._judged else self._new_verdict(trainer, audit)
        # Results are equal on all processes; all take the verdict of rank zero.
        verdict = cast("Verdict | None", gather_objects(trainer, verdict)[0])
        if verdict is not None:
            self.verdict = verdict
            self._keep(trainer, audit, verdict)
        return verdict

    def _keep(self, trainer: Any, audit: BivShapCallback, verdict: Verdict) -> None:
        """Write the verdict beside the record that it is about, if there is one."""
        path = audit.record_path
        if not trainer.is_global_zero or path is None or verdict.error is not None:
            return
        try:
            save_verdict(verdict, path)
        except OSError as error:
            rank_zero_warn(f"RedundancyGate could not keep its verdict beside {path.name} ({error.strerror}).")

    def _new_verdict(self, trainer: Any, audit: BivShapCallback) -> Verdict | None:
        """The verdict over an audit of this epoch; None if none was due."""
        if audit.failed:
            return Verdict(error=f"the audit of epoch {last_epoch(trainer)} failed, so there is no record")
        if audit.result is None:
            return None if self.verdict else Verdict(error="there has been no audit yet, so there is no record")
        if audit.result is self._judged:
            return None
        self._judged = audit.result
        try:
            return judge(audit.record(), self._gate, self.against)
        except (GateError, RecordError) as error:
            return Verdict(error=str(error))

    def _apply(self, trainer: Any, verdict: Verdict) -> None:
        """Act on a verdict that is no pass."""
        if verdict.passed:
            return
        message = f"RedundancyGate, epoch {last_epoch(trainer)}: {verdict.to_text()}"
        if self.on_fail == "raise":
            raise RuntimeError(message)
        if self.on_fail == "stop":
            trainer.should_stop = True
        rank_zero_warn(message)
