"""L2X's selector as an explainer: scores, selection, relaxed draws, files. Training is tested with the callbacks."""

import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bivshap_lightning import Game, Grid
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.explainers.rivals.l2x import (
    L2X,
    Approximator,
    Selector,
    draw_relaxed,
    kind_of,
    scores_of_players,
)
from bivshap_lightning.game.players import Players
from bivshap_lightning.metrics import InsertionAUC


class Fixed(nn.Module):
    """The same scores for every sample."""

    def __init__(self, scores: list[float]) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.tensor(scores))

    def forward(self, x: Tensor) -> Tensor:
        return self.scores.expand(len(x), -1)


def game_of(n: int = 4, n_null: int = 0, **options) -> Game:
    x = torch.ones(2, n)
    x[:, n - n_null :] = 0
    return Game(lambda x: x.sum(dim=1), x, behavior="output", **options)


def test_scores_are_softmax_probabilities_and_cost_nothing():
    explanation = find_explainer(L2X(Fixed([0.0, 2.0, 1.0, -1.0]), 2)).explain(game_of())
    expected = torch.tensor([0.0, 2.0, 1.0, -1.0]).softmax(dim=0)
    torch.testing.assert_close(explanation.shapley, expected.expand(2, 4))
    assert explanation.n_evaluations.eq(0).all()
    assert explanation.bivariate is None


def test_null_players_have_no_score():
    explanation = L2X(Fixed([0.0, 2.0, 1.0, 9.0]), 2).explain(game_of(n_null=1))
    assert explanation.shapley[:, 3].eq(0).all()


def test_selection_has_k_players():
    game = game_of()
    selected = L2X(Fixed([0.0, 2.0, 1.0, -1.0]), 2).select(game)
    assert selected.tolist() == [[False, True, True, False]] * 2
    assert L2X(Fixed([0.0, 2.0, 1.0, -1.0]), 9).select(game).all()


def test_elements_of_a_player_are_averaged_and_missing_players_cannot_be_drawn():
    mask = torch.tensor([[0, 0, 1, -1], [0, 0, 0, -1]])
    players = Players.from_mask([torch.zeros(2, 4)], [mask])
    found = scores_of_players(torch.tensor([[1.0, 3.0, 7.0, 99.0], [1.0, 2.0, 6.0, 99.0]]), players)
    assert found.tolist() == [[2.0, 7.0], [3.0, -np.inf]]
    drawn = draw_relaxed(found, 1, 0.5, torch.Generator().manual_seed(0))
    assert drawn[1].tolist() == [1.0, 0.0]


def test_relaxed_draws_follow_the_scores():
    """At a low temperature one draw is a sample of the softmax (the Gumbel-max trick), and gradients pass."""
    scores = torch.tensor([[0.0, 1.0, 2.0]], requires_grad=True)
    drawn = draw_relaxed(scores.expand(20_000, 3), 1, 1e-3, torch.Generator().manual_seed(0))
    frequency = drawn.detach().mean(dim=0)
    torch.testing.assert_close(frequency, scores.detach()[0].softmax(dim=0), atol=0.015, rtol=0)
    pairs = draw_relaxed(scores.expand(100, 3), 2, 0.1, torch.Generator().manual_seed(1))
    assert pairs.ge(0).all()
    assert pairs.sum(dim=1).le(2 + 1e-5).all()
    (gradient,) = torch.autograd.grad(pairs[:, 0].sum(), scores)
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (torch.randn(2, 5), "table"),
        (torch.randn(2, 6, 3), "sequence"),
        (torch.randint(0, 9, (2, 7)), "tokens"),
        (torch.randn(2, 3, 9, 8), "image"),
        (torch.randn(2, 9, 8, 3), "image"),
    ],
    ids=["table", "sequence", "tokens", "image", "channels last"],
)
def test_default_networks_score_every_element_and_see_what_is_present(x, kind):
    arguments = kind_of(x)
    assert arguments["kind"] == kind
    assert Selector(**arguments)(x).shape == x.shape
    second = Approximator(**arguments, n_outputs=3).eval()
    presence = torch.ones(x.shape)
    shown = second(x, presence)
    assert shown.shape == (2, 3)
    hidden = second(x, 0 * presence) if kind == "tokens" else second(0 * x, 0 * presence)
    assert not torch.allclose(shown, hidden)


def test_inputs_without_a_default_network_are_refused():
    with pytest.raises(ValueError, match=r"got shape \(2, 3, 4, 5, 6\). Pass your own `selector`"):
        kind_of(torch.zeros(2, 3, 4, 5, 6))


def test_wrong_selectors_are_refused():
    with pytest.raises(ValueError, match=r"a score for each of 4 players or 4 input elements, got shape \(2, 3\)"):
        L2X(Fixed([0.0, 1.0, 2.0]), 1).explain(game_of())
    with pytest.raises(ValueError, match="`n_selected` must be at least 1, got 0"):
        L2X(Fixed([0.0]), 0)
    with pytest.raises(ValueError, match=r"must be a trained selector, got the name 'l2x'.*fit_l2x"):
        find_explainer("l2x")


def test_images_by_patches(global_rng_untouched):
    with torch.random.fork_rng():
        selector = Selector("image", 1)
        x = torch.randn(2, 1, 8, 8)
    game = Game(lambda x: x.flatten(1).sum(dim=1), x, behavior="output", feature_mask=Grid(4))
    explanation = L2X(selector, 2).explain(game)
    assert explanation.shapley.shape == (2, game.n_players)
    torch.testing.assert_close(explanation.shapley.sum(dim=1), torch.ones(2))
    assert selector.training  # as it was
    metric = InsertionAUC()
    metric.update(game, explanation)
    assert all(value.isfinite().all() for value in metric.compute().values())


def test_files_hold_weights_and_no_code(tmp_path, global_rng_untouched):
    with torch.random.fork_rng():
        selector = Selector("table", 4)
    made = L2X(selector, 2, {"kind": "table", "n_features": 4})
    made.save(tmp_path / "l2x.pt")
    again, game = L2X.load(tmp_path / "l2x.pt"), game_of()
    torch.testing.assert_close(again.explain(game).shapley, made.explain(game).shapley)
    assert again.n_selected == 2
    again.save(tmp_path / "again.pt")
    assert L2X.load(tmp_path / "again.pt").architecture == made.architecture


def test_files_of_own_modules_need_the_module(tmp_path):
    made = L2X(Fixed([0.0, 2.0, 1.0, -1.0]), 2)
    made.save(tmp_path / "l2x.pt")
    with pytest.raises(ValueError, match=r"`selector` must be a module of the architecture.*got None"):
        L2X.load(tmp_path / "l2x.pt")
    again = L2X.load(tmp_path / "l2x.pt", Fixed([0.0] * 4))
    torch.testing.assert_close(again.explain(game_of()).shapley, made.explain(game_of()).shapley)


def test_other_files_are_refused(tmp_path):
    torch.save({"some": torch.zeros(2)}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"`path` must be a file that `L2X\.save` wrote"):
        L2X.load(tmp_path / "other.pt")
    torch.save({"format": Fixed([0.0])}, tmp_path / "code.pt")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        L2X.load(tmp_path / "code.pt")
