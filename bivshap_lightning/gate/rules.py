"""Rules that a release must meet, and the TOML file they are read from, which is checked before anything is judged."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bivshap_lightning.audit.json_fields import is_finite_number
from bivshap_lightning.audit.record_files import checksum
from bivshap_lightning.audit.record_parts import ALL_CLASSES
from bivshap_lightning.gate.thresholds import THRESHOLDS
from bivshap_lightning.metrics.catalogue import REDUNDANCY, find_number
from bivshap_lightning.text import printable, shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

RULES_VERSION = 1
CHOICES = {"severity": ("fail", "warn"), "compare": ("bound", "point")}
KEYS = ("metric", "class", *THRESHOLDS, "severity", "compare", "confidence")
MAX_BYTES = 2**20
"""Of a rules file, which people write."""


class GateError(ValueError):
    """Rules that cannot be read or applied: a damaged file, an unknown metric or class, records that do not compare.

    Example:
        >>> issubclass(GateError, ValueError)
        True
    """


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One thing that a release must meet.

    Args:
        metric: tag of a number in :mod:`bivshap_lightning.metrics.catalogue`: one over samples ("bivshap/..."), one of
            a class graph ("class_graph/...") or a distance from the previous record's class graph ("drift/...").
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
        self._check_thresholds()

    def _check_thresholds(self) -> None:
        if not self.thresholds:
            raise GateError(f"A rule must set at least one of {list(THRESHOLDS)}, got none for {self.metric!r}.")
        changes = [name for name in self.thresholds if THRESHOLDS[name].needs_previous]
        if self.is_drift and changes:
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
        return self.is_drift or any(THRESHOLDS[name].needs_previous for name in self.thresholds)

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
        where = "" if self.class_name == ALL_CLASSES else f" of class {self.class_name}"
        return f"{self.metric}{where}: " + ", ".join(f"{k} {v:g}" for k, v in self.thresholds.items())


def load_rules(path: str | os.PathLike[str]) -> list[Rule]:
    r"""Read a rules file.

    Args:
        path: of a TOML file with one ``[[rule]]`` per rule; "class" stands for `class_name`. It may begin with
            `version` and with `sha256`, the checksum of the rules, which detects damage that TOML does not show; the
            message about a wrong checksum has the right one.

    Raises:
        GateError: The file is missing, damaged, of a later version, empty, or has a rule that nothing could meet.

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
        if not path.is_file() and path.exists():
            raise GateError(f"`rules` must be a readable file, got {path} (a folder, device or pipe).")
        if path.stat().st_size > MAX_BYTES:
            raise GateError(f"`rules` must have at most {MAX_BYTES:,} bytes, got {path.stat().st_size:,} in {path}.")
        content = tomllib.loads(path.read_bytes().decode())
    except GateError:
        raise
    except OSError as error:
        raise GateError(f"`rules` must be a readable file, got {path} ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:  # TOML and UTF-8 errors are ValueErrors
        raise GateError(
            f"`rules` must be a TOML file, got {path} ({printable(str(error))}). Correct the file."
        ) from error
    version = content.pop("version", RULES_VERSION)
    if type(version) is not int or version != RULES_VERSION:
        raise GateError(
            f"`rules` must have version {RULES_VERSION}, got {shown(version)} in {path}. "
            "Upgrade bivshap_lightning to read later versions."
        )
    unknown = sorted(content.keys() - {"rule", "sha256"})
    if unknown:
        raise GateError(
            f"`rules` must hold [[rule]] tables, `version` and `sha256` only, got {shown(unknown)} in {path}."
        )
    rules = _parse(content.get("rule"), path)
    if "sha256" in content and content["sha256"] != checksum({"rule": content["rule"]}):
        raise GateError(
            f"`sha256` must be the checksum of the rules, got {shown(content['sha256'])} in {path}. Fetch the "
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
        raise GateError(f"A rule must use the keys {list(KEYS)} only, got {shown(unknown)}.")
    if "metric" not in table:
        raise GateError("A rule must name its `metric`, got none.")
    return Rule(**{"class_name" if key == "class" else key: value for key, value in table.items()})


def as_rules(rules: str | os.PathLike[str] | Sequence[Rule]) -> tuple[Rule, ...]:
    """Rules, given as such or as the path of their file.

    Example:
        >>> as_rules([Rule(metric="class_graph/density", max=0.2)])[0].metric
        'class_graph/density'
    """
    if isinstance(rules, str | os.PathLike):
        return tuple(load_rules(rules))
    rules = tuple(rules)
    if not rules or not all(isinstance(rule, Rule) for rule in rules):
        raise GateError(f"`rules` must be a path or at least one Rule, got {shown(rules)}.")
    return rules
