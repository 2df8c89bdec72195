"""Sampling and kernel against exact answers: error, rate, coverage, exact zeros, and the paper's own algorithms."""

import numpy as np
import pytest
import torch

from bivshap_lightning import BivariateShapley, Explanation
from bivshap_lightning.explainers import default_coalitions
from tests.oracles import Unanimity, paper_kernel, relative_error

METHODS = ["sampling", "kernel"]


def explain(game: Unanimity, method: str, seed: int = 0, n_evaluations: int | None = None) -> Explanation:
    inputs = torch.ones(1, game.n, dtype=torch.float64)
    return BivariateShapley(game, method, "output", seed=seed).attribute(inputs, n_evaluations=n_evaluations)


def standardized(explanation: Explanation, truth: np.ndarray) -> np.ndarray:
    off = ~np.eye(len(truth), dtype=bool)
    error = (explanation.bivariate[0].numpy() - truth)[off]
    return error / explanation.standard_error[0].numpy()[off]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "bound"), [(54, 0.17), (196, 0.33)])
def test_unanimity_games_of_many_players(method, n, bound):
    game = Unanimity(n, n_terms=4 * n, seed=n)
    explanation = explain(game, method)
    assert relative_error(explanation.bivariate[0], game.e2) < (bound if method == "sampling" else bound / 1.5)
    # Shapley values move with E2: a wrong weight would show as errors many times their standard error.
    z = (explanation.shapley[0].numpy() - game.shapley) / explanation.shapley_standard_error[0].numpy()
    assert np.sqrt(np.mean(z**2)) < 1.5
    assert int(explanation.n_evaluations) <= default_coalitions(n)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_unanimity_game_of_1077_players(method):
    game = Unanimity(1077, n_terms=3000, seed=5)
    explanation = explain(game, method)
    assert relative_error(explanation.bivariate[0], game.e2) < {"sampling": 0.75, "kernel": 0.4}[method]
    assert np.sqrt(np.mean(standardized(explanation, game.e2)[::1000] ** 2)) < 1.5


@pytest.mark.parametrize("n", [54, 196])
def test_kernel_beats_the_literal_algorithm_of_the_paper(n):
    ours, papers = [], []
    for seed in range(3):
        game = Unanimity(n, n_terms=4 * n, seed=seed, n_null=4)
        papers.append(relative_error(paper_kernel(game, n, default_coalitions(n), seed), game.e2))
        explanation = explain(game, "kernel", seed)
        ours.append(relative_error(explanation.bivariate[0], game.e2))
    assert max(ours) < min(papers)
    assert np.mean(ours) < 0.75 * np.mean(papers)


@pytest.mark.parametrize("method", METHODS)
def test_error_falls_like_one_over_root_of_evaluations(method):
    """Four times the evaluations halve the error, over three octaves of it."""
    budgets = [400, 1600, 6400, 25_600]
    game = Unanimity(20, n_terms=60, seed=1)
    errors = [
        np.sqrt(np.mean([relative_error(explain(game, method, s, b).bivariate[0], game.e2) ** 2 for s in range(8)]))
        for b in budgets
    ]
    slope = np.polyfit(np.log(budgets), np.log(errors), 1)[0]
    assert -0.65 < slope < -0.4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_evaluations", [1000, 6000])
def test_standard_errors_cover_the_truth(method, n_evaluations):
    z = np.concatenate(
        [
            standardized(explain(game, method, seed, n_evaluations), game.e2)
            for seed in range(12)
            for game in [Unanimity(20, n_terms=60, seed=seed)]
        ]
    )
    assert 0.92 < np.mean(np.abs(z) < 1.96) < 0.98
    assert 0.6 < np.mean(np.abs(z) < 1) < 0.75
    assert abs(np.mean(z)) < 0.15


@pytest.mark.parametrize("method", METHODS)
def test_standard_errors_of_the_null_column_cover_the_truth(method):
    z = []
    for seed in range(30):
        game = Unanimity(20, n_terms=60, seed=seed, n_null=1)
        inputs = torch.ones(1, 20, dtype=torch.float64)
        inputs[0, -1] = 0
        explanation = BivariateShapley(game, method, "output", seed=seed).attribute(inputs, n_evaluations=2000)
        error = explanation.bivariate[0, :-1, -1].numpy() - game.e2[:-1, -1]
        z.append(error / explanation.standard_error[0, :-1, -1].numpy())
    assert 0.9 < np.mean(np.abs(np.concatenate(z)) < 1.96) < 0.98


def test_sampling_sees_exact_zeros():
    """Redundancy at the paper's threshold, which regressions miss: 17 players in 3 OR groups."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return x[:, :6].amax(dim=1) + 2 * x[:, 6:11].amax(dim=1) + x[:, 11:].amax(dim=1) / 2

    inputs = torch.ones(1, 17, dtype=torch.float64)
    explanation = BivariateShapley(model, "auto", "output").attribute(inputs)
    assert explanation.method == "sampling"
    groups = {frozenset(g) for g in explanation.graph(0).redundancy().groups}
    assert groups == {frozenset(range(6)), frozenset(range(6, 11)), frozenset(range(11, 17))}
    kernel = BivariateShapley(model, "kernel", "output").attribute(inputs).graph(0)
    assert kernel.redundancy(rule="paper").density < 0.05
    assert kernel.redundancy().n_undecided > 0


@pytest.mark.parametrize("method", ["exact", "sampling", "kernel"])
def test_same_seed_same_result_whatever_the_chunks_and_threads(method):
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    inputs = torch.randn(3, 12)
    inputs[1, 5] = 0
    explainer = BivariateShapley(model, method, seed=7)
    budget = None if method == "exact" else 600
    reference = explainer.attribute(inputs, n_evaluations=budget)
    n_threads = torch.get_num_threads()
    try:
        for chunk, threads in [(1, 1), (7, 2), (4096, 1)]:
            torch.set_num_threads(threads)
            again = explainer.attribute(inputs, n_evaluations=budget, perturbations_per_eval=chunk)
            torch.testing.assert_close(again.bivariate, reference.bivariate, atol=1e-6, rtol=1e-4)
            torch.testing.assert_close(again.standard_error, reference.standard_error, atol=1e-6, rtol=1e-3)
            assert torch.equal(again.n_evaluations, reference.n_evaluations)
    finally:
        torch.set_num_threads(n_threads)
    if method != "exact":
        other = BivariateShapley(model, method, seed=8).attribute(inputs, n_evaluations=budget)
        assert not torch.allclose(other.bivariate, reference.bivariate, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_samples_share_coalitions_so_that_a_batch_equals_its_samples(method):
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).double()
    inputs = torch.randn(3, 10, dtype=torch.float64)
    explainer = BivariateShapley(model, method)
    batch = explainer.attribute(inputs, n_evaluations=300)
    for b in range(3):
        single = explainer.attribute(inputs[b : b + 1], n_evaluations=300)
        torch.testing.assert_close(batch.bivariate[b], single.bivariate[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_null_players_stay_exact_beside_samples_that_lack_none(method):
    game = Unanimity(20, n_terms=60, seed=2, n_null=3)
    inputs = torch.ones(3, 20, dtype=torch.float64)
    inputs[1:, 17:] = 0
    inputs[2, :4] = 0
    explanation = BivariateShapley(game, method, "output").attribute(inputs, n_evaluations=900)
    for b, null in [(1, [17, 18, 19]), (2, [0, 1, 2, 3, 17, 18, 19])]:
        assert explanation.bivariate[b, null].eq(0).all()
        assert explanation.standard_error[b, null].eq(0).all()
        assert explanation.shapley[b, null].eq(0).all()
        others = [k for k in range(20) if k not in null]
        columns = explanation.bivariate[b][others][:, null]
        assert columns.eq(columns[:, :1]).all()
    # The last three players of the first sample are no null players to the eye, yet the truth is that they do nothing.
    z = explanation.bivariate[0, 17:].flatten() / explanation.standard_error[0, 17:].flatten().clamp(min=1e-12)
    assert z.abs().max() < 5


def test_few_orders_do_not_prove_redundancy():
    """Three players of which two must be there for the third to count: with few orders the gain is easily missed."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return x[:, :8].prod(dim=1) + x[:, 8:].sum(dim=1)

    inputs = torch.ones(1, 16, dtype=torch.float64)
    few = BivariateShapley(model, "sampling", "output").attribute(inputs, n_evaluations=100).graph(0).redundancy()
    assert few.density == 0
    many = BivariateShapley(model, "sampling", "output").attribute(inputs, n_evaluations=30_000).graph(0).redundancy()
    assert many.density == 0


def test_estimates_do_not_touch_global_generators(global_rng_untouched):
    for method in METHODS:
        explain(Unanimity(20, n_terms=10, seed=0), method)
