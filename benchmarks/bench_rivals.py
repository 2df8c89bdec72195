"""CPU seconds per sample of the second-order indices and other rivals, beside those of the paper's table of times.

Run with `python -m benchmarks.bench_rivals`. The paper's setting for Divorce: 54 players, a network of three layers of
50 neurons, the default number of evaluations. Its times were measured on another machine (Intel Gold 6132).
"""

import time
from collections.abc import Callable

import torch
from torch import nn

from bivshap_lightning import Game
from bivshap_lightning.explainers import default_evaluations, find_explainer

# Seconds per sample in the paper, for 54 players.
PAPER = {"shapley_interaction": 6.5, "shapley_taylor": 63.2, "shapley_excess": 93.3, "gnn_explainer": 0.15}
OTHERS = ("metagame", "asiv", "kernel", "kernel_shap", "shapley_sampling")


def network(n_players: int) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(n_players, 50), nn.ReLU()]
    for _ in range(2):
        layers += [nn.Linear(50, 50), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(50, 2)).eval()


def seconds(run: Callable[[], object], n_runs: int = 5) -> float:
    run()
    found = []
    for _ in range(n_runs):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    model = network(54)
    games = {n: Game(model, torch.randn(n, 54)) for n in (1, 32)}
    budget = default_evaluations(games[1])
    print(f"54 players, {budget} evaluations per sample; CPU seconds per sample, best of 5")
    print(f"{'method':<22}{'paper':>8}{'a hundredth':>13}{'single':>10}{'of 32':>10}")
    for name in (*PAPER, *OTHERS):
        explainer = find_explainer(name)
        times = {}
        for n, game in games.items():
            if name == "gnn_explainer" and n > 1:
                continue
            n_evaluations = max(budget, explainer.minimum_evaluations(game))
            times[n] = seconds(lambda e=explainer, g=game, m=n_evaluations: e.explain(g, m)) / n
        paper = f"{PAPER[name]:>8}{PAPER[name] / 100:>13.4f}" if name in PAPER else f"{'-':>8}{'-':>13}"
        print(f"{name:<22}{paper}" + "".join(f"{times[n]:>10.4f}" if n in times else f"{'-':>10}" for n in games))


if __name__ == "__main__":
    main()
