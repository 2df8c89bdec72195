"""The audit record on disk: what was found, how, with which versions; readable without torch and without the model.

One audit is a pair of files that belong together, ``<name>.json`` with all numbers and words and ``<name>.npz`` with
the arrays. Both are written whole or not at all, the JSON last, so that a record that exists is complete.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bivshap_lightning.graph.storage import read_record, write_record

KIND = "bivshap_lightning.Audit"
FIELDS = ("configuration", "versions", "run", "metrics", "classes", "samples", "cost")
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
    write_record(beside, KIND, dict(arrays))
    write_record(path, KIND, {**fields, "arrays": beside.name})
    return path


def load_audit(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read an audit's numbers and words, refusing damaged, foreign and later files.

    Example:
        See :func:`save_audit`.
    """
    return read_record(path, KIND, (*FIELDS, "arrays"))


def load_arrays(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the arrays of an audit, given the path of its JSON file.

    Example:
        See :func:`save_audit`.
    """
    return read_record(Path(path).with_name(load_audit(path)["arrays"]), KIND, ())


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
