"""What every rival explainer promises."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from bivshap_lightning.game import Game


@runtime_checkable
class Rival(Protocol):
    """An explainer that scores the players of a game.

    Example:
        >>> import torch
        >>> class Ablation:
        ...     name = "ablation"
        ...
        ...     def attribute(self, game: Game) -> Tensor:
        ...         everyone = torch.ones(1, 1, game.n_players, dtype=torch.bool)
        ...         without = ~torch.eye(game.n_players, dtype=torch.bool)
        ...         return game(everyone) - game(without[None])
        >>> isinstance(Ablation(), Rival)
        True
    """

    @property
    def name(self) -> str:
        """What tables and figures call it."""

    def attribute(self, game: Game) -> Tensor:
        """Scores (B, F), signed where the method has a sign, high = important; exactly 0 for null players."""
