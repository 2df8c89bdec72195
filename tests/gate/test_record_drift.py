"""Drift between records: distances worked by hand or by other libraries, and verdicts that name what moved."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cosine
from sklearn.metrics import ndcg_score

from bivshap_lightning.audit.record_decisions import SufficientSummary
from bivshap_lightning.gate import GateError, Rule, judge, measure
from bivshap_lightning.gate.profile import mean_profile, profile_of, shares_of
from bivshap_lightning.gate.record_drift import ProfilePair, largest_record_moves, record_drift
from bivshap_lightning.gate.rules import NotInRecordError
from bivshap_lightning.metrics.catalogue import numbers_of
from tests.gate.importance_records import additive, importance_record

TAGS = [number.tag for number in numbers_of("record drift")]


def pair(now, before, **kwargs) -> ProfilePair:
    return ProfilePair(*(profile_of(importance_record(phi, **kwargs)) for phi in (now, before)))


def test_shares_by_hand():
    """|phi| of two samples: 1 + 3, 2 + 0, 1 + 1 of 8."""
    shares = shares_of(profile_of(importance_record([[1, -2, 1], [-3, 0, 1]])))
    assert shares.values == pytest.approx([0.5, 0.25, 0.25])
    assert [shares.place(name) for name in shares.names] == [1, 2, 2]
    assert shares.of("other") == 0


def test_hellinger_and_rise_by_hand():
    both = pair([[0.36, 0.64, 0]], [[0.64, 0.36, 0]])
    assert record_drift("drift/shares", both) == pytest.approx(math.sqrt((0.2**2 + 0.2**2) / 2))
    assert record_drift("drift/rise", both) == pytest.approx(math.log(0.65 / 0.37))
    assert record_drift("drift/shares", pair([[1, 0, 0]], [[0, 1, 0]])) == pytest.approx(1)


@given(st.integers(0, 10**6))
def test_ndcg_and_cosine_are_those_of_other_libraries(seed):
    rng = np.random.default_rng(seed)
    now, before = rng.normal(size=(2, 5, 3))
    both = pair(now, before)
    shares = [shares_of(p).values for p in (both.now, both.before)]
    assert record_drift("drift/ndcg", both) == pytest.approx(ndcg_score([shares[1]], [shares[0]]), abs=1e-6)
    assert record_drift("drift/samples", both) == pytest.approx(cosine(now.ravel(), before.ravel()), abs=1e-5)


def test_equal_shares_are_no_disagreement():
    assert record_drift("drift/ndcg", pair([[1, 1, 1]], [[3, 2, 1]])) == pytest.approx(1)
    assert record_drift("drift/ndcg", pair([[1, 1, 1]], [[0, 0, 0]])) == 1


def test_roles_by_hand():
    """At 3 % of the mean size: age and sex essential, job irrelevant; sex and job change in one sample of two."""
    both = pair([[1, 1, 0], [1, 0, 1]], [[1, 1, 0], [1, 1, 0]])
    assert record_drift("drift/roles", both) == pytest.approx(2 / 6)
    assert largest_record_moves("drift/roles", both) == [
        "sex: another role in 1 of 2 samples, most often essential -> irrelevant",
        "job: another role in 1 of 2 samples, most often irrelevant -> essential",
    ]


def test_roles_use_three_times_the_default_gamma():
    """Default gamma: 1 % of 1. A Shapley value of 0.05 exceeds 2 gamma but not 6 gamma."""
    both = pair([[0.95, 0.05, 0]], [[1, 0, 0]])
    assert record_drift("drift/roles", both) == 0


def test_against_a_mean_roles_are_frequencies():
    profiles = [profile_of(importance_record([phi])) for phi in ([1, 1, 0], [1, 1, 0], [1, 0, 1])]
    mean = mean_profile(profiles)
    assert record_drift("drift/roles", ProfilePair(profiles[0], mean)) == pytest.approx((1 / 3 + 1 / 3) / 3)
    assert shares_of(mean).values == pytest.approx([0.5, 1 / 3, 1 / 6])
    assert mean.samples[0].shapley == pytest.approx([1, 2 / 3, 1 / 3])


@given(st.integers(0, 10**6))
def test_the_same_record_does_not_drift(seed):
    phi = np.random.default_rng(seed).normal(size=(4, 3))
    both = pair(phi, phi)
    unchanged = [1.0 if tag == "drift/ndcg" else 0.0 for tag in TAGS]
    assert [record_drift(tag, both) for tag in TAGS] == pytest.approx(unchanged, abs=1e-9)
    assert [largest_record_moves(tag, both) for tag in TAGS if tag != "drift/samples"] == [[]] * 4


def test_verdicts_name_the_feature():
    names = ("fnlwgt", *(f"column{k}" for k in range(13)))
    before = [0.03, *([0.97 / 12] * 12), 0.0]
    now = [0.94, *([0.06 / 13] * 13)]
    new, old = (importance_record([phi] * 4, names=names) for phi in (now, before))
    verdict = judge(new, [Rule(metric="drift/shares", max=0.1), Rule(metric="drift/rise", max=1)], old)
    assert not verdict.passed
    for result in verdict.results:
        assert result.evidence[0] == "fnlwgt: place 13 before, first now, share .03 -> .94"
    assert verdict.results[1].reason == f"drift/rise is {math.log(0.95 / 0.04):.4g}, max 1"
    assert "fnlwgt: place 13 before, first now, share .03 -> .94" in verdict.to_text()


def test_moved_samples_are_named_with_the_feature():
    verdict = judge(
        importance_record([[1, 0, 0], [0, 1, 0]]),
        [Rule(metric="drift/samples", max=0.1)],
        importance_record([[1, 0, 0], [1, 0, 0]]),
    )
    assert verdict.results[0].check.value == pytest.approx(0.5)
    assert verdict.results[0].evidence[:3] == (
        "age: 50% of what moved",
        "sex: 50% of what moved",
        "sample key1 (class cat): 1 - cosine 1, age +1 -> +0",
    )


def test_samples_that_are_not_shared_are_said_first():
    new = importance_record([[1, 0, 0]] * 4, keys=("a", "b", "c", "d"))
    old = importance_record([[1, 0, 0]] * 4, keys=("d", "e", "f", "g"))
    rules = [Rule(metric=tag, max=2) for tag in TAGS]
    verdict = judge(new, rules, old)
    assert verdict.passed
    assert verdict.to_text().splitlines()[1].startswith("note: the records share 1 of 4 samples")
    none = judge(importance_record([[1, 0, 0]], keys=("z",)), rules, old)
    unknown = {r.rule.metric for r in none.results if r.status == "fail"}
    assert unknown == {"drift/samples", "drift/roles"}
    (roles,) = (r for r in none.results if r.rule.metric == "drift/roles")
    assert roles.reason == "drift/roles is unknown, max 2"
    assert roles.evidence[0].startswith("the records share 0 of 1 samples")


def test_samples_that_are_missing_are_said():
    old = importance_record([[1, 0, 0]] * 4, keys=("a", "b", "c", "d"))
    verdict = judge(importance_record([[1, 0, 0]] * 2, keys=("a", "b")), [Rule(metric="drift/shares", max=1)], old)
    assert verdict.notes[0].startswith("the records share 2 of 2 samples (4 before)")


def test_other_background_rows_are_refused_with_what_to_compare():
    new, old = (importance_record([[1, 0, 0]], removal=f"mean over 8 background rows #{k}") for k in "ab")
    with pytest.raises(GateError, match="same background rows were meant, their values have changed: compare the tab"):
        judge(new, [Rule(metric="drift/shares", max=1)], old)


def test_shares_use_shared_samples_if_half_are_shared():
    """The shared sample did not change; the others did."""
    new = importance_record([[1, 0, 0], [0, 1, 0]], keys=("a", "b"))
    half = importance_record([[1, 0, 0], [0, 0, 1]], keys=("a", "c"))
    assert judge(new, [Rule(metric="drift/shares", max=0)], half).passed
    few = importance_record([[0, 0, 1], [0, 0, 1]], keys=("c", "d"))
    assert judge(new, [Rule(metric="drift/shares", max=0.5)], few).results[0].check.value == pytest.approx(1)


def test_other_explained_classes_are_said_first():
    new = importance_record([[1, 0, 0]] * 2, classes=["cat", "dog"], target="predicted")
    old = importance_record([[1, 0, 0]] * 2, classes=["cat", "cat"], target="predicted")
    verdict = judge(new, [Rule(metric="drift/samples", max=1)], old)
    assert verdict.notes[0].startswith("1 of 2 shared samples were explained for another class than before")


def test_drift_of_one_class():
    new, old = (
        importance_record([[1, 0, 0], phi], classes=["cat", "dog"]) for phi in ([0, 1, 0], [1, 0, 0])
    )  # fmt: skip
    by_class = [
        judge(new, [Rule(metric="drift/shares", class_name=name, max=2)], old).results[0].check.value
        for name in ("cat", "dog")
    ]
    assert by_class == pytest.approx([0, 1])
    with pytest.raises(GateError, match=r"`class` must be one that has samples, got 'cow'\. There are: cat, dog"):
        judge(new, [Rule(metric="drift/shares", class_name="cow", max=1)], old)


def test_features_that_come_and_go_count():
    both = ProfilePair(
        *(profile_of(importance_record([[0.5, 0.5]], names=names)) for names in (("a", "b"), ("a", "c")))
    )
    assert record_drift("drift/shares", both) == pytest.approx(math.sqrt(0.5))
    assert record_drift("drift/samples", both) == pytest.approx(0.5)
    assert record_drift("drift/roles", both) == pytest.approx(2 / 3)


def test_top_share_and_its_jackknife():
    phi = np.array([[3, 1, 0], [1, 1, 0], [1, 2, 1.0], [4, 0, 0]])
    found = measure(importance_record(phi), "top1_share")
    assert found.value == pytest.approx(9 / 14)
    left = np.array([(9 - row[0]) / (14 - row.sum()) for row in phi])
    error = math.sqrt(3 / 4 * ((left - left.mean()) ** 2).sum())
    assert (found.upper - found.value) / 1.6448536 == pytest.approx(error, rel=1e-5)
    (result,) = judge(importance_record(phi), [Rule(metric="top1_share", max=0.5, compare="point")]).results
    assert result.status == "fail"
    assert result.evidence[0] == "age: place 1, share .64"


def test_lead_of_the_top_feature_does_not_depend_on_the_number_of_others():
    phi = np.array([[-3, 1, 1], [3, 1, 0], [1, -2, 1], [4, 0, 0.5]])
    found = measure(importance_record(phi), "top1_lead")
    assert found.value == pytest.approx(11 / 15)
    left = [(11 - a) / (15 - a - b) for a, b, _ in np.abs(phi)]
    error = math.sqrt(3 / 4 * ((left - np.mean(left)) ** 2).sum())
    assert (found.upper - found.value) / 1.6448536 == pytest.approx(error, rel=1e-5)
    wide = np.hstack([phi, np.full((4, 20), 0.5)])
    names = tuple(f"c{k}" for k in range(23))
    assert measure(importance_record(wide, names=names), "top1_lead").value == pytest.approx(11 / 15)
    assert measure(importance_record([[0.0, 0, 0]] * 2), "top1_lead").value == 0


def with_sets(record, *sets):
    """The record with these sufficient sets."""
    found = [SufficientSummary(members, members, 1.0, 1.0, 32, 9) for members in sets]
    return replace(record, samples=tuple(replace(s, sufficient=f) for s, f in zip(record.samples, found, strict=True)))


def test_how_often_one_feature_suffices_alone():
    """Of five samples one needs no feature, and age suffices alone for two of the others."""
    sets = [("age",), (), ("sex",), ("age",), ("age", "job")]
    record = with_sets(importance_record([[1, 0, 0]] * 5), *sets)
    found = measure(record, "top1_alone")
    assert found.value == pytest.approx(2 / 4)
    left = [1 / 3, 2 / 4, 2 / 3, 1 / 3, 2 / 3]
    error = math.sqrt(4 / 5 * np.square(np.array(left) - np.mean(left)).sum())
    assert (found.upper - found.value) / 1.6448536 == pytest.approx(error, rel=1e-5)
    (result,) = judge(record, [Rule(metric="top1_alone", max=0.4, compare="point")]).results
    assert result.evidence == ("age: suffices alone for 2 of 4 samples", "sex: suffices alone for 1 of 4 samples")
    assert measure(with_sets(importance_record([[1, 0, 0]] * 2), (), ()), "top1_alone").value == 0


def test_warnings_about_numbers_that_a_record_cannot_have_are_left_out_and_said():
    share, alone = Rule(metric="top1_share", max=1), Rule(metric="top1_alone", max=1, severity="warn")
    empty = Rule(metric="bivshap/redundancy/empty_accuracy", max=1, severity="warn")
    record = importance_record([[1, 0, 0]] * 2, task="regression")
    verdict = judge(record, [share, alone, empty])
    assert [result.rule for result in verdict.results] == [share]
    assert [note.partition(" must")[0] for note in verdict.notes] == ["not judged, record: `metric`"] * 2
    assert "not judged" in verdict.to_text()
    with pytest.raises(NotInRecordError, match="`metric` must be a number of a regression model, got 'top1_alone'"):
        judge(record, [share, replace(alone, severity="fail")])
    with pytest.raises(GateError, match="`rules` must have one that this record can be judged by, got none"):
        judge(record, [alone, empty])
    bare = importance_record([[1, 0, 0]] * 2)
    with pytest.raises(NotInRecordError, match="must hold a sufficient set of every sample for 'top1_alone', got 0 of"):
        measure(bare, "top1_alone")
    with pytest.raises(GateError, match="`metric` must be one that is recorded, got 'top1_aloneness'"):
        judge(bare, [share, replace(alone, metric="top1_aloneness")])


def test_records_without_common_features_or_shapley_values_are_refused():
    own = replace(importance_record([[1, 0, 0]]), classes={})
    with pytest.raises(GateError, match="shares of features need players that mean the same in every sample"):
        judge(own, [Rule(metric="drift/shares", max=1)], own)
    share = Rule(metric="top1_share", max=1)
    with pytest.raises(NotInRecordError, match="need players that mean the same"):
        measure(own, "top1_alone")
    with pytest.raises(NotInRecordError, match=r"`top1_\.\.\.`.* mean the same .* or leave out the rule"):
        judge(own, [share])
    undecided = Rule(metric="bivshap/redundancy/n_independent", min=1)
    verdict = judge(own, [replace(share, severity="warn"), undecided])  # such as the starter's rules, for texts
    assert [result.rule for result in verdict.results] == [undecided]
    assert "not judged, " in verdict.notes[0]
    bare = importance_record([[1, 0, 0]])
    bare = replace(bare, arrays={"weights": np.stack([additive([1, 0, 0])])})
    with pytest.raises(GateError, match="the record must hold Shapley values for this rule"):
        judge(bare, [Rule(metric="drift/samples", max=1)], bare)


def test_change_thresholds_of_drift_are_refused():
    with pytest.raises(GateError, match=r"'drift/shares' must have `max` or `min`, got \['max_absolute_change'\]"):
        Rule(metric="drift/shares", max_absolute_change=0.1)
