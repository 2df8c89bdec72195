"""The change of Shapley values between two models, against enumeration and over repeated seeds."""

import pytest
import torch

from bivshap_lightning.explainers import explain_until, find_explainer
from bivshap_lightning.explainers.changes import drawn_values_kept, shapley_changes
from bivshap_lightning.explainers.proxy import squashed as proxy
from bivshap_lightning.game import Game

N = 10


def games(change: float = 0.1, n_samples: int = 3) -> tuple[Game, Game]:
    """Two networks that differ little, on samples with different numbers of null players."""
    draw = torch.Generator().manual_seed(0)
    first, last = (torch.randn(N, k, generator=draw, dtype=torch.float64) for k in (12, 12))
    inputs = torch.randn(n_samples, N, generator=draw, dtype=torch.float64)
    inputs[1:2, 3] = 0.0

    def network(weights):
        return lambda x: torch.tanh(x @ weights / 2) @ torch.linspace(-1, 1, 12, dtype=torch.float64)

    before, now = (Game(network(w), inputs, behavior="output") for w in (first, first + change * last))
    return before, now


def explained(game: Game, method: str, seed: int = 0, n_evaluations: int | None = 300, target: float | None = None):
    with drawn_values_kept() as drawn:
        explainer = find_explainer(method)
        if target is None:
            found = explainer.explain(game, n_evaluations, seed)
        else:
            found = explain_until(explainer, game, target, n_evaluations, seed)
    return found, [drawn.get(b) for b in range(game.n_samples)]


def true_change(before: Game, now: Game) -> torch.Tensor:
    exact = find_explainer("exact")
    return exact.explain(now).shapley - exact.explain(before).shapley


def test_exact_values_change_exactly():
    before, now = games()
    found = shapley_changes(*(explained(game, "exact", n_evaluations=None)[1] for game in (before, now)))
    for (change, error), expected in zip(found, true_change(before, now), strict=True):
        torch.testing.assert_close(change, expected)
        assert not error.any()


@pytest.mark.parametrize("method", ["sampling", "kernel"])
@pytest.mark.parametrize("target", [None, 0.05])
def test_intervals_of_the_change_cover_it_and_are_narrower_than_those_of_independent_audits(method, target):
    before, now = games()
    expected, inside, widths, independent = true_change(before, now), [], [], []
    for seed in range(30):
        (old, drawn_before), (new, drawn_now) = (
            explained(game, method, seed, 300 if target is None else 900, target) for game in (before, now)
        )
        found = shapley_changes(drawn_before, drawn_now)
        errors = (old.shapley_standard_error**2 + new.shapley_standard_error**2).sqrt()
        for b, (change, error) in enumerate(found):
            moves = ~now.null_players[b]
            inside.append(((change - expected[b]).abs() <= 1.96 * error + 1e-9)[moves])
            widths.append(error[moves])
            independent.append(errors[b][moves])
            assert not change[~moves].any()
            assert not error[~moves].any()
    assert torch.cat(inside).double().mean() >= 0.92
    assert torch.cat(widths).mean() < torch.cat(independent).mean() / 3


@pytest.mark.parametrize("method", ["sampling", "kernel", "proxy"])
def test_a_model_that_did_not_change_has_no_change(method):
    game, _ = games(n_samples=2)
    _, drawn = explained(game, method)
    for change, error in shapley_changes(drawn, drawn):
        assert change.abs().max() < 1e-12
        assert error.abs().max() < 1e-12


def test_the_proxy_estimates_the_difference():
    before, now = games(n_samples=2)
    found = shapley_changes(explained(before, "proxy")[1], explained(now, "proxy")[1])
    for (change, error), expected in zip(found, true_change(before, now), strict=True):
        assert ((change - expected).abs() <= 4 * error + 1e-9).all()


def test_the_proxy_goes_on_from_what_the_game_taught(monkeypatch):
    starts = []
    monkeypatch.setattr(
        proxy, "train", lambda *a, original=proxy.train, **k: starts.append(k["start"]) or original(*a, **k)
    )
    before, now = games(n_samples=2)
    old, new = (explained(game, "proxy")[1] for game in (before, now))
    assert starts == [None] * len(starts)
    n_before = len(starts)
    shapley_changes(old, new)
    assert len(starts) > n_before
    assert all(start is not None for start in starts[n_before:])


def test_shorter_stages_are_the_beginning_of_longer_ones():
    before, now = games()
    _, short = explained(before, "sampling", n_evaluations=900, target=10.0)
    _, long = explained(now, "sampling", n_evaluations=900, target=1e-6)
    assert len(short[0].values) < len(long[0].values)
    for (change, error), expected in zip(shapley_changes(short, long), true_change(before, now), strict=True):
        assert ((change - expected).abs() <= 5 * error + 1e-9).all()


def test_other_coalitions_estimators_or_players_leave_the_change_unknown():
    before, now = games()
    _, drawn = explained(now, "sampling")
    assert shapley_changes(explained(before, "sampling", seed=1)[1], drawn) == [None] * 3
    assert shapley_changes(explained(before, "kernel")[1], drawn) == [None] * 3
    assert shapley_changes([None] * 3, drawn) == [None] * 3
    _, others = explained(Game(lambda x: x.sum(dim=1), torch.eye(N)[:3] + 1, behavior="output"), "sampling")
    assert shapley_changes(others, drawn)[1] is None  # the second sample has a null player in one of the two only
