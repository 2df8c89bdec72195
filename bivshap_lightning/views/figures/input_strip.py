"""The input above a figure: an image with its parts named and coloured by importance, or a text with shaded words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bivshap_lightning.views.figures.canvas import (
    MARGIN,
    SOFT_INK,
    WIDTH,
    Area,
    Canvas,
    ink_on,
    line_height,
    ramp,
)
from bivshap_lightning.views.figures.names import shorten
from bivshap_lightning.views.figures.parts import checked_image, checked_segments, draw_borders, name_parts

Values = NDArray[np.float64]

MAX_LINES = 6
"""Lines of a text that are shown."""

_WORD_SIZE = 13
_TALLEST = 250
_GAP = 20


@dataclass(frozen=True)
class ImageStrip:
    """An image twice: with the names of the listed parts, and coloured by importance.

    Attributes:
        image: As in `draw_image_graphs`, or None.
        segments: (H, W) player of each pixel, -1 for none.
        importance: (F,) signed.
        names: F names.
        listed: Players whose names are written.
    """

    image: ArrayLike | None
    segments: ArrayLike
    importance: Values
    names: Sequence[str]
    listed: Sequence[int]

    @property
    def height(self) -> float:
        """Pixels it takes."""
        rows, columns = np.shape(self.segments)
        return min(float(_TALLEST), float(self._width * rows / columns)) + 32

    @property
    def _width(self) -> float:
        return (WIDTH - 2 * MARGIN - _GAP) / 2

    def draw(self, canvas: Canvas, top: float) -> None:
        """Draw both pictures side by side."""
        parts = checked_segments(self.segments, len(self.importance))
        pixels = checked_image(self.image, parts.shape)
        height = self.height - 32
        width = height * parts.shape[1] / parts.shape[0]
        left, right = (Area(MARGIN + k * (self._width + _GAP), top + 22, width, height) for k in (0, 1))
        canvas.write(left.left, top + 9, "input, with the parts listed below", size=12, colour=SOFT_INK)
        canvas.picture(pixels, left, gid="picture:input")
        draw_borders(canvas, left, parts, colour=SOFT_INK, width=0.6)
        name_parts(canvas, left, parts, self.listed, self.names)
        has_both = (self.importance < 0).any()
        what = "Shapley value: orange for, blue against" if has_both else "Shapley value: the darker, the larger"
        canvas.write(right.left, top + 9, what, size=12, colour=SOFT_INK)
        shown = np.where((parts >= 0)[..., None], diverging(self.importance)[parts], 1.0)
        canvas.picture(shown, right, gid="picture:shapley")
        draw_borders(canvas, right, parts, colour=SOFT_INK, width=0.6)


@dataclass(frozen=True)
class WordStrip:
    """A text whose words are shaded by importance.

    Attributes:
        words: One per player, in reading order.
        importance: (F,) signed.
    """

    words: Sequence[str]
    importance: Values

    @property
    def height(self) -> float:
        """Pixels it takes."""
        return 10 + line_height(_WORD_SIZE) * len(_broken_into_lines(self.words))

    def draw(self, canvas: Canvas, top: float) -> None:
        """Draw the words line by line; a long text ends with the number of words left out."""
        colours = diverging(self.importance)
        height = line_height(_WORD_SIZE)
        lines = _broken_into_lines(self.words)
        x, y = float(MARGIN), top
        for number, line in enumerate(lines):
            x, y = float(MARGIN), top + number * height
            for position in line:
                word = shorten(self.words[position], 30)
                red, green, blue = colours[position].tolist()
                width = canvas.width_of(word, size=_WORD_SIZE)
                canvas.rectangle(Area(x, y, width + 8, height - 3), fill=(red, green, blue))
                colour = ink_on((red, green, blue))
                canvas.write(x + 4, y + height / 2 - 1, word, size=_WORD_SIZE, colour=colour, gid=f"word:{position}")
                x += width + 12
        n_left = len(self.words) - sum(map(len, lines))
        if n_left:
            canvas.write(x, y + height / 2 - 1, f"+{n_left} words", size=11, colour=SOFT_INK)


def diverging(importance: Values) -> Values:
    """(F, 3) colours: white at zero, orange for positive and blue for negative values.

    Example:
        >>> diverging(np.array([0.0, 1.0]))[0]
        array([1., 1., 1.])
    """
    largest = float(np.abs(importance).max()) or 1.0
    strength = np.round(np.abs(importance) / largest * 63).astype(np.intp)
    towards, against = ramp("Oranges", 0.0, 0.75)[:, :3], ramp("Blues", 0.0, 0.75)[:, :3]
    colours: Values = np.where((importance >= 0)[:, None], towards[strength], against[strength])
    colours[strength == 0] = 1.0
    return colours


def _broken_into_lines(words: Sequence[str]) -> list[list[int]]:
    """Positions of the words line by line, as far as the lines reach."""
    canvas = Canvas(WIDTH, 100)
    lines: list[list[int]] = [[]]
    used = 0.0
    for position, word in enumerate(words):
        width = canvas.width_of(shorten(word, 30), size=_WORD_SIZE) + 12
        if lines[-1] and used + width > WIDTH - 2 * MARGIN - 80:
            if len(lines) == MAX_LINES:
                break
            lines.append([])
            used = 0.0
        lines[-1].append(position)
        used += width
    return lines
