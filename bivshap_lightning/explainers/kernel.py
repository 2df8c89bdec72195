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
the values of saturating models change most near it, so a fit through it would be inaccurate elsewhere.

Sizes that are cheap to enumerate are enumerated, the others are drawn equally often. Enumerated sizes add no variance,
so they have little weight in the fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bivshap_lightning.explainers.design import Design, PairedValues, draw_design
from bivshap_lightning.explainers.null_players import Estimate
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.explainers.rows import AllCoalitions, RowEstimator, Rows

# Elements of the (samples, n, coalitions) tensor held at once by the products below, 4 bytes each.
BLOCK_ELEMENTS = 2**23
# Pairs of coalitions whose spread gives the standard errors.
ERROR_PAIRS = 512
# Enumerated sizes are known exactly: the fit need not be good there, it only has to be determined.
ENUMERATED_WEIGHT = 0.01
# 3 / m at 95 % confidence, as a standard error.
UNSEEN = 3 / 1.96
# Fewer residuals than this, counted as (sum of sizes) ** 2 / (sum of squares), do not tell how they vary.
FEW_RESIDUALS = 3
# Residuals that sum to less than this share of the range of values are rounding.
ROUNDING = 1e-6
# From so many players on, symmetric products are computed by blocks and the fit in single precision.
MANY_PLAYERS = 256
BLOCK_COLUMNS = 128
# From so many samples on, the products of two columns that all samples share are formed once.
MANY_SAMPLES = 16
# Leverages above this are treated as this one: a residual of nearly zero tells nothing about its error.
LARGEST_LEVERAGE = 0.9


def minimum_evaluations(n_players: int) -> int:
    """Twice as many coalitions as the fit has coefficients, and the two ends; or all coalitions."""
    return min(1 << n_players, 4 * n_players + 2)


class DesignEstimator(RowEstimator):
    """An estimator that evaluates a design of complementary pairs, or all coalitions if they are no more."""

    def minimum_evaluations(self, n_players: int) -> int:
        """See :func:`minimum_evaluations`."""
        return minimum_evaluations(n_players)

    def draw(self, n_players: int, n_coalitions: int, generator: torch.Generator, previous: Rows | None = None) -> Rows:
        """See :func:`~bivshap_lightning.explainers.design.draw_design`; two coalitions are the empty and the full."""
        if 2**n_players <= n_coalitions:
            return AllCoalitions(n_players, generator.device)
        known = previous if isinstance(previous, Design) else None
        return draw_design(n_players, n_coalitions - 2, generator, known)

    def from_values(self, rows: Rows, values: Tensor) -> Estimate:
        """See :func:`estimate_from_values`."""
        return estimate_from_values(design_of(rows).paired(values), design_of(rows))


def design_of(rows: Rows) -> Design:
    """Rows as the design that they are."""
    if not isinstance(rows, Design):
        raise TypeError(f"`rows` must be a design, got {type(rows).__name__}.")
    return rows


@register
class Kernel(DesignEstimator):
    """The shared coalition design and regression as an estimator.

    Example:
        >>> Kernel().minimum_evaluations(10)
        42
    """

    name = "kernel"
    is_exact = False


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


def estimate_from_values(values: PairedValues, design: Design) -> Estimate:
    """E2, Shapley values and null column of a game whose values on a design are known."""
    fit = fit_pairs(values, design)
    bivariate, shapley, null_column = means_of(fit, design)
    *errors, pairwise = _errors(fit, design)
    unseen, noise = _unseen(values, fit, design), (errors[0] ** 2).sum(dim=(1, 2))
    for error in errors:
        error.square_().add_(unseen.view(-1, *[1] * (error.dim() - 1)) ** 2).sqrt_()
    for matrix in (bivariate, errors[0], pairwise):
        matrix.diagonal(dim1=1, dim2=2).zero_()
    return Estimate(bivariate, shapley, null_column, *errors, pairwise_error=pairwise, noise=noise)


def means_of(fit: Fit, design: Design) -> tuple[Tensor, Tensor, Tensor]:
    """E2, Shapley values and null column: those of the fit, and the means of its residuals."""
    parts = zip(estimate_residuals(fit.residuals, design), _fitted(fit), strict=True)
    bivariate, shapley, null_column = (a.add_(b) for a, b in parts)
    return bivariate, shapley, null_column


def fit_pairs(values: PairedValues, design: Design) -> Fit:
    """Shapley-kernel-weighted least squares, one problem for the odd and one for the even part."""
    n, signs = design.masks.shape[1], design.signs
    total = signs.sum(dim=1)
    size = (total + n) / 2
    weight = design.weight / (size * (n - size))
    weight[: design.n_enumerated] *= ENUMERATED_WEIGHT
    level, tilted = weight.sum().view(1, 1), weight * total / n
    # Rounding in the normal matrices makes the fit slightly less than best; its residuals are still exact.
    dtype = torch.float64 if n < MANY_PLAYERS else torch.float32
    odd_normal, even_normal = _gram(torch.stack([weight, tilted * total / n]), signs, dtype)
    border = (tilted @ signs)[None]
    even_normal = torch.cat([torch.cat([level, border], dim=1), torch.cat([border.T, even_normal], dim=1)])
    odd, odd_factor = _solve(odd_normal, (values.odd * weight) @ signs)
    sums = torch.cat([(values.even * weight).sum(dim=1, keepdim=True), (values.even * tilted) @ signs], dim=1)
    even, even_factor = _solve(even_normal, sums)
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


def _solve(normal: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients (B, n) of weighted least squares and the factor of the normal matrix, which is changed."""
    # Far below what the data determine, and enough to keep the factorisation regular where they do not.
    ridge = 1e-9 if len(normal) < MANY_PLAYERS else 1e-6
    normal.diagonal().add_(ridge * normal.diagonal().mean())
    factor = torch.linalg.cholesky(normal)
    return torch.cholesky_solve(sums.T, factor).T, factor


def _fitted(fit: Fit) -> tuple[Tensor, Tensor, Tensor]:
    """E2, Shapley values and null column of the fit, exactly.

    A term ``s_i`` gives i the Shapley value 2 and ``E2[i, :] = 1``. A term ``s_i s_k`` gives Shapley value 0,
    ``E2[i, k] = 1`` and ``E2[i, j] = 1 / 3`` for every other j.
    """
    n = fit.even.shape[1]
    elsewhere = ((n - 2) * fit.even + fit.even.sum(dim=1, keepdim=True)) / 3
    alone, pair = fit.odd + elsewhere, fit.even * (2 / 3)
    return (alone + pair)[:, :, None] + pair[:, None, :], 2 * fit.odd, alone


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


def _errors(fit: Fit, design: Design) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Standard errors of E2, Shapley values, null column and C, each residual as if its pair had been left out."""
    some, scale = _some_drawn(design)
    part = Design(design.masks[some], design.weight[some], 0)
    odd_leverage, even_leverage = _leverages(fit.factors, part)
    odd = fit.residuals.odd[:, some] / (1 - odd_leverage)
    even = fit.residuals.even[:, some] / (1 - even_leverage)
    bivariate, shapley, null_column, pairwise = _variances(odd, even, part)
    scale *= design.widening
    for variance in (bivariate, shapley, null_column, pairwise):
        variance.mul_(scale).sqrt_()
    return bivariate, shapley, null_column, pairwise


def left_out_variances(odd: Tensor, even: Tensor, design: Design) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Variances of E2, Shapley values, null column and ``C = E2 - null column`` of any prediction that is corrected.

    Args:
        odd: (B, P) what is left of the odd parts of the pairs of a design by a prediction that has not seen them.
        even: (B, P) of the even parts.
        design: of the pairs; only the drawn ones have an error.
    """
    some, scale = _some_drawn(design)
    found = _variances(odd[:, some], even[:, some], Design(design.masks[some], design.weight[some], 0))
    bivariate, shapley, null_column, pairwise = (x.mul_(scale) for x in found)
    return bivariate, shapley, null_column, pairwise


def _some_drawn(design: Design) -> tuple[slice, float]:
    """Some hundred drawn pairs over all sizes, enough for an error, and how many pairs each of them stands for."""
    stride = max(1, design.n_drawn // (ERROR_PAIRS if design.masks.shape[1] < MANY_PLAYERS else ERROR_PAIRS // 4))
    some = slice(design.n_enumerated, None, stride)
    return some, design.n_drawn / max(1, len(range(design.n_drawn)[::stride]))


def _variances(odd: Tensor, even: Tensor, part: Design) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums of the squares of what pairs add to E2, Shapley values, null column and C.

    j is in exactly one member of a pair, so the square of what the pair adds to E2[i, j] splits into a factor of i and
    one of j.
    """
    n, z, v = part.masks.shape[1], part.masks.double(), part.weight
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
    # A pair adds 2 v even / (n + 1) to C[i, j], times (t + 1) / s with both in the coalition, (s + 1) / t with both in
    # the complement, and -1 otherwise.
    squares = (2 * v * even / (n + 1)) ** 2
    present, absent = ((t + 1) / s) ** 2 - 1, ((s + 1) / t) ** 2 - 1
    pairwise = _gram(squares * (present + absent), z)
    alone = (squares * absent) @ z
    pairwise -= alone[:, :, None]
    pairwise += ((squares * (1 + absent)).sum(dim=1, keepdim=True) - alone)[:, None]
    return bivariate.clamp_(min=0), shapley.clamp_(min=0), null_column.clamp_(min=0), pairwise.clamp_(min=0)


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


def _gram(weights: Tensor, z: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """``z' diag(weights[b]) z`` for every sample b, (B, n, n) float64, in blocks of bounded memory.

    Only the blocks on and above the diagonal are computed. Single precision by default: these sums hold sampling noise
    far above its rounding, and it is twice as fast.
    """
    n = z.shape[1]
    z, weights = z.to(dtype), weights.to(dtype)
    if len(weights) >= MANY_SAMPLES:
        return _gram_by_columns(weights, z)
    width = n if n < MANY_PLAYERS else BLOCK_COLUMNS
    block = max(1, BLOCK_ELEMENTS // max(1, len(z) * width))
    result = torch.empty(len(weights), n, n, dtype=torch.float64, device=z.device)
    for start in range(0, len(weights), block):
        part = slice(start, start + block)
        for first in range(0, n, width):
            last = min(n, first + width)
            product = (weights[part, None] * z[:, first:last].T) @ z[:, first:]
            result[part, first:last, first:] = product
            result[part, first:, first:last] = product.mT
    return result


def _gram_by_columns(weights: Tensor, z: Tensor) -> Tensor:
    """The same with one product for all samples per column of z: only the entries on and above the diagonal."""
    n, rows, columns = z.shape[1], z.T.contiguous(), weights.T.contiguous()
    result = z.new_empty(n, n, len(weights))
    for i in range(n):
        torch.mm(rows[i:] * rows[i], columns, out=result[i, i:])
        result[i + 1 :, i] = result[i, i + 1 :]
    return result.movedim(2, 0).to(torch.float64, memory_format=torch.contiguous_format)
