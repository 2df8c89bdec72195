"""The asymmetric Shapley interaction value (ASIV) of Lu, Ma and Zhang (2023), which is symmetric in expectation.

For an edge from j to i a random order is drawn and S are the players before i, j left out. The value is the gain of i
with j less the gain without, ``u(S + i + j) - u(S + j) - u(S + i) + u(S)``, and its mean over orders is the score. That
is the second difference of i and j whichever of them the order is cut at, and S is distributed alike for both, so the
score is the Shapley interaction index in both directions: every asymmetry of its estimates is noise. (The definition is
that of the authors' code for single words; absent players are those of the game.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bivshap_lightning.explainers.exact import explain_exactly
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.registry import register


@register
@dataclass(frozen=True)
class AsymmetricInteraction:
    """ASIV as an estimator, from random orders that all pairs share.

    One order costs ``2 F^2`` coalitions: for each player i those before it with and without i and with and without each
    other player. ``shapley`` of its explanations are Shapley values by the same orders.

    Example:
        >>> from bivshap_lightning import BivariateShapley
        >>> model = lambda x: x[:, 0] * x[:, 1] + x[:, 2]
        >>> explainer = BivariateShapley(model, AsymmetricInteraction(), "output")
        >>> explainer.attribute(torch.ones(1, 3)).bivariate[0]
        tensor([[0., 1., 0.],
                [1., 0., 0.],
                [0., 0., 0.]])
    """

    name: ClassVar[str] = "asiv"
    is_exact: ClassVar[bool] = False

    def minimum_evaluations(self, n_players: int) -> int:
        """Two orders."""
        return 2 if n_players == 1 else 4 * n_players**2

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        """Estimate from as many orders as there are coalitions for, at most 2,048."""
        n = game.n_players
        if n == 1:
            shapley = explain_exactly(game).shapley
            return Estimate.exact(torch.zeros_like(shapley)[..., None], shapley, torch.zeros_like(shapley))
        n_orders = min(2048, n_coalitions // (2 * n**2))
        orders = torch.rand(n_orders, n, generator=generator, device=game.device).argsort(dim=1).argsort(dim=1)
        pairs, singles = [], []
        for ranks in orders.split(max(1, 2**18 // n**3)):
            masks = _coalitions(ranks)
            values = game(masks.flatten(0, 3)).unflatten(1, masks.shape[:4])  # (B, orders, i, j, without and with i)
            gains = values[..., 1] - values[..., 0]
            before = ranks[:, None, :] < ranks[:, :, None]  # (orders, i, j): j comes before i
            of_all = gains.diagonal(dim1=2, dim2=3)
            # At (i, j) j has been moved in or out: the second difference is with j less without.
            second = torch.where(before, of_all[..., None] - gains, gains - of_all[..., None])
            second.diagonal(dim1=2, dim2=3).zero_()
            pairs.append(second)
            singles.append(of_all)
        return _mean(torch.cat(pairs, dim=1), torch.cat(singles, dim=1))


def _coalitions(ranks: Tensor) -> Tensor:
    """Bool (orders, i, j, 2, F): the players before i, j moved in or out (nothing if it is i), without and with i."""
    n = ranks.shape[1]
    own = torch.eye(n, dtype=torch.bool, device=ranks.device)
    before = ranks[:, None, :] < ranks[:, :, None]
    moved = before[:, :, None, :] ^ (own[None, None] & ~own[None, :, :, None])
    return torch.stack([moved & ~own[None, :, None], moved | own[None, :, None]], dim=3)


def _mean(pairs: Tensor, singles: Tensor) -> Estimate:
    """Means over orders with standard errors; nothing interacts with null players."""
    n_orders, zeros = pairs.shape[1], torch.zeros_like(singles[:, 0])
    error, single_error = ((x.var(dim=1) / n_orders).sqrt() for x in (pairs, singles))
    return Estimate(pairs.mean(dim=1), singles.mean(dim=1), zeros, error, single_error, zeros)
