"""A gate in a pipeline: rules calibrated on trusted models, one retrain that passes and one defect that does not.

Five networks with five seeds learn the growers of scikit-learn's wines; they are the models that people trust. From
their audits `calibrate` makes rules about drift. Then two candidates are judged: a retrain with a sixth seed, and a
model whose training data lost two columns on the way (they are zero). The accuracy of both on the
validation data is within what the trusted models allow.
"""

import argparse
from pathlib import Path

import pytorch_lightning as pl
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_wine
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.gate import Verdict, calibrate, judge, save_calibration

LOST = ("proline", "flavanoids")


class Wine(pl.LightningModule):
    """One hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_accuracy", (self(batch[0]).argmax(dim=1) == batch[1]).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def train_and_audit(folder: Path, *, seed: int, lost: tuple[str, ...] = ()) -> tuple[Path, float]:
    """The record of one model, and its validation accuracy."""
    data = load_wine()
    names = [name.replace("_", " ") for name in data.feature_names]
    x, y = torch.tensor(data.data, dtype=torch.float32), torch.tensor(data.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))  # the same samples for every model
    train, valid = order[:118], order[118:]
    x = (x - x[train].mean(dim=0)) / x[train].std(dim=0)
    seen = x[train].clone()
    seen[:, [names.index(name) for name in lost]] = 0
    pl.seed_everything(seed, workers=True, verbose=False)
    audit = BivShapCallback(
        n_samples=32, target="label", background=x[train][:8], n_evaluations=8 * 300, compare_with=(), panels=False,
        feature_names=names, class_names=list(data.target_names), every_n_epochs=24, on_error="raise",
    )  # fmt: skip
    trainer = pl.Trainer(
        max_epochs=25, callbacks=[audit], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    loaders = (
        DataLoader(TensorDataset(seen, y[train]), batch_size=16, shuffle=True),
        DataLoader(TensorDataset(x[valid], y[valid]), batch_size=60),
    )
    trainer.fit(Wine(), *loaders)
    return max((folder / "bivshap").glob("*.json")), float(trainer.callback_metrics["val_accuracy"])


def draw(verdicts: dict[str, Verdict]) -> Figure:
    """How far each number of drift is from its threshold; the gate stops what reaches beyond the line."""
    figure = Figure(figsize=(7.5, 3.2), layout="constrained")
    ax = figure.subplots()
    for k, (name, verdict) in enumerate(verdicts.items()):
        drift = [r for r in verdict.results if r.rule.metric.startswith("drift/") and r.rule.max is not None]
        shares = [float(r.check.value) / r.rule.max for r in drift]
        ax.barh(
            [row + 0.2 - 0.4 * k for row in range(len(drift))], shares, height=0.38, color=["#8ba3ad", "#c2410c"][k],
            label=f"{name}: {'passed' if verdict.passed else 'FAILED'}",
        )  # fmt: skip
        ax.set_yticks(range(len(drift)), [r.rule.metric for r in drift])
    ax.axvline(1, color="black", linewidth=1)
    ax.set_xlabel("measured / largest value that passes")
    ax.invert_yaxis()
    ax.legend(loc="lower right", frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("gate_in_ci"), help="folder of records, rules and picture")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    trusted = [train_and_audit(folder / f"trusted_{seed}", seed=seed) for seed in range(1, 6)]
    print("trusted models: accuracy " + ", ".join(f"{accuracy:.3f}" for _, accuracy in trusted))
    calibration = calibrate([path for path, _ in trusted])
    rules, _ = save_calibration(calibration, folder / "gate.toml")
    print(f"{calibration.to_text()}\n")

    verdicts = {}
    for name, lost in (("retrain", ()), ("two columns lost", LOST)):
        record, accuracy = train_and_audit(folder / name.replace(" ", "_"), seed=6, lost=lost)
        verdicts[name] = judge(record, rules)
        print(f"== {name}: accuracy {accuracy:.3f}\n{verdicts[name].to_text()}\n")
        (folder / f"{name.replace(' ', '_')}.junit.xml").write_text(verdicts[name].to_junit(), encoding="utf-8")
    draw(verdicts).savefig(folder / "gate_in_ci.png", dpi=100)
    print(f"The picture: {folder / 'gate_in_ci.png'}")


if __name__ == "__main__":
    main()
