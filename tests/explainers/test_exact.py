"""Exact values: the definition, the identities of the method, and the hand-worked games that pin orientation."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning import BivariateShapley
from tests.oracles import enumerate_e2, enumerate_shapley, table_model, table_value

SEEDS = st.integers(0, 10**6)


def exact(model, n: int, **kwargs):
    explainer = BivariateShapley(model, "exact", "output", **kwargs)
    return explainer.attribute(torch.ones(1, n, dtype=torch.float64))


def random_table(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=2**n)


@pytest.mark.parametrize(
    ("value", "shapley", "e2"),
    [
        (lambda a, b, c: torch.maximum(a, b) + c / 2, [1 / 2] * 3, [[0, 0, 1 / 6], [0, 0, 1 / 6], [1 / 4, 1 / 4, 0]]),
        (lambda a, b, c: a * b + c / 2, [1 / 2] * 3, [[0, 1 / 2, 1 / 3], [1 / 2, 0, 1 / 3], [1 / 4, 1 / 4, 0]]),
        (lambda a, b, c: torch.maximum(2 * a, b), [3 / 2, 1 / 2, 0], [[0, 1 / 2, 2 / 3], [0, 0, 1 / 6], [0, 0, 0]]),
    ],
    ids=["or", "and", "max"],
)
@pytest.mark.parametrize("method", ["exact", "kernel", "sampling", "auto"])
def test_hand_worked_games_pin_the_orientation(value, shapley, e2, method):
    explainer = BivariateShapley(lambda x: value(*x.unbind(dim=1)), method, "output")
    explanation = explainer.attribute(torch.ones(1, 3, dtype=torch.float64), n_evaluations=20_000)
    # Orders of three players balance out only in the mean, so sampling is close and not exact here.
    tolerance = 0.02 if explanation.method == "sampling" else 1e-12
    np.testing.assert_allclose(explanation.bivariate[0], e2, atol=tolerance)
    np.testing.assert_allclose(explanation.shapley[0], shapley, atol=tolerance)
    np.testing.assert_array_equal(explanation.graph(0).weights, explanation.bivariate[0].T)
    zeros = np.array(e2) == 0
    assert (explanation.bivariate[0].numpy()[zeros] == 0).all()


@given(st.integers(2, 6), SEEDS)
def test_equals_the_definition(n, seed):
    table = random_table(n, seed)
    explanation = exact(table_model(table), n)
    np.testing.assert_allclose(explanation.bivariate[0], enumerate_e2(table_value(table), n), atol=1e-12)
    np.testing.assert_allclose(explanation.shapley[0], enumerate_shapley(table_value(table), n), atol=1e-12)
    assert explanation.standard_error.eq(0).all()
    assert explanation.n_evaluations.tolist() == [2**n]


@given(st.integers(2, 7), SEEDS)
def test_additive_game_counts_half(n, seed):
    effects = torch.tensor(np.random.default_rng(seed).normal(size=n))
    e2 = exact(lambda x: x @ effects, n).bivariate[0]
    expected = (effects / 2)[:, None].expand(n, n).clone().fill_diagonal_(0)
    torch.testing.assert_close(e2, expected)


@given(st.integers(2, 6), SEEDS, st.floats(-100, 100))
def test_a_constant_changes_nothing(n, seed, constant):
    table = random_table(n, seed)
    shifted = exact(table_model(table + constant), n)
    torch.testing.assert_close(shifted.bivariate, exact(table_model(table), n).bivariate, atol=1e-11, rtol=0)


@given(st.integers(2, 6), SEEDS)
def test_split_into_with_and_without(n, seed):
    table = random_table(n, seed)
    value, explanation = table_value(table), exact(table_model(table), n)
    for i in range(n):
        for j in set(range(n)) - {i}:
            without = 0.0
            for s in range(2**n):
                members = frozenset(k for k in range(n) if s >> k & 1)
                if i in members or j in members:
                    continue
                weight = math.factorial(len(members)) * math.factorial(n - len(members) - 1) / math.factorial(n)
                without += weight * (value(members | {i}) - value(members))
            assert explanation.shapley[0, i] == pytest.approx(float(explanation.bivariate[0, i, j]) + without)


@given(st.integers(2, 6), SEEDS)
def test_efficiency_of_every_column(n, seed):
    table = random_table(n, seed)
    value, e2 = table_value(table), exact(table_model(table), n).bivariate[0]
    for j in range(n):
        alone = 0.0
        for s in range(2**n):
            members = frozenset(k for k in range(n) if s >> k & 1)
            if j not in members:
                weight = math.factorial(len(members)) * math.factorial(n - len(members) - 1) / math.factorial(n)
                alone += weight * value(members | {j})
        assert float(e2[:, j].sum()) == pytest.approx(value(frozenset(range(n))) - alone)


@given(st.integers(1, 5), st.integers(1, 3), SEEDS)
def test_null_players_are_exact_for_every_method(n, n_null, seed):
    """Players whose input equals its replacement, against enumeration of the game that holds them."""
    table = random_table(n, seed)
    everything = np.tile(table, 2**n_null)
    truth = enumerate_e2(table_value(everything), n + n_null)
    inputs = torch.cat([torch.ones(1, n), torch.zeros(1, n_null)], dim=1).double()
    for method in ("exact", "kernel", "sampling"):
        explainer = BivariateShapley(lambda x: table_model(table)(x[:, :n]), method, "output", seed=seed)
        explanation = explainer.attribute(inputs, n_evaluations=3000)
        assert explanation.null_players.tolist() == [[False] * n + [True] * n_null]
        assert explanation.bivariate[0, n:].eq(0).all()
        assert explanation.shapley[0, n:].eq(0).all()
        assert explanation.bivariate[0, :, n:].eq(explanation.bivariate[0, :, n : n + 1]).all()
        assert int(explanation.n_evaluations) <= 2**n
        if method != "sampling":
            np.testing.assert_allclose(explanation.bivariate[0], truth, atol=1e-12)


@given(st.integers(3, 7), SEEDS)
def test_pair_game(n, seed):
    k, m = np.random.default_rng(seed).choice(n, size=2, replace=False).tolist()
    e2 = exact(lambda x: 3 * x[:, k] * x[:, m], n).bivariate[0]
    expected = torch.zeros(n, n, dtype=torch.float64)
    expected[k], expected[m] = 1.0, 1.0
    expected[k, m] = expected[m, k] = 1.5
    torch.testing.assert_close(e2, expected.fill_diagonal_(0))


@given(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2), st.floats(-5, 5))
def test_conjunction_leaf(n_present, n_absent, n_other, v):
    n = n_present + n_absent + n_other
    if n < 2:
        return
    present, absent = range(n_present), range(n_present, n_present + n_absent)
    e2 = exact(lambda x: v * x[:, :n_present].prod(1) * (1 - x[:, n_present : n_present + n_absent]).prod(1), n)
    p, a, f = n_present, n_absent, math.factorial
    expected = np.zeros((n, n))
    for i in range(n):
        for j in set(range(n)) - {i}:
            if i in present:
                c = v * f(p - 1) * f(a) / f(p + a)
                expected[i, j] = c if j in present else 0 if j in absent else c * p / (p + a + 1)
            elif i in absent:
                c = -v * f(p) * f(a - 1) / f(p + a)
                expected[i, j] = c if j in present else 0 if j in absent else c * (p + 1) / (p + a + 1)
    np.testing.assert_allclose(e2.bivariate[0], expected, atol=1e-12)


@given(st.integers(3, 6), SEEDS)
def test_bound_of_the_redundancy_theorem(n, seed):
    table = random_table(n, seed)
    i, j, k = np.random.default_rng(seed + 1).choice(n, size=3, replace=False).tolist()

    def largest_gain(of: int, given_: int) -> float:
        masks = [s for s in range(2**n) if s >> given_ & 1 and not s >> of & 1]
        return max(abs(table[s | 1 << of] - table[s]) for s in masks)

    e2 = exact(table_model(table), n).bivariate[0]
    e_j, e_i = largest_gain(i, j), largest_gain(k, i)
    assert abs(e2[i, j]) <= e_j / 2 + 1e-12
    assert abs(e2[k, i]) <= e_i / 2 + 1e-12
    assert abs(e2[k, j]) <= (2 * e_j + e_i) / 2 + 1e-12


@given(st.integers(3, 6), SEEDS)
def test_h_of_a_monotone_game_is_transitive(n, seed):
    rng = np.random.default_rng(seed)
    # A maximum of unanimity-like steps: monotone, with many exact redundancies.
    steps = [(rng.random(n) < 0.4, float(rng.integers(1, 4))) for _ in range(rng.integers(1, 5))]

    def model(x: torch.Tensor) -> torch.Tensor:
        values = [a * x[:, torch.tensor(t)].amin(dim=1) for t, a in steps if t.any()]
        return torch.stack([torch.zeros(len(x), dtype=x.dtype), *values]).amax(dim=0)

    h = exact(model, n).graph(0).redundancy(gamma=0)
    assert h.transitivity == 1.0
    for group in h.groups:
        assert all(h.adjacency[a, b] for a in group for b in group if a != b)


@given(st.integers(2, 6), SEEDS)
def test_row_means_are_univariate(n, seed):
    table = random_table(n, seed)
    value, e2 = table_value(table), exact(table_model(table), n).bivariate[0]
    for i in range(n):
        mean = 0.0
        for s in range(2**n):
            members = frozenset(k for k in range(n) if s >> k & 1)
            if i in members:
                continue
            size = len(members)
            weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n) * size / (n - 1)
            mean += weight * (value(members | {i}) - value(members))
        assert float(e2[i].sum()) / (n - 1) == pytest.approx(mean)


def test_batch_equals_one_by_one():
    """Samples with different null players are explained together as they are alone."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(7, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3)).double()
    inputs = torch.randn(5, 7, dtype=torch.float64)
    inputs[0, :3] = 0
    inputs[1] = 0
    inputs[3, 4] = 0
    explainer = BivariateShapley(model, "exact")
    batch = explainer.attribute(inputs)
    for b in range(5):
        single = explainer.attribute(inputs[b : b + 1])
        torch.testing.assert_close(batch.bivariate[b], single.bivariate[0])
        torch.testing.assert_close(batch.shapley[b], single.shapley[0])
        assert batch.n_evaluations[b] == 2 ** int((inputs[b] != 0).sum()) == single.n_evaluations[0]
    assert batch.bivariate[1].eq(0).all()


def test_limit_says_what_to_do():
    explainer = BivariateShapley(lambda x: x.sum(dim=1), "exact", "output")
    with pytest.raises(ValueError, match=r"at most exact_limit=16 non-null players, got 17.*Use method='auto'"):
        explainer.attribute(torch.ones(1, 17))
    raised = BivariateShapley(lambda x: x.sum(dim=1), "exact", "output", exact_limit=17)
    assert raised.attribute(torch.ones(1, 17)).n_evaluations.tolist() == [2**17]
