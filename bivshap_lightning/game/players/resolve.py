"""Makes players and their names from the argument ``feature_mask``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bivshap_lightning.game.inputs import Table, as_tensor
from bivshap_lightning.game.players.images import Grid
from bivshap_lightning.game.players.partition import NO_PLAYER, Players
from bivshap_lightning.game.players.tables import Columns

Names = tuple[tuple[str, ...], ...]


def make_players(
    inputs: Sequence[Tensor], feature_mask: Any = None, tables: Sequence[Table | None] = ()
) -> tuple[Players, Names | None]:
    """Players and, where a maker provides them, their names.

    Args:
        inputs: tensors of shape (B, ...).
        feature_mask: None (every element is a player), integer ids, a maker such as
            :class:`~bivshap_lightning.game.players.Grid`, any function of the input (of the tuple of inputs, if there
            are several) that returns ids, or a tuple with one of these per input. Players that a maker finds in a later
            input follow those of earlier inputs; integer ids are taken as they are, so that a player may span inputs.
        tables: per input, the data frame it came from, whose columns name the players.

    Returns:
        The players, and B tuples of names or None.

    Example:
        >>> players, names = make_players([torch.zeros(2, 1, 8, 8), torch.zeros(2, 3)], (Grid(1), None))
        >>> players.n_players, names
        (4, (('r0c0', '1', '2', '3'), ('r0c0', '1', '2', '3')))
    """
    has_columns = any(table is not None for table in tables)
    if feature_mask is None and not has_columns:
        return Players.from_mask(inputs), None
    if feature_mask is None:
        feature_mask = [None] * len(inputs)
    if callable(feature_mask) and len(inputs) > 1:
        feature_mask = feature_mask(tuple(inputs))
    given = list(feature_mask) if isinstance(feature_mask, (tuple, list)) else [feature_mask]
    if len(given) != len(inputs):
        raise ValueError(
            f"`feature_mask` must have one mask per input, got {len(given)} masks for {len(inputs)} inputs. Pass a "
            "tuple with one integer tensor, or one maker, for each input."
        )
    if has_columns:
        given = [_with_columns(maker, table) for maker, table in zip(given, tables, strict=True)]
    masks = [_with_rows(as_tensor(_made(maker, x)), x) for maker, x in zip(given, inputs, strict=True)]
    is_made = [maker is None or callable(maker) for maker in given]
    if len(inputs) > 1:
        masks = _one_after_another(masks, is_made, inputs)
    players = Players.from_mask(inputs, masks)
    return players, _names(players, given, masks, inputs)


def automatic_mask(inputs: Sequence[Tensor], n_patches: int = 8) -> tuple[Any, ...]:
    """Default players: columns of tables, patches of images, steps of sequences, tokens.

    Args:
        inputs: tensors (B, F) (one player per column or token), images (a grid of patches), (B, T, D) (one per step),
            or anything else (one per element).
        n_patches: patches along each side of an image.

    Returns:
        What :func:`make_players` takes, one entry per input.

    Example:
        >>> images, table = torch.zeros(2, 3, 28, 28), torch.zeros(2, 5)
        >>> make_players((images, table), automatic_mask((images, table)))[0].n_players
        69
    """
    return tuple(Grid(n_patches) if x.dim() == 4 else _steps if x.dim() == 3 else None for x in inputs)


def _with_columns(maker: Any, table: Table | None) -> Any:
    """The maker of a table's players, with the names of the columns."""
    if table is None or not (maker is None or (isinstance(maker, Columns) and maker.columns is None)):
        return maker
    return replace(maker or Columns(), columns=table.columns)


def _steps(x: Tensor) -> Tensor:
    return torch.arange(x.shape[1], device=x.device)[None, :, None]


def _made(maker: Any, x: Tensor) -> Any:
    if maker is None:
        return torch.arange(x[0].numel(), device=x.device).view(1, *x.shape[1:])
    return maker(x) if callable(maker) else maker


def _with_rows(mask: Tensor, x: Tensor) -> Tensor:
    """A mask that all samples share, with a dimension for them."""
    return mask[(None,) * (x.dim() - mask.dim())]


def _one_after_another(masks: Sequence[Tensor], is_made: Sequence[bool], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Number made players after those of earlier inputs, sample by sample."""
    taken = torch.zeros(1, dtype=torch.int64, device=inputs[0].device)
    shifted: list[Tensor] = []
    for mask, made, x in zip(masks, is_made, inputs, strict=True):
        mask = mask.to(x.device)
        if made and bool((taken > sum(y[0].numel() for y in inputs)).any()):
            return [*shifted, *masks[len(shifted) :]]  # refused where masks are checked
        if made:
            offset = taken.view(-1, *[1] * (mask.dim() - 1))
            mask = torch.where(mask == NO_PLAYER, NO_PLAYER, mask + offset)
        shifted.append(mask)
        if mask.numel():
            taken = torch.maximum(taken, mask.reshape(len(mask), -1).amax(dim=1) + 1)
    return shifted


def _names(players: Players, makers: Sequence[Any], masks: Sequence[Tensor], inputs: Sequence[Tensor]) -> Names | None:
    """The names of all players of all samples; players that no maker names carry their number."""
    found = [maker.names(x) if hasattr(maker, "names") else None for maker, x in zip(makers, inputs, strict=True)]
    if all(names is None for names in found):
        return None
    counts = players.counts.tolist()
    is_shared = all(names is None or len(names) == 1 for names in found) and all(len(ids) == 1 for ids in players.ids)
    by_sample = []
    for b, n in enumerate(counts[:1] if is_shared else counts):
        labels = [str(k) for k in range(n)]
        for names, mask in zip(found, masks, strict=True):
            if names is not None:
                own = mask[b if mask.shape[0] > 1 else 0]
                first = int(own[own != NO_PLAYER].min()) if bool((own != NO_PLAYER).any()) else 0
                part = names[b if len(names) > 1 else 0]
                labels[first : first + len(part)] = part
        by_sample.append(tuple(labels))
    return tuple(by_sample) * (len(counts) if is_shared else 1)
