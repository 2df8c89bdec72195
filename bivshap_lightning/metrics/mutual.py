"""Mutual redundancy masking: accuracy when members of mutually redundant groups are masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bivshap_lightning.checks import check_choice
from bivshap_lightning.game import Game
from bivshap_lightning.graph import DEFAULT_GAMMA, ExplanationGraph
from bivshap_lightning.graph.batched import RankingMethod, rank_all
from bivshap_lightning.graph.threshold import Gamma, check_any_gamma, gammas_of
from bivshap_lightning.metrics.controls import N_DRAWS, check_draws, random_removals
from bivshap_lightning.metrics.inputs import AnyGraph, GraphsLike, RankingOrGraph, graph_per_sample, pad_with_indices
from bivshap_lightning.metrics.plotting import draw_curve, draw_point
from bivshap_lightning.metrics.post_hoc import keeps_decision
from bivshap_lightning.metrics.redundancy import (
    STATISTICS,
    RedundancyBatch,
    h_statistics,
    summarize_statistics,
)
from bivshap_lightning.metrics.results import (
    Convention,
    MetricResult,
    SampleScores,
    Totals,
    functional_result,
)
from bivshap_lightning.metrics.sample_metric import SampleMetric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IntArray = NDArray[np.intp]

N_LEVELS = 11
"""Shares of a group that stay: 0, 0.1, ..., 1."""

_PER_SAMPLE = ("accuracy_with_representatives", "share_removable")


def mutual_redundancy_masking(
    game: Game,
    ranking_or_graph: GraphsLike,
    *,
    gamma: Gamma = DEFAULT_GAMMA,
    convention: Convention = "default",
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> MetricResult:
    """Return what :class:`MutualRedundancyMasking` computes on one batch, and its scores per sample (B,).

    Args:
        game: The game of B samples.
        ranking_or_graph: GraphsLike, see :mod:`bivshap_lightning.metrics.inputs`.
        gamma: As in the class.
        convention: As in the class.
        n_draws: As in the class.
        seed: As in the class.

    Example:
        >>> game = Game(lambda x: 8 * x.amax(dim=1) - 4, torch.ones(1, 2))  # OR: one of the two is enough
        >>> result = mutual_redundancy_masking(game, ExplanationGraph([[0, 0], [0, 0]]))
        >>> result["per_sample_accuracy_with_representatives"], result["per_sample_share_removable"]
        (tensor([1.], dtype=torch.float64), tensor([0.5000], dtype=torch.float64))
    """
    settings = _check_settings(gamma, n_draws, seed)
    scores = _mutual_update(game, ranking_or_graph, convention=convention, **settings)
    return functional_result("MutualRedundancyMasking", convention, scores, _mutual_compute, _PER_SAMPLE)


def _check_settings(gamma: Gamma, n_draws: int, seed: int) -> dict[str, Any]:
    return {"gamma": check_any_gamma(gamma), **check_draws(n_draws, seed)}


def _mutual_update(
    game: Game, ranking_or_graph: RankingOrGraph, *, gamma: Gamma, convention: Convention, n_draws: int, seed: int
) -> SampleScores:
    check_choice(convention, Convention, "convention")
    graphs = graph_per_sample(game, ranking_or_graph)
    batch = RedundancyBatch.from_graphs(graphs, game.n_players, gammas_of(gamma, graphs), convention)
    kept = _kept(batch, n_draws, seed, at_least=1 if convention == "default" else 0)
    stays = representatives(graphs, batch, oriented=convention == "default")
    removable = (~stays).sum(dim=1)
    random = random_removals(game, removable[:, None], n_draws=n_draws, seed=seed)
    whole = torch.ones(game.n_samples, 1, game.n_players, dtype=torch.bool)
    masks = [whole, ~whole, stays[:, None], random.flatten(1, 2), kept.flatten(1, 2)]
    right = keeps_decision(game, torch.cat(masks, dim=1)).split([mask.shape[1] for mask in masks], dim=1)
    statistics = h_statistics(batch)
    return {
        **statistics,
        "empty_accuracy": right[1][:, 0],
        "accuracy_with_representatives": right[2][:, 0],
        "random_removal_accuracy": right[3].mean(dim=1),
        "removable": removable,
        "share_removable": removable / statistics["players"],
        "n_independent": statistics["players"] - removable,
        "curve": right[4].unflatten(1, (n_draws, N_LEVELS)).mean(dim=1),
        "masked": (~kept[:, 0]).sum(dim=2),
    }


def representatives(graphs: Sequence[AnyGraph], batch: RedundancyBatch, *, oriented: bool) -> Tensor:
    """Return which players stay if each group keeps its highest-ranked member, bool (B, F).

    Args:
        graphs: B of them; an H has no ranking, so there the member with the lowest index stays.
        batch: Their H.
        oriented: Whether graphs are ranked with the sign of `u(all) - u(none)`.

    Example:
        >>> graphs = [ExplanationGraph([[0, 0], [0, 0]])]
        >>> representatives(graphs, RedundancyBatch.from_graphs(graphs, 2, 1e-5, "default"), oriented=True)
        tensor([[ True, False]])
    """
    return torch.from_numpy(_rank_in_component(batch, _ranks_of_groups(graphs, batch, oriented=oriented)) == 0)


def _ranks_of_groups(graphs: Sequence[AnyGraph], batch: RedundancyBatch, *, oriented: bool) -> IntArray:
    """Return (B, F) the rank of each player in its G; an H has no ranking, so there it is the player's index."""
    n_samples, n_players = batch.size_of.shape
    ranks = np.tile(np.arange(n_players), (n_samples, 1))
    # Without groups the ranking is not used, so it is not computed.
    samples = np.flatnonzero((batch.size_of > 1).any(axis=1)).tolist()
    ranked = {sample: graph for sample in samples if isinstance(graph := graphs[sample], ExplanationGraph)}
    if ranked:
        method: RankingMethod | None = None if oriented else "pagerank"  # as in the paper
        rankings = rank_all(list(ranked.values()), method=method, oriented=oriented)
        ranks[list(ranked)] = pad_with_indices([ranking.ranks for ranking in rankings], n_players)
    return ranks


def _kept(batch: RedundancyBatch, n_draws: int, seed: int, *, at_least: int) -> Tensor:
    """Return which players stay: bool (B, draws, levels, F). Players without a group always do.

    The members of a group are arranged on a circle in a random order, and each draw keeps consecutive ones. Draws start
    at equal distances, so that over the draws every member stays about equally often. The order is one of player
    indices and depends on the seed only, so a sample has the same draws in every batch; NumPy guarantees the raw
    stream on every machine and release.
    """
    n_players = batch.size_of.shape[1]
    order = np.argsort(np.random.PCG64(seed).random_raw(n_players), kind="stable")
    position, size = (
        a.astype(np.int32)[:, None, None] for a in (_rank_in_component(batch, np.argsort(order)), batch.size_of)
    )
    distance = position - np.arange(n_draws, dtype=np.int32)[:, None, None] * size // n_draws
    distance += size * (distance < 0)
    n_kept = np.arange(N_LEVELS, dtype=np.int32)[:, None] * size // (N_LEVELS - 1)
    minimum = np.where(size > 1, np.int32(at_least), np.int32(1))
    return torch.from_numpy(distance < np.maximum(n_kept, minimum))


def _rank_in_component(batch: RedundancyBatch, ranks: IntArray) -> IntArray:
    """Return (B, F) how many members of its component rank before each player; ranks are (F,) or (B, F)."""
    component_of, players = batch.component_of, np.arange(batch.component_of.shape[1])
    by_component = np.argsort(component_of * len(players) + ranks, axis=1)
    positions = np.empty_like(by_component)
    np.put_along_axis(positions, by_component, players, axis=1)
    sizes = np.where(component_of == players, batch.size_of, 0)
    n_before = sizes.cumsum(axis=1) - sizes
    positions -= np.take_along_axis(n_before, component_of, axis=1)
    return positions


def _mutual_compute(totals: Totals) -> dict[str, Tensor]:
    return {
        **totals.estimate("accuracy_with_representatives"),
        **totals.estimate("random_removal_accuracy"),
        **totals.estimate("empty_accuracy"),
        "share_removable": totals.share("removable", "players"),
        **totals.estimate("n_independent"),
        **totals.estimate("curve"),
        "masked_fraction": totals.share("masked", "players"),
        "keep_level": torch.arange(N_LEVELS, device=totals.n_samples.device).double() / (N_LEVELS - 1),
        **summarize_statistics(totals),
    }


class MutualRedundancyMasking(SampleMetric):
    """How often the prediction stays the same when members of mutually redundant groups are masked.

    Groups are the strongly connected components of H with more than one member. At keep level 0, 0.1, ..., 1,
    `max(1, int(level * size))` random members of each group stay and the others are masked; all other players stay.
    A sample counts as right when the decision is the one on the whole input.

    Range 0 to 1, higher is better. It is most sensitive to `gamma`. `update` takes graphs, see
    :mod:`bivshap_lightning.metrics.inputs`, and at most `3 + 12 n_draws` coalitions per sample.

    `compute` returns:

    * `accuracy_with_representatives`, `accuracy_with_representatives_se`: with one member per group left, the
      highest-ranked one if an `ExplanationGraph` is given, else the one with the lowest index. Easier to reach than
      `curve[0]`, which keeps random members;
    * `share_removable`: players masked by that / players of all samples. These two are for gates;
    * `n_independent`, `n_independent_se`: players that stay, mean over samples;
    * `random_removal_accuracy`, `random_removal_accuracy_se`: control, with as many players removed at random, mean
      over the draws; `empty_accuracy`, `empty_accuracy_se`: control, with all players removed;
    * `curve`, `curve_se` (11,): accuracy at each keep level with random members, mean over the draws;
    * `masked_fraction` (11,): masked players / players of all samples; `keep_level` (11,);
    * of H: `density`, `density_se` (mean over samples), `groups_per_sample`, `group_size` (mean over groups, 0
      without any), `share_grouped` (players in groups / players), `share_undecided` (edges that the noise leaves
      undecided / pairs);
    * `n_samples`; with `per_sample`, `per_sample_accuracy_with_representatives` and `per_sample_share_removable`,
      (N,) each.

    Without groups (one player, an H without cycles) nothing is masked: all accuracies are 1 and all shares 0. If all
    players are one group, one of them stays.

    Args:
        gamma: Largest weight that counts as redundant, for graphs G: a number, or a
            :class:`~bivshap_lightning.graph.RelativeGamma`, by each sample's number of players. A `RedundancyGraph`
            has its own.
        convention: "paper" goes down to no member left, `int(level * size)`, as its code does, and ignores standard
            errors and the sign of `u(all) - u(none)`.
        n_draws: Number of draws over which the curve and the control are averaged.
        seed: Of the draws. They do not depend on batches, processes or global generators.
        per_sample: Whether to keep every sample's score.
        kwargs: torchmetrics' own.

    Example:
        >>> game = Game(lambda x: 8 * x.amax(dim=1) - 4, torch.ones(1, 2))  # OR: one of the two is enough
        >>> graph = ExplanationGraph([[0, 0], [0, 0]])
        >>> metric, paper = MutualRedundancyMasking(), MutualRedundancyMasking(convention="paper")
        >>> for m in (metric, paper):
        ...     m.update(game, graph)
        >>> result = metric.compute()
        >>> result["accuracy_with_representatives"].item(), result["share_removable"].item()
        (1.0, 0.5)
        >>> result["curve"][0].item(), paper.compute()["curve"][0].item()
        (1.0, 0.0)
        >>> figure, ax = metric.plot()
    """

    higher_is_better: bool = True
    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0

    _shapes: ClassVar = {
        **STATISTICS,
        "accuracy_with_representatives": (),
        "random_removal_accuracy": (),
        "empty_accuracy": (),
        "removable": (),
        "n_independent": (),
        "curve": (N_LEVELS,),
        "masked": (N_LEVELS,),
    }
    _per_sample: ClassVar = _PER_SAMPLE
    _main: ClassVar = ("accuracy_with_representatives", "share_removable")

    def __init__(
        self,
        *,
        gamma: Gamma = DEFAULT_GAMMA,
        convention: Convention = "default",
        n_draws: int = N_DRAWS,
        seed: int = 0,
        per_sample: bool = False,
        **kwargs: Any,
    ) -> None:
        settings = _check_settings(gamma, n_draws, seed)
        super().__init__(convention=convention, per_sample=per_sample, settings=settings, **kwargs)
        self.gamma, self.n_draws, self.seed = settings["gamma"], settings["n_draws"], settings["seed"]

    def _measure(self, game: Game, ranking_or_graph: RankingOrGraph) -> SampleScores:
        return _mutual_update(
            game,
            ranking_or_graph,
            gamma=self.gamma,
            convention=self.convention,
            n_draws=self.n_draws,
            seed=self.seed,
        )

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        return _mutual_compute(totals)

    def _draw(self, ax: Axes, result: Mapping[str, Tensor]) -> None:
        label = f"random members, {self.n_draws} draws"
        draw_curve(ax, result["masked_fraction"], result["curve"], result["curve_se"], label=label)
        draw_point(
            ax,
            result["share_removable"],
            result["accuracy_with_representatives"],
            result["accuracy_with_representatives_se"],
            label="one representative per group",
        )
        ax.set(xlabel="fraction of players masked within redundant groups", ylabel="post-hoc accuracy")
