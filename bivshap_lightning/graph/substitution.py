"""Substitution: the share of a player's importance that is gone once another player is present.

`D[i, j] = 1 - 2 E2[i, j] / phi[i]`: 1 if j makes i redundant, 0 if i and j do not interact, negative if j makes i
matter more. It is the sum of two parts:

* the common part `(phi[i] - 2 R[i]) / phi[i]`, the same for every j: saturation, which a null player has too;
* the pair's own part `-2 C[i, j] / phi[i]`, by which substitutes (positive) and partners (negative) are ranked.

Ratios have no sign of the output, so they read the same for a game and its negative. They are defined where `phi[i]` is
relevant with confidence, and NaN elsewhere and on the diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bivshap_lightning.graph import structure
from bivshap_lightning.graph.batched import IndexArray
from bivshap_lightning.graph.checks import BoolArray, FloatArray
from bivshap_lightning.graph.naming import names_without_repeat_number, positions_by_name
from bivshap_lightning.graph.roles import relevance
from bivshap_lightning.graph.threshold import CONFIDENCE, normal_quantile

if TYPE_CHECKING:
    from bivshap_lightning.graph.explanation_graph import ExplanationGraph


@dataclass(frozen=True)
class PlayerPair:
    """A player, another one that is present, and how much that changes the first one's importance.

    Attributes:
        player: Name of the player i.
        given: Name of the player j that is present.
        total: `D[i, j]`.
        own: The pair's own part of it.
        own_error: Its standard error.
    """

    player: str
    given: str
    total: float
    own: float
    own_error: float


@dataclass(frozen=True, eq=False)
class Substitution:
    """The substitution of all pairs of players, of one sample or over several.

    Attributes:
        total: (F, F) `D[i, j]`.
        common: (F,) the part that is the same for every j.
        own: (F, F) the part of the pair.
        total_error: (F, F) standard errors.
        common_error: (F,) standard errors.
        own_error: (F, F) standard errors.
        is_relevant: (F,) whether the player is relevant, over several samples in at least one of them.
        names: Of the players.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> # OR(a, b) and a player c without effect.
        >>> graph = ExplanationGraph([[0, 0, 0], [0, 0, 0], [1 / 6, 1 / 6, 0]], names="abc", shapley=[1 / 2, 1 / 2, 0])
        >>> parts = graph.substitution_parts()
        >>> parts.total.round(3)
        array([[  nan, 1.   , 0.333],
               [1.   ,   nan, 0.333],
               [  nan,   nan,   nan]])
        >>> parts.common.round(3), parts.own[0, 1].round(3)
        (array([0.333, 0.333,   nan]), np.float64(0.667))
        >>> [(pair.player, pair.given) for pair in parts.substitutes()]
        [('a', 'b'), ('b', 'a')]
    """

    total: FloatArray
    common: FloatArray
    own: FloatArray
    total_error: FloatArray
    common_error: FloatArray
    own_error: FloatArray
    is_relevant: BoolArray
    names: tuple[str, ...]

    def substitutes(self, n: int = 10, *, z: float = 0.0) -> tuple[PlayerPair, ...]:
        """Return the pairs of relevant players with the largest positive own part, at most n.

        Args:
            n: At most so many.
            z: Only pairs whose own part is more than so many standard errors.

        Example:
            See the class.
        """
        return self._strongest(n, z, sign=1.0)

    def partners(self, n: int = 10, *, z: float = 0.0) -> tuple[PlayerPair, ...]:
        """Return the pairs of relevant players with the most negative own part, at most n.

        Args:
            n: At most so many.
            z: Only pairs whose own part is more than so many standard errors.

        Example:
            >>> from bivshap_lightning.graph import ExplanationGraph
            >>> both = ExplanationGraph([[0, 1 / 2], [1 / 2, 0]], shapley=[1 / 2, 1 / 2])  # AND(a, b)
            >>> both.substitution_parts().partners()[0].total
            -1.0
        """
        return self._strongest(n, z, sign=-1.0)

    def _strongest(self, n: int, z: float, *, sign: float) -> tuple[PlayerPair, ...]:
        strength = sign * self.own
        is_listed = self.is_relevant[:, None] & self.is_relevant & (strength > 1e-9)  # False for NaN
        if z:
            is_listed &= strength > z * self.own_error
        players, given = np.nonzero(is_listed)
        order = np.argsort(-strength[players, given], kind="stable")[:n]
        return tuple(
            PlayerPair(
                player=self.names[i],
                given=self.names[j],
                total=float(self.total[i, j]),
                own=float(self.own[i, j]),
                own_error=float(self.own_error[i, j]),
            )
            for i, j in zip(players[order].tolist(), given[order].tolist(), strict=True)
        )


def substitution_of(graph: ExplanationGraph, gamma: float, confidence: float = CONFIDENCE) -> Substitution:
    """Return the substitution of one graph; see :meth:`~bivshap_lightning.ExplanationGraph.substitution_parts`.

    Args:
        graph: With Shapley values.
        gamma: Shapley values of at most `2 gamma` are not relevant.
        confidence: With which they must exceed that.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> substitution_of(ExplanationGraph([[0, 0], [0, 0]], shapley=[1 / 2, 1 / 2]), 0.01).total
        array([[nan,  1.],
               [ 1., nan]])
    """
    e2, error = graph.weights.T, graph.standard_error.T
    phi, phi_error = graph.known_shapley, graph.shapley_standard_error
    half_width = normal_quantile(confidence) * phi_error
    is_defined = np.abs(phi) - half_width > 2 * gamma
    divisor = np.where(is_defined, phi, np.nan)
    late, pair = structure.potential(e2, phi), structure.pairwise(e2, phi)
    late_error, pair_error = structure.potential_error(error, phi_error), structure.pairwise_error(error, phi_error)
    off_diagonal = np.where(np.eye(len(phi), dtype=np.bool_), np.nan, 1.0)
    rows, row_error = divisor[:, None], phi_error[:, None]
    return Substitution(
        total=off_diagonal - 2 * e2 / rows,
        common=1 - 2 * late / divisor,
        own=-2 * pair / rows * off_diagonal,
        total_error=_ratio_error(e2, error, rows, row_error) * off_diagonal,
        common_error=_ratio_error(late, late_error, divisor, phi_error),
        own_error=_ratio_error(pair, pair_error, rows, row_error) * off_diagonal,
        is_relevant=relevance([graph], np.array([gamma]), confidence).certain[0],
        names=graph.names,
    )


def mean_substitution(
    graphs: Sequence[ExplanationGraph],
    labels: Sequence[Sequence[str]] | None = None,
    *,
    gammas: Sequence[float] | None = None,
    max_players: int | None = None,
) -> Substitution:
    """Return the substitution over several samples, each weighted by `abs(phi[i])`.

    Players go by name: the same columns of a table, or the words of texts. A pair counts in every sample that has both
    and in which i is relevant; pairs that never meet are NaN. All samples share one design of coalitions, so the means
    of their standard errors bound the standard errors of the means.

    Args:
        graphs: At least one, all with Shapley values.
        labels: For each graph a name per player; by default their names without the number of a repeated word.
        gammas: A threshold per graph; None for each graph's own relative one.
        max_players: Keep only the names of the largest total `abs(phi)`.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> either = ExplanationGraph([[0, 0], [0, 0]], names=["a", "b"], shapley=[1 / 2, 1 / 2])  # OR
        >>> both = ExplanationGraph([[0, 3 / 2], [3 / 2, 0]], names=["a", "b"], shapley=[3 / 2, 3 / 2])  # 3 AND
        >>> mean_substitution([either, both]).total[0, 1]  # (0.5 * 1 + 1.5 * -1) / 2
        np.float64(-0.5)
    """
    if not graphs:
        raise ValueError("`graphs` must hold at least one graph, got none. Check how the subgroup is chosen.")
    given = [names_without_repeat_number(graph.names) for graph in graphs] if labels is None else labels
    if [len(words) for words in given] != [graph.n_players for graph in graphs]:
        raise ValueError("`labels` must have a name for each player of each graph, got other numbers of names.")
    thresholds = [graph.relative_gamma for graph in graphs] if gammas is None else gammas
    names, positions = positions_by_name(given, [np.abs(graph.known_shapley) for graph in graphs], max_players)
    total = _WeightedSum(len(names))
    for graph, gamma, position in zip(graphs, thresholds, positions, strict=True):
        total.add(substitution_of(graph, gamma), np.abs(graph.known_shapley), position)
    return total.mean(tuple(names))


class _WeightedSum:
    """Sums of substitutions by name, weighted by importance."""

    _PAIRS = ("total", "own", "total_error", "own_error")
    _PLAYERS = ("common", "common_error")

    def __init__(self, n_names: int) -> None:
        self.pairs = {name: np.zeros((n_names, n_names)) for name in (*self._PAIRS, "weight")}
        self.players = {name: np.zeros(n_names) for name in (*self._PLAYERS, "weight")}
        self.is_relevant = np.zeros(n_names, dtype=np.bool_)

    def add(self, parts: Substitution, importance: FloatArray, position: IndexArray) -> None:
        kept = np.flatnonzero(position >= 0)
        place = position[kept]
        weight = np.where(np.isnan(parts.common), 0.0, importance)[kept]
        by_pair = np.where(np.eye(len(kept), dtype=np.bool_), 0.0, weight[:, None])
        for name in self._PAIRS:
            values = np.nan_to_num(getattr(parts, name)[np.ix_(kept, kept)])
            np.add.at(self.pairs[name], (place[:, None], place[None, :]), by_pair * values)
        np.add.at(self.pairs["weight"], (place[:, None], place[None, :]), by_pair)
        for name in self._PLAYERS:
            np.add.at(self.players[name], place, weight * np.nan_to_num(getattr(parts, name)[kept]))
        np.add.at(self.players["weight"], place, weight)
        np.logical_or.at(self.is_relevant, place, parts.is_relevant[kept])

    def mean(self, names: tuple[str, ...]) -> Substitution:
        np.fill_diagonal(self.pairs["weight"], 0.0)  # a repeated word is not a substitute for itself
        by_pair, by_player = (np.where(w > 0, w, np.nan) for w in (self.pairs["weight"], self.players["weight"]))
        return Substitution(
            **{name: self.pairs[name] / by_pair for name in self._PAIRS},
            **{name: self.players[name] / by_player for name in self._PLAYERS},
            is_relevant=self.is_relevant,
            names=names,
        )


def _ratio_error(value: FloatArray, error: FloatArray, divisor: FloatArray, divisor_error: FloatArray) -> FloatArray:
    """Return the standard error of `2 value / divisor` to first order, errors taken as independent."""
    ratio: FloatArray = np.hypot(error, value / divisor * divisor_error) * 2 / np.abs(divisor)
    return ratio
