"""The process for log-odds that helps the proxy of a probability: predictions, choice, accuracy and coverage."""

import numpy as np
import pytest
import torch

from bivshap_lightning.explainers.proxy import GaussianProcessProxy, estimator, squashed
from bivshap_lightning.explainers.proxy.prediction import predict
from bivshap_lightning.explainers.proxy.squashed import Fitted, Squashed, Standard
from bivshap_lightning.explainers.stages import log_odds
from tests.oracles import relative_error
from tests.trained_games import TRAINED, coalitions, table_e2


def drawn(table: np.ndarray, n_coalitions: int, seed: int = 0):
    """A design and the probabilities of its coalitions."""
    n = len(table).bit_length() - 1
    design = GaussianProcessProxy().draw(n, n_coalitions, torch.Generator().manual_seed(seed))
    return design, torch.tensor(table)[(design.coalitions * 2 ** torch.arange(n)).sum(dim=1)][None]


def logistic(n: int, seed: int = 0) -> np.ndarray:
    """A probability whose log-odds are additive."""
    weights = np.random.default_rng(seed).normal(size=n) * 2
    return 1 / (1 + np.exp(-(coalitions(n) @ weights)))


def processes(table: np.ndarray, n_coalitions: int):
    design, values = drawn(table, n_coalitions)
    outcomes = [Standard.of(design.paired(v)) for v in (values, log_odds(values))]
    process, handed_on = estimator._Process.train(outcomes, design, None)
    fitted = [Fitted.of(process.factors, process.parameters, outcome) for outcome in outcomes]
    return design, process, fitted, handed_on


def test_the_difference_of_few_players_is_enumerated():
    n = 8
    design, process, fitted, _ = processes(logistic(n), 100)
    found = Squashed.of(process.signs, process.parameters, *fitted, design)
    masks = torch.tensor(coalitions(n)).bool()
    posteriors = [one.posterior for one in fitted]
    (alone, _), (other, _) = predict(process.parameters, process.signs, posteriors, masks.double() * 2 - 1)
    squash = fitted[1].standard.squashed_to(fitted[0].standard)
    share, _ = squashed._mixed(*fitted, design)
    e2, shapley, null = table_e2((share * (squash(other) - alone))[0].numpy())
    np.testing.assert_allclose(found.difference.bivariate[0], e2, atol=1e-6)
    np.testing.assert_allclose(found.difference.shapley[0], shapley, atol=1e-6)
    np.testing.assert_allclose(found.difference.null_column[0], null, atol=1e-6)
    assert float(found.difference.bivariate_error.max()) < 1e-6


def test_each_sample_learns_from_the_outcome_that_predicts_more():
    n = 12
    weights = np.abs(np.random.default_rng(1).normal(size=n))
    additive = 0.05 + 0.9 * (coalitions(n) @ weights) / weights.sum()
    assert processes(logistic(n), 200)[-1][0, -1] == 1
    assert processes(additive, 200)[-1][0, -1] == 0


@pytest.mark.parametrize("kind", ["saturating", "mlp", "forest", "maximum"])
def test_log_odds_help_where_they_are_smoother_and_do_no_harm_elsewhere(kind):
    helped, alone, covered = [], [], []
    for seed in (7, 8, 9):
        table = np.asarray(TRAINED[kind](seed), dtype=float)
        table = (table - table.min()) / (table.max() - table.min())
        truth = table_e2(table)[0]
        design, values = drawn(table, 400, seed)
        both = GaussianProcessProxy().from_outcomes(design, [values, log_odds(values)])[0]
        helped.append(relative_error(both.bivariate[0], truth))
        alone.append(relative_error(GaussianProcessProxy().from_outcomes(design, [values])[0].bivariate[0], truth))
        off = ~np.eye(len(truth), dtype=bool)
        covered.append((np.abs(both.bivariate[0].numpy() - truth) <= 1.96 * both.bivariate_error[0].numpy())[off])
    assert np.mean(helped) < {"saturating": 0.8, "mlp": 0.95}.get(kind, 1.1) * np.mean(alone)
    assert np.mean(covered) >= 0.93
