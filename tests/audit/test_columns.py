"""Columns of a table: association against other libraries, costs by hand, and a real model whose columns are known."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats.contingency import association as scipy_association
from sklearn.linear_model import LogisticRegression
from torch import nn

from bivshap_lightning.audit.association import association, copies, correlation_ratio, cramers_v
from bivshap_lightning.audit.batches import Batch
from bivshap_lightning.audit.columns import column_costs, column_report, table_of_players, with_column_costs
from bivshap_lightning.audit.record_columns import Column, ColumnReport, columns_that_can_go
from bivshap_lightning.game import Game


def test_association_is_that_of_other_libraries():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, 300), rng.integers(0, 3, 300)
    b = np.where(rng.random(300) < 0.5, a % 3, b)
    counts = np.array([[np.sum((a == i) & (b == j)) for j in range(3)] for i in range(4)])
    assert cramers_v(a, b) == pytest.approx(scipy_association(counts, method="cramer"))
    x, y = rng.normal(size=(2, 300))
    found = association(np.stack([x, x + y, a, b], axis=1), categorical=[2, 3])
    assert found[0, 1] == pytest.approx(abs(np.corrcoef(x, x + y)[0, 1]))
    assert found[2, 3] == pytest.approx(cramers_v(a, b))
    # The correlation ratio is the root of the R^2 of a regression on the categories.
    one_hot = np.eye(4)[a]
    residual = x - one_hot @ np.linalg.lstsq(one_hot, x, rcond=None)[0]
    assert found[0, 2] == pytest.approx(np.sqrt(1 - residual.var() / x.var()))
    assert np.array_equal(found, found.T)


def test_copies_and_constants():
    codes = np.array([0.0, 1, 2, 0, 1, 2])
    rows = np.stack([codes, 5 - codes, 10 * codes + 3, np.ones(6)], axis=1)
    found = association(rows, categorical=[0, 1])
    assert found[:3, :3] == pytest.approx(np.ones((3, 3)))
    assert found[3, :3] == pytest.approx(np.zeros(3))
    assert cramers_v(np.zeros(6, dtype=int), codes.astype(int)) == 0
    assert correlation_ratio(codes.astype(int), np.ones(6)) == 0


def test_copies_do_not_rest_on_one_row():
    rng = np.random.default_rng(0)
    rare, number = np.zeros(32), rng.normal(size=32)
    rare[3] = 1
    outlier = [np.where(np.arange(32) == 5, 1e3, rng.normal(size=32)) for _ in range(2)]
    rows = np.stack([rare, 1 - rare, number, -2 * number, *outlier, np.arange(32) % 4, 3 - np.arange(32) % 4], axis=1)
    categories = [0, 1, 6, 7]
    assert association(rows, categories)[0, 1] == pytest.approx(1)
    assert association(rows, categories)[4, 5] > 0.99
    found = copies(rows, categories, at_least=0.95)
    assert np.argwhere(found > 0).tolist() == [[2, 3], [3, 2], [6, 7], [7, 6]]
    assert found[2, 3] == found[6, 7] == pytest.approx(1)


@pytest.mark.parametrize(
    ("rows", "categorical", "match"),
    [
        (np.ones(3), (), r"`rows` must have shape \(N, F\) with at least two rows, got \(3,\)"),
        (np.ones((1, 3)), (), "at least two rows"),
        (np.full((2, 2), np.nan), (), "`rows` must be finite, got 4 NaN or infinite values"),
        (np.ones((2, 2)), (2,), r"`categorical` must be columns from 0 to 1, got \[2\]"),
    ],
)
def test_association_refuses(rows, categorical, match):
    with pytest.raises(ValueError, match=match):
        association(rows, categorical)


def test_costs_are_those_of_the_loss_game():
    """One column: the cost is the loss without it less the loss with it."""
    x, y = torch.tensor([[2.0, 0.0], [-1.0, 0.0]]), torch.tensor([1, 0])
    report = column_report(lambda z: 1 * z[:, 0], x, y, names=["used", "dead"])
    used = report.columns[0]
    gains = np.log(2) - np.log1p(np.exp(-np.array([2.0, 1.0])))
    assert used.cost == pytest.approx(gains.mean(), rel=1e-5)
    assert used.cost_error == pytest.approx(gains.std(ddof=1) / np.sqrt(2), rel=1e-4)
    assert (used.share, used.roles["essential"]) == (1, 1)
    assert report.columns[1].roles["irrelevant"] == 1
    assert (report.can_go, report.n_samples) == (("dead",), 2)


def test_costs_against_enumeration():
    """Shapley values of the negative cross-entropy, by all orders of four columns and with rows for absent ones."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).requires_grad_(False)
    x, labels, rows = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]), torch.randn(3, 4)

    def value(b, present):
        mixed = rows.clone()
        mixed[:, list(present)] = x[b, list(present)]
        return -float(nn.functional.cross_entropy(network(mixed), labels[b].expand(3)))

    expected = np.zeros((5, 4))
    for b in range(5):
        for order in itertools.permutations(range(4)):
            for place, player in enumerate(order):
                expected[b, player] += (value(b, order[: place + 1]) - value(b, order[:place])) / 24
    game = Game(network, x, target=labels, behavior="loss", background=rows)
    assert column_costs(game, None, 0) == pytest.approx(expected, abs=1e-5)


def test_groups_of_columns_and_few_values_are_categories():
    rng = np.random.default_rng(0)
    category, number = rng.integers(0, 3, 40), rng.normal(size=40)
    rows = np.column_stack([number, np.eye(3)[category], 7 - 2 * category, np.full(40, np.nan), np.ones(40)])
    table, categorical = table_of_players(rows, np.array([0, 1, 1, 1, 2, 3, -1]), 4)
    assert np.array_equal(table[:, 0], number)
    assert categorical == [1, 2, 3]
    found = association(table, categorical)
    assert found[1, 2] == pytest.approx(1)  # the one-hot group and the code say the same
    assert found[0, 1] < 0.5
    assert (found[3, :3] == 0).all()


def test_an_infinite_loss_has_no_costs():
    """A model that gives the true class a probability of 0 has no cost, and the audit goes on without."""
    x = torch.tensor([[1.0, 2.0], [-1.0, 2.0]])
    game = Game(
        lambda z: torch.stack([(z[:, 0] > 0).float(), (z[:, 0] <= 0).float()], dim=1), x,
        target=torch.tensor([1, 1]), behavior="loss", link="identity",
    )  # fmt: skip
    result, settings = SimpleNamespace(samples=[]), SimpleNamespace(n_evaluations=None, seed=0)
    assert with_column_costs(result, game, Batch((x,)), settings) is result


def test_many_columns_are_cut_in_the_middle():
    text = ColumnReport.of([column(f"c{k}", float(k)) for k in range(50)], 20).to_text()
    assert "... 30 more" in text
    assert len(text.splitlines()) == 23
    assert text.splitlines()[1].startswith("c49")
    assert "\x1b" not in ColumnReport.of([column("\x1b[31m", 1.0)], 20).to_text()


def test_a_fitted_model():
    """Two informative columns, a copy of one, and noise; the copy and the noise can go, and retraining confirms it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4))
    x[:, 2] = 2 * x[:, 0] + 1
    y = (x[:, 0] + x[:, 1] + 0.3 * rng.normal(size=600) > 0).astype(int)
    fitted = LogisticRegression().fit(x[:400], y[:400])
    report = column_report(
        fitted, x[400:500], y[400:500], names=["a", "b", "a in other units", "noise"], background=x[:20]
    )
    by_name = {column.name: column for column in report.columns}
    assert by_name["a"].copies == {"a in other units": pytest.approx(1)}
    assert by_name["b"].copies == by_name["noise"].copies == {}
    assert "noise" in report.can_go
    assert len({"a", "a in other units"} & set(report.can_go)) == 1
    assert "b" not in report.can_go
    assert abs(by_name["noise"].cost) < 0.1 * by_name["b"].cost
    text = report.to_text()
    assert text.endswith("Retrain to confirm.")
    assert "copy of a in other units (1.00)" in text
    kept = [k for k, name in enumerate(["a", "b", "a in other units", "noise"]) if name not in report.can_go]
    again = LogisticRegression().fit(x[:400][:, kept], y[:400])
    assert again.score(x[500:][:, kept], y[500:]) >= fitted.score(x[500:], y[500:]) - 0.02


def test_interchangeable_columns_are_named():
    either = lambda z: 8 * z[:, :2].amax(dim=1) - 4  # noqa: E731
    x = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    report = column_report(either, x, torch.ones(3, dtype=torch.long), names=["a", "b", "c"])
    by_name = {column.name: column for column in report.columns}
    assert by_name["a"].interchangeable_with == {"b": 2}
    assert by_name["a"].roles["interchangeable"] == pytest.approx(2 / 3)
    assert "interchangeable with b in 2" in report.to_text()


def column(name, cost, error=0.0, copies=None):
    return Column(name, 0.1, {}, {}, cost, error, copies or {})


def test_what_can_go():
    columns = [
        column("a", 1.0, copies={"b": 0.99}), column("b", 0.5, copies={"a": 0.99}), column("c", 0.02, 0.02),
        column("d", 0.001), column("e", -0.3),
    ]  # fmt: skip
    assert columns_that_can_go(columns) == ("b", "d", "e")
