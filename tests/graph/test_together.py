"""Many graphs at once against scikit-network and networkx, which take them one by one."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sknetwork.ranking import PageRank

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph, together
from bivshap_lightning.graph.ranking import order_of, pagerank, tie_levels
from bivshap_lightning.graph.together import rank_all, strong_components

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


@pytest.fixture(params=[together.ELEMENTS_PER_STACK, 60], ids=["whole stacks", "stacks of one or two"])
def stacked(request, monkeypatch):
    monkeypatch.setattr(together, "ELEMENTS_PER_STACK", request.param)


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
def test_graphs_are_ranked_together_as_scikit_network_ranks_them(personalized):
    graphs = explanation_graphs(shapley=(True,) if personalized else (True, False))
    for graph, ranking in zip(graphs, rank_all(graphs, personalized=personalized), strict=True):
        restart = np.maximum(graph.shapley, 0) if personalized else None
        if personalized and not restart.any():
            restart = (graph.shapley == graph.shapley.max()).astype(float)
        expected = PageRank().fit_predict(np.logaddexp(0, graph.weights), restart)
        np.testing.assert_allclose(ranking.scores, expected, rtol=1e-12)
        np.testing.assert_array_equal(graph.ranking(personalized=personalized), ranking.scores)


@pytest.mark.usefixtures("stacked")
@pytest.mark.parametrize("method", ["pagerank", "hits"])
def test_company_changes_no_ranking(method):
    crowd = rank_all(explanation_graphs(), method=method)
    for ranking, graph in zip(crowd, explanation_graphs(), strict=True):
        np.testing.assert_array_equal(ranking.scores, graph.ranking(method=method))
        np.testing.assert_array_equal(ranking.order, graph.order(method=method))


@pytest.mark.usefixtures("stacked")
def test_order_goes_by_level_then_value_then_index():
    graphs = explanation_graphs()
    for graph, ranking in zip(graphs, rank_all(graphs), strict=True):
        levels = tie_levels(ranking.scores)
        values = np.zeros(graph.n_players) if graph.shapley is None else graph.shapley
        by_hand = sorted(range(graph.n_players), key=lambda p: (levels[p], -values[p], p))
        assert ranking.order.tolist() == by_hand


def test_every_row_of_scores_has_its_own_ties():
    scores = np.array([[1.0, 1.0 - 1e-13, 0.5], [1e-13, 0.0, 2e-13], [2.0, 2.0, 2.0]])
    assert tie_levels(scores).tolist() == [[0, 0, 1], [1, 2, 0], [0, 0, 0]]
    assert order_of(scores, np.array([[0.0, 1.0, 2.0]] * 3)).tolist() == [[1, 0, 2], [2, 0, 1], [2, 1, 0]]


def test_one_graph_for_all_samples_is_ranked_once():
    graph = explanation_graphs()[0]
    first, *others = rank_all([graph] * 4)
    assert all(other is first for other in others)
    assert rank_all([graph])[0] is first


def test_one_graph_without_values_among_many_cannot_restart():
    with pytest.raises(ValueError, match="`personalized` must be False without Shapley values"):
        rank_all(explanation_graphs(), personalized=True)


# Components


@pytest.mark.usefixtures("stacked")
@pytest.mark.parametrize("density", [0.0, 0.1, 0.3, 1.0])
def test_components_of_graphs_side_by_side_equal_those_of_networkx(density):
    rng = np.random.default_rng(0)
    adjacencies = [(rng.random((n, n)) < density) & ~np.eye(n, dtype=bool) for n in SIZES * 3]
    for adjacency, component_of in zip(adjacencies, strong_components(adjacencies), strict=True):
        graph = nx.from_numpy_array(adjacency, create_using=nx.DiGraph)
        expected = {player: min(members) for members in nx.strongly_connected_components(graph) for player in members}
        assert component_of.tolist() == [expected[player] for player in range(len(adjacency))]


def test_components_found_together_are_kept():
    ring, chain = np.roll(np.eye(4, dtype=bool), 1, axis=1), np.eye(3, k=1, dtype=bool)
    graphs = [RedundancyGraph(matrix, 0) for matrix in (ring, chain)]
    RedundancyGraph.find_components([*graphs, graphs[0]])
    kept = [h.component_of for h in graphs]
    assert [component_of.tolist() for component_of in kept] == [[0, 0, 0, 0], [0, 1, 2]]
    RedundancyGraph.find_components(graphs)
    assert all(h.component_of is before for h, before in zip(graphs, kept, strict=True))
    assert graphs[0].groups == ((0, 1, 2, 3),)


def test_no_graphs_have_no_answers():
    assert rank_all([]) == strong_components([]) == []
