"""Mean graphs: over the same players, or over different ones that go by the same names, such as the words of texts."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.graph.explanation_graph import ExplanationGraph

_AGAIN = re.compile(r" \(\d+\)$")
# Words in the mean graph of a class of texts: more than a picture shows, few enough for a record.
NAMES_OF_A_CLASS = 64


def mean_of_class(graphs: Sequence[ExplanationGraph]) -> ExplanationGraph:
    """The mean graph of a class: over the same players, or, for texts, over their most important words.

    Example:
        >>> mean_of_class([ExplanationGraph([[0, 1], [2, 0]], names=["a", "b"])] * 2).provenance
        {'n_graphs': 2}
    """
    if len({graph.names for graph in graphs}) == 1:
        return mean_of_same_players(graphs)
    return mean_by_name(graphs, max_players=NAMES_OF_A_CLASS)


def mean_of_same_players(graphs: Iterable[ExplanationGraph]) -> ExplanationGraph:
    """What :meth:`ExplanationGraph.mean` returns.

    Example:
        >>> mean_of_same_players([ExplanationGraph([[0, 1], [2, 0]])] * 3).provenance
        {'n_graphs': 3}
    """
    # One at a time: a class of 500 graphs of 1,077 players would not fit into memory twice.
    iterator = iter(graphs)
    first = next(iterator, None)
    if first is None:
        raise ValueError("`graphs` must hold at least one graph, got none. Check how the subgroup is chosen.")
    weights, errors = first.weights.copy(), first.standard_error.copy()
    shapley = None if first.shapley is None else first.shapley.copy()
    provenance, n_graphs = dict(first.provenance), 1
    for graph in iterator:
        _check_same_players(first, graph, n_graphs)
        weights += graph.weights
        errors += graph.standard_error
        if shapley is not None and graph.shapley is not None:
            shapley += graph.shapley
        provenance = {k: v for k, v in provenance.items() if k in graph.provenance and graph.provenance[k] == v}
        n_graphs += 1
    return ExplanationGraph(
        weights / n_graphs,
        names=first.names,
        shapley=None if shapley is None else shapley / n_graphs,
        standard_error=errors / n_graphs,
        provenance={**provenance, "n_graphs": n_graphs},
    )


def mean_by_name(
    graphs: Sequence[ExplanationGraph], labels: Sequence[Sequence[str]] | None = None, *, max_players: int | None = None
) -> ExplanationGraph:
    """The mean graph of samples with different players: one node per name, such as a word of several texts.

    A weight is the mean over all pairs of players that carry the two names in one graph. Where no graph has both, it
    is the mean weight of the second given anything else, with a standard error as large as the largest weight of all:
    a redundancy graph then leaves the edge undecided instead of calling it redundant.

    Args:
        graphs: at least one, all with Shapley values or none.
        labels: for each graph a name for each of its players; by default their own names without the number that tells
            a repeated word from the first one, as in "the (2)".
        max_players: keep only this many names, those of the largest Shapley values summed over all graphs (of the
            commonest names where there are none).

    Returns:
        A graph whose provenance holds `n_graphs` and the entries on which all agree.

    Example:
        >>> a = ExplanationGraph([[0, 0.1], [0.4, 0]], names=["worst", "film"])
        >>> b = ExplanationGraph([[0, 0.3], [0.2, 0]], names=["worst", "plot"])
        >>> mean = mean_by_name([a, b])
        >>> mean.names
        ('worst', 'film', 'plot')
        >>> mean.weights.round(2).tolist()  # film and plot never met: what is known of each is its weight given worst
        [[0.0, 0.1, 0.3], [0.4, 0.0, 0.3], [0.2, 0.1, 0.0]]
        >>> mean.redundancy(0.1).undecided[1, 2]
        np.True_
    """
    if not graphs:
        raise ValueError("`graphs` must hold at least one graph, got none. Check how the subgroup is chosen.")
    has_shapley = {graph.shapley is not None for graph in graphs}
    if len(has_shapley) > 1:
        raise ValueError("`graphs` must all have Shapley values or none, got some with and some without.")
    given = [[_AGAIN.sub("", name) for name in g.names] for g in graphs] if labels is None else labels
    if [len(words) for words in given] != [g.n_players for g in graphs]:
        raise ValueError("`labels` must have a name for each player of each graph, got other numbers of them.")
    names, places = _places(graphs, given, max_players)
    n = len(names)
    weights, errors, pairs = (np.zeros((n, n)) for _ in range(3))
    shapley, counts = np.zeros(n), np.zeros(n)
    for graph, place in zip(graphs, places, strict=True):
        kept = np.flatnonzero(place >= 0)
        rows, columns = place[kept][:, None], place[kept][None, :]
        apart = ~np.eye(len(kept), dtype=bool)
        np.add.at(weights, (rows, columns), graph.weights[np.ix_(kept, kept)])
        np.add.at(errors, (rows, columns), graph.standard_error[np.ix_(kept, kept)])
        np.add.at(pairs, (rows, columns), apart.astype(float))
        np.add.at(counts, place[kept], 1.0)
        if graph.shapley is not None:
            np.add.at(shapley, place[kept], graph.shapley[kept])
    for matrix in (weights, errors, pairs):
        np.fill_diagonal(matrix, 0)  # what one occurrence of a word does to another of the same
    largest = max(float(np.abs(graph.weights).max()) for graph in graphs)
    weights, errors = _fill(weights, errors, pairs, largest)
    agreed = {k: v for k, v in graphs[0].provenance.items() if all(g.provenance.get(k) == v for g in graphs)}
    return ExplanationGraph(
        weights,
        names=names,
        shapley=shapley / counts if has_shapley == {True} else None,
        standard_error=errors,
        provenance={**agreed, "n_graphs": len(graphs)},
    )


def _places(
    graphs: Sequence[ExplanationGraph], labels: Sequence[Sequence[str]], max_players: int | None
) -> tuple[list[str], list[NDArray[np.intp]]]:
    """The names, and for each graph the place of each player's name among them, -1 for names that are left out."""
    importance: dict[str, float] = {}
    for graph, words in zip(graphs, labels, strict=True):
        values = np.ones(graph.n_players) if graph.shapley is None else np.abs(graph.shapley)
        for word, value in zip(words, values.tolist(), strict=True):
            importance[word] = importance.get(word, 0.0) + value
    kept = sorted(importance, key=lambda word: -importance[word])[:max_players]
    names = [word for word in importance if word in set(kept)]
    number = {word: k for k, word in enumerate(names)}
    return names, [np.array([number.get(word, -1) for word in words], dtype=np.intp) for words in labels]


def _fill(
    weights: NDArray[np.float64], errors: NDArray[np.float64], pairs: NDArray[np.float64], largest: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means over pairs that met; what is known of the second player, as uncertain as can be, where none did."""
    met = pairs > 0
    weights = np.divide(weights, pairs, out=np.zeros_like(weights), where=met)
    errors = np.divide(errors, pairs, out=np.zeros_like(errors), where=met)
    mean = weights.sum(axis=0) / np.maximum(met.sum(axis=0), 1)
    unknown = ~met
    np.fill_diagonal(unknown, False)
    return np.where(unknown, mean, weights), np.where(unknown, largest, errors)


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
