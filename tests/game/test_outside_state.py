"""State that a forward pass writes outside of the module: queues, frames, caches and options of the process."""

import functools
import os
import queue
import threading

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from bivshap_lightning.game.errors import ModelStateError
from bivshap_lightning.game.state import frames, walk
from bivshap_lightning.game.state.modules import objects_preserved, preserved
from bivshap_lightning.game.state.process import process_settings_kept


class Holder(nn.Module):
    def __init__(self, value) -> None:
        super().__init__()
        self.value = value


def filled(kind, *items, **options):
    found = kind(**options)
    for item in items:
        found.put(item)
    return found


@pytest.mark.parametrize("kind", [queue.Queue, queue.LifoQueue, queue.PriorityQueue])
def test_other_threads_use_the_real_queue(kind):
    """What they put in and take out meanwhile neither comes twice nor is lost."""
    numbers = filled(kind, 1, 2)
    taken: list[int] = []

    def exchange() -> None:
        taken.append(numbers.get())
        numbers.task_done()
        numbers.put(9)

    with preserved(Holder(numbers)):
        numbers.put(5)
        assert numbers.qsize() == 3
        thread = threading.Thread(target=exchange)
        thread.start()
        thread.join()
        assert numbers.qsize() == 3
        own = sorted(numbers.get() for _ in range(3))
        numbers.task_done()
    assert own == [1, 2, 5]
    assert numbers.unfinished_tasks == 2
    assert sorted([*taken, *(numbers.get_nowait() for _ in range(2))]) == [1, 2, 9]
    assert numbers.empty()
    assert not {"put", "get", "_put", "_get", "_qsize"} & vars(numbers).keys()


def test_content_written_past_the_methods_of_a_queue_is_put_back():
    numbers = filled(queue.Queue, 1, 2)
    with preserved(Holder(numbers)), preserved(Holder(numbers)):
        numbers.queue.clear()
    assert list(numbers.queue) == [1, 2]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda q: q.get() + q.get(), "get from an empty one"),
        (lambda q: q.put(2), "put into a full one"),
        (lambda q: q.join(), "join"),
    ],
)
def test_an_audit_does_not_wait_for_other_threads(call, what):
    numbers = filled(queue.Queue, 1, maxsize=1)
    message = f"must not wait for a queue in forward, got {what} .a Queue."
    with pytest.raises(ModelStateError, match=message), preserved(Holder(numbers)):
        call(numbers)
    assert numbers.get_nowait() == 1


def test_queues_without_python_content_are_watched_where_they_cannot_be_replaced():
    numbers = queue.SimpleQueue()
    with (
        pytest.raises(ModelStateError, match=r"a queue\.SimpleQueue with 0 items before, 1 afterwards"),
        preserved(Holder(frozenset([numbers]))),
    ):
        numbers.put(1)
    held = Holder(numbers)
    with preserved(held):
        assert (held.value.qsize(), held.value.empty()) == (1, False)
    with pytest.raises(ModelStateError, match=r"must not use a queue\.SimpleQueue"), preserved(held):
        held.value.get()
    assert held.value is numbers


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.pop("n"),
        lambda t: t.__setitem__(slice(None), t[::-1].to_numpy()),
        lambda t: t.insert(0, "first", 1),
        lambda t: setattr(t, "columns", list("abcd")),
        lambda t: t.attrs.update(seen=True),
        lambda t: t.__setitem__("zero", -t["zero"]),
        lambda t: t.__setitem__("n", t["n"].astype("int8")),
        lambda t: t["cell"].iloc[0].append(1),
    ],
)
def test_frames_are_restored_bit_by_bit(change):
    table = pd.DataFrame({"n": [1, 2], "zero": [0.0, np.nan], "word": ["a", None], "cell": [[1], 2]})
    before = table.copy(deep=True)
    with preserved(Holder(table)):
        change(table)
    pd.testing.assert_frame_equal(table, before, check_exact=True)
    assert not np.signbit(table["zero"].iloc[0])
    assert table["cell"].iloc[0] == [1]
    assert table.attrs == {}


def test_frames_that_are_too_large_are_watched(monkeypatch):
    monkeypatch.setattr(frames, "LARGEST_COPY", 8)
    table = pd.DataFrame({"n": np.arange(5.0), "word": list("abcde")})
    with preserved(Holder(table)):
        table["n"].sum()
    with pytest.raises(ModelStateError, match=r"DataFrame of .* bytes was changed"), preserved(Holder(table)):
        table.loc[0, "n"] = 7


def test_a_bounded_cache_is_replaced_by_a_copy():
    calls: list[tuple] = []

    @functools.lru_cache(maxsize=4)
    def add(a, b=0):
        calls.append((a, b))
        return a + b

    assert [add(1), add(1, 2), add("x", "y"), add(1, b=2)] == [1, 3, "xy", 3]
    before, n_calls = add.cache_info(), len(calls)
    with preserved(holder := Holder(add)):
        copy = holder.value
        assert [copy(1), copy(1, 2), copy("x", "y"), copy(1, b=2)] == [1, 3, "xy", 3]
        assert len(calls) == n_calls
        assert copy(5) == copy(5) == 5
        assert len(calls) == n_calls + 1
        assert copy.cache_info().currsize == 5
        copy.cache_clear()
        assert copy(1) == 1
    assert holder.value is add
    assert add.cache_info() == before
    assert len(calls) == n_calls  # a variable of the function, put back too


def test_data_sets_beyond_the_limit_are_watched(monkeypatch):
    monkeypatch.setattr(walk, "LARGEST_DATA", 8)
    data = TensorDataset(torch.zeros(4))
    data.array = np.zeros(4)
    with objects_preserved([data]):
        data.note = 1
    assert not hasattr(data, "note")
    for change in (lambda: data.tensors[0].add_(1), lambda: data.array.__iadd__(1)):
        with (
            pytest.raises(ModelStateError, match="must not write in forward to large tensors"),
            objects_preserved([data]),
        ):
            change()


def test_large_collections_within_data_are_put_back_but_not_followed():
    data = {"rows": [[0] for _ in range(2000)]}
    with objects_preserved([data]):
        data["rows"][3].append(1)
        data["rows"].append([1])
    assert len(data["rows"]) == 2000
    assert data["rows"][3] == [0, 1]


def test_objects_that_are_left_alone():
    kept, changed = [1], [1]
    with objects_preserved([{"kept": kept, "changed": changed}], without=[kept]):
        kept.append(2)
        changed.append(2)
    assert (kept, changed) == ([1, 2], [1])


def test_settings_of_the_process_are_put_back(tmp_path, monkeypatch):
    monkeypatch.setenv("BIVSHAP_TEST", "before")
    monkeypatch.chdir(tmp_path)
    with process_settings_kept():
        os.environ["BIVSHAP_TEST"] = "after"
        os.environ["BIVSHAP_MORE"] = "1"
        os.chdir("/")
        torch.set_default_dtype(torch.float64)
    assert os.environ["BIVSHAP_TEST"] == "before"
    assert "BIVSHAP_MORE" not in os.environ
    assert os.getcwd() == str(tmp_path)
    assert torch.get_default_dtype() == torch.float32


def test_a_working_directory_that_is_gone(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with process_settings_kept():
        os.environ["BIVSHAP_MORE"] = "1"
    assert "BIVSHAP_MORE" not in os.environ
