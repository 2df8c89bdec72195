"""Records everything that a forward pass of a module may change, and puts it back.

A module is more than its ``state_dict``: attributes, caches, counters, metrics, random generators, hooks with closures,
class attributes and global variables may change in ``forward`` as well. :class:`ModuleState` records all state that is
reachable from a module in Python. Objects keep their identity: containers and tensors are restored in place, so that
tied tensors stay tied and references from outside (optimizers, hooks, attribution methods) stay valid.

Not recorded are objects that do not belong to the model (Trainers, loggers, dataloaders, datasets, data frames, process
groups, threads and their queues), what libraries keep in C++, new entries of a bounded ``functools.lru_cache`` that had
some, and what a forward pass does to files, services or environment variables, except for its position in a file that
is only read.
"""

from __future__ import annotations

import io
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import chain
from multiprocessing.sharedctypes import SynchronizedBase
from operator import is_
from types import BuiltinMethodType, CellType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import torch
from torch import Tensor, nn

from bivshap_lightning.game.dict_state import differing, is_identical, items_of, refill, refill_collection
from bivshap_lightning.game.errors import ModelStateError
from bivshap_lightning.game.state_kinds import (
    ATOMS,
    CONTAINERS,
    GENERATORS,
    LIBRARIES,
    MEMORY,
    RefusingIterator,
    cached_by,
    file_restorer,
    generator_restorer,
    global_hooks,
    global_names,
    is_foreign,
    is_from,
    is_opaque_iterator,
    is_own_module,
    memory_restorer,
    own_classes,
    restore_class,
    restore_slot,
    slot_content,
    slots_of,
    unrestorable_iterator,
)
from bivshap_lightning.game.tensor_state import ArrayCopy, TensorCopy, is_too_large

_EMPTY: dict[Any, Any] = {}


class ModuleState:
    """The state of a module, recorded when this is made.

    Args:
        module: the module.

    Example:
        >>> module = nn.BatchNorm1d(3)
        >>> module.history = []
        >>> state = ModuleState(module)
        >>> module.history.append(module(torch.ones(2, 3)))
        >>> state.restore()
        ()
        >>> module.history, int(module.num_batches_tracked)
        ([], 0)
    """

    def __init__(self, module: nn.Module) -> None:
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
        self._seen: dict[int, Any] = {}
        self._pending: list[Any] = [module, *global_hooks()]
        try:
            self._record()
        except BaseException:  # gradients have been detached so far
            self.restore()
            raise

    def _record(self) -> None:
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
        for put, stand_in in self._stand_ins:
            put(stand_in)

    def restore(self) -> tuple[str, ...]:
        """Put everything back.

        Returns:
            The names of the parameters that had been changed, except those that an embedding with ``max_norm`` scales.
        """
        changed = {id(p) for d, before in self._parameter_dicts for p in differing(d, before)}
        for kept, before in self._dicts:
            if (kept or before) and not is_identical(kept, before):
                refill(kept, before)
        for items, copy in self._lists:
            if not (list.__len__(items) == len(copy) and all(map(is_, list.__iter__(items), copy))):
                list.__setitem__(items, slice(None), copy)
        for namespace, name, value in self._variables:
            namespace[name] = value
        for cell, value in self._cells:
            cell.cell_contents = value
        failed: list[Exception] = []
        for undo in self._undo:
            _attempt(undo, failed)
        lost = [array.array.shape for array in self._arrays if _attempt(array.restore, failed) is False]
        written = [t.tensor for t in self._tensors if _attempt(t.restore, failed)]
        changed |= {id(tensor) for tensor in written if isinstance(tensor, nn.Parameter)}
        lost += [t.tensor.shape for t in self._tensors if t.is_lost]
        if lost:
            raise ModelStateError(
                f"`model` must not write in forward to large tensors that are no buffers, got a changed attribute of "
                f"shape {tuple(lost[0])}, which could not be put back. Register it as a buffer."
            )
        if failed:  # after everything else has been put back
            raise ModelStateError(
                f"`model` must hold state that can be put back, got {type(failed[0]).__name__}: {failed[0]}. Do not "
                "change it in forward."
            ) from failed[0]
        return self._names(changed) if changed else ()

    def _names(self, changed: set[int]) -> tuple[str, ...]:
        scaled = {
            id(m.weight)
            for m in self._module.modules()
            if isinstance(m, (nn.Embedding, nn.EmbeddingBag)) and m.max_norm is not None
        }
        names = {id(p): name for name, p in self._module.named_parameters()}
        return tuple(names.get(key, "a parameter") for key in sorted(changed - scaled, key=lambda k: names.get(k, "")))

    def _follow(self, value: Any, name: str, put: Callable[[Any], object]) -> None:
        """Record a value; an iterator that cannot be put back is replaced where it is held, also within a tuple."""
        kind: Any = type(value)
        if is_opaque_iterator(kind):
            self._stand_ins.append((put, RefusingIterator(name, kind.__name__)))
            return
        if kind is tuple and any(map(is_opaque_iterator, map(type, value))):
            is_opaque = list(map(is_opaque_iterator, map(type, value)))
            parts = (RefusingIterator(name, type(v).__name__) if is_opaque[k] else v for k, v in enumerate(value))
            self._stand_ins.append((put, tuple(parts)))
            self._pending.extend(v for k, v in enumerate(value) if not is_opaque[k])
        else:
            self._pending.append(value)

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
        for key, item in items.items():
            if type(item) not in ATOMS:
                self._follow(item, str(key), partial(dict.__setitem__, value, key))

    def _record_list(self, value: list[Any]) -> None:
        self._record_attributes(value)
        items = list.copy(value)
        self._lists.append((value, items))
        for index, item in enumerate(items):
            if type(item) not in ATOMS:
                self._follow(item, f"[{index}]", partial(list.__setitem__, value, index))

    def _record_members(self, value: Iterable[Any]) -> None:
        self._record_attributes(value)
        self._pending.extend(item for item in value if type(item) not in ATOMS)

    def _record_collection(self, value: Any) -> None:
        """A set, a deque or a bytearray."""
        self._undo.append(partial(refill_collection, value, saved := list(value)))
        self._record_members(saved)
        self._record_attributes(value)

    def _record_tensor(self, value: Tensor) -> None:
        is_large = not isinstance(value, nn.Parameter) and is_too_large(value)
        is_copied = not is_large or any(value is buffer for buffer in self._module.buffers())
        self._tensors.append(TensorCopy(value, is_copied=is_copied))
        if value.__dict__:
            self._record_dict(value.__dict__)

    def _record_array(self, value: Any) -> None:
        self._arrays.append(ArrayCopy(value))
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
        self._pending.extend(part for part in (value.__defaults__, value.__kwdefaults__, value.__dict__) if part)
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

    def _record_numbers(self, value: array[Any]) -> None:
        self._undo.append(partial(value.__setitem__, slice(None), value[:]))

    def _record_context(self, value: ContextVar[Any]) -> None:
        try:
            content = value.get()
        except LookupError:
            return
        self._undo.append(partial(value.reset, value.set(content)))
        self._pending.append(content)


@contextmanager
def preserved(module: nn.Module) -> Iterator[None]:
    """Within this context the module may be called; afterwards its state is what it was before.

    Args:
        module: the module.

    Raises:
        ModelStateError: the parameters were changed (they have been put back), or state could not be put back.

    Example:
        >>> module = nn.BatchNorm1d(3)
        >>> with preserved(module):
        ...     scores = module(torch.randn(5, 3))
        >>> module.running_mean
        tensor([0., 0., 0.])
    """
    state = ModuleState(module)
    try:
        yield
    except Exception as error:
        _refuse_changes(state.restore(), error)
        raise
    except BaseException:
        state.restore()
        raise
    _refuse_changes(state.restore())


def _refuse_changes(parameters: tuple[str, ...], error: Exception | None = None) -> None:
    if parameters:
        raise ModelStateError(
            "`model` must not change its parameters in forward, got changes of "
            f"{', '.join(map(repr, parameters[:5]))}, which were put back. Change them in training_step, or use a "
            "parametrization."
        ) from error


@lru_cache(maxsize=4096)
def _recorder_of(kind: type) -> Callable[[ModuleState, Any], None] | None:
    """How objects of a class are recorded; None if they have no state, or do not belong to the model."""
    if kind in ATOMS or issubclass(kind, ModuleType):
        return None
    for base, record in _RECORDERS:
        if issubclass(kind, base):
            return record
    if is_foreign(cast(Any, kind)):
        return None
    return ModuleState._record_instance


def _record_parts(names: tuple[str, ...]) -> Callable[[ModuleState, Any], None]:
    return lambda state, value: state._pending.extend(getattr(value, name) for name in names)


def _undone_by(restorer: Callable[[Any], Callable[[], object]]) -> Callable[[ModuleState, Any], None]:
    return lambda state, value: state._undo.append(restorer(value))


_RECORDERS: tuple[tuple[type | tuple[type, ...], Callable[[ModuleState, Any], None]], ...] = (
    (Tensor, ModuleState._record_tensor),
    (torch.jit.ScriptModule, ModuleState._record_script),
    (nn.Module, ModuleState._record_module),
    (dict, ModuleState._record_dict),
    (list, ModuleState._record_list),
    ((tuple, frozenset), ModuleState._record_members),
    ((set, deque, bytearray), ModuleState._record_collection),
    (np.ndarray, ModuleState._record_array),
    (GENERATORS, _undone_by(generator_restorer)),
    (array, ModuleState._record_numbers),
    (MEMORY, _undone_by(memory_restorer)),
    (SynchronizedBase, _record_parts(("_obj",))),
    (io.IOBase, _undone_by(file_restorer)),
    (ContextVar, ModuleState._record_context),
    (threading.local, _record_parts(("__dict__",))),
    ((WeakKeyDictionary, WeakValueDictionary), _record_parts(("data",))),
    (FunctionType, ModuleState._record_function),
    (type(lru_cache(int)), ModuleState._record_cache),
    (memoryview, _record_parts(("obj",))),
    (MethodType, _record_parts(("__self__", "__func__"))),
    ((BuiltinMethodType, MethodWrapperType), _record_parts(("__self__",))),
    (partial, _record_parts(("func", "args", "keywords"))),
    ((staticmethod, classmethod), _record_parts(("__func__",))),
    (property, _record_parts(("fget", "fset"))),
    (type, ModuleState._record_class),
)


def _attempt(undo: Callable[[], object], failed: list[Exception]) -> object:
    try:
        return undo()
    except Exception as error:  # everything else can still be put back
        failed.append(error)
        return None
