"""False alarms and detection of the calibrated gate on Adult: retrains and harmless changes against real defects.

    python benchmarks/bench_gate.py --data ../shared/data/adult [--quick] [--family mlp|trees] [--seed N]

For each family of models (MLPs, boosted trees) five retrains are trusted. `calibrate` makes rules from their records;
the same rules then judge other retrains and harmless changes (width, epochs, learning rate), which should pass, and
models with a defect, which should not. Every model is trained and audited here; the seeds are not those that the
multiples of `bivshap_lightning.gate.calibration` were chosen on, and `--seed` takes others for models, samples and
background. 64 samples, each explained for its true label, absent
columns replaced by background rows.
"""

import argparse
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

from bivshap_lightning import BivariateShapley
from bivshap_lightning.audit.record import AuditRecord, Configuration, GraphSummary, Run, SampleSummary
from bivshap_lightning.gate import Rule, calibrate, judge
from bivshap_lightning.graph import ExplanationGraph

COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country",
]  # fmt: skip
CATEGORIES = [1, 3, 5, 6, 7, 8, 9, 13]
N_SAMPLES, N_BACKGROUND, GAMMA = 64, 8, 1e-5
NAMED_DEFECTS = ("label leak", "shortcut", "shuffled labels", "untrained", "swapped columns")
OTHER_DEFECTS = (
    "one sex only", "column dropped", "flipped column", "stale encoding", "stale scaling", "target shift",
    "label noise", "copy takes over",
)  # fmt: skip
STARTER_RULES = {
    "starter": Rule(metric="top1_share", max=0.5, compare="point"),
    "lead": Rule(metric="top1_lead", max=0.75, compare="point"),
}
"""Of the starter file: the one that decides and the one that warns."""


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Columns as numbers, categories as codes, and labels."""
    frame = pd.read_csv(folder / "adult.data", header=None, names=[*COLUMNS, "label"], skipinitialspace=True)
    x = np.empty((len(frame), len(COLUMNS)), dtype=np.float32)
    for k, name in enumerate(COLUMNS):
        x[:, k] = frame[name].astype("category").cat.codes if k in CATEGORIES else frame[name]
    return x, (frame["label"] == ">50K").to_numpy().astype(np.int64)


class MLP(nn.Module):
    """One-hot categories and standardised numbers into one hidden layer and a half."""

    def __init__(self, x: np.ndarray, width: int) -> None:
        super().__init__()
        numbers = [k for k in range(x.shape[1]) if k not in CATEGORIES]
        self.numbers, self.sizes = numbers, [int(x[:, k].max()) + 1 for k in CATEGORIES]
        values = torch.from_numpy(np.sign(x[:, numbers]) * np.log1p(np.abs(x[:, numbers])))
        self.register_buffer("mean", values.mean(dim=0))
        self.register_buffer("scale", values.std(dim=0) + 1e-6)
        self.layers = nn.Sequential(
            nn.Linear(len(numbers) + sum(self.sizes), width), nn.ReLU(), nn.Linear(width, 32), nn.ReLU(),
            nn.Linear(32, 2),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers = x[:, self.numbers]
        parts = [(numbers.sign() * numbers.abs().log1p() - self.mean) / self.scale]
        for k, size in zip(CATEGORIES, self.sizes, strict=True):
            parts.append(nn.functional.one_hot(x[:, k].long().clamp(0, size - 1), size).float())
        return self.layers(torch.cat(parts, dim=1))


def train_mlp(x, y, seed, *, width=64, epochs=3, rate=3e-3):
    torch.manual_seed(seed)
    model = MLP(x, width)
    optimizer = torch.optim.Adam(model.parameters(), rate, weight_decay=1e-4)
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(256):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    return model.eval()


def train_trees(x, y, seed, *, width=15, epochs=5, rate=0.1):
    """Boosted trees on a bootstrap sample, their only randomness; an epoch is twenty trees, the width their leaves."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(seed)
    rows = rng.integers(len(x), size=len(x))
    n_trees = 20 * epochs or 1
    model = HistGradientBoostingClassifier(
        max_iter=n_trees, max_leaf_nodes=width, learning_rate=rate if epochs else 1e-6, early_stopping=False,
        random_state=seed,
    )  # fmt: skip
    return model.fit(x[rows], y[rows])


Rows = tuple[np.ndarray, np.ndarray]
"""Inputs and labels."""


def corrupt(defect: str, trained: Rows, audited: Rows, background: Rows, seed: int, train_it):
    """A model with a defect, and the rows it is audited on and their background, which share a defect of the data."""
    rng = np.random.default_rng(seed)
    everywhere = [(x.copy(), y.copy()) for x, y in (trained, audited, background)]
    x, y = everywhere[0]
    leak = COLUMNS.index("fnlwgt")
    options = {}
    if defect in ("label leak", "shortcut"):
        share = 0.98 if defect == "label leak" else 0.85
        for data, labels in everywhere:
            agrees = rng.random(len(data)) < share
            data[:, leak] = 2e5 * np.where(agrees, labels, 1 - labels) + rng.normal(0, 1e3, len(data)) + 1e4
    elif defect == "shuffled labels":
        y = rng.permutation(y)
    elif defect == "untrained":
        options = {"epochs": 0}
    elif defect == "swapped columns":
        a, b = COLUMNS.index("age"), COLUMNS.index("education_num")
        x[:, [a, b]] = x[:, [b, a]]
    elif defect == "one sex only":
        kept = x[:, COLUMNS.index("sex")] == 0
        x, y = x[kept], y[kept]
    elif defect == "column dropped":
        x[:, COLUMNS.index("marital_status")] = x[0, COLUMNS.index("marital_status")]
    elif defect == "flipped column":
        k = COLUMNS.index("education_num")
        x[:, k] = x[:, k].max() + x[:, k].min() - x[:, k]
    elif defect == "stale encoding":  # the codes of occupations of an older table
        k = COLUMNS.index("occupation")
        x[:, k] = rng.permutation(int(x[:, k].max()) + 1)[x[:, k].astype(int)]
    elif defect == "stale scaling":  # trained on half the hours and half the age that the model is asked about
        x[:, [COLUMNS.index("hours_per_week"), COLUMNS.index("age")]] /= 2
    elif defect == "target shift":  # four of five rows of the rarer class are missing
        kept = (y == 0) | (rng.random(len(y)) < 0.2)
        x, y = x[kept], y[kept]
    elif defect == "label noise":
        y = np.where(rng.random(len(y)) < 0.2, 1 - y, y)
    elif defect == "copy takes over":  # a useless column becomes a copy of a column that is itself spoilt by noise
        k = COLUMNS.index("education_num")
        for data, _ in everywhere:
            data[:, leak] = data[:, k]
            data[:, k] = rng.permutation(data[:, k])
    return train_it(x, y, seed, **options), everywhere[1][0], everywhere[2][0]


def audit(model, rows: np.ndarray, labels: np.ndarray, background: np.ndarray, *, n_evaluations: int, name: str):
    """The record of a model: graphs of all rows for their true labels."""
    is_module = isinstance(model, nn.Module)
    inputs, stand_ins = (torch.from_numpy(a) if is_module else a.astype(np.float64) for a in (rows, background))
    explanation = BivariateShapley(model, seed=0).attribute(
        inputs, background=stand_ins, target=torch.from_numpy(labels), n_evaluations=n_evaluations
    )
    graphs = [explanation.graph(k, COLUMNS) for k in range(len(rows))]
    samples = tuple(
        SampleSummary(index=k, label=str(c), target=str(c), gain=float(g.shapley.sum()),
                      **GraphSummary.fields_of(g, GAMMA))
        for k, (g, c) in enumerate(zip(graphs, labels.tolist(), strict=True))
    )  # fmt: skip
    settings = Configuration("probability", "softmax", "automatic", "background", "label", GAMMA)
    arrays = {
        "weights": np.stack([g.weights for g in graphs]), "shapley": np.stack([g.shapley for g in graphs]),
        "standard_error": np.stack([g.standard_error for g in graphs]),
    }  # fmt: skip
    mean = GraphSummary.of(ExplanationGraph.mean(graphs), GAMMA)
    return AuditRecord(
        configuration=replace(settings, n_evaluations=n_evaluations), samples=samples, source=name, arrays=arrays,
        run=Run(sample_keys=tuple(f"row{k}" for k in range(len(rows)))), classes={"0": mean},
    )  # fmt: skip


def measure(family: str, x, y, *, seed: int, quick: bool, verbose: bool) -> dict[str, Counter]:
    """Verdicts by kind of model: how many passed, how many failed."""
    train_it = {"mlp": train_mlp, "trees": train_trees}[family]
    rng = np.random.default_rng(1 + seed)
    chosen = np.concatenate([rng.permutation(np.flatnonzero(y == c))[: N_SAMPLES // 2] for c in (0, 1)])
    held_out = np.isin(np.arange(len(x)), chosen)
    clean, labels = x[chosen], y[chosen]
    x, y = x[~held_out], y[~held_out]
    behind = rng.permutation(len(x))[:N_BACKGROUND]
    background, background_labels = x[behind], y[behind]
    n_evaluations = N_BACKGROUND * (128 if quick else 320)

    def record(model, name, rows=clean, rows_behind=background):
        return audit(model, rows, labels, rows_behind, n_evaluations=n_evaluations, name=name)

    n_retrains, n_changes, n_defects = (4, 1, 1) if quick else (15, 5, 4)
    trusted = [record(train_it(x, y, seed + 1000 + k), f"trusted {k}") for k in range(5)]
    calibration = calibrate(trusted)
    print(calibration.to_text())
    changes = {
        "width": {"width": 128 if family == "mlp" else 22},
        "epochs": {"epochs": 5 if family == "mlp" else 7},
        "learning rate": {"rate": 1e-3 if family == "mlp" else 0.07},
    }
    cases = [("retrain", {}, seed + 2000 + k) for k in range(n_retrains)]
    cases += [(name, options, seed + 3000 + k) for name, options in changes.items() for k in range(n_changes)]
    found: dict[str, Counter] = {}

    def judged(kind, new):
        verdict = judge(new, calibration.gate)
        counts = found.setdefault(kind, Counter())
        counts["passed" if verdict.passed else "failed"] += 1
        counts.update(name for name, rule in STARTER_RULES.items() if not judge(new, [rule]).passed)
        broken = [result for result in verdict.results if result.status == "fail"]
        counts.update(result.rule.metric for result in broken)
        if verbose:
            print(
                f"{kind}: {'passed' if verdict.passed else 'failed'}", "; ".join(r.reason for r in broken), flush=True
            )
            print("   ", *(broken[0].evidence[:1] if broken else ()))

    for kind, options, own_seed in cases:
        judged(kind, record(train_it(x, y, own_seed, **options), kind))
    for kind in (*NAMED_DEFECTS, *OTHER_DEFECTS):
        for k in range(n_defects):
            model, *rows = corrupt(
                kind, (x, y), (clean, labels), (background, background_labels), seed + 4000 + k, train_it
            )
            judged(kind, record(model, kind, *rows))
    return found


def report(family: str, found: dict[str, Counter], seconds: float) -> None:
    print(f"\n{family}: {seconds:.0f} s")
    print(f"{'kind':<18}{'models':>7}{'failed':>8}  {'starter':>8}{'lead':>6}  numbers that failed")
    for kind, counts in found.items():
        n = counts["passed"] + counts["failed"]
        numbers = ", ".join(f"{m.removeprefix('drift/')} {c}" for m, c in counts.items() if m.startswith("drift/"))
        print(f"{kind:<18}{n:>7}{counts['failed']:>8}  {counts['starter']:>8}{counts['lead']:>6}  {numbers}")
    is_defect = {*NAMED_DEFECTS, *OTHER_DEFECTS}
    for title, kinds in (("false alarms", set(found) - is_defect), ("detection", is_defect)):
        n = sum(found[k]["passed"] + found[k]["failed"] for k in kinds)
        print(f"{title}: {sum(found[k]['failed'] for k in kinds) / n:.1%} of {n}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/adult"), help="folder with adult.data")
    parser.add_argument("--family", choices=("mlp", "trees"), action="append", help="both by default")
    parser.add_argument("--seed", type=int, default=0, help="added to all seeds: other models, samples and background")
    parser.add_argument("--quick", action="store_true", help="a few models, to see that it runs")
    parser.add_argument("--verbose", action="store_true", help="one line per model")
    options = parser.parse_args()
    x, y = load(options.data)
    for family in options.family or ("mlp", "trees"):
        start = time.perf_counter()
        found = measure(family, x, y, seed=options.seed, quick=options.quick, verbose=options.verbose)
        report(family, found, time.perf_counter() - start)


if __name__ == "__main__":
    main()
