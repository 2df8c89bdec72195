"""Batched rankings and components against scikit-network and networkx, which take one graph at a time."""

from statistics import NormalDist

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sknetwork.ranking import HITS, PageRank

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph, batched
from bivshap_lightning.graph.batched import rank_all
from bivshap_lightning.graph.ranking import descending_order, hits, hits_of_one, pagerank, softplus, tie_levels
from bivshap_lightning.graph.threshold import redundancy_of_all

SIZES = (5, 1, 8, 5, 2, 8, 5)


def explanation_graphs(*, shapley=(True, False), seed=0):
    """Graphs of several sizes, by turns with and without Shapley values, on a grid coarse enough for ties."""
    rng = np.random.default_rng(seed)
    graphs = []
    for place, n_players in enumerate(SIZES):
        weights = rng.integers(-2, 3, size=(n_players, n_players)) * (1 - np.eye(n_players)) / 4
        values = rng.integers(-3, 2, size=n_players) / 4 if shapley[place % len(shapley)] else None
        graphs.append(ExplanationGraph(weights, shapley=values))
    return graphs


@pytest.fixture(params=[batched.ELEMENTS_PER_STACK, 60], ids=["whole stacks", "stacks of one or two"])
def stacked(request, monkeypatch):
    monkeypatch.setattr(batched, "ELEMENTS_PER_STACK", request.param)


# PageRank


@given(
    st.integers(1, 40), st.integers(1, 5), st.sampled_from([0.03, 0.2, 1.0]), st.booleans(), st.integers(0, 2**32 - 1)
)
@settings(max_examples=100, deadline=None)
def test_pagerank_of_a_stack_equals_scikit_networks_of_each(n_players, n_graphs, density, personalized, seed):
    # From sparse graphs with dangling nodes, which never settle within ten iterations, to full ones that do at once.
    rng = np.random.default_rng(seed)
    shape = (n_graphs, n_players, n_players)
    adjacency = rng.exponential(size=shape) * (rng.random(shape) < density)
    adjacency[:, 0, -1] = 1  # scikit-network refuses a graph without any edge
    restart = rng.exponential(size=shape[:2]) if personalized else None
    scores = pagerank(adjacency, restart)
    for place, matrix in enumerate(adjacency):
        weights = None if restart is None else restart[place]
        np.testing.assert_allclose(scores[place], PageRank().fit_predict(matrix, weights), rtol=1e-12)
        np.testing.assert_array_equal(scores[place], pagerank(matrix, weights))


@pytest.mark.usefixtures("stacked")
@pytest.mark.parametrize("personalized", [False, True])
def test_a_batch_is_ranked_as_scikit_network_ranks_each_graph(personalized):
    graphs = explanation_graphs(shapley=(True,) if personalized else (True, False))
    for oriented in (True, False):
        rankings = rank_all(graphs, method="pagerank", personalized=personalized, oriented=oriented)
        for graph, ranking in zip(graphs, rankings, strict=True):
            sign = -1 if oriented and graph.shapley is not None and graph.shapley.sum() < 0 else 1
            restart = np.maximum(sign * graph.shapley, 0) if personalized else None
            if personalized and not restart.any():
                restart = (sign * graph.shapley == (sign * graph.shapley).max()).astype(float)
            expected = PageRank().fit_predict(np.logaddexp(0, sign * graph.weights), restart)
            np.testing.assert_allclose(ranking.scores, expected, rtol=1e-12)


@given(st.integers(2, 20), st.integers(2, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_hits_of_a_stack_equals_scikit_networks_of_each(n_players, n_graphs, seed):
    adjacency = np.logaddexp(0, np.random.default_rng(seed).normal(size=(n_graphs, n_players, n_players)))
    for scores, matrix in zip(hits(adjacency), adjacency, strict=True):
        expected = HITS().fit(matrix).scores_col_
        np.testing.assert_allclose(scores, expected / expected.sum(), rtol=1e-10)
        np.testing.assert_allclose(hits_of_one(matrix), expected / expected.sum(), rtol=1e-10)


@pytest.mark.usefixtures("stacked")
@pytest.mark.parametrize("method", ["pagerank", "hits", "shapley", "keep", "remove"])
def test_a_graph_is_ranked_alike_alone_and_in_a_batch(method):
    batch = rank_all(explanation_graphs(shapley=(True,)), method=method)
    for ranking, graph in zip(batch, explanation_graphs(shapley=(True,)), strict=True):
        np.testing.assert_allclose(ranking.scores, graph.ranking(method=method), rtol=1e-12)
        np.testing.assert_array_equal(ranking.order, graph.order(method=method))
        np.testing.assert_array_equal(ranking.ranks[ranking.order], np.arange(graph.n_players))


@pytest.mark.usefixtures("stacked")
def test_order_goes_by_level_then_value_then_index():
    graphs = explanation_graphs()
    for graph, ranking in zip(graphs, rank_all(graphs), strict=True):
        levels = tie_levels(ranking.scores)
        values = np.zeros(graph.n_players) if graph.shapley is None else graph.sign * graph.shapley
        by_hand = sorted(range(graph.n_players), key=lambda p: (levels[p], -values[p], p))
        assert ranking.order.tolist() == by_hand


def test_every_row_of_scores_has_its_own_ties():
    scores = np.array([[1.0, 1.0 - 1e-13, 0.5], [1e-13, 0.0, 2e-13], [2.0, 2.0, 2.0]])
    assert tie_levels(scores).tolist() == [[0, 0, 1], [1, 2, 0], [0, 0, 0]]
    assert descending_order(scores, np.array([[0.0, 1.0, 2.0]] * 3)).tolist() == [[1, 0, 2], [2, 0, 1], [2, 1, 0]]


def test_one_graph_for_all_samples_is_ranked_once():
    graph = explanation_graphs()[0]
    first, *others = rank_all([graph] * 4)
    assert all(other is first for other in others)
    assert rank_all([graph])[0] is first


def test_one_graph_without_values_among_many_cannot_restart():
    with pytest.raises(ValueError, match="`personalized` must be False without Shapley values"):
        rank_all(explanation_graphs(), personalized=True)


# Redundancy and components


def noisy_graphs(*, seed=0):
    """Graphs of several sizes, by turns exact and estimated, with weights and noise around a threshold of 0.25."""
    rng = np.random.default_rng(seed)
    graphs = []
    for place, n in enumerate(SIZES * 2):
        off_diagonal = 1 - np.eye(n)
        weights = rng.integers(-3, 4, size=(n, n)) / 8 * off_diagonal
        noise = rng.choice([0.0, 0.02, 0.2], size=(n, n)) * off_diagonal if place % 2 else None
        graphs.append(ExplanationGraph(weights, standard_error=noise, names=[f"p{k}" for k in range(n)]))
    return graphs


@pytest.mark.usefixtures("stacked")
@pytest.mark.parametrize("rule", ["noise", "paper"])
def test_redundant_edges_of_a_batch_equal_those_of_each_graph(rule):
    gamma, z = 0.25, NormalDist().inv_cdf(0.975)
    graphs = noisy_graphs()
    for graph, h in zip(graphs, redundancy_of_all(graphs, gamma, rule=rule), strict=True):
        for i, j in np.ndindex(graph.weights.shape):
            half_width = z * graph.standard_error[i, j] if rule == "noise" else 0.0
            low, high = abs(graph.weights[i, j]) - half_width, abs(graph.weights[i, j]) + half_width
            assert h.adjacency[i, j] == (i != j and high <= gamma)
            assert h.undecided[i, j] == (i != j and low <= gamma < high)
        assert (h.gamma, h.rule, h.names) == (gamma, rule, graph.names)
        assert h.confidence == (0.95 if rule == "noise" else None)
        assert (h.n_redundant, h.n_undecided) == (h.adjacency.sum(), h.undecided.sum())
        assert h is graph.redundancy(gamma, rule=rule)
        again = RedundancyGraph(h.adjacency, gamma, undecided=h.undecided, names=h.names)
        assert (again.n_redundant, again.n_undecided, again.density) == (h.n_redundant, h.n_undecided, h.density)
        for array in (h.adjacency, h.undecided):
            assert array.dtype == np.bool_
            with pytest.raises(ValueError, match="read-only"):
                array[0, 0] = True


@pytest.mark.usefixtures("stacked")
@pytest.mark.parametrize("density", [0.0, 0.1, 0.3, 1.0])
def test_components_of_a_batch_equal_those_of_networkx(density):
    rng = np.random.default_rng(0)
    adjacencies = [(rng.random((n, n)) < density) & ~np.eye(n, dtype=bool) for n in SIZES * 3]
    found = RedundancyGraph.components_of_all([RedundancyGraph(adjacency, 0) for adjacency in adjacencies])
    for adjacency, condensation in zip(adjacencies, found, strict=True):
        quotient = nx.condensation(nx.from_numpy_array(adjacency, create_using=nx.DiGraph))
        for node, members in quotient.nodes(data="members"):
            n_in, n_out = quotient.in_degree(node), quotient.out_degree(node)
            for player in members:
                assert condensation.component_of[player] == min(members)
                assert condensation.is_source[player] == (n_out > 0 and n_in == 0)
                assert condensation.is_sink[player] == (n_in > 0 and n_out == 0)


def test_components_of_a_batch_are_cached():
    ring, chain = np.roll(np.eye(4, dtype=bool), 1, axis=1), np.eye(3, k=1, dtype=bool)
    graphs = [RedundancyGraph(matrix, 0) for matrix in (ring, chain)]
    kept = RedundancyGraph.components_of_all([*graphs, graphs[0]])
    assert kept[2] is kept[0]
    assert [h.component_of.tolist() for h in graphs] == [[0, 0, 0, 0], [0, 1, 2]]
    assert all(found is before for found, before in zip(RedundancyGraph.components_of_all(graphs), kept, strict=False))
    assert graphs[0].groups == ((0, 1, 2, 3),)
    assert (graphs[1].sources, graphs[1].sinks) == ((0,), (2,))


def test_an_empty_batch_has_no_results():
    assert rank_all([]) == redundancy_of_all([], 0.0) == RedundancyGraph.components_of_all([]) == []


# Weights for which exp overflows


def test_softplus_of_large_weights_is_the_weight_itself():
    weights = np.array([-1e6, -50.0, -1.0, 0.0, 39.9, 40.1, 700.0, 1e6])
    np.testing.assert_allclose(softplus(weights), np.logaddexp(0, weights), rtol=1e-15)
