"""The progress of an audit inside Lightning's own progress display."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm

from bivshap_lightning.game.progress import ProgressBar

LABEL = "bivshap audit"
BAR_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} samples [{elapsed}<{remaining}]"
SECONDS_PER_DRAWING = 0.1


@contextmanager
def audit_progress(trainer: Any, n_samples: int) -> Iterator[ProgressBar | None]:
    """A bar over the samples of an audit with the time left, beside the bars of the Trainer; None where they are off.

    Args:
        trainer: the Trainer; `enable_progress_bar=False`, a disabled bar and other processes than the first have none.
        n_samples: to be explained by this process.
    """
    display = trainer.progress_bar_callback
    kinds = {kind.__name__ for kind in type(display).__mro__}
    if display is None or not trainer.is_global_zero or not getattr(display, "is_enabled", False):
        yield None
    elif "RichProgressBar" in kinds and display.progress is not None:
        with _rich(display.progress, n_samples) as bar:
            yield bar
    elif "TQDMProgressBar" in kinds:
        # Below the bars of training and validation.
        place = 2 * display.process_position + 2
        with tqdm(
            total=n_samples, desc=LABEL, position=place, leave=False, dynamic_ncols=True, file=sys.stdout,
            bar_format=BAR_FORMAT,
        ) as bar:  # fmt: skip
            yield bar
    else:
        yield None


@contextmanager
def _rich(progress: Any, n_samples: int) -> Iterator[ProgressBar]:
    """A task of a running display; hidden afterwards, not removed, because Lightning finds its tasks by position."""
    known = [task.id for task in progress.tasks if task.description == LABEL]
    task = known[0] if known else progress.add_task(LABEL, total=n_samples, visible=False)
    progress.reset(task, total=n_samples, visible=True)
    progress.refresh()
    try:
        yield _RichTask(progress, task)
    finally:
        progress.update(task, visible=False)
        progress.refresh()


class _RichTask:
    """A task of a display of rich as a progress bar; Lightning's display is drawn on request only."""

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task
        self._drawn = time.monotonic()

    def update(self, n: float) -> None:
        """Advance by samples, and draw if the last time is a while ago."""
        self._progress.update(self._task, advance=n)
        if time.monotonic() - self._drawn > SECONDS_PER_DRAWING:
            self._progress.refresh()
            self._drawn = time.monotonic()
