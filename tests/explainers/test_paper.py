"""The paper's two algorithms against enumeration, closed forms and an independent implementation."""

import numpy as np
import pytest
import torch

from bivshap_lightning import Explanation, Game
from bivshap_lightning.explainers import default_coalitions, find_explainer
from bivshap_lightning.explainers.paper import PAPER_ORDERS, draw_kernel_coalitions
from tests.oracles import Unanimity, enumerate_e2, paper_kernel, relative_error, table_model, table_value

METHODS = ["paper_sampling", "paper_kernel"]


def explain(
    game: Unanimity, method: str, seed: int = 0, n_evaluations: int | None = None, n_null: int = 0
) -> Explanation:
    inputs = torch.ones(1, game.n, dtype=torch.float64)
    inputs[0, game.n - n_null :] = 0
    return find_explainer(method).explain(Game(game, inputs, behavior="output"), n_evaluations, seed)


def standardized(explanation: Explanation, truth: np.ndarray) -> np.ndarray:
    off = ~np.eye(len(truth), dtype=bool)
    error = (explanation.bivariate[0].numpy() - truth)[off]
    return error / explanation.standard_error[0].numpy()[off]


def test_enumerated_coalitions_give_exact_values():
    table = np.random.default_rng(0).normal(size=2**6)
    game = Game(table_model(table), torch.ones(1, 6, dtype=torch.float64), behavior="output")
    explanation = find_explainer("paper_kernel").explain(game)
    np.testing.assert_allclose(explanation.bivariate[0], enumerate_e2(table_value(table), 6), atol=1e-9)
    assert explanation.standard_error.eq(0).all()
    assert explanation.n_evaluations.tolist() == [2**6]


@pytest.mark.parametrize("method", METHODS)
def test_null_players_get_their_own_column(method):
    table = np.random.default_rng(0).normal(size=2**5)
    game = Game(
        lambda x: table_model(table)(x[:, :5]),
        torch.tensor([[1.0] * 5 + [0.0]], dtype=torch.float64),
        behavior="output",
    )
    explanation = find_explainer(method).explain(game, 400_000)
    truth = enumerate_e2(lambda s: table_value(table)(s - {5}), 6)
    np.testing.assert_allclose(explanation.bivariate[0], truth, atol=1e-9 if method == "paper_kernel" else 0.02)
    assert explanation.bivariate[0, 5].eq(0).all()


def test_the_kernel_is_as_accurate_as_an_independent_implementation():
    ours, theirs = [], []
    for seed in range(3):
        game = Unanimity(30, n_terms=120, seed=seed)
        ours.append(relative_error(explain(game, "paper_kernel", seed).bivariate[0], game.e2))
        theirs.append(relative_error(paper_kernel(game, 30, default_coalitions(30), seed), game.e2))
    assert 0.85 < np.mean(ours) / np.mean(theirs) < 1.15


def test_the_design_is_that_of_kernel_shap():
    masks, weights, n_enumerated = draw_kernel_coalitions(12, 2000, torch.Generator().manual_seed(0))
    assert len(masks) == 2000
    sizes = masks.sum(dim=1)
    assert sizes[:n_enumerated].unique().tolist() == [1, 2, 3, 9, 10, 11]
    assert len(masks[:n_enumerated].unique(dim=0)) == n_enumerated == 2 * (12 + 66 + 220)
    half = (len(masks) - n_enumerated) // 2
    assert torch.equal(masks[n_enumerated : n_enumerated + half], ~masks[n_enumerated + half :])
    kernel = np.array([11 / (s * (12 - s)) for s in range(1, 12)])
    found = np.array([float(weights[sizes == s].sum()) for s in range(1, 12)])
    np.testing.assert_allclose(found, kernel / kernel.sum(), atol=0.02)
    np.testing.assert_allclose(found[:3], (kernel / kernel.sum())[:3])


def test_sampling_spends_a_thousand_orders_per_player():
    game = Unanimity(30, n_terms=40, seed=0)
    explanation = explain(game, "paper_sampling", n_null=10)
    n_asked = 2 * PAPER_ORDERS * 20
    assert 0.6 * n_asked < int(explanation.n_evaluations) <= n_asked  # equal coalitions are evaluated once


def test_a_thousand_orders_for_samples_with_few_players_too():
    model, inputs = Unanimity(14, n_terms=30, seed=0), torch.ones(2, 14, dtype=torch.float64)
    inputs[1, 3:] = 0
    batch = find_explainer("paper_sampling").explain(Game(model, inputs, behavior="output"))
    for b in range(2):
        alone = find_explainer("paper_sampling").explain(Game(model, inputs[b : b + 1], behavior="output"))
        torch.testing.assert_close(batch.bivariate[b], alone.bivariate[0])
        torch.testing.assert_close(batch.standard_error[b], alone.standard_error[0])


def test_chains_need_fewer_evaluations_than_independent_orders():
    game = Unanimity(30, n_terms=100, seed=4)
    errors = {
        method: np.mean([relative_error(explain(game, method, s, 6000).bivariate[0], game.e2) for s in range(4)])
        for method in ("sampling", "paper_sampling")
    }
    assert errors["sampling"] < 0.6 * errors["paper_sampling"]


@pytest.mark.parametrize("method", METHODS)
def test_error_falls_like_one_over_root_of_evaluations(method):
    budgets = [800, 3200, 12_800]
    game = Unanimity(16, n_terms=60, seed=1)
    errors = [
        np.sqrt(np.mean([relative_error(explain(game, method, s, b).bivariate[0], game.e2) ** 2 for s in range(8)]))
        for b in budgets
    ]
    slope = np.polyfit(np.log(budgets), np.log(errors), 1)[0]
    assert -0.7 < slope < -0.4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_evaluations", [82, 400, 2000])
def test_standard_errors_cover_the_truth(method, n_evaluations):
    """From the smallest number of evaluations on."""
    found, phi = [], []
    for seed in range(16):
        game = Unanimity(20, n_terms=60, seed=seed)
        explanation = explain(game, method, seed, n_evaluations)
        found.append(standardized(explanation, game.e2))
        phi.append((explanation.shapley[0].numpy() - game.shapley) / explanation.shapley_standard_error[0].numpy())
    assert np.mean(np.abs(np.concatenate(found)) < 1.96) > 0.92
    assert np.mean(np.abs(np.concatenate(phi)) < 1.96) > 0.9


@pytest.mark.parametrize("method", METHODS)
def test_standard_errors_of_the_null_column_cover_the_truth(method):
    z = []
    for seed in range(20):
        game = Unanimity(20, n_terms=60, seed=seed, n_null=1)
        explanation = explain(game, method, seed, 2000, n_null=1)
        error = explanation.bivariate[0, :-1, -1].numpy() - game.e2[:-1, -1]
        z.append(error / explanation.standard_error[0, :-1, -1].numpy())
    assert np.mean(np.abs(np.concatenate(z)) < 1.96) > 0.9


def test_a_zero_that_was_only_observed_has_an_error():
    """An AND of 40 players: nearly every order sees no gain, and no edge is redundant."""
    inputs = torch.ones(1, 40, dtype=torch.float64)
    game = Game(lambda x: x.prod(dim=1), inputs, behavior="output")
    explanation = find_explainer("paper_sampling").explain(game, 2 * 40 * 20)
    truth = 1 / 40
    off = ~torch.eye(40, dtype=torch.bool)
    assert explanation.bivariate[0][off].eq(0).double().mean() > 0.3
    within = (explanation.bivariate[0] - truth).abs() <= 1.96 * explanation.standard_error[0]
    assert within[off].double().mean() > 0.92


@pytest.mark.parametrize("method", METHODS)
def test_seeds_and_batches(method):
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).double()
    inputs = torch.randn(3, 10, dtype=torch.float64)
    explainer = find_explainer(method)
    batch = explainer.explain(Game(model, inputs), 300, seed=1)
    assert not torch.allclose(explainer.explain(Game(model, inputs), 300, seed=2).bivariate, batch.bivariate)
    for b in range(3):
        single = explainer.explain(Game(model, inputs[b : b + 1]), 300, seed=1)
        torch.testing.assert_close(batch.bivariate[b], single.bivariate[0])
        torch.testing.assert_close(batch.standard_error[b], single.standard_error[0])


@pytest.mark.parametrize("method", METHODS)
def test_one_player_that_is_not_null(method):
    game = Game(lambda x: x[:, 0] * 3, torch.tensor([[1.0, 0.0]]), behavior="output")
    explanation = find_explainer(method).explain(game)
    torch.testing.assert_close(explanation.bivariate[0], torch.tensor([[0.0, 1.5], [0.0, 0.0]]))
