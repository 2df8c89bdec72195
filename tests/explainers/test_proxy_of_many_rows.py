"""The proxy conditioned on some of its rows: predictions of the others, and what they do to values and errors."""

import numpy as np
import pytest
import torch

from bivshap_lightning import Game
from bivshap_lightning.explainers import default_coalitions
from bivshap_lightning.explainers.design import Design, draw_design, evaluate_design
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.proxy import GaussianProcessProxy, estimator, prediction
from bivshap_lightning.explainers.proxy.squashed import Standard
from bivshap_lightning.explainers.stages import log_odds
from tests.oracles import RandomTrees, relative_error, table_model
from tests.trained_games import TRAINED, table_e2

OFF = {n: ~np.eye(n, dtype=bool) for n in (13, 14, 20)}


def reduced(model, n: int) -> ReducedGame:
    return ReducedGame(Game(model, torch.ones(1, n, dtype=torch.float64), behavior="output"))


def estimate(model, n: int, n_coalitions: int, seed: int = 0) -> Estimate:
    return GaussianProcessProxy().estimate(reduced(model, n), n_coalitions, torch.Generator().manual_seed(seed))


def z_scores(found: Estimate, truth: np.ndarray) -> np.ndarray:
    off = OFF[len(truth)]
    return (found.bivariate[0].numpy() - truth)[off] / found.bivariate_error[0].numpy()[off]


def of_probability(model, n: int, n_coalitions: int, seed: int = 0) -> Estimate:
    """The estimate of a probability that the process for its log-odds helps."""
    proxy = GaussianProcessProxy()
    rows = proxy.draw(n, n_coalitions, torch.Generator().manual_seed(seed))
    values = reduced(model, n)(rows.coalitions)
    return proxy.from_outcomes(rows, [values, log_odds(values)])[0]


@pytest.fixture
def proxies() -> tuple[list[estimator._Proxy], Design]:
    """Of the probability of a network and of its log-odds, the first helped by the second; and the design."""
    model, generator = table_model(TRAINED["gated"](0)), torch.Generator().manual_seed(0)
    design = draw_design(14, 400, generator)
    values = evaluate_design(reduced(model, 14), design)
    outcomes = [Standard.of(values), Standard.of(values.apply(log_odds))]
    process, _ = estimator._Process.train(outcomes, design, None)
    alone, other = (estimator._Proxy.of(process, outcome) for outcome in outcomes)
    return [alone, other, alone.with_log_odds(other)], design


def predicted(proxy: estimator._Proxy, design: Design) -> list[tuple[torch.Tensor, torch.Tensor]]:
    posteriors = [proxy.fitted.posterior]
    if proxy.squashed is not None:
        posteriors.append(proxy.squashed.log_odds.posterior)
    return prediction.predict(proxy.process.parameters, proxy.process.signs, posteriors, design.signs)


def test_predictions_are_the_values_less_the_residuals(proxies):
    """Where the process was conditioned, its mean is the value less the noise times the representer weight."""
    (alone, other, helped), design = proxies
    both = helped.squashed.mix(helped.fitted, *predicted(helped, design))
    for proxy, found in ((alone, predicted(alone, design)[0]), (other, predicted(other, design)[0]), (helped, both)):
        standard, left = proxy.standard.values, proxy.residuals(design)
        torch.testing.assert_close(found[0], standard.inside - left.inside, atol=1e-6, rtol=0)
        torch.testing.assert_close(found[1], standard.outside - left.outside, atol=1e-6, rtol=0)


def test_predictions_do_not_depend_on_blocks(proxies, monkeypatch):
    (_, _, helped), design = proxies
    whole = predicted(helped, design)
    monkeypatch.setattr(prediction, "BLOCK_ELEMENTS", 1)
    for part, same in zip(predicted(helped, design), whole, strict=True):
        torch.testing.assert_close(part, same, atol=1e-9, rtol=0)


def compared(few, many, kind: str) -> tuple[float, float]:
    """Error of some estimates over that of others, and the share of the errors of the former that is covered."""
    table = TRAINED[kind](2)
    truth = table_e2(table)[0]
    ours, theirs = ([make(table_model(table), len(truth), n, seed) for seed in range(4)] for make, n in (many, few))
    errors = [np.mean([relative_error(e.bivariate[0], truth) for e in found]) for found in (ours, theirs)]
    return errors[0] / errors[1], float(np.mean([np.abs(z_scores(found, truth)) < 1.96 for found in ours]))


@pytest.mark.parametrize("kind", ["mlp", "attention", "forest"])
def test_log_odds_help_where_some_pairs_are_conditioned_on(kind, monkeypatch):
    """Conditioned on 200 of 1,000 pairs: no worse than without, and covered."""
    monkeypatch.setattr(prediction, "most_pairs", lambda n_players: 200)
    ratio, covered = compared((estimate, 2002), (of_probability, 2002), kind)
    assert ratio < 1.1
    assert covered > 0.9


@pytest.mark.parametrize("kind", ["mlp", "attention", "forest", "saturating", "maximum"])
def test_rows_beyond_those_conditioned_on_lower_the_error_and_are_covered(kind, monkeypatch):
    """Conditioned on 200 pairs: 800 more lower the error, and intervals hold with them."""
    monkeypatch.setattr(prediction, "most_pairs", lambda n_players: 200)
    ratio, covered = compared((estimate, 402), (estimate, 2002), kind)
    assert ratio < 0.8
    assert covered > 0.92


def test_factor_only_narrows_and_sees_errors_that_are_overstated():
    """A process whose variances are nine times too large is found out; one that is right is left as it is."""
    generator = torch.Generator().manual_seed(0)
    errors = torch.randn(1, 60, 60, generator=generator, dtype=torch.float64)
    noise = 0.2 * torch.randn(1, 60, 60, generator=generator, dtype=torch.float64)
    change, measured = -0.5 * errors + noise, torch.full_like(noise, 0.2)
    right, overstated, understated = (
        float(prediction.calibration(0.5, torch.full_like(errors, v), change, measured)) for v in (1, 9, 0.1)
    )
    assert right == understated == 1
    assert overstated == pytest.approx((1 + 2 * (2 / 60) ** 0.5) / 9, rel=0.1)


@pytest.mark.slow
def test_most_redundancy_in_sums_of_trees_is_found_at_four_times_the_default_rows():
    """Cancellations within gamma that `sampling` cannot tell from more with as many rows. Nothing else is called."""
    game = RandomTrees(20, 0)
    ends = game(torch.stack([torch.zeros(20), torch.ones(20)]).double())
    gamma = 0.15 / 20 * abs(float(ends[1] - ends[0]))
    relevant = np.abs(game.e2).max(axis=1) > gamma
    redundant = (np.abs(game.e2) <= gamma) & OFF[20]
    between = redundant & relevant[:, None] & relevant
    found = estimate(game, 20, 4 * default_coalitions(20))
    called = found.bivariate[0].abs().numpy() + 1.96 * found.bivariate_error[0].numpy() <= gamma
    called &= OFF[20]
    assert between.sum() >= 10
    assert (called & between).sum() >= 0.5 * between.sum()
    assert (called & ~redundant).sum() <= 0.05 * called.sum()
    assert np.mean(np.abs(z_scores(found, game.e2)) < 1.96) > 0.9


def test_work_of_a_fit_stops_growing_with_the_cube_of_the_rows():
    most = 2 * prediction.MOST_PAIRS
    assert estimator.fit_work(20, 4 * most) < 1.2 * estimator.fit_work(20, most)


@pytest.mark.parametrize("n", [20, 300, 1077])
def test_all_of_the_default_rows_are_conditioned_on(n):
    assert 2 * prediction.most_pairs(n) >= default_coalitions(n)
