"""Role shares: how many players are irrelevant, interchangeable, redundant, essential or undecided.

The groups of interchangeable players are confirmed by the model itself: with one random member kept the decision stays
the same, and with all members removed the value changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from bivshap_lightning.checks import check_choice
from bivshap_lightning.game import Game
from bivshap_lightning.graph import ROLES, ExplanationGraph, RelativeGamma, Roles
from bivshap_lightning.graph.roles import roles_of_all
from bivshap_lightning.graph.threshold import Gamma, check_any_gamma, gammas_of
from bivshap_lightning.metrics.controls import N_DRAWS, check_draws
from bivshap_lightning.metrics.inputs import GraphsLike, RankingOrGraph, graph_per_sample
from bivshap_lightning.metrics.plotting import draw_shares
from bivshap_lightning.metrics.post_hoc import keeps_decision
from bivshap_lightning.metrics.results import Convention, MetricResult, SampleScores, Totals, functional_result
from bivshap_lightning.metrics.sample_metric import SampleMetric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PER_SAMPLE = (*ROLES, "n_independent")
_GROUP_COUNTS = ("n_groups", "n_grouped", "n_stable", "n_moving", "n_confirmed")


def role_shares(
    game: Game,
    ranking_or_graph: GraphsLike,
    *,
    gamma: Gamma | None = None,
    scale: float | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> MetricResult:
    """Return what :class:`RoleShares` computes on one batch, and its scores per sample (B,).

    Args:
        game: The game of B samples.
        ranking_or_graph: Graphs G, see :mod:`bivshap_lightning.metrics.inputs`.
        gamma: As in the class.
        scale: As in the class.
        n_draws: As in the class.
        seed: As in the class.

    Example:
        >>> game = Game(lambda x: 8 * x.amax(dim=1) - 4, torch.ones(1, 2))  # OR: one of the two is enough
        >>> result = role_shares(game, ExplanationGraph([[0, 0], [0, 0]], shapley=[1 / 2, 1 / 2]))
        >>> result["interchangeable"], result["share_groups_confirmed"]
        (tensor(1., dtype=torch.float64), tensor(1., dtype=torch.float64))
    """
    settings = _check_settings(gamma, scale, n_draws, seed)
    scores = _roles_update(game, ranking_or_graph, **settings)
    return functional_result("RoleShares", "default", scores, _roles_compute, _PER_SAMPLE)


def _check_settings(gamma: Gamma | None, scale: float | None, n_draws: int, seed: int) -> dict[str, Any]:
    if gamma is not None and scale is not None:
        raise ValueError(f"`scale` must be None if `gamma` is given, got {scale}. Pass one of the two.")
    if scale is not None:
        gamma = RelativeGamma(float(scale))
    return {"gamma": None if gamma is None else check_any_gamma(gamma), **check_draws(n_draws, seed)}


def _roles_update(
    game: Game,
    ranking_or_graph: RankingOrGraph,
    *,
    gamma: Gamma | None,
    n_draws: int,
    seed: int,
) -> SampleScores:
    given = graph_per_sample(game, ranking_or_graph)
    graphs = [graph for graph in given if isinstance(graph, ExplanationGraph)]
    if len(graphs) < len(given):
        raise TypeError(
            "`ranking_or_graph` must hold an ExplanationGraph per sample, got RedundancyGraph. "
            "Pass the graphs that it was computed from."
        )
    roles = roles_of_all(graphs, None if gamma is None else gammas_of(gamma, graphs))
    scores: dict[str, list[float]] = {role: [r.shares[role] for r in roles] for role in ROLES}
    scores["n_independent"] = [float(r.n_independent) for r in roles]
    return {
        **{name: torch.tensor(values, dtype=torch.float64) for name, values in scores.items()},
        **_confirm_groups(game, roles, n_draws, seed),
    }


def _confirm_groups(game: Game, roles: Sequence[Roles], n_draws: int, seed: int) -> dict[str, Tensor]:
    """Return per sample, float64 (B,): groups, their members, and groups that the model confirms."""
    n_groups = max(len(r.groups) for r in roles)
    member = np.zeros((len(roles), n_groups, game.n_players), dtype=np.bool_)
    for sample, r in enumerate(roles):
        for number, group in enumerate(r.groups):
            member[sample, number, list(group)] = True
    is_group, is_member = member.any(axis=2), torch.from_numpy(member)
    if not n_groups:
        return {name: torch.zeros(len(roles), dtype=torch.float64) for name in _GROUP_COUNTS}
    whole = torch.ones(len(roles), 1, game.n_players, dtype=torch.bool)
    kept = torch.from_numpy(~member[:, :, None] | _random_members(member, n_draws, seed)).flatten(1, 2)
    stays = keeps_decision(game, torch.cat([whole, kept], dim=1))[:, 1:].unflatten(1, (n_groups, n_draws))
    values = game(torch.cat([whole, ~is_member], dim=1)).cpu().double()
    gamma = torch.tensor([r.gamma for r in roles], dtype=torch.float64)[:, None]
    counted = torch.from_numpy(is_group)
    stable = (stays == 1).all(dim=2) & counted
    moving = ((values[:, 1:] - values[:, :1]).abs() > 2 * gamma) & counted
    columns = counted.sum(1), is_member.sum((1, 2)), stable.sum(1), moving.sum(1), (stable & moving).sum(1)
    return {name: column.double() for name, column in zip(_GROUP_COUNTS, columns, strict=True)}


def _random_members(member: np.ndarray[Any, np.dtype[np.bool_]], n_draws: int, seed: int) -> Any:
    """Return one member of each group and draw, bool (B, groups, draws, F), at equal distances of a random order."""
    n_players = member.shape[2]
    order = np.argsort(np.random.PCG64(seed).random_raw(n_players), kind="stable")
    position = np.empty(member.shape, dtype=np.intp)
    position[:, :, order] = np.cumsum(member[:, :, order], axis=2) - 1
    size = member.sum(axis=2)[:, :, None, None]
    start = np.arange(n_draws)[:, None] * size // n_draws
    return member[:, :, None] & (position[:, :, None] == start)


def _roles_compute(totals: Totals) -> dict[str, Tensor]:
    result: dict[str, Tensor] = {}
    for name in _PER_SAMPLE:
        result |= totals.estimate(name)
    return {
        **result,
        "groups_per_sample": totals.mean("n_groups"),
        "group_size": totals.share("n_grouped", "n_groups"),
        "share_groups_stable": totals.share("n_stable", "n_groups"),
        "share_groups_moving": totals.share("n_moving", "n_groups"),
        "share_groups_confirmed": totals.share("n_confirmed", "n_groups"),
    }


class RoleShares(SampleMetric):
    """The share of players in each role, and whether the model confirms the groups of interchangeable ones.

    :mod:`bivshap_lightning.graph.roles` defines the roles. A group is confirmed if the decision stays the same with any
    of `n_draws` random members kept in place of all, and the value changes by more than `2 gamma` with all members
    removed.

    Shares range from 0 to 1 and have no better direction, so `higher_is_better` is None. It is most sensitive to
    `gamma`. `update` takes graphs G with Shapley values, see :mod:`bivshap_lightning.metrics.inputs`, and at most
    `2 + n_groups (n_draws + 1)` coalitions per sample.

    `compute` returns:

    * `<role>`, `<role>_se` for "irrelevant", "interchangeable", "redundant", "essential" and "undecided": the share of
      a sample's players, mean over samples; the five sum to 1;
    * `n_independent`, `n_independent_se`: essential players plus groups, mean over samples;
    * `groups_per_sample`, `group_size` (mean over groups, 0 without any);
    * `share_groups_stable`: groups of which one random member is enough for the decision;
      `share_groups_moving`: groups whose removal changes the value; `share_groups_confirmed`: both. 0 without groups;
    * `n_samples`; with `per_sample`, `per_sample_<role>` and `per_sample_n_independent`, (N,) each.

    Args:
        gamma: A fixed threshold. By default a relative one: the smaller of 1 % and 15 % / F of `scale`, F being each
            sample's number of players.
        scale: The size of what there is to explain, usually the mean of `abs(u(all) - u(none))` over the audited
            samples; by default each sample's own. The same as `gamma=RelativeGamma(scale)`.
        n_draws: Number of random members that are tried per group.
        seed: Of the draws. They do not depend on batches, processes or global generators.
        convention: Only "default": the paper has no roles.
        per_sample: Whether to keep every sample's score.
        kwargs: torchmetrics' own.

    Example:
        >>> game = Game(lambda x: 8 * x[:, :2].amax(dim=1) - 4, torch.ones(1, 3))  # OR(a, b), c has no effect
        >>> graph = ExplanationGraph([[0, 0, 0], [0, 0, 0], [1 / 6, 1 / 6, 0]], shapley=[1 / 2, 1 / 2, 0])
        >>> metric = RoleShares()
        >>> metric.update(game, graph)
        >>> result = metric.compute()
        >>> result["interchangeable"], result["irrelevant"], result["n_independent"]
        (tensor(0.6667, dtype=torch.float64), tensor(0.3333, dtype=torch.float64), tensor(1., dtype=torch.float64))
        >>> figure, ax = metric.plot()
    """

    higher_is_better: None = None
    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0

    _shapes: ClassVar = dict.fromkeys((*_PER_SAMPLE, *_GROUP_COUNTS), ())
    _per_sample: ClassVar = _PER_SAMPLE
    _main: ClassVar = ROLES

    def __init__(
        self,
        *,
        gamma: Gamma | None = None,
        scale: float | None = None,
        n_draws: int = N_DRAWS,
        seed: int = 0,
        convention: Convention = "default",
        per_sample: bool = False,
        **kwargs: Any,
    ) -> None:
        check_choice(convention, Convention, "convention")
        if convention != "default":
            raise ValueError(f"`convention` must be 'default' for roles, got {convention!r}. The paper has no roles.")
        self._settings = _check_settings(gamma, scale, n_draws, seed)
        super().__init__(convention=convention, per_sample=per_sample, settings=self._settings, **kwargs)

    def _measure(self, game: Game, ranking_or_graph: RankingOrGraph) -> SampleScores:
        return _roles_update(game, ranking_or_graph, **self._settings)

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        return _roles_compute(totals)

    def _draw(self, ax: Axes, result: Mapping[str, Tensor]) -> None:
        draw_shares(ax, result, ROLES)
