"""Records everything that a forward pass of a module may change, and puts it back.

A module is more than its ``state_dict``: attributes, caches, counters, metrics, random generators, hooks with closures,
class attributes and global variables may change in ``forward`` as well. :class:`ModuleState` records all state that is
reachable from a module in Python. Objects keep their identity: containers and tensors are restored in place, so that
tied tensors stay tied and references from outside (optimizers, hooks, attribution methods) stay valid.

Queues are not put back but replaced for the thread that runs the model (:mod:`bivshap_lightning.game.state.shared`).
Iterators, events, pipes and queues of other processes, which can be neither, are refused where they are used.

Not recorded are objects that do not belong to the model (Trainers, loggers, process groups, threads), what libraries
keep in C++ or in variables of their own, a bounded ``functools.lru_cache`` held by a container other than a list or
dictionary, and what a forward pass does to files and services, except for its position in a file that is only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any

from torch import nn

from bivshap_lightning.game.errors import ModelStateError
from bivshap_lightning.game.state.dicts import differing, is_identical, refill
from bivshap_lightning.game.state.kinds import global_hooks
from bivshap_lightning.game.state.walk import StateWalk


class ModuleState(StateWalk):
    """The state of a module, recorded when this is made.

    Args:
        module: the module.
        beside: further objects, followed less far, as data sets are.
        without: objects that are left alone, and that nothing is followed to.

    Example:
        >>> import torch
        >>> module = nn.BatchNorm1d(3)
        >>> module.history = []
        >>> state = ModuleState(module)
        >>> module.history.append(module(torch.ones(2, 3)))
        >>> state.restore()
        ()
        >>> module.history, int(module.num_batches_tracked)
        ([], 0)
    """

    def __init__(self, module: nn.Module, *, beside: Iterable[Any] = (), without: Iterable[Any] = ()) -> None:
        super().__init__(module, [module, *global_hooks()], beside, without)
        try:
            self._record()
        except BaseException:  # gradients have been detached so far
            self.restore()
            raise

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


@contextmanager
def preserved(module: nn.Module) -> Iterator[None]:
    """Within this context the module may be called; afterwards its state is what it was before.

    Args:
        module: the module.

    Raises:
        ModelStateError: the parameters were changed (they have been put back), or state could not be put back.

    Example:
        >>> import torch
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


@contextmanager
def objects_preserved(objects: Iterable[Any], *, without: Iterable[Any] = ()) -> Iterator[None]:
    """Within this context objects may be changed; afterwards they are what they were before.

    Args:
        objects: such as data sets and dictionaries; the items of large collections within them are not followed.
        without: objects that are left alone, and that nothing is followed to.

    Raises:
        ModelStateError: something was changed that could not be put back.

    Example:
        >>> counts = {"calls": [1]}
        >>> with objects_preserved([counts]):
        ...     counts["calls"].append(2)
        >>> counts
        {'calls': [1]}
    """
    state = ModuleState(nn.Module(), beside=objects, without=without)
    try:
        yield
    finally:
        state.restore()


def _attempt(undo: Callable[[], object], failed: list[Exception]) -> object:
    try:
        return undo()
    except Exception as error:  # everything else can still be put back
        failed.append(error)
        return None
