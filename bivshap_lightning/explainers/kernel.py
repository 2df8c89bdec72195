"""BivShap-K: one design of coalitions for the whole batch, one factorisation, then matrix products.

Written with gains, ``E2[i, j]`` is a sum over coalition sizes s of a mean over the coalitions S of that size:

    ``E2[i, j] = sum_s mean_{|S| = s} u(S) [j in S] ([i in S] / s - [i not in S] / (n - s))``

That is linear in u, so u is split into a fit and a residual. The fit is additive with effects that may change with
the size of the coalition, ``sum_i (a_i + b_i (|S| - 1)) [i in S]``, the Shapley-kernel-weighted least squares
solution; it consists of single and pair effects, whose E2 is known exactly. Only the residual is left to the sampled
means. The paper regresses every column of E2 on u itself; the same coalitions
then give a markedly larger error, because most of the noise lies in what the fit takes out.

The design enumerates sizes that it can afford and draws the others, in complementary pairs, equally often: the
leverage of the regression is the same for all sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bivshap_lightning.explainers.exact import explain_exactly
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.registry import register

# Elements of the (samples, coalitions, n) tensor held at once.
BLOCK_ELEMENTS = 2**25
# Pairs of coalitions whose spread gives the standard errors.
ERROR_PAIRS = 512


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
    """Bivariate Shapley values from one shared coalition design.

    Args:
        game: the game.
        n_evaluations: at most this many evaluations per sample.
        generator: the source of coalitions, on the game's device.
    """
    n = game.n_players
    if 2**n <= n_evaluations:
        return explain_exactly(game)
    design = draw_design(n, n_evaluations - 2, generator)
    ends = torch.tensor([[False], [True]], device=game.device).expand(2, n)
    values = game(torch.cat([ends, design.masks, ~design.masks]))
    values = values[:, 1:] - values[:, :1]
    fit = _fit(values, design)
    bivariate, shapley, null_column = (a + b for a, b in zip(_fitted(fit), _left_over(fit, design), strict=True))
    bivariate.diagonal(dim1=1, dim2=2).zero_()
    return Estimate(bivariate, shapley, null_column, *_errors(fit, design))


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


@dataclass(frozen=True)
class Fit:
    """A least squares fit ``sum_i (single_i + paired_i (|S| - 1)) [i in S]``, with pair effects paired_i + paired_k.

    Attributes:
        single: (B, n).
        paired: (B, n).
        inside: (B, P) residuals of the coalitions of a design.
        outside: (B, P) residuals of their complements.
        whole: (B, 1) residual of the coalition of all players.
    """

    single: Tensor
    paired: Tensor
    inside: Tensor
    outside: Tensor
    whole: Tensor


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
    # A size goes with its complement's; the middle one is its own mate and has only half as many pairs.
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
        # Systematic sampling: every size gets its share, rounded up or down.
        shares = torch.tensor([0.5 if 2 * s == n else 1.0 for s in sizes], dtype=torch.float64, device=device)
        start = torch.rand(1, generator=generator, device=device, dtype=torch.float64)
        marks = (torch.arange(left, device=device) + start) / left * shares.sum()
        place = torch.searchsorted(shares.cumsum(0), marks).clamp(max=len(sizes) - 1)
        drawn = torch.tensor(sizes, device=device)[place]
        order = torch.rand(left, n, generator=generator, device=device).argsort(dim=1)
        masks.append(torch.zeros_like(order, dtype=torch.bool).scatter_(1, order, players < drawn[:, None]))
        weights.append((shares.sum() / left).expand(left))
    return Design(torch.cat(masks), torch.cat(weights), n_enumerated)


def _fit(values: Tensor, design: Design) -> Fit:
    """Shapley-kernel-weighted least squares.

    Args:
        values: (B, 1 + 2 P) of all players, the design and its complements, relative to the empty coalition.
        design: the coalitions.
    """
    n, n_pairs = design.masks.shape[1], len(design.masks)
    z = torch.cat([torch.ones_like(design.masks[:1]), design.masks, ~design.masks]).double()
    sizes = z.sum(dim=1)
    # The kernel is infinite for all players: let them weigh as much as everything else together.
    kernel = design.weight.repeat(2) / (sizes[1:] * (n - sizes[1:]))
    weight = torch.cat([kernel.sum()[None], kernel])
    columns = torch.cat([z, z * ((sizes - 1) / n)[:, None]], dim=1)
    weighted = columns * weight[:, None]
    normal = weighted.T @ columns
    # Far below what the data determine, and enough to keep the factorisation regular where they do not.
    normal.diagonal().add_(1e-9 * normal.diagonal().mean())
    solution = torch.cholesky_solve((values @ weighted).T, torch.linalg.cholesky(normal)).T
    residual = values - solution @ columns.T
    whole, inside, outside = residual.split([1, n_pairs, n_pairs], dim=1)
    return Fit(solution[:, :n], solution[:, n:] / n, inside, outside, whole)


def _fitted(fit: Fit) -> tuple[Tensor, Tensor, Tensor]:
    """E2, Shapley values and null column of the fit, exactly.

    A single effect a of i counts a / 2 whoever is present; a pair effect c counts c / 2 when its mate is present and
    c / 3 when another player is.
    """
    effects = fit.paired[:, :, None] + fit.paired[:, None, :]
    effects.diagonal(dim1=1, dim2=2).zero_()
    total = effects.sum(dim=2)
    alone = fit.single / 2 + total / 3
    return alone[:, :, None] + effects / 6, fit.single + total / 2, alone


def _left_over(fit: Fit, design: Design) -> tuple[Tensor, Tensor, Tensor]:
    """E2, Shapley values and null column of the residual, by sampled means.

    With r, r' the residuals of a coalition of size s and of its complement of size s', and z = [i in S], the means
    over sizes come down to sums over pairs of weights times z_i z_j, z_i, z_j or 1.
    """
    n, z, v = design.masks.shape[1], design.masks.double(), design.weight
    s = z.sum(dim=1)
    t = n - s
    q = v * n / (s * t)
    inside, outside = fit.inside, fit.outside
    by_row = -(q * outside) @ z
    by_column = by_row + (v * (outside / s - inside / t)) @ z
    constant = (q * outside - v * outside / s).sum(dim=1, keepdim=True) + fit.whole / n
    bivariate = _gram(q * (inside + outside), z) + by_row[:, :, None] + by_column[:, None] + constant[:, :, None]
    shapley = (q * (inside - outside)) @ z + constant - (v * inside / t).sum(dim=1, keepdim=True)
    present, absent = _null_parts(fit, design)
    null_column = (present - absent) @ z + absent.sum(dim=1, keepdim=True) + fit.whole / (n + 1)
    return bivariate, shapley, null_column


def _null_parts(fit: Fit, design: Design) -> tuple[Tensor, Tensor]:
    """What a pair adds to the null column of i: (B, P) if i is in the coalition, and if i is in the complement."""
    n, v = design.masks.shape[1], design.weight
    s = design.masks.sum(dim=1)
    t = n - s
    present = v / (n + 1) * (fit.inside - fit.outside * (t + 1) / s)
    absent = v / (n + 1) * (fit.outside - fit.inside * (s + 1) / t)
    return present, absent


def _errors(fit: Fit, design: Design) -> tuple[Tensor, Tensor, Tensor]:
    """Standard errors from the spread of what the drawn pairs add.

    j is in exactly one member of a pair, so the square of what the pair adds to E2[i, j] splits into a factor of i and
    one of j. The spread of some hundred pairs tells an error well enough; a stride picks them over all sizes.
    """
    n, n_drawn = design.masks.shape[1], len(design.masks) - design.n_enumerated
    some = slice(design.n_enumerated, None, max(1, n_drawn // ERROR_PAIRS))
    z, v = design.masks[some].double(), design.weight[some]
    # The fit used up degrees of freedom, so residuals are too small by this factor.
    scale = n_drawn / max(1, len(z)) * n_drawn / max(1, n_drawn - n)
    s = z.sum(dim=1)
    t = n - s
    inside, outside = v * fit.inside[:, some], v * fit.outside[:, some]
    a, b, c = inside**2 - outside**2, 1 / s**2 - 1 / t**2, 1 / t**2
    bivariate = _gram(a * b, z) + ((outside**2 * b) @ z)[:, :, None] + ((a * c) @ z)[:, None]
    bivariate = bivariate + (outside**2 * c).sum(dim=1)[:, None, None]
    bivariate.diagonal(dim1=1, dim2=2).zero_()
    difference = (inside - outside) ** 2
    shapley = (difference * b) @ z + (difference * c).sum(dim=1, keepdim=True)
    present, absent = (part[:, some] ** 2 for part in _null_parts(fit, design))
    null_column = (present - absent) @ z + absent.sum(dim=1, keepdim=True)
    bivariate, shapley, null_column = ((x * scale).clamp(min=0).sqrt() for x in (bivariate, shapley, null_column))
    return bivariate, shapley, null_column


def _gram(weights: Tensor, z: Tensor) -> Tensor:
    """``z' diag(weights[b]) z`` for every sample b, (B, n, n), a bounded number of samples at a time.

    Single precision: these sums hold sampling noise far above its rounding, and it is twice as fast.
    """
    block = max(1, BLOCK_ELEMENTS // max(1, z.numel()))
    ones = z.float()
    return torch.cat([(w[:, None] * ones.T) @ ones for w in weights.float().split(block)]).double()
