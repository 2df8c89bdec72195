"""Background rows at equal model rows: every coalition against all of them, or against some, in turn.

Run with ``python -m benchmarks.bench_background`` (about two minutes on one core), or with ``--quick``. Trained models
of 12 columns are enumerated over all coalitions and all background rows; printed are the relative RMSE of E2, as the
geometric mean over games with the worst game, and the coverage of 95 % intervals, mean and worst game.

"sampling" evaluates one row per order, as the package does. For "kernel" and "proxy" drawn pairs are evaluated against
four rows, the rows taking turns, and enumerated sizes against all of them. What the differences between the rows'
values of the empty coalition explain is taken out, as a function of the share of absent players.
"""

import argparse
import warnings

import numpy as np
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC
from torch import nn

from bivshap_lightning.explainers.design import Design, draw_design
from bivshap_lightning.explainers.kernel import Kernel
from bivshap_lightning.explainers.null_players import Estimate
from bivshap_lightning.explainers.proxy import GaussianProcessProxy
from bivshap_lightning.explainers.rows import RowEstimator
from bivshap_lightning.explainers.sampling import Sampling
from tests.oracles import relative_error
from tests.trained_games import _Attention, _Gated, _standardized, coalitions, table_e2, train

N_PLAYERS = 12
N_ROWS = 4
BITS = 2 ** torch.arange(N_PLAYERS)
KINDS = ("mlp", "attention", "gated", "forest", "svm")
ESTIMATORS: tuple[RowEstimator, ...] = (Sampling(), Kernel(), GaussianProcessProxy())


def table_of_rows(kind: str, seed: int, n_background: int) -> torch.Tensor:
    """(2 ** 12, R) values of all coalitions of a trained model against each background row."""
    torch.manual_seed(seed)
    x, y = _standardized(["breast_cancer", "wine", "digits"][seed % 3], N_PLAYERS)
    background = x[np.random.default_rng(seed).choice(len(x), n_background, replace=False)]
    sample, n, n_classes = x[(37 * (seed + 1)) % len(x)], N_PLAYERS, int(y.max()) + 1
    rows = np.where(coalitions(n)[:, None], sample, background[None]).reshape(-1, n)
    if kind in ("forest", "svm"):
        forest = RandomForestClassifier(40, random_state=seed)
        model = forest if kind == "forest" else CalibratedClassifierCV(SVC(), ensemble=False)
        scores = torch.as_tensor(model.fit(x, y).predict_proba(rows))
    else:
        layers = [nn.Linear(n, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, n_classes)]
        made = {"mlp": nn.Sequential(*layers), "attention": _Attention(n, n_classes), "gated": _Gated(n, n_classes)}
        network = train(made[kind], x, y, seed)
        with torch.no_grad():
            parts = torch.as_tensor(rows, dtype=torch.float32).split(20_000)
            scores = torch.cat([network(part).double().softmax(dim=1) for part in parts])
    table = scores.view(2**n, n_background, -1)
    return table[:, :, int(table[-1, 0].argmax())]


def against_all(estimator: RowEstimator, table: torch.Tensor, n_rows: int, seed: int) -> Estimate | None:
    n_coalitions = n_rows // table.shape[1]
    if n_coalitions < estimator.minimum_evaluations(N_PLAYERS):
        return None
    rows = estimator.draw(N_PLAYERS, n_coalitions, torch.Generator().manual_seed(seed))
    return estimator.from_outcomes(rows, [table.mean(dim=1)[(rows.coalitions * BITS).sum(dim=1)][None]])[0]


def against_some(estimator: RowEstimator, table: torch.Tensor, n_rows: int, seed: int) -> Estimate | None:
    n_background = table.shape[1]
    if isinstance(estimator, Sampling):
        rows = estimator.draw(
            N_PLAYERS, estimator.coalitions_within(n_rows, n_background), torch.Generator().manual_seed(seed)
        ).against(n_background)
        assert rows.replacements is not None
        return estimator.from_outcomes(rows, [table[(rows.coalitions * BITS).sum(dim=1), rows.replacements][None]])[0]
    largest, least = min(n_rows // N_ROWS, 2**N_PLAYERS - 2), estimator.minimum_evaluations(N_PLAYERS)
    for n_coalitions in range(largest, least - 1, -8):
        design = draw_design(N_PLAYERS, n_coalitions - 2, torch.Generator().manual_seed(seed))
        spent = 2 * n_background * design.n_enumerated + 2 * N_ROWS * design.n_drawn + n_background + 1
        if spent <= n_rows:
            return estimator.from_outcomes(design, [against_four(design, table, seed)[None]])[0]
    return None


def against_four(design: Design, table: torch.Tensor, seed: int) -> torch.Tensor:
    """Values of a design, those of drawn pairs against four rows each, without what differences of rows explain."""
    n_background, n_pairs, generator = table.shape[1], len(design.masks), torch.Generator().manual_seed(seed)
    n_turns = -(-n_pairs * N_ROWS // n_background)
    turns = torch.cat([torch.randperm(n_background, generator=generator) for _ in range(n_turns)])
    weights = torch.full((n_pairs, n_background), 1 / n_background, dtype=torch.float64)
    chosen = turns[: n_pairs * N_ROWS].view(n_pairs, N_ROWS)
    of_chosen = torch.zeros_like(weights).scatter_add_(
        1, chosen, torch.full_like(chosen, 1 / N_ROWS, dtype=torch.float64)
    )
    weights[design.n_enumerated :] = of_chosen[design.n_enumerated :]
    weights = torch.cat([torch.full_like(weights[:2], 1 / n_background), weights.repeat_interleave(2, dim=0)])
    coalitions = design.coalitions
    values = (table[(coalitions * BITS).sum(dim=1)] * weights).sum(dim=1)
    absent = 1 - coalitions.double().mean(dim=1)
    shift = weights @ (table[0] - table[0].mean()) * absent
    effects = torch.cat([torch.ones(len(coalitions), 1), coalitions, coalitions * absent[:, None]], dim=1).double()
    columns = torch.cat([effects, torch.stack([shift, shift * absent], dim=1)], dim=1)
    fitted = torch.linalg.lstsq(columns, values[:, None], driver="gelsd").solution
    return values - columns[:, -2:] @ fitted[-2:, 0]


def coverage(estimate: Estimate, truth: np.ndarray) -> float:
    off = ~np.eye(len(truth), dtype=bool)
    error = np.abs(estimate.bivariate[0].numpy() - truth)[off]
    return float(np.mean(error <= 1.96 * estimate.bivariate_error[0].numpy()[off] + 1e-12))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed of each model, one repetition")
    quick = parser.parse_args().quick
    warnings.filterwarnings("ignore")
    seeds, n_repeats = ((2,), 1) if quick else ((2, 3, 4), 2)
    for n_background in (8, 32):
        games = [table_of_rows(kind, seed, n_background) for kind in KINDS for seed in seeds]
        truths = [table_e2(table.mean(dim=1).numpy())[0] for table in games]
        for n_rows in (1024, 2048, 4096):
            for estimator in ESTIMATORS:
                for name, run in (("all", against_all), ("some", against_some)):
                    errors, covers = [], []
                    for table, truth in zip(games, truths, strict=True):
                        found = [run(estimator, table, n_rows, seed) for seed in range(n_repeats)]
                        known = [e for e in found if e is not None]
                        if known:
                            squares = [relative_error(e.bivariate[0], truth) ** 2 for e in known]
                            errors.append(float(np.sqrt(np.mean(squares))))
                            covers.append(float(np.mean([coverage(e, truth) for e in known])))
                    if errors:
                        print(
                            f"{n_background:>3} background rows, {n_rows:>5} model rows, {estimator.name:<9}{name}: "
                            f"{np.exp(np.mean(np.log(errors))):.3f} (worst {max(errors):.2f}), "
                            f"covered {np.mean(covers):.3f} (worst {min(covers):.2f})",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
