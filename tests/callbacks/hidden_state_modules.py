"""Models that keep what they count in places where no walk over ``state_dict`` or attributes finds it.

Each counts its forward passes and uses the count in training, so that one pass too many changes the weights.
"""

from __future__ import annotations

import csv
import ctypes
import functools
import io
import itertools
import mmap
import multiprocessing
import threading
import weakref
from array import array
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from unittest import mock

import numpy as np
import pytorch_lightning as pl
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import BertConfig

from tests import counting
from tests.callbacks.style_modules import Base, Style, data

Count = Callable[[], int]
VARIABLE: ContextVar[int] = ContextVar("VARIABLE", default=0)


class Counting(Base):
    """Asks a function that ``make`` makes how many forward passes there were, this one included."""

    def __init__(self, make: Callable[[Counting], Count]) -> None:
        super().__init__()
        self.count = make(self)

    def forward(self, x: Tensor) -> Tensor:
        number = self.count()
        return self.net(x) * (1 + 0.01 * (number % 5) + 0.003 * (number % 7) if self.training else 1)


class PrivateSlot:
    __slots__ = ("__n",)

    def __init__(self) -> None:
        self.__n = 0

    def tick(self) -> int:
        self.__n += 1
        return self.__n


def weak_keys(module: Counting) -> Count:
    calls: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()

    def count() -> int:
        calls[module.net] = calls.get(module.net, 0) + 1
        return calls[module.net]

    return count


class Marked(Tensor):
    pass


def tensor_subclass(module: Counting) -> Count:
    module.register_buffer("calls", torch.zeros(1).as_subclass(Marked))
    return lambda: int(module.calls.add_(1))


def expanded(module: Counting) -> Count:
    one = torch.zeros(1)
    module.one, module.many = one, one.expand(4)
    return lambda: int(module.one.add_(1)) + int(module.many[2])


class NotIterable(dict[str, int]):
    """Loads what it holds when it is iterated, which an audit must not cause."""

    def __iter__(self) -> Any:
        raise RuntimeError("loads everything")

    keys = items = values = __iter__


def lazy_dictionary(_: Counting) -> Count:
    calls = NotIterable(n=0)

    def count() -> int:
        calls["n"] += 1
        return calls["n"]

    return functools.partial(count)


def imported_function(_: Counting) -> Count:
    return lambda: counting.tick()


def imported_variable(_: Counting) -> Count:
    def count() -> int:
        counting.n_calls += 1
        return counting.n_calls

    return count


def thread_local(module: Counting) -> Count:
    module.local = threading.local()
    module.local.n = 0

    def count() -> int:
        module.local.n += 1
        return int(module.local.n)

    return count


def context_variable(_: Counting) -> Count:
    VARIABLE.set(0)

    def count() -> int:
        VARIABLE.set(VARIABLE.get() + 1)
        return VARIABLE.get()

    return count


def array_of_numbers(module: Counting) -> Count:
    module.calls = array("l", [0])

    def count() -> int:
        module.calls[0] += 1
        return module.calls[0]

    return count


def file_in_memory(module: Counting) -> Count:
    module.file = io.StringIO()
    return lambda: module.file.write("a line\n") + len(module.file.getvalue())


def number_of_c(module: Counting) -> Count:
    module.numbers, module.pointer = (ctypes.c_int * 2)(), ctypes.c_char_p(b"left alone")

    def count() -> int:
        module.numbers[1] += 1
        return module.numbers[1]

    return count


def shared_number(module: Counting) -> Count:
    module.number, module.half = multiprocessing.Value("i", 0), multiprocessing.Array("d", 1)

    def count() -> int:
        module.number.value += 1
        module.half[0] += 0.5
        return module.number.value + int(module.half[0])

    return count


def mapped_memory(module: Counting) -> Count:
    module.memory = mmap.mmap(-1, 2)

    def count() -> int:
        module.memory[0] = (module.memory[0] + 1) % 256
        return module.memory[0]

    return count


def position_in_a_file(module: Counting) -> Count:
    """Reads its own source, bytes and text, a bit further in each pass."""
    module.octets, module.text = open(__file__, "rb"), open(__file__, encoding="utf-8")  # noqa: SIM115
    for file in (module.octets, module.text):
        weakref.finalize(module, file.close)
    return lambda: module.octets.read(1)[0] + ord(module.text.read(1))


def mock_object(module: Counting) -> Count:
    """Has whatever attribute it is asked for, and makes a class for each."""
    module.service = mock.MagicMock()

    def count() -> int:
        module.service(3)
        return int(module.service.call_count)

    return count


def bit_generator(module: Counting) -> Count:
    module.bits = np.random.PCG64(3)
    return lambda: int(module.bits.random_raw() % 5)


def configuration(module: Counting) -> Count:
    module.config = BertConfig(n_calls=0)

    def count() -> int:
        module.config.n_calls += 1
        return int(module.config.n_calls)

    return count


def hook_on_all_modules(module: Counting) -> Count:
    """Nothing but torch's own dictionary of global hooks leads to the state, until training asks for it."""
    calls = [0]

    def hook(called: nn.Module, args: Any, output: Any) -> None:
        calls[0] += called is reference()

    reference = weakref.ref(module.net)
    handle = nn.modules.module.register_module_forward_hook(hook)
    SECRET["calls"] = calls
    module.on_train_batch_start = lambda *_: setattr(module, "seen", read_secret())
    module.on_fit_end = handle.remove
    return lambda: getattr(module, "seen", 0)


SECRET: dict[str, list[int]] = {}


def read_secret() -> int:
    return globals()["SEC" + "RET"]["calls"][0]


class CountsByHook(pl.Callback):
    """A user's callback that watches activations."""

    n_calls = 0

    def on_fit_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        pl_module.net.register_forward_hook(self.watch)

    def watch(self, module: nn.Module, args: Any, output: Any) -> None:
        self.n_calls += 1

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        pl_module.seen = self.n_calls


def seen_by_callback(module: Counting) -> Count:
    module.seen = 0
    return lambda: module.seen


class ClassIterator(Base):
    numbers = itertools.count()

    def forward(self, x: Tensor) -> Tensor:
        next(self.numbers)
        return super().forward(x)


def closed_over(_: Counting) -> Count:
    numbers = itertools.count()
    return lambda: next(numbers)


def in_a_tuple(module: Counting) -> Count:
    module.numbers = (itertools.count(), 3)
    return lambda: next(module.numbers[0])


def iterated_loader(module: Counting) -> Count:
    module.batches = iter(DataLoader(data(400, 9), batch_size=1))
    return lambda: int(next(module.batches)[1])


class ListWithCount(list[int]):
    n = 0


class DictWithCount(dict[str, int]):
    n = 0


class TupleWithCount(tuple[int, ...]):
    n = 0


def attribute_of(kind: Any) -> Callable[[Counting], Count]:
    """A count that is an attribute of a container, not an item of it."""

    def make(module: Counting) -> Count:
        module.container = kind()

        def count() -> int:
            module.container.n += 1
            return int(module.container.n)

        return count

    return make


def remembered(module: Counting) -> Count:
    @functools.lru_cache
    def calls() -> list[int]:
        return [0]

    def count() -> int:
        calls()[0] += 1
        return calls()[0]

    count()
    return count


def remembered_for_ever(module: Counting) -> Count:
    @functools.cache
    def number(n: int) -> int:
        return n

    return lambda: number(number.cache_info().currsize) + 1


def memory_view(module: Counting) -> Count:
    module.view = memoryview(bytearray(1))

    def count() -> int:
        module.view[0] = (module.view[0] + 1) % 256
        return module.view[0]

    return count


def inner_optimizer(module: Counting) -> Count:
    """Adapts a tensor that is no parameter of the module by an optimizer with momentum."""
    module.fast = [torch.zeros(1, requires_grad=True)]
    module.inner = torch.optim.SGD(module.fast, lr=0.1, momentum=0.9)

    def count() -> int:
        with torch.enable_grad():
            module.fast[0].grad = torch.ones(1)
            module.inner.step()
        return int(100 * abs(module.fast[0].item()))

    return count


def estimator(module: Counting) -> Count:
    module.scaler = StandardScaler()
    return lambda: int(module.scaler.partial_fit([[1.0], [2.0]]).n_samples_seen_)


def attribute_of_trainer(module: Counting) -> Count:
    def count() -> int:
        module.trainer.n_calls = getattr(module.trainer, "n_calls", 0) + 1
        return module.trainer.n_calls

    return count


class StopsWhereRemoved(Base):
    """Asks the Trainer to stop when it sees inputs that are no data: all that an audit removes everything from."""

    def forward(self, x: Tensor) -> Tensor:
        if bool((x == 0).all(dim=1).any()):
            self.trainer.should_stop = True
        return super().forward(x)


class Calls(type):
    n_calls = 0


class CountsInItsClass(metaclass=Calls):
    pass


def metaclass(module: Counting) -> Count:
    Calls.n_calls = 0
    module.object = CountsInItsClass()

    def count() -> int:
        Calls.n_calls += 1
        return Calls.n_calls

    return count


def in_a_deque(module: Counting) -> Count:
    module.numbers = deque([itertools.count()])
    return lambda: next(module.numbers[0])


def in_a_partial(_: Counting) -> Count:
    return functools.partial(next, itertools.count())


def as_a_method(_: Counting) -> Count:
    return itertools.count().__next__


def in_a_default(_: Counting) -> Count:
    def count(numbers: Any = itertools.count()) -> int:  # noqa: B008 - one for all calls, on purpose
        return next(numbers)

    return count


def lines_of_a_table(module: Counting) -> Count:
    module.lines = csv.reader(str(n) for n in range(10**6))
    return lambda: int(next(module.lines)[0])


def through_a_deque(module: Counting) -> Count:
    module.numbers = iter(deque(range(10**4)))
    return lambda: next(module.numbers)


def in_tuples(module: Counting) -> Count:
    module.numbers = ((itertools.count(), 3), 4)
    return lambda: next(module.numbers[0][0])


def sent_to(module: Counting) -> Count:
    def numbers() -> Any:
        n = 0
        while True:
            n += 1
            yield n

    module.numbers = numbers()
    next(module.numbers)
    return lambda: module.numbers.send(None)


def _counting(make: Callable[[Counting], Count]) -> Callable[[], Base]:
    return lambda: Counting(make)


ADVANCED = "must not advance an iterator"
HIDDEN = "must hold iterators as attributes, variables or items of lists and dictionaries, got one"
COUNTED: tuple[Callable[[Counting], Count], ...] = (
    weak_keys, tensor_subclass, expanded, lazy_dictionary, imported_function, imported_variable, thread_local,
    context_variable, array_of_numbers, file_in_memory, bit_generator, configuration, hook_on_all_modules,
    remembered, remembered_for_ever, memory_view, inner_optimizer, estimator, attribute_of_trainer, metaclass,
    number_of_c, shared_number, mapped_memory, position_in_a_file, mock_object,
)  # fmt: skip

HIDDEN_STATE = [
    Style("count: private_slot", _counting(lambda module: PrivateSlot().tick)),
    *(Style(f"count: {make.__name__}", _counting(make)) for make in COUNTED),
    Style("count: hook of a callback", _counting(seen_by_callback), {"callbacks": lambda: [CountsByHook()]}),
    *(
        Style(f"count: {kind.__name__}", _counting(attribute_of(kind)))
        for kind in (ListWithCount, DictWithCount, TupleWithCount)
    ),
    Style("stops the Trainer where removed", StopsWhereRemoved),
    *(
        Style(f"iterator: {make.__name__}", _counting(make), refused=HIDDEN)
        for make in (in_a_deque, in_a_partial, as_a_method, in_a_default, in_tuples)
    ),
    Style("iterator: of the class", ClassIterator, refused=ADVANCED),
    *(
        Style(f"iterator: {make.__name__}", _counting(make), refused=ADVANCED)
        for make in (closed_over, in_a_tuple, iterated_loader, sent_to, through_a_deque, lines_of_a_table)
    ),
]
