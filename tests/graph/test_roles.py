"""Roles against hand-worked games, and against every case that the noise allows, one by one."""

import itertools
from statistics import NormalDist

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bivshap_lightning.graph import DEFAULT_GAMMA, ROLES, ExplanationGraph, Roles, relative_gamma
from bivshap_lightning.graph.roles import roles_of_all
from tests.graph.games import graph_of, hand_worked, random_graph_of_game

IRRELEVANT, INTERCHANGEABLE, REDUNDANT, ESSENTIAL = ROLES[:4]


# Hand-worked games


@pytest.mark.parametrize(
    ("name", "roles", "groups", "given", "n_independent"),
    [
        ("and", (ESSENTIAL, ESSENTIAL), (), ((), ()), 2),
        ("or", (INTERCHANGEABLE, INTERCHANGEABLE), ((0, 1),), ((1,), (0,)), 1),
        ("max", (ESSENTIAL, REDUNDANT), (), ((), (0,)), 1),
        ("sign change", (ESSENTIAL, ESSENTIAL), (), ((), ()), 2),
        ("xor of three", (ESSENTIAL,) * 3, (), ((),) * 3, 3),
        (
            "three copies and another",
            (INTERCHANGEABLE,) * 3 + (ESSENTIAL,),
            ((0, 1, 2),),
            ((1, 2), (0, 2), (0, 1), ()),
            2,
        ),
    ],
)
def test_hand_worked_games_with_a_dead_column(name, roles, groups, given, n_independent):
    result = hand_worked(name).roles()
    assert result.roles == (*roles, IRRELEVANT)
    assert result.groups == groups
    assert result.redundant_given == (*given, ())
    assert result.n_independent == n_independent
    assert result.players("irrelevant") == (len(roles),)
    assert sum(result.shares.values()) == pytest.approx(1)
    assert result.shares["irrelevant"] == 1 / (len(roles) + 1)


def test_dead_columns_are_irrelevant_and_never_interchangeable():
    # H groups the dead columns with each other at every gamma; roles do not.
    graph = graph_of(lambda s: float(bool({0, 1} & s)), 5)
    assert graph.redundancy().groups == ((2, 3, 4), (0, 1))
    for gamma in (None, 0.0, DEFAULT_GAMMA, 0.05):
        assert graph.roles(gamma).roles == (INTERCHANGEABLE,) * 2 + (IRRELEVANT,) * 3
    assert graph.roles(0.5).roles == (IRRELEVANT,) * 5


def test_unrelated_weak_players_of_a_saturating_game_are_not_interchangeable():
    weights = [1.0, 1.0, *[0.05] * 6]
    graph = graph_of(lambda s: 1 - np.exp(-sum(weights[i] for i in s)), 8)
    gamma = graph.relative_gamma
    weak = graph.weights[2:, 2:][~np.eye(6, dtype=bool)]
    assert (np.abs(weak) <= gamma).all()  # each makes each other redundant in H
    assert (graph.shapley > 2 * gamma).all()  # and is relevant all the same
    assert graph.roles().roles == (ESSENTIAL,) * 8


def test_the_default_threshold_is_relative():
    graph = hand_worked("max")
    assert graph.roles().gamma == pytest.approx(0.01 * 2)
    assert relative_gamma(10, 0.5) == pytest.approx(0.005)
    assert relative_gamma(100, 0.5) == pytest.approx(0.00075)
    many = ExplanationGraph(np.zeros((30, 30)), shapley=np.full(30, -0.1))
    assert many.relative_gamma == pytest.approx(0.15 / 30 * 3)


def test_rounding_alone_makes_nobody_relevant():
    # XOR of two: u(all) = u(none), so the relative threshold would be zero.
    graph = graph_of(lambda s: float(len({0, 1} & s) % 2), 3)
    jitter = 1e-9 * np.random.default_rng(0).normal(size=(3, 3)) * ~np.eye(3, dtype=bool)
    noisy = ExplanationGraph(graph.weights + jitter, shapley=graph.shapley + jitter[0])
    assert noisy.roles().roles == (ESSENTIAL, ESSENTIAL, IRRELEVANT)


# Exact graphs against the table, line by line


def roles_by_the_table(e2, phi, late, gamma):
    n = len(phi)
    relevant = [
        not (abs(phi[i]) <= 2 * gamma and all(abs(e2[i, j]) <= gamma for j in range(n) if j != i)) for i in range(n)
    ]
    edges = [
        (i, j)
        for i, j in itertools.permutations(range(n), 2)
        if relevant[i] and relevant[j] and abs(e2[i, j]) <= min(gamma, abs(late[i]) / 2)
    ]
    return roles_of_case(relevant, edges)


def roles_of_case(relevant, edges):
    """`edges` (i, j): j makes i redundant; both relevant."""
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(range(len(relevant)))
    part = {player: members for members in nx.strongly_connected_components(graph) for player in members}
    roles = []
    for i, is_relevant in enumerate(relevant):
        if not is_relevant:
            roles.append(IRRELEVANT)
        elif len(part[i]) > 1:
            roles.append(INTERCHANGEABLE)
        else:
            roles.append(REDUNDANT if graph.out_degree(i) else ESSENTIAL)
    return tuple(roles)


@given(st.integers(1, 5), st.integers(0, 10**6), st.sampled_from([0.0, 0.02, 0.1, 0.3, 1.0]))
@settings(max_examples=80, deadline=None)
def test_exact_graphs_follow_the_table(n_players, seed, gamma):
    graph = random_graph_of_game(n_players, seed)
    expected = roles_by_the_table(graph.weights.T, graph.shapley, graph.potential, gamma)
    assert graph.roles(gamma).roles == expected


def test_a_batch_has_the_roles_of_each_graph():
    graphs = [random_graph_of_game(n, seed) for seed, n in enumerate((3, 4, 3, 2, 4, 1))]
    gammas = [0.05 * (k + 1) for k in range(len(graphs))]
    batch = roles_of_all([*graphs, graphs[0]], [*gammas, gammas[0]])
    for roles, graph, gamma in zip(batch, graphs, gammas, strict=False):
        fresh = ExplanationGraph(graph.weights, shapley=graph.shapley)
        assert roles == fresh.roles(gamma)
    assert batch[-1] is batch[0]
    assert [roles.gamma for roles in roles_of_all(graphs)] == [graph.relative_gamma for graph in graphs]


# Noise


def estimated_graph(seed, n_players=3):
    """A random game with noise around thresholds of 0.1 to 0.3."""
    rng = np.random.default_rng(seed)
    graph = random_graph_of_game(n_players, seed)
    off = ~np.eye(n_players, dtype=bool)
    error = rng.choice([0.0, 0.01, 0.05, 0.2], size=(n_players, n_players)) * off
    phi_error = rng.choice([0.0, 0.02, 0.2], size=n_players)
    return ExplanationGraph(
        graph.weights, shapley=graph.shapley, standard_error=error, shapley_standard_error=phi_error
    )


def possible_roles(graph, gamma):
    """All roles of each player over all cases that the intervals allow, by listing the cases."""
    n, e2, error = graph.n_players, np.abs(graph.weights.T), graph.standard_error.T
    phi, phi_error = np.abs(graph.shapley), graph.shapley_standard_error
    late, late_error = np.abs(graph.potential), graph.potential_error
    z, z_phi = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(1 - 0.0125)
    z_any = NormalDist().inv_cdf(1 - 0.0125 / max(n - 1, 1))
    pairs = list(itertools.permutations(range(n), 2))
    relevance = []
    for i in range(n):
        others = [j for j in range(n) if j != i]
        surely_not = phi[i] + z * phi_error[i] <= 2 * gamma and all(e2[i, j] + z * error[i, j] <= gamma for j in others)
        surely = phi[i] - z_phi * phi_error[i] > 2 * gamma or any(
            e2[i, j] - z_any * error[i, j] > gamma for j in others
        )
        relevance.append([True] if surely else [False] if surely_not else [False, True])
    edges = []
    for i, j in pairs:
        low, high = max(late[i] - z * late_error[i], 0) / 2, (late[i] + z * late_error[i]) / 2
        surely = e2[i, j] + z * error[i, j] <= min(gamma, low)
        possibly = e2[i, j] - z * error[i, j] <= min(gamma, high)
        edges.append([True] if surely else [False, True] if possibly else [False])
    found = [set() for _ in range(n)]
    for relevant in itertools.product(*relevance):
        for present in itertools.product(*edges):
            case = [
                (i, j)
                for (i, j), is_edge in zip(pairs, present, strict=True)
                if is_edge and relevant[i] and relevant[j]
            ]
            for roles, role in zip(found, roles_of_case(relevant, case), strict=True):
                roles.add(role)
    return found


@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.3]))
@settings(max_examples=60, deadline=None)
def test_a_role_is_undecided_exactly_if_the_noise_allows_another(seed, gamma):
    graph = estimated_graph(seed)
    result = graph.roles(gamma)
    for role, possible in zip(result.roles, possible_roles(graph, gamma), strict=True):
        assert role == (next(iter(possible)) if len(possible) == 1 else "undecided")


def test_groups_and_reasons_of_estimated_graphs_are_certain():
    graph = hand_worked("or")
    off = ~np.eye(3, dtype=bool)
    sure = ExplanationGraph(graph.weights, shapley=graph.shapley, standard_error=1e-3 * off)
    assert sure.roles().roles == graph.roles().roles
    assert sure.roles().groups == ((0, 1),)
    noisy = ExplanationGraph(graph.weights, shapley=graph.shapley, standard_error=0.01 * off)
    result = noisy.roles()
    assert result.roles[:2] == ("undecided", "undecided")
    assert (result.groups, result.redundant_given, result.n_independent) == ((), ((), (), ()), 0)
    # Less confidence is content with less.
    assert noisy.roles(confidence=0.5).groups == ((0, 1),)


@pytest.mark.parametrize("name", ["and", "or", "max", "three copies and another"])
def test_at_most_five_percent_of_decided_roles_are_wrong(name):
    exact = hand_worked(name)
    rng, off = np.random.default_rng(0), ~np.eye(exact.n_players, dtype=bool)
    gamma, truth = 0.04, exact.roles(0.04).roles
    n_wrong = n_decided = 0
    for _ in range(300):
        error = 0.012 * rng.random((exact.n_players,) * 2) * off
        phi_error = 0.02 * rng.random(exact.n_players)
        graph = ExplanationGraph(
            exact.weights + error * rng.normal(size=off.shape),
            shapley=exact.shapley + phi_error * rng.normal(size=len(truth)),
            standard_error=error,
            shapley_standard_error=phi_error,
        )
        for role, true_role in zip(graph.roles(gamma).roles, truth, strict=True):
            n_decided += role != "undecided"
            n_wrong += role not in ("undecided", true_role)
    assert n_wrong <= 0.05 * n_decided
    assert n_decided > 0.5 * 300 * len(truth)


# Refusals


def test_roles_need_shapley_values():
    with pytest.raises(ValueError, match="`shapley` must be given for this, got a graph without Shapley values"):
        ExplanationGraph([[0, 1], [2, 0]]).roles(0.1)


def test_gamma_and_confidence_are_checked():
    graph = hand_worked("or")
    with pytest.raises(ValueError, match="`gamma` must be finite and >= 0, got -1"):
        graph.roles(-1)
    with pytest.raises(ValueError, match="`confidence` must lie between 0 and 1, got 1"):
        graph.roles(confidence=1)


def test_results_are_cached_and_frozen():
    graph = hand_worked("or")
    assert graph.roles() is graph.roles()
    assert isinstance(graph.roles(), Roles)
    assert tuple(graph.roles()) == graph.roles().roles
    assert (graph.roles()[2], len(graph.roles())) == (IRRELEVANT, 3)
    with pytest.raises(AttributeError, match="cannot assign"):
        graph.roles().gamma = 1.0
