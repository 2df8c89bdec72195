"""Models and arguments that cannot be explained. Training does not care: its steps call the network, not ``forward``.

``BAD_INPUT`` lists them for the table of styles, with what the refusal says.
"""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from tests.callbacks.style_modules import Base, RandomWhereRemoved, Style, data


class Trained(Base):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", cross_entropy(self.net(batch[0]), batch[1]))


class ComplexOutputs(Trained):
    def forward(self, x: Tensor) -> Any:
        return torch.complex(self.net(x), self.net(x))


class SparseOutputs(Trained):
    def forward(self, x: Tensor) -> Any:
        return self.net(x).to_sparse()


class NestedOutputs(Trained):
    def forward(self, x: Tensor) -> Any:
        return torch.nested.nested_tensor(list(self.net(x)), layout=torch.jagged)


class FewerClassesWhereRemoved(Trained):
    def forward(self, x: Tensor) -> Any:
        return self.net(x)[:, : 2 if (x == 0).any() else 3]


class ClassesByTurns(Trained):
    n_calls = 0

    def forward(self, x: Tensor) -> Any:
        self.n_calls += 1
        return self.net(x)[:, : 2 + self.n_calls % 2]


class Data(pl.LightningDataModule):
    """What the styles are validated on."""

    def val_dataloader(self) -> Any:
        return DataLoader(data(12, 2), batch_size=8)


CHANGING = "`model` must return the same number of scores in every call, got . after ."
BAD_INPUT = [
    Style("one huge player id", Base, audit={"feature_mask": [0, 1, 2, 3, 4, 10**9]},
          refused="`feature_mask` must use every id from 0 to its largest, got id 1000000000 for only 6 elements"),
    Style("complex outputs", ComplexOutputs, refused=r"`model` must return real scores, got torch\.complex64"),
    Style("sparse outputs", SparseOutputs, refused="`model` must return a dense tensor of scores, got a torch.sparse"),
    Style("nested outputs", NestedOutputs, refused="`model` must return a dense tensor of scores, got a nested tensor"),
    Style("fewer classes where removed", FewerClassesWhereRemoved, audit={"baselines": 0.0}, refused=CHANGING),
    Style("classes by turns", ClassesByTurns, refused=CHANGING),
    Style("random where removed", RandomWhereRemoved, audit={"baselines": 0.0},
          refused="`model` must be deterministic.*players are removed"),
    Style("more evaluations than memory", Base, audit={"method": "sampling", "n_evaluations": 10**12},
          refused="`n_evaluations` must be at most 10,000,000 coalitions per sample for method='sampling', got .*,"),
    Style("fewer evaluations than one", Base, audit={"method": "sampling", "n_evaluations": 0},
          refused="`n_evaluations` must be at least"),
]  # fmt: skip
