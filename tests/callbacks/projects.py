"""A user's project for the tests of `bivshap audit`: a module to import, and arguments that audit it."""

from pathlib import Path
from typing import Any

import torch

# More players than are enumerated within the budget, some of them null in some samples: values are drawn at random,
# and what is drawn for a sample depends on the other samples of its chunk.
MODULE = '''
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(pl.LightningModule):
    def __init__(self, hidden: int, activation: nn.Module | None = None):
        super().__init__()
        self.save_hyperparameters(ignore="activation")
        self.net = nn.Sequential(nn.Linear(12, hidden), activation or nn.ReLU(), nn.Linear(hidden, 3))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("loss", nn.functional.cross_entropy(self(batch[0]), batch[1]), sync_dist=True)

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Counting(Net):
    """Says in a file how many rows an audit put through it."""

    def forward(self, x):
        with open("rows.txt", "a") as file:
            print(len(x), file=file)
        return super().forward(x)


class Broken(Net):
    def forward(self, x):
        print("I print what I like")
        if self.trainer.global_rank == self.trainer.world_size - 1 and (x == 0).all(dim=1).any():
            raise ArithmeticError("cannot be empty")
        return super().forward(x)


class WithoutSteps(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))


class Data(pl.LightningDataModule):
    def __init__(self, n: int = 120):
        super().__init__()
        self.n = n

    def loader(self, seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(self.n, 12, generator=generator)
        x[:, :3] *= torch.rand(self.n, 3, generator=generator) > 0.5
        return DataLoader(TensorDataset(x, (x[:, 0] + x[:, 1] > 0).long() + (x[:, 4] > 0.5).long()), batch_size=16)

    def train_dataloader(self):
        return self.loader(0)

    def val_dataloader(self):
        return self.loader(1)


class InStages(Data):
    """Has its training data after setup("fit") only, as most datamodules do."""

    def setup(self, stage):
        if stage == "fit":
            self.training = self.loader(0)

    def train_dataloader(self):
        return self.training


ROWS = torch.full((3, 12), 0.25)


class Bare(pl.LightningDataModule):
    pass
'''
NAMES = ["--model", "audited.Net", "--data", "audited.Data"]
CPU = ["--trainer.accelerator", "cpu"]
QUICK = [*CPU, "--audit.n_samples=4", "--audit.compare_with=[feature_ablation]", "--audit.n_evaluations=64",
         "--audit.panels=false"]  # fmt: skip


def content(project: Path) -> dict[str, Any]:
    """What the project's checkpoint holds."""
    return torch.load(project / "model.ckpt", weights_only=True)
