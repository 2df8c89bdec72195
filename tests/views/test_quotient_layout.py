"""The quotient that is drawn says the same as H."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning.graph import RedundancyGraph
from bivshap_lightning.views.figures.quotient_layout import lay_out_quotient, reachability
from tests.views.example_graphs import grouped_graph


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
def test_the_arrows_are_the_transitive_reduction_of_the_quotient(h):
    quotient = lay_out_quotient(h, max_boxes=100)
    expected = nx.transitive_reduction(h.quotient())
    arrows = set()
    for i, j in quotient.arrows:
        # An arrow of a box of several single players holds for each of them.
        of_each = [_components_of(h, quotient.boxes[box]) for box in (i, j)]
        arrows |= {(a, b) for a in of_each[0] for b in of_each[1]}
    assert arrows == {(h.components[i], h.components[j]) for i, j in expected.edges}


def _components_of(h, box):
    return [members for members in h.components if set(members) <= set(box.members)]


@given(redundancy_graphs())
def test_reachability_is_that_of_the_quotient(h):
    expected = nx.transitive_closure_dag(h.quotient())
    assert set(map(tuple, np.argwhere(reachability(h)).tolist())) == set(expected.edges)


@given(redundancy_graphs(), st.integers(2, 6))
def test_every_player_is_in_exactly_one_place_and_boxes_are_bounded(h, max_boxes):
    quotient = lay_out_quotient(h, max_boxes=max_boxes)
    drawn = [player for box in quotient.boxes for player in box.members]
    assert sorted([*drawn, *quotient.isolated]) == list(range(h.n_players))
    assert len(quotient.boxes) <= max_boxes
    assert len(quotient.layers) == len(quotient.boxes)
    assert not h.adjacency[list(quotient.isolated)].any()
    assert not h.adjacency[:, list(quotient.isolated)].any()


@given(redundancy_graphs())
def test_arrows_lead_downwards_and_reach_what_h_reaches(h):
    quotient = lay_out_quotient(h, max_boxes=100)
    drawn = nx.DiGraph(quotient.arrows)
    drawn.add_nodes_from(range(len(quotient.boxes)))
    assert all(quotient.layers[i] < quotient.layers[j] for i, j in quotient.arrows)
    whole = h.to_networkx()
    for i, box in enumerate(quotient.boxes):
        reached = {p for j in nx.descendants(drawn, i) for p in quotient.boxes[j].members}
        for player in box.members:
            assert nx.descendants(whole, player) - set(box.members) == reached


@given(redundancy_graphs(), st.integers(2, 4))
def test_the_rest_is_reached_exactly_when_one_of_it_is(h, max_boxes):
    quotient = lay_out_quotient(h, max_boxes=max_boxes)
    if not quotient.boxes or quotient.boxes[-1].kind != "rest":
        return
    rest = len(quotient.boxes) - 1
    members = set(quotient.boxes[rest].members)
    # Around the rest only: what leads into it and out of it again is no path of H.
    kept = nx.DiGraph([arrow for arrow in quotient.arrows if rest not in arrow])
    kept.add_nodes_from(range(rest))
    into, out_of = ({a for a, b in quotient.arrows if b == rest}, {b for a, b in quotient.arrows if a == rest})
    whole = h.to_networkx()
    for i, box in enumerate(quotient.boxes[:-1]):
        leads_into = bool(nx.descendants(whole, box.members[0]) & members)
        comes_out = bool(nx.ancestors(whole, box.members[0]) & members)
        assert leads_into == bool((nx.descendants(kept, i) | {i}) & into)
        assert comes_out == bool((nx.ancestors(kept, i) | {i}) & out_of)


def test_groups_come_largest_first_and_never_by_importance():
    h = grouped_graph([2, 4, 1, 1, 3], arrows=[(2, 0), (3, 0)]).redundancy()
    quotient = lay_out_quotient(h, max_boxes=10)
    assert [len(box.members) for box in quotient.boxes] == [4, 3, 2, 2]
    assert [box.kind for box in quotient.boxes] == ["group", "group", "group", "same_arrows"]
    assert quotient.arrows == ((3, 2),)


def test_a_box_of_the_rest_takes_what_is_beyond_the_limit():
    h = grouped_graph([1] * 8, arrows=[(k, k + 1) for k in range(7)]).redundancy()
    quotient = lay_out_quotient(h, max_boxes=3)
    assert [box.kind for box in quotient.boxes] == ["single", "single", "rest"]
    assert len(quotient.boxes[-1].members) == 6


@pytest.mark.parametrize("n_players", [1, 5])
def test_an_empty_h_has_no_boxes(n_players):
    h = RedundancyGraph(np.zeros((n_players, n_players), dtype=bool), 0)
    quotient = lay_out_quotient(h, max_boxes=5)
    assert quotient.boxes == quotient.arrows == quotient.layers == ()
    assert quotient.isolated == tuple(range(n_players))


def test_a_thousand_players_fit_into_twelve_boxes():
    upper = RedundancyGraph(np.triu(np.ones((1000, 1000), dtype=bool), 1), 0)
    reach = reachability(upper)
    assert reach.sum() == 1000 * 999 / 2
    assert len(lay_out_quotient(upper, max_boxes=12, reach=reach).boxes) == 12
