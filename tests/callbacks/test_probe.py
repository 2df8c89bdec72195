import torch
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning.callbacks.batches import Batch
from bivshap_lightning.callbacks.probe import POOL, Probe


def data(n: int = 60, n_classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 4, generator=generator), torch.randint(n_classes, (n,), generator=generator)


def choose_together(probes: list[Probe]) -> None:
    mine = [sorted((s, k) for s, keys in p._strata.items() for k in keys) for p in probes]
    for probe in probes:
        probe.choose(lambda value: mine)


@given(st.integers(1, 20), st.integers(1, 17), st.integers(0, 5), st.permutations(range(60)))
def test_the_choice_depends_on_neither_batches_nor_order(size, batch_size, seed, order):
    x, y = data()
    reference, other = Probe(size, seed), Probe(size, seed)
    reference.offer(Batch((x,), y))
    for part in torch.tensor(order).split(batch_size):
        other.offer(Batch((x[part],), y[part]))
    for probe in (reference, other):
        assert probe.choose(lambda value: [value]) == 0
    assert reference.keys == other.keys
    assert len(reference) == min(size, 60)
    assert torch.equal(reference.batches()[0].inputs[0], other.batches()[0].inputs[0])


def test_classes_take_turns():
    x, y = data()
    probe = Probe(9, seed=0)
    probe.offer(Batch((x,), y))
    probe.choose(lambda value: [value])
    assert probe.batches()[0].labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_another_seed_is_another_choice():
    x, y = data()
    probes = [Probe(5, seed=s) for s in (0, 1)]
    for probe in probes:
        probe.offer(Batch((x,), y))
        probe.choose(lambda value: [value])
    assert not torch.equal(probes[0].batches()[0].inputs[0], probes[1].batches()[0].inputs[0])


def test_processes_choose_what_one_process_would():
    """Uneven shards with the padding of a distributed sampler, whose duplicates count once."""
    x, y = data(61)
    alone = Probe(12, seed=0)
    alone.offer(Batch((x,), y))
    alone.choose(lambda value: [value])
    padded = torch.cat([torch.arange(61), torch.arange(2)])
    probes = [Probe(12, seed=0, rank=r, world_size=3) for r in range(3)]
    for rank, probe in enumerate(probes):
        shard = padded[rank::3]
        for part in shard.split(8):
            probe.offer(Batch((x[part],), y[part]))
    choose_together(probes)
    assert all(p.keys == alone.keys for p in probes)
    places = sorted(k for p in probes for group in p.indices() for k in group)
    assert places == list(range(12))


def test_a_resumed_run_finds_the_same_samples():
    x, y = data()
    first = Probe(5, seed=0)
    first.offer(Batch((x[:30],), y[:30]))
    first.choose(lambda value: [value])
    again = Probe(5, seed=0, wanted=first.keys)
    again.offer(Batch((x.flip(0),), y.flip(0)))
    assert again.choose(lambda value: [value]) == 0
    assert again.keys == first.keys
    assert torch.equal(again.batches()[0].inputs[0], first.batches()[0].inputs[0])
    changed = Probe(5, seed=0, wanted=first.keys)
    changed.offer(Batch((x + 1,), y))
    assert changed.choose(lambda value: [value]) == 5
    assert len(changed) == 5


def test_samples_of_different_shapes_stay_apart():
    probe = Probe(6, seed=0)
    probe.offer(Batch((torch.randn(3, 4),)))
    probe.offer(Batch((torch.randn(3, 5),)))
    probe.choose(lambda value: [value])
    assert sorted(tuple(b.inputs[0].shape) for b in probe.batches()) == [(3, 4), (3, 5)]
    assert sorted(k for group in probe.indices() for k in group) == list(range(6))


def test_every_process_can_have_all_samples():
    x, y = data()
    probes = [Probe(8, seed=0, rank=r, world_size=2) for r in range(2)]
    for rank, probe in enumerate(probes):
        probe.offer(Batch((x[rank::2],), y[rank::2]))
    choose_together(probes)
    rows = [dict(p._rows) for p in probes]
    for probe in probes:
        probe.replicate(lambda value: rows)
    assert torch.equal(probes[0].batches()[0].inputs[0], probes[1].batches()[0].inputs[0])
    assert len(probes[0].batches()[0]) == 8


def test_large_validation_sets_are_not_searched_to_the_end():
    x = torch.arange(POOL + 500.0)[:, None]
    probe = Probe(POOL + 500, seed=0)
    for part in x.split(100):
        probe.offer(Batch((part,)))
    probe.choose(lambda value: [value])
    assert len(probe) == POOL
    assert float(probe.batches()[0].inputs[0].max()) < POOL


def test_half_precision_and_regression_labels():
    probe = Probe(3, seed=0)
    probe.offer(Batch((torch.randn(5, 2).bfloat16(),), torch.randn(5)))
    probe.choose(lambda value: [value])
    assert probe.batches()[0].inputs[0].dtype == torch.bfloat16
