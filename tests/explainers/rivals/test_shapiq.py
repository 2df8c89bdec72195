"""shapiq's approximators on a game, against our exact indices."""

import importlib.util

import numpy as np
import pytest
import torch

from bivshap_lightning import Game
from bivshap_lightning.explainers import find_explainer
from tests.oracles import Unanimity

PAIRS = [("shapiq_sii", "shapley_interaction"), ("shapiq_stii", "shapley_taylor")]


def network_game(n_samples: int = 3) -> Game:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3)).double()
    inputs = torch.randn(3, 6, dtype=torch.float64)
    inputs[:, 4] = 0  # a null player
    return Game(model, inputs[:n_samples])


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_small_games_are_exact(theirs, ours, global_rng_untouched):
    with torch.random.fork_rng():
        game, same = network_game(), network_game()
    found, truth = find_explainer(theirs).explain(game), find_explainer(ours).explain(same)
    torch.testing.assert_close(found.bivariate, truth.bivariate, atol=1e-9, rtol=0)
    assert found.bivariate[:, 4].eq(0).all()
    assert found.standard_error.eq(0).all()
    assert torch.equal(found.n_evaluations, truth.n_evaluations)
    if theirs == "shapiq_sii":
        torch.testing.assert_close(found.shapley, truth.shapley, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_estimates_agree_within_their_errors(theirs, ours):
    model, inputs = Unanimity(9, n_terms=25, seed=1), torch.ones(1, 9, dtype=torch.float64)
    truth = find_explainer(ours).explain(Game(model, inputs, behavior="output")).bivariate[0].numpy()
    off, z, means = ~np.eye(9, dtype=bool), [], []
    for seed in range(4):
        found = find_explainer(theirs).explain(Game(model, inputs, behavior="output"), 440, seed)
        assert int(found.n_evaluations) <= 440
        means.append(found.bivariate[0].numpy())
        z.append((found.bivariate[0].numpy() - truth)[off] / found.standard_error[0].numpy()[off].clip(1e-9))
    assert np.mean(np.abs(np.concatenate(z)) < 1.96) > 0.85
    assert np.corrcoef(np.mean(means, axis=0)[off], truth[off])[0, 1] > 0.8


def test_samples_share_rows_and_do_not_depend_on_each_other():
    explainer = find_explainer("shapiq_sii")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(10, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3)).double()
    inputs = torch.randn(2, 10, dtype=torch.float64)
    batch = explainer.explain(Game(model, inputs), 600, seed=2)
    assert int(batch.n_evaluations.max()) <= 600
    for b in range(2):
        alone = explainer.explain(Game(model, inputs[b : b + 1]), 600, seed=2)
        torch.testing.assert_close(batch.bivariate[b], alone.bivariate[0])
    other = explainer.explain(Game(model, inputs), 600, seed=3)
    assert not torch.allclose(other.bivariate, batch.bivariate)


def test_a_missing_shapiq_names_the_extra(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "bivshap_lightning.explainers.rivals.shapiq.find_spec", lambda name: None if name == "shapiq" else find(name)
    )
    with pytest.raises(ImportError, match=r"`shapiq` must be installed for 'shapiq_sii'.*bivshap-lightning\[rivals\]"):
        find_explainer("shapiq_sii").explain(network_game())
    find_explainer("shapley_interaction").explain(network_game())


def test_fewer_evaluations_than_the_minimum_raise():
    game = Game(Unanimity(20, n_terms=5, seed=0), torch.ones(1, 20, dtype=torch.float64), behavior="output")
    with pytest.raises(ValueError, match=r"`n_evaluations` must be at least 848 for method='shapiq_stii'.*got 847"):
        find_explainer("shapiq_stii").explain(game, 847)


def test_one_player_that_is_not_null():
    game = Game(lambda x: x[:, 0] * 3, torch.tensor([[1.0, 0.0]]), behavior="output")
    explanation = find_explainer("shapiq_sii").explain(game)
    assert explanation.bivariate.eq(0).all()
    assert explanation.shapley.tolist() == [[3.0, 0.0]]
