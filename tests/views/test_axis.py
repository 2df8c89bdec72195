"""The axis figure: its numbers against full enumeration, and what it says."""

import numpy as np
import pytest

from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.views import draw_axis
from bivshap_lightning.views.figures.axis import DIRECTION
from bivshap_lightning.views.figures.axis_arcs import PARTNERS, STAND_INS
from bivshap_lightning.views.figures.axis_values import (
    values_of_change,
    values_of_class,
    values_of_sample,
)
from tests.views.example_graphs import (
    enumerated,
    gids_of,
    lines_in,
    lines_of,
    marks_of,
    random_graph,
    sentence_graph,
    texts_of,
)

GAMES = {
    "OR + c / 2": lambda s: float(bool(s & {0, 1})) + (2 in s) / 2,
    "AND + c / 2": lambda s: float({0, 1} <= s) + (2 in s) / 2,
    "max(2a, b), c null": lambda s: max(2 * (0 in s), 1 * (1 in s)),
    "-OR": lambda s: -float(bool(s & {0, 1})),
    "four players": lambda s: np.tanh(len(s & {0, 1, 2})) + 0.3 * ({1, 3} <= s) - 0.1 * (3 in s),
}


def arcs(figure):
    return {tuple(map(int, gid.split(":"))): arc for gid, arc in marks_of(figure, "arc").items()}


def centres(figure, gid, n_rows):
    """x of the circles of a mark, in order of the rows."""
    mark = next(artist for artist in figure.artists if artist.get_gid() == gid)
    vertices = np.asarray(mark.get_path().vertices).reshape(n_rows, -1, 2)
    return (vertices[..., 0].max(axis=1) + vertices[..., 0].min(axis=1)) / 2


@pytest.mark.parametrize("name", GAMES)
def test_weights_are_r_plus_a_symmetric_c(name):
    graph = enumerated(GAMES[name], 4 if name == "four players" else 3)
    potential, pairwise = graph.potential, graph.pairwise
    rebuilt = potential[None, :] + pairwise
    off_diagonal = ~np.eye(len(potential), dtype=bool)
    np.testing.assert_allclose(rebuilt[off_diagonal], graph.weights[off_diagonal], atol=1e-12)
    np.testing.assert_allclose(pairwise.sum(axis=1), 2 * potential - graph.shapley, atol=1e-12)


def test_a_ring_is_the_importance_beside_a_player_that_does_nothing():
    graph = enumerated(GAMES["max(2a, b), c null"])
    np.testing.assert_allclose(values_of_sample(graph).late[:2], 2 * graph.weights[2, :2], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "pair", "message"),
    [
        ("OR + c / 2", STAND_INS, "strongest pair: a and b replace each other"),
        ("AND + c / 2", PARTNERS, "strongest pair: a and b need each other"),
        ("-OR", STAND_INS, "strongest pair: a and b replace each other"),
    ],
)
def test_stand_ins_and_partners_have_their_colour_and_their_sentence(name, pair, message):
    figure = draw_axis(enumerated(GAMES[name], names=["a", "b", "c"]), title="t")
    assert lines_of(figure, "message") == message
    (arc,) = arcs(figure).values()
    assert tuple(round(255 * c) for c in arc.get_edgecolor()[:3]) == tuple(bytes.fromhex(pair[1:]))
    assert (DIRECTION in lines_of(figure, "notes")) == (pair == STAND_INS)
    assert (arc.get_linestyle() == "solid") == (pair == STAND_INS)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(
    ("strength", "message"),
    [
        (1.3, "strongest pair: a and b replace each other"),
        (1.4, "strongest pair: a replaces b more than the reverse"),
    ],
)
def test_the_sentence_says_which_of_two_unequal_substitutes_replaces_the_other(first, strength, message):
    """max(s a, b): C = -1/6, R[b] = 1/6 and R[a] = (s - 1) / 2 + 1/6, which is twice as large from s = 4/3 on."""
    second = 1 - first
    names = ["a", "b"] if first == 0 else ["b", "a"]
    graph = enumerated(lambda s: max(strength * (first in s), 1 * (second in s)), 2, names)
    np.testing.assert_allclose(graph.potential[[first, second]], [(strength - 1) / 2 + 1 / 6, 1 / 6], atol=1e-12)
    assert lines_of(draw_axis(graph, title="t"), "message") == message


def test_rows_are_sorted_by_size_and_marks_lie_at_their_values():
    graph = random_graph(8)
    values = values_of_sample(graph)
    order = values.order()
    assert np.all(np.diff(np.abs(graph.shapley[order])) <= 0)
    figure = draw_axis(graph, title="t")
    assert [line.get_text() for line in lines_in(figure) if line.get_gid() == "label"] == [str(k) for k in order]
    for gid, expected in (("dots", values.shapley), ("rings", values.late)):
        pixels = centres(figure, gid, 8)
        slope, shift = np.polyfit(expected[order], pixels, 1)
        np.testing.assert_allclose(pixels, slope * expected[order] + shift, atol=1e-6)
        assert slope > 0


def test_what_is_beyond_the_rows_is_added_up_in_one():
    graph = random_graph(40)
    figure = draw_axis(graph, title="t", max_rows=10)
    labels = [line.get_text() for line in lines_in(figure) if line.get_gid() == "label"]
    assert len(labels) == 10
    assert labels[-1] == "31 others together"
    assert len(centres(figure, "dots", 9)) == 9


def test_negligible_features_have_no_row_of_their_own_where_not_all_fit():
    shapley = np.array([1.0, 0.5, 0.02, *[0.001] * 17])
    graph = ExplanationGraph(np.zeros((20, 20)), shapley=shapley)
    assert values_of_sample(graph).listed(15) == [0, 1, 2]
    assert len(values_of_sample(graph).listed(20)) == 20
    figure = draw_axis(graph, title="t")
    assert "17 others together" in texts_of(figure)


def test_a_sum_far_beyond_the_rows_is_written_as_a_number():
    weights, shapley = np.zeros((60, 60)), np.full(60, 0.5)
    figure = draw_axis(ExplanationGraph(weights, shapley=shapley), title="t", max_rows=5)
    assert lines_of(figure, "rest") == "28"


def test_noise_draws_no_arcs_but_whiskers():
    rng = np.random.default_rng(0)
    weights = 0.1 + rng.normal(0, 0.02, (9, 9))
    np.fill_diagonal(weights, 0)
    errors = 0.02 * (1 - np.eye(9))
    graph = ExplanationGraph(weights, shapley=np.full(9, 0.2), standard_error=errors)
    figure = draw_axis(graph, title="t")
    assert not arcs(figure)
    assert "no pair term C is above 2% of the largest importance and above its noise" in lines_of(figure, "notes")
    assert "95 % intervals" in lines_of(figure, "notes")
    assert any(artist.get_gid() == "whiskers" for artist in figure.artists)
    exact = ExplanationGraph(weights, shapley=np.full(9, 0.2))
    assert arcs(draw_axis(exact, title="t"))
    assert not any(artist.get_gid() == "whiskers" for artist in draw_axis(exact, title="t").artists)


def test_a_class_shows_means_of_absolute_values_that_do_not_cancel():
    plus = enumerated(GAMES["OR + c / 2"])
    minus = ExplanationGraph(-plus.weights, shapley=-plus.shapley)
    values = values_of_class([plus, minus, plus, minus])
    np.testing.assert_allclose(values.shapley, plus.shapley)
    np.testing.assert_allclose(values.late, 2 * plus.potential)
    np.testing.assert_allclose(values.pairs, plus.pairwise)
    figure = draw_axis(ExplanationGraph.mean([plus, minus]), title="t", graphs=[plus, minus, plus, minus])
    assert "Means of absolute values over 4 samples. Whiskers: 8 of 10 samples." in lines_of(figure, "notes")


def test_the_whiskers_of_a_class_hold_eight_of_ten_samples():
    graphs = [random_graph(4, seed=seed) for seed in range(41)]
    low, high = values_of_class(graphs).shapley_whiskers.T
    sizes = np.abs([graph.shapley for graph in graphs])
    inside = ((sizes >= low) & (sizes <= high)).mean(axis=0)
    assert np.all((inside > 0.75) & (inside < 0.85))


def test_a_change_is_the_difference_of_two_graphs():
    before, after = enumerated(GAMES["AND + c / 2"]), enumerated(GAMES["OR + c / 2"])
    values = values_of_change(before, after)
    np.testing.assert_allclose(values.shapley, after.shapley - before.shapley)
    np.testing.assert_allclose(values.pairs, after.pairwise - before.pairwise)
    figure = draw_axis(after, title="t", before=before)
    assert lines_of(figure, "message") == "0 and 1 replace each other more than before"
    assert lines_of(figure, "xlabel") == "change of importance"
    assert lines_of(draw_axis(after, title="t", before=after), "message") == "nothing has changed"


def test_the_error_of_a_change_holds_both_errors():
    weights, shapley = [[0, 0.2], [0.1, 0]], [0.4, 0.2]
    noisy = ExplanationGraph(weights, shapley=shapley, standard_error=[[0, 0.03], [0.03, 0]])
    exact = ExplanationGraph(weights, shapley=shapley)
    one, both = (values_of_change(before, noisy).late_whiskers for before in (exact, noisy))
    np.testing.assert_allclose(np.ptp(both, axis=1), np.sqrt(2) * np.ptp(one, axis=1))


def test_no_feature_matters():
    figure = draw_axis(ExplanationGraph(np.zeros((3, 3)), shapley=np.zeros(3)), title="t")
    assert lines_of(figure, "message") == "no feature matters"


def test_words_and_images_stand_above_the_rows():
    figure = draw_axis(sentence_graph(), title="t", words=sentence_graph().names)
    assert [int(word) for word in gids_of(figure, "word")] == list(range(8))
    graph = random_graph(16)
    segments = np.arange(16).reshape(4, 4)
    figure = draw_axis(graph, title="t", image=np.zeros((4, 4)), segments=segments, max_rows=6)
    listed = {line.get_text() for line in lines_in(figure) if line.get_gid() == "label"} - {"11 others together"}
    assert {line.get_text() for line in marks_of(figure, "part").values()} == listed
    assert set(marks_of(figure, "picture")) == {"input", "shapley"}
    assert "input, with the parts listed below" in texts_of(figure)
    figure = draw_axis(graph, title="t", graphs=[graph, graph], segments=segments)
    assert "a sample, with the parts listed below" in texts_of(figure)


def test_long_names_in_the_message_keep_both_ends_of_each():
    names = [f"the_{word}_measurement_of_the_left_ventricle_{word}" for word in ("first", "second", "third")]
    message = lines_of(draw_axis(enumerated(GAMES["OR + c / 2"], names=names), title="t"), "message")
    one, other = message.removeprefix("strongest pair: ").removesuffix(" replace each other").split(" and ")
    assert (one[:4], one[-5:]) == ("the_", "first")
    assert (other[:4], other[-6:]) == ("the_", "second")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_rows": 2}, "`max_rows` must lie between 3 and 30, got 2"),
        ({"max_rows": 31}, "`max_rows` must lie between 3 and 30, got 31"),
        ({"words": ["a"]}, "`words` must hold 5 words, one per player, got 1"),
        ({"image": np.zeros((2, 2))}, "`segments` must say which player each pixel of `image` belongs to, got None"),
        ({"graphs": []}, "`graphs` must hold at least one graph, all with the same names, got 0 graphs"),
        ({"graphs": [random_graph(2), random_graph(3)]}, "`graphs` must hold .* got 2 graphs with 2 sets of names"),
        ({"before": random_graph(4)}, "`before` must have the 5 players of `graph`, got 4 players or other names"),
        (
            {"before": random_graph(5), "graphs": [random_graph(5)]},
            "`graphs` and `before` must not be given together, got both",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        draw_axis(random_graph(5), title="t", **arguments)


def test_a_graph_without_shapley_values_is_refused():
    with pytest.raises(ValueError, match="`graph` must have Shapley values, got a graph without"):
        draw_axis(ExplanationGraph([[0, 1], [1, 0]]), title="t")


def test_the_legend_says_what_dot_and_ring_are():
    assert "Shapley value" in texts_of(draw_axis(random_graph(3), title="t"))
    assert "once the other features are present (2R)" in texts_of(draw_axis(random_graph(3), title="t"))
