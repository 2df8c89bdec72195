"""CIFAR-10: a ResNet-18 with torchvision's default layers; 255 superpixels, replaced by zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bivshap_lightning import Superpixels
from examples.paper.figures import save_image_figures
from examples.paper.network import BlackBox, accuracy, train
from examples.paper.study import Options, Study, data_file

DOWNLOAD = (
    "https://www.cs.toronto.edu/~kriz/cifar.html, written as arrays x_train, y_train, x_test, y_test (N, 32, 32, 3 "
    "bytes; N classes) by numpy.savez"
)
MEAN, DEVIATION = (0.507, 0.487, 0.441), (0.267, 0.256, 0.276)


class Block(nn.Module):
    """Two 3 x 3 convolutions beside the identity."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False), nn.BatchNorm2d(n_out),
        )  # fmt: skip
        changes = stride > 1 or n_in != n_out
        self.beside = (
            nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))
            if changes
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.beside(x))


class ResNet18(BlackBox):
    """The layers of torchvision's resnet18, made for large images, with ten classes."""

    def __init__(self) -> None:
        super().__init__()
        stages: list[nn.Module] = []
        n_in = 64
        for n_out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            stages += [Block(n_in, n_out, stride), Block(n_out, n_out, 1)]
            n_in = n_out
        self.layers = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
            *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def augment(self, x: Tensor) -> Tensor:
        """Horizontal flips, and a jitter of brightness and contrast by up to a tenth."""
        flipped = torch.where(torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5, x.flip(3), x)
        contrast, brightness = (1 + 0.2 * (torch.rand(2, len(x), 1, 1, 1, device=x.device) - 0.5)).unbind()
        return flipped * contrast + (brightness - 1)

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 60, 0.1)}


def load(options: Options) -> Study:
    """Train the network on the images at hand."""
    arrays = np.load(data_file(options, "cifar10/cifar10_subset.npz", DOWNLOAD))
    x, y, x_test, y_test = (arrays[key] for key in ("x_train", "y_train", "x_test", "y_test"))
    x, y, epochs = x[: options.train], y[: options.train], options.epochs or (80 if options.full else 12)
    if options.quick:
        x, y, x_test, y_test, epochs = x[:256], y[:256], x_test[:64], y_test[:64], 1
    inputs, test = _normalised(x), _normalised(x_test)
    labels, test_labels = (torch.from_numpy(part.astype(np.int64)) for part in (y, y_test))
    model = train(ResNet18(), inputs, labels, folder=options.folder("cifar10"), epochs=epochs, batch_size=128)
    notes = (
        f"{len(x):,} training and {len(x_test):,} test images instead of 50,000 and 10,000, decoded from a JPEG copy "
        "(PSNR about 30 dB), so no accuracy here can be compared with a published one.",
        f"Epochs: {epochs} (the paper: 80); flips and a jitter of brightness and contrast, none of hue and saturation.",
    )
    return Study(
        name="cifar10", model=model, inputs=test[:500], labels=test_labels[:500],
        accuracy=accuracy(model, test, test_labels), n_train=len(x), n_test=len(x_test),
        training=inputs, baselines=0,
        feature_mask=Superpixels(25 if options.quick else 255, compactness=0.1, sigma=5.0), batch_size=1, notes=notes,
    )  # fmt: skip


def _normalised(images: np.ndarray) -> Tensor:
    scaled = torch.from_numpy(images.astype(np.float32) / 255)
    return ((scaled - torch.tensor(MEAN)) / torch.tensor(DEVIATION)).permute(0, 3, 1, 2).contiguous()


def as_picture(image: Tensor) -> np.ndarray:
    """A normalised image (3, H, W) as (H, W, 3) between 0 and 1."""
    return (image.permute(1, 2, 0) * torch.tensor(DEVIATION) + torch.tensor(MEAN)).clamp(0, 1).numpy()


def extras(study: Study, options: Options, folder: Path) -> dict[str, Any]:
    """The paper's figure of examples."""
    pictures = [as_picture(image) for image in study.inputs[: 2 if options.quick else 4]]
    return save_image_figures(study, folder / "figures", pictures, 120 if options.quick else None)


if __name__ == "__main__":
    from examples.paper.experiment import main

    main("cifar10")
