"""Potential and pairwise part against enumeration: their definitions, their identities and their errors."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bivshap_lightning.graph import ExplanationGraph, structure
from tests.graph.games import graph_of, random_table
from tests.oracles import table_value

SEEDS = st.integers(0, 10**6)


def moebius(table, n_players):
    """Coefficients a_T of `u(S) = sum_{T in S} a_T`, T as bits."""
    coefficients = table.astype(float).copy()
    for player in range(n_players):
        for s in range(len(table)):
            if s >> player & 1:
                coefficients[s] -= coefficients[s ^ 1 << player]
    return coefficients


@given(st.integers(2, 5), SEEDS)
@settings(max_examples=30, deadline=None)
def test_pairwise_is_the_weighted_sum_of_moebius_coefficients(n_players, seed):
    table = random_table(n_players, seed)
    coefficients = moebius(table, n_players)
    expected = np.zeros((n_players, n_players))
    for i, j in itertools.permutations(range(n_players), 2):
        for t in range(2**n_players):
            if t >> i & 1 and t >> j & 1:
                expected[i, j] += coefficients[t] / (t.bit_count() * (t.bit_count() + 1))
    np.testing.assert_allclose(graph_of(table_value(table), n_players).pairwise, expected, atol=1e-12)


@given(st.integers(1, 4), SEEDS)
@settings(max_examples=30, deadline=None)
def test_potential_is_the_importance_given_a_null_player(n_players, seed):
    table = random_table(n_players, seed)
    with_null = graph_of(table_value(np.tile(table, 2)), n_players + 1)
    graph = graph_of(table_value(table), n_players)
    np.testing.assert_allclose(graph.potential, with_null.weights[n_players, :n_players], atol=1e-12)


@given(st.integers(2, 5), SEEDS)
@settings(max_examples=30, deadline=None)
def test_identities_of_the_two_parts(n_players, seed):
    graph = graph_of(table_value(random_table(n_players, seed)), n_players)
    e2, late, pair = graph.weights.T, graph.potential, graph.pairwise
    off = ~np.eye(n_players, dtype=bool)
    np.testing.assert_array_equal(pair, pair.T)
    np.testing.assert_allclose((late[:, None] + pair)[off], e2[off], atol=1e-12)
    np.testing.assert_allclose(pair.sum(axis=1), 2 * late - graph.shapley, atol=1e-12)
    np.testing.assert_allclose((e2 - e2.T)[off], (late[:, None] - late)[off], atol=1e-12)


def test_exact_graphs_have_no_errors_and_results_are_read_only():
    graph = ExplanationGraph([[0, 1], [2, 0]], shapley=[1, 2])
    assert not graph.potential_error.any()
    assert not graph.pairwise_error.any()
    for array in (graph.potential, graph.pairwise, graph.potential_error, graph.pairwise_error):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize("kind", ["independent", "shared in a row", "symmetric"])
def test_errors_bound_the_spread_of_estimates(kind):
    n_players, n_draws = 6, 4000
    rng = np.random.default_rng(0)
    error = rng.uniform(0.5, 2.0, size=(n_players, n_players)) * ~np.eye(n_players, dtype=bool)
    if kind == "symmetric":
        error = (error + error.T) / 2
    noise = rng.normal(size=(n_draws, n_players, n_players))
    if kind == "shared in a row":
        noise = np.sqrt(0.2) * noise + np.sqrt(0.8) * noise[:, :, :1]
    elif kind == "symmetric":
        noise = np.triu(noise, 1) + np.triu(noise, 1).transpose(0, 2, 1)
    e2, phi = noise * error, rng.normal(size=(n_draws, n_players))
    phi_error = np.ones(n_players)
    graph = ExplanationGraph(
        np.zeros((n_players, n_players)), standard_error=error.T, shapley=phi[0], shapley_standard_error=phi_error
    )
    off = ~np.eye(n_players, dtype=bool)
    assert (structure.potential(e2, phi).std(axis=0) <= 1.05 * graph.potential_error).all()
    assert (structure.pairwise(e2, phi).std(axis=0)[off] <= 1.05 * graph.pairwise_error[off]).all()
    # A bound, and not a multiple of what it bounds.
    assert graph.potential_error.mean() < 3 * structure.potential(e2, phi).std(axis=0).mean()
    assert graph.pairwise_error[off].mean() < 3 * structure.pairwise(e2, phi).std(axis=0)[off].mean()


def test_error_before_symmetrizing_is_exact_for_independent_errors():
    rng = np.random.default_rng(1)
    error = rng.uniform(0.5, 2.0, size=(4, 4)) * ~np.eye(4, dtype=bool)
    e2, phi = rng.normal(size=(40_000, 4, 4)) * error, rng.normal(size=(40_000, 4)) * 0.7
    spread = (e2 - structure.potential(e2, phi)[:, :, None]).std(axis=0) * ~np.eye(4, dtype=bool)
    expected = structure.pairwise_error_before_symmetrizing(error, np.full(4, 0.7))
    np.testing.assert_allclose(expected, spread, rtol=0.03)


def test_unknown_errors_of_shapley_values_are_twice_those_of_the_weights():
    errors = np.array([[0, 1, 3], [2, 0, 1], [4, 3, 0]]) / 10
    graph = ExplanationGraph(np.zeros((3, 3)), standard_error=errors)
    np.testing.assert_allclose(graph.shapley_standard_error, [0.6, 0.4, 0.4])


def test_a_given_error_of_the_pairwise_part_is_used():
    errors, known = np.array([[0, 0.1], [0.1, 0]]), np.array([[0, 0.01], [0.01, 0]])
    values = {"shapley": [1, 2], "standard_error": errors}
    graph = ExplanationGraph([[0, 1], [2, 0]], pairwise_standard_error=known, **values)
    np.testing.assert_array_equal(graph.pairwise_error, known)
    assert (ExplanationGraph([[0, 1], [2, 0]], **values).pairwise_error >= known).all()
    mean = ExplanationGraph.mean([graph, graph])
    np.testing.assert_allclose(mean.pairwise_standard_error, known)
    without = ExplanationGraph([[0, 1], [2, 0]], **values)
    assert ExplanationGraph.mean([graph, without]).pairwise_standard_error is None
    assert ExplanationGraph.mean([without, graph]).pairwise_standard_error is None
    with pytest.raises(ValueError, match=r"`pairwise_standard_error` must have shape \(2, 2\)"):
        ExplanationGraph([[0, 1], [2, 0]], pairwise_standard_error=[1, 2])


def test_structure_needs_shapley_values():
    for name in ("potential", "pairwise", "relative_gamma"):
        with pytest.raises(ValueError, match="`shapley` must be given for this, got a graph without Shapley values"):
            getattr(ExplanationGraph([[0, 1], [2, 0]]), name)


def test_errors_of_shapley_values_are_checked():
    with pytest.raises(ValueError, match=r"`shapley_standard_error` must have shape \(2,\), got \(1,\)"):
        ExplanationGraph([[0, 1], [2, 0]], shapley_standard_error=[1])
    with pytest.raises(ValueError, match=r"`shapley_standard_error` must be >= 0, got -1.0 at \[1\]"):
        ExplanationGraph([[0, 1], [2, 0]], shapley_standard_error=[1, -1])


@pytest.mark.parametrize("name", ["log_odds", "absolute"])
def test_nested_graphs_have_the_same_players(name):
    with pytest.raises(ValueError, match=f"`{name}` must have 2 players like `weights`, got 1"):
        ExplanationGraph([[0, 1], [2, 0]], **{name: ExplanationGraph([[0.0]])})


@pytest.mark.parametrize("scale", [-1.0, float("nan")])
def test_scale_is_checked(scale):
    with pytest.raises(ValueError, match="`scale` must be finite and >= 0, got"):
        ExplanationGraph([[0.0]], scale=scale)
