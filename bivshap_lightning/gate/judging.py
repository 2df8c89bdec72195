"""Judges an audit record by rules: each rule compares the confidence bound of a number with its thresholds."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bivshap_lightning.audit.record import AuditRecord, as_record
from bivshap_lightning.audit.record_parts import ALL_CLASSES
from bivshap_lightning.gate.drift import GraphPair, drift, largest_moves
from bivshap_lightning.gate.features import describe_feature, importance_of, most_often_alone
from bivshap_lightning.gate.measuring import (
    count_groups,
    demand_comparable,
    largest_groups,
    mean_graph,
    measure,
    worst_samples,
)
from bivshap_lightning.gate.profile import Profile, profile_of, sample_key
from bivshap_lightning.gate.record_drift import (
    ProfilePair,
    largest_record_moves,
    record_drift,
    share_text,
    sharing_note,
)
from bivshap_lightning.gate.reference import Reference
from bivshap_lightning.gate.rules import GateError, NotInRecordError, Rule
from bivshap_lightning.gate.rules_file import GateFile, as_gate
from bivshap_lightning.gate.thresholds import THRESHOLDS, Threshold
from bivshap_lightning.gate.verdict import Check, RuleResult, Verdict
from bivshap_lightning.metrics.intervals import Interval

ROUNDING = 1e-9
Record = AuditRecord | str | os.PathLike[str]
"""An audit record, or the path of its JSON file."""
Rules = str | os.PathLike[str] | Sequence[Rule] | GateFile
"""Rules with their reference, rules, or the path of their file."""


@dataclass(frozen=True, eq=False)
class _Case:
    """What is judged, and what it is compared with."""

    record: AuditRecord
    previous: AuditRecord | None
    reference: Reference | None

    @cached_property
    def profile(self) -> Profile:
        return profile_of(self.record)

    @cached_property
    def profile_before(self) -> Profile:
        """The reference, or else the previous record."""
        if self.reference is not None:
            return self.reference.profile
        if self.previous is None:  # pragma: no cover - refused before
            raise GateError("a rule about a change needs a previous record, got none.")
        return profile_of(self.previous)

    def pair(self, class_name: str) -> ProfilePair:
        return ProfilePair(self.profile, self.profile_before, class_name)

    def notes(self, rules: Sequence[Rule]) -> tuple[str, ...]:
        """What the reader must know before the results."""
        if any(rule.is_record_drift for rule in rules):
            return self.pair(ALL_CLASSES).notes
        if self.previous is None or not any(rule.needs_previous for rule in rules):
            return ()
        keys = [[sample_key(r, s.index) for s in r.samples] for r in (self.record, self.previous)]
        return sharing_note(*keys)


def judge(record: Record, rules: Rules, against: Record | None = None) -> Verdict:
    """Judge a record by rules. Needs neither torch nor the model.

    Args:
        record: the audit of the model in question.
        rules: the path of a rules file, what :func:`~bivshap_lightning.gate.load_gate` read from it, or rules.
        against: the audit of the previous model, which rules about changes need. Drift between records is measured
            from the reference of the rules file if it names one, else from this.

    Returns:
        The verdict, with one result per rule.

    Raises:
        RecordError: a record is missing, damaged or contradicts itself.
        GateError: the rules cannot be applied: an unknown metric, class or feature, a change without a previous record,
            records that were made in different ways.

    Example:
        See :func:`assert_gate`.
    """
    gate = as_gate(rules)
    record = as_record(record)
    previous = None if against is None else as_record(against)
    if previous is not None:
        demand_comparable(record, previous)
    if gate.reference is not None:
        gate.reference.demand_comparable(record)
    case = _Case(record, previous, gate.reference)
    names = [gate.reference.name] if gate.reference is not None else []
    names += [] if previous is None else [_title_of(previous)]
    results, left_out = _judge_rules(gate.rules, case)
    return Verdict(
        results=results,
        record=_title_of(record),
        against=" and ".join(names) or None,
        n_samples=len(record.samples),
        notes=(*record.nothing_to_explain, *case.notes(gate.rules), *left_out),
    )


def assert_gate(record: Record, rules: Rules, against: Record | None = None) -> Verdict:
    """Fail a test, with the verdict as its message, if a record does not pass.

    Args:
        record: as in :func:`judge`.
        rules: as there.
        against: as there.

    Returns:
        The verdict.

    Raises:
        AssertionError: a rule of severity "fail" is not met.

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> from bivshap_lightning.audit.record import AuditRecord, Configuration, GraphSummary, SampleSummary
        >>> from bivshap_lightning.gate import Rule, assert_gate
        >>> summary = GraphSummary.fields_of(ExplanationGraph([[0, 0], [0, 0]], names=["a", "b"]), 1e-5)
        >>> record = AuditRecord(
        ...     configuration=Configuration("logit", "softmax", "automatic", "baseline 0", "predicted", 1e-5),
        ...     samples=tuple(SampleSummary(index=k, target="cat", **summary) for k in range(9)),
        ...     classes={"cat": GraphSummary(**summary)},
        ... )
        >>> assert_gate(record, [Rule(metric="bivshap/redundancy/n_independent", min=1)]).passed
        True
        >>> assert_gate(record, [Rule(metric="class_graph/share_removable", class_name="cat", max=0.1)])
        Traceback (most recent call last):
        ...
        AssertionError: gate FAILED: 0 passed, 1 failed, 0 warned; 9 samples
        ...
    """
    verdict = judge(record, rules, against)
    if not verdict.passed:
        raise AssertionError(verdict.to_text())
    return verdict


def _title_of(record: AuditRecord) -> str:
    moment = ", ".join(f"{name} {value}" for name, value in record.run.moment.items())
    return f"{record.source} ({moment})" if moment else record.source


def _judge_rules(rules: Sequence[Rule], case: _Case) -> tuple[tuple[RuleResult, ...], tuple[str, ...]]:
    """Results, and a sentence for each rule that only warns and whose number the record cannot have."""
    results, left_out = [], []
    for rule in rules:
        try:
            results.append(_judge_rule(rule, case))
        except NotInRecordError as error:
            if rule.severity != "warn":
                raise
            left_out.append(f"not judged, {error}")
    if not results and left_out:
        raise GateError(f"`rules` must have one that this record can be judged by, got none: {left_out[0]}")
    return tuple(results), tuple(left_out)


def _judge_rule(rule: Rule, case: _Case) -> RuleResult:
    before_is_known = case.previous is not None or (rule.is_record_drift and case.reference is not None)
    if rule.needs_previous and not before_is_known:
        raise GateError(
            f"{rule.name}: a rule about a change needs a previous record, got none. Pass `against`, on the command "
            "line `--against PREVIOUS`."
        )
    names = _class_names(rule, case.record, case.previous)
    checks = [check for name in names for check in _checks(rule, name, case)]
    # The decisive check: one that fails by its value, else one that is left open, else any; of several, the worst.
    decisive = min(checks, key=lambda c: (c.met, c.point_met, _margin(c, by_point=rule.compare == "point")))
    return RuleResult(
        rule=rule,
        status="pass" if decisive.met else rule.severity,
        check=decisive,
        inconclusive=decisive.point_met and not decisive.met,
        evidence=() if decisive.met else _reasons(rule, decisive, case),
    )


def _class_names(rule: Rule, record: AuditRecord, previous: AuditRecord | None) -> list[str]:
    """The classes that a rule judges: its own, or every class that has a graph for a rule about all class graphs."""
    if rule.class_name != ALL_CLASSES or not rule.is_about_class_graphs:
        return [rule.class_name]
    # A class that only one of the records has is refused when it is measured.
    both = [record] if previous is None or not rule.is_drift else [record, previous]
    names = list(dict.fromkeys(name for r in both for name in (r.class_graphs if rule.is_drift else r.classes)))
    if not names:
        raise GateError(f"{record.source}: {rule.name} needs class graphs, got none. Give all samples one player set.")
    return names


def _checks(rule: Rule, class_name: str, case: _Case) -> list[Check]:
    before, previous = None, case.previous
    now: Interval | None
    if rule.is_record_drift:
        value = record_drift(rule.metric, case.pair(class_name))
        now = None if value is None else Interval(value, value, value)
    elif rule.is_drift and previous is not None:
        now = drift(rule.metric, graph_pair(class_name, case.record, previous))
    else:
        now = _measure(rule, class_name, case.record)
        if previous is not None and rule.needs_previous:
            before = _measure(rule, class_name, previous)
    return [
        _check(THRESHOLDS[name], value, now, before, by_point=rule.compare == "point", class_name=class_name)
        for name, value in rule.thresholds.items()
    ]


def _measure(rule: Rule, class_name: str, record: AuditRecord) -> Interval:
    return measure(record, rule.metric, class_name=class_name, confidence=rule.confidence, feature=rule.feature)


def graph_pair(class_name: str, record: AuditRecord, previous: AuditRecord) -> GraphPair:
    """The mean graphs of a class in two records that may be compared, each redundant at its own gamma.

    Args:
        class_name: the class.
        record: now.
        previous: before.

    Raises:
        GateError: one of them has no such graph.
    """
    graphs = mean_graph(record, class_name), mean_graph(previous, class_name)
    return GraphPair.of(*graphs, *(r.gamma_of(r.classes[class_name]) for r in (record, previous)))


def _check(
    kind: Threshold,
    threshold: float,
    now: Interval | None,
    before: Interval | None,
    *,
    by_point: bool,
    class_name: str,
) -> Check:
    slack = ROUNDING * max(1.0, abs(threshold))
    interval = None if now is None else kind.compared(now, before)
    value = None if interval is None else interval.value
    bound = None if interval is None else (interval.lower if kind.at_least else interval.upper)

    def meets(number: float | None) -> bool:
        return number is not None and (number >= threshold - slack if kind.at_least else number <= threshold + slack)

    return Check(
        threshold_name=kind.name,
        threshold=threshold,
        value=value,
        bound=bound,
        previous=None if before is None or not kind.needs_previous else before.value,
        class_name=class_name,
        point_met=meets(value),
        met=meets(value if by_point else bound),
    )


def _margin(check: Check, *, by_point: bool) -> float:
    """By how much what is compared meets its threshold; negative if it does not."""
    compared = check.value if by_point else check.bound
    if compared is None:
        return -math.inf
    return (compared - check.threshold) * (1 if THRESHOLDS[check.threshold_name].at_least else -1)


def _reasons(rule: Rule, check: Check, case: _Case) -> tuple[str, ...]:
    """What moved, by name; or worst samples and, where redundancy is judged, groups, those that came and went."""
    name, record, previous = check.class_name, case.record, case.previous
    if rule.is_record_drift:
        return tuple(largest_record_moves(rule.metric, case.pair(name)))
    if rule.is_drift and previous is not None:
        return tuple(largest_moves(rule.metric, graph_pair(name, record, previous)))
    if rule.feature is not None:
        return tuple(describe_feature(record, rule.feature, class_name=name))
    if rule.metric == "top1_alone":
        return most_often_alone(record, name)
    if rule.scope == "record":
        return _largest_shares(record, name)
    highest = not THRESHOLDS[check.threshold_name].at_least
    found = [f"worst: {w}" for w in worst_samples(record, rule.metric, name, highest=highest)]
    if not rule.is_about_redundancy:
        return tuple(found)
    if previous is None or not THRESHOLDS[check.threshold_name].needs_previous:
        return (*found, *(f"group: {g}" for g in largest_groups(record, name)))
    came = largest_groups(record, name, besides=count_groups(previous, name))
    went = largest_groups(previous, name, besides=count_groups(record, name))
    return (*found, *(f"new group: {g}" for g in came), *(f"lost group: {g}" for g in went))


def _largest_shares(record: AuditRecord, class_name: str, n: int = 3) -> tuple[str, ...]:
    names, importance = importance_of(record, class_name)
    totals = importance.sum(axis=0)
    order = (-totals).argsort(kind="stable")[:n].tolist()
    return tuple(f"{names[k]}: place {p}, share {share_text(totals[k] / totals.sum())}" for p, k in enumerate(order, 1))
