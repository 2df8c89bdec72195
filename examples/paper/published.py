"""The paper's figures, read from its tables, and where the paper or its code slips, with evidence."""

from __future__ import annotations

STUDIES = {
    "drug": "Drug",
    "divorce": "Divorce",
    "census": "Census",
    "mnist": "MNIST",
    "cifar10": "CIFAR10",
    "imdb": "IMDB",
    "genes": "COPD",
    "golub": "COPD",
}
"""Our studies and the data sets of the paper that they repeat or stand in for."""

COMPARABLE = ("drug", "divorce", "census", "mnist")
"""The same data as the paper's. The others are subsets or stand-ins: their figures are shown, not compared."""

ACCURACY = {"COPD": 88.2, "CIFAR10": 89.8, "MNIST": 99.0, "IMDB": 88.1, "Census": 87.3, "Divorce": 98.5, "Drug": 85.3}
ROWS = {
    "COPD": "1,641 / 407", "CIFAR10": "50k / 10k", "MNIST": "60k / 10k", "IMDB": "25k / 25k", "Census": "26k / 6.5k",
    "Divorce": "102 / 68", "Drug": "1,413 / 472",
}  # fmt: skip

_COLUMNS = ("COPD", "CIFAR10", "MNIST", "IMDB", "Census", "Divorce", "Drug")


def _by_column(rows: dict[str, tuple[float | None, ...]]) -> dict[str, dict[str, float]]:
    """Numbers by data set, then by method."""
    return {
        column: {method: values[k] for method, values in rows.items() if values[k] is not None}
        for k, column in enumerate(_COLUMNS)
    }


INSERTION = _by_column({
    "paper_sampling": (0.48, 0.75, 0.85, 0.45, 0.43, 0.30, 0.30),
    "paper_kernel": (0.49, 0.65, 0.84, 0.43, 0.42, 0.30, 0.30),
    "shapley_sampling": (0.48, 0.75, 0.85, 0.45, 0.43, 0.30, 0.30),
    "kernel_shap": (0.42, 0.48, 0.77, 0.29, 0.42, 0.29, 0.30),
    "shapley_interaction": (0.20, 0.35, 0.46, 0.32, 0.43, 0.16, 0.17),
    "shapley_taylor": (None, 0.34, 0.78, 0.34, 0.42, 0.30, 0.16),
    "shapley_excess": (None, 0.32, 0.51, 0.30, 0.37, 0.15, 0.08),
    "gnn_explainer": (0.25, 0.15, 0.25, 0.30, 0.38, 0.25, 0.26),
})  # fmt: skip
DELETION = _by_column({
    "paper_sampling": (0.01, 0.05, 0.03, 0.02, 0.32, 0.05, 0.10),
    "paper_kernel": (0.00, 0.08, 0.03, 0.02, 0.32, 0.05, 0.10),
    "shapley_sampling": (0.01, 0.05, 0.03, 0.02, 0.32, 0.05, 0.10),
    "kernel_shap": (0.09, 0.17, 0.17, 0.03, 0.36, 0.05, 0.11),
    "shapley_interaction": (0.23, 0.31, 0.52, 0.29, 0.33, 0.14, 0.20),
    "shapley_taylor": (None, 0.27, 0.19, 0.19, 0.31, 0.05, 0.19),
    "shapley_excess": (None, 0.31, 0.48, 0.29, 0.38, 0.15, 0.29),
    "gnn_explainer": (0.25, 0.15, 0.25, 0.30, 0.38, 0.25, 0.27),
})  # fmt: skip

POST_HOC_10 = _by_column({
    "paper_sampling": (100, 99.4, 100, 100, 100, 100, 100),
    "shapley_sampling": (100, 99.0, 100, 100, 100, 100, 100),
    "shapley_interaction": (82.8, 70.2, 84.6, 92.6, 100, 98.5, 91.7),
    "kernel_shap": (99.3, 86.6, 100, 100, 96.0, 100, 100),
    "l2x": (92.6, 71.4, 100, 94.0, 96.6, 100, 100),
})  # fmt: skip
POST_HOC_50 = _by_column({
    "paper_sampling": (100, 93.0, 100, 100, 96.8, 100, 99.2),
    "shapley_sampling": (100, 92.4, 100, 100, 96.8, 100, 99.2),
    "shapley_interaction": (68.3, 32.8, 62.8, 64.4, 94.8, 58.8, 77.1),
    "kernel_shap": (100, 54.9, 99.9, 100, 90.0, 98.5, 100),
    "l2x": (86.0, 23.2, 100, 57.9, 84.8, 98.5, 75.0),
})  # fmt: skip

SINKS = {
    "paper_sampling": {
        "COPD": (99.5, 62.7, 1.5, 98.5), "CIFAR10": (94.6, 15.0, 6.2, 93.8), "MNIST": (100.0, 13.4, 77.7, 22.3),
        "IMDB": (100.0, 54.0, 3.5, 96.5), "Census": (100.0, 82.0, 23.8, 76.2), "Divorce": (100.0, 51.5, 22.2, 77.8),
        "Drug": (100.0, 48.5, 43.5, 56.5),
    },
    "paper_kernel": {
        "COPD": (97.3, 62.7, 13.6, 86.4), "CIFAR10": (82.6, 19.4, 10.4, 89.6), "MNIST": (100.0, 17.6, 13.6, 86.4),
        "IMDB": (97.2, 54.0, 23.7, 76.3), "Census": (100.0, 82.0, 33.3, 66.7), "Divorce": (100.0, 51.5, 22.0, 78.0),
        "Drug": (100.0, 48.5, 43.5, 56.5),
    },
}  # fmt: skip
"""Accuracy with sinks masked, accuracy with sources masked, % masked in each."""

SECONDS = _by_column({
    "paper_sampling": (5942, 218, 116, 207, 2.7, 18.2, 2.3),
    "paper_kernel": (36, 2.5, 1.5, 1.9, 0.20, 0.34, 0.07),
    "shapley_interaction": (2877, 101, 48, 160, 2.6, 6.5, 1.21),
    "shapley_taylor": (112900, 2819, 1194, 1279, 11.6, 63.2, 181),
    "shapley_excess": (838200, 6267, 2350, 1796, 5.3, 93.3, 0.96),
    "shapley_sampling": (3047, 140, 57, 103, 1.6, 11.3, 1.26),
    "kernel_shap": (1.4, 0.65, 0.34, 0.40, 0.83, 0.16, 0.10),
    "l2x": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "gnn_explainer": (10.9, 0.79, 0.42, 0.73, 0.17, 0.15, 1.54),
})  # fmt: skip
