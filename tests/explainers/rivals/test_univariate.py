"""KernelSHAP and Shapley sampling on a game, against enumeration and against Captum's classes."""

import numpy as np
import pytest
import torch
from captum.attr import KernelShap, ShapleyValueSampling

from bivshap_lightning import Game
from bivshap_lightning.explainers import explainer_names, find_explainer
from bivshap_lightning.explainers.rivals.univariate import KernelSHAP, ShapleySampling
from tests.oracles import enumerate_shapley, table_model, table_value

N = 6
OURS = [KernelSHAP(), ShapleySampling()]


def table_game(n: int = N, seed: int = 0) -> tuple[Game, np.ndarray]:
    table = np.random.default_rng(seed).normal(size=2**n)
    return Game(table_model(table), torch.ones(1, n), behavior="output"), enumerate_shapley(table_value(table), n)


def test_the_names_are_those_of_the_comparison():
    for explainer in OURS:
        assert find_explainer(explainer.name) == find_explainer(explainer.name)
        assert type(find_explainer(explainer.name)) is type(explainer)
        assert explainer_names().count(explainer.name) == 1
    assert find_explainer(KernelShap).method is KernelShap


def test_kernel_shap_is_exact_once_all_coalitions_are_affordable():
    game, truth = table_game()
    explanation = KernelSHAP().explain(game, 2**N)
    np.testing.assert_allclose(explanation.shapley[0], truth, atol=1e-6)
    assert explanation.n_evaluations.tolist() == [2**N]


@pytest.mark.parametrize(("ours", "captums"), [(KernelSHAP(), KernelShap), (ShapleySampling(), ShapleyValueSampling)])
def test_errors_are_no_larger_than_those_of_captum_with_as_many_rows(ours, captums):
    """Root mean squares over twenty seeds; both are unbiased or nearly so, so they fall to zero."""
    n, n_evaluations = 8, 200
    errors = {}
    for name, explainer in (("ours", ours), ("captum", find_explainer(captums))):
        gaps = []
        for seed in range(20):
            game, truth = table_game(n, seed % 4)
            found = explainer.explain(game, n_evaluations, seed)
            assert int(found.n_evaluations.max()) <= n_evaluations + 1  # Captum evaluates the empty coalition on top
            gaps.append(found.shapley[0].numpy() - truth)
        errors[name] = float(np.sqrt(np.mean(np.square(gaps))))
    assert errors["ours"] < 1.15 * errors["captum"]


@pytest.mark.parametrize("explainer", OURS, ids=lambda e: e.name)
def test_values_sum_to_the_gain_and_more_rows_bring_them_to_the_truth(explainer):
    game, truth = table_game(7)
    gaps = {}
    for n_evaluations in (explainer.minimum_evaluations(game), 4000):
        found = explainer.explain(game, n_evaluations, seed=1).shapley[0].numpy()
        np.testing.assert_allclose(found.sum(), truth.sum(), atol=1e-5)
        gaps[n_evaluations] = np.abs(found - truth).max()
    assert gaps[4000] < 0.1
    assert gaps[4000] < gaps[explainer.minimum_evaluations(game)]


@pytest.mark.parametrize("explainer", OURS, ids=lambda e: e.name)
def test_a_score_is_the_samples_own_and_null_players_have_none(explainer):
    """Alone and in a batch of samples with other null players, in any order."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    x = torch.randn(3, 6)
    x[1, 2:4] = x[2, 5] = 0
    whole = explainer.explain(Game(model, x), 40, seed=3).shapley
    assert whole[1, 2:4].tolist() == [0, 0]
    for k in range(3):
        alone = explainer.explain(Game(model, x[k : k + 1], target=int(Game(model, x).target[k])), 40, seed=3)
        torch.testing.assert_close(alone.shapley[0], whole[k])


@pytest.mark.parametrize("explainer", OURS, ids=lambda e: e.name)
@pytest.mark.parametrize("n_rows", [1, 3])
def test_the_minimum_is_enough_and_one_less_is_not(explainer, n_rows):
    background = torch.linspace(-1, 1, n_rows * N).view(n_rows, N)
    game = Game(lambda x: x.prod(dim=1), torch.full((2, N), 2.0), background=background, behavior="output")
    least = explainer.minimum_evaluations(game)
    assert int(explainer.explain(game, least).n_evaluations.max()) <= least
    with pytest.raises(ValueError, match=f"`n_evaluations` must be at least {least} for '{explainer.name}'"):
        explainer.explain(game, least - 1)


@pytest.mark.parametrize("explainer", OURS, ids=lambda e: e.name)
def test_one_player_that_is_not_null(explainer):
    game = Game(lambda x: x.sum(dim=1), torch.tensor([[0.0, 3.0, 0.0]]), behavior="output")
    assert explainer.explain(game, 4).shapley.tolist() == [[0, 3, 0]]


def test_global_generators_are_untouched(global_rng_untouched):
    for explainer in OURS:
        explainer.explain(table_game()[0], 40)


@pytest.mark.parametrize(("n_evaluations", "drawn"), [(900, 1024), (256, 1024), (2000, 2048)])
def test_kernel_shap_out_of_what_kernel_draws_in_stages_is_as_accurate(n_evaluations, drawn):
    """Sizes that the first stage does not enumerate are enumerated, so that quality is that of one draw."""
    n = 12
    game, truth = table_game(n)
    errors = {}
    for name, explainer in (("once", KernelSHAP()), ("alike", KernelSHAP(drawn=drawn, in_stages=True))):
        found = [explainer.explain(game, n_evaluations, seed) for seed in range(40)]
        assert all(int(one.n_evaluations) <= n_evaluations for one in found)
        gaps = np.stack([one.shapley[0].numpy() - truth for one in found])
        errors[name] = np.sqrt(np.mean(np.square(gaps)))
        assert np.all(np.abs(gaps.mean(axis=0)) < 4 * gaps.std(axis=0) / np.sqrt(40) + 1e-6), name
    assert errors["alike"] < 1.1 * errors["once"]


def test_kernel_shap_out_of_far_more_than_it_may_spend_draws_its_own_design():
    game, _ = table_game(8)
    few = KernelSHAP().minimum_evaluations(game)
    assert KernelSHAP(drawn=200).explain(game, few).shapley.isfinite().all()
    assert int(KernelSHAP(drawn=200).explain(game, few).n_evaluations) <= few
