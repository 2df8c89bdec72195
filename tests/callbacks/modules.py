"""Small LightningModules and data for the callback's tests, importable by spawned processes and by LightningCLI."""

from __future__ import annotations

import atexit
import time
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

N_FEATURES, N_CLASSES = 6, 3


@atexit.register
def end_process_group() -> None:
    """A process that ends while threads of gloo run is aborted now and then (pytorch/pytorch, pull request 179291)."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def table(n: int = 48, seed: int = 0) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, N_FEATURES, generator=generator)
    y = (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 0.5).long()
    return TensorDataset(x, y)


def train_loader(n: int = 64) -> DataLoader[Any]:
    return DataLoader(table(n, seed=1), batch_size=16, shuffle=True)


def valid_loader(n: int = 48, batch_size: int = 16) -> DataLoader[Any]:
    return DataLoader(table(n), batch_size=batch_size)


class Steps:
    """Training, validation and test steps on (x, y) for any module with a forward."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.log("val_loss", nn.functional.cross_entropy(self(batch[0]), batch[1]), sync_dist=True)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.log("test_loss", nn.functional.cross_entropy(self(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.02)


def network() -> nn.Module:
    """Dropout, BatchNorm, and a frozen layer in evaluation mode."""
    return nn.Sequential(
        nn.Linear(N_FEATURES, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, N_CLASSES)
    )


class Module(Steps, pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = network()
        self.frozen = nn.BatchNorm1d(N_FEATURES).eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.network(self.frozen(x))

    def on_train_epoch_start(self) -> None:
        self.frozen.eval()


class Sure(Module):
    """Has something to explain from the start."""

    def forward(self, x: Tensor) -> Tensor:
        return 20 * super().forward(x)


class Pictures(Steps, pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)


class Tokens(Dataset[dict[str, Tensor]]):
    """Hugging Face style samples: ids, attention mask and label; the last tokens are padding."""

    def __init__(self, n: int = 24) -> None:
        generator = torch.Generator().manual_seed(3)
        self.ids = torch.randint(1, 20, (n, 7), generator=generator)
        self.attention = (torch.arange(7) < torch.randint(3, 8, (n, 1), generator=generator)).long()
        self.ids = self.ids * self.attention
        self.labels = (self.ids == 5).any(dim=1).long()

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        return {"input_ids": self.ids[i], "attention_mask": self.attention[i], "labels": self.labels[i]}


class TextModule(pl.LightningModule):
    """Takes a batch by name and returns a mapping with logits, as Hugging Face's models do."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        states = self.embedding(input_ids) * attention_mask[..., None]
        logits = self.head(states.sum(dim=1))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"logits": logits, "loss": loss}

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self(**batch)["loss"]

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", self(**batch)["loss"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.02)


class DataModule(pl.LightningDataModule):
    def train_dataloader(self) -> DataLoader[Any]:
        return train_loader()

    def val_dataloader(self) -> DataLoader[Any]:
        return valid_loader()


class Faulty(Module):
    """Fails on the second process, after training went well."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.trainer.sanity_checking and self.trainer.global_rank == 1 and self._explains(x):
            raise ArithmeticError("broken on rank 1")
        return super().forward(x)

    def _explains(self, x: Tensor) -> bool:
        """Forward passes of an audit hold rows with removed features."""
        return bool((x == 0).any())


class Communicating(Module):
    """Its forward pass centres by the mean over all processes, as contrastive models do: a collective in each call."""

    def forward(self, x: Tensor) -> Tensor:
        scores = super().forward(x)
        if torch.distributed.is_initialized():
            shared = scores.detach().mean()
            torch.distributed.all_reduce(shared)
            scores = scores + 0 * shared
        return scores


class SlowOnOneProcess(Module):
    """The second process takes its time."""

    def forward(self, x: Tensor) -> Tensor:
        if self.global_rank == 1:
            time.sleep(0.05)
        return super().forward(x)


class SometimesCommunicating(Module):
    """Makes a collective for the empty coalition only, which the trial pass on one whole sample does not have."""

    def forward(self, x: Tensor) -> Tensor:
        scores = super().forward(x)
        if torch.distributed.is_initialized() and bool((x == 0).all(dim=1).any()):
            shared = scores.detach().mean()
            torch.distributed.all_reduce(shared)
            scores = scores + 0 * shared
        return scores


class CommunicatingBackward(torch.autograd.Function):
    """The identity, whose gradient is summed over processes, as in tensor parallelism."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(gradient)
        return gradient


class CommunicatingGradients(Module):
    """Communicates in no forward pass, and in every backward pass."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(CommunicatingBackward.apply(x))


class FaultyTrial(Module):
    """Fails on the second process for a single row, which is what the trial pass of an audit gives to it."""

    def forward(self, x: Tensor) -> Tensor:
        if len(x) == 1 and self.trainer.global_rank == 1:
            raise ArithmeticError("broken on rank 1")
        return super().forward(x)


class CommunicatingAndFaulty(Communicating):
    """Fails on the second process, in audits, while the first waits in a collective."""

    def forward(self, x: Tensor) -> Tensor:
        if self.global_rank == 1 and bool((x == 0).any()):
            raise ArithmeticError("broken on rank 1")
        return super().forward(x)
