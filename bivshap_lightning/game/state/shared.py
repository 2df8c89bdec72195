"""Queues, events and pipes: what other threads or processes may use while a model is run.

They cannot simply be put back afterwards, because what another thread has put in or taken out meanwhile would be lost
or come twice. So the thread that runs the model gets a queue of its own, while others use the real one; what has no
content in Python is refused if that thread uses it.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from copy import copy
from multiprocessing.connection import Connection
from multiprocessing.managers import BaseProxy
from multiprocessing.queues import Queue as ProcessQueue
from multiprocessing.queues import SimpleQueue as ProcessSimpleQueue
from multiprocessing.synchronize import Barrier as ProcessBarrier
from multiprocessing.synchronize import Event as ProcessEvent
from typing import Any, NoReturn

from bivshap_lightning.game.errors import ModelStateError
from bivshap_lightning.game.state.dicts import refill_collection

# Methods that change what other threads or processes see.
SHARED: tuple[tuple[type, tuple[str, ...]], ...] = (
    (threading.Event, ("set", "clear")),
    (threading.Barrier, ("wait", "reset", "abort")),
    (ProcessEvent, ("set", "clear")),
    (ProcessBarrier, ("wait", "reset", "abort")),
    (ProcessQueue, ("put", "get", "close")),
    (ProcessSimpleQueue, ("put", "get", "close")),
    (Connection, ("send", "send_bytes", "recv", "recv_bytes", "recv_bytes_into", "close")),
)
# Of objects in a manager's process; any other method may change them.
READING = frozenset({"__getitem__", "__len__", "__contains__", "__iter__", "keys", "values", "items", "copy", "count",
                     "index", "qsize", "empty", "full", "is_set", "__str__", "__repr__"})  # fmt: skip

_METHODS = ("put", "get", "join", "task_done", "_put", "_get", "_qsize")


class _Diverted:
    """A queue of which the thread that makes this uses a copy until :meth:`restore`."""

    def __init__(self, real: queue.Queue[Any]) -> None:
        self._real, self._thread = real, threading.get_ident()
        self._n_put, self._is_shared = 0, False
        with real.mutex:
            own: dict[str, Any] = vars(real)
            self._before = list(real.queue)
            self._copy: Any = object.__new__(type(real))
            vars(self._copy).update({k: copy(v) if isinstance(v, (list, deque, dict)) else v for k, v in own.items()})
            self._hidden = {name: own[name] for name in _METHODS if name in own}
            own.update({name: getattr(self, name) for name in _METHODS})

    @property
    def _is_own(self) -> bool:
        return threading.get_ident() == self._thread

    def _call(self, name: str, *args: Any) -> Any:
        return getattr(type(self._real), name)(self._real, *args)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if self._is_own and block and 0 < self._real.maxsize <= self._qsize():
            self._refuse_to_wait("put into a full one")
        self._call("put", item, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if self._is_own and block and not self._qsize():
            self._refuse_to_wait("get from an empty one")
        return self._call("get", block, timeout)

    def join(self) -> None:
        if self._is_own:
            self._refuse_to_wait("join")
        self._call("join")

    def task_done(self) -> None:
        if not self._is_own:
            self._call("task_done")

    def _put(self, item: Any) -> None:
        if self._is_own:
            self._n_put += 1
            type(self._real)._put(self._copy, item)
        else:
            self._is_shared = True
            self._call("_put", item)

    def _get(self) -> Any:
        if self._is_own:
            return type(self._real)._get(self._copy)
        self._is_shared = True
        return self._call("_get")

    def _qsize(self) -> int:
        return int(type(self._real)._qsize(self._copy) if self._is_own else self._call("_qsize"))

    def _refuse_to_wait(self, what: str) -> NoReturn:
        raise ModelStateError(
            f"`model` must not wait for a queue in forward, got {what} (a {type(self._real).__name__}): what is done "
            "during an audit reaches no other thread. Use it in training_step."
        )

    def restore(self) -> None:
        """Let all threads use the real queue again; what was written past its methods is undone."""
        real: Any = self._real
        with real.mutex:
            for name in _METHODS:
                vars(real).pop(name, None)
            vars(real).update(self._hidden)
            real.unfinished_tasks -= self._n_put
            if not self._is_shared and isinstance(real.queue, (list, deque)):
                if isinstance(real.queue, deque):
                    refill_collection(real.queue, self._before)
                else:
                    real.queue[:] = self._before


def queue_restorer(value: queue.Queue[Any]) -> Callable[[], object]:
    """Give this thread a copy of a queue; returns the function that ends it.

    Args:
        value: a queue for threads.

    Example:
        >>> numbers: queue.Queue[int] = queue.Queue()
        >>> numbers.put(1)
        >>> restore = queue_restorer(numbers)
        >>> numbers.put(2), numbers.get(), numbers.qsize()
        (None, 1, 1)
        >>> restore(), numbers.get(), numbers.qsize()
        (None, 1, 0)
    """
    if isinstance(getattr(vars(value).get("_put"), "__self__", None), _Diverted):
        return bool  # recorded already by an outer context
    return _Diverted(value).restore


def shared_restorer(value: Any) -> Callable[[], object]:
    """Refuse that this thread changes what other threads or processes see; returns the function that ends it.

    Args:
        value: an object of one of the classes in ``SHARED``, or in a manager's process.

    Example:
        >>> event = threading.Event()
        >>> restore = shared_restorer(event)
        >>> event.set()
        Traceback (most recent call last):
        ...
        bivshap_lightning.game.errors.ModelStateError: `model` must not use an object of other threads or ...
        >>> restore(), event.set()
        (None, None)
    """
    own, thread = vars(value), threading.get_ident()
    names = ("_callmethod",) if isinstance(value, BaseProxy) else next(n for k, n in SHARED if isinstance(value, k))
    hidden = {name: own[name] for name in names if name in own}

    def refusing(name: str) -> Callable[..., Any]:
        call = getattr(value, name)

        def method(*args: Any, **options: Any) -> Any:
            used = str(args[0]) if name == "_callmethod" and args else name
            is_idle = used in ("set", "clear") and value.is_set() == (used == "set")
            if threading.get_ident() == thread and used not in READING and not is_idle:
                raise ModelStateError(
                    "`model` must not use an object of other threads or processes in forward, got "
                    f"`{used}` of a {type(value).__name__}, which cannot be undone. Use it in training_step."
                )
            return call(*args, **options)

        return method

    methods = {name: refusing(name) for name in names}

    def restore() -> None:
        for name in names:
            del own[name]
        own.update(hidden)

    own.update(methods)
    return restore
