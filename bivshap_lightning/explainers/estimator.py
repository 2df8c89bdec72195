"""Estimators of bivariate Shapley values, and the one place that removes null players before and restores them after.

An estimator works on a :class:`~bivshap_lightning.explainers.null_players.ReducedGame`, the game without its null
players, and returns an :class:`~bivshap_lightning.explainers.null_players.Estimate`. The wrapper in this module checks
the number of evaluations, seeds the generator, and turns the estimate into an
:class:`~bivshap_lightning.explainers.Explanation` of all players, in which null players are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from bivshap_lightning.explainers.explanation import Explanation, LogOdds
from bivshap_lightning.explainers.null_players import Estimate, KeptPlayers, ReducedGame
from bivshap_lightning.explainers.rows import RowEstimator
from bivshap_lightning.explainers.stages import StagedRun, check_target_error, stage_budgets
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


@dataclass(frozen=True)
class Choice:
    """The estimator of samples with a certain number of players.

    Attributes:
        estimator: how values are estimated.
        reason: why it was chosen, for the provenance; "" if the user chose it.
        most_coalitions: no more than this many, whatever the number of evaluations; None for no such limit.
    """

    estimator: Estimator
    reason: str = ""
    most_coalitions: int | None = None


def explain_without_null_players(
    estimator: Estimator,
    game: Game,
    *,
    n_evaluations: int | None = None,
    seed: int = 0,
    target_error: float | None = None,
    interruptible: bool = False,
) -> Explanation:
    """Explain a game by an estimator that sees only its non-null players.

    Args:
        estimator: how values are estimated.
        game: the game.
        n_evaluations: at most this many model rows per sample; None for :func:`default_evaluations`, or the estimator's
            minimum if that is more.
        seed: seed of the estimator's generator. The same seed gives the same coalitions for any number of samples.
        target_error: draw rows in stages until the relative error of a sample's E2 is at most this; None for all rows
            at once.
        interruptible: a KeyboardInterrupt ends the stages, and the estimates so far are the result.

    Raises:
        ValueError: the game has one player, or ``n_evaluations`` is below the minimum.

    Example:
        >>> from bivshap_lightning.explainers.exact import Exact
        >>> game = Game(lambda x: x.amax(dim=1), torch.tensor([[1.0, 1.0, 0.0]]), behavior="output")
        >>> explain_without_null_players(Exact(), game).bivariate[0, :, 2]
        tensor([0.1667, 0.1667, 0.0000])
    """
    _check_players(game)
    # Exact values do not depend on a design, so all samples can be treated together.
    groups = [ReducedGame(game)] if estimator.is_exact else ReducedGame.by_count(game)
    return _explain_groups(
        [Choice(estimator)] * len(groups),
        groups,
        n_evaluations=n_evaluations,
        seed=seed,
        target_error=target_error,
        interruptible=interruptible,
    )


def explain_by_choice(
    choose: Callable[[int], Choice],
    game: Game,
    *,
    n_evaluations: int | None = None,
    seed: int = 0,
    target_error: float | None = None,
    interruptible: bool = False,
) -> Explanation:
    """Explain a game, every sample by the estimator that suits its own number of non-null players.

    Args:
        choose: the choice for a number of players.
        game: the game.
        n_evaluations: as in :func:`explain_without_null_players`, like what follows.
        seed: seed of the generators.
        target_error: relative error at which a sample stops.
        interruptible: whether a KeyboardInterrupt ends the stages.
    """
    _check_players(game)
    groups = ReducedGame.by_count(game)
    choices = [choose(group.n_players) for group in groups]
    if all(choice.estimator.is_exact for choice in choices):
        groups, choices = [ReducedGame(game)], [choose(ReducedGame(game).n_players)]
    return _explain_groups(
        choices,
        groups,
        n_evaluations=n_evaluations,
        seed=seed,
        target_error=target_error,
        interruptible=interruptible,
    )


def _check_players(game: Game) -> None:
    if game.n_players < 2:
        raise ValueError(
            "`feature_mask` must make at least two players, got 1. Interactions need a second player: split it, "
            "or read its importance off `game` directly."
        )


def _explain_groups(
    choices: Sequence[Choice],
    groups: Sequence[ReducedGame],
    *,
    n_evaluations: int | None,
    seed: int,
    target_error: float | None,
    interruptible: bool,
) -> Explanation:
    """Run all groups stage by stage, so that an interrupt finds an estimate of every sample, and restore players."""
    game = groups[0].game
    before, runs = game.n_evaluations, []
    for choice, reduced in zip(choices, groups, strict=True):
        estimator = choice.estimator
        most = _count_coalitions(estimator, reduced, n_evaluations)
        least = estimator.minimum_evaluations(reduced.n_players)
        most = max(least, min(most, choice.most_coalitions or most))
        is_staged = target_error is not None and not estimator.is_exact
        budgets = stage_budgets(least, most) if is_staged else [most]
        runs.append(StagedRun(estimator, reduced, budgets, target_error=target_error if is_staged else None, seed=seed))
    try:
        with global_rngs_kept([game.device]):
            while unfinished := [run for run in runs if not run.is_finished]:
                for run in unfinished:
                    run.step()
    except KeyboardInterrupt:
        if not interruptible or not all(run.has_estimate for run in runs):
            raise
        for run in runs:
            run.stop()
    estimates = [_with_reason(run.estimate(), choice.reason) for run, choice in zip(runs, choices, strict=True)]
    players = [group.players for group in groups]
    return Explanation.of(
        game,
        method=" + ".join(dict.fromkeys(choice.estimator.name for choice in choices)),
        seed=seed,
        n_evaluations=game.n_evaluations - before,
        is_exact=all(choice.estimator.is_exact for choice in choices),
        log_odds=_log_odds(runs, players),
        **_restored(estimates, players),
    )


def _log_odds(runs: Sequence[StagedRun], players: Sequence[KeptPlayers]) -> LogOdds | None:
    """The explanation of the log-odds as a function of that of the probabilities, if they are known of all samples.

    It holds on to what was drawn, but not to the game and its model.
    """
    known = [find for find in (run.log_odds() for run in runs) if find is not None]
    if len(known) < len(runs):
        return None

    def find(explanation: Explanation) -> Explanation:
        values, dtype = _restored([find() for find in known], players), explanation.shapley.dtype
        values |= {name: value.to(dtype) for name, value in values.items() if isinstance(value, Tensor)}
        return replace(explanation, behavior="log_odds", log_odds_source=None, **values)

    return find


def _with_reason(estimate: Estimate, reason: str) -> Estimate:
    own = estimate.notes or ("",) * len(estimate)
    return (
        replace(estimate, notes=tuple("; ".join(filter(None, (reason, note))) for note in own)) if reason else estimate
    )


def _restored(estimates: Sequence[Estimate], groups: Sequence[KeptPlayers]) -> dict[str, Any]:
    """Values and errors of all players and samples from estimates of the groups, by the names of the fields."""

    def restore(matrices: Sequence[Tensor], columns: Sequence[Tensor]) -> Tensor:
        parts = (g.restore(m, c) for g, m, c in zip(groups, matrices, columns, strict=True))
        return _in_order(list(parts), groups)

    def restore_vectors(vectors: Sequence[Tensor]) -> Tensor:
        return _in_order([g.restore_vector(v) for g, v in zip(groups, vectors, strict=True)], groups)

    gains = [e.absolute_gains for e in estimates if e.absolute_gains is not None]
    # A null player has no part in C.
    pairwise = [(e.pairwise_error, torch.zeros_like(e.shapley)) for e in estimates if e.pairwise_error is not None]
    return {
        "shapley": restore_vectors([e.shapley for e in estimates]),
        "bivariate": restore([e.bivariate for e in estimates], [e.null_column for e in estimates]),
        "standard_error": restore([e.bivariate_error for e in estimates], [e.null_column_error for e in estimates]),
        "shapley_standard_error": restore_vectors([e.shapley_error for e in estimates]),
        "pairwise_standard_error": (
            restore([m for m, _ in pairwise], [c for _, c in pairwise]) if len(pairwise) == len(groups) else None
        ),
        "absolute_gains": (
            restore([g[0] for g in gains], [g[1] for g in gains]) if len(gains) == len(groups) else None
        ),
        "notes": _notes(estimates, groups),
    }


def _count_coalitions(estimator: Estimator, reduced: ReducedGame, n_evaluations: int | None) -> int:
    """How many coalitions the samples of a reduced game may use, checked against the estimator's minimum."""
    n_rows, least = reduced.n_background, estimator.minimum_evaluations(reduced.n_players)
    most_per_row = MAX_COALITIONS // n_rows
    if n_evaluations is None:
        n_evaluations = n_rows * min(max(default_coalitions(reduced.n_players), least), max(least, most_per_row))
    if n_evaluations // n_rows < least:
        per_row = f" ({least} coalitions times {n_rows} background rows)" if n_rows > 1 else ""
        raise ValueError(
            f"`n_evaluations` must be at least {least * n_rows}{per_row} for method={estimator.name!r} with "
            f"{reduced.n_players} non-null players, got {n_evaluations}. Raise it, or group players by `feature_mask`."
        )
    if isinstance(estimator, RowEstimator):
        n_coalitions = estimator.coalitions_within(n_evaluations, n_rows)
    else:
        n_coalitions = n_evaluations // n_rows
    if not estimator.is_exact:
        check_not_too_many(n_coalitions, estimator.name)
    return n_coalitions


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


def _in_order(parts: list[Tensor], groups: Sequence[KeptPlayers]) -> Tensor:
    """Rows of several groups of samples in the order of the samples."""
    if groups[0].samples is None:
        return parts[0]
    joined = torch.cat(parts)
    return torch.empty_like(joined).index_copy_(0, _order(groups), joined)


def _order(groups: Sequence[KeptPlayers]) -> Tensor:
    return torch.cat([group.samples for group in groups if group.samples is not None])


def _notes(estimates: Sequence[Estimate], groups: Sequence[KeptPlayers]) -> tuple[str, ...]:
    """The notes of all samples in their order, () if there are none."""
    notes = [note for e, g in zip(estimates, groups, strict=True) for note in e.notes or ("",) * len(g.null_players)]
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

    def explain_until(
        self,
        game: Game,
        target_error: float,
        n_evaluations: int | None = None,
        seed: int = 0,
        *,
        interruptible: bool = False,
    ) -> Explanation:
        """Explain a game with rows in stages, see :func:`explain_without_null_players`."""
        return explain_without_null_players(
            self.estimator,
            game,
            n_evaluations=n_evaluations,
            seed=seed,
            target_error=check_target_error(target_error),
            interruptible=interruptible,
        )
