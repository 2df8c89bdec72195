"""`draw_image_graphs`: the ranking, the strongest arrows of G and the groups of H, drawn on the image itself."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views.figures.canvas import (
    LINE,
    MARGIN,
    PAPER,
    SOFT_INK,
    WIDTH,
    Area,
    Canvas,
    line_height,
    ramp,
    tint,
)
from bivshap_lightning.views.figures.graphs import check_same_players, facts, order_of, scores_of
from bivshap_lightning.views.figures.layout import Layout, colour_of, letter_of
from bivshap_lightning.views.figures.names import labels_of
from bivshap_lightning.views.figures.node_link import draw_edges, draw_scale, radii_of, sentence_of_g, strongest_edges
from bivshap_lightning.views.figures.parts import (
    Labels,
    Pixels,
    checked_image,
    checked_segments,
    draw_borders,
    hatch_parts,
    name_parts,
    positions_of,
)
from bivshap_lightning.views.figures.quotient_drawing import why_empty

_GAP = 24
_PANEL_WIDTH = (WIDTH - 2 * MARGIN - _GAP) / 2
_TALLEST = 330
_SIZE = 11
_MAX_GROUPS = 8

HATCHING_IN_H = "A hatched part is redundant once some other part is present."
COLOURS_IN_H = "Once one part of a colour is present, the others of that colour are redundant."


def draw_image_graphs(
    graph: ExplanationGraph,
    h: RedundancyGraph,
    image: ArrayLike | None,
    segments: ArrayLike,
    *,
    title: str,
    subtitle: str | None = None,
    scores: ArrayLike | None = None,
    layout: Layout | None = None,
    max_nodes: int = 20,
    max_edges: int = 40,
) -> Figure:
    """Three copies of an image: the ranking as a heat map, the strongest arrows of G, and the groups of H in colour.

    The parts that rank highest carry their names, the same as in tables, where there is room.

    Args:
        graph: G, one player per part of the picture.
        h: The redundancy graph of the same players.
        image: (H, W), (H, W, 1), (H, W, 3), (1, H, W) or (3, H, W), integers from 0 to 255 or floats. Floats
            outside 0 to 1 are stretched to that range. None draws the parts alone.
        segments: (H, W) integers, the player each pixel belongs to; -1 where there is none.
        title: The first line of the picture.
        subtitle: Words for the line below, before the numbers about H.
        scores: (F,) ranking, high = important; by default `graph.ranking()`.
        layout: Pass the same one each epoch and groups keep their colours.
        max_nodes: Parts between which arrows are drawn, the most important ones.
        max_edges: Arrows of G.

    Returns:
        A figure 700 pixels wide that belongs to no pyplot state.

    Example:
        >>> graph = ExplanationGraph([[0, 0, 0.2], [0, 0, 0.2], [0.1, 0.1, 0]])
        >>> segments = [[0, 0, 1, 1], [2, 2, 2, -1]]
        >>> figure = draw_image_graphs(graph, graph.redundancy(), np.eye(2, 4), segments, title="Sample 0")
        >>> [artist.get_gid() for artist in figure.artists if "picture" in (artist.get_gid() or "")]
        ['picture:ranking', 'picture:G', 'picture:H']
    """
    check_same_players(graph, h)
    parts = checked_segments(segments, graph.n_players)
    pixels = checked_image(image, parts.shape)
    layout = Layout() if layout is None else layout
    scale = min(_PANEL_WIDTH / parts.shape[1], _TALLEST / parts.shape[0])
    width, height = scale * parts.shape[1], scale * parts.shape[0]
    height_of_h = height if h.adjacency.any() else 2 * line_height(_SIZE)
    canvas = Canvas(WIDTH, round(74 + 2 * 34 + height + height_of_h + 98 + 20))
    canvas.header(title, facts(graph, h, subtitle))
    top, middle = 74 + 34, 74 + 34 + height + 98 + 34
    right = MARGIN + _PANEL_WIDTH + _GAP
    ranking = scores_of(graph, scores)
    players = [player for player in order_of(graph, scores) if (parts == player).any()][:max_nodes]
    _draw_ranking(canvas, Area(MARGIN, top, width, height), parts, ranking, players, graph.names)
    _draw_g(canvas, Area(right, top, width, height), graph, pixels, parts, players, ranking, max_edges)
    _draw_h(canvas, Area(MARGIN, middle, width, height_of_h), h, pixels, parts, layout)
    return canvas.finish()


def _draw_g(
    canvas: Canvas,
    area: Area,
    graph: ExplanationGraph,
    pixels: Pixels,
    parts: Labels,
    players: Sequence[int],
    ranking: Pixels,
    max_edges: int,
) -> None:
    canvas.picture(0.62 + 0.38 * pixels, area, gid="picture:G")
    draw_borders(canvas, area, parts)
    edges = strongest_edges(graph, players, max_edges)
    places = positions_of(area, parts, players)
    largest = min(9.0, max(4.0, 0.3 * np.sqrt(area.width * area.height / max(graph.n_players, 1))))
    radii = radii_of(ranking, players, 0.5 * largest, largest)
    draw_edges(canvas, edges, places, radii, thin=True)
    for player in players:
        canvas.disc(places[player], radii[player], fill=PAPER, gid=f"node:{player}")
    of_all = f" of {graph.n_players:,}" if len(players) < graph.n_players else ""
    _write_caption(canvas, area, "G", f"{len(edges)} arrows, top {len(players)}{of_all} parts")
    y = area.bottom + 6
    below = canvas.paragraph(area.left, y, sentence_of_g(edges), _PANEL_WIDTH, size=_SIZE, gid="arrows:G")
    draw_scale(canvas, area.left, below + 10, edges)


def _draw_h(canvas: Canvas, area: Area, h: RedundancyGraph, pixels: Pixels, parts: Labels, layout: Layout) -> None:
    """Groups in their colours; hatched where a part is redundant without being in a group; an empty H in words."""
    if not h.adjacency.any():
        _write_caption(canvas, area, "H", "no arrow")
        whole_width = WIDTH - 2 * MARGIN
        canvas.paragraph(area.left, area.top, why_empty(h, "part"), whole_width, size=_SIZE, gid="arrows:H")
        return
    grey = (0.72 + 0.28 * pixels.mean(axis=2))[..., None].repeat(3, axis=2)
    numbers = layout.group_numbers(h)
    for group, number in zip(h.groups, numbers, strict=True):
        inside = np.isin(parts, group)
        colour = np.array(tint(colour_of(number), 1.0))
        grey[inside] = 0.72 * colour + 0.28 * grey[inside]
    canvas.picture(grey, area, gid="picture:H")
    grouped = {player for group in h.groups for player in group}
    hatched = [p for p in np.flatnonzero(h.adjacency.any(axis=0)).tolist() if p not in grouped]
    hatch_parts(canvas, area, parts, hatched)
    draw_borders(canvas, area, parts)
    n_groups = len(h.groups)
    what = f"{n_groups} redundant group{'s' * (n_groups != 1)}, {len(grouped)} of {h.n_players:,} parts"
    _write_caption(canvas, area, "H", what)
    _write_legend(canvas, area, h, numbers, len(hatched))


def _draw_ranking(
    canvas: Canvas, area: Area, parts: Labels, ranking: Pixels, players: Sequence[int], names: Sequence[str]
) -> None:
    """The ranking as a heat map, with the names of the parts that rank highest."""
    low, high = float(ranking.min()), float(ranking.max())
    colours = ramp("viridis", 0.0, 1.0, 256)
    share = np.zeros_like(ranking) if high - low < 1e-12 else (ranking - low) / (high - low)
    shades = colours[np.round(share * 255).astype(np.intp), :3]
    pixels = np.where((parts >= 0)[..., None], shades[parts], 1.0)
    canvas.picture(pixels, area, gid="picture:ranking")
    draw_borders(canvas, area, parts)
    name_parts(canvas, area, parts, players, labels_of(names))
    _write_caption(canvas, area, "Ranking", "bright parts rank high")
    below = area.bottom + 6
    canvas.colour_scale(area.left, below + 10, colours, f"{low:.3g}", f"{high:.3g}")


def _write_caption(canvas: Canvas, area: Area, name: str, what: str) -> None:
    canvas.write(area.left, area.top - 18, name, size=13, bold=True)
    indent = canvas.width_of(name, size=13, bold=True) + 8
    canvas.write(area.left + indent, area.top - 18, what, size=12, colour=SOFT_INK, gid=f"what:{name}")


def _write_legend(canvas: Canvas, area: Area, h: RedundancyGraph, numbers: Sequence[int], n_hatched: int) -> None:
    """What the colours mean, largest group first, and how many others make a group redundant."""
    left = MARGIN + _PANEL_WIDTH + _GAP
    sentence = COLOURS_IN_H if h.groups else HATCHING_IN_H
    y = canvas.paragraph(left, area.top, sentence, _PANEL_WIDTH, size=_SIZE, gid="arrows:H") + 16
    room = int((area.bottom - y) / line_height(_SIZE)) - bool(n_hatched)
    n_lines = max(1, min(_MAX_GROUPS, room))
    n_shown = len(h.groups) if len(h.groups) <= n_lines else n_lines - 1
    for group, number in list(zip(h.groups, numbers, strict=True))[:n_shown]:
        makers = set(np.flatnonzero(h.adjacency[:, list(group)].any(axis=1)).tolist()) - set(group)
        canvas.rectangle(Area(left, y - 6, 14, 12), fill=tint(colour_of(number), 0.8))
        text = f"{letter_of(number)}: {len(group)} parts"
        if makers:
            text += f", also given {len(makers)} other{'s' * (len(makers) > 1)}"
        _write_entry(canvas, left, y, text)
        y += line_height(_SIZE)
    if n_shown < len(h.groups):
        _write_entry(canvas, left, y, f"+{len(h.groups) - n_shown} more groups")
        y += line_height(_SIZE)
    if n_hatched:
        canvas.rectangle(Area(left, y - 6, 14, 12), fill=PAPER, edge=LINE, hatch="//////")
        _write_entry(canvas, left, y, f"{n_hatched} redundant given some other part")


def _write_entry(canvas: Canvas, left: float, y: float, text: str) -> None:
    canvas.write(
        left + 22, y, canvas.fit(text, _PANEL_WIDTH - 22, size=_SIZE), size=_SIZE, colour=SOFT_INK, gid="legend"
    )
