"""Players: which elements of the inputs appear and disappear together.

A player is a group of input elements that share one id in an integer *feature mask*, Captum's convention: a
mask has the shape of its input (or broadcasts to it), ids run from 0 without holes, and elements of several
inputs that carry the same id form one player. An element with the id ``-1`` belongs to no player and is always
left as it is (padding, special tokens, anything that is not explained).

Masks may differ from sample to sample. Samples may then have different numbers of players; the batch has as
many players as the sample with the most, and players that a sample lacks never change its value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

NO_PLAYER = -1
"""The id of elements that belong to no player, such as padding."""


@dataclass(frozen=True)
class Players:
    """The player id of every input element.

    Attributes:
        ids: per input, the player of each element, int64 of shape (1 or B, elements). Elements that belong to no
            player carry the id ``n_players``.
        n_players: F, the largest number of players of any sample.
        counts: (B,) how many players each sample has.
        is_identity: player k is element k of the only input, so that no indexing is needed.
        has_fixed: some elements belong to no player.
    """

    ids: tuple[Tensor, ...]
    n_players: int
    counts: Tensor
    is_identity: bool
    has_fixed: bool

    @classmethod
    def from_mask(cls, inputs: Sequence[Tensor], feature_mask: Sequence[Tensor] | None = None) -> Players:
        """The players of a feature mask; without one, every element is a player.

        Args:
            inputs: tensors of shape (B, ...).
            feature_mask: one integer tensor per input, broadcastable to it, or None.

        Raises:
            TypeError: a mask is not an integer tensor.
            ValueError: the masks do not fit the inputs or have holes.

        Example:
            >>> image = torch.zeros(1, 1, 2, 2)
            >>> Players.from_mask([image], [torch.tensor([[[[0, 0], [1, 1]]]])]).n_players
            2
        """
        n_samples, device = inputs[0].shape[0], inputs[0].device
        if feature_mask is None:
            sizes = [x[0].numel() for x in inputs]
            ids = torch.arange(sum(sizes), device=device)[None].split(sizes, dim=1)
            counts = torch.full((n_samples,), sum(sizes), device=device)
            return cls(tuple(ids), sum(sizes), counts, is_identity=len(inputs) == 1, has_fixed=False)
        if len(feature_mask) != len(inputs):
            raise ValueError(
                f"`feature_mask` must have one mask per input, got {len(feature_mask)} masks for {len(inputs)} "
                "inputs. Pass a tuple with one integer tensor for each input."
            )
        masks = [_flat_mask(m, x, k) for k, (m, x) in enumerate(zip(feature_mask, inputs, strict=True))]
        _check_largest(masks)
        n_players = max((int(m.max()) if m.numel() else NO_PLAYER) for m in masks) + 1
        counts = _count_players(masks, n_players).expand(n_samples).clone()
        has_fixed = any(bool((m == NO_PLAYER).any()) for m in masks)
        ids = tuple(m.masked_fill(m == NO_PLAYER, n_players) for m in masks)
        is_identity = len(ids) == 1 and torch.equal(ids[0], torch.arange(n_players, device=device)[None])
        return cls(ids, n_players, counts, is_identity, has_fixed)

    @property
    def exists(self) -> Tensor:
        """(B, F) bool: whether a sample has the player at all."""
        return torch.arange(self.n_players, device=self.counts.device) < self.counts[:, None]

    def widened(self, widths: Mapping[int, int]) -> Players:
        """The same players of inputs whose elements have become several each, such as embeddings of tokens.

        Args:
            widths: by position of an input, how many elements each of its elements became.
        """
        ids = tuple(x.repeat_interleave(widths.get(k, 1), dim=1) for k, x in enumerate(self.ids))
        return replace(self, ids=ids, is_identity=False)

    def any_element(self, flags: Sequence[Tensor]) -> Tensor:
        """Whether any element of a player is flagged.

        Args:
            flags: per input, bool of shape (B, elements).

        Returns:
            (B, F) bool.
        """
        n_samples = flags[0].shape[0]
        hits = torch.zeros(n_samples, self.n_players + 1, dtype=torch.int64, device=flags[0].device)
        for ids, flag in zip(self.ids, flags, strict=True):
            hits.scatter_add_(1, ids.expand(n_samples, -1), flag.to(torch.int64))
        return hits[:, : self.n_players] > 0


def _flat_mask(mask: Tensor, x: Tensor, position: int) -> Tensor:
    """Bring one mask to shape (1 or B, elements), refusing what does not fit."""
    if mask.is_floating_point() or mask.is_complex() or mask.dtype == torch.bool:
        raise TypeError(
            f"`feature_mask` must be an integer tensor of player ids, got {mask.dtype} for input {position}. "
            "Convert it with `.long()`."
        )
    if mask.dim() == x.dim() - 1:
        mask = mask[None]
    expected = (mask.shape[0] if mask.dim() == x.dim() and mask.shape[0] in (1, x.shape[0]) else 1, *x.shape[1:])
    try:
        mask = mask.to(x.device, torch.int64).expand(expected)
    except RuntimeError:
        raise ValueError(
            f"`feature_mask` must broadcast to its input, got {tuple(mask.shape)} for input {position} of shape "
            f"{tuple(x.shape)}. Give it the input's shape, with 1 for the sample dimension to share it."
        ) from None
    mask = mask.reshape(expected[0], -1)
    if mask.numel() and int(mask.min()) < NO_PLAYER:
        raise ValueError(
            f"`feature_mask` must hold ids from 0 upwards (or -1 for elements that are no player), got "
            f"{int(mask.min())} for input {position}."
        )
    if mask.shape[0] > 1 and bool((mask == mask[:1]).all()):
        mask = mask[:1]
    return mask


def _check_largest(masks: Sequence[Tensor]) -> None:
    """Refuse an id that is too large for all smaller ones to occur, before memory is taken for so many players."""
    n_elements = sum(m.shape[1] for m in masks)
    largest = max((int(m.max()) for m in masks if m.numel()), default=NO_PLAYER)
    if largest >= n_elements:
        raise ValueError(
            f"`feature_mask` must use every id from 0 to its largest, got id {largest} for only {n_elements} elements. "
            "Renumber it, e.g. with `torch.unique(mask, return_inverse=True)[1]`."
        )


def _count_players(masks: Sequence[Tensor], n_players: int) -> Tensor:
    """Count the players per mask row, (1,) or (B,), and refuse holes in the ids."""
    n_rows = max((m.shape[0] for m in masks), default=1)
    seen = torch.zeros(n_rows, n_players + 1, dtype=torch.bool, device=masks[0].device)
    for mask in masks:
        # -1 wraps to the spare last column, which is dropped below.
        rows = mask.expand(n_rows, -1)
        seen.scatter_(1, rows.remainder(n_players + 1), True)
    seen = seen[:, :n_players]
    counts = seen.sum(dim=1)
    holes = ~seen & (torch.arange(n_players, device=seen.device) < counts[:, None])
    if bool(holes.any()):
        row, missing = holes.nonzero()[0].tolist()
        where = f" in sample {row}" if n_rows > 1 else ""
        largest = int(seen[row].nonzero().max())
        raise ValueError(
            f"`feature_mask` must use every id from 0 to its largest, got no element with id {missing}{where} "
            f"although id {largest} occurs. Renumber it, e.g. with `torch.unique(mask, return_inverse=True)[1]`."
        )
    return counts
