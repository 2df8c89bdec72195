"""Drift: the distance of the mean graph of a class from that of the previous model.

Graphs are aligned by the names of their players. A player that only one of them has counts in the other as a player
without importance and without redundant edges, so features that are added or removed count as drift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.metrics.intervals import Interval

SAME_SCORE = 1e-6
"""Scores that differ by less, as a share of the largest, are tied: arrays are stored in single precision."""


@dataclass(frozen=True)
class GraphPair:
    """Two graphs on the same players: now, and before.

    Example:
        >>> old = ExplanationGraph([[0, 1], [2, 0]], names=["a", "b"])
        >>> new = ExplanationGraph([[0, 2], [1, 0]], names=["b", "a"])
        >>> pair = GraphPair.of(new, old, gamma=1e-5)
        >>> pair.names, bool((pair.weights[0] == pair.weights[1]).all())
        (('b', 'a'), True)
    """

    names: tuple[str, ...]
    weights: NDArray[np.float64]
    redundant: NDArray[np.bool_]
    undecided: NDArray[np.bool_]
    scores: NDArray[np.float64]

    @classmethod
    def of(
        cls, now: ExplanationGraph, before: ExplanationGraph, gamma: float, gamma_before: float | None = None
    ) -> GraphPair:
        """Align two graphs.

        Args:
            now: the graph in question.
            before: the previous one.
            gamma: of the redundancy graph.
            gamma_before: of the previous one, where gamma is relative to what each model had to explain; None for the
                same.
        """
        gammas = gamma, gamma if gamma_before is None else gamma_before
        names = tuple(dict.fromkeys((*now.names, *before.names)))
        n = len(names)
        weights, scores = np.zeros((2, n, n)), np.zeros((2, n))
        redundant, undecided = np.zeros((2, 2, n, n), dtype=np.bool_)
        for k, graph in enumerate((now, before)):
            places = [names.index(name) for name in graph.names]
            square, h = np.ix_(places, places), graph.redundancy(gammas[k])
            weights[k][square], redundant[k][square], undecided[k][square] = graph.weights, h.adjacency, h.undecided
            scores[k][places] = graph.ranking("pagerank" if graph.shapley is None else "shapley")
        return cls(names, weights, redundant, undecided, scores)

    def edge(self, i: int, j: int) -> str:
        """An edge by name."""
        return f"{self.names[i]} → {self.names[j]}"


def _weights(pair: GraphPair) -> Interval:
    """The L1 distance of G as a share of all weight. Noise only adds to it, so there is no lower bound."""
    now, before = pair.weights
    whole = np.abs(now).sum() + np.abs(before).sum()
    share = float(np.abs(now - before).sum() / whole) if whole else 0.0
    return Interval(share, None, share)


def _redundancy(pair: GraphPair) -> Interval:
    """The Jaccard distance of the edges of H, and its bounds over all ways to decide the undecided edges."""
    now, before = pair.redundant
    either, both = int((now | before).sum()), int((now & before).sum())
    is_undecided, twice = pair.undecided.any(axis=0), int(pair.undecided.all(axis=0).sum())
    # An undecided edge agrees with a redundant one by being redundant, and disagrees with another by being so.
    may_agree = int((is_undecided & (now | before)).sum())
    may_come = int((is_undecided & ~(now | before)).sum())

    def distance(shared: int, union: int) -> float:
        return 1 - shared / union if union else 0.0

    return Interval(
        value=distance(both, either),
        lower=distance(both + may_agree + twice, either + twice),
        upper=distance(both, either + may_come),
    )


def _ranking(pair: GraphPair) -> Interval:
    """One less Spearman's rank correlation of the scores."""
    now, before = (_ranks(scores) for scores in pair.scores)
    spread = float(np.sqrt(now.var() * before.var()))
    if spread == 0:  # a ranking of all ties agrees only with another one
        distance = 0.0 if now.var() == before.var() else 1.0
    else:
        distance = 1 - float(((now - now.mean()) * (before - before.mean())).mean()) / spread
    return Interval(distance, None, distance)


def _ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from the lowest score, 1, on; tied scores share their mean rank."""
    from scipy.stats import rankdata  # here, because importing scipy.stats takes longer than judging a record

    scale = np.abs(scores).max(initial=0.0) or 1.0
    ranks: NDArray[np.float64] = rankdata(np.round(scores / (scale * SAME_SCORE)))
    return ranks


def _moved_weights(pair: GraphPair, n: int) -> list[str]:
    now, before = pair.weights
    order = np.argsort(-np.abs(now - before), axis=None, kind="stable")[:n]
    places = zip(*np.unravel_index(order, now.shape), strict=True)
    return [f"edge {pair.edge(i, j)}: {before[i, j]:.3g} before, {now[i, j]:.3g} now" for i, j in places]


def _moved_redundancy(pair: GraphPair, n: int) -> list[str]:
    now, before = pair.redundant
    new, gone = np.argwhere(now & ~before).tolist(), np.argwhere(before & ~now).tolist()
    lines = []
    for word, edges in (("now", new), ("no longer", gone)):
        lines += [f"{word} redundant: {pair.edge(i, j)}" for i, j in edges[:n]]
        lines += [f"and {len(edges) - n} more edges that are {word} redundant"] * (len(edges) > n)
    return lines


def _moved_ranking(pair: GraphPair, n: int) -> list[str]:
    now, before = (_ranks(-scores) for scores in pair.scores)
    order = np.argsort(-np.abs(now - before), kind="stable")[:n]
    return [f"{pair.names[k]}: place {before[k]:g} before, {now[k]:g} now" for k in order.tolist()]


_MEASURES: dict[str, tuple[Callable[[GraphPair], Interval], Callable[[GraphPair, int], list[str]]]] = {
    "drift/weights": (_weights, _moved_weights),
    "drift/redundancy": (_redundancy, _moved_redundancy),
    "drift/ranking": (_ranking, _moved_ranking),
}


def drift(metric: str, pair: GraphPair) -> Interval:
    """A distance of two graphs, 0 if they are the same; the catalogue of numbers has the formulas.

    Args:
        metric: "drift/weights", "drift/redundancy" or "drift/ranking".
        pair: the graphs.

    Example:
        >>> old = ExplanationGraph([[0, 0, 1], [0, 0, 1], [1, 1, 0]])
        >>> new = ExplanationGraph([[0, 0, 1], [1, 0, 1], [1, 1, 0]])
        >>> pair = GraphPair.of(new, old, gamma=1e-5)
        >>> drift("drift/weights", pair).value, drift("drift/redundancy", pair).value
        (0.111..., 0.5)
    """
    return _MEASURES[metric][0](pair)


def largest_moves(metric: str, pair: GraphPair, n: int = 3) -> list[str]:
    """The edges or players that changed most, in words.

    Args:
        metric: which distance.
        pair: the graphs.
        n: at most so many of each kind.

    Example:
        >>> old, new = (ExplanationGraph([[0, w], [1, 0]], names=["a", "b"]) for w in (1, 0))
        >>> largest_moves("drift/redundancy", GraphPair.of(new, old, gamma=1e-5))
        ['now redundant: a → b']
    """
    return _MEASURES[metric][1](pair, n)
