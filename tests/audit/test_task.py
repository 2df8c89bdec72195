"""Tasks by labels, outputs and loss: hand-made cases, and modules in ordinary Lightning style."""

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from bivshap_lightning.audit.task import TaskError, as_classes, find_loss, find_task

ZERO_ONE = torch.tensor([0, 1, 1, 0])
ONE_HOT = torch.eye(3)[torch.tensor([0, 2, 1])]
MULTI_HOT = torch.tensor([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])


class Classes(pl.LightningModule):
    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])


class Values(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.criterion = nn.SmoothL1Loss()


class Labels(pl.LightningModule):
    def loss(self, x, y):
        def inner():
            return nn.functional.binary_cross_entropy_with_logits(x, y)

        return inner()


class Both(pl.LightningModule):
    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(x, y) + nn.functional.mse_loss(x, y)


@pytest.mark.parametrize(
    ("module", "family"), [(Classes, "classes"), (Values, "regression"), (Labels, "labels"), (Both, None)]
)
def test_the_loss_is_read_off_the_module(module, family):
    assert find_loss(module()) == family


def test_only_modules_have_a_loss():
    assert find_loss(lambda x: x) is None
    assert find_loss(nn.Linear(2, 2)) is None


@pytest.mark.parametrize(
    ("labels", "n_outputs", "module", "task"),
    [
        (ZERO_ONE, 1, None, "binary"),
        (ZERO_ONE.float(), 1, None, "binary"),
        (ZERO_ONE.float()[:, None], 1, None, "binary"),
        (ZERO_ONE.float(), 1, Values(), "regression"),
        (ZERO_ONE, 2, None, "binary"),
        (ZERO_ONE, 5, None, "multiclass"),
        (torch.tensor([0.0, 4.0]), 5, None, "multiclass"),
        (torch.tensor([0, -100]), 5, Classes(), "multiclass"),
        (torch.tensor([0.3, 1.0]), 1, None, "regression"),
        (torch.tensor([3, 9]), 1, Values(), "regression"),
        (MULTI_HOT, 3, None, "multilabel"),
        (ONE_HOT, 3, Labels(), "multilabel"),
        (ONE_HOT, 3, Classes(), "multiclass"),
        (torch.randn(4, 2), 2, None, "regression"),
        (None, 3, None, "multiclass"),
        (None, 1, Labels(), "binary"),
        (None, 3, Labels(), "multilabel"),
        (None, 1, Values(), "regression"),
    ],
)
def test_what_labels_and_outputs_say(labels, n_outputs, module, task):
    assert find_task("auto", labels, n_outputs, module).name == task


@pytest.mark.parametrize(
    ("labels", "n_outputs", "module", "line"),
    [
        (None, 1, None, r'got no labels and 1 output\. Write BivShapCallback\(task="binary"\)'),
        (torch.tensor([3, 9]), 1, None, r'whole numbers from 3 to 9 .* Write BivShapCallback\(task="regression"\)'),
        (ONE_HOT, 3, None, r'shape \(3, 3\) with a single 1 in every row\. Write BivShapCallback\(task="multiclass"\)'),
        (torch.tensor([0.5, 7.0]), 3, None, r'labels from 0\.5 to 7 for 3 outputs\. Write .*"regression", target=0'),
    ],
)
def test_what_is_ambiguous_is_refused_with_the_line_to_write(labels, n_outputs, module, line):
    with pytest.raises(TaskError, match=line):
        find_task("auto", labels, n_outputs, module)


def test_the_users_word_counts():
    assert find_task("regression", ZERO_ONE, 1).reason == "as given"
    with pytest.raises(ValueError, match=r"`task` must be 'auto' or one of .* got 'regresion'"):
        find_task("regresion", ZERO_ONE, 1)


def test_labels_as_classes():
    assert as_classes(ZERO_ONE.float()[:, None], "binary").tolist() == [0, 1, 1, 0]
    assert as_classes(ONE_HOT, "multiclass").tolist() == [0, 2, 1]
    assert as_classes(MULTI_HOT, "multilabel") is None
    assert as_classes(torch.randn(3), "regression") is None
    assert as_classes(None, "binary") is None
