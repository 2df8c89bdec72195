"""Converts XGBoost models to :class:`~bivshap_lightning.game.trees.TreeEnsemble`."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bivshap_lightning.game.behavior import Link
from bivshap_lightning.game.trees.ensemble import LEAF, Tree, TreeEnsemble, UnsupportedTreesError

_LINKS: dict[str, Link] = {"binary:logistic": "sigmoid", "multi:softprob": "softmax", "multi:softmax": "softmax"}
# Objectives whose predictions are the sum of the trees itself.
_PLAIN = ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror", "reg:squaredlogerror")


def link_of(booster: Any) -> Link | None:
    """How the margins of a classifier become probabilities; None for anything else."""
    return _LINKS.get(json.loads(booster.save_config())["learner"]["objective"]["name"])


def read(model: Any) -> TreeEnsemble:
    """The margin of a classifier, the value of a regression."""
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    learner = json.loads(booster.save_raw("json"))["learner"]
    objective, grown = learner["objective"]["name"], learner["gradient_booster"]
    if objective not in (*_LINKS, *_PLAIN):
        raise UnsupportedTreesError(
            f"`model` must be a sum of trees to be converted, got an XGBoost model of objective {objective}."
        )
    missing = getattr(model, "missing", None)
    if missing is not None and not math.isnan(missing):
        raise UnsupportedTreesError(
            f"`model` must have missing=nan to be converted, got an XGBoost model with missing={missing}."
        )
    if grown["name"] not in ("gbtree", "dart"):
        raise UnsupportedTreesError(
            f"`model` must consist of trees to be converted, got an XGBoost booster {grown['name']!r}."
        )
    parameters = learner["learner_model_param"]
    n_outputs = max(1, int(parameters["num_class"]), int(parameters.get("num_target", 1)))
    forest = grown["gbtree"]["model"] if grown["name"] == "dart" else grown["model"]
    n_trees = _trees_in_use(model, forest, n_outputs)
    weights = grown.get("weight_drop", [1.0] * n_trees)[:n_trees]
    return TreeEnsemble.of(
        [_tree(tree, weight) for tree, weight in zip(forest["trees"][:n_trees], weights, strict=True)],
        outputs=[[output] for output in forest["tree_info"][:n_trees]],
        offset=_start(parameters["base_score"], objective, n_outputs),
        precision=torch.float32,
    )


def _trees_in_use(model: Any, forest: dict[str, Any], n_outputs: int) -> int:
    """All trees, or those up to the best iteration where training was stopped early."""
    n_trees = len(forest["trees"])
    best = getattr(model, "best_iteration", None) if hasattr(model, "get_booster") else None
    if best is None:  # a booster predicts with all trees
        return n_trees
    return min(n_trees, (int(best) + 1) * n_outputs * int(forest["gbtree_model_param"]["num_parallel_tree"]))


def _start(base_score: str, objective: str, n_outputs: int) -> NDArray[np.float64]:
    """The margin before the first tree: one number, or one for each output, stored as a prediction."""
    start = np.atleast_1d(np.array(json.loads(base_score), dtype=np.float64))
    if objective == "binary:logistic":
        start = np.log(start) - np.log1p(-start)
    return np.broadcast_to(start, (n_outputs,))


def _tree(tree: dict[str, Any], weight: float) -> Tree:
    if int(tree["tree_param"]["size_leaf_vector"]) > 1:
        raise UnsupportedTreesError(
            "`model` must have one number per leaf to be converted, got XGBoost's multi_output_tree."
        )
    if any(tree["split_type"]):
        raise UnsupportedTreesError(
            "`model` must have numerical features only to be converted, got XGBoost trees of categories."
        )
    left, right = (np.array(tree[f"{side}_children"], dtype=np.int64) for side in ("left", "right"))
    stored = np.array(tree["split_conditions"], dtype=np.float32)
    return Tree(
        np.where(left < 0, LEAF, np.array(tree["split_indices"], dtype=np.int64)),
        np.nextafter(stored, np.float32(-np.inf)).astype(np.float64),  # XGBoost compares with <, not with <=
        left,
        right,
        (weight * stored.astype(np.float64))[:, None],
    )
