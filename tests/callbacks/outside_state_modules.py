"""Models that keep what they count outside of themselves: in queues, tables, data sets, the process, the Trainer.

Each counts its forward passes and uses the count in training, so that one pass too many changes the weights.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import logging
import multiprocessing
import os
import queue
import threading
import warnings
import weakref
from collections.abc import Callable
from multiprocessing import shared_memory
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

from tests.callbacks.hidden_state_modules import Count, Counting
from tests.callbacks.style_modules import Base, Style, data


def rows_of_a_frame(module: Counting) -> Count:
    module.table = pd.DataFrame({"n": [0], "name": ["first"]})

    def count() -> int:
        module.table.loc[len(module.table)] = [len(module.table), "next"]
        return len(module.table)

    return count


def cell_of_a_frame(module: Counting) -> Count:
    module.table = pd.DataFrame({"n": [0, 5], "share": [0.5, float("nan")]}, index=["a", "b"])

    def count() -> int:
        module.table.loc["a", "n"] += 1
        return int(module.table.loc["a", "n"])

    return count


def columns_of_a_frame(module: Counting) -> Count:
    module.table = pd.DataFrame({"n": [0]})

    def count() -> int:
        module.table[f"c{module.table.shape[1]}"] = 1.0
        return int(module.table.shape[1])

    return count


def index_of_a_frame(module: Counting) -> Count:
    module.table = pd.DataFrame({"n": [0]}, index=[0])

    def count() -> int:
        module.table.index += 1
        return int(module.table.index[0])

    return count


def list_in_a_frame(module: Counting) -> Count:
    module.table = pd.DataFrame({"calls": [[0]]})

    def count() -> int:
        module.table.at[0, "calls"][0] += 1
        return int(module.table.at[0, "calls"][0])

    return count


def series(module: Counting) -> Count:
    module.calls = pd.Series([0], index=["n"], name="calls")

    def count() -> int:
        module.calls["n"] += 1
        return int(module.calls["n"])

    return count


def grown_queue(kind: Any) -> Callable[[Counting], Count]:
    def make(module: Counting) -> Count:
        module.queue = kind()

        def count() -> int:
            module.queue.put(int(module.queue.qsize()))
            return int(module.queue.qsize())

        return count

    return make


def shrunk_queue(module: Counting) -> Count:
    module.queue = queue.Queue()
    for k in range(10**4):
        module.queue.put(k)

    def count() -> int:
        number = int(module.queue.get_nowait())
        module.queue.task_done()
        return 2 * number + module.queue.unfinished_tasks  # the sum of both alone would never change

    return count


def queue_that_empties(module: Counting) -> Count:
    """Is filled by nobody during an audit, which must not wait for it."""
    module.queue = queue.Queue()
    module.on_train_batch_start = lambda *_: module.queue.put(1)
    module.on_validation_batch_start = lambda *_: module.queue.put(2)
    return lambda: int(module.queue.get())


def queue_of_processes(module: Counting) -> Count:
    module.queue = multiprocessing.Queue()
    module.queue.cancel_join_thread()
    module.on_fit_end = module.queue.close
    return lambda: module.queue.put(1) or 0


def simple_queue_of_processes(module: Counting) -> Count:
    module.queue, module.n_read = multiprocessing.SimpleQueue(), 0

    def read(*_: Any) -> None:
        while not module.queue.empty():
            module.n_read += module.queue.get()

    def count() -> int:
        module.queue.put(1)
        return int(module.n_read)

    module.on_train_batch_start = module.on_validation_batch_start = read
    module.on_fit_end = module.queue.close
    return count


def pipe(module: Counting) -> Count:
    module.reader, module.writer = multiprocessing.Pipe(duplex=False)
    module.n_read = 0

    def read(*_: Any) -> None:
        while module.reader.poll():
            module.n_read += module.reader.recv()

    def count() -> int:
        module.writer.send(1)
        return int(module.n_read)

    module.on_train_batch_start = module.on_validation_batch_start = read
    return count


def event(module: Counting) -> Count:
    module.event = threading.Event()

    def count() -> int:
        (module.event.clear if module.event.is_set() else module.event.set)()
        return int(module.event.is_set())

    return count


def environment(module: Counting) -> Count:
    os.environ["BIVSHAP_TEST_CALLS"] = "0"
    module.on_fit_end = functools.partial(os.environ.pop, "BIVSHAP_TEST_CALLS")

    def count() -> int:
        os.environ["BIVSHAP_TEST_CALLS"] = str(int(os.environ["BIVSHAP_TEST_CALLS"]) + 1)
        return int(os.environ["BIVSHAP_TEST_CALLS"])

    return count


class Table(Dataset[Any]):
    """Counts what it is asked, and what is written into it by others."""

    def __init__(self, n: int = 24, seed: int = 1) -> None:
        self.table, self.n_calls, self.calls, self.names = data(n, seed), 0, [0], [str(k) for k in range(20_000)]

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> Any:
        return self.table[index]

    def tick(self) -> int:
        self.n_calls += 1
        self.calls[0] += 1
        self.names.append("more")
        self.table.tensors[0][0, 0] += 0.5
        return self.n_calls + self.calls[0] + len(self.names) + int(self.table.tensors[0][0, 0])


def own_dataset(module: Counting) -> Count:
    module.memory = Table()
    return lambda: module.memory.tick()


def own_loader(module: Counting) -> Count:
    module.loader = DataLoader(Table(), batch_size=8)
    return lambda: module.loader.dataset.tick()


def dataset_in_training(module: Counting) -> Count:
    return lambda: 0 if module.trainer.train_dataloader is None else module.trainer.train_dataloader.dataset.tick()


def dataset_in_validation(module: Counting) -> Count:
    return lambda: module.trainer.val_dataloaders.dataset.tick()


def dataset_of_the_datamodule(module: Counting) -> Count:
    return lambda: module.trainer.datamodule.tables[0].tick()


class Weighted(RandomSampler):
    n_calls = 0


def sampler(module: Counting) -> Count:
    def count() -> int:
        loader = module.trainer.train_dataloader
        if loader is None:
            return 0
        loader.n_calls = getattr(loader, "n_calls", 0) + 1
        loader.sampler.n_calls += 1
        return int(loader.sampler.n_calls + loader.n_calls)

    return count


def tables() -> tuple[Any, Any]:
    training = Table()
    return (
        DataLoader(training, batch_size=8, sampler=Weighted(training)),
        DataLoader(Table(12, 2), batch_size=8),
    )


class TwoTables(pl.LightningDataModule):
    def __init__(self) -> None:
        super().__init__()
        self.tables = [Table(), Table(12, 2)]

    def train_dataloader(self) -> Any:
        return DataLoader(self.tables[0], batch_size=8, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(self.tables[1], batch_size=8)


def metrics_of_the_trainer(module: Counting) -> Count:
    def count() -> int:
        for found in (module.trainer.callback_metrics, module.trainer.logged_metrics):
            found["n_calls"] = found.get("n_calls", torch.zeros(())) + 1
        return int(module.trainer.callback_metrics["n_calls"])

    return count


def logs_past_the_instance(module: Counting) -> Count:
    """By the function of the class, so that no attribute of the module can stand before it."""

    def count() -> int:
        if not module.trainer.sanity_checking:
            pl.LightningModule.log(module, "n_calls", 1.0, on_step=False, on_epoch=True, reduce_fx="sum")
        return 0

    return count


class Watch(pl.Callback):
    n_calls = 0


def attribute_of_a_callback(module: Counting) -> Count:
    def count() -> int:
        (watch,) = (c for c in module.trainer.callbacks if isinstance(c, Watch))
        watch.n_calls += 1
        return watch.n_calls

    return count


class StepsWhereRemoved(Counting):
    """Adapts itself by the optimizer of training when it sees inputs that are no data."""

    def __init__(self) -> None:
        super().__init__(lambda _: lambda: 0)

    def forward(self, x: Tensor) -> Tensor:
        if bool((x == 0).all(dim=1).any()):
            with torch.enable_grad():
                self.net(x + 1).sum().backward()
            self.optimizers().step()
        return super().forward(x)


class Mode(enum.Enum):
    FIRST = 1


def enumeration(module: Counting) -> Count:
    Mode.FIRST.n_calls, module.mode = 0, Mode.FIRST

    def count() -> int:
        module.mode.n_calls += 1
        return int(module.mode.n_calls)

    return count


def weak_set(module: Counting) -> Count:
    module.items, module.seen = [nn.Identity() for _ in range(500)], weakref.WeakSet()

    def count() -> int:
        module.seen.add(module.items[len(module.seen) % 500])
        return len(module.seen)

    return count


KEPT: list[Any] = []


def weak_reference(module: Counting) -> Count:
    KEPT[:] = [TheCount()]
    reference = weakref.ref(KEPT[0])

    def count() -> int:
        reference().n += 1
        return int(reference().n)

    return count


def weak_proxy(module: Counting) -> Count:
    KEPT[:] = [TheCount()]
    module.proxy = weakref.proxy(KEPT[0])

    def count() -> int:
        module.proxy.n += 1
        return int(module.proxy.n)

    return count


class TheCount:
    n = 0


def attribute_of_the_strategy(module: Counting) -> Count:
    def count() -> int:
        strategy = module.trainer.strategy
        strategy.n_calls = getattr(strategy, "n_calls", 0) + 1
        return int(strategy.n_calls)

    return count


def proxy_of_a_dictionary(module: Counting) -> Count:
    module.proxy = MappingProxyType({"calls": [0]})

    def count() -> int:
        module.proxy["calls"][0] += 1
        return int(module.proxy["calls"][0])

    return count


class HasCachedMethod:
    @functools.lru_cache(typed=True)  # noqa: B019
    def draw(self, n: int) -> float:
        return float(torch.rand(1))


class DrawsBySize(Base):
    """Caches a random number by the number of rows. Training asks for all sizes, also those that only audits had."""

    def __init__(self, *, is_method: bool) -> None:
        super().__init__()
        HasCachedMethod.draw.cache_clear()
        self.draw = HasCachedMethod().draw if is_method else functools.lru_cache(lambda n: float(torch.rand(1)))
        self.draw(3)
        self.draw(n=3)

    def forward(self, x: Tensor) -> Tensor:
        self.draw(len(x))
        self.draw(n=len(x))
        wanted = range(1, 60) if self.training and self.current_epoch else ()
        return super().forward(x) * (1 + 0.01 * sum(self.draw(n) + self.draw(n=n) for n in wanted))


def attribute_of_a_function(module: Counting) -> Count:
    def count() -> int:
        if not module.trainer.sanity_checking and (not module.training or hasattr(count, "n")):
            count.n = getattr(count, "n", 0) + 1
        return getattr(count, "n", 0)

    return count


class Annotated(np.ndarray):
    n = 0


def attribute_of_an_array(module: Counting) -> Count:
    module.array = np.zeros(2).view(Annotated)

    def count() -> int:
        module.array.n += 1
        return int(module.array.n)

    return count


def memory_of_a_tensor(module: Counting) -> Count:
    module.memory = torch.zeros(4, dtype=torch.uint8).untyped_storage()

    def count() -> int:
        module.memory[0] = (module.memory[0] + 1) % 256
        return int(module.memory[0])

    return count


class Pair(ctypes.Structure):
    _fields_ = (("n", ctypes.c_int), ("share", ctypes.c_double))


def structure_of_c(module: Counting) -> Count:
    module.pair = Pair()

    def count() -> int:
        module.pair.n += 1
        return int(module.pair.n)

    return count


def shared_memory_block(module: Counting) -> Count:
    block = shared_memory.SharedMemory(create=True, size=8)
    module.block = block

    def close() -> None:
        block.close()
        block.unlink()

    module.on_fit_end = close

    def count() -> int:
        block.buf[0] = (block.buf[0] + 1) % 256
        return int(block.buf[0])

    return count


def set_of_tensors(module: Counting) -> Count:
    module.tensors = {torch.zeros(2)}

    def count() -> int:
        module.tensors.add(torch.zeros(1))
        next(t for t in module.tensors if len(t) == 2).add_(1)
        return len(module.tensors) + int(next(t for t in module.tensors if len(t) == 2)[0])

    return count


def mapped_array(module: Counting) -> Count:
    file = os.memfd_create("numbers")
    os.ftruncate(file, 16)
    with os.fdopen(file, "r+b") as stream:
        module.numbers = np.memmap(stream, dtype=np.int64, mode="r+", shape=(2,))

    def count() -> int:
        module.numbers[0] += 1
        return int(module.numbers[0])

    return count


def module_in_a_list(module: Counting) -> Count:
    module.hidden = [nn.BatchNorm1d(3)]

    def count() -> int:
        module.hidden[0].train()(torch.ones(4, 3))
        return int(module.hidden[0].num_batches_tracked)

    return count


class Keeps(logging.Handler):
    """A handler that keeps what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record.getMessage())


def handler_of_a_logger(module: Counting) -> Count:
    module.handler, module.own_logger = Keeps(), logging.getLogger("tests.counting")
    module.own_logger.handlers, module.own_logger.propagate = [module.handler], False

    def count() -> int:
        module.own_logger.warning("a pass")
        return len(module.handler.records)

    return count


def filters_of_a_logger(module: Counting) -> Count:
    module.own_logger = logging.getLogger("tests.counting")
    module.own_logger.filters = []

    def count() -> int:
        module.own_logger.addFilter(lambda record: True)
        module.own_logger.setLevel(len(module.own_logger.filters))
        return int(module.own_logger.level)

    return count


def _setting(read: Callable[[], int], write: Callable[[int], object]) -> Callable[[Counting], Count]:
    """A setting of the process that each pass changes, among two values, and that is put back after training."""

    def make(module: Counting) -> Count:
        before = read()
        module.on_fit_end = functools.partial(write, before)

        def count() -> int:
            write(1 - read())
            return read()

        return count

    return make


HOME = os.getcwd()
FLOATS = (torch.float32, torch.float64)


def _set_grad(n: int) -> None:
    torch.set_grad_enabled(bool(n))


SETTINGS: dict[str, Callable[[Counting], Count]] = {
    "default dtype": _setting(
        lambda: FLOATS.index(torch.get_default_dtype()), lambda n: torch.set_default_dtype(FLOATS[n])
    ),
    "deterministic algorithms": _setting(
        lambda: int(torch.are_deterministic_algorithms_enabled()),
        lambda n: torch.use_deterministic_algorithms(bool(n)),
    ),
    "threads of torch": _setting(lambda: torch.get_num_threads() - 1, lambda n: torch.set_num_threads(n + 1)),
    "precision of products": _setting(
        lambda: int(torch.get_float32_matmul_precision() == "high"),
        lambda n: torch.set_float32_matmul_precision(("highest", "high")[n]),
    ),
    "flush of denormal numbers": _setting(
        lambda: int(torch.tensor([1e-39]).mul(1).item() == 0), lambda n: torch.set_flush_denormal(bool(n))
    ),
    "anomaly detection": _setting(
        lambda: int(torch.is_anomaly_enabled()), lambda n: torch.autograd.set_detect_anomaly(bool(n), False)
    ),
    "cudnn": _setting(
        lambda: int(torch.backends.cudnn.benchmark), lambda n: setattr(torch.backends.cudnn, "benchmark", bool(n))
    ),
    "numpy errors": _setting(
        lambda: int(np.geterr()["under"] == "warn"), lambda n: np.seterr(under=("ignore", "warn")[n])
    ),
    "working directory": _setting(lambda: int(os.getcwd() == "/"), lambda n: os.chdir("/" if n else HOME)),
}


def filters_of_warnings(module: Counting) -> Count:
    def count() -> int:
        warnings.filterwarnings("ignore", message=f"nothing {len(warnings.filters)}")
        return len(warnings.filters)

    return count


def _counting(make: Callable[[Counting], Count]) -> Callable[[], Counting]:
    return lambda: Counting(make)


FRAMES = (rows_of_a_frame, cell_of_a_frame, columns_of_a_frame, index_of_a_frame, list_in_a_frame, series)
OTHERS = (
    shrunk_queue, environment, own_dataset, own_loader, metrics_of_the_trainer,
    logs_past_the_instance, enumeration, weak_set, weak_reference, weak_proxy, attribute_of_the_strategy,
    proxy_of_a_dictionary,
    attribute_of_a_function, attribute_of_an_array, memory_of_a_tensor, structure_of_c,
    shared_memory_block, set_of_tensors, mapped_array, module_in_a_list, handler_of_a_logger, filters_of_a_logger,
    filters_of_warnings,
)  # fmt: skip
WAITS, SENDS = "must not wait for a queue in forward", "must not use an object of other threads or processes"

OUTSIDE_STATE = [
    *(Style(f"outside: {make.__name__}", _counting(make)) for make in (*FRAMES, *OTHERS)),
    *(
        Style(f"outside: grown {kind.__name__}", _counting(grown_queue(kind)))
        for kind in (queue.Queue, queue.LifoQueue, queue.PriorityQueue)
    ),
    Style("outside: grown SimpleQueue", _counting(grown_queue(queue.SimpleQueue)), refused="SimpleQueue"),
    Style("outside: bounded cache", lambda: DrawsBySize(is_method=False)),
    Style("outside: bounded cache of a method", lambda: DrawsBySize(is_method=True)),
    Style("outside: queue_that_empties", _counting(queue_that_empties), refused=WAITS),
    Style("outside: queue_of_processes", _counting(queue_of_processes), refused=SENDS),
    Style("outside: event", _counting(event), refused=SENDS),
    Style("outside: simple_queue_of_processes", _counting(simple_queue_of_processes), refused=SENDS),
    Style("outside: pipe", _counting(pipe), refused=SENDS),
    Style("outside: dataset in training", _counting(dataset_in_training), loaders=tables),
    Style("outside: dataset in validation", _counting(dataset_in_validation), loaders=tables),
    Style("outside: sampler", _counting(sampler), loaders=tables),
    Style("outside: dataset of the datamodule", _counting(dataset_of_the_datamodule), loaders=lambda: (TwoTables(),)),
    Style("outside: callback", _counting(attribute_of_a_callback), {"callbacks": lambda: [Watch()]}),
    Style("outside: optimizer stepped", StepsWhereRemoved, refused="must not step an optimizer of the Trainer"),
    *(Style(f"setting: {name}", _counting(make)) for name, make in SETTINGS.items()),
]  # fmt: skip
