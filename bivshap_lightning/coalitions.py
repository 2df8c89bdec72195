"""Coalitions: sets of players as rows of bool masks, without a Python loop over them."""

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


def pack(masks: Tensor) -> Tensor:
    """Masks as 64-bit words, for comparing coalitions.

    Args:
        masks: bool (..., F).

    Returns:
        (..., ceil(F / 64)) int64, equal exactly where the masks are.
    """
    n_words = -(-masks.shape[-1] // 64)
    bits = pad(masks, (0, 64 * n_words - masks.shape[-1])).unflatten(-1, (8 * n_words, 8))
    shifts = torch.arange(8, device=masks.device, dtype=torch.uint8)
    octets: Tensor = (bits.to(torch.uint8) << shifts).sum(dim=-1, dtype=torch.uint8)
    return octets.view(torch.int64)


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
    # One number per distinct row, word by word: sorting numbers is far cheaper than sorting rows.
    label = groups
    for word in pack(masks).unbind(dim=1):
        values, ranks = torch.unique(word, return_inverse=True)
        label = ranks if label is None else torch.unique(label * len(values) + ranks, return_inverse=True)[1]
    if label is None:
        raise ValueError(f"`masks` must have at least one player, got {tuple(masks.shape)}.")
    positions = torch.arange(len(masks), device=masks.device)
    n_distinct = int(label.max()) + 1
    return positions.new_empty(n_distinct).scatter_(0, label, positions), label


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
