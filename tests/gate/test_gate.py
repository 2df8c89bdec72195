"""Verdicts over hand-made records whose numbers are known, and refusals of everything that cannot be judged."""

import json
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning.gate import GateError, Interval, Rule, Verdict, assert_gate, judge, load_rules, measure
from bivshap_lightning.gate.thresholds import THRESHOLDS, Threshold
from tests.records import C, P, fields, graph, record, true_fields, write

Z = NormalDist().inv_cdf(0.95)


def result_of(rule: Rule, new=None, against=None):
    (found,) = judge(record() if new is None else new, [rule], against).results
    return found


def wilson_lower(p: float, n: int) -> float:
    """The root of (p - x)^2 = z^2 x (1 - x) / n below p, by bisection: the interval's definition."""
    low, high = 0.0, p
    for _ in range(200):
        x = (low + high) / 2
        low, high = (x, high) if (p - x) ** 2 > Z * Z * x * (1 - x) / n else (low, x)
    return low


@pytest.mark.parametrize(("p", "n"), [(1.0, 20), (0.9, 20), (0.0, 20), (1.0, 1), (0.5, 2)])
def test_shares_of_samples_get_wilsons_interval(p, n):
    name = f"{P}accuracy_with_representatives"
    new = record([("cat", graph())] * n, {name: (p, math.sqrt(p * (1 - p) / n))})
    interval = measure(new, name)
    assert interval.lower == pytest.approx(wilson_lower(p, n), abs=1e-9)
    assert interval.upper == pytest.approx(1 - wilson_lower(1 - p, n), abs=1e-9)


@pytest.mark.parametrize(
    ("metric", "value", "error"),
    [
        ("bivshap/insertion_auc/ours", 0.5, 0.1),
        ("bivshap/post_hoc_accuracy/ours", 0.8, 0.05),
        (f"{P}density", 0.1, 0.1 / math.sqrt(20)),
        # Half of the samples lose one player of four, half none: 1/8 +- sd(0, 1/4) / sqrt(20), and 3.5 +- likewise.
        (f"{P}share_removable", 0.125, 0.125 / math.sqrt(20)),
        (f"{P}n_independent", 3.5, 0.5 / math.sqrt(20)),
        ("bivshap/estimate/standard_error", 0.01, 0.0),
    ],
)
def test_other_numbers_get_normal_intervals(metric, value, error):
    interval = measure(record(), metric)
    assert interval.value == pytest.approx(value)
    assert interval.lower == pytest.approx(value - Z * error)
    assert interval.upper == pytest.approx(value + Z * error)


def test_ratios_have_the_standard_error_of_resampling():
    """Against the bootstrap: groups of different sizes, samples of different numbers of players."""
    import numpy as np

    rng = np.random.default_rng(0)
    kinds = [
        graph(("a", "b"), ("c", "d"), players="abcd"), graph(("a", "b", "c"), players="abcdefg"), graph(players="abc"),
    ]  # fmt: skip
    removable, players = np.array([2, 2, 0]), np.array([4, 7, 3])
    picks = rng.integers(3, size=200)
    interval = measure(record([("cat", kinds[k]) for k in picks], {}), f"{P}share_removable")
    draws = rng.choice(picks, size=(4000, 200))
    ratios = removable[draws].sum(1) / players[draws].sum(1)
    assert interval.value == pytest.approx(removable[picks].sum() / players[picks].sum())
    assert (interval.upper - interval.value) / Z == pytest.approx(ratios.std(), rel=0.05)


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        # 20 of 20: lower bound 20 / (20 + z^2) = 0.8808.
        ({"metric": f"{P}accuracy_with_representatives", "min": 0.88}, "pass"),
        ({"metric": f"{P}accuracy_with_representatives", "min": 0.89}, "fail"),
        ({"metric": f"{P}accuracy_with_representatives", "min": 0.89, "severity": "warn"}, "warn"),
        ({"metric": f"{P}accuracy_with_representatives", "min": 1.0, "compare": "point"}, "pass"),
        ({"metric": f"{P}accuracy_with_representatives", "min": 0.89, "confidence": 0.9}, "pass"),
        ({"metric": "bivshap/insertion_auc/ours", "max": 0.5, "compare": "point"}, "pass"),
        ({"metric": "bivshap/insertion_auc/ours", "max": 0.4999, "compare": "point"}, "fail"),
        ({"metric": "bivshap/insertion_auc/ours", "max": 0.5 + Z * 0.1}, "pass"),
        ({"metric": "bivshap/insertion_auc/ours", "max": 0.5 + Z * 0.1 - 1e-6}, "fail"),
        ({"metric": "bivshap/insertion_auc/ours", "min": 0.5 - Z * 0.1, "max": 0.9}, "pass"),
        ({"metric": "bivshap/insertion_auc/ours", "min": 0.1, "max": 0.5}, "fail"),
        # Shares cannot be negative, whatever the normal approximation says.
        ({"metric": f"{P}density", "class_name": "dog", "min": 0.0}, "pass"),
        ({"metric": f"{P}density", "class_name": "cat", "max": 0.2}, "pass"),
        ({"metric": f"{P}density", "class_name": "dog", "min": 0.01}, "fail"),
        # Class graphs: of 12 pairs, 3 of "cat" and 6 of "dog" are redundant; 3 more of "cat" may be.
        ({"metric": f"{C}density", "class_name": "cat", "max": 0.5}, "pass"),
        ({"metric": f"{C}density", "class_name": "cat", "max": 0.49}, "fail"),
        ({"metric": f"{C}density", "class_name": "cat", "max": 0.25, "compare": "point"}, "pass"),
        ({"metric": f"{C}density", "max": 0.5}, "pass"),
        ({"metric": f"{C}density", "max": 0.4, "compare": "point"}, "fail"),
        ({"metric": f"{C}n_undecided", "class_name": "cat", "max": 3}, "pass"),
        ({"metric": f"{C}n_undecided", "max": 2}, "fail"),
        ({"metric": f"{C}n_independent", "class_name": "cat", "max": 3}, "pass"),
        ({"metric": f"{C}n_independent", "class_name": "cat", "min": 3}, "fail"),
        ({"metric": f"{C}n_independent", "class_name": "cat", "min": 3, "compare": "point"}, "pass"),
        ({"metric": f"{C}n_independent", "class_name": "dog", "min": 4}, "pass"),
        ({"metric": f"{C}share_removable", "class_name": "cat", "min": 0.25}, "pass"),
        ({"metric": f"{C}share_removable", "class_name": "cat", "max": 0.25}, "fail"),
        ({"metric": f"{C}share_removable", "class_name": "cat", "max": 0.75}, "pass"),
    ],
)
def test_known_verdicts(rule, status):
    rule = Rule(**rule)
    assert result_of(rule).status == status
    verdict = judge(record(), [rule])
    assert verdict.passed is (status != "fail")
    assert bool(verdict.reason) is (status != "pass")


def test_inconclusive_is_told_from_broken():
    undecided = result_of(Rule(metric="bivshap/insertion_auc/ours", min=0.45))
    assert undecided.inconclusive
    assert "inconclusive, the value meets it but its bound does not (more samples may decide)" in undecided.reason
    assert not result_of(Rule(metric="bivshap/insertion_auc/ours", min=0.55)).inconclusive
    single = record([("cat", graph())], {"bivshap/insertion_auc/ours": (0.9, 0.0)})
    assert result_of(Rule(metric="bivshap/insertion_auc/ours", min=0.1), single).inconclusive
    assert result_of(Rule(metric="bivshap/insertion_auc/ours", min=0.1, compare="point"), single).status == "pass"


def test_the_worst_class_decides_and_is_named():
    found = result_of(Rule(metric=f"{C}density", max=0.4, compare="point"))
    assert (found.check.class_name, found.check.value) == ("dog", 0.5)
    assert "of class dog is 0.5" in found.reason


def test_of_several_classes_that_fail_the_worst_is_named():
    classes = {name: graph(density=d) for name, d in {"ant": 0.5, "bee": 0.75, "cat": 0.25}.items()}
    new = record([(name, graph()) for name in classes], {}, classes)
    for rule, worst in (({"max": 0.4}, "bee"), ({"max": 0.9}, "bee"), ({"min": 0.6}, "cat")):
        assert result_of(Rule(metric=f"{C}density", **rule), new).check.class_name == worst


def test_worst_samples_and_groups_are_named():
    found = result_of(Rule(metric=f"{P}share_removable", max=0.01))
    assert found.evidence[0] == "worst: sample 0 (class cat): 0.25"
    assert found.evidence[-1] == "group: a = b (10 of 20 samples)"
    lowest = result_of(Rule(metric=f"{P}n_independent", min=4))
    assert lowest.evidence[0] == "worst: sample 0 (class cat): 3"


def auc(value, error=0.0, **configuration):
    return record(metrics={"bivshap/insertion_auc/ours": (value, error)}, **configuration)


@pytest.mark.parametrize(
    ("threshold", "now", "before", "status"),
    [
        ({"min_absolute_change": -0.05}, (0.85, 0), (0.9, 0), "pass"),
        ({"min_absolute_change": -0.05}, (0.84, 0), (0.9, 0), "fail"),
        ({"max_absolute_change": 0.1}, (0.6, 0), (0.5, 0), "pass"),
        ({"max_absolute_change": 0.1}, (0.61, 0), (0.5, 0), "fail"),
        ({"min_relative_change": -0.1}, (0.45, 0), (0.5, 0), "pass"),
        ({"min_relative_change": -0.1}, (0.44, 0), (0.5, 0), "fail"),
        ({"max_relative_change": 0.1}, (-0.46, 0), (-0.5, 0), "pass"),
        ({"max_relative_change": 0.1}, (-0.44, 0), (-0.5, 0), "fail"),
        # Independent errors add up in squares: 3, 4, 5.
        ({"min_absolute_change": -5 * Z / 100}, (0.5, 0.03), (0.5, 0.04), "pass"),
        ({"min_absolute_change": -4.99 * Z / 100}, (0.5, 0.03), (0.5, 0.04), "fail"),
        ({"max_relative_change": 10 * Z / 100}, (0.5, 0.03), (0.5, 0.04), "pass"),
        ({"max_relative_change": 9.99 * Z / 100}, (0.5, 0.03), (0.5, 0.04), "fail"),
        ({"max_relative_change": 0.0, "compare": "point"}, (0.5, 0.03), (0.5, 0.04), "pass"),
        # There is no relative change from nothing to something.
        ({"max_relative_change": 9.0, "compare": "point"}, (0.5, 0), (0.0, 0), "fail"),
        ({"max_relative_change": 0.0, "compare": "point"}, (0.0, 0), (0.0, 0), "pass"),
        ({"max_relative_change": 9.0}, (0.0, 0.1), (0.0, 0.1), "fail"),
    ],
)
def test_changes(threshold, now, before, status):
    rule = Rule(metric="bivshap/insertion_auc/ours", **threshold)
    found = result_of(rule, auc(*now), auc(*before))
    assert found.status == status
    assert found.check.previous == before[0]
    assert f"(previous {before[0]:.4g})" in found.reason


def test_groups_that_came_and_went_are_named():
    old = record([("cat", graph(("c", "d")))] * 20, {})
    found = result_of(Rule(metric=f"{P}density", max_absolute_change=0.01), against=old)
    assert found.evidence[-2:] == ("new group: a = b (10 of 20 samples)", "lost group: c = d (20 of 20 samples)")


def test_changes_of_shares_follow_newcombe():
    """Newcombe 1998, table II, method 10: 56/70 against 48/80 gives (0.0524, 0.3339) at 95%, two-sided."""
    name = f"{P}mask_sinks_accuracy"
    new, old = (record([("cat", graph())] * n, {name: (k / n, 0.0)}) for k, n in ((56, 70), (48, 80)))
    rules = [Rule(metric=name, confidence=0.975, **t) for t in ({"min_absolute_change": 0}, {"max_absolute_change": 1})]
    low, high = (o.check.bound for o in judge(new, rules, old).results)
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("players", "Grid"),
        ("removal", "mean"),
        ("behavior", "logit"),
        ("link", "sigmoid"),
        ("gamma", 1e-4),
        ("target", "label"),
        ("target", 1),
    ],
)
def test_records_of_different_meaning_are_not_compared(field, value):
    with pytest.raises(GateError, match=f"(?s)must agree in what they measure, got different {field}.*{value}"):
        judge(record(), [Rule(metric=f"{P}density", max=1)], record(**{field: value}))


@pytest.mark.parametrize(
    ("rule", "match"),
    [
        ({"metric": f"{P}densty", "max": 1}, f"got '{P}densty'. Did you mean '{P}density'\\?$"),
        ({"metric": "speed", "max": 1}, "got 'speed'. There are: .*insertion_auc.*: drift/weights, drift/redundancy"),
        ({"metric": "bivshap/insertion_auc/ours", "class_name": "cat", "max": 1}, "recorded for class 'cat'"),
        ({"metric": "drift/weight", "max": 1}, "Did you mean 'drift/weights'"),
        ({"metric": "drift/weights", "max": 1}, "needs a previous record, got none. Pass `against`"),
        (
            {"metric": f"{P}density", "class_name": "cow", "max": 1},
            "one that has samples, got 'cow'. There are: cat, dog",
        ),
        (
            {"metric": f"{C}density", "class_name": "cow", "max": 1},
            "one that has a graph, got 'cow'. There are: cat, dog",
        ),
        ({"metric": f"{P}density", "max_absolute_change": 1}, "needs a previous record, got none. Pass `against`"),
    ],
)
def test_rules_that_the_record_cannot_answer(rule, match):
    with pytest.raises(GateError, match=match):
        judge(record(), [Rule(**rule)])


def test_class_graphs_may_be_missing():
    with pytest.raises(GateError, match="needs class graphs, got none"):
        judge(record(classes={}), [Rule(metric=f"{C}density", max=1)])


def test_only_records_and_paths_are_judged():
    with pytest.raises(TypeError, match="`record` must be an AuditRecord or the path of one, got dict"):
        judge(fields(), [Rule(metric=f"{P}density", max=1)])


REPRESENTATIVES = f"{P}accuracy_with_representatives"


def test_accuracies_of_a_class_are_those_of_its_samples():
    """Cats: 9 of 10 right; dogs: 5 of 10."""
    right = [1.0] * 9 + [0.0] + [1.0, 0.0] * 5
    new = record(metrics={REPRESENTATIVES: (0.7, math.sqrt(0.7 * 0.3 / 20))}, scores={REPRESENTATIVES: right})
    for name, p in {"cat": 0.9, "dog": 0.5}.items():
        interval = measure(new, REPRESENTATIVES, class_name=name)
        assert interval.value == pytest.approx(p)
        assert interval.lower == pytest.approx(wilson_lower(p, 10))
    found = result_of(Rule(metric=REPRESENTATIVES, class_name="dog", min=0.6), new)
    assert found.status == "fail"
    assert found.evidence[0] == "worst: sample 11 (class dog): 0"
    assert result_of(Rule(metric=REPRESENTATIVES, class_name="cat", min=0.6), new).status == "pass"
    assert result_of(Rule(metric=REPRESENTATIVES, min=0.5), new).status == "pass"


def test_areas_of_a_class_have_the_standard_error_of_its_samples():
    name, areas = "bivshap/post_hoc_accuracy/ours", [k / 20 for k in range(20)]
    interval = measure(record(metrics={name: (0.475, 0.1)}, scores={name: areas}), name, class_name="cat")
    error = math.sqrt((10**2 - 1) / 12 / 20**2 / 10)  # of 0, 0.05, ..., 0.45: a discrete uniform distribution
    assert interval.value == pytest.approx(0.225)
    assert interval.upper == pytest.approx(0.225 + Z * error)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"metric": ""}, "`metric` must be a name"),
        ({"metric": "m", "class_name": 3, "max": 1}, "`class` must be a name, got 3"),
        ({"metric": "m"}, "at least one of"),
        ({"metric": "m", "min": 2, "max": 1}, "`min` must not exceed `max`"),
        ({"metric": "m", "min_absolute_change": 0, "max_absolute_change": -1}, "`min_absolute_change` must not exceed"),
        ({"metric": "m", "min_relative_change": 0, "max_relative_change": -1}, "`min_relative_change` must not exceed"),
        ({"metric": "m", "min": math.nan}, "`min` must be a finite number, got nan"),
        ({"metric": "m", "max": math.inf}, "`max` must be a finite number"),
        ({"metric": "m", "max": True}, "`max` must be a finite number"),
        ({"metric": "m", "max": "1"}, "`max` must be a finite number"),
        ({"metric": "m", "max": 10**400}, "`max` must be a finite number"),
        ({"metric": "m", "max": 1, "severity": "fatal"}, "`severity` must be one of"),
        ({"metric": "m", "max": 1, "compare": "mean"}, "`compare` must be one of"),
        ({"metric": "m", "max": 1, "confidence": 1.0}, r"`confidence` must lie in \[0.5, 1\), got 1"),
        ({"metric": "m", "max": 1, "confidence": "high"}, "`confidence` must be a finite number"),
        ({"metric": "drift/ranking", "max_relative_change": 1}, "must have `max` or `min`, got .*is a change already"),
    ],
)
def test_bad_rules_are_refused(arguments, match):
    with pytest.raises(GateError, match=match):
        Rule(**arguments)


RULE = '[[rule]]\nmetric = "class_graph/density"\n'


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "at least one"),
        ("rule = 3", "at least one"),
        ("rule = [3]", "at least one"),
        ("version = 2\n" + RULE + "max = 1", "must have version 1, got 2.*Upgrade"),
        ("version = true\n" + RULE + "max = 1", "must have version 1, got True"),
        ("limit = 2\n" + RULE + "max = 1", r"tables, `version`, `sha256` and `reference` only, got \['limit'\]"),
        (
            'sha256 = "ab"\n' + RULE + "max = 1",
            "must be the checksum of the rules, got 'ab' in .* set sha256 = \"[0-9a-f]{64}",
        ),
        ("sha256 = true\n" + RULE + "max = 1", "must be the checksum of the rules, got True"),
        (RULE, "Rule 1 of .*at least one of"),
        (RULE + "max = 1\n" + RULE + "maximum = 1", r"Rule 2 of .*got \['maximum'\]"),
        ("[[rule]]\nmax = 1", "must name its `metric`"),
        (RULE + "max = nan", "finite number, got nan"),
        ("[[rule]\n", "must be a TOML file"),
    ],
)
def test_rules_files_that_cannot_be_read(tmp_path, text, match):
    path = tmp_path / "gate.toml"
    path.write_text(text)
    with pytest.raises(GateError, match=match):
        load_rules(path)


def test_rules_files(tmp_path):
    path = tmp_path / "gate.toml"
    path.write_text('version = 1\n[[rule]]\nmetric = "m"\nclass = "cat"\nmin = 1\nseverity = "warn"\nconfidence = 0.9')
    assert load_rules(path) == [Rule(metric="m", class_name="cat", min=1, severity="warn", confidence=0.9)]
    with pytest.raises(GateError, match=r"must be a readable file, got .*No such file"):
        load_rules(tmp_path / "none.toml")
    with pytest.raises(GateError, match="must be a path or at least one Rule"):
        judge(record(), [])


def test_rules_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    for name, match in (("pipe.toml", r"regular file, got .* \(a device, pipe or socket\)"),
                        ("zero.toml", "regular file"), ("", r"readable file, got .* \(a folder\)")):  # fmt: skip
        with pytest.raises(GateError, match=f"`rules` must be a.*{match}"):
            load_rules(tmp_path / name)
    (tmp_path / "long.toml").write_text("#" * (2**20 + 1))
    with pytest.raises(GateError, match="`rules` must have at most 1,048,576 bytes, got 1,048,577"):
        load_rules(tmp_path / "long.toml")


HOSTILE = (
    "a|b</code><script>alert(1)</script> `x` **y** [z](http://e.vil) @user #1 \x1b[31m \ud800 \uffff \u202e\n| ]]>"
)


def hostile() -> Verdict:
    players = (HOSTILE, "b")
    samples = [(HOSTILE, graph(players, players=players, density=1.0))] * 3
    new = record(samples, {}, {HOSTILE: graph(players, players=players, density=1.0)})
    new = replace(new, run=replace(new.run, stage=HOSTILE))
    rules = [
        Rule(metric=f"{C}density", max=0.1),
        Rule(metric=f"{P}density", class_name=HOSTILE, max=0.1, severity="warn"),
    ]
    return judge(new, rules, new)


def test_junit_has_one_case_per_rule_and_says_why():
    verdict = judge(record(), [Rule(metric=f"{P}density", max=v, severity=s) for v, s in ((1, "fail"), (0.01, "fail"))])
    suite = ET.fromstring(verdict.to_junit()).find("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    good, bad = suite.findall("testcase")
    assert good.find("failure") is None
    assert good.get("name") == f"{P}density: max 1"
    assert re.search(r"is 0\.1 \(95% bound 0\.136\d\), max 0\.01", bad.find("failure").get("message"))
    assert "group: a = b (10 of 20 samples)" in bad.find("failure").text


def test_hostile_names_stay_names():
    verdict = hostile()
    suite = ET.fromstring(verdict.to_junit()).find("testsuite")
    assert len(suite.findall("testcase")) == 2
    assert not any(ord(c) < 32 and c != "\n" for c in suite.find("testcase/failure").text)
    text = verdict.to_markdown()
    assert not re.search(r"<(?!/?code>)|`|\*\*|\[|@|(?<!&)#1|\x1b|\u202e", text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [row.count("|") for row in rows] == [6] * 4
    text.encode()
    assert "\x1b" not in verdict.to_text()
    verdict.to_text().encode()
    assert json.loads(verdict.to_json())["passed"] is False
    assert Verdict.from_json(verdict.to_json()) == verdict


@given(st.text(max_size=60))
def test_any_name_survives_every_form(name):
    verdict = Verdict(error=name)
    case = ET.fromstring(verdict.to_junit()).find("testsuite/testcase/error")
    assert case is not None
    assert not re.search(r"<(?!/?code>)|[`*\[\]|~\\]", verdict.to_markdown())
    assert Verdict.from_json(verdict.to_json()) == verdict
    assert not verdict.passed


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "bivshap_lightning.Verdict", "version": 2}', "[" * 99999])
def test_other_texts_are_no_verdicts(text):
    with pytest.raises(GateError, match="must be a verdict of version 1"):
        Verdict.from_json(text)


def test_a_forged_verdict_is_refused():
    text = judge(record(), [Rule(metric=f"{P}density", max=0.01)]).to_json()
    with pytest.raises(GateError, match="contradicts the results"):
        Verdict.from_json(text.replace('"passed": false', '"passed": true'))


def test_assert_gate(tmp_path):
    path = write(tmp_path / "record.json", true_fields())
    rules = tmp_path / "gate.toml"
    rules.write_text(f'[[rule]]\nmetric = "{P}density"\nmax = 0.2\nmax_absolute_change = 0.2\n')
    assert assert_gate(path, rules, against=str(path)).passed
    with pytest.raises(AssertionError, match=r"gate FAILED: 0 passed, 1 failed(?s:.)*group: a = b"):
        assert_gate(record(), [Rule(metric=f"{P}density", max=0.01)])


def test_judging_needs_no_torch():
    code = "import sys, bivshap_lightning.gate, bivshap_lightning.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


@dataclass(frozen=True, kw_only=True)
class RatioRule(Rule):
    max_ratio: float | None = None


def test_a_new_kind_of_threshold_is_one_entry_and_one_field(monkeypatch):
    """``now / previous``: judged, reported in every form, and refused without a previous record."""

    def ratio(now, before):
        return None if before is None else Interval(now.value / before.value, None, now.upper / before.value)

    monkeypatch.setitem(THRESHOLDS, "max_ratio", Threshold("max_ratio", False, ratio, "ratio of "))
    rules = [RatioRule(metric="bivshap/insertion_auc/ours", max_ratio=limit) for limit in (1.1, 0.9)]
    verdict = judge(auc(0.5), rules, auc(0.5))
    assert [result.status for result in verdict.results] == ["pass", "fail"]
    assert "ratio of bivshap/insertion_auc/ours (previous 0.5) is 1 (95% bound 1), max_ratio 0.9" in verdict.to_text()
    assert "max ratio 0.9" in verdict.to_markdown()
    with pytest.raises(GateError, match="needs a previous record"):
        judge(auc(0.5), rules)
    with pytest.raises(GateError, match="`max_ratio` must be a finite number, got 'x'"):
        RatioRule(metric="m", max_ratio="x")
