"""Which columns of Adult (census income) can go: importance, the cost of dropping each, copies, and a retrain.

    python examples/adult_columns.py --data FOLDER_WITH_adult.data

The file is https://archive.ics.uci.edu/ml/machine-learning-databases/adult/adult.data.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from bivshap_lightning.audit.columns import column_report

COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country",
]  # fmt: skip


def load(folder: Path) -> tuple[np.ndarray, np.ndarray, list[int]]:
    frame = pd.read_csv(folder / "adult.data", header=None, names=[*COLUMNS, "label"], skipinitialspace=True)
    categorical = [k for k, name in enumerate(COLUMNS) if not pd.api.types.is_numeric_dtype(frame[name])]
    for k in categorical:
        frame[COLUMNS[k]] = frame[COLUMNS[k]].astype("category").cat.codes
    return frame[COLUMNS].to_numpy(dtype=float), (frame["label"] == ">50K").to_numpy().astype(int), categorical


def fit(x: np.ndarray, y: np.ndarray) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=80, max_leaf_nodes=15, random_state=0).fit(x, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with adult.data")
    parser.add_argument("--samples", type=int, default=200, help="held-out samples that are explained")
    options = parser.parse_args()
    x, y, categorical = load(options.data)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order], y[order]
    n_train = len(x) // 2
    model = fit(x[:n_train], y[:n_train])
    shown = slice(n_train, n_train + options.samples)
    report = column_report(
        model, x[shown], y[shown], names=COLUMNS, categorical=categorical, data=x[:n_train], background=x[:8],
        n_evaluations=8 * 200,
    )  # fmt: skip
    print(report.to_text())
    kept = [k for k, name in enumerate(COLUMNS) if name not in report.can_go]
    again = fit(x[:n_train][:, kept], y[:n_train])
    test = slice(n_train + options.samples, None)
    before, after = model.score(x[test], y[test]), again.score(x[test][:, kept], y[test])
    print(f"retrained without {len(report.can_go)} columns: accuracy {before:.4f} before, {after:.4f} after")


if __name__ == "__main__":
    main()
