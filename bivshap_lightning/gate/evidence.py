"""Evidence: a record that has been checked, and the numbers with confidence intervals that it supports."""

from __future__ import annotations

import difflib
import math
import os
import reprlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any

from bivshap_lightning.audit.record import AUDIT_VERSION, FIELDS, KIND, load_arrays, load_audit
from bivshap_lightning.gate.graphs import class_graphs, sample_graphs
from bivshap_lightning.gate.measures import (
    CLASS_NUMBERS,
    RATIOS,
    UNIT_RANGE,
    Graph,
    Interval,
    estimate,
    interval,
    parts_of,
)
from bivshap_lightning.gate.rules import ALL_CLASSES, DRIFTS, GateError, is_number
from bivshap_lightning.graph import ExplanationGraph

COMPARED = ("players", "removal", "behavior", "gamma", "target")
"""Configuration that must agree before two records may be compared."""

TOLERANCE = 1e-6


class Evidence:
    """A record whose structure, types and ranges have been checked.

    Args:
        record: the path of its JSON file, or what :func:`~bivshap_lightning.audit.record.load_audit` returns. Drift
            needs arrays, which are found by the path or stand in the record as "arrays".
        source: what messages call it.

    Raises:
        GateError: The record is missing, damaged, foreign, of another version, or says nothing about any sample.

    Example:
        >>> graph = {"players": ["a"], "ranking": [{"player": "a"}], "groups": [], "sources": [], "sinks": []}
        >>> sample = {
        ...     "label": None,
        ...     "target": "cat",
        ...     "gain": None,
        ...     "scores": {},
        ...     "density": 0.0,
        ...     "n_undecided": 0,
        ...     **graph,
        ... }
        >>> record = {"kind": "bivshap_lightning.Audit", "version": 2, "versions": {}, "run": {}, "cost": {}}
        >>> record["configuration"] = {
        ...     "removal": "baseline 0",
        ...     "behavior": "logit",
        ...     "gamma": 1e-5,
        ...     "target": 0,
        ...     "players": "automatic",
        ... }
        >>> record["metrics"] = {"bivshap/redundancy/mask_sinks_accuracy": {"value": 1.0, "standard_error": 0.0}}
        >>> record |= {"classes": {}, "samples": [{"index": k, **sample} for k in range(20)]}
        >>> interval = Evidence(record).measure("bivshap/redundancy/mask_sinks_accuracy", "all", 0.95)
        >>> interval.value, round(interval.lower, 3)
        (1.0, 0.881)
    """

    def __init__(self, record: Mapping[str, Any] | str | os.PathLike[str], source: str = "record") -> None:
        self.source = source
        self._path: Path | None = None
        if isinstance(record, str | os.PathLike):
            self.source, self._path = str(record), Path(record)
            record = load_record(record)
        self._demand(isinstance(record, Mapping), "the record", "be a mapping", record)
        self._demand(record.get("kind") == KIND, "kind", f"be {KIND!r}", record.get("kind"))
        version = record.get("version")
        known = type(version) is int and version == AUDIT_VERSION
        self._demand(known, "version", f"be {AUDIT_VERSION}; upgrade bivshap_lightning for later ones", version)
        for field in FIELDS:
            kind = list if field == "samples" else Mapping
            self._demand(
                isinstance(record.get(field), kind), field, f"be there as a {kind.__name__}", record.get(field)
            )
        self._record = record
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
        gain = fields.get("gain", "none")
        self._demand(gain is None or is_number(gain), f"{place}.gain", "be a finite number or null", gain)
        scores = fields.get("scores")
        scored = isinstance(scores, Mapping) and all(is_number(score) for score in scores.values())
        self._demand(scored, f"{place}.scores", "hold finite numbers", scores)
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
        for kind in ("sources", "sinks"):
            self._names(f"{place}.{kind}", fields.get(kind), players)
        density, n_undecided, n = fields.get("density"), fields.get("n_undecided"), len(players)
        dense = is_number(density) and 0 <= density <= 1
        self._demand(dense, f"{place}.density", "be a number in [0, 1]", density)
        countable = type(n_undecided) is int and 0 <= n_undecided <= n * (n - 1)
        self._demand(countable, f"{place}.n_undecided", f"be a whole number up to {n * (n - 1)}", n_undecided)
        return Graph.of(fields, name, class_name)

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
        derived, recorded = estimate(metric, samples), self._recorded(metric, class_name)
        if derived is not None:
            consistent = recorded is None or abs(derived[0] - recorded[0]) <= TOLERANCE
            got = None if recorded is None else recorded[0]
            self._demand(consistent, f"metrics[{metric!r}].value", f"be what the samples say, {derived[0]:.6g}", got)
        value, error = derived or recorded or (math.nan, 0.0)
        return interval(metric, value, error, len(samples), NormalDist().inv_cdf(confidence))

    def _recorded(self, metric: str, class_name: str) -> tuple[float, float] | None:
        """A number as the record has it, of all samples or of a class; None if it does not say."""
        if class_name == ALL_CLASSES:
            return self.metrics.get(metric)
        found: Any = self._record.get("class_metrics", {})
        for key in (class_name, "metrics", metric):
            found = found.get(key) if isinstance(found, Mapping) else None
        return None if found is None else self._metric(metric, found)

    def _demand_metric(self, metric: str, class_name: str) -> None:
        if class_name == ALL_CLASSES:
            known = sorted({*self.metrics, *RATIOS})
        else:
            scored = set(self.samples[0].scores).intersection(*(g.scores for g in self.samples))
            known = sorted({*RATIOS, *scored})
        where = f"Numbers of class graphs: {', '.join(CLASS_NUMBERS)}; with a previous record: {', '.join(DRIFTS)}"
        if metric not in known:
            close = difflib.get_close_matches(metric, [*known, *CLASS_NUMBERS, *DRIFTS], n=1)
            # All of them are forty: too many for who made a typing error.
            hint = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known)}. {where}."
            scope = "" if class_name == ALL_CLASSES else f" for class {class_name!r}"
            raise GateError(f"{self.source}: `metric` must be one that is recorded{scope}, got {metric!r}. {hint}")

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
        pairs = {name: (previous.configuration[name], self.configuration[name]) for name in COMPARED}
        differing = [f"{name} (previous {old!r}, now {new!r})" for name, (old, new) in pairs.items() if old != new]
        if differing:
            raise GateError(
                f"{self.source} and {previous.source} must agree in what they measure, got different "
                f"{', '.join(differing)}. Audit both models the same way."
            )

    @cached_property
    def mean_graphs(self) -> dict[str, ExplanationGraph]:
        """The mean graph of every class whose samples have the same players, from the arrays.

        Raises:
            GateError: There are no arrays, or others than those of the samples.
        """
        try:
            arrays = self._record.get("arrays") if self._path is None else load_arrays(self._path)
        except (OSError, ValueError) as error:
            raise GateError(f"{self.source}: {error}") from error
        held = isinstance(arrays, Mapping) and "file" not in arrays
        self._demand(held, "arrays", "be in the record for drift; pass the path of its file", arrays)
        graphs = class_graphs(self._record, sample_graphs(self._record, arrays or {}))
        return {name: graph for name, graph in graphs.items() if graph is not None}

    def mean_graph(self, class_name: str) -> ExplanationGraph:
        """The mean graph of a class.

        Raises:
            GateError: It has none.
        """
        if class_name not in self.mean_graphs:
            raise GateError(
                f"{self.source}: `class` must be one that has a mean graph, got {class_name!r}. "
                f"There are: {', '.join(self.mean_graphs) or 'none'}."
            )
        return self.mean_graphs[class_name]

    def worst_samples(self, metric: str, class_name: str, *, highest: bool, n: int = 3) -> list[str]:
        """The samples that a number suffers from most, where the record tells."""
        parts = [(parts_of(metric, g), g) for g in self.samples_of(class_name)]
        shares = [(p[0] / p[1], g) for p, g in parts if p is not None and p[1]]
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
    if path.is_dir():
        found = ", ".join(p.name for p in sorted(path.glob("*.json"))[-3:]) or "none"
        raise GateError(f"`record` must be a readable file, got {path} (a folder; records in it: {found}).")
    if path.suffix.lower() == ".npz":
        raise GateError(f"`record` must be the JSON file of an audit, got {path}. Pass {path.with_suffix('.json')}.")
    try:
        return load_audit(path)
    except OSError as error:
        raise GateError(f"`record` must be a readable file, got {path} ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:
        raise GateError(f"{path}: {error}") from error
