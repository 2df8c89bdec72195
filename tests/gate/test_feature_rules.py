"""Rules about named features: hand-worked numbers, the short forms of TOML files, and refusals."""

import numpy as np
import pytest

from bivshap_lightning.gate import GateError, Rule, judge, load_rules, measure
from bivshap_lightning.gate.features import describe_feature, stand_ins
from tests.gate.importance_records import NAMES, importance_record, save
from tests.test_cli import call, refused

EITHER = np.array([[0, 0, 0], [0, 0, 0], [1 / 6, 1 / 6, 0]])
"""Weights of OR(age, sex); job has no effect."""
MAX = np.array([[0, 0, 0], [1 / 2, 0, 0], [2 / 3, 1 / 6, 0]])
"""Weights of max(2 age, sex): sex is redundant once age is there."""


def two_samples():
    return importance_record([[0.5, 0.5, 0], [1.5, 0.5, 0]], weights=[EITHER, MAX], classes=["cat", "dog"])


@pytest.mark.parametrize(
    ("metric", "feature", "value"),
    [
        ("feature/share", "age", 2 / 3),
        ("feature/share", "sex", 1 / 3),
        ("feature/place", "age", 1),
        ("feature/place", "sex", 2),
        ("feature/interchangeable", "sex", 0.5),
        ("feature/redundant", "sex", 0.5),
        ("feature/essential", "age", 0.5),
        ("feature/irrelevant", "job", 1),
        ("feature/undecided", "job", 0),
        ("feature/makes_redundant", "age", 1),
        ("feature/makes_redundant", "sex", 0.5),
        ("feature/makes_redundant", "job", 0),
    ],
)
def test_numbers_by_hand(metric, feature, value):
    found = measure(two_samples(), metric, feature=feature)
    assert found.value == pytest.approx(value)
    assert found.lower <= found.value <= found.upper


def test_numbers_of_one_class():
    assert measure(two_samples(), "feature/redundant", feature="sex", class_name="dog").value == 1
    assert measure(two_samples(), "feature/share", feature="sex", class_name="dog").value == pytest.approx(0.25)
    with pytest.raises(GateError, match=r"`class` must be one that has samples, got 'cow'\. There are: cat, dog"):
        measure(two_samples(), "feature/share", feature="sex", class_name="cow")


def test_stand_ins_by_hand():
    """OR(age, sex): C = -1/6, so that age takes over 2/3 of sex; max(2 age, sex): C = -1/6, 2/3 of 1/2 too."""
    assert stand_ins(two_samples(), "sex")[0] == ("age", pytest.approx(2 / 3))
    assert measure(two_samples(), "feature/stand_in", feature="sex").value == pytest.approx(2 / 3)
    assert measure(two_samples(), "feature/stand_in", feature="job").value == 0
    assert describe_feature(two_samples(), "sex")[-1] == "sex: substitutes for it: age (67%)"


def test_short_forms(tmp_path):
    path = tmp_path / "gate.toml"
    path.write_text(
        '[[rule]]\nfeature = "sex"\nclass = "dog"\nmax_share = 0.3\nrole = "redundant"\nforbidden_role = "essential"\n'
        'top = false\nmakes_redundant = false\nseverity = "warn"\n'
    )
    rules = load_rules(path)
    assert [rule.name for rule in rules] == [
        "feature/share of sex of class dog: max 0.3",
        "feature/redundant of sex of class dog: min 1",
        "feature/essential of sex of class dog: max 0",
        "feature/place of sex of class dog: min 2",
        "feature/makes_redundant of sex of class dog: max 0",
    ]
    assert {rule.severity for rule in rules} == {"warn"}
    verdict = judge(two_samples(), [rule for rule in rules if rule.metric != "feature/share"])
    assert [result.status for result in verdict.results] == ["pass"] * 4
    everyone = [Rule(metric=rule.metric, feature="age", min=rule.min, max=rule.max, compare="point") for rule in rules]
    assert [result.status for result in judge(two_samples(), everyone).results] == ["fail"] * 5


def test_verdicts_describe_the_feature():
    (result,) = judge(two_samples(), [Rule(metric="feature/place", feature="age", min=2)]).results
    assert result.reason == "feature/place of age is 1 (95% bound 1), min 2"
    assert result.evidence == (
        "age: place 1 of 3, share 0.67",
        "age: interchangeable in 1, essential in 1 of 2 samples",
        "age: substitutes for it: sex (33%)",
    )


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ('feature = "sex"\n', r"must have a `metric` or one of \['max_share'.*got none for 'sex'"),
        ('feature = "sex"\nrole = "esential"\n', r"`role` must be one of \['irrelevant'.*Did you mean 'essential'\?"),
        ('feature = "sex"\nforbidden_role = 3\n', "`forbidden_role` must be one of .*got 3"),
        ('feature = "sex"\ntop = true\n', "`top` must be false, which forbids it, got True"),
        ('feature = "sex"\nmakes_redundant = 0\n', "`makes_redundant` must be false"),
        ('feature = "sex"\nmax = 0.1\n', r"must name its `metric`.*to have \['max'\]"),
        ('feature = "sex"\nmax_share = "a"\n', "`max` must be a finite number, got 'a'"),
        ('feature = "sex"\nrank = 3\n', r"must use the keys .*got \['rank'\]"),
        ('metric = "feature/share"\nmax = 1\n', "`feature` must be given for 'feature/share', got None"),
        ('metric = "top1_share"\nfeature = "sex"\nmax = 1\n', "`feature` must only be given for numbers of features"),
        ('metric = "feature/share"\nfeature = ""\nmax = 1\n', "`feature` must be a name, got ''"),
    ],
)
def test_rules_that_cannot_be_meant(tmp_path, table, match):
    path = tmp_path / "gate.toml"
    path.write_text(f"[[rule]]\n{table}")
    with pytest.raises(GateError, match=match):
        load_rules(path)


@pytest.mark.parametrize(
    ("name", "hint"), [("agee", r"Did you mean 'age'\?"), ("zzzz", f"There are: {', '.join(NAMES)}")]
)
def test_features_that_do_not_exist(tmp_path, name, hint):
    with pytest.raises(GateError, match=rf"`feature` must be one that was audited, got '{name}'\. {hint}"):
        judge(two_samples(), [Rule(metric="feature/share", feature=name, max=1)])
    with pytest.raises(GateError, match="`feature` must be given for 'feature/share', got None"):
        measure(two_samples(), "feature/share")
    path = save(two_samples(), tmp_path / "audit.json")
    (tmp_path / "gate.toml").write_text(f'[[rule]]\nfeature = "{name}"\nmax_share = 0.1\n')
    code, output = call("gate", path, "--rules", tmp_path / "gate.toml")
    assert refused(code, output)
    assert "`feature` must be one that was audited" in output


def test_validation_metrics_can_be_judged():
    from dataclasses import replace

    record = replace(two_samples(), validation_metrics={"val/accuracy": 0.8})
    assert judge(record, [Rule(metric="val/accuracy", min=0.79)]).passed
    assert not judge(record, [Rule(metric="val/accuracy", min=0.81)]).passed
    better = replace(record, validation_metrics={"val/accuracy": 0.9})
    assert not judge(record, [Rule(metric="val/accuracy", min_absolute_change=-0.05)], better).passed
    with pytest.raises(GateError, match=r"`metric` must be one that is recorded, got 'val/acuracy'\. Did you mean"):
        judge(record, [Rule(metric="val/acuracy", min=0.79)])
