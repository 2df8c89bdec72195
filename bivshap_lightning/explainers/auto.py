"""The default explainer: exact where that is affordable, otherwise the estimator that suits the model and the purpose.

Everything is decided from counts: players, rows, and multiply-adds of the model by the shapes of its parameters. No
clock is read, so every process and every run decides alike.
"""

from __future__ import annotations

from typing import Literal, get_args

from bivshap_lightning.explainers.estimator import Choice, EstimatorExplainer, default_coalitions, explain_by_choice
from bivshap_lightning.explainers.exact import Exact
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.kernel import Kernel
from bivshap_lightning.explainers.null_players import ReducedGame
from bivshap_lightning.explainers.proxy import GaussianProcessProxy
from bivshap_lightning.explainers.proxy.estimator import fit_work
from bivshap_lightning.explainers.proxy.prediction import MOST_PAIRS, most_pairs
from bivshap_lightning.explainers.registry import Explainer, register
from bivshap_lightning.explainers.sampling import Sampling
from bivshap_lightning.explainers.stages import TIMES_MINIMUM, check_target_error
from bivshap_lightning.explainers.trees import Trees
from bivshap_lightning.game import Game

Purpose = Literal["redundancy", "weights"]

DEFAULT_TARGET_ERROR = 0.2
"""Relative error of E2 at which rows stop where neither a target nor a number of rows is given."""

# Rows that "sampling" needs for the accuracy of the proxy, per row of the proxy: 17 on images of 64 patches, 4 on texts
# of 80 tokens (trained networks, errors taken to fall with the root of the rows).
ROWS_SAVED = 8
# Against background rows "sampling" evaluates one of them per coalition, the proxy all of them. 14 to 79 rows of the
# former do as well as one coalition of the latter (8 and 32 background rows, trained networks, 12 and 13 players): this
# many are saved per coalition.
MOST_ROWS_SAVED = 30
# With a target, the proxy is expected to reach it within this share of the rows that are allowed.
EXPECTED_SHARE = 8
# Enumeration of up to this work per sample takes little more time than an estimate: on a CPU core some milliseconds.
# Rows of the smallest models cost as much as LEAST_WORK, because they have to be made and read.
ENUMERATION_WORK, LEAST_WORK = 2**27, 1000
# A proxy that is fitted to so many pairs takes a fraction of the work where rows are many, for somewhat larger errors.
# Of players there may be a fifth of that: with 400 it is no better than the regression.
FITTED_PAIRS, MOST_FITTED_PLAYERS = (1536, 1024), 200
# Who allows this many times the default rows wants accuracy more than speed. Such a proxy finds more of what is
# redundant than "sampling" with as many rows, for up to this work: on a CPU core a second per sample.
MANY_TIMES, PATIENCE = 2, 2**36


@register
class Auto:
    """Choose a method for each game.

    Tree ensembles that can be read are explained by "trees". Other games are enumerated ("exact") if they have at most
    ``exact_limit`` non-null players and that costs no more than ``n_evaluations`` (by default the paper's number), or,
    where no number is given, if model rows are so cheap that enumeration is hardly work. What is left is estimated: by
    "proxy" where the model rows that it saves take more work than its fit, and otherwise by "sampling" for redundancy,
    which estimates exact zeros as zeros, or by "kernel" for weights, whose errors are smaller. A number of rows of at
    least twice the paper's goes to "proxy" even so, because it finds more redundancy than "sampling" with as many.

    The only zeros with a standard error of zero are proven ones: null players, enumeration and trees. Every other value
    is judged by its interval, whichever estimator it comes from.

    Without a number of evaluations, rows are drawn in stages until the relative error of E2 is estimated to be at most
    :data:`DEFAULT_TARGET_ERROR`, with the paper's number as the ceiling.

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
        choice = self._choose(game, ReducedGame(game).n_players, n_evaluations, has_target=n_evaluations is None)
        return EstimatorExplainer(choice.estimator)

    def _choose(self, game: Game, n_players: int, n_evaluations: int | None, *, has_target: bool) -> Choice:
        """The estimator for samples with n non-null players."""
        n_rows = game.removal.n_rows
        most = default_coalitions(n_players) if n_evaluations is None else n_evaluations // n_rows
        if n_players <= self.exact_limit:
            reason = f"exact: all coalitions of {n_players} players"
            if 2**n_players <= most:
                return Choice(Exact(exact_limit=self.exact_limit), reason)
            if n_evaluations is None and enumeration_is_cheap(n_players, game.work_per_row, n_background=n_rows):
                return Choice(Exact(exact_limit=self.exact_limit), f"{reason}, whose model rows are cheap")
        if game.work_per_row is None:
            why = "the work of a model row is not known"
        else:
            work = game.work_per_row
            limits = {
                pairs: proxy_limit(n_players, most, work, pairs, n_background=n_rows, has_target=has_target)
                for pairs in _fitted_pairs(n_players)
            }
            pairs = max(limits, key=limits.__getitem__)  # all pairs if that pays for as many rows
            if limits[pairs]:
                reason = "proxy: its fit takes less work than the model rows that it saves"
                return Choice(GaussianProcessProxy(most_pairs=pairs), reason, limits[pairs])
            why = "a proxy's fit would take more work than the model rows that it saves"
        if not has_target and (pairs := deciding_pairs(n_players, most)):
            reason = f"proxy: at least {MANY_TIMES} times the default rows are allowed, which decide more pairs with it"
            return Choice(GaussianProcessProxy(most_pairs=pairs), reason)
        if self.purpose == "redundancy" and most >= Sampling().minimum_evaluations(n_players):
            return Choice(Sampling(), f"sampling: {why}")
        return Choice(Kernel(), f"kernel: {why}")

    def minimum_evaluations(self, game: Game) -> int:
        """The fewest model rows per sample with which the estimator of the purpose can explain a game."""
        if game.has_trees:
            return 0
        estimator = EstimatorExplainer(Sampling() if self.purpose == "redundancy" else Kernel())
        return estimator.minimum_evaluations(game)

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game; every sample by the method that suits its own number of non-null players.

        :attr:`Explanation.method` names the method, or several joined by " + ", and :attr:`Explanation.notes` says for
        each sample which one it was and why.
        """
        if n_evaluations is None:
            return self.explain_until(game, DEFAULT_TARGET_ERROR, None, seed)
        if game.has_trees:
            return Trees().explain(game, n_evaluations, seed)
        return explain_by_choice(
            lambda n: self._choose(game, n, n_evaluations, has_target=False),
            game,
            n_evaluations=n_evaluations,
            seed=seed,
        )

    def explain_until(
        self,
        game: Game,
        target_error: float,
        n_evaluations: int | None = None,
        seed: int = 0,
        *,
        interruptible: bool = False,
    ) -> Explanation:
        """Explain a game with rows in stages, until the relative error of a sample's E2 is at most ``target_error``.

        Args:
            game: the game.
            target_error: such as 0.1.
            n_evaluations: at most this many model rows per sample; None for the paper's number.
            seed: seed of the random draws.
            interruptible: a KeyboardInterrupt ends the stages, and the estimates so far are the result.
        """
        check_target_error(target_error)
        if game.has_trees:
            return Trees().explain(game, n_evaluations, seed)
        return explain_by_choice(
            lambda n: self._choose(game, n, n_evaluations, has_target=True),
            game,
            n_evaluations=n_evaluations,
            seed=seed,
            target_error=target_error,
            interruptible=interruptible,
        )


def enumeration_is_cheap(n_players: int, work_per_row: int | None, *, n_background: int = 1) -> bool:
    """Whether all coalitions are so little work for the model that they cost no more than an estimate is worth.

    Args:
        n_players: n.
        work_per_row: multiply-adds of the model for one row, None if not known.
        n_background: how many background rows each coalition is evaluated against.

    Example:
        >>> enumeration_is_cheap(13, 2_000, n_background=8), enumeration_is_cheap(13, 4_000_000)
        (True, False)
    """
    return work_per_row is not None and 2**n_players * n_background * max(work_per_row, LEAST_WORK) <= ENUMERATION_WORK


def _fitted_pairs(n_players: int) -> tuple[int | None, ...]:
    """To how many pairs a proxy may be fitted, most first; None for its own limit."""
    return (None, *FITTED_PAIRS) if n_players <= MOST_FITTED_PLAYERS else (None,)


def deciding_pairs(n_players: int, n_coalitions: int) -> int | None:
    """To how many pairs a proxy is fitted where so many coalitions are allowed that accuracy is worth its fit.

    None if they are not, or if the fit would take too long, however cheap model rows are.

    Example:
        >>> (
        ...     deciding_pairs(20, 4_000),
        ...     deciding_pairs(20, 16_000),
        ...     deciding_pairs(200, 20_000),
        ...     deciding_pairs(400, 32_000),
        ... )
        (None, 1536, 1024, None)
    """
    if n_coalitions < MANY_TIMES * default_coalitions(n_players):
        return None
    pairs = [p for p in _fitted_pairs(n_players) if p is not None and fit_work(n_players, n_coalitions, p) <= PATIENCE]
    return pairs[0] if pairs else None


def proxy_limit(
    n_players: int, most: int, work_per_row: int, pairs: int | None = None, *, n_background: int = 1, has_target: bool
) -> int:
    """The most coalitions with which a proxy pays, 0 if it does not.

    Args:
        n_players: n.
        most: coalitions that are allowed, each against all background rows.
        work_per_row: multiply-adds of the model for one row.
        pairs: to which the proxy is fitted at most; None for its default.
        n_background: how many background rows there are.
        has_target: rows stop at a target, so that fewer than all that are allowed are expected to be drawn.

    Example:
        >>> proxy_limit(64, 4352, 4_000_000, has_target=True)
        4352
        >>> proxy_limit(54, 4312, 8_000, has_target=True)
        0
    """
    # Few coalitions against many rows: "sampling" is better with as many model rows.
    least = GaussianProcessProxy().minimum_evaluations(n_players) * (TIMES_MINIMUM if n_background > 1 else 1)
    rows_saved = min((ROWS_SAVED - 1) * n_background, MOST_ROWS_SAVED)

    def pays(n_coalitions: int) -> bool:
        saved = rows_saved * n_coalitions * work_per_row
        # Systems of more pairs need more than half a gigabyte.
        fits = min(n_coalitions // 2, pairs or most_pairs(n_players)) <= MOST_PAIRS
        return least <= n_coalitions and fits and saved > fit_work(n_players, n_coalitions, pairs)

    if not has_target:
        return most if pays(most) else 0
    expected = min(most, max(least, most // EXPECTED_SHARE))
    if not pays(expected):
        return 0
    while not pays(most):
        most = max(expected, most // 2)
    return most
