"""Accuracy against evaluations, and growth of the estimators' own time; used by ``python -m benchmarks``.

Games are tables of trained models (``tests/trained_games.py``) with exact answers. Other packages estimate other
quantities: interactions of shapiq become E2 through the sums of unanimity games that they stand for, Shapley values are
compared as they are.
"""

import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch

from bivshap_lightning import Game
from bivshap_lightning.explainers import default_coalitions, find_explainer
from bivshap_lightning.explainers.null_players import ReducedGame
from tests.oracles import Unanimity, relative_error, table_model
from tests.trained_games import TRAINED, coalitions, table_e2

OURS = ("proxy", "kernel", "sampling")
PAPER = ("paper_kernel", "paper_sampling")
SHAPIQ = {"shapiq KernelSHAPIQ": "KernelSHAPIQ", "shapiq SVARM-IQ": "SVARMIQ", "shapiq ProxySPEX": "ProxySPEX"}
OF_PHI = ("kernel_shap", "shapley_sampling")

Curve = dict[int, list[float]]
"""Relative errors, one per game and seed, by the number of evaluations."""


def add(curves: dict[str, Curve], name: str, budget: int, error: float) -> None:
    curves.setdefault(name, {}).setdefault(budget, []).append(error)


def games(quick: bool) -> list[tuple[str, np.ndarray]]:
    """Kinds of trained models; nothing in the package was chosen on these seeds."""
    kinds = ("mlp", "attention", "forest") if quick else tuple(TRAINED)
    return [(f"{kind} {seed}", TRAINED[kind](seed)) for kind in kinds for seed in ((2,) if quick else (2, 3, 4))]


def budgets_of(n: int, quick: bool) -> tuple[int, ...]:
    return (256, 1024, default_coalitions(n)) if quick else (256, 512, 1024, 2048, 4096, default_coalitions(n))


def accuracy(quick: bool) -> tuple[dict[str, Curve], dict[str, Curve]]:
    """Relative errors of E2 and of Shapley values."""
    of_e2: dict[str, Curve] = {}
    of_phi: dict[str, Curve] = {}
    for number, (_, table) in enumerate(games(quick)):
        e2, phi, _ = table_e2(table)
        n = len(e2)
        game = Game(table_model(table), torch.ones(1, n, dtype=torch.float64), behavior="output")
        for budget in budgets_of(n, quick):
            label = budget if budget in (256, 512, 1024, 2048, 4096) else 2 * (2 * 14 + 2048)
            for name in (*OURS, *PAPER):
                if quick and name == "proxy" and budget > 2048:
                    continue  # its systems grow with the square of the budget
                found = find_explainer(name).explain(game, budget, number)
                assert found.bivariate is not None
                add(of_e2, name, label, relative_error(found.bivariate[0], e2))
                add(of_phi, name, label, relative_vector_error(found.shapley[0].numpy(), phi))
            for name in OF_PHI:
                found = find_explainer(name).explain(game, budget, number)
                add(of_phi, f"captum {name}", label, relative_vector_error(found.shapley[0].numpy(), phi))
            add_others(of_e2, of_phi, table, e2, phi, budget, label, number)
    return of_e2, of_phi


def relative_vector_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((estimate - truth) ** 2) / np.mean(truth**2)))


def add_others(
    of_e2: dict[str, Curve],
    of_phi: dict[str, Curve],
    table: np.ndarray,
    e2: np.ndarray,
    phi: np.ndarray,
    budget: int,
    label: int,
    seed: int,
) -> None:
    """Errors of shapiq and shap, as far as they are installed and can handle the budget."""
    n = len(e2)
    bits = 1 << np.arange(n)

    def value(masks: np.ndarray) -> np.ndarray:
        return table[(np.atleast_2d(masks).round().astype(int) * bits).sum(axis=1)]

    if find_spec("shapiq") is not None:
        for name, kind in SHAPIQ.items():
            found = run_shapiq(kind, value, n, budget, seed)
            if found is not None:
                add(of_e2, name, label, relative_error(found, e2))
    if find_spec("shap") is not None:
        import shap

        np.random.seed(seed)  # noqa: NPY002  (shap draws from the global generator)
        explainer = shap.KernelExplainer(value, np.zeros((1, n)))
        found = explainer.shap_values(np.ones((1, n)), nsamples=budget, silent=True, l1_reg=False)[0]
        add(of_phi, "shap KernelExplainer", label, relative_vector_error(found, phi))


def run_shapiq(
    kind: str, value: Callable[[np.ndarray], np.ndarray], n: int, budget: int, seed: int
) -> np.ndarray | None:
    """E2 by the sum of unanimity games that an approximator's interactions stand for; None if it cannot run here."""
    from shapiq import approximator

    made = getattr(approximator, kind, None)
    if made is None:
        return None
    try:
        if kind == "ProxySPEX":
            found = made(n=n, max_order=n, index="Moebius", random_state=seed).approximate(budget, value)
        else:
            found = made(n, 2, "k-SII", random_state=seed).approximate(budget, value)
    except (ImportError, ValueError, TypeError, RuntimeError):
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
