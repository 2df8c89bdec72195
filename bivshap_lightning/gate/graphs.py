"""The graphs of a record again, from its arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bivshap_lightning.gate.rules import GateError
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.averaging import mean_of_class

Sample = Mapping[str, Any]


def sample_graphs(record: Mapping[str, Any], arrays: Mapping[str, Any]) -> list[ExplanationGraph]:
    """G of every sample.

    Args:
        record: as :func:`~bivshap_lightning.audit.record.load_audit` returns it, checked by `Evidence`.
        arrays: as :func:`~bivshap_lightning.audit.record.load_arrays` returns them.

    Raises:
        GateError: The arrays are not those of these samples.

    Example:
        >>> weights = np.array([[[0, 0.1, 0.9], [0.2, 0, 0.8], [0.3, 0.1, 0]]])
        >>> sample_graphs({"samples": [{"players": ["a", "b", "c"]}]}, {"weights": weights})[0].names
        ('a', 'b', 'c')
    """
    samples: Sequence[Sample] = record["samples"]
    return [_graph(arrays, k, sample, len(samples)) for k, sample in enumerate(samples)]


def class_graphs(record: Mapping[str, Any], graphs: Sequence[ExplanationGraph]) -> dict[str, ExplanationGraph | None]:
    """The mean graph of every class that the record describes, in its order; None if it has no samples.

    Args:
        record: the record.
        graphs: of its samples, from :func:`sample_graphs`.

    Example:
        >>> graph = ExplanationGraph([[0, 1], [2, 0]])
        >>> samples = [{"label": None, "target": "cat"}, {"label": "cat", "target": "dog"}]
        >>> class_graphs({"classes": {"cat": {}}, "samples": samples}, [graph, graph])["cat"].provenance
        {'n_graphs': 2}
    """
    members: dict[str, list[ExplanationGraph]] = defaultdict(list)
    for sample, graph in zip(record["samples"], graphs, strict=True):
        members[sample["target"] if sample["label"] is None else sample["label"]].append(graph)
    return {name: mean_of_class(members[name]) if name in members else None for name in record["classes"]}


def _graph(arrays: Mapping[str, Any], k: int, sample: Sample, n_samples: int) -> ExplanationGraph:
    """G of a sample, from stacked arrays or, where samples differ in players, from its own."""
    names, n, parts = sample["players"], len(sample["players"]), {}
    for name in ("weights", "standard_error", "shapley"):
        stack = arrays.get(name)
        stacked = isinstance(stack, np.ndarray) and stack.ndim > 0 and len(stack) == n_samples
        parts[name] = stack[k] if stacked and stack is not None else arrays.get(f"{name}_{k}")
    weights = parts["weights"]
    if not isinstance(weights, np.ndarray) or weights.shape != (n, n):
        shape = getattr(weights, "shape", "none")
        raise GateError(
            f"The arrays must hold ({n}, {n}) weights for sample {k}, got {shape}. Keep JSON and NPZ together."
        )
    try:
        return ExplanationGraph(weights, names=names, **{k: parts[k] for k in ("standard_error", "shapley")})
    except (ValueError, TypeError) as error:
        raise GateError(f"The arrays of sample {k} must form a graph, got others ({error})") from error
