"""An image and the parts it is made of, the players of a graph: checks, borders, positions, numbers on the parts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.path import Path
from numpy.typing import ArrayLike, NDArray

from bivshap_lightning.views.figures.canvas import INK, LINE, PAPER, Area, Canvas, Colour, Point
from bivshap_lightning.views.figures.geometry import segments as line_segments

Pixels = NDArray[np.float64]
Labels = NDArray[np.intp]

_SMALLEST, _LARGEST = 7, 12
"""Points of the names written on parts."""


def checked_segments(segments: ArrayLike, n_players: int) -> Labels:
    """(H, W) player of each pixel, -1 where there is none."""
    parts = np.asarray(segments)
    if parts.ndim != 2 or parts.dtype.kind not in "iu" or not parts.size:
        raise ValueError(
            f"`segments` must be an (H, W) array of integers, got shape {parts.shape} and dtype {parts.dtype}. "
            "Pass the player of each pixel, -1 for none."
        )
    if parts.min() < -1 or parts.max() >= n_players:
        raise ValueError(
            f"`segments` must hold players from 0 to {n_players - 1}, or -1, got {parts.min()} to {parts.max()}. "
            "Number the parts as the players of the graph."
        )
    return parts.astype(np.intp)


def checked_image(image: ArrayLike | None, shape: tuple[int, ...]) -> Pixels:
    """(H, W, 3) floats in [0, 1]; grey where there is no image."""
    if image is None:
        return np.full((*shape, 3), 0.85)
    given: NDArray[Any] = np.asarray(image)
    pixels = given
    if given.ndim == 2:
        pixels = given[..., None]
    elif given.ndim == 3 and given.shape[0] in (1, 3) and given.shape[1:] == shape:
        pixels = np.moveaxis(given, 0, 2)
    if pixels.shape[:2] != shape or pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise ValueError(
            f"`image` must have shape {shape}, {(*shape, 3)} or {(3, *shape)} like `segments`, got {given.shape}. "
            "Pass one picture, not a batch."
        )
    floats = pixels.astype(np.float64)
    if not np.isfinite(floats).all():
        raise ValueError("`image` must be finite, got NaN or infinity. Look at how the picture was normalised.")
    if given.dtype == np.uint8:
        floats /= 255
    elif floats.min() < 0 or floats.max() > 1:
        floats = (floats - floats.min()) / (np.ptp(floats) or 1.0)
    coloured: Pixels = np.broadcast_to(floats, (*shape, 3)).copy()
    return coloured


def positions_of(area: Area, parts: Labels, players: Sequence[int]) -> dict[int, Point]:
    """The centre of mass of each part, or the pixel of the part that is closest to it, so that it is never outside.

    Players without a pixel are left out.
    """
    rows, columns = np.nonzero(parts >= 0)
    owners = parts[rows, columns]
    sizes = np.bincount(owners, minlength=1)
    centres = [np.bincount(owners, weights=axis) / np.maximum(sizes, 1) for axis in (rows, columns)]
    scale = area.width / parts.shape[1]
    positions = {}
    for player in players:
        if player >= len(sizes) or not sizes[player]:
            continue
        row, column = (float(centre[player]) for centre in centres)
        if parts[round(row), round(column)] != player:
            of_part = owners == player
            nearest = ((rows[of_part] - row) ** 2 + (columns[of_part] - column) ** 2).argmin()
            row, column = float(rows[of_part][nearest]), float(columns[of_part][nearest])
        positions[player] = (area.left + (column + 0.5) * scale, area.top + (row + 0.5) * scale)
    return positions


def name_parts(canvas: Canvas, area: Area, parts: Labels, players: Sequence[int], names: Sequence[str]) -> None:
    """Write the names of parts on them, where there is room.

    Args:
        canvas: Where to draw.
        area: Where the picture is.
        parts: (H, W) player of each pixel.
        players: Whose names to write.
        names: Of all players.
    """
    scale = area.width / parts.shape[1]
    for player, (x, y) in positions_of(area, parts, players).items():
        row, column = int((y - area.top) / scale), int((x - area.left) / scale)
        across, down = (scale * int((line == player).sum()) for line in (parts[row], parts[:, column]))
        at_one_point = canvas.width_of(names[player], size=1, bold=True)
        size = min(_LARGEST, 0.78 * across / max(at_one_point, 1e-9), 0.45 * down)
        if size >= _SMALLEST:
            name = names[player]
            canvas.write(x, y, name, size=size, colour=PAPER, halo=INK, bold=True, align="center", gid=f"part:{player}")


def draw_borders(canvas: Canvas, area: Area, parts: Labels, *, colour: Colour = PAPER, width: float = 0.8) -> None:
    """Lines between parts, as one path; neighbouring pixels share one line."""
    scale = area.width / parts.shape[1]
    lines = [*_runs(parts[:, 1:] != parts[:, :-1]), *(line[:, ::-1] for line in _runs((parts[1:] != parts[:-1]).T))]
    if lines:
        points = np.array(lines) * scale + (area.left, area.top)
        canvas.path(line_segments(points), edge=colour, width=width, order=1.6)


def _runs(differs: NDArray[np.bool_]) -> list[NDArray[np.float64]]:
    """Vertical lines (x, y0) to (x, y1) right of column x - 1, wherever the two columns differ without a gap."""
    padded = np.pad(differs.T, ((0, 0), (1, 1))).astype(np.int8)
    change = np.diff(padded, axis=1)
    columns, starts = np.nonzero(change == 1)
    _, ends = np.nonzero(change == -1)
    triples = zip(columns.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return [np.array([[column + 1, start], [column + 1, end]], dtype=np.float64) for column, start, end in triples]


def hatch_parts(canvas: Canvas, area: Area, parts: Labels, players: Sequence[int]) -> None:
    """Oblique lines over parts, one square per pixel."""
    if not players:
        return
    scale = area.width / parts.shape[1]
    rows, columns = np.nonzero(np.isin(parts, players))
    corners = np.stack((columns, rows), axis=1) * scale + (area.left, area.top)
    square = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]) * scale
    codes = [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY]
    path = Path((corners[:, None] + square).reshape(-1, 2), np.tile(codes, len(corners)))
    canvas.path(path, edge=LINE, hatch="////", order=1.5, gid="hatched")
