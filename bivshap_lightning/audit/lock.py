"""One audit at a time in an output folder."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

LOCK, HOLDER = ".audit.lock", ".audit.lock.json"


class FolderInUseError(Exception):
    """The folder cannot be locked: the message says which process holds it, or why it cannot be written to."""


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder within this context.

    The operating system releases the lock of a process that ends in whatever way, so that no lock outlives its audit.
    The empty lock file stays: deleting it would let two processes lock two files of one name.

    Args:
        folder: which exists.

    Raises:
        FolderInUseError: another process holds the lock, or the folder cannot be written to.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, locked_folder(Path(folder)):
        ...     sorted(os.listdir(folder))
        ['.audit.lock', '.audit.lock.json']
    """
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FolderInUseError(
            f"`--output` must be a folder that no other audit writes to, got {folder}, which {_holder(folder)} uses. "
            "Wait for it to end, or choose another folder."
        ) from None
    except OSError as error:
        raise FolderInUseError(
            f"`--output` must be a folder to write to, got {folder} ({error.strerror or error})."
        ) from error
    about = {"process": os.getpid(), "host": platform.node(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    try:
        with suppress(OSError):
            (folder / HOLDER).write_text(json.dumps(about), encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def _holder(folder: Path) -> str:
    """Which process holds the lock, as far as it said."""
    try:
        about: Any = json.loads((folder / HOLDER).read_text(encoding="utf-8"))
        return f"process {int(about['process'])} on {about['host']!s:.80} since {about['since']!s:.20}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
