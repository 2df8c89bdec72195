"""G, H and the ranking drawn on the picture itself: `draw_image_graphs`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import ArrayLike, NDArray

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views.figures.canvas import (
    LINE,
    MARGIN,
    MAX_WIDTH,
    PAPER,
    SOFT_INK,
    Area,
    Page,
    Point,
    line_height,
    ramp,
    tint,
)
from bivshap_lightning.views.figures.graphs import check_same_players, facts, order_of, scores_of
from bivshap_lightning.views.figures.layout import Layout, colour_of, letter_of
from bivshap_lightning.views.figures.node_link import draw_edges, draw_scale, radii_of, sentence_of_g, strongest_edges

Pixels = NDArray[np.float64]
Labels = NDArray[np.intp]

_PANEL_WIDTH = 306
_PANEL_GAP = (MAX_WIDTH - 2 * MARGIN - 3 * _PANEL_WIDTH) / 2
_TALLEST = 380
_LEGEND_LINES = 3

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
    """Three copies of a picture: G's strongest arrows, H's groups in colour, and the ranking as a heat map.

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
        A figure 1,050 pixels wide that belongs to no pyplot state.

    Example:
        >>> graph = ExplanationGraph([[0, 0, 0.2], [0, 0, 0.2], [0.1, 0.1, 0]])
        >>> segments = [[0, 0, 1, 1], [2, 2, 2, -1]]
        >>> figure = draw_image_graphs(graph, graph.redundancy(), np.eye(2, 4), segments, title="Sample 0")
        >>> [image.get_gid() for image in figure.axes[0].images if image.get_gid()]
        ['picture:G', 'picture:H', 'picture:ranking']
    """
    check_same_players(graph, h)
    parts = _checked_segments(segments, graph.n_players)
    pixels = _checked_image(image, parts.shape)
    layout = Layout() if layout is None else layout
    scale = min(_PANEL_WIDTH / parts.shape[1], _TALLEST / parts.shape[0])
    width, height = scale * parts.shape[1], scale * parts.shape[0]
    page = Page(MAX_WIDTH, round(76 + 34 + height + 112))
    page.header(title, facts(graph, h, subtitle))
    areas = [Area(MARGIN + number * (_PANEL_WIDTH + _PANEL_GAP), 110, width, height) for number in range(3)]
    ranking = scores_of(graph, scores)
    players = [player for player in order_of(graph, scores) if (parts == player).any()][:max_nodes]
    _draw_g(page, areas[0], graph, pixels, parts, players, ranking, max_edges)
    _draw_h(page, areas[1], h, pixels, parts, layout)
    _draw_ranking(page, areas[2], parts, ranking)
    return page.finish()


def _draw_g(
    page: Page,
    area: Area,
    graph: ExplanationGraph,
    pixels: Pixels,
    parts: Labels,
    players: Sequence[int],
    ranking: Pixels,
    max_edges: int,
) -> None:
    page.picture(0.62 + 0.38 * pixels, area, gid="picture:G")
    _draw_borders(page, area, parts)
    edges = strongest_edges(graph, players, max_edges)
    places = {player: _place(area, parts, player) for player in players}
    largest = min(9.0, max(4.0, 0.3 * np.sqrt(area.width * area.height / max(graph.n_players, 1))))
    radii = radii_of(ranking, players, 0.5 * largest, largest)
    draw_edges(page, edges, places, radii, thin=True)
    for player in players:
        page.disc(places[player], radii[player], fill=PAPER, gid=f"node:{player}")
    of_all = f" of {graph.n_players:,}" if len(players) < graph.n_players else ""
    _write_caption(page, area, "G", f"{len(edges)} arrows, top {len(players)}{of_all} parts")
    y = area.bottom + 12
    below = page.paragraph(area.left, y, sentence_of_g(edges), _PANEL_WIDTH, gid="arrows:G")
    draw_scale(page, area.left, below + 10, edges)


def _draw_h(page: Page, area: Area, h: RedundancyGraph, pixels: Pixels, parts: Labels, layout: Layout) -> None:
    """Groups in their colours; hatched where a part is redundant without being in a group."""
    grey = (0.72 + 0.28 * pixels.mean(axis=2))[..., None].repeat(3, axis=2)
    slots = layout.slots(h)
    for group, slot in zip(h.groups, slots, strict=True):
        inside = np.isin(parts, group)
        colour = np.array(tint(colour_of(slot), 1.0))
        grey[inside] = 0.72 * colour + 0.28 * grey[inside]
    page.picture(grey, area, gid="picture:H")
    grouped = {player for group in h.groups for player in group}
    hatched = [p for p in np.flatnonzero(h.adjacency.any(axis=0)).tolist() if p not in grouped]
    _hatch(page, area, parts, hatched)
    _draw_borders(page, area, parts)
    n_groups = len(h.groups)
    what = f"{n_groups} redundant group{'s' * (n_groups != 1)}, {len(grouped)} of {h.n_players:,} parts"
    _write_caption(page, area, "H", what if h.adjacency.any() else "no part is redundant")
    _write_legend(page, area, h, slots, len(hatched))


def _draw_ranking(page: Page, area: Area, parts: Labels, ranking: Pixels) -> None:
    low, high = float(ranking.min()), float(ranking.max())
    colours = ramp("viridis", 0.0, 1.0, 256)
    share = np.zeros_like(ranking) if high - low < 1e-12 else (ranking - low) / (high - low)
    shades = colours[np.round(share * 255).astype(np.intp), :3]
    pixels = np.where((parts >= 0)[..., None], shades[parts], 1.0)
    page.picture(pixels, area, gid="picture:ranking")
    _draw_borders(page, area, parts)
    _write_caption(page, area, "Ranking", "by the arrows of G")
    sentence = "Bright parts rank high: the arrows of G lead to them."
    below = page.paragraph(area.left, area.bottom + 12, sentence, _PANEL_WIDTH, gid="ranking")
    page.colour_scale(area.left, below + 10, colours, f"{low:.3g}", f"{high:.3g}")


def _write_caption(page: Page, area: Area, name: str, what: str) -> None:
    page.write(area.left, area.top - 18, name, size=12, bold=True)
    indent = page.width_of(name, size=12, bold=True) + 8
    page.write(area.left + indent, area.top - 18, what, size=10.5, colour=SOFT_INK, gid=f"what:{name}")


def _write_legend(page: Page, area: Area, h: RedundancyGraph, slots: Sequence[int], n_hatched: int) -> None:
    """What the colours mean, largest group first, and how many others make a group redundant."""
    if not h.adjacency.any():
        text = f"H is empty: at γ = {h.gamma:.3g} no part makes another one redundant."
        page.paragraph(area.left, area.bottom + 12, text, _PANEL_WIDTH, gid="arrows:H")
        return
    sentence = COLOURS_IN_H if h.groups else HATCHING_IN_H
    y = page.paragraph(area.left, area.bottom + 12, sentence, _PANEL_WIDTH, gid="arrows:H") + 10
    n_lines = _LEGEND_LINES - bool(n_hatched)
    n_shown = len(h.groups) if len(h.groups) <= n_lines else n_lines - 1
    for group, slot in list(zip(h.groups, slots, strict=True))[:n_shown]:
        makers = set(np.flatnonzero(h.adjacency[:, list(group)].any(axis=1)).tolist()) - set(group)
        page.rectangle(Area(area.left, y - 6, 14, 12), fill=tint(colour_of(slot), 0.8))
        text = f"{letter_of(slot)}: {len(group)} parts"
        if makers:
            text += f", also redundant given {len(makers)} other{'s' * (len(makers) > 1)}"
        _write_entry(page, area, y, text)
        y += line_height(9)
    if n_shown < len(h.groups):
        _write_entry(page, area, y, f"+{len(h.groups) - n_shown} more groups")
        y += line_height(9)
    if n_hatched:
        page.rectangle(Area(area.left, y - 6, 14, 12), fill=PAPER, edge=LINE, hatch="//////")
        _write_entry(page, area, y, f"{n_hatched} redundant given some other part")


def _write_entry(page: Page, area: Area, y: float, text: str) -> None:
    page.write(area.left + 22, y, text, size=9, colour=SOFT_INK, gid="legend")


def _place(area: Area, parts: Labels, player: int) -> Point:
    """The pixel of the part that is closest to its centre of mass, so that it is never outside."""
    rows, columns = np.nonzero(parts == player)
    off = (rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2
    is_convex_enough = off.min() <= 0.5
    row = rows.mean() if is_convex_enough else rows[off.argmin()]
    column = columns.mean() if is_convex_enough else columns[off.argmin()]
    scale = area.width / parts.shape[1]
    return float(area.left + (column + 0.5) * scale), float(area.top + (row + 0.5) * scale)


def _draw_borders(page: Page, area: Area, parts: Labels) -> None:
    """White lines between parts, as one path."""
    scale = area.width / parts.shape[1]
    rows, columns = np.nonzero(parts[:, 1:] != parts[:, :-1])
    upright = [((c + 1, r), (c + 1, r + 1)) for r, c in zip(rows.tolist(), columns.tolist(), strict=True)]
    rows, columns = np.nonzero(parts[1:] != parts[:-1])
    level = [((c, r + 1), (c + 1, r + 1)) for r, c in zip(rows.tolist(), columns.tolist(), strict=True)]
    if upright or level:
        points = np.array(upright + level, dtype=np.float64).reshape(-1, 2) * scale + (area.left, area.top)
        codes = np.tile([Path.MOVETO, Path.LINETO], len(points) // 2)
        page.axes.add_artist(
            PathPatch(Path(points, codes), facecolor="none", edgecolor=PAPER, linewidth=0.8, alpha=0.8, zorder=1.6)
        )


def _hatch(page: Page, area: Area, parts: Labels, players: Sequence[int]) -> None:
    """Oblique lines over parts, one square per pixel."""
    if not players:
        return
    scale = area.width / parts.shape[1]
    rows, columns = np.nonzero(np.isin(parts, players))
    corners = np.stack((columns, rows), axis=1) * scale + (area.left, area.top)
    square = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]) * scale
    codes = [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY]
    path = Path((corners[:, None] + square).reshape(-1, 2), np.tile(codes, len(corners)))
    patch = PathPatch(path, facecolor="none", edgecolor=LINE, linewidth=0, hatch="////", zorder=1.5, gid="hatched")
    page.axes.add_artist(patch)


def _checked_segments(segments: ArrayLike, n_players: int) -> Labels:
    parts = np.asarray(segments)
    if parts.ndim != 2 or parts.dtype.kind not in "iu" or not parts.size:
        raise ValueError(
            f"`segments` must be an (H, W) array of integers, got shape {parts.shape} and dtype {parts.dtype}. "
            "Pass the player of each pixel, -1 for none."
        )
    if parts.min() < -1 or parts.max() >= n_players:
        raise ValueError(
            f"`segments` must hold players from 0 to {n_players - 1}, or -1, got {parts.min()} to {parts.max()}. "
            "Number the parts as the players of the graph."
        )
    return parts.astype(np.intp)


def _checked_image(image: ArrayLike | None, shape: tuple[int, ...]) -> Pixels:
    """(H, W, 3) floats in [0, 1]."""
    if image is None:
        return np.full((*shape, 3), 0.85)
    given: NDArray[Any] = np.asarray(image)
    pixels = given
    if given.ndim == 2:
        pixels = given[..., None]
    elif given.ndim == 3 and given.shape[0] in (1, 3) and given.shape[1:] == shape:
        pixels = np.moveaxis(given, 0, 2)
    if pixels.shape[:2] != shape or pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise ValueError(
            f"`image` must have shape {shape}, {(*shape, 3)} or {(3, *shape)} like `segments`, got {given.shape}. "
            "Pass one picture, not a batch."
        )
    floats = pixels.astype(np.float64)
    if not np.isfinite(floats).all():
        raise ValueError("`image` must be finite, got NaN or infinity. Look at how the picture was normalised.")
    if given.dtype == np.uint8:
        floats /= 255
    elif floats.min() < 0 or floats.max() > 1:
        floats = (floats - floats.min()) / (np.ptp(floats) or 1.0)
    coloured: Pixels = np.broadcast_to(floats, (*shape, 3)).copy()
    return coloured
