"""Hand-made audit records with known numbers, for everything that reads records."""

import copy
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from bivshap_lightning.audit.json_fields import encode
from bivshap_lightning.audit.record import AuditRecord, Configuration, Cost, GraphSummary, Run
from bivshap_lightning.audit.record_files import KIND, RECORD_VERSION, checksum
from bivshap_lightning.graph import ExplanationGraph

P = "bivshap/redundancy/"
C = "class_graph/"
PLAYERS = ("a", "b", "c", "d")
GAMMA = 1e-5


def graph(*groups, density=0.0, n_undecided=0, sources=(), sinks=(), players=PLAYERS) -> dict[str, Any]:
    """What a record says about a graph, as JSON values."""
    return {
        "players": list(players),
        "ranking": [{"player": p, "score": 1.0} for p in players],
        "groups": [list(g) for g in groups],
        "sources": list(sources),
        "sinks": list(sinks),
        "density": density,
        "n_undecided": n_undecided,
    }


def fields(samples=None, metrics=None, classes=None, scores=None, **configuration) -> dict[str, Any]:
    """Twenty samples, half of them "cat" with a group of two among four players, half of them "dog" without.

    The JSON values of a record without arrays. Scores of the samples are given by metric.
    """
    if samples is None:
        samples = [("cat", graph(("a", "b"), density=0.2))] * 10 + [("dog", graph())] * 10
    if metrics is None:
        metrics = {
            f"{P}accuracy_with_representatives": (1.0, 0.0),
            f"{P}mask_sinks_accuracy": (0.9, 0.0670820393249937),
            f"{P}share_removable": (0.125, 0.0),
            f"{P}density": (0.1, 0.0223606797749979),
            "bivshap/post_hoc_accuracy/ours": (0.8, 0.05),
            "bivshap/insertion_auc/ours": (0.5, 0.1),
            "bivshap/estimate/standard_error": (0.01, 0.0),
        }
    if classes is None:
        names = {c for c, _ in samples}
        both = {"cat": graph(("a", "b"), density=0.25, n_undecided=3), "dog": graph(density=0.5)}
        classes = {name: g for name, g in both.items() if name in names}
    return copy.deepcopy(
        {
            "configuration": encode(
                Configuration("probability", "auto", "automatic", "baseline 0", "predicted", GAMMA)
            ) | configuration,
            "versions": {},
            "run": encode(Run(stage="validate", epoch=3, step=40)),
            "curves": {},
            "class_metrics": {},
            "metrics": {n: {"value": v, "standard_error": e} for n, (v, e) in metrics.items()},
            "classes": classes,
            "samples": [
                {"index": k, "label": c, "target": c, "gain": 0.5, "words": None,
                 "scores": {metric: values[k] for metric, values in (scores or {}).items()}, **g}
                for k, (c, g) in enumerate(samples)
            ],
            "cost": encode(Cost()),
        }
    )  # fmt: skip


def record(*args, **kwargs) -> AuditRecord:
    """The record of :func:`fields`."""
    return AuditRecord.from_fields(fields(*args, **kwargs))


def weights_of(*pairs) -> np.ndarray:
    """Weights of four players, 1 but for pairs that are redundant both ways."""
    weights = 1 - np.eye(4)
    for i, j in pairs:
        weights[i, j] = weights[j, i] = 0
    return weights


def summary(weights, players=PLAYERS) -> dict[str, Any]:
    return encode(GraphSummary.of(ExplanationGraph(weights, names=players), GAMMA))


STACK = np.stack([weights_of((0, 1))] * 10 + [weights_of()] * 10).astype(np.float32)


def true_fields(**configuration) -> dict[str, Any]:
    """Like :func:`fields`, and in agreement with the arrays ``STACK``: a and b of the cats are one group."""
    cat, dog = summary(weights_of((0, 1))), summary(weights_of())
    metrics = {
        f"{P}accuracy_with_representatives": (1.0, 0.0),
        f"{P}share_removable": (0.125, 0.028),
        f"{P}density": (1 / 12, 0.018),
        "bivshap/post_hoc_accuracy/ours": (0.8, 0.05),
        "bivshap/insertion_auc/ours": (0.5, 0.1),
    }
    found = fields([("cat", cat)] * 10 + [("dog", dog)] * 10, metrics, {"cat": cat, "dog": dog}, **configuration)
    number = {f"{P}share_removable": {"value": 0.25, "standard_error": 0.0}}
    found["class_metrics"] = {"cat": {"n_samples": 10, "metrics": number}}
    found["curves"] = {"ours": {"masked_fraction": [0.0, 1.0], "accuracy": [1.0, 0.5], "standard_error": [0.0, 0.1]}}
    return found


def npz(**arrays: Any) -> bytes:
    """The file of arrays of a record."""
    file = io.BytesIO()
    header = np.array(json.dumps({"kind": KIND, "version": RECORD_VERSION}))
    np.savez_compressed(file, **arrays, header=header)
    return file.getvalue()


ARRAYS = npz(weights=STACK)


def sealed(content: dict[str, Any], arrays: bytes = ARRAYS) -> bytes:
    """A record as JSON with the right checksums, whatever it holds."""
    beside = {"file": "record.npz", "sha256": hashlib.sha256(arrays).hexdigest()}
    content = json.loads(json.dumps({"kind": KIND, "version": RECORD_VERSION, "arrays": beside} | content))
    return json.dumps({**content, "sha256": checksum(content)}).encode()


def write(path: Path, content: dict[str, Any], arrays: bytes = ARRAYS) -> Path:
    """A record on disk: its two files."""
    path.with_name("record.npz").write_bytes(arrays)
    path.write_bytes(sealed(content, arrays))
    return path
