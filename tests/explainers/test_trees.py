"""Exact values of trees: the closed form against the definition, and every kind of ensemble against enumeration."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeRegressor

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import conjunctions, trees
from bivshap_lightning.explainers.conjunctions import ConjunctionSum
from bivshap_lightning.game.trees import UnsupportedTreesError, read_trees
from tests.oracles import enumerate_e2, enumerate_shapley
from tests.tree_models import BINARY, BOOSTERS, CLASSES, ESTIMATORS, SCORE, X, fitted, linear_behavior

SAMPLES = X[:4]
REMOVALS = {
    "zero": {},
    "row": {"baselines": X.mean(axis=0)},
    "row per sample": {"baselines": X[10:14]},
    "background": {"background": X[20:33]},
}


def both(model, behavior, samples=SAMPLES, **arguments):
    """The explanation by trees and the one by enumeration."""
    explanations = [BivariateShapley(model, m, behavior).attribute(samples, **arguments) for m in ("trees", "exact")]
    assert [e.method for e in explanations] == ["trees", "exact"]
    return explanations


def assert_same(by_trees, by_enumeration):
    # Libraries that add up in single precision are enumerated in single precision.
    atol = 1e-12 if by_enumeration.bivariate.dtype == torch.float64 else 2e-6
    torch.testing.assert_close(by_trees.bivariate, by_enumeration.bivariate, rtol=0, atol=atol)
    torch.testing.assert_close(by_trees.shapley, by_enumeration.shapley, rtol=0, atol=atol)


@given(st.integers(2, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_conjunctions_have_the_values_of_the_definition(n, n_leaves, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n_leaves)
    literals = np.full((n_leaves, n), -1)
    for row in literals:
        players = rng.choice(n, size=rng.integers(0, n + 1), replace=False)
        row[rng.choice(n, size=len(players), replace=False)] = 2 * players + rng.integers(0, 2, size=len(players))

    def worth(s):
        met = [all((k % 2 == 0) == (k // 2 in s) for k in row if k >= 0) for row in literals]
        return float(values @ np.array(met))

    sums = ConjunctionSum(2, n)
    sums.add(torch.ones(n_leaves, dtype=torch.long), torch.tensor(values), torch.tensor(literals))
    estimate = sums.estimate()
    np.testing.assert_allclose(estimate.bivariate[1], enumerate_e2(worth, n), atol=1e-12)
    np.testing.assert_allclose(estimate.shapley[1], enumerate_shapley(worth, n), atol=1e-12)
    np.testing.assert_allclose(estimate.null_column[1], enumerate_e2(worth, n + 1)[:n, n], atol=1e-12)
    assert not estimate.bivariate[0].any()  # nothing was added for the first sample


@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize("name", [*ESTIMATORS, *BOOSTERS])
def test_every_ensemble_equals_enumeration(name, removal):
    assert_same(*both(fitted(name)[0], linear_behavior(name), **REMOVALS[removal]))


@pytest.mark.parametrize(
    ("name", "behavior", "target"),
    [
        ("forest, binary", "probability", 0),
        ("forest, classes", "output", 2),
        ("boosting, binary", "logit", 0),
        ("boosting, binary", "log_odds", [0, 1, 0, 1]),
        ("xgboost, binary", "output", None),
        ("lightgbm, classes", "logit", [2, 1, 0, 2]),
        ("histogram, classes", "output", 1),
    ],
)
def test_what_is_read_linearly(name, behavior, target):
    assert_same(*both(fitted(name)[0], behavior, target=target, baselines=X[50]))


def test_the_odds_of_two_columns_are_their_difference():
    forest = fitted("forest, binary")[0]
    by_trees, exact = (
        BivariateShapley(forest, method, "log_odds", link="softmax").attribute(SAMPLES, baselines=X[50])
        for method in ("trees", "exact")
    )
    assert_same(by_trees, exact)


@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize(
    "mask",
    [
        [[0, 1, 1, 2, 2, 0, 3]],
        [[-1, 0, 1, 2, -1, 3, 4]],
        [[-1, 0, 0, 1, 1, -1, 2]],
        [[0, 1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 2, 2, -1], [-1, 0, 1, 0, 1, 0, 1], [0, 1, 2, 3, 3, 3, 4]],
    ],
    ids=["groups", "fixed", "groups and fixed", "per sample"],
)
@pytest.mark.parametrize("name", ["forest, classes", "xgboost, binary", "lightgbm, codes"])
def test_players_of_any_shape(name, mask, removal):
    assert_same(*both(fitted(name)[0], linear_behavior(name), feature_mask=torch.tensor(mask), **REMOVALS[removal]))


def test_null_players_have_no_row_and_share_a_column():
    model = fitted("extra tree, value")[0]
    row = X[60].copy()
    row[[1, 4]] = SAMPLES[0, [1, 4]]
    explanation, _ = both(model, "output", samples=SAMPLES[:1], baselines=row)

    def value(s):
        mixed = np.where(np.isin(np.arange(7), list(s)), SAMPLES[0], row)
        return float(model.predict(mixed[None])[0])

    np.testing.assert_allclose(explanation.bivariate[0], enumerate_e2(value, 7), atol=1e-12)
    assert explanation.null_players[0].nonzero()[:, 0].tolist() == [1, 4]
    assert not explanation.bivariate[0, [1, 4]].any()
    others = [0, 2, 3, 5, 6]
    torch.testing.assert_close(explanation.bivariate[0, others, 1], explanation.bivariate[0, others, 4])


def test_everybody_may_be_null():
    explanation, _ = both(fitted("forest, value")[0], "output", baselines=SAMPLES)
    assert not explanation.bivariate.any()
    assert not explanation.shapley.any()


def test_a_single_leaf_is_worth_nothing_to_anybody():
    explanation, _ = both(fitted("single leaf")[0], "output")
    assert not explanation.bivariate.any()


def test_the_copy_of_a_column_is_exactly_redundant():
    x = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    either = DecisionTreeRegressor().fit(x, x.max(axis=1))
    explanation = BivariateShapley(either, behavior="output").attribute(np.ones((1, 2)))
    assert explanation.method == "trees"
    assert explanation.bivariate[0].tolist() == [[0, 0], [0, 0]]
    assert explanation.shapley[0].tolist() == [0.5, 0.5]
    assert explanation.graph(0).redundancy(gamma=0).groups == ((0, 1),)


def test_few_walkers_at_a_time_find_the_same(monkeypatch):
    model = fitted("forest, classes")[0]
    expected = BivariateShapley(model).attribute(SAMPLES, **REMOVALS["background"])
    monkeypatch.setattr(trees, "MAX_PATHS", 5)
    monkeypatch.setattr(conjunctions, "PAIRS_AT_ONCE", 7)
    found = BivariateShapley(model).attribute(SAMPLES, **REMOVALS["background"])
    torch.testing.assert_close(found.bivariate, expected.bivariate, rtol=0, atol=1e-13)


def test_shapley_values_of_a_large_forest_are_those_of_shap():
    from shap import TreeExplainer

    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 60))
    model = RandomForestClassifier(30, random_state=0).fit(x, x[:, :8].sum(axis=1) + x[:, 8] * x[:, 9] > 0)
    explanation = BivariateShapley(model).attribute(x[:3], target=1, background=x[100:120])
    assert explanation.method == "trees"
    shap = TreeExplainer(model, data=x[100:120], feature_perturbation="interventional")
    np.testing.assert_allclose(explanation.shapley, shap.shap_values(x[:3])[..., 1], atol=1e-6)


def test_single_and_double_precision_inputs_take_the_same_way_as_the_model():
    for name in ("forest, value", "lightgbm, value", "xgboost, value"):
        for dtype in (torch.float32, torch.float64):
            samples = torch.tensor(SAMPLES, dtype=dtype)
            assert_same(*both(fitted(name)[0], "output", samples=samples, baselines=torch.tensor(X[7])))


def test_a_result_is_exact_and_costs_nothing():
    forest = fitted("forest, classes")[0]
    game = Game(forest, SAMPLES)
    explanation = BivariateShapley(forest).explain(game, n_evaluations=0)
    assert explanation.method == "trees"
    assert explanation.is_exact
    assert explanation.n_evaluations.tolist() == [0] * 4
    assert not explanation.standard_error.any()
    assert not explanation.graph(0).is_estimated
    assert BivariateShapley(forest).explainer.minimum_evaluations(game) == 0
    assert int(game.n_evaluations.max()) == 8  # two for the game itself and six to check the trees, once
    BivariateShapley(forest).explain(game)
    assert int(game.n_evaluations.max()) == 8


def test_forty_players_need_no_luck():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 40))
    forest = RandomForestClassifier(20, max_depth=5, random_state=0).fit(x, x[:, 0] * x[:, 1] > 0)
    exact = BivariateShapley(forest).attribute(x[:2], baselines=x.mean(axis=0))
    sampled = BivariateShapley(forest, "sampling").attribute(x[:2], baselines=x.mean(axis=0))
    off = (exact.bivariate - sampled.bivariate).abs()
    assert (off <= 6 * sampled.standard_error + 1e-9).all()
    assert sampled.standard_error.max() < 0.02


@pytest.mark.parametrize("removal", ["row", "background"])
def test_frames_with_categories(removal):
    pandas = pytest.importorskip("pandas")
    kinds = pandas.Categorical.from_codes(X[:, 6].astype(int), list("uvwxyz"))
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 2], "kind": kinds})
    settings = {"min_child_samples": 5, "min_data_per_group": 5, "cat_smooth": 1.0, "max_cat_to_onehot": 1}
    model = LGBMClassifier(n_estimators=6, verbosity=-1, **settings).fit(frame, BINARY)
    assert len(read_trees(model).category_sets) > 0
    stand_in = {"baselines": frame.iloc[[9]]} if removal == "row" else {"background": frame.iloc[20:30]}
    assert_same(*both(model, "logit", samples=frame.iloc[:4], **stand_in))


@pytest.mark.parametrize(
    ("model", "arguments", "reason"),
    [
        (lambda x: x.sum(axis=1), {"behavior": "output"}, "must be a tree ensemble .* got function"),
        (torch.nn.Linear(7, 2), {}, "must be a tree ensemble .* got Linear"),
        (LogisticRegression().fit(X, BINARY), {}, "must be a tree ensemble .* got LogisticRegression"),
        (fitted("forest, binary")[0], {"link": "softmax"}, "must be linear in the leaves of trees, got 'probability'"),
        (fitted("xgboost, binary")[0], {}, "got 'probability' of scores with link 'sigmoid'. .*'logit' for boosted"),
        (fitted("lightgbm, classes")[0], {"behavior": "loss"}, "got 'loss' of scores with link 'softmax'"),
        (fitted("forest, value")[0], {"behavior": lambda s, t: s[:, 0] ** 2}, "got '<lambda>'"),
    ],
)
def test_what_is_no_sum_of_leaves_is_refused_and_left_to_others(model, arguments, reason):
    samples = torch.tensor(SAMPLES) if isinstance(model, torch.nn.Module) else SAMPLES
    with pytest.raises(UnsupportedTreesError, match=reason):
        BivariateShapley(model, "trees", **arguments).attribute(samples)
    assert BivariateShapley(model, "auto", **arguments).attribute(samples).method == "exact"


def test_a_regression_loss_is_no_sum_of_leaves():
    explainer = BivariateShapley(fitted("forest, value")[0], behavior="loss")
    assert explainer.attribute(SAMPLES, target=SCORE[:4]).method == "exact"


def test_further_arguments_are_not_sent_down_trees():
    class Shifted(RandomForestClassifier):
        """A forest that takes another argument."""

        def predict_proba(self, x, shift=0):
            return super().predict_proba(x)

    model = Shifted(3, random_state=0).fit(X, CLASSES)
    with pytest.raises(UnsupportedTreesError, match=r"`inputs` must be one table and nothing else .* got \[\(4, 7\)\]"):
        BivariateShapley(model, "trees").attribute(SAMPLES, additional_forward_args=1)


def test_a_forest_that_says_something_else_than_its_trees_is_asked_itself():
    class Sharpened(RandomForestClassifier):
        """Probabilities that are no mean of leaves."""

        def predict_proba(self, x):
            p = super().predict_proba(x) ** 2
            return p / p.sum(axis=1, keepdims=True)

    model = Sharpened(5, random_state=0).fit(X, CLASSES)
    with pytest.raises(UnsupportedTreesError, match="`model` must equal the sum of its trees, got scores that differ"):
        BivariateShapley(model, "trees").attribute(SAMPLES)
    assert BivariateShapley(model).attribute(SAMPLES).method == "exact"


def test_reading_trees_draws_no_random_numbers(global_rng_untouched):
    BivariateShapley(fitted("forest, classes")[0]).attribute(SAMPLES)


def test_categories_with_other_codes_are_not_sent_down_trees():
    pandas = pytest.importorskip("pandas")
    kinds = pandas.Categorical.from_codes(X[:, 6].astype(int), list("uvwxyz"))
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 2], "kind": kinds})
    model = LGBMClassifier(n_estimators=6, verbosity=-1, min_child_samples=5, min_data_per_group=5).fit(frame, BINARY)
    few = frame.iloc[:1].assign(kind=frame["kind"].iloc[:1].cat.remove_unused_categories())
    with pytest.raises(
        UnsupportedTreesError, match="must have the categories the model was trained with, in the same order"
    ):
        Game(model, few, baselines=few, behavior="logit").trees()
    # scikit-learn reads categories as the numbers they are, 10 and 20, and not as codes.
    tens = pandas.DataFrame({name: pandas.Categorical(X[:, 6].astype(int) * 10) for name in "ab"})
    forest = RandomForestClassifier(5, random_state=0).fit(tens, BINARY)
    with pytest.raises(UnsupportedTreesError, match=r"got \[\[0, 10, 20, 30, 40\].* instead of \[\[0, 1, 2, 3, 4\]"):
        Game(forest, tens.iloc[:1], baselines=tens.iloc[[0]]).trees()


def test_truth_values_are_sent_down_trees():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 2] > 0})
    forest = RandomForestClassifier(5, random_state=0).fit(frame, BINARY)
    rows = frame[frame["b"]]
    assert_same(*both(forest, "probability", samples=rows.iloc[:2], baselines=rows.iloc[[5]]))
