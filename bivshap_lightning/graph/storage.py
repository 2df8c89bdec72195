"""Versioned files of arrays and JSON values: one record per file, NPZ or JSON by suffix, replaced in one step.

A record is a mapping of fields plus `kind` and `version`. In NPZ every array is its own entry and everything
else is in `header`, a JSON text; in JSON all fields are entries of one object. Neither format can hold code.
"""

import io
import json
import os
import struct
import uuid
import zipfile
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

FORMAT_VERSION = 1

# Exceptions raised for damaged files; RuntimeError covers nesting and unknown compression.
_READ_ERRORS = (
    ValueError, TypeError, KeyError, EOFError, RuntimeError, OverflowError, SyntaxError, struct.error,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def write_record(
    path: str | os.PathLike[str], kind: str, fields: Mapping[str, Any], *, version: int = FORMAT_VERSION
) -> None:
    """Write a record, replacing the file at `path` in one step.

    Args:
        path: Ends in `.npz` or `.json`.
        kind: What the record is, checked when it is read.
        fields: Arrays and JSON-able values.
        version: Format version of this kind.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_record(f"{folder}/a.json", "example", {"numbers": np.arange(3)})
        ...     read_record(f"{folder}/a.json", "example", ["numbers"])["numbers"]
        [0, 1, 2]
    """
    path = Path(path)
    write = {".npz": _write_npz, ".json": _write_json}[_suffix(path)]
    content = io.BytesIO()
    write(content, {"kind": kind, "version": version, **fields})
    replace_file(path, content.getbuffer())


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """Write a file so that, whenever the machine stops, either the old file or the whole new one is on disk.

    Args:
        path: Of the file; its folder must exist.
        content: All of it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     replace_file(Path(folder, "a"), b"new")
        ...     os.listdir(folder)
        ['a']
    """
    # In the same folder, so that os.replace stays within one file system.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Bring the new name itself to the disk, where folders can be opened at all (not on Windows)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_record(
    path: str | os.PathLike[str], kind: str, fields: Collection[str], *, version: int = FORMAT_VERSION
) -> dict[str, Any]:
    """Read a record of the given kind and version that has all the given fields.

    Args:
        path: Ends in `.npz` or `.json`.
        kind: The kind it was written as.
        fields: Names that must be present.
        version: The only version that is accepted.

    Raises:
        ValueError: The file is damaged, of another kind or version, or lacks a field.

    Example:
        See `write_record`.
    """
    path = Path(path)
    read = {".npz": _read_npz, ".json": _read_json}[_suffix(path)]
    with path.open("rb") as file:
        try:
            record = read(file)
        except _READ_ERRORS as error:
            raise ValueError(
                f"`path` must be an intact {path.suffix} file, got {path} ({error}). Write it again."
            ) from error
    if not isinstance(record, dict) or record.get("kind") != kind:
        found = record.get("kind") if isinstance(record, dict) else type(record).__name__
        raise ValueError(f"`path` must hold a record of kind {kind!r}, got {found!r} in {path}. Pass another file.")
    found = record.get("version")
    if type(found) is not int or found != version:
        later = type(found) is int and found > version
        advice = "Upgrade bivshap_lightning to read later versions." if later else "Write the file again."
        raise ValueError(f"`path` must hold format version {version}, got {found!r} in {path}. {advice}")
    missing = sorted(set(fields) - record.keys())
    if missing:
        raise ValueError(f"`path` must hold all fields, got none for {missing} in {path}. Write it again.")
    return record


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".json"):
        raise ValueError(f"`path` must end in .npz or .json, got {path.name!r}. Rename the file.")
    return suffix


def _write_npz(file: BinaryIO, record: Mapping[str, Any]) -> None:
    arrays: dict[str, Any] = {name: value for name, value in record.items() if isinstance(value, np.ndarray)}
    header = {name: value for name, value in record.items() if name not in arrays}
    arrays["header"] = np.array(json.dumps(header, allow_nan=False))
    np.savez_compressed(file, **arrays)


def _read_npz(file: BinaryIO) -> dict[str, Any]:
    with np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return {**json.loads(arrays.pop("header").item()), **arrays}


def _write_json(file: BinaryIO, record: Mapping[str, Any]) -> None:
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in record.items()}
    file.write(json.dumps(plain, allow_nan=False).encode())


def _read_json(file: BinaryIO) -> Any:
    return json.load(file)
