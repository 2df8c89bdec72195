"""A column that stands twice in a table: SHAP splits its credit, the graph shows the pair.

A network learns wine from scikit-learn's bundled table, in which the most telling column stands twice. Shapley values
make both copies look half as important as the column is; the redundancy graph says that either one replaces the other.
"""

import argparse
from pathlib import Path

import pytorch_lightning as pl
import torch
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning import ExplanationGraph, RedundancyGraph
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.views import draw_graphs


class Wine(pl.LightningModule):
    """A network that reads a column or its copy, whichever is there."""

    def __init__(self, n_columns: int) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(n_columns - 1, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, x: Tensor) -> Tensor:
        copies = torch.where(x[:, :1].abs() >= x[:, 1:2].abs(), x[:, :1], x[:, 1:2])
        return self.network(torch.cat([copies, x[:, 2:]], dim=1))

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_accuracy", (self(batch[0]).argmax(dim=1) == batch[1]).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def tell(graph: ExplanationGraph, h: RedundancyGraph) -> None:
    """The columns by importance, and which of them are one."""
    print(f"{'column':<20}{'Shapley value':>15}   {'makes redundant':<20}")
    for k in graph.order(personalized=True):
        redundant = ", ".join(graph.names[j] for j in range(graph.n_players) if h.adjacency[k, j]) or "-"
        print(f"{graph.names[k]:<20}{graph.shapley[k]:>15.3f}   {redundant:<20}")
    for group in h.groups:
        worth = sum(float(graph.shapley[k]) for k in group)
        names = " = ".join(graph.names[k] for k in group)
        print(f"\nInterchangeable: {names}. Their Shapley values are parts of one feature")
        print(f"worth {worth:.3f}; each is worth nothing once the other is there.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--output", type=Path, default=Path("lightning_logs"), help="folder of the TensorBoard logs")
    args = parser.parse_args()

    pl.seed_everything(0, workers=True, verbose=False)
    data = load_wine()
    columns = ["proline", "flavanoids", "alcohol", "color_intensity", "hue", "malic_acid"]
    table = StandardScaler().fit_transform(data.data[:, [data.feature_names.index(c) for c in columns]])
    rows = torch.tensor(table, dtype=torch.float32)
    rows = torch.cat([rows[:, :1], rows], dim=1)
    names = ["proline", "proline (copy)", *columns[1:]]
    dataset = TensorDataset(rows, torch.tensor(data.target))

    callback = BivShapCallback(
        n_samples=24, every_n_epochs=args.epochs - 1, feature_names=names, class_names=list(data.target_names),
        compare_with=("kernel_shap", "feature_ablation"), baselines=0.0,  # the mean of a standardised column
    )  # fmt: skip
    trainer = pl.Trainer(
        max_epochs=args.epochs, callbacks=[callback], accelerator="cpu", enable_model_summary=False,
        enable_progress_bar=False, enable_checkpointing=False, log_every_n_steps=10,
        logger=pl.loggers.TensorBoardLogger(args.output.parent, name=args.output.name),
    )  # fmt: skip
    trainer.fit(Wine(len(names)), DataLoader(dataset, batch_size=32, shuffle=True), DataLoader(dataset, batch_size=178))

    assert callback.result is not None
    sample = max(callback.result.samples, key=lambda s: abs(float(s.graph.shapley[0])))
    graph, h = sample.graph, sample.graph.redundancy()
    print(f"\nWhy sample {sample.index} is {data.target_names[int(sample.target)]}\n")
    tell(graph, h)
    title = f"Why sample {sample.index} is {data.target_names[int(sample.target)]}"
    picture = args.output / "tabular_duplicates.png"
    draw_graphs(graph, h, title=title, scores=graph.ranking(personalized=True)).savefig(picture)
    print(f"\nThe graphs of this sample: {picture}")


if __name__ == "__main__":
    main()
