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
    n_words = -(-masks.shape[-1] // 64)
    eights = pad(masks, (0, 64 * n_words - masks.shape[-1])).view(torch.int64)
    # A mask of eight players is a number with a bit at every multiple of 8. Times the constant, which moves each of
    # them to a bit of its own in the highest byte, without a carry from below.
    octets = (eights * 0x0102040810204080) >> 56
    return octets.to(torch.uint8).view(torch.int64)


def unique(masks: Tensor, groups: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Find the distinct coalitions.

    Args:
        masks: bool (N, F).
        groups: optional (N,) int64; equal masks of different groups stay distinct.

    Returns:
        The (U,) position of one copy of each distinct mask, group by group, and for each of the N masks its place
        among them.

    Example:
        >>> unique(torch.tensor([[True, False], [False, True], [True, False]]))
        (tensor([2, 1]), tensor([0, 1, 0]))
    """
    if not masks.shape[1]:
        raise ValueError(f"`masks` must have at least one player, got {tuple(masks.shape)}.")
    words = pack(masks)
    positions = torch.arange(len(masks), device=masks.device)
    for labels in (_mixed, _counted):
        values, place = torch.unique(labels(words, groups), return_inverse=True)
        first = positions.new_empty(len(values)).scatter_(0, place, positions)
        copies = first[place]
        if torch.equal(words[copies], words) and (groups is None or torch.equal(groups[copies], groups)):
            break
    return first, place


def _mixed(words: Tensor, groups: Tensor | None) -> Tensor:
    """(N,) one number per row by group and words, sorted by group; two different rows share it once in a blue moon."""
    mixed = words[:, 0] * MIXER
    for word in words.unbind(dim=1)[1:]:
        mixed = (mixed ^ (mixed >> 31) ^ word) * MIXER
    return mixed if groups is None else (groups << 40) + ((mixed >> 24) & (2**40 - 1))


def _counted(words: Tensor, groups: Tensor | None) -> Tensor:
    """(N,) what `_mixed` gives, never shared by two different rows; it takes a sort per word."""
    label = torch.zeros_like(words[:, 0]) if groups is None else groups
    for word in words.unbind(dim=1):
        values, ranks = torch.unique(word, return_inverse=True)
        label = torch.unique(label * len(values) + ranks, return_inverse=True)[1]
    return label


@dataclass(frozen=True)
class Block:
    """Coalitions to evaluate: each for all samples, or each for one.

    Attributes:
        masks: bool (K, F).
        samples: (K,) whose coalition each is; None when every sample takes part in all of them.
        stand_ins: (K,) which background row replaces absent players; None when there is only one.
    """

    masks: Tensor
    samples: Tensor | None = None
    stand_ins: Tensor | None = None

    def __len__(self) -> int:
        return len(self.masks)

    def __getitem__(self, part: slice) -> Block:
        return Block(self.masks[part], *(t if t is None else t[part] for t in (self.samples, self.stand_ins)))

    def against(self, n_rows: int) -> Block:
        """Every coalition once per background row."""
        if n_rows == 1:
            return self
        samples = None if self.samples is None else self.samples.repeat_interleave(n_rows)
        stand_ins = torch.arange(n_rows, device=self.masks.device).repeat(len(self))
        return Block(self.masks.repeat_interleave(n_rows, dim=0), samples, stand_ins)

    def spread(self, n_samples: int) -> Block:
        """A shared block as single rows, sample by sample."""
        samples = torch.arange(n_samples, device=self.masks.device).repeat_interleave(len(self))
        stand_ins = None if self.stand_ins is None else self.stand_ins.repeat(n_samples)
        return Block(self.masks.repeat(n_samples, 1), samples, stand_ins)
