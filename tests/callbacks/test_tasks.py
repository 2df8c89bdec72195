"""Each task in a real Trainer: what is understood, what is explained, and what is refused."""

import pytest
import torch
from pytorch_lightning import LightningModule
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback
from tests.callbacks.test_bivshap_callback import SOME, trainer

X = torch.randn(24, 5, generator=torch.Generator().manual_seed(0))
WEIGHTS = torch.tensor([3.0, -2.0, 1.0, 0.0, 0.0])
ON = torch.stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 2] > 1.2], dim=1).float()
TASKS = {
    "binary": (1, (X @ WEIGHTS > 0).float(), nn.functional.binary_cross_entropy_with_logits),
    "multiclass": (3, (X @ WEIGHTS > 0).long() + (X[:, 0] > 1).long(), nn.functional.cross_entropy),
    "multilabel": (3, ON, nn.functional.binary_cross_entropy_with_logits),
    "regression": (1, X @ WEIGHTS, nn.functional.mse_loss),
}


class Net(LightningModule):
    def __init__(self, n_outputs: int, loss) -> None:
        super().__init__()
        self.layer, self.loss = nn.Linear(5, n_outputs), loss

    def forward(self, x):
        scores = self.layer(x)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def training_step(self, batch, batch_idx):
        return self.loss(self(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)


def audit(folder, task: str, **options):
    n_outputs, y, loss = TASKS[task]
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(X, y), batch_size=8)
    callback = BivShapCallback(**SOME | options)
    run = trainer(folder, callback, max_epochs=3)
    run.fit(Net(n_outputs, loss), loader, loader)
    (*_, last) = sorted((folder / "bivshap").glob("*.json"))
    return callback, AuditRecord.load(last), run


@pytest.mark.parametrize("task", sorted(TASKS))
def test_every_task_is_understood_and_said(tmp_path, task, caplog):
    callback, record, _ = audit(tmp_path, task)
    assert callback.runner.task.name == task
    assert f"bivshap: task {task} (" in caplog.text
    assert record.configuration.behavior == ("output" if task == "regression" else "probability")
    assert not callback.failed


def test_float_zeros_and_ones_are_classes(tmp_path):
    callback, _, _ = audit(tmp_path, "binary")
    labels = [sample.label for sample in callback.result.samples]
    assert sorted(labels) == [0, 0, 0, 1, 1, 1]  # balanced


def test_a_regression_explains_the_value_whatever_its_sign(tmp_path):
    callback, record, run = audit(tmp_path, "regression", n_samples=12)
    weights = run.lightning_module.layer.weight[0].detach()
    for sample in callback.result.samples:
        x = next(row for row in X if torch.isclose(weights @ row, torch.tensor(float(sample.graph.shapley.sum())),
                                                   atol=1e-4))  # fmt: skip
        torch.testing.assert_close(torch.tensor(sample.graph.shapley).float(), weights * x, atol=1e-4, rtol=1e-3)
    assert all(sample.label is None for sample in record.samples)


def test_every_label_gets_a_graph(tmp_path):
    callback, record, _ = audit(tmp_path, "multilabel", n_samples=12, class_names=["a", "b", "c"])
    assert set(record.classes) == {"a", "b", "c"}
    for sample, row in zip(callback.result.samples, record.samples, strict=True):
        assert sample.label is None
        assert row.target in ("a", "b", "c")
    assert record.configuration.link == "sigmoid"


def test_one_label_can_be_chosen(tmp_path):
    callback, _, _ = audit(tmp_path, "multilabel", target=2)
    assert {sample.target for sample in callback.result.samples} == {2}


def test_what_is_ambiguous_leaves_training_alone_and_shows_the_line(tmp_path):
    loader = DataLoader(TensorDataset(X, torch.arange(24)), batch_size=8)
    callback = BivShapCallback(**SOME | {"on_error": "warn"})
    module = Net(1, lambda scores, y: (scores - y).abs().mean())
    with pytest.warns(UserWarning, match=r'Write BivShapCallback\(task="regression"\) if they are values'):
        trainer(tmp_path, callback, max_epochs=1).fit(module, loader, loader)
    assert callback.failed


def test_one_of_several_outputs_of_a_regression_must_be_named(tmp_path):
    loader = DataLoader(TensorDataset(X, torch.randn(24, 2)), batch_size=8)
    with pytest.raises(ValueError, match="`target` must name one of 2 outputs of a regression, got None"):
        trainer(tmp_path, BivShapCallback(**SOME), max_epochs=1).fit(Net(2, nn.functional.mse_loss), loader, loader)
    callback = BivShapCallback(**SOME, target=1)
    trainer(tmp_path, callback, max_epochs=1).fit(Net(2, nn.functional.mse_loss), loader, loader)
    assert not callback.failed
