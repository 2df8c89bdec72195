"""The two files of an audit record: reading, writing, checksums and limits of size.

A record is a JSON file with all numbers and texts and an NPZ file with the arrays. Both are written completely or not
at all, the JSON file last, so a record that exists is complete. The JSON file holds the SHA-256 sums of its own content
and of the NPZ file. The sums detect damage, not forgery: a program that can write records can write their sums.

Each file is opened, read and hashed once. Only regular files of a limited size are read, and an NPZ file is unpacked
only if its headers promise a limited size.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import stat
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.graph.storage import write_record
from bivshap_lightning.text import printable, shown

KIND = "bivshap_lightning.Audit"
RECORD_VERSION = 3
READABLE_VERSIONS = (3,)
"""Versions that this release reads; tests/audit/archive holds an example of each."""

MAX_JSON_BYTES = 256 * 2**20
MAX_NPZ_BYTES = 2 * 2**30
MAX_UNPACKED_BYTES = 4 * 2**30


def checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of JSON content without its entry "sha256"; white space and the order of keys do not matter.

    Example:
        >>> checksum({"a": 1, "b": [2.0]}) == checksum({"b": [2.0], "a": 1, "sha256": "?"})
        True
    """
    kept = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write_files(path: Path, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write both files.

    Args:
        path: of the JSON file; the NPZ file gets the same name with another suffix.
        content: JSON values.
        arrays: by name.
    """
    unpacked = sum(array.nbytes for array in arrays.values())
    if unpacked > MAX_UNPACKED_BYTES:
        raise RecordError(
            f"`arrays` must take at most {MAX_UNPACKED_BYTES:,} bytes, got {unpacked:,}. Audit fewer samples."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".npz")
    write_record(beside, KIND, dict(arrays), version=RECORD_VERSION)
    digest = hashlib.sha256(beside.read_bytes()).hexdigest()
    # As it will be read: all keys are texts then.
    stored = json.loads(json.dumps({**content, "arrays": {"file": beside.name, "sha256": digest}}, allow_nan=False))
    stored["sha256"] = checksum({"kind": KIND, "version": RECORD_VERSION, **stored})
    write_record(path, KIND, stored, version=RECORD_VERSION)


def read_files(path: Path) -> tuple[dict[str, Any], Mapping[str, NDArray[Any]]]:
    """Read and verify both files.

    Args:
        path: of the JSON file.

    Returns:
        The content of the JSON file without kind, version and checksums; the arrays by name, unpacked on first use.

    Raises:
        RecordError: a file is missing, damaged, of another kind or version, not regular or too large.
    """
    if path.suffix.lower() == ".npz":
        raise RecordError(f"`record` must be the JSON file of an audit, got {path}. Pass {path.with_suffix('.json')}.")
    content = _parse(read_regular_file(path, MAX_JSON_BYTES, "record"), path)
    arrays = content.pop("arrays", None)
    entries = arrays if isinstance(arrays, dict) else {}
    name, digest = entries.get("file"), entries.get("sha256")
    plain = isinstance(name, str) and name not in ("", ".", "..") and "/" not in name and "\0" not in name
    if not plain or not isinstance(digest, str) or len(entries) != 2:
        raise RecordError(f"{path}: arrays must name a file and its sha256, got {shown(arrays)}. Audit again.")
    beside = _arrays_file(path, str(name))
    data = read_regular_file(beside, MAX_NPZ_BYTES, "arrays")
    if hashlib.sha256(data).hexdigest() != digest:
        raise RecordError(
            f"`record` must have its own arrays beside it, got others or damaged ones in {beside}. "
            "Fetch both files again or audit again."
        )
    return content, StoredArrays(data, str(beside))


def read_regular_file(path: Path, most: int, what: str) -> bytes:
    """The bytes of a regular file; neither a device nor a pipe is waited for.

    Args:
        path: of the file.
        most: bytes that it may have.
        what: what messages call it.

    Raises:
        RecordError: the file is missing, cannot be read, is not regular or too large.

    Example:
        >>> read_regular_file(Path("/no/such.json"), 100, "record")
        Traceback (most recent call last):
        ...
        bivshap_lightning.audit.errors.RecordError: `record` must be a readable file, got /no/such.json (No such ...
    """
    try:
        if path.is_dir():
            found = ", ".join(p.name for p in sorted(path.glob("*.json"))[-3:]) or "none"
            inside = f"; records in it: {found}" if what == "record" else ""
            raise RecordError(f"`{what}` must be a readable file, got {path} (a folder{inside}).")
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise RecordError(f"`{what}` must be a regular file, got {path} (a device, pipe or socket).")
            if status.st_size > most:
                raise RecordError(f"`{what}` must have at most {most:,} bytes, got {status.st_size:,} in {path}.")
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, RecordError):
            raise
        reason = getattr(error, "strerror", None) or error  # a ValueError: a zero byte in the path
        raise RecordError(f"`{what}` must be a readable file, got {printable(str(path))} ({reason}).") from error
    if len(data) > most:
        raise RecordError(f"`{what}` must have at most {most:,} bytes, got more in {path}, which is still growing.")
    return data


def _parse(data: bytes, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"`record` must be an intact JSON file, got {path} ({printable(str(error))}). Fetch it again."
        ) from error
    kind = content.get("kind") if isinstance(content, dict) else type(content).__name__
    if not isinstance(content, dict) or kind != KIND:
        raise RecordError(f"`record` must be of kind {KIND!r}, got {shown(kind)} in {path}. Pass another file.")
    version = content.get("version")
    if type(version) is not int or version not in READABLE_VERSIONS:
        later = type(version) is int and version > RECORD_VERSION
        advice = "Upgrade bivshap_lightning to read later versions." if later else "Audit again."
        raise RecordError(
            f"`record` must have format version {RECORD_VERSION}, got {shown(version)} in {path}. {advice}"
        )
    if content.get("sha256") != _checksum_of(content, path):
        raise RecordError(
            f"`record` must hold what was written, got content that differs from its checksum in {path}. "
            "The file was damaged or changed since: fetch it again or audit again."
        )
    return {name: value for name, value in content.items() if name not in ("kind", "version", "sha256")}


def _checksum_of(content: Mapping[str, Any], path: Path) -> str:
    try:
        return checksum(content)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"`record` must be an intact JSON file, got {path} ({error}). Fetch it again.") from error


def _arrays_file(path: Path, name: str) -> Path:
    """The NPZ file of a record: of the recorded name, or of the JSON file's own if both were renamed."""
    for beside in (path.with_name(name), path.with_suffix(".npz")):
        try:
            beside.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            reason = error.strerror or error
            raise RecordError(f"`arrays` must be a readable file, got {beside} ({reason}).") from error
        return beside
    raise RecordError(
        f"`record` must have its arrays beside it, got no {printable(name)} or {path.with_suffix('.npz').name} beside "
        f"{path}. Keep JSON and NPZ together."
    )


class StoredArrays(Mapping[str, "NDArray[Any]"]):
    """The arrays of an NPZ file in memory, each unpacked on first use. Their headers are verified at once.

    Args:
        data: the bytes of the file.
        source: what messages call it.

    Raises:
        RecordError: the bytes are not such a file, or promise more than :data:`MAX_UNPACKED_BYTES`.
    """

    def __init__(self, data: bytes, source: str) -> None:
        self._data, self._source = data, source
        self._unpacked: dict[str, NDArray[Any]] = {}
        # Whatever the bytes, and whichever of zipfile, zlib, tokenize and NumPy gives up on them.
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
            self._names = self._verified_names()
            header = json.loads(self._unpack("header").item())
            if not isinstance(header, dict) or header.get("kind") != KIND:
                raise ValueError("no header of a record")
        except RecordError:
            raise
        except Exception as error:
            raise self._damaged(error) from error

    def __reduce__(self) -> tuple[type[StoredArrays], tuple[bytes, str]]:
        return StoredArrays, (self._data, self._source)

    def _damaged(self, error: Exception) -> RecordError:
        return RecordError(
            f"`arrays` must be an intact NPZ file, got {self._source} ({printable(str(error))}). Audit again."
        )

    def _verified_names(self) -> tuple[str, ...]:
        entries = self._archive.infolist()
        unpacked = sum(entry.file_size for entry in entries)
        if unpacked > MAX_UNPACKED_BYTES:
            raise RecordError(
                f"`arrays` must unpack to at most {MAX_UNPACKED_BYTES:,} bytes, got {unpacked:,} in {self._source}."
            )
        names = [entry.filename.removesuffix(".npy") for entry in entries]
        if len(set(names)) != len(names) or not all(entry.filename.endswith(".npy") for entry in entries):
            raise ValueError("entries that are not arrays, or two of one name")
        for entry in entries:
            self._verify_header(entry)
        return tuple(name for name in names if name != "header")

    def _verify_header(self, entry: zipfile.ZipInfo) -> None:
        """Refuse an array whose header promises another size than the entry has: it would be allocated first."""
        with self._archive.open(entry) as file, warnings.catch_warnings():
            warnings.simplefilter("error")
            version = np.lib.format.read_magic(file)
            readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, _, dtype = readers[version](file)
            if dtype.hasobject or any(length < 0 for length in shape):
                raise ValueError(f"array {shown(entry.filename)} of {dtype}")
            expected = file.tell() + math.prod(shape) * dtype.itemsize
        if expected != entry.file_size:
            raise ValueError(f"array {shown(entry.filename)} of {entry.file_size} bytes, not {expected}")

    def _unpack(self, name: str) -> NDArray[Any]:
        with self._archive.open(f"{name}.npy") as file:
            array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        return array

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._unpacked:
            try:
                self._unpacked[name] = self._unpack(name)
            except Exception as error:
                raise self._damaged(error) from error
        return self._unpacked[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
