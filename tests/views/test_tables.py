"""Tables, and names made safe for where they go."""

import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views import Layout, groups_table, pairs_table, ranking_table
from bivshap_lightning.views.figures.names import (
    distinct,
    labels_of,
    markdown_text,
    plain,
    shorten,
    tag_part,
)
from tests.views.example_graphs import NASTY_NAMES, enumerated, grouped_graph, random_graph, sentence_graph

with warnings.catch_warnings():
    # A library inside TensorBoard warns about another one inside it.
    warnings.simplefilter("ignore", DeprecationWarning)
    from tensorboard.plugin_util import markdown_to_safe_html


class Cells(HTMLParser):
    """The text of each table cell, and all tags that were met."""

    def __init__(self, html):
        super().__init__()
        self.cells, self.tags = [], set()
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def rows_of(table):
    return [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in table.split("\n\n")[0].splitlines()]


def test_the_ranking_lists_players_in_order_with_their_numbers():
    graph = sentence_graph()
    rows = rows_of(ranking_table(graph, graph.redundancy()))
    assert rows[0] == ["rank", "feature", "Shapley value", "group", "makes redundant", "redundant given"]
    assert [row[0] for row in rows[2:]] == [str(k) for k in range(1, 9)]
    first = int(graph.order("keep")[0])
    assert rows[2][1:3] == [graph.names[first], f"{graph.shapley[first]:.4g}"]


def test_the_ranking_is_cut_at_the_top_and_says_so():
    graph = random_graph(30)
    table = ranking_table(graph, graph.redundancy(), top=5)
    assert len(rows_of(table)) == 7
    assert "25 more features are not listed" in table


def test_the_ranking_goes_by_the_scores_given():
    graph = random_graph(3, names=["a", "b", "c"])
    table = ranking_table(graph, graph.redundancy(), scores=[0.1, 0.3, 0.2])
    assert [row[1] for row in rows_of(table)[2:]] == ["b", "c", "a"]


def test_arrows_are_told_from_both_ends():
    graph = grouped_graph([1, 1, 1], arrows=[(0, 1)], names=["a", "b", "c"])
    cells = {row[1]: row[-2:] for row in rows_of(ranking_table(graph, graph.redundancy(), top=3))[2:]}
    assert cells["a"] == ["b", ""]
    assert cells["b"] == ["", "a"]


def test_a_graph_without_shapley_values_has_no_column_for_them():
    graph = type(sentence_graph())(np.zeros((2, 2)))
    assert "Shapley" not in ranking_table(graph, graph.redundancy())


def test_groups_are_listed_with_size_members_and_the_member_to_keep():
    graph = grouped_graph([2, 3, 1], arrows=[(2, 1), (1, 0)], names=list("abcdef"))
    scores = [0.1, 0.2, 0.1, 0.1, 0.3, 0.2]
    rows = rows_of(groups_table(graph.redundancy(), graph, scores=scores))
    assert rows[2] == ["A", "3", "c, d, e", "e", "f", "a, b"]
    assert rows[3][:5] == ["B", "2", "a, b", "b", "c, d, e"]


def test_letters_come_from_the_layout_of_the_pictures():
    layout = Layout()
    layout.group_numbers(RedundancyGraph([[i != j and {i, j} == {2, 3} for j in range(4)] for i in range(4)], 0))
    graph = grouped_graph([2, 1, 1])
    h = graph.redundancy()
    assert rows_of(groups_table(h, graph, layout=layout))[2][0] == "B"
    assert {row[3] for row in rows_of(ranking_table(graph, h, layout=layout))[2:]} == {"B", ""}


def test_no_groups_and_many_groups_are_said_in_words():
    graph = grouped_graph([1, 1])
    assert "there are no groups" in groups_table(graph.redundancy(), graph)
    graph = grouped_graph([2] * 30)
    assert "10 smaller groups are not listed" in groups_table(graph.redundancy(), graph)
    graph = grouped_graph([12])
    assert "and 4 more" in groups_table(graph.redundancy(), graph)


def test_pairs_are_listed_strongest_first_with_their_relation():
    def game(present):
        return float(bool(present & {0, 1})) + float({2, 3} <= present) / 2

    graph = enumerated(game, 4, names=["a", "b", "c", "d"])
    rows = rows_of(pairs_table(graph))[2:]
    assert [row[:2] for row in rows] == [["a, b", "replace each other"], ["c, d", "need each other"]]
    assert float(rows[0][2]) == pytest.approx(graph.pairwise[0, 1], abs=1e-4)
    assert len(rows_of(pairs_table(graph, top=1))) == 3


def test_pairs_of_a_class_are_means_over_its_samples():
    plus = grouped_graph([2, 1])
    minus = ExplanationGraph(-plus.weights, shapley=-plus.shapley)
    mean = ExplanationGraph.mean([plus, minus])
    assert "No two features" in pairs_table(mean)
    assert rows_of(pairs_table(mean, graphs=[plus, minus])) == rows_of(pairs_table(plus))


def test_names_from_data_are_shown_letter_by_letter_by_tensorboard():
    graph = random_graph(12, names=NASTY_NAMES, share_zero=0.5)
    h = graph.redundancy()
    html = markdown_to_safe_html(f"{ranking_table(graph, h)}\n\n{groups_table(h, graph)}")
    shown = Cells(html)
    assert shown.tags <= {"table", "thead", "tbody", "tr", "th", "td", "p", "em"}
    assert {shorten(plain(name), 40) for name in NASTY_NAMES} <= {cell.strip() for cell in shown.cells}


@given(st.text(max_size=30))
def test_any_text_in_a_cell_stays_text(text):
    html = markdown_to_safe_html(f"| a | b |\n| --- | --- |\n| x{markdown_text(text)} | y |")
    shown = Cells(html)
    assert shown.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert [" ".join(cell.split()) for cell in shown.cells[2:]] == [" ".join(f"x{plain(text)}".split()), "y"]


@given(st.text(max_size=80))
def test_any_name_becomes_one_safe_step_of_a_tag(text):
    part = tag_part(text)
    assert re.fullmatch(r"\w([\w.-]*\w)?", part)
    assert ".." not in part
    assert 0 < len(part) <= 60
    part.encode()


@given(st.text(max_size=40), st.integers(2, 20))
def test_shortened_text_is_short_and_keeps_short_text(text, length):
    shortened = shorten(text, length)
    assert len(shortened) <= max(length, 2)
    if len(text) <= length:
        assert shortened == text


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["a", "b"], ["a", "b"]),
        (["mean_radius_of_the_first_cell", "area"], ["mean_radius_of_the_first_cell", "area"]),
        (
            ["x_coordinate_of_the_left_corner_in_mm", "x_coordinate_of_the_right_corner_in_mm"],
            ["x_coordi…left", "x_coordi…right"],
        ),
        (
            ["gene_01_expression_level_in_mm", "gene_02_expression_level_in_mm"],
            ["gene_01_expression_…", "gene_02_expression_…"],
        ),
    ],
)
def test_long_names_that_look_alike_keep_what_tells_them_apart(names, labels):
    assert labels_of(names) == labels


def test_a_taken_name_gets_a_number():
    assert distinct("a", []) == "a"
    assert distinct("a", ["A", "a_2"]) == "a_3"
