"""Figures of a history of records: a bump chart of feature places, and drift as a multiple of its thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from bivshap_lightning.gate.history import History
from bivshap_lightning.gate.record_drift import share_text
from bivshap_lightning.metrics.catalogue import numbers_of
from bivshap_lightning.views.figures.canvas import LINE, SOFT_INK, WIDTH, Canvas, tint
from bivshap_lightning.views.figures.curves import OTHERS, OURS

MAX_FEATURES = 12
"""Features that the bump chart shows; the others are in the table below it."""
MAX_LABELS = 12
_ROW, _LEFT, _RIGHT, _TOP, _BOTTOM = 26, 150, 176, 92, 46
_COLOURS = (OURS, *OTHERS)


def draw_bump_chart(history: History) -> Figure:
    """Places of features over the records, the most important feature on top; wide lines are large shares.

    Args:
        history: with features.

    Returns:
        A figure 700 pixels wide that belongs to no pyplot state.
    """
    features = history.features[:MAX_FEATURES]
    places = [_places(entry.shares, features) for entry in history.entries]
    height = _TOP + _ROW * len(features) + _BOTTOM
    canvas = Canvas(WIDTH, height)
    canvas.header("Place of each feature by its share of importance", ["line width: share of mean |phi|"])
    x = _columns(len(history.entries))
    _write_names(canvas, [entry.name for entry in history.entries], x, height)
    for k, feature in enumerate(features):
        colour = _COLOURS[k % len(_COLOURS)]
        y = [_TOP + _ROW * (row[feature] + 0.5) for row in places]
        shares = [entry.shares.get(feature, 0.0) for entry in history.entries]
        points = list(zip(x, y, strict=True))
        for ends, share in zip(pairwise(points), shares[1:], strict=True):
            canvas.lines([list(ends)], colour=tint(colour, 0.8), width=1 + 9 * share, order=2, gid=f"bump:{feature}")
        canvas.discs(points, 4, fill=colour, gid=f"place:{feature}")
        first, last = (canvas.fit(feature, room, size=11) for room in (_LEFT - 60, _RIGHT - 66))
        canvas.write(_LEFT - 14, y[0], f"{first} {share_text(shares[0])}", size=11, align="right")
        canvas.write(WIDTH - _RIGHT + 14, y[-1], f"{share_text(shares[-1])} {last}", size=11)
    return canvas.finish()


def _places(shares: Mapping[str, float], features: Sequence[str]) -> dict[str, int]:
    """Rows of the drawn features in one record, without ties."""
    order = sorted(features, key=lambda feature: -shares.get(feature, 0.0))
    return {feature: k for k, feature in enumerate(order)}


def _columns(n: int) -> list[float]:
    return [_LEFT + (WIDTH - _LEFT - _RIGHT) * k / max(n - 1, 1) for k in range(n)]


def _write_names(canvas: Canvas, names: Sequence[str], x: Sequence[float], height: float) -> None:
    """Names of records below their columns, some left out where there are many."""
    step = -(-len(names) // MAX_LABELS)
    room = (x[-1] - x[0]) / max(len(x) - 1, 1) * step - 6
    for k in range(0, len(names), step):
        canvas.lines([[(x[k], _TOP - 4), (x[k], height - _BOTTOM + 4)]], colour=tint(LINE, 0.4), order=0)
        name = canvas.fit(names[k], max(room, 24), size=10)
        canvas.write(x[k], height - _BOTTOM + 18, name, size=10, colour=SOFT_INK, align="center")


def draw_drift(history: History) -> Figure:
    """Drift of every record as a share of its threshold, which is at 1; of NDCG, one less its value and its minimum.

    Args:
        history: with thresholds.

    Returns:
        A figure 700 pixels wide that belongs to no pyplot state.
    """
    ratios = drift_ratios(history)
    top = max(1.25, 1.1 * max((v for row in ratios.values() for v in row if v is not None), default=0.0))
    height = 380
    canvas = Canvas(WIDTH, height)
    canvas.header(
        "Drift as a multiple of its threshold", [f"from {history.against}", "above the dashed line: not passed"]
    )
    x = _columns(len(history.entries))
    bottom = height - _BOTTOM

    def y_of(value: float) -> float:
        return bottom - (bottom - _TOP) * min(value, top) / top

    _write_names(canvas, [entry.name for entry in history.entries], x, height)
    canvas.lines([[(x[0], y_of(1)), (x[-1], y_of(1))]], colour=SOFT_INK, width=1.5, dash=(0, (5, 2)), gid="threshold")
    canvas.write(_LEFT - 14, y_of(1), "threshold", size=11, align="right")
    canvas.write(_LEFT - 14, y_of(0), "0", size=11, align="right", colour=SOFT_INK)
    for k, (tag, row) in enumerate(ratios.items()):
        colour = _COLOURS[k % len(_COLOURS)]
        points = [(place, y_of(value)) for place, value in zip(x, row, strict=True) if value is not None]
        ends = [list(both) for both in pairwise(points)] or [[points[0]] * 2]
        canvas.lines(ends, colour=colour, width=2, order=3, gid=f"drift:{tag}")
        canvas.discs(points, 3.5, fill=colour)
        canvas.lines(
            [[(WIDTH - _RIGHT + 14, _TOP + 22 * k), (WIDTH - _RIGHT + 44, _TOP + 22 * k)]], colour=colour, width=3
        )
        canvas.write(WIDTH - _RIGHT + 52, _TOP + 22 * k, tag, size=11, gid=f"name:{tag}")
    return canvas.finish()


def drift_ratios(history: History) -> dict[str, list[float | None]]:
    """Drift of every record divided by its threshold, for numbers that have one and occur.

    Args:
        history: with thresholds.
    """
    found: dict[str, list[float | None]] = {}
    for entry in numbers_of("record drift"):
        limit = history.thresholds.get(entry.tag)
        values = [e.drift.get(entry.tag) for e in history.entries]
        if limit is None or all(value is None for value in values):
            continue
        is_minimum = entry.direction == "higher"
        scale = (1 - limit if is_minimum else limit) or 1.0
        found[entry.tag] = [None if v is None else (1 - v if is_minimum else v) / scale for v in values]
    return found
