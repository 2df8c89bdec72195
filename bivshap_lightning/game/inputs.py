"""Converts inputs (tensors, arrays, data frames) to tensors and checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def as_tensor(value: Any) -> Tensor:
    """A tensor or anything NumPy understands, as a tensor without gradient.

    Example:
        >>> as_tensor([1.0, 2.0]).dtype
        torch.float64
    """
    if isinstance(value, Tensor):
        return value.detach()
    array = np.asarray(value)
    return torch.as_tensor(array if array.flags.writeable else array.copy())  # pandas hands out read-only arrays


def is_frame(value: Any) -> bool:
    """Whether a value is a pandas data frame, found out without importing pandas.

    Example:
        >>> is_frame(np.zeros((2, 3)))
        False
    """
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns")


def is_row_by_name(value: Any) -> bool:
    """Whether a value names the columns of its entries: a frame, a row of one, a mapping.

    Example:
        >>> is_row_by_name({"age": 31}), is_row_by_name(0.5)
        (True, False)
    """
    return isinstance(value, Mapping) or type(value).__module__.partition(".")[0] == "pandas"


def as_frame(rows: Any) -> Any:
    """Rows as a data frame: one as it is, anything else by column as a single row.

    Example:
        >>> as_frame({"age": 31})
           age
        0   31
    """
    import pandas as pd

    return rows if is_frame(rows) else pd.DataFrame([dict(rows)])


@dataclass(frozen=True)
class Table:
    """A data frame as numbers and back: a model gets frames like the one the user passed.

    Columns of numbers stay numbers. Strings, truth values and categories become codes; a missing one is the code -1.

    Attributes:
        columns: the names of the columns.
        categories: per column what its codes stand for, or None for a column of numbers.
        dtypes: per column its type in the frame.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [31, 47], "job": ["clerk", "smith"]})
        >>> table = Table.of(frame)
        >>> table.encode(frame, "inputs")
        tensor([[31.,  0.],
                [47.,  1.]], dtype=torch.float64)
        >>> table.decode(np.array([[31.5, 1.0]]))
            age    job
        0  31.5  smith
    """

    columns: tuple[Any, ...]
    categories: tuple[Any, ...]
    dtypes: tuple[Any, ...]

    @classmethod
    def of(cls, frame: Any, *others: Any) -> Table:
        """The table of a frame; others may hold further strings, which get codes too."""
        import pandas as pd

        twice = [name for name, is_again in zip(frame.columns, frame.columns.duplicated(), strict=True) if is_again]
        if twice:
            raise ValueError(
                f"`inputs` must name every column once, got several columns called {twice[0]!r}. Rename them."
            )
        frames = [frame, *(as_frame(other) for other in others if is_row_by_name(other))]
        categories = []
        for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
            if dtype.name == "category":
                categories.append(dtype.categories)
            elif dtype.kind in "iuf":
                categories.append(None)
            elif dtype.kind == "b":
                categories.append(pd.Index([False, True]))  # all of them, so that a code is the number a model sees
            elif dtype.kind in "OT" or dtype.name in ("str", "string"):
                categories.append(_values([other[name] for other in frames if name in other.columns]))
            else:
                raise TypeError(
                    f"`inputs` must have columns of numbers, strings, truth values or categories, got {dtype} "
                    f"in {name!r}. Turn it into numbers first."
                )
        return cls(tuple(frame.columns), tuple(categories), tuple(frame.dtypes))

    @property
    def coded(self) -> list[Any]:
        """The names of the columns that are codes."""
        return [name for name, known in zip(self.columns, self.categories, strict=True) if known is not None]

    def encode(self, rows: Any, argument: str) -> Tensor:
        """Rows, a frame or a mapping by column for a single one, as float64 numbers (n, columns)."""
        frame = as_frame(rows)
        missing = [name for name in self.columns if name not in frame.columns]
        if missing:
            raise ValueError(f"`{argument}` must have all columns of the inputs, got none for {missing}.")
        pairs = zip(self.columns, self.categories, strict=True)
        parts = [_numbers(frame[name], known, f"`{argument}` must") for name, known in pairs]
        return torch.from_numpy(np.stack(parts, axis=1))

    def decode(self, numbers: NDArray[Any]) -> Any:
        """Numbers (n, columns) as a frame. Columns of whole numbers may come back as fractions, such as a mean."""
        import pandas as pd

        if not self.coded:
            return pd.DataFrame(numbers, columns=list(self.columns))
        columns = {}
        for k, (name, known, dtype) in enumerate(zip(self.columns, self.categories, self.dtypes, strict=True)):
            if known is None:
                columns[name] = numbers[:, k]
            else:
                is_category = dtype.name == "category"
                kind = dtype if is_category else pd.CategoricalDtype(known)
                codes = pd.Categorical.from_codes(numbers[:, k].astype(np.int64), dtype=kind)
                columns[name] = codes if is_category else codes.astype(dtype)
        return pd.DataFrame(columns)


def tables_of(inputs: Sequence[Any], *others: Any) -> tuple[Table | None, ...]:
    """For each input its table if it is a data frame.

    Args:
        inputs: what the user passed.
        others: replacements and background rows; strings that only they hold get codes too.

    Example:
        >>> tables_of([np.zeros((2, 3))], None)
        (None,)
    """
    lists = [list(other) if isinstance(other, (tuple, list)) else [other] * len(inputs) for other in others]
    return tuple(
        Table.of(x, *(rows[k] for rows in lists if k < len(rows))) if is_frame(x) else None
        for k, x in enumerate(inputs)
    )


def encode_like(value: Any, table: Table | None, argument: str) -> Any:
    """Rows for a table as numbers; anything else as it is.

    Example:
        >>> encode_like(0.5, None, "baselines")
        0.5
    """
    if table is None:
        return value
    if is_row_by_name(value):
        return table.encode(value, argument)
    if table.coded and not isinstance(value, (Tensor, np.ndarray)) and not callable(value):
        raise ValueError(
            f"`{argument}` must be a row with values for the categories, got {value!r} for a frame with columns "
            f"{table.coded} of categories. Pass a row, such as typical_row(frame), or background rows."
        )
    return value


def check_inputs(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The inputs as they are, if they have one row per sample and every number is finite.

    Example:
        >>> check_inputs((torch.zeros(0, 5),))
        Traceback (most recent call last):
        ValueError: `inputs` must hold at least one sample, got shapes [(0, 5)]. Skip empty batches.
    """
    shapes = [tuple(x.shape) for x in inputs]
    if not inputs or any(x.dim() == 0 for x in inputs) or len({x.shape[0] for x in inputs}) > 1:
        raise ValueError(f"`inputs` must be tensors with one row per sample, got shapes {shapes}.")
    if inputs[0].shape[0] == 0:
        raise ValueError(f"`inputs` must hold at least one sample, got shapes {shapes}. Skip empty batches.")
    for position, x in enumerate(inputs):
        if x.is_floating_point() and not bool(torch.isfinite(x).all()):
            raise ValueError(
                f"`inputs` must be finite, got {int((~torch.isfinite(x)).sum())} NaN or infinite elements in input "
                f"{position} of shape {tuple(x.shape)}. Fill missing values first."
            )
    return inputs


def _numbers(column: Any, known: Any, rule: str) -> NDArray[np.float64]:
    """A column as numbers, codes if it is known what they stand for."""
    import pandas as pd

    if known is None:
        try:
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{rule} hold numbers in {column.name!r} as the inputs do, got {column.dtype}: {error}."
            ) from error
    is_there = column.notna().to_numpy()
    codes = np.full(len(column), -1.0)
    codes[is_there] = known.astype(object).get_indexer(pd.Index(column[is_there], dtype=object))
    unseen = np.flatnonzero(is_there & (codes < 0))
    if len(unseen):
        raise ValueError(
            f"{rule} hold categories of the inputs, got {column.iloc[unseen[0]]!r} in {column.name!r}, which has "
            f"{list(known)[:10]}. Give all frames the same types: other.astype(inputs.dtypes)."
        )
    return codes


def _values(columns: list[Any]) -> Any:
    """All values of columns, sorted, without missing ones."""
    import pandas as pd

    values = pd.unique(pd.concat([column.dropna().astype(object) for column in columns], ignore_index=True))
    return pd.Index(sorted(values, key=lambda value: (str(type(value)), value)), dtype=object)
