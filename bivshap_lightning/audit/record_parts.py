"""The parts of an audit record, as frozen dataclasses.

Their annotations define the file format: :mod:`bivshap_lightning.audit.json_fields` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bivshap_lightning.graph import ExplanationGraph


@dataclass(frozen=True)
class Configuration:
    """What was computed. Fields in :data:`COMPARED` must agree before two records may be compared.

    Attributes:
        method: how the values were found.
        behavior: the number read off the model output.
        link: what the scores of the model mean.
        players: which input elements form a player.
        removal: what absent players are replaced by.
        target: "predicted", "label" or the index of the explained class.
        gamma: the largest weight that counts as redundant.
        seed: of the choice of samples and of the coalitions.
        n_evaluations: model rows per sample that were allowed; None for the default.
        compare_n_evaluations: likewise, for each of the other explainers.
        explainers: all explainers that were judged.
        skipped: explainers that were left out, with the reason.
    """

    behavior: str
    link: str
    players: str
    removal: str
    target: str | int
    gamma: float
    method: str = ""
    seed: int = 0
    n_evaluations: int | None = None
    compare_n_evaluations: int | None = None
    explainers: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)


ALL_CLASSES = "all"
"""Stands for all samples where a class is named, so that no class may be called so."""

COMPARED = ("players", "removal", "behavior", "link", "gamma", "target")
"""Configuration that must agree before two records may be compared."""


@dataclass(frozen=True)
class Run:
    """Which audit it was.

    Attributes:
        stage: "validate" or "test".
        epoch: of the training run.
        step: the global step that was logged with.
        world_size: number of processes.
        time_budget: seconds that were allowed, or None.
        n_samples: number of samples that were asked for.
        sample_keys: hashes of the samples' content.
        checkpoint: file name of the checkpoint, for an audit of one.
        checkpoint_sha256: checksum of that file.
        model: import path of the model's class.
    """

    stage: str = ""
    epoch: int | None = None
    step: int | None = None
    world_size: int = 1
    time_budget: float | None = None
    n_samples: int | None = None
    sample_keys: tuple[str, ...] = ()
    checkpoint: str | None = None
    checkpoint_sha256: str | None = None
    model: str | None = None

    @property
    def moment(self) -> dict[str, str | int]:
        """Stage, epoch and step, those that are known."""
        found = {"stage": self.stage or None, "epoch": self.epoch, "step": self.step}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Estimate:
    """A number and its standard error over samples."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class Curve:
    """Post-hoc accuracy by the fraction of players that were removed."""

    masked_fraction: tuple[float, ...]
    accuracy: tuple[float, ...]
    standard_error: tuple[float, ...]


@dataclass(frozen=True)
class RankedPlayer:
    """A player and its score in the ranking."""

    player: str
    score: float


@dataclass(frozen=True, kw_only=True)
class GraphSummary:
    """What a record says about one graph.

    Attributes:
        players: names, in the order of the arrays.
        ranking: players with their scores, most important first.
        groups: groups of mutually redundant players.
        sources: players that make others redundant and are not made so.
        sinks: players that are made redundant and make no others so.
        density: redundant edges / ordered pairs.
        n_undecided: edges that the noise leaves undecided.

    Example:
        >>> summary = GraphSummary.of(ExplanationGraph([[0, 0, 1], [0, 0, 1], [1, 1, 0]], names=["a", "b", "c"]), 1e-5)
        >>> summary.groups, summary.n_removable
        ((('a', 'b'),), 1)
    """

    players: tuple[str, ...]
    ranking: tuple[RankedPlayer, ...]
    groups: tuple[tuple[str, ...], ...]
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    density: float
    n_undecided: int

    @classmethod
    def of(cls, graph: ExplanationGraph, gamma: float) -> GraphSummary:
        """Summarise a graph.

        Args:
            graph: G.
            gamma: of its redundancy graph.
        """
        return cls(**cls.fields_of(graph, gamma))

    @staticmethod
    def fields_of(graph: ExplanationGraph, gamma: float) -> dict[str, Any]:
        """The fields of the summary by name, for this class and for :class:`SampleSummary`."""
        names, h = graph.names, graph.redundancy(gamma)
        personalized = graph.shapley is not None
        scores = graph.ranking(personalized=personalized)
        return {
            "players": tuple(names),
            "ranking": tuple(
                RankedPlayer(names[k], float(scores[k])) for k in graph.order(personalized=personalized).tolist()
            ),
            "groups": tuple(tuple(names[k] for k in group) for group in h.groups),
            "sources": tuple(names[k] for k in h.sources),
            "sinks": tuple(names[k] for k in h.sinks),
            "density": float(h.density),
            "n_undecided": int(h.n_undecided),
        }

    @property
    def n_players(self) -> int:
        """Number of players."""
        return len(self.players)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.groups)

    @property
    def n_grouped(self) -> int:
        """Players in groups."""
        return sum(map(len, self.groups))

    @property
    def n_removable(self) -> int:
        """Players that can be removed while one of each group stays."""
        return self.n_grouped - self.n_groups

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self.sources)

    @property
    def n_sinks(self) -> int:
        """Number of sinks."""
        return len(self.sinks)

    @property
    def n_pairs(self) -> int:
        """Ordered pairs of players."""
        return self.n_players * (self.n_players - 1)


@dataclass(frozen=True, kw_only=True)
class SampleSummary(GraphSummary):
    """What a record says about one sample.

    Attributes:
        index: its place among the audited samples.
        label: its class in the data, or None.
        target: the class that was explained.
        gain: sum of its Shapley values, which is the output on the whole input less that with every player removed.
        scores: what the metrics gave it, by tag.
        words: one per player if it is a text.
    """

    index: int
    target: str
    label: str | None = None
    gain: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    words: tuple[str, ...] | None = None

    @property
    def class_name(self) -> str:
        """The class that the sample counts for: its label, or the explained class where there is none."""
        return self.target if self.label is None else self.label

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"sample {self.index} (class {self.class_name})"


@dataclass(frozen=True)
class ClassMetrics:
    """The numbers of the samples of one class."""

    n_samples: int
    metrics: Mapping[str, Estimate]


@dataclass(frozen=True)
class Cost:
    """What the audit cost.

    Attributes:
        seconds: wall-clock time.
        forwards: model rows, over all processes.
        epochs: seconds / seconds of the epoch without the audit.
        evaluations_per_sample: model rows per sample that each explainer spent on its scores.
    """

    seconds: float = 0.0
    forwards: float = 0.0
    epochs: float = 0.0
    evaluations_per_sample: Mapping[str, float] = field(default_factory=dict)
