"""Refuses models that give different outputs for equal inputs, and names the submodule that is random."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bivshap_lightning.game.errors import StochasticModelError

_Step = tuple[str, list[Tensor], list[Tensor]]


def check_deterministic(first: Tensor, second: Tensor, where: str, find_module: Callable[[], str | None]) -> None:
    """Refuse a model whose scores differ between two equal calls.

    Args:
        first: the scores of one call.
        second: the scores of another one.
        where: the inputs, for the message.
        find_module: names the submodule that is random.

    Example:
        >>> check_deterministic(torch.zeros(1), torch.zeros(1), "on the inputs", lambda: None)
    """
    if not torch.allclose(first, second, rtol=1e-4, atol=1e-5, equal_nan=True):
        raise StochasticModelError(
            "`model` must be deterministic, got outputs that differ by up to "
            f"{float((first - second).abs().max()):.2g} between two equal calls {where}; the randomness comes from "
            f"{find_module() or 'the function itself'}. Turn off dropout or sampling in its forward pass."
        )


def first_stochastic_module(module: nn.Module, run: Callable[[], object]) -> str | None:
    """Name the first submodule that gives different outputs for equal inputs, or None.

    Args:
        module: the module.
        run: runs it, each time on the same inputs.

    Example:
        >>> module = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
        >>> first_stochastic_module(module, lambda: module(torch.ones(8, 2)))
        "module '1' (Dropout)"
    """
    first, second = (_trace(module, run) for _ in range(2))
    for (name, seen, made), (_, seen_again, made_again) in zip(first, second, strict=False):
        if _is_close(seen, seen_again) and not _is_close(made, made_again):
            return name
    return None


def _trace(module: nn.Module, run: Callable[[], object]) -> list[_Step]:
    """Name, inputs and outputs of every submodule in one forward pass, in the order in which they finished."""
    steps: list[_Step] = []
    hooks = [m.register_forward_hook(_recorder(steps, name, m)) for name, m in module.named_modules()]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return steps


def _recorder(steps: list[_Step], name: str, module: nn.Module) -> Callable[..., None]:
    label = f"module {name!r} ({type(module).__name__})" if name else "the model's own forward"

    def record(_: nn.Module, args: Any, output: Any) -> None:
        steps.append((label, _tensors(args), _tensors(output)))

    return record


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value.clone()]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


def _is_close(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(x.shape == y.shape and torch.allclose(x.float(), y.float(), rtol=1e-4, atol=1e-5, equal_nan=True)
               for x, y in zip(a, b, strict=False))  # fmt: skip
