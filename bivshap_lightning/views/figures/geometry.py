"""Paths in pixels: circles, line segments, curves and arrows, each many at a time or as one outline.

matplotlib's arrow patches search for the point where an arrow leaves its node, which costs milliseconds each; here
the shortened curve is computed directly.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from matplotlib.path import Path
from numpy.typing import ArrayLike, NDArray

Points = NDArray[np.float64]


def segments(ends: ArrayLike) -> Path:
    """Separate straight lines as one path, from (n, 2, 2) pairs of points.

    Example:
        >>> segments([[[0, 0], [1, 0]], [[0, 1], [1, 1]]]).codes.tolist()
        [1, 2, 1, 2]
    """
    points = np.asarray(ends, dtype=np.float64).reshape(-1, 2)
    return Path(points, np.tile([Path.MOVETO, Path.LINETO], len(points) // 2))


def circles(centres: ArrayLike, radius: float) -> Path:
    """Circles of one radius as one path, from (n, 2) centres.

    Example:
        >>> circles([[0, 0], [5, 5]], 2).get_extents()
        Bbox([[-2.0, -2.0], [7.0, 7.0]])
    """
    unit = _unit_circle()
    points = np.asarray(centres, dtype=np.float64).reshape(-1, 2)
    vertices = points[:, None] + radius * np.asarray(unit.vertices)
    return Path(vertices.reshape(-1, 2), np.tile(np.asarray(unit.codes), len(points)))


def bent_line(start: ArrayLike, end: ArrayLike, *, bend: float, gap_start: float = 0, gap_end: float = 0) -> Points:
    """(16, 2) points of a curve whose middle is off the straight line by half of `bend` times its length.

    Args:
        start: (x, y).
        end: (x, y).
        bend: 0 for a straight line.
        gap_start: Pixels to leave out at the start, such as the radius of a node.
        gap_end: Pixels to leave out at the end.

    Example:
        >>> bent_line((0, 0), (10, 0), bend=0, gap_start=2)[[0, -1]].round(6).tolist()
        [[2.0, 0.0], [10.0, 0.0]]
    """
    first, last = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
    across = last - first
    control = (first + last) / 2 + bend * np.array([across[1], -across[0]])
    length = max(float(np.hypot(*across)), 1e-9)
    t = np.linspace(min(gap_start / length, 0.45), 1 - min(gap_end / length, 0.45), 16)[:, None]
    curve: Points = (1 - t) ** 2 * first + 2 * t * (1 - t) * control + t**2 * last
    return curve


def s_curve(points: Sequence[tuple[float, float]]) -> Points:
    """Points of a line through pairs of points: vertical within a pair, an S-shaped curve from pair to pair.

    Example:
        >>> s_curve([(0, 0), (10, 20)])[[0, 8, -1]].tolist()
        [[0.0, 0.0], [5.0, 10.0], [10.0, 20.0]]
    """
    t = np.linspace(0, 1, 17)[1:, None]
    parts = [np.array([points[0]], dtype=np.float64)]
    for position, point in enumerate(points[1:], start=1):
        (x0, y0), (x1, y1) = points[position - 1], point
        if position % 2:
            middle = (y0 + y1) / 2
            p0, p1, p2, p3 = (np.array(p) for p in ((x0, y0), (x0, middle), (x1, middle), (x1, y1)))
            parts.append((1 - t) ** 3 * p0 + 3 * t * (1 - t) ** 2 * p1 + 3 * t**2 * (1 - t) * p2 + t**3 * p3)
        else:
            parts.append(np.array([point], dtype=np.float64))
    return np.concatenate(parts)


def arrow_outline(points: ArrayLike, width: float) -> Path:
    """The outline of an arrow along (n, 2) points: a shaft of the given width and a head whose tip is the last point.

    Example:
        >>> float(arrow_outline([[0, 0], [100, 0]], 2).get_extents().width)
        100.0
    """
    line = np.asarray(points, dtype=np.float64)
    head_length, head_width = 6 + 2.2 * width, 2.6 + 1.1 * width
    left_over = np.hypot(*(line - line[-1]).T)
    shaft = line[left_over > 0.8 * head_length]
    if len(shaft) < 1:
        shaft = line[:1]
    towards = line[-1] - shaft[-1]
    direction = towards / max(float(np.hypot(*towards)), 1e-9)
    normal = np.array([-direction[1], direction[0]])
    base = line[-1] - head_length * direction
    shaft = np.concatenate((shaft, (line[-1] - 0.8 * head_length * direction)[None]))
    head = [base + head_width * normal, line[-1], base - head_width * normal]
    along = np.concatenate((shaft[1:2] - shaft[:1], shaft[2:] - shaft[:-2], shaft[-1:] - shaft[-2:-1]))
    across = along[:, ::-1] * np.array([-1.0, 1.0])
    sides = across * (width / 2 / np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9))[:, None]
    ring = np.concatenate((shaft + sides, head, (shaft - sides)[::-1]))
    codes = np.full(len(ring) + 1, Path.LINETO, dtype=Path.code_type)
    codes[0], codes[-1] = Path.MOVETO, Path.CLOSEPOLY
    return Path(np.concatenate((ring, ring[:1])), codes)


@cache
def _unit_circle() -> Path:
    return Path.unit_circle()
