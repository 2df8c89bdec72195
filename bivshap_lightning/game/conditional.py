"""Conditional removal: what replaces absent players depends on which players are present.

The value of a coalition S is then an estimate of ``E[f(X) | X_S = x_S]``, the mean over rows that fit the present
players: the nearest of given rows (:class:`NearestRows`), or what a sampler of the user's draws
(:class:`ConditionalSampler`). Both are passed as ``background`` of a game. A player that the model does not read can
then have importance, because it tells about others, so no player is known to be null beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bivshap_lightning.game.removal import Removal

# Elements of the differences between samples and rows that are held at a time.
ELEMENTS_AT_ONCE = 2**22

# From inputs (N, ...) and bool masks of their present elements, both one per input, to rows (N, R, ...) per input.
Sampler = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], tuple[Tensor, ...]]


@dataclass(frozen=True)
class NearestRows:
    """The background rows that are nearest to a sample in its present players, as ``background`` of a game.

    Distances are squared differences in units of the standard deviation of the rows, summed over the elements of the
    present players; integers differ or do not. Of equally near rows, the first count; so do the first rows where no
    player is present.

    Attributes:
        rows: (R, ...) as a tensor or an array, or a tuple with one per input.
        n_neighbours: how many of them a value is averaged over; each costs an evaluation.

    Example:
        >>> from bivshap_lightning import Game
        >>> copies = torch.arange(5.0)[:, None].repeat(1, 2)  # two columns that are always equal
        >>> game = Game(
        ...     lambda x: x[:, 1], torch.tensor([[3.0, 3.0]]), background=NearestRows(copies, 1), behavior="output"
        ... )
        >>> game(torch.tensor([[[True, False]]])), game.removal.description
        (tensor([[3.]]), 'conditional: mean over the 1 nearest of 5 background rows')
    """

    rows: Any
    n_neighbours: int = 10

    def __post_init__(self) -> None:
        if self.n_neighbours < 1:
            raise ValueError(f"`n_neighbours` must be at least 1, got {self.n_neighbours}.")

    def removal(self, inputs: Sequence[Tensor], rows: Sequence[Tensor]) -> Removal:
        """The removal of a game.

        Args:
            inputs: tensors of shape (B, ...).
            rows: the attribute of this name as tensors, one per input.
        """
        marginal = Removal.from_background(inputs, rows)
        n_rows = min(self.n_neighbours, marginal.n_rows)
        description = f"conditional: mean over the {n_rows} nearest of {marginal.n_rows} background rows"
        return Removal(marginal.rows, n_rows, description, _Nearest([r[0] for r in marginal.rows], n_rows))


@dataclass(frozen=True)
class ConditionalSampler:
    """A sampler of your own, as ``background`` of a game.

    Attributes:
        draw: from a tuple of inputs (N, ...) and a tuple of bool masks of their present elements (N, ...) to a tuple of
            rows (N, n_rows, ...); a tensor instead of a tuple if there is one input. Equal arguments must give equal
            rows: draw from a generator that is seeded in every call.
        n_rows: how many rows it returns for each; each costs an evaluation.

    Example:
        >>> from bivshap_lightning import Game
        >>> def mean_of_present(x, present):
        ...     mean = (x * present).sum(dim=1) / present.sum(dim=1).clamp(min=1)
        ...     return mean[:, None, None].expand(-1, 1, x.shape[1])
        >>> x = torch.tensor([[1.0, 3.0, 8.0]])
        >>> game = Game(lambda x: x[:, 2], x, background=ConditionalSampler(mean_of_present, 1), behavior="output")
        >>> game(torch.tensor([[[True, True, False]]]))
        tensor([[2.]])
    """

    draw: Callable[..., Any]
    n_rows: int

    def __post_init__(self) -> None:
        if self.n_rows < 1:
            raise ValueError(f"`n_rows` must be at least 1, got {self.n_rows}.")

    def removal(self, inputs: Sequence[Tensor]) -> Removal:
        """The removal of a game."""
        none = tuple(torch.zeros_like(x, dtype=torch.bool) for x in inputs)
        rows = self._checked(tuple(inputs), none)
        name = getattr(self.draw, "__name__", type(self.draw).__name__)
        return Removal(rows, self.n_rows, f"conditional: mean over {self.n_rows} rows of {name}", self._checked)

    def _checked(self, inputs: tuple[Tensor, ...], present: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        alone = len(inputs) == 1
        found = self.draw(*(inputs + present)) if alone else self.draw(inputs, present)
        rows = found if isinstance(found, (tuple, list)) else (found,)
        expected = [(len(x), self.n_rows, *x.shape[1:]) for x in inputs]
        if [tuple(r.shape) for r in rows] != expected:
            raise ValueError(
                f"`background` must draw rows of shapes {expected}, got {[tuple(r.shape) for r in rows]}. Check `draw` "
                "of the ConditionalSampler."
            )
        return tuple(r.to(x) for r, x in zip(rows, inputs, strict=True))


Conditional = NearestRows | ConditionalSampler


class _Nearest:
    """The nearest of fixed rows.

    Args:
        rows: per input, (R, ...).
        n_neighbours: how many are returned.
    """

    def __init__(self, rows: Sequence[Tensor], n_neighbours: int) -> None:
        self.rows, self.n_neighbours = tuple(rows), n_neighbours

    def __call__(self, inputs: tuple[Tensor, ...], present: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        distances = torch.zeros(len(inputs[0]), len(self.rows[0]), dtype=torch.float64, device=inputs[0].device)
        for x, rows, mask in zip(inputs, self.rows, present, strict=True):
            distances += _distances(x.flatten(1), rows.flatten(1), mask.flatten(1).double())
        nearest = distances.sort(dim=1, stable=True).indices[:, : self.n_neighbours]
        return tuple(rows[nearest] for rows in self.rows)


def _distances(x: Tensor, rows: Tensor, present: Tensor) -> Tensor:
    """(N, R) squared distances over present elements, exactly 0 where they are equal."""
    if x.is_floating_point():
        scale = rows.double().std(dim=0, correction=0)
        x, rows = (y.double() / torch.where(scale > 0, scale, 1) for y in (x, rows))
    parts = []
    for own, mask in zip(*(y.split(max(1, ELEMENTS_AT_ONCE // rows.numel())) for y in (x, present)), strict=True):
        differences = own[:, None] - rows
        unequal = differences**2 if x.is_floating_point() else (differences != 0).double()
        parts.append((unequal @ mask[:, :, None])[:, :, 0])
    return torch.cat(parts)
