"""The default explainer: exact where that is affordable, otherwise the estimator that suits the purpose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch

from bivshap_lightning.explainers.estimator import Estimator, EstimatorExplainer, default_coalitions
from bivshap_lightning.explainers.exact import Exact
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.kernel import Kernel
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
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
        """The explainer that suits a game, by the most non-null players that a sample has."""
        if game.has_trees:
            return Trees()
        n_coalitions = None if n_evaluations is None else n_evaluations // game.removal.n_rows
        return EstimatorExplainer(self._choose(ReducedGame(game).n_players, n_coalitions))

    def _choose(self, n_players: int, n_coalitions: int | None) -> Estimator:
        """The estimator for samples with n non-null players; default number of coalitions if None is given."""
        if n_coalitions is None:
            n_coalitions = default_coalitions(n_players)
        if n_players <= self.exact_limit and 2**n_players <= n_coalitions:
            return Exact(exact_limit=self.exact_limit)
        if self.purpose == "redundancy" and n_coalitions >= Sampling().minimum_evaluations(n_players):
            return Sampling()
        return Kernel()

    def minimum_evaluations(self, game: Game) -> int:
        """The fewest model rows per sample with which the estimator of the purpose can explain a game."""
        if game.has_trees:
            return 0
        estimator = EstimatorExplainer(Sampling() if self.purpose == "redundancy" else Kernel())
        return estimator.minimum_evaluations(game)

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game; every sample by the method that suits its own number of non-null players.

        :attr:`Explanation.method` names the method, or several joined by " + "; then :attr:`Explanation.notes` says for
        each sample which one it was.
        """
        if game.has_trees:
            return Trees().explain(game, n_evaluations, seed)
        n_coalitions = None if n_evaluations is None else n_evaluations // game.removal.n_rows
        counts = (~game.null_players).sum(dim=1).clamp(min=1).tolist()
        chosen = {count: self._choose(count, n_coalitions) for count in sorted(set(counts))}
        names = dict.fromkeys(estimator.name for estimator in chosen.values())
        if len(names) == 1:
            return EstimatorExplainer(chosen[max(counts)]).explain(game, n_evaluations, seed)
        explanation = EstimatorExplainer(_ByCount(chosen)).explain(game, n_evaluations, seed)
        own = explanation.notes or ("",) * len(counts)
        notes = tuple("; ".join(filter(None, (chosen[c].name, note))) for c, note in zip(counts, own, strict=True))
        return replace(explanation, method=" + ".join(names), notes=notes)


@dataclass(frozen=True)
class _ByCount:
    """An estimator that is another one for each number of players."""

    chosen: dict[int, Estimator]
    name: ClassVar[str] = "auto"
    is_exact: ClassVar[bool] = False

    def minimum_evaluations(self, n_players: int) -> int:
        return self.chosen[n_players].minimum_evaluations(n_players)

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        return self.chosen[game.n_players].estimate(game, n_coalitions, generator)
