"""Multivariate Shapley values against enumeration, bivariate values and each other."""

import itertools
import math

import numpy as np
import pytest
import torch
from lightgbm import LGBMRegressor
from sklearn.ensemble import RandomForestClassifier

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers.multivariate import multivariate_shapley
from bivshap_lightning.game.trees import UnsupportedTreesError
from tests.oracles import Unanimity, Value, table_model, table_value

SETS = [(), (0,), (3,), (1, 2), (0, 4), (0, 1, 3), (1, 2, 3, 4)]


def enumerated(value: Value, n: int, given: tuple[int, ...]) -> np.ndarray:
    """By definition, one coalition at a time."""
    found = np.zeros(n)
    for i in set(range(n)) - set(given):
        others = [k for k in range(n) if k != i]
        for size in range(n):
            for rest in itertools.combinations(others, size):
                if set(given) <= set(rest):
                    weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
                    found[i] += weight * (value(frozenset(rest) | {i}) - value(frozenset(rest)))
    return found


def table_game(n: int = 5) -> tuple[Game, Value]:
    table = np.random.default_rng(0).normal(size=2**n)
    return Game(table_model(table), torch.ones(1, n, dtype=torch.float64), behavior="output"), table_value(table)


def test_exact_values_equal_enumeration():
    game, value = table_game()
    explanation = multivariate_shapley(game, SETS)
    assert (explanation.method, explanation.is_exact) == ("exact", True)
    for players in SETS:
        np.testing.assert_allclose(explanation.given(players)[0], enumerated(value, 5, players), atol=1e-12)
    assert explanation.standard_error.eq(0).all()
    assert explanation.n_evaluations.tolist() == [2**5]


@pytest.mark.parametrize("size", [0, 1, 2, 4])
def test_all_sets_of_a_size(size):
    game, value = table_game()
    explanation = multivariate_shapley(game, size)
    assert explanation.sets == tuple(itertools.combinations(range(5), size))
    for players in explanation.sets:
        np.testing.assert_allclose(explanation.given(players)[0], enumerated(value, 5, players), atol=1e-12)


@pytest.mark.parametrize("method", ["exact", "sampling"])
def test_sets_of_one_give_bivariate_and_of_none_univariate_values(method):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3)).double()
    inputs = torch.randn(3, 6, dtype=torch.float64)
    inputs[1, 2:4] = 0  # null players, in sets as well
    game = Game(model, inputs)
    ours = BivariateShapley(model, "exact").explain(game)
    pairs = multivariate_shapley(game, 1, method=method, n_evaluations=60_000)
    single = multivariate_shapley(game, 0, method=method, n_evaluations=60_000)
    tolerance = 1e-12 if method == "exact" else 0.01
    torch.testing.assert_close(pairs.values, ours.bivariate, atol=tolerance, rtol=0)
    torch.testing.assert_close(single.values[..., 0], ours.shapley, atol=tolerance, rtol=0)
    assert pairs.values[1, 2:4].eq(0).all()
    assert pairs.standard_error[1, 2:4].eq(0).all()


def test_null_players_in_a_set():
    table = np.random.default_rng(1).normal(size=2**4)
    model = table_model(table)
    inputs = torch.tensor([[1, 0, 1, 1, 0, 1]], dtype=torch.float64)
    game = Game(lambda x: model(x[:, [0, 2, 3, 5]]), inputs, behavior="output")
    kept = {0: 0, 2: 1, 3: 2, 5: 3}

    def value(s: frozenset[int]) -> float:
        return table_value(table)(frozenset(kept[k] for k in s if k in kept))

    for players in [(1,), (1, 4), (0, 1, 4), (2, 3, 4)]:
        found = multivariate_shapley(game, [players]).given(players)[0]
        np.testing.assert_allclose(found, enumerated(value, 6, players), atol=1e-12)


@pytest.mark.parametrize("kind", ["forest", "boosted"])
@pytest.mark.parametrize("background", [None, 3])
def test_trees_equal_enumeration(kind, background):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 7))
    y = x[:, 0] * x[:, 1] + np.maximum(x[:, 2], x[:, 3]) * x[:, 4]
    if kind == "forest":
        model = RandomForestClassifier(12, max_depth=6, random_state=0).fit(x, y > 0)
        behavior = "probability"
    else:
        model = LGBMRegressor(n_estimators=15, num_leaves=12, verbosity=-1, random_state=0).fit(x, y)
        behavior = "output"
    samples = x[10:13].copy()
    samples[1, :2] = x[5, :2]  # null players of one sample
    how = {"baselines": x[5]} if background is None else {"background": x[:background]}
    game = Game(model, samples, behavior=behavior, **how)
    sets = [(), (0,), (6,), (0, 1), (2, 3, 4), (0, 1, 2, 3, 4, 5)]
    leaves, rows = (multivariate_shapley(game, sets, method=method) for method in ("auto", "exact"))
    assert leaves.method == "trees"
    assert leaves.n_evaluations.eq(0).all()
    torch.testing.assert_close(leaves.values, rows.values, atol=1e-6 if kind == "boosted" else 1e-9, rtol=0)
    assert rows.values.abs().max() > 0.01


def test_orders_converge_and_their_errors_cover():
    game = Unanimity(9, n_terms=25, seed=1)
    inputs = torch.ones(1, 9, dtype=torch.float64)
    sets = [(), (0,), (1, 2), (3, 4, 5)]
    truth = multivariate_shapley(Game(game, inputs, behavior="output"), sets).values
    off = ~torch.stack([torch.tensor([k in s for k in range(9)]) for s in sets], dim=1)
    errors, z = {}, []
    for n_evaluations in (100, 400):
        squares = []
        for seed in range(12):
            found = multivariate_shapley(
                Game(game, inputs, behavior="output"), sets, method="sampling", n_evaluations=n_evaluations, seed=seed
            )
            assert int(found.n_evaluations) <= n_evaluations
            difference = (found.values - truth)[0][off]
            squares.append((difference**2).mean())
            z.append(difference / found.standard_error[0][off])
        errors[n_evaluations] = float(torch.stack(squares).mean().sqrt())
    assert errors[400] < 0.65 * errors[100]
    assert float((torch.cat(z).abs() < 1.96).double().mean()) > 0.93


def test_sampling_does_not_depend_on_blocks(monkeypatch):
    game, _ = table_game()
    whole = multivariate_shapley(game, SETS, method="sampling", n_evaluations=500, seed=3)
    monkeypatch.setattr("bivshap_lightning.explainers.multivariate.BLOCK_ELEMENTS", 64)
    parts = multivariate_shapley(game, SETS, method="sampling", n_evaluations=500, seed=3)
    torch.testing.assert_close(parts.values, whole.values)
    torch.testing.assert_close(parts.standard_error, whole.standard_error)
    assert int(parts.n_evaluations) <= 500


def test_results_carry_their_provenance(global_rng_untouched):
    game, _ = table_game()
    found = multivariate_shapley(game, [{2, 0}], method="sampling", n_evaluations=60, seed=7)
    assert repr(found) == "MultivariateExplanation(1 samples, 5 players, 1 sets, method='sampling')"
    assert (found.sets, found.seed, found.behavior, found.is_exact) == (((0, 2),), 7, "output", False)
    with pytest.raises(KeyError, match=r"must be one of the 1 sets that were explained, got \(1,\)"):
        found.given([1])


def test_wrong_arguments_raise():
    game, _ = table_game()
    for sets, got in (([(0, 5)], r"\(0, 5\)"), ([(1, 1)], r"\(1, 1\)")):
        with pytest.raises(ValueError, match=rf"`sets` must hold sets of players from 0 to 4, got {got}"):
            multivariate_shapley(game, sets)
    with pytest.raises(ValueError, match="`sets` must hold at least one set of players, got none"):
        multivariate_shapley(game, [])
    with pytest.raises(ValueError, match=r"`sets` must be a size from 0 to 4 .*got 5"):
        multivariate_shapley(game, 5)
    with pytest.raises(ValueError, match=r"`method` must be one of .*, got 'kernel'"):
        multivariate_shapley(game, 1, method="kernel")
    with pytest.raises(ValueError, match=r"`n_evaluations` must be at least 32 for method='exact', got 31"):
        multivariate_shapley(game, 1, method="exact", n_evaluations=31)
    with pytest.raises(ValueError, match=r"`n_evaluations` must be at least 18 for method='sampling', got 17"):
        multivariate_shapley(game, 1, method="sampling", n_evaluations=17)
    with pytest.raises(UnsupportedTreesError, match="`model` must"):
        multivariate_shapley(game, 1, method="trees")
    lone = Game(lambda x: x.sum(dim=1), torch.ones(1, 1), behavior="output")
    with pytest.raises(ValueError, match="`game` must have at least two players, got 1"):
        multivariate_shapley(lone, 0)
    many = Game(lambda x: x.sum(dim=1), torch.ones(1, 17), behavior="output")
    with pytest.raises(ValueError, match="`method='exact'` must have at most 16 players, got 17"):
        multivariate_shapley(many, 1, method="exact")
