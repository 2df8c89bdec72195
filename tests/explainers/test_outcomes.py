"""Log-odds from the same rows, and standard errors of the symmetric part."""

import gc
import pickle
import weakref

import numpy as np
import pytest
import torch

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import find_explainer, sampling, stages
from bivshap_lightning.explainers.proxy import GaussianProcessProxy
from bivshap_lightning.explainers.proxy import squashed as proxy
from tests.oracles import Unanimity, relative_error
from tests.trained_games import coalitions, table_e2

METHODS = ["exact", "sampling", "kernel", "proxy"]


def network(n: int, seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(n, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3)]
    model = torch.nn.Sequential(*layers).double()
    model[2].weight.data *= 20  # some probabilities are beyond 0.999, where log-odds are cut
    return model


def test_log_odds_are_those_of_an_enumeration():
    model, x = network(8), 4 * torch.randn(1, 8, generator=torch.Generator().manual_seed(1)).double()
    explanation = BivariateShapley(model, "exact").attribute(x)
    target = int(explanation.target)
    with torch.no_grad():
        p = model(x * torch.tensor(coalitions(8))).softmax(dim=1)[:, target].numpy()
    cut = np.clip(p, 1e-3, 1 - 1e-3)
    assert (p != cut).any()
    e2, phi, _ = table_e2(np.log(cut / (1 - cut)))
    np.testing.assert_allclose(explanation.log_odds.bivariate[0], e2, atol=1e-12)
    np.testing.assert_allclose(explanation.log_odds.shapley[0], phi, atol=1e-12)
    assert explanation.log_odds.behavior == "log_odds"
    graph = explanation.graph(0)
    np.testing.assert_allclose(graph.log_odds.weights, e2.T, atol=1e-12)
    assert graph.order("keep").tolist() == graph.log_odds.order("keep").tolist()


@pytest.mark.parametrize("method", METHODS)
def test_log_odds_cost_no_evaluations_and_change_no_probability(method):
    model, x = network(9), torch.randn(3, 9, generator=torch.Generator().manual_seed(1)).double()
    x[1, :3] = 0
    explainer = BivariateShapley(model, method)
    found = explainer.attribute(x, n_evaluations=512 if method == "exact" else 200)

    def probability(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return scores.softmax(dim=1).gather(1, target[:, None])[:, 0]

    other = BivariateShapley(model, method, probability).attribute(
        x, target=found.target, n_evaluations=512 if method == "exact" else 200
    )
    assert other.log_odds is None
    if method != "proxy":  # which learns from the log-odds as well
        torch.testing.assert_close(found.bivariate, other.bivariate, atol=1e-9, rtol=1e-7)
    assert torch.equal(found.n_evaluations, other.n_evaluations)
    exact = BivariateShapley(model, "exact").attribute(x).log_odds
    assert found.log_odds.bivariate[1, :3].eq(0).all()
    for b in range(3):
        error = relative_error(found.log_odds.bivariate[b], exact.bivariate[b].numpy())
        assert error < {"exact": 1e-9, "sampling": 0.5, "kernel": 0.4, "proxy": 0.2}[method]
    z = (found.log_odds.bivariate - exact.bivariate) / found.log_odds.standard_error.clamp(min=1e-9)
    assert method == "exact" or float((z.abs() < 1.96).double().mean()) > 0.85


@pytest.mark.parametrize("behavior", ["logit", "log_odds", "loss", "output"])
def test_only_probabilities_have_log_odds_beside_them(behavior):
    explanation = BivariateShapley(network(5), "kernel", behavior).attribute(torch.ones(1, 5).double())
    assert explanation.log_odds is None


@pytest.mark.parametrize("method", ["sampling", "kernel", "proxy"])
def test_errors_of_the_symmetric_part_are_those_of_repetitions(method, monkeypatch):
    """Standard errors of C = E2 - R against the spread over seeds; sampling's before it averages both estimates."""
    monkeypatch.setattr(sampling, "_symmetrise", lambda estimate, *_: estimate)
    game = Unanimity(14, n_terms=40, seed=3)
    n_evaluations, values, errors = 400, [], []
    for seed in range(25 if method == "proxy" else 60):
        built = Game(game, torch.ones(1, 14, dtype=torch.float64), behavior="output")
        found = find_explainer(method).explain(built, n_evaluations, seed)
        potential = (found.bivariate[0].sum(dim=1) + found.shapley[0]) / 15
        values.append(found.bivariate[0] - potential[:, None])
        errors.append(found.pairwise_standard_error[0])
    off = ~torch.eye(14, dtype=torch.bool)
    true = torch.tensor(game.e2 - ((game.e2.sum(axis=1) + game.shapley) / 15)[:, None])
    spread = (torch.stack(values) - true)[:, off].square().mean().sqrt()
    claimed = torch.stack(errors)[:, off].square().mean().sqrt()
    assert torch.stack(errors).diagonal(dim1=1, dim2=2).eq(0).all()
    low, high = {"sampling": (0.9, 1.1), "kernel": (0.85, 1.25), "proxy": (0.8, 2.0)}[method]  # the proxy's are safe
    assert low < float(claimed / spread) < high


def test_a_null_player_has_no_error_of_the_symmetric_part():
    x = torch.ones(1, 12, dtype=torch.float64)
    x[0, 3] = 0
    explanation = BivariateShapley(Unanimity(12, 30, 0), "kernel", "output").attribute(x, n_evaluations=300)
    error = explanation.pairwise_standard_error[0]
    assert error[3].eq(0).all()
    assert error[:, 3].eq(0).all()
    graph = explanation.graph(0)
    np.testing.assert_allclose(graph.pairwise_standard_error, error, atol=1e-12)
    assert (graph.pairwise_error == graph.pairwise_standard_error).all()


def test_the_proxy_fits_once_for_both_outcomes(monkeypatch):
    calls = []
    monkeypatch.setattr(proxy, "train", lambda *a, original=proxy.train, **k: calls.append(1) or original(*a, **k))
    game = Game(network(13), torch.ones(1, 13).double())
    explanation = find_explainer(GaussianProcessProxy()).explain(game, 300)
    assert calls == [1]
    assert explanation.log_odds is not None


@pytest.mark.parametrize("method", ["exact", "sampling", "kernel"])
def test_log_odds_are_estimated_when_they_are_asked_for(method, monkeypatch):
    asked = []
    original = stages.log_odds
    monkeypatch.setattr(stages, "log_odds", lambda values: asked.append(1) or original(values))
    model, x = network(9), torch.randn(3, 9, generator=torch.Generator().manual_seed(1)).double()
    x[1, :3] = 0  # a group of its own
    explanation = BivariateShapley(model, method).attribute(x, n_evaluations=512)
    assert not asked
    first = explanation.log_odds
    assert asked
    n_asked = len(asked)
    explanation.graph(0)
    explanation.graph(1)
    assert (explanation.log_odds is first, len(asked)) == (True, n_asked)


def test_a_pickled_explanation_has_its_log_odds():
    explanation = BivariateShapley(network(9), "kernel").attribute(torch.randn(2, 9).double(), n_evaluations=200)
    loaded = pickle.loads(pickle.dumps(explanation))
    assert torch.equal(loaded.log_odds.bivariate, explanation.log_odds.bivariate)
    for ours, theirs in zip(explanation.graphs(), loaded.graphs(), strict=True):
        np.testing.assert_array_equal(ours.log_odds.weights, theirs.log_odds.weights)


def test_log_odds_that_were_not_asked_for_do_not_keep_the_model():
    model = network(9)
    explanation = BivariateShapley(model, "sampling").attribute(torch.randn(2, 9).double(), n_evaluations=200)
    kept = weakref.ref(model)
    del model
    gc.collect()
    assert kept() is None
    assert explanation.log_odds is not None
