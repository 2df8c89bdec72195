"""Several labels at once: one picture, three questions, three explanations.

A network answers three independent questions about scikit-learn's digits: is it even, is it five or more, does it have
a loop? Each label has its own sigmoid, so that each label has its own explanation. The players are the 16 squares of a
4 x 4 grid; an absent square is black.
"""

import argparse
from pathlib import Path

import pytorch_lightning as pl
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning import BivariateShapley, Explanation, Grid
from bivshap_lightning.callbacks import BivShapCallback

LABELS = ["even", "five or more", "has a loop"]
LOOPS = torch.tensor([0, 6, 8, 9])


class Questions(pl.LightningModule):
    """Two convolutions; one score per question."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(1, 16, 3),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 16, len(LABELS)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(self(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_accuracy", ((self(batch[0]) > 0) == batch[1].bool()).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=2e-3)


def load() -> tuple[TensorDataset, TensorDataset]:
    digits = load_digits()
    images, which = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16, torch.tensor(digits.target)
    answers = torch.stack([which % 2 == 0, which >= 5, torch.isin(which, LOOPS)], dim=1).float()
    order = torch.randperm(len(which), generator=torch.Generator().manual_seed(0))
    train, valid = order[:1400], order[1400:]
    return TensorDataset(images[train], answers[train]), TensorDataset(images[valid], answers[valid])


def draw(image: Tensor, explanations: list[Explanation], scores: Tensor) -> Figure:
    """The digit, and for each label the squares that speak for the answer (green) and against it (purple)."""
    figure = Figure(figsize=(9, 2.9), layout="constrained")
    axes = figure.subplots(1, len(LABELS) + 1)
    axes[0].imshow(image[0], cmap="gray_r")
    axes[0].set_title("the digit")
    largest = max(float(e.shapley.abs().max()) for e in explanations)
    for ax, label, explanation, score in zip(axes[1:], LABELS, explanations, scores, strict=True):
        heat = ax.imshow(
            explanation.shapley[0].view(4, 4), cmap="PRGn", vmin=-largest, vmax=largest, extent=(0, 8, 8, 0)
        )
        ax.contour(image[0], levels=[0.4], colors="black", linewidths=1, extent=(0, 8, 0, 8))
        ax.set_title(f"{label}: {score:.2f}")
    for ax in axes:
        ax.set_xticks([])
        ax.set_yticks([])
    figure.colorbar(heat, ax=axes, label="Shapley value", shrink=0.8)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("multi_label"), help="folder of the picture")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    pl.seed_everything(0, workers=True, verbose=False)
    train, valid = load()
    audit = BivShapCallback(
        n_samples=12, feature_mask=Grid(4), class_names=LABELS, compare_with=(), panels=False, write_record=False,
        every_n_epochs=14, on_error="raise",
    )  # fmt: skip
    module = Questions()
    trainer = pl.Trainer(
        max_epochs=15, callbacks=[audit], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, DataLoader(train, batch_size=64, shuffle=True), DataLoader(valid, batch_size=512))
    record = audit.record()
    accuracy = float(trainer.callback_metrics["val_accuracy"])
    print(f"task: {record.configuration.task}; share of right answers {accuracy:.3f}")
    print(f"mean graphs in the record: {', '.join(record.class_graphs)}\n")

    images, answers = valid.tensors
    shown = int((answers == torch.tensor([1.0, 1.0, 1.0])).all(dim=1).nonzero()[0])  # a six or an eight
    image = images[shown : shown + 1]
    explanations = []
    for k, label in enumerate(LABELS):
        explainer = BivariateShapley(module, link="sigmoid")
        explanations.append(explainer.attribute(image, target=k, feature_mask=Grid(4)))
        graph = explanations[-1].graph(0)
        top = [graph.names[j] for j in graph.order()[:3]]
        roles = graph.roles().roles
        needed = sum(role in ("essential", "interchangeable") for role in roles)
        print(f"{label:<14}most important squares: {', '.join(top)}; {needed} of {len(roles)} matter")
    with torch.no_grad():
        scores = module(image).sigmoid()[0]
    figure = draw(image[0], explanations, scores)
    figure.savefig(folder / "multi_label.png", dpi=100)
    print(f"\nThe picture: {folder / 'multi_label.png'}")


if __name__ == "__main__":
    main()
