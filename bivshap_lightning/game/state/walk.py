"""Follows everything that a module leads to in Python, and records how each object was.

What can be put back is put back by :class:`~bivshap_lightning.game.state.modules.ModuleState`. Data sets, their loaders
and samplers, and other objects beside the module are followed last and less far: of what they lead to, the items of
collections of more than 1,000 are compared but not followed, and tensors and arrays beyond 8 MB in all are watched but
not copied.
"""

from __future__ import annotations

import gc
import io
import logging
import queue
import threading
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import chain
from multiprocessing.managers import BaseProxy
from multiprocessing.shared_memory import SharedMemory
from multiprocessing.sharedctypes import SynchronizedBase
from types import BuiltinMethodType, CellType, FunctionType, MappingProxyType, MethodType, MethodWrapperType, ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler

from bivshap_lightning.game.errors import ModelStateError
from bivshap_lightning.game.state.caches import KIND as CACHE
from bivshap_lightning.game.state.dicts import items_of, refill_collection
from bivshap_lightning.game.state.frames import frame_restorer, is_frame, objects_of
from bivshap_lightning.game.state.kinds import (
    ATOMS,
    CONTAINERS,
    GENERATORS,
    LIBRARIES,
    MEMORY,
    cached_by,
    file_restorer,
    generator_restorer,
    global_names,
    is_foreign,
    is_from,
    is_opaque_iterator,
    is_own_module,
    logger_restorer,
    memory_restorer,
    own_classes,
    restore_class,
    restore_slot,
    slot_content,
    slots_of,
)
from bivshap_lightning.game.state.shared import SHARED, queue_restorer, shared_restorer
from bivshap_lightning.game.state.stand_ins import is_followed, stand_in_for, unrestorable_iterator
from bivshap_lightning.game.state.tensors import ArrayCopy, TensorCopy, is_too_large

# Items of a collection that are followed where data sets hold it.
MOST_ITEMS = 1000
# Bytes that are copied of all data sets together; what is beyond is only watched.
LARGEST_DATA = 2**23

_EMPTY: dict[Any, Any] = {}


class StateWalk:
    """What has been recorded of the objects that a module leads to.

    Args:
        module: the module.
        roots: where to begin.
        beside: further objects, followed less far.
        without: objects that are left alone.
    """

    def __init__(self, module: nn.Module, roots: list[Any], beside: Iterable[Any], without: Iterable[Any]) -> None:
        self._module = module
        self._undo: list[Callable[[], object]] = []
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._lists: list[tuple[list[Any], list[Any]]] = []
        self._tensors: list[TensorCopy] = []
        self._arrays: list[ArrayCopy] = []
        self._variables: list[tuple[dict[str, Any], str, Any]] = []
        self._namespaces: set[tuple[int, tuple[str, ...]]] = set()
        self._cells: list[tuple[CellType, Any]] = []
        self._parameter_dicts: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._stand_ins: list[tuple[Callable[[Any], object], Any]] = []
        self._seen: dict[int, Any] = {id(value): value for value in without}
        self._pending, self._data = roots, list(beside)
        self._is_within_data, self._n_copied = False, 0

    def _record(self) -> None:
        self._record_pending()
        self._pending, self._is_within_data = self._data, True
        self._record_pending()
        for put, stand_in in self._stand_ins:
            put(stand_in)

    def _record_pending(self) -> None:
        while self._pending:
            value = self._pending.pop()
            if id(value) not in self._seen:
                self._seen[id(value)] = value  # also keeps it alive, so that the id stays its own
                kind: Any = type(value)
                if is_opaque_iterator(kind):
                    raise unrestorable_iterator(kind.__name__)
                record = _recorder_of(kind)
                if record is not None:
                    record(self, value)

    def _follow(self, value: Any, name: str, put: Callable[[Any], object]) -> None:
        """Record a value; what cannot be put back is replaced where it is held, also within a tuple."""
        if type(value) is tuple:
            stand_ins = [stand_in_for(part, name) for part in value]
            if any(part is not None for part in stand_ins):
                parts = zip(value, stand_ins, strict=True)
                self._stand_ins.append((put, tuple(old if new is None else new for old, new in parts)))
                self._pending.extend(v for v, new in zip(value, stand_ins, strict=True) if is_followed(v, new))
                return
        stand_in = stand_in_for(value, name)
        if stand_in is not None:
            self._stand_ins.append((put, stand_in))
        if is_followed(value, stand_in):
            self._pending.append(value)

    def _is_large(self, value: Any) -> bool:
        return self._is_within_data and len(value) > MOST_ITEMS

    def _is_afforded(self, value: Any) -> bool:
        """Whether data may be copied: there is one limit for all that data sets lead to."""
        n_bytes = value.nbytes if isinstance(value, np.ndarray) or value.layout == torch.strided else 0
        if self._n_copied + n_bytes > LARGEST_DATA:
            return False
        self._n_copied += n_bytes
        return True

    def _record_attributes(self, value: Any) -> None:
        if type(value) not in CONTAINERS:  # an instance of a subclass may have some
            self._record_instance(value)

    def _record_dict(self, value: dict[Any, Any]) -> None:
        self._record_attributes(value)
        if not value:
            self._dicts.append((value, _EMPTY))
            return  # as for most dictionaries of hooks
        items = dict(items_of(value))
        self._dicts.append((value, items))
        if self._is_large(items):
            return
        for key, item in items.items():
            if type(item) not in ATOMS:
                self._follow(item, str(key), partial(dict.__setitem__, value, key))

    def _record_list(self, value: list[Any]) -> None:
        self._record_attributes(value)
        items = list.copy(value)
        self._lists.append((value, items))
        if self._is_large(items):
            return
        for index, item in enumerate(items):
            if type(item) not in ATOMS:
                self._follow(item, f"[{index}]", partial(list.__setitem__, value, index))

    def _record_members(self, value: Collection[Any]) -> None:
        self._record_attributes(value)
        if not self._is_large(value):
            self._pending.extend(item for item in value if type(item) not in ATOMS)

    def _record_collection(self, value: Any) -> None:
        """A set, a deque or a bytearray."""
        self._undo.append(partial(refill_collection, value, saved := list(value)))
        self._record_members(saved)
        self._record_attributes(value)

    def _record_tensor(self, value: Tensor) -> None:
        is_large = not isinstance(value, nn.Parameter) and is_too_large(value)
        is_copied = not is_large or any(value is buffer for buffer in self._module.buffers())
        self._tensors.append(
            TensorCopy(value, is_copied=self._is_afforded(value) if self._is_within_data else is_copied)
        )
        self._record_dict(value.__dict__)

    def _record_storage(self, value: torch.UntypedStorage) -> None:
        self._record_tensor(torch.empty(0, dtype=torch.uint8, device=value.device).set_(value))

    def _record_array(self, value: Any) -> None:
        self._arrays.append(ArrayCopy(value, is_sampled=self._is_within_data and not self._is_afforded(value)))
        if type(value) is not np.ndarray and not isinstance(value, np.memmap):
            self._record_instance(value)
        if value.dtype.hasobject:
            self._record_members(list(value.flat))

    def _record_instance(self, value: Any) -> None:
        kind: Any = type(value)
        if isinstance(getattr(value, "__dict__", None), dict):
            self._record_dict(vars(value))
        for slot in slots_of(kind):
            content = slot_content(slot, value)
            self._undo.append(partial(restore_slot, slot, value, content))
            for saved in content:
                self._follow(saved, slot.__name__, partial(slot.__set__, value))
        self._pending.extend(own_classes(kind))

    def _record_module(self, value: nn.Module) -> None:
        for p in chain(value._parameters.values(), value._buffers.values()):
            if isinstance(p, (nn.UninitializedParameter, nn.UninitializedBuffer)):
                raise ModelStateError(
                    f"`model` must have all its parameters, got an uninitialized {type(value).__name__}. Run it once "
                    "on a batch first."
                )
        if value._parameters:
            parameters = cast(dict[str, Any], value._parameters)
            self._parameter_dicts.append((parameters, dict(parameters)))
        self._record_instance(value)

    def _record_script(self, value: torch.jit.ScriptModule) -> None:
        """A module of TorchScript, whose attributes are in C++."""
        handle: Any = value._c
        concrete = getattr(value, "_concrete_type", None)
        names = [] if concrete is None else list(concrete.get_attributes())
        names += [name for name in value._buffers.keys() if name not in names]  # noqa: SIM118 - not iterable
        for name in {*names, "training"}:
            if handle.hasattr(name):
                saved = handle.getattr(name)
                self._undo.append(partial(handle.setattr, name, saved))
                self._pending.append(saved)
        self._pending.extend(p for p in value._parameters.values() if p is not None)
        self._pending.extend(value.children())

    def _record_function(self, value: FunctionType) -> None:
        is_own = not is_from(value.__globals__.get("__name__", ""), LIBRARIES)
        for cell in value.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not yet filled
                continue
            if is_own:
                self._cells.append((cell, content))
                self._follow(content, "a variable of a closure", partial(setattr, cell, "cell_contents"))
            else:
                self._pending.append(content)
        self._pending.extend(part for part in (value.__defaults__, value.__kwdefaults__) if part)
        self._record_dict(value.__dict__)
        if is_own:
            self._record_variables(value.__globals__, global_names(value.__code__))

    def _record_variables(self, namespace: dict[str, Any], names: tuple[str, ...]) -> None:
        """Global variables by name; where one is a module that a user wrote, its variables of these names as well."""
        if (id(namespace), names) in self._namespaces:
            return
        self._namespaces.add((id(namespace), names))
        for name in names:
            if name in namespace:
                variable = namespace[name]
                self._variables.append((namespace, name, variable))
                self._follow(variable, name, partial(dict.__setitem__, namespace, name))
                if isinstance(variable, ModuleType) and is_own_module(variable.__name__):
                    self._record_variables(vars(variable), names)

    def _record_class(self, value: type) -> None:
        if is_from(value.__module__, LIBRARIES):
            return
        saved = {name: item for name, item in vars(value).items() if not name.startswith("__")}
        self._undo.append(partial(restore_class, value, saved))
        for name, item in saved.items():
            self._follow(item, name, partial(setattr, value, name))
        self._record_members([item for item in vars(value).values() if type(item) is FunctionType])
        self._pending.extend(own_classes(cast(Any, type(value))))

    def _record_cache(self, value: Any) -> None:
        """A function with ``functools.lru_cache``, and what it remembers."""
        if not value.cache_info().currsize:
            self._undo.append(value.cache_clear)
        self._record_members(cached_by(value))

    def _record_data(self, value: Any) -> None:
        """A data set, a loader or a sampler: followed last, and not as far."""
        if self._is_within_data:
            self._record_instance(value)
        else:
            del self._seen[id(value)]
            self._data.append(value)

    def _record_queue(self, value: queue.Queue[Any]) -> None:
        self._undo.append(queue_restorer(value))
        self._record_members(list(value.queue))

    def _record_simple_queue(self, value: queue.SimpleQueue[Any]) -> None:
        n_items = value.qsize()

        def check() -> None:
            if value.qsize() != n_items:
                raise ModelStateError(f"a queue.SimpleQueue with {n_items} items before, {value.qsize()} afterwards")

        self._undo.append(check)

    def _record_frame(self, value: Any) -> None:
        self._record_dict(vars(value))
        self._undo.append(frame_restorer(value))
        self._pending.extend(item for item in objects_of(value) if type(item) not in ATOMS)

    def _record_logger(self, value: Any) -> None:
        self._undo.append(logger_restorer(value))
        self._pending.extend([value.filters, getattr(value, "handlers", None)])
        if not is_from(type(value).__module__, LIBRARIES):
            self._record_instance(value)

    def _record_proxy(self, value: Any) -> None:
        with suppress(ReferenceError):  # what it stands for is gone
            self._pending.append(value.__dir__.__self__)

    def _record_numbers(self, value: array[Any]) -> None:
        self._undo.append(partial(value.__setitem__, slice(None), value[:]))

    def _record_context(self, value: ContextVar[Any]) -> None:
        try:
            content = value.get()
        except LookupError:
            return
        self._undo.append(partial(value.reset, value.set(content)))
        self._pending.append(content)


@lru_cache(maxsize=4096)
def _recorder_of(kind: type) -> Callable[[StateWalk, Any], None] | None:
    """How objects of a class are recorded; None if they have no state, or do not belong to the model."""
    if kind in ATOMS or issubclass(kind, ModuleType):
        return None
    for base, record in _RECORDERS:
        if issubclass(kind, base):
            return record
    if is_frame(kind):
        return StateWalk._record_frame
    if is_foreign(cast(Any, kind)):
        return None
    return StateWalk._record_instance


def _record_parts(names: tuple[str, ...]) -> Callable[[StateWalk, Any], None]:
    return lambda state, value: state._pending.extend(getattr(value, name) for name in names)


def _undone_by(restorer: Callable[[Any], Callable[[], object]]) -> Callable[[StateWalk, Any], None]:
    return lambda state, value: state._undo.append(restorer(value))


_RECORDERS: tuple[tuple[type | tuple[type, ...], Callable[[StateWalk, Any], None]], ...] = (
    (Tensor, StateWalk._record_tensor),
    (torch.jit.ScriptModule, StateWalk._record_script),
    (nn.Module, StateWalk._record_module),
    (dict, StateWalk._record_dict),
    (list, StateWalk._record_list),
    ((tuple, frozenset), StateWalk._record_members),
    ((set, deque, bytearray), StateWalk._record_collection),
    ((Dataset, DataLoader, Sampler), StateWalk._record_data),
    (queue.Queue, StateWalk._record_queue),
    (queue.SimpleQueue, StateWalk._record_simple_queue),
    ((*(kind for kind, _ in SHARED), BaseProxy), _undone_by(shared_restorer)),
    ((logging.Logger, logging.Handler, logging.Filter), StateWalk._record_logger),
    (torch.UntypedStorage, StateWalk._record_storage),
    (np.ndarray, StateWalk._record_array),
    (GENERATORS, _undone_by(generator_restorer)),
    (array, StateWalk._record_numbers),
    (MEMORY, _undone_by(memory_restorer)),
    (SynchronizedBase, _record_parts(("_obj",))),
    (SharedMemory, _record_parts(("_mmap",))),
    (weakref.ref, lambda state, value: state._pending.append(value())),
    (weakref.ProxyTypes, StateWalk._record_proxy),
    (MappingProxyType, lambda state, value: state._pending.extend(gc.get_referents(value))),
    (io.IOBase, _undone_by(file_restorer)),
    (ContextVar, StateWalk._record_context),
    (threading.local, _record_parts(("__dict__",))),
    ((WeakKeyDictionary, WeakValueDictionary), _record_parts(("data",))),
    (FunctionType, StateWalk._record_function),
    (CACHE, StateWalk._record_cache),
    (memoryview, _record_parts(("obj",))),
    (MethodType, _record_parts(("__self__", "__func__"))),
    ((BuiltinMethodType, MethodWrapperType), _record_parts(("__self__",))),
    (partial, _record_parts(("func", "args", "keywords"))),
    ((staticmethod, classmethod), _record_parts(("__func__",))),
    (property, _record_parts(("fget", "fset"))),
    (type, StateWalk._record_class),
)
