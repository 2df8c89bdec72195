"""The fractions of players at which curves are reported: 0, 0.04, ..., 1."""

from __future__ import annotations

import torch
from torch import Tensor

N_STEPS = 25
N_POINTS = N_STEPS + 1


def players_at_fractions(player_counts: Tensor) -> Tensor:
    """Return `int(F k)` at each fraction k, in integer arithmetic.

    Args:
        player_counts: (B,) int64, F of each sample.

    Returns:
        (B, 26) int64.

    Example:
        >>> players_at_fractions(torch.tensor([25, 10]))[:, :6]
        tensor([[0, 1, 2, 3, 4, 5],
                [0, 0, 0, 1, 1, 2]])
    """
    steps = torch.arange(N_POINTS, device=player_counts.device)
    return player_counts[:, None] * steps // N_STEPS
