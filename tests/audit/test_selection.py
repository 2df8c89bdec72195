import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning.audit.batches import Batch
from bivshap_lightning.audit.selection import POOL, SampleSelection


def data(n: int = 60, n_classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 4, generator=generator), torch.randint(n_classes, (n,), generator=generator)


def together(probes: list[SampleSelection], action) -> list:
    """All processes at once, each in a thread that waits for the others wherever the real ones would."""
    barrier, table = threading.Barrier(len(probes)), [None] * len(probes)

    def gather_on(rank: int):
        def gather(value):
            table[rank] = value
            barrier.wait(timeout=20)
            everyone = list(table)
            barrier.wait(timeout=20)
            return everyone

        return gather

    with ThreadPoolExecutor(len(probes)) as pool:
        return list(pool.map(lambda rank: action(probes[rank], gather_on(rank)), range(len(probes))))


def choose_together(probes: list[SampleSelection], **kwargs) -> None:
    together(probes, lambda probe, gather: probe.choose(gather))
    together(probes, lambda probe, gather: probe.distribute(gather, **kwargs))


def choose_alone(probe: SampleSelection, **kwargs) -> int:
    n_missing = probe.choose(lambda value: [value])
    probe.distribute(lambda value: [value], **kwargs)
    return n_missing


def samples(probe: SampleSelection) -> torch.Tensor:
    return torch.cat([chunk.batch.inputs[0] for chunk in probe.chunks()])


@given(st.integers(1, 20), st.integers(1, 17), st.integers(0, 5), st.permutations(range(60)))
def test_the_choice_depends_on_neither_batches_nor_order(size, batch_size, seed, order):
    x, y = data()
    reference, other = SampleSelection(size, seed), SampleSelection(size, seed)
    reference.offer(Batch((x,), y))
    for part in torch.tensor(order).split(batch_size):
        other.offer(Batch((x[part],), y[part]))
    for probe in (reference, other):
        assert choose_alone(probe) == 0
    assert reference.keys == other.keys
    assert len(reference) == min(size, 60)
    assert torch.equal(samples(reference), samples(other))


def test_classes_take_turns():
    x, y = data()
    probe = SampleSelection(9, seed=0)
    probe.offer(Batch((x,), y))
    choose_alone(probe)
    assert next(probe.chunks()).batch.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_another_seed_is_another_choice():
    x, y = data()
    probes = [SampleSelection(5, seed=s) for s in (0, 1)]
    for probe in probes:
        probe.offer(Batch((x,), y))
        choose_alone(probe)
    assert not torch.equal(samples(probes[0]), samples(probes[1]))


def test_processes_choose_what_one_process_would():
    """Uneven shards with the padding of a distributed sampler, whose duplicates count once."""
    x, y = data(61)
    alone = SampleSelection(12, seed=0)
    alone.offer(Batch((x,), y))
    choose_alone(alone)
    padded = torch.cat([torch.arange(61), torch.arange(2)])
    probes = [SampleSelection(12, seed=0, rank=r, world_size=3) for r in range(3)]
    for rank, probe in enumerate(probes):
        shard = padded[rank::3]
        for part in shard.split(8):
            probe.offer(Batch((x[part],), y[part]))
    choose_together(probes)
    assert all(p.keys == alone.keys for p in probes)
    places = sorted(k for p in probes for chunk in p.chunks() for k in chunk.places)
    assert places == list(range(12))


@pytest.mark.parametrize("n_processes", [1, 2, 3])
def test_chunks_do_not_depend_on_the_number_of_processes(n_processes):
    """Two shapes, chunks of at most four; every process gets whole chunks, with samples that others met."""
    x, y = data(30)
    probes = [SampleSelection(30, seed=0, rank=r, world_size=n_processes) for r in range(n_processes)]
    for rank, probe in enumerate(probes):
        for width in (4, 3):
            part = torch.arange(rank, 30, n_processes)
            part = part[part % 7 > 2] if width == 4 else part[part % 7 <= 2]
            probe.offer(Batch((x[part, :width],), y[part]))
    choose_together(probes, chunk_size=4)
    chunks = sorted((c for p in probes for c in p.chunks()), key=lambda c: c.places)
    alone = SampleSelection(30, seed=0)
    alone.offer(Batch((x[torch.arange(30) % 7 > 2],), y[torch.arange(30) % 7 > 2]))
    alone.offer(Batch((x[torch.arange(30) % 7 <= 2, :3],), y[torch.arange(30) % 7 <= 2]))
    choose_alone(alone, chunk_size=4)
    expected = sorted(alone.chunks(), key=lambda c: c.places)
    assert [c.places for c in chunks] == [c.places for c in expected]
    assert [c.keys for c in chunks] == [c.keys for c in expected]
    assert all(torch.equal(a.batch.inputs[0], b.batch.inputs[0]) for a, b in zip(chunks, expected, strict=True))
    assert {len(c.places) for c in chunks} <= {1, 2, 3, 4}
    assert sum(p.n_mine for p in probes) == 30
    assert max(p.n_mine for p in probes) - min(p.n_mine for p in probes) <= 8


def test_a_resumed_run_finds_the_same_samples():
    x, y = data()
    first = SampleSelection(5, seed=0)
    first.offer(Batch((x[:30],), y[:30]))
    choose_alone(first)
    again = SampleSelection(5, seed=0, wanted=first.keys)
    again.offer(Batch((x.flip(0),), y.flip(0)))
    assert choose_alone(again) == 0
    assert again.keys == first.keys
    assert torch.equal(samples(again), samples(first))
    changed = SampleSelection(5, seed=0, wanted=first.keys)
    changed.offer(Batch((x + 1,), y))
    assert choose_alone(changed) == 5
    assert len(changed) == 5


def test_samples_of_different_shapes_stay_apart():
    probe = SampleSelection(6, seed=0)
    probe.offer(Batch((torch.randn(3, 4),)))
    probe.offer(Batch((torch.randn(3, 5),)))
    choose_alone(probe)
    chunks = list(probe.chunks())
    assert sorted(tuple(c.batch.inputs[0].shape) for c in chunks) == [(3, 4), (3, 5)]
    assert sorted(k for c in chunks for k in c.places) == list(range(6))


def test_every_process_can_have_all_samples():
    x, y = data()
    probes = [SampleSelection(8, seed=0, rank=r, world_size=2) for r in range(2)]
    for rank, probe in enumerate(probes):
        probe.offer(Batch((x[rank::2],), y[rank::2]))
    choose_together(probes, everywhere=True)
    assert torch.equal(samples(probes[0]), samples(probes[1]))
    assert [p.n_mine for p in probes] == [8, 8]


def test_large_validation_sets_are_not_searched_to_the_end():
    x = torch.arange(POOL + 500.0)[:, None]
    probe = SampleSelection(1, seed=0)
    for part in x.split(100):
        probe.offer(Batch((part,)))
    choose_alone(probe)
    everything = SampleSelection(1, seed=0)
    everything.offer(Batch((x[:POOL],)))
    choose_alone(everything)
    assert probe.keys == everything.keys
    large = SampleSelection(POOL + 200, seed=0)
    large.offer(Batch((x,)))
    choose_alone(large)
    assert len(large) == POOL + 200
    assert float(samples(large).max()) == POOL + 199


def test_half_precision_and_regression_labels():
    probe = SampleSelection(3, seed=0)
    probe.offer(Batch((torch.randn(5, 2).bfloat16(),), torch.randn(5)))
    choose_alone(probe)
    assert samples(probe).dtype == torch.bfloat16


def test_one_sample_is_known_to_all_processes():
    x, y = data()
    probes = [SampleSelection(4, seed=0, rank=r, world_size=2) for r in range(2)]
    for rank, probe in enumerate(probes):
        probe.offer(Batch((x[rank::2],), y[rank::2]))
    together(probes, lambda probe, gather: probe.choose(gather))
    first, second = together(probes, lambda probe, gather: probe.example(gather))
    assert torch.equal(first.inputs[0], second.inputs[0])
    assert first.inputs[0].shape == (1, 4)


def test_who_explains_what_can_change_between_audits():
    x, y = data()
    probes = [SampleSelection(7, seed=0, rank=r, world_size=2) for r in range(2)]
    for rank, probe in enumerate(probes):
        probe.offer(Batch((x[rank::2],), y[rank::2]))
    choose_together(probes, chunk_size=2)
    apart = sorted((c.places, c.keys) for p in probes for c in p.chunks())
    together(probes, lambda probe, gather: probe.distribute(gather, chunk_size=2, everywhere=True))
    assert [sorted((c.places, c.keys) for c in p.chunks()) for p in probes] == [apart, apart]
