"""The values of an explanation graph: construction, checks, structure and conversions, without analyses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bivshap_lightning.graph import conversion, structure
from bivshap_lightning.graph.batched import IndexArray
from bivshap_lightning.graph.checks import (
    FloatArray,
    check_names,
    check_provenance,
    check_square,
    check_standard_error,
    read_only_floats,
)
from bivshap_lightning.graph.threshold import relative_gamma

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from bivshap_lightning.graph.explanation_graph import ExplanationGraph

ROUNDING = 1e-7
"""Differences below this share of the largest value are rounding errors of a single-precision model."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class GraphValues:
    """Weights, Shapley values and their errors of the players of a graph, checked and read-only.

    :class:`~bivshap_lightning.ExplanationGraph` documents arguments and attributes and adds the analyses.

    Example:
        >>> GraphValues([[0, 1], [2, 0]]).n_players
        2
    """

    weights: FloatArray
    names: tuple[str, ...]
    shapley: FloatArray | None
    standard_error: FloatArray
    provenance: Mapping[str, Any]
    shapley_standard_error: FloatArray
    pairwise_standard_error: FloatArray | None
    log_odds: "ExplanationGraph | None"
    absolute: "ExplanationGraph | None"

    def __init__(
        self,
        weights: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        shapley: ArrayLike | None = None,
        standard_error: ArrayLike | None = None,
        provenance: Mapping[str, Any] | None = None,
        shapley_standard_error: ArrayLike | None = None,
        pairwise_standard_error: ArrayLike | None = None,
        log_odds: "ExplanationGraph | None" = None,
        absolute: "ExplanationGraph | None" = None,
        scale: float | None = None,
    ) -> None:
        floats = read_only_floats(weights, "weights")
        check_square(floats, "weights")
        n = len(floats)
        errors = check_standard_error(standard_error, (n, n), "standard_error")
        if shapley_standard_error is None and standard_error is not None:
            with np.errstate(over="ignore"):
                shapley_standard_error = np.nan_to_num(2 * (errors / max(n - 1, 1)).sum(axis=0))
        # A frozen instance has no setters; its attributes are filled in here once.
        vars(self).update(
            weights=floats,
            names=check_names(names, n),
            shapley=None if shapley is None else read_only_floats(shapley, "shapley", shape=(n,)),
            standard_error=errors,
            provenance=check_provenance(provenance),
            shapley_standard_error=check_standard_error(shapley_standard_error, (n,), "shapley_standard_error"),
            pairwise_standard_error=None
            if pairwise_standard_error is None
            else check_standard_error(pairwise_standard_error, (n, n), "pairwise_standard_error"),
            log_odds=_check_nested(log_odds, n, "log_odds"),
            absolute=_check_nested(absolute, n, "absolute"),
        )
        if scale is not None:
            vars(self)["scale"] = _check_scale(scale)
        if standard_error is None:
            vars(self)["is_estimated"] = False  # known without searching all the zeros

    def __repr__(self) -> str:
        kind = "estimated" if self.is_estimated else "exact"
        return (
            f"{type(self).__name__}({self.n_players} player{'s' * (self.n_players > 1)}, {kind} weights in "
            f"[{self.weights.min():.3g}, {self.weights.max():.3g}])"
        )

    @property
    def n_players(self) -> int:
        """Number of players, F.

        Example:
            >>> GraphValues([[0, 1], [2, 0]]).n_players
            2
        """
        return len(self.weights)

    @cached_property
    def is_estimated(self) -> bool:
        """Whether any weight has a standard error above zero.

        Example:
            >>> GraphValues([[0, 1], [2, 0]], standard_error=[[0, 0.1], [0.1, 0]]).is_estimated
            True
        """
        return bool(self.standard_error.any())

    @property
    def known_shapley(self) -> FloatArray:
        """Shapley values, (F,).

        Raises:
            ValueError: The graph has none.

        Example:
            >>> GraphValues([[0.0]], shapley=[1]).known_shapley
            array([1.])
        """
        if self.shapley is None:
            raise ValueError("`shapley` must be given for this, got a graph without Shapley values. Pass `shapley`.")
        return self.shapley

    @cached_property
    def sign(self) -> float:
        """-1.0 if `u(all) < u(none)`, the sum of Shapley values, beyond rounding; otherwise 1.0.

        Rankings multiply all values by it, so that a game and its negative are ranked alike.

        Example:
            >>> GraphValues([[0, -1], [-2, 0]], shapley=[-2, -4]).sign
            -1.0
        """
        if self.shapley is None:
            return 1.0
        return -1.0 if self.shapley.sum() < -ROUNDING * np.abs(self.shapley).sum() else 1.0

    @cached_property
    def scale(self) -> float:
        """`abs(u(all) - u(none))`, the size of what there is to explain; of a mean graph the mean over its samples.

        Example:
            >>> GraphValues([[0, -1], [-2, 0]], shapley=[-2, -4]).scale
            6.0
        """
        return abs(float(self.known_shapley.sum()))

    @cached_property
    def relative_gamma(self) -> float:
        """Default threshold of roles: the smaller of 1 % and 15 % / F of `scale`, at least the rounding of a zero.

        Example:
            >>> GraphValues([[0, 0], [0, 0]], shapley=[1 / 2, 1 / 2]).relative_gamma
            0.01
        """
        gamma = relative_gamma(self.n_players, self.scale)
        return max(gamma, ROUNDING * float(np.abs(self.weights).max()))

    @cached_property
    def potential(self) -> FloatArray:
        """R, (F,): the importance of each player when it joins late. `E2[i, j] = R[i] + C[i, j]`.

        Differences of it are the direction of G: `weights[j, i] - weights[i, j] = R[i] - R[j]`.

        Example:
            >>> GraphValues([[0, 0], [1 / 2, 0]], shapley=[3 / 2, 1 / 2]).potential.round(3)  # max(2a, b)
            array([0.667, 0.167])
        """
        return _read_only(structure.potential(self.weights.T, self.known_shapley))

    @cached_property
    def pairwise(self) -> FloatArray:
        """C, (F, F) symmetric: negative for substitutes, positive for complements.

        Example:
            >>> GraphValues([[0, 0], [1 / 2, 0]], shapley=[3 / 2, 1 / 2]).pairwise[0, 1].round(3)  # max(2a, b)
            np.float64(-0.167)
        """
        return _read_only(structure.pairwise(self.weights.T, self.known_shapley))

    @cached_property
    def potential_error(self) -> FloatArray:
        """Upper bound of the standard error of `potential`, (F,): errors of a row taken as fully correlated.

        Example:
            >>> GraphValues([[0, 1], [2, 0]], standard_error=[[0, 0.1], [0.1, 0]]).potential_error.round(3)
            array([0.1, 0.1])
        """
        return _read_only(structure.potential_error(self.standard_error.T, self.shapley_standard_error))

    @cached_property
    def pairwise_error(self) -> FloatArray:
        """Standard error of `pairwise`, (F, F): as given, or an upper bound if errors of a row do not anticorrelate.

        Example:
            >>> GraphValues([[0, 1], [2, 0]]).pairwise_error[0, 1]
            np.float64(0.0)
        """
        if self.pairwise_standard_error is not None:
            return self.pairwise_standard_error
        return _read_only(structure.pairwise_error(self.standard_error.T, self.shapley_standard_error))

    def to_networkx(self) -> "nx.DiGraph":
        """Return a `networkx.DiGraph` of all ordered pairs.

        Nodes are indices with `name` and `shapley` (or None); edges have `weight` and `standard_error`.

        Example:
            >>> GraphValues([[0, 1], [2, 0]]).to_networkx().edges[1, 0]["weight"]
            2.0
        """
        return conversion.explanation_to_networkx(self)

    def to_dataframe(self) -> "pd.DataFrame":
        """Return a table of all ordered pairs: source and target (names), weight, standard_error. Needs pandas.

        Example:
            >>> print(GraphValues([[0, 1], [2, 0]], names=["a", "b"]).to_dataframe())
              source target  weight  standard_error
            0      a      b     1.0             0.0
            1      b      a     2.0             0.0
        """
        return conversion.explanation_to_dataframe(self)

    def pairs(self) -> tuple[IndexArray, IndexArray]:
        """Return row and column of all ordered pairs, row by row.

        Example:
            >>> GraphValues([[0, 1], [2, 0]]).pairs()
            (array([0, 1]), array([1, 0]))
        """
        source, target = np.nonzero(~np.eye(self.n_players, dtype=np.bool_))
        return source, target


def _check_scale(scale: float) -> float:
    if not (np.isfinite(scale) and scale >= 0):
        raise ValueError(f"`scale` must be finite and >= 0, got {scale}. Leave it out for the sum of Shapley values.")
    return float(scale)


def _check_nested(graph: "ExplanationGraph | None", n_players: int, argument: str) -> "ExplanationGraph | None":
    if graph is not None and graph.n_players != n_players:
        raise ValueError(
            f"`{argument}` must have {n_players} players like `weights`, got {graph.n_players}. "
            "Pass the graph of the same sample."
        )
    return graph


def _read_only(array: FloatArray) -> FloatArray:
    array.setflags(write=False)
    return array
