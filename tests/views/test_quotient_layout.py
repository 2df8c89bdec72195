"""The quotient that is drawn says the same as H."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning.graph import RedundancyGraph
from bivshap_lightning.views.figures.quotient_layout import condense, reachability
from tests.views.panel_graphs import grouped_graph


@st.composite
def redundancy_graphs(draw, max_players=9):
    n_players = draw(st.integers(1, max_players))
    bits = draw(st.lists(st.booleans(), min_size=n_players**2, max_size=n_players**2))
    adjacency = np.array(bits, dtype=bool).reshape(n_players, n_players)
    np.fill_diagonal(adjacency, False)
    # Sparse and dense ones alike.
    if draw(st.booleans()):
        adjacency &= np.triu(np.ones_like(adjacency))
    return RedundancyGraph(adjacency, 0)


@given(redundancy_graphs())
def test_without_bundles_the_arrows_are_the_transitive_reduction_of_the_quotient(h):
    condensed = condense(h, max_boxes=100, bundle=False)
    expected = nx.transitive_reduction(h.quotient())
    members = [box.members for box in condensed.boxes]
    arrows = {(members[i], members[j]) for i, j in condensed.arrows}
    assert arrows == {(h.components[i], h.components[j]) for i, j in expected.edges}


@given(redundancy_graphs(), st.integers(2, 6))
def test_every_player_is_in_exactly_one_place_and_boxes_are_bounded(h, max_boxes):
    condensed = condense(h, max_boxes=max_boxes)
    drawn = [player for box in condensed.boxes for player in box.members]
    assert sorted([*drawn, *condensed.apart]) == list(range(h.n_players))
    assert len(condensed.boxes) <= max_boxes
    assert len(condensed.layers) == len(condensed.boxes)
    assert not h.adjacency[list(condensed.apart)].any()
    assert not h.adjacency[:, list(condensed.apart)].any()


@given(redundancy_graphs())
def test_arrows_lead_downwards_and_reach_what_h_reaches(h):
    condensed = condense(h, max_boxes=100)
    drawn = nx.DiGraph(condensed.arrows)
    drawn.add_nodes_from(range(len(condensed.boxes)))
    assert all(condensed.layers[i] < condensed.layers[j] for i, j in condensed.arrows)
    whole = h.to_networkx()
    for i, box in enumerate(condensed.boxes):
        reached = {p for j in nx.descendants(drawn, i) for p in condensed.boxes[j].members}
        for player in box.members:
            assert nx.descendants(whole, player) - set(box.members) == reached


@given(redundancy_graphs(), st.integers(2, 4))
def test_the_rest_is_reached_exactly_when_one_of_it_is(h, max_boxes):
    condensed = condense(h, max_boxes=max_boxes)
    if not condensed.boxes or condensed.boxes[-1].kind != "rest":
        return
    rest = len(condensed.boxes) - 1
    members = set(condensed.boxes[rest].members)
    # Around the rest only: what leads into it and out of it again is no path of H.
    kept = nx.DiGraph([arrow for arrow in condensed.arrows if rest not in arrow])
    kept.add_nodes_from(range(rest))
    into, out_of = ({a for a, b in condensed.arrows if b == rest}, {b for a, b in condensed.arrows if a == rest})
    whole = h.to_networkx()
    for i, box in enumerate(condensed.boxes[:-1]):
        leads_into = bool(nx.descendants(whole, box.members[0]) & members)
        comes_out = bool(nx.ancestors(whole, box.members[0]) & members)
        assert leads_into == bool((nx.descendants(kept, i) | {i}) & into)
        assert comes_out == bool((nx.ancestors(kept, i) | {i}) & out_of)


def test_groups_come_largest_first_and_never_by_importance():
    h = grouped_graph([2, 4, 1, 1, 3], arrows=[(2, 0), (3, 0)]).redundancy()
    condensed = condense(h, max_boxes=10)
    assert [len(box.members) for box in condensed.boxes] == [4, 3, 2, 2]
    assert [box.kind for box in condensed.boxes] == ["group", "group", "group", "alike"]
    assert condensed.arrows == ((3, 2),)


def test_a_box_of_the_rest_takes_what_is_beyond_the_limit():
    h = grouped_graph([1] * 8, arrows=[(k, k + 1) for k in range(7)]).redundancy()
    condensed = condense(h, max_boxes=3)
    assert [box.kind for box in condensed.boxes] == ["single", "single", "rest"]
    assert len(condensed.boxes[-1].members) == 6


@pytest.mark.parametrize("n_players", [1, 5])
def test_an_empty_h_has_no_boxes(n_players):
    h = RedundancyGraph(np.zeros((n_players, n_players), dtype=bool), 0)
    condensed = condense(h, max_boxes=5)
    assert condensed.boxes == condensed.arrows == condensed.layers == ()
    assert condensed.apart == tuple(range(n_players))


def test_a_thousand_players_are_condensed_quickly():
    upper = RedundancyGraph(np.triu(np.ones((1000, 1000), dtype=bool), 1), 0)
    reach = reachability(upper)
    assert reach.sum() == 1000 * 999 / 2
    assert len(condense(upper, max_boxes=12, reach=reach).boxes) == 12
