"""Settings of the process that a forward pass may change: environment variables, options of torch and NumPy."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch


def _anomaly_mode() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _set_anomaly_mode(state: tuple[bool, bool]) -> None:
    torch.autograd.set_detect_anomaly(*state)


def _flushes_denormals() -> bool:
    return float(torch.tensor([2.0**-140]).mul_(1.0)) == 0


def _cudnn() -> tuple[bool, ...]:
    options = torch.backends.cudnn
    return options.enabled, options.benchmark, options.deterministic


def _set_cudnn(state: tuple[bool, ...]) -> None:
    options: Any = torch.backends.cudnn
    options.enabled, options.benchmark, options.deterministic = state


def _set_errors(state: dict[str, Any]) -> None:
    np.seterr(**state)


def _set_environment(state: dict[str, str]) -> None:
    for name in os.environ.keys() - state.keys():
        del os.environ[name]
    for name, value in state.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _set_warnings(state: list[Any]) -> None:
    warnings.filters[:] = state  # type: ignore[index]
    with warnings.catch_warnings():
        pass  # leaving it makes Python forget which warnings it has compared with the filters


# How each is read and set.
_SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
    (os.environ.copy, _set_environment),
    (os.getcwd, os.chdir),
    (lambda: list(sys.path), partial(sys.path.__setitem__, slice(None))),
    (lambda: list(warnings.filters), _set_warnings),
    (np.geterr, _set_errors),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (_anomaly_mode, _set_anomaly_mode),
    (_flushes_denormals, torch.set_flush_denormal),
    (_cudnn, _set_cudnn),
)


@contextmanager
def process_settings_kept() -> Iterator[None]:
    """Put back settings of the process when the context ends.

    These are the environment variables, the working directory, the import path, filters of warnings, and options of
    NumPy and torch: errors, default dtype, number of threads, determinism, precision, anomaly detection, cuDNN.

    Example:
        >>> with process_settings_kept():
        ...     torch.set_default_dtype(torch.float64)
        >>> torch.get_default_dtype()
        torch.float32
    """
    saved = []
    for read, write in _SETTINGS:
        try:
            saved.append((read, write, read()))
        except (OSError, RuntimeError):  # a working directory that is gone, options that contradict each other
            continue
    try:
        yield
    finally:
        for read, write, before in saved:
            if _now(read) != before:
                write(before)


def _now(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except OSError:  # a working directory that is gone
        return None
