"""Keeps the processes of an audit from waiting for each other for ever, and tells all of them of an error on one.

A forward pass (or a backward pass) of the user's model may communicate between processes. :class:`CollectiveGuard` sees
every collective of torch.distributed before it begins and refuses those that another process would not come to.
"""

from __future__ import annotations

import itertools
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed import distributed_c10d
from torch.distributed.constants import default_pg_timeout
from torch.utils._python_dispatch import TorchDispatchMode

from bivshap_lightning.callbacks.lightning import any_process, gather_objects
from bivshap_lightning.game.model import is_out_of_memory

ELSEWHERE = "the audit failed on another process"
LONGEST_PAUSE = 0.01  # seconds between two looks at which processes have come


class CollectiveError(RuntimeError):
    """A collective that not all processes would have made; it was refused before it began."""


class CollectiveGuard(TorchDispatchMode):
    """Refuses collectives that would leave a process waiting within its context.

    Where processes explain different samples, all collectives are refused. Where they make the same forward passes, a
    collective begins when all processes of its group have announced it, and is refused if one of them has left the
    context. Announcements go through the key-value store that torch.distributed was initialised with. Messages from
    one process to another (send, receive) are not announced.

    Args:
        trainer: the Trainer, of several processes. Every process must make the guard.
        together: whether all processes make the same forward passes.

    Attributes:
        found: names of the collectives that were met.
        refusal: why one was refused; empty if none was. The model may have swallowed the error.
    """

    _sections = itertools.count()

    def __init__(self, trainer: Any, *, together: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.together, self.found = together, set[str]()
        self.refusal = ""
        self._rank, self._counts = distributed.get_rank(), dict[str, int]()
        self._store = distributed_c10d._get_default_store()
        self._prefix = f"bivshap/{gather_objects(trainer, next(self._sections))[0]}"

    def __exit__(self, *error: Any) -> None:
        """Tell the other processes that this one comes to no further collective."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._store.set(self._left(self._rank), "")

    def forget(self) -> None:
        """Delete what was announced. Call it when all processes have left the context."""
        for key in [self._left(self._rank), *(self._here(name, n, self._rank) for name, n in self._counts.items())]:
            self._store.delete_key(key)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operator, unless it is a collective that has to be refused."""
        if "c10d" in func.namespace and (group := _group_of(args)) is not None:
            self.found.add(str(func))
            if not self.together:
                raise self._refuse(f"{func} on process {self._rank} while others explain other samples")
            if "send" not in str(func) and "recv" not in str(func):
                self._meet(str(func), group)
        return func(*args, **(kwargs or {}))

    def _meet(self, operator: str, group: distributed.ProcessGroup) -> None:
        """Wait until all processes of the group have come to the collective."""
        name, ranks = group.group_name, distributed.get_process_group_ranks(group)
        n = self._counts.get(name, 0) + 1
        self._store.set(self._here(name, n, self._rank), "")
        self._counts[name] = n
        wanted = [self._here(name, n, rank) for rank in ranks]
        pause, end = 1e-5, time.monotonic() + default_pg_timeout.total_seconds()
        while not self._store.check(wanted):
            left = [rank for rank in ranks if rank != self._rank and self._store.check([self._left(rank)])]
            # Looked at once more, because a process may have come to it and left since.
            if (left or time.monotonic() > end) and not self._store.check(wanted):
                absent = f"process {left[0]} had left the audit" if left else "others were waited for in vain"
                raise self._refuse(f"{operator} on process {self._rank} when {absent}")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        if n > 1:  # all have come here, so nobody looks at the one before any more
            self._store.delete_key(self._here(name, n - 1, self._rank))

    def _refuse(self, got: str) -> CollectiveError:
        self.refusal = (
            f"`model` must make the same collectives on all processes for the same inputs, got {got}. It was refused "
            "before it began."
        )
        return CollectiveError(self.refusal)

    def _here(self, group: str, n: int, rank: int) -> str:
        return f"{self._prefix}/{group}/{n}/{rank}"

    def _left(self, rank: int) -> str:
        return f"{self._prefix}/left/{rank}"


def _group_of(args: tuple[Any, ...]) -> distributed.ProcessGroup | None:
    """The processes that take part in an operator of torch.distributed; None if it does not communicate."""
    for value in args:
        if isinstance(value, torch.ScriptObject):
            try:
                return distributed.ProcessGroup.unbox(value)
            except RuntimeError:  # it is something else, such as the kind of reduction
                continue
    if args and isinstance(args[-1], str):
        resolve: Any = vars(distributed_c10d)["_resolve_process_group"]
        group: distributed.ProcessGroup = resolve(args[-1])
        return group
    return None


def failure_anywhere(trainer: Any, own: BaseException | None) -> BaseException | None:
    """The error of this process, or one that names that of another; None if all went well.

    A collective: every process must call it.

    Args:
        trainer: the Trainer.
        own: the error of this process. Refused collectives give way to errors of other processes, which caused them.
    """
    if not any_process(trainer, own):
        return None
    text = None if own is None else "".join(traceback.format_exception_only(own)).strip()
    errors = [e for e in gather_objects(trainer, (isinstance(own, CollectiveError), text)) if e[1] is not None]
    is_refusal, cause = min(errors, key=lambda e: e[0])
    if own is None or (isinstance(own, CollectiveError) and not is_refusal):
        return RuntimeError(f"{ELSEWHERE}: {cause}")
    return own


@contextmanager
def process_group_ended() -> Iterator[None]:
    """End the process group of gloo that was made within this context, as Lightning does for NCCL alone.

    A process that ends while threads of gloo still run is aborted now and then, and its exit code is lost.

    Example:
        >>> with process_group_ended():
        ...     distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
        >>> distributed.is_initialized()
        False
    """

    def is_there() -> bool:
        return distributed.is_available() and distributed.is_initialized()

    was_there = is_there()
    try:
        yield
    finally:
        if not was_there and is_there() and distributed.get_backend() == "gloo":
            distributed.destroy_process_group()


class ModelError(Exception):
    """An error that the user's model raised, told from errors of the audit.

    Args:
        cause: the error.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class AttributedErrors(nn.Module):
    """A model whose errors are raised as :class:`ModelError`.

    Memory that ran out and unknown codes of embeddings pass unchanged, because the game handles them.

    Args:
        module: the model.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *tensors: Tensor) -> Any:
        """Call the model."""
        try:
            return self.module(*tensors)
        except Exception as error:
            if isinstance(error, IndexError | ModelError) or is_out_of_memory(error):
                raise
            raise ModelError(error) from error
