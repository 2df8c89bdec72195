"""The front door of the explainers: which method, at what cost, and back to all players."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch

from bivshap_lightning.explainers import kernel, sampling
from bivshap_lightning.explainers.exact import explain_exactly
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.trees import explain_trees
from bivshap_lightning.game import Game
from bivshap_lightning.game.behavior import BehaviorFunction, BehaviorName, Link
from bivshap_lightning.game.model import global_rngs_kept

Method = Literal["auto", "exact", "trees", "sampling", "kernel"]
Purpose = Literal["redundancy", "weights"]
Orders = Literal["chained", "independent"]


def default_budget(n_players: int) -> int:
    """Coalitions per sample when nobody says otherwise: the paper's budget for its kernel method.

    Example:
        >>> default_budget(54)
        4312
    """
    return 2 * (2 * n_players + 2048)


class BivariateShapley:
    """Explain a model by directed feature interactions.

    Args:
        model: a torch module, a function from inputs to scores, or an estimator.
        method: how values are found. "exact" enumerates all coalitions of the players that are not null. "trees" is
            exact for tree ensembles of any size and asks the model for nothing: forests explained by their
            probability, boosted trees by their margin ("logit"), regressions by their output (see
            :mod:`bivshap_lightning.game.trees`). "sampling" follows random orders; it sees an exact zero as a zero.
            "kernel" fits a regression; its weights are closer to the truth at the same cost, its zeros are only small.
            "auto" is exact wherever trees can be read or enumeration costs no more than the budget, and otherwise what
            suits the ``purpose``.
        behavior: what is explained: "probability", "logit", "log_odds", "loss" (negative), "output", or a function
            of (scores (N, C), target (N,)).
        seed: start of the random design. The same seed gives the same coalitions for any number of samples.
        link: what the model's scores mean, see :mod:`bivshap_lightning.game.behavior`.
        purpose: what "auto" serves when it cannot be exact: "redundancy" (sampling) or "weights" (kernel).
        exact_limit: the most non-null players that are enumerated.
        orders: "chained" lets one order serve all players; "independent" is the paper's literal loop.

    Example:
        >>> import torch
        >>> model = lambda x: torch.maximum(2 * x[:, 0], x[:, 1])
        >>> explanation = BivariateShapley(model, behavior="output").attribute(torch.ones(1, 2))
        >>> explanation.bivariate[0]
        tensor([[0.0000, 0.5000],
                [0.0000, 0.0000]])
        >>> h = explanation.graph(0, names=["big", "small"]).redundancy()
        >>> h.adjacency.tolist()  # small is redundant once big is present, not the reverse
        [[False, True], [False, False]]
    """

    def __init__(
        self,
        model: Any,
        method: Method = "auto",
        behavior: BehaviorName | BehaviorFunction = "probability",
        seed: int = 0,
        *,
        link: Link | Literal["auto"] = "auto",
        purpose: Purpose = "redundancy",
        exact_limit: int = 16,
        orders: Orders = "chained",
    ) -> None:
        _check_choice("method", method, Method)
        _check_choice("purpose", purpose, Purpose)
        _check_choice("orders", orders, Orders)
        self.model, self.method, self.behavior, self.seed, self.link = model, method, behavior, seed, link
        self.purpose, self.exact_limit, self.orders = purpose, exact_limit, orders
        self._rows_per_call: int | None = None

    def attribute(
        self,
        inputs: Any,
        baselines: Any = None,
        target: Any = None,
        additional_forward_args: Any = None,
        feature_mask: Any = None,
        n_evaluations: int | None = None,
        perturbations_per_eval: int | None = None,
        show_progress: bool = False,
        *,
        background: Any = None,
    ) -> Explanation:
        """Explain a batch of samples; the arguments mean what they mean in Captum.

        Args:
            inputs: tensor or array (B, ...), or a tuple of them.
            baselines: what replaces an absent player: None (zero), a number, one row, one row per sample, a tuple.
            target: None (the predicted class), an index, B indices, a class label, or a function of the scores.
            additional_forward_args: further arguments of the model.
            feature_mask: integer player ids; -1 for elements that always stay.
            n_evaluations: at most this many model rows per sample; None for the paper's ``2 * (2 * F + 2048)``.
            perturbations_per_eval: at most this many times B rows per forward pass; None chooses.
            show_progress: draw a progress bar.
            background: instead of baselines, rows over which values are averaged; each costs an evaluation.

        Returns:
            The explanation of all B samples.
        """
        game = Game(
            self.model,
            inputs,
            baselines=baselines,
            background=background,
            feature_mask=feature_mask,
            target=target,
            behavior=self.behavior,
            link=self.link,
            additional_forward_args=additional_forward_args,
            perturbations_per_eval=perturbations_per_eval,
            show_progress=show_progress,
        )
        limit = game.rows_per_call = min(game.rows_per_call, self._rows_per_call or game.rows_per_call)
        explanation = self.explain(game, n_evaluations)
        if game.rows_per_call < limit:
            self._rows_per_call = game.rows_per_call
        return explanation

    def explain(self, game: Game, n_evaluations: int | None = None) -> Explanation:
        """Explain a game that already exists, such as one that metrics share.

        Args:
            game: the game; its own model and behavior count.
            n_evaluations: as for :meth:`attribute`.
        """
        if game.n_players < 2:
            raise ValueError(
                "`feature_mask` must make at least two players, got 1. Interactions need a second player: split it, "
                "or read its importance off `game` directly."
            )
        reduced = ReducedGame(game)
        budget = (self.budget(game) if n_evaluations is None else n_evaluations) // game.removal.n_rows
        method = self._choose(game, reduced.n_players, budget)
        self._check_budget(method, reduced.n_players, budget, game.removal.n_rows, n_evaluations)
        spent = game.n_evaluations.clone()
        with global_rngs_kept([game.device]):
            estimate = self._estimate(method, reduced, budget)
        bivariate = reduced.restore(estimate.bivariate, estimate.null_column)
        error = reduced.restore(estimate.bivariate_error, estimate.null_column_error)
        return Explanation(
            bivariate=bivariate.to(game.dtype),
            shapley=reduced.restore_vector(estimate.shapley).to(game.dtype),
            standard_error=error.to(game.dtype),
            shapley_standard_error=reduced.restore_vector(estimate.shapley_error).to(game.dtype),
            n_evaluations=game.n_evaluations - spent,
            target=game.target,
            null_players=game.null_players,
            player_counts=game.player_counts,
            method=method,
            seed=self.seed,
            behavior=game.behavior.label,
            removal=game.removal.description,
            names=game.player_names,
        )

    def budget(self, game: Game) -> int:
        """Model rows per sample that a game may cost when nobody says otherwise."""
        n = ReducedGame(game).n_players
        enumeration = 2**n if self.method == "exact" and n <= self.exact_limit else 0
        return max(default_budget(n), enumeration) * game.removal.n_rows

    def minimum_evaluations(self, game: Game) -> int:
        """The fewest model rows per sample with which a game can be explained, roughly."""
        if self._reads_trees(game):
            return 0
        n = ReducedGame(game).n_players
        method = "sampling" if self.method == "auto" and self.purpose == "redundancy" else self.method
        return self._least("kernel" if method == "auto" else method, n) * game.removal.n_rows

    def _reads_trees(self, game: Game) -> bool:
        return self.method == "trees" or (self.method == "auto" and game.has_trees)

    def _least(self, method: str, n_players: int) -> int:
        if method == "trees":
            return 0
        if method == "exact":
            return 1 << n_players
        if method == "kernel":
            return kernel.minimum_evaluations(n_players)
        return 4 * n_players if self.orders == "independent" else sampling.minimum_evaluations(n_players)

    def _choose(self, game: Game, n_players: int, budget: int) -> str:
        if self._reads_trees(game):
            game.trees()  # reads and checks them, at the game's expense, or says why it cannot be
            return "trees"
        if self.method != "auto":
            return self.method
        if n_players <= self.exact_limit and 2**n_players <= budget:
            return "exact"
        if self.purpose == "redundancy" and budget >= sampling.minimum_evaluations(n_players):
            return "sampling"
        return "kernel"

    def _check_budget(self, method: str, n_players: int, budget: int, n_rows: int, given: int | None) -> None:
        """Refuse what cannot be done with these players or this budget, and say what can."""
        if method == "exact" and n_players > self.exact_limit:
            raise ValueError(
                f"`method='exact'` must have at most exact_limit={self.exact_limit} non-null players, got {n_players} "
                f"(2**{n_players} evaluations per sample). Use method='auto', group players by `feature_mask`, or "
                "raise `exact_limit`."
            )
        least = self._least(method, n_players)
        if budget < least:
            per_row = f" ({least} coalitions times {n_rows} background rows)" if n_rows > 1 else ""
            raise ValueError(
                f"`n_evaluations` must be at least {least * n_rows}{per_row} for method={method!r} with {n_players} "
                f"non-null players, got {given}. Raise it, or group players by `feature_mask`."
            )

    def _estimate(self, method: str, game: ReducedGame, budget: int) -> Estimate:
        if method == "exact":
            return explain_exactly(game)
        if method == "trees":
            return explain_trees(game)
        generator = torch.Generator(device=game.device).manual_seed(self.seed)
        if method == "kernel":
            return kernel.explain_by_regression(game, budget, generator)
        if self.orders == "independent":
            return sampling.explain_by_independent_orders(game, budget, generator)
        return sampling.explain_by_chains(game, budget, generator)


def _check_choice(argument: str, value: object, choices: Any) -> None:
    if value not in get_args(choices):
        raise ValueError(f"`{argument}` must be one of {get_args(choices)}, got {value!r}.")
