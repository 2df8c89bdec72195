"""Rows in stages: until an estimate is accurate enough, or its rows are spent.

The relative error of a sample's E2 is estimated from its standard errors (:meth:`Estimate.relative_error`) after each
stage, and a stage has twice as many rows as the one before. A sample whose error is within the target is finished and
costs nothing more. Whether it is depends on its own values alone: every sample with n players goes through the same
stages of the same coalitions, whatever the other samples of the batch do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from bivshap_lightning.explainers.changes import keep_drawn_values
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.rows import RowEstimator, Rows

# The fewest coalitions after which an error is believed, and how often the estimator's minimum that must be: intervals
# cover the truth less often below.
FIRST_STAGE = 256
TIMES_MINIMUM = 2
# Probabilities are cut to this distance from 0 and 1 before their log-odds are taken.
LEAST_PROBABILITY = 1e-3


class _AnyEstimator(Protocol):
    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate: ...


def check_target_error(target_error: float) -> float:
    """The target as it is, if it can be one.

    Example:
        >>> check_target_error(0)
        Traceback (most recent call last):
        ValueError: `target_error` must be a positive number such as 0.1 (a relative error of 10 %), got 0.
    """
    is_number = isinstance(target_error, (int, float)) and not isinstance(target_error, bool)
    if not is_number or not 0 < target_error < math.inf:
        raise ValueError(
            f"`target_error` must be a positive number such as 0.1 (a relative error of 10 %), got {target_error!r}."
        )
    return float(target_error)


def stage_budgets(least: int, most: int) -> list[int]:
    """Numbers of coalitions after which the error is looked at, the last one being ``most``.

    Args:
        least: the estimator's minimum.
        most: the ceiling.

    Example:
        >>> stage_budgets(58, 4152)
        [256, 512, 1024, 2048, 4152]
    """
    budgets = [max(FIRST_STAGE, TIMES_MINIMUM * least)]
    while 3 * budgets[-1] <= most:
        budgets.append(2 * budgets[-1])
    return [*(b for b in budgets if 3 * b <= 2 * most), most]


def log_odds(probabilities: Tensor) -> Tensor:
    """Log-odds of probabilities that are cut to [0.001, 0.999], because saturation would dominate them otherwise.

    Example:
        >>> log_odds(torch.tensor([0.5, 1.0])).round(decimals=2)
        tensor([0.0000, 6.9100])
    """
    return probabilities.clamp(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY).logit()


class _DrawnRows:
    """An estimator that goes on with the rows it has drawn."""

    def __init__(self, estimator: RowEstimator, generator: torch.Generator) -> None:
        self.estimator, self.generator = estimator, generator
        self.rows: Rows | None = None
        self.values = torch.empty(0)
        self.learned: Tensor | None = None

    def advance(self, game: ReducedGame, n_coalitions: int) -> Estimate:
        """The estimate from so many coalitions in all."""
        rows = self.estimator.draw(game.n_players, n_coalitions, self.generator, self.rows).against(game.n_background)
        known = self.values if rows.continues(self.rows) else torch.empty(0, 0)
        new, replacements = rows.coalitions[known.shape[1] :], rows.replacements
        if len(new):
            found = game(new, None if replacements is None else replacements[known.shape[1] :])
            values = torch.cat([known, found], dim=1) if known.numel() else found
        else:
            values = known
        self.rows, self.values = rows, values
        if game.game.behavior.name != "probability" or not self.estimator.is_joint:
            (estimate,), self.learned = self.estimator.go_on(rows, [values], self.learned)
            return estimate
        (estimate, of_log_odds), self.learned = self.estimator.go_on(rows, [values, log_odds(values)], self.learned)
        return replace(estimate, log_odds=replace(of_log_odds, absolute_gains=None))

    def log_odds(self, game: ReducedGame, samples: Tensor, found: Estimate) -> Callable[[], Estimate] | None:
        """How to estimate the log-odds of some of the samples, whose estimate is ``found``; None if there are none."""
        estimator, rows, nested = self.estimator, self.rows, found.log_odds
        if game.game.behavior.name != "probability" or rows is None:
            return None
        if nested is not None:
            return lambda: nested
        values = self.values[samples]
        return lambda: replace(estimator.from_outcomes(rows, [log_odds(values)])[0], absolute_gains=None)

    def hand_over(self, game: ReducedGame, samples: Tensor) -> None:
        """Let the values of some of the samples be kept for a later comparison."""
        if self.rows is not None:
            whole = game if len(samples) == game.n_samples else game.part(samples)
            learned = None if self.learned is None else self.learned[samples]
            keep_drawn_values(self.estimator, self.rows, self.values[samples], whole, learned)

    def keep(self, samples: Tensor) -> None:
        """Go on with some of the samples."""
        self.values = self.values[samples]
        self.learned = None if self.learned is None else self.learned[samples]


class _IndependentParts:
    """An estimator that knows only whole estimates: every stage is one more, and their mean by rows is taken."""

    def __init__(self, estimator: _AnyEstimator, generator: torch.Generator) -> None:
        self.estimator, self.generator = estimator, generator
        self.parts: list[tuple[int, Estimate]] = []

    def advance(self, game: ReducedGame, n_coalitions: int) -> Estimate:
        """The estimate from so many coalitions in all."""
        n_new = n_coalitions - sum(n for n, _ in self.parts)
        self.parts.append((n_new, self.estimator.estimate(game, n_new, self.generator)))
        return _mean(self.parts)

    def keep(self, samples: Tensor) -> None:
        """Go on with some of the samples."""
        self.parts = [(n, part[samples]) for n, part in self.parts]


def _mean(parts: Sequence[tuple[int, Estimate]]) -> Estimate:
    """The mean of independent estimates, weighted by their rows."""
    if len(parts) == 1:
        return parts[0][1]
    total = sum(n for n, _ in parts)
    columns = list(zip(*(part.tensors for _, part in parts), strict=True))
    shares = [n / total for n, _ in parts]
    means = [torch.stack([w * x for w, x in zip(shares, same, strict=True)]).sum(dim=0) for same in columns[:3]]
    errors = [
        torch.stack([(w * x) ** 2 for w, x in zip(shares, same, strict=True)]).sum(dim=0).sqrt() for same in columns[3:]
    ]
    return Estimate(*means, *errors, notes=parts[-1][1].notes)


class StagedRun:
    """The stages of samples with equally many players.

    Args:
        estimator: how values are estimated.
        game: the samples.
        budgets: numbers of coalitions, increasing; one stage each.
        target_error: samples stop once their relative error is at most this; None to go through all stages.
        seed: of the estimator's generator.
    """

    def __init__(
        self,
        estimator: _AnyEstimator,
        game: ReducedGame,
        budgets: Sequence[int],
        *,
        target_error: float | None = None,
        seed: int = 0,
    ) -> None:
        self._game, self._target = game, target_error
        self._budgets = list(budgets)
        self._left = torch.arange(game.n_samples, device=game.device)
        self._finished: list[tuple[Tensor, Estimate]] = []
        self._log_odds: list[Callable[[], Estimate] | None] = []
        self._current: Estimate | None = None
        self._spent = 0
        generator = torch.Generator(device=game.device).manual_seed(seed)
        self._state = (
            _DrawnRows(estimator, generator)
            if isinstance(estimator, RowEstimator)
            else _IndependentParts(estimator, generator)
        )

    @property
    def is_finished(self) -> bool:
        """Whether all samples are done."""
        return not self._budgets

    @property
    def has_estimate(self) -> bool:
        """Whether a stage is complete, so that the run can be stopped."""
        return self._current is not None or self.is_finished

    def step(self) -> None:
        """Evaluate one more stage, and finish the samples that are accurate enough, or all after the last stage."""
        budget = self._budgets[0]
        estimate = self._state.advance(self._game, budget)
        self._current, self._spent = estimate, budget
        self._budgets.pop(0)
        if self._target is None:
            self._finish(range(len(estimate)), [""] * len(estimate))
            return
        errors = estimate.relative_error().tolist()
        reached = [k for k, error in enumerate(errors) if error <= self._target]
        done = range(len(errors)) if not self._budgets else reached
        self._finish(done, [self._verdict(errors[k]) for k in done])

    def stop(self) -> None:
        """Finish with the estimate of the last complete stage."""
        if self._current is not None and len(self._left):
            errors = self._current.relative_error().tolist()
            notes = [f"interrupted after {self._spent} coalitions, estimated error {error:.2g}" for error in errors]
            self._finish(range(len(errors)), notes)

    def _verdict(self, error: float) -> str:
        outcome = "reached" if error <= (self._target or 0.0) else "not reached, all rows spent"
        return f"target_error {self._target:g} {outcome}: estimated error {error:.2g} after {self._spent} coalitions"

    def _finish(self, done: Sequence[int], notes: Sequence[str]) -> None:
        """Set samples aside with a note each, and go on with the others."""
        if self._current is None or not done:
            return
        index = torch.tensor(list(done), device=self._left.device)
        found = self._current[index]
        own = found.notes or ("",) * len(done)
        both = tuple("; ".join(filter(None, pair)) for pair in zip(own, notes, strict=True))
        self._finished.append((self._left[index], replace(found, notes=both if any(both) else ())))
        if isinstance(self._state, _DrawnRows):
            self._log_odds.append(self._state.log_odds(self._game, index, found))
            self._state.hand_over(self._game, index)
        if len(done) == len(self._left):
            self._budgets, self._left = [], self._left[:0]
            return
        others = torch.ones(len(self._left), dtype=torch.bool, device=self._left.device)
        others[index] = False
        rest = others.nonzero()[:, 0]
        self._state.keep(rest)
        self._left, self._current = self._left[rest], self._current[rest]
        self._game = self._game.part(rest)

    def estimate(self) -> Estimate:
        """The estimate of all samples, in their order."""
        return _in_order(*zip(*self._finished, strict=True))

    def log_odds(self) -> Callable[[], Estimate] | None:
        """How to estimate the log-odds of all samples, in their order; None if nothing is known of them."""
        known = [find for find in self._log_odds if find is not None]
        if not known:
            return None
        index = [index for index, _ in self._finished]
        return lambda: _in_order(index, [find() for find in known])


def _in_order(index: Sequence[Tensor], parts: Sequence[Estimate]) -> Estimate:
    """Estimates of some samples each as one of all samples, by their numbers."""
    joined = Estimate.join(parts)
    return joined if len(parts) == 1 else joined[torch.cat(list(index)).argsort()]
