"""The explanation graph G as a node-link drawing: nodes on an ellipse, or on the parts of an image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views.figures.canvas import (
    PAPER,
    SOFT_INK,
    Area,
    Canvas,
    Point,
    ink_on,
    line_height,
    ramp,
)
from bivshap_lightning.views.figures.geometry import bent_line
from bivshap_lightning.views.figures.layout import Layout, colour_of, letter_of
from bivshap_lightning.views.figures.text import Align

ALL_DRAWN_UP_TO = 24
"""Players that fit on a circle with their names; of more, only the most important are drawn."""

ARROW_IN_G = "In G an arrow i → j is the importance of j once i is present: the wider, the more."
BLUE_IN_G = "Blue: j lowers the explained value."

_ALIGN: dict[int, Align] = {-1: "right", 0: "center", 1: "left"}
_RAISES = ramp("YlOrRd", 0.3, 1.0)
_LOWERS = ramp("PuBu", 0.4, 1.0)


@dataclass(frozen=True)
class Edge:
    """An arrow of G to draw."""

    source: int
    target: int
    weight: float


def top_players(scores: NDArray[np.float64], order: Sequence[int], max_nodes: int) -> list[int]:
    """All players if they are few, otherwise the first ones of the order."""
    drawn = len(scores) if len(scores) <= ALL_DRAWN_UP_TO else max_nodes
    return list(order[:drawn])


def strongest_edges(graph: ExplanationGraph, players: Sequence[int], max_edges: int) -> list[Edge]:
    """Edges between the players, strongest first: two and a quarter per player, so that paths stay visible."""
    n_edges = min(max_edges, max(6, round(2.25 * len(players))))
    among = graph.weights[np.ix_(players, players)]
    strongest = np.argsort(-np.abs(among), axis=None, kind="stable")[:n_edges]
    edges = []
    for row, column in zip(*np.unravel_index(strongest, among.shape), strict=True):
        if abs(among[row, column]) > 1e-9 * np.abs(among).max():
            edges.append(Edge(players[row], players[column], float(among[row, column])))
    return edges


def radii_of(scores: NDArray[np.float64], players: Sequence[int], smallest: float, largest: float) -> dict[int, float]:
    """Radii whose squares grow evenly from the lowest to the highest score of all."""
    low, high = float(scores.min()), float(scores.max())
    share = np.full(len(scores), 0.5) if high - low < 1e-12 else (scores - low) / (high - low)
    areas = smallest**2 + share * (largest**2 - smallest**2)
    return {player: float(np.sqrt(areas[player])) for player in players}


def draw_edges(
    canvas: Canvas,
    edges: Sequence[Edge],
    places: Mapping[int, Point],
    radii: Mapping[int, float],
    *,
    thin: bool = False,
) -> None:
    """Arrows between places, the strongest on top; reddish ones raise the explained value, bluish ones lower it."""
    strongest = max((abs(edge.weight) for edge in edges), default=1.0)
    for position, edge in enumerate(reversed(edges)):
        share = abs(edge.weight) / strongest
        colours = _RAISES if edge.weight > 0 else _LOWERS
        line = bent_line(
            places[edge.source],
            places[edge.target],
            bend=0.16,
            gap_start=radii[edge.source],
            gap_end=radii[edge.target] + 1,
        )
        red, green, blue = colours[round(share * (len(colours) - 1))][:3].tolist()
        canvas.arrow(
            line,
            width=(0.8 + 2.2 * share) if thin else (1.0 + 3.6 * share),
            colour=(red, green, blue),
            order=2 + position / (len(edges) + 1),
            gid=f"edge:{edge.source}:{edge.target}",
        )


def sentence_of_g(edges: Sequence[Edge]) -> str:
    """What an arrow of G means, and its colour if there are two."""
    return f"{ARROW_IN_G} {BLUE_IN_G}" if any(edge.weight < 0 for edge in edges) else ARROW_IN_G


def draw_scale(canvas: Canvas, left: float, y: float, edges: Sequence[Edge]) -> None:
    """Which colour is which weight, on one line; negative weights only if there are any."""
    if not edges:
        return
    limit = f"{max(abs(edge.weight) for edge in edges):.2g}"
    has_negative = any(edge.weight < 0 for edge in edges)
    colours = np.concatenate((_LOWERS[::-1], _RAISES)) if has_negative else _RAISES
    canvas.colour_scale(left, y, colours, f"−{limit}" if has_negative else "0", limit)


def draw_circle(
    canvas: Canvas,
    area: Area,
    graph: ExplanationGraph,
    h: RedundancyGraph,
    *,
    players: Sequence[int],
    edges: Sequence[Edge],
    scores: NDArray[np.float64],
    labels: Sequence[str],
    layout: Layout,
) -> None:
    """Players on an ellipse, each with its name beside it; members of a group carry its colour and letter."""
    arranged = layout.arrange(h, players)
    number_of = layout.group_number_of_players(h)
    size = 13 if len(players) <= 12 else 11
    radii = radii_of(scores, players, 10, 26 if len(players) <= 12 else 19)
    # Of all players, drawn or not: the ellipse keeps its shape when other players are drawn.
    longest = max(min(canvas.width_of(name, size=size), 190) for name in sorted(labels, key=len)[-5:])
    half_width = min(max(area.width / 2 - longest - 34, 110), 230)
    half_height = area.height / 2 - 48
    angles = _angles(len(arranged))
    centre_x, centre_y = area.centre
    places = {
        player: (centre_x + half_width * sin(angle), centre_y - half_height * cos(angle))
        for player, angle in zip(arranged, angles, strict=True)
    }
    draw_edges(canvas, edges, places, radii)
    for player in arranged:
        number = number_of.get(player)
        fill = PAPER if number is None else colour_of(number)
        canvas.disc(places[player], radii[player], fill=fill, gid=f"node:{player}")
        if number is not None:
            x, y = places[player]
            canvas.write(x, y, letter_of(number), size=8.5, bold=True, colour=ink_on(fill), align="center")
    _write_labels(canvas, area, dict(zip(arranged, angles, strict=True)), places, radii, labels, size)


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Positions close to the wanted ones (ascending) and at least a gap apart.

    Example:
        >>> spread([0, 1, 50], 10)
        [-4.5, 5.5, 50.0]
    """
    # Neighbours that are too close form a block, centred on the mean of what its members want.
    blocks: list[list[float]] = []
    for position in wanted:
        blocks.append([float(position)])
        while len(blocks) > 1 and _start(blocks[-1], gap) < _start(blocks[-2], gap) + gap * len(blocks[-2]):
            last = blocks.pop()
            blocks[-1] += last
    return [_start(block, gap) + gap * place for block in blocks for place in range(len(block))]


def _start(block: Sequence[float], gap: float) -> float:
    return sum(block) / len(block) - gap * (len(block) - 1) / 2


def _angles(n_players: int) -> list[float]:
    """Clockwise from the top; with many arranged none is exactly there, where names would collide."""
    shift = 0.5 if n_players > 8 else 0.0
    return [2 * pi * (place + shift) / n_players for place in range(n_players)]


def _write_labels(
    canvas: Canvas,
    area: Area,
    angles: Mapping[int, float],
    places: Mapping[int, Point],
    radii: Mapping[int, float],
    labels: Sequence[str],
    size: float,
) -> None:
    """Names outside the ellipse: centred at its top and bottom, else to the left or right, without overlap."""
    for side in (-1, 0, 1):
        players = [player for player, angle in angles.items() if _side(angle) == side]
        wanted = {p: places[p][1] - cos(angles[p]) * (radii[p] + 13) for p in players}
        players.sort(key=lambda player: wanted[player])
        apart = 1.0 if side == 0 else line_height(size)
        heights = spread([wanted[player] for player in players], apart)
        for player, y in zip(players, heights, strict=True):
            x = places[player][0] + side * (abs(sin(angles[player])) * radii[player] + 8)
            room = {1: area.right - x, -1: x - area.left, 0: area.width}[side]
            canvas.write(
                x,
                y,
                canvas.fit(labels[player], room, size=size),
                size=size,
                align=_ALIGN[side],
                gid=f"label:{player}",
            )


def _side(angle: float) -> int:
    return 0 if abs(sin(angle)) < 1e-3 else (1 if sin(angle) > 0 else -1)


def caption_of_g(canvas: Canvas, area: Area, players: Sequence[int], edges: Sequence[Edge], n_players: int) -> None:
    """Which part of G is drawn, as a line above it."""
    n_pairs = n_players * (n_players - 1)
    what = f"strongest {len(edges)} of {n_pairs:,} arrows" if len(edges) < n_pairs else "all arrows"
    if len(players) < n_players:
        what = f"top {len(players)} of {n_players:,} features, {len(edges)} arrows"
    if not edges:
        what = "no arrow: every weight is zero"
    canvas.write(area.left, area.top, "G", size=13, bold=True)
    canvas.write(area.left + 20, area.top, what, size=12, colour=SOFT_INK, gid="what:G")
