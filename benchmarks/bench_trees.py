"""Exact explanations of tree ensembles: seconds per sample, next to our own sampling, shap and shapiq.

Run with `python -m benchmarks.bench_trees`. Times are the best of several runs and only mean something as ratios within
one run. The others compute something else (undirected interactions, or values without interactions); what they compute
is named, so that nobody takes a ratio for more than it is.
"""

import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from benchmarks.bench_engine import best_of
from bivshap_lightning import BivariateShapley

N_BACKGROUND = 100


def data(n_features: int, n_rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    x, y = make_classification(n_rows, n_features, n_informative=n_features // 2, random_state=0)
    return x, y


def report(rows: dict[str, tuple[Callable[[], object], int, int]]) -> None:
    """Times of runs, given as (run, samples, repetitions); the first one is the measure of the others."""
    measure = None
    for name, (run, n_samples, n_runs) in rows.items():
        seconds = best_of(n_runs, run) / n_samples
        measure = measure or seconds
        print(f"  {name:<72} {seconds:9.4f}   {seconds / measure:8.1f} x")


def against_others() -> None:
    from shap import TreeExplainer
    from shapiq import TreeExplainer as ShapiqTrees

    x, y = data(30)
    forest = RandomForestClassifier(100, max_depth=8, random_state=0).fit(x, y)
    row, background, few = x.mean(axis=0), x[-N_BACKGROUND:], x[:4]
    ours, sampling = BivariateShapley(forest), BivariateShapley(forest, "sampling")
    path_dependent = TreeExplainer(forest, feature_perturbation="tree_path_dependent")
    interventional = TreeExplainer(forest, data=background, feature_perturbation="interventional")
    pairs = ShapiqTrees(forest, max_order=2, index="SII", class_index=1)

    print("\nSeconds per sample, forest of 100 trees of depth 8, 30 features, one replacement row")
    report(
        {
            "ours, trees, batch of 32 (exact, F x F directed)": (lambda: ours.attribute(x[:32], row), 32, 3),
            "ours, trees, one sample at a time": (lambda: ours.attribute(x[:1], row), 1, 3),
            "the forest's own predict_proba on one sample": (lambda: forest.predict_proba(x[:1]), 1, 3),
            "ours, sampling at the default budget, batch of 32 (estimate)": (
                lambda: sampling.attribute(x[:32], row), 32, 1,
            ),
            "shap interaction values (path dependent, F x F undirected)": (
                lambda: path_dependent.shap_interaction_values(x[:32]), 32, 1,
            ),
            "shapiq TreeExplainer, SII of order 2 (path dependent, undirected)": (lambda: pairs.explain(x[0]), 1, 1),
        }
    )  # fmt: skip
    print(f"\nThe same with {N_BACKGROUND} background rows")
    report(
        {
            "ours, trees, batch of 4 (exact, F x F directed)": (
                lambda: ours.attribute(few, background=background), 4, 2,
            ),
            "ours, sampling, the default budget for every row (estimate, F x F)": (
                lambda: sampling.attribute(few, background=background), 4, 1,
            ),
            "shap values, interventional (exact, F values only)": (lambda: interventional.shap_values(few), 4, 1),
        }
    )  # fmt: skip


def by_size() -> None:
    print("\nOurs, seconds per sample by size")
    for name, n_features, depth in (
        ("100 trees of depth 8, 30 features", 30, 8),
        ("100 trees of any depth, 30 features", 30, None),
        ("100 trees of depth 8, 300 features", 300, 8),
        ("100 trees of any depth, 300 features", 300, None),
    ):
        x, y = data(n_features)
        ours = BivariateShapley(RandomForestClassifier(100, max_depth=depth, random_state=0).fit(x, y))
        one_row = best_of(2, lambda x=x, ours=ours: ours.attribute(x[:4], x.mean(axis=0))) / 4
        many = best_of(1, lambda x=x, ours=ours: ours.attribute(x[:2], background=x[-N_BACKGROUND:])) / 2
        print(f"  forest, {name:<40} {one_row:8.4f} one row   {many:8.4f} {N_BACKGROUND} rows")
    x, y = data(30)
    boosted = HistGradientBoostingClassifier(max_iter=300).fit(x, y)
    ours = BivariateShapley(boosted, behavior="logit")
    seconds = best_of(2, lambda: ours.attribute(x[:4], x.mean(axis=0))) / 4
    print(f"  {'boosted, 300 trees of 31 leaves, 30 features, margin':<48} {seconds:8.4f} one row")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    against_others()
    by_size()
