"""Panels leave nothing behind: no pyplot state, no style, no memory, no torch."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from torch.utils.tensorboard import SummaryWriter

from bivshap_lightning import views
from bivshap_lightning.views import (
    Panels,
    draw_axis,
    draw_curves,
    draw_graphs,
    draw_image_graphs,
    draw_words,
    render_png,
)
from tests.views.example_graphs import random_graph, sentence_graph

STYLE = {
    "axes.facecolor": "black",
    "figure.autolayout": True,
    "figure.dpi": 40,
    "figure.facecolor": "black",
    "font.family": "monospace",
    "font.size": 30,
    "font.weight": "bold",
    "image.interpolation": "bilinear",
    "lines.linewidth": 9,
    "lines.marker": "o",
    "patch.linewidth": 9,
    "savefig.bbox": "tight",
    "savefig.dpi": 300,
    "text.color": "white",
    "text.usetex": True,
}


def pictures():
    graph = sentence_graph()
    h = graph.redundancy()
    curve = np.linspace(0, 1, 5), np.linspace(1, 0, 5), None
    yield draw_axis(graph, title="t", words=graph.names)
    yield draw_graphs(graph, h, title="t")
    yield draw_words(graph, h, title="t")
    yield draw_image_graphs(graph, h, np.zeros((2, 4)), np.arange(8).reshape(2, 4), title="t")
    yield draw_curves({"a": curve, "b": curve}, title="t", xlabel="x", ylabel="y")


def test_the_same_input_gives_the_same_bytes_in_any_style_and_changes_none(global_rng_untouched):
    plain = [render_png(figure) for figure in pictures()]
    with matplotlib.rc_context(STYLE):
        before = dict(matplotlib.rcParams)
        styled = [render_png(figure) for figure in pictures()]
        assert dict(matplotlib.rcParams) == before
    assert styled == plain


def test_panels_load_neither_pyplot_nor_torch_nor_lightning(tmp_path):
    code = """
import sys
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning import views
from bivshap_lightning.views import Panels
graph = ExplanationGraph([[0, 0], [1, 0]], shapley=[1.5, 0.5])
Panels(sys.argv[1]).write_class("a", graph, graph.redundancy(), step=0)
heavy = {"matplotlib.pyplot", "torch", "lightning", "pytorch_lightning", "tensorflow", "pandas"} & set(sys.modules)
assert not heavy, heavy
"""
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_html_page_and_the_figures_do_not_load_tensorboard():
    code = """
import sys
import bivshap_lightning.views.html
from bivshap_lightning.views import draw_axis, render_png
heavy = {"tensorboard", "matplotlib.pyplot"} & set(sys.modules)
assert not heavy, heavy
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_all_public_names_are_found_and_others_are_not():
    for name in views.__all__:
        assert getattr(views, name) is not None
    assert sorted(views.__all__) == sorted(dir(views))
    with pytest.raises(AttributeError, match=r"module 'bivshap_lightning.views' has no attribute 'draw_nothing'"):
        _ = views.draw_nothing


def resident_bytes():
    """Memory of this process, where the system tells."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") if statm.exists() else 0


@pytest.mark.slow
def test_memory_stays_flat_over_200_epochs(tmp_path):
    graphs = [random_graph(2, seed=seed, share_zero=0) for seed in range(2)]
    with SummaryWriter(str(tmp_path), max_queue=1) as writer:
        panels = Panels(writer)

        def run(epochs):
            for epoch in epochs:
                graph = graphs[epoch % 2]
                panels.write_sample(0, graph, graph.redundancy(), step=epoch)
            writer.flush()
            gc.collect()
            return len(gc.get_objects()), resident_bytes()

        objects, memory = run(range(20))
        readings = [run(range(start, start + 20)) for start in range(20, 200, 20)]
    objects_after = readings[-1][0]
    # What leaks stays, so the lowest of the last readings has it too, but not a buffer that is still being written.
    memory_after = min(reading[1] for reading in readings[-4:])
    # One figure is more than 1,000 objects and its canvas 2.5 MB.
    assert objects_after - objects < 500
    assert memory_after - memory < 25e6


def test_a_written_figure_needs_no_garbage_collector(tmp_path):
    graph = random_graph(5)
    panels = Panels(tmp_path)
    panels.write_sample(0, graph, graph.redundancy(), step=0)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for epoch in range(5):
            panels.write_sample(0, graph, graph.redundancy(), step=epoch)
        assert len(gc.get_objects()) - before < 20_000
    finally:
        gc.enable()
