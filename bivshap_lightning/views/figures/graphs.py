"""`draw_graphs` and, for text, `draw_words`: the explanation graph G above the quotient of H."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views.figures.canvas import MARGIN, WIDTH, Area, Canvas, line_height
from bivshap_lightning.views.figures.input_strip import WordStrip
from bivshap_lightning.views.figures.layout import Layout
from bivshap_lightning.views.figures.names import checked_words, labels_of
from bivshap_lightning.views.figures.node_link import (
    caption_of_g,
    draw_circle,
    draw_scale,
    sentence_of_g,
    strongest_edges,
    top_players,
)
from bivshap_lightning.views.figures.quotient_drawing import ARROW_IN_H, caption_of_h, draw_quotient, height_of_quotient

_HEADER = 74
_CAPTION = 32
_G_HEIGHT = 340
_SENTENCE_SIZE = 11


def draw_graphs(
    graph: ExplanationGraph,
    h: RedundancyGraph,
    *,
    title: str,
    subtitle: str | None = None,
    scores: ArrayLike | None = None,
    layout: Layout | None = None,
    max_nodes: int = 20,
    max_edges: int = 40,
) -> Figure:
    """G on an ellipse above the quotient of H in layers, with a sentence on what an arrow means in each.

    Discs grow with the ranking; arrows of G with the weight, reddish where j raises the explained value, bluish where
    it lowers it. Above 24 players G shows the `max_nodes` most important ones. H is never cut by importance: what does
    not fit is drawn as one box.

    Args:
        graph: G.
        h: The redundancy graph of the same players.
        title: The first line of the figure.
        subtitle: Words for the line below, before the numbers about H.
        scores: (F,) ranking, high = important; by default `graph.ranking()`.
        layout: Pass the same one each epoch and players keep their positions and groups their colours.
        max_nodes: Players in the drawing of G if there are more than 24.
        max_edges: Arrows in the drawing of G.

    Returns:
        A figure 700 pixels wide that belongs to no pyplot state.

    Example:
        >>> graph = ExplanationGraph([[0, 0, 1 / 4], [0, 0, 1 / 4], [1 / 6, 1 / 6, 0]], names=["a", "b", "c"])
        >>> figure = draw_graphs(graph, graph.redundancy(), title="OR(a, b) + c / 2")
        >>> float(figure.get_figwidth() * figure.dpi)
        700.0
    """
    check_same_players(graph, h)
    labels = labels_of(graph.names)
    return _draw(graph, h, title, subtitle, scores, layout or Layout(), labels, None, (max_nodes, max_edges))


def draw_words(
    graph: ExplanationGraph,
    h: RedundancyGraph,
    *,
    title: str,
    subtitle: str | None = None,
    words: Sequence[str] | None = None,
    scores: ArrayLike | None = None,
    layout: Layout | None = None,
    max_nodes: int = 20,
    max_edges: int = 40,
) -> Figure:
    """A text with its words shaded by importance, above the drawing of `draw_graphs` in reading order.

    Words are shaded by their Shapley values, or by the scores where there are none.

    Args:
        graph: G, one player per word.
        h: The redundancy graph of the same players.
        title: The first line of the figure.
        subtitle: Words for the line below, before the numbers about H.
        words: What to write for each player, where names had to be made distinct; by default the names.
        scores: (F,) ranking, high = important; by default `graph.ranking()`.
        layout: As in `draw_graphs`; by default one in reading order.
        max_nodes: As in `draw_graphs`.
        max_edges: As in `draw_graphs`.

    Example:
        >>> graph = ExplanationGraph([[0, 0.3], [0.2, 0]], names=["not", "bad"])
        >>> figure = draw_words(graph, graph.redundancy(), title="Sample 0")
        >>> [text.get_text() for text in figure.findobj() if text.get_gid() == "word:1"]
        ['bad']
    """
    check_same_players(graph, h)
    texts = graph.names if words is None else checked_words(words, graph.n_players)
    ranking = scores_of(graph, scores)
    strip = WordStrip(texts, ranking - ranking.min() if graph.shapley is None else graph.shapley)
    limits = (max_nodes, max_edges)
    return _draw(graph, h, title, subtitle, scores, layout or Layout("index"), labels_of(texts), strip, limits)


def facts(graph: ExplanationGraph, h: RedundancyGraph, subtitle: str | None) -> list[str]:
    """What the line below a title says."""
    n_edges, n_pairs = int(h.adjacency.sum()), h.n_players * (h.n_players - 1)
    n_open = int(h.undecided.sum())
    listed = [
        subtitle or "",
        f"{graph.n_players} features",
        f"γ = {h.gamma:.3g}",
        f"H: {n_edges:,} of {n_pairs:,} arrows",
    ]
    if n_open:
        listed.append(f"{n_open:,} undecided")
    return listed


def scores_of(graph: ExplanationGraph, scores: ArrayLike | None) -> NDArray[np.float64]:
    """The scores given, checked, or the ranking of the graph."""
    ranking = graph.ranking() if scores is None else np.asarray(scores, dtype=np.float64)
    if ranking.shape != (graph.n_players,):
        raise ValueError(
            f"`scores` must have shape ({graph.n_players},), got {ranking.shape}. "
            "Pass one score per player of the graph."
        )
    return ranking


def order_of(graph: ExplanationGraph, scores: ArrayLike | None) -> list[int]:
    """Players from the highest score to the lowest."""
    if scores is None:
        return [int(player) for player in graph.order()]
    return [int(player) for player in np.argsort(-scores_of(graph, scores), kind="stable")]


def check_same_players(graph: ExplanationGraph, h: RedundancyGraph) -> None:
    """Raise if the graphs are not of the same players."""
    if graph.names != h.names:
        raise ValueError(
            f"`h` must have the {graph.n_players} players of `graph`, got {h.n_players} players or other names. "
            "Build it with graph.redundancy()."
        )


def _draw(
    graph: ExplanationGraph,
    h: RedundancyGraph,
    title: str,
    subtitle: str | None,
    scores: ArrayLike | None,
    layout: Layout,
    labels: Sequence[str],
    strip: WordStrip | None,
    limits: tuple[int, int],
) -> Figure:
    ranking = scores_of(graph, scores)
    players = top_players(ranking, order_of(graph, scores), limits[0])
    edges = strongest_edges(graph, players, limits[1])
    sentence = f"{sentence_of_g(edges)} Larger discs rank higher."
    width = WIDTH - 2 * MARGIN
    top = _HEADER + (0 if strip is None else strip.height)
    g = Area(MARGIN, top + _CAPTION, width, _G_HEIGHT)
    top_of_h = g.bottom + 18 + _lines(sentence, width) * line_height(_SENTENCE_SIZE)
    below = Area(MARGIN, top_of_h + _CAPTION, width, height_of_quotient(h))
    canvas = Canvas(WIDTH, round(below.bottom + 28 + _lines(ARROW_IN_H, width) * line_height(_SENTENCE_SIZE)))
    canvas.header(title, facts(graph, h, subtitle))
    if strip is not None:
        strip.draw(canvas, _HEADER)
    caption_of_g(canvas, Area(g.left, top + 14, width, 0), players, edges, graph.n_players)
    draw_circle(canvas, g, graph, h, players=players, edges=edges, scores=ranking, labels=labels, layout=layout)
    draw_scale(canvas, g.right - 190, top + 14, edges)
    canvas.paragraph(g.left, g.bottom + 6, sentence, width, size=_SENTENCE_SIZE, gid="arrows:G")
    caption_of_h(canvas, Area(below.left, top_of_h + 14, width, 0), h)
    draw_quotient(canvas, below, h, labels=labels, layout=layout)
    canvas.paragraph(below.left, below.bottom + 8, ARROW_IN_H, width, size=_SENTENCE_SIZE, gid="arrows:H")
    return canvas.finish()


def _lines(text: str, width: float) -> int:
    """Lines that a paragraph takes."""
    return len(Canvas(WIDTH, 100).wrap(text.split(), width, len(text), size=_SENTENCE_SIZE))
