"""Train a small network on scikit-learn's digits, with `BivShapCallback` watching.

Prints what the callback found, and the line that starts TensorBoard on its graphs. Everything is bundled: nothing is
downloaded. `make demo` runs this.
"""

import argparse
import sys
from pathlib import Path

import pytorch_lightning as pl
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.panels import START_LINE


class Digits(pl.LightningModule):
    """A convolutional network for pictures of 8 x 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 16, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        x, y = batch
        self.log("val_accuracy", (self(x).argmax(dim=1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def loaders() -> tuple[DataLoader, DataLoader]:
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, valid = order[:1400], order[1400:]
    return (
        DataLoader(TensorDataset(images[train], labels[train]), batch_size=32, shuffle=True),
        DataLoader(TensorDataset(images[valid], labels[valid]), batch_size=128),
    )


def table(callback: BivShapCallback) -> str:
    """What the last audit found, as a table."""
    findings = callback.findings
    assert findings is not None
    numbers = {name: value for name, (value, _) in findings.numbers.items()}
    head = f"{'explainer':<22}{'rows per sample':>16}{'post-hoc accuracy':>19}{'insertion AUC':>15}{'deletion AUC':>14}"
    better = f"{'':<38}{'(higher is better)':>19}{'(higher)':>15}{'(lower)':>14}"
    lines = ["", head, better, "-" * len(head)]
    for explainer in findings.curves:
        values = [numbers[f"bivshap/{m}/{explainer}"] for m in ("posthoc_accuracy", "insertion_auc", "deletion_auc")]
        spent = findings.n_evaluations[explainer]
        lines.append(f"{explainer:<22}{spent:>16.0f}{values[0]:>19.3f}{values[1]:>15.3f}{values[2]:>14.3f}")
    redundancy = {name.removeprefix("bivshap/redundancy/"): v for name, v in numbers.items() if "/redundancy/" in name}
    lines += [
        "",
        f"Of the 64 pixels, {redundancy['share_removable']:.0%} are interchangeable with another that stays; "
        f"the prediction stands on {redundancy['accuracy_with_representatives']:.0%} of the samples without them.",
    ]
    return "\n".join(lines)


def groups(callback: BivShapCallback, n_samples: int = 3) -> str:
    """The largest redundant group and the most important pixels of a few samples, drawn with characters."""
    assert callback.findings is not None
    blocks = []
    for sample in callback.findings.samples[:n_samples]:
        h = sample.graph.redundancy(callback.settings.gamma)
        group = set(h.groups[0]) if h.groups else set()
        top = set(sample.graph.order(personalized=True)[:8].tolist())
        rows = [
            "  " + " ".join("#" if k in top else "." if k in group else "o" for k in range(8 * r, 8 * r + 8))
            for r in range(8)
        ]
        title = f"sample {sample.index}, a {sample.label}: group of {len(group)}"
        blocks.append([f"{title:<30}", *(f"{row:<30}" for row in rows)])
    legend = "# = the 8 most important pixels, . = largest redundant group, o = other pixels"
    return "\n".join(["", legend, *("".join(parts) for parts in zip(*blocks, strict=True))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("lightning_logs"), help="folder of the TensorBoard logs")
    args = parser.parse_args()

    pl.seed_everything(0, workers=True, verbose=False)
    train, valid = loaders()
    callback = BivShapCallback(probe_size=20, gamma=1e-3, class_names=[str(digit) for digit in range(10)])
    logger = pl.loggers.TensorBoardLogger(args.output.parent, name=args.output.name)
    trainer = pl.Trainer(
        max_epochs=args.epochs, callbacks=[callback], logger=logger, accelerator="cpu", log_every_n_steps=10,
        enable_model_summary=False, enable_checkpointing=False, enable_progress_bar=sys.stderr.isatty(),
    )  # fmt: skip
    trainer.fit(Digits(), train, valid)

    print(table(callback))
    print(groups(callback))
    print(f"\nRecords: {Path(trainer.log_dir or args.output) / 'bivshap'}")
    print(f"Graphs:  {START_LINE.replace('lightning_logs', str(args.output))}")


if __name__ == "__main__":
    main()
