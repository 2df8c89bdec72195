"""Accuracy against evaluations, and growth of the estimators' own time; used by ``python -m benchmarks``.

Games are tables of trained models (``tests/trained_games.py``) with exact answers. Other packages estimate other
quantities: interactions of shapiq become E2 through the sums of unanimity games that they stand for, Shapley values are
compared as they are.
"""

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from bivshap_lightning import Game
from bivshap_lightning.explainers import default_coalitions, find_explainer
from bivshap_lightning.explainers.null_players import ReducedGame
from bivshap_lightning.explainers.rivals.captum import captum_explainer
from tests.oracles import Unanimity, relative_error, table_model
from tests.trained_games import TRAINED, coalitions, table_e2

OURS = ("proxy", "kernel", "sampling")
PAPER = ("paper_kernel", "paper_sampling")
SHAPIQ = {"shapiq KernelSHAPIQ": "KernelSHAPIQ", "shapiq SVARM-IQ": "SVARMIQ", "shapiq ProxySPEX": "ProxySPEX"}
CAPTUM = {"kernel_shap": "KernelShap", "shapley_sampling": "ShapleyValueSampling"}
"""Of Shapley values; explainers of these names are implemented here and made the same way, without Python loops."""

Row = dict[str, Any]
"""One error, see :mod:`benchmarks.report`."""

BUDGETS = (256, 512, 1024, 2048, 4096)
SEEDS = (2, 3, 4)
"""Nothing in the package was chosen on games of these seeds."""


def trained(quick: bool) -> list[tuple[str, int]]:
    """Kinds of trained models, and seeds."""
    kinds = ("mlp", "attention", "forest") if quick else tuple(TRAINED)
    return [(kind, seed) for kind in kinds for seed in (SEEDS[:1] if quick else SEEDS)]


def unanimity(quick: bool) -> list[tuple[int, int]]:
    """Numbers of players of sums of unanimity games, and seeds."""
    return [(n, seed) for n in ((54,) if quick else (54, 196)) for seed in (SEEDS[:1] if quick else SEEDS)]


def accuracy_trained(kind: str, seed: int, quick: bool) -> list[Row]:
    """Relative errors of E2 and of Shapley values on the table of a trained model."""
    table = TRAINED[kind](seed)
    e2, phi, _ = table_e2(table)
    n = len(e2)
    bits = 1 << np.arange(n)

    def value(masks: np.ndarray) -> np.ndarray:
        return table[(np.atleast_2d(masks).round().astype(int) * bits).sum(axis=1)]

    # 13 and 14 players share the column of the paper's budget.
    budgets = {b: b for b in ((256, 1024) if quick else BUDGETS)} | {default_coalitions(n): default_coalitions(14)}
    return errors(f"{kind} {seed}", table_model(table), value, e2, phi, budgets, seed)


def accuracy_unanimity(n: int, seed: int, quick: bool) -> list[Row]:
    """The same for a sum of unanimity games; at the paper's budget SVARM-IQ alone takes minutes."""
    model = Unanimity(n, 4 * n, seed)

    def value(masks: np.ndarray) -> np.ndarray:
        return model(torch.as_tensor(np.atleast_2d(masks).round())).numpy()

    budgets = {b: b for b in (1024, *(() if quick else (default_coalitions(n),)))}
    return errors(f"unanimity {n} {seed}", model, value, model.e2, model.shapley, budgets, seed)


def errors(
    game_name: str,
    model: Callable[[torch.Tensor], torch.Tensor],
    value: Callable[[np.ndarray], np.ndarray],
    e2: np.ndarray,
    phi: np.ndarray,
    budgets: dict[int, int],
    seed: int,
) -> list[Row]:
    """Errors of all methods; budgets are given with the column that they belong to."""
    n, rows = len(e2), []
    game = Game(model, torch.ones(1, n, dtype=torch.float64), behavior="output")

    def add(quantity: str, method: str, column: int, error: float) -> None:
        rows.append({"game": game_name, "quantity": quantity, "method": method, "budget": column, "error": error})

    for budget, column in budgets.items():
        explainers: dict[str, Any] = {name: find_explainer(name) for name in (*OURS, *PAPER)}
        if n <= 60:
            explainers |= {f"Captum {name}": captum_explainer(method) for method, name in CAPTUM.items()}
        for name, explainer in explainers.items():
            if explainer.minimum_evaluations(game) > budget:
                continue
            found = explainer.explain(game, budget, seed)
            if found.bivariate is not None:
                add("E2", name, column, relative_error(found.bivariate[0], e2))
            add("phi", name, column, relative_vector_error(found.shapley[0].numpy(), phi))
        for name, kind in SHAPIQ.items() if find_spec("shapiq") is not None and n <= 60 else ():
            if kind == "ProxySPEX" and (budget not in (256, 1024) or seed != SEEDS[0] or n > 20):
                continue  # a search over boosted trees takes seconds to minutes each
            converted = run_shapiq(kind, value, n, budget, seed)
            if converted is not None:
                add("E2", name, column, relative_error(converted, e2))
        if find_spec("shap") is not None:
            add("phi", "shap KernelExplainer", column, relative_vector_error(run_shap(value, n, budget, seed), phi))
    return rows


def relative_vector_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((estimate - truth) ** 2) / np.mean(truth**2)))


def run_shap(value: Callable[[np.ndarray], np.ndarray], n: int, budget: int, seed: int) -> np.ndarray:
    """Shapley values by shap."""
    import shap

    np.random.seed(seed)  # noqa: NPY002  (shap draws from the global generator)
    explainer = shap.KernelExplainer(value, np.zeros((1, n)))
    found: np.ndarray = explainer.shap_values(np.ones((1, n)), nsamples=budget, silent=True, l1_reg=False)[0]
    return found


def run_shapiq(
    kind: str, value: Callable[[np.ndarray], np.ndarray], n: int, budget: int, seed: int
) -> np.ndarray | None:
    """E2 by the sum of unanimity games that an approximator's interactions stand for; None if it cannot run here."""
    from shapiq import approximator

    made = getattr(approximator, kind, None)
    if made is None:
        return None
    try:
        found = made(n=n, max_order=2, index="k-SII", random_state=seed).approximate(budget, value)
    except (ImportError, ValueError, RuntimeError):  # a proxy that is not installed, or too few evaluations
        return None
    result = np.zeros((n, n))
    for members, place in found.interaction_lookup.items():
        worth = float(found.values[place])
        if members and worth:
            inside = np.isin(np.arange(n), members)
            result[list(members)] += np.where(inside, worth / len(members), worth / (len(members) + 1))
    np.fill_diagonal(result, 0)
    return result


def growth(quick: bool) -> dict[str, dict[str, tuple[list[int], list[float], float]]]:
    """Seconds of the estimators alone over players, samples and rows, with the exponent of a fitted power."""
    players, samples, rows = ((20, 40, 80), (2, 4, 8), (512, 1024, 2048))
    found: dict[str, dict[str, tuple[list[int], list[float], float]]] = {}
    for name in OURS:
        axes = {
            "F": [(f, 2, 1024) for f in players],
            "B": [(40, b, 1024) for b in samples],
            "rows": [(40, 2, r) for r in rows],
        }
        found[name] = {}
        for axis, cases in axes.items():
            seconds = [own_seconds(name, *case, repeats=1 if quick else 3) for case in cases]
            sizes = [case["FB".find(axis) if axis in "FB" else 2] for case in cases]
            exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
            found[name][axis] = (sizes, seconds, exponent)
    return found


def own_seconds(name: str, n_players: int, n_samples: int, n_rows: int, *, repeats: int) -> float:
    """Seconds from values to estimate, without evaluations of the model."""
    estimator = find_explainer(name).estimator  # type: ignore[attr-defined]
    game = Unanimity(n_players, 3 * n_players, 0)
    reduced = ReducedGame(Game(game, torch.ones(n_samples, n_players, dtype=torch.float64), behavior="output"))
    drawn = estimator.draw(n_players, n_rows, torch.Generator().manual_seed(0))
    values = reduced(drawn.coalitions)
    seconds = []
    for _ in range(repeats + 1):  # the first run warms up
        start = time.perf_counter()
        estimator.from_outcomes(drawn, [values])
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def check_conversion() -> None:
    """The conversion of interactions to E2 against enumeration, on a game that is a sum of unanimity games."""
    game = Unanimity(5, 8, 0)
    table = game(torch.tensor(coalitions(5))).numpy()
    np.testing.assert_allclose(table_e2(table)[0], game.e2, atol=1e-12)
