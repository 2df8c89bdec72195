"""Judging: each rule against the evidence, on its unfavourable side."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bivshap_lightning.gate.drift import Pair, drift, moved
from bivshap_lightning.gate.evidence import Evidence
from bivshap_lightning.gate.measures import CLASS_NUMBERS, Interval
from bivshap_lightning.gate.rules import ALL_CLASSES, LEVELS, GateError, Rule, as_rules
from bivshap_lightning.gate.verdict import Check, Outcome, Verdict

ROUNDING = 1e-9
Record = Mapping[str, Any] | str | os.PathLike[str]
"""An audit record, or the path of its JSON file."""


def judge(record: Record, rules: str | os.PathLike[str] | Sequence[Rule], against: Record | None = None) -> Verdict:
    """Judge a record by rules. Needs neither torch nor the model.

    Args:
        record: the audit of the model in question.
        rules: as :func:`~bivshap_lightning.gate.load_rules` returns them, or their file.
        against: the audit of the previous model, which rules about changes need.

    Returns:
        The verdict, with one outcome per rule.

    Raises:
        GateError: Something cannot be judged: a damaged record, an unknown metric or class, a change without a
            previous record, records that were made in different ways.

    Example:
        See :func:`assert_gate`.
    """
    rules = as_rules(rules)
    evidence = Evidence(record)
    previous = None if against is None else Evidence(against, "previous record")
    if previous is not None:
        evidence.demand_comparable(previous)
    outcomes = tuple(_judge_rule(rule, evidence, previous) for rule in rules)
    return Verdict(
        outcomes=outcomes,
        record=_describe(evidence),
        against=None if previous is None else _describe(previous),
        n_samples=len(evidence.samples),
    )


def assert_gate(
    record: Record, rules: str | os.PathLike[str] | Sequence[Rule], against: Record | None = None
) -> Verdict:
    """Fail a test, with the verdict as its message, if a record does not pass.

    Args:
        record: as in :func:`judge`.
        rules: as there.
        against: as there.

    Returns:
        The verdict.

    Raises:
        AssertionError: A rule of severity "fail" is not met.

    Example:
        >>> from bivshap_lightning.gate import Rule, assert_gate
        >>> graph = {
        ...     "players": ["a", "b"],
        ...     "ranking": [{"player": "a"}, {"player": "b"}],
        ...     "groups": [["a", "b"]],
        ...     "sources": [],
        ...     "sinks": [],
        ...     "density": 1.0,
        ...     "n_undecided": 0,
        ... }
        >>> record = {
        ...     "kind": "bivshap_lightning.Audit",
        ...     "version": 2,
        ...     "versions": {},
        ...     "run": {},
        ...     "cost": {},
        ...     "configuration": {
        ...         "removal": "baseline 0",
        ...         "behavior": "logit",
        ...         "gamma": 1e-5,
        ...         "target": 0,
        ...         "players": "automatic",
        ...     },
        ...     "metrics": {},
        ...     "classes": {"cat": graph},
        ... }
        >>> sample = {"label": "cat", "target": "cat", "gain": None, "scores": {}, **graph}
        >>> record["samples"] = [{"index": k, **sample} for k in range(9)]
        >>> rule = Rule(metric="bivshap/redundancy/n_independent", min=1)
        >>> assert_gate(record, [rule]).passed
        True
        >>> assert_gate(record, [Rule(metric="share_removable", class_name="cat", max=0.1)])
        Traceback (most recent call last):
        ...
        AssertionError: gate FAILED: 0 passed, 1 failed, 0 warned; 9 samples
        ...
    """
    verdict = judge(record, rules, against)
    if not verdict.passed:
        raise AssertionError(verdict.to_text())
    return verdict


def _describe(evidence: Evidence) -> str:
    run = {k: evidence.run[k] for k in ("stage", "epoch", "step") if isinstance(evidence.run.get(k), str | int)}
    when = ", ".join(f"{k} {v}" for k, v in run.items())
    return f"{evidence.source} ({when})" if when else evidence.source


def _judge_rule(rule: Rule, evidence: Evidence, previous: Evidence | None) -> Outcome:
    if rule.needs_previous and previous is None:
        raise GateError(
            f"{rule.name}: a rule about a change needs a previous record, got none. Pass `against`, on the command "
            "line `--against PREVIOUS`."
        )
    names = [rule.class_name]
    if (rule.is_drift or rule.metric in CLASS_NUMBERS) and rule.class_name == ALL_CLASSES:
        # A class that only one of the records has is refused when it is measured.
        both = [evidence] if previous is None or not rule.is_drift else [evidence, previous]
        names = list(dict.fromkeys(name for e in both for name in (e.mean_graphs if rule.is_drift else e.classes)))
        if not names:
            raise GateError(
                f"{evidence.source}: {rule.name} needs class graphs, got none. Give all samples one player set."
            )
    checks = [check for name in names for check in _checks(rule, name, evidence, previous)]
    # The decisive check: one that fails by its value, else one that is left open, else any; of several, the worst.
    decisive = min(checks, key=lambda c: (c.met, c.point_met, _margin(c, by_point=rule.compare == "point")))
    status = "pass" if decisive.met else rule.severity
    return Outcome(
        rule=rule,
        status=status,
        check=decisive,
        inconclusive=decisive.point_met and not decisive.met,
        evidence=() if decisive.met else _culprits(rule, decisive, evidence, previous),
    )


def _checks(rule: Rule, class_name: str, evidence: Evidence, previous: Evidence | None) -> list[Check]:
    before = None
    if rule.is_drift and previous is not None:
        now = drift(rule.metric, pair_of(class_name, evidence, previous))
    else:
        now = evidence.measure(rule.metric, class_name, rule.confidence)
    if previous is not None and rule.needs_previous and not rule.is_drift:
        before = previous.measure(rule.metric, class_name, rule.confidence)
    checks = []
    for name, threshold in rule.thresholds.items():
        interval = now if name in LEVELS or before is None else _change(now, before, relative="relative" in name)
        checks.append(_check(name, threshold, interval, rule.compare == "point", class_name, before))
    return checks


def pair_of(class_name: str, evidence: Evidence, previous: Evidence) -> Pair:
    """The mean graphs of a class in two records that may be compared.

    Args:
        class_name: whose.
        evidence: now.
        previous: before.

    Raises:
        GateError: One of them has no such graph.

    Example:
        >>> import numpy as np
        >>> graph = {"players": ["a"], "ranking": [{"player": "a"}], "groups": [], "sources": [], "sinks": []}
        >>> graph |= {"density": 0.0, "n_undecided": 0}
        >>> record = {"kind": "bivshap_lightning.Audit", "version": 2, "versions": {}, "run": {}, "cost": {}}
        >>> record["configuration"] = {
        ...     "removal": "baseline 0",
        ...     "behavior": "logit",
        ...     "gamma": 1e-5,
        ...     "target": 0,
        ...     "players": "automatic",
        ... }
        >>> record |= {"metrics": {}, "classes": {"cat": graph}, "arrays": {"weights": np.zeros((1, 1, 1))}}
        >>> record["samples"] = [{"index": 0, "label": None, "target": "cat", "gain": None, "scores": {}, **graph}]
        >>> pair_of("cat", Evidence(record), Evidence(record)).names
        ('a',)
    """
    gamma = float(evidence.configuration["gamma"])
    return Pair.of(evidence.mean_graph(class_name), previous.mean_graph(class_name), gamma)


def _check(
    name: str, threshold: float, interval: Interval | None, by_point: bool, class_name: str, before: Interval | None
) -> Check:
    slack = ROUNDING * max(1.0, abs(threshold))
    at_least = name.startswith("min")
    value = None if interval is None else interval.value
    bound = None if interval is None else (interval.lower if at_least else interval.upper)

    def meets(number: float | None) -> bool:
        return number is not None and (number >= threshold - slack if at_least else number <= threshold + slack)

    return Check(
        threshold_name=name,
        threshold=threshold,
        value=value,
        bound=bound,
        previous=None if before is None or name in LEVELS else before.value,
        class_name=class_name,
        point_met=meets(value),
        met=meets(value if by_point else bound),
    )


def _margin(check: Check, *, by_point: bool) -> float:
    """By how much what is compared meets its threshold; negative if it does not."""
    compared = check.value if by_point else check.bound
    if compared is None:
        return -math.inf
    return (compared - check.threshold) * (1 if check.threshold_name.startswith("min") else -1)


def _change(now: Interval, before: Interval, *, relative: bool) -> Interval | None:
    """The difference of two independent estimates; for one probe in both, positively related, it is too wide.

    Each side joins the distances of both estimates to their own bounds (Newcombe's method), which for normal
    intervals is the usual one. Relative changes are measured in units of the previous value as it was recorded.
    """
    scale = abs(before.value) if relative else 1.0
    change = now.value - before.value
    if scale == 0:  # from nothing, only to nothing is a known relative change
        return None if now.value else Interval(0.0, None, None)
    lower = upper = None
    if now.lower is not None and before.upper is not None:
        lower = (change - math.hypot(now.value - now.lower, before.upper - before.value)) / scale
    if now.upper is not None and before.lower is not None:
        upper = (change + math.hypot(now.upper - now.value, before.value - before.lower)) / scale
    return Interval(change / scale, lower, upper)


def _culprits(rule: Rule, check: Check, evidence: Evidence, previous: Evidence | None) -> tuple[str, ...]:
    """Worst samples and, where redundancy is judged, largest groups; for a change, those that came and went."""
    name = check.class_name
    if rule.is_drift and previous is not None:
        return (*_other_samples(evidence, previous), *moved(rule.metric, pair_of(name, evidence, previous)))
    worst = evidence.worst_samples(rule.metric, name, highest=check.threshold_name.startswith("max"))
    found = [f"worst: {w}" for w in worst]
    if "/redundancy/" not in rule.metric and rule.metric not in CLASS_NUMBERS:
        return tuple(found)  # a ranking owes nothing to groups
    if previous is None or check.threshold_name in LEVELS:
        return (*found, *(f"group: {g}" for g in evidence.largest_groups(name)))
    came = evidence.largest_groups(name, besides=previous.groups(name))
    went = previous.largest_groups(name, besides=evidence.groups(name))
    return (*found, *(f"new group: {g}" for g in came), *(f"lost group: {g}" for g in went))


def _other_samples(evidence: Evidence, previous: Evidence) -> list[str]:
    """A warning if the two records explain different samples: then their graphs differ for that reason alone."""
    now, before = (e.run.get("probe_keys") for e in (evidence, previous))
    if not isinstance(now, list) or not isinstance(before, list) or now == before:
        return []
    shared = len({str(key) for key in now} & {str(key) for key in before})
    return [f"the records share {shared} of {len(now)} samples: other samples have other graphs, whatever the model"]
