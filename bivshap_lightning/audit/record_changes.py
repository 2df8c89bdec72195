"""Parts of an audit record that say what changed since the audit before. No torch.

Both audits have the same samples and the same coalitions. So the error of a change is not that of two independent
audits: Shapley values carry the standard error of the difference of the two games, see
:mod:`bivshap_lightning.explainers.changes`, and numbers over samples that of the differences sample by sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

CHANGE = "bivshap/change/"
"""Start of the tags of numbers about changes."""


@dataclass(frozen=True)
class ShapleyChange:
    """The change of the Shapley values of a sample, in the order of its players.

    Attributes:
        shapley: estimated from the differences of the coalitions' values.
        standard_error: of the above; 0 for exact values.
    """

    shapley: tuple[float, ...]
    standard_error: tuple[float, ...]

    def relative_to(self, shapley: Sequence[float]) -> tuple[float, float]:
        """The sums of the absolute changes and of their errors, as shares of the absolute values now.

        Args:
            shapley: the values now.

        Example:
            >>> ShapleyChange((0.5, -0.5), (0.1, 0.1)).relative_to([3.0, 1.0])
            (0.25, 0.05)
        """
        size = sum(map(abs, shapley))
        if size == 0:
            return 0.0, 0.0
        return sum(map(abs, self.shapley)) / size, sum(self.standard_error) / size


@dataclass(frozen=True)
class NumberChange:
    """The change of a number over samples, and its standard error from the differences sample by sample."""

    value: float
    standard_error: float

    @classmethod
    def of(cls, before: Sequence[float], now: Sequence[float]) -> NumberChange:
        """The mean change of the samples' scores.

        Args:
            before: a score per sample.
            now: likewise, in the same order.

        Example:
            >>> NumberChange.of([0.0, 1.0, 5.0], [1.0, 2.0, 6.0])
            NumberChange(value=1.0, standard_error=0.0)
        """
        changes = [new - old for old, new in zip(before, now, strict=True)]
        n = len(changes)
        mean = sum(changes) / n
        spread = sum((change - mean) ** 2 for change in changes) / max(n - 1, 1)
        return cls(mean, math.sqrt(spread / n))


@dataclass(frozen=True)
class Change:
    """What changed since the audit before.

    Attributes:
        epoch: of that audit.
        step: of that audit.
        metrics: by tag, the change of every number that is a mean over samples, if they are at least two.
    """

    epoch: int | None = None
    step: int | None = None
    metrics: Mapping[str, NumberChange] = field(default_factory=dict)

    @classmethod
    def between(
        cls,
        before: Mapping[int, Mapping[str, float]],
        now: Mapping[int, Mapping[str, float]],
        *,
        epoch: int | None = None,
        step: int | None = None,
    ) -> Change | None:
        """The change between two audits; None if their samples differ.

        Args:
            before: scores by tag, by sample.
            now: likewise.
            epoch: of the audit before.
            step: of the audit before.

        Example:
            >>> Change.between({0: {"a": 1.0}, 1: {"a": 2.0}}, {0: {"a": 1.5}, 1: {"a": 2.5}}, epoch=4).metrics["a"]
            NumberChange(value=0.5, standard_error=0.0)
        """
        if before.keys() != now.keys():
            return None
        samples = list(now)
        scores = [*before.values(), *now.values()]
        tags = [tag for tag in scores[-1] if all(tag in own for own in scores)] if len(samples) > 1 else []
        metrics = {
            tag: NumberChange.of([before[k][tag] for k in samples], [now[k][tag] for k in samples]) for tag in tags
        }
        return cls(epoch, step, metrics)
