"""The registry: every registered explainer on one game, users' own ones, names that are unknown, and registration."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bivshap_lightning import BivariateShapley, Explanation, Game
from bivshap_lightning.explainers import (
    Auto,
    Explainer,
    default_coalitions,
    default_evaluations,
    explainer_names,
    find_explainer,
    register,
    registry,
)
from bivshap_lightning.explainers.exact import Exact, explain_exactly
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.metrics import DeletionAUC, InsertionAUC, MutualRedundancyMasking, PostHocAccuracy
from tests.oracles import enumerate_e2, enumerate_shapley, table_model, table_value

N = 5
# Those that need a tree ensemble, a torch module or background rows are tested with these.
NAMES = [name for name in explainer_names() if name not in ("trees", "deep_lift", "permutation")]

# Maps that are no sums of gains: a player that changes nothing gets a score nevertheless.
NOT_MADE_OF_GAINS = {"bivariate_lime", "bivariate_mean_when_included", "bivariate_rise"}


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registrations of a test end with it."""
    monkeypatch.setattr(registry, "_EXPLAINERS", dict(registry._EXPLAINERS))


def smooth(x: Tensor) -> Tensor:
    return torch.sin(x[:, 0] + 2 * x[:, 1]) * x[:, 2] + x[:, 3] ** 2 + x[:, 4]


def game_of(model, *, per_eval: int | None = None, n_null: int = 0) -> Game:
    x = torch.tensor([[0.5, 1.0, -1.0, 2.0, 0.7], [1.5, -0.3, 0.8, -1.0, 0.2]], dtype=torch.float64)
    x[:, N - n_null :] = 0
    return Game(model, x, behavior="output", perturbations_per_eval=per_eval)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_null", [0, 2])
def test_every_explainer_explains_a_small_game(name, n_null):
    game = game_of(smooth, n_null=n_null)
    before = game.n_evaluations
    explainer = find_explainer(name)
    assert isinstance(explainer, Explainer)
    explanation = explainer.explain(game, seed=4)
    assert explanation.shapley.shape == (2, N)
    assert explanation.seed == 4
    assert explanation.method == ("exact" if name == "auto" else name)
    assert torch.equal(explanation.n_evaluations, game.n_evaluations - before)
    null_rows_are_zero = name not in NOT_MADE_OF_GAINS
    assert not null_rows_are_zero or explanation.shapley[:, N - n_null :].eq(0).all()
    if explanation.bivariate is not None:
        assert explanation.bivariate.shape == explanation.standard_error.shape == (2, N, N)
        assert explanation.bivariate.diagonal(dim1=1, dim2=2).eq(0).all()
        assert not null_rows_are_zero or explanation.bivariate[:, N - n_null :].eq(0).all()
        assert explanation.graph(0).n_players == N


@pytest.mark.parametrize("name", [name for name in NAMES if find_explainer(name).is_exact or name == "auto"])
def test_exact_explainers_equal_enumeration(name):
    table = np.random.default_rng(1).normal(size=2**N)
    game = Game(table_model(table), torch.ones(1, N, dtype=torch.float64), behavior="output")
    explainer = find_explainer(name)
    if name in ("saliency", "input_x_gradient", "deconvolution", "guided_backprop"):
        with pytest.raises(ValueError, match="`model` must be differentiable"):
            explainer.explain(game)
        return
    explanation = explainer.explain(game)
    value = table_value(table)
    if name in ("feature_ablation", "occlusion"):
        expected = [value(frozenset(range(N))) - value(frozenset(range(N)) - {i}) for i in range(N)]
        np.testing.assert_allclose(explanation.shapley[0], expected)
        return
    np.testing.assert_allclose(explanation.shapley[0], enumerate_shapley(value, N), atol=1e-6)
    if explanation.bivariate is not None:
        np.testing.assert_allclose(explanation.bivariate[0], enumerate_e2(value, N), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_chunk_sizes_change_nothing(name):
    whole, small = (find_explainer(name).explain(game_of(smooth, per_eval=k)) for k in (None, 1))
    # GradientShap draws as many rows at a time as fit, so its draws depend on the chunk
    tolerance = 0.5 if name == "gradient_shap" else 1e-9
    torch.testing.assert_close(small.shapley, whole.shapley, atol=tolerance, rtol=0)
    if whole.bivariate is not None:
        torch.testing.assert_close(small.bivariate, whole.bivariate, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["auto", "exact", "sampling", "kernel", "paper_sampling", "paper_kernel"])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_the_minimum_is_enough_and_one_less_is_not(name, n_rows):
    x = torch.ones(1, 7, dtype=torch.float64)
    x[0, 6] = 0
    background = torch.zeros(n_rows, 7, dtype=torch.float64)
    game = Game(lambda x: x.prod(dim=1) + x.sum(dim=1), x, background=background, behavior="output")
    explainer = find_explainer(name)
    least = explainer.minimum_evaluations(game)
    assert least % n_rows == 0
    assert int(explainer.explain(game, least).n_evaluations) <= least
    if name != "auto":  # which takes another method then
        with pytest.raises(ValueError, match=rf"`n_evaluations` must be at least {least}.*got {least - 1}"):
            explainer.explain(game, least - 1)


def test_exact_refuses_too_many_players_before_anything_runs():
    game = Game(lambda x: x.sum(dim=1), torch.ones(1, 17), behavior="output")
    before = game.n_evaluations
    with pytest.raises(ValueError, match=r"at most exact_limit=16 non-null players, got 17"):
        find_explainer("exact").minimum_evaluations(game)
    with pytest.raises(ValueError, match=r"at most exact_limit=16 non-null players, got 17"):
        find_explainer("exact").explain(game, 100)
    assert torch.equal(game.n_evaluations, before)


def test_default_evaluations_count_non_null_players_and_background_rows():
    x = torch.ones(1, 6)
    x[0, 4:] = 0
    game = Game(lambda x: x.sum(dim=1), x, background=torch.zeros(3, 6), behavior="output")
    assert default_evaluations(game) == 3 * default_coalitions(4) == 3 * 2 * (2 * 4 + 2048)


class LeaveOneOut:
    """A user's univariate method: the loss when a player leaves all others."""

    name = "leave_one_out"
    is_exact = True

    def minimum_evaluations(self, game: Game) -> int:
        return (game.n_players + 1) * game.removal.n_rows

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        before = game.n_evaluations
        whole = torch.ones(1, 1, game.n_players, dtype=torch.bool)
        values = game(torch.cat([whole, ~torch.eye(game.n_players, dtype=torch.bool)[None]], dim=1))
        return Explanation.of(
            game,
            method=self.name,
            seed=seed,
            shapley=values[:, :1] - values[:, 1:],
            n_evaluations=game.n_evaluations - before,
            is_exact=True,
        )


class Restricted(LeaveOneOut):
    """A user's bivariate method: the gain of i when j is the only other player."""

    name = "pairs_alone"

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        before, n = game.n_evaluations, game.n_players
        torch.rand(1)  # as careless code does
        single = torch.eye(n, dtype=torch.bool)
        pairs = (single[:, None] | single[None]).flatten(0, 1)
        values = game(torch.cat([torch.zeros(1, n, dtype=torch.bool), single, pairs])[None])
        alone, both = values[:, 1 : n + 1], values[:, n + 1 :].unflatten(1, (n, n))
        bivariate = both - alone[:, None]
        bivariate.diagonal(dim1=1, dim2=2).zero_()
        return Explanation.of(
            game,
            method=self.name,
            seed=seed,
            shapley=alone - values[:, :1],
            bivariate=bivariate,
            n_evaluations=game.n_evaluations - before,
        )


class Twice:
    """A user's estimator: exact values, doubled, of the non-null players."""

    name = "twice"
    is_exact = False

    def minimum_evaluations(self, n_players: int) -> int:
        return 2**n_players

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        exact = explain_exactly(game)
        return Estimate.exact(2 * exact.bivariate, 2 * exact.shapley, 2 * exact.null_column)


X = torch.tensor([[0.5, 1.0, -1.0, 2.0, 0.7], [1.5, -0.3, 0.8, -1.0, 0.2]], dtype=torch.float64)


@pytest.mark.parametrize("metric", [InsertionAUC, DeletionAUC, PostHocAccuracy])
@pytest.mark.parametrize("method", [LeaveOneOut(), Restricted(), Twice()])
def test_a_users_explainer_works_from_model_to_metric(method, metric, global_rng_untouched):
    explanation = BivariateShapley(smooth, method, "output", seed=5).attribute(X)
    assert (explanation.method, explanation.seed) == (method.name, 5)
    game, judged, same = Game(smooth, X, behavior="output"), metric(), metric()
    judged.update(game, explanation)
    same.update(game, explanation.shapley if explanation.bivariate is None else explanation.graphs())
    for key, value in judged.compute().items():
        torch.testing.assert_close(value, same.compute()[key])


def test_a_users_estimator_gets_the_game_without_null_players():
    x = X.clone()
    x[:, 3] = 0
    twice = BivariateShapley(smooth, Twice(), "output").attribute(x)
    exact = BivariateShapley(smooth, "exact", "output").attribute(x)
    torch.testing.assert_close(twice.bivariate, 2 * exact.bivariate)
    assert twice.bivariate[:, 3].eq(0).all()
    assert twice.bivariate[:, 0, 3].ne(0).all()
    assert torch.equal(twice.n_evaluations, exact.n_evaluations)
    with pytest.raises(ValueError, match=r"must be at least 16 for method='twice' with 4 non-null players, got 15"):
        BivariateShapley(smooth, Twice(), "output").attribute(x, n_evaluations=15)


def test_redundancy_metrics_need_interactions():
    game = Game(smooth, X, behavior="output")
    with pytest.raises(
        TypeError, match="must be graphs for a redundancy metric, got the univariate explanation of 'leav"
    ):
        MutualRedundancyMasking().update(game, LeaveOneOut().explain(game))
    MutualRedundancyMasking().update(game, Restricted().explain(game))


def test_graphs_of_univariate_explanations_raise():
    explanation = BivariateShapley(smooth, "feature_ablation", "output").attribute(X)
    for make in (explanation.graphs, explanation.mean_graph, lambda: explanation.graph(0)):
        with pytest.raises(ValueError, match="`method` must be bivariate to give a graph, got 'feature_ablation'"):
            make()


def test_explanations_are_checked_against_their_game():
    game = Game(smooth, X, behavior="output")
    spent = game.n_evaluations
    with pytest.raises(ValueError, match=r"`shapley` must have shape \(2, 5\).*got \(2, 4\) from 'mine'"):
        Explanation.of(game, method="mine", seed=0, shapley=torch.zeros(2, 4), n_evaluations=spent)
    zeros = torch.zeros(2, 5)
    with pytest.raises(ValueError, match=r"`bivariate` must have shape \(2, 5, 5\).*got \(2, 5\)"):
        Explanation.of(game, method="mine", seed=0, shapley=zeros, bivariate=zeros, n_evaluations=spent)
    with pytest.raises(ValueError, match=r"`shapley` must be finite, got 10 NaN or infinite of 10 from 'mine'"):
        Explanation.of(game, method="mine", seed=0, shapley=torch.full((2, 5), torch.nan), n_evaluations=spent)


def test_registered_explainers_are_known_by_name(own_registry):
    assert register(LeaveOneOut) is LeaveOneOut
    estimator = Twice()
    assert register(estimator) is estimator
    assert {"leave_one_out", "twice"} <= set(explainer_names())
    assert find_explainer("leave_one_out").explain(Game(smooth, X, behavior="output")).method == "leave_one_out"
    assert BivariateShapley(smooth, "twice", "output").attribute(X).method == "twice"
    register(LeaveOneOut)  # again, as a notebook cell does


def test_registration_refuses_other_shapes_and_taken_names(own_registry):
    with pytest.raises(TypeError, match=r"`explainer` must have `name`, `is_exact`, .* got dict"):
        register({})

    class Exactly(LeaveOneOut):
        name = "exact"

    with pytest.raises(ValueError, match=r"must have a name of its own, got 'exact', which .*\.Exact has"):
        register(Exactly)
    assert find_explainer("exact").estimator == Exact()


def test_captums_methods_are_found_by_name_class_and_object():
    from captum.attr import IntegratedGradients, ShapleyValueSampling

    assert find_explainer("shapley_value_sampling") == find_explainer(ShapleyValueSampling)
    explanation = BivariateShapley(smooth, IntegratedGradients(smooth), "output").attribute(X)
    assert explanation.method == "integrated_gradients"
    torch.testing.assert_close(explanation.shapley.sum(dim=1), smooth(X) - smooth(0 * X), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("kernel_sharp", "'kernel_shap'"), ("Exact", "'exact'"), ("integrated_gradient", "'integrated_gradients'")],
)
def test_unknown_names_raise_with_near_matches(name, hint):
    with pytest.raises(
        ValueError, match=rf"`compare_with` must be .*, got '{name}'. Did you mean .*{hint}.*\?.*'auto'"
    ):
        find_explainer(name, argument="compare_with")


def test_other_objects_raise():
    with pytest.raises(ValueError, match=r"got 'xyzzy'\. The names are \('asiv', 'auto'"):
        find_explainer("xyzzy")
    with pytest.raises(TypeError, match=r"`method` must be a name out of .* got int"):
        find_explainer(7)
    with pytest.raises(TypeError, match=r"`method` must be a name out of .* got the class LeaveOneOut"):
        find_explainer(LeaveOneOut)
    with pytest.raises(
        ValueError, match=r"`compare_with` must be one of .*, got 'deep_lift_shap': it is built from `model`"
    ):
        find_explainer("deep_lift_shap", argument="compare_with")


def test_auto_enumerates_where_model_rows_are_cheap():
    torch.manual_seed(0)
    small = torch.nn.Sequential(torch.nn.Linear(14, 48), torch.nn.ReLU(), torch.nn.Linear(48, 1), torch.nn.Sigmoid())
    wide = torch.nn.Sequential(torch.nn.Linear(14, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 1), torch.nn.Sigmoid())
    x = torch.randn(2, 14)

    def explain(model: torch.nn.Module, **arguments: Any) -> Explanation:
        return BivariateShapley(model).attribute(x, **arguments)

    found = explain(small, background=torch.randn(4, 14))
    assert (found.method, found.is_exact) == ("exact", True)
    assert found.notes[0] == "exact: all coalitions of 14 players, whose model rows are cheap"
    # Where a number of rows is given, it holds; dear rows, those of functions and more than exact_limit are estimated.
    assert explain(small, n_evaluations=4000).method == "sampling"
    assert explain(wide).method != "exact"
    assert explain(lambda rows: small(rows)).method == "sampling"
    assert Auto(exact_limit=13).choose(Game(small, x)).name != "exact"


def test_auto_says_what_it_chooses():
    game = Game(lambda x: x.sum(dim=1), torch.ones(1, 20), behavior="output")
    assert Auto().choose(game).name == "sampling"
    assert Auto(purpose="weights").choose(game).name == "kernel"
    assert Auto().choose(game, 70).name == "kernel"  # too few for sampling
    assert Auto(exact_limit=20).choose(game, 2**20).name == "exact"
    assert Auto().minimum_evaluations(game) == 4 * 19 + 2
    assert Auto(purpose="weights").minimum_evaluations(game) == 4 * 20 + 2


def test_finding_our_explainers_by_object_needs_no_captum():
    code = (
        "import sys; from bivshap_lightning.explainers import Auto, find_explainer; find_explainer(Auto());"
        "find_explainer('exact'); assert 'captum' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    "method",
    [
        "sampling",
        "kernel",
        "proxy",
        "paper_sampling",
        "paper_kernel",
        "kernel_shap",
        "bivariate_shapley",
        "bivariate_lime",
        "bivariate_rise",
    ],
)
def test_more_coalitions_than_fit_into_memory_are_refused_before_they_are_drawn(method):
    game = Game(lambda x: x.amax(dim=1), torch.rand(1, 20), behavior="output")
    with pytest.raises(
        ValueError, match=f"must be at most 10,000,000 coalitions per sample for method='{method}', got"
    ):
        find_explainer(method).explain(game, 10**12)


def test_enumeration_does_not_care_how_many_evaluations_it_may_spend():
    game = Game(lambda x: x.amax(dim=1), torch.rand(1, 5), behavior="output")
    assert int(find_explainer("auto").explain(game, 10**12).n_evaluations) == 32
