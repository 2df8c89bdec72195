"""The arrays of an audit record: the graphs they hold, and whether what the record says about the graphs is true.

Arrays are stored in single precision while the summaries were made before rounding. An edge whose weight is within
rounding of gamma may therefore be redundant or not; everything else must agree exactly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.audit.record_checks import demand
from bivshap_lightning.audit.record_derived import verify_derived, verify_ranking
from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.graph.averaging import MAX_NAMES_OF_CLASS
from bivshap_lightning.text import shown

if TYPE_CHECKING:
    from bivshap_lightning.audit.record import AuditRecord
    from bivshap_lightning.audit.record_parts import GraphSummary

PARTS = ("weights", "standard_error", "shapley", "shapley_standard_error", "pairwise_standard_error")
"""Arrays of a graph that a record keeps."""
LOG_ODDS = "log_odds_"
"""Start of the names of the same arrays of the graph of the log-odds, which rankings read."""
_ALL_PARTS = "|".join((*PARTS, *(f"{LOG_ODDS}{name}" for name in PARTS)))
_NAME = re.compile(f"({_ALL_PARTS})|({_ALL_PARTS}|image|segments)_(\\d{{1,9}})")
_ROUNDING = 2.0**-22
"""Relative error of a stored number, with room for that of sums over samples."""
_SCALES = tuple((sign * a * 2.0**-20, sign * b * 2.0**-20) for sign in (1, -1) for a, b in ((1, 0), (0, 1), (1, 1)))
"""By how much weights alone, and all values, are moved to see which roles rounding may change."""


def graphs_of_samples(record: AuditRecord) -> tuple[ExplanationGraph, ...]:
    """G of every sample, from stacked arrays or, where samples differ in players, from its own.

    Args:
        record: the record.

    Raises:
        RecordError: the arrays are not those of the samples.
    """
    return tuple(graph_of_sample(record, k) for k in range(len(record.samples)))


def graph_of_sample(record: AuditRecord, k: int) -> ExplanationGraph:
    """G of one sample, without those of the others.

    Args:
        record: the record.
        k: position of the sample.

    Raises:
        RecordError: the arrays are not those of the samples.
    """
    names = record.samples[k].players
    try:
        nested = _parts_of(record, k, LOG_ODDS)
        log_odds = ExplanationGraph(names=names, **nested) if nested else None
        return ExplanationGraph(names=names, log_odds=log_odds, **_parts_of(record, k, ""))
    except (ValueError, TypeError) as error:
        raise RecordError(
            f"{record.source}: the arrays of sample {k} must form a graph, got others ({error})"
        ) from error


def _parts_of(record: AuditRecord, k: int, prefix: str) -> dict[str, Any]:
    """The arrays of a graph of one sample, from the stacks or its own; empty if the record has none of that prefix."""
    n, n_samples = record.samples[k].n_players, len(record.samples)
    parts: dict[str, Any] = {}
    for name in PARTS:
        stack = record.arrays.get(f"{prefix}{name}")
        if stack is not None:
            demand(len(stack.shape) > 0 and len(stack) == n_samples, record, f"arrays[{prefix + name!r}]",
                   f"hold {n_samples} samples", stack.shape)  # fmt: skip
        parts[name] = record.arrays.get(f"{prefix}{name}_{k}") if stack is None else stack[k]
    if prefix and all(part is None for part in parts.values()):
        return {}
    shape = None if parts["weights"] is None else parts["weights"].shape
    demand(shape == (n, n), record, "arrays", f"hold ({n}, {n}) {prefix}weights for sample {k}", shape)
    demand(not prefix or parts["shapley"] is not None, record, "arrays", f"hold {prefix}shapley of sample {k}", None)
    return parts


def verify_arrays(record: AuditRecord) -> None:
    """Verify that the arrays are those of the samples and that the record describes their graphs truly.

    Args:
        record: with verified fields.

    Raises:
        RecordError: naming the place where arrays and fields contradict each other.
    """
    for name in record.arrays:
        match = _NAME.fullmatch(name)
        known = match is not None and int(match[3] or 0) < len(record.samples)
        demand(known, record, "arrays", "be arrays of its samples", name)
        kind = record.arrays[name].dtype.kind
        demand(kind in "fiu", record, f"arrays[{shown(name)}]", "hold numbers", kind)
    for k, (sample, graph) in enumerate(zip(record.samples, record.sample_graphs, strict=True)):
        verify_picture(record, k)
        _verify_summary(record, f"samples[{k}]", sample, graph)
        if sample.gain is not None and graph.shapley is not None:
            error = abs(float(graph.shapley.sum()) - sample.gain)
            close = error <= 1e-5 * float(np.abs(graph.shapley).sum()) + 1e-12
            demand(close, record, f"samples[{k}].gain", "be the sum of its Shapley values", sample.gain)
    for name, graph in record.class_graphs.items():
        _verify_class(record, name, graph)
    _verify_column_shares(record)
    verify_derived(record)


def _verify_column_shares(record: AuditRecord) -> None:
    """The share of each column is that of its mean absolute Shapley value."""
    values = [graph.shapley for graph in record.sample_graphs if graph.shapley is not None]
    if record.columns is None or len(values) < len(record.samples):
        return
    phi = np.abs(values).mean(axis=0)
    shares = dict(zip(record.samples[0].players, phi / (phi.sum() or 1.0), strict=True))
    for k, column in enumerate(record.columns.columns):
        close = abs(column.share - shares[column.name]) <= 1e-5
        demand(close, record, f"columns.columns[{k}].share", "be what the arrays say", column.share)


def _verify_class(record: AuditRecord, name: str, graph: ExplanationGraph) -> None:
    summary, place = record.classes[name], f"classes[{shown(name)}]"
    if graph.names != summary.players and graph.n_players == MAX_NAMES_OF_CLASS == summary.n_players:
        return  # of more words than are kept, rounding may have chosen others of equal importance
    _verify_summary(record, place, summary, graph)
    verify_ranking(record, place, summary, graph)


def _verify_summary(record: AuditRecord, place: str, summary: GraphSummary, graph: ExplanationGraph) -> None:
    demand(graph.names == summary.players, record, f"{place}.players", "be those of the arrays", summary.players)
    larger, smaller = (_shifted(graph, sign).redundancy(record.gamma_of(summary)) for sign in (1, -1))
    n_redundant, n_sure, n_possible = round(summary.density * summary.n_pairs), larger.n_redundant, smaller.n_redundant
    exact = abs(n_redundant - summary.density * summary.n_pairs) < 1e-6 and n_sure <= n_redundant <= n_possible
    demand(exact, record, f"{place}.density", f"be what the arrays say, {n_sure} redundant pairs", summary.density)
    least = int(((larger.adjacency | larger.undecided) & ~smaller.adjacency).sum())
    most = int(((smaller.adjacency | smaller.undecided) & ~larger.adjacency).sum())
    few = least <= summary.n_undecided <= most
    demand(few, record, f"{place}.n_undecided", f"be what the arrays say, {least}", summary.n_undecided)
    recorded = {frozenset(group) for group in summary.groups}
    inside = all(any(small <= large for large in recorded) for small in _groups(larger))
    inside &= all(any(small <= large for large in _groups(smaller)) for small in recorded)
    demand(inside, record, f"{place}.groups", "be what the arrays say", summary.groups)
    _verify_roles(record, place, summary, graph)
    if n_sure == n_possible:
        for kind, positions in {"sources": larger.sources, "sinks": larger.sinks}.items():
            names: tuple[str, ...] = getattr(summary, kind)
            true = set(names) == {graph.names[k] for k in positions}
            demand(true, record, f"{place}.{kind}", "be what the arrays say", names)


def _verify_roles(record: AuditRecord, place: str, summary: GraphSummary, graph: ExplanationGraph) -> None:
    """Every role is the one that the arrays give, or one that they give when rounding moves them."""
    if not summary.roles or graph.shapley is None:
        return
    gamma = record.gamma_of(summary)
    found = graph.roles(gamma)
    if summary.roles == found.roles:
        groups = tuple(tuple(graph.names[k] for k in group) for group in found.groups)
        same = set(map(frozenset, groups)) == set(map(frozenset, summary.interchangeable))
        demand(same, record, f"{place}.interchangeable", "be what the arrays say", summary.interchangeable)
        return
    near = [found, *(_scaled(graph, of_weights, of_all).roles(gamma) for of_weights, of_all in _SCALES)]
    possible = [{roles.roles[k] for roles in near} for k in range(graph.n_players)]
    wrong = [name for name, role, among in zip(graph.names, summary.roles, possible, strict=True) if role not in among]
    demand(not wrong, record, f"{place}.roles", "be what the arrays say", wrong)


def _scaled(graph: ExplanationGraph, of_weights: float, of_all: float) -> ExplanationGraph:
    """The graph with weights, and everything, larger by as much as rounding may have changed them."""
    return ExplanationGraph(
        graph.weights * (1 + of_weights + of_all),
        names=graph.names,
        shapley=None if graph.shapley is None else graph.shapley * (1 + of_all),
        standard_error=graph.standard_error,
        shapley_standard_error=graph.shapley_standard_error,
        absolute=None if graph.absolute is None else _scaled(graph.absolute, of_weights, of_all),
        scale=graph.scale,
    )


def _shifted(graph: ExplanationGraph, sign: int) -> ExplanationGraph:
    """The graph with absolute weights that are larger or smaller by as much as rounding may have changed them."""
    sizes = np.abs((graph if graph.absolute is None else graph.absolute).weights)
    slack = _ROUNDING * (sizes + 2 * graph.standard_error) + float(np.finfo(np.float32).tiny)
    shifted = np.maximum(sizes + sign * slack, 0)
    np.fill_diagonal(shifted, 0)
    return ExplanationGraph(shifted, names=graph.names, standard_error=graph.standard_error)


def _groups(h: RedundancyGraph) -> set[frozenset[str]]:
    return {frozenset(h.names[k] for k in group) for group in h.groups}


def verify_picture(record: AuditRecord, k: int) -> None:
    """Verify that a picture and the player of each of its pixels belong together.

    Args:
        record: the record.
        k: position of the sample.

    Raises:
        RecordError: they do not, or one of them is missing.
    """
    image, segments = (record.arrays.get(f"{name}_{k}") for name in ("image", "segments"))
    if image is None and segments is None:
        return
    n_players = record.samples[k].n_players

    def is_picture(image: NDArray[Any] | None, segments: NDArray[Any] | None) -> bool:
        if image is None or segments is None or image.dtype != np.uint8 or segments.dtype.kind != "i":
            return False
        same = segments.ndim == 2 and segments.size > 0 and image.shape in (segments.shape, (*segments.shape, 3))
        return bool(same and segments.min() >= -1 and segments.max() < n_players)

    got = (getattr(image, "shape", None), getattr(segments, "shape", None))
    demand(is_picture(image, segments), record, "arrays", f"hold a picture of sample {k} and its players", got)
