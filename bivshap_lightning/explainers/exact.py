"""Exact values by enumeration of all coalitions: the oracle, and the best choice for small games."""

from __future__ import annotations

import torch

from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.game.coalitions import all_coalitions


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
    for i in range(n):
        # Bit i of a coalition's number tells whether i is in it; what remains numbers the coalition of the others.
        without_and_with = values.view(len(values), -1, 2, 2**i)
        gains = (without_and_with[:, :, 1] - without_and_with[:, :, 0]).flatten(1)
        row = gains @ parts
        bivariate[:, i, :i], bivariate[:, i, i + 1 :] = row[:, :i], row[:, i : n - 1]
        sums[:, i] = row[:, n - 1 :]
    return Estimate.exact(bivariate, sums[..., 0], sums[..., 1])
