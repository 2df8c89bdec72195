"""The parts of an audit record, as frozen dataclasses.

Their annotations define the file format: :mod:`bivshap_lightning.audit.json_fields` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bivshap_lightning.audit.json_fields import OPTIONAL
from bivshap_lightning.audit.record_changes import ShapleyChange
from bivshap_lightning.audit.record_decisions import SufficientSummary
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.batched import rank_one
from bivshap_lightning.graph.substitution import PlayerPair, Substitution
from bivshap_lightning.graph.threshold import CONFIDENCE, normal_quantile

FIXED_GAMMA, RELATIVE_GAMMA = "fixed", "min(0.01, 0.15 / F) x mean |u(all) - u(none)|"
"""How gamma was found: the number was given, or it is relative to what there is to explain. F is each sample's own."""

NOTHING = "nothing to explain here"
"""What the note of an audit begins with in which features hardly change the output."""

Z = normal_quantile(CONFIDENCE)
"""Standard errors by which the own part of a pair must differ from zero to be listed."""

MAX_PAIRS = 10
"""Substitutes, and as many partners, that a record keeps of each graph."""


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
        gamma: the largest weight that counts as redundant; where samples differ in players and gamma is relative, that
            of the sample with the most, the smallest.
        seed: of the choice of samples and of the coalitions.
        n_evaluations: model rows per sample that were allowed; None for the default.
        explainers: all explainers that were judged.
        skipped: explainers that were left out, with the reason.
        gamma_rule: how gamma was found: "fixed" for a given number, otherwise the formula.
        task: "binary", "multiclass", "multilabel" or "regression"; empty in records that do not say.
        background: digest of the background rows; empty without any.
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
    explainers: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    gamma_rule: str = field(default=FIXED_GAMMA, metadata=OPTIONAL)
    task: str = field(default="", metadata=OPTIONAL)
    background: str = field(default="", metadata=OPTIONAL)

    @property
    def compared_gamma(self) -> float | str:
        """What must agree about gamma before two records may be compared: the number, or its rule if it is relative."""
        return self.gamma if self.gamma_rule == FIXED_GAMMA else self.gamma_rule


ALL_CLASSES = "all"
"""Stands for all samples where a class is named, so that no class may be called so."""

COMPARED = ("players", "removal", "behavior", "link", "compared_gamma", "target")
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
        compared_epoch: the epoch of the numbers of other explainers, if they are those of an earlier audit.
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
    compared_epoch: int | None = field(default=None, metadata=OPTIONAL)

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


@dataclass(frozen=True)
class PairSummary:
    """Two relevant players, and how much the presence of the one changes the importance of the other.

    Attributes:
        player: whose importance changes.
        given: the player that is present.
        total: the share of the importance of `player` that is gone then; negative if it grows.
        own: the part of `total` that is due to the pair and not common to all players.
        own_error: standard error of `own`.
    """

    player: str
    given: str
    total: float
    own: float
    own_error: float

    @classmethod
    def of(cls, pair: PlayerPair) -> PairSummary:
        """The same pair as a part of a record."""
        return cls(pair.player, pair.given, pair.total, pair.own, pair.own_error)


def strongest_pairs(parts: Substitution, n: int = MAX_PAIRS) -> dict[str, tuple[PairSummary, ...]]:
    """The strongest substitutes and partners that noise does not explain, by the names of the fields that hold them.

    Args:
        parts: of one graph or over several.
        n: at most so many of each.

    Example:
        >>> either = ExplanationGraph([[0, 0], [0, 0]], names=["a", "b"], shapley=[1 / 2, 1 / 2])  # OR
        >>> strongest_pairs(either.substitution_parts(), 1)["substitutes"][0].total
        1.0
    """
    found = {"substitutes": parts.substitutes(n, z=Z), "partners": parts.partners(n, z=Z)}
    return {name: tuple(map(PairSummary.of, pairs)) for name, pairs in found.items()}


@dataclass(frozen=True)
class GammaPoint:
    """What the same graphs say at another gamma.

    Attributes:
        gamma: the threshold, a multiple of the configuration's. Where samples differ in players, each was decided at
            the same multiple of its own.
        roles: share of players in each role, mean over samples.
        n_independent: essential players plus groups of interchangeable ones, mean over samples.
        density: redundant edges / ordered pairs, mean over samples.
        share_removable: players that can be removed while one of each group of H stays / players.
        accuracy_with_representatives: share of samples with the same decision without them.
        random_removal_accuracy: likewise when as many are removed at random.
    """

    gamma: float
    roles: Mapping[str, float]
    n_independent: float
    density: float
    share_removable: float
    accuracy_with_representatives: float
    random_removal_accuracy: float


@dataclass(frozen=True, kw_only=True)
class GraphSummary:
    """What a record says about one graph.

    Attributes:
        players: names, in the order of the arrays.
        ranking: players with their scores, best to keep first; of a mean over samples, the most important first.
        groups: groups of mutually redundant players.
        sources: players that make others redundant and are not made so.
        sinks: players that are made redundant and make no others so.
        density: redundant edges / ordered pairs.
        n_undecided: edges that the noise leaves undecided.
        roles: of the players, in their order; empty where Shapley values are not known.
        interchangeable: groups of relevant players of which any one will do.
        substitutes: pairs of relevant players that make up for each other most, by their own part.
        partners: pairs of relevant players that need each other most, by their own part.
        gamma: the threshold at which redundancy, roles and pairs were decided; of a mean over samples the smallest of
            theirs. None in older records: that of the configuration.

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
    roles: tuple[str, ...] = field(default=(), metadata=OPTIONAL)
    interchangeable: tuple[tuple[str, ...], ...] = field(default=(), metadata=OPTIONAL)
    substitutes: tuple[PairSummary, ...] = field(default=(), metadata=OPTIONAL)
    partners: tuple[PairSummary, ...] = field(default=(), metadata=OPTIONAL)
    gamma: float | None = field(default=None, metadata=OPTIONAL)

    @classmethod
    def of(cls, graph: ExplanationGraph, gamma: float) -> GraphSummary:
        """Summarise a graph.

        Args:
            graph: G.
            gamma: of its redundancy graph and its roles.
        """
        return cls(**cls.fields_of(graph, gamma))

    @staticmethod
    def fields_of(graph: ExplanationGraph, gamma: float) -> dict[str, Any]:
        """The fields of the summary by name, for this class and for :class:`SampleSummary`."""
        names, h = graph.names, graph.redundancy(gamma)
        ranked = rank_one(graph)
        return {
            "players": tuple(names),
            "ranking": tuple(RankedPlayer(names[k], float(ranked.scores[k])) for k in ranked.order.tolist()),
            "groups": tuple(tuple(names[k] for k in group) for group in h.groups),
            "sources": tuple(names[k] for k in h.sources),
            "sinks": tuple(names[k] for k in h.sinks),
            "density": float(h.density),
            "n_undecided": int(h.n_undecided),
            "gamma": float(gamma),
            **({} if graph.shapley is None else _role_fields(graph, gamma)),
        }

    def players_of_role(self, role: str) -> tuple[str, ...]:
        """The players that have a role."""
        return tuple(player for player, its_role in zip(self.players, self.roles, strict=False) if its_role == role)

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


def _role_fields(graph: ExplanationGraph, gamma: float) -> dict[str, Any]:
    roles = graph.roles(gamma)
    return {
        "roles": tuple(roles),
        "interchangeable": tuple(tuple(graph.names[k] for k in group) for group in roles.groups),
        **strongest_pairs(graph.substitution_parts(gamma)),
    }


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
        sufficient: players that suffice for its decision; None where a value is explained.
        change: of its Shapley values since the audit that the record's `change` names; None if it is unknown.
    """

    index: int
    target: str
    label: str | None = None
    gain: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    words: tuple[str, ...] | None = None
    sufficient: SufficientSummary | None = field(default=None, metadata=OPTIONAL)
    change: ShapleyChange | None = field(default=None, metadata=OPTIONAL)

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
