"""Between elements of the inputs and players, for methods that attribute to elements (gradients, attribution objects).

Every function handles some of the samples at a time: ``rows``, int64 of shape (n,).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bivshap_lightning.game import Game


def check_floating_point(game: Game, name: str) -> None:
    """Raise ValueError for inputs that have no gradient."""
    for position, x in enumerate(game.inputs):
        if not x.is_floating_point():
            raise ValueError(
                f"`inputs` must be floating point for {name!r}, because it needs gradients, got {x.dtype} for input "
                f"{position}. Use a perturbation method, or explain embeddings instead."
            )


def connected(utility: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The utility with every input in its autograd graph; raises ValueError if the model is not differentiable."""

    def value(*arguments: Tensor) -> Tensor:
        values, inputs = utility(*arguments), arguments[:-1]
        if torch.is_grad_enabled() and not values.requires_grad and any(x.requires_grad for x in inputs):
            raise ValueError(
                "`model` must be differentiable with respect to its inputs for gradient methods, got values without a "
                "gradient. Use a perturbation method for black boxes."
            )
        # Captum takes the gradient of all inputs, which fails for one that the model does not use.
        return values + sum((0 * x).reshape(len(x), -1).sum(dim=1) for x in inputs)

    return value


def element_players(game: Game, rows: Tensor) -> tuple[Tensor, ...]:
    """Per input, the player of each element, (1 or n, ...); F for elements of no player."""
    return tuple(
        (ids if len(ids) == 1 else ids[rows]).view(-1, *x.shape[1:])
        for x, ids in zip(game.inputs, game.players.ids, strict=True)
    )


def baseline_rows(game: Game, rows: Tensor, *, all_of_them: bool) -> tuple[Tensor, ...]:
    """Baselines of the samples, per input. Elements of no player are their own baseline.

    Args:
        game: the game.
        rows: which samples; only one of them if all background rows are asked for.
        all_of_them: all R background rows instead of their mean, a single one twice, because methods that take a
            distribution (DeepLiftShap) need two.

    Returns:
        Tensors of shape (n, ...) or (max(2, R), ...).
    """
    found = []
    for x, given, ids in zip(game.inputs, game.removal.rows, element_players(game, rows), strict=True):
        if game.removal.n_rows > 1 and not x.is_floating_point():
            raise ValueError(
                f"`background` must be floating point for an attribution object, which takes one baseline row, got "
                f"{x.dtype}. Call the method by its name, or give the game `baselines`."
            )
        own = given if len(given) == 1 else given[rows]
        is_single = own.shape[1] == 1
        if all_of_them:
            own = own[0].expand(2, *x.shape[1:]) if is_single else own[0]
        else:
            own = own[:, 0] if is_single else own.mean(dim=1)
        found.append(torch.where(ids == game.n_players, x[rows], own))
    return tuple(found)


def arguments_of_the_model(game: Game, rows: Tensor) -> dict[str, Any]:
    """Arguments that an attribution object, which runs a model itself, needs from the game."""
    arguments: dict[str, Any] = {"feature_mask": element_players(game, rows)}
    if game.n_outputs > 1 and not game.target.is_floating_point():
        arguments["target"] = game.target[rows]
    if game.additional_forward_args:
        arguments["additional_forward_args"] = tuple(
            value[rows] if isinstance(value, Tensor) and value.dim() and len(value) == game.n_samples else value
            for value in game.additional_forward_args
        )
    return arguments


def gather_by_player(game: Game, rows: Tensor, found: tuple[Tensor, ...], *, average: bool) -> Tensor:
    """Attributions of players from those of elements.

    Args:
        game: the game.
        rows: which samples.
        found: per input, attributions of its shape (n, ...).
        average: average over the elements of a player, which all repeat its score, instead of summing them.

    Returns:
        (n, F).
    """
    sums = torch.zeros(len(rows), game.n_players + 1, dtype=game.dtype, device=game.device)
    counts = torch.zeros_like(sums)
    for attribution, ids in zip(found, element_players(game, rows), strict=True):
        place = ids.expand(attribution.shape).reshape(len(rows), -1)
        flat = attribution.detach().reshape(len(rows), -1).to(sums)
        sums.scatter_add_(1, place, flat)
        counts.scatter_add_(1, place, torch.ones_like(flat))
    return (sums / counts.clamp(min=1) if average else sums)[:, : game.n_players]
