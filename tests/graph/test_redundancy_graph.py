"""RedundancyGraph against networkx, triple loops and definitions written out."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bivshap_lightning.graph import RedundancyGraph
from bivshap_lightning.graph.ranking import pagerank


def digraph(n_players, edges, **arguments):
    adjacency = np.zeros((n_players, n_players), dtype=bool)
    for i, j in edges:
        adjacency[i, j] = True
    return RedundancyGraph(adjacency, 0.1, **arguments)


def random_digraph(n_players, density, seed):
    adjacency = np.random.default_rng(seed).random((n_players, n_players)) < density
    np.fill_diagonal(adjacency, False)
    return RedundancyGraph(adjacency, 0.1)


@st.composite
def digraphs(draw):
    """From sparse to dense; the interesting shapes have one or two edges per player."""
    n_players = draw(st.integers(1, 12))
    density = draw(st.sampled_from([0.02, 0.1, 0.2, 0.5])) * draw(st.floats(0.5, 2))
    return random_digraph(n_players, density, draw(st.integers(0, 2**32 - 1)))


def straight_line_pagerank(adjacency):
    """scikit-network's rule for dangling nodes, METRICS.md: b_v = y_v (1 - alpha [v has out-edges])."""
    n = len(adjacency)
    out = adjacency.sum(axis=1)
    walk = adjacency / np.maximum(out, 1)[:, None]
    base = (1 - 0.85 * (out > 0)) / n
    scores = base
    for _ in range(10):
        after = 0.85 * walk.T @ scores + base * scores.sum()
        after = after / after.sum()
        if np.abs(after - scores).sum() < 1e-6:
            break
        scores = after
    return scores / scores.sum()


# Components


@given(digraphs())
@settings(max_examples=80, deadline=None)
def test_components_and_quotient_equal_those_of_networkx(h):
    graph = h.to_networkx()
    expected = {frozenset(members) for members in nx.strongly_connected_components(graph)}
    assert {frozenset(members) for members in h.components} == expected
    assert list(h.components) == sorted(map(tuple, map(sorted, expected)), key=lambda m: (-len(m), m[0]))
    assert h.groups == tuple(members for members in h.components if len(members) > 1)

    quotient, condensation = h.quotient(), nx.condensation(graph)
    assert nx.is_directed_acyclic_graph(quotient)
    ours = {(quotient.nodes[a]["members"], quotient.nodes[b]["members"]) for a, b in quotient.edges}
    members = {node: tuple(sorted(data["members"])) for node, data in condensation.nodes(data=True)}
    assert ours == {(members[a], members[b]) for a, b in condensation.edges}


def test_quotient_nodes_carry_members_and_names():
    h = digraph(4, [(1, 3), (3, 1), (1, 0), (2, 0)], names=["a", "b", "c", "d"])
    quotient = h.quotient()
    assert h.components == ((1, 3), (0,), (2,))
    assert quotient.nodes[0] == {"members": (1, 3), "names": ("b", "d")}
    assert sorted(quotient.edges) == [(0, 1), (2, 1)]


def test_equal_sizes_go_by_smallest_member():
    h = digraph(5, [(4, 1), (1, 4), (3, 0), (0, 3)])
    assert h.components == ((0, 3), (1, 4), (2,))


def test_representatives():
    h = digraph(5, [(0, 1), (1, 0), (3, 4), (4, 3)])
    assert h.representatives() == (0, 2, 3)
    assert h.representatives([0.1, 0.2, 0.0, 0.5, 0.4]) == (1, 2, 3)
    assert h.representatives([0.2, 0.2 + 1e-17, 0.0, 0.1, 0.1 + 1e-16]) == (0, 2, 3)


def test_scores_of_representatives_have_one_value_per_player():
    with pytest.raises(ValueError, match=r"`scores` must have shape \(3,\), got \(2,\)"):
        digraph(3, []).representatives([1, 2])


# Sources and sinks


@given(digraphs())
@settings(max_examples=80, deadline=None)
def test_sources_and_sinks_equal_their_definition(h):
    condensation = nx.condensation(h.to_networkx())
    sources, sinks = set(), set()
    for part in nx.weakly_connected_components(condensation):
        if len(part) >= 2:
            sources |= {p for v in part if not condensation.pred[v] for p in condensation.nodes[v]["members"]}
            sinks |= {p for v in part if not condensation.succ[v] for p in condensation.nodes[v]["members"]}
    assert h.sources == tuple(sorted(sources))
    assert h.sinks == tuple(sorted(sinks))
    assert h.sources_and_sinks() == (h.sources, h.sinks)


@given(digraphs())
@settings(max_examples=80, deadline=None)
def test_paper_sources_are_the_exact_ones(h):
    sources, _ = h.sources_and_sinks("paper")
    assert sources == h.sources


@pytest.mark.parametrize("n_players", [30, 100])
def test_paper_sources_are_the_exact_ones_on_larger_graphs(n_players):
    for seed in range(10):
        h = random_digraph(n_players, 1.2 / n_players, seed)
        sources, sinks = h.sources_and_sinks("paper")
        assert sources == h.sources
        assert sinks


@given(digraphs())
@settings(max_examples=60, deadline=None)
def test_paper_sinks_have_the_largest_pagerank_of_their_part(h):
    condensation = nx.condensation(h.to_networkx())
    expected = set()
    for part in nx.weakly_connected_components(condensation):
        subgraph = condensation.subgraph(part)
        nodes = list(subgraph)  # labels from the subgraph itself, not from the set
        scores = straight_line_pagerank(nx.to_numpy_array(subgraph, nodelist=nodes))
        if not np.allclose(scores, scores[0], rtol=1e-12):
            top = [v for v, s in zip(nodes, scores, strict=True) if np.isclose(s, scores.max(), rtol=1e-12)]
            expected |= {player for v in top for player in condensation.nodes[v]["members"]}
    assert h.sources_and_sinks("paper")[1] == tuple(sorted(expected))


def test_pagerank_of_a_graph_with_dangling_nodes():
    adjacency = random_digraph(54, 0.03, 1).adjacency.astype(float)
    assert (adjacency.sum(axis=1) == 0).any()
    np.testing.assert_allclose(pagerank(adjacency), straight_line_pagerank(adjacency), rtol=1e-12)


def test_paper_rule_finds_one_sink_out_of_several():
    # 0 leads to 1 and 2, and 1 is also led to by 3: both are sinks, PageRank prefers 1.
    h = digraph(4, [(0, 1), (0, 2), (3, 1)])
    assert (h.sources, h.sinks) == ((0, 3), (1, 2))
    assert h.sources_and_sinks("paper") == ((0, 3), (1,))


def test_groups_are_expanded_to_players():
    h = digraph(4, [(0, 2), (2, 0), (2, 1), (0, 3), (1, 3), (3, 1)])
    assert h.sources_and_sinks() == h.sources_and_sinks("paper") == ((0, 2), (1, 3))


def test_unknown_convention_is_refused():
    with pytest.raises(ValueError, match=r"`convention` must be one of \('default', 'paper'\), got 'code'"):
        digraph(2, []).sources_and_sinks("code")


# Transitivity and density


@given(digraphs())
@settings(max_examples=60, deadline=None)
def test_transitivity_equals_a_triple_loop(h):
    closed = [
        h.adjacency[i, k]
        for i, j, k in itertools.permutations(range(h.n_players), 3)
        if h.adjacency[i, j] and h.adjacency[j, k]
    ]
    assert h.transitivity == pytest.approx(np.mean(closed) if closed else 1.0, abs=1e-15)


def test_density_and_undecided_count_edges():
    undecided = np.array([[False, False], [True, False]])
    h = digraph(2, [(0, 1)], undecided=undecided)
    assert (h.density, h.n_undecided) == (0.5, 1)


# Extreme graphs


@pytest.mark.parametrize("n_players", [1, 2, 5])
def test_empty_graph_has_no_sources_and_no_sinks(n_players):
    h = digraph(n_players, [])
    assert (h.density, h.transitivity, h.groups) == (0.0, 1.0, ())
    assert h.components == tuple((player,) for player in range(n_players))
    assert h.sources_and_sinks() == h.sources_and_sinks("paper") == ((), ())
    assert h.representatives() == tuple(range(n_players))
    assert h.quotient().number_of_edges() == 0
    assert len(h.to_dataframe()) == 0


@pytest.mark.parametrize("n_players", [2, 5])
def test_complete_graph_is_one_group_without_sources_and_sinks(n_players):
    h = digraph(n_players, itertools.permutations(range(n_players), 2))
    assert (h.density, h.transitivity) == (1.0, 1.0)
    assert h.groups == h.components == (tuple(range(n_players)),)
    assert h.sources_and_sinks() == h.sources_and_sinks("paper") == ((), ())
    assert h.representatives() == (0,)
    assert list(h.quotient().nodes) == [0]


# Conversions and construction


def test_networkx_graph_holds_the_redundant_edges():
    graph = digraph(3, [(0, 2)], names=["a", "b", "c"]).to_networkx()
    assert dict(graph.nodes(data="name")) == {0: "a", 1: "b", 2: "c"}
    assert list(graph.edges) == [(0, 2)]


def test_dataframe_tells_redundant_from_undecided():
    undecided = np.array([[False, False], [True, False]])
    table = digraph(2, [(0, 1)], undecided=undecided, names=["a", "b"]).to_dataframe()
    assert table.to_dict("records") == [
        {"source": "a", "target": "b", "status": "redundant"},
        {"source": "b", "target": "a", "status": "undecided"},
    ]


def test_repr_is_short():
    h = digraph(3, [(0, 1), (1, 0)], undecided=[[False] * 3, [False] * 3, [True, False, False]])
    for part in ("3 players", "gamma=0.1", "'paper'", f"{h.density:.3g}", "1 group,", "1 undecided"):
        assert part in repr(h)
    assert len(repr(random_digraph(300, 0.5, 0))) < 120


def test_a_graph_cannot_be_changed():
    h = digraph(2, [(0, 1)])
    for array in (h.adjacency, h.undecided):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 1] = True
    with pytest.raises(AttributeError, match="cannot assign"):
        h.gamma = 1.0


def test_adjacency_is_boolean():
    with pytest.raises(TypeError, match="`adjacency` must be boolean, got dtype int64"):
        RedundancyGraph(np.zeros((2, 2), dtype=np.int64), 0.1)


def test_adjacency_is_square():
    with pytest.raises(ValueError, match=r"`adjacency` must have shape \(F, F\) with F >= 1, got \(2, 3\)"):
        RedundancyGraph(np.zeros((2, 3), dtype=bool), 0.1)


def test_adjacency_has_an_empty_diagonal():
    with pytest.raises(ValueError, match=r"`adjacency` must have an empty diagonal, got True at \[0, 0\]"):
        RedundancyGraph([[True]], 0.1)


def test_undecided_has_the_same_shape():
    with pytest.raises(ValueError, match=r"`undecided` must have shape \(2, 2\), got \(1, 1\)"):
        digraph(2, [], undecided=[[False]])


def test_undecided_does_not_overlap():
    with pytest.raises(ValueError, match=r"`undecided` must not overlap `adjacency`, got both at \[0, 1\]"):
        digraph(2, [(0, 1)], undecided=[[False, True], [False, False]])


def test_gamma_and_rule_are_checked():
    with pytest.raises(ValueError, match="`gamma` must be finite and >= 0, got -1"):
        RedundancyGraph([[False]], -1)
    with pytest.raises(ValueError, match="`rule` must be one of"):
        RedundancyGraph([[False]], 0, rule="strict")
