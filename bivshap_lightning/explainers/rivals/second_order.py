"""Symmetric second-order indices: Shapley interaction, Shapley-Taylor, Shapley excess, and meta-attribution.

All are sums over the coalitions S without i and j of a weight of the size of S times the second difference
``u(S + i + j) - u(S + i) - u(S + j) + u(S)``; with F players and s = |S| the weights are

* ``shapley_interaction``: ``s! (F - s - 2)! / (F - 1)!`` (Grabisch and Roubens 1999);
* ``shapley_taylor``: ``2 s! (F - s - 1)! / F!`` (Sundararajan et al. 2020, order 2);
* ``shapley_excess``: the Shapley value of the merged pair less the two single ones, which is the second less the first;
* ``metagame``: ``(s + 1)! (F - s - 2)! / F! (1 / (s + 2) + ... + 1 / F)``, the meta-attribution of Baniecki et al. 2026
  for Shapley values: the Shapley value of j in the game that is worth, for a coalition, the Shapley value that i has if
  all others are removed. What j gives to i is what i gives to j, so for Shapley values it has no direction.

They have no direction: ``bivariate`` is symmetric. Null players do not interact. Tree ensembles are explained
exactly from their leaves, small games by enumeration, others by a regression on KernelSHAP's coalitions whose residual
is summed by importance sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from bivshap_lightning.explainers.estimator import EstimatorExplainer, explain_without_null_players
from bivshap_lightning.explainers.exact import explain_exactly
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.paper import draw_kernel_coalitions
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.explainers.trees import add_leaves
from bivshap_lightning.game import Game
from bivshap_lightning.game.coalitions import all_coalitions

Index = Literal["shapley_interaction", "shapley_taylor", "shapley_excess", "metagame"]
# The index of a pair in the game that is worth 1 if both are present.
OF_A_PAIR: dict[Index, float] = {
    "shapley_interaction": 1,
    "shapley_taylor": 1,
    "shapley_excess": 0,
    "metagame": 1 / 4,
}
# Folds of the drawn coalitions.
N_FOLDS = 5
# The most players that are enumerated.
EXACT_LIMIT = 16
# Sums below this share of all that went into them are rounding: they are zero.
ROUNDING = 1e-13
# Pairs of players of conjunctions that are added together.
PAIRS_AT_ONCE = 2**21


@dataclass(frozen=True)
class SecondOrder:
    """A symmetric second-order index as an explainer; ``shapley`` of its explanations are Shapley values.

    Attributes:
        name: which index.

    Example:
        >>> game = Game(lambda x: x[:, 0] * x[:, 1] + x[:, 2], torch.ones(1, 3), behavior="output")
        >>> SecondOrder("shapley_interaction").explain(game).bivariate[0]
        tensor([[0., 1., 0.],
                [1., 0., 0.],
                [0., 0., 0.]])
    """

    name: Index
    is_exact: ClassVar[bool] = False

    def minimum_evaluations(self, game: Game) -> int:
        """None for trees; otherwise twice as many coalitions as the smaller regression has coefficients."""
        return 0 if game.has_trees else EstimatorExplainer(_FromRows(self.name)).minimum_evaluations(game)

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game.

        Args:
            game: the game.
            n_evaluations: at most this many model rows per sample; None for the default of bivariate Shapley values.
            seed: seed of the coalitions.
        """
        estimator = _FromLeaves(self.name) if game.has_trees else _FromRows(self.name)
        return explain_without_null_players(estimator, game, n_evaluations=n_evaluations, seed=seed)


for _index in OF_A_PAIR:
    register(SecondOrder(_index))


def index_weights(index: Index, n_players: int) -> Tensor:
    """Weights of the second differences by the size of S, float64 (F - 1,).

    Example:
        >>> index_weights("shapley_interaction", 4).tolist(), index_weights("shapley_excess", 4).tolist()
        ([0.333..., 0.166..., 0.333...], [0.166..., 0.0, -0.166...])
    """
    n = n_players
    interaction = torch.tensor([1 / ((n - 1) * math.comb(n - 2, s)) for s in range(n - 1)], dtype=torch.float64)
    taylor = torch.tensor([2 / (n * math.comb(n - 1, s)) for s in range(n - 1)], dtype=torch.float64)
    sizes = torch.arange(n - 1, dtype=torch.float64)
    meta = _harmonic(sizes + 1, n) * torch.tensor(
        [1 / (n * math.comb(n - 1, s + 1)) for s in range(n - 1)], dtype=torch.float64
    )
    return _choose(index, interaction, taylor, meta)


def _harmonic(a: Tensor, b: int) -> Tensor:
    """1 / (a + 1) + ... + 1 / b."""
    return torch.digamma(torch.full_like(a, b + 1)) - torch.digamma(a + 1)


def _choose(index: Index, interaction: Tensor, taylor: Tensor, meta: Tensor) -> Tensor:
    """The index out of those that determine all."""
    if index == "metagame":
        return meta
    if index == "shapley_interaction":
        return interaction
    return taylor if index == "shapley_taylor" else taylor - interaction


@dataclass(frozen=True)
class _FromRows:
    """Enumeration of small games, regression and importance sampling for others."""

    name: Index
    is_exact: ClassVar[bool] = False

    def minimum_evaluations(self, n_players: int) -> int:
        return min(1 << n_players, 4 * n_players + 4)

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        n = game.n_players
        if n == 1:
            shapley = explain_exactly(game).shapley
            return _exact(torch.zeros_like(shapley)[..., None], shapley)
        if n <= EXACT_LIMIT and 2**n <= n_coalitions:
            return self._enumerate(game)
        masks, weights, n_enumerated = draw_kernel_coalitions(n, n_coalitions - 2, generator)
        ends = torch.tensor([[False], [True]], device=game.device).expand(2, n)
        values = game(torch.cat([ends, masks]))
        return _Regression(self.name, masks.double(), weights, n_enumerated).estimate(values)

    def _enumerate(self, game: ReducedGame) -> Estimate:
        n = game.n_players
        values = game(all_coalitions(n, game.device))
        gain_weights = values.new_tensor([1 / (n * math.comb(n - 1, s)) for s in range(n)])
        gain_weights = gain_weights[all_coalitions(n - 1, game.device).sum(dim=1)]
        pair_weights = index_weights(self.name, n).to(game.device)[all_coalitions(n - 2, game.device).sum(dim=1)]
        bivariate, shapley = values.new_zeros(len(values), n, n), values.new_zeros(len(values), n)
        for j in range(n):
            # Bit j of a coalition's number tells whether j is in it; what remains numbers the coalition of the others.
            with_j = values.view(len(values), -1, 2, 2**j)
            gains = (with_j[:, :, 1] - with_j[:, :, 0]).flatten(1)
            shapley[:, j] = gains @ gain_weights
            for i in range(j):
                with_i = gains.view(len(values), -1, 2, 2**i)
                bivariate[:, i, j] = (with_i[:, :, 1] - with_i[:, :, 0]).flatten(1) @ pair_weights
        return _exact(bivariate + bivariate.mT, shapley)


def _exact(bivariate: Tensor, shapley: Tensor) -> Estimate:
    """An exact estimate; nothing interacts with null players."""
    return Estimate.exact(bivariate, shapley, torch.zeros_like(shapley))


class _Regression:
    """An index from a fit, whose index is known, and the residuals of a design of coalitions.

    The fit has all pair effects if there are four times as many coalitions as coefficients, and otherwise effects of
    single players that change linearly with the size of the coalition. It is made once for each of five folds of the
    drawn coalitions without that fold, whose residuals are then out of sample: the estimate is unbiased, and the spread
    of the residuals over complementary pairs gives its standard errors.

    Args:
        index: which index.
        z: (M, n) coalitions as numbers: enumerated ones, drawn ones, complements of the drawn ones.
        weights: (M,) Shapley-kernel weights that sum to 1.
        n_enumerated: the number of enumerated coalitions.
    """

    def __init__(self, index: Index, z: Tensor, weights: Tensor, n_enumerated: int) -> None:
        self.index, self.z, self.weights, self.n_enumerated = index, z, weights, n_enumerated
        self.n = z.shape[1]
        self.has_pairs = 4 * (1 + self.n + self.n * (self.n - 1) // 2) <= len(z)
        self.pairs = torch.triu_indices(self.n, self.n, offset=1, device=z.device)
        sizes, every = z.sum(dim=1), torch.arange(1, self.n, dtype=torch.float64, device=z.device)
        # The share of a coalition in the mean over its size.
        share = weights * (sizes * (self.n - sizes)) * (1 / (every * (self.n - every))).sum()
        self.both, self.one, self.neither = (share * c for c in self._coefficients(sizes))
        self.inside, self.outside = share / sizes, share / (self.n - sizes)

    def estimate(self, values: Tensor) -> Estimate:
        """From values (B, 2 + M) of no player, all players and the coalitions."""
        single, paired, residuals, out_of_fold = self._fit(values)
        bivariate = OF_A_PAIR[self.index] * paired
        shapley = single + paired.sum(dim=2) / 2
        both, _, neither = self._coefficients(torch.tensor([0.0, self.n], dtype=torch.float64, device=self.z.device))
        bivariate = bivariate + (neither[0] * residuals[:, 0] + both[1] * residuals[:, 1])[:, None, None]
        shapley = shapley + ((residuals[:, 1] - residuals[:, 0]) / self.n)[:, None]
        m = self.n_enumerated
        known, z = residuals[:, 2 : 2 + m], self.z[:m]
        bivariate += _by_membership(z, self.both[:m] * known, -self.one[:m] * known, self.neither[:m] * known)
        shapley += _by_player(z, self.inside[:m] * known, -self.outside[:m] * known)
        found, phi, error, phi_error = self._sum_over_pairs(out_of_fold)
        bivariate += found
        bivariate.diagonal(dim1=1, dim2=2).zero_()
        zeros = torch.zeros_like(shapley)
        return Estimate(bivariate, shapley + phi, zeros, error, phi_error, zeros)

    def _sum_over_pairs(self, residuals: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the drawn pairs add to index and Shapley values, and the standard errors of both.

        Args:
            residuals: (B, 2 P) of the drawn coalitions and of their complements.
        """
        n_pairs, m = residuals.shape[1] // 2, self.n_enumerated
        a, b, z = slice(m, m + n_pairs), slice(m + n_pairs, None), self.z[m : m + n_pairs]
        r, s = residuals[:, :n_pairs], residuals[:, n_pairs:]
        terms = (
            self.both[a] * r + self.neither[b] * s,
            -self.one[a] * r - self.one[b] * s,
            self.neither[a] * r + self.both[b] * s,
        )
        gains = (self.inside[a] * r - self.outside[b] * s, self.inside[b] * s - self.outside[a] * r)
        found, squares = _by_membership(z, *terms), _by_membership(z, *(t**2 for t in terms))
        phi, phi_squares = _by_player(z, *gains), _by_player(z, *(g**2 for g in gains))
        error = _error(squares, found, n_pairs)
        error.diagonal(dim1=1, dim2=2).zero_()
        return found, phi, error, _error(phi_squares, phi, n_pairs)

    def _coefficients(self, sizes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """By size k, what the mean value of coalitions counts that hold both players, one (to subtract), or neither."""
        n, k = self.n, sizes
        outer, inner = (k * (k - 1)).clamp(min=1), ((n - k) * (n - k - 1)).clamp(min=1)
        k_or_1, rest_or_1 = k.clamp(min=1), (n - k).clamp(min=1)
        both = _choose(self.index, n / outer, 2 * (n - k + 1) / outer, _harmonic(k_or_1 - 1, n) / k_or_1)
        one = _choose(self.index, n / (k_or_1 * rest_or_1), 2 / k_or_1, _harmonic(k, n) / rest_or_1)
        neither = _choose(self.index, n / inner, 2 / rest_or_1, (k + 1) * _harmonic(k + 1, n) / inner)
        return both * (k >= 2), one * ((k >= 1) & (k <= n - 1)), neither * (k <= n - 2)

    def _features(self, z: Tensor) -> Tensor:
        ones = torch.ones_like(z[:, :1])
        if self.has_pairs:
            return torch.cat([ones, z, z[:, self.pairs[0]] * z[:, self.pairs[1]]], dim=1)
        return torch.cat([ones, z, z * ((z.sum(dim=1, keepdim=True) - 1) / self.n)], dim=1)

    def _fit(self, values: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Single effects (B, n), pair effects (B, n, n), residuals (B, 2 + M), drawn ones out of fold (B, 2 P)."""
        n, first = self.n, 2 + self.n_enumerated
        ends = torch.tensor([[0.0], [1.0]], dtype=self.z.dtype, device=self.z.device).expand(2, n)
        columns = self._features(torch.cat([ends, self.z]))
        weights = torch.cat([self.weights.mean().expand(2), self.weights])
        weights[0] = 0  # the value of no player counts little in the indices and is often far from all others
        weighted = columns * weights[:, None]
        n_pairs = (len(self.z) - self.n_enumerated) // 2
        fold = (torch.arange(2 * n_pairs, device=self.z.device) % max(1, n_pairs)) % N_FOLDS
        folds = [first + (fold == k).nonzero()[:, 0] for k in range(min(N_FOLDS, n_pairs) or 1)]
        normals = [weighted[rows].T @ columns[rows] for rows in folds]
        moments = [values[:, rows] @ weighted[rows] for rows in folds]
        normal = weighted[:first].T @ columns[:first] + sum(normals)
        moment = values[:, :first] @ weighted[:first] + sum(moments)
        out_of_fold, mean = values.new_zeros(len(values), 2 * n_pairs), torch.zeros_like(moment)
        for k, rows in enumerate(folds):
            kept = normal - normals[k]
            kept.diagonal().add_(1e-9 * kept.diagonal().mean())
            solution = torch.cholesky_solve((moment - moments[k]).T, torch.linalg.cholesky(kept)).T
            out_of_fold[:, rows - first] = values[:, rows] - solution @ columns[rows].T
            mean += solution / len(folds)
        paired = values.new_zeros(len(values), n, n)
        if self.has_pairs:
            paired[:, self.pairs[0], self.pairs[1]] = mean[:, n + 1 :]
            paired = paired + paired.mT
        else:
            slopes = mean[:, n + 1 :] / n
            paired = slopes[:, :, None] + slopes[:, None, :]
            paired.diagonal(dim1=1, dim2=2).zero_()
        return mean[:, 1 : n + 1], paired, values - mean @ columns.T, out_of_fold


def _by_membership(z: Tensor, both: Tensor, one: Tensor, neither: Tensor) -> Tensor:
    """Sums over coalitions (B, n, n) of a number (B, K) that depends on which of two players are in the coalition."""
    product = both - 2 * one + neither
    grams = [(weight[:, None] * z).T @ z for weight in product]
    gram = torch.stack(grams) if grams else z.new_zeros(0, z.shape[1], z.shape[1])
    linear = (one - neither) @ z
    found = gram + linear[:, :, None] + linear[:, None, :] + neither.sum(dim=1)[:, None, None]
    return (found + found.mT) / 2  # rounding is not symmetric


def _by_player(z: Tensor, inside: Tensor, outside: Tensor) -> Tensor:
    """Sums over coalitions (B, n) of a number (B, K) that depends on whether a player is in the coalition."""
    return (inside - outside) @ z + outside.sum(dim=1, keepdim=True)


def _error(squares: Tensor, sums: Tensor, n_draws: int) -> Tensor:
    if n_draws == 0:  # all coalitions are enumerated
        return torch.zeros_like(sums)
    return ((squares - sums**2 / n_draws).clamp(min=0) * n_draws / max(1, n_draws - 1)).sqrt()


@dataclass(frozen=True)
class _FromLeaves:
    """Exact values of tree ensembles."""

    name: Index
    is_exact: ClassVar[bool] = True

    def minimum_evaluations(self, n_players: int) -> int:
        return 0

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        sums = InteractionSum(self.name, game.n_samples, game.n_players, game.device)
        add_leaves(game, sums)
        return sums.estimate()


class InteractionSum:
    """An index of sums of conjunctions in closed form, one sum for each of B samples over n players.

    A conjunction of p present and m absent players is ``v q^p (1 - q)^m`` if every player is present with probability
    q, so its second derivatives integrate to beta functions.

    Args:
        index: which index.
        n_samples: B.
        n_players: n.
        device: where the sums are kept.

    Example:
        >>> both = InteractionSum("shapley_taylor", 1, 3)  # worth 1 if players 0 and 2 are present
        >>> both.add(torch.tensor([0]), torch.tensor([1.0]), torch.tensor([[0, 4]]))
        >>> both.estimate().bivariate[0, 0]
        tensor([0., 0., 1.], dtype=torch.float64)
    """

    def __init__(self, index: Index, n_samples: int, n_players: int, device: torch.device | None = None) -> None:
        self.index, self._shape = index, (n_samples, n_players)
        self._shapley = torch.zeros(n_samples * n_players, dtype=torch.float64, device=device)
        self._pairs = self._shapley.new_zeros(n_samples * n_players**2)
        self._scale = self._shapley.new_zeros(n_samples)

    def add(self, samples: Tensor, values: Tensor, literals: Tensor) -> None:
        """Add conjunctions.

        Args:
            samples: (M,) int64, the sample that each one belongs to.
            values: (M,) float64, its value.
            literals: (M, W) integers, a player at most once: 2 k if player k must be present, 2 k + 1 if it must be
                absent, -1 to fill up.
        """
        literals = literals.sort(dim=1, descending=True).values
        lengths = (literals >= 0).sum(dim=1)
        for length in range(1, literals.shape[1] + 1):
            rows = (lengths == length).nonzero()[:, 0]
            for part in rows.split(max(1, PAIRS_AT_ONCE // length**2)):
                self._add_equally_long(samples[part], values[part].double(), literals[part, :length].long())

    def _add_equally_long(self, samples: Tensor, values: Tensor, literals: Tensor) -> None:
        n, length = self._shape[1], literals.shape[1]
        players, absent = literals >> 1, literals & 1
        n_absent = absent.sum(dim=1, keepdim=True)
        signs = (1 - 2 * absent).double() * values[:, None]
        gain = values.new_tensor([1 / (length * math.comb(length - 1, k)) for k in range(length)])
        rows = samples[:, None] * n + players
        self._shapley.index_add_(0, rows.flatten(), (signs * gain[n_absent - absent]).flatten())
        self._scale.index_add_(0, samples, values.abs())
        if length == 1:
            return
        # By the number of absent players beside the two: beta functions of the numbers beside them, plus one.
        interaction = values.new_tensor([1 / ((length - 1) * math.comb(length - 2, k)) for k in range(length - 1)])
        taylor = values.new_tensor([2 / (length * math.comb(length - 1, k + 1)) for k in range(length - 1)])
        ranks = torch.arange(length - 1, dtype=torch.float64, device=values.device)
        meta = values.new_tensor([1 / (length * math.comb(length - 1, k)) for k in range(length - 1)])
        weight = _choose(self.index, interaction, taylor, meta * _harmonic(length - ranks - 1, length))
        beside = n_absent[:, :, None] - absent[:, :, None] - absent[:, None, :]
        terms = signs[:, :, None] * (1 - 2 * absent)[:, None, :] * weight[beside.clamp(0, length - 2)]
        pairs = rows[:, :, None] * n + players[:, None, :]
        self._pairs.index_add_(0, pairs.flatten(), terms.flatten())

    def estimate(self) -> Estimate:
        """The index of all that has been added."""
        shapley, bivariate = self._shapley.view(self._shape), self._pairs.view(*self._shape, -1).clone()
        bivariate.diagonal(dim1=1, dim2=2).zero_()
        least = ROUNDING * self._scale[:, None]
        shapley = shapley.masked_fill(shapley.abs() <= least, 0)
        return _exact(bivariate.masked_fill(bivariate.abs() <= least[:, :, None], 0), shapley)
