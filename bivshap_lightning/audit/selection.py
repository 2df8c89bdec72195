"""The choice of validation samples that are explained: the same in every epoch, balanced over classes.

A sample is identified by the hash of its content. Of each class the samples with the smallest hashes are chosen, so the
choice does not depend on batch size, order, number of processes or the padding of a distributed sampler (a duplicated
sample has the same hash and counts once), and a resumed run finds the same samples again.

The chosen samples are explained in chunks of one shape. Which samples form a chunk depends on the choice alone; each
process explains some of the chunks, whichever process read their samples.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bivshap_lightning.audit.batches import Batch

# Samples of the validation set that are considered, unless more are wanted: enough to meet all classes, cheap to hash.
POOL = 1024
# Largest number of samples in a chunk; larger chunks are hardly faster.
CHUNK = 16

Gather = Callable[[Any], list[Any]]
Candidate = tuple[int, str]


@dataclass(frozen=True)
class SampleChunk:
    """Chosen samples that are explained together.

    Attributes:
        places: indices of the samples among the chosen ones.
        keys: the hashes of their content.
        batch: the samples.
    """

    places: tuple[int, ...]
    keys: tuple[str, ...]
    batch: Batch


class SampleSelection:
    """Collects candidates during a validation epoch, then makes and distributes the choice.

    Args:
        size: how many samples, over all processes.
        seed: another seed, another choice.
        rank: of this process.
        world_size: how many processes share the validation set.
        wanted: keys of an earlier choice, to be found again.

    Example:
        >>> selection = SampleSelection(2, seed=0)
        >>> selection.offer(Batch((torch.arange(8.0).view(4, 2),), torch.tensor([0, 0, 1, 1])))
        >>> missing = selection.choose(lambda x: [x])
        >>> selection.distribute(lambda x: [x])
        >>> [chunk.batch.labels.tolist() for chunk in selection.chunks()]
        [[0, 1]]
    """

    def __init__(self, size: int, seed: int, rank: int = 0, world_size: int = 1, wanted: Iterable[str] = ()) -> None:
        self._size, self._seed, self._rank, self._world_size = size, seed, rank, world_size
        self._pool = max(POOL, size)
        self._wanted = dict.fromkeys(wanted)
        self._rows: dict[str, tuple[Tensor, ...]] = {}
        self._strata: dict[int, list[str]] = {}
        self._template: Batch | None = None
        self._n_seen = 0
        self._mine: list[list[int]] = []
        self._distributed: tuple[int, bool] | None = None
        self.keys: list[str] = []

    @property
    def is_chosen(self) -> bool:
        """Whether the choice has been made."""
        return bool(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def offer(self, batch: Batch, eligible: Sequence[bool] | None = None) -> None:
        """Consider the samples of a batch, or only the eligible ones."""
        first = self._n_seen * self._world_size + self._rank
        self._n_seen += len(batch)
        if first >= self._pool and not self._wanted:
            return
        rows = [t.detach().cpu() for t in batch.tensors]  # candidates take no memory of the model's device
        self._template = batch.like([t[:0] for t in rows])
        octets = [t.contiguous().view(len(batch), -1).view(torch.uint8).numpy() for t in rows]
        strata = _strata(batch)
        for i in range(len(batch)):
            if first + i * self._world_size >= self._pool and not self._wanted:
                break
            if eligible is not None and not eligible[i]:
                continue
            digest = hashlib.blake2b(self._seed.to_bytes(8, "little", signed=True), digest_size=12)
            for part in octets:
                digest.update(part[i].tobytes())
            self._keep(strata[i], digest.hexdigest(), tuple(t[i].clone() for t in rows))

    def _keep(self, stratum: int, key: str, row: tuple[Tensor, ...]) -> None:
        """Keep the smallest keys of each class, and the wanted ones."""
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
        """Make the choice, together with all other processes.

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
        self._strata, self._wanted = {}, {}
        if self.keys:
            self._template = next((t for t in gather(self._template) if t is not None), None)
        return n_missing

    def example(self, gather: Gather, device: torch.device | str = "cpu") -> Batch:
        """The first chosen sample, on every process.

        Args:
            gather: as in :meth:`choose`.
            device: where it is wanted.
        """
        key = self.keys[0]
        row = next(row for row in gather(self._rows.get(key)) if row is not None)
        return self._stack([row], device)

    def rows(self) -> dict[str, tuple[Tensor, ...]]:
        """The chosen samples that this process holds, by key: inputs, further tensors, labels."""
        return dict(self._rows)

    def labels(self) -> list[Tensor]:
        """The labels of this process's samples, one by one; empty where there are none."""
        template = self._template
        return [row[-1] for row in self._rows.values()] if template is not None and template.labels is not None else []

    def distribute(self, gather: Gather, *, chunk_size: int = CHUNK, everywhere: bool = False) -> None:
        """Cut the choice into chunks of one shape and bring the samples of each to the process that explains it.

        Args:
            gather: as in :meth:`choose`.
            chunk_size: at most this many samples in a chunk.
            everywhere: every process explains all chunks.
        """
        if self._distributed == (chunk_size, everywhere):
            return
        shapes: dict[str, tuple[torch.Size, ...]] = {}
        for part in gather({key: tuple(t.shape for t in row) for key, row in self._rows.items()}):
            shapes |= part
        groups: dict[tuple[torch.Size, ...], list[int]] = {}
        for place, key in enumerate(self.keys):
            groups.setdefault(shapes[key], []).append(place)
        chunks = [g[k : k + chunk_size] for g in groups.values() for k in range(0, len(g), chunk_size)]
        self._mine = chunks if everywhere else chunks[self._rank :: self._world_size]
        self._distributed = (chunk_size, everywhere)
        if self._world_size == 1:
            return
        wanted = {self.keys[place] for chunk in self._mine for place in chunk}
        found: dict[str, tuple[Tensor, ...]] = {}
        # One chunk per process at a time, so that no process ever holds the whole choice unless it needs it.
        for start in range(0, len(chunks), self._world_size):
            keys = [self.keys[place] for chunk in chunks[start : start + self._world_size] for place in chunk]
            for rows in gather({key: self._rows[key] for key in keys if key in self._rows}):
                found |= {key: row for key, row in rows.items() if key in wanted}
        self._rows = found

    @property
    def n_mine(self) -> int:
        """How many samples this process explains."""
        return sum(map(len, self._mine))

    def chunks(self, device: torch.device | str = "cpu") -> Iterator[SampleChunk]:
        """This process's share of the chosen samples, chunk by chunk.

        Args:
            device: where the samples are wanted.
        """
        for places in self._mine:
            keys = tuple(self.keys[k] for k in places)
            yield SampleChunk(tuple(places), keys, self._stack([self._rows[key] for key in keys], device))

    def _stack(self, rows: list[tuple[Tensor, ...]], device: torch.device | str) -> Batch:
        if self._template is None:  # pragma: no cover - rows come with a template
            raise RuntimeError("no batch was offered")
        return self._template.like([torch.stack(column).to(device) for column in zip(*rows, strict=True)])


def _strata(batch: Batch) -> list[int]:
    """The class of each sample, by which the choice is balanced; of independent labels the first that is on."""
    labels = batch.labels
    if labels is None:
        return [0] * len(batch)
    if labels.dim() == 2 and labels.shape[1] > 1:
        on = (labels != 0).to(torch.int8)
        return torch.where(on.any(dim=1), on.argmax(dim=1), -1).tolist()
    flat = labels.flatten()
    if len(flat) != len(batch) or (flat.is_floating_point() and not bool(((flat == 0) | (flat == 1)).all())):
        return [0] * len(batch)
    return [int(label) for label in flat.tolist()]


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
