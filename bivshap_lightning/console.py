"""Exit codes and output of the commands: text, or one JSON object."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from bivshap_lightning.text import printable

PASSED, FAILED, UNJUDGED, INTERNAL = 0, 1, 2, 3
MAX_MESSAGE = 4000


class OutputError(Exception):
    """Standard output takes nothing more, so that what was found is not told."""


def put(text: str) -> None:
    """Print to standard output.

    Raises:
        OutputError: if it cannot be written, as on a full disk. A reader that closed the pipe, such as `head`, is none.

    Example:
        >>> put("done")
        done
    """
    try:
        print(text, flush=True)
    except OSError as error:
        _discard(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise OutputError(f"standard output must be writable, got {error.strerror}.") from None


def put_error(text: str) -> None:
    """Print to standard error; where that cannot be written, the exit code alone tells.

    Example:
        >>> put_error("no record")
    """
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """Lead what a stream still holds nowhere, or the interpreter fails on it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def put_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object.

    Example:
        >>> put_json({"a": 1})
        {"a": 1}
    """
    put(json.dumps(value))


def put_lines(text: str) -> None:
    r"""Print text that holds names from data, line by line without control characters.

    Example:
        >>> put_lines("a\x1b\nb")
        a?
        b
    """
    put("\n".join(printable(line, longest=MAX_MESSAGE) for line in text.splitlines()))


def fail(message: str, as_json: bool, code: int = UNJUDGED) -> int:
    """Print why a command failed, as text on standard error or as JSON on standard output, and return its exit code.

    Example:
        >>> fail("no record", as_json=True)
        {"error": "no record"}
        2
    """
    if as_json:
        put_json({"error": message})
    else:
        put_error(f"bivshap: {printable(message, longest=MAX_MESSAGE)}")
    return code
