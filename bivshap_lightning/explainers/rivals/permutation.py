"""Permutation importance (Breiman 2001) of single samples: what is lost when a player's values are those of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.explainers.rivals.occlusion import Occlusion
from bivshap_lightning.game import Game


@register
@dataclass(frozen=True)
class Permutation:
    """The value of a sample less its mean value with one player taken from each background row.

    The background rows are the samples to permute with, so a game needs several of them. The mean over samples of a
    game with ``behavior="loss"`` and their labels as target is Breiman's importance.

    Example:
        >>> import torch
        >>> rows = torch.tensor([[0.0, 1.0], [2.0, 1.0]])
        >>> game = Game(lambda x: x[:, 0] * x[:, 1], torch.tensor([[3.0, 1.0]]), background=rows, behavior="output")
        >>> Permutation().explain(game).shapley
        tensor([[2., 0.]])
    """

    name: ClassVar[str] = "permutation"
    is_exact: ClassVar[bool] = True

    def minimum_evaluations(self, game: Game) -> int:
        """All players, and all without each; raises ValueError if there are no rows to permute with."""
        self._check(game)
        return Occlusion().minimum_evaluations(game)

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game of several background rows; ``n_evaluations`` and ``seed`` are ignored."""
        self._check(game)
        found = Occlusion().explain(game, n_evaluations, seed)
        return Explanation.of(
            game,
            method=self.name,
            seed=seed,
            shapley=found.shapley,
            n_evaluations=found.n_evaluations,
            is_exact=True,
        )

    def _check(self, game: Game) -> None:
        if game.removal.n_rows < 2 or game.removal.sampler is not None:
            raise ValueError(
                f"`background` must hold at least two rows for 'permutation', whose values take the place of a "
                f"player's, got {game.removal.description!r}. Pass some training samples, or use 'feature_ablation'."
            )
