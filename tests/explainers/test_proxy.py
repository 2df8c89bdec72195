"""The Gaussian-process proxy: closed forms against enumeration, accuracy against the paper's algorithm, fallbacks."""

import numpy as np
import pytest
import torch

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.explainers.design import draw_design, evaluate_design
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.proxy import GaussianProcessProxy, closed_form, estimator, squashed
from bivshap_lightning.explainers.proxy import gaussian_process as gp
from bivshap_lightning.explainers.proxy.squashed import Standard
from tests.oracles import Unanimity, paper_kernel, relative_error, table_model
from tests.trained_games import TRAINED, coalitions, table_e2

N = 6
POOR_SEED = 2
ALL_SIGNS = torch.tensor(coalitions(N)) * 2.0 - 1


def reduced(model, n: int) -> ReducedGame:
    return ReducedGame(Game(model, torch.ones(1, n, dtype=torch.float64), behavior="output"))


def estimate(table: np.ndarray, n_coalitions: int, seed: int = 0) -> Estimate:
    n = len(table).bit_length() - 1
    generator = torch.Generator().manual_seed(seed)
    return GaussianProcessProxy().estimate(reduced(table_model(table), n), n_coalitions, generator)


def covered(estimate: Estimate, truth: np.ndarray) -> float:
    off = ~np.eye(len(truth), dtype=bool)
    error = np.abs(estimate.bivariate[0].numpy() - truth)[off]
    return float(np.mean(error <= 1.96 * estimate.bivariate_error[0].numpy()[off]))


def sections(relevance: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """The kernel between all coalitions and some centres, by its definition: (2 ** N, centres)."""
    products = (1 + relevance * ALL_SIGNS[:, None] * centres).prod(dim=2)
    return products / (1 + relevance).prod()


@pytest.fixture
def kernel_case() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    relevance = torch.rand(2, N, generator=generator, dtype=torch.float64) * 0.9
    centres = ALL_SIGNS[torch.tensor([3, 17, 40, 62])].double()
    return relevance, centres, torch.randn(2, 4, generator=generator, dtype=torch.float64)


def test_closed_forms_of_kernel_sections_equal_enumeration(kernel_case):
    relevance, centres, weights = kernel_case
    bivariate, null_column = closed_form.even_part(relevance, centres, weights)
    shapley = closed_form.odd_part(relevance, centres, weights)
    for b in range(2):
        at, opposite = sections(relevance[b], centres), sections(relevance[b], -centres)
        e2, phi, null = table_e2(((at + opposite) / 2 @ weights[b]).numpy())
        np.testing.assert_allclose(bivariate[b].fill_diagonal_(0), e2, atol=1e-14)
        np.testing.assert_allclose(null_column[b], null, atol=1e-14)
        np.testing.assert_allclose(phi, 0, atol=1e-14)
        e2, phi, null = table_e2(((at - opposite) / 2 @ weights[b]).numpy())
        np.testing.assert_allclose(shapley[b], phi, atol=1e-14)
        np.testing.assert_allclose(null, phi / 2, atol=1e-14)
        np.testing.assert_allclose(e2, np.where(np.eye(N), 0, phi[:, None] / 2), atol=1e-14)


def test_sections_and_prior_variances_equal_enumeration(kernel_case):
    """The parts of the posterior error: functionals of one and of both arguments of the kernel."""
    relevance, centres, weights = kernel_case
    rows, columns = (x.flatten() for x in torch.meshgrid(torch.arange(N), torch.arange(-1, N), indexing="ij"))
    rows, columns = rows[rows != columns], columns[rows != columns]
    bivariate, null_column = closed_form.even_part(relevance, centres, weights)
    even = (closed_form.even_sections(relevance, centres, rows, columns) @ weights[:, :, None])[..., 0]
    expected = torch.where(columns >= 0, bivariate[:, rows, columns], null_column[:, rows])
    torch.testing.assert_close(even, expected)
    odd = (closed_form.odd_sections(relevance, centres, torch.arange(N)) @ weights[:, :, None])[..., 0]
    torch.testing.assert_close(odd, closed_form.odd_part(relevance, centres, weights))
    at, opposite = sections(relevance[0], ALL_SIGNS.double()), sections(relevance[0], -ALL_SIGNS.double())
    by_first = [table_e2(column) for column in ((at + opposite) / 2).numpy().T]
    e2, null = np.stack([x[0] for x in by_first], axis=-1), np.stack([x[2] for x in by_first], axis=-1)
    prior = closed_form.even_prior(relevance, rows, columns)[0]
    for k, (i, j) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        both = table_e2(null[i])[2][i] if j < 0 else table_e2(e2[i, j])[0][i, j]
        assert float(prior[k]) == pytest.approx(both, abs=1e-14)
    phi = np.stack([table_e2(column)[1] for column in ((at - opposite) / 2).numpy().T], axis=-1)
    expected = [table_e2(phi[i])[1][i] for i in range(N)]
    np.testing.assert_allclose(closed_form.odd_prior(relevance)[0], expected, atol=1e-13)


@pytest.fixture
def likelihood_case() -> tuple[torch.Tensor, ...]:
    """Signs and values of 20 pairs of 5 players for two samples, and packed hyperparameters."""
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(2, (20, 5), generator=generator) * 2.0 - 1
    odd, even = torch.randn(2, 2, 20, generator=generator, dtype=torch.float64)
    logs = torch.tensor([[-1.0, -2.0, 0.3], [0.2, -1.0, -0.4]], dtype=torch.float64)
    x = torch.cat([torch.randn(2, 5, generator=generator, dtype=torch.float64) - 1, logs], dim=1)
    return signs.double(), odd, even, x


def test_gradient_of_the_marginal_likelihood(likelihood_case):
    signs, odd, even, x = likelihood_case

    def objective(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return gp._objective(signs, odd, even, gp.Hyperparameters.unpack(x), 0.2)

    gradient = objective(x)[1]
    for k in range(8):
        step = torch.zeros_like(x)
        step[:, k] = 1e-5
        numeric = (objective(x + step)[0] - objective(x - step)[0])[:, 0] / 2e-5
        torch.testing.assert_close(gradient[:, k], numeric, atol=1e-5, rtol=1e-5)


def test_curvature_is_the_average_information(likelihood_case):
    """With derivatives of the systems by differences, each times the weights: ``moved_i' K^-1 moved_j / 2``, scaled."""
    signs, odd, even, x = likelihood_case
    curvature = gp._objective(signs, odd, even, gp.Hyperparameters.unpack(x), 0.2)[2]

    def systems(x: torch.Tensor) -> list[torch.Tensor]:
        both = gp._Systems.of(signs, gp.Hyperparameters.unpack(x))
        return [both.odd, both.even]

    for b in range(2):
        here, values = systems(x[b : b + 1]), (odd[b], even[b])
        weights = [torch.linalg.solve(k[0], y) for k, y in zip(here, values, strict=True)]
        scale = sum(float(y @ w) for y, w in zip(values, weights, strict=True)) / 40
        information, forms = torch.zeros(8, 8, dtype=torch.float64), torch.zeros(8, dtype=torch.float64)
        for part in range(2):
            moved = []
            for k in range(8):
                step = torch.zeros(1, 8, dtype=torch.float64)
                step[0, k] = 1e-6
                change = systems(x[b : b + 1] + step)[part] - systems(x[b : b + 1] - step)[part]
                moved.append(change[0] @ weights[part] / 2e-6)
            stacked = torch.stack(moved, dim=1)
            information += stacked.T @ torch.linalg.solve(here[part][0], stacked) / scale / 2
            forms += weights[part] @ stacked
        expected = information - torch.outer(forms, forms) / (80 * scale**2)
        expected[:5, :5] += 0.4 * (torch.eye(5) - 1 / 5) + 0.04 / 25
        torch.testing.assert_close(curvature[b], expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("kind", ["mlp", "forest", "svm"])
def test_a_few_steps_come_close_to_the_maximum_of_the_likelihood(kind):
    table = TRAINED[kind](3)
    n = len(table).bit_length() - 1
    design = draw_design(n, 254, torch.Generator().manual_seed(0))
    values = Standard.of(evaluate_design(reduced(table_model(table), n), design)).values

    def loss(n_steps: int | None) -> float:
        parameters = gp.train(design.signs, values.odd, values.even, ridge=0.2, n_steps=n_steps)
        return float(gp._objective(design.signs, values.odd, values.even, parameters, 0.2)[0])

    start = gp.Hyperparameters.start(1, n, torch.device("cpu"))
    first = float(gp._objective(design.signs, values.odd, values.even, start, 0.2)[0])
    assert first - loss(None) > 0.85 * (first - loss(60))


def test_the_empty_coalition_has_no_influence_on_e2():
    table = TRAINED["maximum"](2)
    changed = table.copy()
    changed[0] += 5
    a, b = estimate(table, 256), estimate(changed, 256)
    torch.testing.assert_close(a.bivariate, b.bivariate, atol=1e-9, rtol=1e-7)
    # Shapley values do depend on it: each loses an equal share.
    torch.testing.assert_close(a.shapley - b.shapley, torch.full_like(a.shapley, 5 / 14), atol=1e-9, rtol=1e-7)
    assert float((a.null_column - b.null_column).mean()) == pytest.approx(5 / (14 * 15))


@pytest.mark.parametrize(("n_coalitions", "bar", "coverage"), [(256, 0.5, 0.8), (1024, 0.45, 0.85)])
def test_beats_the_algorithm_of_the_paper_on_trained_models(n_coalitions, bar, coverage):
    """Seven kinds of models; the bars for the mean are those of `benchmarks/bench_accuracy.py`, with a margin."""
    ratios, covers = [], []
    for kind in ("mlp", "cnn", "gated", "attention", "forest", "svm", "saturating"):
        table = TRAINED[kind](2)
        n, truth = len(table).bit_length() - 1, table_e2(table)[0]
        papers = [relative_error(paper_kernel(table_model(table), n, n_coalitions - 2, seed), truth) for seed in (0, 1)]
        ours = estimate(table, n_coalitions)
        ratios.append(relative_error(ours.bivariate[0], truth) / np.mean(papers))
        covers.append(covered(ours, truth))
        assert np.abs(ours.shapley[0].numpy() - table_e2(table)[1]).max() < 6 * float(ours.shapley_error.max())
    assert max(ratios) < 1
    assert np.exp(np.mean(np.log(ratios))) < bar
    assert np.mean(covers) > coverage


def test_more_players_than_are_trained_and_judged_one_by_one():
    """54 players at a third of the paper's budget: errors of most entries are read off the relevances."""
    game = Unanimity(54, n_terms=216, seed=7)
    generator = torch.Generator().manual_seed(0)
    ours = GaussianProcessProxy().estimate(reduced(game, 54), 1400, generator)
    paper = paper_kernel(game, 54, 1398, 0)
    assert relative_error(ours.bivariate[0], game.e2) < 0.5 * relative_error(paper, game.e2)
    assert 0.85 < covered(ours, game.e2) < 0.995
    assert ours.notes == ()


def test_symmetric_part_is_symmetric():
    """E2 = R + C with a symmetric C holds for every game, so also for the proxy with its correction."""
    ours = estimate(TRAINED["forest"](0), 300)
    c = ours.bivariate[0] - ours.null_column[0][:, None]
    c.fill_diagonal_(0)
    torch.testing.assert_close(c, c.T, atol=1e-6, rtol=0)  # the correction sums in single precision


def test_samples_do_not_depend_on_their_batch(monkeypatch):
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(14, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).double()
    inputs = torch.randn(5, 14, dtype=torch.float64)
    inputs[3, :2] = 0
    explainer = BivariateShapley(model, "proxy")
    batch = explainer.attribute(inputs, n_evaluations=300)
    assert batch.method == "proxy"
    backwards = explainer.attribute(inputs.flip(0), n_evaluations=300)
    torch.testing.assert_close(backwards.bivariate.flip(0), batch.bivariate, atol=1e-8, rtol=1e-6)
    monkeypatch.setattr(estimator, "CACHED_ELEMENTS", 1)  # blocks of one sample
    for b in range(5):
        single = explainer.attribute(inputs[b : b + 1], n_evaluations=300)
        torch.testing.assert_close(batch.bivariate[b], single.bivariate[0], atol=1e-8, rtol=1e-6)
        torch.testing.assert_close(batch.standard_error[b], single.standard_error[0], atol=1e-8, rtol=1e-5)


def test_stages_go_on_from_what_the_same_sample_has_learned(monkeypatch):
    """Training starts from the sample's own previous stage, and the result is the same alone and in a batch."""
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(18, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).double()
    inputs = 3 * torch.randn(3, 18, dtype=torch.float64)
    starts, train = [], squashed.train

    def spy(*arguments, start=None, **options):
        starts.append(start)
        return train(*arguments, start=start, **options)

    monkeypatch.setattr(squashed, "train", spy)
    explainer = BivariateShapley(model, "proxy", target_error=1e-6)
    batch = explainer.attribute(inputs, n_evaluations=1100)
    # Stages of 256, 512 and 1,100 rows; the first fits all samples in one block, later ones may take several.
    assert len(starts) >= 3
    assert [start is None for start in starts] == [True] + [False] * (len(starts) - 1)
    for b in range(3):
        single = explainer.attribute(inputs[b : b + 1], n_evaluations=1100)
        torch.testing.assert_close(batch.bivariate[b], single.bivariate[0], atol=1e-8, rtol=1e-6)
        assert batch.notes[b] == single.notes[0]


def test_exact_where_the_budget_allows_it():
    table = np.random.default_rng(0).normal(size=2**7)
    ours = estimate(table, 128)
    np.testing.assert_allclose(ours.bivariate[0], table_e2(table)[0], atol=1e-12)
    assert ours.bivariate_error.eq(0).all()
    assert GaussianProcessProxy().minimum_evaluations(7) == 30


def test_constant_and_additive_games():
    assert estimate(np.full(2**10, 3.0), 100).bivariate.abs().max() < 1e-9
    effects = np.arange(10) - 4.0
    additive = estimate(coalitions(10) @ effects, 100)
    expected = np.where(np.eye(10), 0, effects[:, None] / 2)
    assert np.abs(additive.bivariate[0].numpy() - expected).max() < 0.1
    assert covered(additive, expected) == 1


def test_falls_back_on_the_regression_and_says_so(monkeypatch):
    """The votes of neighbours from few coalitions: the regression predicts pairs that are left out better."""
    model = table_model(TRAINED["neighbors"](0))
    game = Game(model, torch.ones(1, 14, dtype=torch.float64), behavior="output")
    kernel = find_explainer("kernel").explain(game, 58, POOR_SEED)
    poor = find_explainer("proxy").explain(game, 58, POOR_SEED)
    assert poor.notes == ("proxy: worse leave-one-out fit than the regression, kernel estimate used",)
    torch.testing.assert_close(poor.bivariate, kernel.bivariate)
    assert poor.graph(0).provenance["notes"] == poor.notes[0]
    monkeypatch.setattr(gp, "CONSTANT", -1e3)  # no covariance: the even system is not positive definite
    failed = find_explainer("proxy").explain(game, 300)
    kernel = find_explainer("kernel").explain(game, 300)
    assert failed.notes == ("proxy: factorisation failed, kernel estimate used",)
    torch.testing.assert_close(failed.bivariate, kernel.bivariate)
    torch.testing.assert_close(failed.standard_error, kernel.standard_error)


def test_works_in_inference_mode_and_leaves_generators_alone(global_rng_untouched):
    table = TRAINED["maximum"](0)
    with torch.inference_mode():
        inside = estimate(table, 100)
    torch.testing.assert_close(inside.bivariate, estimate(table, 100).bivariate)


def test_training_starts_where_many_players_can_learn():
    """Relevances that sum to dozens leave no covariance between coalitions: the start scales with the players."""
    assert gp.first_logit(14) == -2.5
    game = Unanimity(300, n_terms=900, seed=1)
    design = draw_design(300, 1500, torch.Generator().manual_seed(0))
    values = evaluate_design(reduced(game, 300), design)
    parameters = gp.train(design.signs[:200], values.odd[:, :200], values.even[:, :200], ridge=1.0, n_steps=5)
    assert 0.3 < float(parameters.relevance.sum()) < 8
