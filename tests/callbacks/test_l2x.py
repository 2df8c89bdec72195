"""L2X trained by real Trainers: the informative columns of the synthetic tasks of its paper, and every kind of data."""

import copy

import pytest
import pytorch_lightning as pl
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning import Game, Grid
from bivshap_lightning.callbacks import BivShapCallback, fit_l2x
from tests.callbacks.modules import N_FEATURES, Module, table, valid_loader


def quiet(n_epochs: int, package=pl):
    return package.Trainer(
        max_epochs=n_epochs, logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, accelerator="cpu", devices=1,
    )  # fmt: skip


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def xor(x: Tensor) -> Tensor:
    p = (x[:, 0] * x[:, 1]).sigmoid()
    return torch.stack([1 - p, p], dim=1)


def orange_skin(x: Tensor) -> Tensor:
    p = ((x[:, :4] ** 2).sum(dim=1) - 4).sigmoid()
    return torch.stack([1 - p, p], dim=1)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "k"), [(xor, 2), (orange_skin, 4)])
def test_the_informative_columns_of_the_papers_synthetic_tasks(model, k, global_rng_untouched):
    """L2X's paper: median ranks of the informative columns near their optimum, 1.5 for XOR and 2.5 for orange skin."""
    trained = fit_l2x(model, normal(8000, 10), k, batch_size=256, trainer=quiet(10))
    game = Game(model, normal(300, 10, seed=1))
    ranks = (-trained.explain(game).shapley).argsort(dim=1).argsort(dim=1) + 1
    assert float(ranks[:, :k].float().mean(dim=1).median()) <= (k + 1) / 2 + 0.25
    assert float(trained.select(game)[:, :k].float().mean()) > 0.95


def test_the_same_seed_gives_the_same_selector(global_rng_untouched):
    x, game = normal(200, 5), Game(xor, normal(4, 5, seed=1))
    first, again, other = (fit_l2x(xor, x, 2, seed=s, trainer=quiet(1)).explain(game).shapley for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", ["pytorch_lightning", "lightning.pytorch"])
def test_trainers_of_both_packages_and_a_model_left_as_it_was(name):
    package = pytest.importorskip(name)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)).train()
    before = copy.deepcopy(model.state_dict())
    loader = DataLoader(TensorDataset(normal(64, 4), torch.zeros(64)), batch_size=16)
    trained = fit_l2x(model, loader, 1, trainer=quiet(1, package))
    assert trained.selector.training is False
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_progress_is_shown_without_a_trainer(capsys):
    fit_l2x(xor, normal(64, 4), 1, n_epochs=1)
    shown = capsys.readouterr()
    assert "Epoch 0" in shown.out + shown.err


def test_losses_can_be_watched():
    """Training lowers the loss of the Trainer's own metric: two of four columns tell all."""
    trainer = quiet(1)
    fit_l2x(xor, normal(256, 4), 3, trainer=trainer)
    first = float(trainer.callback_metrics["loss"])
    trainer = quiet(30)
    fit_l2x(xor, normal(256, 4), 3, learning_rate=5e-3, trainer=trainer)
    assert float(trainer.callback_metrics["loss"]) < first


class OwnSelector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(5))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.scores.expand(len(x), 5)


class OwnApproximator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(10, 1)

    def forward(self, x: Tensor, y: Tensor, in_x: Tensor, in_y: Tensor) -> Tensor:
        return self.layer(torch.cat([x, y, in_x, in_y], dim=1))


def test_own_modules_get_several_inputs_and_the_presence_of_their_elements():
    """A regression on the last of five columns in two inputs; one score vector for all samples."""

    def model(x: Tensor, y: Tensor) -> Tensor:
        return 3 * y[:, 1]

    data = (normal(400, 3), normal(400, 2, seed=1))
    trained = fit_l2x(
        model, data, 1, selector=OwnSelector(), approximator=OwnApproximator(), behavior="output", learning_rate=0.03,
        trainer=quiet(20),
    )  # fmt: skip
    assert trained.architecture == {}
    game = Game(model, tuple(x[:3] for x in data), behavior="output")
    assert trained.select(game).tolist() == [[False] * 4 + [True]] * 3


def sum_of_pixels(x: Tensor) -> Tensor:
    return torch.stack([-x.sum(dim=(1, 2, 3)), x.sum(dim=(1, 2, 3))], dim=1) / 4


def pictures(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Dark images with one bright or black patch of four; which one."""
    generator = torch.Generator().manual_seed(seed)
    patch, sign = torch.randint(4, (n,), generator=generator), torch.randint(2, (n,), generator=generator) * 2 - 1
    x = 0.01 * torch.randn(n, 1, 2, 4, 2, 4, generator=generator)
    x[torch.arange(n), 0, patch // 2, :, patch % 2] += sign[:, None, None]
    return x.reshape(n, 1, 8, 8), patch


def good_and_bad(x: Tensor) -> Tensor:
    score = 4 * ((x == 5).sum(dim=1) - (x == 6).sum(dim=1)).float()
    return torch.stack([-score, score], dim=1)


def texts(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Six tokens, one of which is good (5) or bad (6); its place."""
    generator = torch.Generator().manual_seed(seed)
    tokens, place = torch.randint(1, 5, (n, 6), generator=generator), torch.randint(6, (n,), generator=generator)
    tokens[torch.arange(n), place] = 5 + torch.randint(2, (n,), generator=generator)
    return tokens, place


@pytest.mark.slow
def test_images_find_the_patch():
    images, _ = pictures(512, 0)
    trained = fit_l2x(sum_of_pixels, images, 1, feature_mask=Grid(2), batch_size=32, trainer=quiet(5))
    images, patch = pictures(50, 1)
    selected = trained.select(Game(sum_of_pixels, images, feature_mask=Grid(2)))
    assert float(selected.gather(1, patch[:, None]).float().mean()) > 0.9


@pytest.mark.slow
def test_texts_find_the_word():
    """Token ids have no gradient: presence weighs their embeddings."""
    tokens, _ = texts(1024, 0)
    trained = fit_l2x(good_and_bad, tokens, 1, batch_size=64, trainer=quiet(8))
    tokens, place = texts(50, 1)
    selected = trained.select(Game(good_and_bad, tokens))
    assert float(selected.gather(1, place[:, None]).float().mean()) > 0.9


def test_independent_labels_background_rows_and_estimators():
    x = normal(80, 4)
    labels = nn.Linear(4, 3)
    fit_l2x(labels, x, 1, link="sigmoid", background=x[:5], trainer=quiet(1))
    estimator = LogisticRegression().fit(x.numpy(), (x[:, 0] > 0).long().numpy())
    trained = fit_l2x(estimator, x.numpy(), 1, trainer=quiet(1))
    assert trained.explain(Game(estimator, x.numpy())).shapley.shape == (80, 4)


def test_it_is_compared_by_the_callback(tmp_path):
    trained = fit_l2x(Module().network, table(64).tensors[0], 2, trainer=quiet(1))
    callback = BivShapCallback(n_samples=6, compare_with=[trained], panels=False, on_error="raise")
    run = pl.Trainer(
        callbacks=[callback], accelerator="cpu", logger=False, default_root_dir=tmp_path, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    run.validate(Module(), valid_loader(), verbose=False)
    assert "bivshap/post_hoc_accuracy/l2x" in run.callback_metrics
    assert callback.result.n_evaluations["l2x"] == 0


def test_what_cannot_be_trained_is_refused():
    with pytest.raises(ValueError, match=rf"`n_selected` must be from 1 to {N_FEATURES - 1}, .* got {N_FEATURES}"):
        fit_l2x(Module().network, table(8).tensors[0], N_FEATURES)
    with pytest.raises(ValueError, match="`data` must hold at least one sample, got none"):
        fit_l2x(xor, torch.zeros(0, 3), 1)
    shapes = DataLoader([torch.zeros(3), torch.zeros(4)], batch_size=1)
    with pytest.raises(ValueError, match="`data` must hold samples of one shape"):
        fit_l2x(lambda x: x.sum(dim=1), shapes, 1, behavior="output")
    with pytest.raises(ValueError, match=r"`approximator` must return 2 scores per sample, got shape \(8, 1\)"):
        fit_l2x(xor, normal(8, 5), 1, approximator=Wrong(), trainer=quiet(1))


class Wrong(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 1)

    def forward(self, x: Tensor, presence: Tensor) -> Tensor:
        return self.layer(x)
