"""Masked inputs: the arguments of a game as tensors, and the input rows of coalitions.

For each coalition, elements of present players keep their value and those of absent players are replaced. The model is
not run here, except to find the layer that embeds tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from bivshap_lightning.game.coalitions import Block
from bivshap_lightning.game.conditional import ConditionalSampler, NearestRows, Sampler
from bivshap_lightning.game.embedding import ZeroEmbedding, embed
from bivshap_lightning.game.inputs import Table, as_tensor, check_inputs, encode_like, tables_of
from bivshap_lightning.game.model import Model, Precision
from bivshap_lightning.game.players import Players, make_players
from bivshap_lightning.game.removal import Removal

# Default size of a forward pass on a CPU. The activations of all rows should fit into the processor's cache: on images,
# too many rows take twice as long per row.
ELEMENTS_OF_A_TABLE = 2**20
ROWS_OF_A_TABLE = 2**13

# Recurrent layers compute step after step, in small products: about so many times slower per multiply-add.
SLOWNESS_OF_STEPS = 4

# Other devices process more rows in parallel than a CPU.
TIMES_A_CPU = 2**6


@dataclass
class MaskedInputs:
    """Model, inputs, players and removal of a game.

    Attributes:
        model: the model.
        inputs: the samples, tensors of shape (B, ...) on the model's device.
        extra: further arguments of the model.
        players: the players.
        names: B tuples of the players' names, or None.
        removal: what replaces absent players.
        null_players: (B, F) bool: players whose input equals its replacement, or that the sample lacks.
    """

    model: Model
    inputs: tuple[Tensor, ...]
    extra: tuple[Any, ...]
    players: Players
    names: tuple[tuple[str, ...], ...] | None
    removal: Removal
    null_players: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self._removes_to_zero = [not bool(rows.any()) for rows in self.removal.rows]
        pairs = zip(self.inputs, self.removal.rows, strict=True)
        differs = [(x[:, None] != replacements).any(dim=1).flatten(1) for x, replacements in pairs]
        is_conditional = self.removal.sampler is not None
        self.null_players = ~(self.players.exists if is_conditional else self.players.any_element(differs))

    @classmethod
    def of(
        cls,
        model: Any,
        inputs: Any,
        baselines: Any,
        background: Any,
        feature_mask: Any,
        additional_forward_args: Any,
        precision: Precision | None = None,
    ) -> MaskedInputs:
        """Convert the arguments of :class:`~bivshap_lightning.Game` and check them."""
        given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        tables = tables_of(given, baselines, background.rows if isinstance(background, NearestRows) else background)
        caller = Model(model, as_arrays=[not isinstance(x, Tensor) for x in given], tables=tables, precision=precision)
        numbers = (as_tensor(encode_like(x, table, "inputs")) for x, table in zip(given, tables, strict=True))
        placed = check_inputs(tuple(caller.place(x) for x in numbers))
        caller.check_length(placed)
        extra = additional_forward_args
        extra = () if extra is None else extra if isinstance(extra, tuple) else (extra,)
        players, names = make_players(placed, feature_mask, tables)
        if players.n_players == 0:
            raise ValueError(
                f"`inputs` must hold at least one player, got none in shapes {[tuple(x.shape) for x in placed]}. "
                "Give some elements a `feature_mask` id from 0 upwards."
            )
        if background is not None and baselines is not None:
            raise ValueError("`baselines` must be None when `background` is given, got both. Pass one of them.")
        if isinstance(background, ConditionalSampler):
            return cls(caller, placed, extra, players, names, background.removal(placed))
        if isinstance(background, NearestRows):
            rows = [as_tensor(part) for part in _encoded(background.rows, tables, "background")]
            return cls(caller, placed, extra, players, names, background.removal(placed, rows))
        if background is not None:
            rows = [as_tensor(part) for part in _encoded(background, tables, "background")]
            return cls(caller, placed, extra, players, names, Removal.from_background(placed, rows))
        replacements = _encoded(baselines, tables, "baselines")
        specs = {k: value for k, value in enumerate(replacements) if isinstance(value, ZeroEmbedding)}
        if specs:
            with caller.evaluation():
                embedded, new, tokens = embed(caller.module, placed, specs, lambda: caller(placed, extra))
            caller, placed, extra = Model(embedded, precision=precision), new, (*tokens, *extra)
            players = players.widened({k: placed[k].shape[2] for k in specs})
        return cls(caller, placed, extra, players, names, Removal.from_baselines(placed, replacements))

    def rows_per_call(self, perturbations_per_eval: int | None) -> int:
        """How many rows go into one forward pass: a number per sample, or a default by device and kind of input."""
        if perturbations_per_eval is None:
            scale = 1 if self.inputs[0].device.type == "cpu" else TIMES_A_CPU
            n_elements = max(1, sum(x[0].numel() for x in self.inputs))
            if self.model.method is not None:  # an estimator has a large cost per call and a small one per row
                return max(1, scale * ELEMENTS_OF_A_TABLE // n_elements)
            budget = min(_elements_per_call(x) for x in self.inputs)
            return max(1, min(scale * budget // n_elements, scale * ROWS_OF_A_TABLE))
        if perturbations_per_eval < 1:
            raise ValueError(
                f"`perturbations_per_eval` must be at least 1, got {perturbations_per_eval}. "
                "Pass None for an automatic choice."
            )
        return int(perturbations_per_eval) * self.inputs[0].shape[0]

    def work_per_row(self) -> int | None:
        """About how many multiply-adds the model takes for one row, by the shapes of its parameters and inputs.

        Kernels of convolutions are taken to apply at every pixel or step, all weights at every token or step of a
        sequence; tables of embeddings are only looked up. None for a model that is no torch module.
        """
        module, shape = self.model.module, self.inputs[0].shape[1:]
        if module is None:
            return None
        is_sequence = len(shape) == 2 or not self.inputs[0].is_floating_point()
        n_steps = max(shape, default=1) if is_sequence else 1
        n_pixels = math.prod(shape[1:]) if len(shape) > 2 else n_steps
        work = 0
        for part in module.modules():
            if isinstance(part, (nn.Embedding, nn.EmbeddingBag)):
                continue
            slowness = SLOWNESS_OF_STEPS if isinstance(part, nn.RNNBase) else 1
            for weight in part.parameters(recurse=False):
                work += weight.numel() * slowness * (n_pixels if weight.dim() > 2 else n_steps)
        return work

    def rows(self, block: Block) -> tuple[Tensor, ...]:
        """The inputs with absent players replaced, (B * K, ...) or (K, ...)."""
        if self.removal.sampler is not None:
            return self._conditional_rows(block, self.removal.sampler)
        return tuple(self._perturb(block, position).flatten(0, 1) for position in range(len(self.inputs)))

    def arguments(self, block: Block) -> tuple[Any, ...]:
        """Further arguments of the model; tensors with a row per sample are repeated like their samples."""
        n_samples = self.inputs[0].shape[0]

        def has_rows(value: Any) -> bool:
            return isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] == n_samples

        return tuple(block.follow(value) if has_rows(value) else value for value in self.extra)

    def _conditional_rows(self, block: Block, sampler: Sampler) -> tuple[Tensor, ...]:
        """Rows whose replacements depend on what is present; each coalition of a sample is asked for once."""
        single = block if block.samples is not None else block.spread(self.inputs[0].shape[0])
        samples = single.samples if single.samples is not None else single.masks.new_zeros(0, dtype=torch.int64)
        keys = torch.cat([single.masks.long(), samples[:, None]], dim=1)
        distinct, place = keys.unique_consecutive(dim=0, return_inverse=True)
        of_sample, masks = distinct[:, -1], pad(distinct[:, :-1] == 1, (0, 1), value=True)
        inputs = tuple(x[of_sample] for x in self.inputs)
        ids = (ids if len(ids) == 1 else ids[of_sample] for ids in self.players.ids)
        wide = (masks.gather(1, i.expand(len(masks), -1)) for i in ids)
        present = tuple(mask.view(x.shape) for mask, x in zip(wide, inputs, strict=True))
        which = torch.zeros_like(place) if single.replacements is None else single.replacements
        return tuple(
            torch.where(mask[place], x[place], rows[place, which])
            for x, mask, rows in zip(inputs, present, sampler(inputs, present), strict=True)
        )

    def _perturb(self, block: Block, position: int) -> Tensor:
        """One input with absent players replaced: (B, K, ...) or (K, 1, ...)."""
        x, replacement = self.inputs[position], self.removal.rows[position]
        masks = block.masks if block.samples is None else block.masks[:, None]
        if block.samples is not None:
            x = x.index_select(0, block.samples)
            replacement = replacement if len(replacement) == 1 else replacement.index_select(0, block.samples)
        if block.replacements is not None:
            replacement = replacement.index_select(1, block.replacements)
            replacement = replacement if block.samples is None else replacement.transpose(0, 1)
        if not self.players.is_identity:
            masks = self._spread_over_elements(masks, block, position)
        masks, x = masks.unflatten(-1, x.shape[1:]), x[:, None]
        if x.dtype == torch.bool:
            return torch.where(masks, x, replacement)
        # One of the terms is exactly zero, so this is exact, and several times faster than `where` with broadcasting.
        # torch converts bytes in SIMD, bools one by one. Always a copy, because it is written to.
        keep = masks.view(torch.uint8).to(x.dtype, copy=True)
        if not self._removes_to_zero[position]:
            return torch.addcmul((1 - keep) * replacement, keep, x)
        kept: Tensor = keep.mul_(x) if len(keep) == len(x) else keep * x
        return kept

    def _spread_over_elements(self, masks: Tensor, block: Block, position: int) -> Tensor:
        """Masks over players as masks over the elements of one input."""
        ids = self.players.ids[position]
        if self.players.has_fixed:
            masks = pad(masks, (0, 1), value=True)
        if len(ids) == 1:
            return masks.index_select(-1, ids[0])
        ids = (ids if block.samples is None else ids.index_select(0, block.samples))[:, None]
        shape = torch.broadcast_shapes(masks.shape[:2], ids.shape[:2])
        return masks.expand(*shape, -1).gather(2, ids.expand(*shape, -1))


def _elements_per_call(x: Tensor) -> int:
    """Input elements per forward pass of a network, fewer where each has more activations."""
    if x.dim() > 2:
        return 2**18 if x.dim() == 3 else 2**17
    return ELEMENTS_OF_A_TABLE if x.is_floating_point() else 2**15  # a code becomes an embedding


def _encoded(values: Any, tables: Sequence[Table | None], argument: str) -> list[Any]:
    """What the user passed, one entry per input, rows of data frames as numbers."""
    if values is None:
        values = [None] * len(tables)
    given = list(values) if isinstance(values, (tuple, list)) else [values]
    if len(given) != len(tables):
        return given  # refused by `Removal`
    return [encode_like(value, table, argument) for value, table in zip(given, tables, strict=True)]
