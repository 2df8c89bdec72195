"""Tree ensembles as they are read: the same scores as their own library, or a refusal that says why."""

from copy import copy

import numpy as np
import pytest
import torch
from lightgbm import LGBMClassifier, LGBMRegressor
from scipy.special import expit, softmax
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeRegressor
from xgboost import XGBClassifier, XGBRegressor

from bivshap_lightning.game import Game
from bivshap_lightning.game.model import Model
from bivshap_lightning.game.trees import UnsupportedTreesError, check_trees, read_trees, scoring_method
from tests.tree_models import BINARY, BOOSTERS, CLASSES, ESTIMATORS, SCORE, X, fitted


def rows_on_the_edge(model) -> np.ndarray:
    """Rows whose values lie on thresholds of the model, and next to them in single and in double precision."""
    trees, rng = read_trees(model), np.random.default_rng(1)
    rows = rng.choice(X.ravel(), size=(400, X.shape[1]))
    inner = trees.feature >= 0
    for column in range(X.shape[1] - 1):
        edges = trees.threshold[inner & (trees.feature == column)].numpy()
        if len(edges):
            single = edges.astype(np.float32).astype(np.float64)
            up, down = np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)
            edges = np.concatenate([edges, single, up, down])
            edges[np.abs(edges) < 1e-30] = 0  # which LightGBM takes for zero
            rows[::2, column] = rng.choice(edges, size=200)
    rows[:, 6] = rng.choice([-3, -0.5, 0, 1, 2, 2.7, 3, 4, 5, 9, 1e6], size=400)
    return rows


@pytest.mark.parametrize("name", [*ESTIMATORS, *BOOSTERS])
def test_trees_say_what_their_model_says(name):
    model, _ = fitted(name)
    rows = torch.tensor(np.concatenate([X, rows_on_the_edge(model)]))
    scores = Model(model)((rows,)).double()
    np.testing.assert_allclose(read_trees(model)(rows), scores, rtol=0, atol=2e-6 * max(1, scores.abs().max()))


@pytest.mark.parametrize("name", [name for name, (_, y, _) in ESTIMATORS.items() if y != "value"])
def test_margins_become_the_probabilities_of_the_estimator(name):
    model, target = fitted(name)
    game = Game(model, X[:40])
    one, all_of_them = game.target, torch.ones(1, 1, X.shape[1], dtype=torch.bool)
    expected = model.predict_proba(X[:40])
    np.testing.assert_array_equal(one, expected.argmax(axis=1))
    np.testing.assert_allclose(game(all_of_them)[:, 0], expected.max(axis=1), atol=1e-6)
    assert game.n_outputs == (1 if target == "binary" and not name.startswith("forest") else len(model.classes_))
    assert Model(model).class_names.tolist() == model.classes_.tolist()


def test_boosters_know_their_objective():
    binary, classes = fitted("lightgbm booster, binary")[0], fitted("xgboost booster, classes")[0]
    rows = torch.tensor(X)
    np.testing.assert_allclose(expit(Model(binary)((rows,))[:, 0].numpy()), binary.predict(X), atol=1e-9)
    np.testing.assert_allclose(softmax(Model(classes)((rows,)).numpy(), axis=1), classes.inplace_predict(X), atol=1e-6)
    for name in ("lightgbm booster, value", "xgboost booster, value"):
        assert Model(fitted(name)[0]).is_regressor


@pytest.mark.parametrize("name", ["lightgbm, value", "xgboost, value", "boosting, value", "histogram, value"])
def test_boosted_regressors_stay_regressors(name):
    model = Model(fitted(name)[0])
    assert model.is_regressor
    assert model.link is None
    with pytest.raises(ValueError, match="`behavior` must be 'output' or 'loss' for a regressor"):
        Game(fitted(name)[0], X[:2])


def test_a_margin_between_zero_and_one_is_no_probability():
    model = GradientBoostingClassifier(n_estimators=6, random_state=0).fit(X, BINARY)
    margins = model.decision_function(X)
    between = X[(margins > 0) & (margins < 1)][:1]
    game = Game(model, between)
    assert game.behavior.link == "sigmoid"
    assert float(game(torch.ones(1, 1, 7, dtype=torch.bool))) == pytest.approx(model.predict_proba(between)[0, 1])


def test_what_is_no_plain_margin_is_entered_as_before():
    exponential = GradientBoostingClassifier(n_estimators=3, loss="exponential").fit(X, BINARY)
    steep = LGBMClassifier(n_estimators=3, sigmoid=2.0, verbosity=-1).fit(X, BINARY)
    raw = XGBClassifier(n_estimators=3, objective="binary:hinge").fit(X, BINARY)
    for model in (exponential, steep, raw, RandomForestClassifier(3).fit(X, BINARY)):
        assert scoring_method(model) is None
        assert Model(model).method == "predict_proba"
        np.testing.assert_allclose(Model(model)((torch.tensor(X),)), model.predict_proba(X))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (LogisticRegression(), "must be a tree ensemble of scikit-learn, LightGBM or XGBoost.*got LogisticRegression"),
        (GradientBoostingClassifier(n_estimators=2, loss="exponential"), "must have loss='log_loss'.*'exponential'"),
        (
            GradientBoostingRegressor(n_estimators=2, init=DecisionTreeRegressor(max_depth=1)),
            "must start from a constant.*init=DecisionTreeRegressor",
        ),
        (HistGradientBoostingClassifier(max_iter=2, categorical_features=[6]), "numerical features only.*categories"),
        (HistGradientBoostingRegressor(max_iter=2, loss="poisson"), "must be a sum of trees.*loss='poisson'"),
        (LGBMClassifier(n_estimators=2, sigmoid=2.0, verbosity=-1), "objective binary sigmoid:2"),
        (LGBMRegressor(n_estimators=2, objective="poisson", verbosity=-1), "objective poisson"),
        (LGBMRegressor(n_estimators=2, reg_sqrt=True, verbosity=-1), "objective regression sqrt"),
        (
            LGBMRegressor(n_estimators=2, zero_as_missing=True, verbosity=-1),
            "distinguish zero from missing.*zero_as_missing",
        ),
        (LGBMRegressor(n_estimators=2, linear_tree=True, verbosity=-1), "constant leaves.*linear_tree"),
        (XGBRegressor(n_estimators=2, objective="count:poisson"), "objective count:poisson"),
        (XGBRegressor(n_estimators=2, missing=0.0), "missing=nan.*missing=0.0"),
        (XGBRegressor(n_estimators=2, booster="gblinear"), "must consist of trees.*'gblinear'"),
        (
            XGBRegressor(n_estimators=2, enable_categorical=True, feature_types=["q"] * 6 + ["c"], max_cat_to_onehot=1),
            "numerical features only.*XGBoost trees of categories",
        ),
        (
            XGBClassifier(n_estimators=2, multi_strategy="multi_output_tree", tree_method="hist"),
            "one number per leaf.*multi_output_tree",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_refused_with_a_reason(model, reason):
    classes = getattr(model, "multi_strategy", None) == "multi_output_tree"
    is_regressor = type(model).__name__.endswith("Regressor")
    y = CLASSES if classes else np.exp(SCORE / 4) if is_regressor else BINARY
    with pytest.raises(UnsupportedTreesError, match=reason):
        read_trees(model.fit(X, y))


def test_a_layout_of_another_version_is_refused():
    model = copy(fitted("histogram, value")[0])
    del model._predictors
    with pytest.raises(UnsupportedTreesError, match=r"known layout, got a HistGradientBoostingRegressor .*_predictors"):
        read_trees(model)


def test_a_model_that_was_not_fitted_says_so_itself():
    for model in (GradientBoostingClassifier(), LGBMClassifier(), XGBClassifier()):
        with pytest.raises(NotFittedError):
            Model(model)((torch.tensor(X),))


def test_forests_of_several_things():
    both = np.stack([BINARY, CLASSES], axis=1)
    with pytest.raises(
        UnsupportedTreesError, match="must predict one target to be converted, got a RandomForestClassifier of 2"
    ):
        read_trees(RandomForestClassifier(2).fit(X, both))
    model = DecisionTreeRegressor(max_depth=4).fit(X, np.stack([SCORE, -2 * SCORE], axis=1))
    np.testing.assert_allclose(read_trees(model)(torch.tensor(X)), model.predict(X))


def test_trees_that_say_something_else_are_refused():
    model, rows = fitted("forest, classes")[0], torch.tensor(X)
    trees, scores = read_trees(model), torch.tensor(model.predict_proba(X))
    check_trees(trees, rows, scores)
    with pytest.raises(UnsupportedTreesError, match=r"got scores that differ by 0\.01 on a scale of 0\.84"):
        check_trees(trees, rows, scores + 0.01)
    with pytest.raises(UnsupportedTreesError, match="got 2 scores for 3 sums"):
        check_trees(trees, rows, scores[:, :2])


@pytest.mark.parametrize("name", ["lightgbm, codes", "lightgbm, one code each"])
def test_sets_of_codes_are_among_what_is_read(name):
    assert len(read_trees(fitted(name)[0]).category_sets) > 0
