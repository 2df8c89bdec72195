"""Positions and colours stay the same from epoch to epoch."""

import json

import pytest

from bivshap_lightning.graph import RedundancyGraph
from bivshap_lightning.views import Layout, draw_graphs
from bivshap_lightning.views.figures.layout import COLOURS, FURTHER_COLOUR, colour_of, letter_of
from tests.views.example_graphs import grouped_graph, marks_of, random_graph


def redundancy_of(*groups, n_players):
    """H in which the players of each group make each other redundant."""
    adjacency = [
        [i != j and any({i, j} <= set(group) for group in groups) for j in range(n_players)] for i in range(n_players)
    ]
    return RedundancyGraph(adjacency, 0)


def places_of_nodes(figure):
    return {player: tuple(disc.get_center()) for player, disc in marks_of(figure, "node").items()}


def test_players_of_a_group_are_side_by_side_at_first():
    layout = Layout()
    assert layout.arrange(redundancy_of((0, 3), (1, 4), n_players=6), range(6)) == (0, 3, 1, 4, 2, 5)


def test_positions_do_not_depend_on_later_groups():
    layout = Layout()
    first = layout.arrange(redundancy_of((0, 3), n_players=5), range(5))
    assert layout.arrange(redundancy_of((1, 2, 4), n_players=5), range(5)) == first


def test_a_new_player_takes_the_position_of_one_that_is_no_longer_drawn():
    layout, h = Layout("index"), redundancy_of(n_players=10)
    assert layout.arrange(h, [1, 3, 5, 7]) == (1, 3, 5, 7)
    assert layout.arrange(h, [7, 5, 1, 2]) == (1, 2, 5, 7)
    assert layout.arrange(h, [0, 7]) == (0, 7)
    assert layout.arrange(h, [0, 7, 8]) == (0, 7, 8)


def test_positions_in_the_picture_do_not_move_when_weights_and_groups_change():
    layout = Layout()
    names = [f"feature {player}" for player in range(9)]
    before, after = random_graph(9, seed=0, names=names), random_graph(9, seed=1, names=names)
    places = [
        places_of_nodes(draw_graphs(graph, graph.redundancy(), title="t", layout=layout)) for graph in (before, after)
    ]
    assert len(places[0]) == 9
    assert places[0] == places[1]


def test_of_many_players_those_still_drawn_keep_their_positions():
    layout = Layout()
    graphs = [random_graph(60, seed=seed) for seed in (0, 1)]
    first, second = (places_of_nodes(draw_graphs(g, g.redundancy(), title="t", layout=layout)) for g in graphs)
    assert len(first) == len(second) == 20
    staying = first.keys() & second.keys()
    assert 0 < len(staying) < 20
    assert {name: first[name] for name in staying} == {name: second[name] for name in staying}
    assert set(first.values()) == set(second.values())


def test_a_group_keeps_its_colour_when_it_grows_shrinks_or_changes_rank():
    layout = Layout()
    assert layout.group_numbers(redundancy_of((0, 1, 2), (3, 4), n_players=9)) == (0, 1)
    # The second group is now the larger one, so it comes first.
    assert layout.group_numbers(redundancy_of((3, 4, 5, 6), (0, 1), n_players=9)) == (1, 0)


def test_a_group_that_comes_back_has_its_colour_again():
    layout = Layout()
    layout.group_numbers(redundancy_of((0, 1), (2, 3), n_players=6))
    assert layout.group_numbers(redundancy_of((4, 5), n_players=6)) == (2,)
    assert layout.group_numbers(redundancy_of((2, 3), n_players=6)) == (1,)


def test_two_parts_of_a_split_group_have_different_colours():
    layout = Layout()
    layout.group_numbers(redundancy_of((0, 1, 2, 3, 4), n_players=6))
    assert sorted(layout.group_numbers(redundancy_of((0, 1, 2), (3, 4), n_players=6))) == [0, 1]


def test_colours_of_groups_that_are_gone_are_used_again_once_all_were_used():
    layout = Layout()
    pairs = [(2 * k, 2 * k + 1) for k in range(12)]
    assert layout.group_numbers(redundancy_of(*pairs[:10], n_players=24)) == tuple(range(10))
    assert max(layout.group_numbers(redundancy_of(*pairs[10:], n_players=24))) < len(COLOURS)


def test_more_groups_than_colours_share_one_colour_but_no_letter():
    numbers = Layout().group_numbers(redundancy_of(*[(2 * k, 2 * k + 1) for k in range(30)], n_players=60))
    assert len({letter_of(number) for number in numbers}) == 30
    assert {colour_of(number) for number in numbers} == {*COLOURS, FURTHER_COLOUR}


def test_a_layout_continues_after_a_restart():
    graph = grouped_graph([3, 2, 1, 1])
    layout = Layout()
    layout.arrange(graph.redundancy(), range(7))
    layout.group_numbers(graph.redundancy())
    restored = Layout.from_state_dict(json.loads(json.dumps(layout.state_dict())))
    other = redundancy_of((5, 6), (3, 4), n_players=7)
    assert restored.arrange(other, range(7)) == layout.arrange(other, range(7))
    assert restored.group_numbers(other) == layout.group_numbers(other)


def test_an_unknown_order_is_refused():
    with pytest.raises(ValueError, match=r"`order` must be one of \('group', 'index'\), got 'spring'"):
        Layout("spring")
