"""Records everything that a forward pass of a module may change, and puts it back.

A module is more than its ``state_dict``: attributes, caches, counters, metrics, random generators, hooks with closures,
class attributes and global variables may change in ``forward`` as well. :class:`ModuleState` records all state that is
reachable from a module in Python. Objects keep their identity: containers and tensors are restored in place, so that
tied tensors stay tied and references from outside (optimizers, hooks, attribution methods) stay valid.

Not recorded are objects that do not belong to the model (Trainers, loggers, callbacks, optimizers, dataloaders,
datasets, process groups, threads), what libraries keep in C++, and what a forward pass does to files or services.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import chain
from operator import is_
from types import BuiltinMethodType, CellType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from bivshap_lightning.game.errors import ModelStateError
from bivshap_lightning.game.tensor_state import ArrayCopy, TensorCopy, is_too_large

# Packages whose objects, modules excepted, do not belong to the model.
FOREIGN = (
    "aim", "asyncio", "bivshap_lightning", "captum", "clearml", "comet_ml", "concurrent", "datasets", "enum", "io",
    "_io", "lightning", "lightning_fabric", "logging", "matplotlib", "mlflow", "multiprocessing", "neptune", "pandas",
    "pyarrow", "pytorch_lightning", "queue", "ray", "_queue", "sklearn", "socket", "subprocess", "tensorboard",
    "tensorboardX", "_thread", "threading", "tokenizers", "torch._dynamo", "torch._inductor", "torch.distributed",
    "torch.fx", "torch.optim", "torch.utils.data", "torch.utils.tensorboard", "tqdm", "transformers", "wandb",
    "weakref",
)  # fmt: skip
# Packages whose classes and functions keep no state of a user's model.
LIBRARIES = (*FOREIGN, "abc", "builtins", "collections", "dataclasses", "functools", "numpy", "torch", "torchmetrics",
             "torchvision", "typing")  # fmt: skip
ATOMS = frozenset({int, float, complex, str, bytes, bool, type(None), type(...), torch.dtype, torch.device, torch.Size,
                   range, slice, torch.layout, torch.memory_format})  # fmt: skip
_EMPTY: dict[Any, Any] = {}


class RefusingIterator(Iterator[Any]):
    """Replaces an iterator whose position cannot be restored, and refuses to be advanced."""

    def __init__(self, name: str, kind: str) -> None:
        self._name, self._kind = name, kind

    def __next__(self) -> Any:
        raise ModelStateError(
            f"`model` must not advance an iterator in forward, got `next` on {self._name!r} ({self._kind}), whose "
            "position cannot be restored. Advance it in training_step, or draw from a torch.Generator."
        )


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
        self._cells: list[tuple[CellType, Any]] = []
        self._parameter_dicts: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._iterators: list[tuple[Any, Any, str]] = []
        self._seen: dict[int, Any] = {}
        self._pending: list[Any] = [module]
        while self._pending:
            value = self._pending.pop()
            if id(value) not in self._seen:
                self._seen[id(value)] = value  # also keeps it alive, so that the id stays its own
                kind: Any = type(value)
                record = _recorder_of(kind)
                if record is not None:
                    record(self, value)
        for container, key, name in self._iterators:
            container[key] = RefusingIterator(name, type(container[key]).__name__)

    def restore(self) -> tuple[str, ...]:
        """Put everything back.

        Returns:
            The names of the parameters that had been changed, except those that an embedding with ``max_norm`` scales.
        """
        changed = {id(p) for d, before in self._parameter_dicts for p in _differing(d, before)}
        for kept, before in self._dicts:
            if (kept or before) and not _is_identical(kept, before):
                _refill(kept, before)
        for items, copy in self._lists:
            if not (len(items) == len(copy) and all(map(is_, items, copy))):
                list.__setitem__(items, slice(None), copy)
        for namespace, name, value in self._variables:
            namespace[name] = value
        for cell, value in self._cells:
            cell.cell_contents = value
        for undo in self._undo:
            undo()
        lost = [array.array.shape for array in self._arrays if not array.restore()]
        changed |= {id(t.tensor) for t in self._tensors if t.restore() and isinstance(t.tensor, nn.Parameter)}
        lost += [t.tensor.shape for t in self._tensors if t.is_lost]
        if lost:
            raise ModelStateError(
                f"`model` must not write in forward to large tensors that are no buffers, got a changed attribute of "
                f"shape {tuple(lost[0])}, which could not be put back. Register it as a buffer."
            )
        return self._names(changed) if changed else ()

    def _names(self, changed: set[int]) -> tuple[str, ...]:
        scaled = {
            id(m.weight)
            for m in self._module.modules()
            if isinstance(m, (nn.Embedding, nn.EmbeddingBag)) and m.max_norm is not None
        }
        names = {id(p): name for name, p in self._module.named_parameters()}
        return tuple(names.get(key, "a parameter") for key in sorted(changed - scaled, key=lambda k: names.get(k, "")))

    def _record_dict(self, value: dict[Any, Any]) -> None:
        if not value:  # as most dictionaries of hooks are
            self._dicts.append((value, _EMPTY))
            return
        self._dicts.append((value, dict(value)))
        for key, item in value.items():
            kind: Any = type(item)
            if kind not in ATOMS:
                if _is_opaque_iterator(kind):
                    self._iterators.append((value, key, str(key)))
                else:
                    self._pending.append(item)

    def _record_list(self, value: list[Any]) -> None:
        self._lists.append((value, list(value)))
        for index, item in enumerate(value):
            kind: Any = type(item)
            if kind not in ATOMS:
                if _is_opaque_iterator(kind):
                    self._iterators.append((value, index, f"[{index}]"))
                else:
                    self._pending.append(item)

    def _record_members(self, value: Any) -> None:
        self._pending.extend(item for item in value if type(item) not in ATOMS)

    def _record_collection(self, value: Any) -> None:
        """A set, a deque or a bytearray."""
        saved, fill = list(value), value.update if isinstance(value, set) else value.extend
        self._undo.append(lambda: (value.clear(), fill(saved)))
        self._record_members(saved)
        if hasattr(value, "__dict__"):
            self._record_dict(value.__dict__)

    def _record_tensor(self, value: Tensor) -> None:
        is_large = not isinstance(value, nn.Parameter) and is_too_large(value)
        is_copied = not is_large or any(value is buffer for buffer in self._module.buffers())
        self._tensors.append(TensorCopy(value, is_copied=is_copied))
        if value.__dict__:
            self._record_dict(value.__dict__)

    def _record_array(self, value: Any) -> None:
        self._arrays.append(ArrayCopy(value))
        if value.dtype.hasobject:
            self._record_members(value.flat)

    def _record_instance(self, value: Any) -> None:
        kind: Any = type(value)
        if hasattr(value, "__dict__"):
            self._record_dict(vars(value))
        for name in _slots_of(kind):
            if hasattr(value, name):
                saved = getattr(value, name)
                self._undo.append(partial(object.__setattr__, value, name, saved))
                self._pending.append(saved)
        self._pending.extend(_own_classes(kind))

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
        is_own = not _is_from(value.__globals__.get("__name__", ""), LIBRARIES)
        for cell in value.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not yet filled
                continue
            self._pending.append(content)
            if is_own:
                self._cells.append((cell, content))
        self._pending.extend(part for part in (value.__defaults__, value.__kwdefaults__, value.__dict__) if part)
        if is_own:
            for name in _global_names(value.__code__):
                if name in value.__globals__:
                    variable = value.__globals__[name]
                    self._variables.append((value.__globals__, name, variable))
                    self._pending.append(variable)

    def _record_class(self, value: type) -> None:
        if _is_from(value.__module__, LIBRARIES):
            return
        saved = {name: item for name, item in vars(value).items() if not name.startswith("__")}
        self._undo.append(partial(_restore_class, value, saved))
        self._record_members(saved.values())
        self._record_members(item for item in vars(value).values() if type(item) is FunctionType)

    def _record_generator(self, value: Any) -> None:
        if isinstance(value, torch.Generator):
            self._undo.append(partial(value.set_state, value.get_state()))
        elif isinstance(value, np.random.Generator):
            bits: Any = value.bit_generator
            self._undo.append(partial(setattr, bits, "state", bits.state))
        elif isinstance(value, np.random.RandomState):
            self._undo.append(partial(value.set_state, value.get_state(legacy=False)))
        else:
            self._undo.append(partial(value.setstate, value.getstate()))


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
    if any(_is_from(base.__module__, FOREIGN) for base in kind.__mro__):
        return None
    return ModuleState._record_instance


def _record_parts(names: tuple[str, ...]) -> Callable[[ModuleState, Any], None]:
    return lambda state, value: state._pending.extend(getattr(value, name) for name in names)


_RECORDERS: tuple[tuple[type | tuple[type, ...], Callable[[ModuleState, Any], None]], ...] = (
    (Tensor, ModuleState._record_tensor),
    (torch.jit.ScriptModule, ModuleState._record_script),
    (nn.Module, ModuleState._record_module),
    (dict, ModuleState._record_dict),
    (list, ModuleState._record_list),
    ((tuple, frozenset), ModuleState._record_members),
    ((set, deque, bytearray), ModuleState._record_collection),
    (np.ndarray, ModuleState._record_array),
    ((torch.Generator, np.random.Generator, np.random.RandomState, random.Random), ModuleState._record_generator),
    (FunctionType, ModuleState._record_function),
    (MethodType, _record_parts(("__self__", "__func__"))),
    (BuiltinMethodType, _record_parts(("__self__",))),
    (partial, _record_parts(("func", "args", "keywords"))),
    ((staticmethod, classmethod), _record_parts(("__func__",))),
    (property, _record_parts(("fget", "fset"))),
    (type, ModuleState._record_class),
)


@lru_cache(maxsize=4096)
def _is_opaque_iterator(kind: type) -> bool:
    """Whether objects of a class are iterators whose position cannot be read and set."""
    if not hasattr(kind, "__next__"):
        return False
    is_built_in = kind.__module__ in ("itertools", "builtins") and kind.__name__ != "iterator"
    return issubclass(kind, GeneratorType) or is_built_in or kind.__module__.startswith("torch.utils.data")


@lru_cache(maxsize=4096)
def _own_classes(kind: type) -> tuple[type, ...]:
    """The classes of an object that a user wrote."""
    return tuple(base for base in kind.__mro__ if not _is_from(base.__module__, LIBRARIES))


@lru_cache(maxsize=4096)
def _slots_of(kind: type) -> tuple[str, ...]:
    slots = [vars(base).get("__slots__", ()) for base in kind.__mro__]
    names = chain.from_iterable([names] if isinstance(names, str) else names for names in slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


@lru_cache(maxsize=4096)
def _global_names(code: CodeType) -> tuple[str, ...]:
    """The names that code, and functions defined in it, may use as global variables."""
    inner = (_global_names(part) for part in code.co_consts if isinstance(part, CodeType))
    return tuple(dict.fromkeys(chain(code.co_names, *inner)))


@lru_cache(maxsize=4096)
def _is_from(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _is_identical(now: dict[Any, Any], before: dict[Any, Any]) -> bool:
    """Whether two dictionaries hold the same objects in the same order."""
    return len(now) == len(before) and all(map(is_, now, before)) and all(map(is_, now.values(), before.values()))


def _differing(now: dict[Any, Any], before: dict[Any, Any]) -> list[Any]:
    """Values that were there before and have been replaced or removed, or have been added."""
    if _is_identical(now, before):
        return []
    gone = [value for name, value in before.items() if now.get(name) is not value]
    return gone + [value for name, value in now.items() if name not in before]


def _refill(kept: dict[Any, Any], before: dict[Any, Any]) -> None:
    """Give a dictionary its former content, in the former order, past methods that a subclass overrides."""
    kind: type[dict[Any, Any]] = OrderedDict if isinstance(kept, OrderedDict) else dict
    kind.clear(kept)
    for name, value in before.items():
        kind.__setitem__(kept, name, value)


def _restore_class(kind: type, saved: dict[str, Any]) -> None:
    now = {name: value for name, value in vars(kind).items() if not name.startswith("__")}
    for name, value in saved.items():
        if now.get(name, ...) is not value:
            setattr(kind, name, value)
    for name in now.keys() - saved.keys():
        delattr(kind, name)
