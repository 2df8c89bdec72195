"""Captum's methods on a game, against exact values, closed forms and the game itself."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bivshap_lightning import Game
from bivshap_lightning.explainers import Explainer, find_explainer
from bivshap_lightning.explainers.rivals import CaptumExplainer, captum_explainer, captum_methods

GRADIENT = ["gradient_shap", "input_x_gradient", "integrated_gradients", "saliency"]
PERTURBATION = ["feature_ablation", "kernel_shap", "lime", "shapley_sampling", "shapley_values"]
SHAPLEY = [("shapley_values", None, 1e-6), ("shapley_sampling", 400, 0.04), ("kernel_shap", 400, 0.04)]
N = 4


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(N, 12), nn.Tanh(), nn.Linear(12, 3))
    with torch.no_grad():
        network[0].weight *= 2
        network[2].weight *= 4
    return network


class TwoInputs(nn.Module):
    """A product of functions of two inputs, so that players of both interact."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.image = nn.Linear(3, 2), nn.Linear(4, 2)

    def forward(self, table: Tensor, image: Tensor) -> Tensor:
        return torch.tanh(self.table(table)) * torch.sigmoid(self.image(image.flatten(1)))


def table_game(network: nn.Module, **settings: object) -> Game:
    torch.manual_seed(5)
    return Game(network, torch.randn(3, N), **{"baselines": 0.3, **settings})


def tuple_game() -> Game:
    torch.manual_seed(5)
    mask = (torch.tensor([[0, 1, 1]]), torch.tensor([[[2, 2], [0, 3]]]))
    return Game(TwoInputs(), (torch.randn(2, 3), torch.randn(2, 2, 2)), feature_mask=mask, behavior="logit")


def ragged_game(network: nn.Module) -> Game:
    """Three, one and no players; the last element belongs to none."""
    mask = torch.tensor([[0, 1, 2, -1], [0, 0, 0, -1], [-1, -1, -1, -1]])
    return table_game(network, feature_mask=mask)


GAMES = {
    "one baseline": lambda network: table_game(network),
    "baseline per sample": lambda network: table_game(network, baselines=torch.linspace(-1, 1, 3 * N).view(3, N)),
    "background": lambda network: table_game(
        network, baselines=None, background=torch.linspace(-1, 1, 4 * N).view(4, N)
    ),
    "groups": lambda network: table_game(network, feature_mask=torch.tensor([[0, 1, 0, 2]])),
    "fixed elements": lambda network: table_game(network, feature_mask=torch.tensor([[0, -1, 1, 2]])),
    "tuple": lambda network: tuple_game(),
    "ragged": ragged_game,
}


@pytest.fixture(params=GAMES)
def game(request: pytest.FixtureRequest, network: nn.Module) -> Game:
    return GAMES[request.param](network)


def ends(game: Game) -> Tensor:
    """(B,) what all players together add."""
    masks = torch.tensor([[False], [True]]).expand(2, game.n_players)[None]
    values = game(masks)
    return values[:, 1] - values[:, 0]


@pytest.mark.parametrize(("name", "n_evaluations", "tolerance"), SHAPLEY)
def test_shapley_methods_agree_with_exact_values(game, name, n_evaluations, tolerance):
    n_evaluations = n_evaluations and n_evaluations * game.removal.n_rows
    exact = find_explainer("exact").explain(game).shapley
    scores = captum_explainer(name).explain(game, n_evaluations).shapley
    assert exact.abs().max() > 4 * tolerance
    torch.testing.assert_close(scores, exact, atol=tolerance, rtol=0)


def test_feature_ablation_is_the_loss_when_a_player_leaves_all_others(game):
    everyone = torch.ones(game.n_players, dtype=torch.bool)
    values = game(torch.cat([everyone[None], ~torch.eye(game.n_players, dtype=torch.bool)])[None])
    scores = captum_explainer("feature_ablation").explain(game).shapley
    torch.testing.assert_close(scores, values[:, :1] - values[:, 1:])


@pytest.mark.parametrize("name", ["integrated_gradients", "gradient_shap"])
def test_gradients_between_baselines_and_inputs_add_up(game, name, network):
    if game.removal.n_rows > 1 and name == "integrated_gradients":  # it starts from the mean row
        mean = game.removal.rows[0].mean(dim=1)
        game = Game(network, game.inputs[0], baselines=mean)
    n_evaluations = 2_000 if name == "gradient_shap" else 100
    scores = captum_explainer(name).explain(game, n_evaluations).shapley
    torch.testing.assert_close(scores.sum(dim=1), ends(game), atol=0.05 if name == "gradient_shap" else 1e-4, rtol=0)


@pytest.mark.parametrize("name", captum_methods())
def test_null_players_get_exactly_zero_and_the_others_something_finite(game, name):
    scores = captum_explainer(name).explain(game).shapley
    assert scores.shape == (game.n_samples, game.n_players)
    assert scores.dtype == game.dtype
    assert bool(torch.isfinite(scores).all())
    assert bool((scores[game.null_players] == 0).all())
    if name != "lime":  # which shrinks small effects to zero
        assert bool((scores[~game.null_players] != 0).all())


def test_at_least_these_methods_are_found():
    assert set(captum_methods()) >= {*GRADIENT, *PERTURBATION}


def linear_game(**settings: object) -> tuple[Game, Tensor, Tensor]:
    weights, x = torch.tensor([1.0, -2.0, 3.0, 4.0]), torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.5, 0.0, -1.0, 2.0]])
    game = Game(lambda rows: rows @ weights, x, behavior="output", **settings)
    return game, weights, x


@pytest.mark.parametrize("name", ["integrated_gradients", "gradient_shap"])
def test_a_linear_model_gives_weight_times_difference(name):
    baseline = torch.tensor([[0.5, 0.5, 1.0, 1.0], [0.0, 1.0, 2.0, 3.0]])
    game, weights, x = linear_game(baselines=baseline, feature_mask=torch.tensor([[0, 1, 1, 0]]))
    per_element = weights * (x - baseline)
    expected = torch.stack([per_element[:, 0] + per_element[:, 3], per_element[:, 1] + per_element[:, 2]], dim=1)
    torch.testing.assert_close(captum_explainer(name).explain(game).shapley, expected)


def test_gradient_shap_draws_from_all_background_rows():
    background = torch.tensor([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    game, weights, x = linear_game(background=background)
    scores = captum_explainer("gradient_shap").explain(game, 4000).shapley
    torch.testing.assert_close(scores, weights * (x - 0.5), atol=0.1, rtol=0)
    few = captum_explainer("gradient_shap").explain(game, 1).shapley
    assert any(torch.allclose(few, weights * (x - row)) for row in background)


def test_local_gradients_and_their_options():
    game, weights, x = linear_game(baselines=-7.0)
    torch.testing.assert_close(captum_explainer("saliency").explain(game).shapley, weights.abs().expand(2, 4))
    signed = captum_explainer("saliency", options={"abs": False}).explain(game).shapley
    torch.testing.assert_close(signed, weights.expand(2, 4))
    torch.testing.assert_close(captum_explainer("input_x_gradient").explain(game).shapley, weights * x)


def test_lime_finds_the_order_of_a_linear_model():
    game, weights, _ = linear_game(baselines=torch.zeros(4))
    scores = captum_explainer("lime").explain(game).shapley
    assert scores[0].argsort().tolist() == (weights * game.inputs[0][0]).argsort().tolist()


@pytest.mark.parametrize("name", PERTURBATION)
def test_a_single_player_gets_the_whole_value(network, name):
    game = table_game(network, feature_mask=torch.zeros(1, N, dtype=torch.int64), behavior="logit")
    scores = captum_explainer(name).explain(game).shapley
    torch.testing.assert_close(scores[:, 0], ends(game), atol=0.2 if name == "lime" else 1e-4, rtol=0)


@pytest.mark.parametrize("name", captum_methods())
def test_scores_repeat_and_do_not_depend_on_the_rest_of_the_batch(network, name):
    game = table_game(network)
    scores = captum_explainer(name).explain(game).shapley
    torch.manual_seed(99)
    assert torch.equal(captum_explainer(name).explain(game).shapley, scores)
    alone = Game(network, game.inputs[0][1:2], baselines=0.3)
    torch.testing.assert_close(captum_explainer(name).explain(alone).shapley, scores[1:2], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["kernel_shap", "lime", "shapley_sampling", "gradient_shap"])
def test_the_seed_matters(network, name):
    game = table_game(network, behavior="logit")
    first, second = (captum_explainer(name).explain(game, seed=seed).shapley for seed in (1, 2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("name", captum_methods())
def test_model_and_generators_are_unchanged(name, global_rng_untouched):
    state = torch.get_rng_state()
    model = nn.Sequential(nn.Linear(N, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))
    inputs = torch.randn(3, N)
    torch.set_rng_state(state)
    model[2].eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    game = Game(model, inputs)
    captum_explainer(name).explain(game)
    assert [m.training for m in model.modules()] == [True, True, True, False, True, True]
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not game.inputs[0].requires_grad


def test_generators_are_restored_after_an_error(network, global_rng_untouched):
    state = torch.get_rng_state()
    game = table_game(network)
    torch.set_rng_state(state)
    game.values_of = lambda masks, samples: 1 / 0
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        captum_explainer("kernel_shap").explain(game)


@pytest.mark.parametrize("built_inside", [True, False])
@pytest.mark.parametrize("name", captum_methods())
def test_inside_inference_mode(network, name, built_inside):
    game = table_game(network)
    expected = captum_explainer(name).explain(game).shapley
    with torch.inference_mode():
        if built_inside:
            game = table_game(network)
        torch.testing.assert_close(captum_explainer(name).explain(game).shapley, expected)
    torch.testing.assert_close(captum_explainer(name).explain(game).shapley, expected)


@pytest.mark.parametrize(("name", "n_rows", "expected"), [
    ("feature_ablation", 1, N + 1),
    ("shapley_sampling", 1, 1 + 4 * N),
    ("shapley_sampling", 2, 2 * (1 + 4 * N)),
    ("integrated_gradients", 1, 16),
    ("gradient_shap", 1, 16),
    ("saliency", 1, 1),
])  # fmt: skip
def test_n_evaluations_is_spent_on_every_sample(network, name, n_rows, expected):
    game = table_game(network, baselines=None, background=torch.linspace(-1, 1, n_rows * N).view(n_rows, N))
    spent = game.n_evaluations.clone()
    captum_explainer(name).explain(game, 16 * n_rows)
    assert (game.n_evaluations - spent).tolist() == [expected] * 3


@pytest.mark.parametrize(("name", "width", "n_samples"), [
    ("kernel_shap", 8, 200),
    ("kernel_shap", 100, 1024),
    ("kernel_shap", 300, 1200),
    ("lime", 8, 200),
    ("shapley_sampling", 100, 25),
])  # fmt: skip
def test_default_numbers_of_draws(name, width, n_samples):
    game = Game(lambda x: x.sum(dim=1), torch.ones(1, width), behavior="output")
    explainer = captum_explainer(name)
    asked = {}
    kind = explainer.method
    method = type(kind.__name__, (kind,), {"attribute": _spy(kind.attribute, asked)})
    CaptumExplainer(method, name).explain(game)
    assert asked["n_samples"] == n_samples


def _spy(attribute, asked):
    def spy(
        self,
        inputs,
        baselines=None,
        additional_forward_args=None,
        n_samples=1,
        perturbations_per_eval=1,
        return_input_shape=False,
    ):
        asked["n_samples"] = n_samples
        return torch.zeros_like(inputs)

    return spy


def test_rows_per_call_bounds_what_gradient_methods_run_at_once():
    seen = []

    def model(x: Tensor) -> Tensor:
        seen.append(len(x))
        return (x**3).sum(dim=1)

    inputs = torch.arange(10.0).view(5, 2) / 10
    for name in GRADIENT:
        roomy, tight = (Game(model, inputs, behavior="output") for _ in range(2))
        tight.rows_per_call = 4
        expected = captum_explainer(name).explain(roomy).shapley
        seen.clear()
        scores = captum_explainer(name).explain(tight).shapley
        assert max(seen) <= 4
        torch.testing.assert_close(scores, expected, atol=0.1 if name == "gradient_shap" else 1e-5, rtol=0)


def test_gradient_methods_back_off_when_memory_runs_out():
    limit = [1000]

    def model(x: Tensor) -> Tensor:
        if len(x) > limit[0]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return (x**2).sum(dim=1)

    game = Game(model, torch.ones(6, 2), behavior="output")
    limit[0] = 4
    torch.testing.assert_close(captum_explainer("integrated_gradients").explain(game).shapley, torch.ones(6, 2))
    assert game.rows_per_call <= 4
    limit[0] = 0
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        captum_explainer("integrated_gradients").explain(game)


def test_other_runtime_errors_are_not_retried(network):
    game = table_game(network)

    def broken(*inputs: Tensor) -> Tensor:
        raise RuntimeError("shapes do not match")

    from captum.attr import Saliency

    with pytest.raises(RuntimeError, match="shapes do not match"):
        captum_explainer(Saliency(broken)).explain(game)


def test_errors_of_a_backward_pass_refuse_the_method_alone(network):
    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx, gradient: Tensor) -> Tensor:
            raise RuntimeError("backward can only be called in training mode")

    game = Game(lambda x: Forward.apply(x).sum(dim=1), torch.ones(2, 3), behavior="output")
    match = r"must have a backward pass in eval mode for 'integrated_gradients', got RuntimeError: backward can only"
    with pytest.raises(ValueError, match=match):
        captum_explainer("integrated_gradients").explain(game)


def test_an_input_the_model_ignores_gets_no_gradient():
    game = Game(lambda a, b: (a**2).sum(dim=1), (torch.ones(2, 2), torch.ones(2, 1)), behavior="output")
    expected = torch.tensor([[1.0, 1.0, 0.0]] * 2)
    torch.testing.assert_close(captum_explainer("integrated_gradients").explain(game).shapley, expected)


def test_double_precision_stays_double(network):
    game = Game(network.double(), torch.randn(2, N, dtype=torch.float64), behavior="logit")
    for name in ("feature_ablation", "integrated_gradients"):
        assert captum_explainer(name).explain(game).shapley.dtype == torch.float64


def test_tokens_can_be_perturbed_but_not_differentiated():
    embedding = nn.Embedding(10, 4)
    game = Game(lambda tokens: embedding(tokens).sum(dim=1), torch.tensor([[1, 2, 3]]), target=0, behavior="logit")
    exact = find_explainer("exact").explain(game).shapley
    torch.testing.assert_close(captum_explainer("shapley_values").explain(game).shapley, exact)
    with pytest.raises(ValueError, match=r"`inputs` must be floating point for 'saliency'.*int64 for input 0"):
        captum_explainer("saliency").explain(game)


def test_black_boxes_can_be_perturbed_but_not_differentiated():
    game = Game(lambda x: x.sum(axis=1), torch.ones(1, 2).numpy(), behavior="output")
    torch.testing.assert_close(captum_explainer("feature_ablation").explain(game).shapley.float(), torch.ones(1, 2))
    with pytest.raises(ValueError, match="`model` must be differentiable with respect to its inputs"):
        captum_explainer("integrated_gradients").explain(game)


def test_scores_that_are_not_finite_are_refused():
    game = Game(lambda x: x.clamp(min=0).sqrt().sum(dim=1), torch.zeros(1, 2), baselines=1.0, behavior="output")
    with pytest.raises(ValueError, match="`game` must have finite attributions, got 2 NaN or infinite of 2"):
        captum_explainer("saliency").explain(game)


class TestAttributionObjects:
    """Objects that the user built around a forward function."""

    @pytest.mark.parametrize("name", ["FeatureAblation", "ShapleyValues", "IntegratedGradients", "InputXGradient"])
    def test_they_agree_with_the_method_by_name(self, network, name):
        import captum.attr

        kind = getattr(captum.attr, name)
        for make in ("one baseline", "baseline per sample", "groups", "fixed elements"):
            game = GAMES[make](network)
            game = Game(
                network,
                game.inputs[0],
                baselines=game.removal.rows[0][:, 0],
                feature_mask=game.players.ids[0].masked_fill(game.players.ids[0] == game.n_players, -1),
                behavior="logit",
            )
            expected = captum_explainer(kind).explain(game).shapley
            torch.testing.assert_close(
                captum_explainer(kind(network)).explain(game).shapley, expected, atol=1e-6, rtol=1e-5
            )

    @pytest.mark.parametrize("name", ["KernelShap", "ShapleyValueSampling"])
    def test_estimators_find_the_exact_values(self, network, name):
        import captum.attr

        mask = torch.tensor([[0, 1, 2, -1], [0, 0, 1, -1], [0, 1, 1, -1]])
        game = table_game(network, feature_mask=mask, behavior="logit")
        exact = find_explainer("exact").explain(game).shapley
        explainer = captum_explainer(getattr(captum.attr, name)(network))
        torch.testing.assert_close(explainer.explain(game, 600).shapley, exact, atol=0.05, rtol=0)

    def test_deep_lift_is_exact_for_a_linear_model(self):
        from captum.attr import DeepLift, DeepLiftShap

        model, x = nn.Linear(3, 2, bias=False), torch.randn(2, 3)
        baselines = torch.randn(2, 3)
        game = Game(model, x, baselines=baselines, behavior="logit", target=1)
        expected = model.weight[1].detach() * (x - baselines)
        for kind in (DeepLift, DeepLiftShap):
            torch.testing.assert_close(captum_explainer(kind(model)).explain(game).shapley, expected)
        network = nn.Sequential(model, nn.ReLU())
        game = Game(network, x, baselines=baselines, behavior="logit", target=1)
        scores = captum_explainer(DeepLift(network)).explain(game).shapley
        torch.testing.assert_close(scores.sum(dim=1), ends(game))
        assert all(p.grad is None for p in network.parameters())

    def test_noise_tunnels_wrap_their_method(self, network):
        from captum.attr import IntegratedGradients, NoiseTunnel

        game = table_game(network, behavior="logit")
        quiet = captum_explainer(NoiseTunnel(IntegratedGradients(network)), options={"stdevs": 0.0, "nt_samples": 2})
        expected = captum_explainer("integrated_gradients").explain(game).shapley
        torch.testing.assert_close(quiet.explain(game).shapley, expected)
        assert quiet.name == "noise_tunnel"
        noisy = captum_explainer(NoiseTunnel(IntegratedGradients(network)), options={"stdevs": 0.5})
        assert torch.equal(noisy.explain(game).shapley, noisy.explain(game).shapley)

    def test_further_arguments_follow_their_samples(self):
        from captum.attr import FeatureAblation

        def model(x: Tensor, scale: Tensor, power: int) -> Tensor:
            return (x**power).sum(dim=1) * scale

        further = (torch.tensor([1.0, 10.0]), 2)
        game = Game(model, torch.ones(2, 3), behavior="output", additional_forward_args=further)
        expected = torch.tensor([[1.0] * 3, [10.0] * 3])
        torch.testing.assert_close(captum_explainer(FeatureAblation(model)).explain(game).shapley, expected)
        torch.testing.assert_close(captum_explainer("feature_ablation").explain(game).shapley, expected)
        torch.testing.assert_close(captum_explainer("integrated_gradients").explain(game).shapley, expected)

    def test_windows_are_summed_into_players(self):
        from captum.attr import Occlusion

        game, weights, x = linear_game(feature_mask=torch.tensor([[0, 0, 1, 1]]))
        by_object = captum_explainer(Occlusion(lambda rows: rows @ weights), options={"sliding_window_shapes": (1,)})
        torch.testing.assert_close(by_object.explain(game).shapley, (weights * x).view(2, 2, 2).sum(dim=2))
        by_name = captum_explainer("occlusion", options={"sliding_window_shapes": (1,)})
        torch.testing.assert_close(by_name.explain(game).shapley, (weights * x).view(2, 2, 2).sum(dim=2))

    def test_one_baseline_cannot_be_made_of_several_rows_of_tokens(self):
        from captum.attr import FeatureAblation

        def model(tokens: Tensor) -> Tensor:
            return tokens.sum(dim=1).float()

        game = Game(model, torch.tensor([[1, 2]]), background=torch.tensor([[3, 4], [5, 6]]), behavior="output")
        with pytest.raises(ValueError, match=r"`background` must be floating point for an attribution object.*int64"):
            captum_explainer(FeatureAblation(model)).explain(game)

    def test_attributions_to_something_else_are_refused(self, network):
        from captum.attr import LayerActivation

        with pytest.raises(ValueError, match=r"of shapes \[\(3, 4\)\], got \[\(3, 12\)\] from 'layer_activation'"):
            captum_explainer(LayerActivation(network, network[0])).explain(table_game(network))

    def test_what_attribute_needs_must_be_given(self, network):
        from captum.attr import DataLoaderAttribution, FeatureAblation, NeuronGradient

        with pytest.raises(ValueError, match=r"`options` must hold `neuron_selector` for 'neuron_gradient', got \[\]"):
            captum_explainer(NeuronGradient(network, network[0]))
        with pytest.raises(ValueError, match="`method` must attribute to `inputs`, got 'data_loader_attribution'"):
            captum_explainer(DataLoaderAttribution(FeatureAblation(network)))


@pytest.mark.parametrize(("method", "reason"), [
    ("deep_lift", "it is built from `model`"),
    ("guided_grad_cam", "it is built from `model`, `layer`"),
    ("layer_conductance", "it inspects layers"),
    ("neuron_gradient", "it inspects layers"),
    ("noise_tunnel", "it is neither a perturbation method nor a gradient method"),
    ("perturbation_attribution", "it is neither"),
    ("feature_permutation", "it shuffles values between samples"),
    ("occlusion", "its `attribute` also needs `sliding_window_shapes`"),
])  # fmt: skip
def test_methods_that_cannot_be_used_by_name_say_why(method, reason):
    with pytest.raises(ValueError, match=rf"`method` must be one of .*kernel_shap.*, got '{method}': {reason}"):
        captum_explainer(method)


def test_wrong_arguments_raise(network):
    with pytest.raises(ValueError, match=r"`method` must be one of \('feature_ablation', .*\), got 'shap'"):
        captum_explainer("shap")
    for wrong in (7, dict):
        with pytest.raises(TypeError, match=r"`method` must be a name out of .* or an attribution object, got"):
            captum_explainer(wrong)
    with pytest.raises(ValueError, match="`n_evaluations` must be at least 1, got 0"):
        captum_explainer("saliency").explain(table_game(network), 0)
    for unknown in ("absolute", "target", "additional_forward_args"):
        with pytest.raises(ValueError, match=rf"`options` must be among \['abs'\] for 'saliency', got \['{unknown}'\]"):
            captum_explainer("saliency", options={unknown: 1})
    for name, least in (("kernel_shap", 6), ("lime", 6), ("shapley_sampling", 8)):
        game = table_game(network)
        with pytest.raises(ValueError, match=rf"`n_evaluations` must be at least {least} for '{name}' with 4 players"):
            captum_explainer(name).explain(game, least - 1)
        captum_explainer(name).explain(game, least)
    game = table_game(network, baselines=None, background=torch.zeros(3, N))
    with pytest.raises(ValueError, match=r"must be at least 24 \(8 coalitions times 3 background rows\)"):
        captum_explainer("shapley_sampling").explain(game, 23)
    game = Game(lambda x: x.sum(dim=1), torch.ones(1, 10), behavior="output")
    with pytest.raises(ValueError, match=r"fewer than 10 players for 'shapley_values', got 10, in 10! orders"):
        captum_explainer("shapley_values").explain(game)


def test_classes_and_long_names_are_the_same_method():
    from captum.attr import ShapleyValueSampling

    for method in ("shapley_sampling", "shapley_value_sampling", ShapleyValueSampling):
        explainer = captum_explainer(method)
        assert isinstance(explainer, Explainer)
        assert explainer.name == "shapley_sampling"
        assert explainer == captum_explainer("shapley_sampling")


def test_captum_is_imported_only_when_one_of_its_methods_is_used():
    code = "import bivshap_lightning.explainers.rivals, sys; assert 'captum' not in sys.modules"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", captum_methods())
def test_explanations_are_univariate_and_carry_their_provenance(network, name):
    game = table_game(network)
    before = game.n_evaluations
    explanation = captum_explainer(name).explain(game, 40, seed=3)
    assert explanation.bivariate is None
    assert explanation.standard_error is None
    assert explanation.shapley_standard_error is None
    assert (explanation.method, explanation.seed, explanation.removal) == (name, 3, "baseline 0.3")
    assert torch.equal(explanation.n_evaluations, game.n_evaluations - before)
    assert explanation.is_exact == (name in {"feature_ablation", "input_x_gradient", "saliency", "shapley_values",
                                             "deconvolution", "guided_backprop", "lrp"})  # fmt: skip
    with pytest.raises(ValueError, match=rf"`method` must be bivariate to give a graph, got '{name}'"):
        explanation.graph(0)


@pytest.mark.parametrize("name", captum_methods())
@pytest.mark.parametrize("n_rows", [1, 2])
def test_the_minimum_is_enough_and_one_less_is_not(network, name, n_rows):
    game = table_game(network, baselines=None, background=torch.linspace(-1, 1, n_rows * N).view(n_rows, N))
    explainer = captum_explainer(name)
    least = explainer.minimum_evaluations(game)
    explanation = explainer.explain(game, least)
    if name in ("kernel_shap", "lime"):
        assert int(explanation.n_evaluations.max()) <= least
    elif name == "shapley_sampling":  # the empty coalition comes on top
        assert explanation.n_evaluations.tolist() == [least + n_rows] * 3
    elif name == "shapley_values":  # equal coalitions of one call are evaluated once
        assert int(explanation.n_evaluations.max()) <= least
    elif name in ("integrated_gradients", "gradient_shap"):
        assert (least, explanation.n_evaluations.tolist()) == (1, [1] * 3)
    else:
        assert explanation.n_evaluations.tolist() == [least] * 3
    if name in ("kernel_shap", "lime", "shapley_sampling"):
        with pytest.raises(ValueError, match=f"`n_evaluations` must be at least {least}"):
            explainer.explain(game, least - 1)


def test_integrated_gradients_stop_when_they_have_converged():
    """A quadratic converges at once; a steep step on the way gets more steps, for that sample alone."""

    def model(x):
        return (x**2).sum(dim=1) + torch.sigmoid(400 * (x[:, 1] - 0.37))

    smooth, steep = torch.tensor([[0.5, 0.2]]), torch.tensor([[0.5, 2.0]])
    game = Game(model, torch.cat([smooth, steep]), behavior="output")
    explanation = captum_explainer("integrated_gradients").explain(game, 5000)
    spent = explanation.n_evaluations.tolist()
    assert spent[0] == 52
    assert 52 + 102 <= spent[1] <= 5000
    torch.testing.assert_close(explanation.shapley[0], smooth[0] ** 2)
    torch.testing.assert_close(explanation.shapley[1], torch.tensor([0.25, 5.0]), atol=0.06, rtol=0)
    alone = captum_explainer("integrated_gradients").explain(Game(model, steep, behavior="output"), 5000)
    torch.testing.assert_close(alone.shapley[0], explanation.shapley[1])


def test_integrals_with_many_steps_need_no_search_for_nodes_and_are_right(monkeypatch):
    """Gauss-Legendre nodes of thousands of steps take minutes, whatever the model."""
    n_nodes, find = [], np.polynomial.legendre.leggauss
    monkeypatch.setattr(np.polynomial.legendre, "leggauss", lambda n: n_nodes.append(n) or find(n))
    game = Game(
        lambda x: torch.sigmoid(2000 * (x[:, 0] - 0.37)) + x[:, 1], torch.tensor([[1.0, 3.0]]), behavior="output"
    )
    explanation = captum_explainer("integrated_gradients").explain(game, 40_000)
    assert max(n_nodes) <= 200
    assert 200 < int(explanation.n_evaluations) <= 40_000
    torch.testing.assert_close(explanation.shapley, torch.tensor([[1.0, 3.0]]), atol=0.04, rtol=0)


def test_an_integral_whose_ends_are_equal_converges():
    def model(x):
        return torch.relu(x[:, 0] - 0.37) / 0.63 - torch.relu(x[:, 1] - 0.71) / 0.29

    explanation = captum_explainer("integrated_gradients").explain(
        Game(model, torch.ones(1, 2), behavior="output"), 40_000
    )
    assert int(explanation.n_evaluations) == 52
    torch.testing.assert_close(explanation.shapley, torch.tensor([[1.0, -1.0]]), atol=0.02, rtol=0)
