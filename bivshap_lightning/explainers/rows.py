"""Estimators that draw coalitions first and estimate from their values afterwards.

The two steps are separate, so that rows can be drawn in stages until an estimate is accurate enough
(:mod:`~bivshap_lightning.explainers.stages`), and so that several outcomes of the same model rows, such as a
probability and its log-odds, can be estimated without further evaluations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.game.coalitions import all_coalitions


class Rows(ABC):
    """Coalitions to evaluate for every sample, those of earlier stages first."""

    @property
    @abstractmethod
    def coalitions(self) -> Tensor:
        """Bool (K, n)."""

    @property
    def replacements(self) -> Tensor | None:
        """(K,) int64, the one background row against which each coalition is evaluated; None for all of them."""
        return None

    def against(self, n_background: int) -> Rows:
        """The rows for a game with so many background rows; the same where a value is the mean over all of them."""
        return self

    def continues(self, previous: Rows | None) -> bool:
        """Whether the coalitions begin with those of ``previous``, whose values need not be computed again."""
        return previous is not None and type(previous) is type(self)


@dataclass(frozen=True)
class AllCoalitions(Rows):
    """All coalitions of n players.

    Attributes:
        n_players: n.
        device: where masks are made.
    """

    n_players: int
    device: torch.device

    @property
    def coalitions(self) -> Tensor:
        """Bool (2 ** n, n)."""
        return all_coalitions(self.n_players, self.device)

    def estimate(self, values: Tensor) -> Estimate:
        """Exact values (B, n, n) from the values (B, 2 ** n) of all coalitions.

        Gains are formed before they are summed, so a player that never changes a value gets exactly zero.
        """
        n = self.n_players
        others = all_coalitions(n - 1, self.device)
        sizes = others.sum(dim=1).double()
        # Shapley's weight |S|! (n - |S| - 1)! / n!
        weight = torch.exp(torch.lgamma(sizes + 1) + torch.lgamma(n - sizes) - torch.lgamma(sizes.new_tensor(n + 1)))
        # What is summed for each gain: the part with j present for every other j, everything, and the null column.
        parts = torch.cat([others.double(), torch.ones_like(sizes)[:, None], (sizes + 1)[:, None] / (n + 1)], dim=1)
        parts = parts * weight[:, None]
        bivariate = values.new_zeros(len(values), n, n)
        sums = values.new_zeros(len(values), n, 2)
        absolute, absolute_sums = torch.zeros_like(bivariate), torch.zeros_like(sums)
        for i in range(n):
            # Bit i of a coalition's number tells whether i is in it; what remains numbers the coalition of the others.
            without_and_with = values.view(len(values), -1, 2, 2**i)
            gains = (without_and_with[:, :, 1] - without_and_with[:, :, 0]).flatten(1)
            for summed, matrix, vector in ((gains, bivariate, sums), (gains.abs(), absolute, absolute_sums)):
                row = summed @ parts
                matrix[:, i, :i], matrix[:, i, i + 1 :] = row[:, :i], row[:, i : n - 1]
                vector[:, i] = row[:, n - 1 :]
        return Estimate.exact(bivariate, sums[..., 0], sums[..., 1], absolute_gains=(absolute, absolute_sums[..., 1]))


class RowEstimator(ABC):
    """An estimator that separates drawing coalitions from estimating; a subclass also has ``name`` and ``is_exact``.

    Attributes:
        is_joint: whether probabilities and their log-odds are estimated together. If they are not, log-odds are
            estimated only when someone asks for them.
    """

    is_joint: ClassVar[bool] = False

    @abstractmethod
    def draw(self, n_players: int, n_coalitions: int, generator: torch.Generator, previous: Rows | None = None) -> Rows:
        """Coalitions to evaluate.

        Args:
            n_players: n.
            n_coalitions: at most this many in all, those of ``previous`` included.
            generator: the source of random draws, on the device of the masks.
            previous: what was drawn with fewer coalitions before; the result goes on from there if it can.
        """

    @abstractmethod
    def from_values(self, rows: Rows, values: Tensor) -> Estimate:
        """The estimate of values (B, K) of drawn rows that are not all coalitions."""

    def from_outcomes(self, rows: Rows, outcomes: Sequence[Tensor]) -> list[Estimate]:
        """One estimate for each of several outcomes (B, K) of the same rows, estimated together."""
        values, n_samples = torch.cat(list(outcomes)), len(outcomes[0])
        joint = rows.estimate(values) if isinstance(rows, AllCoalitions) else self.from_values(rows, values)
        return [joint[slice(k * n_samples, (k + 1) * n_samples)] for k in range(len(outcomes))]

    def go_on(
        self, rows: Rows, outcomes: Sequence[Tensor], learned: Tensor | None
    ) -> tuple[list[Estimate], Tensor | None]:
        """The estimates of :meth:`from_outcomes` in one of several stages.

        Args:
            rows: of this stage.
            outcomes: likewise; if :attr:`is_joint`, a second one is the log-odds of the first.
            learned: what the previous stage handed on about each sample; None in the first.

        Returns:
            The estimates, and what to hand on: a tensor whose first dimension is the samples, or None for nothing.
        """
        return self.from_outcomes(rows, outcomes), None

    def coalitions_within(self, n_evaluations: int, n_background: int) -> int:
        """How many coalitions so many model rows allow; each takes all background rows by default."""
        return n_evaluations // n_background

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        """Estimate from at most ``n_coalitions`` values per sample."""
        rows = self.draw(game.n_players, n_coalitions, generator).against(game.n_background)
        return self.from_outcomes(rows, [game(rows.coalitions, rows.replacements)])[0]
