"""What the callback costs at its defaults in long runs: seconds of audits over those of the run without them.

Four models are trained for `--minutes` each with ``BivShapCallback()`` as it is: a small table MLP, an MNIST CNN (from
`--mnist`, a folder with the IDX files, or pictures made up without it), a small text model and a residual network on
32 x 32 pictures. Printed: epochs, audits, the cost of the first and the last audit as a multiple of the bare epoch and
in model rows, seconds of a bare epoch, and the time of audits over that of the bare epochs: of all, and of those
between the first and the last, which always run. The aim is for those between.
"""

from __future__ import annotations

import argparse
import gzip
import logging
import platform
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning.callbacks import BivShapCallback

AIM = 0.1


class Classifier(pl.LightningModule):
    """Any network with cross entropy."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.network(x)
        return scores

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Text(nn.Module):
    """Embedding, GRU, classes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gru, self.head = nn.Embedding(500, 32), nn.GRU(32, 48, batch_first=True), nn.Linear(48, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.gru(self.embedding(tokens))[0].mean(dim=1))
        return scores


class Residual(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n, n, 3, padding=1),
            nn.BatchNorm2d(n),
            nn.ReLU(),
            nn.Conv2d(n, n, 3, padding=1),
            nn.BatchNorm2d(n),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.body(x))


def table() -> tuple[nn.Module, TensorDataset]:
    x = torch.randn(20_000, 13)
    return nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)), TensorDataset(
        x, (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 0).long()
    )


def mnist(folder: Path | None) -> tuple[nn.Module, TensorDataset]:
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    if folder is None:
        y = torch.randint(10, (20_000,))
        x = torch.zeros(len(y), 1, 28, 28)
        for k in range(10):
            x[y == k, :, 2 * k : 2 * k + 6, 4:24] = 1.0
        return network, TensorDataset(x + 0.2 * torch.rand_like(x), y)
    images, labels = (_idx(folder, name) for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"))
    return network, TensorDataset(torch.from_numpy(images).float()[:, None] / 255, torch.from_numpy(labels).long())


def _idx(folder: Path, name: str) -> np.ndarray:
    path = next(p for p in (folder / name, folder / f"{name}.gz") if p.exists())
    octets = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    n_axes = octets[3]
    shape = np.frombuffer(octets, ">i4", n_axes, 4)
    return np.frombuffer(octets, np.uint8, offset=4 + 4 * n_axes).reshape(shape).copy()


def text() -> tuple[nn.Module, TensorDataset]:
    tokens = torch.randint(1, 500, (6_000, 40))
    return Text(), TensorDataset(tokens, ((tokens < 20).sum(dim=1) > 1).long())


def resnet() -> tuple[nn.Module, TensorDataset]:
    network = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), Residual(16), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), Residual(32), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 10),
    )  # fmt: skip
    y = torch.randint(10, (4_000,))
    x = torch.randn(len(y), 3, 32, 32)
    x[torch.arange(len(y)), 0, 3 * y % 32, :] += 3.0
    return network, TensorDataset(x, y)


def run(name: str, network: nn.Module, data: TensorDataset, minutes: float) -> None:
    """Train with the callback and print one line."""
    n_valid = len(data) // 10
    parts = TensorDataset(*(t[n_valid:] for t in data.tensors)), TensorDataset(*(t[:n_valid] for t in data.tensors))
    train, valid = (DataLoader(part, batch_size=128, shuffle=k == 0) for k, part in enumerate(parts))
    callback = BivShapCallback(on_error="raise")
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            max_epochs=-1, max_time={"seconds": round(60 * minutes)}, callbacks=[callback], default_root_dir=folder,
            accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
            num_sanity_val_steps=0,
        )  # fmt: skip
        start = time.perf_counter()
        trainer.fit(Classifier(network), train, valid)
    total, schedule = time.perf_counter() - start, callback.schedule
    bare = total - schedule.audit_seconds
    costs = [past["numbers"] for past in callback.history]
    ends = costs[0]["bivshap/cost/seconds"] + (costs[-1]["bivshap/cost/seconds"] if len(costs) > 1 else 0)
    between = max(0.0, schedule.audit_seconds - ends)
    print(
        f"{name:<20}{trainer.current_epoch:>7}{len(costs):>8}{costs[0]['bivshap/cost/epochs']:>9.2f}"
        f"{costs[-1]['bivshap/cost/epochs']:>9.2f}{costs[0]['bivshap/cost/forwards']:>10,.0f}"
        f"{costs[-1]['bivshap/cost/forwards']:>10,.0f}{bare / max(1, trainer.current_epoch):>10.2f}"
        f"{schedule.audit_seconds / bare:>9.3f}{between / bare:>9.3f}{' ' if between / bare <= AIM else '*'}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--mnist", type=Path, default=None)
    parser.add_argument("--only", nargs="*", default=None)
    options = parser.parse_args()
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    print(f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}; "
          f"{options.minutes:g} minutes each; x: as a multiple of the bare epoch; * is above {AIM}\n")  # fmt: skip
    print(f"{'model':<20}{'epochs':>7}{'audits':>8}{'first x':>9}{'last x':>9}{'rows':>10}{'last':>10}{'epoch s':>10}"
          f"{'all':>9}{'between':>9}")  # fmt: skip
    models = {"table MLP": table, "MNIST CNN": lambda: mnist(options.mnist), "text GRU": text, "ResNet 32 x 32": resnet}
    for name, make in models.items():
        if options.only is None or name.split()[0].lower() in options.only:
            run(name, *make(), options.minutes)


if __name__ == "__main__":
    main()
