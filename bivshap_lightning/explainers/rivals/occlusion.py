"""Occlusion (Zeiler and Fergus 2014): what is lost while a window slides over the players."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.game import Game


@register
@dataclass(frozen=True)
class Occlusion:
    """The mean loss over all windows of successive players that hold a player.

    Players are the windows of an image already (``Grid``, ``Superpixels``), so a window is one player by default, and
    the scores are those of feature ablation. Wider windows suit tokens and steps of a series.

    Attributes:
        window: how many successive players are removed together.

    Example:
        >>> game = Game(lambda x: x.amax(dim=1), torch.tensor([[1.0, 1.0, 0.5]]), behavior="output")
        >>> Occlusion().explain(game).shapley, Occlusion(window=2).explain(game).shapley
        (tensor([[0., 0., 0.]]), tensor([[0.5000, 0.2500, 0.0000]]))
    """

    window: int = 1
    name: ClassVar[str] = "occlusion"
    is_exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"`window` must be at least 1, got {self.window}.")

    def minimum_evaluations(self, game: Game) -> int:
        """All players, and all without each window."""
        return (max(1, game.n_players - self.window + 1) + 1) * game.removal.n_rows

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game; ``n_evaluations`` and ``seed`` are ignored."""
        n, before = game.n_players, game.n_evaluations
        start = torch.arange(max(1, n - self.window + 1), device=game.device)[:, None]
        place = torch.arange(n, device=game.device)
        windows = (place >= start) & (place < start + self.window)
        values = game(torch.cat([torch.ones_like(windows[:1]), ~windows])[None])
        holds = windows.to(values.dtype)
        scores = (values[:, :1] - values[:, 1:]) @ holds / holds.sum(dim=0)
        return Explanation.of(
            game,
            method=self.name,
            seed=seed,
            shapley=scores.masked_fill(game.null_players, 0),
            n_evaluations=game.n_evaluations - before,
            is_exact=True,
        )
