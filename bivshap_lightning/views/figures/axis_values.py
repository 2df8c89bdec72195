"""The numbers behind `draw_axis`: Shapley value, late importance and pair terms of a sample, a class or a change."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.graph import ExplanationGraph

Values = NDArray[np.float64]

CONFIDENCE_FACTOR = 1.96
"""Standard errors in half a 95 % interval."""

SPREAD = (10, 90)
"""Percentiles between which the whiskers of a class reach."""

NEGLIGIBLE = 0.01
"""Features below this share of the largest importance have no row of their own where there are too many for all."""

MIN_LISTED = 2

NOTICEABLE = 0.02
"""Pair terms below this share of the largest Shapley value are not shown."""


@dataclass(frozen=True)
class AxisValues:
    """What one picture shows, for F features.

    Attributes:
        names: F names.
        shapley: (F,) positions of the dots.
        late: (F,) positions of the rings, `2 R`.
        shapley_whiskers: (F, 2) lower and upper ends, or None.
        late_whiskers: (F, 2) lower and upper ends, or None.
        pairs: (F, F) symmetric pair terms C, negative where two features replace each other.
        pair_errors: (F, F) their standard errors, zero where they are exact.
        n_samples: Samples of a class, otherwise None.
        is_change: Whether all numbers are differences of two graphs.
    """

    names: tuple[str, ...]
    shapley: Values
    late: Values
    shapley_whiskers: Values | None
    late_whiskers: Values | None
    pairs: Values
    pair_errors: Values
    n_samples: int | None = None
    is_change: bool = False

    def order(self) -> list[int]:
        """Features from the most to the least important: by the size of the Shapley value, then of the ring."""
        return [int(k) for k in np.lexsort((-np.abs(self.late), -np.abs(self.shapley)))]

    def listed(self, max_rows: int) -> list[int]:
        """Features with a row of their own: all if they fit, otherwise the important ones, with a row left over."""
        order = self.order()
        if len(order) <= max_rows:
            return order
        sizes = np.maximum(np.abs(self.shapley), np.abs(self.late))[order[: max_rows - 1]]
        n_listed = int((sizes >= NEGLIGIBLE * sizes.max()).sum())
        return order[: max(n_listed, min(MIN_LISTED, max_rows - 1))]

    def strongest_pairs(self, features: Sequence[int], max_pairs: int) -> list[tuple[int, int, float]]:
        """Pairs of the given features with the largest noticeable pair terms, strongest first: (i, j, C).

        Terms that noise explains are left out; the strongest of many are looked for, so the interval is Bonferroni's.
        """
        first, second = (np.asarray(features)[rows] for rows in np.triu_indices(len(features), 1))
        terms = self.pairs[first, second]
        least = np.full(len(terms), NOTICEABLE * float(np.abs(self.shapley).max()))
        if len(terms):
            factor = NormalDist().inv_cdf(1 - 0.025 / len(terms))
            least = np.maximum(least, factor * self.pair_errors[first, second])
        strongest = [k for k in np.argsort(-np.abs(terms), kind="stable") if abs(terms[k]) > least[k]]
        return [(int(first[k]), int(second[k]), float(terms[k])) for k in strongest[:max_pairs]]


def values_of_sample(graph: ExplanationGraph) -> AxisValues:
    """Values of one sample, with 95 % intervals of what is estimated.

    Example:
        >>> graph = ExplanationGraph([[0, 0], [1 / 2, 0]], shapley=[3 / 2, 1 / 2])
        >>> values_of_sample(graph).late.round(3)
        array([1.333, 0.333])
    """
    shapley, late = _shapley(graph), 2 * graph.potential
    return AxisValues(
        graph.names,
        shapley,
        late,
        _interval(shapley, graph.shapley_standard_error),
        _interval(late, 2 * graph.potential_error),
        graph.sign * graph.pairwise,
        graph.pairwise_error,
    )


def values_of_class(graphs: Sequence[ExplanationGraph]) -> AxisValues:
    """Means of absolute values over the samples of a class, which do not cancel, and where most samples lie.

    Pair terms keep their sign, read so that the whole input has the larger value: in every sample a negative one
    means that two features replace each other.

    Example:
        >>> one = ExplanationGraph([[0, 0], [1 / 2, 0]], shapley=[3 / 2, 1 / 2])
        >>> other = ExplanationGraph([[0, 0], [-1 / 2, 0]], shapley=[-3 / 2, -1 / 2])
        >>> values_of_class([one, other]).shapley
        array([1.5, 0.5])
    """
    if len({graph.names for graph in graphs}) != 1:
        raise ValueError(
            f"`graphs` must hold at least one graph, all with the same names, got {len(graphs)} graphs with "
            f"{len({graph.names for graph in graphs})} sets of names. Leave it out to draw the mean graph alone."
        )
    shapley = np.abs([_shapley(graph) for graph in graphs])
    late = np.abs([2 * graph.potential for graph in graphs])
    whiskers: list[Values | None] = [None, None]
    if len(graphs) > 2:
        whiskers = [np.percentile(values, SPREAD, axis=0).T for values in (shapley, late)]
    return AxisValues(
        graphs[0].names,
        shapley.mean(axis=0),
        late.mean(axis=0),
        whiskers[0],
        whiskers[1],
        np.mean([graph.sign * graph.pairwise for graph in graphs], axis=0),
        # Errors of samples that share a design of coalitions do not average out.
        np.mean([graph.pairwise_error for graph in graphs], axis=0),
        n_samples=len(graphs),
    )


def values_of_change(before: ExplanationGraph, after: ExplanationGraph) -> AxisValues:
    """What has changed from one graph to another, such as between two epochs.

    Example:
        >>> before = ExplanationGraph([[0, 0], [1 / 2, 0]], shapley=[3 / 2, 1 / 2])
        >>> after = ExplanationGraph([[0, 0], [1, 0]], shapley=[2, 1 / 2])
        >>> values_of_change(before, after).shapley
        array([0.5, 0. ])
    """
    if before.names != after.names:
        raise ValueError(
            f"`before` must have the {after.n_players} players of `graph`, got {before.n_players} players or other "
            "names. Pass graphs of the same features."
        )
    shapley, late = _shapley(after) - _shapley(before), 2 * (after.potential - before.potential)
    return AxisValues(
        after.names,
        shapley,
        late,
        _interval(shapley, np.hypot(before.shapley_standard_error, after.shapley_standard_error)),
        _interval(late, 2 * np.hypot(before.potential_error, after.potential_error)),
        after.sign * after.pairwise - before.sign * before.pairwise,
        np.hypot(before.pairwise_error, after.pairwise_error),
        is_change=True,
    )


def _shapley(graph: ExplanationGraph) -> Values:
    if graph.shapley is None:
        raise ValueError(
            "`graph` must have Shapley values, got a graph without. Pass `shapley=` when you build the graph, or "
            "use `draw_graphs`."
        )
    return graph.shapley


def _interval(values: Values, errors: Values) -> Values | None:
    """(F, 2) ends of the 95 % intervals; None if all values are exact."""
    half = CONFIDENCE_FACTOR * errors
    return np.stack((values - half, values + half), axis=1) if half.any() else None
