"""All benchmarks of the estimators in one run: ``python -m benchmarks [--quick] [--write]``.

Prints the machine, accuracy against evaluations, time over bare forward passes, and growth with fitted exponents.
``--write`` makes ``benchmarks/RESULTS.md`` and its figures out of the same numbers.
"""

import argparse
import os
import platform
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from benchmarks import bench_curves, bench_engine
from benchmarks.bench_curves import Curve

HERE = Path(__file__).parent
LEAST = 1e-3


def machine() -> list[str]:
    """What the numbers were measured on."""
    try:
        load = f", load {os.getloadavg()[0]:.1f} at the start"
    except OSError:
        load = ""
    return [
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores{load}",
        f"Python {platform.python_version()}, torch {torch.__version__} with {torch.get_num_threads()} threads",
    ]


def mean_and_spread(errors: list[float]) -> str:
    logs = np.log(np.maximum(errors, LEAST))
    return f"{np.exp(logs.mean()):.3f} ({max(errors):.2f})"


def table_of(curves: dict[str, Curve]) -> list[str]:
    """Geometric means and worst games, one row per method."""
    budgets = sorted({budget for curve in curves.values() for budget in curve})
    lines = ["| method | " + " | ".join(f"{b:,}" for b in budgets) + " |", "| --- |" + " --- |" * len(budgets)]
    for name, curve in curves.items():
        cells = [mean_and_spread(curve[b]) if b in curve else "" for b in budgets]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def growth_table(growth: dict[str, dict[str, tuple[list[int], list[float], float]]]) -> list[str]:
    lines = ["| method | over | sizes | ms | exponent |", "| --- | --- | --- | --- | --- |"]
    for name, axes in growth.items():
        for axis, (sizes, seconds, exponent) in axes.items():
            times = ", ".join(f"{1000 * s:.1f}" for s in seconds)
            lines.append(f"| {name} | {axis} | {', '.join(map(str, sizes))} | {times} | {exponent:.2f} |")
    return lines


def draw(curves: dict[str, Curve], quantity: str, path: Path) -> None:
    """Errors over evaluations on logarithmic axes, one line per method, named at its end."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, curve in curves.items():
        budgets = sorted(curve)
        means = [np.exp(np.mean(np.log(np.maximum(curve[b], LEAST)))) for b in budgets]
        ours = name in bench_curves.OURS
        axes.loglog(budgets, means, "o-", lw=2.2 if ours else 1.1, ms=4, alpha=1 if ours else 0.75, label=name)
    axes.set(xlabel="evaluations per sample", ylabel=f"relative error of {quantity}, geometric mean")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer games, budgets and repetitions")
    parser.add_argument("--write", action="store_true", help="write benchmarks/RESULTS.md and its figures")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    start = time.perf_counter()
    bench_curves.check_conversion()
    command = "python -m benchmarks --write" + " --quick" * arguments.quick
    lines = ["# Results", "", f"Made by `{command}`; times only mean something as ratios within one run.", ""]
    lines += [f"- {line}" for line in machine()]
    of_e2, of_phi = bench_curves.accuracy(arguments.quick)
    kinds = ", ".join(name for name, _ in bench_curves.games(arguments.quick))
    lines += ["", "## Error of E2 against evaluations", ""]
    lines += [f"Relative RMSE, geometric mean (worst) over trained models of 13 and 14 players: {kinds}.", ""]
    lines += [*table_of(of_e2), "", "![error of E2](figures/e2.png)", ""]
    lines += ["Interactions of shapiq are converted to E2 as the sums of unanimity games that they stand for.", ""]
    lines += ["## Error of Shapley values against evaluations", "", *table_of(of_phi), ""]
    lines += ["![error of Shapley values](figures/phi.png)", "", "## Total time over bare forward passes", ""]
    lines += ["| case | total, s | forward, s | ratio |", "| --- | --- | --- | --- |"]
    lines += [f"| {name} | {t:.3f} | {f:.3f} | {t / f:.2f} |" for name, t, f in bench_engine.overhead(arguments.quick)]
    lines += ["", "## Growth of the estimators' own time", ""]
    lines += ["From values to an estimate, without the model; 40 players, 2 samples, 1,024 rows where not varied.", ""]
    lines += growth_table(bench_curves.growth(arguments.quick))
    lines += ["", f"The whole run took {time.perf_counter() - start:.0f} s."]
    print("\n".join(lines))
    if arguments.write:
        (HERE / "figures").mkdir(exist_ok=True)
        draw(of_e2, "E2", HERE / "figures" / "e2.png")
        draw(of_phi, "Shapley values", HERE / "figures" / "phi.png")
        (HERE / "RESULTS.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
