"""`E2[i, j] = R[i] + C[i, j]` with a symmetric C, for the values of every registered bivariate explainer."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import explainer_names, find_explainer
from bivshap_lightning.game.players import Tokens
from tests.graph.games import random_table
from tests.oracles import table_model

N, ROWS = 6, 2000
INPUTS = torch.ones(1, N, dtype=torch.float64)


def game_of(seed: int) -> Game:
    return Game(table_model(random_table(N, seed)), INPUTS, behavior="output")


def bivariate_names() -> list[str]:
    """Registered explainers that give values of pairs which estimate E2; "trees" explains tree ensembles alone."""
    found = []
    for name in explainer_names():
        if name == "trees":
            continue
        try:
            explanation = find_explainer(name).explain(game_of(0), ROWS, 0)
        except (ValueError, TypeError, ImportError):
            continue
        exact = find_explainer("exact").explain(game_of(0), None, 0)
        if explanation.bivariate is not None and torch.allclose(
            explanation.bivariate, exact.bivariate, atol=float(6 * explanation.standard_error.max()) + 1e-6
        ):
            found.append(name)
    return found


NAMES = bivariate_names()


def test_our_estimators_are_among_them():
    assert {"auto", "exact", "sampling", "kernel", "proxy"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=5, deadline=None)
def test_values_have_the_structure(name, seed):
    game = game_of(seed)
    found = find_explainer(name).explain(game, ROWS, seed)
    exact = find_explainer("exact").explain(game, None, 0)
    late, pair = found.potential[0], found.pairwise[0]
    off = ~torch.eye(N, dtype=torch.bool)
    assert torch.equal(pair, pair.T)
    # An estimate consists of the two parts up to its own noise, exact values to the last digits.
    noise = 6 * found.standard_error[0] + 1e-9
    assert ((late[:, None] + pair - found.bivariate[0]).abs() <= noise)[off].all()
    rows = 6 * found.standard_error[0].sum(dim=1) + 1e-9
    assert ((pair.sum(dim=1) - 2 * late + found.shapley[0]).abs() <= rows).all()
    assert ((late - exact.potential[0]).abs() <= 6 * found.potential_error[0] + 1e-9).all()
    assert ((pair - exact.pairwise[0]).abs() <= 6 * found.pairwise_error[0] + 1e-9).all()
    if found.is_exact:
        assert not found.potential_error.any()
        assert not found.pairwise_error.any()


def test_parts_are_those_of_the_graphs_where_samples_differ_in_players():
    texts = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0], [1, 2, 3, 0]])
    model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(16, 2)).double()
    explanation = BivariateShapley(model, "sampling").attribute(texts, feature_mask=Tokens(pad_id=0), n_evaluations=64)
    for b, graph in enumerate(explanation.graphs()):
        n = graph.n_players
        for name in ("potential", "pairwise", "potential_error", "pairwise_error"):
            values = getattr(explanation, name)[b]
            inside = values[:n] if values.dim() == 1 else values[:n, :n]
            np.testing.assert_allclose(inside, getattr(graph, name), atol=1e-12)
            assert values.abs().sum() == pytest.approx(float(inside.abs().sum()))


def test_univariate_methods_have_no_parts():
    explanation = find_explainer("feature_ablation").explain(game_of(0), None, 0)
    for name in ("potential", "pairwise", "potential_error", "pairwise_error"):
        with pytest.raises(ValueError, match="`method` must be bivariate to give a graph, got 'feature_ablation'"):
            getattr(explanation, name)
