"""Numbers of an audit record with their confidence intervals, and the samples and groups behind them."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Collection
from statistics import NormalDist

from bivshap_lightning.audit.record import COMPARED, AuditRecord, SampleSummary
from bivshap_lightning.audit.record_checks import gamma_by_rule
from bivshap_lightning.audit.record_parts import ALL_CLASSES
from bivshap_lightning.gate.features import measure_feature, measure_top
from bivshap_lightning.gate.reference import demand_same_settings
from bivshap_lightning.gate.rules import GateError, NotInRecordError
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.metrics.catalogue import (
    CATALOGUE,
    estimate_over,
    find_number,
    interval_of,
    numbers_of,
    sample_parts,
)
from bivshap_lightning.metrics.intervals import Interval
from bivshap_lightning.text import printable


def measure(
    record: AuditRecord,
    metric: str,
    *,
    class_name: str = ALL_CLASSES,
    confidence: float = 0.95,
    feature: str | None = None,
) -> Interval:
    """A number with its interval, of which each side is exceeded with probability `1 - confidence`.

    Args:
        record: the record.
        metric: tag of the number.
        class_name: the class whose samples or graph are meant; "all" for all samples.
        confidence: one-sided.
        feature: the feature that a "feature/..." number is about.

    Raises:
        NotInRecordError: the number is one of other tasks than the record's, or of what the record does not hold.
        GateError: there is no such metric, class or feature.
    """
    number = find_number(metric)
    task = record.configuration.task
    if number is not None and task and not number.applies_to(task) and metric not in record.metrics:
        raise NotInRecordError(
            f"{record.source}: `metric` must be a number of a {task} model, got {metric!r}, which is one of "
            f"{', '.join(number.tasks)}. Leave out the rule."
        )
    if number is not None and number.scope == "record":
        return measure_top(record, metric, class_name=class_name, confidence=confidence)
    if number is not None and number.scope == "feature":
        if feature is None:
            raise GateError(f"`feature` must be given for {metric!r}, got None.")
        return measure_feature(record, metric, feature, class_name=class_name, confidence=confidence)
    if number is not None and number.of_graph is not None:
        if class_name not in record.classes:
            raise GateError(_unknown_class(record, "a graph", class_name, record.classes))
        return number.of_graph(record.classes[class_name])
    if metric in record.validation_metrics and metric not in record.metrics and class_name == ALL_CLASSES:
        value = record.validation_metrics[metric]
        return Interval(value, value, value)
    _demand_metric(record, metric, class_name)
    samples = samples_of(record, class_name)
    derived = estimate_over(metric, samples)
    if derived is None:
        found = record.metrics[metric]
        derived = found.value, found.standard_error
    return interval_of(metric, *derived, n=len(samples), z=NormalDist().inv_cdf(confidence))


def _demand_metric(record: AuditRecord, metric: str, class_name: str) -> None:
    """Refuse a metric that the record does not have for all samples or for a class."""
    ratios = {number.tag for number in CATALOGUE if number.parts is not None}
    scored = set(record.samples[0].scores).intersection(*(sample.scores for sample in record.samples))
    everywhere = {*record.metrics, *record.validation_metrics}
    known = sorted({*ratios, *(everywhere if class_name == ALL_CLASSES else scored)})
    if metric in known:
        return
    scopes = ("class graph", "record", "drift", "record drift", "feature")
    graph_tags, record_tags, *others = ([number.tag for number in numbers_of(scope)] for scope in scopes)
    drift_tags, feature_tags = [*others[0], *others[1]], others[2]
    # All tags of one metric in other scopes are near: "density" means one of two numbers.
    close = difflib.get_close_matches(metric, [*known, *graph_tags, *record_tags, *drift_tags, *feature_tags], n=1)
    hint = f"Did you mean {close[0]!r}?" if close else (
        f"There are: {', '.join([*known, *record_tags])}. Numbers of class graphs: {', '.join(graph_tags)}; with a "
        f"previous record: {', '.join(drift_tags)}; with `feature`: {', '.join(feature_tags)}."
    )  # fmt: skip
    scope = "" if class_name == ALL_CLASSES else f" for class {class_name!r}"
    raise GateError(f"{record.source}: `metric` must be one that is recorded{scope}, got {metric!r}. {hint}")


def _unknown_class(record: AuditRecord, what: str, class_name: str, classes: Collection[str]) -> str:
    there = printable(", ".join(classes) or "none")
    return f"{record.source}: `class` must be one that has {what}, got {class_name!r}. There are: {there}."


def samples_of(record: AuditRecord, class_name: str) -> list[SampleSummary]:
    """The samples of a class, or all of them for "all".

    Args:
        record: the record.
        class_name: the class.

    Raises:
        GateError: there are none.
    """
    found = [sample for sample in record.samples if class_name in (ALL_CLASSES, sample.class_name)]
    if not found:
        classes = sorted({sample.class_name for sample in record.samples})
        raise GateError(_unknown_class(record, "samples", class_name, classes))
    return found


def mean_graph(record: AuditRecord, class_name: str) -> ExplanationGraph:
    """The mean graph of a class.

    Args:
        record: the record.
        class_name: the class.

    Raises:
        GateError: it has none.
    """
    if class_name not in record.class_graphs:
        raise GateError(_unknown_class(record, "a mean graph", class_name, record.class_graphs))
    return record.class_graphs[class_name]


def demand_comparable(record: AuditRecord, previous: AuditRecord) -> None:
    """Refuse to compare records whose numbers do not mean the same.

    Args:
        record: now.
        previous: before.

    Raises:
        GateError: naming the fields of the configuration that differ.
    """
    before = "previous record" if previous.source == record.source else previous.source
    demand_same_settings(record, previous.configuration, before, names=COMPARED)
    if _has_common_gamma(record) != _has_common_gamma(previous):
        raise GateError(
            f"{record.source} and {before} must agree in what they measure, got one gamma for samples of different "
            "numbers of players in one of them, as earlier releases had, and their own in the other. Audit both models "
            "with the same release."
        )


def _has_common_gamma(record: AuditRecord) -> bool:
    """Whether a record without gammas of its samples decided some of them at another one than the rule gives them."""
    gamma = record.configuration.gamma
    return any(
        sample.gamma is None and not math.isclose(gamma, gamma_by_rule(record, sample.n_players), rel_tol=1e-6)
        for sample in record.samples
    )


def worst_samples(record: AuditRecord, metric: str, class_name: str, *, highest: bool, n: int = 3) -> list[str]:
    """The samples with the highest or lowest share of a number, where the record has one per sample.

    Args:
        record: the record.
        metric: tag of the number.
        class_name: the class, or "all".
        highest: whether high values are the bad ones.
        n: at most so many.
    """
    parts = [(sample_parts(metric, sample), sample) for sample in samples_of(record, class_name)]
    shares = [(p[0] / p[1], sample) for p, sample in parts if p is not None and p[1]]
    shares.sort(key=lambda item: item[0], reverse=highest)
    return [f"{sample.name}: {share:.4g}" for share, sample in shares[:n]]


def count_groups(record: AuditRecord, class_name: str = ALL_CLASSES) -> Counter[tuple[str, ...]]:
    """How many samples of a class have each group of interchangeable players.

    Args:
        record: the record.
        class_name: the class, or "all".
    """
    return Counter(tuple(sorted(group)) for sample in samples_of(record, class_name) for group in sample.groups)


def heaviest_groups(counts: Counter[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Groups, those first that are large and in many samples.

    Example:
        >>> heaviest_groups(Counter({("a", "b"): 2, ("a", "b", "c"): 2}))
        [('a', 'b', 'c'), ('a', 'b')]
    """
    return sorted(counts, key=lambda group: (-counts[group] * (len(group) - 1), group))


def largest_groups(
    record: AuditRecord, class_name: str, *, besides: Collection[tuple[str, ...]] = (), n: int = 3
) -> list[str]:
    """The heaviest groups in words, with how many samples have them.

    Args:
        record: the record.
        class_name: the class, or "all".
        besides: groups to leave out.
        n: at most so many.
    """
    counts, n_samples = count_groups(record, class_name), len(samples_of(record, class_name))
    found = [group for group in heaviest_groups(counts) if group not in besides]
    return [f"{' = '.join(group)} ({counts[group]} of {n_samples} samples)" for group in found[:n]]
