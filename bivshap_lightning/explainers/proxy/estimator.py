"""The proxy estimator: a Gaussian process fitted to each sample's game, its E2 in closed form, corrected by residuals.

Values are standardised per sample. The process is conditioned on the paired design of
:mod:`~bivshap_lightning.explainers.design` and on the full coalition, never on the empty one. What it leaves in the
sample goes through the ``kernel`` estimate, so the result is right for any game, and only its variance depends on how
well the process predicts. Log-odds of the same rows share the relevances and the
factorised systems: they are further right-hand sides. Their process helps that of the probability
(:mod:`~bivshap_lightning.explainers.proxy.squashed`). Where the process predicts pairs that it has not seen worse than
the regression of ``kernel`` does, or where a system cannot be factorised, the ``kernel`` estimate is used, which
``Estimate.notes`` records.

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
from bivshap_lightning.explainers.proxy.gaussian_process import (
    N_STEPS,
    Factors,
    Hyperparameters,
)
from bivshap_lightning.explainers.proxy.squashed import SURROGATE_COALITIONS, Fitted, Squashed, Standard, learn
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.explainers.rows import AllCoalitions, Rows

# Numbers of 8 bytes that are held at once.
MEMORY_ELEMENTS = 2**25
# The same on processors: operations on more of them wait for memory instead of finding their operands in the cache.
CACHED_ELEMENTS = 2**21
# Entries of E2 whose posterior error is computed; with more, those of the others follow from the players' relevances.
ERROR_PAIRS = 1024
# Players whose posterior error is computed, likewise.
ERROR_PLAYERS = 256
# Multiply-adds of a model in the time that calls take in a fit whatever their size.
FIXED_WORK = 600_000_000
# Relevances are trained on at most so many pairs.
TRAINING_PAIRS = 384
# From so many players on, relevances are drawn more strongly towards each other.
VERY_MANY_PLAYERS = 100


@register
class GaussianProcessProxy(kernel.DesignEstimator):
    """Estimate E2 by a Gaussian process over coalitions: few evaluations, more computation per sample.

    Needs as many coalitions as ``kernel``, which is the fallback, and draws the same ones.

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
        block = _block(len(design.masks), design.masks.shape[1], outcomes[0].device)
        parts, taught = [], []
        for first in range(0, len(outcomes[0]), block):
            part = slice(first, first + block)
            start = None if learned is None else learned[part]
            estimates, found = _estimate_block([v[part] for v in values], design, start)
            parts.append(estimates)
            taught.append(found)
        return [Estimate.join(same) for same in zip(*parts, strict=True)], torch.cat(taught)


def fit_work(n_players: int, n_coalitions: int) -> int:
    """How many multiply-adds of a model take about the time that the fit of one sample takes.

    Training on a probability and on its log-odds, the systems of all pairs, errors, and what the process for log-odds
    predicts, each with the factor by which it is slower on a processor than the products of a model are.

    Example:
        >>> round(fit_work(64, 512) / 1e9, 1)
        5.6
    """
    n_pairs, some = n_coalitions // 2, min(n_coalitions // 2, TRAINING_PAIRS)
    n_functionals = min(n_players**2, ERROR_PAIRS) + min(n_players, ERROR_PLAYERS)
    training = 2 * (N_STEPS + 1) * (10 * some**3 + 16 * some**2 * n_players + 2 * n_players**3)
    systems, errors = 4 * n_pairs**3, n_functionals * (2 * n_pairs**2 + 64 * n_pairs)
    return FIXED_WORK + training + systems + errors + SURROGATE_COALITIONS // 2 * n_pairs * (8 * n_players + 400)


def _block(n_pairs: int, n_players: int, device: torch.device) -> int:
    """Samples that are treated together."""
    n_functionals = min(n_players**2, ERROR_PAIRS + ERROR_PLAYERS)
    some = min(n_pairs, TRAINING_PAIRS)
    per_sample = 6 * n_pairs**2 + 4 * n_functionals * n_pairs + 16 * some**2 + 6 * some * n_players + 4 * n_players**2
    return max(1, (CACHED_ELEMENTS if device.type == "cpu" else MEMORY_ELEMENTS) // per_sample)


@dataclass(frozen=True)
class _Process:
    """A process with trained relevances on all pairs of a design.

    Attributes:
        signs: (P + 1, n) of all pairs, the last one being the full and the empty coalition.
        parameters: of the kernel.
        factors: of the systems.
    """

    signs: Tensor
    parameters: Hyperparameters
    factors: Factors

    @classmethod
    def train(cls, outcomes: Sequence[Standard], design: Design, learned: Tensor | None) -> tuple[_Process, Tensor]:
        """Find the relevances on some of the pairs, from where a previous stage got to; and what to hand on."""
        signs, n = design.signs, design.masks.shape[1]
        # Evenly spaced: pairs of all sizes, by a rule that depends on nothing but the design.
        n_some = min(len(signs), TRAINING_PAIRS)
        some = torch.arange(n_some, device=signs.device) * len(signs) // n_some
        ridge = 0.2 if n < VERY_MANY_PLAYERS else 1.0
        parameters, choice = learn(outcomes, design, some, ridge, learned)
        signs = torch.cat([signs, torch.ones_like(signs[:1])])
        packed = parameters.pack()
        return cls(signs, parameters, Factors.of(signs, parameters)), torch.cat([packed, choice.to(packed)], dim=1)

    def variances(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Posterior variances of E2, Shapley values, null column and C per unit of scale, approximated for large n."""
        n, parameters, factors = self.signs.shape[1], self.parameters, self.factors
        relevance, share, linear = parameters.relevance, parameters.odd_share, parameters.linear
        players, places, columns = _functionals(n, relevance.device)
        m, rows = len(players), players[places]
        sections = share[:, :, None] * closed_form.odd_sections(relevance, self.signs, players)
        sections += 2 * linear[:, players, None] * self.signs.T[players]
        prior = share * closed_form.odd_prior(relevance)[:, players] + 4 * linear[:, players]
        odd, odd_empty = _reduce(prior, sections, sections @ factors.odd_inverse)
        few, some = torch.cat([players, rows]), torch.cat([torch.full_like(players, -1), columns])
        sections = closed_form.even_sections(relevance, self.signs, few, some)
        solved = sections @ factors.even_inverse
        even, even_empty = _reduce(closed_form.even_prior(relevance, few, some), sections, solved)
        # C is E2 minus the null column, whose odd parts are equal and cancel.
        prior = closed_form.even_prior(relevance, rows, columns, pairwise=True)
        differences = (x[:, m:] - x[:, places] for x in (sections, solved))
        pairwise, pairwise_empty = _reduce(prior, *differences)
        # The empty coalition is in the inverses but was not observed: its influence is removed.
        precision = (factors.odd_inverse[:, -1, -1:] + factors.even_inverse[:, -1, -1:]) / 4
        logs = relevance.log()
        shapley = _extend(odd + (odd_empty / 2) ** 2 / precision, players, logs)
        null = odd / 4 + even[:, :m] + ((even_empty[:, :m] - odd_empty / 2) / 2) ** 2 / precision
        bivariate = odd[:, places] / 4 + even[:, m:] + (even_empty[:, m:] / 2) ** 2 / precision
        pairwise = pairwise + (pairwise_empty / 2) ** 2 / precision
        bivariate, pairwise = (_extend_pairs(x, rows, columns, logs) for x in (bivariate, pairwise))
        return bivariate, shapley, _extend(null, players, logs), pairwise


@dataclass(frozen=True)
class _Proxy:
    """A process conditioned on the values of one outcome.

    Attributes:
        process: with the relevances.
        fitted: given the standardised values.
        squashed: what the process for their log-odds adds; None for what is no probability.
    """

    process: _Process
    fitted: Fitted
    squashed: Squashed | None = None

    @classmethod
    def of(cls, process: _Process, standard: Standard) -> _Proxy:
        """Condition a process on standardised values."""
        return cls(process, Fitted.of(process.factors, process.parameters, standard))

    def with_log_odds(self, other: _Proxy, design: Design) -> _Proxy:
        """The same, helped by the process for the log-odds."""
        process = self.process
        squashed = Squashed.of(process.signs, process.parameters, self.fitted, other.fitted, design)
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

    def squared_errors(self, variances: Sequence[Tensor], factor: Tensor) -> list[Tensor]:
        """Squared errors of E2, Shapley values, null column and C, from variances per unit of a factor (B, 1)."""
        found = [variance * factor.view(-1, *[1] * (variance.dim() - 1)) for variance in variances]
        if self.squashed is None:
            return found
        remaining, difference = self.squashed.remaining, self.squashed.difference
        errors = (*difference.tensors[3:], difference.pairwise_error)
        found = [x * remaining.view(-1, *[1] * (x.dim() - 1)) for x in found]
        return [x if error is None else x + error**2 for x, error in zip(found, errors, strict=True)]

    def residuals(self) -> PairedValues:
        """What is left of the values; all of the empty coalition's."""
        return self.fitted.residuals() if self.squashed is None else self.squashed.residuals

    def left_out(self) -> tuple[Tensor, Tensor]:
        """(B, P) leave-one-out residuals, odd and even parts."""
        return self.fitted.left_out() if self.squashed is None else self.squashed.left_out

    def left_out_error(self, design: Design) -> Tensor:
        """(B,) weighted mean square of the leave-one-out residuals of the drawn pairs."""
        return kernel.weigh_squares(*self.left_out(), design)

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
    outcomes: Sequence[PairedValues], design: Design, learned: Tensor | None
) -> tuple[list[Estimate], Tensor]:
    """The estimates of some samples, one for each outcome, and what to hand on to the next stage."""
    scaled = [Standard.of(values) for values in outcomes]
    process, learned = _Process.train(scaled, design, learned)
    variances = process.variances()
    proxies = [_Proxy.of(process, standard) for standard in scaled]
    if len(proxies) > 1:
        proxies[0] = proxies[0].with_log_odds(proxies[1], design)
    estimates = [_estimate(proxy, variances, values, design) for proxy, values in zip(proxies, outcomes, strict=True)]
    return estimates, learned


def _estimate(proxy: _Proxy, variances: Sequence[Tensor], values: PairedValues, design: Design) -> Estimate:
    """The proxy's values with the correction by residuals, or the kernel estimate where the proxy failed."""
    correction, spread = kernel.estimate_from_values(proxy.residuals(), design), proxy.fitted.standard.spread
    scale = proxy.fitted.posterior.scale
    squares = proxy.squared_errors(variances, proxy.misfit() * design.widening * scale)
    unseen = kernel.UNSEEN / max(1, design.n_drawn) * proxy.largest_left_out()
    corrections = (correction.bivariate, correction.shapley, correction.null_column)
    results, errors = [], []
    for value, change, square in zip(proxy.values(), corrections, squares[:3], strict=True):
        shape = (-1, *[1] * (value.dim() - 1))
        results.append((value + change) * spread.view(shape))
        square = square + change**2 / 4 + unseen.view(shape) ** 2
        errors.append(square.clamp(min=0).sqrt() * spread.view(shape))
    change = correction.bivariate - correction.null_column[:, :, None]
    pairwise = (squares[3] + change**2 / 4).clamp(min=0).sqrt() * spread[:, :, None]
    for matrix in (results[0], errors[0], pairwise):
        matrix.diagonal(dim1=1, dim2=2).zero_()
    noise = proxy.squared_errors(variances, scale)[0].clamp(min=0).sum(dim=(1, 2)) * spread[:, 0] ** 2
    estimate = Estimate(*results, *errors, pairwise_error=pairwise, noise=noise)
    return _fall_back(estimate, proxy, values, design)


def _fall_back(estimate: Estimate, proxy: _Proxy, values: PairedValues, design: Design) -> Estimate:
    """The plain estimate where the proxy failed, with a note for each sample where that is so."""
    ours, theirs = proxy.left_out_error(design), kernel.left_out_error(proxy.fitted.standard.values, design)
    finite = estimate.bivariate.isfinite().all(dim=(1, 2)) & estimate.bivariate_error.isfinite().all(dim=(1, 2))
    failed = (proxy.fitted.posterior.failed | ~finite).tolist()
    poor = (ours > theirs).tolist()
    reasons = [
        "proxy: factorisation failed, kernel estimate used" if f else
        "proxy: worse leave-one-out fit than the regression, kernel estimate used" if p else ""
        for f, p in zip(failed, poor, strict=True)
    ]  # fmt: skip
    if not any(reasons):
        return estimate
    plain = kernel.estimate_from_values(values, design)
    return estimate.where([not reason for reason in reasons], plain, notes=tuple(reasons))


def _functionals(n: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """What variances are computed of, everything if it is little: players, and pairs of one of them and a column.

    The first player of each pair is given by its place among the players.
    """
    n_players = min(n, ERROR_PLAYERS)
    n_pairs = min(n_players * (n - 1), ERROR_PAIRS)
    players = torch.arange(n_players, device=device) * n // n_players
    pairs = torch.arange(n_pairs, device=device) * (n_players * (n - 1)) // n_pairs
    places, others = pairs // (n - 1), pairs % (n - 1)
    return players, places, others + (others >= players[places]).long()


def _extend(some: Tensor, players: Tensor, logs: Tensor) -> Tensor:
    """Variances (B, n) of all players from those (B, m) of some, log-linear in the logarithms (B, n) of relevances."""
    if len(players) == logs.shape[1]:
        return some
    columns = torch.stack([torch.ones_like(logs), logs], dim=2)
    fitted = _log_linear(columns[:, players], some, columns)
    fitted[:, players] = some
    return fitted


def _extend_pairs(some: Tensor, rows: Tensor, columns: Tensor, logs: Tensor) -> Tensor:
    """Variances (B, n, n) of all pairs from those (B, K) of some."""
    n_samples, n = logs.shape
    if len(rows) == n * (n - 1):
        whole = some.new_zeros(n_samples, n, n)
        whole[:, rows, columns] = some
        return whole
    features = torch.stack([torch.ones_like(logs), logs], dim=2)
    known = torch.cat([features[:, rows], logs[:, columns, None]], dim=2)
    coefficients, level = _log_linear_fit(known, some)
    by_row = (features @ coefficients[:, :2])[:, :, 0] + level
    whole = (by_row[:, :, None] + (coefficients[:, 2:] * logs[:, None])).exp()
    whole[:, rows, columns] = some
    return whole


def _log_linear(known: Tensor, some: Tensor, columns: Tensor) -> Tensor:
    coefficients, level = _log_linear_fit(known, some)
    return ((columns @ coefficients)[:, :, 0] + level).exp()


def _log_linear_fit(columns: Tensor, variances: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients (B, k, 1) of a log-linear fit, and the logarithm (B, 1) of what keeps the mean variance."""
    floor = variances.amax(dim=1, keepdim=True).clamp(min=1e-300) * 1e-12
    target = torch.maximum(variances, floor).log()
    normal = columns.transpose(1, 2) @ columns
    normal = normal + 1e-9 * len(columns[0]) * torch.eye(columns.shape[2], dtype=columns.dtype, device=columns.device)
    coefficients = torch.linalg.solve(normal, columns.transpose(1, 2) @ target[:, :, None])
    fitted = (columns @ coefficients)[:, :, 0].exp()
    return coefficients, (target.exp().mean(dim=1, keepdim=True) / fitted.mean(dim=1, keepdim=True)).log()


def _reduce(prior: Tensor, sections: Tensor, solved: Tensor) -> tuple[Tensor, Tensor]:
    """Posterior variances (B, K) of functionals, and the weight (B, K) of the last pair in each."""
    return (prior - (solved * sections).sum(dim=2)).clamp(min=0), solved[:, :, -1]
