"""DeepLIFT (Shrikumar et al. 2017, of Captum) by name: contributions passed back through a network's layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.explainers.rivals.captum import captum_explainer
from bivshap_lightning.explainers.rivals.captum_signatures import captum
from bivshap_lightning.game import Game


@register
@dataclass(frozen=True)
class DeepLift:
    """Captum's DeepLift around the model of a game.

    It explains the score of the target as the model gives it, whatever the game's behavior is, against the mean of the
    background rows if there are several, and its evaluations are not counted. Only non-linearities that are modules
    count as such (``nn.ReLU()``, not ``relu(x)``), a restriction of DeepLIFT in Captum.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> game = Game(model, torch.tensor([[1.0, 2.0]]), behavior="output")
        >>> bool(torch.allclose(DeepLift().explain(game).shapley, model.weight * game.inputs[0]))
        True
    """

    name: ClassVar[str] = "deep_lift"
    is_exact: ClassVar[bool] = False

    def minimum_evaluations(self, game: Game) -> int:
        """One pass; raises ValueError if the model is no torch module."""
        self._check(game)
        return 1

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Attribute to the players of a game.

        Args:
            game: a game of a torch module.
            n_evaluations: ignored.
            seed: ignored.

        Raises:
            ValueError: the model is no torch module, or an input has no gradient.
        """
        self._check(game)
        return captum_explainer(captum().DeepLift(game.module)).explain(game, n_evaluations, seed)

    def _check(self, game: Game) -> None:
        if game.module is None:
            raise ValueError(
                "`model` must be a torch module for 'deep_lift', which passes contributions back through its layers, "
                "got a function or an estimator. Use 'integrated_gradients', or a perturbation method for black boxes."
            )
