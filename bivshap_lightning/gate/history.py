"""`History`: a timeline over records of epochs or releases: shares, places, roles, drift and verdicts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bivshap_lightning.audit.record import AuditRecord, as_record
from bivshap_lightning.audit.record_parts import ALL_CLASSES
from bivshap_lightning.gate.judging import Record, Rules, judge
from bivshap_lightning.gate.measuring import demand_comparable
from bivshap_lightning.gate.profile import Profile, default_gammas, known_graphs, profile_of, shares_of
from bivshap_lightning.gate.record_drift import ProfilePair, largest_record_moves, record_drift
from bivshap_lightning.gate.rules import GateError
from bivshap_lightning.gate.rules_file import GateFile, as_gate
from bivshap_lightning.gate.verdict import Verdict, number
from bivshap_lightning.graph.roles import ROLES, roles_of_all
from bivshap_lightning.metrics.catalogue import numbers_of

KIND = "bivshap_lightning.History"
HISTORY_VERSION = 1


@dataclass(frozen=True)
class HistoryEntry:
    """One record of a timeline.

    Attributes:
        name: what pages call it: epoch and step, or the name of the file.
        record: path of the record.
        shares: share of each feature in the mean absolute Shapley values; empty if samples have no common features.
        places: place of each feature by its share, 1 for the largest.
        roles: share of samples and players in each role, at the default gamma.
        drift: distances from the reference, or from the record before; empty for the first without a reference.
        moved: the features that moved most, in words.
        verdict: over the record; None without rules that apply.
        validation_metrics: of the run itself.
    """

    name: str
    record: str
    shares: Mapping[str, float]
    places: Mapping[str, int]
    roles: Mapping[str, float]
    drift: Mapping[str, float | None]
    moved: tuple[str, ...]
    verdict: Verdict | None
    validation_metrics: Mapping[str, float]


@dataclass(frozen=True)
class History:
    """A timeline over records.

    Attributes:
        entries: in the order given.
        features: those with the largest share in any record first.
        thresholds: of drift, by number, from the rules; a minimum for drift/ndcg, else a maximum.
        against: what drift is measured from.
        notes: what to know first, such as samples that the records do not share.
    """

    entries: tuple[HistoryEntry, ...]
    features: tuple[str, ...]
    thresholds: Mapping[str, float]
    against: str
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Everything, for programs."""
        entries = [
            {**asdict(entry), "verdict": None if entry.verdict is None else json.loads(entry.verdict.to_json())}
            for entry in self.entries
        ]
        return json.dumps({"kind": KIND, "version": HISTORY_VERSION, **asdict(self), "entries": entries}, indent=1)

    def to_text(self) -> str:
        """A table for the terminal."""
        tags = [n.tag for n in numbers_of("record drift")]
        heads = [f"{tag.removeprefix('drift/'):>8}" for tag in tags]
        lines = [*(f"note: {note}" for note in self.notes), f"drift from {self.against}", f"{''.join(heads)}  record"]
        for entry in self.entries:
            values = "".join(f"{number(entry.drift[tag]) if tag in entry.drift else '-':>8}" for tag in tags)
            words = "" if entry.verdict is None else " passed" if entry.verdict.passed else " FAILED"
            lines.append(f"{values}  {entry.name}{words}")
            lines += [
                f"{'':10}{line}" for line in entry.moved if entry.verdict is not None and not entry.verdict.passed
            ]
        return "\n".join(lines)


def make_history(records: Sequence[Record], *, rules: Rules | None = None) -> History:
    """The timeline of records.

    Args:
        records: two or more, oldest first.
        rules: judge every record; their reference, if any, is what drift is measured from.

    Raises:
        RecordError: a record is missing, damaged or contradicts itself.
        GateError: there are fewer than two records, or they are not comparable.
    """
    if len(records) < 2:
        raise GateError(f"`records` must be two or more, oldest first, got {len(records)}. `bivshap report` shows one.")
    gate = None if rules is None else as_gate(rules)
    loaded = [as_record(record) for record in records]
    for record in loaded[1:]:
        demand_comparable(record, loaded[0])
    profiles = [profile_of(record) for record in loaded]
    reference = None if gate is None else gate.reference
    before: list[Profile | None] = [None, *profiles[:-1]]
    if reference is not None:
        for record in loaded:
            reference.demand_comparable(record)
        before = [reference.profile] * len(profiles)
    names = _names(loaded)
    entries = [
        _entry(names[k], record, profiles[k], before[k], _verdict(record, gate, loaded[k - 1] if k else None))
        for k, record in enumerate(loaded)
    ]
    features = {name: max(entry.shares.get(name, 0.0) for entry in entries) for e in entries for name in e.shares}
    pairs = [ProfilePair(now, then) for now, then in zip(profiles, before, strict=True) if then is not None]
    return History(
        entries=tuple(entries),
        features=tuple(sorted(features, key=lambda name: -features[name])),
        thresholds=_thresholds(gate),
        against="the record before" if reference is None else reference.name,
        notes=tuple(dict.fromkeys(note for pair in pairs for note in pair.notes)),
    )


def _names(records: Sequence[AuditRecord]) -> list[str]:
    """Epoch and step if they tell the records apart, else file names, else numbers."""
    moments = [", ".join(f"{k} {v}" for k, v in r.run.moment.items() if k != "stage") for r in records]
    files = [Path(r.source).stem for r in records]
    paths = [os.path.join(*Path(r.source).parts[-2:]) for r in records]
    for names in (moments, files, paths):
        if all(names) and len(set(names)) == len(names):
            return names
    return [f"record {k}" for k in range(1, len(records) + 1)]


def _entry(
    name: str, record: AuditRecord, profile: Profile, before: Profile | None, verdict: Verdict | None
) -> HistoryEntry:
    shares = shares_of(profile) if profile.has_features else None
    drift: dict[str, float | None] = {}
    moved: list[str] = []
    if before is not None:
        pair = ProfilePair(profile, before, ALL_CLASSES)
        of_features = profile.has_features and before.has_features
        tags = [n.tag for n in numbers_of("record drift") if of_features or n.tag in ("drift/samples", "drift/roles")]
        drift = {tag: record_drift(tag, pair) for tag in tags}
        moved = largest_record_moves("drift/shares", pair) if of_features else []
    return HistoryEntry(
        name=name,
        record=record.source,
        shares={} if shares is None else dict(zip(shares.names, shares.values.tolist(), strict=True)),
        places={} if shares is None else {feature: shares.place(feature) for feature in shares.names},
        roles=_role_shares(record),
        drift=drift,
        moved=tuple(moved),
        verdict=verdict,
        validation_metrics=dict(record.validation_metrics),
    )


def _role_shares(record: AuditRecord) -> dict[str, float]:
    graphs = known_graphs(record)
    found = [role for roles in roles_of_all(graphs, default_gammas(graphs)) for role in roles.roles]
    return {role: float(np.mean([its == role for its in found])) for role in ROLES}


def _verdict(record: AuditRecord, gate: GateFile | None, previous: AuditRecord | None) -> Verdict | None:
    """The verdict over a record; rules about changes are left out for the first one."""
    if gate is None:
        return None
    known = previous is not None
    rules = tuple(
        rule
        for rule in gate.rules
        if known or not rule.needs_previous or (rule.is_record_drift and gate.reference is not None)
    )
    return judge(record, GateFile(rules, gate.reference), previous) if rules else None


def _thresholds(gate: GateFile | None) -> dict[str, float]:
    rules = [] if gate is None else [r for r in gate.rules if r.is_record_drift and r.class_name == ALL_CLASSES]
    limits = {rule.metric: rule.min if rule.metric == "drift/ndcg" else rule.max for rule in rules}
    return {metric: limit for metric, limit in limits.items() if limit is not None}
