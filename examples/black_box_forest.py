"""A random forest explained exactly, in milliseconds and without asking it: who makes whom redundant.

A forest learns to tell three kinds of wine apart by scikit-learn's bundled table. A path of a tree is an "if all of
these and none of those", so the values of a whole forest are known in closed form: no sampling, no error bars. Each
wine is explained against the typical wine of the other kinds. Where LightGBM is installed, boosted trees are explained
the same way, in the space of their margins.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from bivshap_lightning import BivariateShapley, Explanation, ExplanationGraph, Game
from bivshap_lightning.metrics import MutualRedundancyMasking
from bivshap_lightning.views import draw_graphs, render_png

KIND = 1  # the wines to explain
NEGLIGIBLE = 0.01  # a gain below one percent of what all features gain together counts as none


def shares_left(graph: ExplanationGraph) -> np.ndarray:
    """[i, j]: the mean gain of j once i is known, as a share of its mean gain altogether."""
    # Gains with i present carry half of all weight, so twice the weight of an arrow is their mean.
    shares = 2 * graph.weights / graph.shapley
    np.fill_diagonal(shares, np.nan)
    return shares


def print_table(graph: ExplanationGraph, unit: str) -> None:
    """The features that matter most, and for each the other one that leaves least of it."""
    left = shares_left(graph)
    print(f"{'feature':<18}{unit:>12}   {'best substitute':<18}{'leaves of it':>13}{'the other way round':>22}")
    for j in np.argsort(-graph.shapley)[:5]:
        i = np.nanargmin(left[:, j])
        worth = f"{graph.names[j]:<18}{graph.shapley[j]:>12.3f}"
        print(f"{worth}   {graph.names[i]:<18}{left[i, j]:>13.0%}{left[j, i]:>22.0%}")


def gamma_of(graph: ExplanationGraph) -> float:
    return NEGLIGIBLE * abs(float(graph.shapley.sum()))


def most_striking(explanation: Explanation, names: list[str]) -> tuple[int, int, int]:
    """The sample in which the most important feature is made redundant: its index, the maker, and the redundant one."""
    found = []
    for index, graph in enumerate(explanation.graphs(names)):
        one_way = graph.redundancy(gamma_of(graph)).adjacency
        for i, j in np.argwhere(one_way & ~one_way.T):
            found.append((float(graph.shapley[j]) / abs(float(graph.shapley.sum())), index, int(i), int(j)))
    return max(found)[1:]


def check_by_sampling(model: Any, exact: Explanation, rows: np.ndarray, other: np.ndarray, seconds: float) -> None:
    start = time.perf_counter()
    sampled = BivariateShapley(model, "sampling").attribute(rows, baselines=other, target=KIND)
    took = time.perf_counter() - start
    off = (sampled.bivariate - exact.bivariate).abs()
    within = float((off <= 2 * sampled.standard_error + 1e-9).double().mean())
    print(
        f"\nSampling says the same: {within:.0%} of its values lie within two standard errors of the exact ones, the "
        f"farthest {float(off.max()):.3f} off.\nIt asked the forest {int(sampled.n_evaluations[0]):,} times a wine and "
        f"took {took / len(rows):.3f} s each; the exact values took {seconds / len(rows):.3f} s."
    )


def keep_representatives(model: Any, explanation: Explanation, rows: np.ndarray, other: np.ndarray) -> None:
    game = Game(model, rows, baselines=other, target=KIND)
    graphs = explanation.graphs()
    metric = MutualRedundancyMasking(gamma=float(np.mean([gamma_of(graph) for graph in graphs])))
    metric.update(game, graphs)
    result = metric.compute()
    print(
        f"\nInterchangeable features form groups. With one representative of each group and all others as in the "
        f"typical other wine,\n{float(result['share_removable']):.0%} of the features are gone and "
        f"{float(result['accuracy_with_representatives']):.0%} of the wines are still recognised."
    )


def show_one_wine(explanation: Explanation, names: list[str], what: str, output: Path) -> None:
    """A redundancy that holds in one direction only, a group of features that replace each other, a picture."""
    index, maker, redundant = most_striking(explanation, names)
    graph = explanation.graph(index, names)
    h, left = graph.redundancy(gamma_of(graph)), shares_left(graph)
    print(
        f"\nOne way only: wine {index} gains {graph.shapley[redundant]:.3f} by its {names[redundant]}, of which "
        f"{left[maker, redundant]:.0%} are left once its {names[maker]} is known.\nIts {names[maker]} gains "
        f"{graph.shapley[maker]:.3f}, of which {left[redundant, maker]:.0%} are left once its {names[redundant]} is."
    )
    for group in h.groups:
        print(
            f"Interchangeable in it: {', '.join(names[k] for k in group)}.\nTogether they gain "
            f"{graph.shapley[list(group)].sum():.3f} of {graph.shapley.sum():.3f}: the forest hardly uses them."
        )
    figure = draw_graphs(
        graph,
        h,
        title=f"Here {names[maker]} makes {names[redundant]} redundant",
        subtitle=f"Exact: {what}",
    )
    output.mkdir(parents=True, exist_ok=True)
    picture = output / "black_box_forest.png"
    picture.write_bytes(render_png(figure)[0])
    print(f"The picture of wine {index}: {picture}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("lightning_logs"), help="folder of the picture")
    args = parser.parse_args()

    data = load_wine()
    names = [name.replace("_of_diluted_wines", "").replace("_", " ") for name in data.feature_names]
    x, held_out, y, truth = train_test_split(data.data, data.target, stratify=data.target, random_state=0)
    other, rows = np.median(x[y != KIND], axis=0), held_out[truth == KIND]
    forest = RandomForestClassifier(200, random_state=0).fit(x, y)
    print(f"A forest of {len(forest)} trees is right about {forest.score(held_out, truth):.0%} of the held-out wines.")

    start = time.perf_counter()
    explanation = BivariateShapley(forest).attribute(rows, baselines=other, target=KIND)
    seconds = time.perf_counter() - start
    print(f"\nWhy it takes {len(rows)} of them for {data.target_names[KIND]} (means over these wines)\n")
    print_table(explanation.mean_graph(names=names), "probability")
    check_by_sampling(forest, explanation, rows, other, seconds)
    keep_representatives(forest, explanation, rows, other)

    what = f"a forest of {len(forest)} trees: probability of {data.target_names[KIND]}"
    show_one_wine(explanation, names, what, args.output)

    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        print("\nInstall lightgbm to compare boosted trees.")
        return
    boosted = LGBMClassifier(n_estimators=100, min_child_samples=5, verbosity=-1).fit(x, y)
    margins = BivariateShapley(boosted, behavior="logit").attribute(rows, baselines=other, target=KIND)
    assert margins.method == explanation.method == "trees"
    print(f"\nBoosted trees (LightGBM) on the same wines, explained by their margin for {data.target_names[KIND]}\n")
    print_table(margins.mean_graph(names=names), "margin")


if __name__ == "__main__":
    main()
