"""Exact values by enumeration of all coalitions: the oracle, and the best choice for small games."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.game.coalitions import all_coalitions


@register
@dataclass(frozen=True)
class Exact:
    """Enumeration of all coalitions as an estimator.

    Attributes:
        exact_limit: the most non-null players that are enumerated.

    Example:
        >>> Exact().minimum_evaluations(4)
        16
    """

    exact_limit: int = 16
    name: ClassVar[str] = "exact"
    is_exact: ClassVar[bool] = True

    def minimum_evaluations(self, n_players: int) -> int:
        """All coalitions.

        Raises:
            ValueError: there are more players than ``exact_limit``.
        """
        if n_players > self.exact_limit:
            raise ValueError(
                f"`method='exact'` must have at most exact_limit={self.exact_limit} non-null players, got {n_players} "
                f"(2**{n_players} evaluations per sample). Use method='auto', group players by `feature_mask`, or "
                "raise `exact_limit`."
            )
        return 1 << n_players

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        """Enumerate; nothing is drawn."""
        return explain_exactly(game)


def explain_exactly(game: ReducedGame) -> Estimate:
    """Bivariate Shapley values from all ``2 ** n`` coalitions.

    Gains are formed before they are summed, so a player that never changes a value gets exactly zero.
    """
    n = game.n_players
    values = game(all_coalitions(n, game.device))
    others = all_coalitions(n - 1, game.device)
    sizes = others.sum(dim=1).double()
    # Shapley's weight |S|! (n - |S| - 1)! / n!
    weight = torch.exp(torch.lgamma(sizes + 1) + torch.lgamma(n - sizes) - torch.lgamma(sizes.new_tensor(n + 1)))
    # What is summed for each gain: the part with j present for every other j, everything, and the null column.
    parts = torch.cat([others.double(), torch.ones_like(sizes)[:, None], (sizes + 1)[:, None] / (n + 1)], dim=1)
    parts = parts * weight[:, None]
    bivariate = values.new_zeros(len(values), n, n)
    sums = values.new_zeros(len(values), n, 2)
    absolute, absolute_sums = torch.zeros_like(bivariate), torch.zeros_like(sums)
    for i in range(n):
        # Bit i of a coalition's number tells whether i is in it; what remains numbers the coalition of the others.
        without_and_with = values.view(len(values), -1, 2, 2**i)
        gains = (without_and_with[:, :, 1] - without_and_with[:, :, 0]).flatten(1)
        for summed, matrix, vector in ((gains, bivariate, sums), (gains.abs(), absolute, absolute_sums)):
            row = summed @ parts
            matrix[:, i, :i], matrix[:, i, i + 1 :] = row[:, :i], row[:, i : n - 1]
            vector[:, i] = row[:, n - 1 :]
    return Estimate.exact(bivariate, sums[..., 0], sums[..., 1], absolute_gains=(absolute, absolute_sums[..., 1]))
