"""A Gaussian process over coalitions: relevances by marginal likelihood, and the posterior on pairs of coalitions.

Values of complementary pairs are split into half their difference (odd) and half their sum (even). With the product
kernel of :mod:`~bivshap_lightning.explainers.proxy.closed_form` the two are independent, so each is a system of P
equations instead of one of 2 P:

    odd:  ``w (k(s, t) - k(s, -t)) / 2 + l sum_i (a_i / mean(a)) s_i t_i / n + v [s = t]``
    even: ``(k(s, t) + k(s, -t)) / 2 + 1000 + v [s = t]``

The relevances a, the shares w and l and the noise v are found for every sample by itself, by damped Newton steps on the
marginal likelihood of some of its pairs. The curvature is the average information (the mean of the observed and the
expected one), which takes products of systems with vectors only: half a dozen steps get as far as dozens of gradient
steps. Derivatives are written out, so this runs in inference mode too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bivshap_lightning.explainers.design import PairedValues

# Prior variance of the constant, in units of the kernel's variance.
CONSTANT = 1e3
LARGEST_RELEVANCE = 0.95
# Start of the logits of relevances and of log l, log v, log w.
FIRST_LOGIT = -2.5
FIRST_SUM = 2.0
FIRST_LOGS = (-1.2, -6.9, 0.0)
# Logits are drawn, weakly, to a mean slightly below their start.
CENTER_RIDGE = 0.02
LOGIT_BOUNDS = (-12, 8)
# Bounds of log l, log v, log w: a smaller noise makes the factorisation fail, a larger one leaves nothing to fit.
LEAST_LOGS = (-9.2, -13.8, -9.2)
LARGEST_LOGS = (4.6, 1.6, 4.6)
N_STEPS = 5
# The same where training goes on from what fewer pairs of the sample have taught.
N_FURTHER_STEPS = 3
# What is added to the curvature at first; a step that lowers the objective divides it, one that does not multiplies it.
DAMPING = 3.0
LESS_DAMPING, MORE_DAMPING = 0.5, 4.0
# No parameter moves further than this in a step: beyond, the curvature at its start says little.
LARGEST_STEP = 1.5


def first_logit(n_players: int) -> float:
    """The logit of a relevance from which training starts, such that all relevances sum to a few units at most.

    With a larger sum two coalitions have nothing in common, and there is no gradient to learn from.

    Example:
        >>> first_logit(14), round(first_logit(1077), 2)
        (-2.5, -6.24)
    """
    share = FIRST_SUM / n_players / LARGEST_RELEVANCE
    return FIRST_LOGIT if share >= 1 else min(FIRST_LOGIT, math.log(share / (1 - share)))


@dataclass(frozen=True)
class Hyperparameters:
    """What shapes the kernel, for each of B samples.

    Attributes:
        logits: (B, n); relevances are ``0.95 sigmoid(logits)``.
        logs: (B, 3) logarithms of the linear share l, the noise v and the odd share w.
    """

    logits: Tensor
    logs: Tensor

    @classmethod
    def start(cls, n_samples: int, n_players: int, device: torch.device) -> Hyperparameters:
        """The values from which training starts."""
        logits = torch.full((n_samples, n_players), first_logit(n_players), dtype=torch.float64, device=device)
        return cls(logits, logits.new_tensor(FIRST_LOGS).repeat(n_samples, 1))

    @property
    def relevance(self) -> Tensor:
        """(B, n)."""
        return LARGEST_RELEVANCE * self.logits.sigmoid()

    @property
    def linear(self) -> Tensor:
        """(B, n) prior variance of the coefficient of each sign in the linear term."""
        a = self.relevance
        return self.logs[:, :1].exp() * a / a.mean(dim=1, keepdim=True) / a.shape[1]

    @property
    def noise(self) -> Tensor:
        """(B, 1)."""
        return self.logs[:, 1:2].exp()

    @property
    def odd_share(self) -> Tensor:
        """(B, 1)."""
        return self.logs[:, 2:].exp()

    def pack(self) -> Tensor:
        """(B, n + 3) all of them."""
        return torch.cat([self.logits, self.logs], dim=1)

    @classmethod
    def unpack(cls, packed: Tensor) -> Hyperparameters:
        """Hyperparameters out of what :meth:`pack` made."""
        return cls(packed[:, :-3], packed[:, -3:])


@dataclass(frozen=True)
class Factors:
    """Both systems of a process on P pairs, factorised; they do not depend on the values of the pairs.

    Attributes:
        odd_factor: (B, P, P) Cholesky factor of the odd system.
        odd_inverse: (B, P, P) its inverse.
        even_factor: (B, P, P).
        even_inverse: (B, P, P).
        failed: (B,) bool: a system could not be factorised; the other fields mean nothing there.
    """

    odd_factor: Tensor
    odd_inverse: Tensor
    even_factor: Tensor
    even_inverse: Tensor
    failed: Tensor

    @classmethod
    def of(cls, signs: Tensor, parameters: Hyperparameters) -> Factors:
        """Factorise the systems of pairs with one member each in ``signs``, (P, n)."""
        systems = _Systems.of(signs, parameters)
        odd_system, even_system = systems.odd, systems.even
        del systems  # with its hyperbolic parts, which only training needs
        odd_factor, odd_inverse, odd_failed = _invert(odd_system)
        del odd_system
        even_factor, even_inverse, even_failed = _invert(even_system)
        return cls(odd_factor, odd_inverse, even_factor, even_inverse, odd_failed | even_failed)


@dataclass(frozen=True)
class Posterior:
    """Representer weights of a fitted process, and what leaving out one pair would change.

    Attributes:
        odd: (B, P) weights of the odd system.
        even: (B, P) weights of the even system.
        factors: the systems.
        scale: (B, 1) variance of the process per unit of the kernel.
        empty: (B, 1) value of the empty coalition that the other values predict.
        failed: (B,) bool: the other fields mean nothing there.
    """

    odd: Tensor
    even: Tensor
    factors: Factors
    scale: Tensor
    empty: Tensor
    failed: Tensor

    def left_out(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Leave-one-out residuals of the odd and the even parts, and their predicted variances, (B, P) each."""
        odd, even = (x.diagonal(dim1=1, dim2=2) for x in (self.factors.odd_inverse, self.factors.even_inverse))
        return self.odd / odd, self.even / even, self.scale / odd, self.scale / even


@dataclass(frozen=True)
class _Systems:
    """Both systems and the hyperbolic parts of the kernel that they are made of, (B, P, P) each."""

    odd: Tensor
    even: Tensor
    sinh: Tensor
    cosh: Tensor

    @classmethod
    def of(cls, signs: Tensor, parameters: Hyperparameters) -> _Systems:
        rate = parameters.relevance.atanh()
        level = rate.sum(dim=1)[:, None, None]
        product = (signs * rate[:, None]) @ signs.T
        up = (product - level).exp()
        down = product.neg_().sub_(level).exp_()
        sinh, cosh = (up - down).div_(2), up.add_(down).div_(2)
        odd, even = (signs * parameters.linear[:, None]) @ signs.T, cosh + CONSTANT
        odd.addcmul_(parameters.odd_share[:, :, None], sinh)
        for system in (odd, even):
            system.diagonal(dim1=1, dim2=2).add_(parameters.noise)
        return cls(odd, even, sinh, cosh)


def train(
    signs: Tensor,
    odd: Tensor,
    even: Tensor,
    *,
    ridge: float,
    start: Hyperparameters | None = None,
    n_steps: int | None = None,
) -> Hyperparameters:
    """Hyperparameters by damped Newton steps on the penalised marginal likelihood, the best iterate of each sample.

    Each sample's steps depend on its own values alone.

    Args:
        signs: (P, n) one member of each pair.
        odd: (B, P) half the differences of the pairs' standardised values.
        even: (B, P) half their sums.
        ridge: how strongly relevances are drawn towards each other.
        start: what fewer pairs of the same samples have taught, from which fewer steps go on.
        n_steps: steps; None for the number that suits the start.
    """
    n_steps = n_steps or (N_STEPS if start is None else N_FURTHER_STEPS)
    x = (start or Hyperparameters.start(len(odd), signs.shape[1], signs.device)).pack()
    best, least, damping = x, x.new_full((len(x), 1), torch.inf), x.new_full((len(x), 1), DAMPING)
    gradient, curvature = torch.zeros_like(x), x.new_zeros(*x.shape, x.shape[1])
    for step in range(n_steps):
        loss, *derivatives = _objective(signs, odd, even, Hyperparameters.unpack(x), ridge)
        better = loss < least
        if step:
            damping = damping * torch.where(better, LESS_DAMPING, MORE_DAMPING)
        best, least = torch.where(better, x, best), torch.where(better, loss, least)
        gradient = torch.where(better, derivatives[0], gradient)
        curvature = torch.where(better[:, :, None], derivatives[1], curvature)
        x = _bounded(best - _step(gradient, curvature, damping))
    loss = _Evidence.of(signs, odd, even, Hyperparameters.unpack(x), ridge).loss
    return Hyperparameters.unpack(torch.where(loss < least, x, best))


def _step(gradient: Tensor, curvature: Tensor, damping: Tensor) -> Tensor:
    """Newton steps (B, n + 3), none of them long; zero where there is no curvature."""
    damped = curvature + torch.diag_embed(damping.expand_as(gradient))
    factor, _ = torch.linalg.cholesky_ex(damped)
    return _solve(factor, gradient).nan_to_num(0, 0, 0).clamp(-LARGEST_STEP, LARGEST_STEP)


def _bounded(x: Tensor) -> Tensor:
    """Packed hyperparameters within the bounds at which systems can be factorised."""
    low, high = (x.new_tensor(logs) for logs in (LEAST_LOGS, LARGEST_LOGS))
    return torch.cat([x[:, :-3].clamp(*LOGIT_BOUNDS), torch.minimum(torch.maximum(x[:, -3:], low), high)], dim=1)


@dataclass(frozen=True)
class _Evidence:
    """The penalised negative log marginal likelihood of B samples, and what its derivatives are made of.

    Attributes:
        systems: both, (B, P, P).
        factors: their Cholesky factors.
        weights: (B, P) each, the solutions.
        scale: (B,) variance of the process per unit of the kernel.
        loss: (B, 1), infinite where a system could not be factorised.
    """

    systems: _Systems
    factors: tuple[Tensor, Tensor]
    weights: tuple[Tensor, Tensor]
    scale: Tensor
    loss: Tensor

    @classmethod
    def of(cls, signs: Tensor, odd: Tensor, even: Tensor, parameters: Hyperparameters, ridge: float) -> _Evidence:
        """The evidence of values of pairs, see :func:`train`."""
        systems = _Systems.of(signs, parameters)
        (odd_factor, odd_info), (even_factor, even_info) = map(torch.linalg.cholesky_ex, (systems.odd, systems.even))
        weights = _solve(odd_factor, odd), _solve(even_factor, even)
        quadratic = ((odd * weights[0]).sum(dim=1) + (even * weights[1]).sum(dim=1)).clamp(min=1e-30)
        scale = quadratic / (2 * len(signs))
        deviation, center = _from_center(parameters)
        loss = len(signs) * scale.log() + ridge * (deviation**2).sum(dim=1) + CENTER_RIDGE * center**2
        for factor in (odd_factor, even_factor):
            loss = loss + factor.diagonal(dim1=1, dim2=2).clamp(min=1e-300).log().sum(dim=1)
        loss = loss.masked_fill((odd_info != 0) | (even_info != 0) | ~loss.isfinite(), torch.inf)
        return cls(systems, (odd_factor, even_factor), weights, scale, loss[:, None])


def _from_center(parameters: Hyperparameters) -> tuple[Tensor, Tensor]:
    """How far logits are from their mean (B, n), and how far that is from where it is drawn to (B,)."""
    mean = parameters.logits.mean(dim=1, keepdim=True)
    return parameters.logits - mean, mean[:, 0] - (first_logit(parameters.logits.shape[1]) - 0.5)


def _objective(
    signs: Tensor, odd: Tensor, even: Tensor, parameters: Hyperparameters, ridge: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Penalised negative log marginal likelihood (B, 1), its gradient (B, n + 3), its curvature (B, n + 3, n + 3)."""
    n, evidence = signs.shape[1], _Evidence.of(signs, odd, even, parameters, ridge)
    inverses = [torch.cholesky_inverse(factor) for factor in evidence.factors]
    moved = _moved(signs, parameters, evidence)
    forms = [(m * w[:, :, None]).sum(dim=1) for m, w in zip(moved, evidence.weights, strict=True)]
    quadratic = forms[0] + forms[1]
    scale = evidence.scale[:, None, None]
    curvature = sum(m.mT @ (inverse @ m) for m, inverse in zip(moved, inverses, strict=True)) / scale
    curvature = (curvature - quadratic[:, :, None] * quadratic[:, None] / (2 * len(signs) * scale**2)) / 2
    for inverse, w in zip(inverses, evidence.weights, strict=True):  # twice the derivatives by the entries
        inverse.baddbmm_(w[:, :, None] / -scale, w[:, None])
    gradient = _chain(signs, parameters, evidence.systems, *inverses) / 2
    deviation, center = _from_center(parameters)
    gradient[:, :n] += 2 * ridge * deviation + (2 * CENTER_RIDGE * center / n)[:, None]
    curvature[:, :n, :n] += 2 * CENTER_RIDGE / n**2 - 2 * ridge / n
    curvature[:, :n, :n].diagonal(dim1=1, dim2=2).add_(2 * ridge)
    return evidence.loss, gradient, curvature


def _moved(signs: Tensor, parameters: Hyperparameters, evidence: _Evidence) -> tuple[Tensor, Tensor]:
    """Derivatives of the odd and of the even system by every parameter, times their weights, (B, P, n + 3) each."""
    (odd, even), systems = (w[:, :, None] for w in evidence.weights), evidence.systems
    a, share = parameters.relevance, parameters.odd_share[:, :, None]
    by_logit = a * (1 - a / LARGEST_RELEVANCE)
    by_rate = (by_logit / (1 - a**2))[:, None]
    whole = systems.sinh @ odd, systems.cosh @ even
    of_odd = by_rate * share * (signs * (systems.cosh @ (signs * odd)) - whole[0])
    of_even = by_rate * (signs * (systems.sinh @ (signs * even)) - whole[1])
    sums = signs.T @ odd
    linear = signs @ (parameters.linear[:, :, None] * sums)
    of_odd += signs * (by_logit * parameters.linear / a * sums[:, :, 0])[:, None]
    of_odd -= linear * (by_logit / a.mean(dim=1, keepdim=True) / a.shape[1])[:, None]
    noise, zero = parameters.noise[:, :, None], torch.zeros_like(linear)
    return (
        torch.cat([of_odd, linear, noise * odd, share * whole[0]], dim=2),
        torch.cat([of_even, zero, noise * even, zero], dim=2),
    )


def _chain(signs: Tensor, parameters: Hyperparameters, systems: _Systems, by_odd: Tensor, by_even: Tensor) -> Tensor:
    """Gradient (B, n + 3) from the derivatives by the entries of the two systems."""
    a, share = parameters.relevance, parameters.odd_share
    odd_sinh, even_cosh = (by_odd * systems.sinh).sum(dim=(1, 2)), (by_even * systems.cosh).sum(dim=(1, 2))
    by_product = share[:, :, None] * by_odd * systems.cosh + by_even * systems.sinh
    by_rate = _quadratic_forms(by_product, signs) - (share[:, 0] * odd_sinh + even_cosh)[:, None]
    forms = _quadratic_forms(by_odd, signs)
    linear = parameters.linear
    by_linear = (linear * forms).sum(dim=1, keepdim=True)
    mean = a.mean(dim=1, keepdim=True)
    by_relevance = by_rate / (1 - a**2) + linear / a * forms - by_linear / (mean * a.shape[1])
    by_noise = by_odd.diagonal(dim1=1, dim2=2).sum(dim=1) + by_even.diagonal(dim1=1, dim2=2).sum(dim=1)
    logs = torch.stack([by_linear[:, 0], parameters.noise[:, 0] * by_noise, share[:, 0] * odd_sinh], dim=1)
    return torch.cat([by_relevance * a * (1 - a / LARGEST_RELEVANCE), logs], dim=1)


def _quadratic_forms(matrices: Tensor, signs: Tensor) -> Tensor:
    """``signs[:, i]' matrices[b] signs[:, i]``, (B, n)."""
    return ((matrices @ signs) * signs).sum(dim=1)


def _invert(system: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cholesky factor and inverse (B, P, P), and which samples failed (B,)."""
    factor, info = torch.linalg.cholesky_ex(system)
    return factor, torch.cholesky_inverse(factor), info != 0


def _solve(factor: Tensor, values: Tensor) -> Tensor:
    return torch.cholesky_solve(values[:, :, None], factor)[:, :, 0]


def condition(factors: Factors, values: PairedValues) -> Posterior:
    """The posterior given all pairs and the full coalition, but not the empty one.

    The pair of the full and the empty coalition comes last in the systems. The empty one gets the value at which its
    representer weight is zero: the prediction of all other values, so it has no influence.

    Args:
        factors: of the systems of all pairs, that of the full and the empty coalition last.
        values: standardised values; the empty coalition's is ignored.
    """
    half = values.full / 2
    odd, even = torch.cat([values.odd, half], dim=1), torch.cat([values.even, half], dim=1)
    odd_weights, even_weights = _solve(factors.odd_factor, odd), _solve(factors.even_factor, even)
    odd_last, even_last = factors.odd_inverse[:, :, -1], factors.even_inverse[:, :, -1]
    empty = 2 * (odd_weights[:, -1:] - even_weights[:, -1:]) / (odd_last[:, -1:] + even_last[:, -1:])
    odd_weights = odd_weights - odd_last * empty / 2
    even_weights = even_weights + even_last * empty / 2
    odd[:, -1:] -= empty / 2
    even[:, -1:] += empty / 2
    quadratic = ((odd * odd_weights).sum(dim=1) + (even * even_weights).sum(dim=1)).clamp(min=1e-30)
    failed = factors.failed | ~odd_weights.isfinite().all(dim=1) | ~even_weights.isfinite().all(dim=1)
    scale = (quadratic / (2 * odd.shape[1] - 1))[:, None]
    return Posterior(odd_weights, even_weights, factors, scale, empty, failed)
