"""Numbers of the paper that the package's own metrics do not have, and a ranking by chance as control."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from bivshap_lightning import Explanation, Game
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.metrics.inputs import RankingOrGraph, graph_per_sample, player_ranks
from bivshap_lightning.metrics.post_hoc import keeps_decision
from bivshap_lightning.metrics.results import SampleScores, Totals
from bivshap_lightning.metrics.sample_metric import SampleMetric

GAMMA = 1e-5
"""The paper's threshold."""

Ranking = Literal["pagerank", "shapley", "keep", "remove"]


class _Table(SampleMetric):
    """A metric whose result is a table of means and standard errors."""

    _per_sample: ClassVar = ()
    _main: ClassVar = ()
    _means: ClassVar[tuple[str, ...]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(convention="default", per_sample=False, settings=settings)

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        return {key: value for name in self._means for key, value in totals.estimate(name).items()}

    def _draw(self, ax: Any, result: Mapping[str, Tensor]) -> None:
        ax.bar(self._means, [float(result[name]) for name in self._means])


class StepCurves(_Table):
    """Insertion and deletion AUC under three conventions, from one pass of 2 F + 2 coalitions.

    * ``default``: above the value of no player, in the direction of the value of all players (the package's default);
    * ``published``: above the value of no player, whatever is below it cut off (the authors' published code);
    * ``half``: above 0.5 (their older code; the package's "paper").
    """

    _means: ClassVar = tuple(
        f"{way}_{c}" for way in ("insertion", "deletion") for c in ("default", "published", "half")
    )
    _shapes: ClassVar = dict.fromkeys(_means, ())

    def __init__(self, *, method: Ranking = "pagerank", personalized: bool = False) -> None:
        super().__init__(method=method, personalized=personalized)
        self.method, self.personalized = method, personalized

    def _measure(self, game: Game, ranking_or_graph: RankingOrGraph) -> SampleScores:
        scores: dict[str, Tensor] = {}
        settings: dict[str, Any] = {"method": self.method, "personalized": self.personalized}
        # The package ranks with the sign of u(all) - u(none), the paper with the values as they are.
        ranks = {
            oriented: player_ranks(game, ranking_or_graph, oriented=oriented, **settings) for oriented in (True, False)
        }
        if torch.equal(ranks[True], ranks[False]):
            ranks[False] = ranks[True]
        curves = {id(r): _utilities(game, r) for r in ranks.values()}
        counts = game.player_counts.cpu()
        for way, end in (("insertion", torch.zeros_like(counts)), ("deletion", counts)):
            for convention in ("default", "published", "half"):
                values = curves[id(ranks[convention == "default"])][way]
                empty, whole = values.gather(1, end[:, None]), values.gather(1, (counts - end)[:, None])
                sign = torch.where(whole < empty, -1.0, 1.0) if convention == "default" else 1.0
                gain = ((values - (0.5 if convention == "half" else empty)) * sign).clamp(min=0)
                inside = torch.arange(values.shape[1]) < counts[:, None]
                scores[f"{way}_{convention}"] = gain.where(inside, 0).sum(dim=1) / counts
        return scores


def _utilities(game: Game, ranks: Tensor) -> dict[str, Tensor]:
    """Values (B, F + 1) with the k highest-ranked players inserted, and with them removed."""
    is_reached = ranks[:, None] < torch.arange(game.n_players + 1, device=game.device)[:, None]
    values = game(torch.cat([is_reached, ~is_reached], dim=1)).cpu().double()
    return dict(zip(("insertion", "deletion"), values.split(game.n_players + 1, dim=1), strict=True))


class PublishedSinks(_Table):
    """The pair of the paper's directional tables: sinks masked, and everything but the sinks masked.

    Sinks are the components of the largest PageRank. Where there are none the published code masks nothing in the first
    and all players in the second.
    """

    _means: ClassVar = ("mask_sinks_accuracy", "keep_only_sinks_accuracy")
    _shapes: ClassVar = dict.fromkeys((*_means, "mask_sinks_masked", "keep_only_sinks_masked", "players"), ())

    def __init__(self, *, gamma: float = GAMMA) -> None:
        super().__init__(gamma=gamma)
        self.gamma = gamma

    def _measure(self, game: Game, ranking_or_graph: RankingOrGraph) -> SampleScores:
        sinks = torch.zeros(game.n_samples, game.n_players, dtype=torch.bool)
        for sample, graph in enumerate(graph_per_sample(game, ranking_or_graph)):
            h = graph.redundancy(self.gamma, rule="paper") if isinstance(graph, ExplanationGraph) else graph
            sinks[sample, list(h.sources_and_sinks("paper")[1])] = True
        counts = game.player_counts.cpu()
        others = (torch.arange(game.n_players) < counts[:, None]) & ~sinks
        whole = torch.ones_like(sinks)
        right = keeps_decision(game, torch.stack([whole, ~sinks, ~others], dim=1))
        return {
            "mask_sinks_accuracy": right[:, 1], "keep_only_sinks_accuracy": right[:, 2],
            "mask_sinks_masked": sinks.sum(dim=1), "keep_only_sinks_masked": others.sum(dim=1), "players": counts,
        }  # fmt: skip

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        shares = {f"{way}_share": totals.share(f"{way}_masked", "players") for way in ("mask_sinks", "keep_only_sinks")}
        return {**super()._summarize(totals), **shares}


class Structure(_Table):
    """What the structure theorem says of a graph, without any evaluation.

    * ``potential_share``: share of the squares of E2 that the potential R of the players alone explains;
    * ``dead_edges``: share of the edges of H that lead to a player whose Shapley value is zero within 2 gamma.
    """

    _means: ClassVar = ("potential_share",)
    _shapes: ClassVar = dict.fromkeys((*_means, "edges", "dead"), ())

    def _measure(self, game: Game, ranking_or_graph: RankingOrGraph) -> SampleScores:
        rows = []
        for graph in graph_per_sample(game, ranking_or_graph):
            assert isinstance(graph, ExplanationGraph)
            assert graph.shapley is not None
            pairs = graph.pairs()
            weights, rest = graph.weights.T, graph.weights.T - graph.potential[:, None]
            total = float((weights[pairs] ** 2).sum())
            h = graph.redundancy(GAMMA, rule="paper").adjacency
            dead = h & (np.abs(graph.shapley) <= 2 * GAMMA)[None, :]
            rows.append((1 - float((rest[pairs] ** 2).sum()) / total if total else 1.0, int(h.sum()), int(dead.sum())))
        return dict(zip(self._shapes, torch.tensor(rows, dtype=torch.float64).unbind(dim=1), strict=True))

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        return {**super()._summarize(totals), "dead_edges": totals.share("dead", "edges")}


class RandomRanking:
    """Scores by chance: what a method must beat."""

    name = "random"
    is_exact = False

    def minimum_evaluations(self, game: Game) -> int:
        return 0

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        generator = torch.Generator().manual_seed(seed)
        scores = torch.rand(game.n_samples, game.n_players, generator=generator).to(game.device)
        spent = torch.zeros_like(game.n_evaluations)
        return Explanation.of(game, method=self.name, seed=seed, shapley=scores, n_evaluations=spent, is_exact=False)
