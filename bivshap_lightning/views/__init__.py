"""What is shown: pictures and tables of G and H, and the TensorBoard panels made of them.

An arrow i -> j of G is the importance of j once i is present; an arrow i -> j of H says that j is redundant once
i is present. Every picture says so in words.

This room draws and writes; it computes nothing. It knows graphs and numbers, and neither torch nor Lightning.

Example:
    >>> from bivshap_lightning.graph import ExplanationGraph
    >>> from bivshap_lightning.views import draw_graphs
    >>> graph = ExplanationGraph([[0, 0, 1 / 4], [0, 0, 1 / 4], [1 / 6, 1 / 6, 0]], names=["a", "b", "c"])
    >>> figure = draw_graphs(graph, graph.redundancy(), title="OR(a, b) + c / 2")
"""

from bivshap_lightning.views.figures.canvas import render_png
from bivshap_lightning.views.figures.curves import draw_curves
from bivshap_lightning.views.figures.graphs import draw_graphs, draw_words
from bivshap_lightning.views.figures.images import draw_image_graphs
from bivshap_lightning.views.figures.layout import Layout
from bivshap_lightning.views.tensorboard.panels import Panels
from bivshap_lightning.views.tensorboard.summaries import (
    START_LINE,
    write_curve,
    write_figure,
    write_histogram,
    write_redundancy_graph,
    write_text,
)
from bivshap_lightning.views.tensorboard.tables import groups_table, ranking_table

__all__ = [
    "START_LINE",
    "Layout",
    "Panels",
    "draw_curves",
    "draw_graphs",
    "draw_image_graphs",
    "draw_words",
    "groups_table",
    "ranking_table",
    "render_png",
    "write_curve",
    "write_figure",
    "write_histogram",
    "write_redundancy_graph",
    "write_text",
]
