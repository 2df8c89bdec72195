"""G beside the quotient of H, for players with names: `draw_graphs` and, for text, `draw_words`."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views.figures.canvas import (
    MARGIN,
    MAX_WIDTH,
    SOFT_INK,
    Area,
    Page,
    ink_on,
    line_height,
    ramp,
)
from bivshap_lightning.views.figures.layout import Layout
from bivshap_lightning.views.figures.names import labels_of
from bivshap_lightning.views.figures.node_link import (
    caption_of_g,
    draw_circle,
    draw_scale,
    sentence_of_g,
    strongest_edges,
    top_players,
)
from bivshap_lightning.views.figures.quotient_drawing import ARROW_IN_H, caption_of_h, draw_quotient

_G_WIDTH = 520
_GAP = 30
_DRAWING_HEIGHT = 420
_STRIP_LINES = 4


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
    """G on a circle beside the quotient of H in layers, with a sentence on what an arrow means in each.

    Discs grow with the ranking; arrows of G with the weight, reddish where j adds to the explained value,
    bluish where it takes away. Above 24 players G shows the `max_nodes` most important ones. H is never cut by
    importance: what does not fit is drawn as one box.

    Args:
        graph: G.
        h: The redundancy graph of the same players.
        title: The first line of the picture.
        subtitle: Words for the line below, before the numbers about H.
        scores: (F,) ranking, high = important; by default `graph.ranking()`.
        layout: Pass the same one each epoch and players keep their places and groups their colours.
        max_nodes: Players in the drawing of G if there are more than 24.
        max_edges: Arrows in the drawing of G.

    Returns:
        A figure 1,050 pixels wide that belongs to no pyplot state.

    Example:
        >>> graph = ExplanationGraph([[0, 0, 1 / 4], [0, 0, 1 / 4], [1 / 6, 1 / 6, 0]], names=["a", "b", "c"])
        >>> figure = draw_graphs(graph, graph.redundancy(), title="OR(a, b) + c / 2")
        >>> figure.get_size_inches() * figure.dpi
        array([1050.,  610.])
    """
    check_same_players(graph, h)
    top = 76
    page = Page(MAX_WIDTH, top + 34 + _DRAWING_HEIGHT + 80)
    page.header(title, facts(graph, h, subtitle))
    _draw_side_by_side(
        page,
        top,
        graph,
        h,
        scores=scores,
        layout=layout or Layout(),
        labels=labels_of(graph.names),
        limits=(max_nodes, max_edges),
    )
    return page.finish()


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

    Args:
        graph: G, one player per word.
        h: The redundancy graph of the same players.
        title: The first line of the picture.
        subtitle: Words for the line below, before the numbers about H.
        words: What to write for each player, where names had to be made distinct; by default the names.
        scores: (F,) ranking, high = important; by default `graph.ranking()`.
        layout: As in `draw_graphs`; by default one in reading order.
        max_nodes: As in `draw_graphs`.
        max_edges: As in `draw_graphs`.

    Example:
        >>> graph = ExplanationGraph([[0, 0.3], [0.2, 0]], names=["not", "bad"])
        >>> figure = draw_words(graph, graph.redundancy(), title="Sample 0")
        >>> [text.get_text() for text in figure.axes[0].texts if text.get_gid() == "word:1"]
        ['bad']
    """
    check_same_players(graph, h)
    labels = graph.names if words is None else tuple(words)
    if len(labels) != graph.n_players:
        raise ValueError(
            f"`words` must hold {graph.n_players} words, one per player, got {len(labels)}. "
            "Leave it out to use the names."
        )
    ranking = scores_of(graph, scores)
    # Measured on a page of its own, because the height of the strip decides that of the page.
    strip_height = 8 + line_height(13) * len(_strip(Page(MAX_WIDTH, 100), labels))
    top = 76 + strip_height
    page = Page(MAX_WIDTH, round(top + 34 + _DRAWING_HEIGHT + 80))
    page.header(title, facts(graph, h, subtitle))
    _draw_strip(page, 80, labels, ranking)
    _draw_side_by_side(
        page,
        top,
        graph,
        h,
        scores=scores,
        layout=layout or Layout("index"),
        labels=labels_of(labels),
        limits=(max_nodes, max_edges),
    )
    return page.finish()


def facts(graph: ExplanationGraph, h: RedundancyGraph, subtitle: str | None) -> list[str]:
    """What the line below a title says."""
    n_edges, n_pairs = int(h.adjacency.sum()), h.n_players * (h.n_players - 1)
    n_open = int(h.undecided.sum())
    listed = [
        subtitle or "",
        f"{graph.n_players} features",
        f"γ = {h.gamma:.3g}",
        f"H has {n_edges:,} of {n_pairs:,} arrows",
    ]
    if n_open:
        listed.append(f"{n_open:,} undecided within the noise")
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
    """Refuse graphs of different players."""
    if graph.names != h.names:
        raise ValueError(
            f"`h` must have the {graph.n_players} players of `graph`, got {h.n_players} players or other names. "
            "Build it with graph.redundancy()."
        )


def _draw_side_by_side(
    page: Page,
    top: float,
    graph: ExplanationGraph,
    h: RedundancyGraph,
    *,
    scores: ArrayLike | None,
    layout: Layout,
    labels: Sequence[str],
    limits: tuple[int, int],
) -> None:
    max_nodes, max_edges = limits
    ranking = scores_of(graph, scores)
    players = top_players(ranking, order_of(graph, scores), max_nodes)
    edges = strongest_edges(graph, players, max_edges)
    left = Area(MARGIN, top + 34, _G_WIDTH - MARGIN, _DRAWING_HEIGHT)
    right_start = _G_WIDTH + _GAP
    right = Area(right_start, top + 34, page.width - MARGIN - right_start, _DRAWING_HEIGHT)
    caption_of_g(page, Area(left.left, top + 16, 0, 0), players, edges, graph.n_players)
    caption_of_h(page, Area(right.left, top + 16, 0, 0), h)
    draw_circle(page, left, graph, h, players=players, edges=edges, scores=ranking, labels=labels, layout=layout)
    draw_scale(page, left.right - 180, top + 16, edges)
    draw_quotient(page, right, h, labels=labels, layout=layout)
    sentence = f"{sentence_of_g(edges)} Larger discs rank higher."
    page.paragraph(left.left, left.bottom + 14, sentence, left.width, gid="arrows:G")
    page.paragraph(right.left, right.bottom + 14, ARROW_IN_H, right.width, gid="arrows:H")


def _strip(page: Page, words: Sequence[str]) -> list[list[int]]:
    """Positions of the words line by line, as far as the lines reach."""
    lines: list[list[int]] = [[]]
    used = 0.0
    for position, word in enumerate(words):
        width = page.width_of(_short(word), size=13) + 16
        if lines[-1] and used + width > page.width - 2 * MARGIN - 90:
            if len(lines) == _STRIP_LINES:
                break
            lines.append([])
            used = 0.0
        lines[-1].append(position)
        used += width
    return lines


def _draw_strip(page: Page, top: float, words: Sequence[str], ranking: NDArray[np.float64]) -> None:
    """The text, each word on a ground as dark as it is important."""
    colours = ramp("Purples", 0.0, 0.8)
    low, high = float(ranking.min()), float(ranking.max())
    height = line_height(13)
    lines = _strip(page, words)
    x, y = float(MARGIN), top
    for number, line in enumerate(lines):
        x, y = float(MARGIN), top + number * height
        for position in line:
            share = (ranking[position] - low) / (high - low) if high > low else 0.0
            ground = tuple(colours[round(share * (len(colours) - 1))][:3])
            width = page.width_of(_short(words[position]), size=13)
            page.rectangle(Area(x, y, width + 10, height - 3), fill=ground)
            page.write(
                x + 5,
                y + height / 2 - 1,
                _short(words[position]),
                size=13,
                colour=ink_on(ground),
                gid=f"word:{position}",
            )
            x += width + 16
    n_left = len(words) - sum(map(len, lines))
    if n_left:
        page.write(x, y + height / 2 - 1, f"+{n_left} words", size=10, colour=SOFT_INK)


def _short(word: str) -> str:
    return word if len(word) <= 30 else f"{word[:29]}…"
