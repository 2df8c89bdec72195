"""Accuracy against evaluations of every estimator, on networks small enough to enumerate.

    python docs/figures/which_method.py --output FOLDER

Two networks on scikit-learn's tables (13 columns of wines, 14 of breast cancer), four samples of each. The truth is the
enumeration of all coalitions. Five seeds per estimator and budget.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer, load_wine
from torch import nn

from bivshap_lightning import Game
from bivshap_lightning.explainers import find_explainer

METHODS = {
    "paper_sampling": "#b8b8b8",
    "paper_kernel": "#8a8a8a",
    "sampling": "#d55e00",
    "kernel": "#009e73",
    "proxy": "#0072b2",
}
BUDGETS = (128, 256, 512, 1024, 2048, 4096)
N_SAMPLES, N_SEEDS = 4, 5


def games() -> dict[str, Game]:
    """A trained network per table, as the game of four of its samples."""
    found = {}
    for name, data, n_columns in (("wine", load_wine(), 13), ("breast cancer", load_breast_cancer(), 14)):
        torch.manual_seed(0)
        x, y = torch.tensor(data.data[:, :n_columns], dtype=torch.float32), torch.tensor(data.target)
        x = (x - x.mean(dim=0)) / x.std(dim=0)
        net = nn.Sequential(nn.Linear(n_columns, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        for _ in range(150):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        rows = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(1))[:N_SAMPLES]]
        found[name] = Game(net.double(), rows.double())
    return found


def measure() -> dict[str, dict[str, list[list[float]]]]:
    """Relative RMSE of E2 and processor seconds per sample, by method and budget, over games, samples and seeds."""
    found: dict[str, dict[str, list[list[float]]]] = {m: {"error": [], "seconds": []} for m in (*METHODS, "exact")}
    for game in games().values():
        start = time.process_time()
        truth = find_explainer("exact").explain(game, 2**game.n_players).bivariate
        found["exact"]["seconds"].append([(time.process_time() - start) / N_SAMPLES])
        for method in METHODS:
            for k, budget in enumerate(BUDGETS):
                errors, seconds = [], []
                explainer = find_explainer(method)
                if explainer.minimum_evaluations(game) <= budget:
                    for seed in range(N_SEEDS):
                        start = time.process_time()
                        estimate = explainer.explain(game, budget, seed).bivariate
                        seconds.append((time.process_time() - start) / N_SAMPLES)
                        off = (estimate - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)
                        errors += off.tolist()
                for kind, values in (("error", errors), ("seconds", seconds)):
                    if len(found[method][kind]) <= k:
                        found[method][kind].append([])
                    found[method][kind][k] += values
    return found


def draw(found: dict[str, dict[str, list[list[float]]]]) -> Figure:
    """Median error with the middle half of all samples, seeds and games, over the budget."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    ax = figure.subplots()
    for method, colour in METHODS.items():
        points = [
            (b, np.quantile(e, [0.25, 0.5, 0.75])) for b, e in zip(BUDGETS, found[method]["error"], strict=True) if e
        ]
        x, y = [b for b, _ in points], np.array([q for _, q in points])
        ax.plot(x, y[:, 1], color=colour, marker="o", markersize=4, label=method)
        ax.fill_between(x, y[:, 0], y[:, 2], color=colour, alpha=0.12, linewidth=0)
    for n in (13, 14):
        ax.axvline(2**n, color="black", linewidth=0.8, linestyle=":")
    ax.text(2**13 * 0.95, ax.get_ylim()[1] * 0.7, "exact from here", rotation=90, ha="right", va="top", fontsize=9)
    ax.set(xscale="log", yscale="log", xlabel="model rows per sample", ylabel="relative error of E2")
    ax.set_xticks([*BUDGETS, 8192], [str(b) for b in (*BUDGETS, 8192)])
    ax.minorticks_off()
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    """Measure, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="folder of the picture")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    found = measure()
    draw(found).savefig(folder / "which_method.png", dpi=100)
    print(f"{'median relative error of E2':<28}" + "".join(f"{b:>8,}" for b in BUDGETS))
    for method in METHODS:
        print(f"{method:<28}" + "".join(f"{np.median(e):>8.3f}" if e else f"{'-':>8}" for e in found[method]["error"]))
    print(f"\n{'seconds per sample':<28}" + "".join(f"{b:>8,}" for b in BUDGETS) + f"{'exact':>8}")
    for method in METHODS:
        print(
            f"{method:<28}" + "".join(f"{np.median(e):>8.4f}" if e else f"{'-':>8}" for e in found[method]["seconds"])
        )
    print(f"{'exact':<28}" + " " * 48 + f"{np.median(np.concatenate(found['exact']['seconds'])):>8.4f}")
    (folder / "which_method.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
