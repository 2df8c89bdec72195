"""Players of images: square patches and superpixels, in every channel at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# As many channels as pictures have: grey, grey with opacity, colour, colour with opacity.
CHANNELS = (1, 2, 3, 4)
# White in the Lab space in which colours are compared; in grey images it is 1.
LIGHTNESS = 100


def channel_dim(images: Tensor) -> int:
    """The dimension of the channels of a batch of images: 1, or 3 (the last).

    It is 1 unless only the last dimension has a number of entries that is usual for channels.

    Example:
        >>> channel_dim(torch.zeros(8, 3, 28, 28)), channel_dim(torch.zeros(8, 28, 28, 3))
        (1, 3)
    """
    if images.dim() != 4:
        raise ValueError(
            f"`inputs` must be images (B, C, H, W) or (B, H, W, C), got {tuple(images.shape)}. For other inputs pass "
            "integer ids as `feature_mask`, and numbers or rows as `baselines`."
        )
    return 3 if images.shape[3] in CHANNELS and images.shape[1] not in CHANNELS else 1


def visible(images: Tensor) -> Tensor | None:
    """What a picture shows of images, (B, 1 or 3, H, W): grey or colour without opacity; None if they are no pictures.

    Example:
        >>> visible(torch.zeros(8, 28, 28, 4)).shape, visible(torch.zeros(8, 12, 28, 28))
        (torch.Size([8, 3, 28, 28]), None)
    """
    pixels = images.movedim(channel_dim(images), 1)
    return pixels[:, : 1 if pixels.shape[1] < 3 else 3] if pixels.shape[1] in CHANNELS else None


@dataclass(frozen=True)
class Grid:
    """Square patches of images as players: n rows by n columns of them, through all channels.

    Args:
        n: patches along each side; at most one per pixel.

    Example:
        >>> Grid(2)(torch.zeros(1, 3, 4, 4))[0, 0]
        tensor([[0, 0, 1, 1],
                [0, 0, 1, 1],
                [2, 2, 3, 3],
                [2, 2, 3, 3]])
        >>> Grid(2).names(torch.zeros(1, 3, 4, 4))
        [('r0c0', 'r0c1', 'r1c0', 'r1c1')]
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"`n` must be at least 1, got {self.n}.")

    def __call__(self, images: Tensor) -> Tensor:
        """The feature mask, (1, 1, H, W) for images (B, C, H, W) and (1, H, W, 1) for images (B, H, W, C)."""
        channels = channel_dim(images)
        sizes = images.shape[2:] if channels == 1 else images.shape[1:3]
        rows, columns = (torch.arange(size, device=images.device) * min(self.n, size) // size for size in sizes)
        return (rows[:, None] * min(self.n, sizes[1]) + columns)[None].unsqueeze(channels)

    def names(self, images: Tensor) -> list[tuple[str, ...]]:
        """Row and column of every patch."""
        height, width = images.shape[2:] if channel_dim(images) == 1 else images.shape[1:3]
        return [tuple(f"r{r}c{c}" for r in range(min(self.n, height)) for c in range(min(self.n, width)))]


@dataclass(frozen=True)
class Superpixels:
    """Superpixels of images as players, by SLIC: neighbouring pixels of like colour appear and disappear together.

    Each image has its own superpixels, and often fewer of them than ``n_segments``. Needs scikit-image, which
    ``pip install "bivshap-lightning[image]"`` brings.

    Args:
        n_segments: how many to aim at.
        compactness: how much nearness counts against likeness of colour; larger makes squarer superpixels.
        sigma: width in pixels of the blur before segmentation.

    Example:
        >>> images = torch.zeros(1, 1, 8, 8)
        >>> images[..., 3:] = 1
        >>> Superpixels(4)(images)[0, 0, 0]
        tensor([0, 0, 0, 1, 1, 1, 1, 1])
    """

    n_segments: int = 64
    compactness: float = 0.1
    sigma: float = 0.0

    def __post_init__(self) -> None:
        if self.n_segments < 1:
            raise ValueError(f"`n_segments` must be at least 1, got {self.n_segments}.")

    def __call__(self, images: Tensor) -> Tensor:
        """The feature mask, (B, 1, H, W) for images (B, C, H, W) and (B, H, W, 1) for images (B, H, W, C)."""
        channels = channel_dim(images)
        pixels = images.movedim(channels, 3).detach().cpu().double().numpy()
        masks = np.stack([self._segment(image) for image in pixels])
        return torch.from_numpy(masks).to(images.device).unsqueeze(channels)

    def _segment(self, image: NDArray[np.float64]) -> NDArray[np.int64]:
        """(H, W) int64 segments of one image (H, W, C), numbered without holes."""
        try:
            from skimage.segmentation import slic
        except ImportError as error:
            raise ImportError(
                '`Superpixels` needs scikit-image. Install it: pip install "bivshap-lightning[image]".'
            ) from error
        low, high = image.min(), image.max()
        scaled = (image - low) / (high - low) if high > low else np.zeros_like(image)
        is_colour = image.shape[2] == 3
        segments = slic(
            scaled,
            n_segments=self.n_segments,
            compactness=self.compactness * (LIGHTNESS if is_colour else 1),
            sigma=self.sigma,
            start_label=0,
            channel_axis=-1,
            convert2lab=is_colour,
        )
        numbers: NDArray[np.int64] = np.unique(segments, return_inverse=True)[1].reshape(segments.shape)
        return numbers.astype(np.int64)
