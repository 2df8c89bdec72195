"""`bivshap demo`: a small network on scikit-learn's digits, audited while it trains, judged and reported.

It has a module, two data loaders and `BivShapCallback` in a Trainer, and then does what a user would do with the
record: judge it and write the page. Nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning.audit.audit import AuditResult
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback, PanelOptions
from bivshap_lightning.gate import Verdict, judge
from bivshap_lightning.metrics.catalogue import REDUNDANCY, ranking_numbers
from bivshap_lightning.views import draw_image_graphs, render_png
from bivshap_lightning.views.html import render_page

N_EPOCHS, N_TRAINING, SIDE = 3, 1400, 8
PROBE_SIZE, GAMMA = 20, 1e-3
RULES = """\
version = 1

# One pixel of each interchangeable group is enough to keep the prediction. Of 20 samples one may fail: the bound of
# 19 right is 0.79, that of 18 is 0.73.
[[rule]]
metric = "bivshap/redundancy/accuracy_with_representatives"
min = 0.75

# Sinks, which other pixels make redundant, can be removed.
[[rule]]
metric = "bivshap/redundancy/mask_sinks_accuracy"
min = 0.75

# Pixels at the edge carry no information: at least a quarter can be removed ...
[[rule]]
metric = "bivshap/redundancy/share_removable"
min = 0.25

# ... and the network does not depend on a few pixels only.
[[rule]]
metric = "bivshap/redundancy/n_independent"
min = 16
"""


class Digits(pl.LightningModule):
    """A convolutional network for pictures of 8 x 8 pixels.

    Example:
        >>> Digits()(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 16, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the ten digits."""
        scores: Tensor = self.network(x)
        return scores

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss."""
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        """The accuracy."""
        x, y = batch
        self.log("val_accuracy", (self(x).argmax(dim=1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def loaders() -> tuple[DataLoader[Any], DataLoader[Any]]:
    """1,400 digits for training and the other 397 for validation; the split is always the same.

    Example:
        >>> [len(loader.dataset) for loader in loaders()]
        [1400, 397]
    """
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, valid = order[:N_TRAINING], order[N_TRAINING:]
    return (
        DataLoader(TensorDataset(images[train], labels[train]), batch_size=32, shuffle=True),
        DataLoader(TensorDataset(images[valid], labels[valid]), batch_size=128),
    )


def train(callbacks: Sequence[pl.Callback] = (), folder: Path | None = None, *, seed: int = 0) -> pl.Trainer:
    """Train the network with callbacks.

    Args:
        callbacks: such as :class:`~bivshap_lightning.callbacks.BivShapCallback`.
        folder: for TensorBoard's files and records; without one nothing is written.
        seed: of the weights, the order of the samples and dropout.

    Example:
        >>> trainer = train()
        >>> bool(trainer.callback_metrics["val_accuracy"] > 0.9)
        True
    """
    pl.seed_everything(seed, workers=True, verbose=False)
    logger = False if folder is None else pl.loggers.TensorBoardLogger(folder, name="logs", version="")
    with warnings.catch_warnings():
        # Everything is in memory: loader processes would gain nothing.
        warnings.filterwarnings("ignore", ".*does not have many workers.*")
        trainer = pl.Trainer(
            max_epochs=N_EPOCHS, callbacks=list(callbacks), logger=logger, accelerator="cpu", log_every_n_steps=10,
            enable_model_summary=False, enable_checkpointing=False, enable_progress_bar=sys.stderr.isatty(),
        )  # fmt: skip
        trainer.fit(Digits(), *loaders())
    return trainer


@dataclass(frozen=True)
class Demo:
    """What the demo found and the files it wrote.

    Attributes:
        result: of the last audit.
        verdict: over its record, by the demo's rules.
        files: what was written, by kind.
        accuracy: of the network on the validation digits.
    """

    result: AuditResult
    verdict: Verdict
    files: dict[str, Path]
    accuracy: float

    def to_dict(self) -> dict[str, Any]:
        """All of it in JSON's types."""
        return {
            **{kind: str(path) for kind, path in self.files.items()},
            "accuracy": self.accuracy,
            "metrics": {name: value for name, (value, _) in self.result.numbers.items()},
            "verdict": json.loads(self.verdict.to_json()),
        }

    def to_text(self) -> str:
        """All of it for the terminal, and what to open next."""
        files = self.files
        return "\n".join(
            [
                f"A network that gets {self.accuracy:.1%} of the validation digits right.",
                table(self.result),
                sketches(self.result),
                "",
                self.verdict.to_text(),
                "",
                "What to open next:",
                f"  the page     {files['page']}",
                f"  the picture  {files['picture']}",
                f"  the graphs   {_command('bivshap')} tensorboard {files['logs']}",
                f"  the gate     {_command('bivshap')} gate {files['record']} --rules {files['rules']}",
            ]
        )


def _command(name: str) -> str:
    """How to call a command of this environment from here: by its name if the shell knows it."""
    return name if shutil.which(name) else os.path.relpath(Path(sys.executable).with_name(name))


def run_demo(folder: Path, *, seed: int = 0) -> Demo:
    """Train, audit, judge and report.

    Args:
        folder: where everything goes; made if it is not there.
        seed: as in :func:`train`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {"logs": folder / "logs", "rules": folder / "gate.toml", "page": folder / "report.html"}
    files |= {"picture": folder / "digit.png"}
    files["rules"].write_text(RULES, encoding="utf-8")
    # The first and the last epoch: what training changed can be seen, and the demo stays short.
    callback = BivShapCallback(
        every_n_epochs=N_EPOCHS - 1, n_samples=PROBE_SIZE, gamma=GAMMA, seed=0, panels=PanelOptions(n_classes=4),
        class_names=[str(digit) for digit in range(10)], on_error="raise",
    )  # fmt: skip
    trainer = train([callback], folder, seed=seed)
    result = callback.result
    if result is None:
        raise RuntimeError("the demo must leave an audit, got none")
    files["record"] = max((files["logs"] / "bivshap").glob("*.json"))
    files["picture"].write_bytes(picture(result))
    record = AuditRecord.load(files["record"])
    verdict = judge(record, files["rules"])
    files["page"].write_text(render_page(record, verdict=verdict), encoding="utf-8")
    return Demo(result, verdict, files, float(trainer.callback_metrics["val_accuracy"]))


def picture(result: AuditResult) -> bytes:
    """The first sample's graphs, groups and ranking, drawn on it, as PNG."""
    sample = result.samples[0]
    if sample.segments is None:
        raise RuntimeError("the demo must explain pictures, got none")
    title = f"Sample {sample.index}: why “{sample.target:g}”"
    scores = sample.graph.ranking(personalized=True)
    h = sample.graph.redundancy(GAMMA)
    return render_png(draw_image_graphs(sample.graph, h, sample.image, sample.segments, title=title, scores=scores))[0]


def table(result: AuditResult) -> str:
    """How our ranking does beside those of Captum's methods."""
    numbers = {name: value for name, (value, _) in result.numbers.items()}
    head = f"{'explainer':<22}{'rows per sample':>16}{'post-hoc accuracy':>19}{'insertion AUC':>15}{'deletion AUC':>14}"
    better = f"{'':<38}{'(higher is better)':>19}{'(higher)':>15}{'(lower)':>14}"
    lines = ["", head, better, "-" * len(head)]
    for explainer in result.curves:
        values = [numbers[number.tag_of(explainer)] for number in ranking_numbers()]
        spent = result.n_evaluations[explainer]
        lines.append(f"{explainer:<22}{spent:>16.0f}{values[0]:>19.3f}{values[1]:>15.3f}{values[2]:>14.3f}")
    removable, accuracy = (numbers[REDUNDANCY + name] for name in ("share_removable", "accuracy_with_representatives"))
    lines += [
        "",
        f"Of the {SIDE**2} pixels, {removable:.0%} are interchangeable with another that stays; "
        f"the prediction stays on {accuracy:.0%} of the samples without them.",
    ]
    return "\n".join(lines)


def sketches(result: AuditResult, n_samples: int = 3) -> str:
    """The largest redundant group and the most important pixels of a few samples, drawn with characters."""
    blocks = []
    for sample in result.samples[:n_samples]:
        h = sample.graph.redundancy(GAMMA)
        group = set(h.groups[0]) if h.groups else set()
        top = set(sample.graph.order(personalized=True)[:8].tolist())
        signs = ["#" if k in top else "." if k in group else "o" for k in range(SIDE**2)]
        rows = ["  " + " ".join(signs[SIDE * r : SIDE * (r + 1)]) for r in range(SIDE)]
        title = f"sample {sample.index}, a {sample.label}: group of {len(group)}"
        blocks.append([f"{title:<30}", *(f"{row:<30}" for row in rows)])
    legend = "# = the 8 most important pixels, . = largest redundant group, o = other pixels"
    return "\n".join(["", legend, *("".join(parts).rstrip() for parts in zip(*blocks, strict=True))])
