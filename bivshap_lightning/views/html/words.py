"""Wording of the page: what a number means (from the catalogue), and lists, counts and shares in words."""

from __future__ import annotations

from collections.abc import Sequence

from bivshap_lightning.metrics.catalogue import find_number


def meaning(metric: str) -> tuple[str, str]:
    """What a number means and which direction is better; empty for one that is not in the catalogue.

    Example:
        >>> meaning("bivshap/deletion_auc/ours")[1]
        'lower is better'
        >>> meaning("mine")
        ('', '')
    """
    number = find_number(metric)
    return ("", "") if number is None else (number.meaning, number.better)


def listing(names: Sequence[str], most: int = 12) -> str:
    """Names in a sentence, the first ones if there are many.

    Example:
        >>> listing(["a", "b", "c"]), listing(["a", "b", "c"], most=1), listing([])
        ('a, b and c', 'a and 2 more', 'none')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:]))) or "none"


def count(n: int, noun: str) -> str:
    """A number of things.

    Example:
        >>> count(1, "sample"), count(2, "class")
        ('1 sample', '2 classes')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "es" if noun.endswith("s") else "s")


def percent(share: float) -> str:
    """A share for readers.

    Example:
        >>> percent(0.1428), percent(1.0), percent(0.0001)
        ('14.3 %', '100 %', '0.01 %')
    """
    return f"{100 * share:.{1 if abs(share) >= 0.001 or not share else 2}f}".removesuffix(".0") + " %"
