"""Games of pairs as control variates: their closed form, their fit, and what they do to the errors of `sampling`."""

import numpy as np
import pytest
import torch

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import control_variate, sampling
from bivshap_lightning.explainers.control_variate import PairGame, fit_pair_game
from bivshap_lightning.explainers.null_players import ReducedGame
from bivshap_lightning.explainers.sampling import Sampling
from tests.oracles import RandomTrees, Unanimity, enumerate_e2, enumerate_shapley, relative_error


def random_pair_game(n: int, seed: int) -> PairGame:
    generator = torch.Generator().manual_seed(seed)
    pair = torch.randn(1, n, n, generator=generator, dtype=torch.float64).triu(1)
    return PairGame(torch.randn(1, n, generator=generator, dtype=torch.float64), pair + pair.mT)


def as_model(game: PairGame):
    single, pair = game.single[0], game.pair[0]
    return lambda x: x.double() @ single + ((x.double() @ pair) * x).sum(dim=1) / 2


def reduced(model, n: int) -> ReducedGame:
    return ReducedGame(Game(model, torch.ones(1, n, dtype=torch.float64), behavior="output"))


def test_the_closed_form_is_that_of_an_enumeration():
    game, n = random_pair_game(6, seed=0), 6  # player 5 is there for the null column: it has no effect
    game.single[:, 5], game.pair[:, 5], game.pair[:, :, 5] = 0, 0, 0
    model = as_model(game)

    def value(members: frozenset[int]) -> float:
        x = torch.zeros(1, n, dtype=torch.float64)
        x[0, list(members)] = 1
        return float(model(x))

    truth = enumerate_e2(value, n)
    np.testing.assert_allclose(game.bivariate[0], truth, atol=1e-12)
    np.testing.assert_allclose(game.shapley[0], enumerate_shapley(value, n), atol=1e-12)
    np.testing.assert_allclose(game.null_column[0, :5], truth[:5, 5], atol=1e-12)


def test_gains_are_differences_of_values_along_an_order():
    n = 7
    game = random_pair_game(n, seed=1)
    rows = Sampling().draw(n, 2 + 2 * (n - 1) * 5, torch.Generator().manual_seed(0))
    forward, backward = rows.gains(as_model(game)(rows.coalitions.double())[None])
    ours = game.gains(rows.positions)
    torch.testing.assert_close(ours, (forward, backward))


def test_a_game_of_pairs_is_fitted_and_leaves_little_error(monkeypatch):
    """With as many steps as it takes, the pairs are found; with few of them, most of the error goes."""
    n = 12
    game = random_pair_game(n, seed=2)
    rows = Sampling().draw(n, 2 + 2 * (n - 1) * 80, torch.Generator().manual_seed(0))
    values = as_model(game)(rows.coalitions.double())[None]
    ours = relative_error(Sampling().from_values(rows, values).bivariate[0], game.bivariate[0].numpy())
    monkeypatch.setattr(sampling, "LEAST_CONTROLLED", 10**9)
    plain = relative_error(Sampling().from_values(rows, values).bivariate[0], game.bivariate[0].numpy())
    assert ours < 0.2 * plain
    monkeypatch.setattr(control_variate, "N_STEPS", 40)
    found = fit_pair_game(torch.cat(rows.gains(values), dim=1), rows.positions)
    torch.testing.assert_close(found.pair, game.pair, atol=0.01, rtol=0)
    torch.testing.assert_close(found.single, game.single, atol=0.05, rtol=0)


def test_a_fit_of_many_players_in_single_precision_is_that_in_double_precision(monkeypatch):
    n = control_variate.MANY_PLAYERS
    game, rows = random_pair_game(n, seed=7), Sampling().draw(n, 2 + 2 * (n - 1) * 20, torch.Generator().manual_seed(0))
    gains = torch.cat(rows.gains(as_model(game)(rows.coalitions.double())[None]), dim=1)
    single = fit_pair_game(gains, rows.positions)
    monkeypatch.setattr(control_variate, "MANY_PLAYERS", n + 1)
    double = fit_pair_game(gains, rows.positions)
    assert (single.pair.dtype, double.pair.dtype) == (torch.float32, torch.float64)
    torch.testing.assert_close(single.pair.double(), double.pair, atol=1e-4, rtol=0)
    torch.testing.assert_close(single.single.double(), double.single, atol=1e-4, rtol=0)


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_errors_are_smaller_and_still_cover(seed, monkeypatch):
    """Sums of trees: less error from the same rows, and intervals that hold for the smaller error."""
    game = RandomTrees(20, seed)
    off = ~np.eye(20, dtype=bool)

    def run(repetition: int):
        found = Sampling().estimate(reduced(game, 20), 4176, torch.Generator().manual_seed(repetition))
        error = np.abs(found.bivariate[0].numpy() - game.e2)[off]
        return relative_error(found.bivariate[0], game.e2), error <= 1.96 * found.bivariate_error[0].numpy()[off]

    ours, covered = zip(*(run(k) for k in range(8)), strict=True)
    monkeypatch.setattr(sampling, "LEAST_CONTROLLED", 10**9)
    plain, _ = zip(*(run(k) for k in range(8)), strict=True)
    assert np.mean(ours) < 0.9 * np.mean(plain)
    assert np.mean(covered) > 0.92


def test_no_bias_shows_over_many_repetitions():
    game = Unanimity(10, n_terms=30, seed=3)
    found = [Sampling().estimate(reduced(game, 10), 2 + 18 * 20, torch.Generator().manual_seed(k)) for k in range(120)]
    values = torch.stack([e.bivariate[0] for e in found]).numpy()
    off = ~np.eye(10, dtype=bool)
    z = (values.mean(axis=0) - game.e2)[off] / (values.std(axis=0)[off] / np.sqrt(len(values)))
    assert np.sqrt(np.mean(z**2)) < 1.3


def test_gains_that_never_occur_stay_zero_and_bounded():
    """Members of an OR after one another have no gain; the game beside them is fitted, the zeros are not touched."""
    game = random_pair_game(4, seed=4)

    def model(x: torch.Tensor) -> torch.Tensor:
        return x[:, :3].amax(dim=1) + as_model(game)(x[:, 3:])

    found = BivariateShapley(model, "sampling", "output").attribute(
        torch.ones(1, 7, dtype=torch.float64), n_evaluations=2 + 12 * 60
    )
    members = ~torch.eye(3, dtype=torch.bool)
    assert found.bivariate[0, :3, :3][members].eq(0).all()
    torch.testing.assert_close(
        1.96 * found.standard_error[0, :3, :3][members], torch.full((6,), 1.5 / 60, dtype=torch.float64)
    )


def test_a_player_whose_gains_are_far_larger_does_not_spoil_the_others():
    """One player of an XOR with values of thousands: the errors of the small game beside it are no larger for it."""
    small = random_pair_game(8, seed=5)

    def model(x: torch.Tensor) -> torch.Tensor:
        return as_model(small)(x[:, 2:]) + 1000 * (x[:, 0].bool() ^ x[:, 1].bool())

    found = Sampling().estimate(reduced(model, 10), 2 + 18 * 100, torch.Generator().manual_seed(0))
    error = found.bivariate[0, 2:, 2:] - small.bivariate[0]
    assert float(error.square().mean().sqrt()) < 0.1 * float(small.bivariate.square().mean().sqrt())
