"""Recognises tree ensembles: which method returns their scores, and which converter reads their trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bivshap_lightning.game.behavior import Link
from bivshap_lightning.game.trees import from_lightgbm, from_sklearn, from_xgboost
from bivshap_lightning.game.trees.ensemble import TreeEnsemble, UnsupportedTreesError


@dataclass(frozen=True)
class ScoringMethod:
    """The function that returns the scores of a tree ensemble.

    Attributes:
        call: from an array of rows to scores.
        method: "margin", or "predict" for a regression.
        link: how margins become probabilities, None for a regression.
    """

    call: Callable[..., Any]
    method: str
    link: Link | None


def scoring_method(model: Any) -> ScoringMethod | None:
    """How to call a model that adds up trees before it computes probabilities; None if it is called like any other.

    Example:
        >>> import numpy as np
        >>> from sklearn.ensemble import GradientBoostingClassifier
        >>> model = GradientBoostingClassifier(n_estimators=2).fit(np.eye(4), [0, 0, 1, 1])
        >>> scoring_method(model).link
        'sigmoid'
    """
    kinds = _kinds(model)
    if kinds & {"sklearn.GradientBoostingClassifier", "sklearn.HistGradientBoostingClassifier"}:
        if model.loss != "log_loss":
            return None
        n_classes = len(getattr(model, "classes_", ()))
        return ScoringMethod(model.decision_function, "margin", "softmax" if n_classes > 2 else "sigmoid")
    if kinds & {"lightgbm.LGBMClassifier", "lightgbm.Booster"}:
        margin = from_lightgbm.margin_function(model)
        return None if margin is None else ScoringMethod(margin[0], "margin", margin[1])
    if "xgboost.XGBClassifier" in kinds:
        link = from_xgboost.link_of(model.get_booster())
        return None if link is None else ScoringMethod(lambda x: model.predict(x, output_margin=True), "margin", link)
    if "xgboost.Booster" in kinds:
        link = from_xgboost.link_of(model)
        if link is None:  # `predict` of a booster takes only the matrices of its library
            return ScoringMethod(model.inplace_predict, "predict", None)
        return ScoringMethod(lambda x: model.inplace_predict(x, predict_type="margin"), "margin", link)
    return None


def read_trees(model: Any, categories: Sequence[Sequence[Any]] = ()) -> TreeEnsemble:
    """The trees of a model, whose sum is what :func:`scoring_method` returns.

    Args:
        model: a fitted DecisionTree, ExtraTree, RandomForest, ExtraTrees, GradientBoosting or HistGradientBoosting
            estimator of scikit-learn, an estimator or booster of LightGBM or XGBoost.
        categories: for each categorical column of the rows, the categories with the codes 0, 1, ...

    Raises:
        UnsupportedTreesError: the model is something else, its trees are of a kind that is not a sum of leaves, or its
            categories have other codes.

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
                raise UnsupportedTreesError(
                    f"`model` must store its trees in a known layout, got a {type(model).__name__} of another "
                    f"version of its library ({type(error).__name__}: {error})."
                ) from error
    raise UnsupportedTreesError(
        "`model` must be a tree ensemble of scikit-learn, LightGBM or XGBoost to be converted, got "
        f"{type(model).__name__}."
    )


_READERS: tuple[tuple[set[str], Callable[[Any], TreeEnsemble]], ...] = (
    ({"sklearn.BaseDecisionTree", "sklearn.BaseForest"}, from_sklearn.read_forest),
    ({"sklearn.BaseGradientBoosting"}, from_sklearn.read_boosting),
    ({"sklearn.BaseHistGradientBoosting"}, from_sklearn.read_histogram_boosting),
    ({"lightgbm.LGBMModel", "lightgbm.Booster"}, from_lightgbm.read),
    ({"xgboost.XGBModel", "xgboost.Booster"}, from_xgboost.read),
)


def _check_codes(model: Any, kinds: set[str], categories: Sequence[Sequence[Any]]) -> None:
    """Refuse codes of categories that differ from those of the model."""
    if kinds & {"lightgbm.LGBMModel", "lightgbm.Booster"}:
        expected = from_lightgbm.categories(model)
    else:
        expected = [list(range(len(known))) for known in categories]
    if categories and [list(known) for known in categories] != expected:
        raise UnsupportedTreesError(
            "`inputs` must have the categories the model was trained with, in the same order, for a tree ensemble, "
            f"got {[list(known)[:5] for known in categories]} instead of {[known[:5] for known in expected]}."
        )


def _kinds(model: Any) -> set[str]:
    """The classes a model is an instance of, as library.Class."""
    return {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(model).__mro__}
