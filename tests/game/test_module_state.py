"""What a forward pass changes is put back, whatever it is and wherever it is kept."""

import io
import itertools
import threading
from collections import OrderedDict, defaultdict, deque
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn

from bivshap_lightning import Game
from bivshap_lightning.game.errors import ModelStateError, StochasticModelError
from bivshap_lightning.game.state import tensors
from bivshap_lightning.game.state.modules import ModuleState, preserved


class Holder(nn.Module):
    """A module with one attribute, which `change` changes."""

    def __init__(self, value, change) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.value, self.change = value, change

    def forward(self, x):
        self.change(self.value)
        return self.linear(x)


class Slots:
    __slots__ = ("inner", "n")

    def __init__(self) -> None:
        self.n, self.inner = 0, [1]


class Hidden(Slots):
    """A property of a subclass hides the slot that it reads."""

    __slots__ = ("late",)

    @property
    def n(self) -> int:
        return Slots.n.__get__(self)

    @n.setter
    def n(self, value: int) -> None:
        if value:
            raise AttributeError("read only")
        Slots.n.__set__(self, value)

    def change(self) -> None:
        Slots.n.__set__(self, 7)
        self.late = 1


def plain(value):
    if isinstance(value, Hidden):
        return f"{value.n} {value.inner} {getattr(value, 'late', None)}"
    if isinstance(value, Slots):
        return f"{value.n} {value.inner}"
    if isinstance(value, torch.Generator):
        return str(value.get_state().tolist())
    return repr(getattr(value, "__self__", value))


class WithoutUpdate(set):
    def update(self, *others):
        raise AttributeError("read only")


def seen_from(array):
    """An array that cannot be written to, though its memory can."""
    view = array.view()
    view.flags.writeable = False
    return view


CASES = {
    "list": ([1, [2]], lambda v: (v.append(3), v[1].clear())),
    "dict in order": ({"a": 1, "b": 2}, lambda v: v.update(a=v.pop("b"))),
    "ordered dict": (OrderedDict(a=1, b=2), lambda v: v.move_to_end("a")),
    "default dict": (defaultdict(list, a=[1]), lambda v: v["new"].append(v["a"].pop())),
    "set": ({1, 2}, lambda v: v.add(3)),
    "deque": (deque([1, 2], maxlen=2), lambda v: v.append(3)),
    "bytearray": (bytearray(b"ab"), lambda v: v.extend(b"c")),
    "array": (np.arange(3.0), lambda v: np.add(v, 1, out=v)),
    "array of objects": (np.array([[1], None], dtype=object), lambda v: v[0].append(2)),
    "array made read-only": (np.zeros(3), lambda v: (np.add(v, 1, out=v), v.setflags(write=False))),
    "array of another shape": (np.zeros(4), lambda v: v.resize((3, 3), refcheck=False)),
    "array of another type": (np.zeros(4), lambda v: setattr(v, "dtype", np.int32)),
    "read-only array": (seen_from(np.zeros(4)), lambda v: np.add(v.base, 1, out=v.base)),
    "set without update": (WithoutUpdate([1]), lambda v: v.add(2)),
    "tensor": (torch.ones(3), lambda v: v.mul_(2)),
    "part of a tensor": (torch.ones(4, 4)[::2, 1], lambda v: v.mul_(2)),
    "sparse tensor": (torch.eye(3).to_sparse(), lambda v: v.mul_(2)),
    "sparse tensor of another shape": (torch.eye(3).to_sparse(), lambda v: v.sparse_resize_((5, 5), 2, 0)),
    "other memory": (torch.ones(3), lambda v: v.set_(torch.zeros(2))),
    "generator": (torch.Generator(), lambda v: torch.rand(3, generator=v)),
    "slots": (Slots(), lambda v: (setattr(v, "n", 5), v.inner.append(2))),
    "slots behind a property": (Hidden(), Hidden.change),
    "bound method": (["x"].append, lambda v: v("y")),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_restored_in_place(name):
    value, change = CASES[name]
    module, before = Holder(value, change), plain(value)
    with preserved(module):
        module(torch.ones(1, 3))
        assert plain(value) != before
    assert module.value is value
    assert plain(value) == before
    if isinstance(value, np.ndarray):
        assert value.flags.writeable == (name != "read-only array")


@pytest.mark.parametrize("n_bytes", [0, 2000])
@pytest.mark.parametrize("is_buffer", [False, True])
def test_memory_that_forward_frees_is_allocated_again(n_bytes, is_buffer):
    """Also where the state is recorded a second time while the memory is gone, as for gradients within an audit."""
    module = Holder(None, lambda _: module.held.untyped_storage().resize_(n_bytes))
    if is_buffer:
        module.register_buffer("held", torch.arange(1000.0))
    else:
        module.held = torch.arange(1000.0)
    held = module.held
    with preserved(module):
        module(torch.ones(1, 3))
        with preserved(module):
            module(torch.ones(1, 3))
    assert module.held is held
    assert held.untyped_storage().nbytes() == 4000
    assert torch.equal(held, torch.arange(1000.0))


def test_freed_memory_of_large_attributes_is_refused(monkeypatch):
    monkeypatch.setattr(tensors, "LARGEST_COPY", 8)
    module = Holder(torch.ones(4), lambda v: v.untyped_storage().resize_(0))
    with pytest.raises(ModelStateError, match=r"large tensors that are no buffers.*shape \(4,\)"), preserved(module):
        module(torch.ones(1, 3))
    assert module.value.untyped_storage().nbytes() == 16  # so that reading it does not end the process


def closed_file():
    return io.StringIO("text"), lambda v: v.close(), "closed file"


def written_view():
    def write(v):
        with torch.enable_grad():
            v.copy_(torch.ones(4, requires_grad=True))

    return torch.zeros(4, 4)[0], write, "a view that was written to while gradients were followed"


@pytest.mark.parametrize("make", [closed_file, written_view])
def test_what_cannot_be_put_back_is_named_and_keeps_nothing_else_from_it(make):
    value, change, message = make()
    module = Holder(value, change)
    module.register_buffer("count", torch.zeros(()))
    module.values, module.calls, module.generator = np.zeros(2), [], torch.Generator().manual_seed(3)
    draws = torch.rand(2, generator=torch.Generator().manual_seed(3))

    def write():
        with preserved(module):
            module(torch.ones(1, 3))
            module.count += 1
            module.values += 1
            module.calls.append(torch.rand(2, generator=module.generator))

    with pytest.raises(ModelStateError, match=f"must hold state that can be put back, got .*{message}"):
        write()
    assert (module.count.item(), module.values.tolist(), module.calls) == (0, [0, 0], [])
    assert torch.equal(torch.rand(2, generator=module.generator), draws)


def test_classes_whose_metaclass_refuses_are_put_back():
    class Refusing(type):
        def __setattr__(cls, name, value):
            raise AttributeError("read only")

    class Settings(metaclass=Refusing):
        size = 3

    module = Holder(Settings(), lambda v: type.__setattr__(Settings, "size", 4))
    with preserved(module):
        module(torch.ones(1, 3))
        assert Settings.size == 4
    assert Settings.size == 3


def test_an_exported_bytearray_that_stays_as_it_is_is_no_reason_to_refuse():
    module = Holder(bytearray(b"ab"), lambda v: None)
    with memoryview(module.value), preserved(module):
        module(torch.ones(1, 3))
    assert module.value == bytearray(b"ab")


def test_modules_of_a_game_keep_hidden_state():
    calls = []
    module = nn.Linear(3, 2)
    module.register_forward_hook(lambda m, args, output: calls.append(len(output)))
    game = Game(module, torch.ones(2, 3))
    game(torch.eye(3, dtype=torch.bool)[None])
    assert calls == []
    module(torch.ones(1, 3))
    assert calls == [1]


def test_attributes_that_come_and_go_are_put_back():
    def change(_):
        module.new = 1
        del module.old

    module = Holder(None, change)
    module.old = 2
    with preserved(module):
        module(torch.ones(1, 3))
    assert module.old == 2
    assert not hasattr(module, "new")


def test_no_inference_tensor_stays_anywhere():
    class Cache(nn.Module):
        store = {}  # noqa: RUF012 - shared by all instances on purpose

        def forward(self, x):
            self.last = x * 2
            self.store[len(x)] = self.last
            assert not self.last.is_inference()
            return x

    module = Cache()
    with torch.inference_mode():
        game = Game(module, torch.ones(2, 3))
        game(torch.eye(3, dtype=torch.bool)[None])
    assert not hasattr(module, "last")
    assert Cache.store == {}


@pytest.fixture
def generator_of_pytest():
    """While the test runs, pytest keeps the generator that this function makes."""
    yield  # noqa: PT022 - a generator is what the test is about


def test_an_assert_in_forward_does_not_lead_into_pytest(generator_of_pytest):
    """It is rewritten to use functions of pytest, whose variables lead to everything that pytest holds."""

    class Asserting(nn.Module):
        def forward(self, x):
            assert len(x) == 2
            return x

    assert ModuleState(Asserting()).restore() == ()


def test_a_class_may_compute_the_name_of_its_module():
    class Wrapper:
        __module__ = property(lambda self: "elsewhere")
        calls = 0

        def __iter__(self):
            return self

        def __next__(self):
            return 1

    module = nn.Linear(2, 2)
    module.wrapper, module.kind = Wrapper(), Wrapper
    state = ModuleState(module)
    Wrapper.calls = 5
    module.wrapper.calls = 3
    assert state.restore() == ()
    assert Wrapper.calls == 0
    assert vars(module.wrapper) == {}


@pytest.mark.parametrize("how", ["in place", "by data", "replaced", "removed"])
def test_changed_parameters_are_put_back_and_refused(how):
    class Writer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 2)

        def forward(self, x):
            output = self.inner(x)
            if how == "in place":
                with torch.no_grad():
                    self.inner.bias.add_(1e-9)
            elif how == "by data":
                self.inner.bias.data = self.inner.bias.data.clone()
            elif how == "replaced":
                self.inner.bias = nn.Parameter(self.inner.bias.detach())
            else:
                self.inner.register_parameter("bias", None)
            return output

    module = Writer()
    bias, values, address = module.inner.bias, module.inner.bias.tolist(), module.inner.bias.data_ptr()
    with torch.no_grad():
        module.inner.bias.zero_()
    values = [0.0, 0.0]
    match = "must not change its parameters in forward, got changes of 'inner.bias', which were put back"
    with pytest.raises(ModelStateError, match=match):
        Game(module, torch.ones(2, 3))
    assert module.inner.bias is bias
    assert bias.tolist() == values
    assert bias.data_ptr() == address


def test_a_model_that_drifts_by_its_weights_is_refused_for_that():
    class Drifts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            self.weight.data.mul_(0.5)
            return x * self.weight

    module = Drifts()
    with pytest.raises(ModelStateError, match="got changes of 'weight'") as caught:
        Game(module, torch.ones(2, 3))
    assert isinstance(caught.value.__cause__, StochasticModelError)
    assert module.weight.tolist() == [1, 1, 1]


def test_gradients_are_out_of_reach():
    class Adapts(nn.Linear):
        def forward(self, x):
            with torch.enable_grad():
                super().forward(x.detach()).sum().backward()
            return super().forward(x)

    module = Adapts(3, 2)
    gradient = torch.ones_like(module.weight)
    module.weight.grad = gradient
    Game(module, torch.ones(2, 3))
    assert module.weight.grad is gradient
    assert gradient.tolist() == torch.ones(2, 3).tolist()
    assert module.bias.grad is None


def test_a_tensor_written_while_gradients_are_followed_keeps_no_graph():
    class Follows(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = torch.zeros(3)

        def forward(self, x):
            self.mean += x.mean(dim=0)
            return x + 0 * self.mean

    module = Follows()
    game = Game(module, torch.ones(2, 3))
    with game.differentiable() as utility:
        utility(game.inputs[0].clone().requires_grad_(), torch.arange(2))
    assert not module.mean.requires_grad
    assert module.mean.tolist() == [0, 0, 0]


@pytest.mark.parametrize("make", [lambda: (k for k in range(9)), itertools.count, lambda: iter([1, 2, 3])])
def test_iterators_without_a_position_refuse_to_be_advanced(make):
    module = Holder(make(), next)
    with pytest.raises(ModelStateError, match=r"must not advance an iterator in forward, got `next` on 'value'"):
        Game(module, torch.ones(2, 3))
    first = make()
    assert next(module.value) == next(first)
    idle = Holder([make()], lambda v: None)
    Game(idle, torch.ones(2, 3))
    assert next(idle.value[0]) == next(make())


def test_objects_of_others_are_left_alone():
    lock, event = threading.Lock(), threading.Event()
    module = Holder((lock, event), lambda v: v[1].set())
    with (
        pytest.raises(ModelStateError, match="other threads or processes in forward, got `set` of a Event"),
        preserved(module),
    ):
        module(torch.ones(1, 3))
    assert not event.is_set()
    event.set()
    with preserved(module):  # which changes nothing
        module(torch.ones(1, 3))
    assert event.is_set()
    assert not lock.locked()


def test_lazy_modules_must_have_run():
    with pytest.raises(ModelStateError, match="must have all its parameters, got an uninitialized LazyLinear"):
        ModuleState(nn.Sequential(nn.LazyLinear(3)))


@pytest.mark.parametrize("place", [0, 1])
def test_a_refused_module_keeps_its_gradients(place):
    """They are detached while the state is recorded, which ends at the module that is refused."""
    parts = [nn.Linear(3, 3), nn.Linear(3, 3)]
    module = nn.Sequential(*parts)
    module.insert(place, nn.LazyLinear(3))
    gradients = [torch.ones_like(p) for part in parts for p in part.parameters()]
    for p, gradient in zip((p for part in parts for p in part.parameters()), gradients, strict=True):
        p.grad = gradient
    with pytest.raises(ModelStateError, match="uninitialized LazyLinear"):
        Game(module, torch.ones(2, 3))
    assert all(p.grad is g for p, g in zip((p for part in parts for p in part.parameters()), gradients, strict=True))


@pytest.mark.parametrize("kind", [torch.zeros, np.zeros])
def test_large_attributes_are_watched(kind, monkeypatch):
    monkeypatch.setattr(tensors, "LARGEST_COPY", 8)
    idle = Holder(kind(4), lambda v: None)
    Game(idle, torch.ones(2, 3))

    def write(v):
        v += 1

    match = r"must not write in forward to large tensors that are no buffers, got a changed attribute of shape \(4,\)"
    with pytest.raises(ModelStateError, match=match):
        Game(Holder(kind(4), write), torch.ones(2, 3))
    module = Holder(None, lambda _: module.table.add_(1))
    module.register_buffer("table", torch.zeros(4))
    Game(module, torch.ones(2, 3))
    assert module.table.tolist() == [0, 0, 0, 0]


def test_errors_and_interrupts_restore_too():
    for error in (ArithmeticError, KeyboardInterrupt):
        module = Holder([], lambda v, error=error: v.append(1) or (_ for _ in ()).throw(error("stop")))
        with suppress(ArithmeticError, KeyboardInterrupt), preserved(module):
            module(torch.ones(1, 3))
        assert module.value == []


def test_observers_of_quantisation_stand_still():
    from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver

    module = nn.Sequential(
        FakeQuantize(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255), nn.Linear(3, 2)
    )
    module(torch.rand(9, 3))
    before = {k: v.clone() for k, v in module.state_dict().items()}
    game = Game(module, torch.rand(2, 3))
    values = game(torch.eye(3, dtype=torch.bool)[None])
    assert torch.equal(game(torch.eye(3, dtype=torch.bool)[None]), values)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert module[0].observer_enabled.item() == 1


def test_models_that_are_random_only_where_players_are_removed():
    class Fills(nn.Module):
        def forward(self, x):
            return torch.where(x == 0, torch.rand_like(x), x)

    game = Game(Fills(), torch.ones(2, 3))
    match = r"must be deterministic.* two equal calls where players are removed \(baseline 0\).*the model's own forward"
    with pytest.raises(StochasticModelError, match=match):
        game(torch.eye(3, dtype=torch.bool)[None])
