"""BivShap-S: random orders of the players.

``E2[i, j]`` is the mean, over orders, of the gain when i joins its predecessors, counted if j is among them. A chain
of coalitions along one order yields the gain of every player, so n - 1 evaluations serve all n (n - 1) pairs (the
paper's loop spends 2 n for the same number of samples). Orders come in pairs, each with its reverse: in exactly one
of the two j precedes i, which balances every pair and lowers the variance at no cost.

Two things are done with the sampled means:

* ``E2[i, j] = R[i] + C[i, j]`` with a symmetric C for every game, R being the null column. The two estimates of each
  entry of C are averaged, the one from the less noisy row counting more. Entries without any gain stay zero.
* Gains that never occurred in m pairs of orders can still occur with a probability of up to 3 / m (at 95 % confidence).
  An entry with fewer than three gains, or with gains that are all alike, therefore has a standard error of at least
  ``1.5 / m / 1.96`` times the largest gain of any player, or times ``abs(u(all) - u(none))`` if that is more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from bivshap_lightning.explainers.exact import explain_exactly
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.registry import register

# Elements of the (orders, n, n) precedence tensor held at once.
BLOCK_ELEMENTS = 2**24
# Below this number of pairs of orders, an error is widened by one pair of orders with typical gains.
FEW_PAIRS = 20
# Fewer gains than this, counted as (sum of sizes) ** 2 / (sum of squares), do not tell how they vary.
FEW_GAINS = 3
# Half of 3 / m, because the weights of E2 sum to 1/2, as a standard error.
UNSEEN = 1.5 / 1.96
# Gains and differences between gains below this share of the largest gain are rounding.
ROUNDING = 1e-6


def minimum_evaluations(n_players: int) -> int:
    """Two pairs of orders, the fewest that have a standard error, and the two ends they share."""
    return 4 * (n_players - 1) + 2


@register
class Sampling:
    """Random orders in antithetic pairs as an estimator.

    Example:
        >>> Sampling().minimum_evaluations(10)
        38
    """

    name = "sampling"
    is_exact = False

    def minimum_evaluations(self, n_players: int) -> int:
        """See :func:`minimum_evaluations`."""
        return minimum_evaluations(n_players)

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        """See :func:`explain_by_chains`."""
        return explain_by_chains(game, n_coalitions, generator)


def explain_by_chains(game: ReducedGame, n_evaluations: int, generator: torch.Generator) -> Estimate:
    """Bivariate Shapley values from whole orders in antithetic pairs.

    Args:
        game: the game.
        n_evaluations: at most this many evaluations per sample.
        generator: the source of orders, on the game's device.
    """
    n = game.n_players
    if n == 1:
        return explain_exactly(game)
    n_pairs = (n_evaluations - 2) // (2 * (n - 1))
    positions = torch.rand(n_pairs, n, generator=generator, device=game.device).argsort(dim=1).argsort(dim=1)
    forward, backward = _gains(game, positions)
    block = max(1, BLOCK_ELEMENTS // n**2)
    moments = [
        _moments(forward[:, part], backward[:, part], positions[part])
        for part in (slice(start, start + block) for start in range(0, n_pairs, block))
    ]
    sums = _Moments(*(torch.stack(m).sum(dim=0) for m in zip(*moments, strict=True)))
    estimate = _estimate(sums, n_pairs)
    if n_pairs < FEW_PAIRS:
        estimate = _allow_for_few_orders(estimate, forward, backward)
    # All gains of an order sum to u(all) - u(none).
    whole = forward[:, 0].sum(dim=1).abs()
    largest = torch.maximum(torch.maximum(forward.abs().amax(dim=(1, 2)), backward.abs().amax(dim=(1, 2))), whole)
    return _allow_for_unseen_gains(_symmetrise(estimate, sums, largest), sums, largest, n_pairs)


class _Moments(NamedTuple):
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


def _gains(game: ReducedGame, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Gains (B, pairs, n) of every player in each order and in its reverse."""
    n_pairs, n = positions.shape
    both = torch.stack([positions, n - 1 - positions])
    steps = torch.arange(1, n, device=game.device)
    inner = both[:, :, None] < steps[:, None]
    ends = torch.tensor([[False], [True]], device=game.device).expand(2, n)
    values = game(torch.cat([ends, inner.flatten(0, 2)]))
    chains = values[:, 2:].unflatten(1, (2, n_pairs, n - 1))
    first, last = (values[:, k, None, None, None].expand(-1, 2, n_pairs, 1) for k in (0, 1))
    by_step = torch.cat([first, chains, last], dim=3).diff(dim=3)
    by_player = by_step.gather(3, both.expand(len(values), -1, -1, -1))
    return by_player[:, 0], by_player[:, 1]


def _moments(forward: Tensor, backward: Tensor, positions: Tensor) -> _Moments:
    """Sums over some pairs of orders.

    A pair of orders contributes the mean of its two members. For E2[i, j] one of the two is zero, because j comes
    before i in exactly one of them, so the square of the mean is a quarter of the one square that is left.
    """
    n = positions.shape[1]
    both = torch.cat([positions, n - 1 - positions])
    counted = (both[:, None, :] < both[:, :, None]).to(forward.dtype)
    gains = torch.cat([forward, backward], dim=1) / 2
    stacked = torch.cat([gains, gains**2, gains.abs()])
    bivariate, square, size = torch.einsum("xmi,mij->xij", stacked, counted).chunk(3)
    shapley = (forward + backward) / 2
    early, late = (positions + 1) / (2 * (n + 1)), (n - positions) / (2 * (n + 1))
    null = forward * early + backward * late
    return _Moments(
        bivariate,
        shapley.sum(dim=1),
        null.sum(dim=1),
        square,
        (shapley**2).sum(dim=1),
        (null**2).sum(dim=1),
        size,
        shapley.abs().sum(dim=1),
        (forward.abs() * early + backward.abs() * late).sum(dim=1),
    )


def _estimate(moments: _Moments, n_pairs: int) -> Estimate:
    """Means and their standard errors from sums and sums of squares."""
    means = [m / n_pairs for m in moments[:3]]
    errors = [
        ((square / n_pairs - mean**2).clamp(min=0) / max(1, n_pairs - 1)).sqrt()
        for mean, square in zip(means, moments[3:6], strict=True)
    ]
    sizes = (moments.bivariate_size / n_pairs, moments.null_column_size / n_pairs)
    return Estimate(*means, *errors, absolute_gains=sizes)


def _symmetrise(estimate: Estimate, moments: _Moments, largest: Tensor) -> Estimate:
    """Average the two estimates of every entry of the symmetric part, except for entries without any gain.

    Standard errors stay those of the entries themselves: the average is no worse, so they are at most too large.
    """
    row = estimate.null_column[:, :, None]
    symmetric = estimate.bivariate - row
    noise = (estimate.bivariate_error**2).sum(dim=2) + torch.finfo(symmetric.dtype).tiny
    share = noise[:, None] / (noise[:, :, None] + noise[:, None])  # of the entry itself; its mirror image has the rest
    averaged = row + share * symmetric + (1 - share) * symmetric.mT
    has_gains = moments.bivariate_size > ROUNDING * largest[:, None, None]
    bivariate = torch.where(has_gains, averaged, estimate.bivariate)
    bivariate.diagonal(dim1=1, dim2=2).zero_()
    return replace(estimate, bivariate=bivariate)


def _allow_for_few_orders(estimate: Estimate, forward: Tensor, backward: Tensor) -> Estimate:
    """Add to every variance one more pair of orders whose gains are as large as those of all players are."""
    n_pairs = forward.shape[1]
    typical = ((forward**2 + backward**2) / 2).mean(dim=(1, 2), keepdim=True) / (n_pairs * (n_pairs + 1))

    def widen(error: Tensor, share: float) -> Tensor:
        return (error**2 + share * typical.view(-1, *[1] * (error.dim() - 1))).sqrt()

    return replace(
        estimate,
        bivariate_error=widen(estimate.bivariate_error, 0.25),
        shapley_error=widen(estimate.shapley_error, 0.5),
        null_column_error=widen(estimate.null_column_error, 0.25),
    )


def _allow_for_unseen_gains(estimate: Estimate, moments: _Moments, largest: Tensor, n_pairs: int) -> Estimate:
    """Standard errors that are at least the bound on gains that never occurred, where few or only equal ones did."""
    errors = []
    for k, error in enumerate(estimate.tensors[3:]):
        square, size = moments[3 + k], moments[6 + k]
        scale = largest.view(-1, *[1] * (error.dim() - 1))
        few = size**2 < FEW_GAINS * square + (ROUNDING * scale) ** 2
        alike = error * n_pairs**0.5 <= ROUNDING * scale
        errors.append(torch.where(few | alike, torch.maximum(error, UNSEEN / n_pairs * scale), error))
    errors[0].diagonal(dim1=1, dim2=2).zero_()
    bivariate, shapley, null_column = errors
    return replace(estimate, bivariate_error=bivariate, shapley_error=shapley, null_column_error=null_column)
