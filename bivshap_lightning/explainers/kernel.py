"""BivShap-K: a regression on one design of coalitions, corrected by the sampled mean of its residuals.

``E2[i, j]`` is a sum over coalition sizes s of a mean over the coalitions S of that size:

    ``E2[i, j] = sum_s mean_{|S| = s} u(S) [j in S] ([i in S] / s - [i not in S] / (n - s))``

This is linear in u, so u is split into a fit and a residual. E2 of the fit is known in closed form, E2 of the residual
is estimated by sampled means. The fit lowers the variance.

The design consists of pairs of a coalition and its complement. With ``s_i = 1`` for present and ``-1`` for absent
players and ``t = sum_i s_i``, the fit is ``c + sum_i a_i s_i + sum_i b_i s_i t``: additive effects that may change with
the size of the coalition. The terms of a change sign under complement, those of b and c do not. Half the difference and
half the sum of the values of a pair therefore give two separate least squares problems of n and n + 1 coefficients,
weighted by the Shapley kernel.

The empty and the full coalition take no part in the fit. E2 does not depend on the value of the empty coalition, and
saturating models change most between it and its neighbours, where a fit that has to pass through it is far off.

Sizes that are cheap to enumerate are enumerated, the others are drawn equally often. Enumerated sizes add no variance,
so they hardly weigh in the fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bivshap_lightning.explainers.exact import explain_exactly
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.registry import register

# Elements of the (samples, n, coalitions) tensor held at once by the products below, 4 bytes each.
BLOCK_ELEMENTS = 2**23
# Pairs of coalitions whose spread gives the standard errors.
ERROR_PAIRS = 512
# With fewer drawn pairs per size than this, more of them go to small and large coalitions, which weigh most in E2.
FEW_PAIRS_PER_SIZE = 8
# Enumerated sizes are known exactly: the fit need not be good there, it only has to be determined.
ENUMERATED_WEIGHT = 0.01
# 3 / m at 95 % confidence, as a standard error.
UNSEEN = 3 / 1.96
# Fewer residuals than this, counted as (sum of sizes) ** 2 / (sum of squares), do not tell how they vary.
FEW_RESIDUALS = 3
# Residuals that sum to less than this share of the range of values are rounding.
ROUNDING = 1e-6
# Leverages above this are treated as this one: a residual of nearly zero tells nothing about its error.
LARGEST_LEVERAGE = 0.9


def minimum_evaluations(n_players: int) -> int:
    """Twice as many coalitions as the fit has coefficients, and the two ends; or all coalitions."""
    return min(1 << n_players, 4 * n_players + 2)


@register
class Kernel:
    """The shared coalition design and regression as an estimator.

    Example:
        >>> Kernel().minimum_evaluations(10)
        42
    """

    name = "kernel"
    is_exact = False

    def minimum_evaluations(self, n_players: int) -> int:
        """See :func:`minimum_evaluations`."""
        return minimum_evaluations(n_players)

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        """See :func:`explain_by_regression`."""
        return explain_by_regression(game, n_coalitions, generator)


def explain_by_regression(game: ReducedGame, n_evaluations: int, generator: torch.Generator) -> Estimate:
    """Bivariate Shapley values from one design of coalitions.

    Args:
        game: the game.
        n_evaluations: at most this many evaluations per sample.
        generator: the source of coalitions, on the game's device.
    """
    n = game.n_players
    if 2**n <= n_evaluations:
        return explain_exactly(game)
    design = draw_design(n, n_evaluations - 2, generator)
    return estimate_from_values(evaluate_design(game, design), design)


@dataclass(frozen=True)
class Design:
    """Pairs of a coalition and its complement, neither of them empty.

    Attributes:
        masks: bool (P, n), one member of each pair.
        weight: (P,) the share of either member in the mean over its size.
        n_enumerated: leading pairs that stand for themselves; the others are drawn.
    """

    masks: Tensor
    weight: Tensor
    n_enumerated: int

    @property
    def signs(self) -> Tensor:
        """(P, n) float64: 1 for players of the coalition, -1 for those of its complement."""
        return self.masks.double().mul_(2).sub_(1)

    @property
    def n_drawn(self) -> int:
        """How many pairs are drawn at random."""
        return len(self.masks) - self.n_enumerated

    @property
    def widening(self) -> float:
        """Factor of variances that are estimated from few drawn pairs per size, which miss the tails of residuals."""
        pairs_per_size = max(1, self.n_drawn) / (self.masks.shape[1] / 2)
        return 1 + 8 / max(2, pairs_per_size) ** 2 if self.n_drawn else 1.0


@dataclass(frozen=True)
class PairedValues:
    """Values, or residuals, of a design and of the empty and the full coalition, in float64.

    Attributes:
        empty: (B, 1).
        full: (B, 1).
        inside: (B, P) of the coalitions of the design.
        outside: (B, P) of their complements.
    """

    empty: Tensor
    full: Tensor
    inside: Tensor
    outside: Tensor

    def __getitem__(self, part: slice) -> PairedValues:
        return self.apply(lambda x: x[part])

    def apply(self, change: Callable[[Tensor], Tensor]) -> PairedValues:
        """The same function of all four fields."""
        return PairedValues(change(self.empty), change(self.full), change(self.inside), change(self.outside))

    @property
    def odd(self) -> Tensor:
        """(B, P) half the difference of each pair."""
        return (self.inside - self.outside) / 2

    @property
    def even(self) -> Tensor:
        """(B, P) half the sum of each pair."""
        return (self.inside + self.outside) / 2


@dataclass(frozen=True)
class Fit:
    """A least squares fit ``c + sum_i (odd_i + even_i t) s_i`` with ``t = sum_i s_i``.

    Attributes:
        odd: (B, n).
        even: (B, n).
        residuals: what the fit leaves.
        factors: Cholesky factors (n, n) and (n + 1, n + 1) of the two normal matrices.
    """

    odd: Tensor
    even: Tensor
    residuals: PairedValues
    factors: tuple[Tensor, Tensor]


def draw_design(n_players: int, n_coalitions: int, generator: torch.Generator) -> Design:
    """Enumerate the outermost sizes while that costs no more than their share, and sample the rest.

    Example:
        >>> design = draw_design(8, 70, torch.Generator().manual_seed(0))
        >>> design.masks.shape, design.n_enumerated
        (torch.Size([35, 8]), 8)
    """
    n, device = n_players, generator.device
    players = torch.arange(n, device=device)
    masks, weights, left = [], [], n_coalitions // 2
    # A size goes with its complement's; the middle one is its own complement and has only half as many pairs.
    sizes = list(range(1, n // 2 + 1))
    while sizes and left // len(sizes) >= (n_pairs := math.comb(n, sizes[0]) // (2 if 2 * sizes[0] == n else 1)):
        members = torch.combinations(players, r=sizes[0])
        chosen = torch.zeros(len(members), n, dtype=torch.bool, device=device).scatter_(1, members, True)
        masks.append(chosen[:n_pairs])  # in lexicographic order: of the middle size, those with the first player
        weights.append(torch.full((n_pairs,), 1 / len(members), dtype=torch.float64, device=device))
        left -= n_pairs
        sizes.pop(0)
    n_enumerated = n_coalitions // 2 - left
    if sizes and left:
        sizes_left = torch.tensor(sizes, device=device)
        # A pair of size s weighs as 1 / (s (n - s)) in the variance of E2: the exponent is best for equal residuals.
        exponent = -0.5 if left < FEW_PAIRS_PER_SIZE * len(sizes) else 0.0
        density = (sizes_left * (n - sizes_left)).double() ** exponent
        shares = torch.where(2 * sizes_left == n, density / 2, density)
        # Systematic sampling: every size gets its share, rounded up or down.
        start = torch.rand(1, generator=generator, device=device, dtype=torch.float64)
        marks = (torch.arange(left, device=device) + start) / left * shares.sum()
        place = torch.searchsorted(shares.cumsum(0), marks).clamp(max=len(sizes) - 1)
        order = torch.rand(left, n, generator=generator, device=device).argsort(dim=1)
        masks.append(torch.zeros_like(order, dtype=torch.bool).scatter_(1, order, players < sizes_left[place, None]))
        weights.append(shares.sum() / (left * density[place]))
    return Design(torch.cat(masks), torch.cat(weights), n_enumerated)


def evaluate_design(game: ReducedGame, design: Design) -> PairedValues:
    """Values of a design, of the empty coalition and of the full one."""
    ends = torch.tensor([[False], [True]], device=game.device).expand(2, game.n_players)
    values = game(torch.cat([ends, design.masks, ~design.masks]))
    return PairedValues(*values.split([1, 1, len(design.masks), len(design.masks)], dim=1))


def estimate_from_values(values: PairedValues, design: Design) -> Estimate:
    """E2, Shapley values and null column of a game whose values on a design are known."""
    fit = fit_pairs(values, design)
    parts = zip(_fitted(fit), estimate_residuals(fit.residuals, design), strict=True)
    bivariate, shapley, null_column = (a + b for a, b in parts)
    errors = _errors(fit, design)
    unseen = _unseen(values, fit, design)
    for error in errors:
        error.square_().add_(unseen.view(-1, *[1] * (error.dim() - 1)) ** 2).sqrt_()
    for matrix in (bivariate, errors[0]):
        matrix.diagonal(dim1=1, dim2=2).zero_()
    return Estimate(bivariate, shapley, null_column, *errors)


def fit_pairs(values: PairedValues, design: Design) -> Fit:
    """Shapley-kernel-weighted least squares, one problem for the odd and one for the even part."""
    n, signs = design.masks.shape[1], design.signs
    total = signs.sum(dim=1)
    size = (total + n) / 2
    weight = design.weight / (size * (n - size))
    weight[: design.n_enumerated] *= ENUMERATED_WEIGHT
    odd, odd_factor = _solve(signs, weight, values.odd)
    columns = torch.cat([torch.ones_like(total)[:, None], signs * (total / n)[:, None]], dim=1)
    even, even_factor = _solve(columns, weight, values.even)
    del columns
    constant, even = even[:, :1], even[:, 1:] / n
    fitted_odd, fitted_even = odd @ signs.T, constant + (even @ signs.T) * total
    at_ends = constant + even.sum(dim=1, keepdim=True) * n
    difference = odd.sum(dim=1, keepdim=True)
    residuals = PairedValues(
        empty=values.empty - (at_ends - difference),
        full=values.full - (at_ends + difference),
        inside=values.inside - (fitted_even + fitted_odd),
        outside=values.outside - (fitted_even - fitted_odd),
    )
    return Fit(odd, even, residuals, (odd_factor, even_factor))


def _solve(columns: Tensor, weight: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients (B, n) of weighted least squares and the factor of the normal matrix."""
    weighted = columns * weight[:, None]
    normal = weighted.T @ columns
    # Far below what the data determine, and enough to keep the factorisation regular where they do not.
    normal.diagonal().add_(1e-9 * normal.diagonal().mean())
    factor = torch.linalg.cholesky(normal)
    return torch.cholesky_solve((values @ weighted).T, factor).T, factor


def _fitted(fit: Fit) -> tuple[Tensor, Tensor, Tensor]:
    """E2, Shapley values and null column of the fit, exactly.

    A term ``s_i`` gives i the Shapley value 2 and ``E2[i, :] = 1``. A term ``s_i s_k`` gives Shapley value 0,
    ``E2[i, k] = 1`` and ``E2[i, j] = 1 / 3`` for every other j.
    """
    n = fit.even.shape[1]
    elsewhere = ((n - 2) * fit.even + fit.even.sum(dim=1, keepdim=True)) / 3
    alone = fit.odd + elsewhere
    pairs = (fit.even[:, :, None] + fit.even[:, None, :]) * (2 / 3)
    return alone[:, :, None] + pairs, 2 * fit.odd, alone


def estimate_residuals(residuals: PairedValues, design: Design) -> tuple[Tensor, Tensor, Tensor]:
    """E2, Shapley values and null column of residuals, by means over sizes; the diagonal of E2 means nothing.

    With r, r' the residuals of a coalition of size s and of its complement of size s', and z = [i in S], the means
    over sizes come down to sums over pairs of weights times z_i z_j, z_i, z_j or 1.
    """
    n, z, v = design.masks.shape[1], design.masks.double(), design.weight
    s = z.sum(dim=1)
    t = n - s
    q = v * n / (s * t)
    inside, outside = residuals.inside, residuals.outside
    by_row = -(q * outside) @ z
    by_column = by_row + (v * (outside / s - inside / t)) @ z
    constant = (q * outside - v * outside / s).sum(dim=1, keepdim=True) + residuals.full / n
    shapley = (q * (inside - outside)) @ z + constant - (v * inside / t).sum(dim=1, keepdim=True) - residuals.empty / n
    present, absent = _null_parts(inside, outside, design)
    ends = residuals.full / (n + 1) - residuals.empty / (n * (n + 1))
    null_column = (present - absent) @ z + absent.sum(dim=1, keepdim=True) + ends
    bivariate = _gram(q * (inside + outside), z)
    bivariate += by_row[:, :, None]
    bivariate += (by_column + constant)[:, None]
    return bivariate, shapley, null_column


def _null_parts(inside: Tensor, outside: Tensor, design: Design) -> tuple[Tensor, Tensor]:
    """What a pair adds to the null column of i: (B, P) if i is in the coalition, and if i is in the complement."""
    n, v = design.masks.shape[1], design.weight
    s = design.masks.sum(dim=1)
    t = n - s
    present = v / (n + 1) * (inside - outside * (t + 1) / s)
    absent = v / (n + 1) * (outside - inside * (s + 1) / t)
    return present, absent


def _errors(fit: Fit, design: Design) -> tuple[Tensor, Tensor, Tensor]:
    """Standard errors from the spread of what the drawn pairs add, each residual as if its pair had been left out.

    j is in exactly one member of a pair, so the square of what the pair adds to E2[i, j] splits into a factor of i and
    one of j. The spread of some hundred pairs tells an error well enough; a stride picks them over all sizes.
    """
    n, n_drawn = design.masks.shape[1], design.n_drawn
    stride = max(1, n_drawn // ERROR_PAIRS)
    some = slice(design.n_enumerated, None, stride)
    part = Design(design.masks[some], design.weight[some], 0)
    z, v = part.masks.double(), part.weight
    scale = n_drawn / max(1, len(z)) * design.widening
    odd_leverage, even_leverage = _leverages(fit.factors, part)
    odd = fit.residuals.odd[:, some] / (1 - odd_leverage)
    even = fit.residuals.even[:, some] / (1 - even_leverage)
    s = z.sum(dim=1)
    t = n - s
    present, absent = (x**2 for x in _null_parts(even + odd, even - odd, part))
    null_column = (present - absent) @ z + absent.sum(dim=1, keepdim=True)
    inside, outside = v * (even + odd), v * (even - odd)
    a, b, c = inside**2 - outside**2, 1 / s**2 - 1 / t**2, 1 / t**2
    bivariate = _gram(a * b, z)
    bivariate += ((outside**2 * b) @ z)[:, :, None]
    bivariate += ((a * c) @ z + (outside**2 * c).sum(dim=1, keepdim=True))[:, None]
    bivariate.diagonal(dim1=1, dim2=2).zero_()
    difference = (inside - outside) ** 2
    shapley = (difference * b) @ z + (difference * c).sum(dim=1, keepdim=True)
    bivariate, shapley, null_column = (x.mul_(scale).clamp_(min=0).sqrt_() for x in (bivariate, shapley, null_column))
    return bivariate, shapley, null_column


def _unseen(values: PairedValues, fit: Fit, design: Design) -> Tensor:
    """(B,) standard error that allows for residuals that the drawn pairs did not show.

    In m pairs an event that never occurred has a probability of up to 3 / m (at 95 % confidence). It is taken to be as
    large as the largest residual; or, where fewer than three residuals differ from zero, as the range of all values.
    """
    if not design.n_drawn:
        return torch.zeros_like(values.full[:, 0])
    drawn, residuals = slice(design.n_enumerated, None), fit.residuals
    known = torch.cat([values.empty, values.full, values.inside, values.outside], dim=1)
    span = known.amax(dim=1) - known.amin(dim=1)
    left = torch.cat([residuals.inside[:, drawn], residuals.outside[:, drawn]], dim=1).abs()
    few = left.sum(dim=1) ** 2 < FEW_RESIDUALS * (left**2).sum(dim=1) + (ROUNDING * span) ** 2
    return UNSEEN / design.n_drawn * torch.where(few, span, left.amax(dim=1))


def left_out_error(values: PairedValues, design: Design) -> Tensor:
    """(B,) how far the fit is off on drawn pairs that are left out of it: sum of squares as they weigh in E2."""
    drawn = slice(design.n_enumerated, None)
    fit, part = fit_pairs(values, design), Design(design.masks[drawn], design.weight[drawn], 0)
    odd_leverage, even_leverage = _leverages(fit.factors, part)
    odd = fit.residuals.odd[:, drawn] / (1 - odd_leverage)
    even = fit.residuals.even[:, drawn] / (1 - even_leverage)
    return weigh_squares(odd, even, part)


def weigh_squares(odd: Tensor, even: Tensor, design: Design) -> Tensor:
    """(B,) sum over the drawn pairs of the squares of two (B, P) tensors, weighted as in the variance of E2."""
    size = design.masks.sum(dim=1)
    weight = design.weight**2 / (size * (design.masks.shape[1] - size))
    drawn = slice(design.n_enumerated, None)
    return ((odd**2 + even**2) * weight)[:, drawn].sum(dim=1)


def _leverages(factors: tuple[Tensor, Tensor], design: Design) -> tuple[Tensor, Tensor]:
    """(P,) each: the share of its own value in the fitted value of a pair, odd and even part."""
    n, signs = design.masks.shape[1], design.signs
    total = signs.sum(dim=1)
    size = (total + n) / 2
    weight = design.weight / (size * (n - size))
    even = torch.cat([torch.ones_like(total)[:, None], signs * (total / n)[:, None]], dim=1)
    solved = (torch.linalg.solve_triangular(f, x.T, upper=False) for f, x in zip(factors, (signs, even), strict=True))
    odd_leverage, even_leverage = ((weight * (x**2).sum(dim=0)).clamp(max=LARGEST_LEVERAGE) for x in solved)
    return odd_leverage, even_leverage


def _gram(weights: Tensor, z: Tensor) -> Tensor:
    """``z' diag(weights[b]) z`` for every sample b, (B, n, n), a bounded number of samples at a time.

    Single precision: these sums hold sampling noise far above its rounding, and it is twice as fast.
    """
    block = max(1, BLOCK_ELEMENTS // max(1, z.numel()))
    ones = z.float()
    result = weights.new_empty(len(weights), z.shape[1], z.shape[1])
    for start in range(0, len(weights), block):
        part = slice(start, start + block)
        result[part] = (weights[part].float()[:, None] * ones.T) @ ones
    return result
