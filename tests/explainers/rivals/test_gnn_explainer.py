"""GNNExplainer on the fully connected graph of the players of a model that is no graph network."""

import numpy as np
import pytest
import torch
from torch import nn

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import find_explainer

pytest.importorskip("torch_geometric")


def copies(x: torch.Tensor) -> torch.Tensor:
    """The last two players are copies; the first counts most."""
    return 2 * x[:, 0] + torch.maximum(x[:, 1], x[:, 2])


def game_of(model=copies, n: int = 3, **options) -> Game:
    return Game(model, torch.ones(2, n), **{"behavior": "output"} | options)


def test_it_is_deterministic_under_a_seed(global_rng_untouched):
    first, again, other = (find_explainer("gnn_explainer").explain(game_of(), seed=s) for s in (3, 3, 4))
    assert torch.equal(first.bivariate, again.bivariate)
    assert torch.equal(first.shapley, again.shapley)
    assert not torch.equal(first.bivariate, other.bivariate)


def test_it_finds_no_groups_where_there_are_copies():
    """The paper's finding: edges that the model cannot use tell nothing, so no player is ever redundant."""
    explanation = find_explainer("gnn_explainer").explain(game_of())
    assert [graph.redundancy(gamma=1e-5).groups for graph in explanation.graphs()] == [(), ()]
    assert BivariateShapley(copies, behavior="output").attribute(torch.ones(1, 3)).graph(0).redundancy().groups == (
        (1, 2),
    )


def test_edges_do_not_depend_on_the_model():
    """Random start and penalty alone decide them: another model, the same edges."""
    edges = [
        find_explainer("gnn_explainer").explain(game_of(model)).bivariate
        for model in (copies, lambda x: x[:, 2] - 5 * x[:, 0])
    ]
    torch.testing.assert_close(*edges)


def test_nodes_do_depend_on_the_model():
    for model, first in ((lambda x: x[:, 0] + 0 * x.sum(dim=1), 0), (lambda x: x[:, 2] + 0 * x.sum(dim=1), 2)):
        shapley = find_explainer("gnn_explainer").explain(game_of(model)).shapley
        assert shapley.argmax(dim=1).tolist() == [first, first]
        assert shapley.ge(0).all()
        assert shapley.le(1).all()


@pytest.mark.parametrize("behavior", ["probability", "logit", "loss"])
def test_steps_are_evaluations_and_the_model_stays_as_it_was(behavior):
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3)).train()
    model(torch.randn(8, 4)).sum().backward()
    before = {name: p.grad.clone() for name, p in model.named_parameters()}
    explanation = find_explainer("gnn_explainer").explain(game_of(model, 4, behavior=behavior), 7)
    assert explanation.n_evaluations.tolist() == [7, 7]
    assert model.training
    assert all(torch.equal(p.grad, before[name]) for name, p in model.named_parameters())


def test_null_players_are_no_nodes():
    x = torch.ones(1, 4)
    x[0, 1] = 0
    explanation = find_explainer("gnn_explainer").explain(Game(lambda x: x.sum(dim=1), x, behavior="output"))
    assert explanation.bivariate[0, 1].eq(0).all()
    assert explanation.bivariate[0, :, 1].eq(0).all()
    others = [0, 2, 3]
    assert explanation.bivariate[0, others][:, others][~torch.eye(3, dtype=torch.bool)].gt(0.05).all()


def test_a_constant_model_has_edges_too():
    explanation = find_explainer("gnn_explainer").explain(game_of(lambda x: 0 * x.sum(dim=1) + 1))
    assert explanation.bivariate[0].numpy()[~np.eye(3, dtype=bool)].min() > 0.05


def test_what_has_no_gradient_is_refused():
    tokens = Game(lambda x: x.sum(dim=1).float(), torch.ones(1, 3, dtype=torch.int64), behavior="output")
    with pytest.raises(ValueError, match="`inputs` must be floating point for 'gnn_explainer'"):
        find_explainer("gnn_explainer").explain(tokens)
    with pytest.raises(ValueError, match="`model` must be differentiable with respect to its inputs"):
        find_explainer("gnn_explainer").explain(game_of(lambda x: x.detach().sum(dim=1)))
    with pytest.raises(ValueError, match="`feature_mask` must make at least two players, got 1"):
        find_explainer("gnn_explainer").explain(game_of(lambda x: x.sum(dim=1), 1))
    with pytest.raises(ValueError, match="`n_evaluations` must be at least 3, got 2"):
        find_explainer("gnn_explainer").explain(game_of(), 2)
