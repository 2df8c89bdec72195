"""Five releases of one model: accuracy and inputs stay as they are, and only the graph says what changed.

Two sensors of the wine table carry the same reading. From release to release, training hides the first one more often
(a flaky sensor, say). The model moves over to the second one. Validation accuracy cannot see that, nor can a check of
the inputs; `bivshap history` shows it.
"""

import argparse
from pathlib import Path

import pytorch_lightning as pl
import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.gate import Rule, make_history
from bivshap_lightning.views import render_png
from bivshap_lightning.views.html.history import render_history
from bivshap_lightning.views.html.timeline import draw_bump_chart

RULES = [Rule(metric="drift/shares", max=0.1)]


def load() -> tuple[torch.Tensor, torch.Tensor, list[str]]:
    wine = load_wine()
    x = torch.tensor(wine.data, dtype=torch.float32)
    x = (x - x.mean(dim=0)) / x.std(dim=0)
    place = wine.feature_names.index("proline")
    x = torch.cat([x[:, place : place + 1], x], dim=1)
    return x, torch.tensor(wine.target), ["proline, sensor A", *wine.feature_names]


class Classifier(pl.LightningModule):
    def __init__(self, n_features: int, hidden: float) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(n_features, 16), nn.Tanh(), nn.Linear(16, 3))
        self.hidden = hidden

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x)

    def training_step(self, batch, batch_idx):
        x, y = batch[0].clone(), batch[1]
        x[torch.rand(len(x)) < self.hidden, 0] = 0
        return nn.functional.cross_entropy(self(x), y)

    def validation_step(self, batch, batch_idx):
        self.log("accuracy", (self(batch[0]).argmax(dim=1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def release(folder: Path, hidden: float) -> Path:
    """Train, validate, audit; the path of the record."""
    pl.seed_everything(0)
    x, y, names = load()
    order = torch.randperm(len(x))
    train, valid = (TensorDataset(x[rows], y[rows]) for rows in (order[:118], order[118:]))
    options = {"default_root_dir": folder, "accelerator": "cpu", "logger": False, "enable_checkpointing": False,
               "enable_progress_bar": False, "enable_model_summary": False}  # fmt: skip
    model = Classifier(x.shape[1], hidden)
    loader = DataLoader(train, batch_size=16, shuffle=True)
    pl.Trainer(max_epochs=20, **options).fit(model, loader, DataLoader(valid, batch_size=64))
    audit = BivShapCallback(
        n_samples=24, target="label", compare_with=(), panels=False, background=x[order[:8]], feature_names=names,
        n_evaluations=8 * 300, on_error="raise",
    )  # fmt: skip
    pl.Trainer(callbacks=[audit], **options).validate(model, DataLoader(valid, batch_size=64), verbose=False)
    return next((folder / "bivshap").glob("*.json"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("release_history"), help="folder for records and page")
    options = parser.parse_args()
    records = [release(options.output / f"release_{k}", hidden) for k, hidden in enumerate((0, 0, 0.3, 0.7, 1.0))]
    history = make_history(records, rules=RULES)
    for k, entry in enumerate(history.entries):
        a, b = (entry.shares[name] for name in ("proline, sensor A", "proline"))
        accuracy = entry.validation_metrics["accuracy"]
        print(f"release {k}: accuracy {accuracy:.3f}, share of sensor A {a:.2f}, of sensor B {b:.2f}")
    print(history.to_text())
    page = options.output / "history.html"
    page.write_text(render_history(history), encoding="utf-8")
    (options.output / "release_history.png").write_bytes(render_png(draw_bump_chart(history))[0])
    print(f"page: {page}")


if __name__ == "__main__":
    main()
