"""Coalitions as rows of bool masks: all of them, distinct ones, and blocks of them to be evaluated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad


def all_coalitions(n_players: int, device: torch.device | str = "cpu") -> Tensor:
    """Every coalition, in binary counting order: player i is in coalition s when bit i of s is set.

    Returns:
        (2 ** n_players, n_players) bool.

    Example:
        >>> all_coalitions(2).int()
        tensor([[0, 0],
                [1, 0],
                [0, 1],
                [1, 1]], dtype=torch.int32)
    """
    numbers = torch.arange(2**n_players, device=device)
    return (numbers[:, None] >> torch.arange(n_players, device=device)) & 1 == 1


def check_masks(masks: Tensor, n_samples: int, n_players: int) -> Tensor:
    """Masks as they are, if they are bool (1 or B, K, F) with at least one coalition.

    Example:
        >>> check_masks(torch.ones(1, 4, 3), n_samples=2, n_players=3)
        Traceback (most recent call last):
        TypeError: `masks` must be bool (1 or 2, K, 3), got torch.float32. Convert them with `.bool()`.
    """
    expected = f"bool (1 or {n_samples}, K, {n_players})"
    if not isinstance(masks, Tensor) or masks.dtype != torch.bool:
        got = masks.dtype if isinstance(masks, Tensor) else type(masks).__name__
        raise TypeError(f"`masks` must be {expected}, got {got}. Convert them with `.bool()`.")
    if masks.dim() != 3 or masks.shape[0] not in (1, n_samples) or masks.shape[2] != n_players:
        raise ValueError(f"`masks` must be {expected}, got {tuple(masks.shape)}. True marks present players.")
    if masks.shape[1] == 0:
        raise ValueError(f"`masks` must hold at least one coalition, got {tuple(masks.shape)}.")
    return masks


def pack(masks: Tensor) -> Tensor:
    """Masks as 64-bit words, to compare coalitions.

    Args:
        masks: bool (..., F).

    Returns:
        (..., ceil(F / 64)) int64, equal exactly where the masks are.
    """
    n_missing = -masks.shape[-1] % 64
    whole = pad(masks, (0, n_missing)) if n_missing else masks.contiguous()
    if any(n_bytes % 8 for n_bytes in (whole.storage_offset(), *whole.stride()[:-1])):
        # Words start at multiples of eight bytes, which rows of a slice need not do.
        whole = whole.clone(memory_format=torch.contiguous_format)
    eights = whole.view(torch.int64)
    # Eight bytes of 0 or 1, read as one number, have a bit at every multiple of 8. Multiplied by the constant, each bit
    # is moved to its own position in the highest byte. Shifting and adding the bits one by one takes several times as
    # long, and counts in the overhead of small networks (`benchmarks/bench_engine.py`).
    octets = (eights * 0x0102040810204080) >> 56
    return octets.to(torch.uint8).view(torch.int64)


def unique(masks: Tensor) -> tuple[Tensor, Tensor] | None:
    """Find the distinct coalitions of each sample.

    Args:
        masks: bool (B, K, F).

    Returns:
        The (U,) position, of the B * K, of one copy of each distinct mask, sample by sample, and for all (B, K) masks
        their index among them. None if they are all distinct.

    Example:
        >>> unique(torch.tensor([[[True, False], [False, True], [True, False]]]))
        (tensor([0, 1]), tensor([[0, 1, 0]]))
    """
    if not masks.shape[2]:
        raise ValueError(f"`masks` must have at least one player, got {tuple(masks.shape)}.")
    words = pack(masks)
    order = _lexicographic_order(words)
    ordered = words.gather(1, order[..., None].expand_as(words))
    is_new = pad((ordered[:, 1:] != ordered[:, :-1]).any(dim=2), (1, 0), value=True)
    if bool(is_new.all()):
        return None
    starts = torch.arange(len(masks), device=masks.device)[:, None] * masks.shape[1]
    place = torch.empty_like(order).scatter_(1, order, is_new.flatten().cumsum(0).view_as(order) - 1)
    return (order + starts)[is_new], place


def unique_of(masks: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor] | None:
    """Find the distinct rows among masks (N, F) with a number (N,) each, such as that of a sample; see :func:`unique`.

    Example:
        >>> unique_of(torch.tensor([[True], [True], [True]]), torch.tensor([4, 5, 4]))
        (tensor([0, 1]), tensor([[0, 1, 0]]))
    """
    bytes_of_numbers = numbers[:, None].contiguous().view(torch.uint8)
    digits = (bytes_of_numbers[..., None] >> torch.arange(8, dtype=torch.uint8, device=masks.device)) & 1 == 1
    return unique(torch.cat([masks, digits.flatten(1)], dim=1)[None])


def _lexicographic_order(words: Tensor) -> Tensor:
    """(B, K) the order that sorts the rows of each sample, (B, K, words), by their first word, then the second, ..."""
    *others, last = words.unbind(dim=2)
    order = last.argsort(dim=1, stable=True)
    for word in reversed(others):
        order = order.gather(1, word.gather(1, order).argsort(dim=1, stable=True))
    return order


@dataclass(frozen=True)
class Block:
    """K coalitions to evaluate: for every sample, or each for one sample.

    Attributes:
        masks: bool (1, K, F) that all samples share, (B, K, F) of their own, or (K, F) of one sample each.
        samples: (K,) the sample of each coalition; None when each is evaluated for every sample.
        replacements: (K,) which background row replaces absent players; None when there is only one.
    """

    masks: Tensor
    samples: Tensor | None = None
    replacements: Tensor | None = None

    def __len__(self) -> int:
        return self.masks.shape[-2]

    def __getitem__(self, part: slice | Tensor) -> Block:
        rest = (t if t is None else t[part] for t in (self.samples, self.replacements))
        return Block(self.masks[..., part, :], *rest)

    def follow(self, values: Tensor) -> Tensor:
        """Values (B, ...) of samples, repeated for each of their rows; a copy, which a model may write to."""
        if self.samples is None:
            return values.repeat_interleave(len(self), dim=0)
        return values.index_select(0, self.samples)

    def emptiest(self) -> Block:
        """The coalition with the fewest players; one of one sample if each belongs to one."""
        n_present = self.masks.sum(dim=-1)
        return self[(n_present if self.masks.dim() == 2 else n_present.sum(dim=0)).argmin()[None]]

    def against(self, n_rows: int) -> Block:
        """Every coalition once per background row."""
        if n_rows == 1:
            return self
        samples = None if self.samples is None else self.samples.repeat_interleave(n_rows)
        replacements = torch.arange(n_rows, device=self.masks.device).repeat(len(self))
        return Block(self.masks.repeat_interleave(n_rows, dim=-2), samples, replacements)

    def spread(self, n_samples: int) -> Block:
        """Coalitions of every sample as single rows, sample by sample."""
        samples = torch.arange(n_samples, device=self.masks.device).repeat_interleave(len(self))
        replacements = None if self.replacements is None else self.replacements.repeat(n_samples)
        return Block(self.masks.expand(n_samples, -1, -1).flatten(0, 1), samples, replacements)
