"""`Canvas`: a matplotlib figure drawn on in pixels, and the marks that all figures are made of.

Marks are added to the figure itself: axes, which most figures have no use for, take longer to set up than everything
else. Every property of a mark is set explicitly, so that a user's matplotlib style changes nothing, and nothing
global is read or written.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import BboxImage
from matplotlib.patches import Circle, FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.transforms import Affine2D, Bbox, TransformedBbox
from numpy.typing import ArrayLike, NDArray

from bivshap_lightning.views.figures.geometry import arrow_outline, circles, segments
from bivshap_lightning.views.figures.names import MISSING, drawable, shorten
from bivshap_lightning.views.figures.text import Align, TextLine, width_in_ems

Colour = str | tuple[float, float, float]
Point = tuple[float, float]
Dash = Literal["solid"] | tuple[float, tuple[float, ...]]
"""A line style of matplotlib."""

WIDTH = 700
"""Pixels. TensorBoard shows pictures at 350 pixels, where a text of 12 points is still 8 pixels high."""

INK = "#263238"
SOFT_INK = "#546E7A"
LINE = "#90A4AE"
PAPER = "#FFFFFF"
DPI = 100
MARGIN = 24
SCALE_WIDTH = 90


@dataclass(frozen=True)
class Area:
    """A rectangle of a canvas, y downwards."""

    left: float
    top: float
    width: float
    height: float

    @property
    def centre(self) -> Point:
        """The middle."""
        return self.left + self.width / 2, self.top + self.height / 2

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.top + self.height


class Canvas:
    """A figure of a given size in pixels, drawn on in these pixels: x to the right, y downwards."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor=PAPER)
        self.figure.set_layout_engine("none")
        self._pixels = Affine2D().scale(1 / width, -1 / height).translate(0, 1) + self.figure.transFigure
        self._lacks_glyphs = False

    def write(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        colour: Colour = INK,
        bold: bool = False,
        align: Align = "left",
        halo: Colour | None = None,
        gid: str | None = None,
    ) -> None:
        """One line of text, centred vertically on y; a halo keeps it readable on a picture."""
        if text:
            text = self._glyphs(text)
            line = TextLine(x, y, text, size=size, bold=bold, colour=colour, align=align, halo=halo)
            self._add(line, order=6, gid=gid)

    def width_of(self, text: str, *, size: float = 12, bold: bool = False) -> float:
        """Width of a line in pixels."""
        return size * DPI / 72 * width_in_ems(drawable(text), bold)

    def fit(self, text: str, width: float, *, size: float = 12, bold: bool = False) -> str:
        """The text, shortened in the middle until it is at most `width` pixels wide."""
        text = self._glyphs(text)
        lengths = range(2, len(text))
        if not lengths or self.width_of(text, size=size, bold=bold) <= width:
            return text
        too_long = bisect_right(lengths, width, key=lambda n: self.width_of(shorten(text, n), size=size, bold=bold))
        return shorten(text, lengths[max(too_long - 1, 0)])

    def wrap(self, words: Sequence[str], width: float, n_lines: int, *, size: float = 12) -> list[str]:
        """The words on at most `n_lines` lines; what does not fit becomes "+3 more".

        A word alone on its line may be followed by that beyond the width, instead of being shortened further.
        """
        space = self.width_of("a b", size=size) - self.width_of("ab", size=size)
        room_for_more = self.width_of(f"+{len(words)} more", size=size) + space
        lines: list[list[str]] = [[]]
        used = 0.0
        for position, word in enumerate(words):
            is_last = position == len(words) - 1
            room = width - (room_for_more if len(lines) == n_lines and not is_last else 0.0)
            needed = self.width_of(word, size=size) + (space if lines[-1] else 0.0)
            if lines[-1] and used + needed > room:
                if len(lines) == n_lines:
                    lines[-1][-1] = lines[-1][-1].rstrip(",")
                    lines[-1].append(f"+{len(words) - position} more")
                    break
                lines.append([])
                used = 0.0
            lines[-1].append(word if lines[-1] else self.fit(word, width, size=size))
            used += min(needed, width)
        return [" ".join(line) for line in lines if line]

    def paragraph(
        self, x: float, y: float, text: str, width: float, *, size: float = 12, colour: Colour = SOFT_INK, gid: str
    ) -> float:
        """A text on as many lines as it needs, from y downwards; returns the y below it."""
        height = line_height(size)
        for line in self.wrap(text.split(), width, len(text), size=size):
            self.write(x, y + height / 2, line, size=size, colour=colour, gid=gid)
            y += height
        return y

    def header(self, title: str, facts: Sequence[str]) -> float:
        """Title and, below it, facts on one line, some left out if they do not fit; returns the y below."""
        width = self.width - 2 * MARGIN
        self.write(MARGIN, 28, self.fit(title, width, size=16, bold=True), size=16, bold=True, gid="title")
        known = [fact for fact in facts if fact]
        while len(known) > 2 and self.width_of("  ·  ".join(known), size=11) > width:
            del known[1]
        facts_line = "  ·  ".join(known)
        size = 12 if self.width_of(facts_line, size=12) <= width else 11
        self.write(MARGIN, 56, self.fit(facts_line, width, size=size), size=size, colour=SOFT_INK, gid="subtitle")
        return 74

    def lines(
        self,
        ends: ArrayLike,
        *,
        colour: Colour = LINE,
        width: float = 0.8,
        dash: Dash = "solid",
        order: float = 1,
        gid: str | None = None,
    ) -> None:
        """Straight lines: (n, 2, 2) pairs of points."""
        patch = PathPatch(segments(ends), facecolor="none", edgecolor=colour, linewidth=width, linestyle=dash)
        patch.set_capstyle("butt")
        self._add(patch, order=order, gid=gid)

    def discs(
        self,
        centres: ArrayLike,
        radius: float,
        *,
        fill: Colour,
        edge: Colour = "none",
        width: float = 0.0,
        order: float = 4,
        gid: str | None = None,
    ) -> None:
        """Circles of one radius: (n, 2) centres."""
        patch = PathPatch(circles(centres, radius), facecolor=fill, edgecolor=edge, linewidth=width)
        self._add(patch, order=order, gid=gid)

    def disc(self, centre: Point, radius: float, *, fill: Colour, gid: str | None = None) -> None:
        """A filled circle with an outline."""
        self._add(Circle(centre, radius, facecolor=fill, edgecolor=INK, linewidth=1.2), order=4, gid=gid)

    def box(
        self,
        area: Area,
        *,
        fill: Colour = PAPER,
        edge: Colour = INK,
        dashed: bool = False,
        thick: bool = False,
        gid: str | None = None,
    ) -> None:
        """A box with round corners."""
        patch = FancyBboxPatch(
            (area.left + 8, area.top + 8),
            area.width - 16,
            area.height - 16,
            boxstyle="round,pad=8,rounding_size=8",
            facecolor=fill,
            edgecolor=edge,
            linewidth=2 if thick else 1.2,
            linestyle=(0, (4, 3)) if dashed else "solid",
        )
        self._add(patch, order=4, gid=gid)

    def rectangle(
        self, area: Area, *, fill: Colour, edge: Colour = "none", hatch: str | None = None, order: float = 5
    ) -> None:
        """A plain rectangle, such as the sample of a legend."""
        patch = Rectangle((area.left, area.top), area.width, area.height, facecolor=fill, linewidth=1)
        patch.set_edgecolor(edge)
        if hatch is not None:
            patch.set_hatch(hatch)
        self._add(patch, order=order)

    def path(
        self,
        path: Path,
        *,
        fill: Colour = "none",
        edge: Colour = "none",
        width: float = 0.0,
        dash: Dash = "solid",
        hatch: str | None = None,
        order: float = 2,
        gid: str | None = None,
    ) -> None:
        """A path in pixels, filled, stroked or hatched."""
        patch = PathPatch(path, facecolor=fill, edgecolor=edge, linewidth=width, linestyle=dash, hatch=hatch)
        patch.set_capstyle("butt")
        self._add(patch, order=order, gid=gid)

    def arrow(
        self,
        points: ArrayLike,
        *,
        width: float = 1.5,
        colour: Colour = LINE,
        order: float = 2,
        gid: str | None = None,
    ) -> None:
        """An arrow along points (n, 2), its tip at the last one; `width` in points."""
        self.path(arrow_outline(points, width * DPI / 72), fill=colour, order=order, gid=gid)

    def picture(self, pixels: NDArray[Any], area: Area, *, order: float = 1, gid: str | None = None) -> None:
        """An (H, W, 3) array of floats in [0, 1], stretched over an area without smoothing."""
        box = TransformedBbox(Bbox(((area.left, area.top), (area.right, area.bottom))), self._pixels)
        image = BboxImage(box, interpolation="nearest", origin="upper", resample=True)
        opaque = np.full((*pixels.shape[:2], 4), 255, dtype=np.uint8)
        opaque[..., :3] = np.round(255 * pixels)
        image.set_data(opaque)
        self._add(image, order=order, gid=gid)

    def colour_scale(self, left: float, y: float, colours: NDArray[np.float64], low: str, high: str) -> None:
        """A short colour bar with the numbers at its ends, on one line that begins at `left`."""
        bar = Area(left + self.width_of(low, size=11) + 6, y - 5, SCALE_WIDTH, 10)
        self.write(left, y, low, size=11, colour=SOFT_INK)
        self.picture(colours[None, :: max(1, len(colours) // 20), :3], bar, order=3)
        self.write(bar.right + 6, y, high, size=11, colour=SOFT_INK)

    def finish(self) -> Figure:
        """The figure; if a character could not be drawn, it says so."""
        if self._lacks_glyphs:
            note = f"{MISSING} stands for a character that no installed font can draw"
            self.write(self.width - MARGIN, self.height - 9, note, size=9, colour=SOFT_INK, align="right")
        return self.figure

    def _add(self, artist: Artist, *, order: float, gid: str | None = None) -> None:
        artist.set_zorder(order)
        artist.set_gid(gid)
        if not isinstance(artist, BboxImage):  # its box is in the pixels of the screen already
            artist.set_transform(self._pixels)
        self.figure.add_artist(artist)

    def _glyphs(self, text: str) -> str:
        shown = drawable(text)
        self._lacks_glyphs |= MISSING in shown and MISSING not in text
        return shown


def line_height(size: float) -> float:
    """Pixels from line to line."""
    return 1.35 * size * DPI / 72


def ramp(name: str, low: float, high: float, n: int = 64) -> NDArray[np.float64]:
    """(n, 4) colours of a part of a named colour map."""
    colours: NDArray[np.float64] = colormaps[name](np.linspace(low, high, n))
    return colours


def tint(colour: Colour, strength: float) -> tuple[float, float, float]:
    """The colour mixed with white; strength 1 leaves it as it is."""
    red, green, blue = (1 - strength * (1 - channel) for channel in to_rgb(colour))
    return red, green, blue


def ink_on(colour: Colour) -> str:
    """Black or white, whichever is easier to read on the colour."""
    red, green, blue = to_rgb(colour)
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 else PAPER
