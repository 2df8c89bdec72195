"""The part of an audit record that says which columns of a table can go. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bivshap_lightning.text import printable

COPY = 0.95
"""Association from which on two columns count as copies."""
Z = 1.645
"""One-sided 95 % bound of a cost."""
MAX_COST_SHARE = 0.01
"""A column whose cost is within this share of all costs, by its bound, can go."""
MAX_LISTED, MAX_NAME = 20, 40
ADVICE = "Retrain to confirm"


@dataclass(frozen=True)
class Column:
    """What one column is to the model and to the data.

    Attributes:
        name: of the column.
        share: of the mean absolute Shapley values.
        roles: share of samples in each role.
        interchangeable_with: other columns, and in how many samples any one of the two will do.
        cost: what dropping it costs: mean Shapley value of the loss game, positive if the column lowers the loss.
        cost_error: its standard error over samples.
        copies: other columns with an association of at least 0.95 in the data, and that association.
    """

    name: str
    share: float
    roles: Mapping[str, float]
    interchangeable_with: Mapping[str, int]
    cost: float
    cost_error: float
    copies: Mapping[str, float]

    @property
    def remarks(self) -> list[str]:
        """Roles, interchangeable columns and copies in words."""
        words = [f"{role} {share:.0%}" for role, share in self.roles.items() if share >= 0.005]
        partners = sorted(self.interchangeable_with.items(), key=lambda item: -item[1])[:3]
        words += [f"interchangeable with {name} in {n}" for name, n in partners]
        return words + [f"copy of {name} ({value:.2f})" for name, value in self.copies.items()]


@dataclass(frozen=True)
class ColumnReport:
    """The columns of a table, those whose loss costs most first, and which can go.

    Attributes:
        columns: all columns.
        can_go: columns that are recommended to be dropped together; retrain to confirm.
        n_samples: that the report is over.

    Example:
        >>> columns = [Column("age", 0.9, {}, {}, 0.3, 0.1, {}), Column("id", 0.1, {}, {}, 0.0, 0.0, {})]
        >>> ColumnReport.of(columns, 100).can_go
        ('id',)
    """

    columns: tuple[Column, ...]
    can_go: tuple[str, ...]
    n_samples: int

    @classmethod
    def of(cls, columns: Sequence[Column], n_samples: int) -> ColumnReport:
        """The report on columns in any order.

        Args:
            columns: all columns.
            n_samples: that they were measured on.
        """
        ordered = tuple(sorted(columns, key=lambda column: -column.cost))
        return cls(ordered, columns_that_can_go(ordered), n_samples)

    def to_text(self) -> str:
        """A table for the terminal, of many columns the most and the least useful, and the recommendation."""
        listed = list(self.columns)
        half = MAX_LISTED // 2
        n_left = max(0, len(listed) - MAX_LISTED)
        listed = listed[:half] + listed[-half:] if n_left else listed
        names = [printable(column.name, longest=MAX_NAME) for column in listed]
        width = max(map(len, [*names, "column"]))
        lines = [f"{'column':<{width}}  share  cost of dropping   roles, copies"]
        for k, (column, name) in enumerate(zip(listed, names, strict=True)):
            lines += [f"... {n_left} more"] if n_left and k == half else []
            cost = f"{column.cost:+.4f} ± {column.cost_error:.4f}"
            words = printable("; ".join(column.remarks))
            lines.append(f"{name:<{width}}  {column.share:5.3f}  {cost:<17}  {words}")
        advice = ", ".join(printable(name, longest=MAX_NAME) for name in self.can_go[:MAX_LISTED]) or "none"
        advice += f" and {len(self.can_go) - MAX_LISTED} more" if len(self.can_go) > MAX_LISTED else ""
        return "\n".join([*lines, f"can go: {advice}. {ADVICE}."])


def columns_that_can_go(columns: Sequence[Column]) -> tuple[str, ...]:
    """Columns whose cost is negligible by its bound, and all but the most useful of each set of copies.

    Args:
        columns: those that cost most first, so that the most useful copy is kept.
    """
    whole = sum(max(column.cost, 0.0) for column in columns)
    can_go: dict[str, None] = {}
    kept: set[str] = set()
    for column in columns:
        if kept & column.copies.keys() or column.cost + Z * column.cost_error <= MAX_COST_SHARE * whole:
            can_go[column.name] = None
        else:
            kept.add(column.name)
    return tuple(can_go)
