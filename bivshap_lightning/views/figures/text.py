"""Text of the figures: how wide a line is, and an artist that draws it from cached glyph outlines.

matplotlib's own text costs two to three milliseconds per label, most of the time of a figure. Outlines of glyphs are
the same in every figure, so they are loaded once per process and put together here. Scripts whose glyphs depend on
their neighbours (Arabic, Devanagari) are laid out by matplotlib, one cached outline per line.
"""

from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_rgb
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextToPath
from matplotlib.transforms import Affine2D, Bbox

from bivshap_lightning.views.figures.names import FAMILY, families_for, family_of

_EM = 100.0
"""Points at which outlines are loaded; they are scaled to the size they are drawn at."""

Align = Literal["left", "center", "right"]
_INDENT: dict[Align, float] = {"left": 0.0, "center": 0.5, "right": 1.0}
"""Share of the width that lies left of the position."""

_HALF_CAPITAL = 0.365
"""Of the font size: half the height of a capital letter, which centres a line vertically."""


class TextLine(Artist):
    """One line of text, centred vertically on its position, without mathematics or line breaks."""

    def __init__(
        self, x: float, y: float, text: str, *, size: float, bold: bool, colour: Any, align: Align, halo: Any = None
    ) -> None:
        super().__init__()
        self._x, self._y, self._text = x, y, text
        self._size, self._bold, self._colour, self._align = size, bold, to_rgb(colour), align
        self._halo = None if halo is None else to_rgb(halo)

    def get_text(self) -> str:
        """The text."""
        return self._text

    def get_window_extent(self, renderer: RendererBase | None = None) -> Bbox:
        """The box around the line, in pixels of the figure."""
        figure: Any = self.get_figure()
        pixels = self._size * figure.dpi / 72
        x, baseline = self._start(pixels)
        bottom, height = baseline - 0.25 * pixels, 1.15 * pixels
        return Bbox.from_bounds(x, bottom, pixels * width_in_ems(self._text, self._bold), height)

    def draw(self, renderer: RendererBase) -> None:
        """Draw the outline of the line; called by matplotlib."""
        if not self.get_visible():
            return
        pixels = float(np.asarray(renderer.points_to_pixels(self._size)))
        transform: Any = Affine2D().scale(pixels).translate(*self._start(pixels))
        outline = _outline(self._text, self._bold)
        context = renderer.new_gc()
        renderer.open_group("text", self.get_gid())
        if self._halo is not None:
            context.set_foreground(self._halo)
            context.set_linewidth(0.22 * pixels)
            context.set_joinstyle("round")
            renderer.draw_path(context, outline, transform, None)
        context.set_linewidth(0)
        renderer.draw_path(context, outline, transform, self._colour)
        renderer.close_group("text")
        context.restore()
        self.stale = False

    def _start(self, pixels: float) -> tuple[float, float]:
        """Left end of the baseline, in pixels of the figure."""
        place: Any = self.get_transform().transform((self._x, self._y))
        x, y = place.tolist()
        return x - _INDENT[self._align] * pixels * width_in_ems(self._text, self._bold), y - _HALF_CAPITAL * pixels


def font(text: str, size: float, bold: bool) -> FontProperties:
    """The font of a line, fully specified so that a user's matplotlib style has no effect."""
    return _font(tuple(families_for(text)), size, bold)


@lru_cache(maxsize=256)
def _font(families: tuple[str, ...], size: float, bold: bool) -> FontProperties:
    return FontProperties(
        family=list(families),
        size=size,
        weight="bold" if bold else "normal",
        style="normal",
        variant="normal",
        stretch="normal",
    )


@lru_cache(maxsize=4096)
def width_in_ems(text: str, bold: bool) -> float:
    """Width of a drawable line as a multiple of the font size in pixels.

    Example:
        >>> round(width_in_ems("m", False), 2)
        0.97
    """
    if not text:
        return 0.0
    if all(map(_stands_alone, text)):
        return sum(_glyph(char, bold)[1] for char in text)
    return _width(text, bold)


@lru_cache(maxsize=1024)
def _outline(text: str, bold: bool) -> Path:
    """The line with its baseline at y = 0, y upwards, in multiples of the font size."""
    if not all(map(_stands_alone, text)):
        return _load(text, bold)
    vertices, codes, x = [], [], 0.0
    for char in text:
        path, advance = _glyph(char, bold)
        vertices.append(np.asarray(path.vertices) + np.array([x, 0.0]))
        codes.append(np.asarray(path.codes))
        x += advance
    return Path(np.concatenate(vertices), np.concatenate(codes))


@cache
def _stands_alone(char: str) -> bool:
    """Whether the glyph of a character is the same next to any other one."""
    is_simple = ord(char) < 0x300 or 0x370 <= ord(char) < 0x530 or 0x2010 <= ord(char) < 0x2C00
    return is_simple and family_of(char) == FAMILY


@cache
def _glyph(char: str, bold: bool) -> tuple[Path, float]:
    """Outline and advance width of a glyph, in multiples of the font size."""
    return _load(char, bold), _width(char, bold)


def _load(text: str, bold: bool) -> Path:
    vertices, codes = TextToPath().get_text_path(font(text, _EM, bold), text)
    if not len(vertices):
        return Path(np.zeros((0, 2)), np.zeros(0, dtype=Path.code_type))
    return Path(np.asarray(vertices) / _EM, np.asarray(codes, dtype=Path.code_type))


def _width(text: str, bold: bool) -> float:
    width, _, _ = TextToPath().get_text_width_height_descent(text, font(text, _EM, bold), ismath=False)
    return float(width) / _EM
