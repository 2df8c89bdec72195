"""Substitution against hand-worked games and its definition written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bivshap_lightning.graph import ExplanationGraph, mean_substitution
from tests.graph.games import graph_of, hand_worked, random_graph_of_game

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "total", "common"),
    [
        ("or", [[NAN, 1, 1 / 3], [1, NAN, 1 / 3], [NAN] * 3], [1 / 3, 1 / 3, NAN]),
        ("and", [[NAN, -1, -1 / 3], [-1, NAN, -1 / 3], [NAN] * 3], [-1 / 3, -1 / 3, NAN]),
        ("max", [[NAN, 1 / 3, 1 / 9], [1, NAN, 1 / 3], [NAN] * 3], [1 / 9, 1 / 3, NAN]),
        ("xor of three", np.where(np.eye(4), NAN, [[0.0]] * 3 + [[NAN]]), [0, 0, 0, NAN]),
    ],
)
def test_hand_worked_games_with_a_dead_column(name, total, common):
    graph = hand_worked(name)
    parts = graph.substitution_parts()
    np.testing.assert_allclose(parts.total, total, atol=1e-12)
    np.testing.assert_allclose(parts.common, common, atol=1e-12)
    np.testing.assert_array_equal(graph.substitution(), parts.total)
    # A player without effect has the common part alone.
    np.testing.assert_allclose(parts.own[:-1, -1], 0, atol=1e-12)


@given(st.integers(2, 5), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_definition_sum_of_parts_and_sign(n_players, seed):
    graph = random_graph_of_game(n_players, seed)
    gamma = 0.05
    parts = graph.substitution_parts(gamma)
    for i in range(n_players):
        for j in range(n_players):
            if i == j or abs(graph.shapley[i]) <= 2 * gamma:
                assert np.isnan(parts.total[i, j])
                assert np.isnan(parts.own[i, j])
            else:
                expected = 1 - 2 * graph.weights[j, i] / graph.shapley[i]
                assert parts.total[i, j] == pytest.approx(expected, abs=1e-9)
                assert parts.common[i] + parts.own[i, j] == pytest.approx(expected, abs=1e-9)
    negative = ExplanationGraph(-graph.weights, shapley=-graph.shapley)
    np.testing.assert_allclose(negative.substitution(gamma), parts.total, atol=1e-12)


def test_strongest_pairs_are_ranked_by_their_own_part_between_relevant_players():
    # a and b stand in for each other, c and d need each other, e has no effect.
    graph = graph_of(lambda s: float(bool({0, 1} & s)) + 2.0 * ({2, 3} <= s), 5, names=list("abcde"))
    parts = graph.substitution_parts()
    assert [(pair.player, pair.given) for pair in parts.substitutes()] == [("a", "b"), ("b", "a")]
    assert [(pair.player, pair.given) for pair in parts.partners()] == [("c", "d"), ("d", "c")]
    assert parts.substitutes(1) == parts.substitutes()[:1]
    pair = parts.substitutes()[0]
    assert (pair.total, pair.own, pair.own_error) == (pytest.approx(1), pytest.approx(2 / 3), 0)
    # OR has more of its own than saturation takes from everybody; e, at the bottom, is in no pair.
    assert not any("e" in (pair.player, pair.given) for pair in (*parts.substitutes(), *parts.partners()))


def test_pairs_within_their_noise_are_left_out_on_request():
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.1, 0.4, (6, 6)) * (1 - np.eye(6))
    noise = rng.uniform(0.001, 0.05, (6, 6)) * (1 - np.eye(6))
    graph = ExplanationGraph(weights, shapley=np.full(6, 0.5), standard_error=noise, shapley_standard_error=[0.001] * 6)
    parts = graph.substitution_parts()
    for pairs in (parts.substitutes, parts.partners):
        certain = [pair for pair in pairs(36) if abs(pair.own) > 2 * pair.own_error]
        assert 0 < len(certain) < len(pairs(36))
        assert list(pairs(36, z=2.0)) == certain
        assert list(pairs(1, z=2.0)) == certain[:1]


def test_players_that_may_be_irrelevant_have_no_substitution():
    graph = hand_worked("or")
    noisy = ExplanationGraph(
        graph.weights, shapley=graph.shapley, standard_error=np.zeros((3, 3)), shapley_standard_error=[0.24, 0.26, 0]
    )
    total = noisy.substitution()
    assert np.isfinite(total[0, 1:]).all() == (0.5 - 1.96 * 0.24 > 0.02)
    assert np.isnan(total[1]).all()


def test_errors_are_those_of_a_ratio():
    rng = np.random.default_rng(0)
    exact, off = hand_worked("max"), ~np.eye(3, dtype=bool)
    error = 0.02 * rng.random((3, 3)) * off
    graph = ExplanationGraph(
        exact.weights, shapley=exact.shapley, standard_error=error, shapley_standard_error=[0.03, 0.02, 0]
    )
    draws = [
        ExplanationGraph(
            exact.weights + error * rng.normal(size=(3, 3)),
            shapley=exact.shapley + graph.shapley_standard_error * rng.normal(size=3),
        ).substitution_parts(0.02)
        for _ in range(3000)
    ]
    parts = graph.substitution_parts(0.02)
    spread = np.std([draw.total[:2] for draw in draws], axis=0)
    np.testing.assert_allclose(parts.total_error[:2][off[:2]], spread[off[:2]], rtol=0.1)
    own, common = (np.std([getattr(draw, name)[:2] for draw in draws], axis=0) for name in ("own", "common"))
    assert (own[off[:2]] <= 1.05 * parts.own_error[:2][off[:2]]).all()
    assert (common <= 1.05 * parts.common_error[:2]).all()


# Over samples


def words_graph(words, seed):
    rng = np.random.default_rng(seed)
    n = len(words)
    off = ~np.eye(n, dtype=bool)
    seen, names = {}, []
    for word in words:
        seen[word] = seen.get(word, 0) + 1
        names.append(word if seen[word] == 1 else f"{word} ({seen[word]})")
    shapley = np.where(rng.random(n) < 0.3, 0.0, rng.normal(size=n))
    return ExplanationGraph(rng.normal(size=(n, n)) * off, names=names, shapley=shapley, standard_error=0.001 * off)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=2, max_size=5), min_size=1, max_size=5))
def test_mean_over_samples_is_weighted_by_importance(sentences):
    graphs = [words_graph(words, seed) for seed, words in enumerate(sentences)]
    mean = mean_substitution(graphs, gammas=[0.05] * len(graphs))
    assert mean.names == tuple(dict.fromkeys(word for words in sentences for word in words))
    for p, a in enumerate(mean.names):
        for q, b in enumerate(mean.names):
            terms = []
            for graph, words in zip(graphs, sentences, strict=True):
                parts = graph.substitution_parts(0.05)
                for i, j in np.argwhere(~np.eye(len(words), dtype=bool)):
                    if (words[i], words[j]) == (a, b) and np.isfinite(parts.total[i, j]):
                        weight = abs(graph.shapley[i])
                        terms.append(weight * np.array([1, parts.total[i, j], parts.own[i, j], parts.own_error[i, j]]))
            if a == b or not terms:
                assert np.isnan(mean.total[p, q])
            else:
                weight, *sums = np.sum(terms, axis=0)
                found = mean.total[p, q], mean.own[p, q], mean.own_error[p, q]
                np.testing.assert_allclose(found, np.array(sums) / weight)


def test_same_columns_of_a_table():
    either, both = hand_worked("or"), hand_worked("and")
    mean = mean_substitution([either, either, both])
    assert mean.total[0, 1] == pytest.approx((1 + 1 - 1) / 3)
    assert np.isnan(mean.total[2]).all()
    assert mean.is_relevant.tolist() == [True, True, False]
    assert mean_substitution([either, both], max_players=1).names == ("0",)
    assert mean_substitution([either], [["x", "y", "z"]]).names == ("x", "y", "z")


def test_bad_graphs_are_refused():
    with pytest.raises(ValueError, match="`graphs` must hold at least one graph"):
        mean_substitution([])
    with pytest.raises(ValueError, match="`labels` must have a name for each player"):
        mean_substitution([hand_worked("or")], [["a"]])
    with pytest.raises(ValueError, match="`shapley` must be given for this"):
        mean_substitution([ExplanationGraph([[0, 1], [2, 0]])])
