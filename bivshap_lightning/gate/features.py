"""Numbers of named features over the samples of a record: share, place, roles, and their substitutes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import cast

import numpy as np

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.audit.record_parts import ALL_CLASSES
from bivshap_lightning.gate.profile import Shares, default_gammas, known_graphs
from bivshap_lightning.gate.rules import GateError, NotInRecordError
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.checks import FloatArray
from bivshap_lightning.graph.naming import names_without_repeat_number, positions_by_name
from bivshap_lightning.graph.roles import ROLES, Roles, roles_of_all
from bivshap_lightning.graph.substitution import mean_substitution
from bivshap_lightning.metrics.intervals import Interval, normal_interval, wilson_interval
from bivshap_lightning.text import printable, shown

Statistic = Callable[[FloatArray], FloatArray]
"""From (N, number of features) sums of importance to (N,) values."""


def measure_top(
    record: AuditRecord, metric: str, *, class_name: str = ALL_CLASSES, confidence: float = 0.95
) -> Interval:
    """How much one feature has of all importance or of that of the first two, or how often it suffices alone.

    Args:
        record: the record.
        metric: tag, "top1_share", "top1_lead" or "top1_alone".
        class_name: only samples of this class; "all" for all.
        confidence: one-sided.

    Raises:
        NotInRecordError: the record has no sufficient sets, and the metric is about them; or the samples have no
            features in common.
        GateError: there is no such class.
    """
    if metric == "top1_alone":
        return _jackknife(_alone(record, class_name)[1], _top_alone, confidence)
    _, importance = importance_of(record, class_name)
    return _jackknife(importance, {"top1_share": _top_share, "top1_lead": _top_lead}[metric], confidence)


def measure_feature(
    record: AuditRecord, metric: str, feature: str, *, class_name: str = ALL_CLASSES, confidence: float = 0.95
) -> Interval:
    """A number of one feature with its interval.

    Args:
        record: the record.
        metric: tag, "feature/...".
        feature: name of the feature.
        class_name: only samples of this class; "all" for all.
        confidence: one-sided.

    Raises:
        GateError: there is no such feature or class.
    """
    names, importance = importance_of(record, class_name)
    position = find_feature(record, names, feature)
    kind = metric.removeprefix("feature/")
    if kind == "share":
        return _jackknife(importance, lambda totals: _normalised(totals)[:, position], confidence)
    if kind == "place":
        place = float(Shares(names, _normalised(importance.sum(axis=0)[None])[0]).place(feature))
        return Interval(place, place, place)
    if kind == "stand_in":
        strongest = max((share for _, share in stand_ins(record, feature, class_name=class_name)), default=0.0)
        return Interval(strongest, strongest, strongest)
    found = _roles_of(record, feature, class_name)
    if kind == "makes_redundant":
        holds = [any(position in given for given in roles.redundant_given) for roles, position in found]
    else:
        holds = [roles.roles[position] == kind for roles, position in found]
    return wilson_interval(sum(holds) / len(holds), len(holds), NormalDist().inv_cdf(confidence))


def find_feature(record: AuditRecord, names: Sequence[str], feature: str) -> int:
    """The position of a feature among names.

    Raises:
        GateError: it is not there; the message has the nearest names.
    """
    if feature in names:
        return list(names).index(feature)
    close = difflib.get_close_matches(feature, names, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else (
        f"There are: {printable(', '.join(names))}."
    )  # fmt: skip
    raise GateError(f"{record.source}: `feature` must be one that was audited, got {shown(feature)}. {hint}")


def _demand_common_features(record: AuditRecord) -> None:
    if not record.classes:
        raise NotInRecordError(
            f"{record.source}: numbers of features (`top1_...`, `feature/...`) need players that mean the same in "
            "every sample, got players of each sample's own, as texts have. Audit with one player set for all samples, "
            "such as columns or a grid, or leave out the rule."
        )


def importance_of(record: AuditRecord, class_name: str = ALL_CLASSES) -> tuple[tuple[str, ...], FloatArray]:
    """Names of features, and the absolute Shapley values of each sample (N, number of features).

    Raises:
        NotInRecordError: the samples have no features in common.
        GateError: there is no such class.
    """
    _demand_common_features(record)
    graphs, _ = _graphs_of(record, class_name)
    values = [np.abs(graph.known_shapley) for graph in graphs]
    labels = [names_without_repeat_number(graph.names) for graph in graphs]
    names, positions = positions_by_name(labels, values, None)
    importance = np.zeros((len(graphs), len(names)))
    for row, position, value in zip(importance, positions, values, strict=True):
        np.add.at(row, position, value)
    return tuple(names), importance


def stand_ins(
    record: AuditRecord, feature: str, *, class_name: str = ALL_CLASSES, n: int = 3
) -> list[tuple[str, float]]:
    """Substitutes for a feature (negative C), and which share of its importance each takes over.

    Of a feature that is nowhere relevant the question is turned around: of whose importance does it take over a share.

    Args:
        record: the record.
        feature: such as a protected one.
        class_name: only samples of this class; "all" for all.
        n: at most so many, the strongest first.

    Raises:
        GateError: there is no such feature or class.
    """
    graphs, gammas = _graphs_of(record, class_name)
    parts = mean_substitution(graphs, gammas=gammas)
    position = find_feature(record, parts.names, feature)
    row = parts.own[position]
    if np.isnan(row).all():
        row = parts.own[:, position]
    order = np.argsort(-np.nan_to_num(row, nan=-np.inf), kind="stable")[:n].tolist()
    return [(parts.names[k], float(row[k])) for k in order if row[k] > 1e-6]


def describe_feature(record: AuditRecord, feature: str, *, class_name: str = ALL_CLASSES) -> list[str]:
    """What a feature is to the model, in words: share and place, roles, and its substitutes.

    Args:
        record: the record.
        feature: its name.
        class_name: only samples of this class; "all" for all.
    """
    names, importance = importance_of(record, class_name)
    shares = Shares(names, _normalised(importance.sum(axis=0)[None])[0])
    found = _roles_of(record, feature, class_name)
    counts = {role: sum(roles.roles[position] == role for roles, position in found) for role in ROLES}
    roles = ", ".join(f"{role} in {count}" for role, count in counts.items() if count)
    lines = [
        f"{feature}: place {shares.place(feature)} of {len(names)}, share {shares.of(feature):.2g}",
        f"{feature}: {roles} of {len(found)} samples",
    ]
    proxies = [f"{name} ({share:.0%})" for name, share in stand_ins(record, feature, class_name=class_name)]
    if proxies:
        lines.append(f"{feature}: substitutes for it: {', '.join(proxies)}")
    return lines


def _graphs_of(record: AuditRecord, class_name: str) -> tuple[list[ExplanationGraph], list[float]]:
    """Graphs of the samples of a class and their thresholds, which all samples of the record determine."""
    graphs = known_graphs(record)
    chosen = [k for k, sample in enumerate(record.samples) if class_name in (ALL_CLASSES, sample.class_name)]
    if not chosen:
        classes = ", ".join(sorted({sample.class_name for sample in record.samples}))
        raise GateError(
            f"{record.source}: `class` must be one that has samples, got {class_name!r}. There are: "
            f"{printable(classes)}."
        )
    gammas = default_gammas(graphs)
    return [graphs[k] for k in chosen], [gammas[k] for k in chosen]


def _roles_of(record: AuditRecord, feature: str, class_name: str) -> list[tuple[Roles, int]]:
    """Roles of the samples that have a feature, and its position there."""
    graphs, gammas = _graphs_of(record, class_name)
    found = []
    for roles in roles_of_all(graphs, gammas):
        names = names_without_repeat_number(roles.names)
        if feature in names:
            found.append((roles, names.index(feature)))
    return found


def _top_share(totals: FloatArray) -> FloatArray:
    return cast("FloatArray", _normalised(totals).max(axis=1))


def _top_lead(totals: FloatArray) -> FloatArray:
    return _top_share(-np.sort(-totals, axis=1)[:, :2])


def most_often_alone(record: AuditRecord, class_name: str = ALL_CLASSES, n: int = 3) -> tuple[str, ...]:
    """The features that suffice alone most often, in words.

    Args:
        record: with sufficient sets.
        class_name: only samples of this class; "all" for all.
        n: at most so many.
    """
    names, alone = _alone(record, class_name)
    *counts, whole = alone.sum(axis=0).astype(int).tolist()
    largest = sorted(zip(counts, names, strict=True), key=lambda item: -item[0])[:n]
    return tuple(f"{name}: suffices alone for {count} of {whole} samples" for count, name in largest)


def _alone(record: AuditRecord, class_name: str) -> tuple[tuple[str, ...], FloatArray]:
    """Names, and for each sample which suffices alone and, in the last column, whether any feature is needed."""
    _demand_common_features(record)
    found = [s.sufficient for s in record.samples if class_name in (ALL_CLASSES, s.class_name)]
    sets = [its.members for its in found if its is not None]
    if len(sets) < len(found) or not sets:
        raise NotInRecordError(
            f"{record.source}: the record must hold a sufficient set of every sample for 'top1_alone', got "
            f"{len(sets)} of {len(found)}. Audit again, or leave out the rule."
        )
    alone = [members[0] if len(members) == 1 else "" for members in sets]
    names = sorted({name for name in alone if name})
    rows = [[*(a == name for name in names), bool(its)] for a, its in zip(alone, sets, strict=True)]
    return tuple(names), np.array(rows, dtype=np.float64)


def _top_alone(totals: FloatArray) -> FloatArray:
    return cast("FloatArray", totals[:, :-1].max(axis=1, initial=0.0) / np.maximum(totals[:, -1], 1.0))


def _normalised(totals: FloatArray) -> FloatArray:
    whole = totals.sum(axis=1, keepdims=True)
    shares: FloatArray = totals / np.where(whole > 0, whole, 1.0)
    return shares


def _jackknife(importance: FloatArray, statistic: Statistic, confidence: float) -> Interval:
    """A statistic of the column sums and its normal interval, from leaving out one sample at a time."""
    n, totals = len(importance), importance.sum(axis=0)
    value = float(statistic(totals[None])[0])
    left = statistic(totals - importance)
    error = float(np.sqrt((n - 1) / n * np.square(left - left.mean()).sum()))
    return normal_interval(value, error, n, NormalDist().inv_cdf(confidence), low=0.0, high=1.0)
