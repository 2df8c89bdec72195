"""How the time of an audit is divided among our explanation, its judgement and the other explainers.

The cost of all of them is counted in model rows, whose price a short pilot run measures. Judging an explanation costs
rows as well; how many is known from the samples before, and is guessed from the number of players for the first ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

OWN_JUDGEMENT, OTHER_JUDGEMENT = 6, 1
"""Rows per player that judging our explanation, and another one, is guessed to cost before it has been measured."""


class TimePlan:
    """Rows and seconds of one process in an audit.

    Args:
        clock: seconds; replaced in tests.

    Attributes:
        deadline: of the samples that are explained now, by the clock; infinite without a time budget.

    Example:
        >>> plan = TimePlan(clock=lambda: 0.0)
        >>> plan.deadline = 10.0
        >>> plan.measure_rows(100, 1.0)  # so 1,000 rows are left
        >>> plan.rows_for_ours(n_players=10, n_equal=1, rows_of_exact=130)  # 70 rows are for judging
        400
        >>> plan.reason_to_skip(500, n_players=10), plan.reason_to_skip(1200, n_players=10)
        ('', 'time_budget has 10 s left of the 12 s that it needs')
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.deadline = math.inf
        self._seconds_per_row = 0.0
        self._own_judgement: float | None = None
        self._other_judgement: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is a deadline."""
        return not math.isinf(self.deadline)

    def measure_rows(self, n_rows: int, seconds: float) -> None:
        """Learn what an explanation with so many rows per sample took."""
        self._seconds_per_row = seconds / max(n_rows, 1)

    def measure_judgement(self, seconds: float, *, of_ours: bool) -> None:
        """Learn what judging one explanation took, in rows of the same duration."""
        n_rows = seconds / max(self._seconds_per_row, 1e-12)
        if of_ours:
            self._own_judgement = n_rows
        else:
            self._other_judgement = n_rows

    def _judgement(self, n_players: int, *, of_ours: bool) -> float:
        known = self._own_judgement if of_ours else self._other_judgement
        guessed = (OWN_JUDGEMENT if of_ours else OTHER_JUDGEMENT) * n_players
        return (guessed if known is None else known) * self._seconds_per_row

    def rows_for_ours(self, n_players: int, n_equal: int, rows_of_exact: int, n_exact: int = 0) -> int:
        """Rows per sample after which the time left is used up by ours, its judgement and the others.

        Args:
            n_players: F.
            n_equal: other explainers that spend as many rows as ours.
            rows_of_exact: rows that the others need together.
            n_exact: how many those are.
        """
        judging = self._judgement(n_players, of_ours=True)
        judging += (n_equal + n_exact) * self._judgement(n_players, of_ours=False)
        left = self.deadline - self.clock() - judging - rows_of_exact * self._seconds_per_row
        return int(max(0.0, left) / max(self._seconds_per_row * (1 + n_equal), 1e-12))

    def reason_to_skip(self, n_rows: int, n_players: int) -> str:
        """Why there is no time for an explainer with so many rows per sample; empty if there is."""
        needed = n_rows * self._seconds_per_row + self._judgement(n_players, of_ours=False)
        left = self.deadline - self.clock()
        if needed <= left:
            return ""
        return f"time_budget has {max(0.0, left):.2g} s left of the {needed:.2g} s that it needs"
