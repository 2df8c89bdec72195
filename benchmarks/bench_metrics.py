"""Cost of the metrics beyond the forward passes of the model: 64 samples with 64 players.

* "bare": the model alone on the rows, in the chunks, that an `update` evaluates, rows prepared in advance.
* "game": the same coalitions through the `Game`, which builds the rows, restores the model and reads its scores.
* "cached": `update` with graphs that another metric has used before: a graph caches its ranking and its components.
* "fresh": `update` with new graphs; ranking them is part of the time.

Ratios are over "bare". The requirement, at most 1.5, is for all metrics together: the lines "all". A single metric on
few rows of a small model has a small denominator.

Times are processor time of a single thread. The columns of a line are measured in turn, and a ratio is the median over
all repeats, so that other work on the machine has little effect.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

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
    RoleShares,
)

N_SAMPLES = N_PLAYERS = 64
AIM = 1.5
COLUMNS = ("bare", "game", "cached", "fresh")


class RecordingModel(nn.Module):
    """A model that records its input rows while `is_recording`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.is_recording = model, False
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - a list would be restored by the game

    def forward(self, x: Tensor) -> Tensor:
        if self.is_recording:
            np.save(self.file, x.numpy())
        return self.model(x)

    def recorded(self) -> Iterator[Tensor]:
        end = self.file.tell()
        self.file.seek(0)
        while self.file.tell() < end:
            yield torch.from_numpy(np.load(self.file))


class RecordingGame(Game):
    """A game that records its calls."""

    calls: list[Callable[[], Tensor]]

    def __call__(self, masks: Tensor) -> Tensor:
        self.calls.append(lambda: Game.__call__(self, masks))
        return Game.__call__(self, masks)

    def predict(self, masks: Tensor) -> Tensor:
        self.calls.append(lambda: Game.predict(self, masks))
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
    """64 graphs with about a tenth of redundant edges and groups of several sizes."""
    rng = np.random.default_rng(0)
    matrices = rng.normal(size=(N_SAMPLES, N_PLAYERS, N_PLAYERS))
    matrices[rng.random(matrices.shape) < 0.02] = 0
    for matrix in matrices:
        for group in np.split(rng.permutation(N_PLAYERS)[:24], [12, 18, 22]):
            matrix[np.ix_(group, group)] = 0
        np.fill_diagonal(matrix, 0)
    return [ExplanationGraph(matrix, shapley=rng.normal(size=N_PLAYERS)) for matrix in matrices]


def measure(
    metrics: Sequence[Metric], game: RecordingGame, model: RecordingModel, graphs: list[ExplanationGraph], repeats: int
) -> tuple[int, np.ndarray]:
    """Rows of one update of all the metrics, and processor seconds (repeats, columns)."""
    game.calls, model.is_recording = [], True
    update(metrics, game, graphs)
    model.is_recording = False
    rows, calls = list(model.recorded()), list(game.calls)

    def bare() -> None:
        with torch.inference_mode():
            for chunk in rows:
                model.model(chunk)

    def replay() -> None:
        for call in calls:
            call()

    times = np.empty((repeats, len(COLUMNS)))
    for turn in times:
        fresh = copy.deepcopy(graphs)  # a copy has no cached results
        columns = (
            bare,
            replay,
            lambda: update(metrics, game, graphs),
            lambda fresh=fresh: update(metrics, game, fresh),
        )
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
    # glibc returns freed memory to the system until a large block has been freed, as in any process that has trained;
    # until then allocating the pages again costs as much as the small models.
    torch.empty(31 * 2**20, dtype=torch.uint8)
    graphs = make_graphs()
    classes = PostHocAccuracy, InsertionAUC, DeletionAUC, MutualRedundancyMasking, DirectionalRedundancy, RoleShares
    metrics = [cls() for cls in classes]

    print(f"{N_SAMPLES} samples, {N_PLAYERS} players, one thread, median of {repeats}; * is above {AIM} x bare\n")
    milliseconds = "".join(f"{name + ' ms':>9}" for name in COLUMNS)
    ratios = "".join(f"{'x ' + name:>9}" for name in COLUMNS[1:])
    print(f"{'model':<25}{'metric':<25}{'rows':>6}{milliseconds}  {ratios}")
    for name, network in models().items():
        model = RecordingModel(network)
        game = RecordingGame(model, torch.randn(N_SAMPLES, N_PLAYERS))
        for metric in metrics:
            line(name, type(metric).__name__, *measure([metric], game, model, graphs, repeats))
        line(name, "all", *measure(metrics, game, model, graphs, repeats))


if __name__ == "__main__":
    main()
