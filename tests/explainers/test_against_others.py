"""Univariate Shapley values against Captum and shapiq."""

import numpy as np
import pytest
import torch

from bivshap_lightning import BivariateShapley, Game


@pytest.fixture
def network() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3), torch.nn.Softmax(dim=1)
    ).double()


def test_shapley_values_equal_captums_limit(network):
    from captum.attr import ShapleyValues

    inputs, baselines = torch.randn(2, 6, dtype=torch.float64), torch.randn(1, 6, dtype=torch.float64)
    expected = ShapleyValues(network).attribute(inputs, baselines, target=1)
    explanation = BivariateShapley(network, "exact").attribute(inputs, baselines, target=1)
    torch.testing.assert_close(explanation.shapley.float(), expected)


def test_captums_estimators_agree_within_their_noise(network):
    from captum.attr import KernelShap, ShapleyValueSampling

    inputs = torch.randn(1, 6, dtype=torch.float64)
    ours = BivariateShapley(network, "exact").attribute(inputs, target=0).shapley
    sampled = ShapleyValueSampling(network).attribute(inputs, target=0, n_samples=600)
    torch.testing.assert_close(sampled.double(), ours, atol=0.02, rtol=0)
    fitted = KernelShap(network).attribute(inputs, target=0, n_samples=3000)
    torch.testing.assert_close(fitted.double(), ours, atol=0.02, rtol=0)


def test_feature_masks_mean_what_they_mean_in_captum(network):
    from captum.attr import ShapleyValues

    inputs, mask = torch.randn(2, 6, dtype=torch.float64), torch.tensor([[0, 0, 1, 2, 2, 3]])
    expected = ShapleyValues(network).attribute(inputs, target=2, feature_mask=mask)
    explanation = BivariateShapley(network, "exact").attribute(inputs, target=2, feature_mask=mask)
    torch.testing.assert_close(explanation.shapley[:, mask[0]].float(), expected)


def test_shapley_values_equal_shapiqs_exact_ones(network):
    from shapiq import ExactComputer
    from shapiq import Game as ShapiqGame

    inputs = torch.randn(1, 6, dtype=torch.float64)
    game = Game(network, inputs, target=1)

    class Bridge(ShapiqGame):
        def value_function(self, coalitions: np.ndarray) -> np.ndarray:
            return game(torch.as_tensor(coalitions, dtype=torch.bool)[None])[0].numpy()

    bridge = Bridge(n_players=6, normalize=False)
    values = ExactComputer(game=bridge, n_players=6)("SV")
    expected = [values[(i,)] for i in range(6)]
    ours = BivariateShapley(network, "exact").explain(game)
    np.testing.assert_allclose(ours.shapley[0], expected, atol=1e-9)
