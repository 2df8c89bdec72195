"""What is in the figures: marks, words, sizes."""

import io
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views import (
    Layout,
    draw_axis,
    draw_curves,
    draw_graphs,
    draw_image_graphs,
    draw_words,
    render_png,
)
from bivshap_lightning.views.figures.layout import COLOURS
from bivshap_lightning.views.figures.node_link import spread
from tests.views.example_graphs import (
    NASTY_NAMES,
    SENTENCE,
    gids_of,
    grouped_graph,
    lines_in,
    lines_of,
    marks_of,
    picture_of,
    random_graph,
    sentence_graph,
    texts_of,
)

LONG_NAMES = tuple(f"measurement_{k:02d}_of_the_left_ventricle_in_mm" for k in range(24))


def graph_of_many_kinds():
    """A group, what it makes redundant, a chain and players apart."""
    return grouped_graph([3, 2, 1, 1, 1, 1, 1], arrows=[(0, 1), (2, 3), (3, 4), (2, 4), (0, 4)])


def _graphs(graph, title="t", **options):
    return draw_graphs(graph, graph.redundancy(), title=title, **options)


def _image(graph, segments, **options):
    image = np.random.default_rng(0).random(segments.shape)
    return draw_image_graphs(graph, graph.redundancy(), image, segments, title="t", **options)


def _many_words():
    graph = random_graph(300, share_zero=0.9)
    return draw_words(graph, graph.redundancy(), title="t", words=[f"word{k % 50}" for k in range(300)])


def _curves(n_methods=3):
    x = np.linspace(0, 1, 11)
    return {f"method {k}": (x, 1 - x ** (k + 1), 0.02 + 0 * x if k % 2 == 0 else None) for k in range(n_methods)}


PICTURES = {
    "3 players": lambda: _graphs(grouped_graph([2, 1])),
    "1 player": lambda: _graphs(ExplanationGraph([[0.0]])),
    "many kinds": lambda: _graphs(graph_of_many_kinds()),
    "24 long names": lambda: _graphs(random_graph(24, names=LONG_NAMES, share_zero=0.1)),
    "ten groups": lambda: _graphs(grouped_graph([4, 3, 3, 3, 2, 2, 2, 2, 2, 2], arrows=[(0, 1), (1, 2), (5, 6)])),
    "196 players": lambda: _graphs(random_graph(196)),
    "complete H": lambda: _graphs(ExplanationGraph(np.zeros((9, 9)))),
    "empty H": lambda: _graphs(grouped_graph([1] * 12)),
    "nasty names": lambda: _graphs(random_graph(12, names=NASTY_NAMES), title="$x_1^2$ " + "long " * 60),
    "words": lambda: draw_words(sentence_graph(), sentence_graph().redundancy(), title="t"),
    "300 words": _many_words,
    "pixels": lambda: _image(random_graph(64), np.arange(64).reshape(8, 8)),
    "tall grid": lambda: _image(random_graph(6), np.arange(6).reshape(6, 1).repeat(20, 0).repeat(30, 1)),
    "curves": lambda: draw_curves(_curves(), title="t", xlabel="x", ylabel="y", caption="c"),
    "axis, 3 players": lambda: draw_axis(grouped_graph([2, 1]), title="t", subtitle="s"),
    "axis, 1 player": lambda: draw_axis(ExplanationGraph([[0.0]], shapley=[0.5]), title="t"),
    "axis, 30 rows": lambda: draw_axis(random_graph(30), title="t", max_rows=30),
    "axis, 196 players": lambda: draw_axis(random_graph(196), title="t"),
    "axis, nasty names": lambda: draw_axis(random_graph(12, names=NASTY_NAMES), title="$x_1^2$ " + "long " * 60),
    "axis, words": lambda: draw_axis(sentence_graph(), title="t", words=SENTENCE),
    "axis, image": lambda: draw_axis(random_graph(64), title="t", segments=np.arange(64).reshape(8, 8)),
    "axis, class": lambda: draw_axis(random_graph(9), title="t", graphs=[random_graph(9, seed=s) for s in range(5)]),
    "axis, change": lambda: draw_axis(random_graph(9), title="t", before=random_graph(9, seed=1)),
}


@pytest.mark.parametrize("name", PICTURES)
def test_all_text_lies_inside_the_picture_and_no_two_texts_overlap(name):
    figure = PICTURES[name]()
    canvas = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    width, height = canvas.get_width_height()
    boxes = [line.get_window_extent(renderer) for line in lines_in(figure)]
    assert boxes
    for box in boxes:
        assert box.x0 >= -1
        assert box.y0 >= -1
        assert box.x1 <= width + 1
        assert box.y1 <= height + 1
    for position, one in enumerate(boxes):
        for other in boxes[position + 1 :]:
            overlap_x = min(one.x1, other.x1) - max(one.x0, other.x0)
            overlap_y = min(one.y1, other.y1) - max(one.y0, other.y0)
            # Line boxes include room above and below the letters.
            assert min(overlap_x, overlap_y) <= 5, (name, one, other)


@pytest.mark.parametrize("name", PICTURES)
def test_a_figure_becomes_a_small_png(name):
    png, width, height = render_png(PICTURES[name]())
    with Image.open(io.BytesIO(png)) as image:
        assert image.size == (width, height)
        assert image.convert("RGB").getpixel((1, 1)) == (255, 255, 255)
    # Shown at 350 pixels.
    assert width == 700
    assert height <= 1120
    assert len(png) < 100_000


@pytest.mark.parametrize("draw", [draw_graphs, draw_words])
def test_pictures_say_what_an_arrow_means(draw):
    figure = draw(sentence_graph(), sentence_graph().redundancy(), title="t")
    assert "an arrow i → j is the importance of j once i is present" in lines_of(figure, "arrows:G")
    assert "an arrow i → j says that j is redundant once i is present" in lines_of(figure, "arrows:H")


def test_pictures_on_images_say_what_arrows_and_colours_mean():
    figure = _image(grouped_graph([2, 1, 1]), np.arange(4).reshape(2, 2))
    assert "an arrow i → j is the importance of j once i is present" in lines_of(figure, "arrows:G")
    assert "Once one part of a colour is present, the others of that colour are redundant" in lines_of(
        figure, "arrows:H"
    )


def test_every_player_up_to_24_is_drawn_with_its_name():
    figure = _graphs(random_graph(24, names=[f"name {k}" for k in range(24)]))
    assert sorted(gids_of(figure, "node"), key=int) == [str(k) for k in range(24)]
    assert len(gids_of(figure, "edge")) == 40
    assert all(f"name {k}" in texts_of(figure) for k in range(24))


def test_above_24_players_the_top_20_and_their_40_strongest_edges_are_drawn():
    graph = random_graph(30)
    figure = _graphs(graph)
    top = [str(player) for player in graph.order()[:20]]
    assert sorted(gids_of(figure, "node")) == sorted(top)
    edges = [tuple(map(int, edge.split(":"))) for edge in gids_of(figure, "edge")]
    assert len(edges) == 40
    among = np.abs(graph.weights[np.ix_(graph.order()[:20], graph.order()[:20])])
    assert min(abs(graph.weights[edge]) for edge in edges) >= np.sort(among, axis=None)[-40]
    assert "top 20 of 30 features, 40 arrows" in texts_of(figure)


def test_limits_and_scores_are_obeyed():
    scores = np.arange(30.0)
    figure = _graphs(random_graph(30), scores=scores, max_nodes=5, max_edges=3)
    assert sorted(gids_of(figure, "node"), key=int) == ["25", "26", "27", "28", "29"]
    assert len(gids_of(figure, "edge")) == 3


def test_zero_weights_are_no_arrows():
    figure = _graphs(grouped_graph([3, 1]))
    assert len(gids_of(figure, "edge")) == 6
    assert "no arrow: every weight is zero" in texts_of(_graphs(ExplanationGraph(np.zeros((4, 4)))))


def test_discs_grow_with_the_ranking():
    graph = sentence_graph()
    discs = marks_of(_graphs(graph), "node")
    order = [discs[str(player)].get_radius() for player in graph.order()]
    assert order == sorted(order, reverse=True)
    assert order[0] > 2 * order[-1]


def test_boxes_and_arrows_of_h_are_those_of_its_quotient():
    figure = _graphs(graph_of_many_kinds())
    assert len([gid for gid in gids_of(figure, "box") if "text" not in gid]) == 5
    assert len(gids_of(figure, "arrow")) == 4
    assert "A · 3 features" in texts_of(figure)
    assert "Without any arrow: 8, 9" in lines_of(figure, "isolated")


def test_h_is_never_cut_by_importance():
    # One unimportant player makes 40 others redundant; it is not among the top 20.
    weights = np.full((60, 60), 0.2)
    weights[:, 0] = 1e-3
    weights[0, 20:] = 0
    np.fill_diagonal(weights, 0)
    graph = ExplanationGraph(weights, names=["weak", *(f"n{k}" for k in range(1, 60))])
    figure = _graphs(graph)
    assert "0" not in gids_of(figure, "node")
    assert len(gids_of(figure, "arrow")) == 1
    assert "weak" in texts_of(figure)
    assert "each of 40" in texts_of(figure)


def test_empty_and_complete_h_are_said_in_words():
    assert "no feature makes another one redundant." in texts_of(_graphs(grouped_graph([1, 1, 1])))
    assert "1 redundant group with 9 of 9 features" in texts_of(_graphs(ExplanationGraph(np.zeros((9, 9)))))


def test_undecided_pairs_are_counted_below_the_title():
    graph = ExplanationGraph([[0, 0.1], [0.3, 0]], standard_error=[[0, 0.01], [0.04, 0]])
    figure = draw_graphs(graph, graph.redundancy(0.25), title="t", subtitle="epoch 3")
    assert lines_of(figure, "subtitle") == "epoch 3 · 2 features · γ = 0.25 · H: 1 of 2 arrows · 1 undecided"


def test_groups_have_their_colour_in_the_drawing_of_g():
    figure = _graphs(grouped_graph([2, 1]))
    faces = {player: disc.get_facecolor() for player, disc in marks_of(figure, "node").items()}
    assert faces["0"] == faces["1"] != faces["2"]
    assert tuple(round(255 * c) for c in faces["0"][:3]) == tuple(bytes.fromhex(COLOURS[0][1:]))


def test_words_keep_their_reading_order_and_may_repeat():
    graph = sentence_graph()
    figure = draw_words(graph, graph.redundancy(), title="t", words=["very", "very", *SENTENCE[2:]])
    assert [int(word) for word in gids_of(figure, "word")] == list(range(8))
    assert gids_of(figure, "node") == [str(k) for k in range(8)]
    assert texts_of(figure).count("very") >= 4


def test_a_long_text_is_cut_after_six_lines():
    figure = _many_words()
    shown = len(gids_of(figure, "word"))
    assert 30 < shown < 300
    assert f"+{300 - shown} words" in texts_of(figure)


def test_an_image_shows_its_groups_in_colour_and_the_rest_in_grey():
    segments = np.arange(4).reshape(2, 2).repeat(3, 0).repeat(3, 1)
    figure = _image(grouped_graph([2, 1, 1], arrows=[(1, 2)]), segments)
    picture = picture_of(figure, "H")
    assert picture.shape == (6, 6, 3)
    coloured = np.ptp(picture, axis=2) > 0.01
    np.testing.assert_array_equal(coloured, segments <= 1)
    # The fourth part is redundant given the third without being in a group.
    assert any(patch.get_gid() == "hatched" for patch in figure.artists)
    assert "A: 2 parts" in texts_of(figure)
    assert "1 redundant given some other part" in texts_of(figure)


def test_the_heat_map_follows_the_scores_and_leaves_pixels_without_a_player_white():
    segments = np.array([[0, 1], [2, -1]])
    figure = _image(random_graph(3), segments, scores=[0.1, 0.5, 0.3])
    brightness = picture_of(figure, "ranking").mean(axis=2)
    assert brightness[0, 0] < brightness[1, 0] < brightness[0, 1] < brightness[1, 1] == 1


def test_nodes_lie_inside_their_parts():
    # A ring, whose centre of mass belongs to the part inside, open at the bottom.
    segments = np.zeros((9, 9), dtype=int)
    segments[2:9, 2:7] = 1
    figure = _image(random_graph(2, share_zero=0), segments)
    box = marks_of(figure, "picture")["G"].get_window_extent()
    discs = marks_of(figure, "node")
    assert len(discs) == 2
    for player, disc in discs.items():
        x, y = disc.get_data_transform().transform(disc.get_center())
        row, column = int(9 * (box.ymax - y) / abs(box.height)), int(9 * (x - box.x0) / box.width)
        assert segments[row, column] == int(player)


def test_parts_carry_the_names_of_the_table():
    segments = np.array([[0, 0, 1], [0, 0, 2], [3, 3, 2]])
    graph = random_graph(4, names=["sky", "left wheel of the red car on the road", "7", "8"])
    figure = _image(graph, segments)
    assert {line.get_text() for line in marks_of(figure, "part").values()} >= {"sky", "7", "8"}


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((2, 3)),
        np.zeros((2, 3, 1)),
        np.zeros((2, 3, 3)),
        np.zeros((1, 2, 3)),
        np.zeros((3, 2, 3)),
        np.full((2, 3), 255, dtype=np.uint8),
        np.linspace(-2, 3, 6).reshape(2, 3),
        None,
    ],
)
def test_pictures_of_all_usual_shapes_and_ranges_are_drawn(image):
    graph = random_graph(6)
    figure = draw_image_graphs(graph, graph.redundancy(), image, np.arange(6).reshape(2, 3), title="t")
    shown = picture_of(figure, "G")
    assert shown.shape == (2, 3, 3)
    assert 0 <= shown.min() <= shown.max() <= 1


def test_an_empty_h_says_whether_pairs_are_undecided():
    weights = np.full((6, 6), 0.1)
    np.fill_diagonal(weights, 0)
    sure, unsure = (ExplanationGraph(weights, standard_error=error * (1 - np.eye(6))) for error in (1e-6, 0.2))
    segments = np.arange(6).reshape(2, 3)
    assert "no part makes another one redundant." in texts_of(_image(sure, segments))
    for figure, what in ((_image(unsure, segments), "part"), (_graphs(unsure), "feature")):
        words = " ".join(texts_of(figure).split())
        assert f"no {what} is shown to make another one redundant, and 30 of 30 pairs are undecided." in words
    assert _image(unsure, segments).get_figheight() < _image(random_graph(6, share_zero=0.9), segments).get_figheight()


def test_our_curve_is_drawn_thick_and_on_top():
    figure = draw_curves(_curves(), title="t", xlabel="x", ylabel="y", ours="method 1")
    lines = figure.axes[0].lines
    assert lines[-1].get_gid() == "curve:method 1"
    assert lines[-1].get_linewidth() > 1.5 * max(line.get_linewidth() for line in lines[:-1])
    assert len({line.get_color() for line in lines}) == 3
    assert len(figure.axes[0].collections) == 2
    assert all(f"method {k}" in texts_of(figure) for k in range(3))


def test_a_flat_curve_has_room_around_it():
    figure = draw_curves({"a": ([0, 1], [0.5, 0.5], None)}, title="t", xlabel="x", ylabel="y")
    low, high = figure.axes[0].get_ylim()
    assert low < 0.5 < high


def test_labels_are_spread_without_moving_more_than_needed():
    assert spread([], 10) == []
    assert spread([0, 100], 10) == [0, 100]
    assert spread([5, 5, 5], 10) == [-5, 5, 15]
    positions = spread([0, 3, 4, 50, 52, 60], 10)
    assert all(b - a >= 10 - 1e-9 for a, b in pairwise(positions))


GRAPH = grouped_graph([2, 1])
H = GRAPH.redundancy()
SQUARE = np.array([[0, 1], [2, 2]])


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: draw_graphs(GRAPH, RedundancyGraph([[False]], 0), title="t"),
            "`h` must have the 3 players of `graph`, got 1 players or other names",
        ),
        (lambda: draw_graphs(GRAPH, H, title="t", scores=[1, 2]), r"`scores` must have shape \(3,\), got \(2,\)"),
        (lambda: draw_words(GRAPH, H, title="t", words=["a"]), "`words` must hold 3 words, one per player, got 1"),
        (
            lambda: draw_image_graphs(GRAPH, H, None, [0, 1], title="t"),
            r"`segments` must be an \(H, W\) array of integers, got shape \(2,\)",
        ),
        (
            lambda: draw_image_graphs(GRAPH, H, None, [[0.5]], title="t"),
            "`segments` must be .* got shape .* dtype float64",
        ),
        (
            lambda: draw_image_graphs(GRAPH, H, None, [[0, 3]], title="t"),
            "`segments` must hold players from 0 to 2, or -1, got 0 to 3",
        ),
        (
            lambda: draw_image_graphs(GRAPH, H, np.zeros((3, 3)), SQUARE, title="t"),
            r"`image` must have shape \(2, 2\), \(2, 2, 3\) or \(3, 2, 2\) like `segments`, got \(3, 3\)",
        ),
        (
            lambda: draw_image_graphs(GRAPH, H, np.full((2, 2), np.nan), SQUARE, title="t"),
            "`image` must be finite, got NaN or infinity",
        ),
        (
            lambda: draw_curves({}, title="t", xlabel="x", ylabel="y"),
            "`curves` must hold at least one method, got none",
        ),
        (
            lambda: draw_curves(_curves(1), title="t", xlabel="x", ylabel="y", ours="other"),
            r"`ours` must be one of \['method 0'\], got 'other'",
        ),
        (
            lambda: draw_curves({"a": ([0, 1], [0], None)}, title="t", xlabel="x", ylabel="y"),
            r"`curves` must hold vectors of one length per method, got shapes \[\(2,\), \(1,\)\] for 'a'",
        ),
        (
            lambda: draw_curves({"a": ([0, 1], [0, np.nan], None)}, title="t", xlabel="x", ylabel="y"),
            "`curves` must be finite, got NaN or infinity for 'a'",
        ),
    ],
)
def test_wrong_arguments_are_refused_with_a_way_out(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_a_layout_given_is_the_one_used():
    layout = Layout("index")
    graph = grouped_graph([1, 1, 2])
    draw_graphs(graph, graph.redundancy(), title="t", layout=layout)
    assert layout.state_dict()["players"] == [0, 1, 2, 3]
