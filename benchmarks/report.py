"""Tables and figures of ``python -m benchmarks``, out of the numbers of its parts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

LEAST = 1e-3
"""Errors below count as this, so that a few nearly exact answers do not make a geometric mean."""
LEAST_RATIO = 0.02
LITERAL = "paper_kernel"
STYLES = {
    "proxy": ("#0b6e4f", "-", 2.4), "kernel": ("#1f77b4", "-", 2.4), "sampling": ("#e07b00", "-", 2.4),
    "paper_kernel": ("#222222", "--", 1.5), "paper_sampling": ("#888888", "--", 1.5),
}  # fmt: skip
TITLES = {
    "proxy": "ours, proxy", "kernel": "ours, kernel", "sampling": "ours, sampling",
    "paper_kernel": "the paper's Algorithm 2", "paper_sampling": "the paper's Algorithm 1",
}  # fmt: skip
OTHER_COLORS = ("#a05195", "#c44e52", "#8c6d31", "#7b9fd4")

Row = dict[str, Any]
"""One error: `game`, `quantity`, `method`, `budget`, `error`."""


def of_method(rows: Sequence[Row], method: str) -> dict[tuple[str, int], float]:
    """Errors by game and budget."""
    return {(row["game"], row["budget"]): row["error"] for row in rows if row["method"] == method}


def methods_of(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def geometric(values: Sequence[float], least: float) -> float:
    return float(np.exp(np.log(np.maximum(values, least)).mean()))


def error_table(rows: Sequence[Row]) -> list[str]:
    """Geometric means with the range over games, one line per method and one column per number of evaluations."""
    budgets = sorted({row["budget"] for row in rows})
    lines = ["| method | " + " | ".join(f"{b:,}" for b in budgets) + " |", "| --- |" + " ---: |" * len(budgets)]
    for method in methods_of(rows):
        found = of_method(rows, method)
        cells = []
        for budget in budgets:
            errors = [error for (_, b), error in found.items() if b == budget]
            cells.append(f"{geometric(errors, LEAST):.3f} ({min(errors):.3f} to {max(errors):.2f})" if errors else "-")
        lines.append(f"| {TITLES.get(method, method)} | " + " | ".join(cells) + " |")
    return lines


def ratio_table(rows: Sequence[Row]) -> list[str]:
    """Errors over those of the paper's Algorithm 2 on the same game: geometric mean and worst game."""
    literal = of_method(rows, LITERAL)
    budgets = sorted({row["budget"] for row in rows})
    lines = ["| method | " + " | ".join(f"{b:,}" for b in budgets) + " |", "| --- |" + " ---: |" * len(budgets)]
    for method in methods_of(rows):
        if method == LITERAL:
            continue
        found, cells = of_method(rows, method), []
        for budget in budgets:
            ratios = [error / literal[key] for key, error in found.items() if key[1] == budget]
            cells.append(f"{geometric(ratios, LEAST_RATIO):.2f} ({max(ratios):.2f})" if ratios else "-")
        lines.append(f"| {TITLES.get(method, method)} | " + " | ".join(cells) + " |")
    return lines


def growth_table(growth: dict[str, dict[str, Any]]) -> list[str]:
    lines = ["| method | over | sizes | ms | exponent |", "| --- | --- | --- | --- | ---: |"]
    for name, axes in growth.items():
        for axis, (sizes, seconds, exponent) in axes.items():
            times = ", ".join(f"{1000 * s:.1f}" for s in seconds)
            lines.append(f"| {name} | {axis} | {', '.join(map(str, sizes))} | {times} | {exponent:.2f} |")
    return lines


def draw_errors(rows: Sequence[Row], quantity: str, path: Path) -> None:
    """Errors over evaluations on logarithmic axes; ours in strong lines, the paper's dashed, others thin."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(8, 4.4), layout="constrained")
    others = [method for method in methods_of(rows) if method not in STYLES]
    for method in methods_of(rows):
        found = of_method(rows, method)
        budgets = sorted({budget for _, budget in found})
        means = [geometric([e for (_, b), e in found.items() if b == budget], LEAST) for budget in budgets]
        default = (OTHER_COLORS[others.index(method) % 4] if method in others else "", ":", 1.5)
        color, dashes, width = STYLES.get(method, default)
        axes.loglog(budgets, means, dashes, marker="o", color=color, lw=width, ms=4, label=TITLES.get(method, method))
    ticks = [b for b in sorted({row["budget"] for row in rows}) if b in (256, 512, 1024, 2048, 4096)]
    axes.set_xticks(ticks, [f"{b:,}" for b in ticks])
    axes.minorticks_off()
    axes.set(xlabel="evaluations per sample", ylabel=f"relative error of {quantity}\n(geometric mean over games)")
    axes.grid(visible=True, color="#e6e6e6", lw=0.8)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_overhead(cases: Sequence[tuple[str, float, float]], path: Path) -> None:
    """Total time over that of the bare forward passes, one bar per case."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(8, 0.42 * len(cases) + 1.1), layout="constrained")
    names, ratios = [name for name, _, _ in cases][::-1], [total / forward for _, total, forward in cases][::-1]
    bars = axes.barh(names, ratios, color="#1f77b4", height=0.6)
    axes.bar_label(bars, [f"{ratio:.2f}" for ratio in ratios], padding=4, fontsize=9)
    axes.axvline(1, color="#222222", lw=1)
    axes.set(xlabel="total time / bare forward passes of the same rows (1: no overhead)", xlim=(0, 1.15 * max(ratios)))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_audits(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """The share of each run that the callback takes, before the audit at the end and with it."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(8, 0.7 * len(rows) + 1.1), layout="constrained")
    places = np.arange(len(rows))[::-1]
    for key, offset, color, label in (
        ("account", 0.18, "#0b6e4f", "before the end"), ("all", -0.18, "#1f77b4", "with the audit at the end"),
    ):  # fmt: skip
        bars = axes.barh(places + offset, [row[key] for row in rows], color=color, height=0.34, label=label)
        axes.bar_label(bars, [f"{row[key]:.2f}" for row in rows], padding=4, fontsize=9)
    axes.set_yticks(places, [f"{row['model']}, {row['epochs']} epochs" for row in rows])
    axes.axvline(0.1, color="#222222", lw=1)
    axes.set(xlabel="share of the run's processor time (line: max_share)", xlim=(0, 1.1))
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt
