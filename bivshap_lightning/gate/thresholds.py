"""The kinds of thresholds of a rule. A new kind is one entry of :data:`THRESHOLDS` and one field of `Rule`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from bivshap_lightning.metrics.intervals import Interval


def level(now: Interval, before: Interval | None) -> Interval | None:
    """The number itself.

    Example:
        >>> level(Interval(0.5, 0.4, 0.6), None).value
        0.5
    """
    return now


def absolute_change(now: Interval, before: Interval | None) -> Interval | None:
    """``now - before``.

    Example:
        >>> absolute_change(Interval(0.5, 0.5, 0.5), Interval(0.25, 0.25, 0.25))
        Interval(value=0.25, lower=0.25, upper=0.25)
    """
    return None if before is None else _change(now, before, scale=1.0)


def relative_change(now: Interval, before: Interval | None) -> Interval | None:
    """``(now - before) / |before|``; None if there is none, from 0 to another value.

    Example:
        >>> relative_change(Interval(0.5, 0.5, 0.5), Interval(0.25, 0.25, 0.25)).value
        1.0
    """
    if before is None or (before.value == 0 and now.value != 0):
        return None
    if before.value == 0:
        return Interval(0.0, None, None)
    return _change(now, before, scale=abs(before.value))


def _change(now: Interval, before: Interval, *, scale: float) -> Interval:
    """The difference of two independent estimates; too wide if both were made on the same samples.

    Each side joins the distances of both estimates to their own bounds (Newcombe's method), which for normal intervals
    is the usual one. Relative changes are measured in units of the previous value as it was recorded.
    """
    change = now.value - before.value
    lower = upper = None
    if now.lower is not None and before.upper is not None:
        lower = (change - math.hypot(now.value - now.lower, before.upper - before.value)) / scale
    if now.upper is not None and before.lower is not None:
        upper = (change + math.hypot(now.upper - now.value, before.value - before.lower)) / scale
    return Interval(change / scale, lower, upper)


@dataclass(frozen=True)
class Threshold:
    """One kind of threshold.

    Attributes:
        name: of the field of `Rule` that holds the value.
        at_least: whether the value is the smallest that passes; else it is the largest.
        compared: what is compared with it, from the number now and in the previous record.
        words: what the compared number is, for messages; empty for the number itself.
    """

    name: str
    at_least: bool
    compared: Callable[[Interval, Interval | None], Interval | None]
    words: str = ""

    @property
    def needs_previous(self) -> bool:
        """Whether it compares with a previous record."""
        return self.compared is not level


THRESHOLDS: dict[str, Threshold] = {
    threshold.name: threshold
    for threshold in (
        Threshold("min", True, level),
        Threshold("max", False, level),
        Threshold("min_absolute_change", True, absolute_change, "absolute change of "),
        Threshold("max_absolute_change", False, absolute_change, "absolute change of "),
        Threshold("min_relative_change", True, relative_change, "relative change of "),
        Threshold("max_relative_change", False, relative_change, "relative change of "),
    )
}
"""All kinds by name."""
