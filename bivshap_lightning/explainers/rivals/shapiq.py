"""shapiq's approximators of second-order indices on the same game, as an alternative to our own estimates.

``shapiq_sii`` is the Shapley interaction index by KernelSHAP-IQ, ``shapiq_stii`` the Shapley-Taylor index by SHAP-IQ;
small games go to shapiq's exact computer. shapiq explains one sample at a time from coalitions that do not depend on
the values, so all samples share the coalitions of the first. It gives no standard errors: the approximator runs with
four seeds on a quarter of the evaluations each, and the spread of the runs is the error of their mean.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bivshap_lightning.explainers.exact import explain_exactly
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.registry import register

# Runs with different seeds, and what widens the error of a mean of so few (Student's t over the normal quantile).
N_REPEATS, WIDENING = 4, 3.182 / 1.96
# The most players that are enumerated.
EXACT_LIMIT = 14


@dataclass(frozen=True)
class Shapiq:
    """A second-order index computed by shapiq, as an estimator.

    ``shapley`` of its explanations are the index's values of single players: Shapley values for SII, the value of the
    player alone for STII.

    Attributes:
        index: "SII" or "STII".
        approximator: the name of a class of ``shapiq.approximator`` that knows the index.

    Example:
        >>> Shapiq("SII", "KernelSHAPIQ").name
        'shapiq_sii'
    """

    index: Literal["SII", "STII"]
    approximator: str
    is_exact: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """``shapiq_`` and the index."""
        return f"shapiq_{self.index.lower()}"

    def minimum_evaluations(self, n_players: int) -> int:
        """All coalitions, or as many as there are players and pairs for each of four runs."""
        return min(1 << n_players, N_REPEATS * (n_players * (n_players + 1) // 2 + 2))

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        """Run shapiq on every sample.

        Raises:
            ImportError: shapiq is not installed.
        """
        if find_spec("shapiq") is None:
            raise ImportError(
                f"`shapiq` must be installed for {self.name!r}, got no such module. Install it with "
                "`pip install bivshap-lightning[rivals]`."
            )
        n = game.n_players
        if n == 1:
            shapley = explain_exactly(game).shapley
            return Estimate.exact(torch.zeros_like(shapley)[..., None], shapley, torch.zeros_like(shapley))
        if n <= EXACT_LIMIT and 2**n <= n_coalitions:
            pairs, singles = self._run(game, lambda value: self._exactly(value, n))
            return Estimate.exact(pairs, singles, torch.zeros_like(singles))
        seeds = torch.randint(2**31, (N_REPEATS,), generator=generator, device=generator.device).tolist()
        budget, kind = n_coalitions // N_REPEATS, getattr(import_module("shapiq.approximator"), self.approximator)
        runs = [
            self._run(game, partial(_approximate, kind(n, 2, self.index, random_state=seed), budget)) for seed in seeds
        ]
        pairs, singles = (torch.stack(same) for same in zip(*runs, strict=True))
        pair_error, single_error = (WIDENING * x.std(dim=0) / N_REPEATS**0.5 for x in (pairs, singles))
        zeros = torch.zeros_like(single_error)
        return Estimate(pairs.mean(dim=0), singles.mean(dim=0), zeros, pair_error, single_error, zeros)

    def _exactly(self, value: Callable[[NDArray[Any]], NDArray[Any]], n_players: int) -> Any:
        shapiq = import_module("shapiq")

        class Values(shapiq.Game):  # type: ignore[misc, name-defined]
            def value_function(self, coalitions: NDArray[Any]) -> NDArray[Any]:
                return value(coalitions)

        return shapiq.ExactComputer(game=Values(n_players=n_players, normalize=False), n_players=n_players)(
            self.index, order=2
        )

    def _run(self, game: ReducedGame, compute: Callable[[Any], Any]) -> tuple[Tensor, Tensor]:
        """Pair values (B, n, n) and single values (B, n) of all samples."""
        rows = _SharedRows(game)
        found = [compute(rows.of_sample(b)) for b in range(game.n_samples)]
        pairs = torch.stack([_pairs_of(values, game.n_players) for values in found]).to(game.device)
        singles = [[float(values[(i,)]) for i in range(game.n_players)] for values in found]
        return pairs, torch.tensor(singles, dtype=torch.float64, device=game.device)


for _made in (Shapiq("SII", "KernelSHAPIQ"), Shapiq("STII", "SHAPIQ")):
    register(_made)


class _SharedRows:
    """Values of a game for one sample after the other, evaluated once if all ask for the same coalitions."""

    def __init__(self, game: ReducedGame) -> None:
        self.game = game
        self.calls: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def of_sample(self, sample: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
        n_calls = 0

        def value(coalitions: NDArray[Any]) -> NDArray[Any]:
            nonlocal n_calls
            masks = np.atleast_2d(np.asarray(coalitions, dtype=bool))
            if n_calls == len(self.calls) or not np.array_equal(self.calls[n_calls][0], masks):
                values = self.game(torch.from_numpy(masks).to(self.game.device)).cpu().numpy()
                self.calls[n_calls:] = [(masks, values)]
            n_calls += 1
            found: NDArray[Any] = self.calls[n_calls - 1][1][sample]
            return found

        return value


def _approximate(approximator: Any, budget: int, value: Callable[[NDArray[Any]], NDArray[Any]]) -> Any:
    return deepcopy(approximator).approximate(budget, value)  # a fresh one for every sample: it keeps its generator


def _pairs_of(values: Any, n_players: int) -> Tensor:
    """The symmetric matrix of second-order values."""
    found = torch.zeros(n_players, n_players, dtype=torch.float64)
    for i in range(n_players):
        for j in range(i):
            found[i, j] = found[j, i] = float(values[(j, i)])
    return found
