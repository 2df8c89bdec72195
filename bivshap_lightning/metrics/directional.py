"""Directional redundancy: accuracy when the sources or the sinks of the redundancy graph are masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from bivshap_lightning.checks import check_choice
from bivshap_lightning.game import Game
from bivshap_lightning.graph import DEFAULT_GAMMA, RedundancyGraph
from bivshap_lightning.graph.threshold import Gamma, check_any_gamma, gammas_of
from bivshap_lightning.metrics.controls import N_DRAWS, check_draws, random_removals
from bivshap_lightning.metrics.inputs import GraphsLike, RankingOrGraph, graph_per_sample
from bivshap_lightning.metrics.plotting import draw_maskings
from bivshap_lightning.metrics.post_hoc import keeps_decision
from bivshap_lightning.metrics.redundancy import STATISTICS, RedundancyBatch, h_statistics, summarize_statistics
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

Masking = Literal["mask_sinks", "keep_only_sources", "mask_sources", "keep_only_sinks"]
MASKINGS: tuple[Masking, ...] = get_args(Masking)
_ACCURACIES = tuple(f"{masking}_accuracy" for masking in MASKINGS)


def directional_redundancy(
    game: Game,
    ranking_or_graph: GraphsLike,
    *,
    gamma: Gamma = DEFAULT_GAMMA,
    convention: Convention = "default",
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> MetricResult:
    """Return what :class:`DirectionalRedundancy` computes on one batch, and its scores per sample (B,).

    Args:
        game: The game of B samples.
        ranking_or_graph: Graphs, see :mod:`bivshap_lightning.metrics.inputs`.
        gamma: As in the class.
        convention: As in the class.
        n_draws: As in the class.
        seed: As in the class.

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> game = Game(lambda x: (x * torch.tensor([8.0, 4.0])).amax(dim=1) - 6, torch.ones(1, 2))
        >>> result = directional_redundancy(game, ExplanationGraph([[0, 0], [1 / 2, 0]]))  # max(2a, b)
        >>> result["per_sample_mask_sinks_accuracy"], result["per_sample_mask_sources_accuracy"]
        (tensor([1.], dtype=torch.float64), tensor([0.], dtype=torch.float64))
    """
    settings = _check_settings(gamma, n_draws, seed)
    scores = _directional_update(game, ranking_or_graph, convention=convention, **settings)
    return functional_result("DirectionalRedundancy", convention, scores, _directional_compute, _ACCURACIES)


def _check_settings(gamma: Gamma, n_draws: int, seed: int) -> dict[str, Any]:
    return {"gamma": check_any_gamma(gamma), **check_draws(n_draws, seed)}


def _directional_update(
    game: Game, ranking_or_graph: RankingOrGraph, *, gamma: Gamma, convention: Convention, n_draws: int, seed: int
) -> SampleScores:
    check_choice(convention, Convention, "convention")
    graphs = graph_per_sample(game, ranking_or_graph)
    batch = RedundancyBatch.from_graphs(graphs, game.n_players, gammas_of(gamma, graphs), convention)
    sources, sinks = _sources_and_sinks(batch.graphs, game.n_players, convention)
    has_direction = (sources | sinks).any(dim=1)
    masked = _masked(sources, sinks, game.player_counts.cpu())
    if convention == "default":
        masked &= has_direction[:, None, None]
    n_masked = masked.sum(dim=2)
    random = random_removals(game, n_masked, n_draws=n_draws, seed=seed)
    whole = torch.ones(game.n_samples, 1, game.n_players, dtype=torch.bool)
    masks = [whole, ~whole, ~masked, random.flatten(1, 2)]
    right = keeps_decision(game, torch.cat(masks, dim=1)).split([mask.shape[1] for mask in masks], dim=1)
    random_right = right[3].unflatten(1, (len(MASKINGS), n_draws)).mean(dim=2)
    scores = {**h_statistics(batch), "without_direction": ~has_direction, "empty_accuracy": right[1][:, 0]}
    for k, masking in enumerate(MASKINGS):
        scores[f"{masking}_accuracy"], scores[f"{masking}_masked"] = right[2][:, k], n_masked[:, k]
        scores[f"{masking}_random_accuracy"] = random_right[:, k]
    return scores


def _masked(sources: Tensor, sinks: Tensor, counts: Tensor) -> Tensor:
    """Return the masked players of each masking, bool (B, 4, F)."""
    has_player = torch.arange(sources.shape[1]) < counts[:, None]
    masked = {
        "mask_sinks": sinks,
        "keep_only_sources": has_player & ~sources,
        "mask_sources": sources,
        "keep_only_sinks": has_player & ~sinks,
    }
    return torch.stack([masked[masking] for masking in MASKINGS], dim=1)


def _sources_and_sinks(
    graphs: Sequence[RedundancyGraph], n_players: int, convention: Convention
) -> tuple[Tensor, Tensor]:
    """Return bool (B, F) each."""
    is_source, is_sink = np.zeros((2, len(graphs), n_players), dtype=np.bool_)
    if convention == "default":
        for sample, components in enumerate(RedundancyGraph.components_of_all(graphs)):
            is_source[sample, : graphs[sample].n_players] = components.is_source
            is_sink[sample, : graphs[sample].n_players] = components.is_sink
    else:
        for sample, h in enumerate(graphs):
            sources, sinks = h.sources_and_sinks(convention)
            is_source[sample, list(sources)] = True
            is_sink[sample, list(sinks)] = True
    return torch.from_numpy(is_source), torch.from_numpy(is_sink)


def _directional_compute(totals: Totals) -> dict[str, Tensor]:
    result: dict[str, Tensor] = {}
    for masking in MASKINGS:
        result |= totals.estimate(f"{masking}_accuracy")
        result |= totals.estimate(f"{masking}_random_accuracy")
        result[f"{masking}_share_masked"] = totals.share(f"{masking}_masked", "players")
    result |= totals.estimate("empty_accuracy")
    return {**result, "share_without_direction": totals.mean("without_direction"), **summarize_statistics(totals)}


class DirectionalRedundancy(SampleMetric):
    """How often the prediction stays the same under four maskings of the sources and sinks of H.

    Sources make other components redundant and no other component makes them so; for sinks it is the reverse. A sample
    counts as right when the decision is the one on the whole input.

    | masking | what stays | a good graph |
    | --- | --- | --- |
    | `mask_sinks` | all but the sinks | keeps accuracy: higher is better |
    | `keep_only_sources` | the sources | keeps accuracy, with much masked: higher is better |
    | `mask_sources` | all but the sources | loses it: lower is better |
    | `keep_only_sinks` | the sinks | loses it: lower is better |

    So `higher_is_better` is None. All shares and accuracies range from 0 to 1. It is most sensitive to `gamma`.
    `update` takes graphs, see :mod:`bivshap_lightning.metrics.inputs`, and `6 + 4 n_draws` coalitions per sample.

    `compute` returns, for each masking `m` of the table:

    * `<m>_accuracy`, `<m>_accuracy_se`;
    * `<m>_random_accuracy`, `<m>_random_accuracy_se`: control, with as many players removed at random, mean over the
      draws;
    * `<m>_share_masked`: masked players / players of all samples;

    and

    * `empty_accuracy`, `empty_accuracy_se`: control, with all players removed;
    * `share_without_direction`: samples without sources and sinks (one player, H empty, or a single component). By
      default nothing is masked there, so they count as right in all four;
    * of H: `density`, `density_se` (mean over samples), `groups_per_sample`, `group_size` (mean over groups, 0
      without any), `share_grouped` (players in groups / players), `share_undecided` (edges that the noise leaves
      undecided / pairs);
    * `n_samples`; with `per_sample`, `per_sample_<m>_accuracy` (N,) for each masking.

    Args:
        gamma: Largest weight that counts as redundant, for graphs G: a number, or a
            :class:`~bivshap_lightning.graph.RelativeGamma`, by each sample's number of players. A `RedundancyGraph`
            has its own.
        convention: By default the sinks are all components of H without outgoing edges; for "paper" those with the
            highest PageRank of their part, usually one of several. "paper" also ignores standard errors, and where
            there are no sources or sinks to keep it masks all players, as the published code does: the shares masked
            of `mask_sinks` and `keep_only_sinks` then add up to 1, as in the paper's tables.
        n_draws: Number of draws over which the controls are averaged.
        seed: Of the draws. They do not depend on batches, processes or global generators.
        per_sample: Whether to keep every sample's score.
        kwargs: torchmetrics' own.

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> game = Game(lambda x: (x * torch.tensor([8.0, 4.0])).amax(dim=1) - 6, torch.ones(1, 2))
        >>> metric = DirectionalRedundancy()
        >>> metric.update(game, ExplanationGraph([[0, 0], [1 / 2, 0]]))  # max(2a, b): a makes b redundant
        >>> result = metric.compute()
        >>> result["mask_sinks_accuracy"].item(), result["mask_sinks_share_masked"].item()
        (1.0, 0.5)
        >>> result["keep_only_sinks_accuracy"].item()
        0.0
        >>> figure, ax = metric.plot()
    """

    higher_is_better: None = None
    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0

    _shapes: ClassVar = {
        **STATISTICS,
        "without_direction": (),
        "empty_accuracy": (),
        **dict.fromkeys(_ACCURACIES, ()),
        **dict.fromkeys((f"{masking}_random_accuracy" for masking in MASKINGS), ()),
        **dict.fromkeys((f"{masking}_masked" for masking in MASKINGS), ()),
    }
    _per_sample: ClassVar = _ACCURACIES
    _main: ClassVar = _ACCURACIES

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
        return _directional_update(
            game,
            ranking_or_graph,
            gamma=self.gamma,
            convention=self.convention,
            n_draws=self.n_draws,
            seed=self.seed,
        )

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        return _directional_compute(totals)

    def _draw(self, ax: Axes, result: Mapping[str, Tensor]) -> None:
        draw_maskings(ax, result, MASKINGS)
