"""Probabilities as the sigmoid of a process for their log-odds, beside a process for the probabilities themselves.

The log-odds of a network are mostly a smoother game than its probability, which saturates. A process for the log-odds
and the sigmoid of its mean therefore predict most probabilities that were not drawn better than a process for the
probability does, and a mean of the two, weighted for each sample by how far they are off on pairs that are left out,
predicts them better still.

E2 of a sigmoid has no closed form. But what the sigmoid differs by from the process for the probability is a small game
that costs no model rows: its E2 is estimated by ``kernel`` from :data:`SURROGATE_COALITIONS` coalitions, or enumerated
where there are no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bivshap_lightning.explainers import kernel
from bivshap_lightning.explainers.design import Design, PairedValues, draw_design
from bivshap_lightning.explainers.null_players import Estimate
from bivshap_lightning.explainers.proxy.gaussian_process import Factors, Hyperparameters, Posterior, condition, train
from bivshap_lightning.explainers.proxy.prediction import predict
from bivshap_lightning.explainers.rows import AllCoalitions

# With four times as many, the error of the whole falls by two per cent; with a quarter, it rises by twenty.
SURROGATE_COALITIONS = 2**14


@dataclass(frozen=True)
class Standard:
    """Values of mean 0 and standard deviation 1, and what they were made of.

    Attributes:
        values: standardised, without regard to the empty coalition.
        center: (B, 1) mean that was subtracted.
        spread: (B, 1) deviation by which they were divided.
    """

    values: PairedValues
    center: Tensor
    spread: Tensor

    @classmethod
    def of(cls, values: PairedValues) -> Standard:
        """Standardise values."""
        known = torch.cat([values.full, values.inside, values.outside], dim=1)
        center, spread = known.mean(dim=1, keepdim=True), known.std(dim=1, keepdim=True)
        # A constant game has nothing to standardise.
        spread = torch.where(spread > 0, spread, torch.ones_like(spread))
        return cls(values.apply(lambda v: (v - center) / spread), center, spread)

    def part(self, pairs: Tensor) -> Standard:
        """The same of some of the pairs, by their int64 numbers."""
        v = self.values
        some = PairedValues(v.empty, v.full, v.inside[:, pairs], v.outside[:, pairs])
        return Standard(some, self.center, self.spread)

    def squashed_to(self, other: Standard) -> Callable[[Tensor], Tensor]:
        """From standardised log-odds, which these are, to the probabilities that others were made of."""
        return lambda x: ((x * self.spread + self.center).sigmoid() - other.center) / other.spread


@dataclass(frozen=True)
class Fitted:
    """A process conditioned on an outcome.

    Attributes:
        posterior: given the values.
        standard: the values.
        noise: (B, 1) of the process.
    """

    posterior: Posterior
    standard: Standard
    noise: Tensor

    @classmethod
    def of(cls, factors: Factors, parameters: Hyperparameters, standard: Standard) -> Fitted:
        """Condition a process on standardised values of its pairs."""
        return cls(condition(factors, standard.values), standard, parameters.noise)

    def residuals(self) -> PairedValues:
        """What the posterior mean leaves of the values it was conditioned on; all of the empty coalition's."""
        odd, even, values = self.posterior.odd, self.posterior.even, self.standard.values
        inside, outside = self.noise * (even + odd), self.noise * (even - odd)
        return PairedValues(values.empty - self.posterior.empty, inside[:, -1:], inside[:, :-1], outside[:, :-1])

    def left_out(self) -> tuple[Tensor, Tensor]:
        """(B, P) leave-one-out residuals of the odd and the even parts of drawn pairs."""
        odd, even, _, _ = self.posterior.left_out()
        return odd[:, :-1], even[:, :-1]


@dataclass(frozen=True)
class Squashed:
    """What the sigmoid of a process for the log-odds adds to a process for the probability, in standardised units.

    Attributes:
        difference: the estimate of what it adds.
        remaining: (B, 1) weighted mean square of leave-one-out residuals, over that without it; at most 1.
        share: (B, 1) of the sigmoid in the mean of both.
        log_odds: the process for them.
        residuals: what both together leave of the values that they were conditioned on.
        left_out: (B, P) leave-one-out residuals, odd and even parts.
    """

    difference: Estimate
    remaining: Tensor
    share: Tensor
    log_odds: Fitted
    residuals: PairedValues
    left_out: tuple[Tensor, Tensor]

    @classmethod
    def of(
        cls, signs: Tensor, parameters: Hyperparameters, probability: Fitted, log_odds: Fitted, design: Design
    ) -> Squashed:
        """Combine two processes of the same kernel.

        Args:
            signs: (P + 1, n) of all pairs, the last one being the full and the empty coalition.
            parameters: of the kernel.
            probability: the process for the probability.
            log_odds: the process for its log-odds.
            design: of the pairs.
        """
        ours, theirs = probability.standard, log_odds.standard
        squash = theirs.squashed_to(ours)
        alone, weigh = probability.left_out(), _weighing(design)
        share, mixed = _mixed(probability, log_odds, design)
        remaining = (weigh(mixed, mixed) / weigh(alone, alone)).nan_to_num(1, 1, 1).clamp(max=1)
        fitted = _minus(theirs.values, log_odds.residuals()).apply(squash)
        residuals, of_process = _minus(ours.values, fitted), probability.residuals()
        return cls(
            _difference(signs, parameters, probability, log_odds, share),
            remaining,
            share,
            log_odds,
            PairedValues(
                *(
                    (1 - share) * getattr(of_process, name) + share * getattr(residuals, name)
                    for name in ("empty", "full", "inside", "outside")
                )
            ),
            mixed,
        )

    def mix(
        self, probability: Fitted, predicted: tuple[Tensor, Tensor], log_odds: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """What both together predict of coalitions and of their complements, from what each of them does."""
        squash, share = self.log_odds.standard.squashed_to(probability.standard), self.share
        inside, outside = (torch.lerp(a, squash(b), share) for a, b in zip(predicted, log_odds, strict=True))
        return inside, outside


def learn(
    outcomes: Sequence[Standard], design: Design, pairs: Tensor, ridge: float, learned: Tensor | None
) -> tuple[Hyperparameters, Tensor]:
    """Hyperparameters from one outcome, or from the probability or its log-odds, whichever predicts more.

    Which one it is, each sample decides for itself in its first stage: the one by which less is left of the probability
    of pairs that are left out.

    Args:
        outcomes: standardised values of a game, or those of a probability and of its log-odds.
        design: of all pairs.
        pairs: (P',) int64, those to learn from.
        ridge: see :func:`~bivshap_lightning.explainers.proxy.gaussian_process.train`.
        learned: what a previous stage returned, packed and with the choice as the last column; None in the first.

    Returns:
        The hyperparameters, and the choice: (B, 1) bool, whether they are those of the log-odds.
    """
    signs, parts = design.signs[pairs], [outcome.part(pairs) for outcome in outcomes]
    odd, even = ([getattr(part.values, name) for part in parts] for name in ("odd", "even"))
    choice = torch.zeros_like(odd[0][:, :1], dtype=torch.bool)
    if learned is not None:
        choice = choice if len(outcomes) == 1 else learned[:, -1:] > 0
        values = (torch.where(choice, x[-1], x[0]) for x in (odd, even))
        return train(signs, *values, ridge=ridge, start=Hyperparameters.unpack(learned[:, :-1])), choice
    found = train(signs, torch.cat(odd), torch.cat(even), ridge=ridge, start=None).pack().chunk(len(outcomes))
    if len(outcomes) > 1:
        some = Design(design.masks[pairs], design.weight[pairs], 0)
        errors = [_mixed_error(signs, Hyperparameters.unpack(packed), parts, some) for packed in found]
        choice = errors[1] < errors[0]
    return Hyperparameters.unpack(torch.where(choice, found[-1], found[0])), choice


def _mixed_error(signs: Tensor, parameters: Hyperparameters, outcomes: Sequence[Standard], design: Design) -> Tensor:
    """(B, 1) weighted mean square of what is left of the probability of pairs that are left out."""
    factors = Factors.of(torch.cat([signs, torch.ones_like(signs[:1])]), parameters)
    probability, log_odds = (Fitted.of(factors, parameters, outcome) for outcome in outcomes)
    _, mixed = _mixed(probability, log_odds, design)
    return _weighing(design)(mixed, mixed).nan_to_num(torch.inf)


def _mixed(probability: Fitted, log_odds: Fitted, design: Design) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The share (B, 1) of the sigmoid in the mean of both, and the leave-one-out residuals of that mean."""
    ours, theirs = probability.standard, log_odds.standard
    alone, weigh = probability.left_out(), _weighing(design)
    squashed = _minus(theirs.values, _pairs(*log_odds.left_out())).apply(theirs.squashed_to(ours))
    left = _minus(ours.values, squashed)
    change = left.odd - alone[0], left.even - alone[1]
    share = (-weigh(alone, change) / weigh(change, change)).nan_to_num(0, 0, 0).clamp(0, 1)
    return share, (alone[0] + share * change[0], alone[1] + share * change[1])


def _pairs(odd: Tensor, even: Tensor) -> PairedValues:
    """Odd and even parts of pairs as values; nothing for the empty and the full coalition."""
    nothing = torch.zeros_like(odd[:, :1])
    return PairedValues(nothing, nothing, even + odd, even - odd)


def _minus(a: PairedValues, b: PairedValues) -> PairedValues:
    return PairedValues(a.empty - b.empty, a.full - b.full, a.inside - b.inside, a.outside - b.outside)


def _weighing(design: Design) -> Callable[[tuple[Tensor, Tensor], tuple[Tensor, Tensor]], Tensor]:
    """(B, 1) products of odd and even parts of drawn pairs, weighted as in the variance of E2."""
    size = design.masks.sum(dim=1)
    weight = design.weight**2 / (size * (design.masks.shape[1] - size))
    drawn = slice(design.n_enumerated, None)

    def product(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> Tensor:
        return ((a[0] * b[0] + a[1] * b[1]) * weight)[:, drawn].sum(dim=1, keepdim=True)

    return product


def _difference(
    signs: Tensor, parameters: Hyperparameters, probability: Fitted, log_odds: Fitted, share: Tensor
) -> Estimate:
    """The estimate of a share (B, 1) of what the sigmoid differs by from the process for the probability."""
    squash, posteriors = (
        log_odds.standard.squashed_to(probability.standard),
        (probability.posterior, log_odds.posterior),
    )

    def difference(some: Tensor) -> tuple[Tensor, Tensor]:
        (inside, outside), (other_inside, other_outside) = predict(parameters, signs, posteriors, some)
        return share * (squash(other_inside) - inside), share * (squash(other_outside) - outside)

    n, device = signs.shape[1], signs.device
    if 2**n <= SURROGATE_COALITIONS:
        rows = AllCoalitions(n, device)
        return rows.estimate(difference(rows.coalitions.double() * 2 - 1)[0])
    many = draw_design(n, SURROGATE_COALITIONS - 2, torch.Generator(device=device).manual_seed(0))
    inside, outside = difference(torch.cat([many.signs, torch.ones_like(signs[:1])]))
    values = PairedValues(outside[:, -1:], inside[:, -1:], inside[:, :-1], outside[:, :-1])
    return kernel.estimate_from_values(values, many)
