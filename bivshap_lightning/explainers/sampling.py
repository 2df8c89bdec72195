"""BivShap-S: random orders of the players.

``E2[i, j]`` is the mean, over orders, of the gain when i joins its predecessors, counted if j is among them. A chain
of coalitions along one order yields the gain of every player, so n - 1 evaluations serve all n (n - 1) pairs (the
paper's loop spends 2 n for the same number of samples). Orders come in pairs, each with its reverse: in exactly one
of the two j precedes i, which balances every pair and lowers the variance at no cost.

With background rows, an order and its reverse are evaluated against one row, the rows taking turns: a coalition costs
one model row, and the spread of the rows is in the standard errors. At equal model rows this is more accurate than
fewer orders against all rows (``benchmarks/bench_background.py``).

Three things are done with the sampled means:

* From 20 pairs of orders on, gains of a game of players and pairs of players, whose mean is known exactly, are
  subtracted where that lowers the error (:mod:`~bivshap_lightning.explainers.control_variate`).
* ``E2[i, j] = R[i] + C[i, j]`` with a symmetric C for every game, R being the null column. The two estimates of each
  entry of C are averaged, the one from the less noisy row counting more. Entries without any gain stay zero.
* Gains that never occurred in m pairs of orders can still occur with a probability of up to 3 / m (at 95 % confidence).
  An entry with fewer than three gains, or with gains that are all alike, therefore has a standard error of at least
  ``1.5 / m / 1.96`` times the largest gain that i can be expected to have. That is its own largest one if it showed
  many gains of similar size, and no player showed large gains rarely. Otherwise it is the largest gain of any player,
  or ``abs(u(all) - u(none))`` if that is more: of an AND of 80 players most gains are never drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bivshap_lightning.explainers.null_players import Estimate
from bivshap_lightning.explainers.order_means import Means, Moments, controlled_means, summed_moments
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.explainers.rows import AllCoalitions, RowEstimator, Rows

# The fewest pairs of orders of which a half is enough to fit a control variate.
LEAST_CONTROLLED = 20
# Up to so many pairs of orders, an error is widened by a whole pair of orders with typical gains; beyond, by less.
FEW_PAIRS = 20
# Fewer gains than this, counted as (sum of sizes) ** 2 / (sum of squares), do not tell how they vary: if three are
# enough, a fifth of the edges called redundant in saturated networks are false.
FEW_GAINS = 8
# With at least as many, counted alike, the largest of a player's own gains tells how large another one can be.
MANY_GAINS = 10
# A gain of this share of the largest one is large: if a player with fewer than MANY_GAINS shows it, others may hide it.
LARGE_GAIN = 0.25
# Half of 3 / m, because the weights of E2 sum to 1/2, as a standard error.
UNSEEN = 1.5 / 1.96
# Gains and differences between gains below this share of the largest gain are rounding.
ROUNDING = 1e-6


def minimum_evaluations(n_players: int) -> int:
    """Two pairs of orders, the fewest that have a standard error, and the two ends they share."""
    return 4 * (n_players - 1) + 2


@dataclass(frozen=True)
class Chains(Rows):
    """Coalitions along random orders and their reverses, after the empty and the full one.

    The coalitions of an order and those of its reverse are complements of each other.

    With R background rows each order, with its reverse, is evaluated against one of them, in turn, in an order that
    follows from the first drawn order. Its gains are those of one row's game, whose mean over the rows is the game that
    is explained.

    Attributes:
        positions: int64 (m, n), the place of every player in each of m orders.
        n_background: R.
    """

    positions: Tensor
    n_background: int = 1

    @property
    def coalitions(self) -> Tensor:
        """Bool (R + 1 + 2 m (n - 1), n): no player, R times, all players, then order by order and its reverse."""
        n, device = self.positions.shape[1], self.positions.device
        steps = torch.arange(1, n, device=device)
        inner = self.both[:, :, None] < steps[:, None]
        ends = (torch.arange(self.n_background + 1, device=device) == self.n_background)[:, None].expand(-1, n)
        return torch.cat([ends, inner.flatten(0, 2)])

    @property
    def replacements(self) -> Tensor | None:
        """(R + 1 + 2 m (n - 1),) the background row of each coalition; None if there is only one."""
        if self.n_background == 1:
            return None
        ends = torch.arange(self.n_background + 1, device=self.positions.device) % self.n_background
        return torch.cat([ends, self.background.repeat_interleave(2 * (self.positions.shape[1] - 1))])

    @property
    def background(self) -> Tensor:
        """(m,) the background row of each order; all rows take turns."""
        n_pairs, n = self.positions.shape
        turns = torch.arange(self.n_background, dtype=torch.float64, device=self.positions.device)
        if self.n_background > 1:  # shuffled by digits of a sine, so that neither the device nor a generator matters
            first = (self.positions[0] * torch.arange(1, n + 1, device=turns.device)).sum()
            turns = (torch.sin(first + 12.9898 * (turns + 1)) * 43758.5453).frac()
        return turns.argsort()[torch.arange(n_pairs, device=turns.device) % self.n_background]

    def against(self, n_background: int) -> Chains:
        """The same orders, each against one of so many background rows."""
        return replace(self, n_background=n_background)

    @property
    def both(self) -> Tensor:
        """(m, 2, n): positions in every order and in its reverse."""
        return torch.stack([self.positions, self.positions.shape[1] - 1 - self.positions], dim=1)

    def gains(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Gains (B, m, n) of every player in each order and in its reverse, from the values of the coalitions."""
        n_pairs, n = self.positions.shape
        chains = values[:, self.n_background + 1 :].unflatten(1, (n_pairs, 2, n - 1))
        ends = (self.background, torch.full_like(self.background, self.n_background))
        first, last = (values[:, place][:, :, None, None].expand(-1, -1, 2, 1) for place in ends)
        by_step = torch.cat([first, chains, last], dim=3).diff(dim=3)
        by_player = by_step.gather(3, self.both.expand(len(values), -1, -1, -1))
        return by_player[:, :, 0], by_player[:, :, 1]


@register
class Sampling(RowEstimator):
    """Random orders in antithetic pairs as an estimator.

    Example:
        >>> Sampling().minimum_evaluations(10)
        38
    """

    name = "sampling"
    is_exact = False

    def minimum_evaluations(self, n_players: int) -> int:
        """See :func:`minimum_evaluations`."""
        return minimum_evaluations(n_players)

    def draw(self, n_players: int, n_coalitions: int, generator: torch.Generator, previous: Rows | None = None) -> Rows:
        """As many pairs of an order and its reverse as there are coalitions for."""
        if n_players == 1:
            return AllCoalitions(1, generator.device)
        n_pairs = (n_coalitions - 2) // (2 * (n_players - 1))
        known = [previous.positions] if isinstance(previous, Chains) else []
        n_new = n_pairs - sum(map(len, known))
        keys = torch.rand(max(0, n_new), n_players, generator=generator, device=generator.device)
        return Chains(torch.cat([*known, keys.argsort(dim=1).argsort(dim=1)]))

    def coalitions_within(self, n_evaluations: int, n_background: int) -> int:
        """One model row per coalition, but for the empty one, which takes all background rows."""
        return n_evaluations - (n_background - 1)

    def from_values(self, rows: Rows, values: Tensor) -> Estimate:
        """Means over orders."""
        if not isinstance(rows, Chains):
            raise TypeError(f"`rows` must be chains, got {type(rows).__name__}.")
        return _estimate_chains(rows, values)


def _estimate_chains(rows: Chains, values: Tensor) -> Estimate:
    n_pairs = len(rows.positions)
    forward, backward = rows.gains(values)
    sums = summed_moments(forward, backward, rows.positions)
    means = Means.of(sums, n_pairs)
    if n_pairs >= LEAST_CONTROLLED:
        means = controlled_means(forward, backward, rows.positions).where(means)
    estimate = _with_errors(means, forward, backward)
    largest, plausible = _largest_gains(forward, backward)
    estimate = replace(estimate, absolute_gains=(sums.bivariate_size / n_pairs, sums.null_column_size / n_pairs))
    return _allow_for_unseen_gains(_symmetrise(estimate, sums, largest), sums, largest, plausible, n_pairs)


def _largest_gains(forward: Tensor, backward: Tensor) -> tuple[Tensor, Tensor]:
    """(B,) the largest gain there can be, and (B, n) the largest that each player can be expected to have."""
    gains = torch.cat([forward, backward], dim=1).abs()
    # All gains of an order sum to u(all) - u(none).
    largest = torch.maximum(gains.amax(dim=(1, 2)), forward[:, 0].sum(dim=1).abs())
    own, scale = gains.amax(dim=1), largest[:, None]
    # A player without gains beyond rounding counts as one that showed few.
    squares = (gains**2).sum(dim=1) + (ROUNDING * scale) ** 2
    is_frequent = gains.sum(dim=1) ** 2 >= MANY_GAINS * squares
    hides = (~is_frequent & (own >= LARGE_GAIN * scale)).any(dim=1, keepdim=True)
    return largest, torch.where(is_frequent & ~hides, own, scale)


def _with_errors(means: Means, forward: Tensor, backward: Tensor) -> Estimate:
    """Means with standard errors that allow for few orders.

    Every variance has one more pair of orders added whose gains are as large as those of all players are. Gains are
    skewed: orders that show few of the large ones underestimate a mean and its error together. Beyond
    :data:`FEW_PAIRS` the addition fades.
    """
    n_pairs = forward.shape[1]
    fading = min(1.0, FEW_PAIRS / n_pairs) ** 2
    typical = fading * ((forward**2 + backward**2) / 2).mean(dim=(1, 2)) / (n_pairs * (n_pairs + 1))
    bivariate, shapley, null_column = (
        variance + share * typical.view(-1, *[1] * (variance.dim() - 1))
        for share, variance in zip((0.25, 0.5, 0.25), means[3:6], strict=True)
    )
    noise = bivariate.sum(dim=(1, 2))
    errors = (x.sqrt_() for x in (bivariate, shapley, null_column))
    return Estimate(*means[:3], *errors, pairwise_error=means.pairwise_variance.sqrt(), noise=noise)


def _symmetrise(estimate: Estimate, moments: Moments, largest: Tensor) -> Estimate:
    """Average the two estimates of every entry of the symmetric part, except for entries without any gain."""
    row = estimate.null_column[:, :, None]
    symmetric = estimate.bivariate - row
    noise = (estimate.bivariate_error**2).sum(dim=2) + torch.finfo(symmetric.dtype).tiny
    share = noise[:, None] / (noise[:, :, None] + noise[:, None])  # of the entry itself; its mirror image has the rest
    averaged = torch.lerp(symmetric.mT, symmetric, share).add_(row)
    has_gains = moments.bivariate_size > ROUNDING * largest[:, None, None]
    bivariate = torch.where(has_gains, averaged, estimate.bivariate)
    error = torch.where(has_gains, _averaged_error(estimate, symmetric, share), estimate.bivariate_error)
    for matrix in (bivariate, error):
        matrix.diagonal(dim1=1, dim2=2).zero_()
    return replace(estimate, bivariate=bivariate, bivariate_error=error)


def _averaged_error(estimate: Estimate, symmetric: Tensor, share: Tensor) -> Tensor:
    """Standard errors of E2 after the two estimates of C, the symmetric part, are averaged.

    They are not always smaller than before: the mirror image of an accurate entry can be an inaccurate one. How the
    errors of the two correlate is seen in their differences, which are zero but for the errors. Errors of the null
    column of i are taken as correlated with those of C[i, j], as they are seen to be, and not with those of C[j, i]; as
    that is a simplification, no error becomes less than half of what it was.
    """
    own_error = estimate.bivariate_error if estimate.pairwise_error is None else estimate.pairwise_error
    own, other, product = own_error**2, own_error.mT**2, own_error * own_error.mT
    difference = own + other - (symmetric - symmetric.mT) ** 2
    difference.diagonal(dim1=1, dim2=2).zero_()
    scale = 2 * product.sum(dim=(1, 2)) + torch.finfo(own.dtype).tiny
    correlation = (difference.sum(dim=(1, 2)) / scale).clamp(0, 1)[:, None, None]
    averaged = share**2 * own + (1 - share) ** 2 * other + 2 * share * (1 - share) * correlation * product
    of_row = estimate.null_column_error[:, :, None] ** 2
    variance = averaged + of_row + share * (estimate.bivariate_error**2 - of_row - own)
    return torch.maximum(variance, estimate.bivariate_error**2 / 4).sqrt()


def _allow_for_unseen_gains(
    estimate: Estimate, moments: Moments, largest: Tensor, plausible: Tensor, n_pairs: int
) -> Estimate:
    """Standard errors that are at least the bound on gains that never occurred, where few or only equal ones did."""
    errors = []
    for k, error in enumerate(estimate.tensors[3:]):
        mean, square, size = moments[k] / n_pairs, moments[3 + k], moments[6 + k]
        scale, of_player = (x.view(*x.shape, *[1] * (error.dim() - x.dim())) for x in (largest, plausible))
        rounding = (ROUNDING * scale) ** 2
        few = size**2 < rounding + FEW_GAINS * square
        alike = square / n_pairs <= rounding + mean**2
        errors.append(torch.where(few | alike, torch.maximum(error, UNSEEN / n_pairs * of_player), error))
    errors[0].diagonal(dim1=1, dim2=2).zero_()
    bivariate, shapley, null_column = errors
    return replace(estimate, bivariate_error=bivariate, shapley_error=shapley, null_column_error=null_column)
