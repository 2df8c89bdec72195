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
from torch import Tensor

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


MAX_COALITIONS = 10_000_000
"""Per sample: masks of more do not fit into memory, and nothing is gained by them."""


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
    # Exact values do not depend on a design, so all samples can be treated together.
    groups = [ReducedGame(game)] if estimator.is_exact else ReducedGame.by_count(game)
    before, estimates = game.n_evaluations, []
    for reduced in groups:
        n_coalitions = _count_coalitions(estimator, reduced, n_evaluations)
        with global_rngs_kept([game.device]):
            generator = torch.Generator(device=game.device).manual_seed(seed)
            estimates.append(estimator.estimate(reduced, n_coalitions, generator))

    def restore(matrices: list[Tensor], columns: list[Tensor]) -> Tensor:
        parts = (g.restore(m, c) for g, m, c in zip(groups, matrices, columns, strict=True))
        return _in_order(list(parts), groups)

    def restore_vectors(vectors: list[Tensor]) -> Tensor:
        return _in_order([g.restore_vector(v) for g, v in zip(groups, vectors, strict=True)], groups)

    gains = [e.absolute_gains for e in estimates if e.absolute_gains is not None]
    return Explanation.of(
        game,
        method=estimator.name,
        seed=seed,
        shapley=restore_vectors([e.shapley for e in estimates]),
        n_evaluations=game.n_evaluations - before,
        bivariate=restore([e.bivariate for e in estimates], [e.null_column for e in estimates]),
        standard_error=restore([e.bivariate_error for e in estimates], [e.null_column_error for e in estimates]),
        shapley_standard_error=restore_vectors([e.shapley_error for e in estimates]),
        is_exact=estimator.is_exact,
        absolute_gains=restore([g[0] for g in gains], [g[1] for g in gains]) if len(gains) == len(groups) else None,
        notes=_notes(estimates, groups),
    )


def _count_coalitions(estimator: Estimator, reduced: ReducedGame, n_evaluations: int | None) -> int:
    """How many coalitions the samples of a reduced game may use, checked against the estimator's minimum."""
    n_rows, least = reduced.game.removal.n_rows, estimator.minimum_evaluations(reduced.n_players)
    if n_evaluations is None:
        return max(default_coalitions(reduced.n_players), least)
    if n_evaluations // n_rows < least:
        per_row = f" ({least} coalitions times {n_rows} background rows)" if n_rows > 1 else ""
        raise ValueError(
            f"`n_evaluations` must be at least {least * n_rows}{per_row} for method={estimator.name!r} with "
            f"{reduced.n_players} non-null players, got {n_evaluations}. Raise it, or group players by `feature_mask`."
        )
    if not estimator.is_exact:
        check_not_too_many(n_evaluations // n_rows, estimator.name)
    return n_evaluations // n_rows


def check_not_too_many(n_coalitions: int, method: str) -> None:
    """Refuse more coalitions per sample than fit into memory, before they are drawn.

    Example:
        >>> check_not_too_many(10**12, "sampling")
        Traceback (most recent call last):
        ValueError: `n_evaluations` must be at most 10,000,000 coalitions per sample for method='sampling', got
        1,000,000,000,000. Lower it; the error falls with the square root of the number only.
    """
    if n_coalitions > MAX_COALITIONS:
        raise ValueError(
            f"`n_evaluations` must be at most {MAX_COALITIONS:,} coalitions per sample for method={method!r}, got "
            f"{n_coalitions:,}. Lower it; the error falls with the square root of the number only."
        )


def _in_order(parts: list[Tensor], groups: list[ReducedGame]) -> Tensor:
    """Rows of several groups of samples in the order of the samples."""
    if groups[0].samples is None:
        return parts[0]
    joined = torch.cat(parts)
    return torch.empty_like(joined).index_copy_(0, _order(groups), joined)


def _order(groups: list[ReducedGame]) -> Tensor:
    return torch.cat([group.samples for group in groups if group.samples is not None])


def _notes(estimates: list[Estimate], groups: list[ReducedGame]) -> tuple[str, ...]:
    """The notes of all samples in their order, () if there are none."""
    notes = [note for e, g in zip(estimates, groups, strict=True) for note in e.notes or ("",) * g.n_samples]
    if not any(notes):
        return ()
    order = range(len(notes)) if groups[0].samples is None else _order(groups).tolist()
    return tuple(note for _, note in sorted(zip(order, notes, strict=True)))


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
