"""MNIST: a CNN of two convolutions; 196 superpixels, replaced by black."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bivshap_lightning import Superpixels
from examples.paper.figures import save_image_figures
from examples.paper.network import BlackBox, accuracy, train
from examples.paper.study import Options, Study, data_file

DOWNLOAD = "the MNIST site (yann.lecun.com/exdb/mnist) or torchvision.datasets.MNIST, the four .gz files"


class Cnn(BlackBox):
    """Two convolutions of 200 channels, 6 x 6, stride 2; batch normalisation after the first."""

    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        self.layers = nn.Sequential(
            nn.Conv2d(1, 200, 6, stride=2), nn.BatchNorm2d(200), nn.ReLU(),
            nn.Conv2d(200, 200, 6, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(3200, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.SGD(self.parameters(), lr=1e-2, momentum=self.momentum)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 8, 0.1)}


def load(options: Options) -> Study:
    """Train the CNN on MNIST."""
    x, y = _read(options, "train")
    x_test, y_test = _read(options, "t10k")
    x, y, epochs = x[: options.train], y[: options.train], options.epochs or (20 if options.full else 1)
    if options.quick:
        x, y, x_test, y_test = x[:480], y[:480], x_test[:64], y_test[:64]
    momentum = 0.0 if options.full else 0.9
    model = train(Cnn(momentum), x, y, folder=options.folder("mnist"), epochs=epochs, batch_size=32)
    notes = (
        f"Trained on {len(x):,} images, epochs: {epochs} (the paper: 60,000 and 20), with momentum {momentum:g} (the "
        "paper: none).",
    )
    return Study(
        name="mnist", model=model, inputs=x_test[:500], labels=y_test[:500], accuracy=accuracy(model, x_test, y_test),
        n_train=len(x), n_test=len(x_test),
        training=x, baselines=0, feature_mask=superpixels(options), batch_size=1, notes=notes,
    )  # fmt: skip


def superpixels(options: Options) -> Superpixels:
    """As the authors call SLIC: 196 segments, blurred by sigma 5, scikit-image's compactness of 10."""
    return Superpixels(25 if options.quick else 196, compactness=10.0, sigma=5.0)


def extras(study: Study, options: Options, folder: Path) -> dict[str, Any]:
    """The paper's figure of examples."""
    n = 2 if options.quick else 4
    pictures = [image[0].numpy() for image in study.inputs[:n]]
    return save_image_figures(study, folder / "figures", pictures, 120 if options.quick else 1000)


def _read(options: Options, part: str) -> tuple[Tensor, Tensor]:
    images, labels = (
        np.frombuffer(gzip.decompress(data_file(options, f"mnist/{part}-{name}.gz", DOWNLOAD).read_bytes()), np.uint8)
        for name in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    pixels = torch.from_numpy(images[16:].reshape(-1, 1, 28, 28).astype(np.float32) / 255)
    return pixels, torch.from_numpy(labels[8:].astype(np.int64))


if __name__ == "__main__":
    from examples.paper.experiment import main

    main("mnist")
