"""Importance profiles of records: Shapley values, shares and roles of every sample, as one record or a mean of several.

Drift between records (:mod:`bivshap_lightning.gate.record_drift`) compares two profiles. A profile of one record and
the mean profile of several trusted records have the same form; in a mean, roles are frequencies over the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.audit.record_parts import ALL_CLASSES
from bivshap_lightning.gate.rules import GateError
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.checks import FloatArray
from bivshap_lightning.graph.naming import names_without_repeat_number
from bivshap_lightning.graph.roles import ROLES, Roles, roles_of_all
from bivshap_lightning.graph.threshold import relative_gamma

DRIFT_GAMMA_FACTOR = 3.0
"""Roles are compared between records at this multiple of the default gamma, where they are more stable."""


@dataclass(frozen=True)
class SampleProfile:
    """What drift is measured on, of one sample.

    Attributes:
        key: hash of the sample's content, or its index where a record has no hashes.
        class_name: the class that the sample counts for.
        target: the class that was explained.
        players: names.
        shapley: Shapley values.
        importance: absolute Shapley values as shares of their sum over all samples.
        roles: for each role, in how many of the records (as a share) each player has it.
    """

    key: str
    class_name: str
    target: str
    players: tuple[str, ...]
    shapley: tuple[float, ...]
    importance: tuple[float, ...]
    roles: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Profile:
    """The profiles of the samples of one or several records.

    Attributes:
        samples: one per sample.
        has_features: whether players of the same name mean the same in all samples, as columns and words do.
        source: what messages call it.
    """

    samples: tuple[SampleProfile, ...]
    has_features: bool = True
    source: str = "record"

    @property
    def by_key(self) -> dict[str, SampleProfile]:
        """Samples by key."""
        return {sample.key: sample for sample in self.samples}


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of features in the mean absolute Shapley values.

    Attributes:
        names: features.
        values: their shares; they sum to 1, or are all 0 where nothing has importance.

    Example:
        >>> Shares(("a", "b"), np.array([0.25, 0.75])).place("b")
        1
    """

    names: tuple[str, ...]
    values: FloatArray = field(repr=False)

    def of(self, name: str) -> float:
        """The share of a feature, 0 for one that does not occur."""
        return float(self.values[self.names.index(name)]) if name in self.names else 0.0

    def place(self, name: str) -> int:
        """1 for the largest share; tied features share the better place."""
        return 1 + int((self.values > self.of(name)).sum())


def profile_of(record: AuditRecord) -> Profile:
    """The profile of a record.

    Args:
        record: with arrays.

    Raises:
        RecordError: the record has no arrays.
        GateError: its graphs have no Shapley values.
    """
    graphs = known_graphs(record)
    whole = sum(float(np.abs(graph.known_shapley).sum()) for graph in graphs)
    roles = roles_of_all(graphs, default_gammas(graphs, factor=DRIFT_GAMMA_FACTOR))
    samples = []
    for sample, graph, its_roles in zip(record.samples, graphs, roles, strict=True):
        phi = graph.known_shapley
        samples.append(
            SampleProfile(
                key=sample_key(record, sample.index),
                class_name=sample.class_name,
                target=sample.target,
                players=sample.players,
                shapley=tuple(phi.tolist()),
                importance=tuple((np.abs(phi) / (whole or 1.0)).tolist()),
                roles=_one_hot(its_roles),
            )
        )
    return Profile(tuple(samples), bool(record.classes), record.source)


def sample_key(record: AuditRecord, index: int) -> str:
    """What identifies a sample in several records: the hash of its content, or its index where there are no hashes."""
    keys = record.run.sample_keys
    return keys[index] if index < len(keys) else str(index)


def known_graphs(record: AuditRecord) -> tuple[ExplanationGraph, ...]:
    """G of every sample, all with Shapley values.

    Raises:
        RecordError: the record has no arrays.
        GateError: the graphs have no Shapley values.
    """
    graphs = record.sample_graphs
    if any(graph.shapley is None for graph in graphs):
        raise GateError(
            f"{record.source}: the record must hold Shapley values for this rule, got a record without them. "
            "Audit again."
        )
    return graphs


def default_gammas(graphs: Sequence[ExplanationGraph], *, factor: float = 1.0) -> list[float]:
    """The default threshold of roles for each sample of a record, from the mean size of what there is to explain.

    Args:
        graphs: of all samples of the record.
        factor: multiplies the default.

    Example:
        >>> graphs = [ExplanationGraph([[0, 0], [0, 0]], shapley=[k, 0]) for k in (1, 3)]
        >>> default_gammas(graphs)
        [0.02, 0.02]
    """
    scale = float(np.mean([graph.scale for graph in graphs]))
    return [factor * max(relative_gamma(graph.n_players, scale), _rounding(graph)) for graph in graphs]


def _rounding(graph: ExplanationGraph) -> float:
    """The size of a zero that was stored in single precision."""
    return 1e-7 * float(np.abs(graph.weights).max())


def _one_hot(roles: Roles) -> dict[str, tuple[float, ...]]:
    return {name: tuple(float(role == name) for role in roles.roles) for name in ROLES}


def mean_profile(profiles: Sequence[Profile], *, source: str = "reference") -> Profile:
    """The mean over profiles of the same samples and players.

    Args:
        profiles: at least one.
        source: what messages call it.
    """
    keyed = [profile.by_key for profile in profiles]
    samples = []
    for first in profiles[0].samples:
        same = [samples_of[first.key] for samples_of in keyed]
        samples.append(
            SampleProfile(
                key=first.key,
                class_name=first.class_name,
                target=first.target if all(s.target == first.target for s in same) else "several",
                players=first.players,
                shapley=_mean([s.shapley for s in same]),
                importance=_mean([s.importance for s in same]),
                roles={role: _mean([s.roles[role] for s in same]) for role in ROLES},
            )
        )
    return Profile(tuple(samples), all(profile.has_features for profile in profiles), source)


def _mean(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(np.mean(rows, axis=0).tolist())


def shares_of(profile: Profile, *, class_name: str = ALL_CLASSES, keys: Sequence[str] | None = None) -> Shares:
    """The shares of features in the mean absolute Shapley values.

    Args:
        profile: of a record or a mean.
        class_name: only samples of this class; "all" for all.
        keys: only these samples; None for all.

    Raises:
        GateError: the samples have no features in common, or there is no such class.
    """
    if not profile.has_features:
        raise GateError(
            f"{profile.source}: shares of features need players that mean the same in every sample, got players of "
            "each sample's own. Audit with one player set for all samples, such as columns or a grid."
        )
    chosen = [
        sample
        for sample in profile.samples
        if class_name in (ALL_CLASSES, sample.class_name) and (keys is None or sample.key in keys)
    ]
    if not chosen:
        classes = ", ".join(sorted({sample.class_name for sample in profile.samples}))
        raise GateError(
            f"{profile.source}: `class` must be one that has samples, got {class_name!r}. There are: {classes}."
        )
    total: dict[str, float] = {}
    for sample in chosen:
        for name, value in zip(names_without_repeat_number(sample.players), sample.importance, strict=True):
            total[name] = total.get(name, 0.0) + value
    values = np.array(list(total.values()))
    whole = values.sum()
    return Shares(tuple(total), values / whole if whole > 0 else values)
