"""`Number`: the type of an entry in the catalogue of numbers, and what its formulas ask of a graph. No torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Protocol

from bivshap_lightning.metrics.intervals import Interval

EXPLAINER = "{explainer}"
"""Placeholder in a tag for the name of the explainer."""

Task = Literal["binary", "multiclass", "multilabel", "regression"]
ALL_TASKS: tuple[Task, ...] = ("binary", "multiclass", "multilabel", "regression")
CLASSIFICATION: tuple[Task, ...] = ("binary", "multiclass", "multilabel")
REGRESSION: tuple[Task, ...] = ("regression",)
UNIT, COUNT, REAL = (0.0, 1.0), (0.0, math.inf), (-math.inf, math.inf)

INTERVALS = {
    "wilson": "Wilson's score interval over samples",
    "normal": "normal, from the standard error over samples",
    "normal or wilson": "normal; Wilson's where all samples agree",
    "undecided edges": "what the undecided edges could change",
    "jackknife": "normal, from leaving out one sample at a time",
    "upper": "the value is its own upper bound; the lower bound is unknown",
    "none": "none: the value as it is",
}
"""How intervals are made, by the name used in entries."""


class RedundancyCounts(Protocol):
    """What the formulas ask of one redundancy graph H; a record's `GraphSummary` has it."""

    @property
    def n_players(self) -> int:
        """Number of players."""

    @property
    def n_groups(self) -> int:
        """Number of groups of mutually redundant players."""

    @property
    def n_grouped(self) -> int:
        """Players in groups."""

    @property
    def n_sources(self) -> int:
        """Players that are sources."""

    @property
    def n_sinks(self) -> int:
        """Players that are sinks."""

    @property
    def density(self) -> float:
        """Redundant edges / ordered pairs."""

    @property
    def n_undecided(self) -> int:
        """Edges that the noise leaves undecided."""

    @property
    def n_pairs(self) -> int:
        """Ordered pairs of players."""

    @property
    def n_removable(self) -> int:
        """Players that can be removed while one of each group stays."""


class ScoredSample(RedundancyCounts, Protocol):
    """A sample's H together with the scores that metrics gave the sample, by tag."""

    @property
    def scores(self) -> Mapping[str, float]:
        """Scores by tag."""


@dataclass(frozen=True, kw_only=True)
class Number:
    """One reported number.

    Attributes:
        tag: its name in logs, records and rules; `{explainer}` stands for the name of an explainer.
        title: two or three words for the head of a column.
        formula: how it is computed, in one line.
        direction: whether "higher" or "lower" is better, or "neutral".
        range: the smallest and the largest possible value.
        interval: how its confidence interval is made, a key of :data:`INTERVALS`.
        meaning: one plain sentence.
        scope: "samples" for a number over samples, "class graph" for one of a class's mean graph, "drift" for a
            distance from the graph of a previous record, "record" for one of a whole record, "record drift" for a
            distance of a record from a reference or previous record, "feature" for one of a named feature, "run" for
            one of the run itself, which is logged only.
        tasks: the tasks it applies to.
        metric: import path of the torchmetrics class that computes it from a ranking, "module:Class"; None for others.
        key: which number of that metric's result it is.
        is_mean: whether it is the mean over samples of the metric's score; False for ratios of sums.
        parts: numerator and denominator that a sample's H contributes, for ratios of sums over samples.
        of_graph: the number of a class graph with its interval.
        is_charted: whether loggers get it unless all are asked for. Each one is in the record, in the tab, and in
            Lightning's `callback_metrics`, whatever this says.
    """

    tag: str
    title: str
    formula: str
    direction: Literal["higher", "lower", "neutral"]
    range: tuple[float, float]
    interval: str
    meaning: str
    scope: Literal["samples", "class graph", "drift", "record", "record drift", "feature", "run"] = "samples"
    tasks: tuple[Task, ...] = ALL_TASKS
    metric: str | None = None
    key: str = ""
    is_mean: bool = True
    parts: Callable[[RedundancyCounts], tuple[float, float]] | None = None
    of_graph: Callable[[RedundancyCounts], Interval] | None = None
    is_charted: bool = True

    def __post_init__(self) -> None:
        if self.interval not in INTERVALS:
            raise ValueError(f"`interval` must be one of {list(INTERVALS)}, got {self.interval!r}. See the catalogue.")

    @property
    def family(self) -> str:
        """The part of the tag that names the metric: "insertion_auc" of "bivshap/insertion_auc/{explainer}"."""
        return self.tag.removesuffix(f"/{EXPLAINER}").rpartition("/")[2]

    @property
    def better(self) -> str:
        """The direction in words; empty if it is neutral."""
        return "" if self.direction == "neutral" else f"{self.direction} is better"

    @property
    def description(self) -> str:
        """Meaning, direction and formula in a few sentences, for TensorBoard."""
        meaning = self.meaning[:1].upper() + self.meaning[1:]
        direction = f" {self.better.capitalize()}." if self.better else ""
        return f"{meaning}.{direction} Formula: {self.formula}."

    def applies_to(self, task: str) -> bool:
        """Whether the number is reported for a task; one that is not known, such as "auto", is a classification."""
        return (task if task in ALL_TASKS else "multiclass") in self.tasks

    def tag_of(self, explainer: str) -> str:
        """The tag for one explainer."""
        return self.tag.replace(EXPLAINER, explainer)

    def metric_class(self) -> Any:
        """The class that `metric` names."""
        module, _, name = (self.metric or "").partition(":")
        if not name:
            raise ValueError(f"`metric` must be an import path, module:Class, got {self.metric!r} for {self.tag}.")
        return getattr(import_module(module), name)

    def contains(self, value: float, *, tolerance: float = 0.0) -> bool:
        """Whether a value lies in the range."""
        return self.range[0] - tolerance <= value <= self.range[1] + tolerance
