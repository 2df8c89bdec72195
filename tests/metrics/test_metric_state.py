"""One pass = many batches = merged states, and the rest of the torchmetrics contract."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

from bivshap_lightning import ExplanationGraph, Game
from bivshap_lightning.metrics import (
    DeletionAUC,
    DirectionalRedundancy,
    InsertionAUC,
    MetricResult,
    MutualRedundancyMasking,
    PostHocAccuracy,
    RoleShares,
)

ROOT = Path(__file__).resolve().parents[2]
MAKERS = {
    f"{cls.__name__}-{convention}": lambda cls=cls, convention=convention, **kwargs: cls(
        convention=convention, **{"per_sample": True, **kwargs}
    )
    for cls in (PostHocAccuracy, InsertionAUC, DeletionAUC, MutualRedundancyMasking, DirectionalRedundancy)
    for convention in ("default", "paper")
}
MAKERS["RoleShares-default"] = lambda **kwargs: RoleShares(gamma=0.3, **{"per_sample": True, **kwargs})
every_metric = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@pytest.fixture
def ragged(table_game, random_graphs):
    """Nine samples of one to six players with their graphs; a function gives the game and graphs of some."""
    table = table_game(5, n_samples=9, n_players=6, is_ragged=True)
    graphs = random_graphs(5, table.counts)
    assert len(set(table.counts)) > 3

    def part(samples):
        return table.game(samples), [graphs[b] for b in samples]

    return part


def assert_same(first: MetricResult, second: MetricResult) -> None:
    assert set(first) == set(second)
    for key in first:
        torch.testing.assert_close(first[key], second[key], rtol=0, atol=1e-9, msg=lambda m, k=key: f"{k}: {m}")


def computed(make, ragged, batches) -> MetricResult:
    metric = make()
    for samples in batches:
        metric.update(*ragged(samples))
    return metric.compute()


@every_metric
class TestOneNumber:
    def test_one_pass_is_many_batches(self, make, ragged):
        whole = computed(make, ragged, [range(9)])
        assert whole["n_samples"] == 9
        for batches in ([range(4), range(4, 9)], [[b] for b in range(9)], [[0], range(1, 9)]):
            assert_same(whole, computed(make, ragged, batches))

    def test_merged_states(self, make, ragged):
        whole = computed(make, ragged, [range(9)])
        first, second = make(), make()
        first.update(*ragged(range(7, 9)))
        first.compute()  # cached, and out of date after the merge
        second.update(*ragged(range(7)))
        for incoming in (second, second.metric_state):
            merged = copy.deepcopy(first)
            merged.merge_state(incoming)
            assert_same(whole, merged.compute())
        empty = make()
        empty.merge_state(second)
        empty.merge_state(make())
        assert_same(computed(make, ragged, [range(7)]), empty.compute())

    def test_forward_gives_the_batch_and_keeps_the_sum(self, make, ragged):
        metric = make()
        assert_same(metric(*ragged(range(4))), computed(make, ragged, [range(4)]))
        batch = metric(*ragged(range(4, 9)))
        assert_same(batch, computed(make, ragged, [range(4, 9)]))
        assert batch.convention == metric.convention
        assert_same(metric.compute(), computed(make, ragged, [range(9)]))

    def test_reset_clears_the_state(self, make, ragged):
        metric = make()
        metric.update(*ragged(range(5)))
        metric.reset()
        metric.update(*ragged(range(5, 9)))
        assert_same(metric.compute(), computed(make, ragged, [range(5, 9)]))

    def test_copies_and_loaded_states_continue(self, make, ragged):
        metric = make()
        metric.update(*ragged(range(5)))
        for other in (metric.clone(), pickle.loads(pickle.dumps(metric))):
            other.update(*ragged(range(5, 9)))
            assert_same(other.compute(), computed(make, ragged, [range(9)]))
        metric.persistent(True)
        loaded = make()
        loaded.load_state_dict(metric.state_dict())
        assert_same(loaded.compute(), metric.compute())

    def test_works_in_and_out_of_inference_mode(self, make, ragged):
        """Lightning resets and updates under inference mode, other code does not."""
        metric = make()
        with torch.inference_mode():
            metric.reset()
            metric.update(*ragged(range(4)))
        metric.update(*ragged(range(4, 9)))
        with torch.inference_mode():
            assert_same(metric.compute(), computed(make, ragged, [range(9)]))

    def test_results_can_be_copied_and_pickled(self, make, ragged):
        result = computed(make, ragged, [range(3)])
        for other in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
            assert_same(result, other)
            assert (other.metric, other.convention) == (result.metric, result.convention)

    def test_global_random_generators_are_not_used(self, make, ragged, global_rng_untouched):
        computed(make, ragged, [range(3)])

    def test_scores_per_sample_come_in_order_and_average_to_the_number(self, make, ragged):
        result = computed(make, ragged, [range(5), range(5, 9)])
        names = [key for key in result if key.startswith("per_sample_")]
        assert names
        for name in names:
            assert result[name].shape == (9,)
            if name != "per_sample_share_removable":
                torch.testing.assert_close(result[name].mean(), result[name.removeprefix("per_sample_")])

    def test_scores_of_a_single_sample_are_still_a_vector(self, make, ragged):
        result = computed(make, ragged, [[0]])
        assert all(value.shape == (1,) for key, value in result.items() if key.startswith("per_sample_"))

    def test_scores_per_sample_are_kept_on_request_only(self, make, ragged):
        metric = make(per_sample=False)
        metric.update(*ragged(range(3)))
        assert not any(key.startswith("per_sample_") for key in metric.compute())
        assert all(isinstance(state, torch.Tensor) for state in metric.metric_state.values())


@every_metric
class TestContract:
    def test_all_coalitions_of_a_batch_go_through_the_game_at_once(self, make, ragged, monkeypatch):
        game, graphs = ragged(range(9))
        shapes, evaluate = [], Game._evaluate
        monkeypatch.setattr(
            Game, "_evaluate", lambda self, masks, read: shapes.append(masks.shape) or evaluate(self, masks, read)
        )
        make().update(game, graphs)
        # Decisions and values are read in one pass each.
        assert [shape[0] for shape in shapes] == [9] * (2 if isinstance(make(), RoleShares) else 1)

    def test_states_move(self, make, ragged):
        metric = make().to("meta")
        tensors = [state for state in metric.metric_state.values() if isinstance(state, torch.Tensor)]
        assert {state.device.type for state in tensors} == {"meta"}
        metric.update(*ragged(range(2)))  # the game stays where it is
        assert metric.sums.device.type == metric.scores[0].device.type == "meta"
        metric.reset()
        assert metric.sums.device.type == "meta"

    def test_compute_needs_an_update(self, make):
        metric = make()
        name = type(metric).__name__
        with pytest.raises(ValueError, match=f"`compute` must follow an update of {name}, got no samples. Call"):
            metric.compute()

    def test_numbers_stay_within_the_declared_bounds(self, make, ragged):
        metric = make()
        metric.update(*ragged(range(9)))
        result = metric.compute()
        for name in metric._main:
            assert result[name] >= metric.plot_lower_bound
            assert metric.plot_upper_bound is None or result[name] <= metric.plot_upper_bound

    def test_refuses_the_state_of_another_metric(self, make, ragged):
        metric, first = make(), next(iter(MAKERS.values()))()
        other = MutualRedundancyMasking(seed=99, per_sample=True) if type(first) is type(metric) else first
        with pytest.raises(ValueError, match=r"`incoming_state` must come from a .* of the same settings, got another"):
            metric.merge_state(other.metric_state)
        with pytest.raises(ValueError, match="`incoming_state` must come from a"):
            metric.merge_state({})
        with pytest.raises(ValueError, match="incoming state to be a dict or an instance of Metric"):
            metric.merge_state([])
        metric.update(*ragged(range(2)))
        metric.settings_digest = other.settings_digest
        with pytest.raises(ValueError, match=r"`state` must come from a .* of the same settings, got another"):
            metric.compute()

    def test_an_error_after_the_gathering_leaves_the_local_state_in_place(self, make, ragged):
        """Two processes with the same state, simulated by one."""
        metric = make(dist_sync_fn=lambda t, group: [t, t.clone()], distributed_available_fn=lambda: True)
        with pytest.raises(ValueError, match="got no samples"):
            metric.compute()
        metric.update(*ragged(range(4)))
        assert_same(metric.compute(), computed(make, ragged, [range(4), range(4)]))
        assert metric.n_samples == 4


@pytest.mark.parametrize("cls", [PostHocAccuracy, InsertionAUC, DeletionAUC])
def test_the_declared_direction_is_that_of_the_better_ranking(cls):
    """The ranking by true weights against its reverse, on an additive model."""
    weights = torch.tensor([4.0, 2.0, 1.0, 0.5])
    game = Game(lambda x: x @ weights - 3, torch.ones(1, 4), link="sigmoid")
    good, bad = cls(), cls()
    good.update(game, weights)
    bad.update(game, -weights)
    difference = good.compute()[cls._main[0]] - bad.compute()[cls._main[0]]
    assert difference != 0
    assert cls.higher_is_better == bool(difference > 0)


def test_metrics_do_not_import_lightning():
    code = "import sys; from bivshap_lightning.metrics import InsertionAUC; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert "torchmetrics" in loaded
    assert not loaded & {"lightning", "pytorch_lightning", "captum", "sklearn"}


class TestCollection:
    def test_all_metrics_take_the_same_graphs(self, ragged):
        classes = PostHocAccuracy, InsertionAUC, DeletionAUC, MutualRedundancyMasking, DirectionalRedundancy, RoleShares
        collection = MetricCollection([cls() for cls in classes])
        for samples in (range(4), range(4, 9)):
            game, graphs = ragged(samples)
            collection.update(game, ranking_or_graph=graphs)
        result = collection.compute()
        for name, metric in collection.items():
            for key, value in metric.compute().items():
                assert torch.equal(result[f"{name}_{key}"], value)
        assert all(isinstance(value, torch.Tensor) for value in result.values())
        collection.reset()
        with pytest.raises(ValueError, match="got no samples"):
            collection.compute()

    def test_metrics_with_equal_first_numbers_are_not_merged(self):
        """Insertion and deletion, two conventions, two thresholds: all alike on a constant game, then not."""
        makers = {
            "insertion": InsertionAUC,
            "deletion": DeletionAUC,
            "paper": lambda: DeletionAUC(convention="paper"),
            "personalized": lambda: InsertionAUC(personalized=True),
            "fine": MutualRedundancyMasking,
            "coarse": lambda: MutualRedundancyMasking(gamma=0.5),
            "seeded": lambda: MutualRedundancyMasking(seed=1),
            "sinks": DirectionalRedundancy,
            "coarse_sinks": lambda: DirectionalRedundancy(gamma=0.5),
            "roles": RoleShares,
            "coarse_roles": lambda: RoleShares(gamma=0.5),
            "scaled_roles": lambda: RoleShares(scale=0.5),
        }
        constant = Game(lambda x: 0 * x.sum(dim=1), torch.ones(2, 3), link="sigmoid")
        weights = torch.tensor([3.0, 2.0, -1.0])
        varied = Game(lambda x: x @ weights - 1, torch.ones(2, 3), link="sigmoid")
        alike = [ExplanationGraph(np.zeros((3, 3)), shapley=[0.1, 0.2, 0.3])] * 2
        chain = np.array([[0, 0.4, 1], [1, 0, 0.4], [0.3, 1, 0]])
        graphs = [ExplanationGraph(chain, shapley=[0.3, 0.2, 0.1]), ExplanationGraph(chain.T, shapley=[0.1, 0.2, 0.3])]
        collection = MetricCollection({name: make() for name, make in makers.items()})
        for batch in ((constant, alike), (varied, graphs)):
            collection.update(*batch)
        assert len(collection.compute_groups) == len(makers)
        result = collection.compute()
        for name, make in makers.items():
            alone = make()
            for batch in ((constant, alike), (varied, graphs)):
                alone.update(*batch)
            for key, value in alone.compute().items():
                assert torch.equal(result[f"{name}_{key}"], value), (name, key)

    def test_equal_metrics_share_one_update(self, ragged):
        collection = MetricCollection({"a": PostHocAccuracy(), "b": PostHocAccuracy()})
        collection.update(*ragged(range(4)))
        assert len(collection.compute_groups) == 1
        collection.update(*ragged(range(4, 9)))
        result = collection.compute()
        assert result["a_area"] == result["b_area"] == computed(PostHocAccuracy, ragged, [range(9)])["area"]
