"""Inputs: what the user passed, as tensors, refused if nothing can be explained about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def as_tensor(value: Any) -> Tensor:
    """A tensor or anything NumPy understands, as a tensor without gradient.

    Example:
        >>> as_tensor([1.0, 2.0]).dtype
        torch.float64
    """
    return value.detach() if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))


def as_tensors(value: Any) -> tuple[Tensor, ...] | None:
    """One value or a tuple of them as a tuple of tensors; None stays None.

    Example:
        >>> len(as_tensors((np.zeros(2), torch.zeros(3))))
        2
    """
    if value is None:
        return None
    return tuple(as_tensor(v) for v in (value if isinstance(value, (tuple, list)) else (value,)))


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
