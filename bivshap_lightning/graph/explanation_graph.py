"""`ExplanationGraph`, G: who is important once whom is present."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bivshap_lightning.graph.batched import Ranking, RankingMethod, rank_all
from bivshap_lightning.graph.checks import (
    FloatArray,
    check_choice,
    check_gamma,
    check_names,
    check_provenance,
    check_square,
    check_standard_error,
    import_pandas,
    read_only_floats,
)
from bivshap_lightning.graph.redundancy_graph import RedundancyGraph, RedundancyRule
from bivshap_lightning.graph.storage import read_record, write_record
from bivshap_lightning.graph.threshold import CONFIDENCE, decide_all

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

CURVE_POINTS = 200
"""Thresholds of a default density curve: all distinct ones up to this many, otherwise a grid of this size."""

_KIND = "bivshap_lightning.ExplanationGraph"
_FIELDS = ("weights", "names", "shapley", "standard_error", "provenance")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class ExplanationGraph:
    """The directed explanation graph G of one sample, or of the mean over a subgroup.

    Args:
        weights: (F, F), diagonal zero. Anything `np.asarray` takes, CPU tensors included.
        names: F distinct strings, by default "0" to "F-1".
        shapley: (F,) univariate Shapley values, for the personalised ranking and to break ties.
        standard_error: (F, F) of the weights, oriented like them. None means that the weights are exact.
        provenance: How the graph came about (method, seed, behavior, removal, target ...), in JSON's types.

    Attributes:
        weights: `weights[i, j]`, the importance of j when i is present. All arrays are read-only float64.
        names: As given.
        shapley: As given, None if unknown.
        standard_error: As given, zeros when exact.
        provenance: As given, {} if unknown.

    Example:
        >>> # OR(a, b) + c / 2: a and b make each other redundant.
        >>> graph = ExplanationGraph([[0, 0, 1 / 4], [0, 0, 1 / 4], [1 / 6, 1 / 6, 0]], names=["a", "b", "c"])
        >>> graph
        ExplanationGraph(3 players, exact weights in [0, 0.25])
        >>> graph.redundancy().groups
        ((0, 1),)
    """

    weights: FloatArray
    names: tuple[str, ...]
    shapley: FloatArray | None
    standard_error: FloatArray
    provenance: Mapping[str, Any]

    if TYPE_CHECKING:  # no fields of the dataclass
        # Several metrics, tables and pictures ask the same of one graph; weights never change, so answers are kept.
        _rankings: dict[tuple[bool, RankingMethod], Ranking]
        _redundancies: dict[tuple[float, RedundancyRule, float], RedundancyGraph]

    def __init__(
        self,
        weights: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        shapley: ArrayLike | None = None,
        standard_error: ArrayLike | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        floats = read_only_floats(weights, "weights")
        check_square(floats, "weights")
        # A frozen instance has no setters; its attributes are filled in here once.
        vars(self).update(
            weights=floats,
            names=check_names(names, len(floats)),
            shapley=None if shapley is None else read_only_floats(shapley, "shapley", shape=floats.shape[:1]),
            standard_error=check_standard_error(standard_error, len(floats)),
            provenance=check_provenance(provenance),
            _rankings={},
            _redundancies={},
        )
        if standard_error is None:
            vars(self)["is_estimated"] = False  # known without a look at all the zeros

    def __repr__(self) -> str:
        kind = "estimated" if self.is_estimated else "exact"
        return (
            f"ExplanationGraph({self.n_players} player{'s' * (self.n_players > 1)}, {kind} weights in "
            f"[{self.weights.min():.3g}, {self.weights.max():.3g}])"
        )

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to other processes: the graph, without the answers kept."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _rankings={}, _redundancies={})

    @property
    def n_players(self) -> int:
        """How many players the graph has, F.

        Example:
            >>> ExplanationGraph([[0, 1], [2, 0]]).n_players
            2
        """
        return len(self.weights)

    @cached_property
    def is_estimated(self) -> bool:
        """Whether any weight has a standard error above zero.

        Example:
            >>> ExplanationGraph([[0, 1], [2, 0]], standard_error=[[0, 0.1], [0.1, 0]]).is_estimated
            True
        """
        return bool(self.standard_error.any())

    def ranking(self, *, personalized: bool = False, method: RankingMethod = "pagerank") -> FloatArray:
        """Score of each player, high = important.

        A random walk on `softplus(weights)`. Symmetric players may differ in the last bits: to sort, take
        `order`, which knows about ties.

        Args:
            personalized: Restart the walk in proportion to the positive Shapley values; if there are none, at
                the player with the largest value. Otherwise at any player alike.
            method: "pagerank" as in the paper, or "hits" for authority scores.

        Returns:
            (F,) scores that sum to one.

        Example:
            >>> graph = ExplanationGraph([[0, 0], [1 / 2, 0]], shapley=[3 / 2, 1 / 2])
            >>> graph.ranking().round(3)
            array([0.533, 0.467])
            >>> graph.ranking(personalized=True).round(3)
            array([0.568, 0.432])
        """
        check_choice(method, RankingMethod, "method")
        scores: FloatArray = rank_all([self], personalized=personalized, method=method)[0].scores.copy()
        return scores

    def order(self, *, personalized: bool = False, method: RankingMethod = "pagerank") -> NDArray[np.intp]:
        """Players by descending score, most important first.

        Scores within 1e-12 of the largest one are ties; they go by Shapley value (if there) under the same
        tolerance, then by index.

        Args:
            personalized: As in `ranking`.
            method: As in `ranking`.

        Returns:
            (F,) indices.

        Example:
            >>> ExplanationGraph([[0, 1, 1], [0, 0, 1], [0, 1, 0]]).order()
            array([1, 2, 0])
        """
        check_choice(method, RankingMethod, "method")
        order: NDArray[np.intp] = rank_all([self], personalized=personalized, method=method)[0].order.copy()
        return order

    def redundancy(
        self, gamma: float = 1e-5, *, rule: RedundancyRule = "noise", confidence: float = CONFIDENCE
    ) -> RedundancyGraph:
        """The redundancy graph H at threshold gamma.

        Under "noise" an edge is redundant if the two-sided confidence interval of its weight lies within
        `[-gamma, gamma]`, not redundant if it lies outside, and undecided otherwise. On exact weights both
        rules agree.

        Args:
            gamma: Largest weight that counts as nothing, inclusive.
            rule: "noise", or "paper" for `|weight| <= gamma` whatever the standard error.
            confidence: Of the interval, between 0 and 1; normal errors are assumed.

        Example:
            >>> graph = ExplanationGraph([[0, 0.1], [0.3, 0]], standard_error=[[0, 0.01], [0.04, 0]])
            >>> h = graph.redundancy(0.25)
            >>> bool(h.adjacency[0, 1]), bool(h.undecided[1, 0])
            (True, True)
        """
        check_choice(rule, RedundancyRule, "rule")
        if not 0 < confidence < 1:
            raise ValueError(f"`confidence` must lie between 0 and 1, got {confidence}. Try 0.95.")
        return decide_all([self], check_gamma(gamma), rule=rule, confidence=confidence)[0]

    def density_curve(self, gammas: ArrayLike | None = None) -> tuple[FloatArray, FloatArray]:
        """Density of H over gamma by the paper's rule, to choose gamma from.

        Args:
            gammas: (N,) thresholds. By default 0 and all distinct `|weight|` if they are at most 200 in all,
                otherwise 0 and a logarithmic grid over them.

        Returns:
            (N,) thresholds and (N,) densities, the share of pairs with `|weight| <= gamma`; 0 without pairs.

        Example:
            >>> gammas, densities = ExplanationGraph([[0, 0.1], [0.3, 0]]).density_curve()
            >>> gammas, densities
            (array([0. , 0.1, 0.3]), array([0. , 0.5, 1. ]))
        """
        magnitudes = self._sorted_magnitudes
        thresholds = self._default_gammas() if gammas is None else read_only_floats(gammas, "gammas").copy()
        if thresholds.ndim != 1 or (thresholds < 0).any():
            raise ValueError(
                f"`gammas` must be a vector of numbers >= 0, got shape {thresholds.shape}. "
                "Leave it out for a default grid."
            )
        counts = np.searchsorted(magnitudes, thresholds, side="right")
        return thresholds, counts / max(len(magnitudes), 1)

    def suggest_gamma(self, density: float = 0.5) -> float:
        """The smallest gamma at which the density of H (paper's rule) reaches an aim.

        Args:
            density: Above 0, up to 1. The paper aims near one half.

        Example:
            >>> ExplanationGraph([[0, 0.1], [0.3, 0]]).suggest_gamma()
            0.1
        """
        if not 0 < density <= 1:
            raise ValueError(f"`density` must be above 0 and at most 1, got {density}. Try 0.5.")
        magnitudes = self._sorted_magnitudes
        if not len(magnitudes):
            raise ValueError("`weights` must have a pair of players, got shape (1, 1). One player has no density.")
        # The same division as in `RedundancyGraph.density`, so that the aim is met to the last bit.
        reached = np.arange(1, len(magnitudes) + 1) / len(magnitudes)
        return float(magnitudes[np.searchsorted(reached, density)])

    @staticmethod
    def mean(graphs: "Iterable[ExplanationGraph]") -> "ExplanationGraph":
        """The mean graph of a subgroup, such as a class.

        All samples share one design of coalitions, so their errors are correlated: the mean of the standard
        errors bounds the standard error of the mean from above, and no better is known.

        Args:
            graphs: At least one, all with the same names, with Shapley values in all or in none.

        Returns:
            A graph whose provenance keeps the entries on which all agree, and `n_graphs`.

        Example:
            >>> matrices = [[0, 1], [0, 0]], [[0, 3], [2, 0]]
            >>> mean = ExplanationGraph.mean(map(ExplanationGraph, matrices))
            >>> mean.weights
            array([[0., 2.],
                   [1., 0.]])
            >>> mean.provenance
            {'n_graphs': 2}
        """
        from bivshap_lightning.graph.averaging import mean_of_same_players

        return mean_of_same_players(graphs)

    def to_networkx(self) -> "nx.DiGraph":
        """A `networkx.DiGraph` of all ordered pairs.

        Nodes are indices with `name` and `shapley` (or None); edges have `weight` and `standard_error`.

        Example:
            >>> ExplanationGraph([[0, 1], [2, 0]]).to_networkx().edges[1, 0]["weight"]
            2.0
        """
        import networkx as nx

        shapley = [None] * self.n_players if self.shapley is None else self.shapley.tolist()
        graph = nx.DiGraph()
        for player, name in enumerate(self.names):
            graph.add_node(player, name=name, shapley=shapley[player])
        source, target = self._pairs()
        columns = source, target, self.weights[source, target], self.standard_error[source, target]
        for i, j, weight, error in zip(*(column.tolist() for column in columns), strict=True):
            graph.add_edge(i, j, weight=weight, standard_error=error)
        return graph

    def to_dataframe(self) -> "pd.DataFrame":
        """A table of all ordered pairs: source and target (names), weight, standard_error. Needs pandas.

        Example:
            >>> print(ExplanationGraph([[0, 1], [2, 0]], names=["a", "b"]).to_dataframe())
              source target  weight  standard_error
            0      a      b     1.0             0.0
            1      b      a     2.0             0.0
        """
        pandas = import_pandas()
        source, target = self._pairs()
        names = np.array(self.names, dtype=object)
        return pandas.DataFrame(
            {
                "source": names[source],
                "target": names[target],
                "weight": self.weights[source, target],
                "standard_error": self.standard_error[source, target],
            }
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to a `.npz` or `.json` file, replacing it in one step.

        Args:
            path: Its suffix chooses the format. NPZ is compact; JSON is readable by anything.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     ExplanationGraph([[0, 1], [2, 0]], names=["a", "b"]).save(f"{folder}/graph.npz")
            ...     np.load(f"{folder}/graph.npz")["names"].tolist()
            ['a', 'b']
        """
        fields = {name: getattr(self, name) for name in _FIELDS}
        write_record(path, _KIND, {**fields, "names": np.array(self.names)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "ExplanationGraph":
        """Read a graph that `save` wrote; torch is not needed.

        Args:
            path: A `.npz` or `.json` file.

        Raises:
            ValueError: The file is damaged, of another kind, of a later version, or holds no valid graph.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     ExplanationGraph([[0, 1], [2, 0]]).save(f"{folder}/graph.json")
            ...     ExplanationGraph.load(f"{folder}/graph.json")
            ExplanationGraph(2 players, exact weights in [0, 2])
        """
        record = read_record(path, _KIND, _FIELDS)
        weights = record["weights"]
        try:
            return cls(weights, **{name: record[name] for name in _FIELDS if name != "weights"})
        except (TypeError, ValueError) as error:
            raise ValueError(f"`path` must hold a valid graph, got {os.fspath(path)}: {error}") from error

    @cached_property
    def _sorted_magnitudes(self) -> FloatArray:
        return np.sort(np.abs(self.weights[self._pairs()]))

    def _default_gammas(self) -> FloatArray:
        distinct = np.unique(np.abs(self.weights))
        if len(distinct) <= CURVE_POINTS:
            return distinct
        smallest, largest = distinct[distinct > 0][[0, -1]]
        return np.concatenate(([0.0], np.geomspace(smallest, largest, CURVE_POINTS - 1)))

    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and column of all ordered pairs, row by row."""
        source, target = np.nonzero(~np.eye(self.n_players, dtype=np.bool_))
        return source, target
