"""Post-hoc accuracy: how often the prediction stays the same while the least important players are masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from bivshap_lightning.checks import check_choice
from bivshap_lightning.game import Game
from bivshap_lightning.graph.batched import RankingMethod
from bivshap_lightning.metrics.grid import N_POINTS, players_at_fractions
from bivshap_lightning.metrics.inputs import RankingLike, RankingOrGraph, check_method, player_ranks
from bivshap_lightning.metrics.plotting import area_label, draw_curve
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

_PER_SAMPLE = ("area",)


def keeps_decision(game: Game, masks: Tensor) -> Tensor:
    """Return whether the decision on each coalition is that on the first one, which must hold all players.

    Args:
        game: Of a classifier, or of a value: :meth:`~bivshap_lightning.Game.predict` defines its decision.
        masks: Bool (B, K, F).

    Returns:
        (B, K), 1 or 0, float64 on the CPU.

    Example:
        >>> game = Game(lambda x: 8 * x[:, 0] - 4, torch.ones(1, 2))
        >>> keeps_decision(game, torch.tensor([[[True, True], [True, False], [False, True]]]))
        tensor([[1., 1., 0.]], dtype=torch.float64)
    """
    decisions = game.predict(masks).cpu()
    return (decisions == decisions[:, :1]).double()


def post_hoc_accuracy(
    game: Game,
    ranking_or_graph: RankingLike,
    *,
    convention: Convention = "default",
    method: RankingMethod | None = None,
    personalized: bool = False,
) -> MetricResult:
    """Return what :class:`PostHocAccuracy` computes on one batch, and `per_sample_area` (B,).

    Args:
        game: The game of B samples.
        ranking_or_graph: See :mod:`bivshap_lightning.metrics.inputs`.
        convention: As in the class.
        method: As in the class.
        personalized: As in the class.

    Example:
        >>> weights = torch.tensor([3.0, 1.0])
        >>> game = Game(lambda x: x @ weights - 2, torch.ones(1, 2))
        >>> post_hoc_accuracy(game, weights)["per_sample_area"]  # wrong at the last step only
        tensor([0.7500], dtype=torch.float64)
    """
    scores = _post_hoc_accuracy_update(
        game, ranking_or_graph, convention=convention, method=method, personalized=personalized
    )
    return functional_result("PostHocAccuracy", convention, scores, _post_hoc_accuracy_compute, _PER_SAMPLE)


def _post_hoc_accuracy_update(
    game: Game, ranking: RankingOrGraph, *, convention: Convention, method: RankingMethod | None, personalized: bool
) -> SampleScores:
    check_choice(convention, Convention, "convention")
    method = check_method(method, convention)
    oriented = convention == "default"
    ranks = player_ranks(game, ranking, method=method, personalized=personalized, oriented=oriented)
    masked = players_at_fractions(game.player_counts)
    n_kept = game.player_counts[:, None] - masked
    right = keeps_decision(game, ranks[:, None] < n_kept[:, :, None])
    masked, players = masked.cpu(), game.player_counts.cpu()
    area = torch.trapezoid(right, masked.double() / players[:, None], dim=1)
    return {"curve": right, "masked": masked, "players": players, "area": area}


def _post_hoc_accuracy_compute(totals: Totals) -> dict[str, Tensor]:
    return {
        **totals.estimate("area"),
        **totals.estimate("curve"),
        "masked_fraction": totals.share("masked", "players"),
    }


class PostHocAccuracy(SampleMetric):
    """How often the prediction stays the same when the lowest-ranked players are masked, over the masked fraction.

    A sample counts as right when the decision on the masked input is the one on the whole input; true labels are not
    used. At fraction `k` in 0, 0.04, ..., 1 the `int(F k)` lowest-ranked of the sample's F players are masked.

    Range 0 to 1, higher is better. It is most sensitive to how players are removed. `update` takes a ranking or
    graph, see :mod:`bivshap_lightning.metrics.inputs`, and 26 coalitions per sample.

    `compute` returns:

    * `area`, `area_se`: under the curve, by the trapezoidal rule over the masked fractions of the sample, mean over
      samples;
    * `curve`, `curve_se` (26,): accuracy at each fraction; it starts at 1;
    * `masked_fraction` (26,): masked players of all samples / players of all samples;
    * `n_samples`; with `per_sample`, `per_sample_area` (N,).

    With one player the curve is 1 up to the last point. If all players are null it is 1 throughout.

    Args:
        convention: By default graphs are ranked with the sign of `u(all) - u(none)`, so that a negative output is
            explained as well as a positive one; for "paper" as they are. No effect on scores.
        method: How the players of a graph are ranked, see :meth:`~bivshap_lightning.ExplanationGraph.ranking`; "keep"
            is meant for this metric. No effect on scores.
        personalized: Whether PageRank restarts by Shapley values, as the paper's does.
        per_sample: Whether to keep every sample's score.
        kwargs: torchmetrics' own.

    Example:
        >>> weights = torch.tensor([3.0, 1.0])
        >>> metric = PostHocAccuracy()
        >>> metric.update(Game(lambda x: x @ weights - 2, torch.ones(1, 2)), weights)
        >>> metric.compute()
        PostHocAccuracy(convention='default', area=0.75, area_se=0, curve: 26 values, curve_se: 26 values,
            masked_fraction: 26 values, n_samples=1)
        >>> figure, ax = metric.plot()
    """

    higher_is_better: bool = True
    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0

    _shapes: ClassVar = {"curve": (N_POINTS,), "masked": (N_POINTS,), "players": (), "area": ()}
    _per_sample: ClassVar = _PER_SAMPLE
    _main: ClassVar = ("area",)

    def __init__(
        self,
        *,
        convention: Convention = "default",
        method: RankingMethod | None = None,
        personalized: bool = False,
        per_sample: bool = False,
        **kwargs: Any,
    ) -> None:
        check_method(method)
        settings = {"method": method, "personalized": personalized}
        super().__init__(convention=convention, per_sample=per_sample, settings=settings, **kwargs)
        self.method = method
        self.personalized = personalized

    def _measure(self, game: Game, ranking_or_graph: RankingOrGraph) -> SampleScores:
        return _post_hoc_accuracy_update(
            game,
            ranking_or_graph,
            convention=self.convention,
            method=self.method,
            personalized=self.personalized,
        )

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        return _post_hoc_accuracy_compute(totals)

    def _draw(self, ax: Axes, result: Mapping[str, Tensor]) -> None:
        draw_curve(ax, result["masked_fraction"], result["curve"], result["curve_se"], label=area_label(result, "area"))
        ax.set(xlabel="fraction of players masked, least important first", ylabel="post-hoc accuracy")
