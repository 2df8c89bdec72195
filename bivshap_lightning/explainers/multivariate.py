"""Multivariate Shapley values E^k: the importance of a player when all players of a set are present.

The paper's appendix extends E2 to sets: ``E[i | J]`` counts the gain of i in a random order only if all of J come
before it. With one player in J it is ``E2[i, j]``, with none the Shapley value. Tree ensembles are solved in closed
form, small games by enumeration, others by random orders in antithetic pairs, whose rows serve all sets at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from scipy.stats import t as student_t
from torch import Tensor

from bivshap_lightning.explainers.estimator import default_coalitions
from bivshap_lightning.explainers.null_players import ReducedGame
from bivshap_lightning.explainers.trees import add_leaves
from bivshap_lightning.game import Game
from bivshap_lightning.game.coalitions import all_coalitions
from bivshap_lightning.game.model import global_rngs_kept

Method = Literal["auto", "exact", "trees", "sampling"]
# The most players that are enumerated, and the most sets that "all sets of a size" may mean.
EXACT_LIMIT, MOST_SETS = 16, 100_000
# Elements of the tensors over orders, players and sets that are held at once.
BLOCK_ELEMENTS = 2**24


@dataclass(frozen=True, eq=False)
class MultivariateExplanation:
    """Values ``E[i | J]`` of a batch.

    Attributes:
        values: (B, F, N) importance of player i when all of set J are present; 0 for members of J.
        standard_error: (B, F, N), zero when exact.
        sets: the N sets J, as sorted tuples of players.
        n_evaluations: (B,) model rows spent on each sample.
        target: (B,) the class or value that was explained.
        method: "exact", "trees" or "sampling".
        seed: seed of the orders; exact methods ignore it.
        behavior: what was read off the model.
        removal: what replaced absent players.

    Example:
        >>> game = Game(lambda x: x.amax(dim=1), torch.ones(1, 3), behavior="output")
        >>> multivariate_shapley(game, [[], [1]]).given([1])
        tensor([[0., 0., 0.]])
    """

    values: Tensor
    standard_error: Tensor
    sets: tuple[tuple[int, ...], ...]
    n_evaluations: Tensor
    target: Tensor
    method: str
    seed: int
    behavior: str
    removal: str

    def __repr__(self) -> str:
        n_samples, n_players, n_sets = self.values.shape
        return (
            f"MultivariateExplanation({n_samples} samples, {n_players} players, {n_sets} sets, method={self.method!r})"
        )

    @property
    def is_exact(self) -> bool:
        """Whether the values are free of sampling error."""
        return self.method != "sampling"

    def given(self, players: Collection[int]) -> Tensor:
        """(B, F) importance of every player when all of a set are present.

        Raises:
            KeyError: the set was not asked for.
        """
        wanted = tuple(sorted(players))
        if wanted not in self.sets:
            raise KeyError(f"`players` must be one of the {len(self.sets)} sets that were explained, got {wanted}.")
        return self.values[:, :, self.sets.index(wanted)]


def multivariate_shapley(
    game: Game,
    sets: Sequence[Collection[int]] | int,
    *,
    method: Method = "auto",
    n_evaluations: int | None = None,
    seed: int = 0,
) -> MultivariateExplanation:
    """Importance of every player when all players of a set are present.

    Args:
        game: the game.
        sets: the sets J, as collections of player numbers; or a number k - 1, for all sets of that size.
        method: "trees" (closed form), "exact" (enumeration), "sampling" (orders), or "auto" for the first that works.
        n_evaluations: at most this many model rows per sample; None for the default of bivariate Shapley values.
        seed: seed of the orders.

    Raises:
        ValueError: a set is wrong, or the method cannot be used with so many players or so few evaluations.

    Example:
        >>> game = Game(lambda x: x.prod(dim=1), torch.ones(1, 3), behavior="output")
        >>> multivariate_shapley(game, 2).values[0]
        tensor([[0.0000, 0.0000, 0.3333],
                [0.0000, 0.3333, 0.0000],
                [0.3333, 0.0000, 0.0000]])
    """
    if game.n_players < 2:
        raise ValueError("`game` must have at least two players, got 1. Split it by `feature_mask`.")
    chosen = _checked_sets(game.n_players, sets)
    if method not in get_args(Method):
        raise ValueError(f"`method` must be one of {get_args(Method)}, got {method!r}.")
    n, n_rows = game.n_players, game.removal.n_rows
    n_coalitions = default_coalitions(n) if n_evaluations is None else n_evaluations // n_rows
    if method == "auto":
        method = "trees" if game.has_trees else "exact" if n <= EXACT_LIMIT and 2**n <= n_coalitions else "sampling"
    _check_cost(method, n, n_coalitions if n_evaluations is not None else None, n_rows, n_evaluations)
    members = torch.zeros(len(chosen), n, dtype=torch.bool)
    for row, players in enumerate(chosen):
        members[row, list(players)] = True
    members = members.to(game.device)
    if method == "trees":
        game.trees()  # read and checked once per game, so the few rows of the check are not part of an explanation
    before = game.n_evaluations
    with global_rngs_kept([game.device]):
        if method == "trees":
            values = _from_leaves(game, members)
            errors = torch.zeros_like(values)
        elif method == "exact":
            values = _from_all_coalitions(game, members)
            errors = torch.zeros_like(values)
        else:
            values, errors = _from_orders(game, members, n_coalitions, seed)
    return MultivariateExplanation(
        values=values.to(game.dtype),
        standard_error=errors.to(game.dtype),
        sets=chosen,
        n_evaluations=game.n_evaluations - before,
        target=game.target,
        method=method,
        seed=seed,
        behavior=game.behavior.label,
        removal=game.removal.description,
    )


def _checked_sets(n_players: int, sets: Sequence[Collection[int]] | int) -> tuple[tuple[int, ...], ...]:
    if isinstance(sets, int):
        if not 0 <= sets < n_players or math.comb(n_players, sets) > MOST_SETS:
            raise ValueError(
                f"`sets` must be a size from 0 to {n_players - 1} with at most {MOST_SETS} sets, got {sets}. Pass the "
                "sets themselves."
            )
        return tuple(itertools.combinations(range(n_players), sets))
    chosen = tuple(tuple(sorted(players)) for players in sets)
    if not chosen:
        raise ValueError("`sets` must hold at least one set of players, got none.")
    for players in chosen:
        if len(set(players)) < len(players) or not all(0 <= k < n_players for k in players):
            raise ValueError(f"`sets` must hold sets of players from 0 to {n_players - 1}, got {players}.")
    return chosen


def _check_cost(method: str, n_players: int, n_coalitions: int | None, n_rows: int, given: int | None) -> None:
    if method == "exact" and n_players > EXACT_LIMIT:
        raise ValueError(
            f"`method='exact'` must have at most {EXACT_LIMIT} players, got {n_players}. Use method='sampling', or "
            "group players by `feature_mask`."
        )
    least = {"exact": 1 << n_players, "sampling": 4 * (n_players - 1) + 2}.get(method, 0)
    if n_coalitions is not None and n_coalitions < least:
        raise ValueError(f"`n_evaluations` must be at least {least * n_rows} for method={method!r}, got {given}.")


def _from_all_coalitions(game: Game, members: Tensor) -> Tensor:
    """Values (B, F, N) from all coalitions."""
    n = game.n_players
    values = game(all_coalitions(n, game.device)[None]).double()
    others = all_coalitions(n - 1, game.device)
    weights = values.new_tensor([1 / (n * math.comb(n - 1, s)) for s in range(n)])[others.sum(dim=1)]
    found = values.new_zeros(len(values), n, len(members))
    for i in range(n):
        with_i = values.view(len(values), -1, 2, 2**i)
        gains = (with_i[:, :, 1] - with_i[:, :, 0]).flatten(1)
        without_i = torch.cat([members[:, :i], members[:, i + 1 :]], dim=1)
        # A set is present if none of its members is missing.
        present = (~others).double() @ without_i.double().T == 0
        found[:, i] = gains @ (weights[:, None] * (present & ~members[:, i]))
    return found


def _from_orders(game: Game, members: Tensor, n_coalitions: int, seed: int) -> tuple[Tensor, Tensor]:
    """Values (B, F, N) and standard errors from orders in antithetic pairs.

    As in ``paper_sampling``, the spread is widened to Student's t, and 3 / m of the largest gain is added for what m
    pairs of orders did not show.
    """
    n, device = game.n_players, game.device
    n_pairs = (n_coalitions - 2) // (2 * (n - 1))
    generator = torch.Generator(device=device).manual_seed(seed)
    positions = torch.rand(n_pairs, n, generator=generator, device=device).argsort(dim=1).argsort(dim=1)
    ends = game(torch.tensor([[False], [True]], device=device).expand(2, n)[None]).double()
    sums = squares = torch.zeros((), dtype=torch.float64, device=device)
    largest = torch.zeros(game.n_samples, dtype=torch.float64, device=device)
    for part in positions.split(max(1, BLOCK_ELEMENTS // (n * max(n, len(members) * game.n_samples)))):
        halves = []
        for order in (part, n - 1 - part):
            gains = _gains(game, order, ends)
            largest = torch.maximum(largest, gains.abs().amax(dim=(1, 2)))
            last = order[:, None].masked_fill(~members, -1).amax(dim=2)  # place of the last member of each set
            counted = (last[:, None, :] < order[:, :, None]).double()
            halves.append(gains[..., None] * counted / 2)
        pair = halves[0] + halves[1]
        sums, squares = sums + pair.sum(dim=1), squares + (pair**2).sum(dim=1)
    mean = sums / n_pairs
    widening = float(student_t.ppf(0.975, n_pairs - 1)) / 1.96
    spread = (squares / n_pairs - mean**2).clamp(min=0) / (n_pairs - 1)
    unseen = (3 / 1.96 / 2 * largest / n_pairs)[:, None, None]
    error = (widening**2 * spread + unseen**2).sqrt()
    known = game.null_players[:, :, None] | members.T
    return mean, error.masked_fill(known, 0)


def _gains(game: Game, positions: Tensor, ends: Tensor) -> Tensor:
    """Gains (B, orders, F) of every player in orders (orders, F), given the values (B, 2) of no and of all players."""
    n_orders, n = positions.shape
    steps = torch.arange(1, n, device=game.device)
    prefixes = positions[:, None] < steps[:, None]
    inner = game(prefixes.flatten(0, 1)[None]).double().unflatten(1, (n_orders, n - 1))
    first, last = (end[:, None, None].expand(-1, n_orders, 1) for end in ends.T)
    values = torch.cat([first, inner, last], dim=2)
    return values.diff(dim=2).gather(2, positions.expand(len(values), -1, -1))


def _from_leaves(game: Game, members: Tensor) -> Tensor:
    """Values (B, F, N) of a tree ensemble."""
    reduced = ReducedGame(game)
    places = reduced.places
    sums = _SetSum(members, places.expand(game.n_samples, -1), reduced.n_players)
    add_leaves(reduced, sums)
    found = sums.values.view(game.n_samples, reduced.n_players, -1)
    index = places.expand(game.n_samples, -1).clamp(min=0)[:, :, None].expand(-1, -1, len(members))
    whole = found.gather(1, index)
    return whole.masked_fill(game.null_players[:, :, None] | members.T, 0)


class _SetSum:
    """Sums of conjunctions, each worth v where all of P are present and all of M absent, in closed form.

    With q the probability of being present, ``E[i | J]`` is the integral of ``q^|J|`` times the derivative by player i
    with all of J present: 0 if J meets M, and otherwise ``v B(|J| + |P - J - i| + 1, |M| + 1)`` for i in P, minus
    ``v B(|J| + |P - J| + 1, |M|)`` for i in M.
    """

    def __init__(self, members: Tensor, places: Tensor, n_players: int) -> None:
        n_samples, self.n = len(places), n_players
        self.set_sizes = members.sum(dim=1)
        # Members of each set among the remaining players of each sample, and a last column for empty literals.
        self.reduced = members.new_zeros(n_samples, len(members), n_players + 2)
        index = torch.where(places >= 0, places, n_players + 1)[:, None].expand(-1, len(members), -1)
        self.reduced.scatter_(2, index, members.expand(n_samples, -1, -1))
        self.reduced[:, :, n_players:] = False
        self.values = torch.zeros(n_samples * n_players, len(members), dtype=torch.float64, device=members.device)

    def add(self, samples: Tensor, values: Tensor, literals: Tensor) -> None:
        """Add conjunctions, see :meth:`~bivshap_lightning.explainers.conjunctions.ConjunctionSum.add`."""
        width = max(1, BLOCK_ELEMENTS // (literals.shape[1] * max(1, self.values.shape[1])))
        for s, v, x in zip(samples.split(width), values.split(width), literals.long().split(width), strict=True):
            self._add(s, v.double(), x)

    def _add(self, samples: Tensor, values: Tensor, literals: Tensor) -> None:
        is_used, is_absent = literals >= 0, (literals & 1 == 1) & (literals >= 0)
        players = torch.where(is_used, literals >> 1, self.n)
        n_sets = self.values.shape[1]
        in_set = self.reduced[samples].gather(2, players[:, None].expand(-1, n_sets, -1))  # (M, N, W)
        is_possible = ~(in_set & is_absent[:, None]).any(dim=2)
        n_absent = is_absent.sum(dim=1)[:, None, None]
        n_free = ((is_used & ~is_absent)[:, None] & ~in_set).sum(dim=2, keepdim=True)  # |P - J|
        exponent = self.set_sizes[:, None] + n_free - (~is_absent)[:, None].long()
        rest = n_absent - is_absent[:, None].long()
        a, b = (exponent + 1).clamp(min=1).double(), (rest + 1).double()
        beta = torch.exp(torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b))
        signs = torch.where(is_absent, -1.0, 1.0) * values[:, None]
        counts = is_possible[:, :, None] & is_used[:, None] & ~in_set
        terms = torch.where(counts, signs[:, None] * beta, 0)
        rows = samples[:, None] * self.n + players.clamp(max=self.n - 1)
        self.values.index_add_(0, rows.flatten(), terms.mT.flatten(0, 1))
