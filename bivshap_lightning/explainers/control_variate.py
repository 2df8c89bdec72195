"""Gains of a game of pairs, whose mean is known exactly, as a control variate for the gains in random orders.

A game with a value for each player and each pair, ``v(S) = sum of a_i + sum of c_ik`` over the members of S, has the
gain ``a_i + sum of c_ik`` over the predecessors k of i, and bivariate Shapley values in closed form. One is fitted to
the gains of half of the orders and subtracted from those of the other half, and the reverse. What is left varies less,
so the same orders have smaller errors; adding the closed form again brings no bias, however good or bad the fit is.
What ``sampling`` decides on all orders, the factor of each player's gains and where the result is taken, may bring one,
which does not show beside the noise of a hundred repetitions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Conjugate gradient steps. Few of them are a regularization, because directions with little support in the data come
# late; and once the steps have converged (some 20 of them), they amplify rounding.
N_STEPS = 8
# Players without gains count as having this share of the largest typical gain.
LEAST_SCALE = 1e-3


class PairGame(NamedTuple):
    """Games of pairs.

    Attributes:
        single: (B, n) the value of each player.
        pair: (B, n, n) the value of each pair, symmetric, diagonal 0.

    Example:
        >>> both = PairGame(torch.zeros(1, 2), torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]))  # AND(a, b)
        >>> both.shapley, both.bivariate[0, 0]
        (tensor([[0.5000, 0.5000]]), tensor([0.0000, 0.5000]))
    """

    single: Tensor
    pair: Tensor

    def gains(self, counted: Tensor) -> Tensor:
        """(B, m, n) gains of every player in m orders.

        Args:
            counted: (m, n, n) whether j comes before i, as floating point numbers.
        """
        return self.single[:, None] + torch.einsum("xij,mij->xmi", self.pair, counted)

    @property
    def bivariate(self) -> Tensor:
        """(B, n, n): a player alone counts 1/2 whoever is present, a pair 1/2 between its members and 1/3 beside."""
        total = self.pair.sum(dim=2, keepdim=True)
        values = self.single[:, :, None] / 2 + total / 3 + self.pair / 6
        values.diagonal(dim1=1, dim2=2).zero_()
        return values

    @property
    def shapley(self) -> Tensor:
        """(B, n)."""
        return self.single + self.pair.sum(dim=2) / 2

    @property
    def null_column(self) -> Tensor:
        """(B, n) the importance of each player when a player without effect is present."""
        return self.single / 2 + self.pair.sum(dim=2) / 3


def before(positions: Tensor, dtype: torch.dtype) -> Tensor:
    """(2 m, n, n) whether j comes before i, in m orders and then in their reverses.

    Example:
        >>> before(torch.tensor([[1, 0]]), torch.float32)[0]
        tensor([[0., 1.],
                [0., 0.]])
    """
    both = torch.cat([positions, positions.shape[1] - 1 - positions])
    return (both[:, None, :] < both[:, :, None]).to(dtype)


def fit_pair_game(gains: Tensor, positions: Tensor) -> PairGame:
    """Fit games of pairs to gains by a few steps of conjugate gradients.

    The gains of a player are weighted by one over the root of their typical size, and pairs are expected to be as large
    as the gains of their smaller member, so that players with small gains are not fitted to the noise of large ones.

    Args:
        gains: (B, 2 m, n) in m orders and then in their reverses.
        positions: (m, n) of the players in the orders.

    Example:
        >>> gains = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])  # AND(a, b): the second one to join gains 1
        >>> fit_pair_game(gains, torch.tensor([[0, 1]])).pair[0].round(decimals=3)
        tensor([[0., 1.],
                [1., 0.]])
    """
    counted = before(positions, gains.dtype)
    scale = (gains**2).mean(dim=1).sqrt()
    scale = scale + LEAST_SCALE * scale.amax(dim=1, keepdim=True) + torch.finfo(gains.dtype).tiny
    weight, pair_scale = scale[:, None] ** -0.5, torch.minimum(scale[:, :, None], scale[:, None])
    pair_scale.diagonal(dim1=1, dim2=2).zero_()

    def adjoint(residual: Tensor) -> PairGame:
        weighted = residual * weight
        pair = torch.einsum("xmi,mij->xij", weighted, counted)
        return PairGame(weighted.sum(dim=1) * scale, (pair + pair.mT) * pair_scale)

    def scaled(game: PairGame) -> PairGame:
        return PairGame(game.single * scale, game.pair * pair_scale)

    residual = gains * weight
    found = PairGame(torch.zeros_like(scale), torch.zeros_like(pair_scale))
    gradient = direction = adjoint(residual)
    size = _dot(gradient, gradient)
    for _ in range(N_STEPS):
        change = scaled(direction).gains(counted) * weight
        step = size / (change**2).sum(dim=(1, 2)).clamp(min=torch.finfo(gains.dtype).tiny)
        found, residual = _add(found, direction, step), residual - step[:, None, None] * change
        gradient = adjoint(residual)
        previous, size = size, _dot(gradient, gradient)
        direction = _add(gradient, direction, size / previous.clamp(min=torch.finfo(gains.dtype).tiny))
    return scaled(found)


def _dot(a: PairGame, b: PairGame) -> Tensor:
    """(B,) every pair once."""
    return (a.single * b.single).sum(dim=1) + (a.pair * b.pair).sum(dim=(1, 2)) / 2


def _add(a: PairGame, b: PairGame, factor: Tensor) -> PairGame:
    return PairGame(a.single + factor[:, None] * b.single, a.pair + factor[:, None, None] * b.pair)
