"""What changed since the audit before: logged numbers, the record, and the error of a change."""

import numpy as np
import pytest

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.views.explorer.payload import graph_bytes, subject_data
from tests.callbacks.modules import Module, train_loader, valid_loader
from tests.callbacks.test_bivshap_callback import SOME, trainer


def fitted(folder, n_epochs=2, **arguments) -> tuple[BivShapCallback, list[AuditRecord]]:
    # A fixed class: samples whose predicted class changes could not be compared.
    callback = BivShapCallback(**SOME | {"target": 0} | arguments)
    trainer(folder, callback, max_epochs=n_epochs).fit(Module(), train_loader(), valid_loader())
    paths = sorted((folder / "bivshap").glob("validate*.json"))
    return callback, [AuditRecord.load(path) for path in paths]


def test_exact_audits_change_exactly_and_the_numbers_follow_from_the_records(tmp_path):
    callback, (first, second) = fitted(tmp_path, method="exact")
    assert first.change is None
    assert all(sample.change is None for sample in first.samples)
    assert "bivshap/change/importance" not in callback.history[0]["numbers"]
    shares = []
    for sample, old, new in zip(second.samples, first.sample_graphs, second.sample_graphs, strict=True):
        np.testing.assert_allclose(sample.change.shapley, new.shapley - old.shapley, atol=1e-6)
        assert not any(sample.change.standard_error)
        shares.append(np.abs(new.shapley - old.shapley).sum() / np.abs(new.shapley).sum())
    logged = callback.history[1]["numbers"]
    assert logged["bivshap/change/importance"] == pytest.approx(np.mean(shares), rel=1e-4)
    assert logged["bivshap/change/importance"] > 0
    assert logged["bivshap/change/standard_error"] == 0
    assert second.metrics["bivshap/change/importance"].value == logged["bivshap/change/importance"]


def test_changes_of_numbers_are_paired_over_samples(tmp_path):
    _, (first, second) = fitted(tmp_path, method="exact")
    assert (second.change.epoch, second.change.step) == (first.run.epoch, first.run.step)
    tag = "bivshap/insertion_auc/ours"
    changes = np.array([b.scores[tag] - a.scores[tag] for a, b in zip(first.samples, second.samples, strict=True)])
    found = second.change.metrics[tag]
    assert found.value == pytest.approx(changes.mean())
    assert found.value == pytest.approx(second.metrics[tag].value - first.metrics[tag].value, abs=1e-6)
    assert found.standard_error == pytest.approx(changes.std(ddof=1) / len(changes) ** 0.5)


def test_estimated_changes_have_smaller_errors_than_independent_audits(tmp_path):
    callback, (first, second) = fitted(tmp_path, method="sampling", n_evaluations=40)
    errors = np.array([sample.change.standard_error for sample in second.samples])
    independent = np.hypot(*(record.arrays["shapley_standard_error"] for record in (first, second)))
    assert 0 < errors.mean() < independent.mean()
    assert callback.history[1]["numbers"]["bivshap/change/standard_error"] > 0


def test_another_explained_class_leaves_the_change_of_a_sample_unknown(tmp_path):
    callback, (first, second) = fitted(tmp_path, n_epochs=2, target=None, method="exact")
    for old, new in zip(first.samples, second.samples, strict=True):
        assert (new.change is None) == (old.target != new.target)
    assert ("bivshap/change/importance" in callback.history[1]["numbers"]) == any(s.change for s in second.samples)


def test_a_resumed_run_begins_without_a_change(tmp_path):
    callback, _ = fitted(tmp_path, method="exact")
    resumed = BivShapCallback(**SOME | {"target": 0, "method": "exact"})
    resumed.load_state_dict(callback.state_dict())
    trainer(tmp_path / "resumed", resumed, max_epochs=1).fit(Module(), train_loader(), valid_loader())
    assert "bivshap/change/importance" not in resumed.history[-1]["numbers"]
    assert resumed.result.change is None


def test_the_explorer_is_given_the_change_with_its_error(tmp_path):
    _, (first, second) = fitted(tmp_path, method="sampling", n_evaluations=40)
    found = subject_data(second, ("sample", "0")).change
    (before, now) = (record.sample_graphs[0].shapley for record in (first, second))
    np.testing.assert_allclose(found.values, np.abs(now) - np.abs(before), atol=1e-6)
    assert found.errors.tolist() == list(second.samples[0].change.standard_error)
    name = second.samples[0].class_name
    members = [k for k, sample in enumerate(second.samples) if sample.class_name == name]
    data = subject_data(second, ("class", name))
    errors = [second.samples[k].change.standard_error for k in members]
    np.testing.assert_allclose(data.change.errors, np.mean(errors, axis=0))
    assert f'"changed_since": {first.run.step}'.encode() in graph_bytes(data)
    assert subject_data(first, ("class", name)).change is None
    assert b'"changed_since": null' in graph_bytes(subject_data(first, ("class", name)))
