"""Symmetric second-order indices against shapiq, their definitions, closed forms and each other."""

import itertools
import math

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from bivshap_lightning import Explanation, Game
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.explainers.estimator import explain_without_null_players
from bivshap_lightning.explainers.rivals.second_order import _FromRows, index_weights
from bivshap_lightning.metrics import InsertionAUC, MutualRedundancyMasking
from tests.oracles import Unanimity, Value, enumerate_shapley, table_model, table_value

INDICES = ["shapley_interaction", "shapley_taylor", "shapley_excess", "metagame"]


def merged(value: Value, n: int, i: int, j: int) -> float:
    """The Shapley value of the pair as one player, by definition."""
    others = [k for k in range(n) if k not in (i, j)]

    def pair_is_last(s: frozenset[int]) -> float:
        members = frozenset(others[k] for k in s if k < n - 2)
        return value(members | ({i, j} if n - 2 in s else frozenset()))

    return enumerate_shapley(pair_is_last, n - 1)[n - 2]


def excess_by_definition(value: Value, n: int) -> np.ndarray:
    phi, excess = enumerate_shapley(value, n), np.zeros((n, n))
    for i, j in itertools.combinations(range(n), 2):
        excess[i, j] = excess[j, i] = merged(value, n, i, j) - phi[i] - phi[j]
    return excess


def shapiq_index(table: np.ndarray, name: str) -> np.ndarray:
    from shapiq import ExactComputer
    from shapiq import Game as ShapiqGame

    n = int(math.log2(len(table)))

    class Bridge(ShapiqGame):
        def value_function(self, coalitions: np.ndarray) -> np.ndarray:
            return table[(np.asarray(coalitions) * 2 ** np.arange(n)).sum(axis=1)]

    values = ExactComputer(game=Bridge(n_players=n, normalize=False), n_players=n)(name, order=2)
    matrix = np.zeros((n, n))
    for i, j in itertools.combinations(range(n), 2):
        matrix[i, j] = matrix[j, i] = values[(i, j)]
    return matrix


def closed_form(game: Unanimity, index: str) -> np.ndarray:
    found = np.zeros((game.n, game.n))
    for t, a in zip(game.sets, game.scales, strict=True):
        if len(t) > 1:
            interaction, taylor = a / (len(t) - 1), 2 * a / (len(t) * (len(t) - 1))
            values = {"shapley_interaction": interaction, "shapley_taylor": taylor, "metagame": a / len(t) ** 2}
            found[np.ix_(t, t)] += values.get(index, taylor - interaction)
    np.fill_diagonal(found, 0)
    return found


def explain(game: Unanimity, index: str, seed: int = 0, n_evaluations: int | None = None) -> Explanation:
    inputs = torch.ones(1, game.n, dtype=torch.float64)
    return find_explainer(index).explain(Game(game, inputs, behavior="output"), n_evaluations, seed)


def table_game(table: np.ndarray) -> Game:
    return Game(table_model(table), torch.ones(1, int(math.log2(len(table))), dtype=torch.float64), behavior="output")


@pytest.mark.parametrize(("index", "name"), [("shapley_interaction", "SII"), ("shapley_taylor", "STII")])
def test_enumeration_equals_shapiq(index, name):
    table = np.random.default_rng(0).normal(size=2**8)
    explanation = find_explainer(index).explain(table_game(table))
    np.testing.assert_allclose(explanation.bivariate[0], shapiq_index(table, name), atol=1e-12)
    np.testing.assert_allclose(explanation.shapley[0], enumerate_shapley(table_value(table), 8), atol=1e-12)
    assert explanation.n_evaluations.tolist() == [2**8]
    assert explanation.standard_error.eq(0).all()


@pytest.mark.parametrize("n", [2, 3, 7])
def test_excess_is_that_of_the_merged_pair(n):
    table = np.random.default_rng(n).normal(size=2**n)
    explanation = find_explainer("shapley_excess").explain(table_game(table))
    np.testing.assert_allclose(explanation.bivariate[0], excess_by_definition(table_value(table), n), atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_meta_attributions_by_definition(n):
    """The Shapley value of j in the game of the Shapley value that i has among the players of a coalition.

    They are symmetric, and with the share of i itself they add up to the Shapley value of i.
    """
    table = np.random.default_rng(n).normal(size=2**n)
    value = table_value(table)

    def of(i: int) -> np.ndarray:
        def attribution(coalition: frozenset[int]) -> float:
            return float(enumerate_shapley(lambda s: value(s & coalition), n)[i])

        return enumerate_shapley(attribution, n)

    expected = np.array([of(i) for i in range(n)])
    np.testing.assert_allclose(expected, expected.T, atol=1e-12)
    np.testing.assert_allclose(expected.sum(axis=1), enumerate_shapley(value, n), atol=1e-12)
    np.fill_diagonal(expected, 0)
    found = find_explainer("metagame").explain(table_game(table))
    np.testing.assert_allclose(found.bivariate[0], expected, atol=1e-12)


@pytest.mark.parametrize("index", INDICES)
def test_unanimity_games_in_closed_form(index):
    game = Unanimity(9, n_terms=20, seed=0)
    np.testing.assert_allclose(explain(game, index).bivariate[0], closed_form(game, index), atol=1e-12)


def test_weights_sum_to_what_an_isolated_pair_gets():
    for n in (2, 5, 9):
        counts = torch.tensor([math.comb(n - 2, s) for s in range(n - 1)], dtype=torch.float64)
        sums = [float(index_weights(index, n) @ counts) for index in INDICES]
        np.testing.assert_allclose(sums, [1, 1, 0, 1 / 4], atol=1e-12)


@pytest.mark.parametrize("index", INDICES)
def test_null_players_interact_with_nobody_and_change_nothing(index):
    table = np.random.default_rng(1).normal(size=2**5)
    model = table_model(table)
    inputs = torch.tensor([[1, 1, 0, 1, 1, 0, 1]], dtype=torch.float64)
    game = Game(lambda x: model(x[:, [0, 1, 3, 4, 6]]), inputs, behavior="output")
    explanation, alone = find_explainer(index).explain(game), find_explainer(index).explain(table_game(table))
    kept = [0, 1, 3, 4, 6]
    torch.testing.assert_close(explanation.bivariate[0][kept][:, kept], alone.bivariate[0])
    assert explanation.bivariate[0, [2, 5]].eq(0).all()
    assert explanation.bivariate[0, :, [2, 5]].eq(0).all()


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("background", [None, 3])
def test_trees_equal_enumeration(index, background):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 7))
    forest = RandomForestClassifier(15, max_depth=5, random_state=0).fit(x, (x[:, 0] * x[:, 1] + x[:, 2] > 0))
    how = {"baselines": x[5]} if background is None else {"background": x[:background]}
    game = Game(forest, x[10:14], **how)
    before = game.n_evaluations
    explainer = find_explainer(index)
    assert explainer.minimum_evaluations(game) == 0
    leaves = explainer.explain(game)
    assert leaves.is_exact
    assert int((game.n_evaluations - before).max()) <= 6  # the check of the trees
    rows = explain_without_null_players(_FromRows(index), game)
    torch.testing.assert_close(leaves.bivariate, rows.bivariate, atol=1e-9, rtol=0)
    torch.testing.assert_close(leaves.shapley, rows.shapley, atol=1e-9, rtol=0)
    assert rows.bivariate.abs().max() > 0.01


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("n_evaluations", [100, 340, 2000])
def test_estimates_are_unbiased_and_their_errors_cover(index, n_evaluations):
    """With the small fit (100, 340) and with pair effects (2,000), from nearly the smallest number on."""
    z, phi = [], []
    off = ~np.eye(18, dtype=bool)
    for seed in range(16):
        game = Unanimity(18, n_terms=50, seed=seed)
        explanation = explain(game, index, seed, n_evaluations)
        assert int(explanation.n_evaluations) <= n_evaluations
        error = (explanation.bivariate[0].numpy() - closed_form(game, index))[off]
        z.append(error / explanation.standard_error[0].numpy()[off])
        phi.append((explanation.shapley[0].numpy() - game.shapley) / explanation.shapley_standard_error[0].numpy())
    z, phi = np.concatenate(z), np.concatenate(phi)
    assert 0.9 < np.mean(np.abs(z) < 1.96) < 0.98
    assert abs(np.mean(z)) < 0.1
    assert np.mean(np.abs(phi) < 1.96) > 0.9


@pytest.mark.parametrize("index", INDICES)
def test_error_falls_with_evaluations(index):
    game = Unanimity(18, n_terms=50, seed=1)
    truth = closed_form(game, index)
    errors = [
        np.mean([np.square(explain(game, index, s, m).bivariate[0].numpy() - truth).mean() for s in range(6)]) ** 0.5
        for m in (400, 1600, 6400)
    ]
    assert errors[0] > 1.5 * errors[1] > 2 * errors[2]


def test_excess_is_taylor_less_interaction_also_when_estimated():
    game = Unanimity(20, n_terms=50, seed=1)
    interaction, taylor, excess = (explain(game, index, n_evaluations=900).bivariate for index in INDICES[:3])
    torch.testing.assert_close(excess, taylor - interaction)


@pytest.mark.parametrize("index", INDICES)
def test_many_players(index):
    """More players than pair effects can be fitted for, and sizes whose number of coalitions overflows."""
    explanation = explain(Unanimity(1100, n_terms=50, seed=1), index, n_evaluations=4500)
    assert torch.isfinite(explanation.bivariate).all()
    assert explanation.bivariate.equal(explanation.bivariate.mT)


@pytest.mark.parametrize("index", INDICES)
def test_they_are_judged_like_any_explanation(index):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    game = Game(model, torch.randn(3, 6))
    explanation = find_explainer(index).explain(game, seed=2)
    assert (explanation.method, explanation.seed) == (index, 2)
    for metric in (InsertionAUC(), MutualRedundancyMasking()):
        metric.update(game, explanation)
        assert all(torch.isfinite(value).all() for value in metric.compute().values())


def test_fewer_evaluations_than_the_minimum_raise():
    game = Unanimity(20, n_terms=50, seed=1)
    with pytest.raises(ValueError, match=r"at least 84 for method='shapley_taylor' with 20 non-null players, got 83"):
        explain(game, "shapley_taylor", n_evaluations=83)
    assert torch.isfinite(explain(game, "shapley_taylor", n_evaluations=84).standard_error).all()


@pytest.mark.parametrize("index", INDICES)
def test_a_design_of_all_coalitions_is_exact_without_enumeration(index):
    from bivshap_lightning.explainers.paper import draw_kernel_coalitions
    from bivshap_lightning.explainers.rivals.second_order import _Regression

    table = np.random.default_rng(3).normal(size=2**6)
    masks, weights, n_enumerated = draw_kernel_coalitions(6, 62, torch.Generator())
    assert n_enumerated == 62
    ends = torch.tensor([[False] * 6, [True] * 6])
    values = table_game(table)(torch.cat([ends, masks])[None])
    found = _Regression(index, masks.double(), weights, n_enumerated).estimate(values)
    truth = find_explainer(index).explain(table_game(table))
    torch.testing.assert_close(found.bivariate, truth.bivariate)
    torch.testing.assert_close(found.shapley, truth.shapley)
    assert found.bivariate_error.eq(0).all()
