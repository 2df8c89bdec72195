"""`Rule`: one thing that a release must meet. :mod:`bivshap_lightning.gate.rules_file` reads rules from TOML files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bivshap_lightning.audit.json_fields import is_finite_number
from bivshap_lightning.audit.record_parts import ALL_CLASSES
from bivshap_lightning.gate.thresholds import THRESHOLDS
from bivshap_lightning.metrics.catalogue import REDUNDANCY, find_number
from bivshap_lightning.text import shown

CHOICES = {"severity": ("fail", "warn"), "compare": ("bound", "point")}


class GateError(ValueError):
    """Rules that cannot be read or applied: a damaged file, an unknown metric or class, records that do not compare.

    Example:
        >>> issubclass(GateError, ValueError)
        True
    """


class NotInRecordError(GateError):
    """A number that exists, but not for this record, such as an accuracy of a regression.

    A rule of severity "warn" is then left out, and the verdict says so; any other rule cannot be applied.

    Example:
        >>> issubclass(NotInRecordError, GateError)
        True
    """


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One thing that a release must meet.

    Args:
        metric: tag of a number in :mod:`bivshap_lightning.metrics.catalogue`: one over samples ("bivshap/..."), one of
            a class graph ("class_graph/..."), of the record ("top1_share", "top1_lead", "top1_alone"), a distance from
            the reference or the previous record ("drift/..."), one of a named feature ("feature/..."); or a validation
            metric of the record.
        feature: the feature that a "feature/..." rule is about.
        class_name: the class whose samples or graph are judged; "all" for all samples, or the worst class graph.
        min: the smallest value that passes.
        max: the largest value that passes.
        min_absolute_change: the smallest ``value - previous`` that passes; negative allows a loss.
        max_absolute_change: the largest one.
        min_relative_change: the smallest ``(value - previous) / |previous|`` that passes.
        max_relative_change: the largest one.
        severity: "fail" decides the verdict, "warn" is only reported.
        compare: "bound" compares the confidence bound on the unfavourable side, "point" the value itself.
        confidence: of that bound, one-sided.

    Example:
        >>> Rule(metric="bivshap/redundancy/density", max=0.2).name
        'bivshap/redundancy/density: max 0.2'
        >>> Rule(metric="class_graph/density", class_name="cat", max_absolute_change=0.05, compare="point").name
        'class_graph/density of class cat: max_absolute_change 0.05'
    """

    metric: str
    feature: str | None = None
    class_name: str = ALL_CLASSES
    min: float | None = None
    max: float | None = None
    min_absolute_change: float | None = None
    max_absolute_change: float | None = None
    min_relative_change: float | None = None
    max_relative_change: float | None = None
    severity: Literal["fail", "warn"] = "fail"
    compare: Literal["bound", "point"] = "bound"
    confidence: float = 0.95

    def __post_init__(self) -> None:
        texts = {"metric": self.metric, "class": self.class_name}
        for name, value in (texts if self.feature is None else {**texts, "feature": self.feature}).items():
            if not isinstance(value, str) or not value:
                raise GateError(f"`{name}` must be a name, got {shown(value)}.")
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise GateError(f"`{name}` must be one of {list(allowed)}, got {shown(getattr(self, name))}.")
        for name in ("confidence", *THRESHOLDS):
            value = getattr(self, name)
            if value is not None and not is_finite_number(value):
                raise GateError(f"`{name}` must be a finite number, got {shown(value)}.")
        if not 0.5 <= self.confidence < 1:
            raise GateError(f"`confidence` must lie in [0.5, 1), got {self.confidence:g}.")
        if (self.scope == "feature") != (self.feature is not None):
            rule = "be given for" if self.feature is None else "only be given for numbers of features, not for"
            raise GateError(f"`feature` must {rule} {self.metric!r}, got {shown(self.feature)}.")
        self._check_thresholds()

    def _check_thresholds(self) -> None:
        if not self.thresholds:
            raise GateError(f"A rule must set at least one of {list(THRESHOLDS)}, got none for {self.metric!r}.")
        changes = [name for name in self.thresholds if THRESHOLDS[name].needs_previous]
        if (self.is_drift or self.is_record_drift) and changes:
            raise GateError(f"{self.metric!r} must have `max` or `min`, got {changes}. Drift is a change already.")
        for low, least in self.thresholds.items():
            high = low.replace("min", "max", 1)
            if low != high and least > self.thresholds.get(high, least):
                most = self.thresholds[high]
                raise GateError(f"`{low}` must not exceed `{high}`, got {least:g} and {most:g}: nothing could pass.")

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds that are set, by name."""
        return {name: float(getattr(self, name)) for name in THRESHOLDS if getattr(self, name) is not None}

    @property
    def needs_previous(self) -> bool:
        """Whether the rule compares with a previous record."""
        return self.is_drift or self.is_record_drift or any(THRESHOLDS[name].needs_previous for name in self.thresholds)

    @property
    def scope(self) -> str:
        """What the metric is a number of, as the catalogue says; "samples" for one that is not in it."""
        number = find_number(self.metric)
        return "samples" if number is None else number.scope

    @property
    def is_drift(self) -> bool:
        """Whether the rule is about the distance from the class graphs of a previous record."""
        return self.scope == "drift"

    @property
    def is_record_drift(self) -> bool:
        """Whether the rule is about the distance of a record from a reference or a previous record."""
        return self.scope == "record drift"

    @property
    def is_about_class_graphs(self) -> bool:
        """Whether the metric is a number of class graphs."""
        return self.scope in ("drift", "class graph")

    @property
    def is_about_redundancy(self) -> bool:
        """Whether groups of redundant players explain the number."""
        return self.scope == "class graph" or self.metric.startswith(REDUNDANCY)

    @property
    def name(self) -> str:
        """The rule in one line."""
        return f"{self.subject}: " + ", ".join(f"{k} {v:g}" for k, v in self.thresholds.items())

    @property
    def subject(self) -> str:
        """What the rule is about: the number, and the feature or class it is a number of."""
        feature = "" if self.feature is None else f" of {self.feature}"
        where = "" if self.class_name == ALL_CLASSES else f" of class {self.class_name}"
        return f"{self.metric}{feature}{where}"
