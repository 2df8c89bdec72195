"""Controls of accuracies after removal: as many players removed at random, and all players removed.

An accuracy that its control reaches too says nothing about the explanation.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bivshap_lightning.checks import check_integer
from bivshap_lightning.game import Game

N_DRAWS = 5
"""Default number of random draws."""


def check_draws(n_draws: int, seed: int) -> dict[str, int]:
    """Return the checked settings of random draws, by name.

    Example:
        >>> check_draws(5, 0)
        {'n_draws': 5, 'seed': 0}
    """
    return {"n_draws": check_integer(n_draws, "n_draws", minimum=1), "seed": check_integer(seed, "seed", minimum=0)}


def random_removals(game: Game, n_removed: Tensor, *, n_draws: int, seed: int) -> Tensor:
    """Return coalitions from which as many players as given are removed at random.

    A sample's players are arranged on a circle in a random order, and each draw removes consecutive ones. Draws start
    at equal distances, so that over the draws every player is removed about equally often. The order depends on the
    seed and the number of players only, so a sample has the same draws in every batch; NumPy guarantees the raw stream
    on every machine and release.

    Args:
        game: The game of B samples.
        n_removed: (B, M) int64, at most as many as the sample has players.
        n_draws: Number of draws.
        seed: Of the random order.

    Returns:
        Bool (B, M, n_draws, F), True for present players.

    Example:
        >>> game = Game(lambda x: x.sum(dim=1), torch.ones(1, 4), behavior="output")
        >>> masks = random_removals(game, torch.tensor([[1, 3]]), n_draws=4, seed=0)
        >>> (~masks).sum(dim=3), (~masks).sum(dim=2)
        (tensor([[[1, 1, 1, 1],
             [3, 3, 3, 3]]]), tensor([[[1, 1, 1, 1],
             [3, 3, 3, 3]]]))
    """
    counts = game.player_counts.cpu().numpy()
    # Another stream than that of the members of groups, which the same seed draws.
    keys = np.random.PCG64(seed).jumped().random_raw(game.n_players)
    # The position of player p among the first n players: how many of them have a smaller key.
    n_smaller = np.cumsum(keys[:, None] > keys, axis=1)
    position = n_smaller[:, counts - 1].T[:, None, None]
    size = counts[:, None, None, None]
    start = np.arange(n_draws)[:, None] * size // n_draws
    is_removed = (position - start) % size < n_removed.cpu().numpy()[:, :, None, None]
    return torch.from_numpy(~is_removed)
