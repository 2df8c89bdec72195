"""What is kept of a predicted value after removal: metrics of regressions, in place of accuracies.

A value has no decision that stays or goes. Its distance from the value on the whole input is reported in its own units,
and as a share of `abs(u(all) - u(none))`, of which nothing is kept once the distance reaches it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from bivshap_lightning.game import Game
from bivshap_lightning.graph import DEFAULT_GAMMA
from bivshap_lightning.graph.batched import RankingMethod
from bivshap_lightning.graph.threshold import Gamma, check_any_gamma, gammas_of
from bivshap_lightning.metrics.controls import N_DRAWS, check_draws, random_removals
from bivshap_lightning.metrics.grid import N_POINTS, players_at_fractions
from bivshap_lightning.metrics.inputs import RankingOrGraph, check_method, graph_per_sample, player_ranks
from bivshap_lightning.metrics.mutual import representatives
from bivshap_lightning.metrics.plotting import COLOURS, area_label, draw_curve
from bivshap_lightning.metrics.redundancy import RedundancyBatch
from bivshap_lightning.metrics.results import Convention, SampleScores, Totals
from bivshap_lightning.metrics.sample_metric import SampleMetric

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _distances(game: Game, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Return `abs(u - u(all))` of coalitions (B, K), and `abs(u(all) - u(none))` (B,), float64 on the CPU."""
    ends = torch.ones(game.n_samples, 1, game.n_players, dtype=torch.bool, device=masks.device)
    values = game(torch.cat([ends, ~ends, masks], dim=1)).cpu().double()
    distances = (values[:, 1:] - values[:, :1]).abs()
    return distances[:, 1:], distances[:, 0]


def _kept(lost: Tensor, size: Tensor) -> Tensor:
    """Return `1 - lost / size`, 0 where there is nothing to keep."""
    return torch.where(size > 0, 1 - lost / size.clamp(min=torch.finfo(torch.float64).tiny), 0)


class PredictionKept(SampleMetric):
    """How far the explained value moves while the least important players are removed.

    With `d(S) = abs(u(S) - u(all))`, at fraction `k` in 0, 0.04, ..., 1 the `int(F k)` lowest-ranked of the sample's F
    players are removed.

    `error` is in units of the output, at least 0, lower is better; `share_kept` ranges from 0 to 1, higher is better.
    It is most sensitive to how players are removed. `update` takes a ranking or graph, see
    :mod:`bivshap_lightning.metrics.inputs`, a game of any behavior, and 28 coalitions per sample.

    `compute` returns:

    * `error`, `error_se`: mean of `d` over the fractions, by the trapezoidal rule, mean over samples;
    * `share_kept`, `share_kept_se`: 1 less the same mean of `min(d, size) / size`, with the sums of all samples and
      `size = abs(u(all) - u(none))`; 0 if all sizes are 0;
    * `curve`, `curve_se` (26,): `share_kept` at each fraction; `masked_fraction` (26,);
    * `n_samples`; with `per_sample`, `per_sample_error` and `per_sample_share_kept`, (N,) each.

    Args:
        convention: By default graphs are ranked with the sign of `u(all) - u(none)`; for "paper" as they are.
        method: How the players of a graph are ranked, see :meth:`~bivshap_lightning.ExplanationGraph.ranking`; by
            default "hold", the ranking that the metric is about. A feature that pulls a value down holds it in its
            place as much as one that lifts it.
        personalized: Whether PageRank restarts by Shapley values, as the paper's does.
        per_sample: Whether to keep every sample's score.
        kwargs: torchmetrics' own.

    Example:
        >>> weights = torch.tensor([-3.0, -1.0])
        >>> metric = PredictionKept()
        >>> metric.update(Game(lambda x: x @ weights, torch.ones(1, 2), behavior="output"), weights.abs())
        >>> result = metric.compute()  # loses 0, then 1, at the last step 4
        >>> result["error"], result["share_kept"]
        (tensor(1.5000, dtype=torch.float64), tensor(0.6250, dtype=torch.float64))
        >>> figure, ax = metric.plot()
    """

    higher_is_better: bool = False
    plot_lower_bound: float = 0.0
    by_size: ClassVar[bool] = True

    _shapes: ClassVar = {
        "error": (), "lost": (), "size": (), "share_kept": (), "curve_lost": (N_POINTS,), "masked": (N_POINTS,),
        "players": (),
    }  # fmt: skip
    _per_sample: ClassVar = ("error", "share_kept")
    _main: ClassVar = ("error",)

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
        oriented = self.convention == "default"
        ranks = player_ranks(
            game,
            ranking_or_graph,
            method=check_method(self.method, self.convention),
            default="hold",
            personalized=self.personalized,
            oriented=oriented,
        )
        masked = players_at_fractions(game.player_counts)
        n_kept = game.player_counts[:, None] - masked
        distance, size = _distances(game, ranks[:, None] < n_kept[:, :, None])
        masked, players = masked.cpu(), game.player_counts.cpu()
        x = masked.double() / players[:, None]
        lost = torch.minimum(distance, size[:, None])
        area = torch.trapezoid(lost, x, dim=1)
        return {
            "error": torch.trapezoid(distance, x, dim=1),
            "lost": area,
            "size": size,
            "share_kept": _kept(area, size),
            "curve_lost": lost,
            "masked": masked,
            "players": players,
        }

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        size = totals.mean("size").clamp(min=torch.finfo(torch.float64).tiny)
        return {
            **totals.estimate("error"),
            "share_kept": _kept(totals.sums["lost"], totals.sums["size"]),
            "share_kept_se": totals.standard_error("lost") / size,
            "curve": _kept(totals.sums["curve_lost"], totals.sums["size"]),
            "curve_se": totals.standard_error("curve_lost") / size,
            "masked_fraction": totals.share("masked", "players"),
        }

    def _draw(self, ax: Axes, result: Mapping[str, Tensor]) -> None:
        label = area_label(result, "share_kept").replace("_", " ")
        draw_curve(ax, result["masked_fraction"], result["curve"], result["curve_se"], label=label)
        ax.set(xlabel="fraction of players removed, least important first", ylabel="share of the prediction kept")


class RepresentativesKept(SampleMetric):
    """How far the explained value moves when each mutually redundant group keeps its highest-ranked member only.

    Errors are in units of the output, lower is better. It is most sensitive to `gamma`. `update` takes graphs, see
    :mod:`bivshap_lightning.metrics.inputs`, and `3 + n_draws` coalitions per sample.

    `compute` returns:

    * `error_with_representatives`: mean over samples of `abs(u(kept) - u(all))`;
    * `random_removal_error`: control, with as many players removed at random, mean over the draws;
    * `empty_error`: control, with all players removed: `abs(u(all) - u(none))`;
    * each of these with `_se`; `share_kept_with_representatives`: `1 - error / size` of the sums of all samples, errors
      cut off at `size = abs(u(all) - u(none))`;
    * `n_samples`; with `per_sample`, `per_sample_<error>` of the three errors, (N,) each.

    Args:
        gamma: Largest weight that counts as redundant, for graphs G: a number, or a
            :class:`~bivshap_lightning.graph.RelativeGamma`, by each sample's number of players. A `RedundancyGraph`
            has its own.
        convention: "paper" ignores standard errors and the sign of `u(all) - u(none)`.
        n_draws: Number of draws over which the control is averaged.
        seed: Of the draws. They do not depend on batches, processes or global generators.
        per_sample: Whether to keep every sample's score.
        kwargs: torchmetrics' own.

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> game = Game(lambda x: -5 * x.amax(dim=1), torch.ones(1, 2), behavior="output")
        >>> metric = RepresentativesKept()
        >>> metric.update(game, ExplanationGraph([[0, 0], [0, 0]], shapley=[-2.5, -2.5]))
        >>> result = metric.compute()
        >>> result["error_with_representatives"].item(), result["empty_error"].item()
        (0.0, 5.0)
        >>> figure, ax = metric.plot()
    """

    higher_is_better: bool = False
    plot_lower_bound: float = 0.0

    _ERRORS: ClassVar = ("error_with_representatives", "random_removal_error", "empty_error")
    _shapes: ClassVar = dict.fromkeys((*_ERRORS, "lost"), ())
    _per_sample: ClassVar = _ERRORS
    _main: ClassVar = _ERRORS

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
        self.gamma, draws = check_any_gamma(gamma), check_draws(n_draws, seed)
        settings = {"gamma": self.gamma, **draws}
        super().__init__(convention=convention, per_sample=per_sample, settings=settings, **kwargs)
        self.n_draws, self.seed = draws["n_draws"], draws["seed"]

    def _measure(self, game: Game, ranking_or_graph: RankingOrGraph) -> SampleScores:
        graphs = graph_per_sample(game, ranking_or_graph)
        batch = RedundancyBatch.from_graphs(graphs, game.n_players, gammas_of(self.gamma, graphs), self.convention)
        stays = representatives(graphs, batch, oriented=self.convention == "default")
        n_removed = (~stays).sum(dim=1, keepdim=True)
        random = random_removals(game, n_removed, n_draws=self.n_draws, seed=self.seed)
        distance, size = _distances(game, torch.cat([stays[:, None], random.flatten(1, 2)], dim=1))
        errors = distance[:, 0], distance[:, 1:].mean(dim=1), size
        return {**dict(zip(self._ERRORS, errors, strict=True)), "lost": torch.minimum(distance[:, 0], size)}

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        result: dict[str, Tensor] = {}
        for name in self._ERRORS:
            result |= totals.estimate(name)
        return {**result, "share_kept_with_representatives": _kept(totals.sums["lost"], totals.sums["empty_error"])}

    def _draw(self, ax: Axes, result: Mapping[str, Tensor]) -> None:
        values = [float(result[name]) for name in self._ERRORS]
        ax.barh(range(len(values)), values, color=COLOURS[0], height=0.6, alpha=0.85)
        ax.set_yticks(range(len(values)), [name.replace("_", " ") for name in self._ERRORS])
        ax.invert_yaxis()
        ax.set(xlabel="distance from the prediction, in its units")
        ax.grid(axis="x", alpha=0.3)
