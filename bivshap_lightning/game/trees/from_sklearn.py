"""Converts trees, forests and boosting of scikit-learn to :class:`~bivshap_lightning.game.trees.TreeEnsemble`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bivshap_lightning.game.trees.ensemble import LEAF, Tree, TreeEnsemble, UnsupportedTreesError


def read_forest(model: Any) -> TreeEnsemble:
    """A decision tree, or a forest that averages many: class probabilities, or values of a regression."""
    members = getattr(model, "estimators_", [model])
    is_classifier = hasattr(model, "classes_")
    if is_classifier and model.n_outputs_ > 1:
        raise UnsupportedTreesError(
            f"`model` must predict one target to be converted, got a {_name(model)} of {model.n_outputs_}."
        )
    trees = []
    for member in members:
        value = member.tree_.value[:, 0] if is_classifier else member.tree_.value[..., 0]
        # Leaves hold shares of classes or, before scikit-learn 1.3, counts.
        total = value.sum(axis=1, keepdims=True) if is_classifier else 1
        trees.append(_tree(member.tree_, value / total / len(members)))
    n_outputs = trees[0].value.shape[1]
    outputs, offset = [range(n_outputs)] * len(trees), np.zeros(n_outputs)
    return TreeEnsemble.of(trees, outputs=outputs, offset=offset, precision=torch.float32)


def read_boosting(model: Any) -> TreeEnsemble:
    """Gradient boosting: the margin of a classifier, the value of a regression."""
    if getattr(model, "classes_", None) is not None and model.loss != "log_loss":
        raise UnsupportedTreesError(
            f"`model` must have loss='log_loss' to be converted to a sum of trees, got a {_name(model)} with "
            f"loss={model.loss!r}, whose probabilities are no logistic function of it."
        )
    members = [(output, tree.tree_) for row in model.estimators_ for output, tree in enumerate(row)]
    return TreeEnsemble.of(
        [_tree(tree, model.learning_rate * tree.value[:, 0]) for _, tree in members],
        outputs=[[output] for output, _ in members],
        offset=_start_of_boosting(model),
        precision=torch.float32,
    )


def _start_of_boosting(model: Any) -> NDArray[np.float64]:
    """What gradient boosting predicts before its first tree."""
    n_outputs = model.estimators_.shape[1]
    if isinstance(model.init_, str):  # "zero"
        return np.zeros(n_outputs)
    kind = type(model.init_).__name__
    if kind == "DummyRegressor":
        return np.asarray(model.init_.constant_, dtype=np.float64).reshape(1)
    if kind != "DummyClassifier" or model.init_.strategy != "prior":
        raise UnsupportedTreesError(
            f"`model` must start from a constant to be converted, got a {_name(model)} with init={kind}."
        )
    tiny = np.finfo(np.float32).eps
    prior = np.clip(model.init_.class_prior_, tiny, 1 - tiny)
    start = np.log(prior[1:] / prior[:1]) if n_outputs == 1 else np.log(prior) - np.log(prior).mean()
    return np.asarray(start, dtype=np.float64)


def read_histogram_boosting(model: Any) -> TreeEnsemble:
    """Histogram-based gradient boosting: the margin of a classifier, the value of a regression."""
    if model.is_categorical_ is not None and np.any(model.is_categorical_):
        raise UnsupportedTreesError(
            f"`model` must have numerical features only to be converted, got a {_name(model)} of categories."
        )
    if model.loss in ("gamma", "poisson"):
        raise UnsupportedTreesError(
            f"`model` must be a sum of trees, got a {_name(model)} with loss={model.loss!r}, an exponential."
        )
    members = [(output, tree.nodes) for row in model._predictors for output, tree in enumerate(row)]
    return TreeEnsemble.of(
        [
            Tree(
                np.where(nodes["is_leaf"], LEAF, nodes["feature_idx"]),
                nodes["num_threshold"],
                nodes["left"].astype(np.int64),
                nodes["right"].astype(np.int64),
                nodes["value"][:, None],
            )
            for _, nodes in members
        ],
        outputs=[[output] for output, _ in members],
        offset=np.ravel(model._baseline_prediction),
        precision=torch.float64,
    )


def _tree(tree: Any, value: NDArray[np.float64]) -> Tree:
    feature = np.where(tree.children_left < 0, LEAF, tree.feature)
    return Tree(feature, tree.threshold, tree.children_left, tree.children_right, value)


def _name(model: Any) -> str:
    return type(model).__name__
