"""Estimators of bivariate Shapley values, and the one place that removes null players before and restores them after.

An estimator works on a :class:`~bivshap_lightning.explainers.null_players.ReducedGame`, the game without its null
players, and returns an :class:`~bivshap_lightning.explainers.null_players.Estimate`. The wrapper in this module checks
the number of evaluations, seeds the generator, and turns the estimate into an
:class:`~bivshap_lightning.explainers.Explanation` of all players, in which null players are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.game import Game
from bivshap_lightning.game.model import global_rngs_kept


@runtime_checkable
class Estimator(Protocol):
    """Bivariate Shapley values of a game without null players.

    Example:
        >>> from bivshap_lightning.explainers.exact import Exact
        >>> isinstance(Exact(), Estimator)
        True
    """

    @property
    def name(self) -> str:
        """The name under which it is registered and reported."""

    @property
    def is_exact(self) -> bool:
        """Whether its values are free of sampling error."""

    def minimum_evaluations(self, n_players: int) -> int:
        """The fewest coalitions with which it can estimate; raises ValueError if it cannot handle so many players."""

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        """Estimate from at most ``n_coalitions`` values per sample, drawing from a generator on the game's device."""


def default_coalitions(n_players: int) -> int:
    """Coalitions per sample where none are given: the paper's number for its kernel method.

    Example:
        >>> default_coalitions(54)
        4312
    """
    return 2 * (2 * n_players + 2048)


def default_evaluations(game: Game) -> int:
    """Model rows per sample where none are given: :func:`default_coalitions` times the number of background rows.

    Example:
        >>> default_evaluations(Game(lambda x: x.sum(dim=1), torch.ones(1, 54), behavior="output"))
        4312
    """
    return default_coalitions(ReducedGame(game).n_players) * game.removal.n_rows


def explain_without_null_players(
    estimator: Estimator, game: Game, *, n_evaluations: int | None = None, seed: int = 0
) -> Explanation:
    """Explain a game by an estimator that sees only its non-null players.

    Args:
        estimator: how values are estimated.
        game: the game.
        n_evaluations: at most this many model rows per sample; None for :func:`default_evaluations`, or the estimator's
            minimum if that is more.
        seed: seed of the estimator's generator. The same seed gives the same coalitions for any number of samples.

    Raises:
        ValueError: the game has one player, or ``n_evaluations`` is below the minimum.

    Example:
        >>> from bivshap_lightning.explainers.exact import Exact
        >>> game = Game(lambda x: x.amax(dim=1), torch.tensor([[1.0, 1.0, 0.0]]), behavior="output")
        >>> explain_without_null_players(Exact(), game).bivariate[0, :, 2]
        tensor([0.1667, 0.1667, 0.0000])
    """
    if game.n_players < 2:
        raise ValueError(
            "`feature_mask` must make at least two players, got 1. Interactions need a second player: split it, "
            "or read its importance off `game` directly."
        )
    reduced, n_rows = ReducedGame(game), game.removal.n_rows
    least = estimator.minimum_evaluations(reduced.n_players)
    if n_evaluations is None:
        n_coalitions = max(default_coalitions(reduced.n_players), least)
    else:
        n_coalitions = n_evaluations // n_rows
    if n_coalitions < least:
        per_row = f" ({least} coalitions times {n_rows} background rows)" if n_rows > 1 else ""
        raise ValueError(
            f"`n_evaluations` must be at least {least * n_rows}{per_row} for method={estimator.name!r} with "
            f"{reduced.n_players} non-null players, got {n_evaluations}. Raise it, or group players by `feature_mask`."
        )
    before = game.n_evaluations
    with global_rngs_kept([game.device]):
        generator = torch.Generator(device=game.device).manual_seed(seed)
        estimate = estimator.estimate(reduced, n_coalitions, generator)
    return Explanation.of(
        game,
        method=estimator.name,
        seed=seed,
        shapley=reduced.restore_vector(estimate.shapley),
        n_evaluations=game.n_evaluations - before,
        bivariate=reduced.restore(estimate.bivariate, estimate.null_column),
        standard_error=reduced.restore(estimate.bivariate_error, estimate.null_column_error),
        shapley_standard_error=reduced.restore_vector(estimate.shapley_error),
        is_exact=estimator.is_exact,
    )


@dataclass(frozen=True)
class EstimatorExplainer:
    """An estimator as an explainer of whole games; made when an estimator is registered.

    Attributes:
        estimator: how values are estimated.

    Example:
        >>> from bivshap_lightning.explainers.exact import Exact
        >>> game = Game(lambda x: x.sum(dim=1), torch.tensor([[1.0, 2.0, 0.0]]), behavior="output")
        >>> explainer = EstimatorExplainer(Exact())
        >>> explainer.name, explainer.minimum_evaluations(game)
        ('exact', 4)
    """

    estimator: Estimator

    @property
    def name(self) -> str:
        """The estimator's name."""
        return self.estimator.name

    @property
    def is_exact(self) -> bool:
        """Whether the estimator's values are free of sampling error."""
        return self.estimator.is_exact

    def minimum_evaluations(self, game: Game) -> int:
        """The fewest model rows per sample with which the game can be explained."""
        return self.estimator.minimum_evaluations(ReducedGame(game).n_players) * game.removal.n_rows

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game; see :func:`explain_without_null_players`."""
        return explain_without_null_players(self.estimator, game, n_evaluations=n_evaluations, seed=seed)
