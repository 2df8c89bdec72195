"""Tables of the page: cells with error bars, and whether they agree with the paper's."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from examples.paper import published
from examples.paper.experiment import PAPER_NAMES
from examples.paper.remarks import INTRODUCTION, REASONS

Results = Mapping[str, Any]


def percent(value: float, error: float | None = None) -> str:
    """A share in percent, with its error bar."""
    return f"{100 * value:.1f}" + ("" if error is None else f" ± {100 * error:.1f}")


def number(value: float, error: float | None = None) -> str:
    """An area, with its error bar."""
    return f"{value:.3f}" + ("" if error is None else f" ± {error:.3f}")


def agrees(ours: float, theirs: float, error: float, unit: float) -> bool:
    """Whether two estimates of the same error differ by no more than rounding and two standard errors.

    Example:
        >>> agrees(0.303, 0.30, 0.01, 0.01), agrees(0.40, 0.30, 0.01, 0.01)
        (True, False)
    """
    return abs(ours - theirs) <= unit / 2 + 2 * math.sqrt(2) * error + 1e-9


def binomial_error(share: float, n: int) -> float:
    """Standard error of a share of n samples."""
    return math.sqrt(max(share * (1 - share), 0) / n)


class Page:
    """Sections of tables; cells that differ from the paper get a footnote with the reason."""

    def __init__(self, results: Mapping[str, Results]) -> None:
        self.results, self.lines, self.differences = results, [INTRODUCTION], dict[str, int]()
        self.agree, self.compared = Counter[str](), Counter[str]()

    def add(self, *lines: str) -> None:
        self.lines += lines

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        rows = list(rows)
        if rows:
            self.add("", *(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)), "")

    def folded(self, summary: str, *lines: str) -> None:
        """Lines that unfold on demand."""
        self.add("", "<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>", "")

    def table_of_methods(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table of studies and methods: the paper's two algorithms and the present default, the others folded."""
        rows = list(rows)
        names = {PAPER_NAMES[method] for method in ("auto", "paper_sampling", "paper_kernel")}
        others = [row for row in rows if row[1] not in names]
        self.table(header, [row for row in rows if row[1] in names])
        if others:
            shown = Page({})
            shown.lines = []
            shown.table(header, others)
            self.folded(f"The other methods: {len(others)} rows", *shown.lines)

    def compare(self, study: str, text: str, same: bool | None, theirs: str, topic: str) -> str:
        """A cell: our figure, the paper's, and whether they agree where the data are the same."""
        if study not in published.COMPARABLE or same is None:
            return f"{text} / {theirs}"
        self.compared[study] += 1
        if same:
            self.agree[study] += 1
            return f"{text} / {theirs} ✓"
        reason = REASONS.get((study, topic)) or REASONS.get(("", topic)) or "not explained"
        mark = self.differences.setdefault(reason, len(self.differences) + 1)
        return f"{text} / {theirs} [^{mark}]"

    def accuracy_cell(self, study: str, value: float, error: float, n: int, theirs: float | None, topic: str) -> str:
        """A share with a binomial error."""
        if theirs is None:
            return percent(value, error)
        bar = max(error, binomial_error(theirs / 100, n))
        same = agrees(100 * value, theirs, 100 * bar, 0.1)
        return self.compare(study, percent(value, error), same, f"{theirs:g}", topic)

    def area_cell(self, study: str, value: float, error: float, theirs: float | None, topic: str) -> str:
        if theirs is None:
            return number(value, error)
        return self.compare(study, number(value, error), agrees(value, theirs, error, 0.01), f"{theirs:.2f}", topic)

    def methods(self, study: str, *, bivariate: bool = False) -> dict[str, Results]:
        """Methods that were run."""
        found = {m: r for m, r in self.results[study]["methods"].items() if "metrics" in r}
        return {m: r for m, r in found.items() if r["is_bivariate"]} if bivariate else found

    def text(self) -> str:
        notes = [f"[^{mark}]: {reason}" for reason, mark in self.differences.items()]
        body = re.sub(r"\n{3,}", "\n\n", "\n".join([*self.lines, "", *notes]).rstrip() + "\n")
        absent = [study for study in published.STUDIES if study not in self.results]
        missing = f"Not run for this page: {', '.join(absent)}." if absent else ""
        counts = f"{self.agree.total()} of {self.compared.total()}"
        parts = [f"{study} {self.agree[study]} of {n}" for study, n in self.compared.items()]
        return body.replace("{AGREE}", counts).replace("{BY_STUDY}", ", ".join(parts)).replace("{MISSING}", missing)
