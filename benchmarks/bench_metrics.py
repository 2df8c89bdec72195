"""What metrics cost beyond the forward passes they need: 64 samples with 64 players.

* "bare": the model alone on exactly the rows, in exactly the chunks, that an `update` sends through it, rows ready
  made.
* "game": the same coalitions through the `Game`, which makes the rows, guards the model and reads its scores.
* "known": `update` with graphs that were asked before, as after another metric or an explainer's report: a graph
  keeps its ranking and its components.
* "fresh": `update` with graphs nobody has asked anything; ranking them is part of the time.

Ratios are over bare. The requirement, at most 1.5, is about evaluating all five metrics: the lines "all five", of
which the fresh one leaves nothing out. A single metric on few rows of a small model has little to divide by.

Times are processor time of a single thread. All of a line's columns take turns, and a ratio is the median of the
ratios of all turns, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import copy
import queue
import time
from collections.abc import Callable, Sequence

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
COLUMNS = ("bare", "game", "known", "fresh")


class RecordingModel(nn.Module):
    """A model that remembers the rows it was asked for, while it is told to."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.is_recording = model, False
        self.rows: queue.SimpleQueue[Tensor] = queue.SimpleQueue()  # a list would be restored by the game

    def forward(self, x: Tensor) -> Tensor:
        if self.is_recording:
            self.rows.put(x.clone())
        return self.model(x)


class RecordingGame(Game):
    """A game that remembers the questions it was asked."""

    questions: list[Callable[[], Tensor]]

    def __call__(self, masks: Tensor) -> Tensor:
        self.questions.append(lambda: Game.__call__(self, masks))
        return Game.__call__(self, masks)

    def predict(self, masks: Tensor) -> Tensor:
        self.questions.append(lambda: Game.predict(self, masks))
        return Game.predict(self, masks)


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


def make_graphs() -> list[ExplanationGraph]:
    """64 graphs, of which about a tenth of the edges are redundant, with groups of several sizes."""
    rng = np.random.default_rng(0)
    matrices = rng.normal(size=(N_SAMPLES, N_PLAYERS, N_PLAYERS))
    matrices[rng.random(matrices.shape) < 0.02] = 0
    for matrix in matrices:
        for group in np.split(rng.permutation(N_PLAYERS)[:24], [12, 18, 22]):
            matrix[np.ix_(group, group)] = 0
        np.fill_diagonal(matrix, 0)
    return [ExplanationGraph(matrix) for matrix in matrices]


def measure(
    metrics: Sequence[Metric], game: RecordingGame, model: RecordingModel, graphs: list[ExplanationGraph], repeats: int
) -> tuple[int, np.ndarray]:
    """Rows of one update of all the metrics, and the processor seconds of each column in each turn."""
    game.questions, model.is_recording = [], True
    update(metrics, game, graphs)
    model.is_recording = False
    rows, questions = [model.rows.get() for _ in range(model.rows.qsize())], list(game.questions)

    def bare() -> None:
        with torch.inference_mode():
            for chunk in rows:
                model.model(chunk)

    def ask() -> None:
        for question in questions:
            question()

    times = np.empty((repeats, len(COLUMNS)))
    for turn in times:
        fresh = copy.deepcopy(graphs)  # a copy keeps no answers: it starts from weights alone
        columns = (bare, ask, lambda: update(metrics, game, graphs), lambda fresh=fresh: update(metrics, game, fresh))
        for column, function in enumerate(columns):
            start = time.process_time()
            function()
            turn[column] = time.process_time() - start
    return sum(map(len, rows)), times


def update(metrics: Sequence[Metric], game: Game, graphs: list[ExplanationGraph]) -> None:
    for metric in metrics:
        metric.update(game, graphs)


def line(model: str, label: str, n_rows: int, times: np.ndarray) -> None:
    ratios = np.median(times / times[:, :1], axis=0)
    cells = "".join(f"{1e3 * value:>9.2f}" for value in np.median(times, axis=0))
    verdict = "".join(f"{ratio:>8.2f}{' ' if ratio <= AIM else '*'}" for ratio in ratios[1:])
    print(f"{model:<25}{label:<25}{n_rows:>6}{cells}  {verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    # glibc gives memory back to the system until a large block has been freed, as in any process that has trained;
    # until then getting the pages again costs as much as the small models.
    torch.empty(31 * 2**20, dtype=torch.uint8)
    graphs = make_graphs()
    metrics = [PostHocAccuracy(), InsertionAUC(), DeletionAUC(), MutualRedundancyMasking(), DirectionalRedundancy()]

    print(f"{N_SAMPLES} samples, {N_PLAYERS} players, one thread, median of {repeats}; * is above {AIM} x bare\n")
    milliseconds = "".join(f"{name + ' ms':>9}" for name in COLUMNS)
    ratios = "".join(f"{'x ' + name:>9}" for name in COLUMNS[1:])
    print(f"{'model':<25}{'metric':<25}{'rows':>6}{milliseconds}  {ratios}")
    for name, network in models().items():
        model = RecordingModel(network)
        game = RecordingGame(model, torch.randn(N_SAMPLES, N_PLAYERS))
        for metric in metrics:
            line(name, type(metric).__name__, *measure([metric], game, model, graphs, repeats))
        line(name, "all five", *measure(metrics, game, model, graphs, repeats))


if __name__ == "__main__":
    main()
