"""Which library a model comes from, by which door it is entered, and who reads its trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bivshap_lightning.game.behavior import Link
from bivshap_lightning.game.trees import from_lightgbm, from_sklearn, from_xgboost
from bivshap_lightning.game.trees.ensemble import TreeEnsemble, TreesRefused


@dataclass(frozen=True)
class Entrance:
    """How a tree ensemble is asked.

    Attributes:
        call: from an array of rows to scores.
        method: "margin", or "predict" for a regression.
        link: how margins become probabilities, None for a regression.
    """

    call: Callable[..., Any]
    method: str
    link: Link | None


def entrance_of(model: Any) -> Entrance | None:
    """The way into a model that adds up trees before it makes probabilities; None if it is entered like any other.

    Example:
        >>> import numpy as np
        >>> from sklearn.ensemble import GradientBoostingClassifier
        >>> model = GradientBoostingClassifier(n_estimators=2).fit(np.eye(4), [0, 0, 1, 1])
        >>> entrance_of(model).link
        'sigmoid'
    """
    kinds = _kinds(model)
    if kinds & {"sklearn.GradientBoostingClassifier", "sklearn.HistGradientBoostingClassifier"}:
        if model.loss != "log_loss":
            return None
        n_classes = len(getattr(model, "classes_", ()))
        return Entrance(model.decision_function, "margin", "softmax" if n_classes > 2 else "sigmoid")
    if kinds & {"lightgbm.LGBMClassifier", "lightgbm.Booster"}:
        door = from_lightgbm.entrance(model)
        return None if door is None else Entrance(door[0], "margin", door[1])
    if "xgboost.XGBClassifier" in kinds:
        link = from_xgboost.link_of(model.get_booster())
        return None if link is None else Entrance(lambda x: model.predict(x, output_margin=True), "margin", link)
    if "xgboost.Booster" in kinds:
        link = from_xgboost.link_of(model)
        if link is None:  # a booster wants its library's own matrices in `predict`
            return Entrance(model.inplace_predict, "predict", None)
        return Entrance(lambda x: model.inplace_predict(x, predict_type="margin"), "margin", link)
    return None


def read_trees(model: Any, categories: Sequence[Sequence[Any]] = ()) -> TreeEnsemble:
    """A model's trees, such that their sum is what the model says when it is entered as it should be.

    Args:
        model: a fitted DecisionTree, ExtraTree, RandomForest, ExtraTrees, GradientBoosting or HistGradientBoosting
            estimator of scikit-learn, an estimator or booster of LightGBM or XGBoost.
        categories: for each column of categories in the rows, what its codes 0, 1, ... stand for.

    Raises:
        TreesRefused: the model is something else, its trees are of a kind that is not a sum of leaves, or it gives
            categories other codes.

    Example:
        >>> import numpy as np, torch
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> x = np.array([[0.0], [1.0]])
        >>> read_trees(DecisionTreeRegressor().fit(x, [3.0, 5.0]))(torch.tensor(x))
        tensor([[3.],
                [5.]], dtype=torch.float64)
    """
    kinds = _kinds(model)
    for names, read in _READERS:
        if kinds & names:
            _check_codes(model, kinds, categories)
            try:
                return read(model)
            except (AttributeError, KeyError) as error:
                raise TreesRefused(
                    f"`model` must keep its trees in a layout known here, got a {type(model).__name__} of another "
                    f"version of its library ({type(error).__name__}: {error})."
                ) from error
    raise TreesRefused(
        f"`model` must be a tree ensemble of scikit-learn, LightGBM or XGBoost to be read, got {type(model).__name__}."
    )


_READERS: tuple[tuple[set[str], Callable[[Any], TreeEnsemble]], ...] = (
    ({"sklearn.BaseDecisionTree", "sklearn.BaseForest"}, from_sklearn.read_forest),
    ({"sklearn.BaseGradientBoosting"}, from_sklearn.read_boosting),
    ({"sklearn.BaseHistGradientBoosting"}, from_sklearn.read_histogram_boosting),
    ({"lightgbm.LGBMModel", "lightgbm.Booster"}, from_lightgbm.read),
    ({"xgboost.XGBModel", "xgboost.Booster"}, from_xgboost.read),
)


def _check_codes(model: Any, kinds: set[str], categories: Sequence[Sequence[Any]]) -> None:
    """Refuse codes that are not the numbers which the model compares: it would be led another way."""
    if kinds & {"lightgbm.LGBMModel", "lightgbm.Booster"}:
        expected = from_lightgbm.categories(model)
    else:
        expected = [list(range(len(known))) for known in categories]
    if categories and [list(known) for known in categories] != expected:
        raise TreesRefused(
            "`inputs` must have the categories the model was trained with, in the same order, to be sent down trees, "
            f"got {[list(known)[:5] for known in categories]} instead of {[known[:5] for known in expected]}."
        )


def _kinds(model: Any) -> set[str]:
    """The classes a model is an instance of, as library.Class."""
    return {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(model).__mro__}
