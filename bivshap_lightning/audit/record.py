"""The audit record on disk: what was found, how, with which versions; readable without torch and without the model.

One audit is a pair of files that belong together, ``<name>.json`` with all numbers and words and ``<name>.npz`` with
the arrays. Both are written whole or not at all, the JSON last, so that a record that exists is complete. The JSON
holds SHA-256 sums of its own content and of the NPZ file: whatever was damaged or changed by hand since is refused.
A sum that stands beside what it sums up shows damage, not forgery: who can write records can write sums.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bivshap_lightning.graph.storage import read_record, write_record

KIND = "bivshap_lightning.Audit"
AUDIT_VERSION = 2
"""Version 1 had no checksums, so that nothing vouches for such a file: it is not read."""

FIELDS = ("configuration", "versions", "run", "metrics", "classes", "samples", "cost")
MAX_CLASSES = 12
"""Classes that a page draws, and of which a record keeps a picture."""
PACKAGES = ("bivshap-lightning", "torch", "pytorch-lightning", "lightning", "torchmetrics", "captum", "scikit-network")


def save_audit(path: str | os.PathLike[str], fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write an audit.

    Args:
        path: of the JSON file; the arrays go beside it.
        fields: everything that JSON can hold, at least :data:`FIELDS`.
        arrays: matrices by name.

    Returns:
        The path of the JSON file.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fields = dict.fromkeys(FIELDS, {})
        ...     path = save_audit(f"{folder}/audit.json", fields, {"shapley": np.zeros((2, 3))})
        ...     load_arrays(path)["shapley"].shape
        (2, 3)
    """
    path = Path(path)
    missing = sorted(set(FIELDS) - fields.keys())
    if missing:
        raise ValueError(f"`fields` must hold {list(FIELDS)}, got none for {missing}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".npz")
    write_record(beside, KIND, dict(arrays), version=AUDIT_VERSION)
    content = {**fields, "arrays": {"file": beside.name, "sha256": hashlib.sha256(beside.read_bytes()).hexdigest()}}
    # As it will be read: tuples are lists then, and all keys are texts.
    content = json.loads(json.dumps(content, allow_nan=False))
    content["sha256"] = checksum({"kind": KIND, "version": AUDIT_VERSION, **content})
    write_record(path, KIND, content, version=AUDIT_VERSION)
    return path


def checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of all that a record says, but for this sum itself; white space and the order of keys play no part.

    Example:
        >>> checksum({"a": 1, "b": [2.0]}) == checksum({"b": [2.0], "a": 1, "sha256": "?"})
        True
    """
    content = {name: value for name, value in record.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def load_audit(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read an audit's numbers and words, refusing damaged, foreign and other versions' files.

    Raises:
        ValueError: The JSON file or the NPZ file beside it is not what was written.
        OSError: One of them cannot be read.

    Example:
        See :func:`save_audit`.
    """
    record = read_record(path, KIND, (*FIELDS, "arrays", "sha256"), version=AUDIT_VERSION)
    if record["sha256"] != checksum(record):
        raise ValueError(
            f"`path` must hold what was written, got content that differs from its checksum in {path}. "
            "The file was damaged or changed since: fetch it again or audit again."
        )
    _arrays_file(Path(path), record["arrays"])
    return record


def load_arrays(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the arrays of an audit, given the path of its JSON file.

    Raises:
        ValueError: As in :func:`load_audit`.
        OSError: As there.

    Example:
        See :func:`save_audit`.
    """
    path = Path(path)
    return read_record(_arrays_file(path, load_audit(path)["arrays"]), KIND, (), version=AUDIT_VERSION)


def _arrays_file(path: Path, arrays: Mapping[str, Any]) -> Path:
    """The NPZ file of a record, verified: of the recorded name, or of the JSON file's own if both were renamed."""
    beside = path.with_name(arrays["file"])
    if not beside.exists():
        beside = path.with_suffix(".npz")
    if not beside.exists():
        raise ValueError(
            f"`path` must have its arrays beside it, got no {arrays['file']} or {beside.name} beside {path}. "
            "Keep JSON and NPZ together."
        )
    if hashlib.sha256(beside.read_bytes()).hexdigest() != arrays["sha256"]:
        raise ValueError(
            f"`path` must have its own arrays beside it, got others or damaged ones in {beside}. "
            "Fetch both files again or audit again."
        )
    return beside


def hardest_first(samples: Sequence[Mapping[str, Any]], *, predicted: bool) -> list[int]:
    """Places of samples, those to look at first: wrong ones, then those whose features add least to the output.

    Args:
        samples: of a record; `gain` is the output on the whole input less the output with every feature removed.
        predicted: whether the predicted class was explained, so that a label may differ from it.

    Example:
        >>> easy, vague = {"label": "a", "target": "a", "gain": 0.9}, {"label": "a", "target": "a", "gain": 0.1}
        >>> hardest_first([easy, vague, {"label": "b", "target": "a", "gain": 0.8}], predicted=True)
        [2, 1, 0]
    """

    def ease(place: int) -> tuple[bool, float]:
        sample = samples[place]
        right = not predicted or sample["label"] is None or sample["label"] == sample["target"]
        return right, -float(sample["n_undecided"]) if sample["gain"] is None else float(sample["gain"])

    return sorted(range(len(samples)), key=ease)


def software_versions() -> dict[str, str]:
    """The versions that an audit's numbers depend on.

    Example:
        >>> "torch" in software_versions()
        True
    """
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
