"""The bivariate extension of explanation maps, against enumeration of the restricted games."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from bivshap_lightning import BivariateShapley, Explanation, Game
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.explainers.extension import RestrictedGame, bivariate
from bivshap_lightning.explainers.maps import MAPS, Coalitions, beta_shapley, lime, rise
from bivshap_lightning.explainers.rivals import captum_explainer
from bivshap_lightning.game.trees import UnsupportedTreesError
from bivshap_lightning.metrics import InsertionAUC, MutualRedundancyMasking
from tests.oracles import Unanimity, Value, enumerate_e2, enumerate_shapley, table_model, table_value

N = 5


def subsets(players: list[int]) -> list[frozenset[int]]:
    return [frozenset(s) for k in range(len(players) + 1) for s in itertools.combinations(players, k)]


def beta_density(q: np.ndarray, a: float, b: float) -> np.ndarray:
    return q ** (a - 1) * (1 - q) ** (b - 1) * math.gamma(a + b) / math.gamma(a) / math.gamma(b)


def beta_shapley_by_integration(value: Value, n: int, alpha: float, beta: float) -> np.ndarray:
    nodes, weights = np.polynomial.legendre.leggauss(40)
    q, dq = (nodes + 1) / 2, weights / 2
    found = np.zeros(n)
    for i in range(n):
        for s in subsets([k for k in range(n) if k != i]):
            chance = (dq * beta_density(q, beta, alpha) * q ** len(s) * (1 - q) ** (n - 1 - len(s))).sum()
            found[i] += chance * (value(s | {i}) - value(s))
    return found


def banzhaf_by_definition(value: Value, n: int) -> np.ndarray:
    return np.array(
        [np.mean([value(s | {i}) - value(s) for s in subsets([k for k in range(n) if k != i])]) for i in range(n)]
    )


def leave_one_out_by_definition(value: Value, n: int) -> np.ndarray:
    whole = frozenset(range(n))
    return np.array([value(whole) - value(whole - {i}) for i in range(n)])


def mean_with(value: Value, n: int, keep: float = 0.5) -> np.ndarray:
    found = np.zeros(n)
    for s in subsets(list(range(n))):
        for i in s:
            found[i] += keep ** (len(s) - 1) * (1 - keep) ** (n - len(s)) * value(s)
    return found


def lime_by_least_squares(value: Value, n: int) -> np.ndarray:
    everything = subsets(list(range(n)))
    z = np.array([[1.0] + [float(k in s) for k in range(n)] for s in everything])
    root = np.sqrt(np.exp(-((1 - z[:, 1:].mean(axis=1)) ** 2) / 0.75**2))
    y = np.array([value(s) for s in everything])
    return np.linalg.lstsq(z * root[:, None], y * root, rcond=None)[0][1:]


ORACLES = {
    "shapley": enumerate_shapley,
    "banzhaf": banzhaf_by_definition,
    "beta_shapley": lambda value, n: beta_shapley_by_integration(value, n, 4, 1),
    "leave_one_out": leave_one_out_by_definition,
    "mean_when_included": mean_with,
    "rise": mean_with,
    "lime": lime_by_least_squares,
}


def extended(oracle, value: Value, n: int) -> np.ndarray:
    """Column j is the oracle of the game that is zero without j."""
    columns = [oracle(lambda s, j=j: value(s) if j in s else 0.0, n) for j in range(n)]
    found = np.stack(columns, axis=1)
    np.fill_diagonal(found, 0)
    return found


def table_game(n: int = N, seed: int = 0) -> tuple[Game, Value]:
    table = np.random.default_rng(seed).normal(size=2**n)
    return Game(table_model(table), torch.ones(1, n, dtype=torch.float64), behavior="output"), table_value(table)


def test_every_map_has_an_oracle():
    assert set(ORACLES) == set(MAPS)


@pytest.mark.parametrize("name", MAPS)
def test_maps_equal_enumeration(name):
    game, value = table_game()
    explanation = find_explainer(f"bivariate_{name}").explain(game)
    np.testing.assert_allclose(explanation.bivariate[0], extended(ORACLES[name], value, N), atol=1e-9)
    np.testing.assert_allclose(explanation.shapley[0], ORACLES[name](value, N), atol=1e-9)
    assert explanation.is_exact
    assert explanation.standard_error.eq(0).all()
    assert explanation.n_evaluations.tolist() == [N + 1 if name == "leave_one_out" else 2**N]


@pytest.mark.parametrize("parameters", [(1.0, 1.0), (2.0, 5.0), (16.0, 1.0)])
def test_parameters_of_beta_shapley(parameters):
    game, value = table_game()
    found = bivariate(beta_shapley(*parameters)).explain(game).bivariate[0]
    oracle = extended(lambda v, n: beta_shapley_by_integration(v, n, *parameters), value, N)
    np.testing.assert_allclose(found, oracle, atol=1e-9)


def test_the_keep_probability_of_rise():
    game, value = table_game()
    found = bivariate(rise(0.8)).explain(game).bivariate[0]
    np.testing.assert_allclose(found, extended(lambda v, n: mean_with(v, n, 0.8), value, N), atol=1e-9)


def test_the_shapley_map_reproduces_bivariate_shapley():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(7, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3)).double()
    inputs = torch.randn(3, 7, dtype=torch.float64)
    inputs[1, 2:4] = 0  # null players, whose column is not that of the others
    ours = BivariateShapley(model, "exact").attribute(inputs)
    theirs = bivariate("shapley").explain(Game(model, inputs))
    torch.testing.assert_close(theirs.bivariate, ours.bivariate)
    torch.testing.assert_close(theirs.shapley, ours.shapley)
    assert theirs.bivariate[1, 2:4].eq(0).all()


@pytest.mark.parametrize("name", [name for name in MAPS if name != "leave_one_out"])
def test_sampled_maps_converge_and_their_errors_cover(name):
    """Fewer evaluations than coalitions, against the enumerated map."""
    game = Unanimity(10, n_terms=25, seed=2)
    inputs = torch.ones(1, 10, dtype=torch.float64)
    truth = find_explainer(f"bivariate_{name}").explain(Game(game, inputs, behavior="output")).bivariate[0]
    z, errors = [], {}
    off = ~torch.eye(10, dtype=torch.bool)
    for n_evaluations in (300, 1000):
        squares = []
        for seed in range(12):
            found = find_explainer(f"bivariate_{name}").explain(
                Game(game, inputs, behavior="output"), n_evaluations, seed
            )
            assert not found.is_exact
            assert int(found.n_evaluations) <= n_evaluations
            difference = (found.bivariate[0] - truth)[off]
            squares.append((difference**2).mean())
            z.append(difference / found.standard_error[0][off].clamp(min=1e-9))
        errors[n_evaluations] = float(torch.stack(squares).mean().sqrt())
    assert errors[1000] < 0.75 * errors[300]
    z = torch.cat(z)
    assert float((z.abs() < 1.96).double().mean()) > 0.9
    assert float((z.abs() < 0.3).double().mean()) < 0.5  # and not by being far too wide
    assert abs(float(z.mean())) < 0.3


def restricted_value(value: Value, j: int) -> Value:
    return lambda s: value(s) if j in s else 0.0


def ablation(game: Game) -> Tensor:
    """A user's map: the loss when a player leaves all others."""
    whole = torch.ones(1, 1, game.n_players, dtype=torch.bool)
    values = game(torch.cat([whole, ~torch.eye(game.n_players, dtype=torch.bool)[None]], dim=1))
    return values[:, :1] - values[:, 1:]


def test_functions_of_a_game_are_extended():
    game, value = table_game()
    before = game.n_evaluations
    explanation = bivariate(ablation).explain(game)
    np.testing.assert_allclose(explanation.bivariate[0], extended(leave_one_out_by_definition, value, N), atol=1e-12)
    assert explanation.method == "bivariate_ablation"
    assert torch.equal(explanation.n_evaluations, game.n_evaluations - before)
    assert explanation.n_evaluations.tolist() == [(N + 1) * (N + 1)]


@pytest.mark.parametrize("method", ["shapley_values", "exact", "feature_ablation"])
def test_exact_explainers_are_extended_exactly(method):
    game, value = table_game()
    oracle = leave_one_out_by_definition if method == "feature_ablation" else enumerate_shapley
    explanation = bivariate(method).explain(game)
    np.testing.assert_allclose(explanation.bivariate[0], extended(oracle, value, N), atol=1e-6)
    assert explanation.is_exact
    assert explanation.standard_error.eq(0).all()


@pytest.mark.parametrize("method", ["kernel_shap", "shapley_sampling"])
def test_captums_estimators_are_extended_with_errors_from_repetitions(method):
    game, value = table_game()
    truth = enumerate_e2(value, N)
    explanation = bivariate(captum_explainer(method)).explain(game, 4 * (N + 1) * 400)
    assert not explanation.is_exact
    np.testing.assert_allclose(explanation.bivariate[0], truth, atol=0.15)
    off = ~np.eye(N, dtype=bool)
    z = (explanation.bivariate[0].numpy() - truth)[off] / explanation.standard_error[0].numpy()[off]
    assert np.mean(np.abs(z) < 1.96) > 0.8
    again = bivariate(captum_explainer(method)).explain(table_game()[0], 4 * (N + 1) * 400)
    assert torch.equal(again.bivariate, explanation.bivariate)


def test_attribution_objects_are_not_removal_based_on_this_game():
    from captum.attr import IntegratedGradients

    game, _ = table_game()
    for method in ("saliency", IntegratedGradients(lambda x: x.sum(dim=1))):
        with pytest.raises(ValueError, match="`explanation_map` must be removal-based to be extended, got a gradient"):
            bivariate(method).explain(game)


def test_a_map_of_the_users_own_shares_its_rows():
    class Pairs:
        """The value of a player beside nothing but the column's player."""

        name = "pairs"

        def minimum_evaluations(self, n_players: int) -> int:
            return n_players * n_players

        def coalitions(self, n_players: int, n_coalitions: int, generator: torch.Generator) -> Coalitions:
            single = torch.eye(n_players, dtype=torch.bool)
            return Coalitions((single[:, None] | single[None]).flatten(0, 1), is_complete=True)

        def scores(self, coalitions: Coalitions, values: Tensor) -> tuple[Tensor, Tensor]:
            found = values.unflatten(1, (coalitions.masks.shape[1], -1)).sum(dim=2)
            return found, torch.zeros_like(found)

    game, value = table_game()
    explanation = bivariate(Pairs()).explain(game)
    expected = np.array([[0 if i == j else value(frozenset({i, j})) for j in range(N)] for i in range(N)])
    np.testing.assert_allclose(explanation.bivariate[0], expected)
    assert explanation.n_evaluations.tolist() == [N * (N + 1) // 2]


def test_restricted_games():
    game, value = table_game()
    restricted = RestrictedGame(game, 2)
    masks = torch.rand(1, 40, N) < 0.5
    expected = [value(frozenset(m.nonzero()[:, 0].tolist())) * bool(m[2]) for m in masks[0]]
    np.testing.assert_allclose(restricted(masks)[0], expected)
    np.testing.assert_allclose(restricted.values_of(masks[0], torch.zeros(40, dtype=torch.long)), expected)
    assert restricted.n_evaluations is game.n_evaluations
    restricted.rows_per_call = 7
    assert game.rows_per_call == 7
    restricted.outputs(masks)
    assert restricted.n_evaluations is game.n_evaluations
    assert not restricted.has_trees
    with pytest.raises(UnsupportedTreesError, match="`game` must not be restricted"):
        restricted.trees()


def test_extensions_are_judged_like_any_explanation():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    game = Game(model, torch.randn(3, 6))
    explanation = bivariate("banzhaf").explain(game, seed=2)
    assert isinstance(explanation, Explanation)
    for metric in (InsertionAUC(), MutualRedundancyMasking()):
        metric.update(game, explanation)
        assert all(torch.isfinite(value).all() for value in metric.compute().values())


def test_wrong_arguments_raise():
    game, _ = table_game()
    with pytest.raises(ValueError, match=r"`n_evaluations` must be at least 12 for method='bivariate_banzhaf'.*got 11"):
        bivariate("banzhaf").explain(game, 11)
    least = 4 * (N + 1) * 2 * N
    with pytest.raises(ValueError, match=rf"must be at least {least} for method='bivariate_shapley_sampling'"):
        bivariate("shapley_sampling").explain(game, least - 1)
    with pytest.raises(ValueError, match=r"`explanation_map` must be the name of an explainer, got 'banzaf'"):
        bivariate("banzaf")
    with pytest.raises(TypeError, match=r"`explanation_map` must be a name out of .* got int"):
        bivariate(3)
    with pytest.raises(ValueError, match="`alpha` and `beta` must be positive, got 0 and 1"):
        beta_shapley(0, 1)
    with pytest.raises(ValueError, match="`keep` must be between 0 and 1, got 1"):
        rise(1)
    with pytest.raises(ValueError, match="`width` must be positive, got 0"):
        lime(0)
