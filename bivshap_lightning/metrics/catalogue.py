"""The catalogue of numbers: one entry for every number that an audit, the gate or the callbacks report.

Logged scalars, the audit record, gate rules, the HTML page and the table in docs/numbers.md read their names, ranges,
directions, intervals and explanations here. To add a number, add one :class:`Number` to :data:`CATALOGUE`. No torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bivshap_lightning.metrics.intervals import Interval, normal_interval, ratio_of_sums, wilson_interval
from bivshap_lightning.metrics.number import (
    ALL_TASKS,
    CLASSIFICATION,
    COUNT,
    EXPLAINER,
    INTERVALS,
    REAL,
    UNIT,
    Number,
    RedundancyCounts,
    ScoredSample,
)

REDUNDANCY = "bivshap/redundancy/"


def _density(h: RedundancyCounts) -> Interval:
    return Interval(h.density, h.density, min(1.0, h.density + h.n_undecided / max(1, h.n_pairs)))


def _n_independent(h: RedundancyCounts) -> Interval:
    # An edge that turns out redundant can only merge components, in the extreme all of them.
    n = h.n_players - h.n_removable
    return Interval(n, 1 if h.n_undecided else n, n)


def _share_removable(h: RedundancyCounts) -> Interval:
    share = h.n_removable / h.n_players
    return Interval(share, share, (h.n_players - 1) / h.n_players if h.n_undecided else share)


CATALOGUE: list[Number] = [
    Number(
        tag="bivshap/post_hoc_accuracy/{explainer}", title="post-hoc accuracy", direction="higher", range=UNIT,
        formula="mean over removed fractions of [same decision as on the whole input], least important removed first",
        interval="normal or wilson", tasks=CLASSIFICATION, metric="bivshap_lightning.metrics:PostHocAccuracy",
        key="area", meaning="same prediction as features go, least important first; mean over the curve",
    ),
    Number(
        tag="bivshap/insertion_auc/{explainer}", title="insertion", direction="higher", range=REAL, interval="normal",
        formula="area under the explained output as features are inserted, most important first",
        metric="bivshap_lightning.metrics:InsertionAUC", key="auc",
        meaning="explained output as features come in, most important first; area under the curve",
    ),
    Number(
        tag="bivshap/deletion_auc/{explainer}", title="deletion", direction="lower", range=REAL, interval="normal",
        formula="area under the explained output as features are deleted, most important first",
        metric="bivshap_lightning.metrics:DeletionAUC", key="auc",
        meaning="explained output as features go, most important first; area under the curve",
    ),
    Number(
        tag=f"{REDUNDANCY}accuracy_with_representatives", title="with representatives", direction="higher", range=UNIT,
        formula="share of samples with the same decision when each group keeps its highest-ranked member",
        interval="wilson", tasks=CLASSIFICATION,
        meaning="same prediction when each group keeps one member and the others go",
    ),
    Number(
        tag=f"{REDUNDANCY}share_removable", title="removable", direction="neutral", range=UNIT, interval="normal",
        formula="sum over samples of (players in groups - groups) / sum of players",
        meaning="features that can go while one of each group stays",
        parts=lambda h: (h.n_removable, h.n_players),
    ),
    Number(
        tag=f"{REDUNDANCY}n_independent", title="independent features", direction="neutral", range=COUNT,
        formula="mean over samples of players - (players in groups - groups)", interval="normal",
        meaning="features left when each group counts once", parts=lambda h: (h.n_players - h.n_removable, 1),
    ),
    Number(
        tag=f"{REDUNDANCY}density", title="density", direction="neutral", range=UNIT, interval="normal",
        formula="mean over samples of redundant edges / ordered pairs",
        meaning="ordered pairs of features where the first makes the second redundant",
        parts=lambda h: (h.density, 1),
    ),
    Number(
        tag=f"{REDUNDANCY}groups_per_sample", title="groups per sample", direction="neutral", range=COUNT,
        formula="mean over samples of the number of groups", interval="normal",
        meaning="groups of interchangeable features in a sample", parts=lambda h: (h.n_groups, 1),
    ),
    Number(
        tag=f"{REDUNDANCY}group_size", title="group size", direction="neutral", range=COUNT, interval="normal",
        formula="sum over samples of players in groups / sum of groups", meaning="features in a group",
        parts=lambda h: (h.n_grouped, h.n_groups),
    ),
    Number(
        tag=f"{REDUNDANCY}share_grouped", title="in groups", direction="neutral", range=UNIT, interval="normal",
        formula="sum over samples of players in groups / sum of players", meaning="features that are in a group",
        parts=lambda h: (h.n_grouped, h.n_players),
    ),
    Number(
        tag=f"{REDUNDANCY}share_undecided", title="undecided", direction="lower", range=UNIT, interval="normal",
        formula="sum over samples of undecided edges / sum of ordered pairs",
        meaning="ordered pairs that the estimate is too noisy to decide; they count as not redundant",
        parts=lambda h: (h.n_undecided, h.n_pairs),
    ),
    Number(
        tag=f"{REDUNDANCY}mask_sinks_accuracy", title="without sinks", direction="higher", range=UNIT,
        formula="share of samples with the same decision when the sinks of H are removed", interval="wilson",
        tasks=CLASSIFICATION, meaning="same prediction without the sinks, which others make redundant",
    ),
    Number(
        tag=f"{REDUNDANCY}mask_sinks_share_masked", title="sinks", direction="neutral", range=UNIT, interval="normal",
        formula="sum over samples of sinks / sum of players", meaning="features removed with the sinks",
        parts=lambda h: (h.n_sinks, h.n_players),
    ),
    Number(
        tag=f"{REDUNDANCY}keep_only_sources_accuracy", title="sources only", direction="higher", range=UNIT,
        formula="share of samples with the same decision when only the sources of H stay", interval="wilson",
        tasks=CLASSIFICATION, meaning="same prediction with the sources only, which make others redundant",
    ),
    Number(
        tag=f"{REDUNDANCY}keep_only_sources_share_masked", title="all but sources", direction="neutral", range=UNIT,
        formula="sum over samples with sources of (players - sources) / sum of players", interval="normal",
        meaning="features removed when only the sources stay",
        parts=lambda h: ((h.n_players - h.n_sources) * bool(h.n_sources), h.n_players),
    ),
    Number(
        tag=f"{REDUNDANCY}mask_sources_accuracy", title="without sources", direction="lower", range=UNIT,
        formula="share of samples with the same decision when the sources of H are removed", interval="wilson",
        tasks=CLASSIFICATION, meaning="same prediction without the sources: a control, it should be low",
    ),
    Number(
        tag=f"{REDUNDANCY}mask_sources_share_masked", title="sources", direction="neutral", range=UNIT,
        formula="sum over samples of sources / sum of players", interval="normal",
        meaning="features removed with the sources", parts=lambda h: (h.n_sources, h.n_players),
    ),
    Number(
        tag=f"{REDUNDANCY}keep_only_sinks_accuracy", title="sinks only", direction="lower", range=UNIT,
        formula="share of samples with the same decision when only the sinks of H stay", interval="wilson",
        tasks=CLASSIFICATION, meaning="same prediction with the sinks only: a control, it should be low",
    ),
    Number(
        tag=f"{REDUNDANCY}keep_only_sinks_share_masked", title="all but sinks", direction="neutral", range=UNIT,
        formula="sum over samples with sinks of (players - sinks) / sum of players", interval="normal",
        meaning="features removed when only the sinks stay",
        parts=lambda h: ((h.n_players - h.n_sinks) * bool(h.n_sinks), h.n_players),
    ),
    Number(
        tag=f"{REDUNDANCY}share_without_direction", title="without direction", direction="neutral", range=UNIT,
        formula="share of samples whose H has neither sources nor sinks", interval="wilson",
        meaning="samples with neither sources nor sinks, which count as right in the four accuracies of sources and "
        "sinks", parts=lambda h: (not h.n_sources + h.n_sinks, 1),
    ),
    Number(
        tag=f"{REDUNDANCY}random_removal_accuracy", title="random removal", direction="neutral", range=UNIT,
        formula="share of samples and draws with the same decision when as many players are removed at random as for "
        "accuracy_with_representatives", interval="normal", tasks=CLASSIFICATION,
        meaning="control of accuracy_with_representatives: same prediction when as many features go at random",
    ),
    Number(
        tag=f"{REDUNDANCY}empty_accuracy", title="nothing left", direction="neutral", range=UNIT,
        formula="share of samples with the same decision when all players are removed", interval="wilson",
        tasks=CLASSIFICATION,
        meaning="control of all accuracies after removal: same prediction without any feature",
    ),
    *(
        Number(
            tag=f"{REDUNDANCY}{masking}_random_accuracy", title=f"{title}, at random", direction="neutral", range=UNIT,
            formula="share of samples and draws with the same decision when as many players are removed at random as "
            f"for {masking}_accuracy", interval="normal", tasks=CLASSIFICATION,
            meaning=f"control of {masking}_accuracy: same prediction when as many features go at random",
        )
        for masking, title in (
            ("mask_sinks", "without sinks"), ("keep_only_sources", "sources only"),
            ("mask_sources", "without sources"), ("keep_only_sinks", "sinks only"),
        )
    ),
    Number(
        tag="bivshap/estimate/standard_error", title="standard error", direction="lower", range=COUNT, interval="none",
        formula="mean over samples and edges of the standard error of G's weights",
        meaning="standard error of the graphs' weights; 0 when they are exact",
    ),
    Number(
        tag="class_graph/density", title="density", direction="neutral", range=UNIT, interval="undecided edges",
        formula="redundant edges / ordered pairs of the class's mean graph", scope="class graph", of_graph=_density,
        meaning="ordered pairs of features in the mean graph of a class where the first makes the second redundant",
    ),
    Number(
        tag="class_graph/n_independent", title="independent features", direction="neutral", range=COUNT,
        formula="players - (players in groups - groups) of the class's mean graph", interval="undecided edges",
        scope="class graph", of_graph=_n_independent,
        meaning="features left in the mean graph of a class when each group counts once",
    ),
    Number(
        tag="class_graph/share_removable", title="removable", direction="neutral", range=UNIT, scope="class graph",
        formula="(players in groups - groups) / players of the class's mean graph", interval="undecided edges",
        meaning="features that can go from the mean graph of a class while one of each group stays",
        of_graph=_share_removable,
    ),
    Number(
        tag="class_graph/n_undecided", title="undecided pairs", direction="lower", range=COUNT, interval="none",
        formula="undecided edges of the class's mean graph", scope="class graph",
        meaning="ordered pairs that the noise leaves undecided in the mean graph of a class",
        of_graph=lambda h: Interval(h.n_undecided, h.n_undecided, h.n_undecided),
    ),
    Number(
        tag="drift/weights", title="weights", direction="lower", range=UNIT, interval="upper", scope="drift",
        formula="sum |W - W'| / (sum |W| + sum |W'|) of the mean graphs of a class, now and before",
        meaning="how far the weights of a class graph moved since the previous record, as a share of them",
    ),
    Number(
        tag="drift/redundancy", title="redundancy", direction="lower", range=UNIT, interval="undecided edges",
        formula="1 - |H and H'| / |H or H'| of the redundant edges of a class, now and before", scope="drift",
        meaning="redundant pairs of a class graph that came or went since the previous record",
    ),
    Number(
        tag="drift/ranking", title="ranking", direction="lower", range=(0.0, 2.0), interval="upper", scope="drift",
        formula="1 - Spearman's rank correlation of the rankings of a class, now and before",
        meaning="how far the ranking of a class moved since the previous record",
    ),
    Number(
        tag="bivshap/cost/seconds", title="seconds", direction="lower", range=COUNT, interval="none", scope="run",
        formula="wall-clock seconds of the audit", meaning="how long the audit took",
    ),
    Number(
        tag="bivshap/cost/forwards", title="model rows", direction="lower", range=COUNT, interval="none", scope="run",
        formula="rows passed through the model, over all processes", meaning="how many rows the model evaluated",
    ),
    Number(
        tag="bivshap/cost/epochs", title="cost in epochs", direction="lower", range=COUNT, interval="none",
        formula="seconds of the audit / seconds of the epoch without it", scope="run",
        meaning="how many epochs the audit took as long as",
    ),
    Number(
        tag="bivshap/failed", title="failed", direction="lower", range=UNIT, interval="none", scope="run",
        formula="1 if the last audit failed, else 0", meaning="whether the last audit failed",
    ),
    Number(
        tag="bivshap/gate/passed", title="gate passed", direction="higher", range=UNIT, interval="none", scope="run",
        formula="1 if the last verdict of RedundancyGate is a pass, else 0", meaning="whether the gate passed",
    ),
]  # fmt: skip
"""All numbers, in the order in which tables show them."""


def find_number(tag: str) -> Number | None:
    """The entry of a tag; None for a tag that the catalogue does not have.

    Example:
        >>> find_number("bivshap/deletion_auc/ours").better
        'lower is better'
        >>> find_number("mine") is None
        True
    """
    for number in CATALOGUE:
        start, placeholder, end = number.tag.partition(EXPLAINER)
        if tag == number.tag or (placeholder and tag.startswith(start) and tag.endswith(end) and len(tag) > len(start)):
            return number
    return None


def numbers_of(scope: str) -> list[Number]:
    """The entries of one scope.

    Example:
        >>> [number.tag for number in numbers_of("drift")]
        ['drift/weights', 'drift/redundancy', 'drift/ranking']
    """
    return [number for number in CATALOGUE if number.scope == scope]


def ranking_numbers() -> list[Number]:
    """The entries that evaluate the ranking of an explainer.

    Example:
        >>> [number.family for number in ranking_numbers()]
        ['post_hoc_accuracy', 'insertion_auc', 'deletion_auc']
    """
    return [number for number in CATALOGUE if number.metric is not None]


def sample_parts(tag: str, sample: ScoredSample) -> tuple[float, float] | None:
    """Numerator and denominator that a sample contributes to a number over samples; None if the sample lacks it.

    Args:
        tag: of the number.
        sample: its H and its scores.
    """
    return _parts(find_number(tag), tag, sample)


def _parts(number: Number | None, tag: str, sample: ScoredSample) -> tuple[float, float] | None:
    if number is not None and number.parts is not None:
        return number.parts(sample)
    return (sample.scores[tag], 1) if tag in sample.scores else None


def estimate_over(tag: str, samples: Sequence[ScoredSample]) -> tuple[float, float] | None:
    """A number over samples and its standard error; None if some sample lacks it.

    Args:
        tag: of the number.
        samples: at least one.
    """
    number = find_number(tag)
    parts = [p for p in (_parts(number, tag, sample) for sample in samples) if p is not None]
    return ratio_of_sums(parts) if parts and len(parts) == len(samples) else None


def interval_of(tag: str, value: float, error: float, *, n: int, z: float) -> Interval:
    """The confidence interval of a number over samples, as its entry says; normal for a tag without one.

    Args:
        tag: of the number.
        value: the number.
        error: its standard error.
        n: over how many samples.
        z: quantile of the normal distribution.

    Example:
        >>> interval_of("bivshap/insertion_auc/ours", 0.5, 0.1, n=10, z=2.0)
        Interval(value=0.5, lower=0.3, upper=0.7)
    """
    number = find_number(tag)
    kind, (low, high) = ("normal", REAL) if number is None else (number.interval, number.range)
    if kind == "none":
        return Interval(value, value, value)
    if kind == "wilson" or (kind == "normal or wilson" and error == 0):
        return wilson_interval(value, n, z)
    return normal_interval(value, error, n, z, low=low, high=high)


def catalogue_table() -> str:
    """The catalogue as a Markdown page; docs/numbers.md holds it.

    Example:
        >>> catalogue_table().splitlines()[0]
        '# All numbers'
    """
    head = ("number", "what it says", "formula", "better", "range", "interval", "tasks")
    lines = [
        "# All numbers",
        "",
        "Generated from `bivshap_lightning/metrics/catalogue.py`. Tags with `bivshap/` are logged; `class_graph/` and",
        "`drift/` are numbers of the mean graph of a class, which gate rules can name.",
        "",
        f"| {' | '.join(head)} |",
        f"|{' --- |' * len(head)}",
    ]
    for n in CATALOGUE:
        tag = n.tag.replace(EXPLAINER, "<explainer>")
        tasks = "all" if n.tasks == ALL_TASKS else ", ".join(n.tasks)
        cells = (f"`{tag}`", n.meaning, n.formula, n.direction, _range_text(n.range), INTERVALS[n.interval], tasks)
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _range_text(range_: tuple[float, float]) -> str:
    low, high = range_
    if math.isinf(low):
        return "any"
    return f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"
