"""Conditional removal: nearest background rows and users' samplers, against loops and closed forms."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from torch import Tensor

from bivshap_lightning import BivariateShapley, ConditionalSampler, Game, NearestRows
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.game.coalitions import all_coalitions
from bivshap_lightning.game.trees import UnsupportedTreesError
from tests.oracles import enumerate_e2


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def smooth(x: Tensor) -> Tensor:
    return torch.sin(x[:, 0] + 2 * x[:, 1]) * x[:, 2] + x[:, 3] ** 2


def by_loop(x: Tensor, rows: Tensor, mask: Tensor, k: int) -> float:
    """The value of one coalition of one sample, row by row."""
    scale = rows.numpy().std(axis=0)
    far = [sum(((x[i] - row[i]) / scale[i]) ** 2 for i in range(len(x)) if mask[i]) for row in rows]
    nearest = sorted(range(len(rows)), key=lambda r: (float(far[r]), r))[:k]
    return float(np.mean([float(smooth(torch.where(mask, x, rows[r])[None])) for r in nearest]))


@pytest.mark.parametrize("per_eval", [None, 1, 3])
def test_nearest_rows_equal_a_loop(per_eval):
    x, rows = normal(3, 4, seed=1), normal(25, 4)
    game = Game(smooth, x, background=NearestRows(rows, 5), behavior="output", perturbations_per_eval=per_eval)
    masks = all_coalitions(4)
    expected = [[by_loop(own, rows, mask, 5) for mask in masks] for own in x]
    before = game.n_evaluations
    np.testing.assert_allclose(game(masks[None]), expected)
    assert (game.n_evaluations - before).tolist() == [16 * 5] * 3
    single = game.values_of(masks[[3, 9]], torch.tensor([2, 0]))
    np.testing.assert_allclose(single, [expected[2][3], expected[0][9]])


def test_players_of_several_elements_and_several_inputs():
    """A group counts with all its elements; integers differ or do not."""
    x, codes = normal(2, 2, seed=1), torch.tensor([[1, 0], [2, 2]])
    rows, other = normal(9, 2), torch.arange(18).view(9, 2) % 3
    game = Game(
        lambda x, codes: x.sum(dim=1) + codes.sum(dim=1), (x, codes), behavior="output",
        background=NearestRows((rows, other), 2), feature_mask=(torch.tensor([[0, 0]]), torch.tensor([[1, 2]])),
    )  # fmt: skip
    first_code = torch.tensor([[[False, True, False]]])
    for b in range(2):
        matching = [r for r in range(9) if other[r, 0] == codes[b, 0]][:2]
        expected = np.mean([float(rows[r].sum() + codes[b, 0] + other[r, 1]) for r in matching])
        assert float(game(first_code)[b, 0]) == pytest.approx(expected)


def test_a_copy_is_redundant_by_condition_and_not_by_margin():
    """The model reads one of two equal columns: conditionally the other stands in for it."""
    column = normal(400, 1)
    rows = torch.cat([column, column, normal(400, 1, seed=2)], dim=1)
    explainer, x = BivariateShapley(lambda x: x[:, 0] + x[:, 2], behavior="output"), rows[:2] * 1.0
    conditional = explainer.attribute(x, background=NearestRows(rows, 1))
    marginal = explainer.attribute(x, background=rows)
    assert conditional.bivariate[:, 0, 1].abs().max() < 1e-9
    assert conditional.bivariate[:, 1, 0].abs().max() < 1e-9
    assert marginal.shapley[:, 1].eq(0).all()
    assert marginal.bivariate[:, 0, 1].abs().min() > 0.05
    assert conditional.removal == "conditional: mean over the 1 nearest of 400 background rows"


def conditional_mean(x: Tensor, present: Tensor) -> Tensor:
    """Of normal variables with correlation 1/2: what the present ones say of the absent ones."""
    covariance = 0.5 + 0.5 * torch.eye(x.shape[1], dtype=x.dtype)
    found = torch.zeros_like(x)
    for n, mask in enumerate(present):
        if mask.any():
            known = torch.linalg.solve(covariance[mask][:, mask], x[n, mask])
            found[n] = covariance[:, mask] @ known
    return found[:, None]


def test_a_users_sampler_gives_conditional_expectations():
    """For a linear model of normal variables the value is the model at the conditional mean."""
    weights, x = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64), normal(1, 3)
    sampler = ConditionalSampler(conditional_mean, 1)
    found = BivariateShapley(lambda x: x @ weights, behavior="output").attribute(x, background=sampler)

    def value(coalition: frozenset[int]) -> float:
        mask = torch.tensor([[i in coalition for i in range(3)]])
        return float(torch.where(mask, x, conditional_mean(x, mask)[:, 0]) @ weights)

    np.testing.assert_allclose(found.bivariate[0], enumerate_e2(value, 3), atol=1e-12)
    assert found.removal == "conditional: mean over 1 rows of conditional_mean"


def test_no_player_is_null_where_it_tells_about_others():
    """The first column is at a value that all rows have, and still the game asks for it."""
    rows = torch.zeros(4, 2)
    game = Game(lambda x: x.sum(dim=1), torch.tensor([[0.0, 1.0]]), background=NearestRows(rows, 2), behavior="output")
    assert not game.null_players.any()


def test_methods_that_do_not_fit_say_so():
    x = normal(30, 3)
    forest = RandomForestRegressor(n_estimators=3, random_state=0).fit(x.numpy(), x[:, 0].numpy())
    game = Game(forest, x[:2].numpy(), background=NearestRows(x.numpy(), 3), behavior="output")
    assert not game.has_trees
    with pytest.raises(UnsupportedTreesError, match="must not depend on what is present to read trees"):
        find_explainer("trees").explain(game)
    assert find_explainer("auto").explain(game).method == "exact"


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="`n_neighbours` must be at least 1, got 0"):
        NearestRows(torch.zeros(3, 2), 0)
    with pytest.raises(ValueError, match="`n_rows` must be at least 1, got 0"):
        ConditionalSampler(conditional_mean, 0)
    with pytest.raises(ValueError, match=r"`background` must draw rows of shapes \[\(1, 4, 2\)\], got \[\(1, 1, 2\)\]"):
        Game(lambda x: x.sum(dim=1), torch.ones(1, 2), background=ConditionalSampler(conditional_mean, 4))
    with pytest.raises(ValueError, match="`background` must hold at least one row shaped like a sample"):
        Game(lambda x: x.sum(dim=1), torch.ones(1, 2), background=NearestRows(torch.zeros(5, 3)))


def test_frames_keep_their_categories():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"colour": ["red", "blue", "red"], "size": [1.0, 5.0, 2.0]})

    def model(frame):
        return frame["size"].to_numpy() * (frame["colour"] == "red").to_numpy()

    game = Game(model, frame[:1], background=NearestRows(frame, 2), behavior="output")
    # Red alone: the two red rows are nearest, of sizes 1 and 2.
    assert float(game(torch.tensor([[[True, False]]]))) == pytest.approx(1.5)
