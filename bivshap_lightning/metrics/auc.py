"""Insertion and deletion AUC: the utility while the most important players are inserted or removed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
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

PAPER_OFFSET = 0.5
_PER_SAMPLE = ("auc",)


def insertion_auc(
    game: Game,
    ranking_or_graph: RankingLike,
    *,
    convention: Convention = "default",
    method: RankingMethod | None = None,
    personalized: bool = False,
) -> MetricResult:
    """Return what :class:`InsertionAUC` computes on one batch, and `per_sample_auc` (B,).

    Args:
        game: The game of B samples.
        ranking_or_graph: See :mod:`bivshap_lightning.metrics.inputs`.
        convention: As in the class.
        method: As in the class.
        personalized: As in the class.

    Example:
        >>> weights = torch.tensor([3.0, 2.0, 1.0])
        >>> game = Game(lambda x: x @ weights, torch.ones(1, 3), behavior="output")
        >>> insertion_auc(game, weights)["auc"]  # (0 + 3 + 5) / 3
        tensor(2.6667, dtype=torch.float64)
    """
    scores = _auc_update(
        game, ranking_or_graph, insert=True, convention=convention, method=method, personalized=personalized
    )
    return functional_result("InsertionAUC", convention, scores, partial(_auc_compute, insert=True), _PER_SAMPLE)


def deletion_auc(
    game: Game,
    ranking_or_graph: RankingLike,
    *,
    convention: Convention = "default",
    method: RankingMethod | None = None,
    personalized: bool = False,
) -> MetricResult:
    """Return what :class:`DeletionAUC` computes on one batch, and `per_sample_auc` (B,).

    Args:
        game: The game of B samples.
        ranking_or_graph: See :mod:`bivshap_lightning.metrics.inputs`.
        convention: As in the class.
        method: As in the class.
        personalized: As in the class.

    Example:
        >>> weights = torch.tensor([3.0, 2.0, 1.0])
        >>> game = Game(lambda x: x @ weights, torch.ones(1, 3), behavior="output")
        >>> deletion_auc(game, weights)["auc"]  # (6 + 3 + 1) / 3
        tensor(3.3333, dtype=torch.float64)
    """
    scores = _auc_update(
        game, ranking_or_graph, insert=False, convention=convention, method=method, personalized=personalized
    )
    return functional_result("DeletionAUC", convention, scores, partial(_auc_compute, insert=False), _PER_SAMPLE)


def _auc_update(
    game: Game,
    ranking: RankingOrGraph,
    *,
    insert: bool,
    convention: Convention,
    method: RankingMethod | None,
    personalized: bool,
) -> SampleScores:
    check_choice(convention, Convention, "convention")
    method = check_method(method, convention)
    default: RankingMethod = "keep" if insert else "remove"
    oriented = convention == "default"
    ranks = player_ranks(game, ranking, method=method, default=default, personalized=personalized, oriented=oriented)
    steps = torch.arange(game.n_players + 1, device=game.device)
    is_reached = ranks[:, None] < steps[:, None]
    utilities = game(is_reached if insert else ~is_reached).cpu().double()
    steps, counts = steps.cpu(), game.player_counts.cpu()
    n_reached_when_empty = torch.zeros_like(counts) if insert else counts
    empty = utilities.gather(1, n_reached_when_empty[:, None])
    if oriented:  # towards u(all), so that a negative output is judged as a positive one is
        whole = utilities.gather(1, (counts - n_reached_when_empty)[:, None])
        gain = ((utilities - empty) * torch.where(whole < empty, -1.0, 1.0)).clamp(min=0)
    else:
        gain = (utilities - PAPER_OFFSET).clamp(min=0)
    auc = gain.where(steps < counts[:, None], 0).sum(dim=1) / counts
    reached = players_at_fractions(counts)
    return {"auc": auc, "curve": gain.gather(1, reached), "reached": reached, "players": counts}


def _auc_compute(totals: Totals, *, insert: bool) -> dict[str, Tensor]:
    return {
        **totals.estimate("auc"),
        **totals.estimate("curve"),
        "inserted_fraction" if insert else "removed_fraction": totals.share("reached", "players"),
    }


class _StepwiseAUC(SampleMetric):
    """Insertion and deletion AUC, which differ in the direction only."""

    plot_lower_bound: float = 0.0

    _shapes: ClassVar = {"auc": (), "curve": (N_POINTS,), "reached": (N_POINTS,), "players": ()}
    _per_sample: ClassVar = _PER_SAMPLE
    _main: ClassVar = ("auc",)
    _inserts: ClassVar[bool]

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
        return _auc_update(
            game,
            ranking_or_graph,
            insert=self._inserts,
            convention=self.convention,
            method=self.method,
            personalized=self.personalized,
        )

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        return _auc_compute(totals, insert=self._inserts)

    def _draw(self, ax: Axes, result: Mapping[str, Tensor]) -> None:
        verb = "inserted" if self._inserts else "removed"
        fraction = result[f"{verb}_fraction"]
        draw_curve(ax, fraction, result["curve"], result["curve_se"], label=area_label(result, "auc"), filled=True)
        offset = "that of no players" if self._convention_of(result) == "default" else f"{PAPER_OFFSET}"
        ax.set(xlabel=f"fraction of players {verb}, most important first", ylabel=f"utility above {offset}")


class InsertionAUC(_StepwiseAUC):
    """Mean utility while the most important players are inserted first.

    With `I_k` the input of which only the `k` highest-ranked of F players are present, a sample scores
    `(1/F) sum_{k=0}^{F-1} max(s (u(I_k) - c), 0)`: the area under a step curve, without trapezoids and without division
    by `u(x) - c`. The sign s is that of `u(x) - c`, so that a prediction of -3 is judged as one of +3 is.

    At least 0, at most 1 for probabilities; higher is better. It is most sensitive to how players are removed.
    `update` takes a ranking or graph, see :mod:`bivshap_lightning.metrics.inputs`, a game of any behavior, and
    F + 1 coalitions per sample. `u` is the utility of the game: make it with `target=None` and
    `behavior="probability"` for the probability of the predicted class.

    `compute` returns:

    * `auc`, `auc_se`: mean over samples;
    * `curve`, `curve_se` (26,): mean of `max(s (u(I_k) - c), 0)` at `k = int(F x)` for `x` in 0, 0.04, ..., 1;
    * `inserted_fraction` (26,): inserted players / players of all samples;
    * `n_samples`; with `per_sample`, `per_sample_auc` (N,).

    With one player only `u(I_0)` counts, so the default is 0. If all players are null the default is 0.

    Args:
        convention: `c` is the sample's own `u(all removed)` by default, and 0.5 for "paper" (its older code, meant
            for the probability of one of two classes), where s is always 1. By default graphs are ranked with the sign
            of `u(all) - u(none)`, for "paper" as they are.
        method: How the players of a graph are ranked, see :meth:`~bivshap_lightning.ExplanationGraph.ranking`. By
            default "keep" for insertion and "remove" for deletion, each the ranking that the metric is about; for
            "paper", and without Shapley values, "pagerank". No effect on scores.
        personalized: Whether PageRank restarts by Shapley values, as the paper's does.
        per_sample: Whether to keep every sample's score.
        kwargs: torchmetrics' own.

    Example:
        >>> weights = torch.tensor([3.0, 2.0, 1.0])
        >>> metric = InsertionAUC()
        >>> metric.update(Game(lambda x: x @ weights, torch.ones(1, 3), behavior="output"), weights)
        >>> metric.compute()["auc"]  # (0 + 3 + 5) / 3
        tensor(2.6667, dtype=torch.float64)
        >>> figure, ax = metric.plot()
    """

    higher_is_better: bool = True
    _inserts: ClassVar[bool] = True


class DeletionAUC(_StepwiseAUC):
    """Mean utility while the most important players are removed first.

    As :class:`InsertionAUC`, with `D_k`, the input from which the `k` highest-ranked players are removed, in place
    of `I_k`; **lower** is better. `compute` returns `removed_fraction` (26,) in place of `inserted_fraction`.

    With one player the default is `abs(u(x) - u(all removed))`. If all players are null it is 0.

    Args:
        convention: As in :class:`InsertionAUC`.
        method: As in :class:`InsertionAUC`.
        personalized: As in :class:`InsertionAUC`.
        per_sample: Whether to keep every sample's score.
        kwargs: torchmetrics' own.

    Example:
        >>> weights = torch.tensor([3.0, 2.0, 1.0])
        >>> metric = DeletionAUC()
        >>> metric.update(Game(lambda x: x @ weights, torch.ones(1, 3), behavior="output"), weights)
        >>> metric.compute()["auc"]  # (6 + 3 + 1) / 3
        tensor(3.3333, dtype=torch.float64)
        >>> figure, ax = metric.plot()
    """

    higher_is_better: bool = False
    _inserts: ClassVar[bool] = False
