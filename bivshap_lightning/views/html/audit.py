"""What the page is about: `Audit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bivshap_lightning.gate import Evidence, Verdict
from bivshap_lightning.graph import ExplanationGraph


@dataclass(frozen=True)
class Audit:
    """All that the page tells.

    Attributes:
        record: the record, checked.
        evidence: its numbers with intervals.
        previous: those of the previous model, if any.
        verdict: over the record, if there are rules.
        sample_graphs: G of every sample.
        class_graphs: the mean graph of every class; None where its samples differ in players.
        arrays: of the record, among them pictures of some samples.
    """

    record: Mapping[str, Any]
    evidence: Evidence
    previous: Evidence | None
    verdict: Verdict | None
    sample_graphs: Sequence[ExplanationGraph]
    class_graphs: Mapping[str, ExplanationGraph | None]
    arrays: Mapping[str, Any]

    @property
    def gamma(self) -> float:
        """The largest weight that counts as nothing."""
        return float(self.evidence.configuration["gamma"])

    @property
    def has_pictures(self) -> bool:
        """Whether graphs are drawn on pictures of the samples."""
        return any(name.startswith("segments_") for name in self.arrays)

    def example(self, class_name: str) -> int | None:
        """The place of the first sample of a class that has a picture; None if none has."""
        places = [k for k, g in enumerate(self.evidence.samples) if g.class_name == class_name]
        return next((k for k in places if f"segments_{k}" in self.arrays), None)
