"""Sufficient sets and the hybrid ranking, against enumeration and greedy selection with the model."""

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

import bivshap_lightning
from bivshap_lightning import BivariateShapley, Game, sufficient_set
from bivshap_lightning.graph.candidates import KeepGains, hybrid_order, values_of_sample
from tests.graph.games import graph_of, random_table
from tests.oracles import table_value

N_PLAYERS, N_SAMPLES = 8, 12


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(N_PLAYERS, 16), nn.Tanh(), nn.Linear(16, 3)).double().eval()


def explained(seed: int):
    """A network's game on random inputs, its exact explanation, and the decisions on all coalitions."""
    model, x = network(seed), torch.randn(N_SAMPLES, N_PLAYERS, dtype=torch.float64) * 2
    return Game(model, x), BivariateShapley(model, method="exact").attribute(x)


def every_coalition() -> torch.Tensor:
    return (torch.arange(2**N_PLAYERS)[:, None] >> torch.arange(N_PLAYERS) & 1 == 1)[None]


@pytest.fixture(scope="module", params=[0, 1])
def case(request):
    game, explanation = explained(request.param)
    right = game.predict(every_coalition())
    return game, explanation, (right == right[:, -1:]).numpy(), sufficient_set(game, explanation)


def number_of(members) -> int:
    return sum(1 << k for k in members)


def test_sets_keep_the_decision_and_are_nearly_minimal(case):
    _, _, right, found = case
    smallest = [
        next(n for n in range(N_PLAYERS + 1) if any(row[number_of(s)] for s in combinations(range(N_PLAYERS), n)))
        for row in right
    ]
    sizes = [s.size for s in found]
    assert all(row[number_of(s.members)] for row, s in zip(right, found, strict=True))
    assert all(row[number_of(s.stable_members)] for row, s in zip(right, found, strict=True))
    assert all(a >= b for a, b in zip(sizes, smallest, strict=True))
    assert np.mean(sizes) - np.mean(smallest) <= 0.1
    assert max(sizes) > 0


def test_no_single_member_can_be_dropped(case):
    _, _, right, found = case
    for row, s in zip(right, found, strict=True):
        if s.size > 1:
            assert not any(row[number_of(set(s.members) - {k})] for k in s.members)


def test_certificates_agree_with_all_supersets(case):
    """The exact share over all supersets, each other player present with a probability that is itself uniform."""
    _, _, right, found = case
    estimated, exact = [], []
    for row, s in zip(right, found, strict=True):
        others = [k for k in range(N_PLAYERS) if k not in s.stable_members]
        shares = [
            np.mean([row[number_of({*s.stable_members, *extra})] for extra in combinations(others, n)])
            for n in range(len(others) + 1)
        ]
        exact.append(np.mean(shares))  # a uniform probability makes all sizes equally likely
        estimated.append(s.stable_agreement)
    assert np.mean(estimated) == pytest.approx(np.mean(exact), abs=0.03)
    assert np.mean(exact) > 0.95


def test_stable_sets_extend_the_small_ones(case):
    *_, found = case
    assert all(s.stable_members[: s.size] == s.members for s in found)
    assert np.mean([s.stable_agreement for s in found]) >= np.mean([s.agreement for s in found])
    assert any(s.stable_size > s.size for s in found)
    assert all(s.n_supersets == 32 and s.n_players == N_PLAYERS for s in found)
    assert str(found[0]).startswith(f"{found[0].size} of 8 suffice; with {found[0].stable_size}, ")


def test_evaluations_are_counted_and_draws_are_seeded():
    game, explanation = explained(0)
    before = game.n_evaluations.clone()
    found = sufficient_set(game, explanation, seed=3)
    assert [s.n_evaluations for s in found] == (game.n_evaluations - before).tolist()
    assert all(s.n_evaluations < 600 for s in found)
    again = sufficient_set(explained(0)[0], explanation, seed=3)
    assert [s.stable_members for s in again] == [s.stable_members for s in found]
    assert [s.stable_agreement for s in again] == [s.stable_agreement for s in found]


def test_games_worked_by_hand():
    """OR: one suffices. Majority of three: two. AND: all. A constant: none, for the decision stands without players."""
    x = torch.ones(1, 3)
    cases = {
        (0,): lambda z: 8 * z.amax(dim=1) - 4,
        (0, 1): lambda z: 8 * z.sum(dim=1) - 12,
        (0, 1, 2): lambda z: 8 * z.amin(dim=1) - 4,
        (): lambda z: 0 * z.sum(dim=1) + 2.0,
    }
    for members, score in cases.items():
        (found,) = sufficient_set(Game(score, x), BivariateShapley(score).attribute(x))
        assert (tuple(sorted(found.members)), found.stable_agreement) == (members, 1.0)
        assert found.names == tuple(map(str, found.members))


def test_values_univariate_explanations_and_null_players():
    weights = torch.tensor([-5.0, -1.0, -1.0, 7.0])
    x = torch.tensor([[1.0, 1.0, 1.0, 0.0]])
    model = lambda z: z @ weights  # noqa: E731
    game = Game(model, x, behavior="output")
    explanation = BivariateShapley(model, behavior="output").attribute(x)
    (found,) = sufficient_set(game, explanation)  # -5 is nearer to -7 than to 0
    assert found.members == (0,)
    assert 3 not in found.stable_members
    from bivshap_lightning.explainers import Explanation

    spent = game.n_evaluations * 0
    alone = Explanation.of(game, method="mine", seed=0, shapley=-explanation.shapley, n_evaluations=spent)
    (found,) = sufficient_set(game, alone)
    assert 0 in found.members
    assert (found.names, found.size) == (("0",), 1)


def test_refusals():
    game, explanation = explained(0)
    with pytest.raises(ValueError, match=r"`explanation` must be of the game's 1 samples and 8 players, got \(12, 8\)"):
        sufficient_set(Game(network(0), torch.randn(1, 8).double()), explanation)
    with pytest.raises(ValueError, match="`n_candidates` must be a whole number >= 1, got 0"):
        sufficient_set(game, explanation, n_candidates=0)
    with pytest.raises(ValueError, match="`n_supersets` must be a whole number >= 1, got 0"):
        sufficient_set(game, explanation, n_supersets=0)
    assert "sufficient_set" in dir(bivshap_lightning)


def insertion(values, order) -> float:
    masks = np.tri(len(order), len(order), -1, dtype=bool)[:, np.argsort(order)]
    return float(values(masks).mean())


def greedy_with_the_model(values, sign=1.0) -> list[int]:
    order: list[int] = []
    while len(order) < N_PLAYERS:
        left = [k for k in range(N_PLAYERS) if k not in order]
        masks = np.zeros((len(left), N_PLAYERS), dtype=bool)
        masks[:, order] = True
        masks[np.arange(len(left)), left] = True
        order.append(left[int(np.argmax(sign * values(masks)))])
    return order


def test_the_hybrid_is_between_keep_and_greedy_selection():
    game, explanation = explained(0)
    areas = {"keep": [], "hybrid": [], "greedy": []}
    for b in range(N_SAMPLES):
        graph, values = explanation.graph(b), values_of_sample(game, b)
        assert hybrid_order(graph, values, 0).tolist() == graph.order("keep").tolist()
        orders = {
            "keep": graph.order("keep"),
            "hybrid": hybrid_order(graph, values, 30, n_candidates=3),
            "greedy": greedy_with_the_model(values, graph.sign),
        }
        for name, order in orders.items():
            areas[name].append(graph.sign * insertion(values, order))
    assert np.mean(areas["keep"]) < np.mean(areas["hybrid"]) <= np.mean(areas["greedy"]) + 1e-3


def test_the_hybrid_is_the_better_one_of_greedy_selection_and_the_order_of_keep():
    n_greedy = 0
    for seed in range(1, 20, 2):  # tables without ties
        table = random_table(N_PLAYERS, seed)
        graph = graph_of(table_value(table), N_PLAYERS)

        def values(masks, table=table):
            return table[masks @ (1 << np.arange(N_PLAYERS))]

        greedy, keep = greedy_with_the_model(values, graph.sign), graph.order("keep").tolist()
        is_greedy = graph.sign * insertion(values, greedy) > graph.sign * insertion(values, keep)
        assert hybrid_order(graph, values, 10**6).tolist() == (greedy if is_greedy else keep)
        n_greedy += is_greedy
    assert 5 <= n_greedy < 10


def test_the_hybrid_returns_the_order_of_keep_where_greedy_selection_is_misled():
    """The last player is worth most alone, and nothing beside any other one."""
    worth = [0.4, 0.35, 0.25]

    def value(members):
        return 0.42 if members == {3} else sum(worth[k] for k in members if k < 3)

    def values(masks):
        return np.array([value(set(np.flatnonzero(mask).tolist())) for mask in masks])

    graph = graph_of(lambda members: value(set(members)), 4)
    assert graph.order("keep").tolist() == [0, 1, 2, 3]
    for n_evaluations in (0, 5, 100):
        assert hybrid_order(graph, values, n_evaluations)[0] == (3 if n_evaluations == 5 else 0)


def test_scores_of_the_hybrid():
    game, explanation = explained(1)
    graph = explanation.graph(2)
    before = game.n_evaluations.clone()
    scores = graph.ranking("keep", game=game, sample=2, n_evaluations=20)
    spent = game.n_evaluations - before
    assert int(spent[2]) <= 20
    assert int(spent.sum()) == int(spent[2])
    assert scores.sum() == pytest.approx(1)
    assert np.argsort(-scores).tolist() == hybrid_order(graph, values_of_sample(game, 2), 20).tolist()
    default = graph.ranking("keep", game=game, sample=2)
    assert np.argsort(-default).tolist() == hybrid_order(graph, values_of_sample(game, 2), 10**6).tolist()
    with pytest.raises(ValueError, match="`method` must be 'keep' with `game`, got 'pagerank'"):
        graph.ranking("pagerank", game=game)
    with pytest.raises(ValueError, match="`n_evaluations` must be given with `game` only"):
        graph.ranking("keep", n_evaluations=20)
    with pytest.raises(ValueError, match="`n_evaluations` must be a whole number >= 0, got -1"):
        graph.ranking("keep", game=game, n_evaluations=-1)
    with pytest.raises(ValueError, match="`game` must have the graph's 8 players, got 2"):
        graph.ranking("keep", game=Game(lambda x: x.sum(dim=1), torch.ones(1, 2)))


def test_gains_are_those_of_the_greedy_order():
    _, explanation = explained(0)
    for b in range(4):
        graph = explanation.graph(b)
        gains, chosen = KeepGains.of(graph), np.zeros(N_PLAYERS, dtype=bool)
        for player in graph.order("keep").tolist():
            assert gains.best(chosen, 1).tolist() == [player]
            chosen[player] = True
        assert gains.best(chosen, 1).tolist() == []


def test_a_sample_has_the_same_sets_in_every_batch():
    """Draws depend on the seed and the player alone: not on the batch, nor on how many players other samples have."""
    model, x = network(0), torch.randn(6, N_PLAYERS, dtype=torch.float64) * 2
    explainer = BivariateShapley(model, method="exact")
    together = sufficient_set(Game(model, x), explainer.attribute(x))
    alone = [sufficient_set(Game(model, x[[b]]), explainer.attribute(x[[b]]))[0] for b in range(len(x))]
    for whole, one in zip(together, alone, strict=True):
        assert (whole.members, whole.stable_members) == (one.members, one.stable_members)
        assert (whole.agreement, whole.stable_agreement) == (one.agreement, one.stable_agreement)
