"""Draws the quotient of the redundancy graph H: boxes in layers, arrows from the upper to the lower ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from bivshap_lightning.graph import RedundancyGraph
from bivshap_lightning.views.figures.canvas import INK, LINE, PAPER, SOFT_INK, Area, Canvas, Point, line_height, tint
from bivshap_lightning.views.figures.geometry import s_curve
from bivshap_lightning.views.figures.layout import Layout, colour_of, letter_of
from bivshap_lightning.views.figures.quotient_layout import Box, Flags, QuotientLayout, lay_out_quotient, reachability

ARROW_IN_H = (
    "In H an arrow i → j says that j is redundant once i is present; arrows that a longer path implies are "
    "left out. Members of a coloured box make each other redundant."
)

MAX_BOXES = 12

NumberOf = dict[tuple[int, ...], int]
"""The number of each group, by its members."""

_SIZES = (13, 11.5, 10)
_SMALLER = 0.85
_COLUMN_GAP = 12
_ROW_GAP = 26
_ISOLATED = 46
"""Pixels for the list of players without any arrow."""


@dataclass(frozen=True)
class BoxText:
    """The text of a box and the size it needs."""

    box: Box
    heading: str
    lines: tuple[str, ...]
    size: float
    width: float
    height: float


@dataclass(frozen=True)
class Arrangement:
    """Boxes in rows that fit their area."""

    quotient: QuotientLayout
    texts: tuple[BoxText, ...]
    rows: tuple[tuple[int, ...], ...]

    @property
    def heights(self) -> list[float]:
        """Of the rows."""
        return [max(self.texts[box].height for box in row) for row in self.rows]

    @property
    def height(self) -> float:
        """Of all rows with the least gaps between them."""
        return sum(self.heights) + _ROW_GAP * (len(self.rows) - 1)


def draw_quotient(canvas: Canvas, area: Area, h: RedundancyGraph, *, labels: Sequence[str], layout: Layout) -> None:
    """Groups as coloured boxes, other players as white ones; sources at the top."""
    if not h.adjacency.any():
        _say_that_h_is_empty(canvas, area, h)
        return
    number_of = dict(zip(h.groups, layout.group_numbers(h), strict=True))
    reach = reachability(h)
    isolated = lay_out_quotient(h, max_boxes=MAX_BOXES, reach=reach).isolated
    inner = area
    if isolated:
        inner = Area(area.left, area.top, area.width, area.height - _ISOLATED)
        _list_isolated(canvas, Area(area.left, inner.bottom, area.width, _ISOLATED), [labels[p] for p in isolated])
    found = _arrange(canvas, inner, h, reach, labels, number_of)
    places = _places(inner, found)
    _draw_arrows(canvas, inner, places, found)
    for position, text in enumerate(found.texts):
        _draw_box(canvas, places[position], text, number_of.get(text.box.members), gid=f"box:{position}")


def height_of_quotient(h: RedundancyGraph) -> float:
    """Pixels that the drawing should have: more for more layers, and for layers with many boxes."""
    if not h.adjacency.any():
        return 44
    quotient = lay_out_quotient(h, max_boxes=MAX_BOXES)
    n_rows = sum(-(-quotient.layers.count(layer) // 4) for layer in set(quotient.layers))
    return min(max(100, 82 * n_rows), 250) + (_ISOLATED if quotient.isolated else 0)


def _arrange(
    canvas: Canvas, area: Area, h: RedundancyGraph, reach: Flags, labels: Sequence[str], number_of: NumberOf
) -> Arrangement:
    """As many boxes as fit, with as many names as fit."""
    for max_boxes in range(MAX_BOXES, 1, -1):
        quotient = lay_out_quotient(h, max_boxes=max_boxes, reach=reach)
        smallest, *larger = [
            (size, n_lines, widest) for size in _SIZES[::-1] for n_lines in (1, 2, 3) for widest in (115, 150, 210)
        ]
        found = _in_rows(canvas, quotient, labels, number_of, area.width, *smallest)
        if found.height <= area.height or max_boxes == 2:
            break
    for setting in reversed(larger):
        better = _in_rows(canvas, quotient, labels, number_of, area.width, *setting)
        if better.height <= area.height:
            return better
    return found


def _in_rows(
    canvas: Canvas,
    quotient: QuotientLayout,
    labels: Sequence[str],
    number_of: NumberOf,
    width: float,
    size: float,
    n_lines: int,
    widest: float,
) -> Arrangement:
    texts = tuple(_text_of(canvas, box, labels, number_of, size, n_lines, widest) for box in quotient.boxes)
    return Arrangement(quotient, texts, _rows(quotient, texts, width))


def _text_of(
    canvas: Canvas,
    box: Box,
    labels: Sequence[str],
    number_of: NumberOf,
    size: float,
    n_lines: int,
    widest: float,
) -> BoxText:
    """The text of a box: a heading that says what its players have in common, and their names."""
    n = len(box.members)
    heading = {
        "group": f"{letter_of(number_of.get(box.members, 0))}  ·  {n} features",
        "single": "",
        "same_arrows": f"each of {n}",
        "rest": "the rest",
    }[box.kind]
    if box.kind == "rest":
        lines = [f"{n} more features"]
    else:
        lines = canvas.wrap(listed([labels[member] for member in box.members]), widest, n_lines, size=size)
    widths = [canvas.width_of(line, size=size) for line in lines]
    widths.append(canvas.width_of(heading, size=_SMALLER * size, bold=True))
    height = 14 + line_height(size) * len(lines) + (line_height(_SMALLER * size) if heading else 0)
    return BoxText(box, heading, tuple(lines), size, max(max(widths) + 22, 44), height)


def _rows(quotient: QuotientLayout, texts: Sequence[BoxText], width: float) -> tuple[tuple[int, ...], ...]:
    """Boxes of one layer side by side, by their first player; a layer too wide goes on below.

    Groups without arrows come last.
    """
    with_arrow = {box for arrow in quotient.arrows for box in arrow}
    last = max(quotient.layers) + 1
    layer_of = [layer if box in with_arrow else last for box, layer in enumerate(quotient.layers)]
    rows: list[tuple[int, ...]] = []
    for layer in sorted(set(layer_of)):
        row: list[int] = []
        used = 0.0
        boxes = [box for box in range(len(texts)) if layer_of[box] == layer]
        for box in sorted(boxes, key=lambda b: texts[b].box.members[0]):
            if row and used + texts[box].width > width:
                rows.append(tuple(row))
                row, used = [], 0.0
            row.append(box)
            used += texts[box].width + _COLUMN_GAP
        rows.append(tuple(row))
    return tuple(rows)


def _places(area: Area, found: Arrangement) -> dict[int, Area]:
    """Rows spread over the height, boxes over the width."""
    heights = found.heights
    spare = area.height - sum(heights)
    gap = min(max(spare / (len(heights) + 1), _ROW_GAP), 64)
    top = area.top + (spare - gap * (len(heights) - 1)) / 2
    places = {}
    for row, height in zip(found.rows, heights, strict=True):
        widths = [found.texts[box].width for box in row]
        column_gap = min(max((area.width - sum(widths)) / (len(row) + 1), _COLUMN_GAP), 60)
        left = area.left + (area.width - sum(widths) - column_gap * (len(row) - 1)) / 2
        for box, width in zip(row, widths, strict=True):
            own = found.texts[box].height
            places[box] = Area(left, top + (height - own) / 2, width, own)
            left += width + column_gap
        top += height + gap
    return places


def _draw_arrows(canvas: Canvas, area: Area, places: dict[int, Area], found: Arrangement) -> None:
    """From the edge of one box to the edge of another, around the boxes of the rows between."""
    arrows = found.quotient.arrows
    row_of = {box: number for number, row in enumerate(found.rows) for box in row}
    lanes: list[list[float]] = [[] for _ in found.rows]
    for position, (source, target) in enumerate(arrows):
        step = 1 if row_of[source] < row_of[target] else -1
        leaving = sorted((j for i, j in arrows if i == source), key=lambda j: places[j].centre)
        arriving = sorted((i for i, j in arrows if j == target), key=lambda i: places[i].centre)
        start = _port(places[source], leaving.index(target), len(leaving), below=step > 0)
        end = _port(places[target], arriving.index(source), len(arriving), below=step < 0)
        points = [start]
        for number in range(row_of[source] + step, row_of[target], step):
            boxes = [places[box] for box in found.rows[number]]
            lane = _lane(area, boxes, (points[-1][0] + end[0]) / 2, lanes[number])
            edges = min(box.top for box in boxes) - 3, max(box.bottom for box in boxes) + 3
            points += [(lane, y) for y in edges[::step]]
        is_rest = "rest" in (found.texts[source].box.kind, found.texts[target].box.kind)
        colour = tint(LINE, 0.8) if is_rest else SOFT_INK
        canvas.arrow(s_curve([*points, end]), width=1.8, colour=colour, gid=f"arrow:{position}")


def _port(area: Area, position: int, n: int, *, below: bool) -> Point:
    """One of n places along the lower or upper edge of a box."""
    x = area.left + area.width * (position + 1) / (n + 1)
    return x, area.bottom + 1 if below else area.top - 2


def _lane(area: Area, boxes: Sequence[Area], wanted: float, taken: list[float]) -> float:
    """Where an arrow passes a row: between its boxes or beside them, close to the wanted x, apart from others."""
    edges = [area.left - 16, *(edge for box in boxes for edge in (box.left, box.right)), area.right + 16]
    free = []
    for left, right in zip(edges[::2], edges[1::2], strict=True):
        n_places = max(1, int((right - left - 6) // 8))
        free += [left + (right - left) * (place + 1) / (n_places + 1) for place in range(n_places)]
    untaken = [x for x in free if all(abs(x - other) > 4 for other in taken)] or free
    lane = min(untaken, key=lambda x: abs(x - wanted))
    taken.append(lane)
    return lane


def _draw_box(canvas: Canvas, area: Area, text: BoxText, number: int | None, *, gid: str) -> None:
    kind = text.box.kind
    fill = PAPER if number is None else tint(colour_of(number), 0.22)
    canvas.box(
        area,
        fill="#ECEFF1" if kind == "rest" else fill,
        edge={"single": INK, "same_arrows": SOFT_INK, "rest": LINE}.get(kind) or colour_of(number or 0),
        dashed=kind == "same_arrows",
        thick=kind == "group",
        gid=gid,
    )
    x, y = area.centre[0], area.top + 7
    small = _SMALLER * text.size
    if text.heading:
        y += line_height(small) / 2
        canvas.write(x, y, text.heading, size=small, bold=kind == "group", colour=SOFT_INK, align="center")
        y += line_height(small) / 2
    for line in text.lines:
        canvas.write(x, y + line_height(text.size) / 2, line, size=text.size, align="center", gid=f"{gid}:text")
        y += line_height(text.size)


def _list_isolated(canvas: Canvas, area: Area, names: Sequence[str]) -> None:
    lines = canvas.wrap(["Without any arrow:", *listed(names)], area.width, 2, size=11)
    for position, line in enumerate(lines):
        y = area.top + 6 + line_height(11) * (position + 0.5)
        canvas.write(area.left, y, line, size=11, colour=SOFT_INK, gid="isolated")


def listed(names: Sequence[str]) -> list[str]:
    """The names with commas between them."""
    return [f"{name}," for name in names[:-1]] + list(names[-1:])


def why_empty(h: RedundancyGraph, what: str = "feature") -> str:
    """Why H has no arrow: nothing is redundant, or the estimate cannot tell."""
    n_open, n_pairs = int(h.undecided.sum()), h.n_players * (h.n_players - 1)
    if not n_open:
        return f"H is empty: at γ = {h.gamma:.3g} no {what} makes another one redundant."
    return (
        f"H is empty: at γ = {h.gamma:.3g} no {what} is shown to make another one redundant, and {n_open:,} of "
        f"{n_pairs:,} pairs are undecided."
    )


def _say_that_h_is_empty(canvas: Canvas, area: Area, h: RedundancyGraph) -> None:
    x, y = area.centre
    lines = canvas.wrap(why_empty(h).split(), area.width, 2)
    for place, line in enumerate(lines):
        height = line_height(12) * (place - (len(lines) - 1) / 2)
        canvas.write(x, y + height, line, align="center", gid="empty")


def caption_of_h(canvas: Canvas, area: Area, h: RedundancyGraph) -> None:
    """What H holds, as a line above it."""
    n_groups, grouped = len(h.groups), sum(map(len, h.groups))
    what = "which feature makes which redundant" if h.adjacency.any() else "no arrow"
    if n_groups:
        what = f"{n_groups} redundant group{'s' * (n_groups > 1)} with {grouped} of {h.n_players} features"
    canvas.write(area.left, area.top, "H", size=13, bold=True)
    canvas.write(area.left + 20, area.top, what, size=12, colour=SOFT_INK, gid="what:H")
