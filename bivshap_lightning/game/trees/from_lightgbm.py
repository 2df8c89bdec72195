"""Converts LightGBM models to :class:`~bivshap_lightning.game.trees.TreeEnsemble`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from bivshap_lightning.game.behavior import Link
from bivshap_lightning.game.trees.ensemble import LEAF, Tree, TreeEnsemble, UnsupportedTreesError

# Objectives whose predictions are the sum of the trees itself.
_PLAIN = ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg")


def link_of(dump: dict[str, Any]) -> Link | None:
    """How the margins of a classifier become probabilities; None for anything else."""
    objective = str(dump.get("objective", ""))
    if objective == "binary sigmoid:1":
        return "sigmoid"
    return "softmax" if objective.startswith("multiclass ") else None


def margin_function(model: Any) -> tuple[Callable[..., Any], Link] | None:
    """The function that returns a classifier's margins, and the link to its probabilities; None for other models."""
    booster = _booster(model)
    dump = booster.dump_model(num_iteration=1)
    link = link_of(dump)
    if link is None:
        return None
    if not dump["average_output"]:
        return lambda x: model.predict(x, raw_score=True), link
    # LightGBM does not average the raw scores of a random forest.
    n_rounds = _n_rounds(booster.dump_model())
    return lambda x: model.predict(x, raw_score=True) / n_rounds, link


def read(model: Any) -> TreeEnsemble:
    """The margin of a classifier, the value of a regression."""
    dump = _booster(model).dump_model()
    objective = str(dump.get("objective", "of your own"))
    if link_of(dump) is None and (objective.split(" ")[0] not in _PLAIN or "sqrt" in objective):
        raise UnsupportedTreesError(
            f"`model` must be a sum of trees to be converted, got a LightGBM model of objective {objective}."
        )
    n_outputs, share = dump["num_tree_per_iteration"], 1 / _n_rounds(dump) if dump["average_output"] else 1.0
    trees = [_tree(info["tree_structure"]) for info in dump["tree_info"]]
    return TreeEnsemble.of(
        [Tree(t.feature, t.threshold, t.left, t.right, share * t.value, t.categories) for t in trees],
        outputs=[[index % n_outputs] for index in range(len(trees))],
        offset=np.zeros(n_outputs),
        precision=torch.float64,
    )


def categories(model: Any) -> list[list[Any]]:
    """For each categorical column of the training data frame, the categories in the order of their codes."""
    return list(_booster(model).pandas_categorical or ())


def _booster(model: Any) -> Any:
    return model.booster_ if hasattr(type(model), "booster_") else model


def _n_rounds(dump: dict[str, Any]) -> int:
    return len(dump["tree_info"]) // int(dump["num_tree_per_iteration"])


def _tree(root: dict[str, Any]) -> Tree:
    """One tree, from nested dictionaries to arrays."""
    nodes, categories = [root], {}
    children: list[tuple[int, int]] = []
    for index, node in enumerate(nodes):  # the list grows during the loop
        if "split_feature" not in node:
            children.append((0, 0))
            continue
        _check(node)
        if node["decision_type"] == "==":
            categories[index] = [int(code) for code in str(node["threshold"]).split("||")]
        children.append((len(nodes), len(nodes) + 1))
        nodes += [node["left_child"], node["right_child"]]
    left, right = np.array(children, dtype=np.int64).T
    return Tree(
        np.array([node.get("split_feature", LEAF) for node in nodes]),
        np.array([0.0 if index in categories else node.get("threshold", 0.0) for index, node in enumerate(nodes)]),
        left,
        right,
        np.array([[node.get("leaf_value", 0.0)] for node in nodes]),
        categories,
    )


def _check(node: dict[str, Any]) -> None:
    if node["missing_type"] == "Zero":
        raise UnsupportedTreesError(
            "`model` must distinguish zero from missing to be converted, got LightGBM trees with zero_as_missing."
        )
    children = (node["left_child"], node["right_child"])
    if any("leaf_coeff" in child for child in children):
        raise UnsupportedTreesError(
            "`model` must have constant leaves to be converted, got LightGBM trees with linear_tree."
        )
