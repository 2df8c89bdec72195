"""What replaces absent players where the user names nothing: rows of the training data for tables, zero elsewhere.

For a column, zero may be a value that no row has, and the output there an extrapolation of the model. A mean over rows
of the data asks what the output is when the column is unknown. Every row costs a model row per coalition, so the number
of rows follows from the number of coalitions, by counts alone: the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bivshap_lightning.audit.batches import Batch
from bivshap_lightning.explainers.estimator import default_coalitions
from bivshap_lightning.game.inputs import is_frame

FEWEST_ROWS, MOST_ROWS = 8, 32
"""Of an automatic background: with fewer the mean depends on the draw, and more change little."""

AIM, LIMIT = 2**15, 2**16
"""Model rows per sample that an automatic background aims at, and those beyond which there is none."""


def is_table(batch: Batch) -> bool:
    """Whether the inputs are columns: every input (B, F), numbers among them.

    Example:
        >>> is_table(Batch((torch.zeros(4, 3),))), is_table(Batch((torch.zeros(4, 3).long(),)))
        (True, False)
    """
    has_numbers = any(x.is_floating_point() for x in batch.inputs)
    return has_numbers and not batch.extra and batch.by_name is None and all(x.dim() == 2 for x in batch.inputs)


def automatic_rows(n_players: int, least: int, n_evaluations: int | None = None) -> int:
    """How many background rows a table gets by default; 0 if there is no room for the fewest.

    Args:
        n_players: number of columns or groups of columns.
        least: coalitions that the method needs at least.
        n_evaluations: model rows per sample that the user allows, or None.

    Example:
        >>> [automatic_rows(n, 4 * n) for n in (6, 10, 11, 14, 200)]
        [32, 32, 16, 8, 8]
        >>> automatic_rows(6, 24, n_evaluations=64), automatic_rows(6, 24, n_evaluations=1024)
        (0, 16)
    """
    usual = default_coalitions(n_players)
    everything = 1 << min(n_players, usual.bit_length())
    if n_evaluations is not None:
        n_rows = n_evaluations // max(least, min(everything, usual // 4))
        return min(n_rows, MOST_ROWS) if n_rows >= FEWEST_ROWS else 0
    n_coalitions = max(least, min(everything, usual))
    if FEWEST_ROWS * n_coalitions > LIMIT:
        return 0
    return min(max(AIM // n_coalitions, FEWEST_ROWS), MOST_ROWS)


def remark_on_zero(batch: Batch, n_evaluations: int | None, *, is_normalised: bool, reason: str = "") -> str:
    """What is wrong with zero as the replacement of these inputs, with a better choice; empty if nothing is.

    Args:
        batch: some samples.
        n_evaluations: model rows per sample that the user allows, or None.
        is_normalised: whether any sample has values below 0.
        reason: why a table has no background; empty if there is no room for one.

    Example:
        >>> remark_on_zero(Batch((torch.zeros(1, 3, 4, 4),)), None, is_normalised=True)[:52]
        'absent players are 0, which is grey where pixels are'
        >>> remark_on_zero(Batch((torch.zeros(1, 3, 4, 4),)), None, is_normalised=False)
        ''
    """
    if is_table(batch):
        allowed = "the number of columns" if n_evaluations is None else f"n_evaluations={n_evaluations}"
        return (
            "absent columns are 0, a value that they may never have: "
            f"{reason or f'{allowed} leaves no room for background rows'}. "
            f"Better: {'' if reason else 'a larger `n_evaluations`, or '}baselines=typical_row(training_data)."
        )
    if any(x.dim() == 2 and _is_code(x) for x in batch.inputs):
        return (
            "absent players are 0, which may be a word or a category of its own. Better: `baselines` with the id of a "
            "padding or mask token, baselines=ZeroEmbedding() for texts, background=16 for codes of categories."
        )
    if any(x.dim() == 4 and x.is_floating_point() for x in batch.inputs) and is_normalised:
        return (
            "absent players are 0, which is grey where pixels are normalised (some are below 0). Better: "
            "baselines=ChannelMean(), or baselines=Blur(3)."
        )
    return ""


def _is_code(x: Tensor) -> bool:
    return not x.is_floating_point() and x.dtype != torch.bool


def background_of(value: Any) -> Any:
    """The argument `background` with import paths replaced by what they name.

    Args:
        value: rows, a number of rows to take from the training data, None, or "package.module:name" of rows or of a
            function without arguments that returns them.

    Raises:
        ValueError: the path names nothing, or the number is below 1.
        TypeError: it is none of these.

    Example:
        >>> background_of([[0.0, 1.0], [2.0, 3.0]]).shape, background_of(16)
        (torch.Size([2, 2]), 16)
        >>> background_of("numpy:inf")
        Traceback (most recent call last):
        TypeError: `background` must be rows, a number of rows, or the import path of rows, got numpy:inf, which is a
        float. Name a tensor, an array, a data frame, a tuple of them, or a function that returns one.
    """
    if value is None or isinstance(value, bool):
        if value is None:
            return None
        raise TypeError(f"`background` must be rows, a number of rows, or an import path, got {value}. Pass 16.")
    if isinstance(value, int):
        if value < 1:
            raise ValueError(f"`background` must be at least 1 row, got {value}. Pass None for the default.")
        return value
    if isinstance(value, str):
        return _imported(value)
    if isinstance(value, list) and not any(_is_rows(part) for part in value):
        return torch.tensor(value)
    return value


def _imported(path: str) -> Any:
    module, colon, name = path.partition(":")
    try:
        found = getattr(import_module(module), name) if colon and name else None
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"`background` must be the import path of rows, got {path} ({error}).") from error
    if not (colon and name):
        raise ValueError(
            f"`background` must be an import path with a colon before the name, got {path!r}. Write "
            "package.module:rows."
        )
    rows = found() if callable(found) and not _is_rows(found) else found
    parts = rows if isinstance(rows, Sequence) and not isinstance(rows, str) and len(rows) else [rows]
    if not all(_is_rows(part) for part in parts):
        raise TypeError(
            f"`background` must be rows, a number of rows, or the import path of rows, got {path}, which is a "
            f"{type(rows).__name__}. Name a tensor, an array, a data frame, a tuple of them, or a function that "
            "returns one."
        )
    return rows


def _is_rows(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray) or is_frame(value)
