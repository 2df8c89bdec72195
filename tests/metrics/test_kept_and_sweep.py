"""What is kept of a value after removal, and the sweep over gammas: hand-worked, and against loops over samples."""

import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid

from bivshap_lightning import BivariateShapley, ExplanationGraph, Game
from bivshap_lightning.graph import ROLES
from bivshap_lightning.metrics import GammaSweep, MutualRedundancyMasking, PredictionKept, RepresentativesKept
from bivshap_lightning.metrics.sweep import FACTORS

WEIGHTS = torch.tensor([5.0, -1.0, 3.0])


def linear(x):
    return x @ WEIGHTS


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_is_kept_of_a_sum(sign):
    """Players go in order 1 (error 1), 2 (error 2), 0 (error 7)."""
    game = Game(lambda x: sign * linear(x), torch.ones(1, 3), behavior="output")
    metric = PredictionKept(per_sample=True)
    metric.update(game, torch.tensor([[3.0, 1.0, 2.0]]))
    result = metric.compute()
    steps = np.arange(26) * 3 // 25
    errors, x = np.array([0.0, 1.0, 2.0, 7.0])[steps], steps / 3
    assert result["error"].item() == pytest.approx(trapezoid(errors, x))
    assert result["share_kept"].item() == pytest.approx(1 - trapezoid(errors, x) / 7)
    assert result["curve"].tolist() == pytest.approx((1 - errors / 7).tolist())
    assert result["per_sample_share_kept"].tolist() == pytest.approx([result["share_kept"].item()])


def test_shares_are_ratios_of_sums_and_never_negative():
    """The second sample predicts next to nothing and moves far: it must not decide."""
    x = torch.tensor([[1.0, 0.0, 1.0], [1.0, 5.001, 0.0]])
    game = Game(linear, x, behavior="output")
    metric = PredictionKept()
    metric.update(game, torch.tensor([[2.0, 1.0, 3.0]] * 2))
    result = metric.compute()
    assert result["error"] > 1
    assert ((result["curve"] >= 0) & (result["curve"] <= 1)).all()
    first = PredictionKept()
    first.update(Game(linear, x[:1], behavior="output"), torch.tensor([[2.0, 1.0, 3.0]]))
    assert result["share_kept"].item() == pytest.approx(first.compute()["share_kept"].item(), abs=1e-3)


def test_graphs_are_ranked_by_what_holds_a_value_and_not_by_what_lifts_it():
    """5 a - 4 b + 1.5 c is 2.5: without c it is 1. An order with signs removes b first, and 6.5 is left."""
    weights, x = torch.tensor([5.0, -4.0, 1.5]), torch.ones(1, 3)
    explanation = BivariateShapley(lambda x: x @ weights, behavior="output").attribute(x)
    assert explanation.graph(0).order("hold").tolist() == [0, 1, 2]
    by_graph, signed = PredictionKept(), PredictionKept()
    for metric, given in ((by_graph, explanation), (signed, weights[None])):
        metric.update(Game(lambda x: x @ weights, x, behavior="output"), given)
    assert by_graph.compute()["share_kept"].item() == pytest.approx(0.3)
    assert signed.compute()["share_kept"].item() == pytest.approx(1 / 6)


@pytest.mark.parametrize("seed", range(6))
def test_holding_order_of_a_quadratic_game_takes_the_nearest_removal_each_time(seed):
    generator = torch.Generator().manual_seed(seed)
    single, pair = torch.randn(6, generator=generator), torch.randn(6, 6, generator=generator)

    def value(x):
        return x @ single + ((x @ pair) * x).sum(dim=1)

    order = BivariateShapley(value, behavior="output").attribute(torch.ones(1, 6)).graph(0).order("hold").tolist()
    left, whole = list(range(6)), float(value(torch.ones(1, 6)))
    for player in reversed(order):
        rows = 1 - torch.eye(6)[left]
        rows[:, [k for k in range(6) if k not in left]] = 0
        distance = (value(rows) - whole).abs()
        assert distance[left.index(player)] <= distance.min() + 1e-4
        left.remove(player)


def test_a_constant_keeps_nothing_and_loses_nothing():
    metric = PredictionKept()
    metric.update(Game(lambda x: 0 * x.sum(dim=1), torch.ones(2, 3), behavior="output"), torch.zeros(2, 3))
    result = metric.compute()
    assert (result["error"].item(), result["share_kept"].item(), result["share_kept_se"].item()) == (0, 0, 0)


def test_representatives_of_a_maximum():
    """-5 max(a, b) - c: one of a and b is enough; at random another player may go."""
    game = Game(lambda x: -5 * x[:, :2].amax(dim=1) - x[:, 2], torch.ones(1, 3), behavior="output")
    explanation = BivariateShapley(lambda x: -5 * x[:, :2].amax(dim=1) - x[:, 2], behavior="output").attribute(
        torch.ones(1, 3)
    )
    metric = RepresentativesKept(per_sample=True, n_draws=3)
    metric.update(game, explanation)
    result = metric.compute()
    assert result["error_with_representatives"].item() == pytest.approx(0, abs=1e-6)
    assert result["empty_error"].item() == pytest.approx(6)
    assert result["random_removal_error"].item() == pytest.approx(1 / 3)  # a, b or c goes; only c is missed
    assert result["share_kept_with_representatives"].item() == pytest.approx(1)
    assert result["per_sample_empty_error"].tolist() == pytest.approx([6])


@pytest.mark.parametrize("is_ragged", [False, True])
def test_the_sweep_is_what_each_gamma_says(table_game, random_graphs, is_ragged):
    table = table_game(3, is_ragged=is_ragged)
    graphs = random_graphs(3, table.counts, noise=0.2)
    metric = GammaSweep(gamma=0.3, seed=4)
    metric.update(table.game([0, 1]), graphs[:2])
    metric.update(table.game([2, 3, 4]), graphs[2:])
    result = metric.compute()
    for k, factor in enumerate(FACTORS):
        gamma = factor * 0.3
        roles = [graph.roles(gamma) for graph in graphs]
        for role in ROLES:
            assert result[role][k].item() == pytest.approx(np.mean([r.shares[role] for r in roles]))
        assert result["n_independent"][k].item() == pytest.approx(np.mean([r.n_independent for r in roles]))
        mutual = MutualRedundancyMasking(gamma=gamma, seed=4)
        mutual.update(table.game([0, 1]), graphs[:2])
        mutual.update(table.game([2, 3, 4]), graphs[2:])
        expected = mutual.compute()
        for name in ("density", "accuracy_with_representatives", "random_removal_accuracy", "share_removable"):
            assert result[name][k].item() == pytest.approx(expected[name].item()), (name, gamma)


def test_what_a_sweep_refuses():
    with pytest.raises(ValueError, match="`convention` must be 'default' for roles, got 'paper'"):
        GammaSweep(gamma=0.1, convention="paper")
    with pytest.raises(ValueError, match="`per_sample` must be False for a sweep, got True"):
        GammaSweep(gamma=0.1, per_sample=True)
    graph = ExplanationGraph([[0, 1], [1, 0]], shapley=[1, 1])
    with pytest.raises(TypeError, match="must hold an ExplanationGraph per sample, got RedundancyGraph"):
        GammaSweep(gamma=0.1).update(Game(linear, torch.ones(1, 3), feature_mask=torch.tensor([0, 1, 1]),
                                          behavior="output"), [graph.redundancy(0.1)])  # fmt: skip
