"""`AuditRecord`: what an audit found, with which configuration and versions, as frozen dataclasses.

An audit produces an `AuditRecord` (:mod:`bivshap_lightning.audit.recording`), and everything after the audit (gate,
drift, HTML page, command line) takes one. :meth:`AuditRecord.save` writes its two files and :meth:`AuditRecord.load`
reads and verifies them, once. Needs neither torch nor the model.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.audit.json_fields import NOT_STORED, OPTIONAL, decode, encode
from bivshap_lightning.audit.record_arrays import graphs_of_samples, verify_arrays
from bivshap_lightning.audit.record_changes import Change
from bivshap_lightning.audit.record_checks import verify_fields
from bivshap_lightning.audit.record_columns import ColumnReport
from bivshap_lightning.audit.record_files import read_files, write_files
from bivshap_lightning.audit.record_parts import (
    COMPARED,
    NOTHING,
    ClassMetrics,
    Configuration,
    Cost,
    Curve,
    Estimate,
    GammaPoint,
    GraphSummary,
    PairSummary,
    RankedPlayer,
    Run,
    SampleSummary,
)
from bivshap_lightning.graph import ROLES, ExplanationGraph
from bivshap_lightning.graph.averaging import mean_of_class

__all__ = [
    "COMPARED",
    "MAX_PICTURED_CLASSES",
    "AuditRecord",
    "ClassMetrics",
    "Configuration",
    "Cost",
    "Curve",
    "Estimate",
    "GammaPoint",
    "GraphSummary",
    "PairSummary",
    "RankedPlayer",
    "RecordError",
    "Run",
    "SampleSummary",
    "as_record",
    "software_versions",
]

PACKAGES = ("bivshap-lightning", "torch", "pytorch-lightning", "lightning", "torchmetrics", "captum", "scikit-network")

MAX_PICTURED_CLASSES = 12
"""Classes of which a record keeps a picture and a page shows one."""


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """What an audit found.

    Attributes:
        configuration: what was computed.
        versions: of the software, by package.
        run: which audit it was.
        metrics: numbers over all samples, by tag of :mod:`bivshap_lightning.metrics.catalogue`.
        curves: post-hoc accuracy curves, by explainer.
        classes: the mean graph of every class whose samples have players in common.
        class_metrics: numbers over the samples of each class.
        samples: the audited samples.
        cost: what it cost.
        substitutes: pairs of features that make up for each other most, over all samples, if these have features in
            common.
        partners: pairs of features that need each other most, likewise.
        sweep: roles, density and accuracies at other gammas.
        change: what changed since the audit before, if there was one.
        notes: sentences about the whole audit, such as that there was nothing to explain.
        columns: what dropping each column of a table costs, and which can go; None where it was not asked.
        validation_metrics: what the training run itself logged at the time of the audit, such as its validation loss.
        arrays: weights, standard errors and Shapley values of all samples, and pictures of some.
        source: what messages call the record.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> graph = ExplanationGraph([[0, 0.5], [0.25, 0]], names=["a", "b"])
        >>> sample = SampleSummary(index=0, target="cat", **GraphSummary.fields_of(graph, 1e-5))
        >>> configuration = Configuration("logit", "softmax", "automatic", "baseline 0", "predicted", 1e-5)
        >>> arrays = {"weights": np.stack([graph.weights])}
        >>> record = AuditRecord(configuration=configuration, samples=(sample,), arrays=arrays)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     AuditRecord.load(record.save(f"{folder}/audit.json")).samples == record.samples
        True
    """

    configuration: Configuration
    samples: tuple[SampleSummary, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    run: Run = field(default_factory=Run)
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    classes: Mapping[str, GraphSummary] = field(default_factory=dict)
    class_metrics: Mapping[str, ClassMetrics] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    substitutes: tuple[PairSummary, ...] = field(default=(), metadata=OPTIONAL)
    partners: tuple[PairSummary, ...] = field(default=(), metadata=OPTIONAL)
    sweep: tuple[GammaPoint, ...] = field(default=(), metadata=OPTIONAL)
    change: Change | None = field(default=None, metadata=OPTIONAL)
    notes: tuple[str, ...] = field(default=(), metadata=OPTIONAL)
    columns: ColumnReport | None = field(default=None, metadata=OPTIONAL)
    validation_metrics: Mapping[str, float] = field(default_factory=dict, metadata=OPTIONAL)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict, compare=False, repr=False, metadata=NOT_STORED)
    source: str = field(default="record", compare=False, metadata=NOT_STORED)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AuditRecord:
        """Read a record and verify all of it: checksums, types, ranges, and that its parts agree.

        Args:
            path: of the JSON file; the NPZ file must be beside it.

        Raises:
            RecordError: it is missing, damaged, of another version, or in contradiction with itself.
        """
        content, arrays = read_files(Path(path))
        record = replace(cls.from_fields(content, source=str(path)), arrays=arrays)
        verify_arrays(record)
        return record

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], *, source: str = "record") -> AuditRecord:
        """A record from the JSON values of its fields, without arrays, verified.

        Args:
            fields: as :meth:`to_fields` returns them.
            source: what messages call the record.

        Raises:
            RecordError: a value has the wrong type or range, or contradicts another.
        """
        record = replace(decode(cls, fields, source=source), source=source)
        verify_fields(record)
        return record

    def to_fields(self) -> dict[str, Any]:
        """All fields but the arrays as JSON values."""
        fields: dict[str, Any] = encode(self)
        return fields

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the record.

        Args:
            path: of the JSON file; the arrays go beside it.

        Returns:
            The path of the JSON file.

        Raises:
            RecordError: the record contradicts itself.
            OSError: a file cannot be written.
        """
        verify_fields(self)
        write_files(Path(path), self.to_fields(), self.arrays)
        return Path(path)

    @cached_property
    def sample_graphs(self) -> tuple[ExplanationGraph, ...]:
        """G of every sample, from the arrays.

        Raises:
            RecordError: there are no arrays, or not those of the samples.
        """
        return graphs_of_samples(self)

    @cached_property
    def class_graphs(self) -> dict[str, ExplanationGraph]:
        """The mean graph of every class in `classes`, from the arrays.

        Raises:
            RecordError: as for `sample_graphs`.
        """
        members: dict[str, list[ExplanationGraph]] = {name: [] for name in self.classes}
        for sample, graph in zip(self.samples, self.sample_graphs, strict=True):
            if sample.class_name in members:
                members[sample.class_name].append(graph)
        return {name: mean_of_class(graphs) for name, graphs in members.items() if graphs}

    @cached_property
    def roles_of_features(self) -> dict[str, dict[str, float]]:
        """The share of samples in which each feature has each role, the features with most samples first.

        Features go by name; a sample without the feature does not count. Empty if the samples have no roles.
        """
        counts: dict[str, Counter[str]] = {}
        for sample in self.samples:
            for player, role in zip(sample.players, sample.roles, strict=False):
                counts.setdefault(player, Counter())[role] += 1
        order = sorted(counts, key=lambda name: -counts[name].total())
        return {name: {role: counts[name][role] / counts[name].total() for role in ROLES} for name in order}

    def gamma_of(self, summary: GraphSummary) -> float:
        """The threshold at which a sample or class was decided; in records that do not say, one for all.

        Args:
            summary: of a sample or class of the record.
        """
        return self.configuration.gamma if summary.gamma is None else summary.gamma

    @cached_property
    def gamma_range(self) -> tuple[float, float]:
        """The smallest and the largest threshold of a sample, which differ where samples differ in players."""
        gammas = [self.gamma_of(sample) for sample in self.samples]
        return min(gammas), max(gammas)

    @property
    def nothing_to_explain(self) -> tuple[str, ...]:
        """The note that features hardly change the output, as in an untrained model; empty if they do."""
        return tuple(note for note in self.notes if note.startswith(NOTHING))

    def hardest_samples(self) -> list[int]:
        """Positions of the samples to look at first: wrong predictions, then those whose features add least.

        A value has no direction in which features should move it: of a regression those that move it least come first.
        """
        has_direction = self.configuration.task != "regression"

        def ease(position: int) -> tuple[bool, float]:
            sample = self.samples[position]
            right = self.configuration.target != "predicted" or sample.label in (None, sample.target)
            if sample.gain is None:
                return right, -float(sample.n_undecided)
            return right, sample.gain if has_direction else abs(sample.gain)

        return sorted(range(len(self.samples)), key=ease)


def as_record(record: AuditRecord | str | os.PathLike[str]) -> AuditRecord:
    """A record given as such or as the path of its JSON file.

    Args:
        record: the record or its path.

    Raises:
        RecordError: as in :meth:`AuditRecord.load`.
        TypeError: it is neither.
    """
    if isinstance(record, AuditRecord):
        return record
    if isinstance(record, str | os.PathLike):
        return AuditRecord.load(record)
    raise TypeError(f"`record` must be an AuditRecord or the path of one, got {type(record).__name__}.")


def software_versions() -> dict[str, str]:
    """The versions that an audit's numbers depend on.

    Example:
        >>> "torch" in software_versions()
        True
    """
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
