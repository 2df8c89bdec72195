"""Contexts in which a model is run: evaluation mode without compilation, and global random generators restored."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn


@contextmanager
def global_rngs_kept(devices: Iterable[torch.device] = ()) -> Iterator[None]:
    """Restore the global random number generators of torch, NumPy and Python when the context ends.

    Args:
        devices: whose generators of torch are restored, besides the CPU's.

    Example:
        >>> with global_rngs_kept():
        ...     first = torch.rand(1)
        >>> bool(first == torch.rand(1))
        True
    """
    numpy_state, python_state = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=sorted({d.index for d in devices if d.type == "cuda"})):
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def seed_global_rngs(seed: int, device: torch.device) -> None:
    """Seed the generators that third-party methods draw from; within :func:`global_rngs_kept`.

    Args:
        seed: of all of them.
        device: whose generator of torch is seeded, besides the CPU's.

    Example:
        >>> with global_rngs_kept():
        ...     seed_global_rngs(0, torch.device("cpu"))
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.default_generator.manual_seed(seed)  # `torch.manual_seed` would also seed devices that are not restored
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Switch a module to evaluation mode, without compilation and without observers of quantisation.

    The flags are set directly, because ``eval`` may be overridden. Compiled code is not used, because every new
    number of rows could cause a recompilation. Observers of fake quantisation are updated in evaluation mode too, so
    the output for a row would depend on earlier rows; they are disabled, and their state has to be restored by
    :func:`~bivshap_lightning.game.state.modules.preserved`.

    Args:
        module: the module.

    Example:
        >>> module = nn.Sequential(nn.Dropout(0.5)).train()
        >>> with evaluation_mode(module):
        ...     module[0].training
        False
        >>> module[0].training
        True
    """
    modules = list(module.modules())
    training = [m for m in modules if m.training]
    for m in training:
        m.training = False
    for m in modules:
        disable: Any = getattr(m, "disable_observer", None)
        if callable(disable):
            disable()
    try:
        with _eager():
            yield
    finally:
        for m in training:
            m.training = True


def _eager() -> AbstractContextManager[object]:
    """Run compiled functions eagerly. As long as torch's compiler is not imported, there are none."""
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance
