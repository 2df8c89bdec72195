"""Regression on series: which hours of the last two days a forecast rests on, in the units of the forecast.

The load of a building repeats the load of the same hour of the day before, and follows the hour just past. The series
is made here by that rule, so that the right answer is known. A network forecasts the next hour from the last 48. Its
players are eight stretches of six hours; an absent stretch is at the mean of the series.
"""

import argparse
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning import BivariateShapley, Segments
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.views import draw_axis, render_png

HOURS, N_STRETCHES = 48, 8
GAMMA = 0.1  # kW; a stretch that changes forecasts by less counts as irrelevant


def make_load(n: int) -> np.ndarray:
    """`load[t] = 0.6 load[t - 24] + 0.35 load[t - 1] + noise`, in kilowatts from the mean."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, n + 500)
    load = np.zeros(n + 500)
    for t in range(24, n + 500):
        load[t] = 0.6 * load[t - 24] + 0.35 * load[t - 1] + noise[t]
    return load[500:]


class Forecast(pl.LightningModule):
    """A network with one hidden layer over 48 hours."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(HOURS, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).squeeze(1)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return nn.functional.mse_loss(self(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_rmse", nn.functional.mse_loss(self(batch[0]), batch[1]).sqrt())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3, weight_decay=0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("series_regression"), help="folder of the picture")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    pl.seed_everything(0, workers=True, verbose=False)
    load = torch.tensor(make_load(6000), dtype=torch.float32)
    windows, following = load.unfold(0, HOURS, 1)[:-1], load[HOURS:]
    data = TensorDataset(windows[:4800], following[:4800]), TensorDataset(windows[4900:], following[4900:])
    names = [f"{HOURS - 6 * k} to {HOURS - 6 * k - 5} h before" for k in range(N_STRETCHES)]
    audit = BivShapCallback(
        n_samples=24, gamma=GAMMA, feature_mask=Segments(N_STRETCHES), feature_names=names, compare_with=(),
        panels=False, write_record=False, every_n_epochs=11, on_error="raise",
    )  # fmt: skip
    module = Forecast()
    trainer = pl.Trainer(
        max_epochs=12, callbacks=[audit], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, DataLoader(data[0], batch_size=64, shuffle=True), DataLoader(data[1], batch_size=2000))

    record = audit.record()
    kept = record.metrics["bivshap/redundancy/share_kept_with_representatives"].value
    error = float(trainer.callback_metrics["val_rmse"])
    print(f"task: {record.configuration.task}; error of the forecast {error:.2f} kW")
    print(f"with one stretch of each redundant group, {kept:.0%} of the forecast's departure from the mean is kept\n")
    explanation = BivariateShapley(module, behavior="output").attribute(
        data[1].tensors[0][:200], feature_mask=Segments(N_STRETCHES)
    )
    graphs = explanation.graphs(names)
    graph = explanation.mean_graph(names=names)
    print(f"{'stretch':<22}{'mean |effect| in kW':>20}   role in most forecasts")
    for k, name in enumerate(names):
        roles = [g.roles(GAMMA).roles[k] for g in graphs]
        effect = float(explanation.shapley[:, k].abs().mean())
        print(f"{name:<22}{effect:>20.2f}   {max(sorted(set(roles)), key=roles.count)}")
    figure = draw_axis(
        graph, graphs=graphs, title="Which hours the forecast rests on", subtitle="mean over 200 forecasts", xlabel="kW"
    )
    (folder / "series_regression.png").write_bytes(render_png(figure)[0])
    print(f"\nThe picture: {folder / 'series_regression.png'}")


if __name__ == "__main__":
    main()
