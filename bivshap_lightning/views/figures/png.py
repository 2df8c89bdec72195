"""`render_png`: a figure as a small PNG, without pyplot and without changing the figure."""

from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

MAX_WIDTH = 1050
"""Pixels. TensorBoard shows pictures 350 pixels wide until they are enlarged."""

_FLAT_COLOURS = 128


def render_png(figure: Figure) -> tuple[bytes, int, int]:
    r"""A figure as PNG of at most `MAX_WIDTH` pixels and 256 colours, with its width and height.

    The figure stays as it is, its canvas included.

    Example:
        >>> png, width, height = render_png(Figure(figsize=(2, 1), dpi=100))
        >>> png[:4], width, height
        (b'\x89PNG', 200, 100)
    """
    canvas = figure.canvas
    try:
        agg: Any = FigureCanvasAgg(figure)  # not typed by matplotlib
        agg.draw()
        image = Image.fromarray(np.asarray(agg.buffer_rgba()))
    finally:
        figure.set_canvas(canvas)
    if image.width > MAX_WIDTH:
        height = max(1, round(image.height * MAX_WIDTH / image.width))
        image = image.resize((MAX_WIDTH, height), Image.Resampling.LANCZOS)
    buffer = BytesIO()
    _with_256_colours(image).save(buffer, "PNG", compress_level=4)
    return buffer.getvalue(), image.width, image.height


def _with_256_colours(image: Image.Image) -> Image.Image:
    """The most frequent colours exactly as they are, because groups are told apart by them; all others merged."""
    pixels = np.ascontiguousarray(image).view(np.uint32).ravel()
    # Neighbours are mostly equal: sorting the starts of runs is many times faster than sorting pixels.
    starts = np.concatenate(([0], np.flatnonzero(pixels[1:] != pixels[:-1]) + 1))
    lengths = np.diff(starts, append=len(pixels))
    colours, inverse = np.unique(pixels[starts], return_inverse=True)
    counts = np.bincount(inverse, weights=lengths)
    exact = np.argsort(-counts, kind="stable")[:_FLAT_COLOURS]
    merged = np.setdiff1d(np.arange(len(colours)), exact)
    index_of = np.zeros(len(colours), dtype=np.uint8)
    index_of[exact] = np.arange(len(exact))
    palette = [_channels(colours[exact])]
    if len(merged):
        strip = Image.fromarray(_channels(colours[merged])[None])
        blends = strip.quantize(256 - _FLAT_COLOURS, method=Image.Quantize.FASTOCTREE)
        index_of[merged] = np.asarray(blends)[0] + len(exact)
        palette.append(np.array(blends.getpalette() or [], dtype=np.uint8).reshape(-1, 3))
    small = Image.fromarray(np.repeat(index_of[inverse], lengths).reshape(image.height, image.width))
    small.putpalette(np.concatenate(palette).ravel().tolist())
    return small


def _channels(colours: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """(n, 3) red, green and blue of packed colours."""
    channels: NDArray[np.uint8] = np.ascontiguousarray(colours).view(np.uint8).reshape(-1, 4)[:, :3].copy()
    return channels
