"""Hand-made audit records with known numbers, for everything that reads records."""

import copy
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from bivshap_lightning.audit.record import checksum

P = "bivshap/redundancy/"
PLAYERS = ("a", "b", "c", "d")


def graph(*groups, density=0.0, n_undecided=0, sources=(), sinks=(), players=PLAYERS) -> dict[str, Any]:
    return {
        "players": list(players),
        "ranking": [{"player": p, "score": 1.0} for p in players],
        "groups": [list(g) for g in groups],
        "sources": list(sources),
        "sinks": list(sinks),
        "density": density,
        "n_undecided": n_undecided,
    }


def record(samples=None, metrics=None, classes=None, scores=None, **configuration) -> dict[str, Any]:
    """Twenty samples, half of them "cat" with a group of two among four players, half of them "dog" without.

    Scores of the samples are given by metric.
    """
    if samples is None:
        samples = [("cat", graph(("a", "b"), density=0.2))] * 10 + [("dog", graph())] * 10
    if metrics is None:
        metrics = {
            f"{P}accuracy_with_representatives": (1.0, 0.0),
            f"{P}mask_sinks_accuracy": (0.9, 0.0670820393249937),
            f"{P}share_removable": (0.125, 0.0),
            f"{P}density": (0.1, 0.0223606797749979),
            "bivshap/posthoc_accuracy/ours": (0.8, 0.05),
            "bivshap/insertion_auc/ours": (0.5, 0.1),
            "bivshap/estimate/standard_error": (0.01, 0.0),
        }
    if classes is None:
        classes = {"cat": graph(("a", "b"), density=0.25, n_undecided=3), "dog": graph(density=0.5)}
    return copy.deepcopy(
        {
            "kind": "bivshap_lightning.Audit",
            "version": 2,
            "configuration": {
                "removal": "baseline 0", "behavior": "probability", "gamma": 1e-5, "target": "predicted",
                "players": "automatic",
            } | configuration,
            "versions": {},
            "run": {"stage": "validate", "epoch": 3, "step": 40},
            "metrics": {n: {"value": v, "standard_error": e} for n, (v, e) in metrics.items()},
            "classes": classes,
            "samples": [
                {"index": k, "label": c, "target": c, "gain": 0.5,
                 "scores": {metric: values[k] for metric, values in (scores or {}).items()}, **g}
                for k, (c, g) in enumerate(samples)
            ],
            "cost": {},
        }
    )  # fmt: skip


def npz(**arrays: Any) -> bytes:
    """The file of arrays of a record."""
    file = io.BytesIO()
    header = np.array(json.dumps({"kind": "bivshap_lightning.Audit", "version": 2}))
    np.savez_compressed(file, **arrays, header=header)
    return file.getvalue()


ARRAYS = npz(weights=np.zeros((20, 4, 4), dtype=np.float32))


def sealed(fields: dict[str, Any], arrays: bytes = ARRAYS) -> bytes:
    """A record as JSON with the right checksums, whatever nonsense it holds."""
    beside = {"file": "record.npz", "sha256": hashlib.sha256(arrays).hexdigest()}
    fields = json.loads(json.dumps({**fields, "arrays": beside}))
    return json.dumps({**fields, "sha256": checksum(fields)}).encode()


def write(path: Path, fields: dict[str, Any], arrays: bytes = ARRAYS) -> Path:
    """A record on disk: its two files."""
    path.with_name("record.npz").write_bytes(arrays)
    path.write_bytes(sealed(fields, arrays))
    return path
