"""KernelSHAP and Shapley sampling on a game, for all samples at once.

They are the methods that Captum calls ``KernelShap`` and ``ShapleyValueSampling``, without its Python loop over
perturbations and samples, which takes longer than many a model. Coalitions of KernelSHAP come in complementary pairs
and from the outside in, as the shap package draws them. Pass Captum's classes themselves to use those instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from bivshap_lightning.explainers.design import draw_design_alike, evaluate_design
from bivshap_lightning.explainers.estimator import check_not_too_many
from bivshap_lightning.explainers.exact import explain_exactly
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.kernel import minimum_evaluations
from bivshap_lightning.explainers.null_players import ReducedGame
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.explainers.stages import stage_budgets
from bivshap_lightning.game import Game
from bivshap_lightning.game.model import global_rngs_kept

# Orders, or coalitions as a multiple of the players, where no number of evaluations is given; as for Captum's methods.
DEFAULT_ORDERS = 25


@register
@dataclass(frozen=True)
class KernelSHAP:
    """Shapley values by least squares over coalitions with the Shapley kernel, summing to ``u(all) - u(none)``.

    Args:
        drawn: draw coalitions out of those that ``kernel`` and ``proxy`` draw with so many model rows and the same
            seed, so that most of them are known beside one of these. The accuracy is the same.
        in_stages: whether they draw in the stages of a target error.

    Example:
        >>> game = Game(lambda x: x[:, 0] * x[:, 1] + x[:, 2], torch.ones(1, 3), behavior="output")
        >>> KernelSHAP().explain(game, 8).shapley
        tensor([[0.5000, 0.5000, 1.0000]])
    """

    drawn: int | None = None
    in_stages: bool = False

    name: ClassVar[str] = "kernel_shap"
    is_exact: ClassVar[bool] = False

    def minimum_evaluations(self, game: Game) -> int:
        """A pair of coalitions per non-null player and the two ends; or all coalitions."""
        n = ReducedGame(game).n_players
        return min(1 << n, 2 * n + 2) * game.removal.n_rows

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game with at most `n_evaluations` model rows per sample; None for 25 coalitions per player."""
        drawn = None if self.drawn is None else self.drawn // game.removal.n_rows
        estimate = partial(_kernel_shap, drawn=drawn, in_stages=self.in_stages)
        return _explain_reduced(self.name, game, n_evaluations, seed, self.minimum_evaluations(game), estimate)


@register
class ShapleySampling:
    """Shapley values as mean gains along random orders of the players.

    Example:
        >>> game = Game(lambda x: x[:, 0] * x[:, 1] + x[:, 2], torch.ones(1, 3), behavior="output")
        >>> ShapleySampling().explain(game, 1000).shapley.sum()
        tensor(2.)
    """

    name = "shapley_sampling"
    is_exact = False

    def minimum_evaluations(self, game: Game) -> int:
        """Two orders, and the two ends they share."""
        return 2 * ReducedGame(game).n_players * game.removal.n_rows

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game with at most `n_evaluations` model rows per sample; None for 25 orders."""
        return _explain_reduced(self.name, game, n_evaluations, seed, self.minimum_evaluations(game), _shapley_sampling)


def _explain_reduced(
    name: str,
    game: Game,
    n_evaluations: int | None,
    seed: int,
    least: int,
    estimate: Callable[[ReducedGame, int, torch.Generator], Tensor],
) -> Explanation:
    """Explain the samples by their number of non-null players, so that no score depends on the rest of the batch."""
    n_rows, before = game.removal.n_rows, game.n_evaluations
    if n_evaluations is not None:
        check_not_too_many(n_evaluations // n_rows, name)
        if n_evaluations < least:
            raise ValueError(
                f"`n_evaluations` must be at least {least} for {name!r} with {ReducedGame(game).n_players} non-null "
                f"players and {n_rows} background rows, got {n_evaluations}. Raise it, or group players by "
                "`feature_mask`."
            )
    shapley = torch.zeros(game.n_samples, game.n_players, dtype=torch.float64, device=game.device)
    for reduced in ReducedGame.by_count(game):
        default = max(DEFAULT_ORDERS * reduced.n_players, least // n_rows)
        n_coalitions = default if n_evaluations is None else n_evaluations // n_rows
        with global_rngs_kept([game.device]):
            generator = torch.Generator(device=game.device).manual_seed(seed)
            found = reduced.players.restore_vector(estimate(reduced, n_coalitions, generator))
        if reduced.samples is None:
            shapley = found
        else:
            shapley.index_copy_(0, reduced.samples, found)
    spent = game.n_evaluations - before
    shapley = shapley.masked_fill(game.null_players, 0)
    return Explanation.of(game, method=name, seed=seed, shapley=shapley, n_evaluations=spent)


def _kernel_shap(
    game: ReducedGame,
    n_coalitions: int,
    generator: torch.Generator,
    *,
    drawn: int | None = None,
    in_stages: bool = False,
) -> Tensor:
    """(B, n): least squares of the odd parts of pairs, ``(u(S) - u(not S)) / 2 = s . phi / 2`` with s = 1 in S or -1.

    The even parts and the constant do not take part: they are orthogonal to the odd ones.
    """
    n = game.n_players
    if 1 << n <= n_coalitions:
        return explain_exactly(game).shapley
    n_drawn = max(n_coalitions, drawn or 0)
    budgets = stage_budgets(minimum_evaluations(n), n_drawn) if in_stages else [n_drawn]
    design = draw_design_alike(n, n_coalitions - 2, [budget - 2 for budget in budgets], generator)
    values, signs = evaluate_design(game, design), design.signs
    size = design.masks.sum(dim=1)
    weight = design.weight / (size * (n - size))
    normal = (signs.T * weight) @ signs / 2
    # Few coalitions need not determine all players: the smallest solution, as of any least squares.
    inverse = torch.linalg.pinv(normal, hermitian=True)
    ones = torch.ones(n, dtype=torch.float64, device=game.device)
    free = ((values.odd * weight) @ signs) @ inverse
    lack = (values.full - values.empty) - free.sum(dim=1, keepdim=True)
    shapley: Tensor = free + lack * (inverse @ ones) / (ones @ inverse @ ones)
    return shapley


def _shapley_sampling(game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Tensor:
    """(B, n): mean gains along as many orders as the coalitions allow."""
    n = game.n_players
    if n == 1:
        return explain_exactly(game).shapley
    n_orders = (n_coalitions - 2) // (n - 1)
    positions = torch.rand(n_orders, n, generator=generator, device=game.device).argsort(dim=1).argsort(dim=1)
    inner = positions[:, None] < torch.arange(1, n, device=game.device)[:, None]
    ends = torch.tensor([[False], [True]], device=game.device).expand(2, n)
    values = game(torch.cat([ends, inner.flatten(0, 1)]))
    first, last = (values[:, k, None, None].expand(-1, n_orders, 1) for k in (0, 1))
    gains = torch.cat([first, values[:, 2:].unflatten(1, (n_orders, n - 1)), last], dim=2).diff(dim=2)
    return gains.gather(2, positions.expand(len(values), -1, -1)).mean(dim=1)
