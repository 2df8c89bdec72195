"""What methods find on three games worked by hand: a duplicated feature, XOR of three, one-way redundancy."""

import numpy as np
import pytest
import torch

from bivshap_lightning import Explanation, Game
from bivshap_lightning.explainers import find_explainer

GAMES = {
    "duplicated": lambda x: x[:, 0] + torch.maximum(x[:, 1], x[:, 2]),
    "xor": lambda x: x.sum(dim=1) % 2,
    "one-way": lambda x: torch.maximum(2 * x[:, 0], x[:, 1]) + x[:, 2],
}
ZERO = [[0, 0, 0]] * 3
VALUES = {
    ("exact", "duplicated"): [[0, 1 / 2, 1 / 2], [1 / 6, 0, 0], [1 / 6, 0, 0]],
    ("exact", "xor"): [[0, 1 / 6, 1 / 6], [1 / 6, 0, 1 / 6], [1 / 6, 1 / 6, 0]],
    ("exact", "one-way"): [[0, 1 / 2, 2 / 3], [0, 0, 1 / 6], [1 / 2, 1 / 2, 0]],
    ("shapley_interaction", "duplicated"): [[0, 0, 0], [0, 0, -1], [0, -1, 0]],
    ("shapley_interaction", "xor"): ZERO,
    ("shapley_interaction", "one-way"): [[0, -1, 0], [-1, 0, 0], [0, 0, 0]],
    ("shapley_taylor", "duplicated"): [[0, 0, 0], [0, 0, -1], [0, -1, 0]],
    ("shapley_taylor", "xor"): [[0, -2 / 3, -2 / 3], [-2 / 3, 0, -2 / 3], [-2 / 3, -2 / 3, 0]],
    ("shapley_taylor", "one-way"): [[0, -1, 0], [-1, 0, 0], [0, 0, 0]],
    ("shapley_excess", "duplicated"): ZERO,
    ("shapley_excess", "xor"): [[0, -2 / 3, -2 / 3], [-2 / 3, 0, -2 / 3], [-2 / 3, -2 / 3, 0]],
    ("shapley_excess", "one-way"): ZERO,
    ("bivariate_banzhaf", "duplicated"): [[0, 1 / 2, 1 / 2], [1 / 4, 0, 0], [1 / 4, 0, 0]],
    ("bivariate_banzhaf", "xor"): ZERO,
    ("bivariate_banzhaf", "one-way"): [[0, 1 / 2, 3 / 4], [0, 0, 1 / 4], [1 / 2, 1 / 2, 0]],
    ("bivariate_leave_one_out", "duplicated"): [[0, 1, 1], [0, 0, 0], [0, 0, 0]],
    ("bivariate_leave_one_out", "xor"): [[0, 1, 1], [1, 0, 1], [1, 1, 0]],
    ("bivariate_leave_one_out", "one-way"): [[0, 1, 1], [0, 0, 0], [1, 1, 0]],
}


def explain(method: str, game: str) -> Explanation:
    return find_explainer(method).explain(Game(GAMES[game], torch.ones(1, 3, dtype=torch.float64), behavior="output"))


@pytest.mark.parametrize(("method", "game"), VALUES)
def test_values(method, game):
    np.testing.assert_allclose(explain(method, game).bivariate[0], VALUES[method, game], atol=1e-12)


@pytest.mark.parametrize("method", ["exact", "bivariate_shapley", "bivariate_banzhaf", "bivariate_beta_shapley"])
def test_directed_methods_find_copies_and_direction(method):
    assert explain(method, "duplicated").graph(0).redundancy().groups == ((1, 2),)
    edges = np.argwhere(explain(method, "one-way").graph(0).redundancy().adjacency).tolist()
    assert edges == [[0, 1]]  # the second is redundant once the first is present, not the reverse


@pytest.mark.parametrize("method", ["shapley_interaction", "shapley_taylor", "shapley_excess"])
def test_symmetric_methods_have_no_direction(method):
    h = explain(method, "one-way").graph(0).redundancy()
    np.testing.assert_array_equal(h.adjacency, h.adjacency.T)


@pytest.mark.parametrize("method", ["shapley_values", "exact"])
def test_univariate_values_do_not_tell_copies_from_a_pair_that_needs_each_other(method):
    def needs(x: torch.Tensor) -> torch.Tensor:
        return x[:, 0] + x[:, 1] * x[:, 2]

    game = Game(needs, torch.ones(1, 3, dtype=torch.float64), behavior="output")
    torch.testing.assert_close(
        find_explainer(method).explain(game).shapley, explain(method, "duplicated").shapley, atol=1e-6, rtol=0
    )
