"""Divorce predictors: a network of three layers on 54 questions; 3 stands for no answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from examples.paper.network import BlackBox, accuracy, train
from examples.paper.study import Options, Study, as_floats, data_file

DOWNLOAD = "https://archive.ics.uci.edu/dataset/497/divorce+predictors+data+set (divorce.csv)"


class Mlp(BlackBox):
    """Three fully connected layers, 50 units in the hidden ones."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(54, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 20, 0.1)}


def load(options: Options) -> Study:
    """Train the network: 30 steps of gradient descent on all training rows."""
    frame = pd.read_csv(data_file(options, "divorce/divorce.csv", DOWNLOAD), sep=";")
    values, labels = frame.iloc[:, :54].to_numpy(dtype=np.float32), frame["Class"].to_numpy(dtype=np.int64)
    parts = train_test_split(values, labels, test_size=0.4, random_state=0)
    x, x_test, y, y_test = (torch.from_numpy(part) for part in parts)
    model = train(Mlp(), x, y, folder=options.folder("divorce"), epochs=30, batch_size=len(x))
    return Study(
        name="divorce", model=model, inputs=as_floats(x_test), labels=y_test, accuracy=accuracy(model, x_test, y_test),
        n_train=len(x), n_test=len(x_test),
        training=as_floats(x), baselines=3.0, feature_names=tuple(frame.columns[:54]), batch_size=17,
        notes=("The authors' split of 102 and 68 couples is not published: this one is random, with seed 0.",),
    )  # fmt: skip


if __name__ == "__main__":
    from examples.paper.experiment import main

    main("divorce")
