"""Players of tables and series: columns by name, and segments of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import torch
from torch import Tensor


@dataclass(frozen=True)
class Columns:
    """Columns of tables as players, some of them together under one name, such as a one-hot block.

    Args:
        groups: by name of the player, its columns: names or patterns such as ``"colour_*"``. Every other column is a
            player by itself.
        columns: the name of every column; a data frame brings its own.

    Example:
        >>> columns = Columns({"colour": "colour_*"}, ["age", "colour_red", "colour_blue", "income"])
        >>> columns(torch.zeros(5, 4))
        tensor([[0, 1, 1, 2]])
        >>> columns.names(torch.zeros(5, 4))
        [('age', 'colour', 'income')]
    """

    groups: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    columns: Sequence[str] | None = None

    def __call__(self, table: Tensor) -> Tensor:
        """The feature mask (1, F) of rows (B, F)."""
        owners = self._owners(table)
        numbers = {name: k for k, name in enumerate(dict.fromkeys(owners))}
        return torch.tensor([[numbers[name] for name in owners]], device=table.device)

    def names(self, table: Tensor) -> list[tuple[str, ...]]:
        """Groups and single columns in the order of their first column."""
        return [tuple(dict.fromkeys(self._owners(table)))]

    def _owners(self, table: Tensor) -> list[str]:
        """For each column the player it belongs to."""
        if self.columns is None:
            raise ValueError("`columns` must name the columns of a table that is no data frame, got None.")
        columns = [str(name) for name in self.columns]
        if table.dim() != 2 or table.shape[1] != len(columns):
            raise ValueError(
                f"`columns` must name every column of a table (B, F), got {len(columns)} names for shape "
                f"{tuple(table.shape)}."
            )
        if len(set(columns)) < len(columns):
            twice = next(name for k, name in enumerate(columns) if name in columns[:k])
            raise ValueError(f"`columns` must all have different names, got {twice!r} twice. Rename one of them.")
        owner: dict[str, str] = {}
        for group, given in self.groups.items():
            for pattern in [given] if isinstance(given, str) else map(str, given):
                members = [pattern] if pattern in columns else [c for c in columns if fnmatchcase(c, pattern)]
                if not members:
                    raise ValueError(f"`groups` must name columns of the table, got {pattern!r}; it has {columns}.")
                for column in members:
                    if owner.setdefault(column, group) != group:
                        raise ValueError(
                            f"`groups` must not share columns, got {column!r} in {owner[column]!r} and {group!r}."
                        )
        taken = sorted({c for c in columns if c not in owner} & set(self.groups))
        if taken:
            raise ValueError(f"`groups` must not be named like a column outside them, got {taken}. Rename the group.")
        return [owner.get(column, column) for column in columns]


@dataclass(frozen=True)
class Segments:
    """Segments of a series as players: n of them, of equal length as far as possible, in all channels.

    Args:
        n: how many; at most one per step.
        dim: the dimension of time: 1 for series (B, T) or (B, T, D), 2 for (B, D, T).

    Example:
        >>> Segments(2)(torch.zeros(1, 5, 3))[0, :, 0]
        tensor([0, 0, 0, 1, 1])
        >>> Segments(2).names(torch.zeros(1, 5, 3))
        [('steps 0-2', 'steps 3-4')]
    """

    n: int
    dim: int = 1

    def __post_init__(self) -> None:
        if self.n < 1 or self.dim < 1:
            raise ValueError(f"`n` and `dim` must be at least 1, got {self.n} and {self.dim}.")

    def __call__(self, series: Tensor) -> Tensor:
        """The feature mask, with 1 for every dimension but that of time."""
        if series.dim() <= self.dim:
            raise ValueError(
                f"`inputs` must have a dimension {self.dim} for time, got {tuple(series.shape)}. Pass `dim`."
            )
        steps = series.shape[self.dim]
        shape = [steps if dim == self.dim else 1 for dim in range(series.dim())]
        return (torch.arange(steps, device=series.device) * min(self.n, steps) // max(steps, 1)).view(shape)

    def names(self, series: Tensor) -> list[tuple[str, ...]]:
        """First and last step of every segment."""
        owners = self(series).flatten()
        ends = [owners.eq(k).nonzero().flatten()[[0, -1]].tolist() for k in range(int(owners.max()) + 1)]
        return [tuple(f"steps {first}-{last}" if last > first else f"step {first}" for first, last in ends)]
