"""Ways in which people train: Lightning's own callbacks and loaders, optimizers, layers that change in eval mode.

``TRAINING`` lists them for the table of styles. Where an option of the Trainer is the style, the module has dropout and
BatchNorm, so that a forward pass too many would be seen.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
import torchmetrics
from pytorch_lightning.callbacks import (
    BackboneFinetuning,
    BatchSizeFinder,
    LearningRateFinder,
    ModelCheckpoint,
    ModelPruning,
)
from pytorch_lightning.utilities import CombinedLoader
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

from tests.callbacks.style_modules import N_CLASSES, N_FEATURES, WIDTH, Base, Layers, Style, data, loaders


class Backbone(Base):
    """Only the head is trained at first."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(N_FEATURES, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Dropout(0.2))
        self.net = nn.Linear(WIDTH, N_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self.backbone(x))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.net.parameters(), lr=0.1)


class OwnLoaders(Base):
    """Its batch size and learning rate are found by Lightning."""

    def __init__(self) -> None:
        super().__init__()
        self.batch_size, self.lr = 4, 0.01

    def train_dataloader(self) -> Any:
        return DataLoader(data(24, 1), batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(data(12, 2), batch_size=8)

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class LowRank(nn.Module):
    """A low-rank adapter that is merged into the weights in eval mode, by overriding ``train``."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base, self.is_merged = base.requires_grad_(False), False
        self.a = nn.Parameter(0.1 * torch.randn(2, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, 2))

    def train(self, mode: bool = True) -> Any:
        if self.is_merged == mode:
            self.base.weight.data += (-1 if mode else 1) * self.b @ self.a
            self.is_merged = not mode
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) if self.is_merged else self.base(x) + x @ self.a.T @ self.b.T


class Adapted(Base):
    def __init__(self) -> None:
        super().__init__()
        self.net[0] = LowRank(self.net[0])


class Packed(Base):
    """Sequences of varying lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.GRU(1, WIDTH, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * WIDTH, N_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        n_steps = 1 + (x.abs() > 0.1).sum(dim=1).clamp(max=N_FEATURES - 1)
        packed = pack_padded_sequence(x[..., None], n_steps.cpu(), batch_first=True, enforce_sorted=False)
        steps, _ = pad_packed_sequence(self.net(packed)[0], batch_first=True)
        return self.head(steps.mean(dim=1))


class FastPath(Base):
    """A transformer whose eval mode takes another path, through nested tensors."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True, dropout=0.1)
        self.embed, self.net = nn.Linear(1, WIDTH), nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(WIDTH, N_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        padding = torch.zeros(x.shape, dtype=torch.bool)
        padding[:, -1] = x[:, 0] > 0
        return self.head(self.net(self.embed(x[..., None]), src_key_padding_mask=padding)[:, 0])


class Traced(Base):
    def __init__(self) -> None:
        super().__init__()
        first = nn.Sequential(nn.Linear(N_FEATURES, N_FEATURES), nn.BatchNorm1d(N_FEATURES)).eval()
        self.traced = torch.jit.trace(first, torch.zeros(2, N_FEATURES))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self.traced(x))


class Cache(Base):
    """Keys of earlier batches, in a buffer that no checkpoint has, at a position that each pass advances."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(32, N_FEATURES), persistent=False)
        self.position = 0

    def forward(self, x: Tensor) -> Tensor:
        self.keys[(torch.arange(len(x)) + self.position) % 32] = x.detach()
        self.position += len(x)
        return self.net(x + (0.1 * self.keys.mean(dim=0) if self.training else 0))


class Counted(torch.autograd.Function):
    """The identity; its gradient depends on how many passes there were."""

    n_calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Counted.n_calls += 1
        ctx.seen = [Counted.n_calls]
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * (1 + 0.1 * (ctx.seen[0] % 3))


class OwnFunction(Base):
    def __init__(self) -> None:
        super().__init__()
        Counted.n_calls = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.net[2](Counted.apply(self.net[:2](x)))


class OptimizerInBackward(Base):
    """Each parameter is updated as soon as its gradient is there."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization, self.n_updates = False, 0
        self.inner = {p: torch.optim.SGD([p], lr=0.1, momentum=0.9) for p in self.parameters()}
        for p in self.parameters():
            p.register_post_accumulate_grad_hook(self._update)

    def _update(self, parameter: Tensor) -> None:
        self.n_updates += 1
        self.inner[parameter].step()
        self.inner[parameter].zero_grad()

    def configure_optimizers(self) -> None:
        return None

    def training_step(self, batch: Any, batch_idx: int) -> None:
        self.manual_backward(cross_entropy(self(batch[0]), batch[1]))


class Adversarial(Base):
    """A generator against a discriminator, each frozen while the other is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization, self.generator = False, nn.Linear(2, N_FEATURES)

    def configure_optimizers(self) -> Any:
        return [torch.optim.Adam(part.parameters(), lr=0.01) for part in (self.generator, self.net)]

    def training_step(self, batch: Any, batch_idx: int) -> None:
        generator, discriminator = self.optimizers()
        for optimizer in (generator, discriminator):
            self.toggle_optimizer(optimizer)
            made = -self(self.generator(torch.randn(8, 2))).mean()
            self.manual_backward(made if optimizer is generator else cross_entropy(self(batch[0]), batch[1]))
            optimizer.step()
            optimizer.zero_grad()
            self.untoggle_optimizer(optimizer)


class Closure(Base):
    def configure_optimizers(self) -> Any:
        return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=3)


class ParameterHooks(Base):
    def __init__(self) -> None:
        super().__init__()
        self.n_gradients = 0
        for p in self.parameters():
            p.register_hook(self._scale)

    def _scale(self, gradient: Tensor) -> Tensor:
        self.n_gradients += 1
        return gradient * (1 + 0.01 * (self.n_gradients % 3))


class ComputeGroups(Base):
    """Metrics that share their states, over training, and others in validation."""

    def __init__(self) -> None:
        super().__init__()
        options: dict[str, Any] = {"task": "multiclass", "num_classes": N_CLASSES, "average": "macro"}
        kinds = (torchmetrics.Precision, torchmetrics.Recall, torchmetrics.F1Score)
        self.seen = torchmetrics.MetricCollection([kind(**options) for kind in kinds], compute_groups=True)
        self.validated = self.seen.clone("val_")

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        scores = self(batch[0])
        self.seen.update(scores, batch[1])
        return cross_entropy(scores, batch[1])

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.validated.update(self(batch[0]), batch[1])

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.validated.compute())
        self.validated.reset()

    def on_train_epoch_end(self) -> None:
        self.log_dict(self.seen.compute())


class ReentrantCheckpoint(Base):
    """Recomputed by the older way, which gives no gradients towards inputs: methods that need them are left out."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.requires_grad_() if torch.is_grad_enabled() and x.is_leaf else x
        return self.net[2](checkpoint(self._first, x, use_reentrant=True))

    def _first(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(self.net[:2](x), 0.3, self.training)


class SeveralLoaders(Layers):
    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.log("val_loss", cross_entropy(self(batch[0]), batch[1]))

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return sum(cross_entropy(self(x), y) for x, y in (batch.values() if isinstance(batch, dict) else [batch]))


class Augmented(Dataset[Any]):
    """Draws from all global generators, and remembers what it was asked for."""

    def __init__(self, n: int, seed: int) -> None:
        self.table, self.asked = data(n, seed), []

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> Any:
        self.asked.append(index)
        x, y = self.table[index]
        return x + 0.1 * (torch.randn(x.shape) + random.random() + np.random.rand()), y  # noqa: NPY002


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return ((torch.randn(8, N_FEATURES), torch.randint(0, N_CLASSES, (8,))) for _ in range(4))


class CountingData(pl.LightningDataModule):
    """Changes its batches by how often it was asked for something."""

    def __init__(self) -> None:
        super().__init__()
        self.n_calls = 0

    def setup(self, stage: str) -> None:
        self.n_calls += 1

    def train_dataloader(self) -> Any:
        self.n_calls += 1
        return DataLoader(Augmented(24, 1), batch_size=8, shuffle=True)

    def val_dataloader(self) -> Any:
        self.n_calls += 1
        return DataLoader(Augmented(12, 2), batch_size=8)

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        self.n_calls += 1
        return batch[0] + 0.01 * (self.n_calls % 5), batch[1]


class CountsOnTheTrainer(Base):
    """Counts its passes in the Trainer's loop, the options of the optimizer and the datamodule."""

    def forward(self, x: Tensor) -> Tensor:
        options = self.trainer.optimizers[0].param_groups[0]
        places = [vars(self.trainer.fit_loop), options, vars(self.trainer.datamodule)]
        for place in places:
            place["n_passes"] = place.get("n_passes", 0) + 1
        n_passes = sum(place["n_passes"] for place in places)
        return self.net(x * (1 + 0.01 * (n_passes % 5)) if self.training else x)


def two_of_each() -> tuple[Any, Any]:
    both = {"a": loaders()[0], "b": DataLoader(data(16, 5), batch_size=4, shuffle=True)}
    validation = [DataLoader(data(12, 2), batch_size=8), DataLoader(data(9, 3), batch_size=4, shuffle=True)]
    return CombinedLoader(both, "max_size_cycle"), validation


def drawn() -> tuple[Any, Any]:
    sampler = WeightedRandomSampler(torch.rand(24).tolist(), 24)
    return DataLoader(Augmented(24, 1), batch_size=8, sampler=sampler), DataLoader(Augmented(12, 2), batch_size=8)


def datamodule() -> Any:
    return (CountingData(),)


AVERAGING = getattr(pl.callbacks, "WeightAveraging", None)  # from Lightning 2.6 on
AVERAGED = [Style("validated with averaged weights", Layers, {"callbacks": lambda: [AVERAGING()]})] if AVERAGING else []

TRAINING = [
    Style("finetuned backbone", Backbone,
          {"max_epochs": 3, "callbacks": lambda: [BackboneFinetuning(unfreeze_backbone_at_epoch=1)]}),
    *AVERAGED,
    Style("pruned", Base, {"callbacks": lambda: [ModelPruning("l1_unstructured", amount=0.3)]}),
    Style("batch size found", OwnLoaders, loaders=tuple, slow=True, trainer={
        "callbacks": lambda: [BatchSizeFinder(steps_per_trial=1, max_trials=1)]}),
    Style("learning rate found", OwnLoaders, loaders=tuple, trainer={
        "callbacks": lambda: [LearningRateFinder(num_training_steps=8)]}),
    Style("checkpoints", Layers,
          {"enable_checkpointing": True, "callbacks": lambda: [ModelCheckpoint(save_last=True)]}),
    Style("low-rank adapter", Adapted),
    Style("packed sequences", Packed),
    Style("fast path of transformers", FastPath),
    Style("traced", Traced),
    Style("cache of keys", Cache),
    Style("own autograd function", OwnFunction),
    Style("optimizer in backward", OptimizerInBackward),
    Style("adversarial", Adversarial),
    Style("closures of an optimizer", Closure),
    Style("parameter hooks", ParameterHooks),
    Style("compute groups of metrics", ComputeGroups),
    Style("reentrant gradient checkpointing", ReentrantCheckpoint),
    Style("several loaders", SeveralLoaders, loaders=two_of_each),
    Style("samplers and augmented data", Layers, loaders=drawn),
    Style("stream", Layers, loaders=lambda: (DataLoader(Stream(), batch_size=None), loaders()[1])),
    Style("datamodule that counts", Layers, {"reload_dataloaders_every_n_epochs": 1}, loaders=datamodule),
    Style("counts on the Trainer", CountsOnTheTrainer, loaders=datamodule),
    Style("deterministic algorithms", Layers, {"deterministic": True}),
    Style("no inference mode", Layers, {"inference_mode": False}),
    Style("profiled", Layers, {"profiler": "simple"}),
    Style("trial run", Layers, {"fast_dev_run": True}),
    Style("overfitted batches", Layers, {"overfit_batches": 2}),
    Style("validation every other epoch", Layers, {"check_val_every_n_epoch": 2, "max_epochs": 4}),
    Style("validation by steps", Layers, {"check_val_every_n_epoch": None, "val_check_interval": 4, "max_epochs": 3}),
    Style("ended by steps", Layers, {"max_steps": 5, "max_epochs": -1}),
]  # fmt: skip
