"""Which objects that a module leads to belong to the model, and what is read of them, by their classes."""

from __future__ import annotations

import ctypes
import gc
import io
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import chain
from mmap import mmap
from operator import is_
from types import CodeType, GeneratorType, MemberDescriptorType
from typing import Any

import numpy as np
import torch
from torch import nn

from bivshap_lightning.game.state.tensors import LARGEST_COPY

# Packages whose objects, modules excepted, do not belong to the model.
FOREIGN = (
    "aim", "asyncio", "bivshap_lightning", "captum", "clearml", "comet_ml", "concurrent", "datasets", "io",
    "_io", "ipykernel", "IPython", "lightning", "lightning_fabric", "logging", "matplotlib", "mlflow",
    "multiprocessing", "neptune", "pandas", "pluggy", "pyarrow", "_pytest", "pytest", "pytorch_lightning", "queue",
    "ray", "_queue", "socket", "subprocess", "tensorboard", "tensorboardX", "_thread", "threading", "tokenizers",
    "torch._dynamo", "torch._inductor", "torch.distributed", "torch.fx", "torch.utils.data", "torch.utils.tensorboard",
    "tqdm", "wandb", "weakref",
)  # fmt: skip
# Packages whose classes and functions keep no state of a user's model.
LIBRARIES = (*FOREIGN, "abc", "builtins", "collections", "dataclasses", "enum", "functools", "numpy", "sklearn",
             "torch", "torchmetrics", "torchvision", "transformers", "typing")  # fmt: skip
ATOMS = frozenset({int, float, complex, str, bytes, bool, type(None), type(...), torch.dtype, torch.device, torch.Size,
                   range, slice, torch.layout, torch.memory_format})  # fmt: skip
# Their instances have no attributes of their own, unlike those of subclasses.
CONTAINERS = frozenset({dict, list, tuple, set, frozenset, deque, bytearray, OrderedDict, defaultdict, Counter})

# Where iterators are implemented in C.
BUILT_IN = ("array", "builtins", "_collections", "_csv", "itertools")

GENERATORS = (torch.Generator, np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)


# Numbers of C, and files that are mapped to memory.
MEMORY: tuple[Any, ...] = (ctypes.Array, ctypes.c_int.__base__, ctypes.Structure, ctypes.Union, mmap)
NUMERIC_CODES = "?bBhHiIlLqQfd"


def generator_restorer(generator: Any) -> Callable[[], object]:
    """A function that gives a random generator the state that it has now."""
    if isinstance(generator, torch.Generator):
        return partial(generator.set_state, generator.get_state())
    if isinstance(generator, np.random.RandomState):
        return partial(generator.set_state, generator.get_state(legacy=False))
    if isinstance(generator, random.Random):
        is_stateless = isinstance(generator, random.SystemRandom)
        return bool if is_stateless else partial(generator.setstate, generator.getstate())
    bits: Any = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
    return partial(setattr, bits, "state", bits.state)


def memory_restorer(value: Any) -> Callable[[], object]:
    """A function that gives numbers of C, or a mapped file, the content that they have now; pointers stay as they are.

    Example:
        >>> number = ctypes.c_int(3)
        >>> restore = memory_restorer(number)
        >>> number.value = 4
        >>> restore(), number
        (None, c_int(3))
    """
    if not isinstance(value, mmap) and not _is_numeric(type(value)):
        return bool
    try:
        with memoryview(value) as view:
            is_fixed = view.readonly or view.nbytes > LARGEST_COPY
            return bool if is_fixed else partial(_write, value, view.tobytes())
    except ValueError:  # a closed file
        return bool


def _is_numeric(kind: Any) -> bool:
    """Whether a class of ctypes holds numbers alone, which can be written back, and no pointers."""
    if issubclass(kind, ctypes.Array):
        return _is_numeric(kind._type_)
    if issubclass(kind, (ctypes.Structure, ctypes.Union)):
        return all(_is_numeric(field[1]) for field in getattr(kind, "_fields_", ()))
    return getattr(kind, "_type_", "O") in NUMERIC_CODES


def _write(owner: Any, content: bytes) -> None:
    with memoryview(owner) as view, view.cast("B") as octets:
        if octets != content:
            octets[:] = content


def file_restorer(file: Any) -> Callable[[], object]:
    """A function that puts back the content of a file in memory, or the position in one on disk that is only read.

    What is written to a file stays written. A position that cannot be read, as within a loop over lines, stays as well.
    """
    try:
        if file.closed:
            return bool
        if isinstance(file, (io.StringIO, io.BytesIO)):
            memory: Any = file
            return partial(memory.__setstate__, memory.__getstate__())
        if file.writable() or not file.seekable():
            return bool
        place = file.tell()
    except OSError:
        return bool
    return lambda: file.tell() == place or file.seek(place)


def logger_restorer(value: Any) -> Callable[[], object]:
    """A function that puts back the options of a logger, handler or filter of ``logging``; lists are not copied.

    Example:
        >>> import logging
        >>> logger = logging.getLogger("example")
        >>> restore = logger_restorer(logger)
        >>> logger.setLevel("ERROR")
        >>> restore(), logger.level
        (None, 0)
    """
    names = [name for name in ("filters", "handlers", "propagate", "disabled") if name in vars(value)]
    saved, level = {name: vars(value)[name] for name in names}, getattr(value, "level", None)

    def restore() -> None:
        vars(value).update(saved)
        if getattr(value, "level", None) != level:
            value.setLevel(level)  # which also forgets what loggers remember of levels

    return restore


def global_hooks() -> list[Any]:
    """Hooks on all modules, which no module leads to."""
    return [v for name, v in vars(nn.modules.module).items() if name.startswith("_global") and isinstance(v, dict)]


def cached_by(function: Any) -> list[Any]:
    """The function that a ``functools.lru_cache`` wraps and what it remembers.

    An unbounded cache is a plain dictionary, which can be put back. A bounded one is linked in C: only its keys and
    values are returned, not the dictionary of links.
    """
    parts = gc.get_referents(function)
    if function.cache_parameters()["maxsize"] is None:
        return parts
    return [p for p in parts if not (isinstance(p, dict) and any(map(_is_link, p.values())))]


def _is_link(value: Any) -> bool:
    return type(value).__name__ == "_lru_list_elem"


@lru_cache(maxsize=4096)
def is_opaque_iterator(kind: type) -> bool:
    """Whether objects of a class are iterators whose position cannot be read and set."""
    if not any("__next__" in vars(base) for base in kind.__mro__):  # `hasattr` may run code of the class, as in a mock
        return False
    is_built_in = kind.__module__ in BUILT_IN and kind.__name__ != "iterator"
    return issubclass(kind, GeneratorType) or is_built_in or is_from(kind.__module__, ("torch.utils.data",))


@lru_cache(maxsize=4096)
def own_classes(kind: type) -> tuple[type, ...]:
    """The classes of an object that a user wrote."""
    return tuple(base for base in kind.__mro__ if not is_from(base.__module__, LIBRARIES))


@lru_cache(maxsize=4096)
def slots_of(kind: type) -> tuple[MemberDescriptorType, ...]:
    """The slots of a class and its bases, also those that a property of a subclass hides."""
    found = (member for base in kind.__mro__ if "__slots__" in vars(base) for member in vars(base).values())
    return tuple(member for member in found if isinstance(member, MemberDescriptorType))


def slot_content(slot: MemberDescriptorType, owner: Any) -> tuple[Any, ...]:
    """What a slot holds: one value, or none if it has never been filled."""
    try:
        return (slot.__get__(owner, type(owner)),)
    except AttributeError:
        return ()


def restore_slot(slot: MemberDescriptorType, owner: Any, content: tuple[Any, ...]) -> None:
    """Put back what a slot held, if it holds something else now."""
    now = slot_content(slot, owner)
    if len(now) == len(content) and all(map(is_, now, content)):
        return
    if content:
        slot.__set__(owner, content[0])
    else:
        slot.__delete__(owner)


def restore_class(kind: type, saved: dict[str, Any]) -> None:
    """Put back the variables of a class, past a metaclass that refuses to set them."""
    now = {name: value for name, value in vars(kind).items() if not name.startswith("__")}
    for name, value in saved.items():
        if now.get(name, ...) is not value:
            type.__setattr__(kind, name, value)
    for name in now.keys() - saved.keys():
        type.__delattr__(kind, name)


@lru_cache(maxsize=4096)
def global_names(code: CodeType) -> tuple[str, ...]:
    """The names that code, and functions defined in it, may use as global variables."""
    inner = (global_names(part) for part in code.co_consts if isinstance(part, CodeType))
    return tuple(dict.fromkeys(chain(code.co_names, *inner)))


@lru_cache(maxsize=4096)
def is_from(module: object, packages: tuple[str, ...]) -> bool:
    """Whether the `__module__` of a class belongs to one of some packages; it may be a descriptor and no name."""
    return isinstance(module, str) and any(module == p or module.startswith(f"{p}.") for p in packages)


@lru_cache(maxsize=4096)
def is_own_module(name: str) -> bool:
    """Whether a module may hold variables of a user's model: no part of Python, and none of the known libraries."""
    return name.partition(".")[0] not in sys.stdlib_module_names and not is_from(name, LIBRARIES)


@lru_cache(maxsize=4096)
def is_foreign(kind: type) -> bool:
    """Whether objects of a class do not belong to the model; a user's callbacks do, where hooks lead to them."""
    packages = [base.__module__ for base in kind.__mro__]
    if any(base.__name__ == "Callback" for base in kind.__mro__) and not is_from(kind.__module__, FOREIGN):
        return any(is_from(package, ("bivshap_lightning",)) for package in packages)
    return any(is_from(package, FOREIGN) for package in packages)
