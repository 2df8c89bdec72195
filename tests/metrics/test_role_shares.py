"""Role shares against loops over samples, hand-worked games and exact explanations."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bivshap_lightning import BivariateShapley, ExplanationGraph, Game
from bivshap_lightning.graph import ROLES
from bivshap_lightning.metrics import RoleShares
from bivshap_lightning.metrics.functional import role_shares

OR_GRAPH = ExplanationGraph([[0, 0, 0], [0, 0, 0], [1 / 6, 1 / 6, 0]], shapley=[1 / 2, 1 / 2, 0])
"""OR(a, b); c has no effect."""


def game_of(function, n_players=3, n_samples=1, **kwargs):
    return Game(function, torch.ones(n_samples, n_players), link="sigmoid", **kwargs)


def or_game():
    return game_of(lambda x: 8 * x[:, :2].amax(dim=1) - 4)


def reference(table, graphs, gammas, n_draws, seed):
    """Every number, sample by sample and group by group."""
    rows = {name: [] for name in (*ROLES, "n_independent")}
    n_groups = n_members = n_stable = n_moving = n_confirmed = 0
    for sample, (graph, gamma) in enumerate(zip(graphs, gammas, strict=True)):
        everyone, roles = set(range(graph.n_players)), graph.roles(gamma)
        for role in ROLES:
            rows[role].append(sum(r == role for r in roles.roles) / graph.n_players)
        rows["n_independent"].append(sum(r == "essential" for r in roles.roles) + len(roles.groups))
        keys = np.random.PCG64(seed).random_raw(table.n_players)
        for group in roles.groups:
            circle = sorted(group, key=lambda player: keys[player])
            chosen = {circle[draw * len(group) // n_draws] for draw in range(n_draws)}
            decisions = [table.decision(sample, everyone - set(group) | {member}) for member in chosen]
            is_stable = all(decision == table.decision(sample, everyone) for decision in decisions)
            moved = abs(table.utility(sample, everyone - set(group)) - table.utility(sample, everyone))
            n_groups, n_members = n_groups + 1, n_members + len(group)
            n_stable += is_stable
            n_moving += moved > 2 * gamma
            n_confirmed += is_stable and moved > 2 * gamma
    result = {name: np.mean(values) for name, values in rows.items()}
    result |= {f"{name}_se": np.std(values) / len(graphs) ** 0.5 for name, values in rows.items()}
    result |= {f"per_sample_{name}": values for name, values in rows.items()}
    return result | {
        "groups_per_sample": n_groups / len(graphs),
        "group_size": n_members / max(n_groups, 1),
        "share_groups_stable": n_stable / max(n_groups, 1),
        "share_groups_moving": n_moving / max(n_groups, 1),
        "share_groups_confirmed": n_confirmed / max(n_groups, 1),
        "n_samples": len(graphs),
    }


@pytest.mark.parametrize("is_ragged", [False, True])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n_draws=st.integers(1, 4))
def test_every_number_on_random_games(table_game, random_graphs, is_ragged, seed, n_draws):
    table = table_game(seed, n_players=5, is_ragged=is_ragged)
    graphs = random_graphs(seed, table.counts, noise=0.05 * (seed % 2))
    for arguments, gammas in (
        ({"gamma": 0.2}, [0.2] * len(graphs)),
        ({}, [graph.relative_gamma for graph in graphs]),
        ({"scale": 9.0}, [9 * min(0.01, 0.15 / graph.n_players) for graph in graphs]),
    ):
        expected = reference(table, graphs, gammas, n_draws, seed)
        metric = RoleShares(per_sample=True, n_draws=n_draws, seed=seed, **arguments)
        metric.update(table.game(), graphs)
        for result in (metric.compute(), role_shares(table.game(), graphs, n_draws=n_draws, seed=seed, **arguments)):
            assert set(result) == set(expected)
            for name, value in expected.items():
                np.testing.assert_allclose(result[name].numpy(), value, atol=1e-6, err_msg=name)


def test_shares_sum_to_one_and_a_true_group_is_confirmed():
    result = role_shares(or_game(), OR_GRAPH)
    assert sum(result[role] for role in ROLES) == pytest.approx(1)
    assert (result["interchangeable"], result["irrelevant"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert (result["n_independent"], result["groups_per_sample"], result["group_size"]) == (1, 1, 2)
    assert result["share_groups_confirmed"] == 1


def test_a_group_that_the_model_contradicts_is_not_confirmed():
    # Only a decides: with b kept in its place the decision changes.
    wrong = role_shares(game_of(lambda x: 8 * x[:, 0] - 4), OR_GRAPH)
    assert (wrong["share_groups_stable"], wrong["share_groups_moving"]) == (0, 1)
    # Nothing changes the value: one member is enough, but so is none.
    constant = role_shares(game_of(lambda x: 0 * x[:, 0] + 2), OR_GRAPH)
    assert (constant["share_groups_stable"], constant["share_groups_moving"]) == (1, 0)
    assert wrong["share_groups_confirmed"] == constant["share_groups_confirmed"] == 0


def test_duplicated_and_dead_columns_of_a_model():
    """Columns 0 and 1 are copies behind a maximum, 2 counts by itself, 3 is dead; explained exactly."""
    model = lambda x: torch.maximum(x[:, 0], x[:, 1]) + 0.5 * x[:, 2]  # noqa: E731
    x = torch.tensor([[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 1.0, -1.0]])
    explanation = BivariateShapley(model, behavior="output").attribute(x)
    result = role_shares(Game(model, x, behavior="output"), explanation)
    assert [graph.roles().groups for graph in explanation.graphs()] == [((0, 1),)] * 2
    assert (result["interchangeable"], result["essential"], result["irrelevant"]) == (0.5, 0.25, 0.25)
    assert (result["n_independent"], result["share_groups_confirmed"]) == (2, 1)


def test_without_groups_the_model_is_not_evaluated():
    rows = []
    game = game_of(lambda x: (rows.append(len(x)), x.sum(dim=1))[1])
    rows.clear()
    result = role_shares(game, ExplanationGraph(np.ones((3, 3)) - np.eye(3), shapley=[2, 2, 2]))
    assert not rows
    assert (result["essential"], result["groups_per_sample"], result["share_groups_confirmed"]) == (1, 0, 0)


def test_refusals():
    with pytest.raises(TypeError, match="must hold an ExplanationGraph per sample, got RedundancyGraph"):
        RoleShares().update(or_game(), OR_GRAPH.redundancy())
    with pytest.raises(ValueError, match="`scale` must be None if `gamma` is given, got 1"):
        RoleShares(gamma=0.1, scale=1.0)
    with pytest.raises(ValueError, match="`scale` must be finite and >= 0, got -1"):
        RoleShares(scale=-1.0)
    with pytest.raises(ValueError, match="`convention` must be 'default' for roles, got 'paper'"):
        RoleShares(convention="paper")
    with pytest.raises(ValueError, match="`convention` must be one of"):
        RoleShares(convention="old")
    with pytest.raises(ValueError, match="`gamma` must be finite and >= 0, got -1"):
        RoleShares(gamma=-1)
    with pytest.raises(ValueError, match="`n_draws` must be a whole number >= 1, got 0"):
        RoleShares(n_draws=0)
    with pytest.raises(ValueError, match="`shapley` must be given for this"):
        RoleShares().update(or_game(), ExplanationGraph(np.zeros((3, 3))))
