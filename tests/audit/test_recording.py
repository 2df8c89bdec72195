"""From settings and results to the record: texts that tell settings apart, numbers by class, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.audit.record_arrays import verify_arrays
from bivshap_lightning.audit.recording import ClassNames, arrays_of, class_metrics, make_record, setting_text
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.game.players import Grid
from tests.callbacks.modules import Module, valid_loader
from tests.callbacks.test_bivshap_callback import trainer
from tests.records import P, record

COST = {"seconds": 1.0, "forwards": 10.0, "epochs": 0.5}


@pytest.fixture(scope="module")
def callback(tmp_path_factory) -> BivShapCallback:
    callback = BivShapCallback(
        n_samples=6, method="sampling", n_evaluations=40, gamma=0.01, panels=False, on_error="raise"
    )
    trainer(tmp_path_factory.mktemp("run"), callback).validate(Module(), valid_loader(), verbose=False)
    return callback


def made(callback, **changes) -> AuditRecord:
    settings = replace(callback.runner.resolved, **changes)
    return make_record(callback.result, settings, run={"stage": "test"}, cost=COST, class_names=ClassNames())


def test_records_in_memory_agree_with_their_arrays(callback):
    """What is verified when a file is read holds before it is written."""
    found = callback.record()
    verify_arrays(found)
    assert AuditRecord.from_fields(found.to_fields()) == found
    assert any(sample.n_undecided for sample in found.samples)


def test_the_configuration_tells_settings_apart(callback):
    def function(outputs):
        return outputs

    plain = made(callback).configuration
    assert (plain.link, plain.behavior, plain.target, plain.players) == (
        "auto",
        "probability",
        "predicted",
        "automatic",
    )
    assert made(callback, link="sigmoid").configuration.link == "sigmoid"
    assert made(callback, target=2).configuration.target == 2
    named = made(callback, behavior=function).configuration.behavior
    assert named.endswith("function")
    assert " at 0x" not in named
    rows = [made(callback, background=torch.full((1, 6), value)).configuration.removal for value in (0.0, 1.0)]
    assert rows[0] != rows[1]


def test_settings_in_words():
    assert setting_text(Grid(4)) == repr(Grid(4))
    assert setting_text((Grid(4), "x")) == f"{Grid(4)!r}, x"
    assert setting_text(torch.zeros(3)) != setting_text(torch.ones(3))
    assert setting_text(torch.zeros(3)) == setting_text(np.zeros(3, dtype=np.float32))


def test_numbers_that_the_catalogue_does_not_have_are_refused(callback):
    result = replace(callback.result, numbers={"mine": (1.0, 0.0)})
    with pytest.raises(ValueError, match=r"`numbers` must be in the catalogue of numbers, got \['mine'\]"):
        make_record(result, callback.settings, run={}, cost=COST, class_names=ClassNames())


def test_numbers_by_class():
    found = class_metrics(record(scores={"mine": range(20)}).samples)
    assert list(found) == ["cat", "dog"]
    assert found["dog"].n_samples == 10
    assert found["dog"].metrics["mine"].value == pytest.approx(14.5)
    assert found["cat"].metrics[f"{P}share_removable"].value == 0.25


def test_arrays_are_stacked_if_all_samples_have_as_many_players(callback):
    samples = callback.result.samples
    assert arrays_of(samples)["weights"].shape == (6, 6, 6)
    small = replace(samples[0], graph=type(samples[0].graph)([[0, 1], [1, 0]]))
    assert set(arrays_of([samples[0], small])) >= {"weights_0", "weights_1"}


def test_a_record_ranks_as_the_explanation_did(callback, tmp_path):
    path = made(callback).save(tmp_path / "audit.json")
    for sample, graph in zip(callback.result.samples, AuditRecord.load(path).sample_graphs, strict=True):
        assert (sample.graph.ranked_on, graph.ranked_on) == ("log_odds", "log_odds")
        np.testing.assert_allclose(graph.log_odds.weights, sample.graph.log_odds.weights, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(graph.log_odds.shapley, sample.graph.log_odds.shapley, rtol=1e-6, atol=1e-12)
        for method in ("keep", "remove"):
            assert graph.order(method).tolist() == sample.graph.order(method).tolist()


def test_arrays_of_log_odds_are_kept_of_each_sample_that_has_them_and_verified(callback):
    samples = callback.result.samples
    without = replace(samples[0], graph=type(samples[0].graph)(samples[0].graph.weights))
    kept = {name for name in arrays_of([without, *samples[1:]]) if name.startswith("log_odds_weights")}
    assert kept == {f"log_odds_weights_{k}" for k in range(1, len(samples))}
    found = made(callback)
    assert verify_arrays(found) is None
    for name, wrong in (("weights", np.zeros((6, 2, 2))), ("shapley", np.full((6, 6), np.nan)), ("weights", None)):
        arrays = {**found.arrays, f"log_odds_{name}": wrong}
        with pytest.raises(RecordError, match="arrays"):
            verify_arrays(replace(found, arrays={k: v for k, v in arrays.items() if v is not None}))
    only_weights = {k: v for k, v in found.arrays.items() if k != "log_odds_shapley"}
    with pytest.raises(RecordError, match="hold log_odds_shapley of sample 0"):
        verify_arrays(replace(found, arrays=only_weights))
