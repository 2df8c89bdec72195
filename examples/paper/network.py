"""Networks as LightningModules, trained once and kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint, TQDMProgressBar
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class BlackBox(pl.LightningModule):
    """A classifier; subclasses define the layers, ``forward`` and the optimiser.

    One output is the log-odds of class 1; several are the scores of as many classes.

    Attributes:
        augment: changes training inputs at random; None leaves them as they are.
    """

    augment: Callable[[Tensor], Tensor] | None = None

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        scores = self(x if self.augment is None else self.augment(x))
        if scores.dim() == 1 or scores.shape[1] == 1:
            return nn.functional.binary_cross_entropy_with_logits(scores.flatten(), y.to(scores))
        return nn.functional.cross_entropy(scores, y)


def train(
    module: BlackBox, x: Tensor, y: Tensor, *, folder: Path, epochs: int, batch_size: int, seed: int = 1
) -> BlackBox:
    """Train, or read the trained network from the folder; an interrupted training goes on.

    Args:
        module: the network.
        x: (N, ...) training inputs.
        y: (N,) classes.
        folder: where checkpoints are kept.
        epochs: passes over the data.
        batch_size: rows of a step.
        seed: of initialisation and order; the module is initialised again.
    """
    done, last = folder / "model.ckpt", folder / "last.ckpt"
    if not done.is_file():
        pl.seed_everything(seed, workers=True, verbose=False)
        for layer in module.modules():
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
        keep = ModelCheckpoint(dirpath=folder, filename="epoch", save_last=True, enable_version_counter=False)
        trainer = pl.Trainer(
            max_epochs=epochs, accelerator="auto", devices=1, logger=False, enable_model_summary=False,
            callbacks=[keep, TQDMProgressBar(refresh_rate=20)], log_every_n_steps=1,
        )  # fmt: skip
        loader = DataLoader(TensorDataset(x, y), batch_size=batch_size, shuffle=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The 'train_dataloader' does not have many workers")
            trainer.fit(module, loader, ckpt_path=last if last.is_file() else None)
        trainer.save_checkpoint(done, weights_only=True)
        for path in (last, folder / "epoch.ckpt"):
            path.unlink(missing_ok=True)
    module.load_state_dict(torch.load(done, map_location="cpu", weights_only=True)["state_dict"])
    return module.eval()


def accuracy(module: BlackBox, x: Tensor, y: Tensor) -> float:
    """Share of right predictions."""
    right = 0
    with torch.no_grad():
        for inputs, labels in zip(x.split(256), y.split(256), strict=True):
            scores = module(inputs)
            is_binary = scores.dim() == 1 or scores.shape[1] == 1
            classes = (scores.flatten() > 0).long() if is_binary else scores.argmax(dim=1)
            right += int((classes == labels).sum())
    return right / len(x)
