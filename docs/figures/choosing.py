"""What removal and gamma change: the two models of `examples/table_with_a_leak.py`, explained again.

python docs/figures/choosing.py --output FOLDER
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from table_with_a_leak import WEATHER, IceCream, make_days

from bivshap_lightning import BivariateShapley


def train(*, leaked: bool) -> tuple[list[str], IceCream, torch.Tensor]:
    """The network of the example by a plain loop."""
    torch.manual_seed(0)
    names, days = make_days(3000, leaked=leaked)
    x, y = days.tensors
    module = IceCream(len(names))
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=40 * 32)
    for _ in range(40):
        for rows in torch.randperm(2000).split(64):
            is_known = torch.rand(len(rows), len(names)) >= 0.4
            is_known[:, len(WEATHER) :] = True
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(x[rows] * is_known), y[rows]).backward()
            optimizer.step()
            schedule.step()
    return names, module, x


def main() -> None:
    """Measure, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="folder of the picture")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)

    names, module, x = train(leaked=True)
    rows = x[2000:2128]
    removals = {
        "mean of the column (0)": {"baselines": 0.0},
        "smallest value": {"baselines": x[:2000].min(dim=0).values[None].expand_as(rows)},
        "32 training rows": {"background": x[:32]},
    }
    for k, (label, removal) in enumerate(removals.items()):
        shapley = BivariateShapley(module).attribute(rows, **removal).shapley.abs().sum(dim=0)
        shares = (shapley / shapley.sum()).numpy()
        print(f"share of {names[-1]}, absent columns replaced by {label}: {shares[-1]:.2f}")
        left.barh(
            np.arange(len(names)) + 0.27 * (k - 1),
            shares,
            height=0.25,
            label=label,
            color=["#0072b2", "#d55e00", "#009e73"][k],
        )
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    left.set(title="the same leaked model, three removals", xlabel="share of importance")
    left.legend(frameon=False, fontsize=8)

    names, module, x = train(leaked=False)
    explanation = BivariateShapley(module).attribute(x[2000:2128], baselines=0.0)
    graphs = explanation.graphs(names)
    gammas = np.geomspace(1e-5, 0.3, 60)
    roles = ("irrelevant", "interchangeable", "redundant", "essential")
    shares = [[graph.roles(gamma).shares for graph in graphs] for gamma in gammas]
    heights = [[np.mean([one[role] for one in row]) for row in shares] for role in roles]
    right.stackplot(gammas, heights, labels=roles, colors=["#d9d9d9", "#0072b2", "#8fc1de", "#d55e00"])
    right.set(
        xscale="log",
        xlim=(gammas[0], gammas[-1]),
        ylim=(0, 1),
        title="the clean model, roles over gamma",
        xlabel="gamma",
        ylabel="share of columns",
    )
    right.axvline(float(np.mean([g.relative_gamma for g in graphs])), color="black", linewidth=0.8)
    right.legend(loc="upper left", fontsize=8)
    figure.savefig(folder / "choosing.png", dpi=100)
    print(f"default gamma, mean over the samples: {np.mean([g.relative_gamma for g in graphs]):.4f}")


if __name__ == "__main__":
    main()
