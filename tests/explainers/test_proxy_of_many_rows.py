"""The proxy conditioned on some of its rows: predictions of the others, and what they do to values and errors."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

from bivshap_lightning import Game
from bivshap_lightning.explainers import default_coalitions, kernel
from bivshap_lightning.explainers.design import Design, PairedValues, draw_design, evaluate_design
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.proxy import GaussianProcessProxy, estimator, prediction
from bivshap_lightning.explainers.proxy.squashed import Standard
from bivshap_lightning.explainers.stages import log_odds
from bivshap_lightning.graph import relative_gamma
from tests.oracles import RandomTrees, relative_error, table_model
from tests.trained_games import TRAINED, table_e2

OFF = {n: ~np.eye(n, dtype=bool) for n in (13, 14, 20)}


def reduced(model, n: int) -> ReducedGame:
    return ReducedGame(Game(model, torch.ones(1, n, dtype=torch.float64), behavior="output"))


def estimate(model, n: int, n_coalitions: int, seed: int = 0, most_pairs: int | None = None) -> Estimate:
    proxy = GaussianProcessProxy(most_pairs=most_pairs)
    return proxy.estimate(reduced(model, n), n_coalitions, torch.Generator().manual_seed(seed))


def z_scores(found: Estimate, truth: np.ndarray) -> np.ndarray:
    off = OFF[len(truth)]
    return (found.bivariate[0].numpy() - truth)[off] / found.bivariate_error[0].numpy()[off]


def of_probability(model, n: int, n_coalitions: int, seed: int = 0, most_pairs: int | None = None) -> Estimate:
    """The estimate of a probability that the process for its log-odds helps."""
    proxy = GaussianProcessProxy(most_pairs=most_pairs)
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
    ours, theirs = (
        [make(table_model(table), len(truth), n, seed, 200) for seed in range(4)] for make, n in (many, few)
    )
    errors = [np.mean([relative_error(e.bivariate[0], truth) for e in found]) for found in (ours, theirs)]
    return errors[0] / errors[1], float(np.mean([np.abs(z_scores(found, truth)) < 1.96 for found in ours]))


@pytest.mark.parametrize("kind", ["mlp", "attention", "forest"])
def test_log_odds_help_where_some_pairs_are_conditioned_on(kind):
    """Conditioned on 200 of 1,000 pairs: no worse than without, and covered."""
    ratio, covered = compared((estimate, 2002), (of_probability, 2002), kind)
    assert ratio < 1.1
    assert covered > 0.9


@pytest.mark.parametrize("kind", ["mlp", "attention", "forest", "saturating", "maximum"])
def test_rows_beyond_those_conditioned_on_lower_the_error_and_are_covered(kind):
    """Conditioned on 200 pairs: 800 more lower the error, and intervals hold with them."""
    ratio, covered = compared((estimate, 402), (estimate, 2002), kind)
    assert ratio < 0.8
    assert covered > 0.92


def measured(scale: float, n: int = 60) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """True values of variance ``scale``, a measurement of them with noise of variance 0.25, and that noise."""
    generator = torch.Generator().manual_seed(0)
    truth, noise = torch.randn(2, 1, n, n, generator=generator, dtype=torch.float64)
    return scale**0.5 * truth, scale**0.5 * truth + 0.5 * noise, torch.full_like(truth, 0.25)


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_measured_changes_are_shrunk_to_the_best_estimate(scale):
    """With true values of variance 1 or 0.3, where 1 is expected: the error is that of the best linear estimate."""
    truth, change, noise = measured(scale)
    estimate, variance = prediction.shrunk(change, noise, torch.ones_like(truth))
    best = scale * 0.25 / (scale + 0.25)
    assert float(((estimate - truth) ** 2).mean()) == pytest.approx(best, rel=0.1)
    assert best * 0.95 < float(variance.mean()) < 1.6 * best


def test_noise_alone_changes_nothing_and_is_no_reason_for_a_large_variance():
    _, change, noise = measured(0.0)
    estimate, variance = prediction.shrunk(change, noise, torch.ones_like(change))
    assert float((estimate**2).mean()) < 0.003
    assert prediction.LEAST_SCALE * 0.9 < float(variance.mean()) < 0.3


def test_much_more_than_was_expected_is_believed():
    truth, change, noise = measured(9.0)
    estimate, variance = prediction.shrunk(change, noise, torch.ones_like(truth))
    best = 9 * 0.25 / 9.25
    assert float(((estimate - truth) ** 2).mean()) == pytest.approx(best, rel=0.1)
    assert best * 0.9 < float(variance.mean()) < 1.1 * best


def test_variances_of_what_is_left_are_sums_of_squares_of_what_pairs_add():
    """Against the estimate from one pair after the other; enumerated pairs add nothing."""
    generator = torch.Generator().manual_seed(1)
    design = draw_design(9, 80, generator)
    odd, even = torch.randn(2, 1, len(design.masks), generator=generator, dtype=torch.float64)
    expected = [torch.zeros(1, *shape, dtype=torch.float64) for shape in ((9, 9), (9,), (9,), (9, 9))]
    nothing = torch.zeros(1, 1, dtype=torch.float64)
    for k in range(design.n_enumerated, len(design.masks)):
        only = torch.zeros_like(odd)
        only[:, k] = 1
        values = PairedValues(nothing, nothing, only * (even + odd), only * (even - odd))
        bivariate, shapley, null_column = kernel.estimate_residuals(values, design)
        for total, added in zip(
            expected, (bivariate, shapley, null_column, bivariate - null_column[:, :, None]), strict=True
        ):
            total += added**2
    found = kernel.left_out_variances(odd, even, design)
    for mine, theirs in zip(found, expected, strict=True):
        if mine.dim() == 3:
            off = torch.from_numpy(~np.eye(9, dtype=bool))
            mine, theirs = mine[:, off], theirs[:, off]
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def sure_network() -> tuple[ReducedGame, Estimate, float]:
    """A network on 30 columns against 8 background rows, a reference of 60 times the default rows, and gamma."""
    torch.manual_seed(0)
    x, y = load_breast_cancer(return_X_y=True)
    x = ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)
    network = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    rows, labels, optimizer = torch.from_numpy(x), torch.from_numpy(y), torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(400):
        batch = torch.randint(455, (128,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(rows[batch]), labels[batch]).backward()
        optimizer.step()
    game = Game(network.eval(), rows[-8:], background=rows[:455][torch.randperm(455)[:8]])
    reference = kernel.Kernel().estimate(ReducedGame(game), 120_000, torch.Generator().manual_seed(9))
    ends = game(torch.tensor([[True], [False]]).expand(1, 2, 30)).double()
    return ReducedGame(game), reference, relative_gamma(30, float((ends[:, 0] - ends[:, 1]).abs().mean()))


@pytest.mark.slow
@pytest.mark.parametrize(("n_coalitions", "most_pairs"), [(512, None), (1024, None), (2048, None), (2048, 512)])
def test_what_a_process_does_not_know_of_a_sure_network_is_in_its_errors(sure_network, n_coalitions, most_pairs):
    """The posterior variances alone cover .76 of the pairs of one of these samples."""
    game, reference, gamma = sure_network
    proxy, off = GaussianProcessProxy(most_pairs=most_pairs), ~torch.eye(30, dtype=torch.bool)
    rows = proxy.draw(30, n_coalitions, torch.Generator().manual_seed(0))
    values = game(rows.coalitions)
    found = proxy.from_outcomes(rows, [values, log_odds(values)])[0]
    truth, half = reference.bivariate[:, off], 1.96 * found.bivariate_error[:, off]
    covered = ((found.bivariate[:, off] - truth).abs() <= half).double().mean(dim=1)
    called = found.bivariate[:, off].abs() + half <= gamma
    assert float(covered.mean()) > 0.93
    assert float(covered.min()) > 0.8
    assert int((called & (truth.abs() > gamma)).sum()) <= 0.05 * int(called.sum())


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
