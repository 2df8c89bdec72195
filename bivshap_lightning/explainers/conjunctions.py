"""Bivariate Shapley values of sums of conjunctions, in closed form.

A leaf of a decision tree over present and absent players is worth its value if all players of a set P are present and
all of a set N absent, and zero otherwise. With p = |P| and n = |N|, its values are known without enumeration:

* i in P: with ``a = v (p - 1)! n! / (p + n)!``, ``E2[i, j]`` is a for j in P, 0 for j in N, else ``a p / (p + n + 1)``;
* i in N: with ``a = -v p! (n - 1)! / (p + n)!``, the same but for the last, which is ``a (p + 1) / (p + n + 1)``;
* any other i: 0.

The Shapley value of i is a. What i is worth when a player of neither set is present depends on i alone, so it is the
null column, and only pairs of players of the same leaf differ from it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bivshap_lightning.explainers.null_players import Estimate

# Sums below this share of all that went into them are rounding: they are zero.
ROUNDING = 1e-13
# Pairs of players that are handled at once.
PAIRS_AT_ONCE = 2**21


class ConjunctionSum:
    """Sums of conjunctions, one for each of B samples, over n players.

    Args:
        n_samples: B.
        n_players: n.
        device: where the sums are kept.

    Example:
        >>> both = ConjunctionSum(1, 3)  # worth 1 if player 0 is present and player 2 absent
        >>> both.add(torch.tensor([0]), torch.tensor([1.0]), torch.tensor([[0, 5]]))
        >>> both.estimate().shapley
        tensor([[ 0.5000,  0.0000, -0.5000]], dtype=torch.float64)
    """

    def __init__(self, n_samples: int, n_players: int, device: torch.device | None = None) -> None:
        self._shape = (n_samples, n_players)
        zeros = torch.zeros(n_samples * n_players, dtype=torch.float64, device=device)
        self._shapley, self._null_column = zeros, zeros.clone()
        self._pairs = zeros.new_zeros(n_samples * n_players**2)
        self._scale = zeros.new_zeros(n_samples)

    def add(self, samples: Tensor, values: Tensor, literals: Tensor) -> None:
        """Add conjunctions.

        Args:
            samples: (M,) int64, whose sum each one belongs to.
            values: (M,) float64, what it is worth.
            literals: (M, W) integers, a player at most once: 2 k if player k must be present, 2 k + 1 if it must be
                absent, -1 to fill up.
        """
        literals = literals.sort(dim=1, descending=True).values
        lengths = (literals >= 0).sum(dim=1)
        for length in range(1, literals.shape[1] + 1):
            rows = (lengths == length).nonzero()[:, 0]
            for part in rows.split(max(1, PAIRS_AT_ONCE // length**2)):
                self._add_equally_long(samples[part], values[part].double(), literals[part, :length].long())

    def _add_equally_long(self, samples: Tensor, values: Tensor, literals: Tensor) -> None:
        n, length = self._shape[1], literals.shape[1]
        absent = (literals & 1).double()
        n_absent = absent.sum(dim=1, keepdim=True)
        n_present = length - n_absent
        shares = values.new_tensor([1 / math.comb(length, k) for k in range(length + 1)])
        worth = values[:, None] * shares[n_absent.long()]  # v p! n! / (p + n)!
        gains = torch.where(absent > 0, -worth / n_absent.clamp(min=1), worth / n_present.clamp(min=1))
        elsewhere = (n_present + absent) / (length + 1)
        rows = samples[:, None] * n + (literals >> 1)
        self._shapley.index_add_(0, rows.flatten(), gains.flatten())
        self._null_column.index_add_(0, rows.flatten(), (gains * elsewhere).flatten())
        pairs = rows[:, :, None] * n + (literals >> 1)[:, None, :]
        excess = gains[:, :, None] * ((1 - absent)[:, None, :] - elsewhere[:, :, None])
        self._pairs.index_add_(0, pairs.flatten(), excess.flatten())
        self._scale.index_add_(0, samples, worth[:, 0].abs())

    def estimate(self) -> Estimate:
        """The values of all that has been added."""
        shapley, null_column = self._shapley.view(self._shape), self._null_column.view(self._shape)
        bivariate = self._pairs.view(*self._shape, -1) + null_column[:, :, None]
        bivariate.diagonal(dim1=1, dim2=2).zero_()
        least = ROUNDING * self._scale[:, None]
        shapley, null_column = (x.masked_fill(x.abs() <= least, 0) for x in (shapley, null_column))
        return Estimate.exact(bivariate.masked_fill(bivariate.abs() <= least[:, :, None], 0), shapley, null_column)
