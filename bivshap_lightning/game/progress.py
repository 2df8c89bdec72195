"""Progress bars of model rows."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, cast

from tqdm.auto import tqdm


class ProgressBar(Protocol):
    """What a progress bar can do."""

    def update(self, n: float) -> object:
        """Advance by n."""


def progress_bar(n_rows: int, *, show: bool | ProgressBar) -> AbstractContextManager[ProgressBar | None]:
    """A progress bar over model rows, or a context without one: a disabled bar takes as long as a small forward pass.

    Args:
        n_rows: how many there will be.
        show: whether to draw one; or a bar that is advanced instead.

    Example:
        >>> with progress_bar(9, show=False) as bar:
        ...     bar is None
        True
    """
    if not isinstance(show, bool):
        return nullcontext(show)
    if not show:
        return nullcontext()
    bar = tqdm(total=n_rows, desc="model rows", unit="row", unit_scale=True, leave=False)
    return cast("AbstractContextManager[ProgressBar]", bar)


class Portion:
    """A part of a progress bar that is advanced by model rows, of which only about how many is known in advance.

    Args:
        bar: the whole bar.
        size: of the part, in units of the bar.
        n_rows: the expected number of model rows.

    Example:
        >>> class Printed:
        ...     def update(self, n):
        ...         print(f"{n:g}")
        >>> portion = Portion(Printed(), 4, 100)
        >>> portion.update(50)
        2
        >>> portion.update(80)
        2
        >>> portion.finish()
        0
    """

    def __init__(self, bar: ProgressBar, size: float, n_rows: float) -> None:
        self._bar, self._left, self._per_row = bar, size, size / max(1.0, n_rows)

    def update(self, n: float) -> None:
        """Advance by model rows, never beyond the part."""
        self._advance(min(n * self._per_row, self._left))

    def finish(self) -> None:
        """Advance to the end of the part."""
        self._advance(self._left)

    def _advance(self, units: float) -> None:
        self._left -= units
        self._bar.update(units)
