"""The proxy estimator: a Gaussian process fitted to each sample's game, its E2 in closed form, corrected by residuals.

Values are standardised per sample. The process is conditioned on the paired design of
:mod:`~bivshap_lightning.explainers.design` and on the full coalition, never on the empty one. What it leaves in the
sample goes through the ``kernel`` estimate, so the result is right for any game, and only its variance depends on how
well the process predicts. Where it predicts pairs that it has not seen worse than the regression of ``kernel`` does, or
where a system cannot be factorised, the ``kernel`` estimate is used, which ``Estimate.notes`` records.

Memory: systems of P pairs take ``6 P**2`` numbers per sample, sections for the standard errors ``4 K P`` for at most
:data:`ERROR_PAIRS` pairs of players; as many samples are treated together as stay within
:data:`MEMORY_ELEMENTS` numbers of 8 bytes (256 MB), and at least one: 0.5 GB at 3,200 pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bivshap_lightning.explainers import kernel
from bivshap_lightning.explainers.design import Design, PairedValues, draw_design, evaluate_design
from bivshap_lightning.explainers.exact import explain_exactly
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.proxy import closed_form
from bivshap_lightning.explainers.proxy.gaussian_process import Hyperparameters, Posterior, condition, train
from bivshap_lightning.explainers.registry import register

# Numbers of 8 bytes that are held at once.
MEMORY_ELEMENTS = 2**25
# Entries of E2 whose posterior error is computed; with more, those of the others follow from the players' relevances.
ERROR_PAIRS = 1024
# Players whose posterior error is computed, likewise.
ERROR_PLAYERS = 256
# From so many players on, relevances are trained on more pairs and drawn more strongly towards each other.
MANY_PLAYERS = 50


@register
class GaussianProcessProxy:
    """Estimate E2 by a Gaussian process over coalitions: few evaluations, more computation per sample.

    Attributes:
        name: "proxy".
        is_exact: False.

    Example:
        >>> from bivshap_lightning.game import Game
        >>> game = Game(lambda x: x[:, :9].amax(dim=1) + x[:, 9:].sum(dim=1), torch.ones(1, 20), behavior="output")
        >>> estimate = GaussianProcessProxy().estimate(ReducedGame(game), 400, torch.Generator().manual_seed(0))
        >>> estimate.shapley[0, -1].round(decimals=2)  # an additive player of weight 1
        tensor(1., dtype=torch.float64)
    """

    name = "proxy"
    is_exact = False

    def minimum_evaluations(self, n_players: int) -> int:
        """Coalitions per sample, as many as ``kernel`` needs, which is the fallback."""
        return kernel.minimum_evaluations(n_players)

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        """Bivariate Shapley values from a paired design.

        Args:
            game: the game.
            n_coalitions: at most this many evaluations per sample.
            generator: the source of coalitions, on the game's device.
        """
        n = game.n_players
        if 2**n <= n_coalitions:
            return explain_exactly(game)
        design = draw_design(n, n_coalitions - 2, generator)
        values = evaluate_design(game, design)
        block = _block(len(design.masks), n)
        parts = [_estimate_block(values[start : start + block], design) for start in range(0, game.n_samples, block)]
        return Estimate.join(parts)


def training_pairs(n_players: int) -> int:
    """How many pairs the relevances are trained on.

    Example:
        >>> training_pairs(14), training_pairs(196), training_pairs(1077)
        (256, 384, 384)
    """
    return 256 if n_players < MANY_PLAYERS else 384


def _block(n_pairs: int, n_players: int) -> int:
    """Samples that are treated together."""
    n_functionals = min(n_players**2, ERROR_PAIRS + ERROR_PLAYERS)
    per_sample = 6 * n_pairs**2 + 4 * n_functionals * n_pairs + 8 * min(n_pairs, training_pairs(n_players)) ** 2
    return max(1, MEMORY_ELEMENTS // per_sample)


@dataclass(frozen=True)
class _Proxy:
    """A process conditioned on standardised values.

    Attributes:
        signs: (P + 1, n) of all pairs, the last one being the full and the empty coalition.
        parameters: of the kernel.
        posterior: given the values.
    """

    signs: Tensor
    parameters: Hyperparameters
    posterior: Posterior

    @classmethod
    def fit(cls, values: PairedValues, design: Design) -> _Proxy:
        """Train on some of the pairs, condition on all of them."""
        signs, n = design.signs, design.masks.shape[1]
        # Evenly spaced: pairs of all sizes, by a rule that depends on nothing but the design.
        n_some = min(len(signs), training_pairs(n))
        some = torch.arange(n_some, device=signs.device) * len(signs) // n_some
        ridge = 0.2 if n < MANY_PLAYERS else 1.0
        parameters = train(signs[some], values.odd[:, some], values.even[:, some], ridge=ridge)
        posterior = condition(signs, values, parameters)
        return cls(torch.cat([signs, torch.ones_like(signs[:1])]), parameters, posterior)

    def values(self) -> tuple[Tensor, Tensor, Tensor]:
        """E2, Shapley values and null column of the posterior mean."""
        parameters, posterior = self.parameters, self.posterior
        relevance = parameters.relevance
        shapley = closed_form.odd_part(relevance, self.signs, parameters.odd_share * posterior.odd)
        shapley += 2 * parameters.linear * (posterior.odd @ self.signs)
        bivariate, null_column = closed_form.even_part(relevance, self.signs, posterior.even)
        return bivariate + shapley[:, :, None] / 2, shapley, null_column + shapley / 2

    def residuals(self, values: PairedValues) -> PairedValues:
        """What the posterior mean leaves of the values it was conditioned on; all of the empty coalition's."""
        noise, odd, even = self.parameters.noise, self.posterior.odd, self.posterior.even
        inside, outside = noise * (even + odd), noise * (even - odd)
        return PairedValues(values.empty - self.posterior.empty, inside[:, -1:], inside[:, :-1], outside[:, :-1])

    def left_out_error(self, design: Design) -> Tensor:
        """(B,) weighted mean square of the leave-one-out residuals of the drawn pairs."""
        odd, even, _, _ = self.posterior.left_out()
        return kernel.weigh_squares(odd[:, :-1], even[:, :-1], design)

    def largest_left_out(self) -> Tensor:
        """(B, 1) largest leave-one-out residual: what a coalition that was not drawn may hide."""
        odd, even, _, _ = self.posterior.left_out()
        return (odd.abs() + even.abs())[:, :-1].amax(dim=1, keepdim=True)

    def misfit(self) -> Tensor:
        """(B, 1) mean square of the standardised leave-one-out residuals, at least 1, for the fitted relevances."""
        odd, even, odd_variance, even_variance = self.posterior.left_out()
        squares = torch.cat([odd**2 / odd_variance, even**2 / even_variance], dim=1)
        n_pairs, n = self.signs.shape
        return squares.mean(dim=1, keepdim=True).clamp(min=1) * (n_pairs / (n_pairs - n))

    def variances(self) -> tuple[Tensor, Tensor, Tensor]:
        """Posterior variances of E2, Shapley values and null column, approximated for many players."""
        n, parameters, posterior = self.signs.shape[1], self.parameters, self.posterior
        relevance, share, linear = parameters.relevance, parameters.odd_share, parameters.linear
        players, rows, columns = _functionals(n, relevance.device)
        few = torch.cat([players, rows])
        sections = share[:, :, None] * closed_form.odd_sections(relevance, self.signs, players)
        sections += 2 * linear[:, players, None] * self.signs.T[players]
        prior = share * closed_form.odd_prior(relevance)[:, players] + 4 * linear[:, players]
        odd, odd_empty = _reduce(prior, sections, posterior.odd_inverse)
        columns = torch.cat([torch.full_like(players, -1), columns])
        sections = closed_form.even_sections(relevance, self.signs, few, columns)
        prior = closed_form.even_prior(relevance, few, columns)
        even, even_empty = _reduce(prior, sections, posterior.even_inverse)
        # The empty coalition is in the inverses but was not observed: its influence is removed.
        precision = (posterior.odd_inverse[:, -1, -1:] + posterior.even_inverse[:, -1, -1:]) / 4
        m = len(players)
        logs = relevance.log()
        shapley = _extend(posterior.scale * (odd + (odd_empty / 2) ** 2 / precision), players, logs)
        null = odd / 4 + even[:, :m] + ((even_empty[:, :m] - odd_empty / 2) / 2) ** 2 / precision
        bivariate = _extend(posterior.scale * odd, players, logs)[:, rows] / 4
        bivariate = bivariate + posterior.scale * (even[:, m:] + (even_empty[:, m:] / 2) ** 2 / precision)
        null = _extend(posterior.scale * null, players, logs)
        return _extend_pairs(bivariate, rows, columns[m:], logs), shapley, null


def _estimate_block(values: PairedValues, design: Design) -> Estimate:
    """The estimate of some samples."""
    known = torch.cat([values.full, values.inside, values.outside], dim=1)
    center, spread = known.mean(dim=1, keepdim=True), known.std(dim=1, keepdim=True)
    # A constant game has nothing to standardise.
    spread = torch.where(spread > 0, spread, torch.ones_like(spread))
    standard = values.apply(lambda v: (v - center) / spread)
    plain = kernel.estimate_from_values(values, design)
    proxy = _Proxy.fit(standard, design)
    correction = kernel.estimate_from_values(proxy.residuals(standard), design)
    misfit = proxy.misfit() * design.widening
    unseen = kernel.UNSEEN / max(1, design.n_drawn) * proxy.largest_left_out()
    corrections = (correction.bivariate, correction.shapley, correction.null_column)
    results, errors = [], []
    for value, change, variance in zip(proxy.values(), corrections, proxy.variances(), strict=True):
        shape = (-1, *[1] * (value.dim() - 1))
        results.append((value + change) * spread.view(shape))
        variance = variance * misfit.view(shape) + change**2 / 4 + unseen.view(shape) ** 2
        errors.append(variance.clamp(min=0).sqrt() * spread.view(shape))
    for matrix in (results[0], errors[0]):
        matrix.diagonal(dim1=1, dim2=2).zero_()
    return _fall_back(Estimate(*results, *errors), plain, proxy, standard, design)


def _fall_back(estimate: Estimate, plain: Estimate, proxy: _Proxy, values: PairedValues, design: Design) -> Estimate:
    """The plain estimate where the proxy failed, with a note for each sample where that is so."""
    ours, theirs = proxy.left_out_error(design), kernel.left_out_error(values, design)
    finite = estimate.bivariate.isfinite().all(dim=(1, 2)) & estimate.bivariate_error.isfinite().all(dim=(1, 2))
    failed = (proxy.posterior.failed | ~finite).tolist()
    poor = (ours > theirs).tolist()
    reasons = [
        "proxy: factorisation failed, kernel estimate used" if f else
        "proxy: worse leave-one-out fit than the regression, kernel estimate used" if p else ""
        for f, p in zip(failed, poor, strict=True)
    ]  # fmt: skip
    return estimate.where([not reason for reason in reasons], plain, notes=tuple(reasons))


def _functionals(n: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Players, and rows and columns of the pairs of players, whose variance is computed; all if there are few."""
    n_players, n_pairs = min(n, ERROR_PLAYERS), min(n * (n - 1), ERROR_PAIRS)
    players = torch.arange(n_players, device=device) * n // n_players
    pairs = torch.arange(n_pairs, device=device) * (n * (n - 1)) // n_pairs
    rows, others = pairs // (n - 1), pairs % (n - 1)
    return players, rows, others + (others >= rows).long()


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


def _reduce(prior: Tensor, sections: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """Posterior variances (B, K) of functionals, and the weight (B, K) of the last pair in each."""
    solved = sections @ inverse
    return (prior - (solved * sections).sum(dim=2)).clamp(min=0), solved[:, :, -1]
