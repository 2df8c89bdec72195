"""Figures of results, for the metrics' `plot`. Colours are from the colour-blind safe palette of Okabe and Ito."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#999999")
Z = 1.96
"""Standard errors on either side of a drawn number: 95 %."""


def new_axes() -> Axes:
    """Return axes of a figure that is not registered with pyplot, so it need not be closed.

    Example:
        >>> new_axes().figure.axes
        [<Axes: >]
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(6.0, 4.0), layout="constrained").subplots()


def area_label(result: Mapping[str, Tensor], name: str) -> str:
    """Return an area with its 95 % interval as text.

    Example:
        >>> area_label({"auc": torch.tensor(0.5), "auc_se": torch.tensor(0.01)}, "auc")
        'auc 0.500 ± 0.020'
    """
    return f"{name} {float(result[name]):.3f} ± {Z * float(result[f'{name}_se']):.3f}"


def draw_curve(ax: Axes, x: Tensor, y: Tensor, error: Tensor, *, label: str, filled: bool = False) -> None:
    """Draw a curve with its 95 % band: lines between points, or a filled step curve.

    Example:
        >>> ax = new_axes()
        >>> draw_curve(ax, torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.5]), torch.zeros(2), label="area 0.75")
        >>> ax.get_legend_handles_labels()[1]
        ['area 0.75']
    """
    x_, y_, half = (t.cpu().numpy() for t in (x, y, Z * error))
    if filled:
        ax.fill_between(x_, 0, y_, step="post", color=COLOURS[0], alpha=0.12, linewidth=0)
        ax.fill_between(x_, (y_ - half).clip(0), y_ + half, step="post", color=COLOURS[0], alpha=0.25, linewidth=0)
        ax.step(x_, y_, where="post", color=COLOURS[0], label=label)
        ax.set_ylim(bottom=0)
    else:
        low, high = (y_ - half).clip(0, 1), (y_ + half).clip(0, 1)
        ax.fill_between(x_, low, high, color=COLOURS[0], alpha=0.25, linewidth=0)
        ax.plot(x_, y_, color=COLOURS[0], marker=".", label=label)
        ax.set_ylim(-0.03, 1.03)
    _finish(ax)


def draw_point(ax: Axes, x: Tensor, y: Tensor, error: Tensor, *, label: str) -> None:
    """Draw a single number with its 95 % interval.

    Example:
        >>> ax = new_axes()
        >>> draw_point(ax, torch.tensor(0.5), torch.tensor(1.0), torch.tensor(0.0), label="here")
        >>> ax.get_legend_handles_labels()[1]
        ['here']
    """
    x_, y_, half = float(x), float(y), Z * float(error)
    below, above = min(half, y_), min(half, 1 - y_)
    ax.errorbar([x_], [y_], yerr=[[below], [above]], color=COLOURS[1], marker="D", linestyle="none", label=label)
    _finish(ax)


def draw_maskings(ax: Axes, result: Mapping[str, Tensor], maskings: Sequence[str]) -> None:
    """Draw the accuracy of each masking as a bar with its 95 % interval and the share of masked players.

    Example:
        >>> ax = new_axes()
        >>> keys = ("accuracy", "accuracy_se", "share_masked")
        >>> draw_maskings(ax, {f"mask_sinks_{key}": torch.tensor(0.5) for key in keys}, ["mask_sinks"])
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['mask sinks (50 % masked)']
    """
    for row, masking in enumerate(maskings):
        value, half = float(result[f"{masking}_accuracy"]), Z * float(result[f"{masking}_accuracy_se"])
        colour = COLOURS[0 if masking in ("mask_sinks", "keep_only_sources") else 1]
        ax.barh(row, value, color=colour, height=0.6, alpha=0.85)
        span = [[min(half, value)], [min(half, 1 - value)]]
        ax.errorbar([value], [row], xerr=span, color="black", capsize=4)
    labels = (f"{m.replace('_', ' ')} ({100 * float(result[f'{m}_share_masked']):.0f} % masked)" for m in maskings)
    ax.set_yticks(range(len(maskings)), list(labels))
    ax.invert_yaxis()
    ax.set(xlim=(0, 1.03), xlabel="post-hoc accuracy")
    ax.grid(axis="x", alpha=0.3)


def draw_shares(ax: Axes, result: Mapping[str, Tensor], names: Sequence[str]) -> None:
    """Draw shares as bars with their 95 % intervals.

    Example:
        >>> ax = new_axes()
        >>> draw_shares(ax, {"essential": torch.tensor(0.5), "essential_se": torch.tensor(0.1)}, ["essential"])
        >>> float(ax.patches[0].get_width())
        0.5
    """
    for row, name in enumerate(names):
        value, half = float(result[name]), Z * float(result[f"{name}_se"])
        ax.barh(row, value, color=COLOURS[0], height=0.6, alpha=0.85)
        ax.errorbar([value], [row], xerr=[[min(half, value)], [min(half, 1 - value)]], color="black", capsize=4)
    ax.set_yticks(range(len(names)), list(names))
    ax.invert_yaxis()
    ax.set(xlim=(0, 1.03), xlabel="share of players")
    ax.grid(axis="x", alpha=0.3)


def draw_steps(
    ax: Axes, results: Sequence[Mapping[str, Tensor]], names: Sequence[str], *, upper_bound: float | None = None
) -> None:
    """Draw single numbers over the steps of several results, with 95 % bands where there are errors.

    Example:
        >>> ax = new_axes()
        >>> draw_steps(ax, [{"share": torch.tensor(0.5)}, {"share": torch.tensor(0.75)}], ["share"])
        >>> ax.lines[0].get_ydata()
        array([0.5 , 0.75])
    """
    from matplotlib.ticker import MaxNLocator

    steps = range(len(results))
    for colour, name in zip(COLOURS, names, strict=False):
        values = torch.tensor([float(result[name]) for result in results], dtype=torch.float64)
        errors = torch.tensor([float(result.get(f"{name}_se", torch.tensor(0))) for result in results])
        low, high = ((values + sign * Z * errors).clamp(0, upper_bound) for sign in (-1, 1))
        ax.fill_between(steps, low.numpy(), high.numpy(), color=colour, alpha=0.2, linewidth=0)
        ax.plot(steps, values.numpy(), color=colour, marker=".", label=name.replace("_", " "))
    ax.set_xlabel("step")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(ax)


def _finish(ax: Axes) -> None:
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
