"""`ExplanationGraph`, the directed explanation graph G: the importance of each player when another one is present."""

import os
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bivshap_lightning.checks import check_choice, check_fraction, check_gamma
from bivshap_lightning.graph import conversion
from bivshap_lightning.graph.batched import IndexArray, RankedPlayers, RankingMethod, method_of, rank_all
from bivshap_lightning.graph.candidates import ValuesOfCoalitions, hybrid_scores
from bivshap_lightning.graph.checks import FloatArray
from bivshap_lightning.graph.redundancy_graph import RedundancyGraph, RedundancyRule
from bivshap_lightning.graph.roles import Roles, roles_of_all
from bivshap_lightning.graph.storage import read_record, write_record
from bivshap_lightning.graph.substitution import Substitution, substitution_of
from bivshap_lightning.graph.threshold import (
    CONFIDENCE,
    DEFAULT_GAMMA,
    density_curve,
    gamma_at_density,
    redundancy_of_all,
)
from bivshap_lightning.graph.values import GraphValues

_KIND = "bivshap_lightning.ExplanationGraph"


class ExplanationGraph(GraphValues):
    """The directed explanation graph G of one sample, or the mean over several samples.

    Args:
        weights: (F, F), diagonal zero. Anything `np.asarray` takes, CPU tensors included.
        names: F distinct strings, by default "0" to "F-1".
        shapley: (F,) univariate Shapley values. Roles, substitution and most rankings need them.
        standard_error: (F, F) of the weights, oriented like them. None means that the weights are exact.
        provenance: How the graph was computed (method, seed, behavior, removal, target ...), in JSON's types.
        shapley_standard_error: (F,). None means 0 for exact weights, and otherwise twice the mean standard error of
            the player's weights, of which a Shapley value is about twice the mean.
        pairwise_standard_error: (F, F) of `pairwise` where the estimator knows it. None means the bound that follows
            from the other two, about twice as large.
        log_odds: The graph of the log-odds of the same decision, used by the rankings "keep" and "remove".
        absolute: For a mean over samples, the graph of the mean absolute values, made by `mean`.
        scale: `abs(u(all) - u(none))`; by default from the sum of Shapley values. `mean` passes the mean over samples.

    Attributes:
        weights: `weights[i, j]`, the importance of j when i is present. All arrays are read-only float64.
        names: As given.
        shapley: As given, None if unknown.
        standard_error: As given, zeros when exact.
        provenance: As given, {} if unknown.
        shapley_standard_error: As given or derived.
        pairwise_standard_error: As given, None if unknown.
        log_odds: As given, None if unknown.
        absolute: As given, None for a single sample.

    Example:
        >>> # OR(a, b) + c / 2: a and b make each other redundant.
        >>> graph = ExplanationGraph([[0, 0, 1 / 4], [0, 0, 1 / 4], [1 / 6, 1 / 6, 0]], names=["a", "b", "c"])
        >>> graph
        ExplanationGraph(3 players, exact weights in [0, 0.25])
        >>> graph.redundancy().groups
        ((0, 1),)
    """

    # Several metrics, tables and figures use the same results of one graph; weights never change, so they are cached.
    @cached_property
    def _rankings(self) -> dict[tuple[RankingMethod, bool, bool], RankedPlayers]:
        return {}

    @cached_property
    def _redundancies(self) -> dict[tuple[float, RedundancyRule, float], RedundancyGraph]:
        return {}

    @cached_property
    def _roles(self) -> dict[tuple[float, float], Roles]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to other processes: the graph without cached answers."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @cached_property
    def disagreement(self) -> FloatArray:
        """How much the signs of a mean graph's samples disagree, (F, F): 0 all alike, 1 the mean cancels.

        `1 - abs(mean weight) / mean abs(weight)`; 0 where all weights are 0, and for the graph of one sample.

        Example:
            >>> graphs = [ExplanationGraph([[0, 1], [sign, 0]]) for sign in (1, -1)]
            >>> ExplanationGraph.mean(graphs).disagreement
            array([[0., 0.],
                   [1., 0.]])
        """
        magnitude = np.abs(self.weights) if self.absolute is None else self.absolute.weights
        agreement = np.divide(np.abs(self.weights), magnitude, out=np.ones_like(magnitude), where=magnitude > 0)
        return 1 - agreement

    def ranking(
        self,
        method: RankingMethod | None = None,
        *,
        personalized: bool = False,
        oriented: bool = True,
        game: "ValuesOfCoalitions | None" = None,
        n_evaluations: int | None = None,
        sample: int = 0,
    ) -> FloatArray:
        """Return the score of each player, high = important.

        Values are multiplied by `sign`; those of a mean graph are the mean absolute ones.
        Symmetric players may differ in the last digits: to sort, use `order`, which detects ties.

        Args:
            method: "keep" for greedy selection on the quadratic game of `pairwise`, best player to keep first, which
                places a duplicate of a chosen player late; "remove" likewise, most damaging removal first; both read
                the log-odds where the graph has them, see `ranked_on`. "hold" for a value that is to stay where it is,
                high or low, such as the prediction of a regression: last comes what can go with the least change,
                opposite effects together. "shapley" for the Shapley values; "pagerank" as
                in the paper or "hits" for authority scores, both on `softplus(weights)`. By default "keep"; for a
                mean over samples "shapley"; "pagerank" if Shapley values are not known or `personalized` is asked for.
            personalized: For "pagerank": restart in proportion to the positive Shapley values; if there are none, at
                the player with the largest value. Otherwise uniformly.
            oriented: Whether values are multiplied by `sign`; the paper's ranking takes them as they are.
            game: For "keep": the :class:`~bivshap_lightning.Game` of the graph, whose model then chooses among the
                eight best candidates of each step; the order without the model is kept where its values are higher.
            n_evaluations: Coalitions that may be evaluated for that; by default a tenth of the paper's budget,
                `2 (2F + 2048)`. The steps after that go by the graph alone.
            sample: Which sample of the game the graph is of.

        Returns:
            (F,) scores: Shapley values for "shapley", otherwise positive numbers that sum to one. Those of "keep",
            "remove" and "hold" fall linearly along the order.

        Example:
            >>> graph = ExplanationGraph([[0, 0], [1 / 2, 0]], shapley=[3 / 2, 1 / 2])
            >>> graph.ranking().round(3)
            array([0.667, 0.333])
            >>> graph.ranking("pagerank").round(3)
            array([0.533, 0.467])
            >>> graph.ranking("pagerank", personalized=True).round(3)
            array([0.568, 0.432])
        """
        method = self._checked_method(method, personalized)
        if game is not None:
            return hybrid_scores(self, game, method=method, n_evaluations=n_evaluations, sample=sample)
        if n_evaluations is not None:
            raise ValueError(
                "`n_evaluations` must be given with `game` only, got it alone. Pass the game of the graph."
            )
        ranking = rank_all([self], method=method, personalized=personalized, oriented=oriented)[0]
        scores: FloatArray = ranking.scores.copy()
        return scores

    def order(
        self, method: RankingMethod | None = None, *, personalized: bool = False, oriented: bool = True
    ) -> IndexArray:
        """Return players by descending score, most important first.

        Scores within 1e-12 of the largest one are ties; they go by Shapley value (if known) under the same
        tolerance, then by index.

        Args:
            method: As in `ranking`.
            personalized: As in `ranking`.
            oriented: As in `ranking`.

        Returns:
            (F,) indices.

        Example:
            >>> ExplanationGraph([[0, 1, 1], [0, 0, 1], [0, 1, 0]]).order()
            array([1, 2, 0])
        """
        method = self._checked_method(method, personalized)
        ranking = rank_all([self], method=method, personalized=personalized, oriented=oriented)[0]
        order: IndexArray = ranking.order.copy()
        return order

    @property
    def ranked_on(self) -> str:
        """What the rankings "keep" and "remove" read: "log_odds" where the graph has them, or else its own behavior.

        Example:
            >>> ExplanationGraph([[0, 1], [2, 0]], shapley=[2, 1], provenance={"behavior": "probability"}).ranked_on
            'probability'
        """
        return "log_odds" if self.log_odds is not None else str(self.provenance.get("behavior", "weights"))

    def _checked_method(self, method: RankingMethod | None, personalized: bool) -> RankingMethod:
        if method is None:
            return method_of(self, personalized=personalized)
        check_choice(method, RankingMethod, "method")
        return method

    def redundancy(
        self, gamma: float = DEFAULT_GAMMA, *, rule: RedundancyRule = "noise", confidence: float = CONFIDENCE
    ) -> RedundancyGraph:
        """Return the redundancy graph H at threshold gamma.

        Under "noise" an edge is redundant if the two-sided confidence interval of its weight lies within
        `[-gamma, gamma]`, not redundant if it lies outside, and undecided otherwise. On exact weights both
        rules agree. A mean graph is decided on the mean absolute weights, which do not cancel.

        Args:
            gamma: Largest weight that counts as redundant, inclusive.
            rule: "noise", or "paper" for `|weight| <= gamma` whatever the standard error.
            confidence: Of the interval, between 0 and 1; normal errors are assumed.

        Example:
            >>> graph = ExplanationGraph([[0, 0.1], [0.3, 0]], standard_error=[[0, 0.01], [0.04, 0]])
            >>> h = graph.redundancy(0.25)
            >>> bool(h.adjacency[0, 1]), bool(h.undecided[1, 0])
            (True, True)
        """
        check_choice(rule, RedundancyRule, "rule")
        confidence = check_fraction(confidence, "confidence")
        return redundancy_of_all([self], check_gamma(gamma), rule=rule, confidence=confidence)[0]

    def roles(self, gamma: float | None = None, *, confidence: float = CONFIDENCE) -> Roles:
        """Return the role of each player; :mod:`bivshap_lightning.graph.roles` defines them. Needs Shapley values.

        Args:
            gamma: The threshold; by default `relative_gamma`.
            confidence: Of the intervals that decide estimated graphs, between 0 and 1.

        Example:
            >>> graph = ExplanationGraph([[0, 0], [0, 0]], names=["a", "b"], shapley=[1 / 2, 1 / 2])  # OR(a, b)
            >>> graph.roles().roles, graph.roles().groups
            (('interchangeable', 'interchangeable'), ((0, 1),))
        """
        gammas = None if gamma is None else [check_gamma(gamma)]
        return roles_of_all([self], gammas, confidence=check_fraction(confidence, "confidence"))[0]

    def substitution(self, gamma: float | None = None) -> FloatArray:
        """Return D, (F, F): `D[i, j]`, the share of i's importance that is gone once j is present.

        1 if j makes i redundant, negative if j makes i matter more; NaN where i is not relevant and on the diagonal.
        `substitution_parts` splits it into saturation and the pair's own part and lists the strongest pairs.

        Args:
            gamma: Shapley values of at most `2 gamma` are not relevant; by default `relative_gamma`.

        Example:
            >>> ExplanationGraph([[0, 0], [1 / 2, 0]], shapley=[3 / 2, 1 / 2]).substitution().round(3)  # max(2a, b)
            array([[  nan, 0.333],
                   [1.   ,   nan]])
        """
        return self.substitution_parts(gamma).total

    def substitution_parts(self, gamma: float | None = None) -> Substitution:
        """Return `substitution` with its two parts, their errors, and the strongest substitutes and partners.

        Args:
            gamma: As in `substitution`.

        Example:
            >>> graph = ExplanationGraph([[0, 0], [1 / 2, 0]], names=["a", "b"], shapley=[3 / 2, 1 / 2])  # max(2a, b)
            >>> pair = graph.substitution_parts().substitutes()[0]
            >>> pair.player, pair.given, round(pair.own, 3)
            ('b', 'a', 0.667)
        """
        return substitution_of(self, self.relative_gamma if gamma is None else check_gamma(gamma))

    def density_curve(self, gammas: ArrayLike | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the density of H over gamma by the paper's rule, to choose gamma from.

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
        return density_curve(self._sorted_magnitudes, gammas)

    def suggest_gamma(self, density: float = 0.5) -> float:
        """Return the smallest gamma at which H (by the paper's rule) has at least this density.

        Args:
            density: Above 0, up to 1. The paper chooses about one half.

        Example:
            >>> ExplanationGraph([[0, 0.1], [0.3, 0]]).suggest_gamma()
            0.1
        """
        return gamma_at_density(self._sorted_magnitudes, density)

    @staticmethod
    def mean(graphs: "Iterable[ExplanationGraph]") -> "ExplanationGraph":
        """Return the mean graph of several samples, such as those of a class.

        Weights are signed means, and `disagreement` tells where signs differ. Redundancy, roles and rankings are those
        of the mean absolute values, which do not cancel. All samples share one design of coalitions, so their errors
        are correlated: the mean of the standard errors bounds that of the mean.

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
        write_record(path, _KIND, conversion.explanation_to_fields(self))

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
        record = read_record(path, _KIND, conversion.REQUIRED_FIELDS)
        try:
            return conversion.explanation_from_fields(record)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`path` must hold a valid graph, got {os.fspath(path)}: {error}") from error

    @cached_property
    def _sorted_magnitudes(self) -> FloatArray:
        weights = self.weights if self.absolute is None else self.absolute.weights
        return np.sort(np.abs(weights[self.pairs()]))
