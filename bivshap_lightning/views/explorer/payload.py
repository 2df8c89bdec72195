"""What the explorer is given: the description of a record, one graph as bytes, and importances over several records.

A graph is sent as one block of bytes: the magic number, the length of a JSON header (uint32, little endian), the header
and the arrays. Arrays are float32 where that loses nothing, which is so for all arrays of a record, and float64
otherwise (means over samples). So the browser compares the same numbers with gamma as Python does.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.audit.json_fields import encode
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.audit.record_arrays import graph_of_sample, verify_picture
from bivshap_lightning.graph import ExplanationGraph, structure
from bivshap_lightning.graph.averaging import mean_of_class
from bivshap_lightning.graph.threshold import CONFIDENCE, normal_quantile
from bivshap_lightning.views.figures.axis_values import AxisValues, values_of_class, values_of_sample

MAGIC = b"BVSG"
MAX_ARCS, ARC_ROWS = 24, 30
"""Pair terms that the axis draws, and the rows between which it looks for them."""

MAX_STACKED = 2**25
"""Matrix entries of all samples of a class above which its axis is that of the mean graph alone."""

Subject = tuple[str, str]
"""("class", its name) or ("sample", its index)."""


def parse_subject(text: str) -> Subject:
    """The class or sample that a text names.

    Args:
        text: "class:<name>" or "sample:<index>".

    Raises:
        ValueError: it is neither.

    Example:
        >>> parse_subject("class:cat"), parse_subject("sample:3")
        (('class', 'cat'), ('sample', '3'))
    """
    kind, colon, name = text.partition(":")
    if not colon or kind not in ("class", "sample") or (kind == "sample" and not name.isdecimal()):
        raise ValueError(f"`subject` must be class:<name> or sample:<index>, got {text[:80]!r}.")
    return kind, name


@dataclass(frozen=True)
class SizeChange:
    """How the sizes of Shapley values changed since the audit before, which had the same samples and coalitions.

    Attributes:
        step: of the audit before.
        values: (F,) changes; of a class the means over its samples.
        errors: (F,) their standard errors; of a class the means, as for the values themselves.
    """

    step: int
    values: NDArray[Any]
    errors: NDArray[Any]

    @classmethod
    def of(cls, record: AuditRecord, positions: Sequence[int], graphs: Sequence[ExplanationGraph]) -> SizeChange | None:
        """The change of a sample or a class; None if that of one of the samples is unknown, or they differ in players.

        Args:
            record: the record.
            positions: of the samples.
            graphs: of the samples.
        """
        changes = [record.samples[k].change for k in positions]
        known = [change for change in changes if change is not None]
        step = None if record.change is None else record.change.step
        if step is None or len(known) < len(changes) or len({graph.names for graph in graphs}) > 1:
            return None
        sizes = [
            np.abs(graph.known_shapley) - np.abs(graph.known_shapley - np.array(change.shapley))
            for graph, change in zip(graphs, known, strict=True)
        ]
        errors = [change.standard_error for change in known]
        return cls(step, np.mean(sizes, axis=0), np.mean(errors, axis=0))


@dataclass(frozen=True)
class SubjectData:
    """One graph of a record and what belongs to it.

    Attributes:
        graph: G of the sample or the mean graph of the class.
        axis: the numbers of the axis picture; None without Shapley values.
        words: one per player if it is a text.
        image: (H, W) or (H, W, 3) uint8, or None.
        segments: (H, W) the player of each pixel, or None.
        change: since the audit before, if the record knows it.
    """

    graph: ExplanationGraph
    axis: AxisValues | None
    words: tuple[str, ...] | None = None
    image: NDArray[Any] | None = None
    segments: NDArray[Any] | None = None
    change: SizeChange | None = None


def subject_data(record: AuditRecord, subject: Subject) -> SubjectData:
    """One graph of a record, read without those of other samples.

    Args:
        record: with its arrays.
        subject: the class or sample.

    Raises:
        RecordError: the record has no such class or sample, or its arrays are not those of its samples.
    """
    kind, name = subject
    if kind == "sample":
        position = next((k for k, sample in enumerate(record.samples) if str(sample.index) == name), None)
        if position is None:
            raise RecordError(f"{record.source}: `subject` must be a sample of the record, got sample {name}.")
        graph = graph_of_sample(record, position)
        axis = None if graph.shapley is None else values_of_sample(graph)
        change = SizeChange.of(record, [position], [graph])
        return SubjectData(graph, axis, record.samples[position].words, *_picture(record, position), change)
    positions = [k for k, sample in enumerate(record.samples) if sample.class_name == name]
    if name not in record.classes or not positions:
        raise RecordError(f"{record.source}: `subject` must be a class with a mean graph, got class {name!r}.")
    graphs = [graph_of_sample(record, k) for k in positions]
    mean = mean_of_class(graphs)
    pictured = next((k for k in positions if f"segments_{k}" in record.arrays), None)
    same_players = graphs[0].names == mean.names
    picture = (None, None) if pictured is None or not same_players else _picture(record, pictured)
    change = SizeChange.of(record, positions, graphs)
    return SubjectData(mean, _axis_of_class(mean, graphs), None, *picture, change)


def _axis_of_class(mean: ExplanationGraph, graphs: Sequence[ExplanationGraph]) -> AxisValues | None:
    if mean.shapley is None:
        return None
    few = len(graphs) * mean.n_players**2 <= MAX_STACKED
    if few and len({graph.names for graph in graphs}) == 1:
        return values_of_class(graphs)
    return values_of_sample(mean if mean.absolute is None else mean.absolute)


def _picture(record: AuditRecord, position: int) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    verify_picture(record, position)
    return record.arrays.get(f"image_{position}"), record.arrays.get(f"segments_{position}")


def graph_bytes(data: SubjectData) -> bytes:
    """A graph with all that the explorer draws of it.

    Args:
        data: of the class or sample.

    Example:
        >>> graph = ExplanationGraph([[0, 0], [1 / 2, 0]], names=["a", "b"], shapley=[3 / 2, 1 / 2])
        >>> graph_bytes(SubjectData(graph, values_of_sample(graph)))[:4]
        b'BVSG'
    """
    graph, axis = data.graph, data.axis
    header: dict[str, Any] = {
        "names": list(graph.names),
        "words": None if data.words is None else list(data.words),
        "n_graphs": graph.provenance.get("n_graphs"),
        "confidence": CONFIDENCE,
        "quantiles": _quantiles(graph.n_players),
        "default_gamma": None if graph.shapley is None else graph.relative_gamma,
        "orders": _orders(graph),
        "arcs": [],
        "axis_kind": None,
        "changed_since": None if data.change is None else data.change.step,
    }
    arrays: dict[str, NDArray[Any]] = {"weights": graph.weights}
    if graph.absolute is not None:
        arrays["absolute_weights"] = graph.absolute.weights
    if graph.is_estimated:
        arrays["standard_error"] = graph.standard_error
    if graph.shapley is not None:
        arrays |= _role_values(graph)
    if axis is not None:
        header["axis_kind"] = "sample" if axis.n_samples is None else "class"
        header["arcs"] = axis.strongest_pairs(axis.order()[:ARC_ROWS], MAX_ARCS)
        arrays |= _axis_arrays(axis)
    if data.change is not None:
        arrays |= {"size_change": data.change.values, "size_change_error": data.change.errors}
    if data.image is not None and data.segments is not None:
        arrays |= {"image": data.image, "segments": data.segments.astype(np.int32)}
    return _pack(header, arrays)


def _quantiles(n_players: int) -> dict[str, float]:
    """Standard errors in the intervals that decide edges and roles; see :mod:`bivshap_lightning.graph.roles`."""
    half = (1 - CONFIDENCE) / 2
    return {
        "edge": normal_quantile(CONFIDENCE),
        "relevant_player": normal_quantile(1 - half),
        "relevant_pair": normal_quantile(1 - half / max(n_players - 1, 1)),
    }


def _orders(graph: ExplanationGraph) -> dict[str, list[int]]:
    """Players by each ranking, most important first; rankings do not depend on gamma."""
    known = graph.shapley is not None
    orders = {"pagerank": graph.order("pagerank", personalized=known)}
    if known:
        orders = {
            "keep": graph.order("keep"),
            "remove": graph.order("remove"),
            "shapley": graph.order("shapley"),
        } | orders
    return {name: order.tolist() for name, order in orders.items()}


def _role_values(graph: ExplanationGraph) -> dict[str, NDArray[Any]]:
    """Sizes that decide roles: of a mean graph, those of the mean absolute values."""
    decided = graph if graph.absolute is None else graph.absolute
    late = structure.potential(decided.weights.T, decided.known_shapley)
    return {
        "shapley": graph.known_shapley,
        "shapley_size": np.abs(decided.known_shapley),
        "shapley_error": graph.shapley_standard_error,
        "late_size": np.abs(late),
        "late_error": structure.potential_error(graph.standard_error.T, graph.shapley_standard_error),
    }


def _axis_arrays(axis: AxisValues) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {
        "axis_shapley": axis.shapley,
        "axis_late": axis.late,
        "pairs": axis.pairs.astype(np.float32),
    }
    if axis.shapley_whiskers is not None and axis.late_whiskers is not None:
        arrays["axis_shapley_whiskers"] = axis.shapley_whiskers
        arrays["axis_late_whiskers"] = axis.late_whiskers
    return arrays


def _pack(header: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    places, chunks, offset = {}, [], 0
    for name, array in arrays.items():
        compact = _without_loss(array)
        octets = compact.tobytes()
        places[name] = {"dtype": compact.dtype.name, "shape": list(compact.shape), "offset": offset}
        padding = -len(octets) % 8
        chunks.append(octets + bytes(padding))
        offset += len(octets) + padding
    text = json.dumps({**header, "arrays": places}, allow_nan=False).encode()
    text += b" " * (-(len(text) + 8) % 8)  # arrays start at a multiple of eight bytes
    return b"".join([MAGIC, struct.pack("<I", len(text)), text, *chunks])


def _without_loss(array: NDArray[Any]) -> NDArray[Any]:
    """The array in little-endian order, floats in single precision if that changes none of them."""
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            single = array.astype("<f4")
        array = single if (single == array).all() else array.astype("<f8")
    return np.ascontiguousarray(array)


def role_point(data: SubjectData) -> dict[str, Any]:
    """Importances, their errors and roles of one graph, for the view over time.

    Args:
        data: of the class or sample.

    Example:
        >>> graph = ExplanationGraph([[0, 0], [1 / 2, 0]], names=["a", "b"], shapley=[3 / 2, 1 / 2])
        >>> role_point(SubjectData(graph, None))["roles"]
        ['essential', 'redundant']
    """
    graph = data.graph
    if graph.shapley is None:
        return {"names": list(graph.names), "importance": None}
    sizes = graph.known_shapley if graph.absolute is None else graph.absolute.known_shapley
    return {
        "names": list(graph.names),
        "importance": np.abs(sizes).tolist(),
        "error": graph.shapley_standard_error.tolist(),
        "roles": list(graph.roles().roles),
        "gamma": graph.relative_gamma,
    }


def sample_key(record: AuditRecord, subject: Subject) -> str | None:
    """The hash of a sample's content, by which the same sample is known in another record; None if there is none."""
    kind, name = subject
    if kind != "sample":
        return None
    index = next((sample.index for sample in record.samples if str(sample.index) == name), None)
    keys = record.run.sample_keys
    return keys[index] if index is not None and index < len(keys) else None


def run_fields(record: AuditRecord) -> dict[str, Any]:
    """Which audit a record is of, as JSON values, without the hashes of its samples."""
    fields: dict[str, Any] = encode(record.run)
    fields.pop("sample_keys", None)
    return fields
