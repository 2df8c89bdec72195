"""Posterior means of a Gaussian process at pairs of coalitions that it was not conditioned on.

The work of conditioning grows with the cube of the number of pairs. A large design is therefore conditioned on in part,
and what the process leaves of the other pairs is measured instead of learned from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bivshap_lightning.explainers.design import Design
from bivshap_lightning.explainers.estimator import default_coalitions
from bivshap_lightning.explainers.proxy.gaussian_process import CONSTANT, Hyperparameters, Posterior

# The most pairs that are conditioned on, or those of the default rows if they are more (from 601 players on): some
# seconds per sample on one core, and half a gigabyte.
MOST_PAIRS = 3250
# Elements of the matrix between other pairs and conditioned ones that are held at once.
BLOCK_ELEMENTS = 2**19
# Bounds of the factor that the other pairs put on posterior variances: they do not make them larger.
LEAST_FACTOR, LARGEST_FACTOR = 0.1, 1.0


def most_pairs(n_players: int) -> int:
    """How many pairs are conditioned on at most.

    Example:
        >>> most_pairs(20), most_pairs(1077)
        (3250, 4202)
    """
    return max(MOST_PAIRS, default_coalitions(n_players) // 2)


def conditioned_pairs(design: Design) -> Tensor | None:
    """Places of the pairs to condition on, evenly spaced over the design; None for all of them.

    Example:
        >>> from bivshap_lightning.explainers.design import draw_design
        >>> conditioned_pairs(draw_design(20, 13_000, torch.Generator()))[:4]
        tensor([0, 2, 4, 6])
        >>> conditioned_pairs(draw_design(20, 4000, torch.Generator())) is None
        True
    """
    n_pairs, most = len(design.masks), most_pairs(design.masks.shape[1])
    return None if n_pairs <= most else torch.arange(most, device=design.masks.device) * n_pairs // most


def part_of(design: Design, places: Tensor) -> Design:
    """Some of the pairs of a design; those of its enumerated ones count as enumerated."""
    n_enumerated = int((places < design.n_enumerated).sum())
    return Design(design.masks[places], design.weight[places], n_enumerated)


def predict(
    parameters: Hyperparameters, signs: Tensor, posteriors: Sequence[Posterior], others: Tensor
) -> list[tuple[Tensor, Tensor]]:
    """Posterior means (B, Q) of the members of other pairs, first those that are given, then their complements.

    Args:
        parameters: of the kernel.
        signs: (P, n) of the pairs that were conditioned on.
        posteriors: representer weights, one result for each.
        others: (Q, n) signs of one member of each of the other pairs.
    """
    rate = parameters.relevance.atanh()
    level = rate.sum(dim=1)[:, None, None]
    of_odd, of_even = (torch.stack([getattr(p, part) for p in posteriors], dim=2) for part in ("odd", "even"))
    slopes, constant = signs.T @ of_odd, CONSTANT * of_even.sum(dim=1, keepdim=True)
    inside, outside = [], []
    for some in others.split(max(1, BLOCK_ELEMENTS // (len(signs) * len(rate)))):
        product = (some * rate[:, None]) @ signs.T
        up = (product - level).exp()
        down = product.neg_().sub_(level).exp_()
        sinh, cosh = (up - down).div_(2), up.add_(down).div_(2)
        odd = parameters.odd_share[:, :, None] * (sinh @ of_odd) + (some * parameters.linear[:, None]) @ slopes
        even = cosh @ of_even + constant
        inside.append(even + odd)
        outside.append(even - odd)
    found = torch.cat(inside, dim=1).unbind(dim=2), torch.cat(outside, dim=1).unbind(dim=2)
    return list(zip(*found, strict=True))


def calibration(share: float, posterior: Tensor, change: Tensor, measured: Tensor) -> Tensor:
    """Factor (B, 1), at most 1, by which posterior variances are too large, as the other pairs show.

    The correction of E2 by residuals has the variance of the posterior mean, as far as it is corrected, plus its own.
    What is left of its square without the latter is compared with the former. Its entries are about as good as n
    independent ones, so two standard deviations of such a mean are added.

    Args:
        share: of the pairs that were conditioned on.
        posterior: (B, n, n) variances of the posterior mean of E2.
        change: (B, n, n) the correction.
        measured: (B, n, n) standard errors of the correction.

    Example:
        >>> off = 1 - torch.eye(32)
        >>> calibration(0.5, 4 * off[None], 0.5 * off[None], 0 * off[None])  # errors of 1 were seen, 2 were expected
        tensor([[0.3750]])
    """
    found = (change**2 - measured**2).sum(dim=(1, 2))
    expected = ((1 - share) ** 2 * posterior).sum(dim=(1, 2)).clamp(min=torch.finfo(posterior.dtype).tiny)
    allowance = 1 + 2 * math.sqrt(2 / posterior.shape[1])
    return (found / expected * allowance).clamp(LEAST_FACTOR, LARGEST_FACTOR)[:, None]


def corrected_variance(share: float, posterior: Tensor, change: Tensor, measured: Tensor) -> Tensor:
    """Variance of a posterior mean with its correction by residuals.

    The residuals of the pairs that were conditioned on are small whatever the error of the posterior mean is, so this
    share of it stays. A quarter of the square of the correction is added to its variance.

    Args:
        share: of the pairs that were conditioned on.
        posterior: variances of the posterior mean.
        change: the correction.
        measured: standard errors of the correction, which count if there are other pairs.
    """
    variance = share**2 * (posterior + change**2 / 4)
    return (variance if share == 1 else variance + measured**2).clamp(min=0)
