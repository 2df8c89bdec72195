"""Means of gains over pairs of an order and its reverse, and the variances of these means.

A pair of orders contributes the mean of its two members. A game of pairs can be subtracted from the gains before the
means are taken (:mod:`~bivshap_lightning.explainers.control_variate`), its values being added again in closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bivshap_lightning.explainers.control_variate import PairGame, fit_pair_game

# Elements of the (n, orders, n) precedence tensor held at once.
BLOCK_ELEMENTS = 2**24
# Elements of the same tensor of a fit; orders beyond it are not fitted.
FIT_ELEMENTS = 2**22
# A fit takes at least so many pairs of orders, whatever their elements.
LEAST_FITTED = 20


class Moments(NamedTuple):
    """Sums over m pairs of orders of what a pair contributes, of its square, and of the sizes of gains.

    Shapes are (B, n, n) for ``bivariate`` and (B, n) for ``shapley`` and ``null_column``.
    """

    bivariate: Tensor
    shapley: Tensor
    null_column: Tensor
    bivariate_square: Tensor
    shapley_square: Tensor
    null_column_square: Tensor
    bivariate_size: Tensor
    shapley_size: Tensor
    null_column_size: Tensor
    cross: Tensor
    """(B, n, n) sums of the products of what a pair contributes to ``bivariate`` and to ``null_column``."""


class Means(NamedTuple):
    """Means over pairs of orders, and the variances of these means.

    Shapes are (B, n, n) for ``bivariate`` and ``pairwise`` (C = E2 - null column), (B, n) for the others.
    """

    bivariate: Tensor
    shapley: Tensor
    null_column: Tensor
    bivariate_variance: Tensor
    shapley_variance: Tensor
    null_column_variance: Tensor
    pairwise_variance: Tensor

    @classmethod
    def of(cls, moments: Moments, n_pairs: int) -> Means:
        """Means and their variances from the moments of m pairs of orders."""

        def variance(square: Tensor, mean: Tensor) -> Tensor:
            found = (square / n_pairs).addcmul_(mean, mean, value=-1)
            return found.clamp_(min=0).div_(max(1, n_pairs - 1))

        means = [m / n_pairs for m in moments[:3]]
        variances = [variance(square, mean) for square, mean in zip(moments[3:6], means, strict=True)]
        square = torch.sub(moments.bivariate_square, moments.cross, alpha=2)
        square += moments.null_column_square[:, :, None]
        pairwise = variance(square, means[0] - means[2][:, :, None])
        pairwise.diagonal(dim1=1, dim2=2).zero_()
        return cls._make([*means, *variances, pairwise])

    def where(self, other: Means) -> Means:
        """Of every entry this mean or the other one, whichever has the smaller variance."""
        smaller = [mine < theirs for mine, theirs in zip(self[3:6], other[3:6], strict=True)]
        return Means(*(torch.where(*s) for s in zip([*smaller, *smaller, smaller[0]], self, other, strict=True)))


def before(positions: Tensor, dtype: torch.dtype) -> Tensor:
    """(n, 2 m, n) whether j comes before i, [i, order, j], in m orders and then in their reverses.

    Example:
        >>> before(torch.tensor([[1, 0]]), torch.float32)[0]  # player 0 is second in the order, first in the reverse
        tensor([[0., 1.],
                [0., 0.]])
    """
    both = torch.cat([positions, positions.shape[1] - 1 - positions])
    return (both.T[:, :, None] > both).to(dtype)


def summed_moments(forward: Tensor, backward: Tensor, positions: Tensor) -> Moments:
    """Moments of m pairs of orders, block by block.

    Args:
        forward: (B, m, n) gains in the orders.
        backward: (B, m, n) gains in their reverses.
        positions: (m, n) of the players in the orders.
    """
    parts = [_moments(forward[:, part], backward[:, part], positions[part]) for part in _blocks(positions)]
    return (
        parts[0] if len(parts) == 1 else Moments(*(torch.stack(same).sum(dim=0) for same in zip(*parts, strict=True)))
    )


def controlled_means(forward: Tensor, backward: Tensor, positions: Tensor) -> Means:
    """Means of gains with a game of pairs as control variate.

    The game for one half of the orders is fitted to the other half. Arguments are those of :func:`summed_moments`.
    """
    n_pairs = len(positions)
    halves = (slice(0, n_pairs // 2), slice(n_pairs // 2, n_pairs))
    games = [_fit(forward[:, other], backward[:, other], positions[other]) for other in reversed(halves)]
    predicted = [_predicted(game, positions[half]) for game, half in zip(games, halves, strict=True)]
    ahead, back = (torch.cat(both, dim=1) for both in zip(*predicted, strict=True))
    factor = _factor(torch.cat([forward, backward], dim=1), torch.cat([ahead, back], dim=1))
    forward, backward = (gains - factor[:, None] * game for gains, game in ((forward, ahead), (backward, back)))
    found, mean_game = [], []
    for game, half in zip(games, halves, strict=True):
        share, m = (half.stop - half.start) / n_pairs, half.stop - half.start
        part = Means.of(summed_moments(forward[:, half], backward[:, half], positions[half]), m)
        found.append([x.mul_(share) for x in part[:3]] + [x.mul_(share**2) for x in part[3:]])
        mean_game.append([x.double() * share for x in game])
    whole = Means(*(a.add_(b) for a, b in zip(*found, strict=True)))
    control = PairGame(*(a.add_(b) for a, b in zip(*mean_game, strict=True)))
    whole.bivariate.addcmul_(factor[:, :, None], control.bivariate)
    whole.shapley.addcmul_(factor, control.shapley)
    whole.null_column.addcmul_(factor, control.null_column)
    return whole


def _blocks(positions: Tensor) -> list[slice]:
    n_pairs, n = positions.shape
    size = max(1, BLOCK_ELEMENTS // n**2)
    return [slice(start, start + size) for start in range(0, n_pairs, size)]


def _moments(forward: Tensor, backward: Tensor, positions: Tensor) -> Moments:
    """Sums over some pairs of orders.

    For E2[i, j] one of the two members of a pair is zero, because j comes before i in exactly one of them, so the
    square of the mean is a quarter of the one square that is left.
    """
    n_samples, n_pairs, n = forward.shape
    rows = forward.new_empty(n, 4, n_samples, 2 * n_pairs)  # by player, because the orders before i differ by i
    gains, squares, products, sizes = rows.unbind(dim=1)
    torch.div(torch.cat([forward, backward], dim=1).movedim(2, 0), 2, out=gains)
    torch.mul(gains, gains, out=squares)
    torch.abs(gains, out=sizes)
    weight = torch.cat([positions + 1, n - positions]).T[:, None] / (n + 1)
    ahead, back = torch.mul(gains, weight, out=products).chunk(2, dim=2)
    null = ahead + back
    shapley = gains[:, :, :n_pairs] + gains[:, :, n_pairs:]
    by_pair = (shapley, null, shapley**2, null**2, shapley.abs(), sizes * weight)
    vectors = [x.sum(dim=2).T for x in by_pair]
    torch.mul(gains, null.repeat(1, 1, 2), out=products)
    summed = torch.bmm(rows.flatten(1, 2), before(positions, rows.dtype)).unflatten(1, (4, n_samples))
    bivariate, square, cross, size = summed.movedim(0, 2).unbind()
    return Moments._make([bivariate, *vectors[:2], square, *vectors[2:4], size, *vectors[4:], cross])


def _fit(forward: Tensor, backward: Tensor, positions: Tensor) -> PairGame:
    most = max(LEAST_FITTED, FIT_ELEMENTS // positions.shape[1] ** 2)
    return fit_pair_game(torch.cat([forward[:, :most], backward[:, :most]], dim=1), positions[:most])


def _predicted(game: PairGame, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Gains (B, m, n) of a game of pairs in orders and in their reverses."""
    parts = [game.gains(positions[part]) for part in _blocks(positions)]
    ahead, back = (torch.cat(same, dim=1) for same in zip(*parts, strict=True))
    return ahead, back


def _factor(gains: Tensor, predicted: Tensor) -> Tensor:
    """(B, n) by what to multiply the predicted gains of a player so that the least is left of its own."""
    centred = predicted - predicted.mean(dim=1, keepdim=True)
    slope = (gains * centred).sum(dim=1) / (centred**2).sum(dim=1).clamp(min=torch.finfo(gains.dtype).tiny)
    return slope.clamp(min=0)
