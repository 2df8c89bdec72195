"""The catalogue of numbers: one entry for every number that an audit, the gate or the callbacks report.

Logged scalars, the audit record, gate rules, the HTML page and the table in docs/numbers.md read their names, ranges,
directions, intervals and explanations here. To add a number, add one :class:`Number` to :data:`CATALOGUE` or to one of
its parts, `audit_numbers` and `record_numbers`. No torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bivshap_lightning.metrics.audit_numbers import AUDIT_NUMBERS, REDUNDANCY, ROLES
from bivshap_lightning.metrics.intervals import Interval, normal_interval, ratio_of_sums, wilson_interval
from bivshap_lightning.metrics.number import (
    ALL_TASKS,
    EXPLAINER,
    INTERVALS,
    REAL,
    Number,
    ScoredSample,
)
from bivshap_lightning.metrics.record_numbers import RECORD_NUMBERS

__all__ = [
    "CATALOGUE",
    "REDUNDANCY",
    "ROLES",
    "catalogue_table",
    "estimate_over",
    "find_number",
    "interval_of",
    "numbers_of",
    "ranking_numbers",
    "sample_parts",
]

CATALOGUE: list[Number] = [
    *AUDIT_NUMBERS,
    *RECORD_NUMBERS,
]
"""All numbers, in the order in which tables show them."""


def find_number(tag: str) -> Number | None:
    """The entry of a tag; None for a tag that the catalogue does not have.

    Example:
        >>> find_number("bivshap/deletion_auc/ours").better
        'lower is better'
        >>> find_number("mine") is None
        True
    """
    for number in CATALOGUE:
        start, placeholder, end = number.tag.partition(EXPLAINER)
        if tag == number.tag or (placeholder and tag.startswith(start) and tag.endswith(end) and len(tag) > len(start)):
            return number
    return None


def numbers_of(scope: str) -> list[Number]:
    """The entries of one scope.

    Example:
        >>> [number.tag for number in numbers_of("drift")]
        ['drift/weights', 'drift/redundancy', 'drift/ranking']
    """
    return [number for number in CATALOGUE if number.scope == scope]


def ranking_numbers(task: str = "auto") -> list[Number]:
    """The entries that judge the ranking of an explainer, the main one first.

    Args:
        task: of the model; "auto" and "" for a classification.

    Example:
        >>> [number.family for number in ranking_numbers()]
        ['post_hoc_accuracy', 'insertion_auc', 'deletion_auc']
        >>> [number.family for number in ranking_numbers("regression")]
        ['share_kept', 'removal_error', 'insertion_auc', 'deletion_auc']
    """
    return [number for number in CATALOGUE if number.metric is not None and number.applies_to(task)]


def sample_parts(tag: str, sample: ScoredSample) -> tuple[float, float] | None:
    """Numerator and denominator that a sample contributes to a number over samples; None if the sample does not say.

    Args:
        tag: of the number.
        sample: its H and its scores.
    """
    return _parts(find_number(tag), tag, sample)


def _parts(number: Number | None, tag: str, sample: ScoredSample) -> tuple[float, float] | None:
    if number is not None and number.parts is not None:
        return number.parts(sample)
    return (sample.scores[tag], 1) if tag in sample.scores else None


def estimate_over(tag: str, samples: Sequence[ScoredSample]) -> tuple[float, float] | None:
    """A number over samples and its standard error; None if some sample does not say.

    Args:
        tag: of the number.
        samples: at least one.
    """
    number = find_number(tag)
    parts = [p for p in (_parts(number, tag, sample) for sample in samples) if p is not None]
    return ratio_of_sums(parts) if parts and len(parts) == len(samples) else None


def interval_of(tag: str, value: float, error: float, *, n: int, z: float) -> Interval:
    """The confidence interval of a number over samples, as its entry says; normal for a tag without one.

    Args:
        tag: of the number.
        value: the number.
        error: its standard error.
        n: over how many samples.
        z: quantile of the normal distribution.

    Example:
        >>> interval_of("bivshap/insertion_auc/ours", 0.5, 0.1, n=10, z=2.0)
        Interval(value=0.5, lower=0.3, upper=0.7)
    """
    number = find_number(tag)
    kind, (low, high) = ("normal", REAL) if number is None else (number.interval, number.range)
    if kind == "none":
        return Interval(value, value, value)
    if kind == "wilson" or (kind == "normal or wilson" and error == 0):
        return wilson_interval(value, n, z)
    return normal_interval(value, error, n, z, low=low, high=high)


def catalogue_table() -> str:
    """The catalogue as a Markdown page; docs/numbers.md holds it.

    Example:
        >>> catalogue_table().splitlines()[0]
        '# All numbers'
    """
    head = ("number", "what it says", "formula", "better", "range", "interval", "tasks", "charted")
    lines = [
        "# All numbers",
        "",
        "Generated from `bivshap_lightning/metrics/catalogue.py`. Tags with `bivshap/` are computed by every audit.",
        "Loggers get those with *yes* under *charted*, or all with `PanelOptions(all_scalars=True)`; the record, the",
        "tab and `callback_metrics`, where `EarlyStopping` and `ModelCheckpoint` look, have them all. Gate rules can",
        "also name the others: `class_graph/` of the mean graph of a class, `top1_` of a record, `drift/` between",
        "two records, `feature/` of the feature that the rule names.",
        "",
        f"| {' | '.join(head)} |",
        f"|{' --- |' * len(head)}",
    ]
    for n in CATALOGUE:
        tag = n.tag.replace(EXPLAINER, "<explainer>")
        tasks = "all" if n.tasks == ALL_TASKS else ", ".join(n.tasks)
        charted = "yes" if n.tag.startswith("bivshap/") and n.is_charted else ""
        about = (f"`{tag}`", n.meaning, n.formula, n.direction, _range_text(n.range), INTERVALS[n.interval])
        cells = (*about, tasks, charted)
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _range_text(range_: tuple[float, float]) -> str:
    low, high = range_
    if math.isinf(low):
        return "any"
    return f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"
