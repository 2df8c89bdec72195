"""Which parts of a digit replace each other: a network, superpixels, and the graphs on the picture itself.

A small convolutional network learns scikit-learn's digits, drawn at 24 x 24 pixels. Each picture is cut into
superpixels (SLIC, scikit-image), each superpixel is a player, an absent one is black. The redundancy graph then says
which parts the network does not need: they are taken away until one of each group is left, and for comparison as many
are taken away at random.
"""

import argparse
from pathlib import Path

import pytorch_lightning as pl
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning import Game
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.game.players import Superpixels
from bivshap_lightning.metrics import MutualRedundancyMasking
from bivshap_lightning.views import draw_image_graphs


class Digits(pl.LightningModule):
    """Two convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 16, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_accuracy", (self(batch[0]).argmax(dim=1) == batch[1]).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=2e-3)


def train(data: TensorDataset, epochs: int) -> tuple[Digits, list[int]]:
    """The trained network, and which digits it has not seen."""
    training, valid = torch.utils.data.random_split(data, [0.8, 0.2])
    module = Digits()
    trainer = pl.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, DataLoader(training, batch_size=64, shuffle=True), DataLoader(valid, batch_size=256))
    print(f"\nvalidation accuracy {float(trainer.callback_metrics['val_accuracy']):.3f}")
    return module, list(valid.indices)


def kept_at_random(game: Game, share: float) -> float:
    """How many decisions stay when this share of players goes at random; the mean over twenty draws."""
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(game.n_samples, 20, game.n_players, generator=generator)
    order = order.masked_fill(~game.players.exists[:, None], 2.0).argsort(dim=2).argsort(dim=2)
    n_kept = (game.player_counts * (1 - share)).round()
    decisions = game.predict(order < n_kept[:, None, None])
    return float((decisions == game.target[:, None]).double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--gamma", type=float, default=0.03, help="a change of probability that counts as nothing")
    parser.add_argument("--output", type=Path, default=Path("digits_cnn.png"), help="the picture")
    args = parser.parse_args()

    pl.seed_everything(0, workers=True, verbose=False)
    digits = load_digits()
    small = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    images = nn.functional.interpolate(small, size=24, mode="bilinear", align_corners=False)
    module, unseen = train(TensorDataset(images, torch.tensor(digits.target)), args.epochs)

    chosen = images[unseen[:96]]
    game = Game(module, chosen, feature_mask=Superpixels(36))
    explanation = find_explainer("auto").explain(game, n_evaluations=2000)
    graphs = explanation.graphs()
    metric = MutualRedundancyMasking(gamma=args.gamma)
    metric.update(game, graphs)
    found = metric.compute()
    share, stays = float(found["share_removable"]), float(found["accuracy_with_representatives"])
    counts = game.player_counts
    print(f"{len(graphs)} digits, {int(counts.min())} to {int(counts.max())} superpixels each, {explanation}")
    print(f"\nWith gamma = {args.gamma} the redundancy graphs let {share:.0%} of the superpixels go.")
    print(f"  one of each group left:          {stays:.0%} of the decisions stay")
    print(f"  as many taken away at random:    {kept_at_random(game, share):.0%} of the decisions stay")

    # The digit with the most redundant parts of ink; black ones are redundant by themselves, being replaced by black.
    is_ink = ~explanation.null_players
    redundant = [sum(int(is_ink[k, list(g)].sum()) for g in graphs[k].redundancy(args.gamma).groups) for k in range(96)]
    shown = max(range(96), key=redundant.__getitem__)
    graph = graphs[shown]
    segments = Superpixels(36)(chosen[shown : shown + 1])[0, 0]
    figure = draw_image_graphs(
        graph, graph.redundancy(args.gamma), chosen[shown, 0].numpy(), segments.numpy(),
        title=f"Why this is a {int(explanation.target[shown])}", scores=graph.ranking(personalized=True),
    )  # fmt: skip
    figure.savefig(args.output)
    print(f"\nThe graphs on a digit: {args.output}")


if __name__ == "__main__":
    main()
