"""The catalogue of numbers: everything that is logged is in it, and everything in it is computed."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import pytorch_lightning as pl

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback, RedundancyGate
from bivshap_lightning.gate import Rule, judge, measure
from bivshap_lightning.metrics import catalogue
from bivshap_lightning.metrics.catalogue import (
    CATALOGUE,
    catalogue_table,
    estimate_over,
    find_number,
    interval_of,
    numbers_of,
    ranking_numbers,
    sample_parts,
)
from bivshap_lightning.metrics.number import EXPLAINER, Number
from bivshap_lightning.metrics.sample_metric import SampleMetric
from tests.callbacks.modules import Module, valid_loader
from tests.records import P, record

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[set[str], BivShapCallback, AuditRecord]:
    """What a real validation logs, the callback, and the record on disk."""
    folder = tmp_path_factory.mktemp("run")
    callback = BivShapCallback(n_samples=6, panels=False, on_error="raise")
    gate = RedundancyGate([Rule(metric=f"{P}density", max=1)])
    trainer = pl.Trainer(
        default_root_dir=folder, callbacks=[callback, gate], accelerator="cpu", logger=False,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    module = Module()
    for _ in range(2):  # the second audit also logs what changed
        trainer.validate(module, valid_loader(), verbose=False)
    (path,) = (folder / "bivshap").glob("*.json")
    return {tag for tag in trainer.callback_metrics if tag.startswith("bivshap/")}, callback, AuditRecord.load(path)


@pytest.fixture(scope="module")
def regression(tmp_path_factory) -> set[str]:
    """What a real validation of a regression logs."""
    folder = tmp_path_factory.mktemp("regression")
    callback = BivShapCallback(n_samples=6, panels=False, on_error="raise", task="regression", target=0)
    trainer = pl.Trainer(
        default_root_dir=folder, callbacks=[callback], accelerator="cpu", logger=False,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    module = Module()
    for _ in range(2):  # the second audit also logs what changed
        trainer.validate(module, valid_loader(), verbose=False)
    return {tag for tag in trainer.callback_metrics if tag.startswith("bivshap/")}


def test_every_task_logs_what_applies_to_it(run, regression):
    for logged, task in ((run[0], "multiclass"), (regression, "regression")):
        entries = {find_number(tag) for tag in logged}
        assert None not in entries
        wanted = {n for n in CATALOGUE if n.scope == "samples" and n.applies_to(task)}
        assert {n for n in entries if n.scope == "samples"} == wanted


def test_every_logged_number_is_in_the_catalogue(run):
    logged, callback, found = run
    assert {tag for tag in logged if find_number(tag) is None} == set()
    assert set(found.metrics) == set(callback.result.numbers) <= logged


def test_every_number_of_the_catalogue_is_computed(run, regression):
    """Logged, or asked of a record by a rule."""
    logged, _, found = run
    computed = {find_number(tag) for tag in logged | regression}
    for number in numbers_of("class graph"):
        for name in found.classes:
            assert number.contains(measure(found, number.tag, class_name=name).value)
        computed.add(number)
    drifts = [*numbers_of("drift"), *numbers_of("record drift")]
    unchanged = [float(number.direction == "higher") for number in drifts]
    verdict = judge(found, [Rule(metric=number.tag, min=-1) for number in drifts], found)
    assert [result.check.value for result in verdict.results] == pytest.approx(unchanged, abs=1e-12)
    computed |= {find_number(result.rule.metric) for result in verdict.results}
    of_records = [*numbers_of("record"), *numbers_of("feature")]
    for number in of_records:
        feature = found.samples[0].players[0] if number.scope == "feature" else None
        interval = measure(found, number.tag, feature=feature)
        assert number.contains(interval.value)
        assert interval.lower <= interval.value <= interval.upper
    computed |= set(of_records)
    assert [number.tag for number in CATALOGUE if number not in computed] == []


def test_recorded_numbers_lie_in_their_ranges_and_intervals(run):
    _, _, found = run
    for tag, estimate in found.metrics.items():
        assert find_number(tag).contains(estimate.value), tag
        interval = measure(found, tag)
        assert interval.lower <= interval.value <= interval.upper, tag


def test_tags_are_distinct_and_found():
    tags = [number.tag for number in CATALOGUE]
    assert len(set(tags)) == len(tags)
    for number in CATALOGUE:
        assert find_number(number.tag_of("kernel_shap")) is number
    assert find_number("bivshap/insertion_auc/") is None
    assert find_number("density") is None
    both = ranking_numbers() + ranking_numbers("regression")
    assert {number.tag for number in both} == {tag for tag in tags if EXPLAINER in tag}


def test_ranking_numbers_name_their_metric():
    for number in ranking_numbers() + ranking_numbers("regression"):
        assert issubclass(number.metric_class(), SampleMetric)
        # The share that is kept is the second number of its metric, with the opposite direction of the error.
        is_second = number.key == "share_kept"
        assert number.metric_class().higher_is_better is ((number.direction == "higher") is not is_second)
    with pytest.raises(ValueError, match=r"`metric` must be an import path, module:Class, got None for bivshap/failed"):
        find_number("bivshap/failed").metric_class()


def test_intervals_follow_the_entries():
    z = 1.645
    assert interval_of(f"{P}mask_sinks_accuracy", 1.0, 0.0, n=20, z=z).lower == pytest.approx(20 / (20 + z * z))
    both = [interval_of("bivshap/post_hoc_accuracy/ours", 0.5, error, n=20, z=z).lower for error in (0.0, 0.1)]
    assert both == pytest.approx([0.5 - z * math.sqrt(0.25 / 20 / (1 + z * z / 20)), 0.5 - 0.1 * z])
    assert interval_of(f"{P}density", 0.1, 0.1, n=20, z=z).lower == 0
    assert interval_of("bivshap/estimate/standard_error", 0.1, 0.0, n=1, z=z).upper == 0.1
    assert interval_of("mine", 0.1, 0.1, n=1, z=z).upper is None


def test_what_samples_contribute():
    cat, dog = record(scores={"mine": range(20)}).samples[0], record().samples[-1]
    assert sample_parts(f"{P}share_removable", cat) == (1, 4)
    assert sample_parts("mine", cat) == (0, 1)
    assert sample_parts("mine", dog) is None
    assert estimate_over("mine", [cat, dog]) is None
    assert estimate_over(f"{P}n_independent", [cat, dog]) == pytest.approx((3.5, 0.5 / math.sqrt(2)))


def test_entries_with_unknown_intervals_are_refused():
    with pytest.raises(ValueError, match=r"`interval` must be one of \['wilson'.*got 'bootstrap'"):
        replace(CATALOGUE[0], interval="bootstrap")


def test_the_manual_holds_the_table():
    assert (ROOT / "docs" / "numbers.md").read_text(encoding="utf-8") == catalogue_table(), (
        "write docs/numbers.md again: python -c 'from bivshap_lightning.metrics.catalogue import catalogue_table; "
        "print(catalogue_table(), end=str())' > docs/numbers.md"
    )


def test_the_catalogue_needs_no_torch():
    imports = "bivshap_lightning.metrics.catalogue, bivshap_lightning.audit.record"
    code = f"import sys, {imports}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False, cwd=ROOT).returncode == 0


def test_a_new_number_is_one_entry(monkeypatch, tmp_path):
    """A metric of one's own, computed for every explainer, logged, recorded, gated and shown."""
    from bivshap_lightning.views.html import render_page

    entry = Number(
        tag="bivshap/half_auc/{explainer}", title="half", formula="insertion AUC / 2", direction="higher",
        range=(-math.inf, math.inf), interval="normal", meaning="half of the insertion AUC <here>",
        metric="tests.metrics.half_auc:HalfAUC", key="auc",
    )  # fmt: skip
    monkeypatch.setattr(catalogue, "CATALOGUE", [*CATALOGUE, entry])
    callback = BivShapCallback(n_samples=4, panels=False, on_error="raise")
    trainer = pl.Trainer(
        default_root_dir=tmp_path, callbacks=[callback], accelerator="cpu", logger=False, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    trainer.validate(Module(), valid_loader(), verbose=False)
    (path,) = (tmp_path / "bivshap").glob("*.json")
    found = AuditRecord.load(path)
    for explainer in found.curves:
        whole, half = (found.metrics[f"bivshap/{name}/{explainer}"].value for name in ("insertion_auc", "half_auc"))
        assert half == pytest.approx(whole / 2)
        assert trainer.callback_metrics[f"bivshap/half_auc/{explainer}"] == pytest.approx(half)
    assert judge(path, [Rule(metric="bivshap/half_auc/ours", class_name="1", max=1)]).passed
    assert "half of the insertion AUC &lt;here&gt;" in render_page(found)
