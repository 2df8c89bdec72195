"""Finds the record that an event file names, and refuses every path outside the log directory.

The browser names a run, a tag and a step; the path comes from the event file. Event files come from anywhere, so the
path is not trusted either: it must lead to regular files inside the directory that TensorBoard was started with, not
through symbolic links. Imports nothing heavy.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat

_URI = re.compile(r"[a-zA-Z][0-9a-zA-Z.]*://.*")


class RecordNotFoundError(LookupError):
    """There is no record where the event file says, or it may not be read."""


def log_directories(logdir: str | None, logdir_spec: str | None) -> dict[str, str]:
    """The directories that TensorBoard reads, by the first part of their run names; "" for `--logdir`.

    Args:
        logdir: the flag, or None.
        logdir_spec: the flag, "name:path,path", or None.

    Example:
        >>> log_directories("logs", None), log_directories(None, "a:/logs/1,/logs/2")
        ({'': 'logs'}, {'a': '/logs/1', '/logs/2': '/logs/2'})
    """
    if logdir:
        return {"": os.path.expanduser(logdir)}
    found: dict[str, str] = {}
    for part in filter(None, (logdir_spec or "").split(",")):
        is_named = not _URI.match(part) and ":" in part and part[0] != "/" and not os.path.splitdrive(part)[0]
        name, _, path = part.partition(":") if is_named else (None, "", part)
        path = path if _URI.match(path) else os.path.realpath(os.path.expanduser(path))
        found[path if name is None else name] = path
    return found


def run_folder(directories: dict[str, str], run: str) -> tuple[str, str]:
    """The log directory of a run and the run's folder, links resolved: TensorBoard follows those that lead to runs.

    Args:
        directories: from :func:`log_directories`.
        run: its name, as TensorBoard lists it.

    Raises:
        RecordNotFoundError: no directory has such a run, or it is not on this machine.

    Example:
        >>> run_folder({"": "/logs"}, "version_0"), run_folder({"a": "/logs/1"}, "a/train")
        (('/logs', '/logs/version_0'), ('/logs/1', '/logs/1/train'))
    """
    for name, root in sorted(directories.items(), key=lambda item: -len(item[0])):
        if not name or run == name or run.startswith(f"{name}/"):
            if _URI.match(root):
                raise RecordNotFoundError(f"records are read from local disks only, and the logs are at {root}")
            inner = run[len(name) :].lstrip("/") if name else run
            return os.path.realpath(root), os.path.realpath(os.path.join(root, inner))
    raise RecordNotFoundError(f"no log directory has a run {run!r}")


def record_file(directories: dict[str, str], run: str, path: object) -> str:
    """The JSON file of a record, verified to lie in the log directory together with its arrays.

    Args:
        directories: from :func:`log_directories`.
        run: its name, as TensorBoard lists it.
        path: of the record, relative to the folder of the run, from the event file.

    Raises:
        RecordNotFoundError: the path leads elsewhere, through a link, to no regular file, or to nothing.
    """
    if not isinstance(path, str) or not path.endswith(".json") or "\0" in path or "\\" in path:
        raise RecordNotFoundError("the event file names no JSON file")
    if posixpath.isabs(path) or os.path.isabs(path) or os.path.splitdrive(path)[0]:
        raise RecordNotFoundError("the event file names an absolute path")
    root, folder = run_folder(directories, run)
    file = os.path.normpath(os.path.join(folder, path))
    for needed in (file, f"{file.removesuffix('.json')}.npz"):
        _demand_inside(needed, root, folder)
    return file


def _demand_inside(file: str, root: str, folder: str) -> None:
    """Refuse a file that is neither in the log directory nor in the folder of its run, or that is not a plain file."""
    if not any(os.path.commonpath([parent, file]) == parent for parent in (root, folder)):
        raise RecordNotFoundError("the event file names a record outside the log directory")
    if os.path.realpath(file) != file:
        raise RecordNotFoundError("a symbolic link leads to the record")
    try:
        mode = os.lstat(file).st_mode
    except OSError as error:
        name = os.path.basename(file)
        raise RecordNotFoundError(f"{name} is not there ({error.strerror}): was it deleted or moved?") from error
    if not stat.S_ISREG(mode):
        raise RecordNotFoundError(f"{os.path.basename(file)} is not a regular file")
