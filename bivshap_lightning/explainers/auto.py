"""The default explainer: exact where that is affordable, otherwise the estimator that suits the purpose."""

from __future__ import annotations

from typing import Literal, get_args

from bivshap_lightning.explainers.estimator import EstimatorExplainer, default_coalitions
from bivshap_lightning.explainers.exact import Exact
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.kernel import Kernel
from bivshap_lightning.explainers.null_players import ReducedGame
from bivshap_lightning.explainers.registry import Explainer, register
from bivshap_lightning.explainers.sampling import Sampling
from bivshap_lightning.explainers.trees import Trees
from bivshap_lightning.game import Game

Purpose = Literal["redundancy", "weights"]


@register
class Auto:
    """Choose a method for each game.

    Tree ensembles that can be read are explained by "trees". Other games are enumerated ("exact") if they have at most
    ``exact_limit`` non-null players and that costs no more than ``n_evaluations``. What is left is estimated: by
    "sampling" for redundancy, whose zeros are exact, or by "kernel" for weights, whose errors are smaller.

    Args:
        purpose: what the explanation is for: "redundancy" or "weights".
        exact_limit: the most non-null players that are enumerated.

    Example:
        >>> import torch
        >>> game = Game(lambda x: x.sum(dim=1), torch.ones(1, 20), behavior="output")
        >>> Auto(purpose="weights").choose(game).name
        'kernel'
        >>> Auto(exact_limit=20).choose(game, 2**20).name
        'exact'
    """

    name = "auto"
    is_exact = False

    def __init__(self, *, purpose: Purpose = "redundancy", exact_limit: int = 16) -> None:
        if purpose not in get_args(Purpose):
            raise ValueError(f"`purpose` must be one of {get_args(Purpose)}, got {purpose!r}.")
        self.purpose, self.exact_limit = purpose, exact_limit

    def choose(self, game: Game, n_evaluations: int | None = None) -> Explainer:
        """The explainer that suits a game and a number of model rows per sample."""
        if game.has_trees:
            return Trees()
        n = ReducedGame(game).n_players
        n_coalitions = default_coalitions(n) if n_evaluations is None else n_evaluations // game.removal.n_rows
        if n <= self.exact_limit and 2**n <= n_coalitions:
            return EstimatorExplainer(Exact(exact_limit=self.exact_limit))
        if self.purpose == "redundancy" and n_coalitions >= Sampling().minimum_evaluations(n):
            return EstimatorExplainer(Sampling())
        return EstimatorExplainer(Kernel())

    def minimum_evaluations(self, game: Game) -> int:
        """The fewest model rows per sample with which the estimator of the purpose can explain a game."""
        if game.has_trees:
            return 0
        estimator = EstimatorExplainer(Sampling() if self.purpose == "redundancy" else Kernel())
        return estimator.minimum_evaluations(game)

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game by the chosen method; :attr:`Explanation.method` names it."""
        return self.choose(game, n_evaluations).explain(game, n_evaluations, seed)
