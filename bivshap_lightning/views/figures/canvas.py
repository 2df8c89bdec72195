"""`Page`: a figure as a sheet of pixels, and the marks all pictures are made of.

Every property of a mark is set explicitly: a user's matplotlib style changes nothing, and nothing global is read
or written.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, Literal, cast

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.path import Path
from matplotlib.textpath import TextToPath
from numpy.typing import NDArray
from PIL import Image

from bivshap_lightning.views.figures.names import MISSING, drawable, families_for, shorten

Colour = str | tuple[float, float, float]
Point = tuple[float, float]
Align = Literal["left", "center", "right"]
Dash = Literal["solid"] | tuple[float, tuple[float, ...]]
"""A line style of matplotlib."""

MAX_WIDTH = 1050
"""Pixels; TensorBoard shows a third of it before the picture is enlarged."""

INK = "#263238"
SOFT_INK = "#546E7A"
LINE = "#90A4AE"
PAPER = "#FFFFFF"
DPI = 100
MARGIN = 28
SCALE_WIDTH = 90
_FLAT_COLOURS = 128


@dataclass(frozen=True)
class Area:
    """A rectangle of a page, y downwards."""

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


class Page:
    """A figure of a given size in pixels, drawn on in these pixels: x to the right, y downwards."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor=PAPER)
        self.figure.set_layout_engine("none")
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)
        self._lacks_glyphs = False

    def write(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 10,
        colour: Colour = INK,
        bold: bool = False,
        align: Align = "left",
        gid: str | None = None,
    ) -> None:
        """One line of text, centred vertically on y."""
        if text:
            text = self._glyphs(text)
            self.axes.text(
                x,
                y,
                text,
                color=colour,
                ha=align,
                va="center_baseline",
                fontproperties=_font(text, size, bold),
                parse_math=False,
                usetex=False,
                zorder=6,
                gid=gid,
            )

    def width_of(self, text: str, *, size: float = 10, bold: bool = False) -> float:
        """How many pixels wide a line is."""
        return size * DPI / 72 * _width_at_one_point(drawable(text), bold)

    def fit(self, text: str, width: float, *, size: float = 10, bold: bool = False) -> str:
        """The text, shortened in the middle until it is at most `width` pixels wide."""
        text = self._glyphs(text)
        lengths = range(2, len(text))
        if not lengths or self.width_of(text, size=size, bold=bold) <= width:
            return text
        too_long = bisect_right(lengths, width, key=lambda n: self.width_of(shorten(text, n), size=size, bold=bold))
        return shorten(text, lengths[max(too_long - 1, 0)])

    def wrap(self, words: Sequence[str], width: float, n_lines: int, *, size: float = 10) -> list[str]:
        """The words on at most `n_lines` lines; what does not fit becomes "+3 more".

        A word alone on its line may be followed by that beyond the width: better than to cut it further.
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
        self, x: float, y: float, text: str, width: float, *, size: float = 9, colour: Colour = SOFT_INK, gid: str
    ) -> float:
        """A text on as many lines as it needs, from y downwards; returns the y below it."""
        height = line_height(size)
        for line in self.wrap(text.split(), width, len(text), size=size):
            self.write(x, y + height / 2, line, size=size, colour=colour, gid=gid)
            y += height
        return y

    def header(self, title: str, facts: Sequence[str]) -> float:
        """Title and, below it, what is known in a few words; returns the y below them."""
        width = self.width - 2 * MARGIN
        self.write(MARGIN, 30, self.fit(title, width, size=15, bold=True), size=15, bold=True, gid="title")
        facts_line = "  ·  ".join(fact for fact in facts if fact)
        self.write(MARGIN, 58, self.fit(facts_line, width, size=10.5), size=10.5, colour=SOFT_INK, gid="subtitle")
        return 76

    def line(
        self, start: Point, end: Point, *, colour: Colour = LINE, width: float = 0.8, dash: Dash = "solid"
    ) -> None:
        """A straight line."""
        (x0, y0), (x1, y1) = start, end
        mark = Line2D((x0, x1), (y0, y1), color=colour, linewidth=width, linestyle=dash, marker="", zorder=1)
        self.axes.add_artist(mark)

    def disc(self, centre: Point, radius: float, *, fill: Colour, gid: str | None = None) -> None:
        """A filled circle with an outline."""
        self.axes.add_artist(Circle(centre, radius, facecolor=fill, edgecolor=INK, linewidth=1.2, zorder=4, gid=gid))

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
        self.axes.add_artist(
            FancyBboxPatch(
                (area.left + 8, area.top + 8),
                area.width - 16,
                area.height - 16,
                boxstyle="round,pad=8,rounding_size=8",
                facecolor=fill,
                edgecolor=edge,
                linewidth=2 if thick else 1.2,
                linestyle=(0, (4, 3)) if dashed else "solid",
                zorder=4,
                gid=gid,
            )
        )

    def rectangle(self, area: Area, *, fill: Colour, edge: Colour = "none", hatch: str | None = None) -> None:
        """A plain rectangle, such as the sample of a legend."""
        patch = Rectangle((area.left, area.top), area.width, area.height, facecolor=fill, linewidth=1, zorder=5)
        patch.set_edgecolor(edge)
        if hatch is not None:
            patch.set_hatch(hatch)
        self.axes.add_artist(patch)

    def arrow(
        self,
        start: Point,
        end: Point,
        *,
        gap_start: float = 0,
        gap_end: float = 0,
        width: float = 1.5,
        colour: Colour = LINE,
        bend: float = 0,
        order: float = 2,
        gid: str | None = None,
    ) -> None:
        """An arrow that keeps clear of its ends by the gaps, in pixels."""
        head = 5 + 1.3 * width
        self.axes.add_artist(
            FancyArrowPatch(
                start,
                end,
                arrowstyle=f"-|>,head_length={head / 10:.3f},head_width={head / 24:.3f}",
                mutation_scale=10,
                connectionstyle=f"arc3,rad={bend}",
                shrinkA=gap_start * 72 / DPI,
                shrinkB=gap_end * 72 / DPI,
                linewidth=width,
                color=colour,
                capstyle="butt",
                joinstyle="miter",
                zorder=order,
                gid=gid,
            )
        )

    def path_arrow(
        self, points: Sequence[Point], *, width: float = 1.8, colour: Colour = SOFT_INK, gid: str | None = None
    ) -> None:
        """An arrow through points in pairs: vertical between the two of a pair, swinging from pair to pair."""
        vertices, codes = [points[0]], [Path.MOVETO]
        for position, (x, y) in enumerate(points[1:], start=1):
            before_x, before_y = points[position - 1]
            if position % 2:
                middle = (before_y + y) / 2
                vertices += [(before_x, middle), (x, middle), (x, y)]
                codes += [Path.CURVE4] * 3
            else:
                vertices.append((x, y))
                codes.append(Path.LINETO)
        self.axes.add_artist(
            FancyArrowPatch(
                path=Path(vertices, codes),
                arrowstyle="-|>,head_length=0.75,head_width=0.32",
                mutation_scale=10,
                linewidth=width,
                color=colour,
                zorder=2,
                gid=gid,
            )
        )

    def picture(self, pixels: NDArray[Any], area: Area, *, order: float = 1, gid: str | None = None) -> None:
        """An (H, W, 3) array of floats in [0, 1], stretched over an area without smoothing."""
        image = self.axes.imshow(
            pixels,
            extent=(area.left, area.right, area.bottom, area.top),
            interpolation="nearest",
            resample=True,
            origin="upper",
            aspect="auto",
            zorder=order,
        )
        image.set_gid(gid)
        self.axes.set_xlim(0, self.width)
        self.axes.set_ylim(self.height, 0)

    def colour_scale(self, left: float, y: float, colours: NDArray[np.float64], low: str, high: str) -> None:
        """A short colour bar with the numbers at its ends, on one line that begins at `left`."""
        bar = Area(left + self.width_of(low, size=9) + 6, y - 5, SCALE_WIDTH, 10)
        self.write(left, y, low, size=9, colour=SOFT_INK)
        self.picture(colours[None, :: max(1, len(colours) // 20), :3], bar, order=3)
        self.write(bar.right + 6, y, high, size=9, colour=SOFT_INK)

    def finish(self) -> Figure:
        """The figure; if a character could not be drawn, it says so."""
        if self._lacks_glyphs:
            note = f"{MISSING} stands for a character that no installed font can draw"
            self.write(self.width - MARGIN, self.height - 10, note, size=8, colour=SOFT_INK, align="right")
        return self.figure

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
        image = Image.fromarray(np.asarray(agg.buffer_rgba())).convert("RGB")
    finally:
        figure.set_canvas(canvas)
    if image.width > MAX_WIDTH:
        height = max(1, round(image.height * MAX_WIDTH / image.width))
        image = image.resize((MAX_WIDTH, height), Image.Resampling.LANCZOS)
    buffer = BytesIO()
    _with_256_colours(image).save(buffer, "PNG")
    return buffer.getvalue(), image.width, image.height


def _with_256_colours(image: Image.Image) -> Image.Image:
    """Flat colours stay exactly as they are, because groups are told apart by them; blends share the others."""
    blends = image.quantize(256 - _FLAT_COLOURS, method=Image.Quantize.FASTOCTREE)
    codes = np.asarray(image, dtype=np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    counts = cast(list[tuple[int, tuple[int, int, int]]], image.getcolors(image.width * image.height))
    common = sorted(counts, key=lambda entry: (-entry[0], entry[1]))[:_FLAT_COLOURS]
    flat = np.sort([red << 16 | green << 8 | blue for _, (red, green, blue) in common])
    nearest = np.searchsorted(flat, codes).clip(max=len(flat) - 1)
    indices = np.where(flat[nearest] == codes, nearest, np.asarray(blends, dtype=np.intp) + len(flat))
    channels = np.stack((flat >> 16, flat >> 8 & 255, flat & 255), axis=1)
    small = Image.fromarray(indices.astype(np.uint8))
    small.putpalette([*channels.ravel().tolist(), *(blends.getpalette() or [])])
    return small


@lru_cache(maxsize=4096)
def _width_at_one_point(text: str, bold: bool) -> float:
    """Unhinted, so that it grows in proportion to the size; names come again each epoch."""
    if not text:
        return 0.0
    width, _, _ = TextToPath().get_text_width_height_descent(text, _font(text, 100, bold), ismath=False)
    return float(width) / 100


def _font(text: str, size: float, bold: bool) -> FontProperties:
    return FontProperties(
        family=families_for(text),
        size=size,
        weight="bold" if bold else "normal",
        style="normal",
        variant="normal",
        stretch="normal",
    )
