"""A disk that fails: each call of `os` about files below some folders is counted, and chosen calls do not succeed.

Files that are opened by `open` are read and written by Python's own implementation of files (`_pyio`), which calls `os`
for every step, so that these calls are counted too.
"""

import _pyio
import builtins
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

WRITING = ("open", "write", "fsync", "replace", "mkdir", "unlink")
READING = ("open", "read", "stat", "lstat", "fstat", "listdir", "scandir")


class FaultyDisk:
    """What was asked of the disk, and where it failed.

    Args:
        folders: only files below them count; of a file, that file alone.
        operation: the function of `os` that fails; none by default.
        first: the first call of it that fails, counted from 1.
        fault: an error code, or what happens instead of the call.
        lasting: whether all later calls of it fail too.
        ignored: files whose paths hold this word do not count.

    Attributes:
        calls: every call: name and path.
        met: the paths of the calls that failed.
    """

    def __init__(
        self,
        *folders: Path,
        operation: str = "",
        first: int = 1,
        fault: int | Callable[[], None] = 0,
        lasting: bool = False,
        ignored: str = "\0",
    ) -> None:
        self._folders, self._ignored = tuple(str(folder.absolute()) for folder in folders), ignored
        self._operation, self._first, self._fault, self._lasting = operation, first, fault, lasting
        self._opened: dict[int, str] = {}
        self.calls: list[tuple[str, str]] = []
        self.met: list[str] = []

    def _path(self, file: object) -> str | None:
        """The path of a file, given by path or descriptor; None if it does not count."""
        if isinstance(file, int):
            return self._opened.get(file)
        path = os.path.abspath(os.fsdecode(file)) if isinstance(file, str | bytes | os.PathLike) else ""
        return path if path.startswith(self._folders) and self._ignored not in path else None

    def _watched(self, name: str) -> Callable:
        real = getattr(os, name)

        def watched(*arguments, **options):
            path = self._path(arguments[0]) if arguments else None
            if path is not None:
                self.calls.append((name, path))
                if self._fails(name):
                    self.met.append(path)
                    if callable(self._fault):
                        self._fault()
                    named = () if isinstance(arguments[0], int) else (os.fspath(arguments[0]),)  # as the system does
                    raise OSError(self._fault, os.strerror(self._fault), *named)
            result = real(*arguments, **options)
            if name == "open" and path is not None:
                self._opened[result] = path
            return result

        # As if the system call itself failed: no frame of a test in the traceback.
        watched.__code__ = watched.__code__.replace(co_filename="<disk>")
        return watched

    def _fails(self, name: str) -> bool:
        number = sum(called == name for called, _ in self.calls)
        return name == self._operation and (number == self._first or (self._lasting and number > self._first))

    @contextmanager
    def attached(self) -> Iterator["FaultyDisk"]:
        """Fail within this context."""
        real_open, real_close = io.open, os.close

        def watched_open(file, *arguments, **options):
            return (real_open if self._path(file) is None else _pyio.open)(file, *arguments, **options)

        def watched_close(descriptor):
            self._opened.pop(descriptor, None)
            real_close(descriptor)

        watched_open.__code__ = watched_open.__code__.replace(co_filename="<disk>")
        replaced = {name: self._watched(name) for name in {*WRITING, *READING}}
        with (
            mock.patch.multiple(os, close=watched_close, **replaced),
            mock.patch.object(io, "open", watched_open),
            mock.patch.object(builtins, "open", watched_open),
        ):
            yield self
