"""What a metric costs beyond the forward passes it needs: 64 samples with 64 players.

* "bare": the model alone on exactly the rows, in exactly the chunks, that one `update` sends through it, rows ready
  made.
* "game": the same coalitions through the `Game`, which makes the rows and guards the model.
* "update": the metric. "ratio" is update over bare; the aim is at most 1.5.

Times are processor time of a single thread, the median over repeats that take turns, so that other work on the
machine counts little. Ranking metrics get a matrix of scores. Redundancy metrics get redundancy graphs whose
components are known, as after an explainer has reported them; the rows "from G" rank and analyse explanation graphs
first.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torchmetrics import Metric

from bivshap_lightning import ExplanationGraph, Game
from bivshap_lightning.metrics import (
    DeletionAUC,
    DirectionalRedundancy,
    InsertionAUC,
    MutualRedundancyMasking,
    PostHocAccuracy,
)

N_SAMPLES = N_PLAYERS = 64
AIM = 1.5


class RecordingModel(nn.Module):
    """A model that remembers the rows it was asked for, while it is told to."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.rows, self.is_recording = model, [], False

    def forward(self, x: Tensor) -> Tensor:
        if self.is_recording:
            self.rows.append(x.clone())
        return self.model(x)


class RecordingGame(Game):
    """A game that remembers the last question it was asked."""

    def __call__(self, masks: Tensor) -> Tensor:
        self.question = lambda: Game.__call__(self, masks)
        return self.question()

    def predict(self, masks: Tensor) -> Tensor:
        self.question = lambda: Game.predict(self, masks)
        return self.question()


def models() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    cnn = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 10),
    )
    return {"MLP 64-256-256-10": mlp.eval(), "CNN 8x8, 16+32 channels": cnn.eval()}


def weights() -> list[np.ndarray]:
    """Weights of 64 graphs, of which about a tenth of the edges are redundant, with groups of several sizes."""
    rng = np.random.default_rng(0)
    matrices = rng.normal(size=(N_SAMPLES, N_PLAYERS, N_PLAYERS))
    matrices[rng.random(matrices.shape) < 0.02] = 0
    for matrix in matrices:
        for group in np.split(rng.permutation(N_PLAYERS)[:24], [12, 18, 22]):
            matrix[np.ix_(group, group)] = 0
        np.fill_diagonal(matrix, 0)
    return list(matrices)


def seconds(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median processor seconds of each function, taking turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, series in zip(functions, times, strict=True):
            start = time.process_time()
            function()
            series.append(time.process_time() - start)
    return [sorted(series)[repeats // 2] for series in times]


def measure(
    metric: Metric, game: RecordingGame, model: RecordingModel, given: object, repeats: int, *, is_fresh: bool = False
) -> np.ndarray:
    """Rows of one update, and seconds of the bare forward passes, of the game, and of the update."""
    model.rows, model.is_recording = [], True
    metric.update(game, given)
    model.is_recording = False
    rows, question = model.rows, game.question

    def bare() -> None:
        with torch.inference_mode():
            for chunk in rows:
                model.model(chunk)

    # A graph keeps its rankings; copies do not, so that every repeat starts from weights alone.
    copies = [copy.deepcopy(given) for _ in range(repeats + 1)] if is_fresh else [given]
    turns = itertools.cycle(copies)
    update = lambda: metric.update(game, next(turns))  # noqa: E731
    return np.array([sum(map(len, rows)), *seconds([bare, question, update], repeats)])


def line(model: str, label: str, figures: np.ndarray) -> None:
    n_rows, bare, game, update = figures
    verdict = "" if update <= AIM * bare else "  above aim"
    times = "".join(f"{1e3 * value:>10.2f}" for value in (bare, game, update))
    print(f"{model:<25}{label:<33}{n_rows:>6.0f}{times}{update / bare:>8.2f}{verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    scores = torch.rand(N_SAMPLES, N_PLAYERS)
    graphs = [ExplanationGraph(matrix) for matrix in weights()]
    known = [graph.redundancy() for graph in graphs]
    for h in known:
        _ = h.components
    ready = [
        (PostHocAccuracy(), scores),
        (InsertionAUC(), scores),
        (DeletionAUC(), scores),
        (MutualRedundancyMasking(), known),
        (DirectionalRedundancy(), known),
    ]

    print(f"{N_SAMPLES} samples, {N_PLAYERS} players, one thread, median of {repeats}\n")
    print(f"{'model':<25}{'metric':<33}{'rows':>6}{'bare ms':>10}{'game ms':>10}{'update ms':>10}{'ratio':>8}")
    for name, network in models().items():
        model = RecordingModel(network)
        game = RecordingGame(model, torch.randn(N_SAMPLES, N_PLAYERS))
        total = np.zeros(4)
        for metric, given in ready:
            figures = measure(metric, game, model, given, repeats)
            line(name, type(metric).__name__, figures)
            total += figures
        line(name, "all five", total)
        for metric in (PostHocAccuracy(), MutualRedundancyMasking(), DirectionalRedundancy()):
            line(name, f"{type(metric).__name__}, from G", measure(metric, game, model, graphs, repeats, is_fresh=True))


if __name__ == "__main__":
    main()
