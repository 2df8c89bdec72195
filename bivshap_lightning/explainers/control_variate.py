"""Gains of a game of pairs, whose mean is known exactly, as a control variate for the gains in random orders.

A game with a value for each player and each pair, ``v(S) = sum of a_i + sum of c_ik`` over the members of S, has the
gain ``a_i + sum of c_ik`` over the predecessors k of i, and bivariate Shapley values in closed form. One is fitted to
the gains of half of the orders and subtracted from those of the other half, and the reverse. What is left varies less,
so the same orders have smaller errors; adding the closed form again brings no bias, however good or bad the fit is.
What ``sampling`` decides on all orders, the factor of each player's gains and where the result is taken, may bring one,
which does not show beside the noise of a hundred repetitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# Conjugate gradient steps. Few of them are a regularization, because directions with little support in the data come
# late; and once the steps have converged (some 20 of them), they amplify rounding.
N_STEPS = 8
# Players without gains count as having this share of the largest typical gain.
LEAST_SCALE = 1e-3
# From so many players on, games are fitted in single precision, twice as fast; with fewer, calls take most of the time.
MANY_PLAYERS = 32


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

    def gains(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """(B, m, n) gains of every player in m orders, and in their reverses.

        Args:
            positions: (m, n) of the players in the orders.
        """
        mean = (self.single + self.pair.sum(dim=2) / 2)[:, None]
        difference = torch.bmm(self.pair.transpose(0, 1), _signs(positions, self.pair.dtype).mT).movedim(0, 2) / 2
        return mean + difference, mean - difference

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


def _signs(positions: Tensor, dtype: torch.dtype) -> Tensor:
    """(n, m, n) 1 where j comes before i in an order, -1 where it comes after, [i, order, j]; 0 for j = i."""
    places = positions.to(dtype)
    return (places.T[:, :, None] - places).sign_()


def fit_pair_game(gains: Tensor, positions: Tensor) -> PairGame:
    """Fit games of pairs to gains by a few steps of conjugate gradients.

    The gains of a player are weighted by one over the root of their typical size, and pairs are expected to be as large
    as the gains of their smaller member, so that players with small gains are not fitted to the noise of large ones.

    In an order and its reverse together, the gain of i is the sum over j of ``q[i, j]``, where ``q[i, j]`` is the value
    of a pair and ``q[i, i]`` twice that of i alone. The difference of the two gains is the same sum with the signs of
    :func:`_signs`. So the games are fitted to the differences and to the mean of the sums, half as many numbers. The
    minimum residual form of conjugate gradients keeps its vectors in the space of these numbers, not in that of pairs.

    Args:
        gains: (B, 2 m, n) in m orders and then in their reverses.
        positions: (m, n) of the players in the orders.

    Returns:
        Games, in single precision from :data:`MANY_PLAYERS` players on: whatever a game is, it brings no bias.

    Example:
        >>> gains = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])  # AND(a, b): the second one to join gains 1
        >>> fit_pair_game(gains, torch.tensor([[0, 1]])).pair[0].round(decimals=3)
        tensor([[0., 1.],
                [1., 0.]])
    """
    root, dtype = len(positions) ** 0.5, gains.dtype if positions.shape[1] < MANY_PLAYERS else torch.float32
    forward, backward = gains.chunk(2, dim=1)
    size = (gains**2).mean(dim=1).sqrt()
    unit = size.amax(dim=1, keepdim=True) + torch.finfo(gains.dtype).tiny
    size = (size / unit + LEAST_SCALE).to(dtype)
    differences, mean = forward - backward, (forward + backward).sum(dim=1, keepdim=True) / root
    numbers = (torch.cat([differences, mean], dim=1) / unit[:, None]).to(dtype).movedim(2, 0).contiguous()
    signs = _signs(positions, dtype)
    design = torch.cat([signs, torch.full_like(signs[:, :1], root)], dim=1)
    transposed, weight = design.mT.contiguous(), (size**-0.5).T[:, :, None]
    prior = torch.minimum(size.T[:, :, None], size) ** 2  # [i, sample, j]
    prior.diagonal(dim1=0, dim2=2).mul_(2)

    def game_of(numbers: Tensor) -> Tensor:
        sums = torch.bmm(numbers * weight, design)
        return (sums + sums.transpose(0, 2)).mul_(prior)

    found = _solve(lambda x: torch.bmm(game_of(x), transposed).mul_(weight), numbers * weight)
    pair = (game_of(found) * unit.to(dtype)).transpose(0, 1).contiguous()
    single = pair.diagonal(dim1=1, dim2=2) / 2
    pair.diagonal(dim1=1, dim2=2).zero_()
    return PairGame(single, pair)


def _solve(product: Callable[[Tensor], Tensor], residual: Tensor) -> Tensor:
    """What a symmetric matrix maps to the residual, roughly: :data:`N_STEPS` steps of conjugate residuals.

    Args:
        product: of the matrices with vectors (n, B, m).
        residual: (n, B, m), one vector for each of B matrices.
    """
    tiny = torch.finfo(residual.dtype).tiny
    direction, found = residual, torch.zeros_like(residual)
    image = mapped = product(residual)  # of the residual, and of the direction
    size = _dot(residual, image)
    for step in range(N_STEPS):
        length = (size / _dot(mapped, mapped).clamp(min=tiny))[:, None]
        found = torch.addcmul(found, length, direction)
        if step == N_STEPS - 1:
            break
        residual = torch.addcmul(residual, length, mapped, value=-1)
        image = product(residual)
        previous, size = size, _dot(residual, image)
        turn = (size / previous.clamp(min=tiny))[:, None]
        direction, mapped = torch.addcmul(residual, turn, direction), torch.addcmul(image, turn, mapped)
    return found


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """(B,) products of vectors (n, B, m)."""
    found: Tensor = torch.linalg.vecdot(a, b).sum(dim=0)
    return found
