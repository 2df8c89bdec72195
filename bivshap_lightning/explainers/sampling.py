"""BivShap-S: random orders of the players.

``E2[i, j]`` is the mean, over orders, of the gain when i joins its predecessors, counted if j is among them. A chain
of coalitions along one order yields the gain of every player, so n - 1 evaluations serve all n (n - 1) pairs (the
paper's loop spends 2 n for the same number of samples). Orders come in pairs, each with its reverse: in exactly one
of the two j precedes i, which balances every pair and lowers the variance for free.

An edge whose observed gains are all zero is estimated as exactly zero, so orders find redundancy where regressions
only find small numbers. Few orders prove nothing, though: below :data:`CERTAIN_PAIRS` pairs a spread of zero is not
believed, and one unseen gain of ordinary size is allowed for in every standard error.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from bivshap_lightning.explainers.exact import explain_exactly
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.registry import register

# Elements of the (orders, n, n) precedence tensor held at once.
BLOCK_ELEMENTS = 2**24
# From so many pairs of orders on, gains that are all alike are taken to be so (an unlike one would have to be rarer
# than one in seven, at 95 % confidence, to have been missed).
CERTAIN_PAIRS = 20


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
    estimate = _estimate([torch.stack(m).sum(dim=0) for m in zip(*moments, strict=True)], n_pairs)
    return estimate if n_pairs >= CERTAIN_PAIRS else _allow_for_unseen_gains(estimate, forward, backward)


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


def _moments(forward: Tensor, backward: Tensor, positions: Tensor) -> list[Tensor]:
    """Sums over pairs of orders of the three quantities of an estimate and of their squares.

    A pair of orders contributes the mean of its two members. For E2[i, j] one of the two is zero, because j comes
    before i in exactly one of them, so the square of the mean is a quarter of the one square that is left.
    """
    n = positions.shape[1]
    both = torch.cat([positions, n - 1 - positions])
    counted = (both[:, None, :] < both[:, :, None]).to(forward.dtype)
    gains = torch.cat([forward, backward], dim=1)
    bivariate, squared = torch.einsum("xmi,mij->xij", torch.cat([gains / 2, gains**2 / 4]), counted).chunk(2)
    shapley = (forward + backward) / 2
    null = (forward * (positions + 1) + backward * (n - positions)) / (2 * (n + 1))
    sums = [bivariate, shapley.sum(dim=1), null.sum(dim=1)]
    squares = [squared, (shapley**2).sum(dim=1), (null**2).sum(dim=1)]
    return [*sums, *squares]


def _estimate(moments: list[Tensor], n_draws: int) -> Estimate:
    """Means and their standard errors from sums and sums of squares."""
    means = [m / n_draws for m in moments[:3]]
    errors = [
        ((square / n_draws - mean**2).clamp(min=0) / max(1, n_draws - 1)).sqrt()
        for mean, square in zip(means, moments[3:], strict=True)
    ]
    return Estimate(*means, *errors)


def _allow_for_unseen_gains(estimate: Estimate, forward: Tensor, backward: Tensor) -> Estimate:
    """Add to every variance one more pair of orders whose gain is as large as the gains of all players are."""
    n_pairs = forward.shape[1]
    typical = ((forward**2 + backward**2) / 2).mean(dim=(1, 2), keepdim=True) / (n_pairs * (n_pairs + 1))

    def widen(error: Tensor, share: float) -> Tensor:
        return (error**2 + share * typical.view(-1, *[1] * (error.dim() - 1))).sqrt()

    bivariate = widen(estimate.bivariate_error, 0.25)
    bivariate.diagonal(dim1=1, dim2=2).zero_()
    return replace(
        estimate,
        bivariate_error=bivariate,
        shapley_error=widen(estimate.shapley_error, 0.5),
        null_column_error=widen(estimate.null_column_error, 0.25),
    )
