"""Rows in stages: targets that are reached or not, independence of the batch, interrupts."""

import numpy as np
import pytest
import torch

from benchmarks.bench_redundancy import cnn, mlp
from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import Auto, default_coalitions, find_explainer
from bivshap_lightning.explainers.auto import DEFAULT_TARGET_ERROR, FITTED_PAIRS, proxy_limit
from bivshap_lightning.explainers.design import draw_design
from bivshap_lightning.explainers.kernel import Kernel
from bivshap_lightning.explainers.null_players import ReducedGame
from bivshap_lightning.explainers.proxy.estimator import fit_work
from bivshap_lightning.explainers.sampling import Sampling
from bivshap_lightning.explainers.stages import StagedRun, stage_budgets
from tests.oracles import Unanimity, relative_error

METHODS = ["sampling", "kernel", "proxy", "paper_sampling", "paper_kernel"]


def ones(n: int, n_samples: int = 1) -> torch.Tensor:
    return torch.ones(n_samples, n, dtype=torch.float64)


@pytest.mark.parametrize("method", METHODS)
def test_a_target_is_reached_with_fewer_rows_and_the_error_is_true(method):
    game = Unanimity(20, n_terms=60, seed=1)
    target = {"proxy": 0.15, "kernel": 0.25}.get(method, 0.6)
    explainer = BivariateShapley(game, method, "output", target_error=target)
    explanation = explainer.attribute(ones(20), n_evaluations=20_000)
    assert int(explanation.n_evaluations) < 10_000
    assert explanation.notes[0].startswith(f"target_error {target:g} reached: estimated error 0.")
    allowed = int(explanation.notes[0].split(" after ")[1].split()[0])
    assert allowed / 2 < int(explanation.n_evaluations) <= allowed
    assert relative_error(explanation.bivariate[0], game.e2) < 1.5 * target
    assert explanation.graph(0).provenance["notes"] == explanation.notes[0]
    tight = explainer.attribute(ones(20), n_evaluations=600, target_error=1e-4)
    assert "not reached, all rows spent" in tight.notes[0]
    assert int(tight.n_evaluations) <= 600


@pytest.mark.parametrize("method", ["sampling", "kernel", "paper_kernel", "auto"])
def test_stopping_is_each_samples_own_decision(method):
    """Samples of different difficulty and different null players, together and alone."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(17, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).double()
    inputs = torch.randn(5, 17, dtype=torch.float64) * torch.tensor([0.1, 1.0, 3.0, 0.3, 6.0])[:, None]
    inputs[3, :2] = 0
    explainer = BivariateShapley(model, method, target_error=0.25)
    batch = explainer.attribute(inputs, n_evaluations=3000)
    assert len(set(batch.n_evaluations.tolist())) > 1
    for b in range(5):
        single = explainer.attribute(inputs[b : b + 1], n_evaluations=3000)
        torch.testing.assert_close(batch.bivariate[b], single.bivariate[0], atol=1e-9, rtol=1e-6)
        assert batch.n_evaluations[b] == single.n_evaluations[0]
        assert batch.notes[b] == single.notes[0]


def test_a_staged_design_is_as_good_as_one_drawn_at_once():
    """Going on with a design keeps its pairs and the estimate unbiased: errors as with all rows at once."""
    generator = torch.Generator().manual_seed(0)
    first = draw_design(20, 300, generator)
    second = draw_design(20, 1200, generator, first)
    assert torch.equal(second.masks[: len(first.masks)], first.masks)
    assert len(second.masks) == 600
    # The weights of a size add up to those of its coalitions.
    sizes = second.masks[second.n_enumerated :].sum(dim=1)
    for size in sizes.unique().tolist():
        total = second.weight[second.n_enumerated :][sizes == size].sum()
        assert float(total) == pytest.approx(0.5 if size == 10 else 1, rel=0.15)
    game = Unanimity(20, n_terms=60, seed=1)
    at_once, staged = [], []
    for seed in range(8):
        reduced = ReducedGame(Game(game, ones(20), behavior="output"))
        run = StagedRun(Kernel(), reduced, [300, 600, 1200], target_error=1e-9, seed=seed)
        while not run.is_finished:
            run.step()
        staged.append(relative_error(run.estimate().bivariate[0], game.e2))
        at_once.append(relative_error(find_explainer("kernel").explain(reduced.game, 1200, seed).bivariate[0], game.e2))
    assert np.mean(staged) < 1.15 * np.mean(at_once)


def test_chains_go_on_where_they_stopped():
    generator = torch.Generator().manual_seed(0)
    first = Sampling().draw(10, 100, generator)
    second = Sampling().draw(10, 300, generator, first)
    assert second.continues(first)
    assert torch.equal(second.coalitions[: len(first.coalitions)], first.coalitions)


def test_stages():
    assert stage_budgets(58, 4152) == [256, 512, 1024, 2048, 4152]
    assert stage_budgets(258, 4352) == [516, 1032, 2064, 4352]
    assert stage_budgets(58, 200) == [200]


def test_enumeration_takes_over_where_it_is_cheaper_than_the_next_stage():
    game = Game(lambda x: x.prod(dim=1) + x[:, :3].amax(dim=1), ones(10), behavior="output")
    explanation = find_explainer("kernel").explain_until(game, 1e-6, 1024)
    assert explanation.standard_error.eq(0).all()


class Interrupting(torch.nn.Module):
    """Interrupts when it has been asked for so many rows."""

    def __init__(self, n_rows: int) -> None:
        super().__init__()
        self.rows = torch.nn.Parameter(torch.tensor(float(n_rows)), requires_grad=False)
        self.left = n_rows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.left -= len(x)
        if self.left < 0:
            raise KeyboardInterrupt
        return x.prod(dim=1) + x[:, :5].amax(dim=1)


def test_an_interrupt_returns_the_estimate_so_far():
    explainer = BivariateShapley(Interrupting(400), "kernel", "output", target_error=1e-9)
    explanation = explainer.attribute(torch.ones(1, 18), n_evaluations=4000)
    assert explanation.notes[0].startswith("interrupted after 256 coalitions, estimated error")
    expected = BivariateShapley(Interrupting(10**9), "kernel", "output").attribute(torch.ones(1, 18), n_evaluations=256)
    torch.testing.assert_close(explanation.bivariate, expected.bivariate)
    with pytest.raises(KeyboardInterrupt):
        BivariateShapley(Interrupting(100), "kernel", "output", target_error=1e-9).attribute(torch.ones(1, 18))
    game = Game(Interrupting(400), torch.ones(1, 18), behavior="output")
    with pytest.raises(KeyboardInterrupt):  # as in an audit, where the interrupt is meant for the training
        find_explainer("kernel").explain_until(game, 1e-9, 4000)


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), True, "0.1"])
def test_targets_that_are_none(value):
    with pytest.raises(ValueError, match=r"`target_error` must be a positive number such as 0\.1"):
        BivariateShapley(Unanimity(5, 5, 0), "kernel", "output", target_error=value)


def test_methods_without_stages_refuse_a_target():
    explainer = BivariateShapley(Unanimity(5, 5, 0), "feature_ablation", "output", target_error=0.1)
    with pytest.raises(ValueError, match=r"`target_error` must be left out for method='feature_ablation', which does"):
        explainer.attribute(ones(5))


def test_auto_stops_at_its_default_target_below_the_ceiling():
    game = Unanimity(20, n_terms=30, seed=1)
    explanation = BivariateShapley(game, "auto", "output").attribute(ones(20))
    assert f"target_error {DEFAULT_TARGET_ERROR:g}" in explanation.notes[0]
    assert int(explanation.n_evaluations) <= default_coalitions(20)


def test_auto_takes_the_proxy_where_model_rows_cost_more_than_its_fit():
    torch.manual_seed(0)
    x = torch.rand(2, 1, 32, 32)
    grid = ((torch.arange(32) // 4)[:, None] * 8 + torch.arange(32) // 4)[None, None]

    def cnn(width: int) -> torch.nn.Module:
        head = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(width, 3))
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, width, 3), torch.nn.ReLU(), torch.nn.Conv2d(width, width, 3), head
        )

    slow = BivariateShapley(cnn(24)).attribute(x, feature_mask=grid, n_evaluations=544)
    assert slow.method == "proxy"
    assert slow.notes[0].startswith("proxy: its fit takes less work than the model rows that it saves")
    quick = BivariateShapley(cnn(1)).attribute(x, feature_mask=grid, n_evaluations=544)
    assert quick.method == "sampling"
    assert quick.notes[0].startswith("sampling: a proxy's fit would take more work")
    unknown = Auto().choose(Game(lambda x: x.mean(dim=(1, 2, 3)), x, feature_mask=grid, behavior="output"), 544)
    assert unknown.name == "sampling"


def test_auto_takes_the_proxy_where_far_more_than_the_default_rows_are_allowed():
    """However cheap model rows are, and also where their work is not known."""
    game = Game(lambda x: x.tanh().sum(dim=1), torch.ones(1, 20), behavior="output")
    default = default_coalitions(20)
    assert Auto().choose(game, 2 * default - 1).name == "sampling"
    assert Auto().choose(game, 2 * default).estimator.most_pairs == FITTED_PAIRS[0]
    assert Auto().choose(game).name == "sampling"
    against_rows = Game(torch.nn.Linear(20, 2), torch.ones(1, 20), background=torch.zeros(4, 20))
    assert Auto().choose(against_rows, 2 * default).name == "sampling"
    assert Auto().choose(against_rows, 4 * 2 * default).name == "proxy"
    many = Game(lambda x: x.tanh().sum(dim=1), torch.ones(1, 400), behavior="output")
    assert Auto().choose(many, 4 * default_coalitions(400)).name == "sampling"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), [("mlp", 13), ("cnn", 12), ("cnn", 14)])
def test_auto_finds_most_redundancy_of_networks_at_four_times_the_default_rows(kind, seed):
    """Networks of 18 players that no setting was chosen on: at least half is found, and nothing else is called."""
    game = {"mlp": mlp, "cnn": cnn}[kind](seed)
    explanation = Auto().explain(
        Game(game.model, torch.ones(1, 18, dtype=torch.float64), behavior="output"), 4 * default_coalitions(18)
    )
    called = explanation.graph(0).redundancy(game.gamma).adjacency.T
    redundant, relevant = np.abs(game.e2) <= game.gamma, np.abs(game.e2).max(axis=1) > game.gamma
    between = redundant & relevant[:, None] & relevant & ~np.eye(18, dtype=bool)
    assert explanation.method == "proxy"
    assert between.sum() >= 3
    assert (called & between).sum() >= 0.5 * between.sum()
    assert not (called & ~redundant).any()


def test_work_of_a_row_is_counted_from_shapes():
    def work(model: torch.nn.Module, inputs: torch.Tensor) -> int | None:
        return Game(model, inputs).work_per_row

    assert work(torch.nn.Linear(4, 3), torch.ones(1, 4)) == 15
    convolution = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3, bias=False), torch.nn.Flatten(), torch.nn.Linear(72, 2))
    assert work(convolution, torch.ones(1, 1, 8, 8)) == 18 * 64 + 2 * 72 + 2
    text = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 2, bias=False), torch.nn.Flatten())
    assert work(text, torch.ones(1, 5, dtype=torch.int64)) == 8 * 5
    assert Game(lambda x: x.sum(dim=1), torch.ones(1, 4)).work_per_row is None


def test_the_proxy_is_not_given_more_rows_than_pay():
    assert proxy_limit(64, 4352, 10**9, has_target=False) == 4352
    assert proxy_limit(64, 10**5, 10**9, has_target=False) == 10**5  # of which it is conditioned on some
    assert proxy_limit(1077, 8404, 10**9, has_target=False) == 0  # its systems would not fit into memory
    assert proxy_limit(64, 4352, 10**4, has_target=True) == 0
    limits = [proxy_limit(64, 4352, work, has_target=True) for work in (10**5, 5 * 10**5, 10**6, 10**7)]
    assert limits == sorted(limits)
    assert limits[-1] == 4352


def test_the_proxy_saves_fewer_rows_against_background_rows_which_sampling_takes_one_by_one():
    def limit(n_coalitions: int, work: int, n_background: int) -> int:
        return proxy_limit(14, n_coalitions, work, n_background=n_background, has_target=False)

    fit = fit_work(14, 256)
    # 7 model rows of each coalition are saved against one row, 28 against 4, 30 against 8 and more.
    for n_background, saved in ((1, 7), (4, 28), (8, 30), (32, 30)):
        enough = fit // (saved * 256) + 1
        assert limit(256, enough, n_background) == 256
        assert limit(256, enough - 2, n_background) == 0
    # 64 coalitions of 14 players are too few against many rows, and enough against one.
    assert limit(64, 10**9, 32) == 0
    assert limit(64, 10**9, 1) == 64
