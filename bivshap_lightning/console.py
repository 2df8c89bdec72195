"""Exit codes and output of the commands: text, or one JSON object."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from bivshap_lightning.text import printable

PASSED, FAILED, UNJUDGED, INTERNAL = 0, 1, 2, 3
MAX_MESSAGE = 4000


def put(text: str) -> None:
    """Print to standard output.

    Example:
        >>> put("done")
        done
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader, such as `head`, closed the pipe; the exit code stays
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
        print(f"bivshap: {printable(message, longest=MAX_MESSAGE)}", file=sys.stderr)
    return code
