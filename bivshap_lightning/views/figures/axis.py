"""`draw_axis`: one row per feature with its Shapley value and its late importance; arcs join pairs that interact.

It needs no reading of graphs: whoever knows SHAP's bar plots reads it at once, so it comes first in every panel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.views.figures.axis_arcs import Pair, draw_arcs, write_arc_legend
from bivshap_lightning.views.figures.axis_values import (
    NOTICEABLE,
    AxisValues,
    Values,
    values_of_change,
    values_of_class,
    values_of_sample,
)
from bivshap_lightning.views.figures.canvas import (
    INK,
    LINE,
    MARGIN,
    PAPER,
    SOFT_INK,
    WIDTH,
    Canvas,
    line_height,
    tint,
)
from bivshap_lightning.views.figures.input_strip import ImageStrip, WordStrip
from bivshap_lightning.views.figures.names import checked_words, labels_of
from bivshap_lightning.views.figures.text import Align

MIN_ROWS, MAX_ROWS = 3, 30

DIRECTION = "Of two substitutes, the one with the larger ring leaves less of the other."
ONE_SIDED = 2
"""Ring over ring of two substitutes above which the picture says which of them replaces the other: both lose the same
importance to each other, of which the weaker one has less."""

_LABEL_SIZE = 13
_TEXT_SIZE = 12
_ROW = 28
_DOT, _RING = 5.2, 7.0
_ARCS = 118


@dataclass(frozen=True)
class _Row:
    """A feature, or all that are not listed together."""

    label: str
    shapley: float
    late: float
    is_rest: bool = False


@dataclass(frozen=True)
class _Scale:
    """From values to pixels along the x axis."""

    low: float
    high: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def draw_axis(
    graph: ExplanationGraph,
    *,
    title: str,
    subtitle: str | None = None,
    graphs: Sequence[ExplanationGraph] | None = None,
    before: ExplanationGraph | None = None,
    words: Sequence[str] | None = None,
    image: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    xlabel: str | None = None,
    max_rows: int = 15,
    max_pairs: int = 8,
) -> Figure:
    """One row per feature, the most important first: a dot for the Shapley value, a ring for `2 R`.

    `2 R` is the importance of a feature when it joins late, once the others are present; the line between the two is
    what it loses then. Arcs join the pairs with the strongest pair terms C: blue and solid where two features stand
    in for each other (C < 0), orange and dashed where they need each other (C > 0). Features beyond `max_rows` are
    added up in one row, together with those below 1 % of the largest.

    Args:
        graph: G of a sample or the mean of a class, with Shapley values.
        title: The first line of the picture.
        subtitle: The line below.
        graphs: The samples of a class, all with the names of `graph`: shows means of absolute values, with whiskers
            from the 10th to the 90th percentile.
        before: Another graph of the same features, such as that of an earlier epoch: shows what has changed since.
        words: A word per feature, in reading order; if given, the text stands above, shaded by importance.
        image: A picture as in `draw_image_graphs`, with `segments`.
        segments: (H, W) the feature of each pixel; if given, the picture stands above, with the listed parts named
            as in the rows.
        xlabel: What the values are, such as "probability".
        max_rows: From 3 to 30.
        max_pairs: Arcs at most.

    Returns:
        A figure 700 pixels wide that belongs to no pyplot state.

    Example:
        >>> graph = ExplanationGraph(
        ...     [[0, 0, 1 / 4], [0, 0, 1 / 4], [1 / 6, 1 / 6, 0]], names=["a", "b", "c"], shapley=[1 / 2, 1 / 2, 1 / 2]
        ... )
        >>> figure = draw_axis(graph, title="OR(a, b) + c / 2")
        >>> [text.get_text() for text in figure.findobj() if text.get_gid() == "message"]
        ['strongest pair: a and b replace each other']
    """
    if not MIN_ROWS <= max_rows <= MAX_ROWS:
        raise ValueError(f"`max_rows` must lie between {MIN_ROWS} and {MAX_ROWS}, got {max_rows}. Try 15.")
    values = _values(graph, graphs, before)
    texts = labels_of(graph.names if words is None else checked_words(words, graph.n_players))
    order = values.order()
    shown = values.listed(max_rows)
    rows = _rows(values, texts, shown, order[len(shown) :])
    pairs = values.strongest_pairs(shown, max_pairs)
    notes = _notes(values, pairs)
    # The height depends on how many lines the notes take.
    n_lines = len(Canvas(WIDTH, 100).wrap(notes.split(), WIDTH - 2 * MARGIN, len(notes), size=_TEXT_SIZE))
    strip = _input_strip(values, texts, shown, words, image, segments)
    below_header = 92 if subtitle else 70
    top = below_header + (strip.height if strip else 0) + 36
    bottom = top + _ROW * len(rows)
    canvas = Canvas(WIDTH, round(bottom + 104 + n_lines * line_height(_TEXT_SIZE)))
    _write_header(canvas, title, _message(canvas, values, texts, pairs), subtitle)
    if strip is not None:
        strip.draw(canvas, below_header)
    _write_legend(canvas, top - 24, values)
    scale = _scale(canvas, values, rows, shown, has_arcs=bool(pairs))
    _draw_ground(canvas, scale, rows, top, xlabel or _xlabel(values))
    _draw_rows(canvas, scale, values, rows, shown, top)
    centres = {feature: top + _ROW * (number + 0.5) for number, feature in enumerate(shown)}
    draw_arcs(canvas, scale.right, pairs, centres)
    y = write_arc_legend(canvas, bottom + 62, values, pairs)
    canvas.paragraph(MARGIN, y, notes, WIDTH - 2 * MARGIN, size=_TEXT_SIZE, gid="notes")
    return canvas.finish()


def _values(
    graph: ExplanationGraph, graphs: Sequence[ExplanationGraph] | None, before: ExplanationGraph | None
) -> AxisValues:
    if graphs is not None and before is not None:
        raise ValueError("`graphs` and `before` must not be given together, got both. Draw two pictures.")
    if before is not None:
        return values_of_change(before, graph)
    if graphs is not None:
        return values_of_class(graphs)
    return values_of_sample(graph)


def _rows(values: AxisValues, texts: Sequence[str], shown: Sequence[int], rest: Sequence[int]) -> list[_Row]:
    rows = [_Row(texts[k], float(values.shapley[k]), float(values.late[k])) for k in shown]
    if rest:
        shapley, late = (float(part[list(rest)].sum()) for part in (values.shapley, values.late))
        rows.append(_Row(f"{len(rest):,} others together", shapley, late, is_rest=True))
    return rows


def _input_strip(
    values: AxisValues,
    texts: Sequence[str],
    shown: Sequence[int],
    words: Sequence[str] | None,
    image: ArrayLike | None,
    segments: ArrayLike | None,
) -> ImageStrip | WordStrip | None:
    """What stands between the header and the rows."""
    if segments is not None:
        caption = "input" if values.n_samples is None else "a sample"
        return ImageStrip(image, segments, values.shapley, texts, shown, caption)
    if image is not None:
        raise ValueError("`segments` must say which player each pixel of `image` belongs to, got None. Pass both.")
    return None if words is None else WordStrip(words, values.shapley)


def _message(canvas: Canvas, values: AxisValues, texts: Sequence[str], pairs: Sequence[Pair]) -> str:
    """What the picture says, in one sentence."""
    if not np.abs(values.shapley).max() and not pairs:
        return "nothing has changed" if values.is_change else "no feature matters"
    if not pairs:
        first = texts[values.order()[0]]
        return f"{first} has changed most" if values.is_change else f"{first} matters most"
    i, j, term = pairs[0]
    between, end = " and ", " replace each other" if term < 0 else " need each other"
    end += " more than before" if values.is_change else ""
    weak, strong = sorted((i, j), key=lambda k: abs(values.late[k]))
    if term < 0 and not values.is_change and abs(values.late[strong]) > ONE_SIDED * abs(values.late[weak]):
        i, j, between, end = strong, weak, " replaces ", " more than the reverse"
    one, other = texts[i], texts[j]
    width = WIDTH - 2 * MARGIN
    for start in ("strongest pair: ", "")[values.is_change :]:
        message = f"{start}{one}{between}{other}{end}"
        if canvas.width_of(message, size=_LABEL_SIZE) <= width:
            return message
    room = width - canvas.width_of(f"-{between}-{end}", size=_LABEL_SIZE)
    widths = [canvas.width_of(name, size=_LABEL_SIZE) for name in (one, other)]
    # What a short name leaves over is for the other one.
    one, other = (
        canvas.fit(name, max(room / 2, room - rest), size=_LABEL_SIZE)
        for name, rest in zip((one, other), reversed(widths), strict=True)
    )
    return f"{one}{between}{other}{end}"


def _notes(values: AxisValues, pairs: Sequence[Pair]) -> str:
    """How to read the picture, below it."""
    notes = []
    if any(term < 0 for _, _, term in pairs) and not values.is_change:
        notes.append(DIRECTION)
    if not pairs:
        notes.append(
            f"No arcs: no pair term C is above {NOTICEABLE:.0%} of the largest importance and above its noise."
        )
    if values.n_samples is not None:
        notes.append(f"Means of absolute values over {values.n_samples:,} sample{'s'[: values.n_samples != 1]}.")
    if values.n_samples is not None and values.shapley_whiskers is not None:
        notes.append("Whiskers: 8 of 10 samples.")
    elif values.late_whiskers is not None:
        notes.append("Whiskers: 95 % intervals.")
    return " ".join(notes)


def _xlabel(values: AxisValues) -> str:
    if values.is_change:
        return "change of importance"
    return "importance, mean absolute value" if values.n_samples is not None else "importance"


def _write_header(canvas: Canvas, title: str, message: str, subtitle: str | None) -> None:
    """Title, what is to be seen, and the subtitle."""
    width = WIDTH - 2 * MARGIN
    canvas.write(MARGIN, 26, canvas.fit(title, width, size=16, bold=True), size=16, bold=True, gid="title")
    canvas.write(MARGIN, 54, canvas.fit(message, width, size=13), size=13, gid="message")
    if subtitle:
        line = canvas.fit(subtitle, width, size=_TEXT_SIZE)
        canvas.write(MARGIN, 76, line, size=_TEXT_SIZE, colour=SOFT_INK, gid="subtitle")


def _write_legend(canvas: Canvas, y: float, values: AxisValues) -> None:
    """What dot and ring mean."""
    dot = "change of Shapley value" if values.is_change else "Shapley value"
    ring = "with the others present (2R)" if values.is_change else "once the other features are present (2R)"
    x = MARGIN + _DOT
    canvas.discs([(x, y)], _DOT, fill=INK)
    canvas.write(x + 14, y, dot, size=_TEXT_SIZE, gid="legend")
    x += 14 + canvas.width_of(dot, size=_TEXT_SIZE) + 34
    canvas.lines([[(x - 20, y), (x, y)]], colour=LINE, width=3)
    canvas.discs([(x, y)], _RING, fill=PAPER, edge=INK, width=1.8)
    canvas.write(x + 14, y, ring, size=_TEXT_SIZE, gid="legend")


def _scale(canvas: Canvas, values: AxisValues, rows: Sequence[_Row], shown: Sequence[int], *, has_arcs: bool) -> _Scale:
    """Room for the labels at the left and the arcs at the right; the rest may lie beyond the other rows."""
    ends = [0.0, *(v for row in rows if not row.is_rest for v in (row.shapley, row.late))]
    for whiskers in (values.shapley_whiskers, values.late_whiskers):
        if whiskers is not None:
            ends += whiskers[list(shown)].ravel().tolist()
    low, high = min(ends), max(ends)
    for row in rows:
        if row.is_rest:
            # A little beyond the others is worth showing; further out it would press them together.
            reach = 0.35 * (high - low)
            low = min([low, *(v for v in (row.shapley, row.late) if v >= low - reach)])
            high = max([high, *(v for v in (row.shapley, row.late) if v <= high + reach)])
    margin = 0.04 * (high - low) or 1.0
    widest = max(canvas.width_of(row.label, size=_LABEL_SIZE) for row in rows)
    left = MARGIN + min(widest, 230) + 16
    return _Scale(low - margin, high + margin, left, WIDTH - MARGIN - (_ARCS if has_arcs else 12))


def _draw_ground(canvas: Canvas, scale: _Scale, rows: Sequence[_Row], top: float, xlabel: str) -> None:
    """Names, guides along the rows, the zero line and the ticks."""
    bottom = top + _ROW * len(rows)
    centres = [top + _ROW * (k + 0.5) for k in range(len(rows))]
    canvas.lines([[(scale.left, y), (WIDTH - MARGIN - 8, y)] for y in centres], colour=tint(LINE, 0.3), width=0.8)
    for row, y in zip(rows, centres, strict=True):
        label = canvas.fit(row.label, scale.left - MARGIN - 14, size=_LABEL_SIZE)
        colour = SOFT_INK if row.is_rest else INK
        canvas.write(scale.left - 14, y, label, size=_LABEL_SIZE, colour=colour, align="right", gid="label")
    if scale.holds(0):
        canvas.lines([[(scale(0), top), (scale(0), bottom)]], colour=SOFT_INK, width=1, gid="zero")
    ticks = [t for t in MaxNLocator(4).tick_values(scale.low, scale.high) if scale.low <= t <= scale.high]
    canvas.lines([[(scale.left, bottom), (scale.right, bottom)]], colour=LINE, width=1)
    canvas.lines([[(scale(t), bottom), (scale(t), bottom + 5)] for t in ticks], colour=LINE, width=1)
    for tick in ticks:
        text = f"{0.0 if abs(tick) < 1e-12 else tick:.4g}".replace("-", "−")
        canvas.write(scale(tick), bottom + 17, text, size=11, colour=SOFT_INK, align="center", gid="tick")
    middle = (scale.left + scale.right) / 2
    canvas.write(middle, bottom + 40, xlabel, size=_TEXT_SIZE, colour=SOFT_INK, align="center", gid="xlabel")


def _draw_rows(
    canvas: Canvas,
    scale: _Scale,
    values: AxisValues,
    rows: Sequence[_Row],
    shown: Sequence[int],
    top: float,
) -> None:
    centres = [top + _ROW * (k + 0.5) for k in range(len(rows))]
    losses = [[(scale(row.shapley), y), (scale(row.late), y)] for row, y in zip(rows, centres, strict=True)]
    canvas.lines(losses, colour=LINE, width=3.4, order=3, gid="losses")
    for whiskers, offset in ((values.shapley_whiskers, -3.0), (values.late_whiskers, 3.0)):
        if whiskers is not None:
            _draw_whiskers(canvas, scale, whiskers[list(shown)], centres, offset)
    listed = [(row, y) for row, y in zip(rows, centres, strict=True) if not row.is_rest]
    canvas.discs([(scale(r.late), y) for r, y in listed], _RING, fill=PAPER, edge=INK, width=1.8, gid="rings")
    # Smaller than the rings and above them, so that both are seen where they coincide.
    canvas.discs([(scale(r.shapley), y) for r, y in listed], _DOT, fill=INK, order=4.1, gid="dots")
    for row, y in zip(rows, centres, strict=True):
        if row.is_rest:
            _draw_rest(canvas, scale, row, y)


def _draw_whiskers(canvas: Canvas, scale: _Scale, ends: Values, centres: Sequence[float], offset: float) -> None:
    """Thin lines with caps."""
    lines = []
    for (low, high), y in zip(ends.tolist(), centres, strict=False):
        x0, x1 = scale(low), scale(high)
        lines += [
            [(x0, y + offset), (x1, y + offset)],
            *([(x, y + offset - 3), (x, y + offset + 3)] for x in (x0, x1)),
        ]
    canvas.lines(lines, colour=tint(SOFT_INK, 0.75), width=1, order=3.5, gid="whiskers")


def _draw_rest(canvas: Canvas, scale: _Scale, row: _Row, y: float) -> None:
    """The features that are not listed, in grey; beyond the scale an arrow and their sum."""
    if scale.holds(row.late):
        canvas.discs([(scale(row.late), y)], _RING, fill=PAPER, edge=SOFT_INK, width=1.6, gid="rest")
    if scale.holds(row.shapley):
        canvas.discs([(scale(row.shapley), y)], _DOT, fill=SOFT_INK, order=4.1, gid="rest")
        return
    sign = 1 if row.shapley > 0 else -1
    tip = scale(row.shapley)
    canvas.arrow([(tip - sign * 24, y), (tip + sign * 8, y)], width=2.4, colour=SOFT_INK, order=4, gid="rest")
    text = f"{row.shapley:.3g}".replace("-", "−")
    align: Align = "right" if sign > 0 else "left"
    canvas.write(tip - sign * 30, y, text, size=11, colour=SOFT_INK, align=align, gid="rest")
