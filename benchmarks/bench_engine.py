"""Accuracy, speed and overhead of the engine, side by side with the paper's algorithm, Captum, shap and shapiq.

Run with `make bench` or `python -m benchmarks.bench_engine`. Times are the best of several runs and only mean something
as ratios within one run.
"""

import resource
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import nn

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import default_coalitions
from tests.oracles import Unanimity, paper_kernel, relative_error


def best_of(n_runs: int, run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(n_runs):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def mlp(n_inputs: int, width: int, depth: int) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(n_inputs, width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 2)).eval()


def cnn() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 49, 10),
    ).eval()  # fmt: skip


def accuracy() -> None:
    print("\nRelative RMSE of E2 on unanimity games at the paper's budget 2 (2 F + 2048), mean of 3 (1 at 1,077)")
    print(f"{'players':>8} {'evaluations':>12} {'paper, Alg. 2':>14} {'kernel':>8} {'sampling':>9} {'null rows':>10}")
    for n, n_terms, n_games in ((54, 216, 3), (196, 784, 3), (1077, 3000, 1)):
        errors = []
        for seed in range(n_games):
            game = Unanimity(n, n_terms, seed, n_null=4)
            inputs = torch.ones(1, n, dtype=torch.float64)
            inputs[0, -4:] = 0
            kernel, sampling = (
                BivariateShapley(game, m, "output", seed).attribute(inputs) for m in ("kernel", "sampling")
            )
            errors.append(
                (
                    relative_error(paper_kernel(game, n, default_coalitions(n), seed), game.e2),
                    relative_error(kernel.bivariate[0], game.e2),
                    relative_error(sampling.bivariate[0], game.e2),
                    float(kernel.bivariate[0, -4:].abs().max()),
                )
            )
        mean = np.mean(errors, axis=0)
        print(f"{n:>8} {default_coalitions(n):>12} {mean[0]:>14.3f} {mean[1]:>8.3f} {mean[2]:>9.3f} {mean[3]:>10.1g}")


def speed() -> None:
    from captum.attr import KernelShap, ShapleyValueSampling
    from shap import KernelExplainer
    from shapiq import KernelSHAP
    from shapiq.game import Game as ShapiqGame

    model, inputs = mlp(54, 50, 3), torch.randn(32, 54)
    budget = default_coalitions(54)

    def probability(x: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model(torch.as_tensor(x, dtype=torch.float32)).softmax(dim=1)[:, 0].numpy()

    class Bridge(ShapiqGame):
        def value_function(self, coalitions: np.ndarray) -> np.ndarray:
            return probability(coalitions * inputs[:1].numpy())

    print(f"\nSeconds per sample, 3x50 network, 54 players, {budget} evaluations per sample")
    ours = {
        m: best_of(3, lambda m=m: BivariateShapley(model, m).attribute(inputs)) / 32 for m in ("kernel", "sampling")
    }
    others = {
        "captum KernelShap (F values)": best_of(
            1, lambda: KernelShap(model).attribute(inputs[:1], target=0, n_samples=budget, perturbations_per_eval=256)
        ),
        "captum ShapleyValueSampling (F values)": best_of(
            1,
            lambda: ShapleyValueSampling(model).attribute(
                inputs[:1], target=0, n_samples=budget // 54, perturbations_per_eval=27
            ),
        ),
        "shap KernelExplainer (F values)": best_of(
            1,
            lambda: KernelExplainer(probability, np.zeros((1, 54))).shap_values(
                inputs[:1].numpy(), nsamples=budget, silent=True, l1_reg=False
            ),
        ),
        "shapiq KernelSHAP (F values)": best_of(
            1, lambda: KernelSHAP(n=54).approximate(budget=budget, game=Bridge(n_players=54, normalize=False))
        ),
    }
    for name, seconds in ours.items():
        print(f"  {'ours, ' + name + ' (F x F values, batch of 32)':<46} {seconds:8.4f}")
    for name, seconds in others.items():
        print(f"  {name:<46} {seconds:8.4f}   {seconds / ours['kernel']:6.1f} x ours")
    print("\nSeconds per sample, 4x200 network, 1,077 players")
    big, rows = mlp(1077, 200, 4), torch.randn(4, 1077)
    for method in ("kernel", "sampling"):
        seconds = best_of(1, lambda method=method: BivariateShapley(big, method).attribute(rows)) / 4
        print(f"  {'ours, ' + method + f', {default_coalitions(1077)} evaluations, batch of 4':<46} {seconds:8.3f}")


def forward_only(model: nn.Module, rows: torch.Tensor, size: int) -> None:
    with torch.inference_mode():
        for chunk in rows.split(size):
            model(chunk)


def overhead(quick: bool = False) -> list[tuple[str, float, float]]:
    """Seconds of explanations and of the bare forward passes of the same rows, by case."""
    found = []
    grid = (torch.arange(28) // 2)[:, None] * 14 + torch.arange(28) // 2
    cases = {
        "3x50 network, 54 players, batch of 32": (mlp(54, 50, 3), torch.randn(32, 54), None),
        "small CNN, 196 players, batch of 4": (cnn(), torch.rand(4, 1, 28, 28), grid[None, None]),
        "4x200 network, 1,077 players, batch of 4": (mlp(1077, 200, 4), torch.randn(4, 1077), None),
    }
    for name, (model, inputs, mask) in list(cases.items())[: 2 if quick else None]:
        for method in ("kernel", "sampling"):
            explainer = BivariateShapley(model, method)
            n_rows = int(explainer.attribute(inputs, feature_mask=mask).n_evaluations.sum())
            rows = torch.rand(n_rows, *inputs.shape[1:])
            size = Game(model, inputs).rows_per_call
            pairs = [
                (best_of(1, partial(forward_only, model, rows, size)),
                 best_of(1, partial(explainer.attribute, inputs, feature_mask=mask)))
                for _ in range(3 if quick or inputs[0].numel() >= 1000 else 7)  # alternating: both see the same machine
            ]  # fmt: skip
            forward, total = (min(column) for column in zip(*pairs, strict=True))
            found.append((f"{name}, {method}", total, forward))
    return found


def memory() -> None:
    """Peak of resident memory while 1,077 players are explained, above that of the bare forward passes before."""
    model, inputs = mlp(1077, 200, 4), torch.randn(4, 1077)
    for method in ("kernel", "sampling"):
        forward_only(model, torch.rand(6404, 1077), 4096)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        BivariateShapley(model, method).attribute(inputs)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"  {method + ', 1,077 players, batch of 4':<50} {(after - before) / 1024:7.0f} MB above the forward passes"
        )


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("\nPeak memory")
    memory()  # first, because a process never gives back its peak
    accuracy()
    speed()
    print("\nTotal time over the bare forward passes of the same rows")
    for name, total, forward in overhead():
        print(f"  {name:<50} {total:7.3f} s / {forward:7.3f} s = {total / forward:5.2f}")
