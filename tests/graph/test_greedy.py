"""The rankings "keep", "remove" and "shapley" against greedy selection written out on sets of players."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import datasets
from torch import nn

from bivshap_lightning import Game
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.batched import is_possible_ranking
from bivshap_lightning.graph.greedy import LOOK_AHEAD
from bivshap_lightning.metrics.auc import insertion_auc
from tests.graph.games import graph_of, hand_worked, random_graph_of_game
from tests.oracles import enumerate_e2, enumerate_shapley
from tests.trained_games import train

SEEDS = st.integers(0, 10**6)


def quadratic_game(graph, signal=1.0, sign=1.0):
    """u2 of the definition, with the pairwise part scaled; linear terms keep the Shapley values."""
    pair, phi = sign * signal * graph.pairwise, sign * graph.shapley
    linear = phi - 3 * pair.sum(axis=1)

    def value(coalition):
        members = sorted(coalition)
        pairs = sum(pair[i, j] for k, i in enumerate(members) for j in members[k + 1 :])
        return sum(linear[i] for i in members) + 6 * pairs

    return value


def greedy(value, phi, *, remove, look_ahead=LOOK_AHEAD):
    """Add to nobody or remove from everybody, one at a time; near ties by Shapley value, then index.

    A gain is the mean over all sets of the other players that may come before, each of them with the chance look_ahead.
    """
    everyone = frozenset(range(len(phi)))
    chosen = []
    while len(chosen) < len(phi):
        gains = dict.fromkeys(everyone - set(chosen), 0.0)
        for i in gains:
            others = sorted(set(gains) - {i})
            for size in range(len(others) + 1):
                chance = look_ahead**size * (1 - look_ahead) ** (len(others) - size)
                for before in combinations(others, size):
                    done = frozenset(chosen) | frozenset(before)
                    if remove:
                        gain = value(everyone - done) - value(everyone - done - {i})
                    else:
                        gain = value(done | {i}) - value(done)
                    gains[i] += chance * gain
        best = max(gains.values())
        tied = [i for i in sorted(gains) if gains[i] > best - 1e-9]
        chosen.append(min(tied, key=lambda i: (-round(float(phi[i]), 9), i)))
    return chosen


@given(st.integers(1, 5), SEEDS)
@settings(max_examples=40, deadline=None)
def test_the_quadratic_game_has_the_same_values(n_players, seed):
    graph = random_graph_of_game(n_players, seed)
    value = quadratic_game(graph)
    np.testing.assert_allclose(enumerate_shapley(value, n_players), graph.shapley, atol=1e-12)
    np.testing.assert_allclose(enumerate_e2(value, n_players), graph.weights.T, atol=1e-12)


@pytest.mark.parametrize("method", ["keep", "remove"])
@given(n_players=st.integers(1, 5), seed=SEEDS)
@settings(max_examples=40, deadline=None)
def test_orders_are_those_of_greedy_selection(method, n_players, seed):
    graph = random_graph_of_game(n_players, seed)
    sign = -1 if graph.shapley.sum() < -1e-9 else 1
    expected = greedy(quadratic_game(graph, sign=sign), sign * graph.shapley, remove=method == "remove")
    assert graph.order(method).tolist() == expected
    scores = graph.ranking(method)
    assert scores.sum() == pytest.approx(1)
    assert np.argsort(-scores).tolist() == expected


@pytest.mark.parametrize("method", ["keep", "remove"])
@given(n_players=st.integers(2, 5), seed=SEEDS, noise=st.sampled_from([0.01, 0.1, 0.5]))
@settings(max_examples=40, deadline=None)
def test_the_pairwise_part_is_shrunk_by_its_noise(method, n_players, seed, noise):
    exact = random_graph_of_game(n_players, seed)
    error = noise * np.random.default_rng(seed).random((n_players, n_players)) * ~np.eye(n_players, dtype=bool)
    phi_error = np.full(n_players, noise)
    graph = ExplanationGraph(
        exact.weights, shapley=exact.shapley, standard_error=error, shapley_standard_error=phi_error
    )
    # The error of E2[i, j] - R[i], term by term.
    variance = np.zeros((n_players, n_players))
    for i in range(n_players):
        for j in set(range(n_players)) - {i}:
            for k in set(range(n_players)) - {i}:
                weight = (k == j) - 1 / (n_players + 1)
                variance[i, j] += (weight * error[k, i]) ** 2
            variance[i, j] += (phi_error[i] / (n_players + 1)) ** 2
    squares = (exact.pairwise**2).mean()
    signal = min(max(1 - variance.mean() / 3 / squares, 0), 1) if squares else 0
    sign = -1 if graph.shapley.sum() < -1e-9 else 1
    expected = greedy(quadratic_game(graph, signal, sign), sign * graph.shapley, remove=method == "remove")
    assert graph.order(method).tolist() == expected


def test_a_known_error_of_the_pairwise_part_replaces_its_bound():
    # Three copies worth 1 together, another player worth 0.4.
    exact = graph_of(lambda s: float(bool({0, 1, 2} & s)) + 0.4 * (3 in s), 4)
    off = ~np.eye(4, dtype=bool)
    values = {"shapley": exact.shapley, "standard_error": 0.2 * off}
    bounded = ExplanationGraph(exact.weights, **values)
    known = ExplanationGraph(exact.weights, pairwise_standard_error=1e-3 * off, **values)
    assert bounded.order("keep").tolist() == exact.order("shapley").tolist()
    assert known.order("keep").tolist() == exact.order("keep").tolist() != bounded.order("keep").tolist()


def test_pure_noise_gives_the_order_of_shapley_values():
    exact = random_graph_of_game(5, 3)
    error = 100.0 * ~np.eye(5, dtype=bool)
    graph = ExplanationGraph(exact.weights, shapley=exact.shapley, standard_error=error)
    for method in ("keep", "remove"):
        assert graph.order(method).tolist() == graph.order("shapley").tolist()


def test_keep_takes_one_of_each_group_first_and_remove_takes_groups_apart_together():
    # Three copies worth 1 together, another player worth 0.4.
    graph = graph_of(lambda s: float(bool({0, 1, 2} & s)) + 0.4 * (3 in s), 4)
    assert graph.order("keep").tolist() == [0, 3, 1, 2]
    assert graph.order("shapley").tolist() == [3, 0, 1, 2]
    # The copies are worth nothing one by one, so the other player is the most damaging removal.
    assert graph.order("remove").tolist() == [3, 0, 1, 2]


def test_shapley_scores_are_the_values_with_the_sign_of_the_game():
    graph = ExplanationGraph([[0, 1], [2, 0]], shapley=[-3, 1])
    assert graph.ranking("shapley").tolist() == [3, -1]
    assert graph.ranking("shapley", oriented=False).tolist() == [-3, 1]
    assert graph.order("shapley").tolist() == [0, 1]


@given(st.integers(2, 5), SEEDS, st.sampled_from(["keep", "remove", "shapley", "pagerank", "hits"]))
@settings(max_examples=40, deadline=None)
def test_a_game_and_its_negative_are_ranked_alike(n_players, seed, method):
    graph = random_graph_of_game(n_players, seed)
    if abs(graph.shapley.sum()) < 1e-3 * np.abs(graph.shapley).sum():
        return  # nothing tells the two apart
    negative = ExplanationGraph(-graph.weights, shapley=-graph.shapley)
    np.testing.assert_allclose(negative.ranking(method), graph.ranking(method), rtol=1e-12)
    assert negative.order(method).tolist() == graph.order(method).tolist()
    assert negative.roles(0.1).roles == graph.roles(0.1).roles


@pytest.mark.parametrize("method", ["keep", "remove"])
def test_greedy_selection_reads_the_log_odds_where_there_are_any(method):
    graph, log_odds = hand_worked("max"), graph_of(lambda s: 2.0 * (2 in s) + 1.0 * (1 in s), 3)
    both = ExplanationGraph(graph.weights, shapley=graph.shapley, log_odds=log_odds)
    assert both.order(method).tolist() == log_odds.order(method).tolist() != graph.order(method).tolist()
    assert both.order("shapley").tolist() == graph.order("shapley").tolist()
    assert both.order("pagerank").tolist() == graph.order("pagerank").tolist()
    assert both.order().tolist() == both.order("keep").tolist()
    assert (both.ranked_on, graph.ranked_on) == ("log_odds", "weights")


@pytest.mark.parametrize("method", ["keep", "remove", "shapley"])
def test_methods_that_need_shapley_values(method):
    with pytest.raises(
        ValueError, match=f"`method` must be 'pagerank' or 'hits' without Shapley values, got '{method}'"
    ):
        ExplanationGraph([[0, 1], [2, 0]]).ranking(method)


@pytest.mark.parametrize("method", ["keep", "remove"])
def test_noisy_log_odds_give_way_to_the_shapley_values_of_the_probability(method):
    """Those of the log-odds may order players otherwise; with pure noise the order is that of "shapley"."""
    off = ~np.eye(3, dtype=bool)
    e2 = np.array([[0, 0.45, 0.45], [0.25, 0, 0.25], [0.1, 0.1, 0]])  # additive: half of the Shapley values
    pair = np.array([[0, 0.01, 0], [0.01, 0, 0], [0, 0, 0]])  # and something to be drowned by noise
    e2 += pair
    noisy = ExplanationGraph(e2.T, shapley=[0.9, 0.5, 0.2], standard_error=9.0 * off)
    known = ExplanationGraph(e2.T, shapley=[0.9, 0.5, 0.2])
    graphs = [ExplanationGraph(e2.T, shapley=[0.1, 0.2, 0.4], log_odds=log_odds) for log_odds in (noisy, known)]
    assert graphs[0].order(method).tolist() == graphs[0].order("shapley").tolist() == [2, 1, 0]
    assert graphs[1].order(method).tolist() == known.order(method).tolist() == [0, 1, 2]
    negative = ExplanationGraph(-e2.T, shapley=[-0.1, -0.2, -0.4], log_odds=noisy)
    assert negative.order(method).tolist() == [2, 1, 0]


@pytest.mark.parametrize("first", [0, 1])
def test_keep_is_not_below_shapley_values_on_tables_with_background_rows(first):
    """Mean differences of three enumerated networks each; without the look-ahead the second three fail."""
    x, y = datasets.load_breast_cancer(return_X_y=True)
    x = ((x - x.mean(axis=0)) / x.std(axis=0))[:, first : first + 19 : 2]
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(len(x))
        held_out, background, rest = rows[:32], rows[32:40], rows[40:]
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(x.shape[1], 24), nn.ReLU(), nn.Linear(24, 2))
        train(model, x[rest], y[rest], seed)
        inputs = torch.as_tensor(x, dtype=torch.float32)
        game = Game(model, inputs[held_out], background=inputs[background])
        explanation = find_explainer("exact").explain(game)
        keep, shapley = (
            insertion_auc(game, explanation, method=method)["per_sample_auc"] for method in ("keep", "shapley")
        )
        assert keep.mean() > shapley.mean()


def test_orders_of_earlier_records_are_possible_rankings():
    """Those of 0.1.0 do not look ahead."""
    for seed in range(50):
        graph = random_graph_of_game(5, seed)
        sign = -1 if graph.shapley.sum() < -1e-9 else 1
        before = greedy(quadratic_game(graph, sign=sign), sign * graph.shapley, remove=False, look_ahead=0.0)
        now, scores = graph.order("keep"), np.sort(graph.ranking("keep"))[::-1]
        if before != now.tolist():
            break
    assert is_possible_ranking(graph, now, scores, 1e-6)
    assert is_possible_ranking(graph, np.array(before), scores, 1e-6)
    assert not is_possible_ranking(graph, now[::-1], scores, 1e-6)
