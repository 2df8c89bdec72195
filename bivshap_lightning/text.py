"""Text that comes from data (names of features, classes and files), made safe to print on one line.

The command line, the gate's reports, the HTML page and the figures all clean text here. Escaping for a format (HTML,
Markdown) comes after it, where that format is written. This module imports nothing heavy.
"""

from __future__ import annotations

import reprlib
import unicodedata

LONGEST = 400
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def printable(text: str, *, replacement: str = "?", longest: int | None = LONGEST) -> str:
    r"""One line without control, formatting, surrogate and private characters, shortened where it is too long.

    Args:
        text: any text.
        replacement: what such a character becomes; "" removes it.
        longest: the largest number of characters that stay; None for no limit.

    Example:
        >>> printable("cat\x1b[31m\n\ud800"), printable("two\x07", replacement=""), printable("abcdef", longest=3)
        ('cat?[31m??', 'two', 'ab…')
    """
    if longest is not None and len(text) > longest:
        text = f"{text[: longest - 1]}…"
    return "".join(replacement if _is_unprintable(char) else char for char in text)


def _is_unprintable(char: str) -> bool:
    code = ord(char)
    # Noncharacters are unassigned for ever, and not allowed in XML.
    return unicodedata.category(char) in _UNPRINTABLE or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def shown(value: object) -> str:
    """A value as it stands in an error message: short, whatever it is.

    Example:
        >>> shown(list(range(100))), len(shown("a" * 10_000_000)) < 60
        ('[0, 1, 2, 3, 4, 5, ...]', True)
    """
    try:
        return reprlib.repr(value)
    except (ValueError, RecursionError):  # an integer of too many digits, a value nested too deeply
        return f"a value of type {type(value).__name__}"
