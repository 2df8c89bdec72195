"""Numbers of graphs and samples with confidence intervals.

Where an interval comes from, by number:

* accuracies and shares of samples: Wilson's score interval over the samples, which is honest when all agree;
* other numbers with a standard error: the normal interval, cut to the possible range;
* numbers that follow from the samples: the same, with the standard error over those samples;
* numbers of a class graph: what the edges that its noise leaves open could change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PREFIX = "bivshap/redundancy/"
PROPORTION = re.compile(rf"{PREFIX}(\w+_accuracy|accuracy_with_representatives|share_without_direction)")
UNIT_RANGE = re.compile(rf"{PREFIX}(density|\w*share\w*|\w*accuracy\w*)|bivshap/posthoc_accuracy/.*")


@dataclass(frozen=True)
class Interval:
    """A number and what it may really be; None where nothing is known.

    Example:
        >>> Interval(0.5, 0.4, None).upper is None
        True
    """

    value: float
    lower: float | None
    upper: float | None


@dataclass(frozen=True)
class Graph:
    """What a record says of one graph; of a sample's also the scores that metrics gave it, by metric."""

    name: str
    class_name: str
    n_players: int
    groups: tuple[tuple[str, ...], ...]
    n_sources: int
    n_sinks: int
    density: float
    n_undecided: int
    scores: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[str, Any], name: str, class_name: str) -> Graph:
        """The graph that valid fields of a record describe."""
        return cls(
            name=name,
            class_name=class_name,
            n_players=len(fields["players"]),
            groups=tuple(map(tuple, fields["groups"])),
            n_sources=len(fields["sources"]),
            n_sinks=len(fields["sinks"]),
            density=float(fields["density"]),
            n_undecided=fields["n_undecided"],
            scores={n: float(v) for n, v in fields.get("scores", {}).items()},
        )

    @property
    def n_grouped(self) -> int:
        """Players in groups."""
        return sum(map(len, self.groups))

    @property
    def n_removable(self) -> int:
        """Players that go when each group keeps one representative."""
        return self.n_grouped - len(self.groups)

    @property
    def n_pairs(self) -> int:
        """Ordered pairs of players."""
        return self.n_players * (self.n_players - 1)


# Numbers that are sums over samples divided by sums over samples: (part, whole) of one sample.
RATIOS: dict[str, Callable[[Graph], tuple[float, float]]] = {
    f"{PREFIX}density": lambda g: (g.density, 1),
    f"{PREFIX}n_independent": lambda g: (g.n_players - g.n_removable, 1),
    f"{PREFIX}share_removable": lambda g: (g.n_removable, g.n_players),
    f"{PREFIX}groups_per_sample": lambda g: (len(g.groups), 1),
    f"{PREFIX}group_size": lambda g: (g.n_grouped, len(g.groups)),
    f"{PREFIX}share_grouped": lambda g: (g.n_grouped, g.n_players),
    f"{PREFIX}share_undecided": lambda g: (g.n_undecided, g.n_pairs),
    f"{PREFIX}mask_sinks_share_masked": lambda g: (g.n_sinks, g.n_players),
    f"{PREFIX}mask_sources_share_masked": lambda g: (g.n_sources, g.n_players),
    f"{PREFIX}keep_only_sinks_share_masked": lambda g: ((g.n_players - g.n_sinks) * bool(g.n_sinks), g.n_players),
    f"{PREFIX}keep_only_sources_share_masked": lambda g: ((g.n_players - g.n_sources) * bool(g.n_sources), g.n_players),
    f"{PREFIX}share_without_direction": lambda g: (not g.n_sources + g.n_sinks, 1),
}


def _density(g: Graph) -> Interval:
    return Interval(g.density, g.density, min(1.0, g.density + g.n_undecided / max(1, g.n_pairs)))


def _n_independent(g: Graph) -> Interval:
    # An edge that turns out redundant can only merge components, in the extreme all of them.
    n = g.n_players - g.n_removable
    return Interval(n, 1 if g.n_undecided else n, n)


def _share_removable(g: Graph) -> Interval:
    share = g.n_removable / g.n_players
    return Interval(share, share, (g.n_players - 1) / g.n_players if g.n_undecided else share)


# Numbers of a class graph. Edges that noise leaves open count as not redundant; the intervals say what if they are.
CLASS_NUMBERS: dict[str, Callable[[Graph], Interval]] = {
    "density": _density,
    "n_undecided": lambda g: Interval(g.n_undecided, g.n_undecided, g.n_undecided),
    "n_independent": _n_independent,
    "share_removable": _share_removable,
}


def parts_of(metric: str, sample: Graph) -> tuple[float, float] | None:
    """What a sample adds to a number that is a ratio of sums over samples; None if it is not known.

    Example:
        >>> sample = Graph("sample 0", "cat", 4, (("a", "b"),), 0, 0, 0.2, 0, {"mine": 0.5})
        >>> parts_of("bivshap/redundancy/share_removable", sample), parts_of("mine", sample), parts_of("?", sample)
        ((1, 4), (0.5, 1), None)
    """
    if metric in RATIOS:
        return RATIOS[metric](sample)
    return (sample.scores[metric], 1) if metric in sample.scores else None


def estimate(metric: str, samples: Sequence[Graph]) -> tuple[float, float] | None:
    """A number over samples and its standard error; None if some sample does not tell.

    Example:
        >>> samples = [Graph("sample", "cat", 2, (), 0, 0, density, 0) for density in (0.0, 1.0)]
        >>> estimate("bivshap/redundancy/density", samples)
        (0.5, 0.3535...)
    """
    parts = [p for p in (parts_of(metric, g) for g in samples) if p is not None]
    if len(parts) < len(samples) or not parts:
        return None
    # Sum of parts over sum of wholes, and its linearised standard error over samples.
    n, whole = len(parts), max(1.0, sum(w for _, w in parts))
    ratio = sum(p for p, _ in parts) / whole
    spread = sum((p - ratio * w) ** 2 for p, w in parts) / n
    return ratio, math.sqrt(spread / n) / (whole / n)


def class_metrics(samples: Sequence[Graph]) -> dict[str, dict[str, Any]]:
    """Every number that the samples tell, by class: the part of a record that is for readers.

    Args:
        samples: of all classes.

    Example:
        >>> cats = [Graph(f"sample {k}", "cat", 2, (), 0, 0, 0.0, 0, {"mine": k}) for k in range(2)]
        >>> found = class_metrics(cats)["cat"]
        >>> found["n_samples"], found["metrics"]["mine"]
        (2, {'value': 0.5, 'standard_error': 0.3535...})
    """
    members: dict[str, list[Graph]] = {}
    for sample in samples:
        members.setdefault(sample.class_name, []).append(sample)
    found = {}
    for name, graphs in members.items():
        numbers = {metric: estimate(metric, graphs) for metric in (*graphs[0].scores, *RATIOS)}
        metrics = {m: {"value": n[0], "standard_error": n[1]} for m, n in numbers.items() if n is not None}
        found[name] = {"n_samples": len(graphs), "metrics": metrics}
    return found


def interval(metric: str, value: float, error: float, n: int, z: float) -> Interval:
    """The interval of a number over samples.

    Wilson's for shares of samples, else the normal one; unknown for a single sample, the value itself for a number
    about the estimate.

    Args:
        metric: its name.
        value: the number.
        error: its standard error.
        n: over how many samples.
        z: quantile of the normal distribution.

    Example:
        >>> interval("bivshap/insertion_auc/ours", 0.5, 0.1, 10, 2.0)
        Interval(value=0.5, lower=0.3, upper=0.7)
    """
    if metric.startswith("bivshap/estimate/"):
        return Interval(value, value, value)
    if PROPORTION.fullmatch(metric) or (metric.startswith("bivshap/posthoc_accuracy/") and error == 0):
        centre = (value + z * z / (2 * n)) / (1 + z * z / n)
        reach = z * math.sqrt(max(0.0, value * (1 - value)) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
        # By definition the interval of 0 begins at 0 and that of 1 ends at 1, which rounding would miss.
        lower = max(0.0, centre - reach) if value > 0 else 0.0
        return Interval(value, lower, min(1.0, centre + reach) if value < 1 else 1.0)
    if n < 2:
        return Interval(value, None, None)
    lower, upper = value - z * error, value + z * error
    if UNIT_RANGE.fullmatch(metric):
        lower, upper = max(0.0, lower), min(1.0, upper)
    return Interval(value, lower, upper)
