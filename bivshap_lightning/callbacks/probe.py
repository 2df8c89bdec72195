"""The probe: a fixed, stratified handful of validation samples that is explained again and again.

A sample is known by the hash of its content. The probe consists of the samples with the smallest hashes of each class,
so it does not depend on batch size, order, number of processes or padding by a distributed sampler (a duplicated sample
has the same hash and counts once), and a resumed run finds the same samples again.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from bivshap_lightning.callbacks.batches import Batch

# How far into the validation set candidates are looked for: far enough for all classes, cheap on any data.
POOL = 1024

Gather = Callable[[Any], list[Any]]
Candidate = tuple[int, str]


class Probe:
    """Candidates while validation runs, then the chosen samples.

    Args:
        size: how many samples, over all processes.
        seed: another seed, another choice.
        rank: of this process.
        world_size: how many processes share the validation set.
        wanted: keys of an earlier choice, to be found again.

    Example:
        >>> probe = Probe(2, seed=0)
        >>> probe.offer(Batch((torch.arange(8.0).view(4, 2),), torch.tensor([0, 0, 1, 1])))
        >>> missing = probe.choose(lambda x: [x])
        >>> len(probe), probe.batches()[0].labels.tolist()
        (2, [0, 1])
    """

    def __init__(self, size: int, seed: int, rank: int = 0, world_size: int = 1, wanted: Iterable[str] = ()) -> None:
        self._size, self._seed, self._rank, self._world_size = size, seed, rank, world_size
        self._wanted = list(wanted)
        self._rows: dict[str, tuple[Tensor, ...]] = {}
        self._strata: dict[int, list[str]] = {}
        self._template: Batch | None = None
        self._n_seen = 0
        self.keys: list[str] = []

    @property
    def is_chosen(self) -> bool:
        """Whether the choice has been made."""
        return bool(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def offer(self, batch: Batch) -> None:
        """Consider the samples of a batch."""
        first = self._n_seen * self._world_size + self._rank
        self._n_seen += len(batch)
        if first >= POOL and not self._wanted:
            return
        self._template = batch.like(tuple(t[:0] for t in batch.tensors))
        rows = [t.detach() for t in batch.tensors]
        octets = [t.contiguous().view(len(batch), -1).view(torch.uint8).cpu().numpy() for t in rows]
        strata = _strata(batch)
        for i in range(len(batch)):
            if first + i * self._world_size >= POOL and not self._wanted:
                break
            digest = hashlib.blake2b(self._seed.to_bytes(8, "little", signed=True), digest_size=12)
            for part in octets:
                digest.update(part[i].tobytes())
            self._keep(strata[i], digest.hexdigest(), tuple(t[i].clone() for t in rows))

    def _keep(self, stratum: int, key: str, row: tuple[Tensor, ...]) -> None:
        """Hold on to the smallest keys of each class, and to the wanted ones."""
        if key in self._rows:
            return
        kept = self._strata.setdefault(stratum, [])
        kept.append(key)
        self._rows[key] = row
        if len(kept) > self._size:
            spare = [k for k in kept if k not in self._wanted]
            if spare:
                largest = heapq.nlargest(1, spare)[0]
                kept.remove(largest)
                del self._rows[largest]

    def choose(self, gather: Gather) -> int:
        """Settle the choice, together with all other processes.

        Args:
            gather: brings a value from every process to every process, in order of rank.

        Returns:
            How many wanted samples were not found again (then a new choice was made).
        """
        mine = sorted((stratum, key) for stratum, keys in self._strata.items() for key in keys)
        everyone: list[list[Candidate]] = gather(mine)
        owner: dict[str, int] = {}
        for rank, candidates in enumerate(everyone):
            for _, key in candidates:
                owner.setdefault(key, rank)
        pool = sorted({c for candidates in everyone for c in candidates})
        n_missing = sum(key not in owner for key in self._wanted)
        found = [key for key in self._wanted if key in owner]
        self.keys = found if found and not n_missing else _round_robin(pool, self._size)
        self._rows = {k: self._rows[k] for k in self.keys if owner[k] == self._rank and k in self._rows}
        self._strata, self._wanted = {}, []
        return n_missing

    def replicate(self, gather: Gather) -> None:
        """Give every process all chosen samples (models whose parameters are spread over processes need that)."""
        device = next(iter(self._rows.values()))[0].device if self._rows else torch.device("cpu")
        for rows in gather({k: tuple(t.cpu() for t in row) for k, row in self._rows.items()}):
            self._rows |= {k: tuple(t.to(device) for t in row) for k, row in rows.items() if k not in self._rows}

    def batches(self) -> list[Batch]:
        """This process's chosen samples, those of one shape together."""
        return [batch for batch, _ in self._grouped()]

    def indices(self) -> list[list[int]]:
        """For each of :meth:`batches`, the place of its samples in the whole probe."""
        return [places for _, places in self._grouped()]

    def _grouped(self) -> list[tuple[Batch, list[int]]]:
        groups: dict[tuple[torch.Size, ...], list[int]] = {}
        for place, key in enumerate(self.keys):
            if key in self._rows:
                groups.setdefault(tuple(t.shape for t in self._rows[key]), []).append(place)
        return [(self._stack(places), places) for places in groups.values()]

    def _stack(self, places: list[int]) -> Batch:
        if self._template is None:  # pragma: no cover - rows come with a template
            raise RuntimeError("no batch was offered")
        rows = [self._rows[self.keys[place]] for place in places]
        return self._template.like([torch.stack(column) for column in zip(*rows, strict=True)])


def _strata(batch: Batch) -> list[int]:
    labels = batch.labels
    if labels is None or labels.is_floating_point() or labels.numel() != len(batch):
        return [0] * len(batch)
    return [int(label) for label in labels.flatten().tolist()]


def _round_robin(pool: list[Candidate], size: int) -> list[str]:
    """One of each class in turn, smallest keys first, until there are enough; then sorted by class and key."""
    by_class: dict[int, list[str]] = {}
    for stratum, key in sorted(pool, key=lambda c: (c[0], c[1])):
        by_class.setdefault(stratum, []).append(key)
    chosen: list[Candidate] = []
    for turn in range(size):
        turns = [(stratum, keys[turn]) for stratum, keys in by_class.items() if turn < len(keys)]
        chosen += sorted(turns, key=lambda c: c[1])
    return [key for _, key in sorted(chosen[:size])]
