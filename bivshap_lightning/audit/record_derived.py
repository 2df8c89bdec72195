"""Whether rankings, pairs of players and errors that a record states follow from its arrays, up to their rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bivshap_lightning.audit.record_checks import demand
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.averaging import MAX_NAMES_OF_CLASS
from bivshap_lightning.graph.batched import is_possible_ranking
from bivshap_lightning.graph.naming import names_without_repeat_number
from bivshap_lightning.graph.substitution import Substitution, mean_substitution
from bivshap_lightning.graph.threshold import CONFIDENCE, normal_quantile
from bivshap_lightning.text import shown

if TYPE_CHECKING:
    from bivshap_lightning.audit.record import AuditRecord
    from bivshap_lightning.audit.record_parts import GraphSummary, PairSummary, SampleSummary

ROUNDING = 2.0**-18
"""How far a number that follows from stored ones may be off, as a share of the largest of them."""
STANDARD_ERROR = "bivshap/estimate/standard_error"


def verify_derived(record: AuditRecord) -> None:
    """Verify what follows from the arrays of all samples.

    Args:
        record: whose arrays are those of its samples, with the players, roles and groups that it says.

    Raises:
        RecordError: naming the first place that contradicts the arrays.
    """
    graphs = record.sample_graphs
    for k, (sample, graph) in enumerate(zip(record.samples, graphs, strict=True)):
        verify_ranking(record, f"samples[{k}]", sample, graph)
        _verify_pairs(record, f"samples[{k}].", (sample.substitutes, sample.partners), [sample], [graph])
    for name, summary in record.classes.items():
        members = [k for k, sample in enumerate(record.samples) if sample.class_name == name]
        chosen = [record.samples[k] for k in members], [graphs[k] for k in members]
        _verify_pairs(record, f"classes[{shown(name)}].", (summary.substitutes, summary.partners), *chosen)
    _verify_pairs(record, "", (record.substitutes, record.partners), record.samples, graphs)
    _verify_standard_error(record)


def verify_ranking(record: AuditRecord, place: str, summary: GraphSummary, graph: ExplanationGraph) -> None:
    """Verify that a ranking is that of its graph.

    Args:
        record: the record.
        place: of the summary.
        summary: with the players of the graph.
        graph: from the arrays.

    Raises:
        RecordError: it is another one.
    """
    positions = {name: k for k, name in enumerate(graph.names)}
    order = np.array([positions[entry.player] for entry in summary.ranking])
    scores = np.array([entry.score for entry in summary.ranking])
    names = [entry.player for entry in summary.ranking]
    holds = is_possible_ranking(graph, order, scores, ROUNDING)
    demand(holds, record, f"{place}.ranking", "be what the arrays say", names)


def _verify_pairs(
    record: AuditRecord,
    place: str,
    pairs: tuple[tuple[PairSummary, ...], tuple[PairSummary, ...]],
    samples: Sequence[SampleSummary],
    graphs: Sequence[ExplanationGraph],
) -> None:
    """Each pair has the numbers that the arrays give it, and no pair that is stronger beyond rounding is missing."""
    gammas = [record.gamma_of(sample) for sample in samples]
    if not any(pairs) or any(graph.shapley is None for graph in graphs) or _is_close(graphs, gammas):
        return
    labels = [list(s.players) for s in samples] if len(samples) == 1 else _labels(samples)
    most = None if len(samples) == 1 else MAX_NAMES_OF_CLASS
    parts = mean_substitution(graphs, labels, gammas=gammas, max_players=most)
    slack = ROUNDING * (1 + _spread(graphs))
    for kind, listed in zip(("substitutes", "partners"), pairs, strict=True):
        for k, pair in enumerate(listed):
            said = (pair.total, pair.own, pair.own_error)
            close = _is_listed(parts, pair) and np.abs(np.subtract(_numbers(parts, pair), said)).max() <= slack
            demand(bool(close), record, f"{place}{kind}[{k}]", "be what the arrays say", f"{pair.player}, {pair.given}")


def _labels(samples: Sequence[SampleSummary]) -> list[list[str]]:
    if all(sample.words is not None for sample in samples):
        return [list(sample.words or ()) for sample in samples]
    return [list(names_without_repeat_number(sample.players)) for sample in samples]


def _is_listed(parts: Substitution, pair: PairSummary) -> bool:
    return {pair.player, pair.given} <= set(parts.names)


def _numbers(parts: Substitution, pair: PairSummary) -> tuple[float, float, float]:
    """What the arrays say of a pair; NaN, which is close to nothing, if it has no such numbers."""
    i, j = parts.names.index(pair.player), parts.names.index(pair.given)
    return float(parts.total[i, j]), float(parts.own[i, j]), float(parts.own_error[i, j])


def _is_close(graphs: Sequence[ExplanationGraph], gammas: Sequence[float]) -> bool:
    """Whether rounding may decide if some player is relevant, and so which samples a pair is averaged over."""
    z = normal_quantile(CONFIDENCE)
    for graph, gamma in zip(graphs, gammas, strict=True):
        phi, half_width = np.abs(graph.known_shapley), z * graph.shapley_standard_error
        if (np.abs(phi - half_width - 2 * gamma) <= ROUNDING * (phi + half_width)).any():
            return True
    return False


def _spread(graphs: Sequence[ExplanationGraph]) -> float:
    """By how much the largest value exceeds the smallest Shapley value that something is divided by."""
    largest = max(float(np.abs(g.weights).max() + np.abs(g.known_shapley).max()) for g in graphs)
    sizes = [np.abs(g.known_shapley) for g in graphs]
    return largest / max(min(float(s[s > 0].min(initial=largest)) for s in sizes), 1e-3 * largest, 1e-300)


def _verify_standard_error(record: AuditRecord) -> None:
    stated = record.metrics.get(STANDARD_ERROR)
    if stated is None:
        return
    errors = [g.standard_error[~np.eye(g.n_players, dtype=np.bool_)] for g in record.sample_graphs]
    found = float(np.mean([e.mean() for e in errors if e.size] or [0.0]))
    close = abs(found - stated.value) <= 1e-4 * max(found, stated.value)
    demand(close, record, "metrics", f"be what the arrays say, {found:.6g}", stated.value, key=STANDARD_ERROR,
           field=".value")  # fmt: skip
