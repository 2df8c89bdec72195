"""The set function: right values for every kind of input, at the cost it says, whatever the chunks."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.game.coalitions import all_coalitions


class Counter:
    """Counts rows and calls of a wrapped module; no module itself, because a game would restore its counts."""

    def __init__(self, inner: nn.Module) -> None:
        self.inner, self.calls = inner, []

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        self.calls.append(len(inputs[0]))
        return self.inner(*inputs)


def network(n: int = 6, c: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(n, 8), nn.Tanh(), nn.Linear(8, c)).double()


def by_hand(model, inputs, masks, baseline, target) -> np.ndarray:
    """Probability of the target, one sample and one coalition at a time."""
    values = np.zeros((len(inputs), masks.shape[1]))
    for b, k in itertools.product(range(len(inputs)), range(masks.shape[1])):
        mask = masks[b if len(masks) > 1 else 0, k]
        row = torch.where(mask, inputs[b], baseline[b])
        values[b, k] = model(row[None]).softmax(dim=1)[0, target[b]].item()
    return values


@given(st.integers(1, 5), st.integers(1, 7), st.booleans(), st.integers(1, 9), st.integers(0, 10**6))
def test_values_do_not_depend_on_chunks(b, k, shared, chunk, seed):
    generator = torch.Generator().manual_seed(seed)
    model, inputs = network(), torch.randn(b, 6, generator=generator, dtype=torch.float64)
    baseline = torch.randn(b, 6, generator=generator, dtype=torch.float64)
    # Equal elements make null players, which differ between samples.
    inputs = torch.where(torch.rand(b, 6, generator=generator) < 0.2, baseline, inputs)
    masks = torch.rand(1 if shared else b, k, 6, generator=generator) < 0.5
    game = Game(model, inputs, baselines=baseline, perturbations_per_eval=chunk)
    with torch.no_grad():
        expected = by_hand(model, inputs, masks, baseline, game.target)
    np.testing.assert_allclose(game(masks), expected, atol=1e-12)
    np.testing.assert_array_equal(game.null_players, inputs == baseline)


def test_rows_per_forward_pass_are_bounded():
    model = Counter(network())
    game = Game(model, torch.randn(4, 6, dtype=torch.float64), perturbations_per_eval=5)
    game(all_coalitions(6)[None])
    assert max(model.calls) <= 5 * 4
    assert sum(model.calls[2:]) == 4 * 64 + 2 * 4  # the check of removed players asks twice for one coalition


def test_background_rows_are_averaged_within_the_same_bound():
    model = Counter(network())
    inputs, rows = torch.randn(3, 6, dtype=torch.float64), torch.randn(7, 6, dtype=torch.float64)
    masks = all_coalitions(6)[None]
    game = Game(model, inputs, background=rows, perturbations_per_eval=2)
    values = game(masks)
    assert max(model.calls[2:]) <= 2 * 3
    with torch.no_grad():
        each = [by_hand(model, inputs, masks, row.expand(3, 6), game.target) for row in rows]
    np.testing.assert_allclose(values, np.mean(each, axis=0), atol=1e-12)
    assert game.outputs(masks).shape == (3, 64, 3)
    # Also where samples differ in their null players, so that single rows are evaluated.
    inputs[1, 2] = 0.0
    ragged = Game(model, inputs, background=torch.zeros(1, 6).double().repeat(2, 1), perturbations_per_eval=2)
    with torch.no_grad():
        expected = by_hand(model, inputs, masks, torch.zeros(3, 6).double(), ragged.target)
    np.testing.assert_allclose(ragged(masks), expected, atol=1e-12)


def test_equal_coalitions_are_evaluated_once():
    model = Counter(network())
    inputs = torch.randn(2, 6, dtype=torch.float64)
    inputs[0, 0] = 0
    game = Game(model, inputs)
    spent = game.n_evaluations.clone()
    model.calls.clear()
    masks = all_coalitions(6).repeat(3, 1)[None]
    game(masks)
    assert sum(model.calls) == 32 + 64 + 2  # the check of removed players asks twice for one row
    assert (game.n_evaluations - spent).tolist() == [32, 64]


def test_out_of_memory_halves_and_remembers():
    class Small(nn.Module):
        limit = 10

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if len(x) > self.limit:
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
            return x.sum(dim=1)

    inputs = torch.randn(4, 6, dtype=torch.float64)
    expected = Game(lambda x: x.sum(dim=1), inputs, behavior="output")(all_coalitions(6)[None])
    for limit in (10, 4, 1):  # the last ones force chunks below one row per sample
        Small.limit = limit
        game = Game(Small(), inputs, behavior="output")
        torch.testing.assert_close(game(all_coalitions(6)[None]), expected)
        assert game.rows_per_call <= limit
    Small.limit = 0
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        Game(Small(), inputs, behavior="output")


def test_other_errors_of_the_model_come_through():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        Game(nn.Linear(3, 2), torch.ones(1, 4))


def test_several_inputs_with_players_across_them():
    class Two(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a.sum(dim=1) * b.sum(dim=(1, 2))

    a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[[3.0, 4.0], [5.0, 6.0]]])
    masks = (torch.tensor([[0, 1]]), torch.tensor([[[1, 1], [2, 2]]]))
    game = Game(Two(), (a, b), feature_mask=masks, behavior="output", baselines=(0.0, 1.0))
    values = dict(zip(map(tuple, all_coalitions(3).int().tolist()), game(all_coalitions(3)[None])[0], strict=True))
    assert values[(1, 1, 1)] == 3 * 18
    assert values[(1, 0, 1)] == 1 * 13
    assert values[(0, 1, 0)] == 2 * 9
    assert values[(0, 0, 0)] == 0
    assert Game(Two(), (a, b), behavior="output").n_players == 6


def test_additional_arguments_follow_their_samples():
    def model(x: torch.Tensor, scale: torch.Tensor, shift: float) -> torch.Tensor:
        return x.sum(dim=1) * scale + shift

    inputs, scale = torch.ones(3, 2), torch.tensor([1.0, 10.0, 100.0])
    for chunk in (1, None):
        game = Game(
            model, inputs, behavior="output", additional_forward_args=(scale, 0.5), perturbations_per_eval=chunk
        )
        assert game(all_coalitions(2)[None])[:, 3].tolist() == [2.5, 20.5, 200.5]
    inputs[1, 0] = 0  # single rows
    assert Game(model, inputs, behavior="output", additional_forward_args=(scale, 0.5))(all_coalitions(2)[None])[
        :, 1
    ].tolist() == [1.5, 0.5, 100.5]


@pytest.mark.parametrize("b", [1, 3])
def test_a_model_may_write_to_its_additional_arguments(b):
    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=1) * weight.view(-1).mul_(2)

    inputs, weight = torch.ones(b, 2), torch.ones(b)
    game = Game(model, inputs, additional_forward_args=weight, behavior="output")
    assert game(torch.tensor([[[True, True]]])).tolist() == [[4.0]] * b
    assert game(torch.tensor([[[True, True], [True, False]]])).tolist() == [[4.0, 2.0]] * b
    assert torch.equal(weight, torch.ones(b))


def test_elements_without_a_player_always_stay():
    game = Game(lambda x: x.sum(dim=1), torch.tensor([[1.0, 10.0, 100.0]]), behavior="output",
                feature_mask=torch.tensor([[0, -1, 1]]))  # fmt: skip
    assert game(all_coalitions(2)[None])[0].tolist() == [10, 11, 110, 111]


def test_ragged_players_equal_the_samples_alone():
    model = network().double()
    inputs = torch.randn(3, 6, dtype=torch.float64)
    mask = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1], [0, 1, 2, 3, -1, -1]])
    explainer = BivariateShapley(model)
    batch = explainer.attribute(inputs, feature_mask=mask)
    assert batch.player_counts.tolist() == [3, 2, 4]
    assert batch.shapley.shape == (3, 4)
    for b in range(3):
        alone = explainer.attribute(inputs[b : b + 1], feature_mask=mask[b : b + 1])
        np.testing.assert_allclose(batch.graph(b).weights, alone.graph(0).weights, atol=1e-12)
        assert batch.graph(b).n_players == int(mask[b].max()) + 1


def test_integer_tokens():
    embedding = nn.Sequential(nn.Embedding(11, 4), nn.Flatten(), nn.Linear(20, 2))
    tokens = torch.tensor([[1, 2, 3, 4, 0], [5, 6, 0, 0, 0]])
    game = Game(embedding, tokens)
    assert game.null_players.tolist() == [[False] * 4 + [True], [False] * 2 + [True] * 3]
    assert game(torch.zeros(1, 1, 5, dtype=torch.bool)).shape == (2, 1)
    assert Game(embedding, tokens, baselines=10)(torch.zeros(1, 1, 5, dtype=torch.bool)).shape == (2, 1)
    with pytest.raises(ValueError, match="`baselines` must be whole numbers for integer inputs"):
        Game(embedding, tokens, baselines=0.5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool])
def test_small_integers_and_flags(dtype):
    inputs = torch.tensor([[1, 0, 1]]).to(dtype)
    game = Game(lambda x: x.sum(dim=1).float(), inputs, behavior="output", baselines=1)
    assert game(all_coalitions(3)[None])[0].tolist() == [3, 3, 2, 2, 3, 3, 2, 2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_works_and_says_what_it_is_worth(dtype):
    with pytest.warns(UserWarning, match=f"`model` computes in {dtype}.*Explain it in float32"):
        game = Game(network().to(dtype), torch.randn(2, 6))
    values = game(all_coalitions(6)[None])
    assert values.dtype == torch.float32
    assert torch.isfinite(values).all()


def test_removed_players_are_replaced_exactly():
    """No rounding: a coalition of all gives the very input, the empty one the very replacement."""
    seen = []
    inputs, rows = torch.randn(3, 50) * 1e3, torch.randn(3, 50)
    game = Game(lambda x: (seen.append(x.clone()), x.sum(dim=1))[1], inputs, baselines=rows, behavior="output")
    seen.clear()
    game(torch.tensor([[False], [True]])[None].expand(1, 2, 50))
    assert torch.equal(seen[-1].view(3, 2, 50), torch.stack([rows, inputs], dim=1))


def test_predictions_and_targets():
    model, inputs = network(), torch.randn(4, 6, dtype=torch.float64)
    game = Game(model, inputs)
    whole = torch.ones(1, 1, 6, dtype=torch.bool)
    assert torch.equal(game.target, model(inputs).argmax(dim=1))
    assert torch.equal(game.predict(whole)[:, 0], game.target)
    broken = Game(lambda x: (x / x.sum(dim=1, keepdim=True))[:, :3], inputs.abs())
    with pytest.raises(ValueError, match="`model` must give finite values"):
        broken.predict(~whole)
    labels = Game(model, inputs, link="sigmoid", target=1)
    assert torch.equal(labels.predict(whole)[:, 0], (model(inputs)[:, 1] >= 0).long())
    regression = Game(model, inputs, behavior=lambda s, t: s[:, 0])
    assert regression.predict(whole).shape == (4, 1)


def test_a_value_is_decided_by_whether_it_is_nearer_to_the_whole_or_to_nothing():
    masks = torch.tensor([[[False, False], [True, False], [False, True], [True, True]]])
    game = Game(lambda x: x.sum(dim=1), torch.tensor([[3.0, 1.0], [1.0, 1.0], [1.0, -1.0]]), behavior="output")
    # Of 4, 3 is nearer to 4 and 1 to 0; half of 2 counts as near; of 0 only 0 is.
    assert game.predict(masks).tolist() == [[0, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1]]
    losses = Game(lambda x: x.sum(dim=1), torch.tensor([[3.0, 1.0]]), behavior="loss", target=torch.tensor([4.0]))
    assert losses.predict(masks).tolist() == [[0, 1, 0, 1]]  # -16, -1, -9, 0


def test_estimators_enter_by_the_same_door():
    data = load_iris()
    names = data.target_names[data.target]
    model = LogisticRegression(max_iter=500).fit(data.data, names)
    game = Game(model, data.data[:5], baselines=data.data.mean(axis=0), target="virginica")
    assert game.behavior.link == "identity"
    values = game(torch.ones(1, 1, 4, dtype=torch.bool))[:, 0]
    np.testing.assert_allclose(values, model.predict_proba(data.data[:5])[:, 2])
    regressor = LinearRegression().fit(data.data, data.target)
    with pytest.raises(ValueError, match="`behavior` must be 'output' or 'loss' for a regressor, got 'probability'"):
        Game(regressor, data.data[:5])
    values = Game(regressor, data.data[:5], behavior="output")(torch.ones(1, 1, 4, dtype=torch.bool))
    np.testing.assert_allclose(values[:, 0], regressor.predict(data.data[:5]))


def test_a_trained_module_is_left_alone(global_rng_untouched):
    with torch.random.fork_rng():
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3))
    model[1].eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    Game(model, torch.randn(3, 6, generator=torch.Generator()))(all_coalitions(6)[None])
    assert [m.training for m in model] == [True, False, True, True]
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_results_can_be_used_with_autograd():
    value = Game(network(), torch.randn(1, 6, dtype=torch.float64))(torch.ones(1, 1, 6, dtype=torch.bool))
    (value * torch.ones(1, 1, dtype=torch.float64, requires_grad=True)).sum().backward()


class LeakyDropout(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, training=True)


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        ({"inputs": torch.zeros(0, 6)}, ValueError, r"`inputs` must hold at least one sample, got shapes \[\(0, 6\)\]"),
        ({"inputs": torch.full((1, 6), torch.nan)}, ValueError, "`inputs` must be finite, got 6 NaN"),
        ({"inputs": (torch.zeros(1, 6), torch.zeros(2, 6))}, ValueError, "`inputs` must be tensors with one row per"),
        ({"inputs": torch.zeros(1, 0), "model": lambda x: x.sum(1)}, ValueError, "at least one player, got none"),
        ({"feature_mask": torch.full((1, 6), -1)}, ValueError, "at least one player, got none"),
        ({"baselines": 0.0, "background": torch.zeros(2, 6)}, ValueError, "`baselines` must be None when"),
        ({"perturbations_per_eval": 0}, ValueError, "`perturbations_per_eval` must be at least 1, got 0"),
        ({"target": 3}, ValueError, r"`target` must lie in 0..2, got values from 3 to 3"),
        ({"behavior": "certainty"}, ValueError, "`behavior` must be one of"),
        ({"link": "probit"}, ValueError, "`link` must be 'auto' or one of"),
        ({"behavior": lambda s, t: s[:1, 0]}, None, ""),
        ({"model": lambda x: x.log().sum(1), "behavior": "output"}, ValueError, "`model` must give finite values"),
        ({"model": nn.Sequential(nn.Linear(6, 6), LeakyDropout())}, ValueError,
         r"deterministic, got outputs that differ by .* the randomness comes from module '1' \(LeakyDropout\)"),
        ({"model": lambda x: x + torch.rand_like(x)}, ValueError, "comes from the function itself"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(kwargs, error, match):
    arguments = {"model": network().float(), "inputs": torch.full((2, 6), -1.0)} | kwargs
    if error is None:
        with pytest.raises(ValueError, match="`behavior` must return one value per row"):
            Game(**arguments)(torch.ones(1, 3, 6, dtype=torch.bool))
        return
    with pytest.raises(error, match=match):
        Game(**arguments)


def test_non_finite_values_of_coalitions_are_refused():
    game = Game(lambda x: x.log().sum(dim=1), torch.ones(1, 2), behavior="output")
    with pytest.raises(ValueError, match="`model` must give finite values, got 3 NaN or infinite of 4"):
        game(all_coalitions(2)[None])


def test_values_whose_sum_overflows_are_finite_all_the_same():
    huge = torch.full((2, 3), 1e38)
    game = Game(lambda x: x.amax(dim=1), huge, behavior="output")
    assert torch.equal(game(all_coalitions(3)[None, 1:]), torch.full((2, 7), 1e38))


def test_a_class_that_removal_rules_out_altogether_has_probability_zero():
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[:, 0].log(), x[:, 1] - 3, x[:, 1] - 4], dim=1)

    game = Game(model, torch.ones(2, 2), link="softmax", target=torch.tensor([0, 1]))
    masks = torch.tensor([[[True, True], [False, True]]])  # without the first player a logit is minus infinity
    assert game.predict(masks).tolist() == [[0, 1], [0, 1]]
    assert game(masks)[0, 1] == 0
    torch.testing.assert_close(game(masks)[1, 1], torch.tensor(1.0).sigmoid())


@pytest.mark.parametrize(
    ("inputs", "n_rows"),
    [
        (torch.ones(2, 8), 8192),  # a table, as many rows as stay in a cache
        (torch.ones(2, 4096), 256),
        (torch.ones(2, 16, dtype=torch.long), 2048),  # tokens
        (torch.ones(2, 8, 16), 2048),  # a series, or embedded tokens
        (torch.ones(2, 1, 8, 8), 2048),  # an image
        (torch.ones(2, 3, 512, 512), 1),
    ],
)
def test_networks_see_as_many_rows_at_once_as_suit_the_kind_of_input(inputs, n_rows):
    class Module(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.float().flatten(1)[:, :2]

    assert Game(Module(), inputs).rows_per_call == n_rows
    assert Game(Module().forward, inputs).rows_per_call == n_rows


@pytest.mark.parametrize(("shape", "n_rows"), [((8,), 2**19), ((3, 224, 224), 55), ((1, 10**6), 16)])
def test_other_devices_see_more_rows_at_once(shape, n_rows):
    game = Game(Counter(lambda x: x.flatten(1)[:, :2]), torch.ones(1, 4))
    game._masked.inputs = (torch.empty(2, *shape, device="meta"),)
    assert game._masked.rows_per_call(None) == n_rows


def test_estimators_see_more_rows_at_once():
    model = LogisticRegression().fit(np.eye(4), [0, 0, 1, 1])
    assert Game(model, np.eye(4)).rows_per_call == 2**18


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
def test_masks_of_the_caller_are_left_alone(dtype):
    inputs = torch.full((2, 64), 3).to(dtype)
    masks = torch.rand(2, 5, 64, generator=torch.Generator().manual_seed(0)) < 0.5
    before = masks.clone()
    game = Game(lambda x: x.double().sum(dim=1), inputs, behavior="output")
    assert torch.equal(game(masks), 3.0 * before.sum(dim=2))
    assert torch.equal(masks.view(torch.uint8), before.view(torch.uint8))  # torch takes any byte but 0 for True


def test_bad_masks_are_refused():
    game = Game(network(), torch.randn(2, 6, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"`masks` must be bool \(1 or 2, K, 6\), got torch.float32"):
        game(torch.ones(1, 3, 6))
    with pytest.raises(TypeError, match="got list"):
        game([[True] * 6])
    for shape in [(3, 6), (3, 4, 6), (1, 4, 5)]:
        with pytest.raises(ValueError, match=r"`masks` must be bool \(1 or 2, K, 6\), got"):
            game(torch.ones(shape, dtype=torch.bool))
    with pytest.raises(ValueError, match="`masks` must hold at least one coalition"):
        game(torch.ones(1, 0, 6, dtype=torch.bool))


def test_what_a_game_says_of_itself():
    game = Game(network(), torch.randn(2, 6, dtype=torch.float64), baselines=0.5)
    expected = "Game(2 samples, 6 players, behavior='probability', link='softmax', removal='baseline 0.5')"
    assert repr(game) == expected


def test_single_rows_equal_whole_tables():
    inputs = torch.randn(3, 6, dtype=torch.float64)
    inputs[1, 2] = 0
    game = Game(network(), inputs)
    table = game(all_coalitions(6)[None])
    samples, rows = torch.randint(3, (50,)), torch.randint(64, (50,))
    torch.testing.assert_close(game.values_of(all_coalitions(6)[rows], samples), table[samples, rows])


def test_gradients_flow_to_inputs_and_to_nothing_else():
    model, inputs = network(), torch.randn(2, 6, dtype=torch.float64)
    game = Game(model, inputs, target=1)
    with torch.inference_mode(), game.differentiable() as utility:
        x = game.inputs[0].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(utility(x, torch.tensor([0, 1])).sum(), x)
    x = inputs.clone().requires_grad_()
    model(x).softmax(dim=1)[:, 1].sum().backward()
    torch.testing.assert_close(gradient, x.grad)
    assert all(p.grad is not None for p in model.parameters())  # by this test's own backward pass
    model.zero_grad(set_to_none=True)
    with game.differentiable() as utility:
        utility(inputs.clone().requires_grad_(), torch.tensor([0, 1]))
    assert all(p.grad is None for p in model.parameters())


def test_a_game_made_in_inference_mode_can_be_played_outside():
    model = network()
    with torch.inference_mode():
        game = Game(model, torch.randn(2, 6, dtype=torch.float64))
    assert game(all_coalitions(6)[None]).shape == (2, 64)
    with game.differentiable() as utility:
        x = game.inputs[0].clone().requires_grad_()
        assert torch.autograd.grad(utility(x, torch.tensor([0, 1])).sum(), x)[0].shape == (2, 6)


@pytest.mark.parametrize("others", [(), (None,)])
@pytest.mark.parametrize("largest", [7, 10**9, 2**63 - 1])
def test_one_huge_player_id_is_refused(largest, others):
    mask, inputs = torch.tensor([[0, 1, largest]]), torch.ones(2, 3)
    with pytest.raises(ValueError, match=f"every id from 0 to its largest, got id {largest} for only . elements"):
        Game(lambda *x: x[0], (inputs,) * (1 + len(others)), feature_mask=(mask, *others))


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (lambda x: torch.complex(x, x), r"must return real scores, got torch\.complex64"),
        (lambda x: x.to_sparse(), r"must return a dense tensor of scores, got a torch\.sparse_coo tensor"),
        (
            lambda x: torch.nested.nested_tensor(list(x), layout=torch.jagged),
            "must return a dense tensor of scores, got a .* tensor",
        ),
    ],
)
def test_outputs_that_are_no_ordinary_tensors_are_refused(model, match):
    with pytest.raises(TypeError, match=match):
        Game(model, torch.ones(2, 3))


def test_complex_arrays_are_refused():
    with pytest.raises(TypeError, match="must return real scores, got complex128"):
        Game(lambda x: x * 1j, np.ones((2, 3)))


def test_a_changing_number_of_classes_is_refused():
    n_calls = itertools.count()
    match = "must return the same number of scores in every call, got 2 after 3. Wrap it"
    with pytest.raises(ValueError, match=match):
        Game(lambda x: x[:, : 3 - next(n_calls) % 2], torch.ones(2, 3))
    game = Game(lambda x: x[:, :2] if (x == 0).any() else x, torch.ones(2, 3))
    with pytest.raises(ValueError, match=match):
        game(torch.eye(3, dtype=torch.bool)[None])
