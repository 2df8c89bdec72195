"""Running a model changes nothing about it, and every kind of model is called as it expects."""

import random

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC
from torch import nn

from bivshap_lightning import Game
from bivshap_lightning.game.model import Model

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)


class Writer(nn.Module):
    """Does everything a forward pass should not do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
        self.frozen = nn.BatchNorm1d(2).eval()
        self.register_buffer("n_calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("last", torch.zeros(2))
        self.register_buffer("nothing", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n_calls += 1
        out = self.frozen(self.layers(x))
        self.last = out[0]
        torch.rand(3)
        np.random.rand(3)  # noqa: NPY002
        random.random()
        return out


def test_evaluation_changes_nothing(global_rng_untouched):
    with torch.random.fork_rng():
        module = Writer()
    state = {k: v.clone() for k, v in module.state_dict().items()}
    buffers = dict(module.named_buffers())
    flags = {name: m.training for name, m in module.named_modules()}
    gradient = torch.ones_like(module.layers[0].weight)
    module.layers[0].weight.grad = gradient
    model = Model(module)
    for _ in range(3):
        with model.evaluation():
            assert not any(m.training for m in module.modules())
            model((torch.randn(5, 3, generator=torch.Generator().manual_seed(0)),))
        assert {name: m.training for name, m in module.named_modules()} == flags
        assert all(module.get_buffer(name) is b for name, b in buffers.items())
        for name, value in module.state_dict().items():
            assert torch.equal(value, state[name]), name
    assert flags["layers"]
    assert not flags["frozen"]
    assert module.layers[0].weight.grad is gradient
    assert torch.equal(gradient, torch.ones_like(gradient))


def test_global_generators_are_restored_after_every_evaluation(global_rng_untouched):
    n_evaluations = 0

    def draws_later(x: np.ndarray) -> np.ndarray:
        if n_evaluations:
            np.random.rand(3)  # noqa: NPY002
            random.random()
        return x

    model = Model(draws_later, as_arrays=[True])
    for n_evaluations in range(3):  # noqa: B007
        with model.evaluation():
            model((torch.ones(1, 3),))


def test_training_goes_on_after_an_evaluation():
    """Buffers that a forward pass replaced in inference mode would make the next backward pass fail."""
    module = Writer()
    model = Model(module)
    with model.evaluation():
        model((torch.randn(5, 3),))
    module(torch.randn(5, 3)).sum().backward()


def test_an_evaluation_that_fails_changes_nothing(global_rng_untouched):
    with torch.random.fork_rng():
        module = Writer()
    flags = [m.training for m in module.modules()]
    model = Model(module)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), model.evaluation():
        model((torch.rand(5, 7),))
    assert [m.training for m in module.modules()] == flags
    assert int(module.n_calls) == 0


def test_estimators_are_asked_by_their_best_method():
    logistic = Model(LogisticRegression().fit(X, Y))
    assert logistic.method == "predict_proba"
    assert logistic((torch.tensor(X),)).shape == (40, 2)
    assert logistic.class_names.tolist() == [0, 1]
    assert Model(LinearSVC().fit(X, Y)).method == "decision_function"
    regression = Model(LinearRegression().fit(X, Y))
    assert regression.is_regressor
    assert regression((torch.tensor(X),)).shape == (40, 1)


def test_boosted_trees_are_asked_for_their_margins():
    from lightgbm import LGBMClassifier

    trees = LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1).fit(X, Y)
    margins = Model(trees)((torch.tensor(X),))
    assert Model(trees).link == "sigmoid"
    np.testing.assert_allclose(margins.sigmoid()[:, 0], trees.predict_proba(X)[:, 1])


def test_functions_get_what_the_user_passed():
    seen = []

    def scores(x):
        seen.append(type(x))
        return x.sum(1)

    Model(scores)((torch.ones(2, 3),))
    Model(scores, as_arrays=[True])((torch.ones(2, 3),))
    assert seen == [torch.Tensor, np.ndarray]


def test_modules_get_their_own_dtype():
    model = Model(nn.Linear(3, 2).to(torch.bfloat16))
    assert model.place(torch.ones(1, 3)).dtype == torch.bfloat16
    assert model.place(torch.ones(1, 3, dtype=torch.long)).dtype == torch.long
    assert model((model.place(torch.ones(1, 3)),)).dtype == torch.float32
    assert Model(nn.ReLU()).place(torch.ones(1, dtype=torch.float64)).dtype == torch.float64


def test_outputs_that_are_no_scores_are_refused():
    with pytest.raises(
        TypeError, match=r"must return a tensor or an array of scores, got tuple.*module\(\*inputs\)\[0\]"
    ):
        Model(lambda x: (x, x))((torch.ones(2, 3),))
    with pytest.raises(ValueError, match=r"one row of scores per input row, \(N,\) or \(N, C\), got \(2, 3, 1\)"):
        Model(lambda x: x[..., None])((torch.ones(2, 3),))
    with pytest.raises(ValueError, match=r"got \(1, 3\) for 2 rows"):
        Model(lambda x: x[:1])((torch.ones(2, 3),))
    with pytest.raises(TypeError, match=r"`model` must be a torch module, a function, or an estimator .* got int"):
        Model(3)


def test_a_mapping_with_logits_is_understood():
    assert Model(lambda x: {"logits": x, "loss": None})((torch.ones(2, 3),)).shape == (2, 3)


def test_the_stochastic_module_is_named():
    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand_like(x)

    model = Model(nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.ReLU(), Noise()), nn.Linear(4, 2)))
    with model.evaluation():
        assert model.find_stochastic_module((torch.ones(2, 3),)) == "module '1.1' (Noise)"
        assert Model(nn.Linear(3, 4)).find_stochastic_module((torch.ones(2, 3),)) is None
        assert Model(lambda x: x).find_stochastic_module((torch.ones(2, 3),)) is None


def test_scripted_modules_are_restored():
    module = torch.jit.script(nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)).train())
    before = {name: b.clone() for name, b in module.named_buffers()}
    game = Game(module, torch.rand(4, 3))
    game(torch.eye(3, dtype=torch.bool)[None])
    assert module.training
    for name, b in module.named_buffers():
        torch.testing.assert_close(b, before[name], rtol=0, atol=0)


def test_weights_that_are_shortened_on_reading_are_put_back():
    module = nn.Sequential(nn.Embedding(6, 4, max_norm=0.1), nn.Flatten(), nn.Linear(12, 2))
    before = module[0].weight.detach().clone()
    Game(module, torch.tensor([[1, 2, 3]]), baselines=5)
    torch.testing.assert_close(module[0].weight.detach(), before, rtol=0, atol=0)


def test_a_margin_is_no_probability_even_between_zero_and_one():
    machine = LinearSVC().fit(X, Y)
    margins = machine.decision_function(X)
    rows = X[(margins > 0) & (margins < 1)][:1]
    assert len(rows)
    assert Game(machine, rows).behavior.link == "sigmoid"


def test_labels_are_no_scores():
    class Names:
        def predict(self, x):
            return np.array(["no"] * len(x))

    with pytest.raises(TypeError, match="`model` must return numbers, got an array of <U2"):
        Game(Names(), X, behavior="output")


def test_one_context_serves_many_calls():
    """Modules are restored once, at the end of the outermost context."""
    module = Writer()
    game = Game(module, torch.randn(2, 3))
    with game.evaluation():
        start = int(module.n_calls)
        game(torch.eye(3, dtype=torch.bool)[None])
        assert int(module.n_calls) > start
        with game.differentiable() as utility:
            assert utility(torch.ones(2, 3).requires_grad_(), torch.arange(2)).requires_grad
    assert int(module.n_calls) == 0
    game(torch.eye(3, dtype=torch.bool)[None])
    assert int(module.n_calls) == 0
    with pytest.raises(ArithmeticError), game.evaluation():
        raise ArithmeticError
    game(torch.eye(3, dtype=torch.bool)[None])
    assert int(module.n_calls) == 0
