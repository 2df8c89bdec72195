"""Calibration: thresholds worked by hand, files that seal each other, real retrains, and refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tomllib
from scipy.stats import lognorm

from bivshap_lightning.gate import (
    STARTER,
    GateError,
    Reference,
    Rule,
    calibrate,
    judge,
    load_gate,
    load_rules,
    save_calibration,
)
from bivshap_lightning.gate.calibration import MULTIPLES, _estimated_multiple, _rounded_up
from bivshap_lightning.gate.profile import mean_profile, profile_of
from bivshap_lightning.gate.record_drift import ProfilePair, record_drift
from tests.gate.importance_records import importance_record, retrains, save
from tests.test_cli import call, refused


def test_thresholds_are_multiples_of_leave_one_out_distances():
    records = retrains(5)
    found = calibrate(records).reference.calibrated
    profiles = [profile_of(record) for record in records]
    for metric in ("drift/shares", "drift/rise", "drift/samples"):
        distances = [
            record_drift(metric, ProfilePair(profiles[k], mean_profile([p for p in profiles if p is not profiles[k]])))
            for k in range(5)
        ]
        assert found[metric].distances == pytest.approx(distances)
        threshold = MULTIPLES[metric] * np.mean(distances)
        assert threshold <= found[metric].threshold <= 1.001 * threshold
    assert (found["drift/ndcg"].threshold, found["drift/ndcg"].multiple) == (0.9, None)


def test_leave_one_out_by_hand():
    """Shares (.5, .5), (.5, .5) and (1, 0), with other samples' signs so that no two records are equal."""
    phi = [[1, 1, 0]], [[1, -1, 0]], [[2, 0, 0]]
    found = calibrate([importance_record(p, source=f"m{k}") for k, p in enumerate(phi)]).reference.calibrated
    near = np.sqrt(((np.sqrt(0.5) - np.sqrt(0.75)) ** 2 + (np.sqrt(0.5) - np.sqrt(0.25)) ** 2) / 2)
    far = np.sqrt(((1 - np.sqrt(0.5)) ** 2 + 0.5) / 2)
    assert found["drift/shares"].distances == pytest.approx([near, near, far], rel=1e-6)


def test_trusted_models_pass_and_a_leak_fails_naming_the_feature(tmp_path):
    paths = [save(record, tmp_path / f"m{k}.json") for k, record in enumerate(retrains(5))]
    code, output = call("calibrate", *paths, "-o", tmp_path / "gate.toml")
    assert code == 0, output
    assert output.count("\npassed  ") == 5
    assert "drift/shares: " in output
    assert sorted(p.name for p in tmp_path.glob("gate*")) == ["gate.reference.json", "gate.toml"]
    clean = save(retrains(6)[5], tmp_path / "clean.json")
    assert call("gate", clean, "--rules", tmp_path / "gate.toml")[0] == 0
    leaked = save(importance_record(np.full((8, 3), [0.02, 0.03, 0.95])), tmp_path / "leaked.json")
    code, output = call("gate", leaked, "--rules", tmp_path / "gate.toml")
    assert code == 1
    assert "job: place 3 before, first now, share .21 -> .95" in output
    assert "mean of 5 trusted records" in json.loads(
        call("gate", leaked, "--rules", tmp_path / "gate.toml", "--json")[1]
    )["against"]  # fmt: skip


def test_json_holds_the_same(tmp_path):
    paths = [save(record, tmp_path / f"m{k}.json") for k, record in enumerate(retrains(3))]
    code, output = call("calibrate", *paths, "-o", tmp_path / "deep" / "gate.toml", "--json")
    found = json.loads(output)
    assert code == 0
    assert [v["passed"] for v in found["verdicts"]] == [True] * 3
    assert any("3 records: with fewer than 5" in warning for warning in found["warnings"])
    assert len(found["calibrated"]["drift/shares"]["distances"]) == 3
    assert "with fewer than 5" in (tmp_path / "deep" / "gate.toml").read_text()


def test_files_are_read_back(tmp_path):
    calibration = calibrate(retrains(4))
    path, beside = save_calibration(calibration, tmp_path / "gate.toml")
    gate = load_gate(path)
    assert gate.rules == calibration.gate.rules == tuple(load_rules(path))
    assert gate.reference == calibration.reference
    assert Reference.load(beside) == calibration.reference
    assert gate.reference.calibrated["drift/shares"].distances == calibration.reference.calibrated[
        "drift/shares"
    ].distances  # fmt: skip


def changed(beside, **fields):
    content = json.loads(beside.read_text())
    beside.write_text(json.dumps(content | fields))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda path: changed(path, records=["other"]), "got one that was changed"),
        (lambda path: path.unlink(), r"`reference` must be a readable file.*\(No such file"),
        (lambda path: path.write_text("{"), "`reference` must be an intact JSON file"),
        (lambda path: path.write_text("[]"), "`reference` must be of kind 'bivshap_lightning.Reference', got 'list'"),
        (lambda path: changed(path, kind="other"), "`reference` must be of kind .*got 'other'"),
        (lambda path: changed(path, version=2), "`reference` must have version 1, got 2.*Upgrade"),
    ],
)
def test_references_that_were_changed_are_refused(tmp_path, change, match):
    paths = [save(record, tmp_path / f"m{k}.json") for k, record in enumerate(retrains(3))]
    rules, beside = save_calibration(calibrate(paths), tmp_path / "gate.toml")
    change(beside)
    with pytest.raises(GateError, match=match):
        load_gate(rules)
    assert refused(*call("gate", paths[0], "--rules", rules))


def test_references_that_contradict_themselves_are_refused(tmp_path):
    reference = calibrate(retrains(3)).reference
    sample = reference.samples[0]
    wrong = replace(reference, samples=(replace(sample, shapley=(1.0,)), *reference.samples[1:]))
    wrong.save(tmp_path / "a.json")
    with pytest.raises(GateError, match="must hold one value per player, got others for sample 0"):
        Reference.load(tmp_path / "a.json")
    content = {**reference.content, "records": 3}
    from bivshap_lightning.audit.record_files import checksum

    (tmp_path / "b.json").write_text(json.dumps({**content, "sha256": checksum(content)}))
    with pytest.raises(GateError, match=r"`reference` must be intact, got .*records must be a list, got 3"):
        Reference.load(tmp_path / "b.json")


def test_a_reference_of_other_rules_is_refused(tmp_path):
    rules, beside = save_calibration(calibrate(retrains(3)), tmp_path / "gate.toml")
    calibrate(retrains(3, seed=1)).reference.save(beside)
    with pytest.raises(GateError, match="got one that was changed"):
        load_gate(rules)
    text = rules.read_text().replace('reference = "gate.reference.json"', 'reference = "../gate.reference.json"')
    rules.write_text(text)
    with pytest.raises(GateError, match="`reference` must be the name of a file beside the rules"):
        load_gate(rules)


def test_changed_thresholds_are_refused(tmp_path):
    rules, _ = save_calibration(calibrate(retrains(3)), tmp_path / "gate.toml")
    rules.write_text(rules.read_text().replace("min = 0.9", "min = 0.1"))
    with pytest.raises(GateError, match="`sha256` must be the checksum of the rules"):
        load_gate(rules)


@pytest.mark.parametrize(
    ("records", "match"),
    [
        ([], "at least 3 records of trusted models, better 5, got 0"),
        (retrains(1), "at least 3 records of trusted models, better 5, got 1"),
        ([*retrains(2), retrains(1)[0]], "must be of different models, got equal values in model0 and model0"),
        ([*retrains(2), *retrains(1, seed=3, removal="baseline 0")], r"different removal \(previous 'background"),
        ([*retrains(2), *retrains(1, seed=3, target="predicted")], r"different target \(previous 'label', now 'pre"),
        ([*retrains(2), *retrains(1, seed=3, n_evaluations=9)], r"different n_evaluations \(previous None, now 9\)"),
        ([*retrains(2), *retrains(1, seed=3, n_samples=7)], "must explain the same samples, got 7 shared of 7 and 8"),
        ([*retrains(2), *retrains(1, seed=3, names=("a", "b", "c"))], "must have the same players in every sample"),
    ],
)  # fmt: skip
def test_records_that_cannot_be_calibrated(tmp_path, records, match):
    with pytest.raises(GateError, match=match):
        calibrate(records)
    paths = [save(record, tmp_path / f"m{k}.json") for k, record in enumerate(records)]
    assert refused(*call("calibrate", *paths, "-o", tmp_path / "gate.toml"))
    assert not (tmp_path / "gate.toml").exists()


def test_another_seed_of_the_audit_is_refused():
    records = retrains(3)
    other = replace(records[2], configuration=replace(records[2].configuration, seed=4))
    with pytest.raises(GateError, match=r"got different seed \(previous 0, now 4\)"):
        calibrate([*records[:2], other])
    calibration = calibrate(records)
    with pytest.raises(GateError, match=r"got different seed \(previous 0, now 4\)"):
        judge(other, calibration.gate)


def test_numbers_without_spread_are_left_out_or_refused():
    records = retrains(3)
    assert "drift/roles is left out: it does not vary between the trusted records" in calibrate(records).warnings
    # Shapley values that differ by a factor only: shares, directions and roles are the same.
    scaled = [importance_record(np.full((4, 3), 0.25) * 2.0**k, source=f"m{k}") for k in range(3)]
    with pytest.raises(GateError, match="must differ in what they find, got no spread in any of"):
        calibrate(scaled)


def test_predicted_classes_and_zero_replacement_are_warned_about():
    calibration = calibrate(retrains(5, target="predicted", removal="baseline 0"))
    assert "drift/samples" not in calibration.reference.calibrated
    assert any('drift/samples is left out: samples were explained for the predicted class' in w
               for w in calibration.warnings)  # fmt: skip
    assert any("absent columns were replaced by 0" in w for w in calibration.warnings)
    assert calibrate(retrains(5)).warnings == ("drift/roles is left out: it does not vary between the trusted records",)


def test_samples_without_common_features_are_calibrated_by_sample():
    records = [replace(record, classes={}) for record in retrains(5, spread=0.3)]
    found = calibrate(records)
    assert set(found.reference.calibrated) == {"drift/samples", "drift/roles"}
    assert found.reference.profile.has_features is False


VALUES = (0.7, 0.8, 0.9)


def test_validation_metrics_become_bands():
    records = [replace(r, validation_metrics={"acc": v, "same": 1.0}) for r, v in zip(retrains(3), VALUES, strict=True)]
    # Distances from the mean of the others: .15, 0, .15; three times their mean is .3.
    (rule,) = (r for r in calibrate(records).gate.rules if r.metric == "acc")
    assert (rule.severity, rule.min, rule.max) == ("warn", pytest.approx(0.5, abs=1e-3), pytest.approx(1.1, abs=1e-3))
    (rule,) = (r for r in calibrate(records, validation="fail").gate.rules if r.metric == "acc")
    assert rule.severity == "fail"
    with pytest.raises(GateError, match="`validation` must be 'fail' or 'warn', got 'no'"):
        calibrate(records, validation="no")


def test_with_ten_records_multiples_are_estimated():
    assert calibrate(retrains(9)).reference.calibrated["drift/shares"].multiple == 2.4
    assert calibrate(retrains(10)).reference.calibrated["drift/shares"].multiple != 2.4
    # Of many log-normal distances the bound is the 99 % quantile.
    distances = np.random.default_rng(0).lognormal(-3, 0.4, 20_000)
    bound = _estimated_multiple(distances) * distances.mean()
    assert bound == pytest.approx(lognorm.ppf(0.99, 0.4, scale=np.exp(-3)), rel=0.02)


@pytest.mark.parametrize(("value", "up"), [(0.123401, 0.1235), (12345.6, 12350), (0.0001, 0.0001)])
def test_thresholds_are_rounded_up(value, up):
    assert _rounded_up(value) == pytest.approx(up, rel=1e-12)


def test_starter_rules(tmp_path):
    code, output = call("calibrate", "--starter", "-o", tmp_path / "deep" / "gate.toml")
    assert code == 0
    assert "only gross leaks" in output
    assert (tmp_path / "deep" / "gate.toml").read_text() == STARTER
    assert json.loads(call("calibrate", "--starter", "-o", tmp_path / "gate.toml", "--json")[1])["rules"]
    (top,) = (rule for rule in load_rules(tmp_path / "gate.toml") if rule.severity == "fail")
    assert top == Rule(metric="top1_share", max=0.5, compare="point")
    assert judge(importance_record([[0.4, 0.3, 0.3]] * 3), [top]).passed
    assert not judge(importance_record([[0.8, 0.1, 0.1]] * 3), [top]).passed
    (lead,) = (rule for rule in load_rules(tmp_path / "gate.toml") if rule.metric == "top1_lead")
    assert lead.severity == "warn"
    assert [judge(importance_record([[first, 0.1, 0.1]] * 3), [lead]).results[0].status for first in (0.29, 0.31)] == [
        "pass",
        "warn",
    ]
    (alone,) = (rule for rule in load_rules(tmp_path / "gate.toml") if rule.metric == "top1_alone")
    assert (alone.severity, alone.max) == ("warn", 0.8)
    assert tomllib.loads(STARTER)
    assert refused(*call("calibrate", "record.json", "--starter", "-o", tmp_path / "gate.toml"))
    assert refused(*call("calibrate", "--starter", "-o", tmp_path))
    records = [save(record, tmp_path / f"m{k}.json") for k, record in enumerate(retrains(3))]
    assert refused(*call("calibrate", *records, "-o", tmp_path / "m0.json" / "gate.toml"))
