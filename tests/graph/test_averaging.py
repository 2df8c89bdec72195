"""Mean graphs of samples with opposite signs: what cancels is shown as such and decides nothing."""

import numpy as np
import pytest

from bivshap_lightning.graph import ExplanationGraph, mean_by_name
from bivshap_lightning.graph.averaging import mean_of_class
from tests.graph.games import graph_of, hand_worked

METHODS = ["pagerank", "hits", "shapley", "keep", "remove"]


def linear(*weights, **arguments):
    return graph_of(lambda s: float(sum(weights[i] for i in s)), len(weights), **arguments)


@pytest.fixture(params=["same players", "by name"])
def mean(request):
    """5 x0 + x1 at x0 = 1 and x0 = -1."""
    graphs = [linear(5, 1), linear(-5, 1)]
    return ExplanationGraph.mean(graphs) if request.param == "same players" else mean_by_name(graphs)


@pytest.mark.parametrize("method", METHODS)
def test_a_player_of_both_signs_is_on_top(mean, method):
    assert mean.order(method).tolist() == [0, 1]
    assert mean.ranking(method)[0] > mean.ranking(method)[1]


def test_a_player_of_both_signs_is_never_redundant(mean):
    assert mean.weights[1, 0] == 0  # the signed mean cancels
    assert mean.disagreement.tolist() == [[0, 0], [1, 0]]
    for gamma in (1e-5, 0.1, 0.4):
        assert not mean.redundancy(gamma).adjacency.any()
    assert mean.redundancy(0.5).adjacency.tolist() == [[False, True], [False, False]]
    assert mean.roles().roles == ("essential", "essential")
    assert mean.density_curve()[0].tolist() == [0, 0.5, 2.5]


def test_signed_means_and_absolute_means(mean):
    assert mean.shapley.tolist() == [0, 1]
    assert mean.absolute.shapley.tolist() == [5, 1]
    assert mean.absolute.weights.tolist() == [[0, 0.5], [2.5, 0]]
    assert mean.scale == (6 + 4) / 2
    assert mean.relative_gamma == pytest.approx(0.05)


@pytest.mark.parametrize("method", METHODS)
def test_three_features_of_which_one_cancels(method):
    graph = ExplanationGraph.mean([linear(5, 1, 6), linear(-5, 1, 6)])
    assert graph.order(method).tolist() == [2, 0, 1]


def test_a_negative_regression_is_ranked_like_a_positive_one():
    graph = linear(-3, -1, 0.5)
    for method in METHODS:
        assert graph.order(method).tolist() == [0, 1, 2]
    assert graph.order("pagerank", oriented=False).tolist() == [2, 1, 0]


def test_means_of_means_and_of_log_odds():
    graphs = [
        ExplanationGraph(g.weights, shapley=g.shapley, log_odds=linear(sign, 2))
        for g, sign in ((linear(5, 1), 1), (linear(-5, 1), -1))
    ]
    mean = ExplanationGraph.mean(graphs)
    assert mean.log_odds.shapley.tolist() == [0, 2]
    assert mean.log_odds.absolute.shapley.tolist() == [1, 2]
    assert mean.order("keep").tolist() == [1, 0]
    nested = ExplanationGraph.mean([mean, mean])
    assert nested.absolute.shapley.tolist() == mean.absolute.shapley.tolist()
    assert nested.scale == mean.scale
    assert ExplanationGraph.mean([graphs[0], linear(1, 1)]).log_odds is None
    assert ExplanationGraph.mean([linear(1, 1), graphs[0]]).log_odds is None


def test_errors_of_shapley_values_are_averaged():
    arguments = {"standard_error": [[0, 0.1], [0.1, 0]], "shapley": [1, 2]}
    graphs = [
        ExplanationGraph([[0, 1], [2, 0]], shapley_standard_error=errors, **arguments)
        for errors in ([0.1, 0.2], [0.3, 0])
    ]
    for mean in (ExplanationGraph.mean(graphs), mean_by_name(graphs)):
        np.testing.assert_allclose(mean.shapley_standard_error, [0.2, 0.1])


def test_where_signs_agree_absolute_means_change_nothing():
    graphs = [hand_worked("or"), hand_worked("max")]
    mean = mean_of_class(graphs)
    assert not mean.disagreement.any()
    np.testing.assert_array_equal(mean.weights, mean.absolute.weights)
    plain = ExplanationGraph(mean.weights, shapley=mean.shapley)
    for method in METHODS:
        np.testing.assert_array_equal(mean.ranking(method), plain.ranking(method))
    np.testing.assert_array_equal(mean.redundancy(0.1).adjacency, plain.redundancy(0.1).adjacency)


def test_a_single_graph_has_no_disagreement():
    assert not linear(1, -2).disagreement.any()
