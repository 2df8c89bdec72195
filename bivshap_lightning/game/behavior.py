"""Behavior: the number computed from the model's output that is explained, such as a probability.

Scores come as (N, C). What they mean is the *link*: ``softmax`` (C class logits), ``sigmoid`` (one logit, or C
independent labels) or ``identity`` (they are probabilities already). The automatic rule, applied to the scores
of the unmasked inputs:

1. two columns or more, every row non-negative and summing to one: ``identity``;
2. two columns or more otherwise: ``softmax`` (for independent labels pass ``link="sigmoid"``);
3. one column: ``identity`` if the model is a black box that is not a torch module, or ends in ``nn.Sigmoid``,
   and all values lie in [0, 1]; otherwise ``sigmoid``.

With one column there are two classes, 0 and 1, and the score is that of class 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot

from bivshap_lightning.game.inputs import as_tensor

BehaviorName = Literal["probability", "logit", "log_odds", "loss", "expected_loss", "output"]
BehaviorFunction = Callable[[Tensor, Tensor], Tensor]
Link = Literal["softmax", "sigmoid", "identity"]

# Behaviors that are linear in the scores.
_LINEAR = {("probability", "identity"), ("logit", "softmax"), ("logit", "sigmoid"), ("log_odds", "sigmoid")}


def detect_link(scores: Tensor, *, gives_probabilities: bool) -> Link:
    """The meaning of scores by the rule of this module.

    Args:
        scores: (N, C) outputs on unmasked inputs.
        gives_probabilities: a single column in [0, 1] may be taken for a probability.

    Example:
        >>> detect_link(torch.tensor([[0.2, 0.8]]), gives_probabilities=False)
        'identity'
        >>> detect_link(torch.tensor([[0.2, 0.9]]), gives_probabilities=False)
        'softmax'
    """
    in_range = bool(((scores >= 0) & (scores <= 1)).all())
    if scores.shape[1] == 1:
        return "identity" if gives_probabilities and in_range else "sigmoid"
    sums_to_one = bool(((scores.sum(dim=1) - 1).abs() < 1e-3).all())
    return "identity" if in_range and sums_to_one else "softmax"


@dataclass(frozen=True)
class Behavior:
    """How the explained number is computed from scores.

    Attributes:
        name: what is computed: the target's probability, its logit, its log-odds, the negative loss, the negative loss
            that is expected if labels are drawn from the model's own distribution on the whole input, the raw output,
            or a function of (scores (N, C), target (N,)) that returns (N,).
        link: what the scores mean.

    Example:
        >>> scores, target = torch.tensor([[0.0, 2.0]]), torch.tensor([1])
        >>> Behavior("logit", "softmax")(scores, target)
        tensor([2.])
        >>> Behavior("log_odds", "softmax")(scores, target)
        tensor([2.])
    """

    name: BehaviorName | BehaviorFunction
    link: Link

    def __post_init__(self) -> None:
        if not callable(self.name) and self.name not in get_args(BehaviorName):
            raise ValueError(f"`behavior` must be one of {get_args(BehaviorName)} or a function, got {self.name!r}.")
        if self.link not in get_args(Link):
            raise ValueError(f"`link` must be 'auto' or one of {get_args(Link)}, got {self.link!r}.")

    @property
    def label(self) -> str:
        """The behavior's name, for records."""
        return getattr(self.name, "__name__", type(self.name).__name__) if callable(self.name) else self.name

    def __call__(self, scores: Tensor, target: Tensor, reference: Tensor | None = None) -> Tensor:
        """Compute the utility.

        Args:
            scores: (N, C).
            target: (N,) class indices, or values of a regression for ``loss``.
            reference: (N, max(C, 2)) class probabilities on the whole input, for ``expected_loss``.

        Returns:
            (N,) utilities.
        """
        if callable(self.name):
            return self.name(scores, target)
        if reference is not None:
            return self._expected_log_probability(scores, reference)
        if self.name == "loss" and target.is_floating_point():
            return -((scores[:, 0] - target.to(scores.dtype)) ** 2)
        if self.name == "output":
            return scores[:, 0] if scores.shape[1] == 1 else _pick(scores, target)
        if self.name == "probability":
            return self._probability(scores, target)
        return self._log_score(scores, target)

    def probabilities(self, scores: Tensor) -> Tensor:
        """Turn scores (N, C) into class probabilities (N, max(C, 2))."""
        if self.link == "softmax":
            return scores.softmax(dim=1)
        p = scores if self.link == "identity" else scores.sigmoid()
        return torch.cat([1 - p, p], dim=1) if p.shape[1] == 1 else p

    def reference(self, scores: Tensor) -> tuple[Tensor, ...]:
        """What is read off the whole input beside the target: class probabilities for ``expected_loss``, or nothing.

        Args:
            scores: (B, C) on the unmasked inputs.

        Example:
            >>> Behavior("expected_loss", "sigmoid").reference(torch.zeros(1, 1))
            (tensor([[0.5000, 0.5000]]),)
        """
        return (self.probabilities(scores),) if self.name == "expected_loss" else ()

    def predict(self, probabilities: Tensor, target: Tensor, *, independent_labels: bool = False) -> Tensor:
        """The most likely class or, for independent labels, whether the target label is on.

        Args:
            probabilities: (N, C) as :meth:`probabilities` gives them.
            target: (N,) class indices.
            independent_labels: several labels may be on at once.

        Returns:
            (N,) int64. Of several equally likely classes the first one counts.
        """
        if independent_labels:
            return (_pick(probabilities, target) >= 0.5).long()
        return probabilities.argmax(dim=1)

    def linear_weights(self, target: Tensor, n_outputs: int) -> Tensor | None:
        """Weights with which the scores add up to the utility (plus a constant), None if it is not linear in them.

        Args:
            target: (N,) class indices.
            n_outputs: C.

        Returns:
            (N, C) float64.

        Example:
            >>> Behavior("log_odds", "sigmoid").linear_weights(torch.tensor([0, 1]), 1)
            tensor([[-1.],
                    [ 1.]], dtype=torch.float64)
        """
        if callable(self.name) or target.is_floating_point():
            return None
        if self.name == "log_odds" and self.link == "softmax" and n_outputs == 2:
            return 2 * one_hot(target, 2).double() - 1
        if self.name != "output" and (self.name, self.link) not in _LINEAR:
            return None
        if n_outputs > 1:
            return one_hot(target, n_outputs).double()
        ones = torch.ones(len(target), 1, dtype=torch.float64, device=target.device)
        return ones if self.name == "output" else torch.where(target[:, None] == 1, ones, -ones)

    def _probability(self, scores: Tensor, target: Tensor) -> Tensor:
        if self.link == "softmax" and scores.shape[1] == 2:
            lead = scores[:, 1] - scores[:, 0]
            return torch.where(target == 1, lead, -lead).sigmoid()  # equals softmax, and is much faster
        if self.link == "softmax":
            # For few classes several times faster than torch's softmax, and more precise than with logsumexp.
            odds = (scores - scores.amax(dim=1, keepdim=True)).exp()
            return _pick(odds, target) / odds.sum(dim=1)
        if scores.shape[1] > 1:
            return _pick(scores if self.link == "identity" else scores.sigmoid(), target)
        score, on = scores[:, 0], target == 1
        if self.link == "identity":
            return torch.where(on, score, 1 - score)
        return torch.where(on, score, -score).sigmoid()

    def _expected_log_probability(self, scores: Tensor, reference: Tensor) -> Tensor:
        """The mean log-probability of labels drawn from the reference; over all of several independent labels."""
        if self.link == "softmax":
            return (reference * scores.log_softmax(dim=1)).sum(dim=1)
        if scores.shape[1] == 1:
            reference = reference[:, 1:]
        elif self.link == "identity":
            return torch.xlogy(reference, scores).sum(dim=1)
        if self.link == "identity":
            of_zero: Tensor = torch.special.xlog1py(1 - reference, -scores)
            return (torch.xlogy(reference, scores) + of_zero).sum(dim=1)
        return (reference * logsigmoid(scores) + (1 - reference) * logsigmoid(-scores)).sum(dim=1)

    def _log_score(self, scores: Tensor, target: Tensor) -> Tensor:
        """Logit, log-odds or log-probability (the negative loss), stable in each link."""
        if self.link == "identity":
            p = self._probability(scores, target)
            return p.log() if self.name == "loss" or self._is_raw_logit(scores) else p.log() - (-p).log1p()
        if self.link == "sigmoid":
            single = scores.shape[1] == 1
            score = torch.where(target == 1, scores[:, 0], -scores[:, 0]) if single else _pick(scores, target)
            return logsigmoid(score) if self.name == "loss" else score
        score = _pick(scores, target)
        if self.name == "logit":
            return score
        if self.name == "loss":
            return score - scores.logsumexp(dim=1)
        return score - scores.scatter(1, target[:, None], -torch.inf).logsumexp(dim=1)

    def _is_raw_logit(self, scores: Tensor) -> bool:
        """The logit of one among several probabilities is its logarithm (softmax undone up to a constant)."""
        return self.name == "logit" and scores.shape[1] > 1


def choose_behavior(
    name: BehaviorName | BehaviorFunction,
    link: Link | None,
    *,
    scores: Tensor,
    is_regressor: bool,
    gives_probabilities: bool,
) -> Behavior:
    """The behavior of a model that gave scores.

    Args:
        name: what is read off the scores.
        link: what the scores mean, None for the rule of this module.
        scores: (B, C) on the unmasked inputs.
        is_regressor: the scores are values, not class scores.
        gives_probabilities: a single column in [0, 1] may be taken for a probability.

    Example:
        >>> scores = torch.tensor([[0.2, 0.9]])
        >>> choose_behavior("logit", None, scores=scores, is_regressor=False, gives_probabilities=False).link
        'softmax'
    """
    if is_regressor and not callable(name) and name not in ("output", "loss"):
        raise ValueError(
            f"`behavior` must be 'output' or 'loss' for a regressor, got {name!r}. Pass behavior='output'."
        )
    return Behavior(name, link or detect_link(scores, gives_probabilities=gives_probabilities))


def column_of_largest(scores: Tensor) -> Tensor:
    """The column with the largest score of each row, as a float so that NaN can mark rows that are not finite.

    Args:
        scores: (N, C).

    Returns:
        (N,) in the dtype of the scores; NaN where the largest one is NaN or infinite.

    Example:
        >>> column_of_largest(torch.tensor([[0.0, 2.0], [torch.nan, 1.0]]))
        tensor([1., nan])
    """
    largest, place = scores.max(dim=1)
    return torch.where(largest.isfinite(), place.to(scores.dtype), torch.nan)


def resolve_target(
    target: Any,
    scores: Tensor,
    behavior: Behavior,
    class_names: Sequence[Any] | None = None,
    *,
    is_regressor: bool = False,
) -> Tensor:
    """The explained class, output or value of every sample.

    Args:
        target: None (the class predicted on the unmasked input), an index, a class label known to the model
            (a string, or B of them), a tensor, an array or a column of B indices (or of B values for the loss of a
            regression), or a function of the scores (B, C) that returns B indices.
        scores: (B, C) on the unmasked inputs.
        behavior: how scores are read.
        class_names: the class labels of an estimator that has them.
        is_regressor: the scores are values, not scores of classes.

    Returns:
        (B,) int64 indices, or floating point values of a regression.

    Example:
        >>> resolve_target(None, torch.tensor([[0.0, 2.0]]), Behavior("probability", "softmax"))
        tensor([1])
    """
    n_samples, n_classes = scores.shape[0], max(scores.shape[1], 2)
    if target is None:
        return _predicted(scores, behavior, is_regressor)
    if callable(target):
        target = target(scores)
    index = _as_indices(target, class_names).to(scores.device)
    if is_regressor and behavior.name == "loss":
        index = index.to(scores.dtype)
    if index.dim() == 2 and index.shape[1] == 1:
        index = index[:, 0]
    if index.dim() > 1 or (index.dim() == 1 and index.shape[0] != n_samples):
        raise ValueError(
            f"`target` must be one index or {n_samples} of them, got shape {tuple(index.shape)}. "
            "Pass None for the predicted class."
        )
    index = index.expand(n_samples)
    if index.is_floating_point():
        if behavior.name == "loss" and scores.shape[1] == 1:
            return index.clone()
        raise TypeError(
            f"`target` must be integer class indices, got {index.dtype}. Values of a regression go with "
            "`behavior='loss'` and a model of one output."
        )
    n_allowed = scores.shape[1] if behavior.name == "output" else n_classes
    if bool(((index < 0) | (index >= n_allowed)).any()):
        raise ValueError(
            f"`target` must lie in 0..{n_allowed - 1}, got values from {int(index.min())} to {int(index.max())} "
            f"for a model with outputs of shape (B, {scores.shape[1]})."
        )
    return index.long().clone()


def _pick(scores: Tensor, target: Tensor) -> Tensor:
    return scores.gather(1, target[:, None])[:, 0]


def _predicted(scores: Tensor, behavior: Behavior, is_regressor: bool) -> Tensor:
    """The most likely class of each sample, or the only output."""
    if is_regressor and (behavior.name == "loss" or scores.shape[1] > 1):
        rule = "the values of a regression" if behavior.name == "loss" else "which output of a regression is explained"
        raise ValueError(f"`target` must say {rule}, got None for outputs of shape {tuple(scores.shape)}. Pass it.")
    if scores.shape[1] == 1 and behavior.name == "output":
        return torch.zeros(len(scores), dtype=torch.int64, device=scores.device)
    return behavior.probabilities(scores).argmax(dim=1)


def _as_indices(target: Any, class_names: Sequence[Any] | None) -> Tensor:
    """A target as a tensor, labels of classes as their indices."""
    if isinstance(target, Tensor):
        return target
    values = np.asarray(target)
    if values.dtype.kind not in "OUT":
        return as_tensor(values)
    listed = np.atleast_1d(values).tolist()
    if not (listed and isinstance(listed[0], str)):
        return as_tensor(listed)
    indices = torch.tensor([_index_of(label, class_names) for label in listed])
    return indices[0] if len(listed) == 1 else indices


def _index_of(label: str, class_names: Sequence[Any] | None) -> int:
    names = [] if class_names is None else [str(name) for name in class_names]
    if label not in names:
        known = f"one of {names}" if names else "a class index, because the model does not name its classes"
        raise ValueError(f"`target` must be {known}, got {label!r}.")
    return names.index(label)
