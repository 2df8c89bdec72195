"""Confidence intervals of the reported numbers, without torch.

* :func:`wilson_interval` for a share of samples, such as an accuracy: it is wide for few samples even if all agree;
* :func:`normal_interval` for other numbers with a standard error;
* :func:`ratio_of_sums` gives a number that is a ratio of two sums over samples its standard error.

:mod:`bivshap_lightning.metrics.catalogue` says which number uses which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A number with its confidence bounds.

    Attributes:
        value: the number.
        lower: its lower bound; None if it is unknown.
        upper: its upper bound; None if it is unknown.

    Example:
        >>> Interval(0.5, 0.4, None).upper is None
        True
    """

    value: float
    lower: float | None
    upper: float | None


def wilson_interval(value: float, n: int, z: float) -> Interval:
    """Wilson's score interval of a share of samples.

    Args:
        value: the share, from 0 to 1.
        n: number of samples.
        z: quantile of the normal distribution.

    Example:
        >>> round(wilson_interval(1.0, 20, 1.645).lower, 3)
        0.881
    """
    centre = (value + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * math.sqrt(max(0.0, value * (1 - value)) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    # By definition the interval of 0 begins at 0 and that of 1 ends at 1, which rounding would miss.
    lower = max(0.0, centre - reach) if value > 0 else 0.0
    return Interval(value, lower, min(1.0, centre + reach) if value < 1 else 1.0)


def normal_interval(value: float, error: float, n: int, z: float, *, low: float, high: float) -> Interval:
    """The normal interval, cut to the range of the number; unknown for a single sample.

    Args:
        value: the number.
        error: its standard error.
        n: number of samples.
        z: quantile of the normal distribution.
        low: the smallest possible value.
        high: the largest possible value.

    Example:
        >>> normal_interval(0.9, 0.1, 10, 2.0, low=0.0, high=1.0)
        Interval(value=0.9, lower=0.7, upper=1.0)
        >>> normal_interval(0.9, 0.0, 1, 2.0, low=0.0, high=1.0)
        Interval(value=0.9, lower=None, upper=None)
    """
    if n < 2:
        return Interval(value, None, None)
    return Interval(value, max(low, value - z * error), min(high, value + z * error))


def ratio_of_sums(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """A sum over samples divided by another, and its linearised standard error.

    Args:
        parts: (numerator, denominator) of each sample.

    Returns:
        The ratio, where a denominator below 1 counts as 1, and its standard error.

    Example:
        >>> ratio_of_sums([(0.0, 1.0), (1.0, 1.0)])
        (0.5, 0.3535...)
    """
    n, whole = len(parts), max(1.0, sum(w for _, w in parts))
    ratio = sum(p for p, _ in parts) / whole
    spread = sum((p - ratio * w) ** 2 for p, w in parts) / n
    return ratio, math.sqrt(spread / n) / (whole / n)
