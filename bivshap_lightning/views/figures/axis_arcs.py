"""Arcs beside the rows of `draw_axis`: pairs of features that replace each other or need each other."""

from collections.abc import Mapping, Sequence

from matplotlib.path import Path

from bivshap_lightning.views.figures.axis_values import AxisValues
from bivshap_lightning.views.figures.canvas import MARGIN, SOFT_INK, WIDTH, Canvas, Dash

Pair = tuple[int, int, float]
"""Two features and their pair term C."""

STAND_INS = "#0072B2"
PARTNERS = "#E69F00"
"""Blue and orange of Okabe and Ito; the arcs of partners are dashed as well."""

_DASH: Dash = (0, (2.2, 1.1))
_TEXT_SIZE = 12


def draw_arcs(
    canvas: Canvas,
    left: float,
    pairs: Sequence[Pair],
    centres: Mapping[int, float],
) -> None:
    """Half ellipses at the right; the further apart the rows, the wider; the stronger the pair, the thicker.

    Args:
        canvas: Where to draw.
        left: Where the rows end.
        pairs: Strongest first.
        centres: y of the row of each feature.
    """
    if not pairs:
        return
    furthest = max(abs(centres[i] - centres[j]) for i, j, _ in pairs)
    strongest = max(abs(term) for _, _, term in pairs)
    left, room = left + 18, WIDTH - MARGIN - left - 26
    for number, (i, j, term) in reversed(list(enumerate(pairs))):
        y0, y1 = sorted((centres[i], centres[j]))
        reach = room * (0.25 + 0.75 * ((y1 - y0) / furthest) ** 0.8) * 4 / 3
        path = Path(
            [(left, y0), (left + reach, y0), (left + reach, y1), (left, y1)],
            [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
        )
        is_stand_in = term < 0
        canvas.path(
            path,
            edge=STAND_INS if is_stand_in else PARTNERS,
            width=1.2 + 3.6 * abs(term) / strongest,
            dash="solid" if is_stand_in else _DASH,
            order=3 - number / 100,
            gid=f"arc:{i}:{j}",
        )
    ends = sorted({centres[k] for i, j, _ in pairs for k in (i, j)})
    canvas.discs([(left, y) for y in ends], 3.2, fill=SOFT_INK, order=3.2)


def write_arc_legend(canvas: Canvas, y: float, values: AxisValues, pairs: Sequence[Pair]) -> float:
    """What the colours of the arcs mean, those that occur; returns the y below."""
    more = " more" if values.is_change else ""
    entries: list[tuple[str, Dash, str]] = []
    if any(term < 0 for _, _, term in pairs):
        entries.append((STAND_INS, "solid", f"replace each other{more}"))
    if any(term > 0 for _, _, term in pairs):
        entries.append((PARTNERS, _DASH, f"need each other{more}"))
    x = float(MARGIN)
    for colour, dash, text in entries:
        canvas.lines([[(x, y + 9), (x + 30, y + 9)]], colour=colour, width=4, dash=dash)
        canvas.write(x + 38, y + 9, text, size=_TEXT_SIZE, gid="legend")
        x += 38 + canvas.width_of(text, size=_TEXT_SIZE) + 24
    return y + (24 if entries else 0)
