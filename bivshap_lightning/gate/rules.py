"""Rules: what a release must meet, read from a TOML file that is checked whole before anything is judged."""

from __future__ import annotations

import math
import os
import reprlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bivshap_lightning.audit.record import checksum

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

RULES_VERSION = 1
ALL_CLASSES = "all"
LEVELS = ("min", "max")
CHANGES = ("min_absolute_change", "max_absolute_change", "min_relative_change", "max_relative_change")
THRESHOLDS = (*LEVELS, *CHANGES)
CHOICES = {"severity": ("fail", "warn"), "compare": ("bound", "point")}
DRIFTS = ("drift/weights", "drift/redundancy", "drift/ranking")
"""Distances of class graphs from those of the previous record; :mod:`~bivshap_lightning.gate.drift` defines them."""
KEYS = ("metric", "class", *THRESHOLDS, "severity", "compare", "confidence")


class GateError(ValueError):
    """Rules or evidence that cannot be judged: missing, damaged, or not comparable. Never a pass.

    Example:
        >>> issubclass(GateError, ValueError)
        True
    """


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One thing that a release must meet.

    Args:
        metric: a name under "metrics" of the record, or one of those that are derived from its graphs, alone or, with
            "drift/", together with those of the previous record.
        class_name: the class whose samples or graph are judged; "all" for all samples, or the worst class graph.
        min: the smallest value that passes.
        max: the largest value that passes.
        min_absolute_change: the smallest ``value - previous`` that passes; negative allows a loss.
        max_absolute_change: the largest one.
        min_relative_change: the smallest ``(value - previous) / |previous|`` that passes.
        max_relative_change: the largest one.
        severity: "fail" decides the verdict, "warn" only speaks.
        compare: "bound" compares the confidence bound on the unfavourable side, "point" the value itself.
        confidence: of that bound, one-sided.

    Example:
        >>> Rule(metric="bivshap/redundancy/density", max=0.2).name
        'bivshap/redundancy/density: max 0.2'
        >>> Rule(metric="density", class_name="cat", max_absolute_change=0.05, compare="point").name
        'density of class cat: max_absolute_change 0.05'
    """

    metric: str
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
        for name, value in {"metric": self.metric, "class": self.class_name}.items():
            if not isinstance(value, str) or not value:
                raise GateError(f"`{name}` must be a name, got {reprlib.repr(value)}.")
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise GateError(f"`{name}` must be one of {list(allowed)}, got {reprlib.repr(getattr(self, name))}.")
        for name in ("confidence", *THRESHOLDS):
            value = getattr(self, name)
            if value is not None and not is_number(value):
                raise GateError(f"`{name}` must be a finite number, got {reprlib.repr(value)}.")
        if not 0.5 <= self.confidence < 1:
            raise GateError(f"`confidence` must lie in [0.5, 1), got {self.confidence:g}.")
        self._check_thresholds()

    def _check_thresholds(self) -> None:
        if not self.thresholds:
            raise GateError(f"A rule must set at least one of {list(THRESHOLDS)}, got none for {self.metric!r}.")
        changes = [name for name in self.thresholds if name in CHANGES]
        if self.is_drift and changes:
            raise GateError(f"{self.metric!r} must have `max` or `min`, got {changes}. Drift is a change already.")
        for low, high in zip(THRESHOLDS[::2], THRESHOLDS[1::2], strict=True):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise GateError(f"`{low}` must not exceed `{high}`, got {least:g} and {most:g}: nothing could pass.")

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds that are set, by name."""
        return {name: float(getattr(self, name)) for name in THRESHOLDS if getattr(self, name) is not None}

    @property
    def needs_previous(self) -> bool:
        """Whether the rule compares with a previous record."""
        return self.is_drift or any(name in CHANGES for name in self.thresholds)

    @property
    def is_drift(self) -> bool:
        """Whether the rule is about the distance from the graphs of a previous record, which needs arrays."""
        return self.metric in DRIFTS

    @property
    def name(self) -> str:
        """The rule in one line."""
        where = "" if self.class_name == ALL_CLASSES else f" of class {self.class_name}"
        return f"{self.metric}{where}: " + ", ".join(f"{k} {v:g}" for k, v in self.thresholds.items())


def is_number(value: object) -> bool:
    """Whether a value read from a file is a finite number; true and false are none.

    Example:
        >>> is_number(1), is_number(float("nan")), is_number(True), is_number("1")
        (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of floats
        return False


def load_rules(path: str | os.PathLike[str]) -> list[Rule]:
    r"""Read a rules file.

    Args:
        path: of a TOML file with one ``[[rule]]`` per rule; "class" stands for `class_name`. At its top may stand
            `version` and, against damage that leaves TOML as good as before, `sha256`: the checksum of all else, which
            the message about a wrong one tells.

    Raises:
        GateError: The file is missing, damaged, of a later version, empty, or has a rule that cannot be meant.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "gate.toml")
        ...     _ = path.write_text('[[rule]]\nmetric = "bivshap/redundancy/density"\nmax = 0.2')
        ...     load_rules(path)[0].max
        0.2
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise GateError(f"`rules` must be a readable file, got {path} ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:  # TOML and UTF-8 errors are ValueErrors
        raise GateError(f"`rules` must be a TOML file, got {path} ({error}). Correct the file.") from error
    version = content.pop("version", RULES_VERSION)
    if type(version) is not int or version != RULES_VERSION:
        raise GateError(
            f"`rules` must have version {RULES_VERSION}, got {reprlib.repr(version)} in {path}. "
            "Upgrade bivshap_lightning to read later versions."
        )
    unknown = sorted(content.keys() - {"rule", "sha256"})
    if unknown:
        raise GateError(f"`rules` must hold [[rule]] tables, `version` and `sha256` only, got {unknown} in {path}.")
    rules = _parse(content.get("rule"), path)
    if "sha256" in content and content["sha256"] != checksum({"rule": content["rule"]}):
        raise GateError(
            f"`sha256` must be the checksum of the rules, got {reprlib.repr(content['sha256'])} in {path}. Fetch the "
            f'file again; if you changed the rules, set sha256 = "{checksum({"rule": content["rule"]})}".'
        )
    return rules


def _parse(tables: Any, path: Path) -> list[Rule]:
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise GateError(f"`rules` must hold at least one [[rule]] table, got none in {path}.")
    rules = []
    for place, table in enumerate(tables, start=1):
        try:
            rules.append(_rule(table))
        except GateError as error:
            raise GateError(f"Rule {place} of {path}: {error}") from error
    return rules


def _rule(table: Mapping[str, Any]) -> Rule:
    unknown = sorted(table.keys() - set(KEYS))
    if unknown:
        raise GateError(f"A rule must use the keys {list(KEYS)} only, got {unknown}.")
    if "metric" not in table:
        raise GateError("A rule must name its `metric`, got none.")
    return Rule(**{"class_name" if key == "class" else key: value for key, value in table.items()})


def as_rules(rules: str | os.PathLike[str] | Sequence[Rule]) -> tuple[Rule, ...]:
    """Rules, given as such or as the path of their file.

    Example:
        >>> as_rules([Rule(metric="density", max=0.2)])[0].metric
        'density'
    """
    if isinstance(rules, str | os.PathLike):
        return tuple(load_rules(rules))
    rules = tuple(rules)
    if not rules or not all(isinstance(rule, Rule) for rule in rules):
        raise GateError(f"`rules` must be a path or at least one Rule, got {reprlib.repr(rules)}.")
    return rules
