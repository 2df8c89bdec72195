"""Association of the columns of a table in the data: correlation, Cramer's V, and the correlation ratio between them.

Which columns are copies of each other is a fact about the data, and association finds it better than anything that the
model does with the columns. No torch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def association(rows: FloatArray, categorical: Collection[int] = ()) -> FloatArray:
    """The association of each pair of columns, from 0 for none to 1 for a copy.

    Args:
        rows: (N, F) numbers, categories as codes; at least two rows.
        categorical: the columns that hold categories.

    Returns:
        (F, F), symmetric, diagonal 1: the absolute Pearson correlation of two numbers, Cramer's V of two categories,
        the correlation ratio of a number given a category. A constant column has no association with others.

    Raises:
        ValueError: the shape is wrong, a value is not finite, or a column does not exist.

    Example:
        >>> rows = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [3.0, 6.0, 0.0], [4.0, 8.0, 1.0]])
        >>> association(rows, categorical=[2]).round(3)
        array([[1.   , 1.   , 0.447],
               [1.   , 1.   , 0.447],
               [0.447, 0.447, 1.   ]])
    """
    rows = np.asarray(rows, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(f"`rows` must have shape (N, F) with at least two rows, got {rows.shape}. Pass the table.")
    if not np.isfinite(rows).all():
        raise ValueError(
            f"`rows` must be finite, got {int((~np.isfinite(rows)).sum())} NaN or infinite values. Fill them."
        )
    n_columns = rows.shape[1]
    unknown = sorted(set(categorical) - set(range(n_columns)))
    if unknown:
        raise ValueError(f"`categorical` must be columns from 0 to {n_columns - 1}, got {unknown}.")
    codes = {k: np.unique(rows[:, k], return_inverse=True)[1] for k in categorical}
    found = np.eye(n_columns)
    for i in range(n_columns):
        for j in range(i):
            found[i, j] = found[j, i] = _of_pair(rows, codes, i, j)
    return found


def copies(rows: FloatArray, categorical: Collection[int] = (), *, at_least: float) -> FloatArray:
    """The association of the pairs of columns that are copies, 0 for all others.

    A copy also has that association without the most unusual row of either column: two columns that are constant but
    for one row, the same one, are no evidence.

    Args:
        rows: as for `association`.
        categorical: as there.
        at_least: the association from which on two columns are copies.

    Example:
        >>> rows = np.array([[1.0, 2.0, 0.0, 0.0], [2.0, 4.0, 0.0, 0.0], [3.0, 6.0, 0.0, 0.0], [5.0, 10.0, 1.0, 1.0]])
        >>> copies(rows, categorical=[2, 3], at_least=0.95)
        array([[0., 1., 0., 0.],
               [1., 0., 0., 0.],
               [0., 0., 0., 0.],
               [0., 0., 0., 0.]])
    """
    found = association(rows, categorical)
    np.fill_diagonal(found, 0.0)
    unusual = [_most_unusual(rows[:, k], k in categorical) for k in range(rows.shape[1])]
    for i, j in np.argwhere(np.triu(found >= at_least)).tolist():
        for left_out in {unusual[i], unusual[j]}:
            pair = np.delete(rows[:, [i, j]], left_out, axis=0)
            codes = {k: np.unique(pair[:, k], return_inverse=True)[1] for k in (0, 1) if (i, j)[k] in categorical}
            found[i, j] = found[j, i] = min(found[i, j], _of_pair(pair, codes, 0, 1))
    return np.where(found >= at_least, found, 0.0)


def _of_pair(rows: FloatArray, codes: Mapping[int, NDArray[np.intp]], i: int, j: int) -> float:
    """The association of two columns, of which those in `codes` hold categories."""
    if i in codes and j in codes:
        return cramers_v(codes[i], codes[j])
    if i in codes or j in codes:
        category, number = (i, j) if i in codes else (j, i)
        return correlation_ratio(codes[category], rows[:, number])
    return _correlation(rows[:, i], rows[:, j])


def _most_unusual(column: FloatArray, is_categorical: bool) -> int:
    """The row with the rarest value of a category, or with the number furthest from the mean."""
    if is_categorical:
        _, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
        return int(counts[codes].argmin())
    return int(np.abs(column - column.mean()).argmax())


def cramers_v(first: NDArray[np.intp], second: NDArray[np.intp]) -> float:
    """Cramer's V of two categories, given as codes from 0 on.

    Example:
        >>> cramers_v(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
        1.0
    """
    counts = np.zeros((first.max() + 1, second.max() + 1))
    np.add.at(counts, (first, second), 1)
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(first)
    smaller = min(counts.shape) - 1
    if smaller == 0:
        return 0.0
    chi2 = float((np.square(counts - expected) / np.where(expected > 0, expected, 1.0)).sum())
    return float(min(1.0, np.sqrt(chi2 / (len(first) * smaller))))


def correlation_ratio(category: NDArray[np.intp], number: FloatArray) -> float:
    """The share of a number's standard deviation that a category explains.

    Example:
        >>> correlation_ratio(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 5.0, 5.0]))
        1.0
    """
    n = np.bincount(category)
    means = np.bincount(category, weights=number) / np.maximum(n, 1)
    whole = float(np.square(number - number.mean()).sum())
    between = float((n * np.square(means - number.mean())).sum())
    return float(np.sqrt(min(1.0, between / whole))) if whole > 0 else 0.0


def _correlation(first: FloatArray, second: FloatArray) -> float:
    a, b = first - first.mean(), second - second.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return min(1.0, abs(float(a @ b)) / size) if size > 0 else 0.0
