"""A table with substitutes and a leaked column: what the arrows say, and why the gate stops one of two models.

Will the ice cream stand sell out today? The table is made here, so that the right answers are known: a day sells out if
it is warm or a weekend. The temperature stands in it twice, in degrees Celsius and in degrees Fahrenheit. The heat
warning follows from the temperature. The wind plays no part. Weather readings are missing now and then, so the network
is trained to do without them.

A second model is trained on the same days with one more column: how many tubs were left in the evening. Nobody knows
that in the morning. It is more accurate than the first one, and the gate stops it.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.gate import STARTER, judge
from bivshap_lightning.views import draw_axis, draw_graphs, render_png

WEATHER = ["celsius", "fahrenheit", "heat warning"]  # readings that may be missing
NAMES = [*WEATHER, "weekend", "wind"]
LEAK = "tubs left"
GAMMA = 0.02  # a mean change of the probability by 0.02 counts as none


def make_days(n: int, *, leaked: bool) -> tuple[list[str], TensorDataset]:
    """Days with whether they sold out; columns are standardised, so that 0 is the mean of a column."""
    rng = np.random.default_rng(0)
    celsius, weekend, wind = rng.normal(22, 6, n), rng.random(n) < 2 / 7, rng.gamma(2, 2, n)
    sold_out = (celsius - 24) / 2 + 3 * weekend + rng.logistic(0, 0.6, n) > 0
    columns, names = [celsius, 1.8 * celsius + 32, celsius > 27, weekend, wind], list(NAMES)
    if leaked:
        left = np.where(sold_out, 0, np.ceil(rng.gamma(3, 2, n)))
        columns.append(np.where(rng.random(n) < 0.03, rng.permutation(left), left))  # now and then miscounted
        names.append(LEAK)
    x = np.stack(columns, axis=1).astype(float)
    x = torch.tensor((x - x.mean(axis=0)) / x.std(axis=0), dtype=torch.float32)
    return names, TensorDataset(x, torch.tensor(sold_out).long())


class IceCream(pl.LightningModule):
    """Two hidden layers. In training, four of ten weather readings are missing: replaced by their mean, 0."""

    def __init__(self, n_columns: int) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(n_columns, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        is_known = torch.rand_like(x) >= 0.4
        is_known[:, len(WEATHER) :] = True
        return nn.functional.cross_entropy(self(x * is_known), y)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_accuracy", (self(batch[0]).argmax(dim=1) == batch[1]).float().mean())

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def train_and_audit(folder: Path, *, leaked: bool) -> tuple[float, Path]:
    """Validation accuracy, and the path of the record."""
    pl.seed_everything(0, workers=True, verbose=False)
    names, days = make_days(3000, leaked=leaked)
    train, valid = (torch.utils.data.Subset(days, range(*ends)) for ends in ((0, 2000), (2000, 3000)))
    audit = BivShapCallback(
        n_samples=64, gamma=GAMMA, feature_names=names, class_names=["tubs remain", "sold out"], compare_with=(),
        baselines=0.0, on_error="raise",  # what replaces missing readings in training too
    )  # fmt: skip
    trainer = pl.Trainer(
        max_epochs=40, callbacks=[audit], logger=pl.loggers.TensorBoardLogger(folder, name="", version=""),
        accelerator="cpu", enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    loaders = DataLoader(train, batch_size=64, shuffle=True), DataLoader(valid, batch_size=1000)
    trainer.fit(IceCream(len(names)), *loaders)
    return float(trainer.callback_metrics["val_accuracy"]), max((folder / "bivshap").glob("*.json"))


def tell(record: AuditRecord) -> None:
    """The importance of each column for days that sell out, alone and once another column is there."""
    graph = record.class_graphs["sold out"]
    h = graph.redundancy(GAMMA)
    print(f"{'importance of':<20}{'by itself':>10}   once this one is there:")
    print(f"{'':<30}   " + "".join(f"{name:>14}" for name in graph.names))
    for j, name in enumerate(graph.names):
        cells = ["" if i == j else f"{2 * graph.weights[i, j]:.3f}" for i in range(graph.n_players)]
        print(f"{name:<20}{graph.shapley[j]:>10.3f}   " + "".join(f"{cell:>14}" for cell in cells))
    print()
    roles = graph.roles(GAMMA).roles
    for j, (name, role) in enumerate(zip(graph.names, roles, strict=True)):
        makers = [graph.names[i] for i in range(graph.n_players) if h.adjacency[i, j] and roles[i] != "irrelevant"]
        because = (
            f"adds nothing once one of these is there: {', '.join(makers)}" if makers and role != "irrelevant" else ""
        )
        print(f"{name:<14}{role:<17}{because}".rstrip())


def draw(record: AuditRecord, name: str, folder: Path) -> None:
    """The mean over the days that sell out, as rows with arcs and as graphs."""
    graph = record.class_graphs["sold out"]
    members = [g for s, g in zip(record.samples, record.sample_graphs, strict=True) if s.class_name == "sold out"]
    title = f"The {name} model: why a day sells out"
    axis = draw_axis(
        graph, graphs=members, title=title, subtitle=f"mean over {len(members)} days", xlabel="probability"
    )
    graphs = draw_graphs(graph, graph.redundancy(GAMMA), title=title)
    for kind, figure in (("axis", axis), ("graphs", graphs)):
        (folder / f"table_{name}_{kind}.png").write_bytes(render_png(figure)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("table_with_a_leak"), help="folder of logs and pictures")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    rules = folder / "gate.toml"
    rules.write_text(STARTER, encoding="utf-8")
    for name in ("clean", "leaked"):
        accuracy, path = train_and_audit(folder / name, leaked=name == "leaked")
        record = AuditRecord.load(path)
        print(f"\n== The {name} model: validation accuracy {accuracy:.3f}\n")
        tell(record)
        print(f"\n{judge(record, rules).to_text()}")
        draw(record, name, folder)
    print(f"\nLogs, records and pictures: {folder}")


if __name__ == "__main__":
    main()
