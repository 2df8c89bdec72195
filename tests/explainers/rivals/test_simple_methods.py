"""Occlusion, permutation and DeepLIFT by name, against Captum, loops and closed forms."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bivshap_lightning import BivariateShapley, Game, NearestRows
from bivshap_lightning.explainers import explainer_names, find_explainer
from bivshap_lightning.explainers.rivals.occlusion import Occlusion


def smooth(x: Tensor) -> Tensor:
    return torch.sin(x[:, 0] + 2 * x[:, 1]) * x[:, 2] + x[:, 3] ** 2


X = torch.tensor([[0.5, 1.0, -1.0, 2.0], [1.5, -0.3, 0.8, -1.0]], dtype=torch.float64)


@pytest.mark.parametrize("window", [1, 2, 4])
def test_occlusion_equals_captum(window):
    from captum.attr import Occlusion as CaptumOcclusion

    found = Occlusion(window).explain(Game(smooth, X, behavior="output"))
    expected = CaptumOcclusion(smooth).attribute(X, sliding_window_shapes=(window,))
    torch.testing.assert_close(found.shapley, expected.double(), atol=1e-6, rtol=0)  # Captum computes in float32


def test_occlusion_by_name_and_its_cost():
    game = Game(smooth, X, background=torch.zeros(3, 4, dtype=torch.float64), behavior="output")
    explainer = find_explainer("occlusion")
    assert explainer.minimum_evaluations(game) == 15
    explanation = explainer.explain(game)
    assert explanation.n_evaluations.tolist() == [15, 15]
    torch.testing.assert_close(explanation.shapley, find_explainer("feature_ablation").explain(game).shapley)
    assert Occlusion(9).explain(game).shapley.unique(dim=1).shape[1] == 1  # wider than all: everything at once
    with pytest.raises(ValueError, match="`window` must be at least 1, got 0"):
        Occlusion(0)


def test_permutation_equals_a_loop():
    rows = torch.randn(6, 4, dtype=torch.float64)
    explanation = find_explainer("permutation").explain(Game(smooth, X, background=rows, behavior="output"))
    for b, x in enumerate(X):
        for i in range(4):
            changed = x.repeat(6, 1)
            changed[:, i] = rows[:, i]
            expected = float(smooth(x[None])[0] - smooth(changed).mean())
            assert float(explanation.shapley[b, i]) == pytest.approx(expected)


def test_mean_permutation_of_the_loss_is_breimans_importance():
    """Against scikit-learn's, whose random permutations scatter around the mean over all rows."""
    from sklearn.inspection import permutation_importance
    from sklearn.linear_model import LinearRegression

    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = x @ [2.0, 1.0, 0.0]
    model = LinearRegression().fit(x, y)
    explanation = BivariateShapley(model, "permutation", "loss").attribute(x, target=y, background=x)
    theirs = permutation_importance(model, x, y, scoring="neg_mean_squared_error", n_repeats=200, random_state=0)
    np.testing.assert_allclose(explanation.shapley.mean(dim=0), theirs.importances_mean, rtol=0.05, atol=1e-9)


def test_permutation_needs_rows():
    explainer = find_explainer("permutation")
    for game in (
        Game(smooth, X, behavior="output"),
        Game(smooth, X, background=NearestRows(X, 2), behavior="output"),
    ):
        for ask in (explainer.explain, explainer.minimum_evaluations):
            with pytest.raises(ValueError, match="`background` must hold at least two rows for 'permutation'"):
                ask(game)


def test_deep_lift_by_name():
    """Its scores add up to the change of the target's score; Captum's own output."""
    from captum.attr import DeepLift

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(2, 4)
    game = Game(model, x, baselines=0.5)
    assert "deep_lift" in explainer_names()
    explainer = find_explainer("deep_lift")
    assert explainer.minimum_evaluations(game) == 1
    found = explainer.explain(game)
    assert found.method == "deep_lift"
    with pytest.warns(UserWarning, match="Setting forward, backward hooks"):
        expected = DeepLift(model).attribute(x.clone().requires_grad_(), torch.full_like(x, 0.5), target=game.target)
    torch.testing.assert_close(found.shapley, expected.detach())
    change = (model(x) - model(torch.full_like(x, 0.5)))[torch.arange(2), game.target]
    torch.testing.assert_close(found.shapley.sum(dim=1), change.detach())


def test_deep_lift_needs_a_module():
    explainer, game = find_explainer("deep_lift"), Game(smooth, X, behavior="output")
    for ask in (explainer.explain, explainer.minimum_evaluations):
        with pytest.raises(ValueError, match=r"`model` must be a torch module for 'deep_lift'.*integrated_gradients"):
            ask(game)


def test_lime_and_gradient_shap_by_name_find_a_linear_model():
    weights = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    game = Game(lambda x: x @ weights, X, behavior="output")
    torch.testing.assert_close(find_explainer("gradient_shap").explain(game).shapley, weights * X)
    # Captum's LIME has a penalty, which takes a little of every slope.
    torch.testing.assert_close(find_explainer("lime").explain(game, 600).shapley, weights * X, atol=0.35, rtol=0)
