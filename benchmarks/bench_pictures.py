"""Milliseconds of the processor for each picture of a sample, with its encoding as PNG and its event.

Run with ``python -m benchmarks.bench_pictures``. The first turn, which loads fonts and outlines, is left out; printed
is the quickest of the others. The aim is 50 ms.
"""

import tempfile
import time

import numpy as np
from torch.utils.tensorboard import SummaryWriter

from bivshap_lightning import ExplanationGraph
from bivshap_lightning.views.tensorboard.panels import Panels

TURNS = 4
KINDS = {
    "table, 13 columns": (13, {}),
    "text, 40 words": (40, {"words": [f"word{k}" for k in range(40)]}),
    "image, 64 parts": (
        64,
        {"image": np.full((3, 32, 32), 0.5), "segments": np.kron(np.arange(64).reshape(8, 8), np.ones((4, 4), int))},
    ),
}


def milliseconds(panels: Panels, n_players: int, options: dict[str, object]) -> float:
    """For one picture, the quickest of several turns."""
    spent = []
    for turn in range(TURNS):
        rng = np.random.default_rng(turn)
        weights = rng.normal(scale=0.3, size=(n_players, n_players))
        np.fill_diagonal(weights, 0)
        graph = ExplanationGraph(weights, shapley=rng.normal(size=n_players))
        h = graph.redundancy(0.01)
        start = time.process_time()
        tags = panels.write_sample(0, graph, h, step=turn, **options)
        spent.append(1000 * (time.process_time() - start) / len(tags))
    return min(spent[1:])


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        for kind, (n_players, options) in KINDS.items():
            print(f"{kind:20} {milliseconds(Panels(writer), n_players, options):5.0f} ms a picture")


if __name__ == "__main__":
    main()
