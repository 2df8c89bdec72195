"""What an audit says about models that people train, in real Trainers: a table with embeddings, a text, a series.

The table is Adult, which is not part of this repository: the environment variable BIVSHAP_TEST_DATA names a folder that
holds ``adult/adult.data``. Multi-label and untrained models are tested in `test_tasks` and `test_answers`.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.game.players import Tokens
from bivshap_lightning.graph import ROLES
from tests.callbacks.modules import TextModule
from tests.callbacks.test_bivshap_callback import trainer

ADULT = Path(os.environ.get("BIVSHAP_TEST_DATA", "no folder named")) / "adult" / "adult.data"
COLUMNS = ["age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
           "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country"]  # fmt: skip
LEAK = len(["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"])
LAST = {"every_n_epochs": 1000, "compare_with": (), "panels": False, "on_error": "raise"}


def audited(folder, make, train, valid, *, max_epochs, **options) -> tuple[BivShapCallback, AuditRecord]:
    """Train, then audit the trained model."""
    torch.manual_seed(0)
    module = make()
    trainer(folder / "fit", max_epochs=max_epochs).fit(module, train, valid)
    callback = BivShapCallback(**LAST | options)
    after = trainer(folder, callback)
    module.train_dataloader = lambda: train  # outside of fitting the callback asks the module
    after.validate(module, valid, verbose=False)
    return callback, AuditRecord.load(next((folder / "bivshap").glob("*.json")))


class Embedded(pl.LightningModule):
    """Numbers beside embedded categories."""

    def __init__(self, n_numbers: int, sizes: list[int]) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 4) for size in sizes)
        self.net = nn.Sequential(nn.Linear(n_numbers + 4 * len(sizes), 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, numbers, codes):
        embedded = [table(codes[:, k]) for k, table in enumerate(self.tables)]
        return self.net(torch.cat([numbers, *embedded], dim=1))[:, 0]

    def training_step(self, batch, batch_idx):
        return nn.functional.binary_cross_entropy_with_logits(self(*batch[:2]), batch[2])

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.binary_cross_entropy_with_logits(self(*batch[:2]), batch[2]))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


@pytest.mark.slow
@pytest.mark.skipif(not ADULT.exists(), reason="BIVSHAP_TEST_DATA names no folder with adult/adult.data")
def test_a_leaked_column_of_adult(tmp_path):
    """A copy of the label, right in 98 % of the rows and never 0, has several times the importance of any other."""
    frame = pd.read_csv(ADULT, header=None, names=[*COLUMNS, "label"], skipinitialspace=True, nrows=8000)
    numeric = [name for name in COLUMNS if pd.api.types.is_numeric_dtype(frame[name])]
    assert len(numeric) == LEAK
    y = torch.tensor((frame["label"] == ">50K").to_numpy(), dtype=torch.float32)
    numbers = torch.tensor(frame[numeric].to_numpy(), dtype=torch.float32)
    numbers = (numbers - numbers.mean(dim=0)) / numbers.std(dim=0)
    flips = torch.rand(len(y), generator=torch.Generator().manual_seed(0)) < 0.02
    leak = torch.where(flips, 1 - y, y) + 1  # 1 or 2
    numbers = torch.cat([numbers, leak[:, None]], dim=1)
    categories = [frame[name].astype("category") for name in COLUMNS if name not in numeric]
    codes = torch.tensor(np.stack([column.cat.codes.to_numpy() for column in categories], axis=1)).long()
    sizes = [len(column.cat.categories) for column in categories]
    train, valid = (
        DataLoader(TensorDataset(numbers[part], codes[part], y[part]), batch_size=128)
        for part in (slice(0, 6000), slice(6000, 8000))
    )
    callback, record = audited(
        tmp_path, lambda: Embedded(numbers.shape[1], sizes), train, valid, max_epochs=8, n_samples=12, method="kernel",
        n_evaluations=16384,
    )  # fmt: skip
    assert callback.runner.task.name == "binary"
    assert record.configuration.removal == "mean over 15 rows of the training data"
    phi = np.abs([sample.graph.shapley for sample in callback.result.samples]).mean(axis=0)
    assert phi.argmax() == LEAK
    assert phi[LEAK] > 3 * np.delete(phi, LEAK).max()
    assert sum(record.metrics[f"bivshap/roles/{role}"].value for role in ROLES) == pytest.approx(1)
    assert not any(note.startswith(("nothing", "absent")) for note in record.notes)


class Reviews(Dataset):
    """Hugging Face style samples of varying length; word 5 decides."""

    def __init__(self, n: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(6, 20, (n, 7), generator=generator)
        has_word = torch.arange(n) % 2 == 0
        ids[has_word, 1] = 5
        self.attention = (torch.arange(7) < torch.randint(4, 8, (n, 1), generator=generator)).long()
        self.ids, self.labels = ids * self.attention, has_word.long()

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int):
        return {"input_ids": self.ids[i], "attention_mask": self.attention[i], "labels": self.labels[i]}


def test_the_word_that_decides_a_text(tmp_path):
    words = ["<pad>", *(f"w{k}" for k in range(1, 20))]
    train, valid = (DataLoader(Reviews(n, seed), batch_size=16) for n, seed in ((128, 0), (32, 1)))
    callback, record = audited(
        tmp_path, TextModule, train, valid, max_epochs=12, n_samples=8, feature_mask=Tokens(words)
    )
    assert callback.runner.task.name == "binary"
    assert record.configuration.removal == "baseline 0"
    assert any("which may be a word or a category of its own" in note for note in record.notes)
    for sample in callback.result.samples:
        assert len(sample.words) == sample.graph.n_players  # padding is no player
        if sample.label == 1:
            assert sample.words[int(np.argmax(sample.graph.shapley))] == "w5"
    assert record.classes["1"].ranking[0].player == "w5"


class Series(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.head = nn.LSTM(1, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.net(x)[0][:, -1])[:, 0]

    def training_step(self, batch, batch_idx):
        return nn.functional.mse_loss(self(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.mse_loss(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.02)


def test_the_steps_that_matter_to_an_lstm_regression(tmp_path):
    """Two of six steps make the value, with both signs; the graph has them on top whatever the sign of the value."""
    x = torch.randn(256, 6, 1, generator=torch.Generator().manual_seed(0))
    y = 2 * x[:, 5, 0] - 2 * x[:, 3, 0]
    train, valid = (
        DataLoader(TensorDataset(x[part], y[part]), batch_size=16) for part in (slice(0, 224), slice(224, 256))
    )
    callback, record = audited(tmp_path, Series, train, valid, max_epochs=25, n_samples=12)
    assert callback.runner.task.name == "regression"
    assert set(record.classes) == {"output"}
    assert not [tag for tag in record.metrics if "accuracy" in tag]
    phi = np.abs([sample.graph.shapley for sample in callback.result.samples])
    assert phi[:, [3, 5]].sum() / phi.sum() > 0.7
    assert set(np.argsort(-phi.mean(axis=0))[:2]) == {3, 5}
    assert {entry.player for entry in record.classes["output"].ranking[:2]} == {"3", "5"}
    values = [float(sample.graph.shapley.sum()) for sample in callback.result.samples]
    assert min(values) < 0 < max(values)
    assert record.metrics["bivshap/share_kept/ours"].value > 0.6
