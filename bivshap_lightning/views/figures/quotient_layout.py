"""The quotient of the redundancy graph H, reduced to the boxes and arrows that fit on a figure."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.graph import RedundancyGraph

BoxKind = Literal["group", "single", "same_arrows", "rest"]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Box:
    """Players drawn together.

    Attributes:
        kind: "group" of mutually redundant players, "single" player, several single players with the
            "same_arrows", or the "rest" that does not fit.
        members: Indices of the players, ascending.
    """

    kind: BoxKind
    members: tuple[int, ...]


@dataclass(frozen=True)
class QuotientLayout:
    """The quotient of H as boxes in layers.

    Attributes:
        boxes: The groups first, largest first; the rest, if any, last.
        isolated: Players without any arrow, in no box.
        arrows: Pairs of boxes. Arrows that a longer path implies are left out, so a path means reachability.
        layers: Of each box, 0 at the top: an arrow leads downwards, except from or to the rest.
    """

    boxes: tuple[Box, ...]
    isolated: tuple[int, ...]
    arrows: tuple[tuple[int, int], ...]
    layers: tuple[int, ...]


def lay_out_quotient(h: RedundancyGraph, *, max_boxes: int, reach: Flags | None = None) -> QuotientLayout:
    """The quotient of H with at most `max_boxes` boxes.

    Nothing is left out by importance: arrows of H leave unimportant players. Groups go first, largest first,
    then the boxes with most arrows; what is beyond the limit becomes one box.

    Args:
        h: The redundancy graph.
        max_boxes: At least 2.
        reach: (C, C) `reachability(h)`, if it is known already.

    Example:
        >>> # a and b make each other redundant, and either of them makes c and d so.
        >>> h = RedundancyGraph([[0 > 1, True, True, True], [True, False, True, True], [False] * 4, [False] * 4], 0)
        >>> lay_out_quotient(h, max_boxes=5)
        QuotientLayout(boxes=(Box(kind='group', members=(0, 1)), Box(kind='same_arrows', members=(2, 3))),
                       isolated=(), arrows=((0, 1),), layers=(0, 1))
    """
    reach = reachability(h) if reach is None else reach
    degree = reach.sum(axis=0) + reach.sum(axis=1)
    related = [node for node, members in enumerate(h.components) if degree[node] or len(members) > 1]
    parts = _with_same_arrows(h, related, reach)
    parts.sort(key=lambda nodes: _priority(h, nodes, degree))
    n_kept = len(parts) if len(parts) <= max_boxes else max_boxes - 1
    kept, left = parts[:n_kept], [node for nodes in parts[n_kept:] for node in nodes]
    heads = [nodes[0] for nodes in kept]
    boxes = [_box(h, nodes) for nodes in kept]
    arrows, layers = _arranged(reach[np.ix_(heads, heads)])
    if left:
        boxes.append(Box("rest", _members(h, left)))
        into: Flags = np.any(reach[np.ix_(heads, left)], axis=1)
        out_of: Flags = np.any(reach[np.ix_(left, heads)], axis=0)
        arrows, layers = _with_rest(reach[np.ix_(heads, heads)], into, out_of)
    isolated = tuple(sorted(set(range(h.n_players)) - {player for box in boxes for player in box.members}))
    return QuotientLayout(tuple(boxes), isolated, tuple(arrows), tuple(layers))


def reachability(h: RedundancyGraph) -> Flags:
    """(C, C): whether a path of H leads from component to component; none to itself.

    Example:
        >>> reachability(RedundancyGraph([[False, True], [False, False]], 0))
        array([[False,  True],
               [False, False]])
    """
    reach: Flags = h.component_edges
    while True:
        longer: Flags = reach | _composed(reach, reach)
        if (longer == reach).all():
            return reach
        reach = longer


def _composed(first: Flags, second: Flags) -> Flags:
    composed: Flags = first.astype(np.float32) @ second.astype(np.float32) > 0
    return composed


def _arranged(reach: Flags) -> tuple[list[tuple[int, int]], list[int]]:
    """Arrows that no longer path implies, and layers, of a transitive acyclic relation."""
    arrows = [(int(i), int(j)) for i, j in np.argwhere(reach & ~_composed(reach, reach))]
    layers = [0] * len(reach)
    for node in np.argsort(reach.sum(axis=0), kind="stable").tolist():
        # The longest path that ends in the node.
        layers[node] = max((layers[before] + 1 for before in np.flatnonzero(reach[:, node])), default=0)
    return arrows, layers


def _with_rest(reach: Flags, into: Flags, out_of: Flags) -> tuple[list[tuple[int, int]], list[int]]:
    """`_arranged` with one more box, which boxes may lead both into and out of."""
    arrows, layers = _arranged(reach)
    rest = len(reach)
    direct_into = into & ~(reach & into[None, :]).any(axis=1)
    direct_out = out_of & ~(reach & out_of[:, None]).any(axis=0)
    arrows += [(int(box), rest) for box in np.flatnonzero(direct_into)]
    arrows += [(rest, int(box)) for box in np.flatnonzero(direct_out)]
    if out_of.any() and not into.any():
        return arrows, [layer + 1 for layer in layers] + [0]
    return arrows, [*layers, max(layers, default=-1) + 1]


def _with_same_arrows(h: RedundancyGraph, related: list[int], reach: Flags) -> list[list[int]]:
    """Components to draw in one box: a group alone, single players together with those of the same arrows."""
    together: dict[object, list[int]] = {}
    for node in related:
        is_group = len(h.components[node]) > 1
        key: object = node if is_group else (reach[node].tobytes(), reach[:, node].tobytes())
        together.setdefault(key, []).append(node)
    return list(together.values())


def _priority(h: RedundancyGraph, nodes: list[int], degree: NDArray[np.int_]) -> tuple[bool, int, int]:
    """Groups by size, then other boxes by their arrows."""
    members = _members(h, nodes)
    is_group = len(h.components[nodes[0]]) > 1
    weight = len(members) if is_group else len(members) * int(degree[nodes[0]])
    return not is_group, -weight, members[0]


def _members(h: RedundancyGraph, nodes: list[int]) -> tuple[int, ...]:
    return tuple(sorted(player for node in nodes for player in h.components[node]))


def _box(h: RedundancyGraph, nodes: list[int]) -> Box:
    members = _members(h, nodes)
    if len(nodes) > 1:
        return Box("same_arrows", members)
    return Box("group" if len(members) > 1 else "single", members)
