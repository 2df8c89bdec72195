"""Coalitions that metrics have in common are evaluated once, and nothing else changes."""

import pytest
import torch
from torch import nn

from bivshap_lightning import Game
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.game.coalitions import pack
from bivshap_lightning.game.shared_rows import SharedRows, _codes_of
from bivshap_lightning.metrics import DeletionAUC, InsertionAUC, PostHocAccuracy

F = 10


def make(n_background: int = 1, null: bool = False) -> tuple[Game, list[int]]:
    rows: list[int] = []
    x = torch.randn(4, F, generator=torch.Generator().manual_seed(1))
    if null:
        x[1, 3:6] = 0
    background = torch.randn(n_background, F, generator=torch.Generator().manual_seed(2)) if n_background > 1 else None
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(F, 16), nn.Tanh(), nn.Linear(16, 3))

    def counted(x: torch.Tensor) -> torch.Tensor:
        rows.append(len(x))
        return network(x)

    game = Game(counted, x, background=background)
    game(torch.ones(1, 1, F, dtype=torch.bool))
    rows.clear()
    return game, rows


def update_all(game: Game, rankings: list[torch.Tensor]) -> list[torch.Tensor]:
    metrics = [metric() for metric in (PostHocAccuracy, InsertionAUC, DeletionAUC) for _ in rankings]
    for metric, ranking in zip(metrics, rankings * 3, strict=True):
        metric.update(game, ranking)
    return [value for metric in metrics for value in metric.compute().values()]


@pytest.mark.parametrize("n_background", [1, 3])
@pytest.mark.parametrize("null", [False, True])
def test_the_numbers_are_the_same_and_common_coalitions_cost_nothing(n_background, null):
    rankings = [torch.randn(4, F, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    game, rows = make(n_background, null)
    apart = update_all(game, rankings)
    n_apart = sum(rows)
    game, rows = make(n_background, null)
    spent = game.n_evaluations.clone()
    together = update_all(SharedRows(game), rankings)
    for a, b in zip(apart, together, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    # By the prefixes themselves: no coalition of a sample is evaluated twice.
    distinct = set()
    for ranking in rankings:
        order = ranking.argsort(dim=1, descending=True)
        for b in range(4):
            nulls = set(game.null_players[b].nonzero()[:, 0].tolist())
            for k in range(F + 1):
                top = set(order[b, :k].tolist())
                distinct |= {(b, frozenset(top | nulls)), (b, frozenset(set(range(F)) - top | nulls))}
    assert sum(rows) == len(distinct) * n_background < n_apart
    assert int((game.n_evaluations - spent).sum()) == sum(rows)


def test_a_second_metric_of_the_same_ranking_is_free():
    game, rows = make()
    shared, ranking = SharedRows(game), torch.randn(4, F)
    InsertionAUC().update(shared, ranking)
    rows.clear()
    PostHocAccuracy().update(shared, ranking)
    assert not rows


def test_once_full_it_keeps_no_more(monkeypatch):
    from bivshap_lightning.game import shared_rows

    monkeypatch.setattr(shared_rows, "MAX_ELEMENTS", 3 * 4)
    game, rows = make()
    shared = SharedRows(game)
    masks = torch.eye(F, dtype=torch.bool)[None]
    torch.testing.assert_close(shared(masks), game(masks))
    rows.clear()
    torch.testing.assert_close(shared(~masks), game(~masks))
    assert sum(rows) == 2 * 4 * F


def test_rows_of_the_same_code_are_told_apart(monkeypatch):
    from bivshap_lightning.game import shared_rows

    monkeypatch.setattr(shared_rows, "_codes_of", lambda words: torch.zeros_like(words[:, 0]))
    game, _ = make()
    masks = torch.eye(F, dtype=torch.bool)[None]
    torch.testing.assert_close(SharedRows(game)(masks), game(masks))


def test_pairs_of_players_and_their_complements_have_different_codes_in_all_samples():
    """With 64 players, {0, 50} of one sample had the code of its complement of the next one."""
    pairs = torch.zeros(2016, 64, dtype=torch.bool).scatter_(1, torch.combinations(torch.arange(64)), True)
    words = pack(torch.cat([pairs, ~pairs])).repeat(16, 1)
    words = torch.cat([words, torch.arange(16).repeat_interleave(2 * len(pairs))[:, None]], dim=1)
    assert len(_codes_of(words).unique()) == len(words)


@pytest.mark.parametrize("n_background", [1, 3])
@pytest.mark.parametrize("null", [False, True])
def test_an_explainer_pays_for_no_coalition_that_another_one_has_evaluated(n_background, null):
    game, _ = make(n_background, null)
    expected = find_explainer("kernel_shap").explain(game, 60 * n_background).shapley
    game, rows = make(n_background, null)
    shared = SharedRows(game)
    first = find_explainer("kernel_shap").explain(shared, 60 * n_background)
    assert sum(rows) > 0
    rows.clear()
    spent = game.n_evaluations.clone()
    again = find_explainer("kernel_shap").explain(shared, 60 * n_background)
    torch.testing.assert_close(again.shapley, expected, atol=1e-6, rtol=1e-5)
    assert torch.equal(again.n_evaluations, first.n_evaluations)  # what it asked for, not what it cost
    assert not rows
    assert torch.equal(game.n_evaluations, spent)


def test_samples_on_their_own_share_what_was_evaluated_for_all():
    game, rows = make()
    shared, masks = SharedRows(game), torch.eye(F, dtype=torch.bool)[None]
    whole = shared(masks)
    rows.clear()
    part = shared.part(torch.tensor([2, 0]))
    torch.testing.assert_close(part(masks), whole[[2, 0]])
    torch.testing.assert_close(part.values_of(masks[0], torch.ones(F, dtype=torch.int64)), whole[0])
    assert not rows
    before = game.n_evaluations.clone()
    torch.testing.assert_close(part(~masks), game(~masks)[[2, 0]])
    assert sum(rows) == 2 * F + 4 * F
    assert (game.n_evaluations - before).tolist() == [2 * F, F, 2 * F, F]


def test_models_that_are_random_where_players_are_removed_are_refused():
    network = nn.Linear(F, 3)

    def filled_in(x: torch.Tensor) -> torch.Tensor:
        return network(torch.where(x == 0, torch.rand_like(x), x))

    shared = SharedRows(Game(filled_in, torch.ones(2, F)))
    with pytest.raises(ValueError, match="where players are removed"):
        shared(torch.eye(F, dtype=torch.bool)[None])
