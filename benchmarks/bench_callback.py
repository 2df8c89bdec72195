"""What the callback costs at its defaults in long runs: the share of everything that its hooks do.

Four models are trained for `--minutes` each with ``BivShapCallback()`` as it is: a small table MLP, an MNIST CNN (from
`--mnist`, a folder with the IDX files, or pictures made up without it), a small text model and a residual network on
32 x 32 pictures. Seconds are those of the processor, so that other work on the machine plays no part; the callback's
own account is by the clock. ``python -m benchmarks`` prints the same table.
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


class Timed(BivShapCallback):
    """The callback, with the processor seconds of all its hooks."""

    hook_seconds = 0.0


def _timed(name: str) -> Callable[..., Any]:
    def hook(self: Timed, *args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return getattr(BivShapCallback, name)(self, *args, **kwargs)
        finally:
            self.hook_seconds += time.process_time() - start

    return hook


for _name in dir(BivShapCallback):
    if _name == "setup" or _name.startswith("on_"):
        setattr(Timed, _name, _timed(_name))


class Audits(pl.Callback):
    """Processor seconds of the callback up to the end of each epoch; comes after it in the Trainer."""

    def __init__(self, timed: Timed) -> None:
        self.timed, self.so_far = timed, list[float]()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.so_far.append(self.timed.hook_seconds)


def measure(name: str, minutes: float, folder: Path | None = None) -> dict[str, float | str]:
    """Train a model with the callback; what everything that it does costs, in seconds of the processor."""
    torch.manual_seed(0)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    network, data = mnist(folder) if name == "MNIST CNN" else MODELS[name]()
    n_valid = len(data) // 10
    parts = TensorDataset(*(t[n_valid:] for t in data.tensors)), TensorDataset(*(t[:n_valid] for t in data.tensors))
    train, valid = (DataLoader(part, batch_size=128, shuffle=k == 0) for k, part in enumerate(parts))
    callback = Timed(on_error="raise")
    audits = Audits(callback)
    with tempfile.TemporaryDirectory() as root:
        trainer = pl.Trainer(
            max_epochs=-1, max_time={"seconds": round(60 * minutes)}, callbacks=[callback, audits],
            default_root_dir=root, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
            enable_checkpointing=False, num_sanity_val_steps=0,
        )  # fmt: skip
        start = time.process_time()
        trainer.fit(Classifier(network), train, valid)
        total = time.process_time() - start
    epochs, ours = len(audits.so_far), callback.hook_seconds
    epoch, before_end = (total - ours) / max(1, epochs), audits.so_far[-1] if audits.so_far else 0.0
    first, last = audits.so_far[0] if audits.so_far else ours, ours - before_end
    return {
        "model": name,
        "seconds": total,
        "epochs": epochs,
        "audits": len(callback.history),
        "epoch_seconds": epoch,
        "first": first / epoch,
        "last": last / epoch,
        "rows": callback.history[-1]["numbers"]["bivshap/cost/forwards"],
        "all": ours / total,
        "account": before_end / max(total - last, 1e-9),
        "settled": (first + last) * (1 - AIM) / AIM / epoch,
    }


def table_of(found: list[dict[str, Any]]) -> list[str]:
    """A Markdown table; the aim is for the column "account"."""
    lines = [
        "Real Trainers with `BivShapCallback()`, seconds of the processor. Everything that the callback's hooks do is "
        "counted: audits, the comparison with other explainers, pictures, records, logging, collecting samples. "
        "\"share\": of the whole run, the audit at the end of fitting included. \"before the end\": the same up to the "
        f"end of the last epoch, which `max_share`, by the clock, holds at {AIM} or below once the run is long enough "
        f"for its first audit (* above {AIM}). \"epochs for {AIM}\": so many bare epochs make the first and the last "
        f"audit together {AIM} of the run.", "",
        "| model | CPU s | epochs | audits | bare epoch, CPU s | first audit, epochs | audit at the end, epochs | "
        f"rows of the last | before the end | share | epochs for {AIM} |",
        "| --- |" + " ---: |" * 10,
    ]  # fmt: skip
    for row in found:
        star = "" if row["account"] <= AIM else "*"
        lines.append(
            f"| {row['model']} | {row['seconds']:.0f} | {row['epochs']} | {row['audits']} | {row['epoch_seconds']:.2f} "
            f"| {row['first']:.1f} | {row['last']:.1f} | {row['rows']:,.0f} | {row['account']:.3f}{star} | "
            f"{row['all']:.3f} | {row['settled']:.0f} |"
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
