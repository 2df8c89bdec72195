"""Ways in which people write LightningModules, each with state that an audit must leave as it was.

Every class is a small classifier of tables of six columns. ``STYLES`` lists them with what a Trainer needs to fit them
and, where no audit is possible, what the refusal says.
"""

from __future__ import annotations

import copy
import functools
import itertools
import random
import threading
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
import torchmetrics
from pytorch_lightning.callbacks import EarlyStopping, GradientAccumulationScheduler, StochasticWeightAveraging
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout, linear
from torch.nn.utils import parametrizations, parametrize, spectral_norm
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

N_FEATURES, N_CLASSES, WIDTH = 6, 3, 8


def data(n: int, seed: int) -> TensorDataset:
    x = torch.randn(n, N_FEATURES, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 0.5).long())


def loaders() -> tuple[DataLoader[Any], DataLoader[Any]]:
    return DataLoader(data(24, 1), batch_size=8, shuffle=True), DataLoader(data(12, 2), batch_size=8)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(N_FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, N_CLASSES))


class Base(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=0.02)


class Layers(Base):
    """Dropout, both kinds of BatchNorm, a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(N_FEATURES, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.3), nn.Tanh(),
            nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH, momentum=None), nn.Linear(WIDTH, N_CLASSES),
        )  # fmt: skip
        self.frozen = nn.BatchNorm1d(N_FEATURES).eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self.frozen(x))

    def on_train_epoch_start(self) -> None:
        self.frozen.eval()


class Wrapped(Base):
    """The first layer changed by one of torch's functions."""

    def __init__(self, change: Callable[[nn.Module], nn.Module]) -> None:
        super().__init__()
        self.net[0] = change(nn.Linear(N_FEATURES, WIDTH))


class Symmetric(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n_calls", torch.zeros((), dtype=torch.long))

    def forward(self, weight: Tensor) -> Tensor:
        self.n_calls += 1
        return weight + weight.flip(0)


def symmetric(module: nn.Module) -> nn.Module:
    return parametrize.register_parametrization(module, "weight", Symmetric())


class CarriedState(Base):
    """A recurrent network that goes on from the state of the last batch, but starts anew in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(N_FEATURES, WIDTH), nn.Linear(WIDTH, N_CLASSES)
        self.state: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        start = self.state if self.training and self.state is not None and len(self.state) == len(x) else None
        state = self.cell(x, start)
        self.state = state.detach()
        return self.head(state)


class CarriedStateAlways(CarriedState):
    """Goes on in evaluation too: equal inputs get different answers."""

    def forward(self, x: Tensor) -> Tensor:
        start = self.state if self.state is not None and len(self.state) == len(x) else None
        state = self.cell(x, start)
        self.state = state.detach()
        return self.head(state)


class LastFeatures(Base):
    """Features of the last batch, graph and all, are kept for a regulariser."""

    def forward(self, x: Tensor) -> Tensor:
        self.features = self.net[:2](x)
        return self.net[2](self.features)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        last = self.features.mean() if hasattr(self, "features") else 0.0
        loss = super().training_step(batch, batch_idx)
        return loss + 0.1 * (self.features.mean() - torch.as_tensor(last).detach()) ** 2


class BatchSizeCache(Base):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(N_FEATURES))
        self.ones: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        if len(x) not in self.ones:
            self.ones[len(x)] = torch.ones(len(x), 1)
        return self.net(x * (self.ones[len(x)] * self.scale))


class LargestShapeCache(Base):
    """A buffer that grows to the largest batch and is read in slices."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("ones", torch.ones(1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if len(self.ones) < len(x):
            self.ones = torch.ones(len(x), 1)
        return self.net(x * (self.scale * self.ones[: len(x)]))


class LastShape(Base):
    """Remembers the last shape and rebuilds a table for another one; the table's use is saved for backward."""

    def __init__(self) -> None:
        super().__init__()
        self.shape: torch.Size | None = None
        self.positions = torch.zeros(0)
        self.scale = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        if self.shape != x.shape:
            self.shape, self.positions = x.shape, torch.linspace(0, 1, x.shape[1]).expand_as(x).clone()
        return self.net(x + self.scale * self.positions)


class OwnGenerator(Base):
    """Draws in every pass, and uses the draws in training alone."""

    def __init__(self, draw: str) -> None:
        super().__init__()
        self.draw = draw
        self.torch_generator = torch.Generator().manual_seed(5)
        self.numpy_generator = np.random.default_rng(5)
        self.legacy_generator = np.random.RandomState(5)
        self.python_generator = random.Random(5)

    def forward(self, x: Tensor) -> Tensor:
        noise = {
            "torch": lambda: torch.randn(x.shape, generator=self.torch_generator),
            "numpy": lambda: torch.tensor(self.numpy_generator.normal(size=x.shape), dtype=x.dtype),
            "legacy": lambda: torch.tensor(self.legacy_generator.normal(size=x.shape), dtype=x.dtype),
            "python": lambda: torch.full_like(x, self.python_generator.random()),
            "global torch": lambda: torch.randn(x.shape),
            "global numpy": lambda: torch.tensor(np.random.normal(size=x.shape), dtype=x.dtype),  # noqa: NPY002
            "global python": lambda: torch.full_like(x, random.random()),
        }[self.draw]()
        return self.net(x + 0.1 * noise if self.training else x)


class ClosureHook(Base):
    """A hook whose state lives in its closure and steers training."""

    def __init__(self) -> None:
        super().__init__()
        n_calls, sizes = 0, []

        def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            nonlocal n_calls
            n_calls += 1
            sizes.append(len(output))
            return output * (1 + 0.01 * (n_calls % 7) + 0.001 * len(sizes)) if module.training else output

        self.net[1].register_forward_hook(hook)


class HookOnTheModule(Base):
    """A hook that writes to the module which registered it."""

    def __init__(self) -> None:
        super().__init__()
        self.n_passes, self.seen = 0, {}

        def before(module: nn.Module, args: Any) -> Any:
            self.n_passes += 1
            self.seen[len(args[0])] = self.n_passes
            return (args[0] * (1 + 0.01 * (self.n_passes % 5)),) if self.training else None

        self.net[0].register_forward_pre_hook(before)


class HookObject:
    """State in slots, called as a hook."""

    __slots__ = ("n", "recent")

    def __init__(self) -> None:
        self.n, self.recent = 0, deque(maxlen=3)

    def __call__(self, module: nn.Module, args: Any, output: Tensor) -> Tensor:
        self.n += 1
        self.recent.append(float(output.detach().mean()))
        return output + 0.001 * self.n + 0.01 * sum(self.recent) if module.training else output


class SlotsHook(Base):
    def __init__(self) -> None:
        super().__init__()
        self.hook = HookObject()
        self.net[2].register_forward_hook(self.hook)


class BackwardHook(Base):
    """Counts gradients that pass, as gradient methods make them pass too."""

    def __init__(self) -> None:
        super().__init__()
        self.n_backward = 0
        self.net[0].register_full_backward_hook(self._count)

    def _count(self, module: nn.Module, grad_input: Any, grad_output: Any) -> None:
        self.n_backward += 1

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx) * (1 + 0.01 * (self.n_backward % 5))


class OneTimeHook(Base):
    """A hook that removes itself after the first training pass, and one that every pass adds."""

    def __init__(self) -> None:
        super().__init__()
        self.n_late = 0
        self.handle = self.net[0].register_forward_hook(self._once)

    def _once(self, module: nn.Module, args: Any, output: Tensor) -> None:
        self.handle.remove()
        self.net[2].register_forward_hook(self._late)

    def _late(self, module: nn.Module, args: Any, output: Tensor) -> Tensor:
        self.n_late += 1
        return output * (1 + 0.01 * (self.n_late % 3)) if self.training else output


class MetricInForward(Base):
    """The user's own metrics, updated in every pass and read at the end of the epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = torchmetrics.MeanMetric()
        self.several = torchmetrics.MetricCollection({"max": torchmetrics.MaxMetric(), "sum": torchmetrics.SumMetric()})

    def forward(self, x: Tensor) -> Tensor:
        scores = self.net(x)
        self.mean(scores.detach())
        self.several.update(scores.detach().flatten())
        return scores

    def on_train_epoch_end(self) -> None:
        self.log("mean_score", self.mean)
        self.log_dict(self.several)


class LogsInForward(Base):
    def forward(self, x: Tensor) -> Tensor:
        scores = self.net(x)
        self.log("score", scores.detach().mean(), batch_size=len(x))
        return scores


class CountsInPython(Base):
    """Numbers, containers and arrays of every kind, all of which steer training."""

    def __init__(self) -> None:
        super().__init__()
        self.n_calls, self.temperature = 0, 1.0
        self.history: list[float] = []
        self.recent: deque[int] = deque(maxlen=5)
        self.by_size: Counter[int] = Counter()
        self.by_parity: defaultdict[int, list[int]] = defaultdict(list)
        self.sizes: set[int] = set()
        self.array = np.zeros(3)
        self.ids = itertools.count()
        self.nested = {"inner": [{"n": 0}], "octets": bytearray(2)}

    def forward(self, x: Tensor) -> Tensor:
        self.n_calls += 1
        self.temperature *= 0.99
        self.history.append(float(x.detach().mean()))
        self.recent.append(len(x))
        self.by_size[len(x)] += 1
        self.by_parity[len(x) % 2].append(len(x))
        self.sizes.add(len(x))
        self.array[len(x) % 3] += 1
        self.nested["inner"][0]["n"] += len(x)
        self.nested["octets"][0] = (self.nested["octets"][0] + 1) % 256
        if not self.training:
            return self.net(x)
        steps = self.n_calls + sum(self.by_size.values()) + len(self.by_parity[0]) + len(self.sizes) + self.array.sum()
        shift = 0.001 * steps + 0.01 * np.mean(self.history) + 0.001 * (self.nested["inner"][0]["n"] + sum(self.recent))
        return self.net(x) / self.temperature + shift * x[:, :N_CLASSES]


class Iterated(Base):
    """An iterator whose position cannot be read is advanced by every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = self._numbers()

    @staticmethod
    def _numbers() -> Iterator[float]:
        state = 0.5
        while True:
            state = 3.7 * state * (1 - state)
            yield state

    def forward(self, x: Tensor) -> Tensor:
        number = next(self.numbers)
        return self.net(x * (1 + 0.1 * number) if self.training else x)


class IteratedInTraining(Iterated):
    """The same in training alone, so that an audit does not need it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.training else self.net(x)


class Numbered(Base):
    def __init__(self) -> None:
        super().__init__()
        self.ids = itertools.count()

    def forward(self, x: Tensor) -> Tensor:
        number = next(self.ids)
        return self.net(x * (1 + 0.01 * (number % 5)) if self.training else x)


@dataclass
class Schedule:
    n: int = 0
    seen: list[int] = field(default_factory=list)

    def step(self) -> float:
        self.n += 1
        self.seen.append(self.n % 4)
        return 1 + 0.01 * sum(self.seen[-3:])


class PlainObjects(Base):
    """State in objects that are no modules: a dataclass, a partial, a lambda that holds the module, a lock."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = Schedule()
        self.step = functools.partial(Schedule.step, self.schedule)
        self.lock = threading.Lock()
        self.parent = weakref.ref(self)
        self.n_lambda = 0
        self.count = lambda: setattr(self, "n_lambda", self.n_lambda + 1)

    def forward(self, x: Tensor) -> Tensor:
        with self.lock:
            factor = self.step() + 0.01 * (self.parent().n_lambda % 3)
        self.count()
        return self.net(x * factor if self.training else x)


class RefusesCopies(CountsInPython):
    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("one of a kind")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("one of a kind")


class ClassState(Base):
    n_calls = 0
    sizes: list[int] = []  # noqa: RUF012 - shared by all instances on purpose

    def __init__(self) -> None:
        super().__init__()
        type(self).n_calls, type(self).sizes = 0, []

    def forward(self, x: Tensor) -> Tensor:
        type(self).n_calls += 1
        self.sizes.append(len(x))
        return self.net(x * (1 + 0.01 * (self.n_calls % 4) + 0.001 * len(self.sizes)) if self.training else x)


N_GLOBAL_CALLS = 0
GLOBAL_SIZES: list[int] = []


def _count_globally(n: int) -> float:
    global N_GLOBAL_CALLS
    N_GLOBAL_CALLS += 1
    GLOBAL_SIZES.append(n)
    return 0.01 * (N_GLOBAL_CALLS % 4) + 0.001 * len(GLOBAL_SIZES)


class GlobalState(Base):
    def __init__(self) -> None:
        super().__init__()
        global N_GLOBAL_CALLS
        N_GLOBAL_CALLS = 0
        GLOBAL_SIZES.clear()

    def forward(self, x: Tensor) -> Tensor:
        shift = _count_globally(len(x))
        return self.net(x * (1 + shift) if self.training else x)


class Checkpointed(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.net[2](checkpoint(self.net[:2], x, use_reentrant=False))


class TiedWeights(Base):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(N_FEATURES, N_FEATURES), nn.Tanh(), nn.Linear(N_FEATURES, N_FEATURES),
            nn.Linear(N_FEATURES, N_CLASSES),
        )  # fmt: skip
        self.net[2].weight = self.net[0].weight
        self.weights = [self.net[0].weight]

    def forward(self, x: Tensor) -> Tensor:
        return self.net(linear(x, self.weights[0]))


class TiedBuffers(Base):
    """Two buffers and an attribute that are one tensor, and a view of it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(N_FEATURES))
        self.register_buffer("same", self.total)
        self.register_buffer("part", self.total[:3], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.same += x.detach().mean(dim=0)
        assert self.total is self.same
        assert self.part.data_ptr() == self.total.data_ptr()
        return self.net(x + 0.01 * self.part.sum() if self.training else x)


class OddBuffers(Base):
    """Complex numbers, NaN, a negative zero, None, and what only removed inputs touch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("spectrum", torch.zeros(4, dtype=torch.complex64))
        self.register_buffer("unknown", torch.full((2,), torch.nan))
        self.register_buffer("zero", torch.tensor([-0.0]))
        self.register_buffer("nothing", None)
        self.register_buffer("n_zeros", torch.zeros((), dtype=torch.long))
        self.register_buffer("small", torch.zeros(2, dtype=torch.bfloat16))

    def forward(self, x: Tensor) -> Tensor:
        self.spectrum += torch.fft.rfft(x.detach().mean(dim=0))
        self.unknown[0] = x.detach().sum()
        self.zero *= -1
        self.n_zeros += (x == 0).sum()
        self.small += 1
        self.nothing = self.small
        scale = 1 + 0.001 * self.spectrum.abs().sum() + 0.01 * (self.n_zeros > 0)
        return self.net(x * scale if self.training else x)


class Embedding(Base):
    def __init__(self, max_norm: float | None = None, sparse: bool = False) -> None:
        super().__init__()
        self.table, self.sparse = nn.Embedding(3, WIDTH, max_norm=max_norm, sparse=sparse), sparse
        self.net = nn.Linear(WIDTH + N_FEATURES, N_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        codes = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
        return self.net(torch.cat([self.table(codes), x], dim=1))

    def configure_optimizers(self) -> Any:
        if not self.sparse:
            return super().configure_optimizers()
        return [torch.optim.SparseAdam(self.table.parameters(), lr=0.1), torch.optim.SGD(self.net.parameters(), lr=0.1)]

    @property
    def automatic_optimization(self) -> bool:
        return not self.sparse

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = super().training_step(batch, batch_idx)
        if self.sparse:
            for optimizer in self.optimizers():
                optimizer.zero_grad()
            self.manual_backward(loss)
            for optimizer in self.optimizers():
                optimizer.step()
        return loss


class Script(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.n_calls = nn.BatchNorm1d(N_FEATURES), 0
        self.register_buffer("total", torch.zeros(N_FEATURES))
        self.last: Tensor = torch.zeros(1)

    def forward(self, x: Tensor) -> Tensor:
        self.n_calls += 1
        self.total += x.detach().mean(dim=0)
        self.last = x.detach()[0]
        if self.training:
            return self.norm(x) + 0.01 * float(self.n_calls % 5) + 0.001 * self.total + 0.001 * self.last
        return self.norm(x)


class Scripted(Base):
    def __init__(self) -> None:
        super().__init__()
        self.script = torch.jit.script(Script())

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self.script(x))


class Quantised(Base):
    """Quantisation-aware training: observers follow the data in evaluation mode too."""

    def __init__(self) -> None:
        super().__init__()
        from torch.ao.quantization import (
            FakeQuantize,
            MovingAverageMinMaxObserver,
            default_weight_fake_quant,
        )

        self.inputs = FakeQuantize(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255)
        self.weights = default_weight_fake_quant()

    def forward(self, x: Tensor) -> Tensor:
        first = linear(self.inputs(x), self.weights(self.net[0].weight), self.net[0].bias)
        return self.net[1:](first)


class Functional(Base):
    """An ensemble by ``torch.func``: parameters as plain stacked tensors, called through a base model."""

    def __init__(self) -> None:
        super().__init__()
        members = [network() for _ in range(2)]
        parameters, self.buffers_of_members = torch.func.stack_module_state(members)
        self.names = list(parameters)
        self.stacked = nn.ParameterList([nn.Parameter(p.detach()) for p in parameters.values()])
        self.base = [copy.deepcopy(members[0]).to("meta")]

    def forward(self, x: Tensor) -> Tensor:
        def call(parameters: dict[str, Tensor]) -> Tensor:
            return torch.func.functional_call(self.base[0], parameters, (x,))

        return torch.func.vmap(call)(dict(zip(self.names, self.stacked, strict=True))).mean(dim=0)


class MovingAverage(Base):
    """Validates with an exponential moving average of its weights, which it updates after every batch."""

    def __init__(self) -> None:
        super().__init__()
        average = torch.optim.swa_utils.get_ema_multi_avg_fn(0.8)
        self.average = torch.optim.swa_utils.AveragedModel(self.net, multi_avg_fn=average, use_buffers=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) if self.training else self.average(x)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.average.update_parameters(self.net)


class Teacher(Base):
    """A frozen teacher that is no submodule, with BatchNorm in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = (nn.Sequential(nn.BatchNorm1d(N_FEATURES), network()),)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            hint = self.teacher[0](x) if self.training else 0.0
        return self.net(x) + 0.1 * hint


class Manual(Base):
    """Two optimizers by hand, a scheduler by hand, gradients kept across batches."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def configure_optimizers(self) -> Any:
        first = torch.optim.Adam(self.net[0].parameters(), lr=0.05)
        second = torch.optim.SGD(self.net[2].parameters(), lr=0.05, momentum=0.9)
        return [first, second], [torch.optim.lr_scheduler.StepLR(first, 1, 0.5)]

    def training_step(self, batch: Any, batch_idx: int) -> None:
        first, second = self.optimizers()
        self.manual_backward(cross_entropy(self(batch[0]), batch[1]))
        first.step()
        if batch_idx % 2:  # the gradients of others stay over a validation
            second.step()
            self.zero_grad()

    def on_train_epoch_end(self) -> None:
        self.lr_schedulers().step()


class Plateau(Base):
    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"}}


class CountsInValidation(Base):
    def __init__(self) -> None:
        super().__init__()
        self.n_validated, self.outputs = 0, []

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.n_validated += len(batch[0])
        self.outputs.append(self(batch[0]))
        super().validation_step(batch, batch_idx)

    def on_train_epoch_start(self) -> None:
        self.log("validated", float(self.n_validated + len(self.outputs)))
        self.outputs.clear()


class Lazy(Base):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.LazyLinear(WIDTH), nn.LazyBatchNorm1d(), nn.LazyLinear(N_CLASSES))

    def setup(self, stage: str) -> None:
        self.net.eval()
        self.net(torch.zeros(2, N_FEATURES))
        self.net.train()


class Recurrent(Base):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.LSTM(1, WIDTH, batch_first=True, num_layers=2, dropout=0.2)
        self.head = nn.Linear(WIDTH, N_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.net(x[..., None])[0][:, -1])


class Attention(Base):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(1, WIDTH)
        self.net = nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(WIDTH, N_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.net(self.embed(x[..., None])).mean(dim=1))


class Experts(Base):
    """A mixture of experts that counts what it sends where, and a codebook that follows the data."""

    def __init__(self) -> None:
        super().__init__()
        self.experts, self.gate = nn.ModuleList(network() for _ in range(2)), nn.Linear(N_FEATURES, 2)
        self.register_buffer("load", torch.zeros(2))
        self.codebook = torch.zeros(2, N_FEATURES)  # an attribute, no buffer

    def forward(self, x: Tensor) -> Tensor:
        choice = self.gate(x).softmax(dim=1)
        self.load += choice.detach().sum(dim=0)
        self.codebook.lerp_(choice.detach().T @ x, 0.1)
        if self.training:
            choice = choice - 0.01 * (self.load / self.load.sum())
            x = x + 0.1 * choice.detach() @ self.codebook
        outputs = torch.stack([expert(x) for expert in self.experts], dim=1)
        return (choice[..., None] * outputs).sum(dim=1)


class MonteCarloDropout(Base):
    def __init__(self) -> None:
        super().__init__()
        self.noise = AlwaysDropout()

    def forward(self, x: Tensor) -> Tensor:
        return self.net[2](self.noise(self.net[:2](x)))


class AlwaysDropout(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, 0.5, training=True)


class RandomWhereRemoved(Base):
    """Fills missing inputs with noise: the whole inputs have none."""

    def forward(self, x: Tensor) -> Tensor:
        return self.net(torch.where(x == 0, torch.randn_like(x), x))


class WritesWeights(Base):
    """Changes its weights in forward, in one of many ways."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        layer = self.net[0]
        if self.how == "in place":
            with torch.no_grad():
                layer.weight.mul_(0.99)
        elif self.how == "data":
            layer.weight.data.mul_(0.99)
        elif self.how == "new data":
            layer.weight.data = layer.weight.data * 0.99
        elif self.how == "array":
            layer.weight.detach().numpy()[0] *= 0.99
        elif self.how == "where removed":
            with torch.no_grad():
                layer.bias += 0.01 * (x == 0).any()
        elif self.how == "new parameter" and not self.training:
            layer.bias = nn.Parameter(layer.bias.detach() * 0.5)
        elif self.how == "clipped":
            layer.weight.data.clamp_(-0.1, 0.1)
        elif self.how == "frozen":
            layer.bias.requires_grad_(self.training)
        return self.net(x)


class Adapts(Base):
    """Test-time training: a backward pass inside of forward, into the gradients of the parameters."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            with torch.inference_mode(False), torch.enable_grad():
                self.net(x.detach().clone()).square().mean().backward()
        return self.net(x)


class TogglesMode(Base):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(N_FEATURES)
        self.flag = False

    def train(self, mode: bool = True) -> Any:
        self.n_switches = getattr(self, "n_switches", 0) + 1
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        self.flag = not self.flag
        self.norm.eval()
        scores = self.net(self.norm(x))
        self.norm.train()
        return scores


class GradientPenalty(Base):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x = batch[0].clone().requires_grad_()
        scores = self(x)
        (gradient,) = torch.autograd.grad(scores.logsumexp(dim=1).sum(), x, create_graph=True)
        return cross_entropy(scores, batch[1]) + 0.1 * gradient.square().sum()


class HoldsData(Base):
    """Holds its own loaders and an iterator over one of them, which only training advances."""

    def __init__(self) -> None:
        super().__init__()
        self.unlabelled = DataLoader(
            data(64, 9), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3)
        )
        self.batches = iter(self.unlabelled)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, _ = next(self.batches)
        return super().training_step(batch, batch_idx) + 0.01 * self(x).square().mean()


class CompiledInside(Base):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.compile(self.net, backend="aot_eager")
        self.n_calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.n_calls += 1
        return self.net(x) * (1 + 0.01 * (self.n_calls % 3) if self.training else 1)


class FrozenFeatures(Base):
    """Features computed under inference mode, as frozen backbones often are."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(N_FEATURES, N_FEATURES), nn.BatchNorm1d(N_FEATURES)).requires_grad_(
            False
        )

    def forward(self, x: Tensor) -> Tensor:
        with torch.inference_mode():
            features = self.backbone(x)
        return self.net(features.clone())


def worker_loaders() -> tuple[DataLoader[Any], DataLoader[Any]]:
    own = torch.Generator().manual_seed(4)
    return (
        DataLoader(data(24, 1), batch_size=8, shuffle=True, generator=own, num_workers=1, persistent_workers=True),
        DataLoader(data(12, 2), batch_size=8, shuffle=False, generator=own),
    )


def compiled(module: Callable[[], Base]) -> Callable[[], Any]:
    return lambda: torch.compile(module(), backend="aot_eager")


@dataclass(frozen=True)
class Style:
    """A way to write and train a model.

    Attributes:
        name: of the style.
        make: makes the module.
        trainer: arguments of the Trainer; ``callbacks`` is a function that makes them.
        loaders: makes what ``fit`` takes besides the module: loaders for training and validation, or a datamodule.
        refused: None if it is audited, otherwise what the refusal says.
        audit: arguments of the callback.
        slow: takes more than a few seconds.
    """

    name: str
    make: Callable[[], Any]
    trainer: dict[str, Any] = field(default_factory=dict)
    loaders: Callable[[], tuple[Any, ...]] = loaders
    refused: str | None = None
    audit: dict[str, Any] = field(default_factory=dict)
    slow: bool = False


def _own(draw: str) -> Callable[[], Base]:
    return lambda: OwnGenerator(draw)


def _writes(how: str) -> Callable[[], Base]:
    return lambda: WritesWeights(how)


DRAWS = ("torch", "numpy", "legacy", "python", "global torch", "global numpy", "global python")
WRITES = ("in place", "data", "new data", "array", "where removed", "new parameter")
WEIGHTS_WRITTEN = "must not change its parameters in forward, got"

STYLES = [
    Style("plain", Base),
    Style("layers with modes", Layers),
    Style("spectral norm by hook", lambda: Wrapped(spectral_norm)),
    Style("spectral norm by parametrization", lambda: Wrapped(parametrizations.spectral_norm)),
    Style("weight norm by parametrization", lambda: Wrapped(parametrizations.weight_norm)),
    Style("orthogonal weights", lambda: Wrapped(parametrizations.orthogonal)),
    Style("own parametrization", lambda: Wrapped(symmetric)),
    Style("state carried in training", CarriedState),
    Style("state carried always", CarriedStateAlways, refused="must be deterministic, got outputs that differ"),
    Style("last features for a regulariser", LastFeatures),
    Style("cache by batch size", BatchSizeCache),
    Style("cache of the largest shape", LargestShapeCache),
    Style("cache of the last shape", LastShape),
    *(Style(f"generator: {draw}", _own(draw)) for draw in DRAWS),
    Style("hook with a closure", ClosureHook),
    Style("hook that holds the module", HookOnTheModule),
    Style("hook with slots", SlotsHook),
    Style("backward hook", BackwardHook),
    Style("hooks that come and go", OneTimeHook),
    Style("metrics in forward", MetricInForward),
    Style("logs in forward", LogsInForward),
    Style("counters and containers", CountsInPython),
    Style("generator object in forward", Iterated, refused="must not advance an iterator"),
    Style("generator object in training", IteratedInTraining),
    Style("itertools in forward", Numbered, refused="must not advance an iterator"),
    Style("plain objects", PlainObjects),
    Style("refuses to be copied", RefusesCopies),
    Style("class attributes", ClassState),
    Style("global state", GlobalState),
    Style("gradient checkpointing", Checkpointed),
    Style("tied weights", TiedWeights),
    Style("tied buffers", TiedBuffers),
    Style("odd buffers", OddBuffers),
    Style("embedding with max_norm", lambda: Embedding(max_norm=0.5)),
    Style("sparse embedding", lambda: Embedding(sparse=True)),
    Style("TorchScript", Scripted),
    Style("quantisation-aware training", Quantised),
    Style("torch.func", Functional),
    Style("moving average of weights", MovingAverage),
    Style("hidden teacher", Teacher),
    Style("manual optimisation", Manual),
    Style("plateau scheduler", Plateau, {"max_epochs": 3}),
    Style("counters in validation", CountsInValidation),
    Style("lazy layers", Lazy),
    Style("LSTM", Recurrent),
    Style("attention", Attention),
    Style("mixture of experts", Experts),
    Style("Monte Carlo dropout", MonteCarloDropout, refused=r"must be deterministic.*module 'module\.noise'"),
    *(Style(f"weights written: {how}", _writes(how), refused=WEIGHTS_WRITTEN) for how in WRITES),
    Style("weights clipped in forward", _writes("clipped")),
    Style("parameters frozen in forward", _writes("frozen")),
    Style("backward pass in forward", Adapts),
    Style("modes switched in forward", TogglesMode),
    Style("gradient penalty", GradientPenalty),
    Style("holds data and iterators", HoldsData),
    Style("frozen features in inference mode", FrozenFeatures),
    Style("accumulated gradients", Layers, {"accumulate_grad_batches": 2}),
    Style("gradients accumulated over validations", Base, {"accumulate_grad_batches": 4, "val_check_interval": 2}),
    Style("scheduled accumulation", Layers, {"callbacks": lambda: [GradientAccumulationScheduler({1: 2})]}),
    Style("clipped gradients", Layers, {"gradient_clip_val": 0.1}),
    Style("bf16 mixed", Layers, {"precision": "bf16-mixed"}),
    Style("bf16", Base, {"precision": "bf16-true"}),
    Style("double precision", Layers, {"precision": "64-true"}),
    Style("stochastic weight averaging", Layers,
          {"max_epochs": 3, "callbacks": lambda: [StochasticWeightAveraging(0.01, swa_epoch_start=1)]}),
    Style("early stopping", Plateau,
          {"max_epochs": 4, "callbacks": lambda: [EarlyStopping("val_loss", patience=0, min_delta=0.5)]}),
    Style("validation within the epoch", Layers, {"val_check_interval": 0.34}),
    Style("sanity check", CountsInPython, {"num_sanity_val_steps": 2}),
    Style("detected anomalies", Layers, {"detect_anomaly": True}),
    Style("workers and own generators", Layers, loaders=worker_loaders, slow=True),
    Style("compiled", compiled(CountsInPython), slow=True),
    Style("compiled, with hooks", compiled(HookOnTheModule), slow=True),
    Style("compiled inside", CompiledInside, slow=True),
]  # fmt: skip
