"""Small fitted tree ensembles of every kind that can be read, shared by the tests of readers and of explanations."""

from functools import cache

import numpy as np
from lightgbm import Dataset, LGBMClassifier, LGBMRegressor, train
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor
from xgboost import DMatrix, XGBClassifier, XGBRegressor, XGBRFClassifier
from xgboost import train as train_xgboost

RNG = np.random.default_rng(0)
# Tenths tie with thresholds, and most of them are rounded in single precision; the last column is a code.
X = np.round(RNG.normal(size=(150, 7)), 1)
X[:, 6] = RNG.integers(0, 6, size=150)
SCORE = X[:, 0] * X[:, 1] + np.where(X[:, 2] > 0, X[:, 3], X[:, 4]) + np.isin(X[:, 6], [0, 3, 4])
BINARY = (SCORE - np.median(SCORE) > 0).astype(int)
CLASSES = np.digitize(SCORE, np.quantile(SCORE, [0.3, 0.7]))
TARGETS = {"binary": BINARY, "classes": CLASSES, "value": SCORE}

_LIGHT = {"n_estimators": 6, "num_leaves": 8, "min_child_samples": 5, "verbosity": -1, "n_jobs": 1}
_CODES = {"categorical_feature": [6]}
_FINE = {"min_data_per_group": 5, "cat_smooth": 1.0, "max_cat_to_onehot": 1}
_BAGGED = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}
_XGB = {"n_estimators": 6, "max_depth": 4, "n_jobs": 1}
_HIST = {"max_iter": 6, "max_leaf_nodes": 8, "min_samples_leaf": 5}

# name: (estimator, target, arguments of fit)
ESTIMATORS = {
    "decision tree": (DecisionTreeClassifier(random_state=0), "classes", {}),
    "decision tree, value": (DecisionTreeRegressor(max_depth=5, random_state=0), "value", {}),
    "extra tree, value": (ExtraTreeRegressor(random_state=0), "value", {}),
    "single leaf": (DecisionTreeRegressor(max_leaf_nodes=None, min_samples_leaf=100), "value", {}),
    "forest, binary": (RandomForestClassifier(8, random_state=0), "binary", {}),
    "forest, classes": (RandomForestClassifier(8, max_depth=4, random_state=0), "classes", {}),
    "forest, value": (RandomForestRegressor(8, random_state=0), "value", {}),
    "extra trees": (ExtraTreesClassifier(8, random_state=0), "classes", {}),
    "extra trees, value": (ExtraTreesRegressor(8, max_depth=5, random_state=0), "value", {}),
    "boosting, binary": (GradientBoostingClassifier(n_estimators=6, random_state=0), "binary", {}),
    "boosting, classes": (GradientBoostingClassifier(n_estimators=4, random_state=0), "classes", {}),
    "boosting from zero": (GradientBoostingClassifier(n_estimators=6, init="zero", random_state=0), "binary", {}),
    "boosting, value": (GradientBoostingRegressor(n_estimators=6, loss="huber", random_state=0), "value", {}),
    "histogram, binary": (HistGradientBoostingClassifier(**_HIST), "binary", {}),
    "histogram, classes": (HistGradientBoostingClassifier(**_HIST), "classes", {}),
    "histogram, value": (HistGradientBoostingRegressor(**_HIST), "value", {}),
    "lightgbm, binary": (LGBMClassifier(**_LIGHT), "binary", {}),
    "lightgbm, classes": (LGBMClassifier(**_LIGHT), "classes", {}),
    "lightgbm, value": (LGBMRegressor(**_LIGHT), "value", {}),
    "lightgbm, codes": (LGBMClassifier(**_LIGHT, **_FINE), "binary", _CODES),
    "lightgbm, one code each": (LGBMRegressor(**_LIGHT, min_data_per_group=5), "value", _CODES),
    "lightgbm, averaged": (LGBMClassifier(**_LIGHT, **_BAGGED, random_state=0), "classes", {}),
    "lightgbm, dart": (LGBMRegressor(**_LIGHT, boosting_type="dart", drop_rate=0.5, random_state=0), "value", {}),
    "xgboost, binary": (XGBClassifier(**_XGB), "binary", {}),
    "xgboost, classes": (XGBClassifier(**_XGB), "classes", {}),
    "xgboost, value": (XGBRegressor(**_XGB), "value", {}),
    "xgboost, forest": (XGBRFClassifier(**_XGB, random_state=0), "binary", {}),
    "xgboost, dart": (XGBClassifier(**_XGB, booster="dart", rate_drop=0.5, random_state=0), "classes", {}),
    "xgboost, stopped": (XGBClassifier(**{**_XGB, "n_estimators": 60}, early_stopping_rounds=2), "classes", {}),
}
BOOSTERS = ("lightgbm booster, binary", "lightgbm booster, value", "xgboost booster, classes", "xgboost booster, value")


@cache
def fitted(name: str):
    """The model of a name, fitted, and what it predicts."""
    if name in BOOSTERS:
        return _booster(name), name.split(", ")[1]
    estimator, target, arguments = ESTIMATORS[name]
    y = TARGETS[target]
    if name == "xgboost, stopped":
        estimator.fit(X[:100], y[:100], eval_set=[(X[100:], y[100:])], verbose=False)
        assert estimator.best_iteration < estimator.get_booster().num_boosted_rounds() - 1
        return estimator, target
    return estimator.fit(X, y, **arguments), target


def _booster(name: str):
    target = name.split(", ")[1]
    if name.startswith("lightgbm"):
        objective = "binary" if target == "binary" else "regression"
        return train({"objective": objective, "verbosity": -1, "num_leaves": 8}, Dataset(X, TARGETS[target]), 5)
    kind = {"objective": "multi:softprob", "num_class": 3} if target == "classes" else {"objective": "reg:squarederror"}
    return train_xgboost({**kind, "max_depth": 4}, DMatrix(X, TARGETS[target]), 5)


def margin_behavior(target: str) -> str:
    """What is linear in the leaves of boosted trees."""
    return "output" if target == "value" else "logit"


def linear_behavior(name: str) -> str:
    """What is linear in the leaves of a model."""
    target = fitted(name)[1]
    averages = name.startswith(("decision", "extra", "single", "forest"))
    return "probability" if averages and target != "value" else margin_behavior(target)
