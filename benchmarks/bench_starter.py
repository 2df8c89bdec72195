"""What the starter rules say about clean, leaked and shortcut models of tables.

    python benchmarks/bench_starter.py [--data ../shared/data] [--only cancer ...] [--family mlp ...] [--seeds 11 12]

In a leaked model one column, useless otherwise, agrees with the label in 98 % of all rows, in one with a shortcut in
85 %; audited samples and background rows carry it as the training data does. Every model is trained here and audited
on at most 64 samples, as many of each class, with 8 background rows. The limits of `top1_lead` and `top1_alone` were
chosen on seeds up to 11. "leak first" counts models whose most important column is the leak: a model that does not
need the leak hardly uses it, and then importance cannot show it. Data sets whose files are not there are left out.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from bench_gate import COLUMNS, load
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from bivshap_lightning import BivariateShapley, Game, sufficient_set

N_SAMPLES, N_BACKGROUND, N_COALITIONS, MOST_ROWS = 64, 8, 320, 12_000
AGREEMENT = {"clean": None, "shortcut": 0.85, "leaked": 0.98}
FAMILIES = ("mlp", "trees", "logistic")
LSD, NICOTINE, SUBSTANCES = 26, 29, [29, 21, 27, 23, 18, 28]
"""Columns of the drug table; the substances are those of the paper."""
Table = tuple[np.ndarray, np.ndarray]
"""Columns, the last of them useless, and labels."""


def _with_noise(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Table:
    return np.hstack([x, rng.normal(size=(len(x), 1))]).astype(np.float32), np.asarray(y).astype(np.int64)


def adult(data: Path, rng: np.random.Generator) -> Table:
    x, y = load(data / "adult")
    rows = rng.permutation(len(x))[:MOST_ROWS]
    order = [k for k in range(len(COLUMNS)) if COLUMNS[k] != "fnlwgt"]
    return _with_noise(x[rows][:, order], y[rows], rng)


def _drug(data: Path) -> pd.DataFrame:
    return pd.read_csv(data / "drug" / "drug_consumption.data", header=None)


def drug(data: Path, rng: np.random.Generator) -> Table:
    frame = _drug(data)
    return _with_noise((frame[SUBSTANCES] != "CL0").to_numpy(float), (frame[LSD] != "CL0").to_numpy(), rng)


def nicotine(data: Path, rng: np.random.Generator) -> Table:
    frame = _drug(data)
    return _with_noise(frame.iloc[:, 1:13].to_numpy(float), (frame[NICOTINE] >= "CL4").to_numpy(), rng)


def divorce(data: Path, rng: np.random.Generator) -> Table:
    frame = pd.read_csv(data / "divorce" / "divorce.csv", sep=";")
    return _with_noise(frame.iloc[:, :54].to_numpy(float), frame["Class"].to_numpy(), rng)


def cancer(_: Path, rng: np.random.Generator) -> Table:
    return _with_noise(*datasets.load_breast_cancer(return_X_y=True), rng)


def wine(_: Path, rng: np.random.Generator) -> Table:
    return _with_noise(*datasets.load_wine(return_X_y=True), rng)


def iris(_: Path, rng: np.random.Generator) -> Table:
    return _with_noise(*datasets.load_iris(return_X_y=True), rng)


def diabetes(_: Path, rng: np.random.Generator) -> Table:
    x, y = datasets.load_diabetes(return_X_y=True)
    return _with_noise(x, y > np.median(y), rng)


def made(_: Path, rng: np.random.Generator) -> Table:
    """Six informative columns and three sums of them."""
    seed = int(rng.integers(2**31))
    x, y = datasets.make_classification(
        3000, 12, n_informative=6, n_redundant=3, flip_y=0.05, random_state=np.random.RandomState(seed)
    )
    return _with_noise(x, y, rng)


TABLES = {f.__name__: f for f in (adult, drug, nicotine, diabetes, made, cancer, wine, divorce, iris)}


class Network(nn.Module):
    """Two hidden layers on standardised columns."""

    def __init__(self, x: np.ndarray, n_classes: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(x.mean(axis=0)))
        self.register_buffer("scale", torch.from_numpy(x.std(axis=0) + 1e-6))
        self.layers = nn.Sequential(
            nn.Linear(x.shape[1], 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, n_classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers((x - self.mean) / self.scale)


def train(family: str, x: np.ndarray, y: np.ndarray, seed: int):
    """A model of a family; trees and logistic regression on a bootstrap sample."""
    if family == "mlp":
        torch.manual_seed(seed)
        model = Network(x, int(y.max()) + 1)
        optimizer = torch.optim.Adam(model.parameters(), 3e-3, weight_decay=1e-4)
        inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
        for _ in range(min(80, max(3, 40_000 // len(x)))):
            for rows in torch.randperm(len(x)).split(64):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs[rows]), labels[rows]).backward()
                optimizer.step()
        return model.eval()
    rows = np.random.default_rng(seed).integers(len(x), size=len(x))
    if family == "trees":
        model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=seed)
    else:
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    return model.fit(x[rows], y[rows])


def leak_into(x: np.ndarray, y: np.ndarray, share: float, rng: np.random.Generator) -> None:
    """The last column becomes the label in a share of the rows, and another class in the others."""
    n_classes = int(y.max()) + 1
    wrong = (y + rng.integers(1, n_classes, size=len(y))) % n_classes
    x[:, -1] = np.where(rng.random(len(y)) < share, y, wrong) + rng.normal(0, 0.01, len(y))


def numbers(model, rows: np.ndarray, background: np.ndarray) -> dict[str, float]:
    """The numbers of the starter rules, as the gate defines them, and whether the last column is the first by share."""
    is_module = isinstance(model, nn.Module)
    x, behind = (torch.from_numpy(a) if is_module else a.astype(np.float64) for a in (rows, background))
    explanation = BivariateShapley(model, seed=0).attribute(
        x, background=behind, n_evaluations=N_BACKGROUND * N_COALITIONS
    )
    shares = np.abs(np.stack([graph.known_shapley for graph in explanation.graphs()])).sum(axis=0)
    order = np.argsort(-shares)
    first, second = shares[order[:2]]
    sets = [s for s in sufficient_set(Game(model, x, background=behind), explanation, n_supersets=8) if s.size]
    alone = Counter(s.members[0] for s in sets if s.size == 1)
    return {
        "top1_share": first / shares.sum(), "top1_lead": first / (first + second),
        "top1_alone": max(alone.values(), default=0) / max(1, len(sets)), "leak first": order[0] == rows.shape[1] - 1,
    }  # fmt: skip


def measure(name: str, family: str, kind: str, data: Path, seed: int) -> dict[str, float]:
    """Train and audit one model."""
    rng = np.random.default_rng(seed)
    x, y = TABLES[name](data, rng)
    if AGREEMENT[kind] is not None:
        leak_into(x, y, AGREEMENT[kind], rng)
    by_class = [rng.permutation(np.flatnonzero(y == c)) for c in range(int(y.max()) + 1)]
    each = min(N_SAMPLES, len(x) // 3) // len(by_class)
    chosen = np.concatenate([rows[:each] for rows in by_class])
    rest = rng.permutation(np.setdiff1d(np.arange(len(x)), chosen))
    model = train(family, x[rest], y[rest], seed)
    return numbers(model, x[chosen], x[rest[:N_BACKGROUND]])


LIMITS = {"top1_share": 0.5, "top1_lead": 0.75, "top1_alone": 0.8}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with adult, drug, divorce")
    parser.add_argument("--only", choices=TABLES, nargs="+", default=list(TABLES))
    parser.add_argument(
        "--family", choices=("mlp", "trees", "logistic"), nargs="+", default=["mlp", "trees", "logistic"]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12])
    options = parser.parse_args()
    print(f"{'table':<10}{'kind':<10}{'models':>7}{'leak first':>12}" + "".join(f"{m:>22}" for m in LIMITS))
    for name in options.only:
        start = time.process_time()
        for kind in AGREEMENT:
            try:
                found = [measure(name, f, kind, options.data, s) for s in options.seeds for f in options.family]
            except FileNotFoundError as missing:
                print(f"{name}: left out, {missing.filename} is not there")
                break
            cells = []
            for metric, limit in LIMITS.items():
                values = [one[metric] for one in found]
                cells.append(f"{sum(v > limit for v in values)} ({min(values):.2f} to {max(values):.2f})")
            first = sum(bool(one["leak first"]) for one in found)
            print(f"{name:<10}{kind:<10}{len(found):>7}{first:>12}" + "".join(f"{c:>22}" for c in cells), flush=True)
        print(f"  {time.process_time() - start:.0f} s of CPU time", flush=True)


if __name__ == "__main__":
    main()
