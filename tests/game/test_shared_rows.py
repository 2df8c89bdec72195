"""Coalitions that metrics have in common are evaluated once, and nothing else changes."""

import pytest
import torch
from torch import nn

from bivshap_lightning import Game
from bivshap_lightning.game.shared_rows import SharedRows
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
