"""Coalitions: sets of players as rows of bool masks, without a Python loop over them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

MIXER = 0x9E3779B97F4A7C15 - 2**64
"""An odd number of no regular bits, 2**64 over the golden ratio: products with it spread over all 64-bit numbers."""


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


def pack(masks: Tensor) -> Tensor:
    """Masks as 64-bit words, for comparing coalitions.

    Args:
        masks: bool (..., F).

    Returns:
        (..., ceil(F / 64)) int64, equal exactly where the masks are.
    """
    n_missing = -masks.shape[-1] % 64
    whole = pad(masks, (0, n_missing)) if n_missing else masks.contiguous()
    if any(n_bytes % 8 for n_bytes in (whole.storage_offset(), *whole.stride()[:-1])):
        # A part of somebody's tensor need not start at multiples of eight bytes, as words do.
        whole = whole.clone(memory_format=torch.contiguous_format)
    eights = whole.view(torch.int64)
    # A mask of eight players is a number with a bit at every multiple of 8. Times the constant, which moves each of
    # them to a bit of its own in the highest byte, without a carry from below.
    octets = (eights * 0x0102040810204080) >> 56
    return octets.to(torch.uint8).view(torch.int64)


def unique(masks: Tensor) -> tuple[Tensor, Tensor] | None:
    """Find the distinct coalitions of each sample.

    Args:
        masks: bool (B, K, F).

    Returns:
        The (U,) position, of the B * K, of one copy of each distinct mask, sample by sample, and for all (B, K) masks
        their place among them. None if they are all distinct.

    Example:
        >>> unique(torch.tensor([[[True, False], [False, True], [True, False]]]))
        (tensor([0, 1]), tensor([[0, 1, 0]]))
    """
    if not masks.shape[2]:
        raise ValueError(f"`masks` must have at least one player, got {tuple(masks.shape)}.")
    words = pack(masks)
    for labels in (_mixed, _counted):
        label, order = labels(words).sort(dim=1, stable=True)
        is_another = label[:, 1:] != label[:, :-1]
        if bool(is_another.all()):
            return None
        is_another = pad(is_another, (1, 0), value=True)
        starts = torch.arange(len(masks), device=masks.device)[:, None] * masks.shape[1]
        first = (order + starts)[is_another]
        place = torch.empty_like(order).scatter_(1, order, is_another.flatten().cumsum(0).view_as(order) - 1)
        if torch.equal(words.flatten(0, 1)[first[place]], words):
            break
    return first, place


def _mixed(words: Tensor) -> Tensor:
    """(B, K) one number for the words of each row; two different rows share it once in a blue moon."""
    mixed, *rest = words.unbind(dim=-1)
    for word in rest:
        mixed = mixed * MIXER
        mixed = mixed ^ (mixed >> 31) ^ word
    return mixed


def _counted(words: Tensor) -> Tensor:
    """(B, K) what `_mixed` gives, never shared by two different rows; it takes a sort per word."""
    label = torch.zeros_like(words[..., 0])
    for word in words.unbind(dim=-1):
        values, ranks = torch.unique(word, return_inverse=True)
        label = torch.unique(label * len(values) + ranks, return_inverse=True)[1]
    return label


@dataclass(frozen=True)
class Block:
    """K coalitions to evaluate: of every sample, or each of one.

    Attributes:
        masks: bool (1, K, F) that all samples share, (B, K, F) of their own, or (K, F) of one sample each.
        samples: (K,) whose coalition each is; None when every sample takes part in all of them.
        stand_ins: (K,) which background row replaces absent players; None when there is only one.
    """

    masks: Tensor
    samples: Tensor | None = None
    stand_ins: Tensor | None = None

    def __len__(self) -> int:
        return self.masks.shape[-2]

    def __getitem__(self, part: slice | Tensor) -> Block:
        rest = (t if t is None else t[part] for t in (self.samples, self.stand_ins))
        return Block(self.masks[..., part, :], *rest)

    def follow(self, values: Tensor) -> Tensor:
        """What each of B samples has, (B, ...), once for each of its rows; a copy, which a model may write to."""
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
        stand_ins = torch.arange(n_rows, device=self.masks.device).repeat(len(self))
        return Block(self.masks.repeat_interleave(n_rows, dim=-2), samples, stand_ins)

    def spread(self, n_samples: int) -> Block:
        """Coalitions of every sample as single rows, sample by sample."""
        samples = torch.arange(n_samples, device=self.masks.device).repeat_interleave(len(self))
        stand_ins = None if self.stand_ins is None else self.stand_ins.repeat(n_samples)
        return Block(self.masks.expand(n_samples, -1, -1).flatten(0, 1), samples, stand_ins)
