"""H as a graph for TensorBoard's Graphs dashboard, where a group is a scope: closed, it shows the quotient."""

from collections.abc import Sequence

from numpy.typing import ArrayLike
from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views.figures.graphs import order_of, scores_of
from bivshap_lightning.views.figures.layout import Layout, letter_of
from bivshap_lightning.views.figures.names import node_names, plain
from bivshap_lightning.views.figures.quotient_layout import Box, condense

MAX_BOXES = 60
"""Nodes and scopes side by side; what is beyond becomes one node."""

MAX_MEMBERS = 200
"""Players inside scopes, shared among the scopes."""

HOW_TO_READ = "i -> j: j is redundant once i is present"
"""The dashboard shows one line of about this length on a click."""

READING_NOTES = {
    "arrow": "From i to j: j is redundant once i is present.",
    "path": "Read a path step by step; arrows that a longer path implies are left out.",
    "group": "A, B, C: members make each other redundant. Open a group by a double click.",
    "each_of": "Features with the same arrows; those of the node each_one hold for each of them.",
}
"""More, below that line."""


def build_native_graph(
    h: RedundancyGraph,
    *,
    graph: ExplanationGraph | None = None,
    scores: ArrayLike | None = None,
    layout: Layout | None = None,
) -> GraphDef:
    """The quotient of H, reduced to the arrows no longer path implies, with the members of each group inside it.

    The `op` of a node is what the dashboard shows on a click: the true name, rank and score. Ops differ from
    node to node, because the dashboard folds equal ones with numbered names into one.

    Args:
        h: The redundancy graph.
        graph: G of the same players, for ranks and scores.
        scores: (F,) ranking, high = important; by default `graph.ranking()`.
        layout: Where groups have their letters from, as in the pictures.

    Example:
        >>> h = RedundancyGraph([[False, True, True], [True, False, True], [False] * 3], 0, names=["a", "b", "c"])
        >>> for node in build_native_graph(h).node:
        ...     print(node.name, list(node.input))
        READ_ME []
        A.a_and_1_more/a ['A.a_and_1_more/b']
        A.a_and_1_more/b ['A.a_and_1_more/a']
        c ['A.a_and_1_more/a']
    """
    condensed = condense(h, max_boxes=MAX_BOXES)
    about = _descriptions(h, graph, scores)
    order = list(range(h.n_players)) if graph is None else order_of(graph, scores)
    slot_of = dict(zip(h.groups, (layout or Layout()).slots(h), strict=True))
    n_scopes = 1 + sum(box.kind in ("group", "alike") for box in condensed.boxes)
    room = max(2, MAX_MEMBERS // n_scopes)
    titles = [_title(box, h, order, slot_of) for box in condensed.boxes]
    read_me, apart, *tops = node_names(["READ_ME", "without_any_arrow", *titles])
    native = GraphDef()
    _add_node(native, read_me, HOW_TO_READ)
    for word, note in READING_NOTES.items():
        native.node[0].attr[word].s = note.encode()
    heads = []
    for box, top in zip(condensed.boxes, tops, strict=True):
        heads.append(len(native.node))
        _add_box(native, box, top, h, about, order, room)
    for source, target in condensed.arrows:
        native.node[heads[target]].input.append(native.node[heads[source]].name)
    _add_members(native, apart, condensed.apart, h, about, room)
    return native


def _title(box: Box, h: RedundancyGraph, order: Sequence[int], slot_of: dict[tuple[int, ...], int]) -> str:
    """The name of a box at the top level."""
    if box.kind == "rest":
        return f"rest.{len(box.members)}_more_features"
    first = next(player for player in order if player in set(box.members))
    if box.kind == "group":
        return f"{letter_of(slot_of[box.members])}.{h.names[first]} and {len(box.members) - 1} more"
    if box.kind == "alike":
        return f"each_of_{len(box.members)}.{h.names[first]} ..."
    return h.names[first]


def _add_box(
    native: GraphDef,
    box: Box,
    top: str,
    h: RedundancyGraph,
    about: Sequence[str],
    order: Sequence[int],
    room: int,
) -> None:
    """The nodes of a box, the one that its arrows hold on to first."""
    members = [player for player in order if player in set(box.members)]
    if box.kind == "group":
        _add_members(native, top, members, h, about, room)
        ring = native.node[-min(room + 1, len(members)) :]
        for position, node in enumerate(ring):
            node.input.append(ring[position - 1].name)
    elif box.kind == "alike":
        # One node for all: dozens of arrows into one node make the dashboard tear the graph apart.
        _add_node(native, f"{top}/each_one", f"arrows here hold for each of the {len(members)} features of {top}")
        _add_members(native, top, members, h, about, room)
    elif box.kind == "rest":
        _add_node(native, top, f"{len(box.members)} more features; arrows of any of them end here")
    else:
        _add_node(native, top, about[box.members[0]], true_name=h.names[box.members[0]])


def _add_members(
    native: GraphDef,
    scope: str,
    members: Sequence[int],
    h: RedundancyGraph,
    about: Sequence[str],
    room: int,
) -> None:
    """Members as nodes of a scope; if they are more than there is room for, a last node counts the others."""
    shown, left = members[:room], members[room:]
    reserved = ["each_one", f"and_{len(left)}_more"]
    names = node_names([*reserved, *(h.names[player] for player in shown)])[len(reserved) :]
    for player, name in zip(shown, names, strict=True):
        _add_node(native, f"{scope}/{name}", about[player], true_name=h.names[player])
    if left:
        _add_node(native, f"{scope}/and_{len(left)}_more", f"{len(left)} more features of {scope}")


def _descriptions(h: RedundancyGraph, graph: ExplanationGraph | None, scores: ArrayLike | None) -> list[str]:
    """What to say about each player: name, rank and score."""
    if graph is None:
        return [f"{plain(name)} (player {player})" for player, name in enumerate(h.names)]
    ranking = scores_of(graph, scores)
    rank_of = {player: rank for rank, player in enumerate(order_of(graph, scores), start=1)}
    return [
        f"{plain(name)}: rank {rank_of[player]} of {h.n_players}, score {ranking[player]:.3g}"
        for player, name in enumerate(h.names)
    ]


def _add_node(native: GraphDef, name: str, op: str, *, true_name: str | None = None) -> None:
    """A node; where its name had to be changed, the true one is among its attributes."""
    node = native.node.add(name=name, op=op)
    if true_name is not None and name.rpartition("/")[2] != true_name:
        node.attr["feature"].s = plain(true_name).encode()
    # Without shapes the dashboard draws arrows as wide as it can.
    one = AttrValue.ListValue(shape=[TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])])
    node.attr["_output_shapes"].CopyFrom(AttrValue(list=one))
