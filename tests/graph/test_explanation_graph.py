"""ExplanationGraph against a straight-line ranking, hand-worked games and direct counts."""

import copy
import pickle
import sys
from statistics import NormalDist

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.ranking import tie_levels
from bivshap_lightning.graph.threshold import CURVE_POINTS

# E2 of three players a, b, c, worked by hand: rows i, columns j, importance of i when j is present.
HAND_WORKED = {
    "or": [[0, 0, 1 / 6], [0, 0, 1 / 6], [1 / 4, 1 / 4, 0]],
    "and": [[0, 1 / 2, 1 / 3], [1 / 2, 0, 1 / 3], [1 / 4, 1 / 4, 0]],
    "max": [[0, 1 / 2, 2 / 3], [0, 0, 1 / 6], [0, 0, 0]],
}


def hand_worked(game):
    return ExplanationGraph(np.transpose(HAND_WORKED[game]), names=["a", "b", "c"])


def random_graph(n_players, seed=0, scale=0.3, **arguments):
    rng = np.random.default_rng(seed)
    weights = rng.normal(scale=scale, size=(n_players, n_players))
    np.fill_diagonal(weights, 0)
    return ExplanationGraph(weights, shapley=rng.normal(size=n_players), **arguments)


@st.composite
def graphs(draw, max_players=7):
    """Weights on a coarse grid, so that zeros, signs and ties are common."""
    n_players = draw(st.integers(1, max_players))
    entries = draw(st.lists(st.integers(-3, 3), min_size=n_players**2, max_size=n_players**2))
    weights = np.reshape(entries, (n_players, n_players)) / 4
    np.fill_diagonal(weights, 0)
    shapley = draw(st.lists(st.integers(-3, 3), min_size=n_players, max_size=n_players))
    return ExplanationGraph(weights, shapley=np.array(shapley) / 4)


def power_iteration(weights, phi=None):
    """METRICS.md, "Ranking", line by line."""
    shifted = weights + 1e-70
    adjacency = np.maximum(shifted, 0) + np.log1p(np.exp(-np.abs(shifted)))
    walk = adjacency / adjacency.sum(axis=1, keepdims=True)
    restart = np.ones(len(weights))
    if phi is not None:
        restart = phi if (phi > 0).any() else phi - phi.max() + 1e-70
        restart = np.where(restart > 0, restart, 0)
    restart = restart / restart.sum()
    scores = 0.15 * restart
    for _ in range(10):
        after = 0.85 * walk.T @ scores + 0.15 * restart * scores.sum()
        after = after / after.sum()
        if np.abs(after - scores).sum() < 1e-6:
            break
        scores = after
    return scores / scores.sum()


# Orientation


def test_or_game_makes_a_and_b_one_group():
    h = hand_worked("or").redundancy()
    assert h.groups == ((0, 1),)
    assert h.density == 2 / 6


def test_and_game_has_no_redundancy():
    assert hand_worked("and").redundancy().density == 0


def test_max_game_makes_b_redundant_given_a_and_not_the_reverse():
    graph = hand_worked("max")
    h = graph.redundancy()
    assert h.adjacency[0, 1]
    assert not h.adjacency[1, 0]
    assert graph.weights[1, 0] == 1 / 2  # a, when b is present
    assert graph.to_networkx().edges[1, 0]["weight"] == 1 / 2
    # The null player c is redundant given anybody and makes nobody redundant.
    assert h.adjacency.tolist() == [[False, True, True], [False, False, True], [False, False, False]]
    assert (h.sources, h.sinks) == ((0,), (2,))
    assert graph.order().tolist() == [0, 1, 2]


# Ranking


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_ranking_equals_the_straight_line_power_iteration(graph):
    for oriented in (True, False):
        sign = -1 if oriented and graph.shapley.sum() < 0 else 1
        weights, phi = sign * graph.weights, sign * graph.shapley
        np.testing.assert_allclose(graph.ranking("pagerank", oriented=oriented), power_iteration(weights), rtol=1e-12)
        personalized = graph.ranking(personalized=True, oriented=oriented)
        np.testing.assert_allclose(personalized, power_iteration(weights, phi), rtol=1e-12)


@pytest.mark.parametrize("scale", [0.01, 0.3, 5.0, 300.0])
def test_ranking_equals_the_power_iteration_at_every_scale(scale):
    graph = random_graph(40, scale=scale)
    np.testing.assert_allclose(graph.ranking("pagerank", oriented=False), power_iteration(graph.weights), rtol=1e-10)


def test_negative_shapley_values_never_restart():
    zeros = np.zeros((3, 3))
    clipped = ExplanationGraph(zeros, shapley=[1, 0, 0]).ranking(personalized=True)
    signed = ExplanationGraph(zeros, shapley=[1, -5, 0]).ranking(personalized=True, oriented=False)
    assert signed.tolist() == clipped.tolist()


def test_without_positive_shapley_value_the_largest_restarts():
    zeros = np.zeros((3, 3))
    expected = ExplanationGraph(zeros, shapley=[0, 1, 1]).ranking(personalized=True)
    fallback = ExplanationGraph(zeros, shapley=[-2, -1, -1]).ranking(personalized=True, oriented=False)
    assert fallback.tolist() == expected.tolist()


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_hits_is_the_leading_right_singular_vector(graph):
    _, _, right = np.linalg.svd(np.logaddexp(0, graph.sign * graph.weights))
    np.testing.assert_allclose(graph.ranking(method="hits"), right[0] / right[0].sum(), atol=1e-9)


def test_hits_is_the_same_on_every_call():
    graph = random_graph(20)
    assert graph.ranking(method="hits").tolist() == graph.ranking(method="hits").tolist()


def test_one_player_has_the_whole_score():
    graph = ExplanationGraph([[0.0]], shapley=[-1.0])
    assert graph.ranking().tolist() == graph.ranking(personalized=True).tolist() == [1.0]
    assert graph.ranking(method="hits").tolist() == [1.0]
    assert graph.order().tolist() == [0]


def test_order_sorts_by_score():
    graph = random_graph(30)
    scores = graph.ranking(personalized=True)
    assert graph.order(personalized=True).tolist() == np.argsort(-scores).tolist()
    assert graph.order(method="hits").tolist() == np.argsort(-graph.ranking(method="hits")).tolist()


@pytest.mark.parametrize("method", ["pagerank", "hits"])
@pytest.mark.parametrize("seed", range(5))
def test_symmetric_players_tie_in_spite_of_rounding(method, seed):
    # Interchangeable players with unequal rows of awkward numbers: sums run in different orders.
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(5, 5))
    weights = np.kron(base, np.ones((7, 7)))
    weights += 1e-16 * rng.normal(size=weights.shape)
    np.fill_diagonal(weights, 0)
    order = ExplanationGraph(weights).order(method=method)
    for block in np.split(order, 5):
        assert block.tolist() == list(range(block[0], block[0] + 7))


def test_ties_go_by_shapley_value_then_index():
    zeros = np.zeros((4, 4))
    assert ExplanationGraph(zeros).order().tolist() == [0, 1, 2, 3]
    assert ExplanationGraph(zeros, shapley=[0.1, 0.3, 0.1 + 1e-17, 0.2]).order().tolist() == [1, 3, 0, 2]


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=10), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_tie_levels_ignore_rounding_only(values, seed):
    exact = np.array(values) / 3
    jitter = 1e-15 * np.random.default_rng(seed).normal(size=len(values))
    expected = [len({other for other in values if other > value}) for value in values]
    assert tie_levels(exact + jitter * np.abs(exact).max()).tolist() == expected


def test_personalized_needs_shapley_values():
    with pytest.raises(ValueError, match="`personalized` must be False without Shapley values"):
        ExplanationGraph([[0.0]]).ranking(personalized=True)


def test_hits_refuses_personalisation():
    with pytest.raises(ValueError, match="`personalized` must be False for HITS"):
        random_graph(3).ranking(personalized=True, method="hits")


def test_unknown_method_is_refused():
    with pytest.raises(ValueError, match=r"`method` must be one of \('keep', 'remove', .*\), got 'degree'"):
        random_graph(3).order(method="degree")


# Redundancy


def test_gamma_is_inclusive_and_looks_at_magnitudes():
    h = ExplanationGraph([[0, 0.25, -0.25], [0.2500001, 0, -0.3], [0, -0.1, 0]]).redundancy(0.25)
    assert h.adjacency.tolist() == [[False, True, True], [False, False, False], [True, True, False]]
    assert h.n_undecided == 0


@given(graphs(), st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_both_rules_agree_on_exact_weights(graph, quarter_gamma):
    noise, paper = (graph.redundancy(quarter_gamma / 4, rule=rule) for rule in ("noise", "paper"))
    assert np.array_equal(noise.adjacency, paper.adjacency)
    assert not noise.undecided.any()
    assert not paper.undecided.any()


def test_noise_rule_splits_three_ways():
    z = NormalDist().inv_cdf(0.975)
    error = 0.125
    # Exactly on the upper boundary, just past it, just short of the lower boundary, exactly on it, past it.
    magnitudes = [1 - z * error, 1.0, 1 + z * error - 1e-9, 1 + z * error + 1e-9, 0.0]
    weights, errors = np.zeros((2, 6, 6))
    weights[0, 1:], errors[0, 1:] = magnitudes, error
    weights[1, 2:] = -np.array(magnitudes[1:])
    errors[1, 2:] = error
    h = ExplanationGraph(weights, standard_error=errors).redundancy(1.0)
    assert h.adjacency[0].tolist() == [False, True, False, False, False, True]
    assert h.undecided[0].tolist() == [False, False, True, True, False, False]
    assert h.undecided[1].tolist() == [False, False, True, True, False, False]
    assert h.adjacency[2:].sum() == 4 * 5
    assert not h.undecided.diagonal().any()
    assert (h.rule, h.gamma, h.confidence) == ("noise", 1.0, 0.95)


def test_lower_boundary_is_undecided_and_inclusive():
    # One standard error at this confidence is an exact binary number, so both boundaries can be hit.
    confidence = 2 * NormalDist().cdf(1.0) - 1
    z = -NormalDist().inv_cdf((1 - confidence) / 2)
    graph = ExplanationGraph([[0, 1 + z], [1 - z / 2, 0]], standard_error=[[0, 1], [0.5, 0]])
    h = graph.redundancy(1.0, confidence=confidence)
    assert h.undecided.tolist() == [[False, True], [False, False]]
    assert h.adjacency.tolist() == [[False, False], [True, False]]


def test_higher_confidence_decides_less():
    rng = np.random.default_rng(0)
    errors = rng.random((20, 20)) / 5
    np.fill_diagonal(errors, 0)
    graph = random_graph(20, standard_error=errors)
    wide, narrow = graph.redundancy(0.3, confidence=0.999), graph.redundancy(0.3, confidence=0.5)
    assert wide.n_undecided > narrow.n_undecided > 0
    assert (wide.adjacency <= narrow.adjacency).all()
    assert (narrow.undecided <= wide.undecided).all()


def test_paper_rule_ignores_the_noise():
    graph = ExplanationGraph([[0, 0.1], [0.3, 0]], standard_error=[[0, 9], [9, 0]])
    paper = graph.redundancy(0.25, rule="paper")
    assert paper.adjacency.tolist() == [[False, True], [False, False]]
    assert (paper.n_undecided, paper.confidence, paper.rule) == (0, None, "paper")
    assert graph.redundancy(0.25).n_undecided == 2


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1, float("nan")])
def test_confidence_lies_between_zero_and_one(confidence):
    with pytest.raises(ValueError, match="`confidence` must lie between 0 and 1"):
        random_graph(2).redundancy(confidence=confidence)


@pytest.mark.parametrize("gamma", [-1e-9, float("nan"), float("inf")])
def test_gamma_is_finite_and_not_negative(gamma):
    with pytest.raises(ValueError, match="`gamma` must be finite and >= 0"):
        random_graph(2).redundancy(gamma)


def test_unknown_rule_is_refused():
    with pytest.raises(ValueError, match=r"`rule` must be one of \('noise', 'paper'\), got 'strict'"):
        random_graph(2).redundancy(rule="strict")


# Density


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_density_curve_counts_edges(graph):
    gammas, densities = graph.density_curve()
    assert gammas[0] == 0
    assert (np.diff(gammas) > 0).all()
    assert (np.diff(densities) >= 0).all()
    assert densities.tolist() == [graph.redundancy(gamma, rule="paper").density for gamma in gammas]


def test_default_curve_of_many_weights_is_a_grid_from_zero_to_the_largest():
    graph = random_graph(20)
    gammas, densities = graph.density_curve()
    assert len(gammas) == CURVE_POINTS
    assert gammas[0] == 0
    assert gammas[-1] == np.abs(graph.weights).max()
    assert (np.diff(gammas) > 0).all()
    assert (densities[0], densities[-1]) == (0.0, 1.0)
    assert densities[77] == graph.redundancy(gammas[77], rule="paper").density


def test_given_gammas_keep_their_order():
    gammas, densities = ExplanationGraph([[0, 0.1], [-0.3, 0]]).density_curve([0.5, 0, 0.1])
    assert gammas.tolist() == [0.5, 0, 0.1]
    assert densities.tolist() == [1, 0, 0.5]


@pytest.mark.parametrize("gammas", [0.5, [-1.0], [[0.5]]])
def test_gammas_are_a_vector_of_thresholds(gammas):
    with pytest.raises(ValueError, match="`gammas` must be a vector of numbers >= 0"):
        random_graph(2).density_curve(gammas)


@given(graphs().filter(lambda graph: graph.n_players > 1), st.floats(0.001, 1))
@settings(max_examples=60, deadline=None)
def test_suggested_gamma_is_the_smallest_that_reaches_the_density(graph, density):
    gamma = graph.suggest_gamma(density)
    assert graph.redundancy(gamma, rule="paper").density >= density
    if gamma > 0:
        assert graph.redundancy(np.nextafter(gamma, 0), rule="paper").density < density


def test_suggested_gamma_meets_densities_that_floats_cannot_multiply():
    graph = random_graph(6)  # 0.1 * 30 is above 3 in floating point
    assert graph.redundancy(graph.suggest_gamma(0.1), rule="paper").adjacency.sum() == 3


@pytest.mark.parametrize("density", [0.0, 1.01, float("nan")])
def test_density_is_a_share(density):
    with pytest.raises(ValueError, match="`density` must be above 0 and at most 1"):
        random_graph(2).suggest_gamma(density)


def test_one_player_has_no_density():
    graph = ExplanationGraph([[0.0]])
    gammas, densities = graph.density_curve()
    assert (gammas.tolist(), densities.tolist()) == ([0.0], [0.0])
    with pytest.raises(ValueError, match="`weights` must have a pair of players"):
        graph.suggest_gamma()


# Mean


def test_mean_graph_averages_weights_shapley_and_errors():
    first = ExplanationGraph(
        [[0, 1], [2, 0]],
        names=["a", "b"],
        shapley=[1, 2],
        standard_error=[[0, 0.5], [0, 0]],
        provenance={"method": "kernel", "seed": 0, "target": 3, "only": 1},
    )
    second = ExplanationGraph(
        [[0, -3], [0, 0]],
        names=["a", "b"],
        shapley=[3, 0],
        standard_error=[[0, 0.25], [1, 0]],
        provenance={"method": "kernel", "seed": 0, "target": 4, "n_graphs": 9},
    )
    mean = ExplanationGraph.mean(iter([first, second]))
    assert mean.weights.tolist() == [[0, -1], [1, 0]]
    assert mean.shapley.tolist() == [2, 1]
    assert mean.standard_error.tolist() == [[0, 0.375], [0.5, 0]]
    assert mean.names == ("a", "b")
    assert mean.provenance == {"method": "kernel", "seed": 0, "n_graphs": 2}
    assert first.weights.tolist() == [[0, 1], [2, 0]]


def test_mean_of_one_graph_is_that_graph():
    graph = random_graph(4)
    mean = ExplanationGraph.mean([graph])
    assert np.array_equal(mean.weights, graph.weights)
    assert np.array_equal(mean.shapley, graph.shapley)


def test_mean_of_nothing_is_refused():
    with pytest.raises(ValueError, match="`graphs` must hold at least one graph, got none"):
        ExplanationGraph.mean([])


def test_mean_refuses_other_players():
    with pytest.raises(ValueError, match="`graphs` must have the same names, got others in graph 1"):
        ExplanationGraph.mean([random_graph(2, names=["a", "b"]), random_graph(2, names=["b", "a"])])


def test_mean_refuses_a_mixture_with_and_without_shapley_values():
    with pytest.raises(ValueError, match="`graphs` must have Shapley values in all or in none"):
        ExplanationGraph.mean([random_graph(2), ExplanationGraph(np.zeros((2, 2)))])


# Conversions


def test_networkx_graph_holds_everything():
    graph = ExplanationGraph(
        [[0, 0.0], [2, 0]], names=["a", "b"], shapley=[1, 2], standard_error=[[0, 0.5], [0, 0]]
    ).to_networkx()
    assert dict(graph.nodes(data=True)) == {
        0: {"name": "a", "shapley": 1.0},
        1: {"name": "b", "shapley": 2.0},
    }
    assert list(graph.edges(data=True)) == [
        (0, 1, {"weight": 0.0, "standard_error": 0.5}),
        (1, 0, {"weight": 2.0, "standard_error": 0.0}),
    ]


def test_networkx_graph_without_shapley_values():
    assert ExplanationGraph([[0.0]]).to_networkx().nodes[0] == {"name": "0", "shapley": None}


def test_dataframe_has_one_row_per_ordered_pair():
    graph = random_graph(4, names=list("dcba"))
    table = graph.to_dataframe()
    assert list(table.columns) == ["source", "target", "weight", "standard_error"]
    assert len(table) == 12
    for row in table.itertuples():
        i, j = graph.names.index(row.source), graph.names.index(row.target)
        assert row.weight == graph.weights[i, j]
        assert row.standard_error == 0


@pytest.mark.parametrize("graph", [random_graph(2), random_graph(2).redundancy()], ids=["G", "H"])
def test_dataframe_without_pandas_names_the_extra(graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install bivshap_lightning\[pandas\]"):
        graph.to_dataframe()


# Construction


def test_defaults():
    graph = ExplanationGraph([[0, 1], [2, 0]])
    assert graph.weights.dtype == np.float64
    assert graph.names == ("0", "1")
    assert graph.shapley is None
    assert graph.standard_error.tolist() == [[0, 0], [0, 0]]
    assert graph.provenance == {}
    assert graph.n_players == 2
    assert not graph.is_estimated


def test_tensors_are_accepted_and_copied():
    weights = torch.tensor([[0.0, 1.0], [2.0, 0.0]], dtype=torch.float32)
    graph = ExplanationGraph(weights, shapley=torch.ones(2), standard_error=weights)
    weights[0, 1] = 7
    assert graph.weights.tolist() == graph.standard_error.tolist() == [[0, 1], [2, 0]]
    assert graph.is_estimated


def test_a_graph_cannot_be_changed():
    given_weights = np.zeros((2, 2))
    graph = ExplanationGraph(given_weights, shapley=[0, 0])
    given_weights[0, 1] = 1
    assert graph.weights[0, 1] == 0
    for array in (graph.weights, graph.shapley, graph.standard_error):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError, match="cannot assign"):
        graph.weights = np.ones((2, 2))


def test_provenance_is_a_copy_in_the_types_of_json():
    given_provenance = {"shape": (1, 2)}
    graph = ExplanationGraph([[0.0]], provenance=given_provenance)
    given_provenance["seed"] = 1
    assert graph.provenance == {"shape": [1, 2]}


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_graphs_can_be_copied_and_pickled(duplicate):
    graph = random_graph(3)
    graph.density_curve()
    other = duplicate(graph)
    assert np.array_equal(other.weights, graph.weights)
    assert duplicate(graph.redundancy(0.1)).groups == graph.redundancy(0.1).groups


def test_repr_is_short_and_says_what_is_estimated():
    graph = random_graph(500)
    assert len(repr(graph)) < 100
    for part in ("500 players", "exact", f"{graph.weights.min():.3g}", f"{graph.weights.max():.3g}"):
        assert part in repr(graph)
    assert "estimated" in repr(ExplanationGraph([[0, 1], [2, 0]], standard_error=[[0, 1], [0, 0]]))
    assert "1 player," in repr(ExplanationGraph([[0]]))


@pytest.mark.parametrize("shape", [(0, 0), (3,), (2, 3), (2, 2, 2)])
def test_weights_are_square(shape):
    with pytest.raises(ValueError, match=r"`weights` must have shape \(F, F\) with F >= 1, got \("):
        ExplanationGraph(np.zeros(shape))


def test_weights_have_an_empty_diagonal():
    with pytest.raises(ValueError, match=r"`weights` must have an empty diagonal, got 0\.5 at \[1, 1\]"):
        ExplanationGraph([[0, 0], [0, 0.5]])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_are_finite(bad):
    with pytest.raises(ValueError, match=rf"`weights` must be finite, got {bad} at \[0, 1\]"):
        ExplanationGraph([[0, bad], [0, 0]])


@pytest.mark.parametrize("bad", [[["a"]], [[1j]], [[None]]])
def test_weights_are_real_numbers(bad):
    with pytest.raises(TypeError, match="`weights` must hold real numbers, got dtype"):
        ExplanationGraph(bad)


def test_shapley_has_one_value_per_player():
    with pytest.raises(ValueError, match=r"`shapley` must have shape \(2,\), got \(3,\)"):
        ExplanationGraph(np.zeros((2, 2)), shapley=[1, 2, 3])


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ([0, 0], r"`standard_error` must have shape \(2, 2\), got \(2,\)"),
        ([[0, -1], [0, 0]], r"`standard_error` must be >= 0, got -1\.0 at \[0, 1\]"),
        ([[1, 0], [0, 0]], r"`standard_error` must have an empty diagonal"),
        ([[0, float("nan")], [0, 0]], r"`standard_error` must be finite, got nan at \[0, 1\]"),
    ],
)
def test_bad_standard_errors_are_refused(errors, message):
    with pytest.raises(ValueError, match=message):
        ExplanationGraph(np.zeros((2, 2)), standard_error=errors)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "`names` must name 2 players, got 1"),
        (["a", "a"], "`names` must be distinct, got 'a' more than once"),
        (["a", "b\0"], "`names` must be free of NUL characters"),
    ],
)
def test_bad_names_are_refused(names, message):
    with pytest.raises(ValueError, match=message):
        ExplanationGraph(np.zeros((2, 2)), names=names)


def test_names_are_strings():
    with pytest.raises(TypeError, match="`names` must be strings, got int"):
        ExplanationGraph(np.zeros((2, 2)), names=[1, 2])


@pytest.mark.parametrize("provenance", [{"array": np.zeros(2)}, {"value": float("nan")}, 3])
def test_provenance_is_json(provenance):
    with pytest.raises(TypeError, match="`provenance` must be a mapping that JSON can hold"):
        ExplanationGraph([[0.0]], provenance=provenance)


def test_cached_results_cannot_be_changed_by_the_caller():
    import pickle

    graph = ExplanationGraph([[0, 0, 0.3], [0, 0, 0.2], [0.1, 0.4, 0]], shapley=[0.1, 0.2, 0.3])
    first = graph.ranking(personalized=True)
    first[:] = -1
    assert (graph.ranking(personalized=True) > 0).all()
    assert graph.redundancy(0.1) is graph.redundancy(0.1)
    assert graph.redundancy(0.1) is not graph.redundancy(0.1, rule="paper")
    again = pickle.loads(pickle.dumps(graph))
    assert not any(value for name, value in vars(again).items() if name.startswith("_"))
    assert again.redundancy(0.1) is not graph.redundancy(0.1)
    np.testing.assert_array_equal(again.ranking(), graph.ranking())
