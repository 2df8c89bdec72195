"""The bivariate extension of any removal-based explanation (the paper's framework).

Column j of the extension is the explanation of the game that is worth ``u(S)`` where j is present and 0 elsewhere. For
the Shapley map this is E2. Maps of :mod:`~bivshap_lightning.explainers.maps` share their rows between all columns,
other explainers run once for every column, on a :class:`RestrictedGame`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bivshap_lightning.explainers.estimator import check_not_too_many, default_coalitions
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.maps import EXACT_LIMIT, MAPS, ExplanationMap
from bivshap_lightning.explainers.registry import Explainer, ExplainerLike, find_explainer, register
from bivshap_lightning.game import Game
from bivshap_lightning.game.model import global_rngs_kept
from bivshap_lightning.game.trees import TreeEnsemble, UnsupportedTreesError

# Runs with different seeds of explainers that are neither exact nor know their error, and what widens the error of a
# mean of so few runs (Student's t over the normal quantile).
N_REPEATS, WIDENING = 4, 3.182 / 1.96


def bivariate(explanation_map: ExplainerLike) -> Explainer:
    """The bivariate extension of an explanation map, as an explainer.

    Args:
        explanation_map: a name out of ``maps.MAPS`` or an object of the shape of
            :class:`~bivshap_lightning.explainers.maps.ExplanationMap`, whose rows serve all columns; or a function from
            a game to scores (B, F), a registered explainer, or a perturbation method of Captum, which run once for
            every column and once for the whole game.

    Example:
        >>> game = Game(lambda x: x.amax(dim=1), torch.ones(1, 2), behavior="output")
        >>> bivariate("shapley").explain(game).bivariate[0]
        tensor([[0., 0.],
                [0., 0.]])
        >>> bivariate("kernel_shap").name
        'bivariate_kernel_shap'
    """
    if isinstance(explanation_map, str) and explanation_map in MAPS:
        return SharedRows(MAPS[explanation_map])
    if isinstance(explanation_map, ExplanationMap) and not isinstance(explanation_map, type):
        return SharedRows(explanation_map)
    is_function = callable(explanation_map) and not isinstance(explanation_map, (type, Explainer))
    if is_function and not hasattr(explanation_map, "attribute"):
        return ColumnByColumn(_Function(explanation_map))
    return ColumnByColumn(find_explainer(explanation_map, argument="explanation_map"))


@dataclass(frozen=True)
class SharedRows:
    """A map applied to all columns with one set of coalitions.

    Attributes:
        explanation_map: the map.
    """

    explanation_map: ExplanationMap
    is_exact: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """``bivariate_`` and the name of the map."""
        return f"bivariate_{self.explanation_map.name}"

    def minimum_evaluations(self, game: Game) -> int:
        """The map's fewest coalitions, times the number of background rows."""
        return self.explanation_map.minimum_evaluations(game.n_players) * game.removal.n_rows

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game; ``shapley`` of the result are the scores of the map on the whole game.

        Args:
            game: the game. Null players are not removed, because maps differ in what they make of them; their
                rows cost no evaluations.
            n_evaluations: at most this many model rows per sample; None for the default of bivariate Shapley values.
            seed: seed of the coalitions.
        """
        least, n_rows = self.minimum_evaluations(game), game.removal.n_rows
        if n_evaluations is None:
            n_evaluations = max(default_coalitions(game.n_players) * n_rows, least)
        if n_evaluations < least:
            raise ValueError(
                f"`n_evaluations` must be at least {least} for method={self.name!r} with {game.n_players} players, got "
                f"{n_evaluations}. Raise it, or group players by `feature_mask`."
            )
        if game.n_players > EXACT_LIMIT:  # smaller games are enumerated rather than drawn from so often
            check_not_too_many(n_evaluations // n_rows, self.name)
        generator = torch.Generator(device=game.device).manual_seed(seed)
        coalitions = self.explanation_map.coalitions(game.n_players, n_evaluations // n_rows, generator)
        before = game.n_evaluations
        with global_rngs_kept([game.device]):
            values = game(coalitions.masks[None]).double()
        columns = [
            self.explanation_map.scores(coalitions, values * present) for present in coalitions.masks.T.to(values.dtype)
        ]
        whole, whole_error = self.explanation_map.scores(coalitions, values)
        found, error = (torch.stack(x, dim=2) for x in zip(*columns, strict=True))
        for matrix in (found, error):
            matrix.diagonal(dim1=1, dim2=2).zero_()
        return Explanation.of(
            game,
            method=self.name,
            seed=seed,
            shapley=whole,
            n_evaluations=game.n_evaluations - before,
            bivariate=found,
            standard_error=error,
            shapley_standard_error=whole_error,
            is_exact=coalitions.is_complete,
        )


@dataclass(frozen=True)
class ColumnByColumn:
    """An explainer applied to the restricted game of every column.

    Attributes:
        explainer: the explainer. If it is neither exact nor gives standard errors, it runs with four seeds, and the
            spread of the runs is the standard error.
    """

    explainer: Explainer

    @property
    def name(self) -> str:
        """``bivariate_`` and the name of the explainer."""
        return f"bivariate_{self.explainer.name}"

    @property
    def is_exact(self) -> bool:
        """Whether the explainer is."""
        return self.explainer.is_exact

    def minimum_evaluations(self, game: Game) -> int:
        """The explainer's, for every column and the whole game, four times if errors have to be found by repetition."""
        return self._n_runs(game) * self.explainer.minimum_evaluations(RestrictedGame(game, 0))

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game; ``shapley`` of the result are the attributions of the whole game.

        Args:
            game: the game.
            n_evaluations: at most this many model rows per sample, divided equally between all runs; None for the
                explainer's default in every run.
            seed: seed of the explainer.
        """
        least = self.minimum_evaluations(game)
        if n_evaluations is not None and n_evaluations < least:
            raise ValueError(
                f"`n_evaluations` must be at least {least} for method={self.name!r} with {game.n_players} players, got "
                f"{n_evaluations}. Raise it, or group players by `feature_mask`."
            )
        share = None if n_evaluations is None else n_evaluations // self._n_runs(game)
        before = game.n_evaluations
        columns = [self._scores(RestrictedGame(game, j), share, seed) for j in range(game.n_players)]
        whole, whole_error = self._scores(game, share, seed)
        found, error = (torch.stack(x, dim=2) for x in zip(*columns, strict=True))
        for matrix in (found, error):
            matrix.diagonal(dim1=1, dim2=2).zero_()
        return Explanation.of(
            game,
            method=self.name,
            seed=seed,
            shapley=whole,
            n_evaluations=game.n_evaluations - before,
            bivariate=found,
            standard_error=error,
            shapley_standard_error=whole_error,
            is_exact=self.is_exact,
        )

    def _n_runs(self, game: Game) -> int:
        return (1 if self.is_exact else N_REPEATS) * (game.n_players + 1)

    def _scores(self, game: Game, n_evaluations: int | None, seed: int) -> tuple[Tensor, Tensor]:
        """Attributions (B, F) and their standard errors."""
        n_repeats = 1 if self.is_exact else N_REPEATS
        runs = [
            self.explainer.explain(game, n_evaluations, n_repeats * seed + k).shapley.double() for k in range(n_repeats)
        ]
        found = torch.stack(runs)
        if n_repeats == 1:
            return found[0], torch.zeros_like(found[0])
        return found.mean(dim=0), WIDENING * found.std(dim=0) / n_repeats**0.5


@dataclass(frozen=True)
class _Function:
    """A function from a game to scores as an explainer; it is taken to be exact."""

    function: Callable[[Game], Tensor]
    is_exact: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def minimum_evaluations(self, game: Game) -> int:
        return 0

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        before = game.n_evaluations
        with global_rngs_kept([game.device]):
            scores = self.function(game)
        spent = game.n_evaluations - before
        return Explanation.of(game, method=self.name, seed=seed, shapley=scores, n_evaluations=spent, is_exact=True)


class RestrictedGame(Game):
    """A game whose value counts only where one player is present: ``u(S)`` if j is in S, else 0.

    Evaluations are counted by the game that it restricts. It has no gradients and no trees.

    Args:
        game: the game.
        player: j.

    Example:
        >>> game = Game(lambda x: 1 + x.sum(dim=1), torch.ones(1, 2), behavior="output")
        >>> RestrictedGame(game, 1)(torch.tensor([[[False, False], [True, False], [False, True], [True, True]]]))
        tensor([[0., 0., 2., 3.]])
    """

    def __init__(self, game: Game, player: int) -> None:
        shared = {k: v for k, v in vars(game).items() if k not in ("n_evaluations", "rows_per_call")}
        self.__dict__.update(shared)
        self._game, self._player = game, player
        # A player that changes no value of the game changes those of the restricted one, if it is the player itself.
        self.null_players = game.null_players.clone()
        self.null_players[:, player] = False

    @property
    def n_evaluations(self) -> Tensor:
        """(B,) model rows spent so far, by the game that is restricted."""
        return self._game.n_evaluations

    @n_evaluations.setter
    def n_evaluations(self, value: Tensor) -> None:
        self._game.n_evaluations = value

    @property
    def rows_per_call(self) -> int:
        """The largest number of rows in one forward pass."""
        return self._game.rows_per_call

    @rows_per_call.setter
    def rows_per_call(self, value: int) -> None:
        self._game.rows_per_call = value

    def __call__(self, masks: Tensor) -> Tensor:
        """Values of coalitions, 0 without the player."""
        values = self._game(masks)
        return values * masks[:, :, self._player].to(values)

    def values_of(
        self, masks: Tensor, samples: Tensor, replacements: Tensor | None = None, *, are_distinct: bool = False
    ) -> Tensor:
        """Values of single coalitions, 0 without the player."""
        values = self._game.values_of(masks, samples, replacements, are_distinct=are_distinct)
        return values * masks[:, self._player].to(values)

    @contextmanager
    def differentiable(self) -> Iterator[Callable[..., Tensor]]:
        """Not available: the extension is defined for explanations that remove players."""
        raise ValueError(
            "`explanation_map` must be removal-based to be extended, got a gradient method. Use a perturbation method."
        )
        yield

    def trees(self) -> tuple[TreeEnsemble, Tensor]:
        """Not available."""
        raise UnsupportedTreesError("`game` must not be restricted to be read as trees, got a restricted game.")


for _name in MAPS:
    register(bivariate(_name))
