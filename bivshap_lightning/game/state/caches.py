"""Stands in for functions with a bounded ``functools.lru_cache``, whose entries Python can read but not put back."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable
from functools import lru_cache
from itertools import chain
from types import MethodType
from typing import Any

KIND: Any = type(lru_cache(int))


class CacheStandIn:
    """A function that knows what a bounded cache holds, and keeps what it learns to itself.

    Args:
        function: with the cache.
        entries: what it holds, by key.

    Example:
        >>> @lru_cache(maxsize=8)
        ... def double(n):
        ...     return 2 * n
        >>> double(1)
        2
        >>> copy = stand_in_for_cache(double)
        >>> copy(1), copy(5), copy.cache_info().currsize, double.cache_info().currsize
        (2, 10, 2, 1)
    """

    def __init__(self, function: Any, entries: dict[Hashable, Any]) -> None:
        self.__wrapped__: Callable[..., Any] = function.__wrapped__
        self.cache_parameters: Callable[[], dict[str, Any]] = function.cache_parameters
        self._typed, self._entries, self._info = function.cache_parameters()["typed"], entries, function.cache_info()
        # What separates arguments by place from those by name within a key.
        parts = chain.from_iterable(key for key in entries if isinstance(key, tuple))
        self._mark = next((part for part in parts if type(part) is object), object())

    def __call__(self, *args: Any, **options: Any) -> Any:
        """The result, remembered or computed."""
        key = self._key(args, options)
        if key in self._entries:
            return self._entries[key]
        result = self._entries[key] = self.__wrapped__(*args, **options)
        return result

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def _key(self, args: tuple[Any, ...], options: dict[str, Any]) -> Hashable:
        if not self._typed and not options:
            return args[0] if len(args) == 1 and type(args[0]) in (int, str) else args
        key = (*args, *((self._mark, *chain.from_iterable(options.items())) if options else ()))
        return (*key, *map(type, args), *map(type, options.values())) if self._typed else key

    def cache_info(self) -> Any:
        """How often it was used before this was made, and how much it holds."""
        return self._info._replace(currsize=len(self._entries))

    def cache_clear(self) -> None:
        """Forget everything."""
        self._entries.clear()


def stand_in_for_cache(function: Any) -> CacheStandIn | None:
    """A stand-in for a function with a bounded cache; None if it needs none, or its entries cannot be read.

    Args:
        function: with ``functools.lru_cache``.
    """
    if function.cache_parameters()["maxsize"] is None or not function.cache_info().currsize:
        return None
    entries = _entries_of(function)
    return None if entries is None else CacheStandIn(function, entries)


def _entries_of(function: Any) -> dict[Hashable, Any] | None:
    """The entries, oldest first: the garbage collector is told key, result and class of each."""
    parts = gc.get_referents(function)
    ends = [k for k, part in enumerate(parts) if isinstance(part, type) and part.__name__ == "_lru_list_elem"]
    keys = next((p for p in parts if isinstance(p, dict) and len(p) == function.cache_info().currsize), {})
    pairs = [(parts[k - 2], parts[k - 1]) for k in ends if k >= 2]
    try:
        entries = {key: result for key, result in pairs if key in keys}
    except TypeError:  # in another order
        return None
    return entries if len(entries) == function.cache_info().currsize else None
