"""Text of the figures: how wide a line is, and an artist that draws it from cached glyph outlines.

matplotlib's own text costs two to three milliseconds per label, most of the time of a figure. Outlines of glyphs are
the same in every figure, so they are loaded once per process and put together here. Scripts whose glyphs depend on
their neighbours (Arabic, Devanagari) are laid out by matplotlib, one cached outline per line.
"""

from functools import cache, lru_cache
from typing import Any

import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_rgb
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.textpath import TextToPath
from matplotlib.transforms import Affine2D

from bivshap_lightning.views.figures.names import FAMILY, families_for, family_of

_EM = 100.0
"""Points at which outlines are loaded; they are scaled to the size they are drawn at."""

_HALF_CAPITAL = 0.365
"""Of the font size: half the height of a capital letter, which centres a line vertically."""


class OutlineText(Text):
    """One line of text, centred vertically on its position, without mathematics or line breaks."""

    def draw(self, renderer: RendererBase) -> None:
        """Draw the outline of the line; called by matplotlib."""
        text = self.get_text()
        if not self.get_visible() or not text:
            return
        bold = self.get_fontweight() == "bold"
        pixels = float(np.asarray(renderer.points_to_pixels(float(self.get_fontsize()))))
        place: Any = self.get_transform().transform(self.get_unitless_position())
        x, y = place.tolist()
        indent = {"left": 0.0, "center": 0.5, "right": 1.0}[str(self.get_horizontalalignment())]
        x -= indent * pixels * width_in_ems(text, bold)
        transform: Any = Affine2D().scale(pixels).translate(x, y - _HALF_CAPITAL * pixels)
        context = renderer.new_gc()
        context.set_linewidth(0)
        renderer.open_group("text", self.get_gid())
        renderer.draw_path(context, _outline(text, bold), transform, to_rgb(self.get_color()))
        renderer.close_group("text")
        context.restore()
        self.stale = False


def font(text: str, size: float, bold: bool) -> FontProperties:
    """The font of a line, fully specified so that a user's matplotlib style has no effect."""
    return FontProperties(
        family=families_for(text),
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
