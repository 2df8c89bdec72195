"""`PageContent`: everything that the HTML page shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.gate import Verdict


@dataclass(frozen=True)
class PageContent:
    """What the page is made from.

    Attributes:
        record: the audit.
        previous: that of the previous model, if any.
        verdict: over the record, if there are rules.
    """

    record: AuditRecord
    previous: AuditRecord | None = None
    verdict: Verdict | None = None

    def gamma_text(self, factor: float = 1.0, *, form: Callable[[float], str] = "{:.3g}".format) -> str:
        """The largest weight that counts as redundant, or the range of it where samples differ in players.

        Args:
            factor: multiplies it.
            form: writes a number.
        """
        low, high = (form(factor * gamma) for gamma in self.record.gamma_range)
        return low if low == high else f"{low} to {high} (by a sample's number of features)"

    @property
    def is_regression(self) -> bool:
        """Whether a value is explained and there are no classes."""
        return self.record.configuration.task == "regression"

    @property
    def ranked_on(self) -> str:
        """What the rankings were computed from."""
        on = {graph.ranked_on for graph in self.record.sample_graphs}
        return "the log-odds of the decision" if on == {"log_odds"} else "the explained output, without its log-odds"

    @property
    def has_pictures(self) -> bool:
        """Whether graphs are drawn on pictures of the samples."""
        return any(name.startswith("segments_") for name in self.record.arrays)

    @cached_property
    def has_own_parts(self) -> bool:
        """Whether parts of the same name are different things in different samples.

        Superpixels of pictures are, and the tokens of texts of different lengths unless they go by their words.
        """
        samples = self.record.samples
        if any(sample.words is None and sample.players != samples[0].players for sample in samples):
            return True
        parts = [array for name, array in self.record.arrays.items() if name.startswith("segments_")]
        return any(not np.array_equal(part, parts[0]) for part in parts[1:])

    def example(self, class_name: str) -> int | None:
        """The position of the first sample of a class that has a picture; None if none has."""
        positions = [k for k, sample in enumerate(self.record.samples) if sample.class_name == class_name]
        return next((k for k in positions if f"segments_{k}" in self.record.arrays), None)
