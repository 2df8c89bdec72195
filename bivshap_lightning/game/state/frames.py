"""Copies of pandas' frames and series, to be put back in place if a forward pass changes them, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bivshap_lightning.game.errors import ModelStateError
from bivshap_lightning.game.state.tensors import LARGEST_COPY

# Cells up to which objects within a frame are looked at as well.
MOST_CELLS = 10_000
# Rows by which a frame that is too large for a copy is compared.
N_WATCHED_ROWS = 1000


def is_frame(kind: type) -> bool:
    """Whether a class is pandas' DataFrame or Series, or derived from one."""
    return any(base.__name__ == "NDFrame" and base.__module__.startswith("pandas.") for base in kind.__mro__)


def frame_restorer(frame: Any) -> Callable[[], object]:
    """A function that gives a frame or series the content that it has now, in place.

    Args:
        frame: a DataFrame or Series. One of more than 64 MB is only watched, by a sample of its rows.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"n": [1, 2]})
        >>> restore = frame_restorer(table)
        >>> table.loc[2] = 3
        >>> restore(), len(table)
        (None, 2)
    """
    if _n_bytes(frame) > LARGEST_COPY:
        return _watch(frame)
    saved = frame.copy(deep=True)

    def restore() -> None:
        if not _is_same(frame, saved):
            attributes = dict(vars(frame))
            _library().__dict__[_base(frame)].__init__(frame, saved)
            kept = {name: value for name, value in attributes.items() if name not in ("_mgr", "_item_cache")}
            vars(frame).update(kept)

    return restore


def objects_of(frame: Any) -> Iterator[Any]:
    """The objects in the cells of a frame or series that is not large, and its attributes."""
    yield frame.attrs
    if frame.size <= MOST_CELLS:
        for column in _columns(frame):
            if column.dtype == object:
                yield from column.array


def _library() -> Any:
    return sys.modules["pandas"]


def _base(frame: Any) -> str:
    return "DataFrame" if frame.ndim == 2 else "Series"


def _columns(frame: Any) -> list[Any]:
    return [frame.iloc[:, k] for k in range(frame.shape[1])] if frame.ndim == 2 else [frame]


def _n_bytes(frame: Any) -> int:
    return int(np.sum(frame.memory_usage(deep=False)))


def _is_same(frame: Any, saved: Any) -> bool:
    """Bit by bit, so that zero differs from negative zero; names and types of columns count."""
    if frame.shape != saved.shape or getattr(frame, "name", None) is not getattr(saved, "name", None):
        return False
    for now, before in zip(frame.axes, saved.axes, strict=True):
        if not now.identical(before):
            return False
    return all(_is_same_column(now, before) for now, before in zip(_columns(frame), _columns(saved), strict=True))


def _is_same_column(now: Any, before: Any) -> bool:
    if now.dtype != before.dtype:
        return False
    if isinstance(now.dtype, np.dtype):
        a, b = now.to_numpy(), before.to_numpy()
        return bool(a.tobytes() == b.tobytes())  # of objects: which they are
    return bool(now.equals(before))


def _watch(frame: Any) -> Callable[[], object]:
    before = _digest(frame)

    def restore() -> None:
        if _digest(frame) != before:
            raise ModelStateError(f"a {type(frame).__name__} of {_n_bytes(frame):,} bytes was changed")

    return restore


def _digest(frame: Any) -> tuple[Any, ...]:
    """Shape, names and types of columns, and hashes of some rows at equal distances."""
    rows = frame.iloc[:: max(1, len(frame) // N_WATCHED_ROWS)]
    columns = [column for column in _columns(rows) if column.dtype != object]
    hashes = [_library().util.hash_pandas_object(column).to_numpy().tobytes() for column in columns]
    return frame.shape, [str(c.dtype) for c in _columns(frame)], [str(c.name) for c in _columns(frame)], hashes
