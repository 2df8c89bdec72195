"""What a model is trained for: binary, multiclass, multilabel or regression, read off labels, outputs and loss.

The rules, in order; the first that applies decides:

1. the argument `task`, if it is given;
2. no labels: two outputs or more are classes; a single output is ambiguous unless the loss names the task;
3. labels of several columns, as many as outputs: zeros and ones with several ones (or none) in some row are
   independent labels; one 1 in every row is ambiguous unless the loss names the task; other numbers are a regression;
4. one label per sample, several outputs: whole numbers below the number of outputs are classes;
5. one label per sample, one output: zeros and ones are two classes, also as floats; other numbers are a regression.

The loss is read off the module: loss modules among its children, and names such as ``cross_entropy`` or ``MSELoss`` in
the code of its own methods. It decides only where labels and outputs leave a choice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

TaskName = Literal["binary", "multiclass", "multilabel", "regression"]

_REGRESSION = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss",
               "gaussian_nll_loss", "GaussianNLLLoss", "poisson_nll_loss", "PoissonNLLLoss")  # fmt: skip
_CLASSES = ("cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss", "multi_margin_loss", "MultiMarginLoss")
_LABELS = ("binary_cross_entropy", "binary_cross_entropy_with_logits", "BCELoss", "BCEWithLogitsLoss",
           "multilabel_soft_margin_loss", "MultiLabelSoftMarginLoss")  # fmt: skip
_FAMILIES = {"regression": _REGRESSION, "classes": _CLASSES, "labels": _LABELS}


class TaskError(ValueError):
    """The task cannot be told from labels, outputs and loss; the message shows the line to write."""


@dataclass(frozen=True)
class Task:
    """A task and how it was found.

    Attributes:
        name: the task.
        reason: one phrase for people.
    """

    name: TaskName
    reason: str


def find_task(task: TaskName | Literal["auto"], labels: Tensor | None, n_outputs: int, module: Any = None) -> Task:
    """The task by the rules of this module.

    Args:
        task: one of the tasks, or "auto".
        labels: (B, ...) of some samples, or None.
        n_outputs: columns of the model's output.
        module: whose loss is looked at.

    Raises:
        TaskError: labels, outputs and loss leave a choice.
        ValueError: `task` is none of the tasks.

    Example:
        >>> find_task("auto", torch.tensor([0.0, 1.0, 1.0]), 1)
        Task(name='binary', reason='labels are 0 and 1, one output')
        >>> find_task("auto", torch.tensor([0.3, -2.0]), 1).name
        'regression'
    """
    if task != "auto":
        if task not in get_args(TaskName):
            raise ValueError(f"`task` must be 'auto' or one of {get_args(TaskName)}, got {task!r}.")
        return Task(task, "as given")
    loss = find_loss(module)
    if labels is None:
        return _without_labels(n_outputs, loss)
    if labels.dim() == 2 and labels.shape[1] > 1:
        return _several_columns(labels, n_outputs, loss)
    flat = labels.flatten()
    if n_outputs > 1:
        return _several_outputs(flat, n_outputs, loss)
    if bool(((flat == 0) | (flat == 1)).all()):
        if loss == "regression":
            return Task("regression", f"one output, and the loss is one of a {loss}")
        return Task("binary", "labels are 0 and 1, one output")
    if not flat.is_floating_point() and loss != "regression":
        raise TaskError(
            f"`task` must be given, got whole numbers from {int(flat.min())} to {int(flat.max())} as labels and one "
            'output. Write BivShapCallback(task="regression") if they are values.'
        )
    return Task("regression", "labels are values, one output")


def find_loss(module: Any) -> str | None:
    """The family of the only kind of loss that a module mentions: "regression", "classes", "labels", or None.

    Example:
        >>> find_loss(nn.ModuleDict({"loss": nn.MSELoss()}))
        'regression'
    """
    if not isinstance(module, nn.Module):
        return None
    names = {type(m).__name__ for m in module.modules()}
    methods = [method for kind in type(module).__mro__ if _is_user_class(kind) for method in vars(kind).values()]
    codes = [method.__code__ for method in methods if isinstance(method, FunctionType)]
    names |= {name for code in codes for name in _names_in(code)}
    families = {family for family, members in _FAMILIES.items() if names & set(members)}
    return families.pop() if len(families) == 1 else None


def _is_user_class(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in ("torch", "pytorch_lightning", "lightning", "builtins")


def _names_in(code: CodeType) -> Iterable[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _without_labels(n_outputs: int, loss: str | None) -> Task:
    if loss == "regression" and n_outputs == 1:
        return Task("regression", "no labels, one output, and the loss is one of a regression")
    if loss == "labels":
        name: TaskName = "binary" if n_outputs == 1 else "multilabel"
        return Task(name, f"no labels, {n_outputs} outputs, and the loss is a binary cross-entropy")
    if n_outputs > 1 and loss != "regression":
        return Task("multiclass", f"no labels, {n_outputs} outputs")
    raise TaskError(
        f"`task` must be given, got no labels and {n_outputs} output{'s' * (n_outputs > 1)}. Write "
        'BivShapCallback(task="binary") for a logit or probability, task="regression" for a value.'
    )


def _several_columns(labels: Tensor, n_outputs: int, loss: str | None) -> Task:
    shape = tuple(labels.shape)
    if not bool(((labels == 0) | (labels == 1)).all()):
        return Task("regression", f"labels are values in {shape[1]} columns")
    if loss == "labels" or (loss is None and not bool((labels.sum(dim=1) == 1).all())):
        return Task("multilabel", f"labels are 0 and 1 in {shape[1]} columns, {n_outputs} outputs")
    if loss == "classes":
        return Task("multiclass", f"labels are one of {shape[1]} columns, and the loss is a cross-entropy")
    if loss == "regression":
        return Task("regression", f"{shape[1]} columns, and the loss is one of a regression")
    raise TaskError(
        f"`task` must be given, got labels of shape {shape} with a single 1 in every row. Write "
        'BivShapCallback(task="multiclass") for one-hot classes, task="multilabel" for independent labels.'
    )


def _several_outputs(flat: Tensor, n_outputs: int, loss: str | None) -> Task:
    whole = not flat.is_floating_point() or bool((flat == flat.round()).all())
    if whole and bool((flat >= 0).all()) and bool((flat < n_outputs).all()):
        name: TaskName = "binary" if n_outputs == 2 else "multiclass"
        return Task(name, f"labels are classes, {n_outputs} outputs")
    if loss == "classes":  # ignore_index and the like
        return Task("multiclass", f"{n_outputs} outputs, and the loss is a cross-entropy")
    raise TaskError(
        f"`task` must be given, got labels from {flat.min().item():g} to {flat.max().item():g} for {n_outputs} "
        'outputs. Write BivShapCallback(task="regression", target=0) to explain the first output as a value.'
    )


def as_classes(labels: Tensor | None, task: TaskName) -> Tensor | None:
    """Labels as class indices, (B,) int64; None where there are none, such as for values.

    Args:
        labels: (B, ...), or None.
        task: the task.

    Example:
        >>> as_classes(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), "multiclass")
        tensor([1, 0])
    """
    if labels is None or task in ("regression", "multilabel"):
        return None
    if labels.dim() == 2 and labels.shape[1] > 1:
        return labels.argmax(dim=1)
    return labels.flatten().to(torch.int64)


def true_labels(labels: Tensor | None, task: TaskName, n_outputs: int) -> Tensor | None:
    """What the loss of each sample is measured against: its class or, of a regression, its value; None if unknown.

    Args:
        labels: (B, ...), or None.
        task: the task; labels that are on or off independently have no single loss here.
        n_outputs: of the model. A class that it does not have, as some data marks unknown ones, counts as unknown.

    Example:
        >>> true_labels(torch.tensor([0.0, 1.0]), "binary", 1), true_labels(torch.tensor([-1]), "binary", 1)
        (tensor([0, 1]), None)
    """
    if labels is not None and task == "regression":
        return labels.flatten().float() if labels.numel() == len(labels) and n_outputs == 1 else None
    classes = as_classes(labels, task)
    known = classes is not None and bool(((classes >= 0) & (classes < max(n_outputs, 2))).all())
    return classes if known else None
