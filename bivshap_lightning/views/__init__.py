"""Figures, TensorBoard panels and the HTML page: they draw explanation graphs, redundancy graphs and records.

An arrow i -> j of G is the importance of j once i is present; an arrow i -> j of H says that j is redundant once
i is present. Every figure says so in words. Nothing is computed here beyond what a drawing needs. Figures are
matplotlib figures without pyplot.

Names are imported on first use, so that the HTML page does not load TensorBoard.

Example:
    >>> from bivshap_lightning.graph import ExplanationGraph
    >>> from bivshap_lightning.views import draw_axis
    >>> weights, shapley = [[0, 0, 1 / 4], [0, 0, 1 / 4], [1 / 6, 1 / 6, 0]], [1 / 2, 1 / 2, 1 / 2]
    >>> graph = ExplanationGraph(weights, names=["a", "b", "c"], shapley=shapley)
    >>> figure = draw_axis(graph, title="OR(a, b) + c / 2")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bivshap_lightning.views.figures.axis import draw_axis
    from bivshap_lightning.views.figures.curves import draw_curves
    from bivshap_lightning.views.figures.graphs import draw_graphs, draw_words
    from bivshap_lightning.views.figures.images import draw_image_graphs
    from bivshap_lightning.views.figures.layout import Layout
    from bivshap_lightning.views.figures.png import render_png
    from bivshap_lightning.views.tensorboard.panels import Panels
    from bivshap_lightning.views.tensorboard.registry import Panel, PanelData, register_panel
    from bivshap_lightning.views.tensorboard.summaries import (
        START_LINE,
        describe_scalars,
        write_figure,
        write_histogram,
        write_index,
        write_text,
    )
    from bivshap_lightning.views.tensorboard.tables import groups_table, pairs_table, ranking_table

_MODULES = {
    "START_LINE": "tensorboard.summaries",
    "Layout": "figures.layout",
    "Panel": "tensorboard.registry",
    "PanelData": "tensorboard.registry",
    "Panels": "tensorboard.panels",
    "describe_scalars": "tensorboard.summaries",
    "draw_axis": "figures.axis",
    "draw_curves": "figures.curves",
    "draw_graphs": "figures.graphs",
    "draw_image_graphs": "figures.images",
    "draw_words": "figures.graphs",
    "groups_table": "tensorboard.tables",
    "pairs_table": "tensorboard.tables",
    "ranking_table": "tensorboard.tables",
    "register_panel": "tensorboard.registry",
    "render_png": "figures.png",
    "write_figure": "tensorboard.summaries",
    "write_histogram": "tensorboard.summaries",
    "write_index": "tensorboard.summaries",
    "write_text": "tensorboard.summaries",
}

__all__ = [
    "START_LINE",
    "Layout",
    "Panel",
    "PanelData",
    "Panels",
    "describe_scalars",
    "draw_axis",
    "draw_curves",
    "draw_graphs",
    "draw_image_graphs",
    "draw_words",
    "groups_table",
    "pairs_table",
    "ranking_table",
    "register_panel",
    "render_png",
    "write_figure",
    "write_histogram",
    "write_index",
    "write_text",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
