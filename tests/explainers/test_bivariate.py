"""`BivariateShapley`: which method is chosen, what it costs, which arguments raise, and what a result records."""

import pickle
import random

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import default_coalitions
from bivshap_lightning.graph import batched
from bivshap_lightning.metrics import DeletionAUC, InsertionAUC, PostHocAccuracy
from tests.oracles import Unanimity


def total(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=1)


def ones(n: int, b: int = 1) -> torch.Tensor:
    return torch.ones(b, n, dtype=torch.float64)


@pytest.mark.parametrize(
    ("n", "n_evaluations", "purpose", "method"),
    [
        (12, None, "redundancy", "exact"),  # 4,096 coalitions are no more than the default number
        (13, None, "redundancy", "sampling"),
        (13, None, "weights", "kernel"),
        (13, 2**13, "redundancy", "exact"),
        (12, 1000, "redundancy", "sampling"),
        (17, 2**12, "redundancy", "sampling"),  # beyond exact_limit
        (17, 2**17, "redundancy", "proxy"),  # far more than the default number
    ],
)
def test_auto_is_exact_when_that_is_affordable(n, n_evaluations, purpose, method):
    explainer = BivariateShapley(Unanimity(n, 10, 0), "auto", "output", purpose=purpose)
    explanation = explainer.attribute(ones(n), n_evaluations=n_evaluations)
    assert explanation.method == method
    assert int(explanation.n_evaluations) <= (n_evaluations or default_coalitions(n))


def test_null_players_make_more_games_affordable():
    inputs = torch.cat([ones(10), torch.zeros(1, 40, dtype=torch.float64)], dim=1)
    explanation = BivariateShapley(total, "auto", "output").attribute(inputs)
    assert explanation.method == "exact"
    assert explanation.n_evaluations.tolist() == [2**10]


@pytest.mark.parametrize(
    ("method", "least"),
    [("exact", 1024), ("sampling", 38), ("paper_sampling", 42), ("kernel", 42), ("paper_kernel", 42)],
)
def test_fewer_evaluations_than_the_minimum_raise(method, least):
    explainer = BivariateShapley(Unanimity(10, 10, 0), method, "output")
    with pytest.raises(
        ValueError, match=rf"`n_evaluations` must be at least {least} for method='{method}'.*got {least - 1}"
    ):
        explainer.attribute(ones(10), n_evaluations=least - 1)
    assert torch.isfinite(explainer.attribute(ones(10), n_evaluations=least).standard_error).all()


def test_background_rows_count_as_evaluations():
    background = torch.randn(5, 10, dtype=torch.float64)
    explainer = BivariateShapley(total, "kernel", "output")
    explanation = explainer.attribute(ones(10), n_evaluations=1000, background=background)
    assert 700 < int(explanation.n_evaluations) <= 1000
    with pytest.raises(ValueError, match=r"at least 210 \(42 coalitions times 5 background rows\)"):
        explainer.attribute(ones(10), n_evaluations=209, background=background)


def test_one_player_raises():
    explainer = BivariateShapley(total, behavior="output")
    with pytest.raises(ValueError, match="`feature_mask` must make at least two players, got 1"):
        explainer.attribute(ones(3), feature_mask=torch.zeros(1, 3, dtype=torch.long))


def test_wrong_arguments_raise():
    with pytest.raises(ValueError, match=r"`purpose` must be one of .*, got 'guess'"):
        BivariateShapley(total, purpose="guess")
    with pytest.raises(ValueError, match=r"`method` must be the name of an explainer, got 'guess'"):
        BivariateShapley(total, "guess")
    with pytest.raises(ValueError, match=r"`purpose` must be left out unless method='auto', got 'weights'"):
        BivariateShapley(total, "kernel", purpose="weights")
    with pytest.raises(ValueError, match=r"`exact_limit` must be left out unless method is 'auto' or 'exact', got 20"):
        BivariateShapley(total, "kernel", exact_limit=20)
    with pytest.raises(TypeError, match=r"`model` must be .*, got None.*find_explainer\(method\)\.explain\(game\)"):
        BivariateShapley(None)


def test_results_carry_their_provenance():
    explainer = BivariateShapley(Unanimity(6, 10, 0), "sampling", "output", seed=3)
    explanation = explainer.attribute(ones(6, b=2), baselines=0.25, n_evaluations=100)
    assert repr(explanation).startswith("Explanation(2 samples, 6 players, method='sampling', behavior='output'")
    assert len(explanation) == len(explanation.graphs()) == 2
    graph = explanation.graph(1, names=list("abcdef"))
    assert graph.names == tuple("abcdef")
    assert graph.provenance == {
        "method": "sampling",
        "seed": 3,
        "behavior": "output",
        "removal": "baseline 0.25",
        "target": 0,
        "n_evaluations": int(explanation.n_evaluations[1]),
    }
    np.testing.assert_array_equal(graph.standard_error, explanation.standard_error[1].T)
    np.testing.assert_array_equal(graph.shapley, explanation.shapley[1])
    with pytest.raises(IndexError, match="`index` must be below 2"):
        explanation.graph(2)


def test_mean_graph_of_a_subgroup():
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).double()
    explanation = BivariateShapley(model).attribute(torch.randn(6, 4, dtype=torch.float64), target=1)
    mean = explanation.mean_graph([0, 2, 5])
    np.testing.assert_allclose(mean.weights, explanation.bivariate[[0, 2, 5]].mean(dim=0).T)
    np.testing.assert_allclose(explanation.mean_graph().shapley, explanation.shapley.mean(dim=0))


def test_an_explanation_caches_its_graphs():
    x = torch.rand(3, 4, dtype=torch.float64)
    explanation = BivariateShapley(lambda x: x.prod(dim=1), behavior="output").attribute(x)
    graphs = explanation.graphs()
    assert [a is b for a, b in zip(graphs, explanation.graphs(), strict=True)] == [True] * 3
    graphs.clear()  # a list of the caller's own
    assert len(explanation.graphs()) == 3
    for index, graph in enumerate(explanation.graphs()):
        np.testing.assert_array_equal(graph.weights, explanation.graph(index).weights)
        np.testing.assert_array_equal(graph.standard_error, np.zeros((4, 4)))
        assert graph.provenance == explanation.graph(index).provenance
    assert [graph.names for graph in explanation.graphs(list("abcd"))] == [("a", "b", "c", "d")] * 3


def test_an_explanation_is_pickled_without_its_graphs():
    explanation = BivariateShapley(total, behavior="output").attribute(ones(4, 3))
    n_bytes = len(pickle.dumps(explanation))
    graphs = explanation.graphs()
    assert len(pickle.dumps(explanation)) == n_bytes
    again = pickle.loads(pickle.dumps(explanation)).graphs()
    np.testing.assert_array_equal(again[0].weights, graphs[0].weights)


class Fickle(torch.nn.Module):
    """Draws random numbers, to no effect, where a feature was removed: not on whole inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if (x == 0).any():
            np.random.rand(3)  # noqa: NPY002
            random.random()
        return x.prod(dim=1)


@pytest.mark.parametrize("method", ["exact", "sampling", "kernel"])
def test_global_generators_are_unchanged(method, global_rng_untouched):
    BivariateShapley(Fickle(), method=method, behavior="output").attribute(ones(5))


def test_metrics_rank_the_graphs_of_one_explanation_once():
    """An explanation keeps its graphs, and a graph keeps its ranking: later metrics get the very same arrays."""
    x = torch.rand(3, 4, dtype=torch.float64)
    shapley = BivariateShapley(lambda x: x.prod(dim=1), behavior="output")
    game, explanation = Game(shapley.model, x, behavior="output"), shapley.attribute(x)
    InsertionAUC().update(game, explanation)
    first = [ranked.scores for ranked in batched.rank_all(explanation.graphs())]
    DeletionAUC().update(game, explanation)
    PostHocAccuracy().update(game, explanation)
    again = [ranked.scores for ranked in batched.rank_all(explanation.graphs())]
    assert all(a is b for a, b in zip(first, again, strict=True))


def test_explaining_a_game_equals_attributing_its_parts():
    model = torch.nn.Linear(5, 3).double()
    inputs = torch.randn(2, 5, dtype=torch.float64)
    explainer = BivariateShapley(model, "kernel", "log_odds")
    game = Game(model, inputs, behavior="log_odds", target=2)
    torch.testing.assert_close(explainer.explain(game).bivariate, explainer.attribute(inputs, target=2).bivariate)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_have_the_precision_of_the_model(dtype):
    explanation = BivariateShapley(torch.nn.Linear(3, 2).to(dtype)).attribute(torch.ones(2, 3, dtype=torch.float64))
    assert explanation.bivariate.dtype == explanation.shapley.dtype == explanation.standard_error.dtype == dtype


def test_memory_limit_is_remembered_between_calls():
    linear, n_failures = torch.nn.Linear(6, 2), 0

    def model(x: torch.Tensor) -> torch.Tensor:
        """Pretends to run out of memory above 40 rows."""
        nonlocal n_failures
        if len(x) > 40:
            n_failures += 1
            raise torch.OutOfMemoryError("out of memory")
        return linear(x)

    explainer = BivariateShapley(model, "exact", link="softmax")
    expected = BivariateShapley(linear, "exact").attribute(torch.ones(3, 6))
    torch.testing.assert_close(explainer.attribute(torch.ones(3, 6)).bivariate, expected.bivariate)
    failures = n_failures
    assert failures > 0
    torch.testing.assert_close(explainer.attribute(torch.ones(3, 6)).bivariate, expected.bivariate)
    assert n_failures == failures


def test_progress_bar_only_on_request(capsys):
    explainer = BivariateShapley(total, "exact", "output")
    explainer.attribute(ones(4))
    assert capsys.readouterr().err == ""
    explainer.attribute(ones(4), show_progress=True)
    assert "model rows" in capsys.readouterr().err


def test_a_black_box_forest_is_explained_like_a_network():
    data = load_breast_cancer()
    columns = data.data[:, :8]
    forest = RandomForestClassifier(n_estimators=10, max_depth=3, random_state=0).fit(columns, data.target)
    explanation = BivariateShapley(forest).attribute(columns[:3], baselines=columns.mean(axis=0))
    assert explanation.method == "trees"
    assert explanation.target.tolist() == forest.predict(columns[:3]).tolist()
    chosen = forest.predict_proba(columns[:3])[range(3), explanation.target]
    empty = forest.predict_proba(columns.mean(axis=0, keepdims=True))[0][explanation.target]
    np.testing.assert_allclose(explanation.shapley.sum(dim=1), chosen - empty, atol=1e-9)
