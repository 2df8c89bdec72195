"""Mean graphs of several samples: over the same players, or over players of the same name, such as words of texts.

Weights are signed means. The means of absolute values, which do not cancel where samples have opposite signs, are in
`ExplanationGraph.absolute` and decide redundancy, roles and rankings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bivshap_lightning.graph.batched import IndexArray
from bivshap_lightning.graph.checks import FloatArray
from bivshap_lightning.graph.explanation_graph import ExplanationGraph
from bivshap_lightning.graph.naming import names_without_repeat_number, positions_by_name

MAX_NAMES_OF_CLASS = 64
"""Words in the mean graph of a class of texts: more than a figure shows, few enough for a record."""

_NO_GRAPHS = "`graphs` must hold at least one graph, got none. Check how the subgroup is chosen."


def mean_of_class(graphs: Sequence[ExplanationGraph]) -> ExplanationGraph:
    """Return the mean graph of a class: over the same players or, for texts, over their most important words.

    Example:
        >>> mean_of_class([ExplanationGraph([[0, 1], [2, 0]], names=["a", "b"])] * 2).provenance
        {'n_graphs': 2}
    """
    if len({graph.names for graph in graphs}) == 1:
        return mean_of_same_players(graphs)
    return mean_by_name(graphs, max_players=MAX_NAMES_OF_CLASS)


def mean_of_same_players(graphs: Iterable[ExplanationGraph]) -> ExplanationGraph:
    """Return the mean graph over the same players; see :meth:`ExplanationGraph.mean`.

    Example:
        >>> mean_of_same_players([ExplanationGraph([[0, 1], [2, 0]])] * 3).provenance
        {'n_graphs': 3}
    """
    # One at a time: 500 graphs of 1,077 players do not fit into memory twice.
    iterator = iter(graphs)
    first = next(iterator, None)
    if first is None:
        raise ValueError(_NO_GRAPHS)
    sums = _Sums(first)
    for position, graph in enumerate(iterator, start=1):
        _check_same_players(first, graph, position)
        sums.add(graph)
    return sums.mean()


class _Sums:
    """Sums over graphs of the same players."""

    def __init__(self, first: ExplanationGraph) -> None:
        self.names, self.provenance, self.n_graphs = first.names, dict(first.provenance), 0
        self.weights, self.errors, self.absolute = np.zeros((3, first.n_players, first.n_players))
        self.shapley, self.shapley_errors, self.absolute_shapley = np.zeros((3, first.n_players))
        self.has_shapley, self.scale = first.shapley is not None, 0.0
        self.pairwise_errors = None if first.pairwise_standard_error is None else np.zeros_like(first.weights)
        self.log_odds = None if first.log_odds is None else _Sums(first.log_odds)
        self.add(first)

    def add(self, graph: ExplanationGraph) -> None:
        magnitudes = graph if graph.absolute is None else graph.absolute
        self.weights += graph.weights
        self.absolute += np.abs(magnitudes.weights)
        self.errors += graph.standard_error
        if graph.pairwise_standard_error is None:
            self.pairwise_errors = None
        elif self.pairwise_errors is not None:
            self.pairwise_errors += graph.pairwise_standard_error
        if graph.shapley is not None:
            self.shapley += graph.shapley
            self.scale += graph.scale
            self.absolute_shapley += np.abs(magnitudes.known_shapley)
            self.shapley_errors += graph.shapley_standard_error
        if self.log_odds is not None and self.n_graphs:  # the first one is in the sum already
            self.log_odds = None if graph.log_odds is None else self.log_odds.plus(graph.log_odds)
        self.provenance = _common_entries(self.provenance, graph)
        self.n_graphs += 1

    def plus(self, graph: ExplanationGraph) -> _Sums:
        self.add(graph)
        return self

    def mean(self) -> ExplanationGraph:
        def share(total: FloatArray) -> FloatArray | None:
            return total / self.n_graphs if self.has_shapley else None

        errors: dict[str, Any] = {
            "standard_error": self.errors / self.n_graphs,
            "shapley_standard_error": share(self.shapley_errors),
            "pairwise_standard_error": None if self.pairwise_errors is None else self.pairwise_errors / self.n_graphs,
        }
        absolute = ExplanationGraph(
            self.absolute / self.n_graphs, names=self.names, shapley=share(self.absolute_shapley), **errors
        )
        return ExplanationGraph(
            self.weights / self.n_graphs,
            names=self.names,
            shapley=share(self.shapley),
            **errors,
            provenance={**self.provenance, "n_graphs": self.n_graphs},
            scale=self.scale / self.n_graphs if self.has_shapley else None,
            log_odds=None if self.log_odds is None else self.log_odds.mean(),
            absolute=absolute,
        )


def mean_by_name(
    graphs: Sequence[ExplanationGraph], labels: Sequence[Sequence[str]] | None = None, *, max_players: int | None = None
) -> ExplanationGraph:
    """Return the mean graph of samples with different players: one node per name, such as a word of several texts.

    A weight is the mean over all pairs of players that carry the two names in one graph. Where no graph has both, it
    is the mean weight of the second name over the pairs that exist, with a standard error as large as the largest
    weight of all: a redundancy graph then leaves the edge undecided instead of calling it redundant.

    Args:
        graphs: At least one, all with Shapley values or none.
        labels: For each graph a name for each of its players; by default their own names without the number that tells
            a repeated word from the first one, as in "the (2)".
        max_players: Keep only this many names, those of the largest Shapley values summed over all graphs (of the
            most frequent names where there are none).

    Returns:
        A graph whose provenance holds `n_graphs` and the entries on which all agree.

    Example:
        >>> a = ExplanationGraph([[0, 0.1], [0.4, 0]], names=["worst", "film"])
        >>> b = ExplanationGraph([[0, 0.3], [0.2, 0]], names=["worst", "plot"])
        >>> mean = mean_by_name([a, b])
        >>> mean.names
        ('worst', 'film', 'plot')
        >>> mean.weights.round(2).tolist()  # no text has both film and plot: their weights given "worst" are used
        [[0.0, 0.1, 0.3], [0.4, 0.0, 0.3], [0.2, 0.1, 0.0]]
        >>> mean.redundancy(0.1).undecided[1, 2]
        np.True_
    """
    if not graphs:
        raise ValueError(_NO_GRAPHS)
    if len({graph.shapley is not None for graph in graphs}) > 1:
        raise ValueError("`graphs` must all have Shapley values or none, got some with and some without.")
    given = [names_without_repeat_number(graph.names) for graph in graphs] if labels is None else labels
    if [len(words) for words in given] != [graph.n_players for graph in graphs]:
        raise ValueError("`labels` must have a name for each player of each graph, got other numbers of names.")
    importance = [np.ones(g.n_players) if g.shapley is None else np.abs(g.shapley) for g in graphs]
    names, positions = positions_by_name(given, importance, max_players)
    sums = _SumsByName(len(names))
    for graph, position in zip(graphs, positions, strict=True):
        sums.add(graph, position)
    provenance = dict(graphs[0].provenance)
    for graph in graphs:
        provenance = _common_entries(provenance, graph)
    scale = None if graphs[0].shapley is None else sum(graph.scale for graph in graphs) / len(graphs)
    return sums.mean(names, {**provenance, "n_graphs": len(graphs)}, scale)


class _SumsByName:
    """Sums over pairs of players that carry the same two names."""

    def __init__(self, n_names: int) -> None:
        self.weights, self.absolute, self.errors, self.n_pairs = np.zeros((4, n_names, n_names))
        self.shapley, self.absolute_shapley, self.shapley_errors, self.n_players = np.zeros((4, n_names))
        self.largest = 0.0

    def add(self, graph: ExplanationGraph, position: IndexArray) -> None:
        kept = np.flatnonzero(position >= 0)
        place, chosen = position[kept], np.ix_(kept, kept)
        pairs = place[:, None], place[None, :]
        magnitudes = graph if graph.absolute is None else graph.absolute
        np.add.at(self.weights, pairs, graph.weights[chosen])
        np.add.at(self.absolute, pairs, np.abs(magnitudes.weights[chosen]))
        np.add.at(self.errors, pairs, graph.standard_error[chosen])
        np.add.at(self.n_pairs, pairs, 1.0 - np.eye(len(kept)))
        np.add.at(self.n_players, place, 1.0)
        if graph.shapley is not None:
            np.add.at(self.shapley, place, graph.shapley[kept])
            np.add.at(self.absolute_shapley, place, np.abs(magnitudes.known_shapley[kept]))
            np.add.at(self.shapley_errors, place, graph.shapley_standard_error[kept])
        self.largest = max(self.largest, float(np.abs(graph.weights).max()))

    def mean(self, names: Sequence[str], provenance: dict[str, Any], scale: float | None) -> ExplanationGraph:
        has_shapley = scale is not None
        for matrix in (self.weights, self.absolute, self.errors, self.n_pairs):
            np.fill_diagonal(matrix, 0)  # leaves out what occurrences of one word do to each other
        errors: dict[str, Any] = {
            "standard_error": self._filled(self.errors, self.largest),
            "shapley_standard_error": self.shapley_errors / self.n_players if has_shapley else None,
        }
        absolute = ExplanationGraph(
            self._filled(self.absolute),
            names=names,
            shapley=self.absolute_shapley / self.n_players if has_shapley else None,
            **errors,
        )
        return ExplanationGraph(
            self._filled(self.weights),
            names=names,
            shapley=self.shapley / self.n_players if has_shapley else None,
            **errors,
            provenance=provenance,
            absolute=absolute,
            scale=scale,
        )

    def _filled(self, total: FloatArray, unknown: float | None = None) -> FloatArray:
        """Return means over pairs; where there are none, the given number or the mean of the column."""
        has_pairs = self.n_pairs > 0
        mean = np.divide(total, self.n_pairs, out=np.zeros_like(total), where=has_pairs)
        column = mean.sum(axis=0) / np.maximum(has_pairs.sum(axis=0), 1)
        is_unknown = ~has_pairs
        np.fill_diagonal(is_unknown, False)
        return np.where(is_unknown, column if unknown is None else unknown, mean)


def _common_entries(provenance: dict[str, Any], graph: ExplanationGraph) -> dict[str, Any]:
    other = graph.provenance
    return {key: value for key, value in provenance.items() if key in other and other[key] == value}


def _check_same_players(first: ExplanationGraph, other: ExplanationGraph, position: int) -> None:
    if other.names != first.names:
        raise ValueError(
            f"`graphs` must have the same names, got others in graph {position} than in graph 0. "
            "Average only samples that share their players."
        )
    if (other.shapley is None) != (first.shapley is None):
        raise ValueError(
            f"`graphs` must have Shapley values in all or in none, got both in graphs 0 and {position}. "
            "Build all of them from explanations of the same method."
        )
