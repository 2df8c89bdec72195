"""The asymmetric interaction value of Lu et al. 2023: symmetric by definition, it is Shapley interaction."""

import itertools

import numpy as np
import pytest
import torch

from bivshap_lightning import Game
from bivshap_lightning.explainers import find_explainer
from tests.oracles import Value, table_model, table_value

N = 5


def by_definition(value: Value, n: int) -> np.ndarray:
    """The mean over all orders: players before i, j left out; the gain of i with j less that without."""
    found = np.zeros((n, n))
    orders = list(itertools.permutations(range(n)))
    for order in orders:
        for i, j in itertools.permutations(range(n), 2):
            s = frozenset(order[: order.index(i)]) - {j}
            found[i, j] += value(s | {i, j}) - value(s | {j}) - value(s | {i}) + value(s)
    return found / len(orders)


def game_of(table: np.ndarray, n_samples: int = 1) -> Game:
    return Game(table_model(table), torch.ones(n_samples, N, dtype=torch.float64), behavior="output")


def test_its_definition_is_symmetric_and_the_shapley_interaction_index():
    table = np.random.default_rng(0).normal(size=2**N)
    found = by_definition(table_value(table), N)
    np.testing.assert_allclose(found, found.T, atol=1e-12)
    interaction = find_explainer("shapley_interaction").explain(game_of(table)).bivariate[0]
    np.testing.assert_allclose(found, interaction, atol=1e-12)


def test_estimates_are_unbiased_their_errors_cover_and_asymmetry_is_noise():
    table = np.random.default_rng(1).normal(size=2**N)
    truth = find_explainer("shapley_interaction").explain(game_of(table)).bivariate[0]
    off, z, asymmetry = ~torch.eye(N, dtype=torch.bool), [], []
    for seed in range(40):
        found = find_explainer("asiv").explain(game_of(table), 2000, seed)
        error = found.standard_error[0]
        z.append(((found.bivariate[0] - truth) / error)[off])
        asymmetry.append((found.bivariate[0] - found.bivariate[0].T)[off])
    z, asymmetry = torch.cat(z), torch.stack(asymmetry)
    assert 0.9 < float((z.abs() < 1.96).double().mean()) < 0.98
    assert asymmetry.abs().mean() > 0.01  # a graph of it shows directions,
    assert float((asymmetry.mean(dim=0) / (asymmetry.std(dim=0) / 40**0.5)).abs().max()) < 4  # which are none


def test_shapley_values_come_from_the_same_orders():
    table = np.random.default_rng(2).normal(size=2**N)
    exact = find_explainer("exact").explain(game_of(table))
    found = find_explainer("asiv").explain(game_of(table), 40_000)
    error = found.shapley_standard_error[0]
    assert ((found.shapley[0] - exact.shapley[0]).abs() < 4 * error).all()
    assert error.max() < 0.1


def test_two_orders_are_the_least():
    game = Game(lambda x: x.prod(dim=1), torch.ones(1, 20), behavior="output")
    with pytest.raises(ValueError, match=r"at least 1600 for method='asiv' with 20 non-null players, got 1599"):
        find_explainer("asiv").explain(game, 1599)
    assert int(find_explainer("asiv").explain(game, 1600).n_evaluations) <= 1600


def test_a_single_player_that_is_not_null():
    game = Game(lambda x: x.sum(dim=1), torch.tensor([[1.0, 0.0]]), behavior="output")
    explanation = find_explainer("asiv").explain(game)
    assert explanation.shapley.tolist() == [[1.0, 0.0]]
    assert explanation.bivariate.eq(0).all()
