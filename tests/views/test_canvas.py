"""What all figures are made of: text, pictures, colours, and the PNG."""

import io

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from bivshap_lightning.views import draw_graphs, render_png
from bivshap_lightning.views.figures.canvas import Area, Canvas
from tests.views.example_graphs import NASTY_NAMES, grouped_graph, lines_in, marks_of, random_graph, texts_of


def _graphs(graph, title="t"):
    return draw_graphs(graph, graph.redundancy(), title=title)


def test_names_are_not_read_as_formulas():
    figure = _graphs(random_graph(12, names=NASTY_NAMES), title="$\\frac{}{$")
    assert "$\\frac{}{$" in texts_of(figure)
    assert "x_1^2 \\alpha $" in texts_of(figure)
    render_png(figure)


def test_characters_without_a_font_are_replaced_and_explained():
    figure = _graphs(random_graph(3, names=["\U000e0fff\u0379", "b", "c"]))
    assert "□ stands for a character that no installed font can draw" in texts_of(figure)
    assert "□ stands for" not in texts_of(_graphs(random_graph(3)))


def test_pictures_are_drawn_the_right_way_up():
    canvas = Canvas(40, 60)
    corners = np.array([[[1.0, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 0]]])
    canvas.picture(corners, Area(10, 20, 20, 30))
    png, _, _ = render_png(canvas.finish())
    with Image.open(io.BytesIO(png)) as image:
        pixels = np.asarray(image.convert("RGB")) / 255
    np.testing.assert_array_equal(pixels[[[22, 22], [47, 47]], [[12, 28], [12, 28]]], corners)


def test_a_wide_figure_is_made_smaller_and_its_canvas_is_left_alone():
    figure = _graphs(random_graph(3))
    figure.set_dpi(200)
    canvas = figure.canvas
    _, width, height = render_png(figure)
    assert width == 1050
    assert height == round(1050 * figure.get_figheight() / figure.get_figwidth())
    assert figure.canvas is canvas
    assert figure.dpi == 200


def test_flat_colours_survive_the_palette():
    # Tints of two groups that a palette by averaging makes one.
    figure = _graphs(grouped_graph([3, 2, 2]))
    png, _, _ = render_png(figure)
    with Image.open(io.BytesIO(png)) as image:
        present = {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}
    boxes = {gid: mark for gid, mark in marks_of(figure, "box").items() if "text" not in gid}
    faces = [box.get_facecolor() for box in boxes.values()]
    assert len(set(faces)) == 3
    assert {tuple(round(255 * c) for c in face[:3]) for face in faces} <= present


@pytest.mark.parametrize("text", ["plain", "größe → γ", "日本語", "مرحبا", "e\u0301 combined"])
@pytest.mark.parametrize("halo", [None, "#ff0000"])
def test_text_of_any_script_is_drawn_inside_its_box(text, halo):
    canvas = Canvas(300, 60)
    canvas.write(150, 30, text, size=20, align="center", halo=halo)
    (line,) = lines_in(canvas.finish())[:1]
    agg = FigureCanvasAgg(canvas.figure)
    agg.draw()
    pixels = np.asarray(agg.buffer_rgba())[:46, :, :3].astype(int)
    rows, columns = np.nonzero(pixels.sum(axis=2) < 600)
    box = line.get_window_extent()
    assert len(rows) > 50
    assert box.x0 - 8 <= columns.min() <= columns.max() <= box.x1 + 8
    assert 60 - box.y1 - 5 <= rows.min() <= rows.max() <= 60 - box.y0 + 5
    is_red = (pixels[..., 0] > 200) & (pixels[..., 1] < 90)
    assert is_red.any() == (halo is not None)


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_figures_can_be_saved_as_drawings(suffix):
    buffer = io.BytesIO()
    _graphs(grouped_graph([3, 2, 1], arrows=[(0, 1)])).savefig(buffer, format=suffix)
    assert len(buffer.getvalue()) > 10_000
