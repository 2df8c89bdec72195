"""Greedy selection one step at a time: the gains of "keep", and the hybrid in which the model picks the candidate.

The gains are those of :mod:`bivshap_lightning.graph.greedy`, shrunk likewise and read off the log-odds where the graph
has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bivshap_lightning.checks import check_integer
from bivshap_lightning.graph.batched import IndexArray, RankingMethod, _ranked_graph, shapley_prior, signal_of
from bivshap_lightning.graph.checks import BoolArray, FloatArray
from bivshap_lightning.graph.greedy import shrunk_gains

if TYPE_CHECKING:
    from bivshap_lightning.graph.explanation_graph import ExplanationGraph

CoalitionValues = Callable[[BoolArray], FloatArray]
"""Values (K,) of coalitions (K, F) of one sample, True for players that are present."""


class ValuesOfCoalitions(Protocol):
    """What is asked of a :class:`~bivshap_lightning.Game`, whose tensors are made here without importing torch."""

    n_players: int
    null_players: Any
    n_evaluations: Any

    def values_of(self, masks: Any, samples: Any) -> Any:
        """Values (N,) of coalitions (N, F), each of one sample."""


def values_of_sample(game: ValuesOfCoalitions, sample: int = 0) -> CoalitionValues:
    """Return the values of one sample's coalitions as a function on arrays.

    Args:
        game: A :class:`~bivshap_lightning.Game`.
        sample: Which of its samples.

    Returns:
        A function from masks (K, N), N being at most the game's number of players, to values (K,). Players beyond N are
        absent.

    Example:
        >>> import torch
        >>> from bivshap_lightning import Game
        >>> game = Game(lambda x: x.sum(dim=1), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), behavior="output")
        >>> values_of_sample(game, 1)(np.array([[True, False], [True, True]]))
        array([3., 7.])
    """

    def values(masks: BoolArray) -> FloatArray:
        padded = np.zeros((len(masks), game.n_players), dtype=np.bool_)
        padded[:, : masks.shape[1]] = masks
        owners = game.n_evaluations.new_full((len(masks),), sample)
        found = game.values_of(game.null_players.new_tensor(padded.tolist()), owners)
        return np.array(found.tolist())

    return values


N_CANDIDATES = 8
"""Players that the hybrid ranking asks the model about in each step."""
PAPER_COALITIONS = 2048
"""The paper evaluates `2 (2F + 2048)` coalitions; the hybrid may evaluate a tenth of that."""


@dataclass(frozen=True, eq=False)
class KeepGains:
    """What each player adds to a set, by the quadratic game of a graph.

    Attributes:
        alone: (F,) gains over the empty set.
        step: (F, F) what a chosen player (row) adds to the gain of the others.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> gains = KeepGains.of(ExplanationGraph([[0, 0], [0, 0]], shapley=[1 / 2, 1 / 2]))  # OR(a, b)
        >>> gains.given(np.array([True, False])).round(6).tolist()
        [0.8, 0.0]
    """

    alone: FloatArray
    step: FloatArray

    @classmethod
    def of(cls, graph: ExplanationGraph) -> KeepGains:
        """The gains of a graph with Shapley values, oriented so that more is better."""
        source = _ranked_graph(graph, "keep")
        e2, phi = source.sign * source.weights.T, source.sign * source.known_shapley
        return cls(*shrunk_gains(e2, phi, signal_of(source), prior=shapley_prior(graph, source)))

    def given(self, chosen: BoolArray) -> FloatArray:
        """Gains (F,) over a set of players; those of its members mean nothing."""
        gains: FloatArray = self.alone + chosen @ self.step
        return gains

    def best(self, chosen: BoolArray, n: int) -> IndexArray:
        """The n players with the largest gains that are not in the set, best first."""
        gains = np.where(chosen, -np.inf, self.given(chosen))
        return np.argsort(-gains, kind="stable")[: min(n, int((~chosen).sum()))]


def hybrid_order(
    graph: ExplanationGraph, values: CoalitionValues, n_evaluations: int, *, n_candidates: int = N_CANDIDATES
) -> IndexArray:
    """Return players in the order of greedy selection in which the model chooses among the best candidates.

    Greedy selection looks one step ahead only, so the order of "keep" is sometimes the better one. Each step therefore
    also asks for the value of its first players, and the order whose values have the larger sum is returned.

    Args:
        graph: With Shapley values.
        values: Of coalitions of the graph's sample.
        n_evaluations: Coalitions that may be evaluated; the steps after that go by the gains of the graph alone.
        n_candidates: Players that are compared in each step.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> graph = ExplanationGraph([[0, 1], [1, 0]], shapley=[2, 2])
        >>> hybrid_order(graph, lambda masks: masks @ np.array([1.0, 3.0]), 3)
        array([1, 0])
    """
    gains, keep = KeepGains.of(graph), graph.order("keep")
    chosen, kept = np.zeros((2, graph.n_players), dtype=np.bool_)
    order = np.empty(graph.n_players, dtype=np.intp)
    ahead_of_keep = 0.0
    for position in range(graph.n_players):
        kept[keep[position]] = True
        candidates = gains.best(chosen, max(min(n_candidates, n_evaluations - 1), 1))
        best = candidates[0]
        if len(candidates) > 1:
            masks = np.repeat(chosen[None], len(candidates), axis=0)
            masks[np.arange(len(candidates)), candidates] = True
            found = graph.sign * np.asarray(values(np.vstack([masks, kept])), dtype=np.float64)
            n_evaluations -= len(found)
            best = candidates[int(np.argmax(found[:-1]))]
            ahead_of_keep += float(found[:-1].max() - found[-1])
        order[position] = best
        chosen[best] = True
    return order if ahead_of_keep >= 0 else keep


def hybrid_scores(
    graph: ExplanationGraph, game: ValuesOfCoalitions, *, method: RankingMethod, n_evaluations: int | None, sample: int
) -> FloatArray:
    """Return the scores of the hybrid ranking; see :meth:`~bivshap_lightning.ExplanationGraph.ranking`.

    Args:
        graph: With Shapley values.
        game: Of the graph's sample.
        method: Must be "keep".
        n_evaluations: Coalitions that may be evaluated; None for a tenth of the paper's budget.
        sample: Which sample of the game.

    Raises:
        ValueError: The method is another one, the game is of other players, or the budget is negative.

    Example:
        >>> import torch
        >>> from bivshap_lightning import BivariateShapley, Game
        >>> game = Game(lambda x: x @ torch.tensor([1.0, 3.0]), torch.ones(1, 2), behavior="output")
        >>> graph = BivariateShapley(lambda x: x.sum(dim=1), behavior="output").attribute(torch.ones(1, 2)).graph(0)
        >>> hybrid_scores(graph, game, method="keep", n_evaluations=None, sample=0).round(3)
        array([0.333, 0.667])
    """
    if method != "keep":
        raise ValueError(f"`method` must be 'keep' with `game`, got {method!r}. Leave out `game` for other rankings.")
    n = graph.n_players
    if n > game.n_players:
        raise ValueError(f"`game` must have the graph's {n} players, got {game.n_players}. Pass the game it explains.")
    budget = (
        (2 * n + PAPER_COALITIONS) // 5
        if n_evaluations is None
        else check_integer(n_evaluations, "n_evaluations", minimum=0)
    )
    order = hybrid_order(graph, values_of_sample(game, sample), budget)
    scores = np.empty(n)
    scores[order] = np.arange(n, 0, -1) / (n * (n + 1) / 2)
    return scores
