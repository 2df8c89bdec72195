"""Scaling out: the same audit in one process and in two (DDP), number for number.

Each process explains some of the samples; what is logged and recorded is the same as in one process, up to rounding. On
a cluster only the Trainer's flags change: ``accelerator="gpu", devices=8, num_nodes=4``.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_wine
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback


class Wine(pl.LightningModule):
    """One hidden layer, with weights that depend on the seed alone: both audits explain the same model."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_loss", nn.functional.cross_entropy(self(batch[0]), batch[1]), sync_dist=True)


def fit_once(module: Wine, x: Tensor, y: Tensor) -> None:
    """A few steps by hand: what matters here is the audit."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()


def audit(folder: Path, devices: int) -> None:
    """What every process runs."""
    data = load_wine()
    x, y = torch.tensor(data.data, dtype=torch.float32), torch.tensor(data.target)
    x = (x - x.mean(dim=0)) / x.std(dim=0)
    module = Wine()
    fit_once(module, x, y)
    callback = BivShapCallback(
        n_samples=30, n_evaluations=600, method="sampling", feature_names=data.feature_names, compare_with=(),
        panels=False, on_error="raise",
    )  # fmt: skip
    trainer = pl.Trainer(
        accelerator="cpu", devices=devices, strategy="auto" if devices == 1 else "ddp", callbacks=[callback],
        logger=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    trainer.validate(module, DataLoader(TensorDataset(x, y), batch_size=32), verbose=False)
    if torch.distributed.is_initialized():  # Lightning leaves that of gloo to the end of the process
        torch.distributed.destroy_process_group()


def draw(one: AuditRecord, two: AuditRecord) -> Figure:
    """Every weight of every graph, from two processes over one."""
    figure = Figure(figsize=(4.2, 4), layout="constrained")
    ax = figure.subplots()
    for before, after in zip(one.sample_graphs, two.sample_graphs, strict=True):
        ax.scatter(before.weights.ravel(), after.weights.ravel(), s=4, color="#0072b2", alpha=0.3, linewidths=0)
    ax.axline((0, 0), slope=1, color="black", linewidth=0.7)
    ax.set_xlabel("weight, one process")
    ax.set_ylabel("weight, two processes")
    ax.set_title(f"{len(one.samples)} graphs, {one.run.world_size} and {two.run.world_size} processes")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("scale_out_ddp"), help="folder of records and picture")
    parser.add_argument("--devices", type=int, help="audit with this many processes and do nothing else")
    args = parser.parse_args()
    if args.devices is not None:
        audit(args.output, args.devices)
        return
    records = []
    for devices in (1, 2):
        folder = args.output / f"processes_{devices}"
        command = [sys.executable, __file__, "--output", str(folder), "--devices", str(devices)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        records.append(AuditRecord.load(max((folder / "bivshap").glob("*.json"))))
    one, two = records
    largest = max(
        float(np.abs(a.weights - b.weights).max()) for a, b in zip(one.sample_graphs, two.sample_graphs, strict=True)
    )
    is_same = one.run.sample_keys == two.run.sample_keys
    print(f"processes: {one.run.world_size} and {two.run.world_size}; the same samples: {is_same}")
    print(f"largest difference of any weight of {len(one.samples)} graphs: {largest:.1e}")
    gaps = {tag: abs(found.value - two.metrics[tag].value) for tag, found in one.metrics.items() if "cost" not in tag}
    print(f"largest difference of any of {len(gaps)} numbers: {max(gaps.values()):.1e}")
    draw(one, two).savefig(args.output / "scale_out_ddp.png", dpi=100)
    print(f"The picture: {args.output / 'scale_out_ddp.png'}")


if __name__ == "__main__":
    main()
