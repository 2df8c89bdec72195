"""Explanation maps: from the values of coalitions to one score per player.

In the paper a removal-based explanation is a triple (F, u, E): how players are removed, the utility, and a map E
from the utility to scores. Removal and utility are a :class:`~bivshap_lightning.game.Game`; this module holds maps. A
map chooses coalitions and turns their values into scores, so that
:func:`~bivshap_lightning.explainers.extension.bivariate` can apply it to every column of E2 with the same rows.

* semivalues, the mean gain of a player when every other one is present with probability q: leave-one-out (q = 1),
  Shapley (q uniform), Banzhaf (q = 1/2), Beta-Shapley (q from a beta distribution);
* the mean value of the coalitions with a player: over all coalitions, or RISE's over masks with a keep probability;
* LIME's linear regression, weighted by closeness to the whole input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from scipy.stats import t as student_t
from torch import Tensor

from bivshap_lightning.game.coalitions import all_coalitions

# The most players whose coalitions are enumerated.
EXACT_LIMIT = 16


@dataclass(frozen=True)
class Coalitions:
    """Coalitions that a map wants to know the values of.

    Attributes:
        masks: bool (K, F).
        is_complete: whether they are all coalitions, in the order of ``all_coalitions``, or otherwise determine the
            scores without sampling error.
    """

    masks: Tensor
    is_complete: bool


@runtime_checkable
class ExplanationMap(Protocol):
    """A map from values of coalitions to scores.

    Example:
        >>> isinstance(shapley(), ExplanationMap)
        True
    """

    @property
    def name(self) -> str:
        """What it is called."""

    def minimum_evaluations(self, n_players: int) -> int:
        """The fewest coalitions that give scores."""

    def coalitions(self, n_players: int, n_coalitions: int, generator: torch.Generator) -> Coalitions:
        """At most ``n_coalitions`` coalitions, on the generator's device."""

    def scores(self, coalitions: Coalitions, values: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (B, F) and their standard errors from values (B, K) of the coalitions, float64."""


@dataclass(frozen=True)
class Semivalue:
    """The mean gain of a player when every other one is present with probability q, drawn from Beta(a, b).

    A draw takes q and a coalition, and evaluates it and its F neighbours with one player more or less, so all gains at
    a coalition are known. Small games are enumerated.

    Attributes:
        name: what it is called.
        a: first parameter of the distribution of q.
        b: second parameter.
        point: a fixed q instead of a distribution.

    Example:
        >>> Semivalue("half", point=0.5).minimum_evaluations(10)
        22
    """

    name: str
    a: float = 1.0
    b: float = 1.0
    point: float | None = None

    def minimum_evaluations(self, n_players: int) -> int:
        """Two draws; one if q is 1, because all players are present then."""
        return min(1 << n_players, (1 if self.point == 1 else 2) * (n_players + 1))

    def weights(self, n_players: int) -> Tensor:
        """Weights of the gain at a coalition without the player, by its size, float64 (F,).

        Example:
            >>> shapley().weights(3).tolist(), banzhaf().weights(3).tolist()
            ([0.333..., 0.166..., 0.333...], [0.25, 0.25, 0.25])
        """
        found = [math.exp(self._log_probability(s, n_players - 1)) for s in range(n_players)]
        return torch.tensor(found, dtype=torch.float64)

    def _log_probability(self, size: int, n_players: int) -> float:
        """Of one coalition of a size out of so many players."""
        if self.point is not None:
            return size * math.log(self.point) + (n_players - size) * math.log1p(-self.point)
        return _log_beta(self.a + size, self.b + n_players - size) - _log_beta(self.a, self.b)

    def coalitions(self, n_players: int, n_coalitions: int, generator: torch.Generator) -> Coalitions:
        """All of them if that is affordable, else draws with their neighbours."""
        n, device = n_players, generator.device
        if self.point == 1:
            whole = torch.ones(1, n, dtype=torch.bool, device=device)
            return Coalitions(torch.cat([whole, ~torch.eye(n, dtype=torch.bool, device=device)]), is_complete=True)
        if n <= EXACT_LIMIT and 2**n <= n_coalitions:
            return Coalitions(all_coalitions(n, device), is_complete=True)
        n_draws = n_coalitions // (n + 1)
        logs = [_log_choose(n, s) + self._log_probability(s, n) for s in range(n + 1)]
        shares = torch.tensor(logs, dtype=torch.float64, device=device).exp()
        sizes = torch.multinomial(shares, n_draws, replacement=True, generator=generator)
        ranks = torch.rand(n_draws, n, generator=generator, device=device).argsort(dim=1).argsort(dim=1)
        drawn = ranks < sizes[:, None]
        neighbours = drawn[:, None] ^ torch.eye(n, dtype=torch.bool, device=device)
        return Coalitions(torch.cat([drawn[:, None], neighbours], dim=1).flatten(0, 1), is_complete=False)

    def scores(self, coalitions: Coalitions, values: Tensor) -> tuple[Tensor, Tensor]:
        """Weighted sums of gains, or means over draws."""
        n, n_samples = coalitions.masks.shape[1], len(values)
        if self.point == 1:
            found = values[:, :1] - values[:, 1:]
            return found, torch.zeros_like(found)
        if not coalitions.is_complete:
            values = values.view(n_samples, -1, n + 1)
            present = coalitions.masks.view(-1, n + 1, n)[:, 0]
            gains = torch.where(present, 1, -1) * (values[:, :, :1] - values[:, :, 1:])
            return _mean_and_error(gains)
        weights = self.weights(n).to(values.device)[all_coalitions(n - 1, values.device).sum(dim=1)]
        found = values.new_zeros(n_samples, n)
        for i in range(n):
            with_i = values.view(n_samples, -1, 2, 2**i)
            found[:, i] = (with_i[:, :, 1] - with_i[:, :, 0]).flatten(1) @ weights
        return found, torch.zeros_like(found)


@dataclass(frozen=True)
class MeanWhenIncluded:
    """The mean value of the coalitions that hold a player.

    Attributes:
        name: what it is called.
        keep: probability with which a player is present.
        by_count: divide by the number of coalitions that hold the player; otherwise by the expected number, as RISE.

    Example:
        >>> both = Coalitions(all_coalitions(2), is_complete=True)
        >>> MeanWhenIncluded("mean").scores(both, torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=torch.float64))[0]
        tensor([[2.0000, 2.5000]], dtype=torch.float64)
    """

    name: str
    keep: float = 0.5
    by_count: bool = True

    def minimum_evaluations(self, n_players: int) -> int:
        """Enough for every player to be present several times."""
        return min(1 << n_players, max(16, math.ceil(8 / self.keep)))

    def coalitions(self, n_players: int, n_coalitions: int, generator: torch.Generator) -> Coalitions:
        """All of them if that is affordable, else random masks."""
        if n_players <= EXACT_LIMIT and 2**n_players <= n_coalitions:
            return Coalitions(all_coalitions(n_players, generator.device), is_complete=True)
        keys = torch.rand(n_coalitions, n_players, generator=generator, device=generator.device)
        return Coalitions(keys < self.keep, is_complete=False)

    def scores(self, coalitions: Coalitions, values: Tensor) -> tuple[Tensor, Tensor]:
        """Weighted means over coalitions that hold the player."""
        z = coalitions.masks.double()
        if coalitions.is_complete:
            sizes = z.sum(dim=1)
            weights = self.keep**sizes * (1 - self.keep) ** (z.shape[1] - sizes) / self.keep
            found = (values * weights) @ z
            return found, torch.zeros_like(found)
        if not self.by_count:
            scaled = z / self.keep
            mean = values @ scaled / len(z)
            square = values**2 @ scaled**2 / len(z)
            return mean, ((square - mean**2).clamp(min=0) / max(1, len(z) - 1)).sqrt()
        counts = z.sum(dim=0)
        mean = values @ z / counts.clamp(min=1)
        square = values**2 @ z / counts.clamp(min=1)
        return mean, ((square - mean**2).clamp(min=0) / (counts - 1).clamp(min=1)).sqrt()


@dataclass(frozen=True)
class LinearRegression:
    """LIME's map: slopes of a linear regression with intercept, weighted by closeness to the whole input.

    Attributes:
        name: what it is called.
        width: of the kernel ``exp(-(share of absent players)^2 / width^2)``.

    Example:
        >>> both = Coalitions(all_coalitions(2), is_complete=True)
        >>> LinearRegression().scores(both, torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=torch.float64))[0]
        tensor([[1.0000, 2.0000]], dtype=torch.float64)
    """

    name: str = "lime"
    width: float = 0.75

    def minimum_evaluations(self, n_players: int) -> int:
        """Four coalitions per coefficient."""
        return min(1 << n_players, 4 * (n_players + 1))

    def coalitions(self, n_players: int, n_coalitions: int, generator: torch.Generator) -> Coalitions:
        """All of them if that is affordable, else the whole input and random masks."""
        if n_players <= EXACT_LIMIT and 2**n_players <= n_coalitions:
            return Coalitions(all_coalitions(n_players, generator.device), is_complete=True)
        masks = torch.rand(n_coalitions, n_players, generator=generator, device=generator.device) < 0.5
        masks[0] = True
        return Coalitions(masks, is_complete=False)

    def scores(self, coalitions: Coalitions, values: Tensor) -> tuple[Tensor, Tensor]:
        """Slopes, with robust standard errors where coalitions were drawn."""
        z = coalitions.masks.double()
        weights = torch.exp(-(((1 - z.mean(dim=1)) / self.width) ** 2))
        columns = torch.cat([torch.ones_like(z[:, :1]), z], dim=1)
        weighted = columns * weights[:, None]
        inverse = torch.linalg.pinv(weighted.T @ columns, hermitian=True)
        influence = weighted @ inverse
        slopes = values @ influence
        found = slopes[:, 1:]
        if coalitions.is_complete:
            return found, torch.zeros_like(found)
        leverage = (influence * columns).sum(dim=1)
        residuals = (values - slopes @ columns.T) / (1 - leverage).clamp(min=1e-3)
        return found, (residuals**2 @ influence[:, 1:] ** 2).sqrt()


def leave_one_out() -> Semivalue:
    """The loss of value when a player leaves all others."""
    return Semivalue("leave_one_out", point=1.0)


def shapley() -> Semivalue:
    """Shapley values."""
    return Semivalue("shapley")


def banzhaf() -> Semivalue:
    """Banzhaf values: the mean gain over all coalitions of the others."""
    return Semivalue("banzhaf", point=0.5)


def beta_shapley(alpha: float = 4.0, beta: float = 1.0) -> Semivalue:
    """Beta-Shapley values (Kwon and Zou 2022); alpha above beta gives small coalitions more weight.

    Example:
        >>> bool(beta_shapley(1, 1).weights(4).allclose(shapley().weights(4)))
        True
    """
    if alpha <= 0 or beta <= 0:
        raise ValueError(f"`alpha` and `beta` must be positive, got {alpha} and {beta}.")
    return Semivalue("beta_shapley", a=beta, b=alpha)


def mean_when_included() -> MeanWhenIncluded:
    """The mean value of all coalitions that hold a player."""
    return MeanWhenIncluded("mean_when_included")


def rise(keep: float = 0.5) -> MeanWhenIncluded:
    """RISE (Petsiuk et al. 2018): random masks weighted by their values, normalised by the expected mask."""
    if not 0 < keep < 1:
        raise ValueError(f"`keep` must be between 0 and 1, got {keep}.")
    return MeanWhenIncluded("rise", keep=keep, by_count=False)


def lime(width: float = 0.75) -> LinearRegression:
    """LIME's weighted linear regression on presence and absence."""
    if width <= 0:
        raise ValueError(f"`width` must be positive, got {width}.")
    return LinearRegression(width=width)


MAPS = {made.name: made for made in (
    leave_one_out(), mean_when_included(), shapley(), banzhaf(), beta_shapley(), lime(), rise(),
)}  # fmt: skip


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _mean_and_error(draws: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard error over dimension 1 of (B, draws, F).

    The spread is widened to Student's t for few draws, and one gain of the largest size that did not show up is allowed
    for: rare gains make the spread of those that did too small.
    """
    n_draws = draws.shape[1]
    widening = float(student_t.ppf(0.975, n_draws - 1)) / 1.96
    unseen = draws.abs().amax(dim=(1, 2))[:, None] / n_draws
    return draws.mean(dim=1), (widening**2 * draws.var(dim=1) / n_draws + unseen**2).sqrt()
