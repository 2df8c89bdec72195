"""Redundant edges called and missed: `sampling`, `kernel`, `proxy` and the literal loop against exact answers.

Run with ``python -m benchmarks.bench_redundancy`` (about ten minutes on one core), or with ``--quick`` (about three:
one seed, no literal loop). "fitted" is the proxy fitted to some of its rows, as `auto` takes it where four times the
default rows are allowed. Games: networks of 18 players, enumerated; forests and boosted trees as black boxes, whose
answers are read off their trees; sums of random trees and conjunctions in closed form. At the least, the default and
four times the default number of rows: false edges of those called redundant at 95 % confidence, the share found of the
redundant edges between relevant players, the share of all edges that is undecided, and the coverage of 95 % intervals.

Settings were chosen on other models, samples and seeds.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from torch import Tensor, nn

from benchmarks.bench_accuracy import coverage, reduced, run
from bivshap_lightning import BivariateShapley
from bivshap_lightning.explainers import Estimator, default_coalitions
from bivshap_lightning.explainers.auto import FITTED_PAIRS
from bivshap_lightning.explainers.kernel import Kernel
from bivshap_lightning.explainers.paper import IndependentOrders
from bivshap_lightning.explainers.proxy import GaussianProcessProxy
from bivshap_lightning.explainers.sampling import Sampling
from bivshap_lightning.graph import relative_gamma
from tests.oracles import Conjunctions, RandomTrees, table_model
from tests.trained_games import _network_table, _standardized, table_e2


class Fitted(GaussianProcessProxy):
    """The proxy that is fitted to some of the rows."""

    name = "fitted"

    def __init__(self) -> None:
        super().__init__(most_pairs=FITTED_PAIRS[0])


ESTIMATORS: tuple[Estimator, ...] = (Fitted(), GaussianProcessProxy(), Kernel(), Sampling(), IndependentOrders())
FIRST_SEED = 50
Z = 1.96


@dataclass(frozen=True)
class Judged:
    """A game whose answer is known.

    Attributes:
        model: values of coalitions, given as rows of zeros and ones.
        e2: (n, n) exact.
    """

    model: Callable[[Tensor], Tensor]
    e2: np.ndarray

    @property
    def gamma(self) -> float:
        ends = self.model(torch.stack([torch.zeros(len(self.e2)), torch.ones(len(self.e2))]).double())
        return relative_gamma(len(self.e2), abs(float(ends[1] - ends[0])))


def mlp(seed: int) -> Judged:
    torch.manual_seed(seed)
    x, y = _standardized("breast_cancer", 18)
    model = nn.Sequential(nn.Linear(18, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    table = _network_table(model, x, y, seed)
    return Judged(table_model(table), table_e2(table)[0])


class _Groups(nn.Module):
    """Digits of 8 x 8 pixels from 18 stretches of pixels: all pixels of one have the mean of it."""

    def __init__(self) -> None:
        super().__init__()
        self.group = torch.arange(64) * 18 // 64
        self.rest = nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.rest(x[:, self.group])
        return found


def cnn(seed: int) -> Judged:
    torch.manual_seed(seed)
    x, y = load_digits(return_X_y=True)
    group = np.arange(64) * 18 // 64
    x = np.stack([x[:, group == k].mean(axis=1) for k in range(18)], axis=1) / 8 - 1
    table = _network_table(_Groups(), x, y, seed)
    return Judged(table_model(table), table_e2(table)[0])


def _of_trees(model, score, row: np.ndarray, replacement: np.ndarray, behavior: str, target: int) -> Judged:
    """A model on the columns in which a row differs from its replacement, and its exact answer."""
    inputs, baselines = torch.tensor(row)[None], torch.tensor(replacement)[None]
    exact = BivariateShapley(model, "trees", behavior).attribute(inputs, baselines=baselines, target=target)
    players = np.flatnonzero(row != replacement)

    def values(masks: Tensor) -> Tensor:
        rows = np.tile(replacement, (len(masks), 1))
        rows[:, players] = np.where(masks.numpy() > 0.5, row[players], replacement[players])
        return torch.from_numpy(score(rows))

    return Judged(values, exact.bivariate[0].numpy()[np.ix_(players, players)])


def forest(seed: int, sample: int) -> Judged:
    x, y = load_digits(return_X_y=True)
    model = RandomForestClassifier(60, random_state=seed).fit(x, y)
    target = int(model.predict_proba(x[sample : sample + 1]).argmax())
    score = lambda rows: model.predict_proba(rows)[:, target]  # noqa: E731
    return _of_trees(model, score, x[sample], x.mean(axis=0), "probability", target)


def boosted(n_columns: int, seed: int) -> Judged:
    rng = np.random.default_rng(n_columns + 100 * seed)
    causes = rng.normal(size=(2000, 6))
    x = np.concatenate([causes + rng.normal(size=causes.shape) * 0.2 for _ in range(n_columns // 6)], axis=1)
    y = (causes.sum(axis=1) + causes[:, 0] * causes[:, 1] > 0).astype(int)
    model = GradientBoostingClassifier(n_estimators=30, max_depth=4, max_features=0.3, random_state=seed).fit(x, y)
    return _of_trees(model, model.decision_function, x[0], x.mean(axis=0), "logit", 1)


def closed(game: Conjunctions | RandomTrees) -> Judged:
    return Judged(game, game.e2)


GAMES: dict[str, Callable[[], Judged]] = {
    "MLP, 2": lambda: mlp(2), "MLP, 3": lambda: mlp(3), "CNN, 2": lambda: cnn(2), "CNN, 3": lambda: cnn(3),
    "forest, 777": lambda: forest(2, 777), "forest, 1201": lambda: forest(3, 1201),
    "boosted trees, 30": lambda: boosted(30, 1), "boosted trees, 42": lambda: boosted(42, 0),
    **{f"random trees {n}, {s}": lambda n=n, s=s: closed(RandomTrees(n, s)) for n in (20, 30) for s in (2, 3)},
    **{f"AND of {n}": lambda n=n: closed(Conjunctions(n, n, 1, 0)) for n in (20, 40, 80)},
    **{f"conjunctions of 6, {n}": lambda n=n: closed(Conjunctions(n, 6, 5, n)) for n in (20, 40)},
}  # fmt: skip


def line(game: Judged, estimator: Estimator, n_coalitions: int, n_seeds: int) -> str:
    """What is said about the edges of a game, compared with the truth."""
    n, gamma, off = len(game.e2), game.gamma, ~np.eye(len(game.e2), dtype=bool)
    redundant, relevant = np.abs(game.e2) <= gamma, np.abs(game.e2).max(axis=1) > gamma
    between = redundant & off & relevant[:, None] & relevant
    found = [run(estimator, reduced(game.model, n), n_coalitions, FIRST_SEED + k) for k in range(n_seeds)]
    size = np.stack([e.bivariate[0].abs().numpy() for e in found])
    half = Z * np.stack([e.bivariate_error[0].numpy() for e in found])
    called = (size + half <= gamma) & off
    undecided = (~called & (size - half <= gamma))[:, off].mean()
    share = (called & between).sum() / (n_seeds * between.sum()) if between.any() else float("nan")
    covered = np.mean([coverage(e, game.e2) for e in found])
    return f"{n_coalitions}: {(called & ~redundant).sum()}/{called.sum()} {share:.2f} {undecided:.2f} {covered:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, without the literal loop")
    quick = parser.parse_args().quick
    warnings.filterwarnings("ignore")
    print("rows: false / called, share found of the redundant edges between relevant players, undecided, coverage")
    for name, make in GAMES.items():
        game = make()
        n, gamma = len(game.e2), game.gamma
        relevant = np.abs(game.e2).max(axis=1) > gamma
        n_between = int(((np.abs(game.e2) <= gamma) & relevant[:, None] & relevant & ~np.eye(n, dtype=bool)).sum())
        print(f"  {name}: {n} players, {n_between} redundant edges between relevant ones")
        for estimator in ESTIMATORS[: 4 if quick else None]:
            default = default_coalitions(n)
            budgets = (estimator.minimum_evaluations(n), default, 4 * default)
            parts = [line(game, estimator, budget, 1 if quick else 3) for budget in budgets]
            print(f"    {estimator.name:<15}" + "   ".join(parts), flush=True)


if __name__ == "__main__":
    main()
