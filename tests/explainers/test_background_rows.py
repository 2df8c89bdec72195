"""Background rows: what "sampling" evaluates against them, and whether its answer and its errors are right."""

import numpy as np
import pytest
import torch
from torch import nn

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.explainers.null_players import ReducedGame
from bivshap_lightning.explainers.sampling import Chains, Sampling
from tests.oracles import relative_error
from tests.trained_games import coalitions, table_e2

N, R = 9, 16


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(N, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)).double()


def make_game(seed: int, n_samples: int = 1) -> tuple[Game, list[np.ndarray]]:
    """A game against background rows, and E2 of each sample by enumeration of all coalitions and rows."""
    model, x, rows = network(seed), torch.randn(n_samples, N).double(), torch.randn(R, N).double()
    masks, truths = torch.tensor(coalitions(N)), []
    with torch.no_grad():
        for sample in x:
            mixed = torch.where(masks[:, None], sample, rows).flatten(0, 1)
            truths.append(table_e2(model(mixed).view(2**N, R).mean(dim=1).numpy())[0])
    return Game(model, x, background=rows, behavior="output"), truths


def test_values_against_single_rows_average_to_the_value():
    game, _ = make_game(0, n_samples=3)
    reduced, masks = ReducedGame(game), torch.rand(20, N) < 0.5
    single = [reduced(masks, torch.full((20,), k)) for k in range(R)]
    torch.testing.assert_close(torch.stack(single).mean(dim=0), reduced(masks))
    mixed = torch.arange(20) % R
    torch.testing.assert_close(reduced(masks, mixed), torch.stack(single, dim=2)[:, torch.arange(20), mixed])


def test_equal_coalitions_of_one_row_are_evaluated_once():
    game, _ = make_game(0, n_samples=2)
    game(torch.ones(1, 1, N, dtype=torch.bool))
    before, masks = game.n_evaluations, torch.zeros(6, N, dtype=torch.bool)
    ReducedGame(game)(masks, torch.tensor([0, 1, 0, 1, 2, 0]))
    assert (game.n_evaluations - before).tolist() == [3, 3]


def test_equal_coalitions_of_samples_with_other_null_players_have_their_own_values(monkeypatch):
    rows = torch.randn(4, N).double()
    rows[:, 2], rows[:, 5] = 1.0, 2.0
    x = torch.randn(2, N).double()
    x[0, 2], x[1, 5] = 1.0, 2.0  # null players: 2 of the first sample, 5 of the second one
    game = Game(network(0), x, background=rows, behavior="output")
    reduced, masks = ReducedGame(game), (torch.rand(5, N - 1) < 0.5).repeat(4, 1)
    assert reduced.n_players == N - 1
    which = torch.arange(20) % 4
    single = torch.cat([reduced(mask[None], k[None]) for mask, k in zip(masks, which, strict=True)], dim=1)
    monkeypatch.setattr("bivshap_lightning.explainers.null_players.BLOCK_ELEMENTS", 7 * 2 * N)
    before = game.n_evaluations
    torch.testing.assert_close(reduced(masks, which), single)
    assert (game.n_evaluations - before).tolist() == [20, 20]
    torch.testing.assert_close(reduced(masks.repeat(3, 1), which.repeat(3)), single.repeat(1, 3))
    assert (game.n_evaluations - before).tolist() == [40, 40]


def test_all_rows_take_turns_in_an_order_that_stages_keep():
    orders = torch.rand(37, N, generator=torch.Generator().manual_seed(0)).argsort(dim=1).argsort(dim=1)
    longer, shorter = (Chains(orders[:m]).against(R).background for m in (37, 5))
    assert longer.bincount().tolist() == [3 if k in longer[:5] else 2 for k in range(R)]
    assert torch.equal(longer[:5], shorter)
    assert torch.equal(longer[:R], longer[R : 2 * R])


def test_a_coalition_of_sampling_costs_one_model_row():
    game, _ = make_game(0)
    explanation = find_explainer("sampling").explain(game, 1000)
    assert int(explanation.n_evaluations[0]) <= 1000
    reduced = ReducedGame(game)
    rows = Sampling().draw(N, Sampling().coalitions_within(1000, R), torch.Generator().manual_seed(0)).against(R)
    # 61 orders and their reverses, the full coalition, and the empty one against each row
    assert len(rows.coalitions) == 2 * (N - 1) * 61 + R + 1 == len(rows.replacements)
    assert reduced.n_background == R


def test_one_row_per_coalition_is_more_accurate_than_all_at_equal_model_rows():
    ratios, covered = [], []
    for seed in range(4):
        game, (truth,) = make_game(seed)
        ours = [find_explainer("sampling").explain(game, 1024, s) for s in range(6)]
        all_rows = [_against_all_rows(game, 1024, s) for s in range(6)]
        errors = [np.mean([relative_error(e, truth) ** 2 for e in found]) for found in (
            [e.bivariate[0] for e in ours], all_rows
        )]  # fmt: skip
        ratios.append((errors[0] / errors[1]) ** 0.5)
        off = ~np.eye(N, dtype=bool)
        for e in ours:
            assert e.standard_error is not None
            covered.append((np.abs(e.bivariate[0].numpy() - truth) <= 1.96 * e.standard_error[0].numpy())[off].mean())
    assert np.exp(np.mean(np.log(ratios))) < 0.9  # 1 if a coalition cost all rows
    assert np.mean(covered) > 0.93


def _against_all_rows(game: Game, n_evaluations: int, seed: int) -> torch.Tensor:
    rows = Sampling().draw(N, n_evaluations // R, torch.Generator().manual_seed(seed))
    return Sampling().from_values(rows, ReducedGame(game)(rows.coalitions)).bivariate[0]


def test_stages_draw_more_orders_without_evaluating_any_twice():
    game, (truth,) = make_game(1)
    explanation = BivariateShapley(network(1), "sampling", "output", target_error=0.05).attribute(
        game.inputs[0], background=game.removal.rows[0][0], n_evaluations=20_000
    )
    assert "reached" in explanation.notes[0]
    assert relative_error(explanation.bivariate[0], truth) < 0.1
    assert int(explanation.n_evaluations[0]) < 20_000


@pytest.mark.parametrize("n_samples", [1, 2])
def test_shapley_values_sum_to_the_difference_of_the_ends(n_samples):
    game, _ = make_game(2, n_samples=n_samples)
    explanation = find_explainer("sampling").explain(game, 160 * R)
    ends = game(torch.tensor([[[False] * N, [True] * N]]))
    # exactly so when every row serves equally many orders
    n_pairs = (160 * R - (R - 1) - 2) // (2 * (N - 1))
    tolerance = 1e-6 if n_pairs % R == 0 else 0.05
    torch.testing.assert_close(explanation.shapley.sum(dim=1), ends[:, 1] - ends[:, 0], atol=tolerance, rtol=0)
