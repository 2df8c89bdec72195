"""The panels of a class and of a sample: one entry each, in the order in which they are written.

To add a panel, write a function `draw(data: PanelData)` in a file of its own and add one line to `PANELS`, or call
`register_panel` from your own code. What the function returns decides where the panel is shown:

- a matplotlib figure: Images,
- a string of Markdown: Text,
- an array of numbers: Histograms,
- None: nothing, because the panel does not apply to these data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views.figures.axis import draw_axis
from bivshap_lightning.views.figures.graphs import draw_graphs, draw_words
from bivshap_lightning.views.figures.images import draw_image_graphs
from bivshap_lightning.views.figures.layout import Layout
from bivshap_lightning.views.figures.names import markdown_text, tag_part
from bivshap_lightning.views.tensorboard.tables import groups_table, pairs_table, ranking_table

Subject = Literal["class", "sample"]
Content = Figure | str | NDArray[np.float64] | None


@dataclass(frozen=True)
class PanelData:
    """What a panel may draw.

    Attributes:
        subject: Whether it is about a class or a sample.
        graph: G of the sample, or the mean over the samples of the class.
        h: The redundancy graph of the same players.
        title: First line of figures.
        subtitle: Line below it, or None.
        scores: (F,) ranking, high = important, or None for `graph.ranking()`.
        graphs: The samples of a class, or None.
        image: As in `draw_image_graphs`, or None.
        segments: (H, W) the player of each pixel, or None.
        words: A word per player, or None.
        layout: Positions and colours, the same at every step of a tag.
        max_nodes: Players in a drawing of G if there are more than 24.
        max_edges: Arrows in a drawing of G.
    """

    subject: Subject
    graph: ExplanationGraph
    h: RedundancyGraph
    title: str
    subtitle: str | None
    scores: ArrayLike | None
    graphs: Sequence[ExplanationGraph] | None
    image: ArrayLike | None
    segments: ArrayLike | None
    words: Sequence[str] | None
    layout: Layout
    max_nodes: int
    max_edges: int


@dataclass(frozen=True)
class Panel:
    """A panel.

    Attributes:
        name: Last part of the tag: `bivshap/class/<class>/<name>` or `bivshap/sample/<index>/<name>`.
        subjects: What it is drawn for: "class", "sample" or both.
        draw: Function of `PanelData` that returns a figure, Markdown, numbers or None.

    Example:
        >>> Panel("density", ("class",), lambda data: f"Density of H: {data.h.density:.2f}").name
        'density'
    """

    name: str
    subjects: tuple[Subject, ...]
    draw: Callable[[PanelData], Content]

    def __post_init__(self) -> None:
        if self.name != tag_part(self.name):
            raise ValueError(
                f"`name` must consist of letters, digits, '.', '-' and '_', got {self.name!r}. "
                f"Try {tag_part(self.name)!r}."
            )
        if not self.subjects or not set(self.subjects) <= set(get_args(Subject)):
            raise ValueError(f"`subjects` must be some of {get_args(Subject)}, got {self.subjects}. Name at least one.")


def _axis(data: PanelData) -> Figure | None:
    if data.graph.shapley is None:
        return None
    return draw_axis(
        data.graph,
        title=data.title,
        subtitle=data.subtitle,
        graphs=_same_players(data),
        words=data.words,
        image=data.image,
        segments=data.segments,
    )


def _same_players(data: PanelData) -> Sequence[ExplanationGraph] | None:
    """The samples of a class if they have the players of its mean graph; texts have other words each."""
    same = data.graphs and all(graph.names == data.graph.names for graph in data.graphs)
    return data.graphs if same else None


def _graphs(data: PanelData) -> Figure:
    """G and H as it suits the players: on the image, below the text, or with their names alone."""
    common: dict[str, Any] = {
        "title": data.title,
        "subtitle": data.subtitle,
        "scores": data.scores,
        "layout": data.layout,
        "max_nodes": data.max_nodes,
        "max_edges": data.max_edges,
    }
    if data.segments is not None:
        return draw_image_graphs(data.graph, data.h, data.image, data.segments, **common)
    if data.words is not None:
        return draw_words(data.graph, data.h, words=data.words, **common)
    return draw_graphs(data.graph, data.h, **common)


def _ranking(data: PanelData) -> str:
    pairs = [] if data.graph.shapley is None else ["### Pairs", pairs_table(data.graph, graphs=_same_players(data))]
    parts = (
        f"## {markdown_text(data.title)}",
        *pairs,
        "### Ranking",
        ranking_table(data.graph, data.h, scores=data.scores, layout=data.layout),
        "### Groups",
        groups_table(data.h, data.graph, scores=data.scores, layout=data.layout),
    )
    return "\n\n".join(parts) + "\n"


def _abs_weights(data: PanelData) -> NDArray[np.float64] | None:
    """Sizes of the weights of G, which help to choose gamma."""
    if data.graph.n_players == 1:
        return None
    sizes: NDArray[np.float64] = np.abs(data.graph.weights[~np.eye(data.graph.n_players, dtype=np.bool_)])
    return sizes


PANELS = [
    Panel("axis", ("class", "sample"), _axis),
    Panel("graphs", ("class", "sample"), _graphs),
    Panel("ranking", ("class",), _ranking),
    Panel("abs_weights", ("class",), _abs_weights),
]
"""All panels, in the order in which they are written."""


def register_panel(panel: Panel) -> None:
    """Add a panel to all that are written from now on, after the others.

    Args:
        panel: With a name that no other panel has.

    Example:
        >>> def draw_density(data):
        ...     return f"Density of H: {data.h.density:.2f}"
        >>> register_panel(Panel("density", ("class",), draw_density))
        >>> PANELS.pop().name
        'density'
    """
    if any(panel.name.lower() == other.name.lower() for other in PANELS):
        raise ValueError(f"`panel` must have a name of its own, got {panel.name!r} again. Choose another name.")
    PANELS.append(panel)
