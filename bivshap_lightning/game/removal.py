"""Removal: what replaces the input elements of an absent player.

There are two ways. A record names what was used, because their numbers cannot be compared:

* a **fixed replacement** (Captum's ``baselines``): zero, a number, one row for all samples, or a row per sample;
* **background rows** (marginal removal): the value of a coalition is the mean over R given rows.

A third one, **conditional removal**, chooses the rows by what is present: :mod:`bivshap_lightning.game.conditional`.

A replacement may be a function of its input, such as :class:`Blur`, and :func:`typical_row` makes one from data. Tokens
can also be removed by embedding them as zero, see :mod:`bivshap_lightning.game.embedding`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import conv1d

from bivshap_lightning.game.inputs import Table, as_tensor, is_frame
from bivshap_lightning.game.players.images import channel_dim

Summary = Literal["mean", "median", "mode"]


@dataclass(frozen=True)
class Removal:
    """What replaces absent players.

    Attributes:
        rows: per input, the replacements in the input's own dtype, of shape (1 or B, R, ...).
        n_rows: R, over how many replacements the value of a coalition is averaged.
        description: one phrase for records and messages.
        sampler: for conditional removal, from inputs (N, ...) and bool masks of their present elements, both one per
            input, to the replacements (N, R, ...) per input; None where they do not depend on what is present.
    """

    rows: tuple[Tensor, ...]
    n_rows: int
    description: str
    sampler: Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], tuple[Tensor, ...]] | None = None

    @classmethod
    def from_baselines(cls, inputs: Sequence[Tensor], baselines: Any = None) -> Removal:
        """Fixed replacements, given as Captum has them.

        Args:
            inputs: tensors of shape (B, ...).
            baselines: None (zero), a number, a tensor (one row for all, or one per sample), a function of the input
                that returns one of these, or a tuple of those with one entry per input.

        Raises:
            ValueError: a baseline does not fit its input.

        Example:
            >>> Removal.from_baselines([torch.ones(2, 3)], 0.5).rows[0].shape
            torch.Size([1, 1, 3])
        """
        given = baselines if isinstance(baselines, (tuple, list)) else [baselines]
        if baselines is None:
            given = [None] * len(inputs)
        if len(given) != len(inputs):
            raise ValueError(
                f"`baselines` must have one entry per input, got {len(given)} for {len(inputs)} inputs. "
                "Pass a tuple with a number or tensor for each input."
            )
        rows = tuple(_replacement(b, x, k)[:, None] for k, (b, x) in enumerate(zip(given, inputs, strict=True)))
        return cls(rows, 1, "; ".join(_describe(b, x) for b, x in zip(given, inputs, strict=True)))

    @classmethod
    def from_background(cls, inputs: Sequence[Tensor], background: Sequence[Tensor]) -> Removal:
        """Marginal removal: average over the rows of a background set.

        Args:
            inputs: tensors of shape (B, ...).
            background: per input, (R, ...) rows; row r of every input belongs together.

        Raises:
            ValueError: the rows do not fit the inputs, or there are none.

        Example:
            >>> Removal.from_background([torch.ones(2, 3)], [torch.zeros(7, 3)]).n_rows
            7
        """
        if len(background) != len(inputs):
            raise ValueError(
                f"`background` must have one tensor of rows per input, got {len(background)} for {len(inputs)} "
                "inputs. Pass a tuple."
            )
        n_rows = background[0].shape[0] if background[0].dim() else 0
        for k, (given, x) in enumerate(zip(background, inputs, strict=True)):
            if given.shape != (n_rows, *x.shape[1:]) or n_rows == 0:
                raise ValueError(
                    f"`background` must hold at least one row shaped like a sample, got {tuple(given.shape)} for "
                    f"input {k} of shape {tuple(x.shape)}. Pass (R, {', '.join(map(str, x.shape[1:]))})."
                )
        rows = tuple(
            _like(given, x, "background", k)[None] for k, (given, x) in enumerate(zip(background, inputs, strict=True))
        )
        return cls(rows, n_rows, f"mean over {n_rows} background rows")


@dataclass(frozen=True)
class Blur:
    """The image itself, blurred, as ``baselines``.

    Args:
        sigma: width of the Gaussian in pixels.

    Example:
        >>> image = torch.zeros(1, 1, 5, 5)
        >>> image[0, 0, 2, 2] = 1
        >>> blurred = Blur(1.0)(image)
        >>> blurred.shape, bool(blurred[0, 0, 2, 2] < 0.2), round(float(blurred.sum()), 4)
        (torch.Size([1, 1, 5, 5]), True, 1.0)
    """

    sigma: float

    def __post_init__(self) -> None:
        if self.sigma <= 0:
            raise ValueError(f"`sigma` must be positive, got {self.sigma}.")

    @property
    def description(self) -> str:
        """One phrase for records."""
        return f"image blurred by {self.sigma:g} pixels"

    def __call__(self, images: Tensor) -> Tensor:
        """Blurred copies of images (B, C, H, W) or (B, H, W, C)."""
        channels = channel_dim(images)
        pixels = images.movedim(channels, 1)
        pixels = pixels if pixels.is_floating_point() else pixels.float()
        for dim in (2, 3):
            pixels = self._along(pixels, dim)
        return _as_pixels(pixels.movedim(1, channels), images)

    def _along(self, pixels: Tensor, dim: int) -> Tensor:
        """Blur along one dimension; beyond the edges the image is mirrored, repeatedly if needed."""
        radius = max(1, round(3 * self.sigma))
        offsets = torch.arange(-radius, radius + 1, device=pixels.device, dtype=pixels.dtype)
        kernel = (-0.5 * (offsets / self.sigma) ** 2).exp()
        lines = pixels.movedim(dim, 3)
        size = lines.shape[3]
        places = torch.arange(-radius, size + radius, device=pixels.device).remainder(2 * size)
        lines = lines[..., torch.where(places < size, places, 2 * size - 1 - places)]
        blurred = conv1d(lines.reshape(-1, 1, lines.shape[3]), (kernel / kernel.sum())[None, None])
        return blurred.view(*lines.shape[:3], size).movedim(3, dim)


@dataclass(frozen=True)
class ChannelMean:
    """The mean colour of the image itself, as ``baselines``.

    Example:
        >>> ChannelMean()(torch.tensor([[[[0.0, 1.0]], [[2.0, 4.0]]]])).flatten().tolist()
        [0.5, 0.5, 3.0, 3.0]
    """

    description = "mean colour of the image"

    def __call__(self, images: Tensor) -> Tensor:
        """Images of one colour each, shaped like the given ones."""
        dims = [dim for dim in (1, 2, 3) if dim != channel_dim(images)]
        pixels = images if images.is_floating_point() else images.float()
        return _as_pixels(pixels.mean(dim=dims, keepdim=True).expand_as(images), images)


def check_finite(values: Tensor, removal: Removal) -> None:
    """Refuse values of coalitions that are NaN or infinite.

    Example:
        >>> check_finite(torch.zeros(2), Removal.from_baselines([torch.ones(2, 3)]))
    """
    # A sum shows every NaN and infinity, and takes a fraction of the time; it can also overflow by itself.
    if not isfinite(values.sum().item()) and not bool(torch.isfinite(values).all()):
        raise ValueError(
            f"`model` must give finite values, got {int((~torch.isfinite(values)).sum())} NaN or infinite of "
            f"{values.numel()}. Check the model on inputs where players are removed ({removal.description}); "
            "logarithms of a probability of 0 or 1 are infinite, behavior='probability' is not."
        )


def typical_row(data: Any, how: Summary | Mapping[Any, Any] = "mean") -> Any:
    """A row that summarises a data set, to be used as ``baselines``.

    Args:
        data: rows (N, ...) as a tensor, an array or a data frame.
        how: "mean", "median" or "mode" (the most frequent value; the smallest of several). For a data frame also a
            mapping from columns to one of these or to the value itself; columns that are not in it have their mean.
            Columns that are no numbers always have their mode.

    Returns:
        A tensor shaped like one row, or a data frame with one row.

    Example:
        >>> typical_row(torch.tensor([[0.0, 1.0], [4.0, 1.0], [5.0, 7.0]]), "median")
        tensor([4., 1.])
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [30, 40], "job": ["clerk", "clerk"], "questions": [1, 5]})
        >>> typical_row(frame, {"questions": 3})
            age    job  questions
        0  35.0  clerk        3.0
    """
    if isinstance(how, str) and how not in get_args(Summary):
        raise ValueError(f"`how` must be one of {get_args(Summary)}, or a mapping of columns, got {how!r}.")
    if is_frame(data):
        return _typical_frame(data, how)
    rows = as_tensor(data)
    if not isinstance(how, str):
        raise TypeError(f"`how` must be one of {get_args(Summary)} for data that is no frame, got {how!r}.")
    if rows.dim() < 1 or len(rows) == 0:
        raise ValueError(f"`data` must hold at least one row, got shape {tuple(rows.shape)}.")
    if how == "mode":
        return rows.mode(dim=0).values
    if how == "median":
        median = rows.double().quantile(0.5, dim=0)
        return median.to(rows.dtype) if rows.is_floating_point() else median
    return rows.mean(dim=0) if rows.is_floating_point() else rows.double().mean(dim=0)


def _typical_frame(frame: Any, how: Summary | Mapping[Any, Any]) -> Any:
    """One row of a frame, column by column."""
    wanted = dict.fromkeys(frame.columns, how) if isinstance(how, str) else dict(how)
    unknown = [name for name in wanted if name not in frame.columns]
    if unknown:
        raise ValueError(f"`how` must name columns of the data, got {unknown}; it has {list(frame.columns)}.")
    table = Table.of(frame)
    row = {}
    for name in frame.columns:
        choice = wanted.get(name, "mean")
        if choice not in get_args(Summary):
            row[name] = choice
        elif choice == "mode" or name in table.coded:
            row[name] = _commonest(frame[name])
        else:
            row[name] = getattr(frame[name], choice)()
    return table.decode(table.encode(row, "how").numpy())


def _commonest(column: Any) -> Any:
    values = column.mode()
    if len(values) == 0:
        raise ValueError(
            f"`data` must hold a value in every column, got only missing ones in {column.name!r}. Leave the column "
            "out, or name a value in `how`."
        )
    return values.iloc[0]


def _replacement(baseline: Any, x: Tensor, position: int) -> Tensor:
    """One baseline as a tensor of shape (1 or B, ...)."""
    made = baseline(x) if callable(baseline) else 0 if baseline is None else baseline
    value = _like(as_tensor(made), x, "baselines", position)
    if value.dim() == x.dim() - 1:
        value = value[None]
    n_rows = value.shape[0] if value.dim() == x.dim() and value.shape[0] == x.shape[0] else 1
    try:
        return value.expand(n_rows, *x.shape[1:])
    except RuntimeError:
        raise ValueError(
            f"`baselines` must be a number, one row of shape {tuple(x.shape[1:])}, or one row per sample, got "
            f"{tuple(value.shape)} for input {position} of shape {tuple(x.shape)}. For an average over "
            "several rows use `background`."
        ) from None


def _like(value: Tensor, x: Tensor, argument: str, position: int) -> Tensor:
    """Replacements on the input's device and in its dtype; refused if that would change a value."""
    if value.is_floating_point() and not bool(torch.isfinite(value).all()):
        raise ValueError(
            f"`{argument}` must be finite, got NaN or infinity for input {position}. Fill missing values first."
        )
    converted = value.to(x.device, x.dtype)
    if not x.is_floating_point() and not bool((converted == value.to(x.device)).all()):
        raise ValueError(
            f"`{argument}` must be whole numbers for integer inputs, got fractions for input {position} of dtype "
            f"{x.dtype}. Pass a token id or a code, such as the padding token."
        )
    return converted


def _describe(baseline: Any, x: Tensor) -> str:
    if baseline is None:
        return "baseline 0"
    if callable(baseline):
        return str(getattr(baseline, "description", None) or getattr(baseline, "__name__", type(baseline).__name__))
    value = as_tensor(baseline)
    if value.numel() == 1:
        return f"baseline {value.item():g}"
    per_sample = value.dim() == x.dim() and value.shape[0] == x.shape[0] and value.shape[0] > 1
    return "one baseline row per sample" if per_sample else "one baseline row for all samples"


def _as_pixels(pixels: Tensor, images: Tensor) -> Tensor:
    """Computed pixels in the images' own type."""
    return pixels.to(images.dtype) if images.is_floating_point() else pixels.round().to(images.dtype)
