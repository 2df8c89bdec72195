"""Sweep over thresholds: roles, density and accuracy after removal at several gammas, from one explanation.

A role or a redundant edge depends on gamma. The sweep shows how much: it decides the same graphs again at six
multiples of gamma, and asks the model only for the accuracies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from bivshap_lightning.checks import check_choice
from bivshap_lightning.game import Game
from bivshap_lightning.graph import ROLES, ExplanationGraph
from bivshap_lightning.graph.roles import roles_of_all
from bivshap_lightning.graph.threshold import Gamma, RelativeGamma, check_any_gamma, gammas_of
from bivshap_lightning.metrics.controls import N_DRAWS, check_draws, random_removals
from bivshap_lightning.metrics.inputs import RankingOrGraph, graph_per_sample
from bivshap_lightning.metrics.mutual import representatives
from bivshap_lightning.metrics.plotting import COLOURS
from bivshap_lightning.metrics.post_hoc import keeps_decision
from bivshap_lightning.metrics.redundancy import RedundancyBatch
from bivshap_lightning.metrics.results import Convention, SampleScores, Totals
from bivshap_lightning.metrics.sample_metric import SampleMetric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FACTORS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
"""The thresholds of a sweep as multiples of gamma."""

_ACCURACIES = ("accuracy_with_representatives", "random_removal_accuracy")
_MEANS = (*ROLES, "n_independent", "density", *_ACCURACIES)


class GammaSweep(SampleMetric):
    """Role shares, density and accuracy with representatives at `FACTORS` times gamma.

    Shares and accuracies range from 0 to 1 and have no better direction, so `higher_is_better` is None. `update` takes
    graphs G with Shapley values, see :mod:`bivshap_lightning.metrics.inputs`, and `1 + 6 (1 + n_draws)` coalitions per
    sample.

    `compute` returns, (6,) each:

    * `gamma`: the thresholds; of a `RelativeGamma` those of the sample with the most players, which are the smallest;
    * `irrelevant`, `interchangeable`, `redundant`, `essential`, `undecided`, `n_independent`: as :class:`RoleShares`;
    * `density`, `share_removable`, `accuracy_with_representatives`, `random_removal_accuracy`: as
      :class:`MutualRedundancyMasking`;
    * `<name>_se` of all of them but `gamma` and `share_removable`; and `n_samples`.

    Args:
        gamma: The threshold in the middle of the sweep: a number, or a
            :class:`~bivshap_lightning.graph.RelativeGamma`, by each sample's number of players.
        n_draws: Number of random removals per threshold, the control of the accuracy.
        seed: Of the draws. They do not depend on batches, processes or global generators.
        convention: Only "default": the paper has no roles.
        per_sample: Only False: there are no scores per sample.
        kwargs: torchmetrics' own.

    Example:
        >>> game = Game(lambda x: 8 * x[:, :2].amax(dim=1) - 4, torch.ones(1, 3))  # OR(a, b), c has no effect
        >>> graph = ExplanationGraph([[0, 0, 0], [0, 0, 0], [1 / 6, 1 / 6, 0]], shapley=[1 / 2, 1 / 2, 0])
        >>> metric = GammaSweep(gamma=0.02)
        >>> metric.update(game, graph)
        >>> result = metric.compute()
        >>> result["gamma"].tolist()
        [0.0002, 0.002, 0.006, 0.02, 0.06, 0.2]
        >>> result["irrelevant"].round(decimals=2).tolist()
        [0.33, 0.33, 0.33, 0.33, 0.33, 0.33]
        >>> figure, ax = metric.plot()
    """

    higher_is_better: None = None
    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0

    _shapes: ClassVar = {**dict.fromkeys((*_MEANS, "removable"), (len(FACTORS),)), "players": ()}
    _per_sample: ClassVar = ()
    _main: ClassVar = ()

    most_players: Tensor

    def __init__(
        self,
        *,
        gamma: Gamma,
        n_draws: int = N_DRAWS,
        seed: int = 0,
        convention: Convention = "default",
        per_sample: bool = False,
        **kwargs: Any,
    ) -> None:
        check_choice(convention, Convention, "convention")
        if convention != "default":
            raise ValueError(f"`convention` must be 'default' for roles, got {convention!r}. The paper has no roles.")
        if per_sample:
            raise ValueError("`per_sample` must be False for a sweep, got True. Use RoleShares for scores per sample.")
        self.gamma, draws = check_any_gamma(gamma), check_draws(n_draws, seed)
        super().__init__(convention=convention, per_sample=False, settings={"gamma": self.gamma, **draws}, **kwargs)
        self.n_draws, self.seed = draws["n_draws"], draws["seed"]
        self.add_state("most_players", torch.ones((), dtype=torch.int64), dist_reduce_fx="max")

    @property
    def gammas(self) -> tuple[float, ...]:
        """The thresholds; of a `RelativeGamma` those of the sample with the most players so far.

        Example:
            >>> GammaSweep(gamma=1.0).gammas
            (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
        """
        gamma = self.gamma.of(int(self.most_players)) if isinstance(self.gamma, RelativeGamma) else self.gamma
        return tuple(factor * gamma for factor in FACTORS)

    def _measure(self, game: Game, ranking_or_graph: RankingOrGraph) -> SampleScores:
        given = graph_per_sample(game, ranking_or_graph)
        graphs = [graph for graph in given if isinstance(graph, ExplanationGraph)]
        if len(graphs) < len(given):
            raise TypeError(
                "`ranking_or_graph` must hold an ExplanationGraph per sample, got RedundancyGraph. "
                "Pass the graphs that it was computed from."
            )
        columns: dict[str, list[list[float]]] = {name: [] for name in (*ROLES, "n_independent", "density")}
        stays, middle = [], gammas_of(self.gamma, graphs)
        for factor in FACTORS:
            gammas = [factor * gamma for gamma in middle]
            roles = roles_of_all(graphs, gammas)
            for role in ROLES:
                columns[role].append([r.shares[role] for r in roles])
            columns["n_independent"].append([r.n_independent for r in roles])
            batch = RedundancyBatch.from_graphs(graphs, game.n_players, gammas, "default")
            columns["density"].append([h.density for h in batch.graphs])
            stays.append(representatives(graphs, batch, oriented=True))
        self.most_players = torch.maximum(self.most_players, game.player_counts.max().to(self.most_players))
        scores = {name: torch.tensor(rows, dtype=torch.float64).T for name, rows in columns.items()}
        return {**scores, **self._accuracies(game, torch.stack(stays, dim=1)), "players": game.player_counts.cpu()}

    def _accuracies(self, game: Game, stays: Tensor) -> dict[str, Tensor]:
        """Return accuracies and numbers of removed players at each threshold, (B, 6) each."""
        removable = (~stays).sum(dim=2)
        random = random_removals(game, removable, n_draws=self.n_draws, seed=self.seed)
        whole = torch.ones(game.n_samples, 1, game.n_players, dtype=torch.bool)
        right = keeps_decision(game, torch.cat([whole, stays, random.flatten(1, 2)], dim=1))[:, 1:]
        n = len(FACTORS)
        at_random = right[:, n:].unflatten(1, (n, self.n_draws)).mean(dim=2)
        return {**dict(zip(_ACCURACIES, (right[:, :n], at_random), strict=True)), "removable": removable.double()}

    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        result = {"gamma": torch.tensor(self.gammas, dtype=torch.float64)}
        for name in _MEANS:
            result |= totals.estimate(name)
        return {**result, "share_removable": totals.share("removable", "players")}

    def _draw(self, ax: Axes, result: Mapping[str, Tensor]) -> None:
        places = range(len(FACTORS))
        bottom = torch.zeros(len(FACTORS), dtype=torch.float64)
        for colour, role in zip(COLOURS, ROLES, strict=True):
            share = result[role].cpu()
            ax.bar(places, share.numpy(), bottom=bottom.numpy(), color=colour, label=role)
            bottom = bottom + share
        ax.set_xticks(places, [f"{gamma:.2g}" for gamma in result["gamma"].tolist()])
        ax.set(xlabel="gamma", ylabel="share of players", ylim=(0, 1))
        ax.legend(frameon=False)
