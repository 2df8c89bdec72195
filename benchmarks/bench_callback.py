"""What the callback costs at its defaults in long runs: seconds of audits over those of the run without them.

Four models are trained for `--minutes` each with ``BivShapCallback()`` as it is: a small table MLP, an MNIST CNN (from
`--mnist`, a folder with the IDX files, or pictures made up without it), a small text model and a residual network on
32 x 32 pictures. ``python -m benchmarks`` prints the same table.
"""

from __future__ import annotations

import argparse
import gzip
import logging
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
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


def mnist(folder: Path | None = None) -> tuple[nn.Module, TensorDataset]:
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


MODELS: dict[str, Callable[[], tuple[nn.Module, TensorDataset]]] = {
    "table MLP": table, "MNIST CNN": mnist, "text GRU": text, "ResNet 32 x 32": resnet,
}  # fmt: skip


def measure(name: str, minutes: float, folder: Path | None = None) -> dict[str, float | str]:
    """Train a model with the callback; what its audits cost."""
    torch.manual_seed(0)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    network, data = mnist(folder) if name == "MNIST CNN" else MODELS[name]()
    n_valid = len(data) // 10
    parts = TensorDataset(*(t[n_valid:] for t in data.tensors)), TensorDataset(*(t[:n_valid] for t in data.tensors))
    train, valid = (DataLoader(part, batch_size=128, shuffle=k == 0) for k, part in enumerate(parts))
    callback = BivShapCallback(on_error="raise")
    with tempfile.TemporaryDirectory() as root:
        trainer = pl.Trainer(
            max_epochs=-1, max_time={"seconds": round(60 * minutes)}, callbacks=[callback], default_root_dir=root,
            accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
            num_sanity_val_steps=0,
        )  # fmt: skip
        start = time.perf_counter()
        trainer.fit(Classifier(network), train, valid)
    total, schedule = time.perf_counter() - start, callback.schedule
    bare = total - schedule.audit_seconds
    costs = [past["numbers"] for past in callback.history]
    last = costs[-1]["bivshap/cost/seconds"] if len(costs) > 1 else 0.0
    return {
        "model": name,
        "minutes": total / 60,
        "epochs": trainer.current_epoch,
        "audits": len(costs),
        "epoch_seconds": bare / max(1, trainer.current_epoch),
        "first": costs[0]["bivshap/cost/seconds"],
        "last": last,
        "rows": costs[-1]["bivshap/cost/forwards"],
        "all": schedule.audit_seconds / bare,
        "account": (schedule.audit_seconds - last) / total,
    }


def table_of(found: list[dict[str, Any]]) -> list[str]:
    """A Markdown table; the aim is for the column "account"."""
    lines = [
        "Real Trainers with `BivShapCallback()`, on one machine with other work. \"account\": time of audits up to the "
        f"last one over that of the run, at most {AIM} by `max_share`; the first audit is in it. \"all\": time of all "
        "audits, that at the end of fitting included, over that of the bare epochs; it comes down to the account as "
        "the run gets longer.", "",
        "| model | minutes | epochs | audits | bare epoch, s | first audit, s | last audit, s | rows of the last | "
        "account | all |",
        "| --- |" + " ---: |" * 9,
    ]  # fmt: skip
    for row in found:
        star = "" if row["account"] <= AIM else "*"
        lines.append(
            f"| {row['model']} | {row['minutes']:.1f} | {row['epochs']} | {row['audits']} | {row['epoch_seconds']:.2f} "
            f"| {row['first']:.1f} | {row['last']:.1f} | {row['rows']:,.0f} | {row['account']:.3f}{star} | "
            f"{row['all']:.3f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--mnist", type=Path, default=None)
    parser.add_argument("--only", nargs="*", default=None, help="first words of models, such as: table text")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}\n")
    names = [n for n in MODELS if options.only is None or n.split()[0].lower() in options.only]
    print("\n".join(table_of([measure(name, options.minutes, options.mnist) for name in names])))


if __name__ == "__main__":
    main()
