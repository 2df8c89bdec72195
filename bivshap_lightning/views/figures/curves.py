"""`draw_curves`: one line per explainer over a common x axis, such as accuracy over the share of features removed."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from bivshap_lightning.views.figures.canvas import (
    LINE,
    MARGIN,
    SOFT_INK,
    WIDTH,
    Canvas,
    Dash,
    line_height,
    tint,
)

Values = NDArray[np.float64]
Arrays = tuple[Values, Values, Values | None]
Look = tuple[str, Dash, float]
Curve = tuple[ArrayLike, ArrayLike, ArrayLike | None]
"""x, y and the standard error of y (or None), each (N,)."""

OURS = "#D55E00"
OTHERS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#5C4033", "#7F7F7F")
_DASHES: tuple[Dash, ...] = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (7, 2, 1.5, 2)))
_HEIGHT = 500
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 232, 112, 96


def draw_curves(
    curves: Mapping[str, Curve],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    subtitle: str | None = None,
    caption: str | None = None,
    ours: str | None = None,
) -> Figure:
    """One line per method with a legend beside them; ours is drawn thick, the others thin.

    Args:
        curves: By method: x (ascending), y and the standard error of y, which becomes a band, or None.
        title: The first line of the picture.
        xlabel: What x is.
        ylabel: What y is.
        subtitle: The line below the title.
        caption: A sentence below the picture, such as which direction is better.
        ours: The method to emphasise; by default the first one.

    Returns:
        A figure 700 pixels wide that belongs to no pyplot state.

    Example:
        >>> removed = [0.0, 0.5, 1.0]
        >>> figure = draw_curves(
        ...     {"BivShap": (removed, [1, 0.9, 0.1], [0, 0.02, 0.01]), "Shapley": (removed, [1, 0.8, 0.1], None)},
        ...     title="Post-hoc accuracy",
        ...     xlabel="features removed",
        ...     ylabel="accuracy",
        ... )
        >>> [line.get_gid() for line in figure.axes[0].lines]
        ['curve:Shapley', 'curve:BivShap']
    """
    arrays = {method: _checked(method, curve) for method, curve in curves.items()}
    if not arrays:
        raise ValueError("`curves` must hold at least one method, got none. Map methods to their curves.")
    ours = next(iter(arrays)) if ours is None else ours
    if ours not in arrays:
        raise ValueError(f"`ours` must be one of {list(arrays)}, got {ours!r}. Name a method of `curves`.")
    canvas = Canvas(WIDTH, _HEIGHT)
    canvas.header(title, [subtitle or ""])
    axes = _axes(canvas, list(arrays.values()), xlabel, ylabel)
    others = [method for method in arrays if method != ours]
    looks: dict[str, Look] = {ours: (OURS, "solid", 3.6)}
    for method, colour, dash in zip(others, cycle(OTHERS), cycle(_DASHES), strict=False):
        looks[method] = colour, dash, 1.8
    for method in (*others, ours):
        _draw_curve(axes, method, arrays[method], looks[method])
    _write_names(canvas, arrays, looks)
    has_band = any(error is not None for _, _, error in arrays.values())
    sentences = [caption or "", "Bands: one standard error." if has_band else ""]
    canvas.paragraph(MARGIN, _HEIGHT - 44, " ".join(sentences).strip(), WIDTH - 2 * MARGIN, size=11, gid="caption")
    return canvas.finish()


def _draw_curve(axes: Axes, method: str, curve: Arrays, look: Look) -> None:
    x, y, error = curve
    colour, dash, width = look
    axes.plot(x, y, color=colour, linestyle=dash, linewidth=width, marker="", zorder=3, gid=f"curve:{method}")
    if error is not None:
        axes.fill_between(x, y - error, y + error, color=colour, linewidth=0, alpha=0.15, zorder=2)


def _axes(canvas: Canvas, curves: Sequence[Arrays], xlabel: str, ylabel: str) -> Axes:
    """Axes with a light grid; their text is written on the canvas."""
    width, height = canvas.width - _LEFT - _RIGHT, canvas.height - _TOP - _BOTTOM
    axes = canvas.figure.add_axes(
        (_LEFT / canvas.width, _BOTTOM / canvas.height, width / canvas.width, height / canvas.height), facecolor="none"
    )
    axes.set_xlim(*_limits([x for x, _, _ in curves]))
    axes.set_ylim(*_limits([y + sign * (0 if e is None else e) for _, y, e in curves for sign in (-1, 1)]))
    axes.set_axis_off()
    for x, text in _ticks(*axes.get_xlim()):
        place, _ = _pixel(canvas, axes, x, 0)
        canvas.write(place, canvas.height - _BOTTOM + 16, text, size=11, colour=SOFT_INK, align="center")
    for y, text in _ticks(*axes.get_ylim()):
        _, place = _pixel(canvas, axes, 0, y)
        canvas.write(_LEFT - 10, place, text, size=11, colour=SOFT_INK, align="right")
        canvas.lines([[(_LEFT, place), (_LEFT + width, place)]], colour=tint(LINE, 0.45), order=-1)
    canvas.write(_LEFT, _TOP - 14, ylabel, size=12, bold=True, gid="ylabel")
    canvas.write(_LEFT + width, canvas.height - _BOTTOM + 38, xlabel, size=12, bold=True, align="right", gid="xlabel")
    return axes


def _limits(values: Sequence[Values]) -> tuple[float, float]:
    """Limits a little beyond the values."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    margin = 0.03 * (high - low) or 0.5
    return low - margin, high + margin


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    ticks = [float(tick) for tick in MaxNLocator(6).tick_values(low, high) if low <= tick <= high]
    return [(tick, f"{0.0 if abs(tick) < 1e-12 else tick:.4g}".replace("-", "−")) for tick in ticks]


def _pixel(canvas: Canvas, axes: Axes, x: float, y: float) -> tuple[float, float]:
    """Where a point of the axes is on the canvas."""
    right, up = axes.transData.transform((x, y))
    return float(right), float(canvas.height - up)


def _write_names(canvas: Canvas, arrays: Mapping[str, Arrays], looks: Mapping[str, Look]) -> None:
    """A legend right of the axes, the highest curve first.

    Not at the ends of the curves, because they often meet there.
    """
    left, y = canvas.width - _RIGHT + 12, _TOP + 12.0
    for method in sorted(arrays, key=lambda method: -float(arrays[method][1].mean())):
        colour, dash, width = looks[method]
        is_ours = width > 2
        canvas.lines([[(left, y), (left + 26, y)]], colour=colour, width=width, dash=dash)
        name, _, about = method.partition(", ")  # what it spent stands below the name, so that the name fits
        name = canvas.fit(name.replace("_", " "), _RIGHT - 46 - MARGIN / 4, size=12, bold=is_ours)
        canvas.write(left + 34, y, name, size=12, bold=is_ours, gid=f"name:{method}")
        y += 1.25 * line_height(12)
        if about:
            canvas.write(left + 34, y - 3, about, size=11, colour=SOFT_INK)
            y += 1.1 * line_height(11)


def _checked(method: str, curve: Curve) -> Arrays:
    x, y, error = curve
    arrays = [np.asarray(a, dtype=np.float64) for a in ((x, y) if error is None else (x, y, error))]
    if len({array.shape for array in arrays}) > 1 or arrays[0].ndim != 1 or not arrays[0].size:
        raise ValueError(
            f"`curves` must hold vectors of one length per method, got shapes {[a.shape for a in arrays]} for "
            f"{method!r}. Pass (x, y, standard error or None)."
        )
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError(
            f"`curves` must be finite, got NaN or infinity for {method!r}. Leave out points without a value."
        )
    return arrays[0], arrays[1], None if error is None else arrays[2]
