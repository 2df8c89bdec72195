"""Removal: what stands in for a player that is absent.

Two ways, and a record always says which one was used because their numbers cannot be compared:

* a **fixed replacement** (Captum's ``baselines``): zero, a number, one row for all samples, or a row per sample;
* **background rows** (marginal removal): the value of a coalition is the mean over R given rows.

Anything else (a mean, a median, a blurred image) is a way to make such a row and needs no code here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Removal:
    """The stand-ins for absent players.

    Attributes:
        rows: per input, the stand-ins in the input's own dtype, of shape (1 or B, R, ...).
        n_rows: R, over how many stand-ins the value of a coalition is averaged.
        description: one phrase for records and messages.
    """

    rows: tuple[Tensor, ...]
    n_rows: int
    description: str

    @classmethod
    def from_baselines(cls, inputs: Sequence[Tensor], baselines: Any = None) -> Removal:
        """Fixed replacements, given as Captum has them.

        Args:
            inputs: tensors of shape (B, ...).
            baselines: None (zero), a number, a tensor (one row for all, or one per sample), or a tuple of those
                with one entry per input.

        Raises:
            ValueError: a baseline does not fit its input.

        Example:
            >>> Removal.from_baselines([torch.ones(2, 3)], 0.5).rows[0].shape
            torch.Size([1, 1, 3])
        """
        given = baselines if isinstance(baselines, (tuple, list)) else [baselines]
        if baselines is None:
            given = [None] * len(inputs)
        if len(given) != len(inputs):
            raise ValueError(
                f"`baselines` must have one entry per input, got {len(given)} for {len(inputs)} inputs. "
                "Pass a tuple with a number or tensor for each input."
            )
        rows = tuple(_replacement(b, x, k)[:, None] for k, (b, x) in enumerate(zip(given, inputs, strict=True)))
        return cls(rows, 1, "; ".join(_describe(b, x) for b, x in zip(given, inputs, strict=True)))

    @classmethod
    def from_background(cls, inputs: Sequence[Tensor], background: Sequence[Tensor]) -> Removal:
        """Marginal removal: average over the rows of a background set.

        Args:
            inputs: tensors of shape (B, ...).
            background: per input, (R, ...) rows; row r of every input belongs together.

        Raises:
            ValueError: the rows do not fit the inputs, or there are none.

        Example:
            >>> Removal.from_background([torch.ones(2, 3)], [torch.zeros(7, 3)]).n_rows
            7
        """
        if len(background) != len(inputs):
            raise ValueError(
                f"`background` must have one tensor of rows per input, got {len(background)} for {len(inputs)} "
                "inputs. Pass a tuple."
            )
        n_rows = background[0].shape[0] if background[0].dim() else 0
        for k, (given, x) in enumerate(zip(background, inputs, strict=True)):
            if given.shape != (n_rows, *x.shape[1:]) or n_rows == 0:
                raise ValueError(
                    f"`background` must hold at least one row shaped like a sample, got {tuple(given.shape)} for "
                    f"input {k} of shape {tuple(x.shape)}. Pass (R, {', '.join(map(str, x.shape[1:]))})."
                )
        rows = tuple(
            _like(given, x, "background", k)[None] for k, (given, x) in enumerate(zip(background, inputs, strict=True))
        )
        return cls(rows, n_rows, f"mean over {n_rows} background rows")


def _replacement(baseline: Any, x: Tensor, position: int) -> Tensor:
    """One baseline as a tensor of shape (1 or B, ...)."""
    value = _like(torch.as_tensor(0 if baseline is None else baseline), x, "baselines", position)
    if value.dim() == x.dim() - 1:
        value = value[None]
    n_rows = value.shape[0] if value.dim() == x.dim() and value.shape[0] == x.shape[0] else 1
    try:
        return value.expand(n_rows, *x.shape[1:])
    except RuntimeError:
        raise ValueError(
            f"`baselines` must be a number, one row of shape {tuple(x.shape[1:])}, or one row per sample, got "
            f"{tuple(value.shape)} for input {position} of shape {tuple(x.shape)}. For an average over "
            "several rows use `background`."
        ) from None


def _like(value: Tensor, x: Tensor, argument: str, position: int) -> Tensor:
    """Bring stand-ins to the input's device and dtype without changing a value unnoticed."""
    if value.is_floating_point() and not bool(torch.isfinite(value).all()):
        raise ValueError(
            f"`{argument}` must be finite, got NaN or infinity for input {position}. Fill missing values first."
        )
    converted = value.to(x.device, x.dtype)
    if not x.is_floating_point() and not bool((converted == value.to(x.device)).all()):
        raise ValueError(
            f"`{argument}` must be whole numbers for integer inputs, got fractions for input {position} of dtype "
            f"{x.dtype}. Pass a token id or a code, such as the padding token."
        )
    return converted


def _describe(baseline: Any, x: Tensor) -> str:
    if baseline is None:
        return "baseline 0"
    value = torch.as_tensor(baseline)
    if value.numel() == 1:
        return f"baseline {value.item():g}"
    per_sample = value.dim() == x.dim() and value.shape[0] == x.shape[0] and value.shape[0] > 1
    return "one baseline row per sample" if per_sample else "one baseline row for all samples"
