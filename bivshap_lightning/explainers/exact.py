"""Exact values by enumeration of all coalitions: the oracle, and the best choice for small games."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.explainers.rows import AllCoalitions, RowEstimator, Rows


@register
@dataclass(frozen=True)
class Exact(RowEstimator):
    """Enumeration of all coalitions as an estimator.

    Attributes:
        exact_limit: the most non-null players that are enumerated.

    Example:
        >>> Exact().minimum_evaluations(4)
        16
    """

    exact_limit: int = 16
    name: ClassVar[str] = "exact"
    is_exact: ClassVar[bool] = True

    def minimum_evaluations(self, n_players: int) -> int:
        """All coalitions.

        Raises:
            ValueError: there are more players than ``exact_limit``.
        """
        if n_players > self.exact_limit:
            raise ValueError(
                f"`method='exact'` must have at most exact_limit={self.exact_limit} non-null players, got {n_players} "
                f"(2**{n_players} evaluations per sample). Use method='auto', group players by `feature_mask`, or "
                "raise `exact_limit`."
            )
        return 1 << n_players

    def draw(self, n_players: int, n_coalitions: int, generator: torch.Generator, previous: Rows | None = None) -> Rows:
        """All coalitions; nothing is drawn."""
        return AllCoalitions(n_players, generator.device)

    def from_values(self, rows: Rows, values: Tensor) -> Estimate:
        """Not reached: all rows of this estimator are all coalitions."""
        raise TypeError(f"`rows` must be all coalitions, got {type(rows).__name__}.")


def explain_exactly(game: ReducedGame) -> Estimate:
    """Bivariate Shapley values from all ``2 ** n`` coalitions."""
    rows = AllCoalitions(game.n_players, game.device)
    return rows.estimate(game(rows.coalitions))
