"""Keeps the verdict on a record in the folder `verdicts` beside it, where TensorBoard's tab looks for it.

The file names the SHA-256 of the record's JSON file, so a verdict on a record that was written again is not believed.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from bivshap_lightning.gate.rules import GateError
from bivshap_lightning.gate.verdict import Verdict

FOLDER = "verdicts"
MAX_BYTES = 16 * 2**20
"""A larger file is not read."""


def verdict_path(record: str | os.PathLike[str]) -> Path:
    """Where the verdict on a record is kept.

    Args:
        record: the path of its JSON file.

    Example:
        >>> verdict_path("logs/bivshap/epoch1.json").as_posix()
        'logs/bivshap/verdicts/epoch1.json'
    """
    path = Path(record)
    return path.parent / FOLDER / path.name


def save_verdict(verdict: Verdict, record: str | os.PathLike[str]) -> Path:
    """Keep a verdict beside the record that was judged.

    Args:
        verdict: the verdict.
        record: the path of the record's JSON file.

    Returns:
        The path of the verdict.

    Raises:
        OSError: the record cannot be read or the verdict not be written.
    """
    path = verdict_path(record)
    content = {"record_sha256": _digest(Path(record)), "verdict": json.loads(verdict.to_json())}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(content, indent=1), encoding="utf-8")
    os.replace(part, path)
    return path


def load_verdict(record: str | os.PathLike[str]) -> Verdict | None:
    """The verdict that is kept beside a record; None if there is none, or if it is about earlier content.

    Args:
        record: the path of the record's JSON file.

    Raises:
        GateError: the file is no verdict.
        OSError: a file cannot be read.
    """
    path = verdict_path(record)
    if not path.is_file():
        return None
    if (size := path.stat().st_size) > MAX_BYTES:
        raise GateError(f"{path.name}: a verdict must have at most {MAX_BYTES:,} bytes, got {size:,}.")
    try:
        content = json.loads(path.read_bytes())
        about, verdict = content["record_sha256"], Verdict.from_json(json.dumps(content["verdict"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise GateError(f"{path.name}: must hold a verdict and the checksum of its record, got neither.") from error
    return verdict if about == _digest(Path(record)) else None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
