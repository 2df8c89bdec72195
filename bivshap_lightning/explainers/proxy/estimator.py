"""The proxy estimator: a Gaussian process fitted to each sample's game, its E2 in closed form, corrected by residuals.

Values are standardised per sample. The process is conditioned on the paired design of
:mod:`~bivshap_lightning.explainers.design` (on some thousand evenly spaced pairs of it, if it has more) and on the full
coalition, never on the empty one. What it leaves of the values goes through the ``kernel`` estimate, so the result is
right for any game, and only its variance depends on how well the process predicts. Standard errors come from what it
leaves of pairs that it has not seen, because its own posterior variances are right only for games like the process: for
probabilities that saturate, means over background rows above all, they are several times too small.

Log-odds of the same rows share the relevances and the factorised systems: they are further right-hand sides. Their
process helps that of the probability (:mod:`~bivshap_lightning.explainers.proxy.squashed`). Where the process predicts
pairs that it has not seen worse than the regression of ``kernel`` does, or where a system cannot be factorised, the
``kernel`` estimate is used, which ``Estimate.notes`` records.

In a run of several stages the relevances of a sample are trained from where its own previous stage left them, in fewer
steps: they depend on its own values and on its stages, never on other samples.

Memory: systems of P pairs take ``6 P**2`` numbers per sample, sections for the standard errors ``4 K P`` for at most
:data:`ERROR_PAIRS` pairs of players; as many samples are treated together as stay within
:data:`MEMORY_ELEMENTS` numbers of 8 bytes (256 MB; on a CPU :data:`CACHED_ELEMENTS`, 16 MB), and at least one: 0.5 GB
at 3,200 pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bivshap_lightning.explainers import kernel
from bivshap_lightning.explainers.design import Design, PairedValues
from bivshap_lightning.explainers.null_players import Estimate
from bivshap_lightning.explainers.proxy import closed_form
from bivshap_lightning.explainers.proxy.gaussian_process import N_STEPS, Factors, Hyperparameters
from bivshap_lightning.explainers.proxy.prediction import (
    conditioned_pairs,
    most_pairs,
    part_of,
    predict,
    shrunk,
)
from bivshap_lightning.explainers.proxy.squashed import SURROGATE_COALITIONS, Fitted, Squashed, Standard, learn
from bivshap_lightning.explainers.proxy.variances import ERROR_PAIRS, ERROR_PLAYERS, posterior_variances
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.explainers.rows import AllCoalitions, Rows

# Numbers of 8 bytes that are held at once.
MEMORY_ELEMENTS = 2**25
# The same on processors: operations on more of them wait for memory instead of finding their operands in the cache.
CACHED_ELEMENTS = 2**21
# Multiply-adds of a model in the time that calls take in a fit whatever their size.
FIXED_WORK = 600_000_000
# The share of the posterior variance that is added to the variance by pairs that are left out, which is too small
# where a process has seen nearly all that there is of a game.
POSTERIOR_SHARE = 0.25
# Relevances are trained on at most so many pairs.
TRAINING_PAIRS = 384
# From so many players on, relevances are drawn more strongly towards each other.
VERY_MANY_PLAYERS = 100


@register
class GaussianProcessProxy(kernel.DesignEstimator):
    """Estimate E2 by a Gaussian process over coalitions: few evaluations, more computation per sample.

    Needs as many coalitions as ``kernel``, which is the fallback, and draws the same ones.

    Args:
        most_pairs: pairs of coalitions that the process is conditioned on at most; None for some thousand.

    Attributes:
        name: "proxy".
        is_exact: False.
        is_joint: True, because the systems of further outcomes are factorised already.

    Example:
        >>> from bivshap_lightning.explainers.null_players import ReducedGame
        >>> from bivshap_lightning.game import Game
        >>> game = Game(lambda x: x[:, :9].amax(dim=1) + x[:, 9:].sum(dim=1), torch.ones(1, 20), behavior="output")
        >>> estimate = GaussianProcessProxy().estimate(ReducedGame(game), 400, torch.Generator().manual_seed(0))
        >>> estimate.shapley[0, -1].round(decimals=2)  # an additive player of weight 1
        tensor(1., dtype=torch.float64)
    """

    name = "proxy"
    is_exact = False
    is_joint = True

    def __init__(self, *, most_pairs: int | None = None) -> None:
        self.most_pairs = most_pairs

    def from_outcomes(self, rows: Rows, outcomes: Sequence[Tensor]) -> list[Estimate]:
        """One estimate for each of several outcomes of the same rows, see :meth:`go_on`."""
        return self.go_on(rows, outcomes, None)[0]

    def go_on(
        self, rows: Rows, outcomes: Sequence[Tensor], learned: Tensor | None
    ) -> tuple[list[Estimate], Tensor | None]:
        """Estimates whose training starts from the hyperparameters of the samples' previous stage.

        Args:
            rows: of this stage.
            outcomes: one, or a probability and its log-odds; each sample learns its relevances from the better of them.
            learned: hyperparameters and this choice; None in the first stage.
        """
        if isinstance(rows, AllCoalitions):
            return super().from_outcomes(rows, outcomes), None
        design = kernel.design_of(rows)
        values = [design.paired(outcome) for outcome in outcomes]
        n_pairs, n = design.masks.shape
        block = _block(min(n_pairs, self.most_pairs or most_pairs(n)), n, outcomes[0].device)
        parts, taught = [], []
        for first in range(0, len(outcomes[0]), block):
            part = slice(first, first + block)
            start = None if learned is None else learned[part]
            estimates, found = _estimate_block([v[part] for v in values], design, start, self.most_pairs)
            parts.append(estimates)
            taught.append(found)
        return [Estimate.join(same) for same in zip(*parts, strict=True)], torch.cat(taught)


def fit_work(n_players: int, n_coalitions: int, most: int | None = None) -> int:
    """How many multiply-adds of a model take about the time that the fit of one sample takes.

    Args:
        n_players: n.
        n_coalitions: of the design.
        most: pairs that are conditioned on; None for the default.

    Training on a probability and on its log-odds, the systems of the pairs, errors, and what the processes predict of
    other pairs and of surrogates, each with the factor by which it is slower on a processor than the products of a
    model are.

    Example:
        >>> round(fit_work(64, 512) / 1e9, 1)
        5.6
    """
    n_pairs = min(n_coalitions // 2, most or most_pairs(n_players))
    n_others, some = n_coalitions // 2 - n_pairs, min(n_pairs, TRAINING_PAIRS)
    n_functionals = min(n_players**2, ERROR_PAIRS) + min(n_players, ERROR_PLAYERS)
    training = 2 * (N_STEPS + 1) * (10 * some**3 + 16 * some**2 * n_players + 2 * n_players**3)
    systems, errors = 4 * n_pairs**3, n_functionals * (2 * n_pairs**2 + 64 * n_pairs)
    predicting = (SURROGATE_COALITIONS // 2 + n_others) * n_pairs * (8 * n_players + 400)
    return FIXED_WORK + training + systems + errors + predicting


def _block(n_pairs: int, n_players: int, device: torch.device) -> int:
    """Samples that are treated together."""
    n_functionals = min(n_players**2, ERROR_PAIRS + ERROR_PLAYERS)
    some = min(n_pairs, TRAINING_PAIRS)
    per_sample = 6 * n_pairs**2 + 4 * n_functionals * n_pairs + 16 * some**2 + 6 * some * n_players + 4 * n_players**2
    return max(1, (CACHED_ELEMENTS if device.type == "cpu" else MEMORY_ELEMENTS) // per_sample)


@dataclass(frozen=True)
class _Process:
    """A process with trained relevances on the pairs of a design, or on some of them if they are very many.

    Attributes:
        known: places of the pairs that it is conditioned on; None for all.
        design: those pairs.
        signs: (P + 1, n) of them, the last one being the full and the empty coalition.
        parameters: of the kernel.
        factors: of the systems.
    """

    known: Tensor | None
    design: Design
    signs: Tensor
    parameters: Hyperparameters
    factors: Factors

    @classmethod
    def train(
        cls, outcomes: Sequence[Standard], design: Design, learned: Tensor | None, most: int | None = None
    ) -> tuple[_Process, Tensor]:
        """Find the relevances on some of the pairs, from where a previous stage got to; and what to hand on."""
        known = conditioned_pairs(design, most or most_pairs(design.masks.shape[1]))
        if known is not None:
            design, outcomes = part_of(design, known), [outcome.part(known) for outcome in outcomes]
        signs, n = design.signs, design.masks.shape[1]
        # Evenly spaced: pairs of all sizes, by a rule that depends on nothing but the design.
        n_some = min(len(signs), TRAINING_PAIRS)
        some = torch.arange(n_some, device=signs.device) * len(signs) // n_some
        ridge = 0.2 if n < VERY_MANY_PLAYERS else 1.0
        parameters, choice = learn(outcomes, design, some, ridge, learned)
        signs = torch.cat([signs, torch.ones_like(signs[:1])])
        packed = parameters.pack()
        process = cls(known, design, signs, parameters, Factors.of(signs, parameters))
        return process, torch.cat([packed, choice.to(packed)], dim=1)


@dataclass(frozen=True)
class _Proxy:
    """A process conditioned on the values of one outcome.

    Attributes:
        process: with the relevances.
        standard: the standardised values.
        fitted: given those of the pairs that the process is conditioned on.
        squashed: what the process for their log-odds adds; None for what is no probability.
    """

    process: _Process
    standard: Standard
    fitted: Fitted
    squashed: Squashed | None = None

    @classmethod
    def of(cls, process: _Process, standard: Standard) -> _Proxy:
        """Condition a process on standardised values."""
        known = standard if process.known is None else standard.part(process.known)
        return cls(process, standard, Fitted.of(process.factors, process.parameters, known))

    def with_log_odds(self, other: _Proxy) -> _Proxy:
        """The same, helped by the process for the log-odds."""
        process = self.process
        squashed = Squashed.of(process.signs, process.parameters, self.fitted, other.fitted, process.design)
        return replace(self, squashed=squashed)

    def values(self) -> tuple[Tensor, ...]:
        """E2, Shapley values and null column of what is predicted."""
        parameters, signs, posterior = self.process.parameters, self.process.signs, self.fitted.posterior
        relevance = parameters.relevance
        shapley = closed_form.odd_part(relevance, signs, parameters.odd_share * posterior.odd)
        shapley += 2 * parameters.linear * (posterior.odd @ signs)
        bivariate, null_column = closed_form.even_part(relevance, signs, posterior.even)
        found = bivariate + shapley[:, :, None] / 2, shapley, null_column + shapley / 2
        if self.squashed is None:
            return found
        return tuple(a + b for a, b in zip(found, self.squashed.difference.tensors[:3], strict=True))

    def scaled_variances(self, variances: Sequence[Tensor], factor: Tensor) -> list[Tensor]:
        """Of E2, Shapley values, null column and C, from variances per unit of a factor (B, 1)."""
        if self.squashed is not None:
            factor = factor * self.squashed.remaining
        return [variance * factor.view(-1, *[1] * (variance.dim() - 1)) for variance in variances]

    def surrogate_variances(self) -> list[Tensor]:
        """Of the same, where a part of them is estimated from values that the processes predict."""
        matrix, row = self.fitted.noise.new_zeros(1, 1, 1), self.fitted.noise.new_zeros(1, 1)
        if self.squashed is None:
            return [matrix, row, row, matrix]
        difference = self.squashed.difference
        return [x**2 for x in (*difference.tensors[3:], _errors_of_c(difference))]

    def residuals(self, design: Design) -> PairedValues:
        """What is left of the values of a design; all of the empty coalition's."""
        left = self.fitted.residuals() if self.squashed is None else self.squashed.residuals
        process, values = self.process, self.standard.values
        if process.known is None:
            return left
        posteriors = [self.fitted.posterior]
        if self.squashed is not None:
            posteriors.append(self.squashed.log_odds.posterior)
        found = predict(process.parameters, process.signs, posteriors, design.signs)
        predicted = found[0] if self.squashed is None else self.squashed.mix(self.fitted, *found)
        inside, outside = values.inside - predicted[0], values.outside - predicted[1]
        inside[:, process.known], outside[:, process.known] = left.inside, left.outside
        return PairedValues(left.empty, left.full, inside, outside)

    def left_out(self) -> tuple[Tensor, Tensor]:
        """(B, P) leave-one-out residuals, odd and even parts."""
        return self.fitted.left_out() if self.squashed is None else self.squashed.left_out

    def is_worse_than_regression(self) -> Tensor:
        """(B,) whether leave-one-out residuals of the drawn pairs are larger than those of the ``kernel`` fit."""
        design = self.process.design
        ours, theirs = self.left_out(), kernel.left_out_error(self.fitted.standard.values, design)
        return kernel.weigh_squares(*ours, design) > theirs

    def largest_left_out(self) -> Tensor:
        """(B, 1) largest leave-one-out residual: what a coalition that was not drawn may hide."""
        odd, even = self.left_out()
        return (odd.abs() + even.abs()).amax(dim=1, keepdim=True)

    def misfit(self) -> Tensor:
        """(B, 1) mean square of the standardised leave-one-out residuals, at least 1, for the fitted relevances."""
        odd, even, odd_variance, even_variance = self.fitted.posterior.left_out()
        squares = torch.cat([odd**2 / odd_variance, even**2 / even_variance], dim=1)
        n_pairs, n = self.process.signs.shape
        return squares.mean(dim=1, keepdim=True).clamp(min=1) * (n_pairs / (n_pairs - n))


def _estimate_block(
    outcomes: Sequence[PairedValues], design: Design, learned: Tensor | None, most: int | None
) -> tuple[list[Estimate], Tensor]:
    """The estimates of some samples, one for each outcome, and what to hand on to the next stage."""
    scaled = [Standard.of(values) for values in outcomes]
    process, learned = _Process.train(scaled, design, learned, most)
    variances = posterior_variances(process.signs, process.parameters, process.factors)
    proxies = [_Proxy.of(process, standard) for standard in scaled]
    if len(proxies) > 1:
        proxies[0] = proxies[0].with_log_odds(proxies[1])
    estimates = [_estimate(proxy, variances, values, design) for proxy, values in zip(proxies, outcomes, strict=True)]
    return estimates, learned


def _estimate(proxy: _Proxy, posterior: Sequence[Tensor], values: PairedValues, design: Design) -> Estimate:
    """The proxy's values with the correction by residuals, or the kernel estimate where the proxy failed."""
    scale = proxy.fitted.posterior.scale
    expected, misfit = proxy.scaled_variances(posterior, scale), proxy.misfit()
    corrections, own = _corrected(proxy, design, expected)
    surrogates, spread = proxy.surrogate_variances(), proxy.standard.spread
    # Each of the two expects too much for some games: the one where pairs are far apart, the other where it fits badly.
    noise = torch.minimum(own[0].sum(dim=(1, 2)), expected[0].sum(dim=(1, 2))) + surrogates[0].sum(dim=(1, 2))
    if proxy.process.known is None:
        own = [
            design.widening * m + POSTERIOR_SHARE * misfit.view(-1, *[1] * (e.dim() - 1)) * e
            for m, e in zip(own, expected, strict=True)
        ]
    own = [a + b for a, b in zip(own, surrogates, strict=True)]
    unseen = kernel.UNSEEN / max(1, design.n_drawn) * proxy.largest_left_out()
    results, errors = [], []
    for value, correction, variance in zip(proxy.values(), corrections, own, strict=False):
        shape = (-1, *[1] * (value.dim() - 1))
        results.append((value + correction) * spread.view(shape))
        errors.append((variance + unseen.view(shape) ** 2).sqrt() * spread.view(shape))
    pairwise = own[3].sqrt() * spread[:, :, None]
    for matrix in (results[0], errors[0], pairwise):
        matrix.diagonal(dim1=1, dim2=2).zero_()
    estimate = Estimate(*results, *errors, pairwise_error=pairwise, noise=noise * spread[:, 0] ** 2)
    return _fall_back(estimate, proxy, values, design)


def _corrected(proxy: _Proxy, design: Design, expected: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """What residuals add to E2, Shapley values and null column, and the variances of these and of C afterwards.

    Residuals of the pairs that a process is conditioned on are small and need no further thought. Those of other pairs
    measure what the process is off by, but for their noise. How far it is expected to be off is halfway between
    what pairs that are left out of it say, the same for most pairs of players, and the posterior variances of each.
    """
    process, residuals = proxy.process, proxy.residuals(design)
    if process.known is None:
        fit = kernel.fit_pairs(residuals, design)
        return list(kernel.means_of(fit, design)), list(kernel.left_out_variances(*proxy.left_out(), design))
    is_other = torch.ones(len(design.masks), dtype=torch.bool, device=design.masks.device)
    is_other[process.known] = False
    others = is_other.nonzero()[:, 0]
    share = len(others) / len(design.masks)
    part, nothing = _alone(design, others, share), torch.zeros_like(residuals.full)
    left = PairedValues(nothing, nothing, residuals.inside[:, others], residuals.outside[:, others])
    found, noise = kernel.estimate_residuals(left, part), kernel.left_out_variances(left.odd, left.even, part)
    measured = kernel.left_out_variances(*proxy.left_out(), _alone(design, process.known, 1 - share))
    changes, variances = [], []
    # The diagonals of the matrices count as measured although they mean nothing, and enumerated pairs as drawn. Without
    # either, saturating games were covered less (.89 instead of .97), and others alike.
    for change, variance, m, e in zip((*found, _c_of(found)), noise, measured, expected, strict=True):
        inner = tuple(range(1, m.dim()))
        of_process = m.sum(dim=inner, keepdim=True) / e.sum(dim=inner, keepdim=True).clamp(min=1e-300)
        value, remaining = shrunk(change, variance, (m + of_process * e) / 2)
        changes.append(value)
        variances.append(remaining)
    ends = kernel.estimate_residuals(
        replace(residuals, inside=0 * residuals.inside, outside=0 * residuals.outside), design
    )
    return [a + b for a, b in zip(changes, ends, strict=False)], variances


def _alone(design: Design, places: Tensor, share: float) -> Design:
    """Some pairs as a design of their own, all of them drawn."""
    return Design(design.masks[places], design.weight[places] / share, 0)


def _c_of(found: Sequence[Tensor]) -> Tensor:
    """(B, n, n) C from E2, Shapley values and null column."""
    return found[0] - found[2][:, :, None]


def _errors_of_c(estimate: Estimate) -> Tensor:
    return estimate.bivariate_error if estimate.pairwise_error is None else estimate.pairwise_error


def _fall_back(estimate: Estimate, proxy: _Proxy, values: PairedValues, design: Design) -> Estimate:
    """The plain estimate where the proxy failed, with a note for each sample where that is so."""
    finite = estimate.bivariate.isfinite().all(dim=(1, 2)) & estimate.bivariate_error.isfinite().all(dim=(1, 2))
    failed = (proxy.fitted.posterior.failed | ~finite).tolist()
    poor = proxy.is_worse_than_regression().tolist()
    reasons = [
        "proxy: factorisation failed, kernel estimate used" if f else
        "proxy: worse leave-one-out fit than the regression, kernel estimate used" if p else ""
        for f, p in zip(failed, poor, strict=True)
    ]  # fmt: skip
    if not any(reasons):
        return estimate
    plain = kernel.estimate_from_values(values, design)
    return estimate.where([not reason for reason in reasons], plain, notes=tuple(reasons))
