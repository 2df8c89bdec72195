"""Theorem 1 and its corollary: bounds by brute force, on random and on monotone games."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning import Game
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.explainers.theory import (
    is_monotone,
    largest_changes,
    transitivity_bound,
    transitivity_violations,
)
from tests.oracles import enumerate_e2, table_model, table_value


def table_game(table: np.ndarray) -> Game:
    n = int(np.log2(len(table)))
    return Game(table_model(table), torch.ones(1, n, dtype=torch.float64), behavior="output")


def brute_changes(table: np.ndarray) -> np.ndarray:
    n, value = int(np.log2(len(table))), table_value(table)
    found = np.zeros((n, n))
    for i, j in itertools.permutations(range(n), 2):
        rest = [k for k in range(n) if k not in (i, j)]
        sets = [frozenset(s) | {j} for size in range(n - 1) for s in itertools.combinations(rest, size)]
        found[i, j] = max(abs(value(s | {i}) - value(s)) for s in sets)
    return found


def monotone_table(n: int, seed: int, *, levels: int = 0) -> np.ndarray:
    """Each value is at least that of every smaller coalition; with few levels many gains are exactly zero."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=2**n) if not levels else rng.integers(0, levels, size=2**n).astype(float)
    for s in range(2**n):
        for k in range(n):
            if s >> k & 1:
                table[s] = max(table[s], table[s ^ (1 << k)])
    return table


@pytest.mark.parametrize("n", [2, 3, 5])
def test_largest_changes_equal_enumeration(n):
    table = np.random.default_rng(n).normal(size=2**n)
    np.testing.assert_allclose(largest_changes(table_game(table))[0], brute_changes(table))


@given(st.integers(2, 5), st.integers(0, 10_000))
def test_the_theorem_holds(n, seed):
    table = np.random.default_rng(seed).normal(size=2**n)
    e2, bound = np.abs(enumerate_e2(table_value(table), n)), transitivity_bound(table_game(table))
    assert (e2 <= bound.direct[0].numpy() + 1e-12).all()
    assert (e2 <= bound.chained[0].numpy() + 1e-12).all()
    changes = brute_changes(table)
    for k, j in itertools.permutations(range(n), 2):
        chains = [(2 * changes[i, j] + changes[k, i]) / 2 for i in range(n) if i not in (k, j)]
        assert float(bound.chained[0, k, j]) == pytest.approx(min(chains, default=np.inf))


def test_the_bound_is_reached():
    """An additive game with equal effects: every weight is half of what a player changes."""
    game = Game(lambda x: x.sum(dim=1), torch.ones(1, 4, dtype=torch.float64), behavior="output")
    e2 = find_explainer("exact").explain(game).bivariate
    torch.testing.assert_close(transitivity_bound(game).direct, e2.abs())


@given(st.integers(3, 5), st.integers(0, 10_000))
def test_redundancy_at_zero_is_transitive_for_monotone_games(n, seed):
    table = monotone_table(n, seed, levels=3)
    game = table_game(table)
    assert is_monotone(game).tolist() == [True]
    e2 = torch.tensor(enumerate_e2(table_value(table), n))[None]
    e2[e2.abs() < 1e-12] = 0
    assert transitivity_violations(e2, gamma=0.0).tolist() == [0.0]


def test_the_corollary_is_not_empty():
    """Among the monotone games above there are chains of redundancy."""
    chains = 0
    for seed in range(40):
        e2 = enumerate_e2(table_value(monotone_table(4, seed, levels=3)), 4)
        h = (np.abs(e2) < 1e-12).T & ~np.eye(4, dtype=bool)
        chains += int(((h.astype(int) @ h.astype(int) > 0) & ~np.eye(4, dtype=bool)).sum())
    assert chains > 50


def test_games_that_are_not_monotone_can_violate_it():
    """b cancels within every coalition of the others: zero is no proof that a player changes nothing."""
    found = []
    for seed in range(300):
        table = np.random.default_rng(seed).integers(-1, 2, size=2**3).astype(float)
        if not bool(is_monotone(table_game(table))):
            e2 = torch.tensor(enumerate_e2(table_value(table), 3))[None]
            found.append(float(transitivity_violations(e2, gamma=1e-12)))
    assert max(found) > 0.1


def test_violations_equal_a_loop_over_chains():
    e2 = torch.tensor(np.random.default_rng(0).normal(size=(3, 6, 6)))
    e2.diagonal(dim1=1, dim2=2).zero_()
    found = transitivity_violations(e2, gamma=0.5)
    for b in range(3):
        w = e2[b].abs().T.numpy()
        worst = 0.0
        for j, i, k in itertools.permutations(range(6), 3):
            if w[j, i] <= 0.5 and w[i, k] <= 0.5:
                worst = max(worst, w[j, k] - 0.5)
        assert float(found[b]) == pytest.approx(worst)


def test_monotonicity_overlooks_a_tolerance():
    table = monotone_table(4, 0)
    table[15] -= 0.01 + table[15] - max(table[:15])
    game = table_game(table)
    assert is_monotone(game).tolist() == [False]
    assert is_monotone(game, tolerance=0.02).tolist() == [True]


def test_wrong_arguments_raise():
    game = Game(lambda x: x.sum(dim=1), torch.ones(1, 17), behavior="output")
    for function in (largest_changes, transitivity_bound, is_monotone):
        with pytest.raises(ValueError, match="`game` must have at most 16 players to be enumerated, got 17"):
            function(game)
    with pytest.raises(ValueError, match=r"`bivariate` must have shape \(B, F, F\), got \(3, 3\)"):
        transitivity_violations(torch.zeros(3, 3), gamma=0.1)
