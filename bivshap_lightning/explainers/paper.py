"""The two algorithms of the paper as they are printed there, for comparison with published figures.

* ``paper_sampling`` (BivShap-S, Algorithm 1): for every player its own random orders, two evaluations for each.
* ``paper_kernel`` (BivShap-K, Algorithm 2): KernelSHAP's coalitions and one weighted regression; column j of E2 is the
  regression on labels that are zero wherever j is absent.

"sampling" and "kernel" of this package reach the same accuracy with far fewer evaluations. Null players are removed
first, as for all estimators; the paper gives no standard errors, the ones here are explained in the classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.stats import t as student_t
from torch import Tensor

from bivshap_lightning.explainers.estimator import EstimatorExplainer, explain_without_null_players
from bivshap_lightning.explainers.exact import explain_exactly
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.game import Game

# The paper's number of orders for each player.
PAPER_ORDERS = 1000
# Mask elements that are held at once.
BLOCK_ELEMENTS = 2**25


@dataclass(frozen=True)
class IndependentOrders:
    """Algorithm 1 of the paper on a game without null players.

    Standard errors come from the spread over a player's orders, widened to Student's t for few orders. What m orders
    never showed can still happen with a probability of up to about 3 / m (at 95 % confidence), so that much of the
    largest observed gain, or of ``abs(u(all) - u(none))`` if that is more, is added: a zero that was observed m times
    is a bound, not a proof.

    Attributes:
        most_orders: draw no more orders than this for a player; None for as many as evaluations allow.

    Example:
        >>> IndependentOrders().minimum_evaluations(10)
        42
    """

    most_orders: int | None = None
    name: ClassVar[str] = "paper_sampling"
    is_exact: ClassVar[bool] = False

    def minimum_evaluations(self, n_players: int) -> int:
        """Two orders for every player, the fewest that have a spread, and the empty and the full coalition."""
        return 4 * n_players + 2

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        """Draw ``(n_coalitions - 2) // (2 n)`` orders for each of the n players."""
        n = game.n_players
        if n == 1:
            return explain_exactly(game)
        n_orders = min((n_coalitions - 2) // (2 * n), self.most_orders or n_coalitions)
        block = max(1, BLOCK_ELEMENTS // (2 * n_orders * n))
        parts = [self._rows(game, players, n_orders, generator) for players in torch.arange(n).split(block)]
        largest = torch.stack([part[-1] for part in parts]).amax(dim=0)
        means, squares = (
            [torch.cat(x, dim=1) / n_orders for x in zip(*(p[k] for p in parts), strict=True)] for k in (0, 1)
        )
        widening = float(student_t.ppf(0.975, n_orders - 1)) / 1.96
        unseen = 3 / 1.96 * largest / n_orders
        errors = [
            (
                widening**2 * (square - mean**2).clamp(min=0) / (n_orders - 1)
                + unseen.view(-1, *[1] * (mean.dim() - 1)) ** 2
            ).sqrt()
            for mean, square in zip(means, squares, strict=True)
        ]
        errors[0].diagonal(dim1=1, dim2=2).zero_()
        return Estimate(*means, *errors)

    def _rows(
        self, game: ReducedGame, players: Tensor, n_orders: int, generator: torch.Generator
    ) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """For some players: sums over orders, sums of squares, and the largest change of value of each sample."""
        n, device = game.n_players, game.device
        players = players.to(device)
        keys = torch.rand(len(players), n_orders, n, generator=generator, device=device)
        own = keys.gather(2, players[:, None, None].expand(-1, n_orders, 1))
        before = keys < own
        itself = torch.eye(n, dtype=torch.bool, device=device)[players][:, None]
        ends = torch.tensor([[False], [True]], device=device).expand(2, n)
        values = game(torch.cat([ends, torch.stack([before, before | itself]).flatten(0, 2)]))
        whole = (values[:, 1] - values[:, 0]).abs()
        values = values[:, 2:].unflatten(1, (2, len(players), n_orders))
        gains = values[:, 1] - values[:, 0]
        with_null_player = gains * ((before.sum(dim=2) + 1) / (n + 1))
        counted = before.to(gains.dtype)
        sums = [torch.einsum("bim,imj->bij", gains, counted), gains.sum(dim=2), with_null_player.sum(dim=2)]
        squares = [
            torch.einsum("bim,imj->bij", gains**2, counted),
            (gains**2).sum(dim=2),
            (with_null_player**2).sum(dim=2),
        ]
        return sums, squares, torch.maximum(gains.abs().amax(dim=(1, 2)), whole)


@register
class PaperSampling:
    """BivShap-S as printed in the paper: 2 m F evaluations, m = 1,000 orders per player if no number is given.

    Example:
        >>> game = Game(lambda x: x.amax(dim=1), torch.ones(1, 3), behavior="output")
        >>> PaperSampling().explain(game).bivariate[0, 0]
        tensor([0., 0., 0.])
    """

    name = IndependentOrders.name
    is_exact = False

    def minimum_evaluations(self, game: Game) -> int:
        """Two orders for every non-null player."""
        return EstimatorExplainer(IndependentOrders()).minimum_evaluations(game)

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game.

        Args:
            game: the game.
            n_evaluations: at most this many model rows per sample; None for 1,000 orders per non-null player.
            seed: seed of the orders.
        """
        orders, n_evaluations = _orders(game, n_evaluations)
        return explain_without_null_players(orders, game, n_evaluations=n_evaluations, seed=seed)

    def explain_until(
        self,
        game: Game,
        target_error: float,
        n_evaluations: int | None = None,
        seed: int = 0,
        *,
        interruptible: bool = False,
    ) -> Explanation:
        """Explain a game with orders in stages; :meth:`explain` has the arguments."""
        orders, n_evaluations = _orders(game, n_evaluations)
        return EstimatorExplainer(orders).explain_until(
            game, target_error, n_evaluations, seed, interruptible=interruptible
        )


def _orders(game: Game, n_evaluations: int | None) -> tuple[IndependentOrders, int]:
    """The estimator and its evaluations. Samples differ in their non-null players: the number of orders is capped."""
    if n_evaluations is not None:
        return IndependentOrders(), n_evaluations
    n_evaluations = (2 * PAPER_ORDERS * ReducedGame(game).n_players + 2) * game.removal.n_rows
    return IndependentOrders(most_orders=PAPER_ORDERS), n_evaluations


@register
class PaperKernel:
    """BivShap-K as printed in the paper: one regression on M coalitions, labels masked by column.

    KernelSHAP enumerates the outermost sizes while their share of M allows and draws complementary pairs of the others.
    The regression is constrained to the values of all players and of none. Standard errors are the robust (sandwich)
    ones of weighted least squares over the drawn pairs, corrected for the leverage of the fit.

    Example:
        >>> from bivshap_lightning.explainers import find_explainer
        >>> game = Game(lambda x: x.amax(dim=1) + x[:, 2], torch.ones(1, 3), behavior="output")
        >>> bool(find_explainer("paper_kernel").explain(game).bivariate[0, 0, 1].abs() < 1e-6)
        True
    """

    name = "paper_kernel"
    is_exact = False

    def minimum_evaluations(self, n_players: int) -> int:
        """Twice as many pairs of coalitions as the regression has coefficients, and the two ends; or all coalitions."""
        return min(1 << n_players, 4 * n_players + 2)

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        """Regress on ``n_coalitions - 2`` coalitions."""
        n = game.n_players
        if n == 1:
            return explain_exactly(game)
        masks, weights, n_enumerated = draw_kernel_coalitions(n, n_coalitions - 2, generator)
        ends = torch.tensor([[False], [True]], device=game.device).expand(2, n)
        values = game(torch.cat([ends, masks]))
        parts = [_regress(y, masks.double(), weights, n_enumerated) for y in values]
        return Estimate(*(torch.stack(part) for part in zip(*parts, strict=True)))


def draw_kernel_coalitions(n_players: int, n_coalitions: int, generator: torch.Generator) -> tuple[Tensor, Tensor, int]:
    """KernelSHAP's design: sizes from the outside in are enumerated while affordable, the others drawn in pairs.

    Returns:
        Masks, bool (M, n); their weights (M,) float64; and the number of enumerated coalitions, which come first. Of
        the others the first half are drawn, the second half are their complements.

    Example:
        >>> masks, weights, n_enumerated = draw_kernel_coalitions(8, 70, torch.Generator().manual_seed(0))
        >>> masks.shape, n_enumerated, round(float(weights.sum()), 6)
        (torch.Size([70, 8]), 16, 1.0)
    """
    n, device = n_players, generator.device
    sizes = list(range(1, n // 2 + 1))
    mass = [(n - 1) / (s * (n - s)) * (1 if 2 * s == n else 2) for s in sizes]
    mass = [m / sum(mass) for m in mass]
    masks, weights, left, remaining = [], [], n_coalitions, 1.0
    while sizes:
        count = math.comb(n, sizes[0]) * (1 if 2 * sizes[0] == n else 2)
        if left * mass[0] / remaining < count * (1 - 1e-12):
            break
        members = torch.combinations(torch.arange(n, device=device), r=sizes[0])
        chosen = torch.zeros(len(members), n, dtype=torch.bool, device=device).scatter_(1, members, True)
        masks.append(chosen if 2 * sizes[0] == n else torch.cat([chosen, ~chosen]))
        weights.append(torch.full((count,), mass[0] / count, dtype=torch.float64, device=device))
        left, remaining = left - count, remaining - mass[0]
        sizes, mass = sizes[1:], mass[1:]
    n_enumerated, n_pairs = n_coalitions - left, left // 2
    if sizes and n_pairs:
        shares = torch.tensor(mass, dtype=torch.float64, device=device)
        place = torch.multinomial(shares, n_pairs, replacement=True, generator=generator)
        drawn = torch.tensor(sizes, device=device)[place]
        ranks = torch.rand(n_pairs, n, generator=generator, device=device).argsort(dim=1).argsort(dim=1)
        chosen = ranks < drawn[:, None]
        masks.append(torch.cat([chosen, ~chosen]))
        weights.append(shares.sum().expand(2 * n_pairs) / (2 * n_pairs))
    return torch.cat(masks), torch.cat(weights), n_enumerated


def _regress(values: Tensor, z: Tensor, weights: Tensor, n_enumerated: int) -> tuple[Tensor, ...]:
    """Weighted least squares for one sample.

    Args:
        values: (2 + M,) of no player, all players and the coalitions.
        z: (M, n) the coalitions as numbers.
        weights: (M,).
        n_enumerated: leading coalitions that are not drawn.

    Returns:
        The six fields of an :class:`~bivshap_lightning.explainers.null_players.Estimate`.
    """
    n = z.shape[1]
    empty, whole, y = values[0], values[1], values[2:]
    inverse = torch.linalg.pinv(z.T @ (weights[:, None] * z), hermitian=True)
    ones = inverse.sum(dim=1)
    labels = torch.cat([y[:, None] * z, (y - empty)[:, None]], dim=1)  # one column per j, and the univariate one
    totals = torch.cat([whole.expand(n), (whole - empty)[None]])
    free = inverse @ (z.T @ (weights[:, None] * labels))
    fit = free - torch.outer(ones, (free.sum(dim=0) - totals) / ones.sum())
    bivariate, shapley = fit[:, :n].clone(), fit[:, n]
    bivariate.diagonal().zero_()
    null_column = (bivariate.sum(dim=1) + shapley) / (n + 1)
    projected = inverse - torch.outer(ones, ones) / ones.sum()
    influence = (weights[:, None] * z) @ projected
    drawn = slice(n_enumerated, None)
    errors = _robust_errors(influence[drawn], (labels - z @ fit)[drawn])
    return bivariate, shapley, null_column, *errors


def _robust_errors(influence: Tensor, residuals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Standard errors of E2, Shapley values and null column from the spread over pairs of coalitions.

    Args:
        influence: (2 P, n) what a unit of residual of a coalition adds to the coefficient of each player.
        residuals: (2 P, n + 1) of the columns of E2 and of the univariate fit.
    """
    n, n_pairs = influence.shape[1], len(influence) // 2
    if n_pairs < 2:
        zeros = influence.new_zeros(n, n)
        return zeros, zeros[0], zeros[0].clone()
    a, b = influence.split(n_pairs)
    r, s = residuals.split(n_pairs)
    # The square of a sum of two products, summed over pairs, by matrix products.
    squares = (a**2).T @ r**2 + (b**2).T @ s**2 + 2 * (a * b).T @ (r * s)
    sums = a.T @ r + b.T @ s
    by_row = [x[:, :n].sum(dim=1, keepdim=True) - x[:, :n] + x[:, n:] for x in (r, s)]
    null = (a * by_row[0] + b * by_row[1]) / (n + 1)
    # The fit follows every pair with a leverage of n / P on average; as a jackknife does, take it out of the residuals.
    scale = n_pairs / (n_pairs - 1) * (n_pairs / max(1, n_pairs - n)) ** 2
    errors = (scale * (squares - sums**2 / n_pairs).clamp(min=0)).sqrt()
    null_error = (scale * ((null**2).sum(dim=0) - null.sum(dim=0) ** 2 / n_pairs).clamp(min=0)).sqrt()
    bivariate = errors[:, :n].clone()
    bivariate.diagonal().zero_()
    return bivariate, errors[:, n], null_error
