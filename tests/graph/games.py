"""Small games and their graphs by enumeration, shared by the tests of structure, roles, substitution and rankings."""

import numpy as np

from bivshap_lightning.graph import ExplanationGraph
from tests.oracles import enumerate_e2, enumerate_shapley, table_value


def graph_of(value, n_players, **arguments):
    """The exact graph of a set function."""
    e2 = enumerate_e2(value, n_players)
    return ExplanationGraph(e2.T, shapley=enumerate_shapley(value, n_players), **arguments)


def random_table(n_players, seed):
    """Values of all coalitions, on a coarse grid so that zeros and ties are common for some seeds."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=2**n_players) if seed % 2 else rng.integers(-2, 3, size=2**n_players) / 2
    return table - table[0]


def random_graph_of_game(n_players, seed):
    return graph_of(table_value(random_table(n_players, seed)), n_players)


HAND_WORKED = {
    "and": (lambda s: float({0, 1} <= s), 3),
    "or": (lambda s: float(bool({0, 1} & s)), 3),
    "max": (lambda s: max([2.0 * (0 in s), 1.0 * (1 in s)]), 3),
    "sign change": (lambda s: (0 in s) * (2.0 - 3.0 * (1 in s)), 3),
    "xor of three": (lambda s: float(len({0, 1, 2} & s) % 2), 4),
    "three copies and another": (lambda s: float(bool({0, 1, 2} & s)) + 0.5 * (3 in s), 5),
}
"""Each with a dead column as its last player."""


def hand_worked(name):
    value, n_players = HAND_WORKED[name]
    return graph_of(value, n_players)
