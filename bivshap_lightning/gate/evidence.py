"""Evidence: a record that has been checked, and the numbers with confidence intervals that it supports.

Where an interval comes from, by number:

* accuracies and shares of samples: Wilson's score interval over the samples, which is honest when all agree;
* other numbers with a standard error: the normal interval, cut to the possible range;
* numbers that follow from the samples' graphs: the same, with the standard error over those samples;
* numbers of a class graph: what the edges that its noise leaves open could change.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from bivshap_lightning.gate.rules import ALL_CLASSES, GateError, is_number
from bivshap_lightning.graph.storage import FORMAT_VERSION
from bivshap_lightning.report import FIELDS, KIND, load_audit

COMPARED = ("removal", "behavior", "gamma", "target")
"""Configuration that must agree before two records may be compared."""

PREFIX = "bivshap/redundancy/"
PROPORTION = re.compile(rf"{PREFIX}(\w+_accuracy|accuracy_with_representatives|share_without_direction)")
UNIT_RANGE = re.compile(rf"{PREFIX}(density|\w*share\w*|\w*accuracy\w*)|bivshap/posthoc_accuracy/.*")
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Interval:
    """A number and what it may really be; None where nothing is known.

    Example:
        >>> Interval(0.5, 0.4, None).upper is None
        True
    """

    value: float
    lower: float | None
    upper: float | None


@dataclass(frozen=True)
class Graph:
    """What a record says of one graph."""

    name: str
    class_name: str
    n_players: int
    groups: tuple[tuple[str, ...], ...]
    n_sources: int
    n_sinks: int
    density: float
    n_undecided: int

    @property
    def n_grouped(self) -> int:
        """Players in groups."""
        return sum(map(len, self.groups))

    @property
    def n_removable(self) -> int:
        """Players that go when each group keeps one representative."""
        return self.n_grouped - len(self.groups)

    @property
    def n_pairs(self) -> int:
        """Ordered pairs of players."""
        return self.n_players * (self.n_players - 1)


# Numbers that are sums over samples divided by sums over samples: (part, whole) of one sample.
RATIOS: dict[str, Callable[[Graph], tuple[float, float]]] = {
    f"{PREFIX}density": lambda g: (g.density, 1),
    f"{PREFIX}n_independent": lambda g: (g.n_players - g.n_removable, 1),
    f"{PREFIX}share_removable": lambda g: (g.n_removable, g.n_players),
    f"{PREFIX}groups_per_sample": lambda g: (len(g.groups), 1),
    f"{PREFIX}group_size": lambda g: (g.n_grouped, len(g.groups)),
    f"{PREFIX}share_grouped": lambda g: (g.n_grouped, g.n_players),
    f"{PREFIX}share_undecided": lambda g: (g.n_undecided, g.n_pairs),
    f"{PREFIX}mask_sinks_share_masked": lambda g: (g.n_sinks, g.n_players),
    f"{PREFIX}mask_sources_share_masked": lambda g: (g.n_sources, g.n_players),
    f"{PREFIX}keep_only_sinks_share_masked": lambda g: ((g.n_players - g.n_sinks) * bool(g.n_sinks), g.n_players),
    f"{PREFIX}keep_only_sources_share_masked": lambda g: ((g.n_players - g.n_sources) * bool(g.n_sources), g.n_players),
    f"{PREFIX}share_without_direction": lambda g: (not g.n_sources + g.n_sinks, 1),
}


def _density(g: Graph) -> Interval:
    return Interval(g.density, g.density, min(1.0, g.density + g.n_undecided / max(1, g.n_pairs)))


def _n_independent(g: Graph) -> Interval:
    # An edge that turns out redundant can only merge components, in the extreme all of them.
    n = g.n_players - g.n_removable
    return Interval(n, 1 if g.n_undecided else n, n)


def _share_removable(g: Graph) -> Interval:
    share = g.n_removable / g.n_players
    return Interval(share, share, (g.n_players - 1) / g.n_players if g.n_undecided else share)


# Numbers of a class graph. Edges that noise leaves open count as not redundant; the intervals say what if they are.
CLASS_NUMBERS: dict[str, Callable[[Graph], Interval]] = {
    "density": _density,
    "n_undecided": lambda g: Interval(g.n_undecided, g.n_undecided, g.n_undecided),
    "n_independent": _n_independent,
    "share_removable": _share_removable,
}


class Evidence:
    """A record whose structure, types and ranges have been checked.

    Args:
        record: as :func:`~bivshap_lightning.report.load_audit` returns it, or the path of its JSON file.
        source: what messages call it.

    Raises:
        GateError: The record is missing, damaged, foreign, of a later version, or says nothing about any sample.

    Example:
        >>> graph = {"players": ["a"], "ranking": [{"player": "a"}], "groups": [], "sources": [], "sinks": []}
        >>> sample = {"label": None, "target": "cat", "density": 0.0, "n_undecided": 0, **graph}
        >>> record = {"kind": "bivshap_lightning.Audit", "version": 1, "versions": {}, "run": {}, "cost": {}}
        >>> record["configuration"] = {"removal": "baseline 0", "behavior": "logit", "gamma": 1e-5, "target": 0}
        >>> record["metrics"] = {"bivshap/redundancy/mask_sinks_accuracy": {"value": 1.0, "standard_error": 0.0}}
        >>> record |= {"classes": {}, "samples": [{"index": k, **sample} for k in range(20)]}
        >>> interval = Evidence(record).measure("bivshap/redundancy/mask_sinks_accuracy", "all", 0.95)
        >>> interval.value, round(interval.lower, 3)
        (1.0, 0.881)
    """

    def __init__(self, record: Mapping[str, Any] | str | os.PathLike[str], source: str = "record") -> None:
        self.source = source
        if isinstance(record, str | os.PathLike):
            self.source = str(record)
            record = load_record(record)
        self._demand(isinstance(record, Mapping), "the record", "be a mapping", record)
        self._demand(record.get("kind") == KIND, "kind", f"be {KIND!r}", record.get("kind"))
        version = record.get("version")
        known = type(version) is int and 1 <= version <= FORMAT_VERSION
        self._demand(known, "version", f"be 1 to {FORMAT_VERSION}; upgrade bivshap_lightning for later ones", version)
        for field in FIELDS:
            kind = list if field == "samples" else Mapping
            self._demand(
                isinstance(record.get(field), kind), field, f"be there as a {kind.__name__}", record.get(field)
            )
        self.version: int = record["version"]
        self.run: dict[str, Any] = dict(record["run"])
        self.configuration = self._configuration(record["configuration"])
        self.metrics = {str(n): self._metric(str(n), m) for n, m in record["metrics"].items()}
        self.classes = {str(n): self._graph(f"classes[{n!r}]", g, n, n) for n, g in record["classes"].items()}
        self.samples = [self._sample(k, s) for k, s in enumerate(record["samples"])]
        self._demand(bool(self.samples), "samples", "hold at least one sample", [])
        repeated = [name for name, n in Counter(g.name for g in self.samples).items() if n > 1]
        self._demand(not repeated, "samples", "be different", repeated)

    def _demand(self, holds: bool, place: str, rule: str, got: object) -> None:
        if not holds:
            raise GateError(
                f"{self.source}: {place} must {rule}, got {reprlib.repr(got)}. Audit again or pass another record."
            )

    def _configuration(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        for name in COMPARED:
            value = fields.get(name)
            plain = is_number(value) or (isinstance(value, str) and name != "gamma")
            self._demand(plain, f"configuration.{name}", "be a name or a finite number", value)
        return {name: fields[name] for name in COMPARED}

    def _metric(self, name: str, fields: Any) -> tuple[float, float]:
        place = f"metrics[{name!r}]"
        self._demand(isinstance(fields, Mapping), place, "hold value and standard_error", fields)
        value, error = fields.get("value"), fields.get("standard_error")
        self._demand(is_number(value), f"{place}.value", "be a finite number", value)
        in_range = not UNIT_RANGE.fullmatch(name) or -TOLERANCE <= value <= 1 + TOLERANCE
        self._demand(in_range, f"{place}.value", "lie in [0, 1]", value)
        self._demand(is_number(error) and error >= 0, f"{place}.standard_error", "be a finite number, 0 or more", error)
        return float(value), float(error)

    def _sample(self, k: int, fields: Any) -> Graph:
        place = f"samples[{k}]"
        self._demand(isinstance(fields, Mapping), place, "describe a graph", fields)
        index, label, target = fields.get("index"), fields.get("label"), fields.get("target")
        self._demand(type(index) is int and 0 <= index < 2**53, f"{place}.index", "be a whole number", index)
        self._demand(label is None or isinstance(label, str), f"{place}.label", "be a name or null", label)
        self._demand(isinstance(target, str), f"{place}.target", "be a name", target)
        truth = target if label is None else label
        return self._graph(place, fields, f"sample {index} (class {truth})", truth)

    def _graph(self, place: str, fields: Any, name: str, class_name: str) -> Graph:
        self._demand(isinstance(fields, Mapping), place, "describe a graph", fields)
        ranking = fields.get("ranking")
        listed = isinstance(ranking, list) and all(isinstance(p, Mapping) for p in ranking) and bool(ranking)
        self._demand(listed, f"{place}.ranking", "list players", ranking)
        players = self._names(f"{place}.ranking", [p.get("player") for p in ranking], None)
        positions = self._names(f"{place}.players", fields.get("players"), players)
        self._demand(len(positions) == len(players), f"{place}.players", "list all players", list(positions))
        groups = fields.get("groups")
        self._demand(isinstance(groups, list), f"{place}.groups", "be a list of groups", groups)
        members = tuple(self._names(f"{place}.groups", group, players) for group in groups)
        apart = sum(map(len, members)) == len({m for group in members for m in group})
        proper = apart and all(len(group) > 1 for group in members)
        self._demand(proper, f"{place}.groups", "be disjoint, of two players or more", groups)
        sources, sinks = (self._names(f"{place}.{k}", fields.get(k), players) for k in ("sources", "sinks"))
        density, n_undecided, n = fields.get("density"), fields.get("n_undecided"), len(players)
        dense = is_number(density) and 0 <= density <= 1
        self._demand(dense, f"{place}.density", "be a number in [0, 1]", density)
        countable = type(n_undecided) is int and 0 <= n_undecided <= n * (n - 1)
        self._demand(countable, f"{place}.n_undecided", f"be a whole number up to {n * (n - 1)}", n_undecided)
        return Graph(name, class_name, n, members, len(sources), len(sinks), float(density), n_undecided)

    def _names(self, place: str, names: Any, among: Sequence[str] | None) -> tuple[str, ...]:
        texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        self._demand(texts and len(set(names)) == len(names), place, "be a list of different names", names)
        strangers = [] if among is None else sorted(set(names) - set(among))
        self._demand(not strangers, place, "name players of the ranking", strangers)
        return tuple(names)

    def measure(self, metric: str, class_name: str, confidence: float) -> Interval:
        """A number with its interval, of which each side is exceeded with probability `1 - confidence`.

        Args:
            metric: its name.
            class_name: whose; "all" for all samples. Of class graphs, "all" is not answered here.
            confidence: one-sided.

        Raises:
            GateError: There is no such metric or class, or the record contradicts itself.
        """
        if metric in CLASS_NUMBERS:
            return CLASS_NUMBERS[metric](self._class_graph(class_name))
        self._demand_metric(metric, class_name)
        samples = self.samples_of(class_name)
        value, error = self.metrics.get(metric, (math.nan, 0.0))
        if metric in RATIOS:
            derived, error = _ratio([RATIOS[metric](g) for g in samples])
            consistent = class_name != ALL_CLASSES or math.isnan(value) or abs(derived - value) <= TOLERANCE
            self._demand(consistent, f"metrics[{metric!r}].value", f"be what the samples say, {derived:.6g}", value)
            value = derived
        z = NormalDist().inv_cdf(confidence)
        return _interval(metric, value, error, len(samples), z)

    def _demand_metric(self, metric: str, class_name: str) -> None:
        if class_name == ALL_CLASSES:
            known = sorted({*self.metrics, *RATIOS})
            where = "Numbers of class graphs: " + ", ".join(CLASS_NUMBERS)
        else:
            known, where = sorted({*RATIOS, *CLASS_NUMBERS}), "Accuracies and areas are recorded over all classes only"
        if metric not in known:
            close = difflib.get_close_matches(metric, [*known, *CLASS_NUMBERS], n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            scope = "" if class_name == ALL_CLASSES else f" for class {class_name!r}"
            raise GateError(
                f"{self.source}: `metric` must be one that is recorded{scope}, got {metric!r}.{hint} "
                f"There are: {', '.join(known)}. {where}."
            )

    def _class_graph(self, class_name: str) -> Graph:
        if class_name not in self.classes:
            raise GateError(
                f"{self.source}: `class` must be one that has a graph, got {class_name!r}. "
                f"There are: {', '.join(self.classes) or 'none'}."
            )
        return self.classes[class_name]

    def samples_of(self, class_name: str) -> list[Graph]:
        """The graphs of the samples of a class, or of all."""
        found = [g for g in self.samples if class_name in (ALL_CLASSES, g.class_name)]
        if not found:
            there = ", ".join(sorted({g.class_name for g in self.samples}))
            raise GateError(
                f"{self.source}: `class` must be one that has samples, got {class_name!r}. There are: {there}."
            )
        return found

    def demand_comparable(self, previous: Evidence) -> None:
        """Refuse a comparison of records that do not mean the same.

        Raises:
            GateError: Naming the fields that differ.
        """
        pairs = {"format version": (previous.version, self.version)}
        pairs |= {name: (previous.configuration[name], self.configuration[name]) for name in COMPARED}
        differing = [f"{name} (previous {old!r}, now {new!r})" for name, (old, new) in pairs.items() if old != new]
        if differing:
            raise GateError(
                f"{self.source} and {previous.source} must agree in what they measure, got different "
                f"{', '.join(differing)}. Audit both models the same way."
            )

    def worst_samples(self, metric: str, class_name: str, *, highest: bool, n: int = 3) -> list[str]:
        """The samples that a number suffers from most, where the record tells."""
        if metric not in RATIOS:
            return []
        shares = [
            (part / whole, g) for g in self.samples_of(class_name) for part, whole in [RATIOS[metric](g)] if whole
        ]
        shares.sort(key=lambda item: item[0], reverse=highest)
        return [f"{g.name}: {share:.4g}" for share, g in shares[:n]]

    def groups(self, class_name: str) -> Counter[tuple[str, ...]]:
        """How many samples of a class have each group of interchangeable players."""
        samples = self.samples_of(class_name)
        return Counter(tuple(sorted(group)) for g in samples for group in g.groups)

    def largest_groups(self, class_name: str, *, besides: Collection[tuple[str, ...]] = (), n: int = 3) -> list[str]:
        """The groups that weigh most and are not among others, with how many samples have them."""
        counts, n_samples = self.groups(class_name), len(self.samples_of(class_name))
        order = sorted(counts.keys() - set(besides), key=lambda group: (-counts[group] * (len(group) - 1), group))
        return [f"{' = '.join(group)} ({counts[group]} of {n_samples} samples)" for group in order[:n]]


def load_record(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Read a record, with every way to fail as a :class:`GateError`.

    Example:
        >>> load_record("/no/such/record.json")
        Traceback (most recent call last):
        ...
        bivshap_lightning.gate.rules.GateError: `record` must be a readable file, got /no/such/record.json (No such ...
    """
    path = Path(path)
    try:
        return load_audit(path)
    except OSError as error:
        reason = error.strerror or str(error)
        if path.is_dir():
            found = ", ".join(p.name for p in sorted(path.glob("*.json"))[-3:]) or "none"
            reason = f"a folder; records in it: {found}"
        raise GateError(f"`record` must be a readable file, got {path} ({reason}).") from error
    except (ValueError, RecursionError) as error:
        raise GateError(f"{path}: {error}") from error


def _ratio(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Sum of parts over sum of wholes, and its linearised standard error over samples."""
    n, whole = len(parts), sum(w for _, w in parts)
    ratio = sum(p for p, _ in parts) / max(whole, 1)
    spread = sum((p - ratio * w) ** 2 for p, w in parts) / n
    return ratio, math.sqrt(spread / n) / (max(whole, 1) / n)


def _interval(metric: str, value: float, error: float, n: int, z: float) -> Interval:
    """Wilson for shares of samples, else normal; unknown for a single sample, known for a number about the estimate."""
    if metric.startswith("bivshap/estimate/"):
        return Interval(value, value, value)
    if PROPORTION.fullmatch(metric) or (metric.startswith("bivshap/posthoc_accuracy/") and error == 0):
        centre = (value + z * z / (2 * n)) / (1 + z * z / n)
        reach = z * math.sqrt(max(0.0, value * (1 - value)) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
        return Interval(value, max(0.0, centre - reach), min(1.0, centre + reach))
    if n < 2:
        return Interval(value, None, None)
    lower, upper = value - z * error, value + z * error
    if UNIT_RANGE.fullmatch(metric):
        lower, upper = max(0.0, lower), min(1.0, upper)
    return Interval(value, lower, upper)
