"""The paper's theorem on transitivity as functions of a game: how well "j makes i redundant" can be chained.

Theorem 1: if i hardly changes any value in which j is present, and k hardly any in which i is present, then k hardly
changes any in which j is present. With ``e[i, j]`` the largest change ``|u(S + i) - u(S)|`` over coalitions S that hold
j,

    ``|E2[i, j]| <= e[i, j] / 2``  and  ``|E2[k, j]| <= (2 e[i, j] + e[k, i]) / 2``.

The weights of E2 sum to 1/2, so the bound has no factorial (the factor d! / 2 in the paper is a slip). Corollary 1.1:
for monotone games the redundancy graph at gamma = 0 is transitive. Functions of a game enumerate it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bivshap_lightning.game import Game
from bivshap_lightning.game.coalitions import all_coalitions

# The most players that are enumerated.
EXACT_LIMIT = 16


def largest_changes(game: Game) -> Tensor:
    """Largest change of a value by player i where player j is present.

    Args:
        game: a game of at most 16 players.

    Returns:
        (B, F, F) float64 ``e[b, i, j]``, the maximum of ``|u(S + i) - u(S)|`` over S that hold j and not i; diagonal 0.

    Raises:
        ValueError: the game has too many players.

    Example:
        >>> game = Game(lambda x: torch.maximum(2 * x[:, 0], x[:, 1]), torch.ones(1, 2), behavior="output")
        >>> largest_changes(game)[0]
        tensor([[0., 1.],
                [0., 0.]], dtype=torch.float64)
    """
    n, changes = game.n_players, _changes(game)
    others = all_coalitions(n - 1, game.device)
    found = changes.new_zeros(game.n_samples, n, n)
    for i in range(n):
        for place, j in enumerate(k for k in range(n) if k != i):
            found[:, i, j] = changes[:, i, others[:, place]].abs().amax(dim=1)
    return found


@dataclass(frozen=True)
class TransitivityBound:
    """Bounds of Theorem 1 for the E2 of a game.

    Attributes:
        direct: (B, F, F) ``e[i, j] / 2``, a bound of ``|E2[i, j]|``.
        chained: (B, F, F) at [k, j] the smallest ``(2 e[i, j] + e[k, i]) / 2`` over all other i, a bound of
            ``|E2[k, j]|`` by way of a third player; infinite if there is none.
    """

    direct: Tensor
    chained: Tensor


def transitivity_bound(game: Game) -> TransitivityBound:
    """Bound E2 of a game directly and along chains of two steps (Theorem 1).

    Args:
        game: a game of at most 16 players.

    Raises:
        ValueError: the game has too many players.

    Example:
        >>> game = Game(lambda x: x.amax(dim=1), torch.ones(1, 3), behavior="output")
        >>> bound = transitivity_bound(game)
        >>> float(bound.direct.max()), float(bound.chained.max())
        (0.0, 0.0)
    """
    changes = largest_changes(game)
    n = game.n_players
    # Over (k, j, i): twice what i changes where j is present, and what k changes where i is present.
    steps = 2 * changes.mT[:, None] + changes[:, :, None]
    itself = torch.eye(n, dtype=torch.bool, device=game.device)
    excluded = itself[:, None, :] | itself[None, :, :]
    chained = steps.masked_fill(excluded, torch.inf).amin(dim=3) / 2
    return TransitivityBound(changes / 2, chained.masked_fill(itself, 0))


def is_monotone(game: Game, *, tolerance: float = 0.0) -> Tensor:
    """Whether no player ever lowers a value, for each sample.

    Args:
        game: a game of at most 16 players.
        tolerance: losses of up to this much are overlooked.

    Returns:
        (B,) bool.

    Raises:
        ValueError: the game has too many players.

    Example:
        >>> inputs = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
        >>> is_monotone(Game(lambda x: x.sum(dim=1), inputs, behavior="output"))
        tensor([ True, False])
    """
    return _changes(game).amin(dim=(1, 2)) >= -tolerance


def transitivity_violations(bivariate: Tensor, *, gamma: float) -> Tensor:
    """How far the redundancy graph is from transitive, for each sample.

    ``H`` has an edge j → i if ``|E2[i, j]| <= gamma``. The number is the most by which ``|E2[k, j]|`` exceeds gamma
    over all chains j → i → k of three players; 0 means that H is transitive.

    Args:
        bivariate: (B, F, F) E2.
        gamma: the threshold.

    Returns:
        (B,) in the dtype of ``bivariate``.

    Example:
        >>> chain = torch.tensor([[[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.5, 0.0, 0.0]]])
        >>> transitivity_violations(chain, gamma=0.1)
        tensor([0.4000])
    """
    if bivariate.dim() != 3 or bivariate.shape[1] != bivariate.shape[2]:
        raise ValueError(f"`bivariate` must have shape (B, F, F), got {tuple(bivariate.shape)}.")
    n = bivariate.shape[1]
    off = ~torch.eye(n, dtype=torch.bool, device=bivariate.device)
    edges = (bivariate.abs() <= gamma).mT & off  # edges[j, i]
    reachable = (edges.to(bivariate.dtype) @ edges.to(bivariate.dtype) > 0) & off  # j → i → k
    excess = (bivariate.abs().mT - gamma).clamp(min=0)
    return torch.where(reachable, excess, 0).amax(dim=(1, 2))


def _changes(game: Game) -> Tensor:
    """(B, F, 2^(F-1)) ``u(S + i) - u(S)`` for every i and coalition S of the others."""
    n = game.n_players
    if n > EXACT_LIMIT:
        raise ValueError(
            f"`game` must have at most {EXACT_LIMIT} players to be enumerated, got {n}. Group them by `feature_mask`."
        )
    values = game(all_coalitions(n, game.device)[None]).double()
    parts = [values.view(len(values), -1, 2, 2**i) for i in range(n)]
    return torch.stack([(part[:, :, 1] - part[:, :, 0]).flatten(1) for part in parts], dim=1)
