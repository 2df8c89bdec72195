"""Dictionaries and collections compared and refilled item by item, past methods that a subclass overrides."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from operator import is_
from typing import Any


def items_of(value: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """The items of a dictionary, past methods that a subclass overrides."""
    return OrderedDict.items(value) if isinstance(value, OrderedDict) else dict.items(value)


def is_identical(now: dict[Any, Any], before: dict[Any, Any]) -> bool:
    """Whether two dictionaries hold the same objects in the same order."""
    return dict.__len__(now) == len(before) and all(
        key is name and value is item for (key, value), (name, item) in zip(items_of(now), before.items(), strict=True)
    )


def differing(now: dict[Any, Any], before: dict[Any, Any]) -> list[Any]:
    """Values that were there before and have been replaced or removed, or have been added."""
    if is_identical(now, before):
        return []
    gone = [value for name, value in before.items() if now.get(name) is not value]
    return gone + [value for name, value in now.items() if name not in before]


def refill(kept: dict[Any, Any], before: dict[Any, Any]) -> None:
    """Give a dictionary its former content, in the former order, past methods that a subclass overrides."""
    kind: type[dict[Any, Any]] = OrderedDict if isinstance(kept, OrderedDict) else dict
    kind.clear(kept)
    for name, value in before.items():
        kind.__setitem__(kept, name, value)


def refill_collection(value: Any, before: list[Any]) -> None:
    """Give a set, a deque or a bytearray its former content, in place, because an exported one has a fixed size."""
    kind: Any = next(k for k in (set, deque, bytearray) if isinstance(value, k))
    now = list(kind.__iter__(value))
    if len(now) == len(before) and all(map(is_, now, before)):
        return
    if kind is bytearray:
        bytearray.__setitem__(value, slice(None), bytes(before))
        return
    kind.clear(value)
    fill = kind.update if kind is set else kind.extend
    fill(value, before)
