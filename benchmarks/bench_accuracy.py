"""Accuracy of the estimators at equal evaluations, against enumeration and against the paper's algorithms.

Run with ``python -m benchmarks.bench_accuracy`` (about half an hour on one core), or with ``--quick`` (about two
minutes: fewer games, budgets and seeds). Three tables: relative RMSE of E2 over that of the paper's Algorithm 2 and
coverage of 95 % intervals on trained models of 13 and 14 players, the same at the paper's budget for 54 to 1,077
players, and evaluations needed to reach the paper's Algorithm 1. What is called redundant: ``bench_redundancy``.

The settings of the estimators were chosen on games of seeds 0 and 1; seeds 2 to 4 are reported here.
"""

import argparse
import platform
import time
import warnings
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from bivshap_lightning import Game
from bivshap_lightning.explainers import Estimator, default_coalitions
from bivshap_lightning.explainers.kernel import Kernel
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.paper import IndependentOrders
from bivshap_lightning.explainers.proxy import GaussianProcessProxy
from bivshap_lightning.explainers.sampling import Sampling
from tests.oracles import RandomTrees, Unanimity, paper_kernel, relative_error, table_model
from tests.trained_games import TRAINED, table_e2

ESTIMATORS: tuple[Estimator, ...] = (GaussianProcessProxy(), Kernel(), Sampling())
# Ratios below this count as this, so that a few nearly exact games do not make the geometric mean.
LEAST_RATIO = 0.02


def reduced(model: Callable[[Tensor], Tensor], n: int) -> ReducedGame:
    return ReducedGame(Game(model, torch.ones(1, n, dtype=torch.float64), behavior="output"))


def run(estimator: Estimator, game: ReducedGame, n_coalitions: int, seed: int) -> Estimate:
    return estimator.estimate(game, n_coalitions, torch.Generator().manual_seed(seed))


def root_mean_square(values: Iterable[float]) -> float:
    return float(np.sqrt(np.mean(np.square(list(values)))))


def coverage(estimate: Estimate, truth: np.ndarray) -> float:
    off = ~np.eye(len(truth), dtype=bool)
    error = np.abs(estimate.bivariate[0].numpy() - truth)[off]
    return float(np.mean(error <= 1.96 * estimate.bivariate_error[0].numpy()[off] + 1e-12))


def summary(ratios: list[float]) -> str:
    clipped = np.log(np.maximum(ratios, LEAST_RATIO))
    low, middle, high = (float(np.exp(x)) for x in np.quantile(clipped, [0.1, 0.5, 0.9]))
    return f"{np.exp(clipped.mean()):.3f} [{low:.2f}, {middle:.2f}, {high:.2f}] worst {max(ratios):.2f}"


def trained_models(seeds: range, budgets: tuple[int, ...], n_repeats: int) -> None:
    print("\nRelative RMSE over the paper's Algorithm 2, trained models of 13 and 14 players")
    print("geometric mean [10, 50, 90 % of the games], worst game; coverage of 95 % intervals, mean and worst game")
    games = [(kind, make(seed)) for kind, make in TRAINED.items() for seed in seeds]
    truths = [table_e2(table)[0] for _, table in games]
    for budget in budgets:
        ratios: dict[str, list[float]] = {e.name: [] for e in ESTIMATORS}
        covers: dict[str, list[float]] = {e.name: [] for e in ESTIMATORS}
        seconds = dict.fromkeys(ratios, 0.0)
        for (_, table), truth in zip(games, truths, strict=True):
            n, model = len(truth), table_model(table)
            # The least budget of all estimators here, where none is given.
            n_coalitions = budget or 4 * n + 2
            repeats = range(n_repeats)
            paper = root_mean_square(
                relative_error(paper_kernel(model, n, n_coalitions - 2, seed), truth) for seed in repeats
            )
            for estimator in ESTIMATORS:
                start = time.perf_counter()
                found = [run(estimator, reduced(model, n), n_coalitions, seed) for seed in repeats]
                seconds[estimator.name] += (time.perf_counter() - start) / n_repeats / len(games)
                ours = root_mean_square(relative_error(e.bivariate[0], truth) for e in found)
                ratios[estimator.name].append(ours / paper)
                covers[estimator.name].append(float(np.mean([coverage(e, truth) for e in found])))
        for name in ratios:
            cover = f"{np.mean(covers[name]):.3f} / {min(covers[name]):.3f}"
            print(
                f"  {budget or 'least':>6} {name:<9} {summary(ratios[name])}   covered {cover}"
                f"   {seconds[name]:.2f} s per sample"
            )
        if budget == budgets[-1]:
            kinds = [kind for kind, _ in games]
            for kind in TRAINED:
                own = [f"{r:.2f}" for k, r in zip(kinds, ratios["proxy"], strict=True) if k == kind]
                print(f"         proxy on {kind:<11} {' '.join(own)}")


def many_players(quick: bool) -> None:
    print("\nThe same at the paper's budget 2 (2 F + 2048)")
    cases = [(54, 216, 3), (196, 784, 3)] + ([] if quick else [(1077, 3000, 3)])
    for n, n_terms, n_games in cases:
        for kind in ("unanimity", "trees of depth 3", "trees of depth 5"):
            lines: dict[str, list[float]] = {e.name: [] for e in ESTIMATORS}
            covers: dict[str, list[float]] = {e.name: [] for e in ESTIMATORS}
            for seed in range(2, 2 + (1 if quick else n_games)):
                game = Unanimity(n, n_terms, seed) if kind == "unanimity" else RandomTrees(n, seed, depth=int(kind[-1]))
                paper = relative_error(paper_kernel(game, n, default_coalitions(n) - 2, seed), game.e2)
                for estimator in ESTIMATORS:
                    found = run(estimator, reduced(game, n), default_coalitions(n), seed)
                    lines[estimator.name].append(relative_error(found.bivariate[0], game.e2) / paper)
                    covers[estimator.name].append(coverage(found, game.e2))
            parts = [f"{k} {np.mean(v):.3f} (covered {np.mean(covers[k]):.2f})" for k, v in lines.items()]
            print(f"  {n:>5} {kind:<16} " + "   ".join(parts), flush=True)


def evaluations_to_reach_the_paper(quick: bool) -> None:
    print("\nEvaluations of the proxy that reach the error of the paper's Algorithm 1 with 1,000 orders per player")
    fractions = []
    for kind in list(TRAINED)[:: 3 if quick else 1]:
        table = TRAINED[kind](2)
        truth, model = table_e2(table)[0], table_model(table)
        n = len(truth)
        target = relative_error(run(IndependentOrders(), reduced(model, n), 2000 * n, 0).bivariate[0], truth)
        for budget in (64, 96, 128, 192, 256, 384, 512, 768, 1024):
            found = [run(GaussianProcessProxy(), reduced(model, n), budget, seed) for seed in range(3)]
            if root_mean_square(relative_error(e.bivariate[0], truth) for e in found) <= target:
                break
        fractions.append(2000 * n / budget)
        print(f"  {kind:<11} error {target:.3f} reached with {budget}: 1/{fractions[-1]:.0f}", flush=True)
    print(f"  median 1/{np.median(fractions):.0f}, worst 1/{min(fractions):.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer games, budgets and seeds")
    quick = parser.parse_args().quick
    warnings.filterwarnings("ignore")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.processor() or platform.machine()}")
    trained_models(
        range(2, 3) if quick else range(2, 5), (0, 256, 1024) if quick else (0, 256, 1024, 4096), 1 if quick else 3
    )
    many_players(quick)
    evaluations_to_reach_the_paper(quick)


if __name__ == "__main__":
    main()
