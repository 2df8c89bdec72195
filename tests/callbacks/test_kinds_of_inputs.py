"""The callback on every kind of input, in a real Trainer."""

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning import BivariateShapley
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.game.embedding import ZeroEmbedding
from bivshap_lightning.game.players import Columns, Grid, Segments, Superpixels, Tokens
from bivshap_lightning.game.removal import ChannelMean
from tests.callbacks import modules

OPTIONS = {"n_samples": 4, "compare_with": ("feature_ablation",), "n_evaluations": 128, "on_error": "raise"}


class Network(pl.LightningModule):
    """A network on whatever comes, with a loss for the kind of its labels."""

    def __init__(self, network, loss):
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self, x):
        return self.network(x)

    def training_step(self, batch, batch_idx):
        return self.loss(self(batch[0]).squeeze(1), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(self(batch[0]).squeeze(1), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def audit(tmp_path, module, data, **options):
    """Two steps of training, one validation, one audit; the callback and the module."""
    callback = BivShapCallback(**OPTIONS | options)
    trainer = pl.Trainer(
        default_root_dir=tmp_path, max_epochs=1, limit_train_batches=2, callbacks=[callback], accelerator="cpu",
        logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    loader = DataLoader(data, batch_size=8)
    trainer.fit(module, loader, loader)
    assert trainer.callback_metrics["bivshap/failed"] == 0
    record = AuditRecord.load(next((tmp_path / "bivshap").glob("*.json")))
    return callback, record


class Bytes(nn.Module):
    """Reads pictures as cameras give them: bytes, channels last."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 36, 3))

    def forward(self, x):
        return self.net(x.permute(0, 3, 1, 2).float() / 255)


@pytest.mark.parametrize("n_samples", [12, 3])  # with 3, every class has one picture
def test_superpixels_of_bytes_with_channels_last(tmp_path, n_samples):
    torch.manual_seed(0)
    data = TensorDataset(torch.randint(0, 256, (16, 8, 8, 3), dtype=torch.uint8), torch.arange(16) % 3)
    module = Network(Bytes(), nn.functional.cross_entropy)
    how = {"feature_mask": Superpixels(6), "baselines": ChannelMean()}
    callback, record = audit(tmp_path, module, data, n_samples=n_samples, **how)
    assert record.configuration.removal == "mean colour of the image"
    for sample in callback.result.samples:
        assert sample.image.shape == (3, 8, 8)
        assert sample.segments.shape == (8, 8)
        assert sample.graph.n_players == sample.segments.max() + 1
    # Superpixel 3 of one picture has nothing to do with superpixel 3 of another.
    assert record.classes == {}
    assert list((tmp_path / "bivshap").rglob("sample/*/graphs/*.png"))


@pytest.mark.parametrize(("shape", "seen"), [((4, 6, 6), (3, 6, 6)), ((6, 6, 4), (3, 6, 6)), ((12, 6, 6), None)])
def test_pictures_with_opacity_and_more_channels_than_pictures_have(tmp_path, shape, seen):
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(16, *shape), torch.arange(16) % 3)
    module = Network(nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), nn.functional.cross_entropy)
    module(data.tensors[0])
    callback, _ = audit(tmp_path, module, data, feature_mask=Grid(2))
    for sample in callback.result.samples:
        assert (None if sample.image is None else sample.image.shape) == seen
        assert sample.segments.shape == (6, 6)
    assert list((tmp_path / "bivshap").rglob("sample/*/graphs/*.png"))


def test_texts_with_zeroed_embeddings_and_gradients(tmp_path):
    words = [f"word{k}" for k in range(20)]
    callback = BivShapCallback(
        **OPTIONS | {"compare_with": ("integrated_gradients",)}, feature_mask=Tokens(words), baselines=ZeroEmbedding()
    )
    module = modules.TextModule()
    data = modules.Tokens()
    data.attention[0, 1:] = 0  # a text of one word
    data.ids, data.attention[1] = data.ids * data.attention, 0  # and one of none
    trainer = pl.Trainer(
        default_root_dir=tmp_path, callbacks=[callback], accelerator="cpu", logger=False, enable_progress_bar=False
    )
    trainer.validate(module, DataLoader(data, batch_size=8), verbose=False)
    assert callback.result.skipped == {}
    assert all(sample.graph.n_players >= 2 for sample in callback.result.samples)
    sample = callback.result.samples[0]
    assert all(word.startswith("word") for word in sample.words)
    row = next(k for k in range(len(data)) if [words[i] for i in data.ids[k] if i] == sample.words)
    alone = BivariateShapley(lambda i, a: module(i, a)["logits"]).attribute(
        data.ids[row : row + 1], 0, None, data.attention[row : row + 1], Tokens(words, pad_id=0)
    )
    # The padding token is embedded as zero, so both removals are one.
    np.testing.assert_allclose(sample.graph.weights, alone.graph(0).weights, atol=1e-6)
    record = AuditRecord.load(next((tmp_path / "bivshap").glob("*.json")))
    assert record.configuration.removal == "zero embedding"
    described = next(iter(record.classes.values()))
    assert set(described.players) <= set(words)


def test_errors_of_texts_of_different_lengths_are_those_of_their_own_pairs(tmp_path):
    data = modules.Tokens()
    data.attention[0, 1:] = 0  # one word has no pair
    data.ids = data.ids * data.attention
    callback = BivShapCallback(
        **OPTIONS | {"n_samples": 24, "compare_with": (), "n_evaluations": 32}, method="sampling", panels=False
    )
    trainer = pl.Trainer(
        default_root_dir=tmp_path, callbacks=[callback], accelerator="cpu", logger=False, enable_progress_bar=False
    )
    trainer.validate(modules.TextModule(), DataLoader(data, batch_size=8), verbose=False)
    graphs = [sample.graph for sample in callback.result.samples]
    assert len({graph.n_players for graph in graphs}) > 2
    errors = [g.standard_error[~np.eye(g.n_players, dtype=bool)].mean() for g in graphs if g.n_players > 1]
    record = AuditRecord.load(next((tmp_path / "bivshap").glob("*.json")))
    assert record.metrics["bivshap/estimate/standard_error"].value == pytest.approx(np.mean(errors), rel=1e-6)
    assert np.mean(errors) > 0


def test_a_table_with_groups(tmp_path):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(16, 4), torch.arange(16) % 2)
    columns = Columns({"colour": "c_*"}, ["age", "c_red", "c_blue", "income"])
    _, record = audit(
        tmp_path, Network(nn.Linear(4, 2), nn.functional.cross_entropy), data, feature_mask=columns, panels=False
    )
    assert list(record.samples[0].players) == ["age", "colour", "income"]
    assert set(record.classes) == {"0", "1"}


def test_stretches_of_a_series(tmp_path):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(16, 12, 2), torch.arange(16) % 2)
    network = nn.Sequential(nn.Flatten(), nn.Linear(24, 2))
    _, record = audit(
        tmp_path, Network(network, nn.functional.cross_entropy), data, feature_mask=Segments(3), panels=False
    )
    assert list(record.samples[0].players) == ["steps 0-3", "steps 4-7", "steps 8-11"]


KINDS = {
    "one logit": (1, lambda n: (torch.arange(n) % 2).float(), nn.functional.binary_cross_entropy_with_logits, {}),
    "several labels": (
        3,
        lambda n: (torch.arange(3 * n).view(n, 3) % 2).float(),
        nn.functional.binary_cross_entropy_with_logits,
        {"link": "sigmoid"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_targets(tmp_path, kind):
    torch.manual_seed(0)
    n_outputs, labels, loss, options = KINDS[kind]
    data = TensorDataset(torch.randn(16, 5), labels(16))
    callback, _ = audit(tmp_path, Network(nn.Linear(5, n_outputs), loss), data, panels=False, **options)
    sample = callback.result.samples[0]
    assert sample.graph.n_players == 5
    assert 0 <= sample.target < max(2, n_outputs)


def test_the_class_in_the_data_may_be_a_float(tmp_path):
    torch.manual_seed(0)
    n_outputs, _, loss, _ = KINDS["one logit"]
    data = TensorDataset(torch.randn(16, 5), torch.ones(16))
    callback, _ = audit(tmp_path, Network(nn.Linear(5, n_outputs), loss), data, panels=False, target="label")
    assert [s.target for s in callback.result.samples] == [1] * 4


def test_a_regression_is_told_what_to_do(tmp_path):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(16, 5), torch.randn(16))
    module = Network(nn.Linear(5, 1), nn.functional.mse_loss)
    callback, record = audit(tmp_path, module, data, behavior="output", panels=False)
    # A linear model: the Shapley value of a column is its weight times its value.
    rows = data.tensors[0].numpy() * module.network.weight.detach().numpy()[0]
    for sample in callback.result.samples:
        assert np.abs(rows - sample.graph.shapley).max(axis=1).min() < 1e-5
    assert record.metrics["bivshap/share_kept/ours"].value > 0.5
    assert "bivshap/post_hoc_accuracy/ours" not in record.metrics
