"""When the callback audits: every n epochs, or as often as a share of the run's time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bivshap_lightning.audit.results import AuditResult

DEFAULT_MAX_SHARE = 0.1


class AuditSchedule:
    """Decides after which validation epochs of a fit an audit runs, and measures the time that audits take.

    Without `every_n_epochs` the first validation is audited, and a later one if all that the callback does then takes
    no more than `max_share` of the run's time, the coming audit included and also the one at the end of fitting, were
    that an epoch later. Both are expected to take as long as the last one. The comparison with other explainers is a
    part of an audit that may be left out before the end; it is judged by the same rule.

    Args:
        every_n_epochs: audit epochs 0, n, 2n, ... whatever they cost; None to use `max_share`.
        max_share: of the time of the run, audits included.
        clock: seconds; replaced in tests.

    Attributes:
        audit_seconds: of all audits so far.
        other_seconds: of what the callback does beside audits: collecting samples, logging values again.

    Example:
        >>> now = 0.0
        >>> schedule = AuditSchedule(None, 0.1, clock=lambda: now)
        >>> schedule.start_run()
        >>> schedule.is_due(0)
        True
        >>> schedule.add(2.0)
        >>> now = 40.0  # 6 s for three audits are a tenth of 60 s
        >>> schedule.is_due(9)
        False
        >>> now = 53.0
        >>> schedule.is_due(9)
        True
    """

    def __init__(
        self,
        every_n_epochs: int | None = None,
        max_share: float = DEFAULT_MAX_SHARE,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if every_n_epochs is not None and every_n_epochs < 1:
            raise ValueError(f"`every_n_epochs` must be at least 1, got {every_n_epochs}.")
        if not 0 < max_share <= 1:
            raise ValueError(f"`max_share` must lie above 0 and up to 1, got {max_share}. Pass 0.1 for a tenth.")
        self.every_n_epochs, self.max_share = every_n_epochs, max_share
        self._clock = clock
        self._started: float | None = None
        self._earlier_seconds = 0.0
        self.audit_seconds = self.other_seconds = 0.0
        self.last_seconds: float | None = None
        self.comparison_seconds: float | None = None
        self._epoch_seconds = 0.0

    @property
    def run_seconds(self) -> float:
        """How long the run has taken so far, audits and earlier parts of a resumed run included."""
        return self._earlier_seconds + (0.0 if self._started is None else self._clock() - self._started)

    def start_run(self) -> None:
        """Start the clock of a fit; the time of a resumed run is added."""
        self._earlier_seconds, self._started = self.run_seconds, self._clock()

    def is_due(self, epoch: int) -> bool:
        """Whether the validation of an epoch is followed by an audit."""
        if self.every_n_epochs is not None:
            return epoch % self.every_n_epochs == 0
        self._epoch_seconds = max(0.0, self.run_seconds - self.audit_seconds - self.other_seconds) / (epoch + 1)
        if self.last_seconds is None:
            return True
        return self._is_affordable(self.last_seconds)

    def may_compare(self) -> bool:
        """Whether the coming audit may run other explainers as well."""
        if self.every_n_epochs is not None or self.last_seconds is None or self.comparison_seconds is None:
            return True
        return self._is_affordable(self.last_seconds + self.comparison_seconds)

    def _is_affordable(self, seconds: float) -> bool:
        both = seconds + (self.last_seconds or 0.0) + (self.comparison_seconds or 0.0)
        spent, whole = self.audit_seconds + self.other_seconds + both, self.run_seconds + both + self._epoch_seconds
        return spent <= self.max_share * whole

    def next_audit(self, seconds: float, comparison_seconds: float | None, epoch_seconds: float, n_left: float) -> str:
        """When an audit follows that costs as much as the one just made, in words; empty if that is every epoch.

        Args:
            seconds: of the audit just made, not yet added.
            comparison_seconds: of them, those of other explainers.
            epoch_seconds: of an epoch without audits.
            n_left: epochs that are still to come.

        Example:
            >>> AuditSchedule(clock=lambda: 0.0).next_audit(2.0, None, 1.0, 100)
            'the next audit follows in about 55 epochs, when it fits into `max_share`'
        """
        if self.every_n_epochs is not None or epoch_seconds <= 0:
            return ""
        both = 2 * seconds - (comparison_seconds or 0.0)  # the coming one, and the one at the end
        needed = (self.audit_seconds + self.other_seconds + seconds + both) / self.max_share - both - epoch_seconds
        n_epochs = (needed - self.run_seconds) / epoch_seconds
        if n_epochs <= 1:
            return ""
        if n_epochs > n_left:
            return "the next audit follows at the end of fitting, as none fits into `max_share` before"
        return f"the next audit follows in about {n_epochs:.0f} epochs, when it fits into `max_share`"

    def add(self, seconds: float, comparison_seconds: float | None = None) -> None:
        """Add the seconds of an audit.

        Args:
            seconds: in all.
            comparison_seconds: of them, those of other explainers; None if they did not run.
        """
        self.audit_seconds += seconds
        self.last_seconds = seconds - (comparison_seconds or 0.0)
        if comparison_seconds is not None:
            self.comparison_seconds = comparison_seconds

    @contextmanager
    def other_work(self) -> Iterator[None]:
        """Add the time of what is done within the context, without the audits in it."""
        start, audits = self._clock(), self.audit_seconds
        try:
            yield
        finally:
            self.other_seconds += self._clock() - start - (self.audit_seconds - audits)

    def state_dict(self) -> dict[str, Any]:
        """The measured times, for a checkpoint."""
        return {
            "run_seconds": self.run_seconds,
            "audit_seconds": self.audit_seconds,
            "other_seconds": self.other_seconds,
            "last_seconds": self.last_seconds,
            "comparison_seconds": self.comparison_seconds,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the measured times of a checkpoint."""
        self._earlier_seconds, self._started = state["run_seconds"], self._started and self._clock()
        self.audit_seconds, self.other_seconds = state["audit_seconds"], state["other_seconds"]
        self.last_seconds = state["last_seconds"]
        self.comparison_seconds = state["comparison_seconds"]


def cost_of(result: AuditResult, start: float, epoch_start: float | None) -> dict[str, float]:
    """What an audit has cost so far: seconds, model rows, and time as a multiple of the epoch without the audit.

    Args:
        result: of the audit.
        start: of the audit, by :func:`time.perf_counter`.
        epoch_start: of the epoch that it followed, if known.
    """
    seconds = time.perf_counter() - start
    epoch = 0.0 if epoch_start is None else start - epoch_start
    return {
        "seconds": seconds,
        "forwards": float(result.n_forwards),
        "epochs": seconds / epoch if epoch > 0 else 0.0,
    }
