"""Directional redundancy: whether players that others make redundant can go, and those others cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from bivshap_lightning.game import Game
from bivshap_lightning.graph import RedundancyGraph
from bivshap_lightning.graph.checks import check_choice, check_gamma
from bivshap_lightning.metrics.inputs import Graphs, RankingOrGraph, existing_players, redundancy_inputs
from bivshap_lightning.metrics.plotting import draw_maskings
from bivshap_lightning.metrics.post_hoc import keeps_decision
from bivshap_lightning.metrics.redundancy import STATISTICS, Redundancies, describe, summarize
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
    game: Game, ranking_or_graph: Graphs, *, gamma: float = 1e-5, convention: Convention = "default"
) -> MetricResult:
    """What :class:`DirectionalRedundancy` reports on one batch, and its scores per sample (B,).

    Args:
        game: The game of B samples to judge on.
        ranking_or_graph: Graphs, see :mod:`bivshap_lightning.metrics.inputs`.
        gamma: As in the class.
        convention: As in the class.

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> game = Game(lambda x: (x * torch.tensor([8.0, 4.0])).amax(dim=1) - 6, torch.ones(1, 2))
        >>> result = directional_redundancy(game, ExplanationGraph([[0, 0], [1 / 2, 0]]))  # max(2a, b)
        >>> result["per_sample_mask_sinks_accuracy"], result["per_sample_mask_sources_accuracy"]
        (tensor([1.], dtype=torch.float64), tensor([0.], dtype=torch.float64))
    """
    scores = _directional_update(game, ranking_or_graph, gamma=check_gamma(gamma), convention=convention)
    return functional_result("DirectionalRedundancy", convention, scores, _directional_compute, _ACCURACIES)


def _directional_update(
    game: Game, ranking_or_graph: RankingOrGraph, *, gamma: float, convention: Convention
) -> SampleScores:
    check_choice(convention, Convention, "convention")
    graphs = redundancy_inputs(game, ranking_or_graph)
    redundancies = Redundancies.of(graphs, game.n_players, gamma, convention)
    sources, sinks = _sources_and_sinks(redundancies.graphs, game.n_players, convention)
    present = {
        "mask_sinks": ~sinks,
        "keep_only_sources": sources | ~sources.any(dim=1, keepdim=True),
        "mask_sources": ~sources,
        "keep_only_sinks": sinks | ~sinks.any(dim=1, keepdim=True),
    }
    masks = torch.stack([torch.ones_like(sinks), *(present[masking] for masking in MASKINGS)], dim=1)
    right = keeps_decision(game, masks)
    masked = (~masks & existing_players(game).cpu()[:, None]).sum(dim=2)
    statistics = describe(redundancies)
    scores = {**statistics, "without_direction": ~(sources | sinks).any(dim=1)}
    for place, masking in enumerate(MASKINGS, start=1):
        scores[f"{masking}_accuracy"], scores[f"{masking}_masked"] = right[:, place], masked[:, place]
    return scores


def _sources_and_sinks(
    graphs: Sequence[RedundancyGraph], n_players: int, convention: Convention
) -> tuple[Tensor, Tensor]:
    """Bool (B, F) each."""
    is_source, is_sink = np.zeros((2, len(graphs), n_players), dtype=np.bool_)
    if convention == "default":
        for sample, condensation in enumerate(RedundancyGraph.condense_all(graphs)):
            is_source[sample, : graphs[sample].n_players] = condensation.is_source
            is_sink[sample, : graphs[sample].n_players] = condensation.is_sink
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
        result[f"{masking}_share_masked"] = totals.share(f"{masking}_masked", "players")
    return {**result, "share_without_direction": totals.mean("without_direction"), **summarize(totals)}


class DirectionalRedundancy(SampleMetric):
    """How often the prediction stays under four maskings of the sources and sinks of H.

    Sources make others redundant and are made so by none outside their component; sinks are made redundant and make
    none so. A sample counts as right when the decision is the one on the whole input.

    | masking | what stays | a good graph |
    | --- | --- | --- |
    | `mask_sinks` | all but the sinks | keeps accuracy: higher is better |
    | `keep_only_sources` | the sources | keeps accuracy, with much masked: higher is better |
    | `mask_sources` | all but the sources | loses it: lower is better |
    | `keep_only_sinks` | the sinks | loses it: lower is better |

    So `higher_is_better` is None. All shares and accuracies range from 0 to 1. It is most sensitive to `gamma`.
    `update` takes graphs, see :mod:`bivshap_lightning.metrics.inputs`, and at most 5 coalitions per sample.

    `compute` returns, for each masking `m` of the table:

    * `<m>_accuracy`, `<m>_accuracy_se`;
    * `<m>_share_masked`: masked players / players of all samples;

    and

    * `share_without_direction`: samples without sources and sinks (one player, H empty, or a single component);
      nothing is masked there, so they count as right in all four;
    * of H: `density`, `density_se` (mean over samples), `groups_per_sample`, `group_size` (mean over groups, 0
      without any), `share_grouped` (players in groups / players), `share_undecided` (edges that the noise leaves
      open / pairs);
    * `n_samples`; with `per_sample`, `per_sample_<m>_accuracy` (N,) for each masking.

    Args:
        gamma: Largest weight that counts as nothing, for graphs G. A `RedundancyGraph` has its own.
        convention: By default the sinks are all components of H without outgoing edges; for "paper" those with the
            highest PageRank of their part, as a rule one of several. "paper" also takes G at face value whatever its
            standard errors.
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
        **dict.fromkeys(_ACCURACIES, ()),
        **dict.fromkeys((f"{masking}_masked" for masking in MASKINGS), ()),
    }
    _per_sample: ClassVar = _ACCURACIES
    _main: ClassVar = _ACCURACIES

    def __init__(
        self,
        *,
        gamma: float = 1e-5,
        convention: Convention = "default",
        per_sample: bool = False,
        **kwargs: Any,
    ) -> None:
        settings = {"gamma": check_gamma(gamma)}
        super().__init__(convention=convention, per_sample=per_sample, settings=settings, **kwargs)
        self.gamma = settings["gamma"]

    def _measure(self, game: Game, ranking_or_graph: RankingOrGraph) -> SampleScores:
        return _directional_update(game, ranking_or_graph, gamma=self.gamma, convention=self.convention)

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        return _directional_compute(totals)

    def _draw(self, ax: Axes, result: Mapping[str, Tensor]) -> None:
        draw_maskings(ax, result, MASKINGS)
