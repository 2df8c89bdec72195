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
# The least share of the expected variance that other pairs can leave.
LEAST_SCALE = 0.1


def most_pairs(n_players: int) -> int:
    """How many pairs are conditioned on at most.

    Example:
        >>> most_pairs(20), most_pairs(1077)
        (3250, 4202)
    """
    return max(MOST_PAIRS, default_coalitions(n_players) // 2)


def conditioned_pairs(design: Design, most: int) -> Tensor | None:
    """Places of the pairs to condition on, evenly spaced over the design; None for all of them.

    Args:
        design: the pairs.
        most: how many.

    Example:
        >>> from bivshap_lightning.explainers.design import draw_design
        >>> design = draw_design(20, 4000, torch.Generator())
        >>> conditioned_pairs(design, 1000)[:4], conditioned_pairs(design, 2000)
        (tensor([0, 2, 4, 6]), None)
    """
    n_pairs = len(design.masks)
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


def shrunk(change: Tensor, noise: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
    """What a prediction is off by, and the variance that is left, from a noisy measurement and what was expected.

    The expectation is scaled to what was measured: the sum of squares of the measured changes less that of their noise.
    So noise alone changes nothing. For the variance that is left, two standard deviations of that sum are added, its
    terms being about as good as n independent ones. The scale is at most 1, or what is seen in spite of two standard
    deviations less, because the expectation is mostly too large; in the variance it is at least :data:`LEAST_SCALE`.

    Args:
        change: (B, n) or (B, n, n), measured.
        noise: variances of it.
        prior: variances of what is measured, as they are expected.

    Example:
        >>> change, noise = torch.full((1, 32), 0.5), torch.full((1, 32), 0.125)
        >>> estimate, variance = shrunk(change, noise, torch.ones(1, 32))  # 1 was expected; seen 0.125, at most 0.25
        >>> estimate[0, 0], variance[0, 0]
        (tensor(0.2500), tensor(0.0938))
    """
    inner = tuple(range(1, change.dim()))
    allowance = 1 + 2 * math.sqrt(2 / change.shape[1])
    seen, of_noise, expected = (x.sum(dim=inner, keepdim=True) for x in (change**2, noise, prior))
    expected = expected.clamp(min=torch.finfo(prior.dtype).tiny)
    low, middle, high = ((seen * factor - of_noise) / expected for factor in (1 / allowance, 1.0, allowance))
    most = low.clamp(min=1)
    likely, largest = middle.clamp(min=0).minimum(most) * prior, high.clamp(min=LEAST_SCALE).minimum(most) * prior
    share = (likely / (likely + noise)).nan_to_num(0)
    return share * change, (1 - share) ** 2 * largest + share**2 * noise
