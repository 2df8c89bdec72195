"""`Layout`: where players sit and which colour a group has, the same in the pictures of successive epochs."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Literal, get_args

from bivshap_lightning.graph import RedundancyGraph

SeatOrder = Literal["group", "index"]

COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#8C6BB1",
    "#7F7F7F",
    "#5C4033",
)
"""Of the groups A, B, C ...; the first seven are Okabe and Ito's, safe for the colour-blind. Letters back them up."""

FURTHER_COLOUR = "#B0BEC5"
"""Of the groups after the tenth."""


class Layout:
    """Seats of players and colours of groups, remembered from picture to picture.

    Keep one layout per tag and pass it again each epoch. A player keeps its seat as long as it is drawn; one
    that comes in takes the seat of one that left. A group keeps its letter and colour as long as it shares
    members with the group that had them last.

    Args:
        order: How the first picture is seated: "group" puts mutually redundant players side by side, "index"
            keeps the order of the players, such as the reading order of words.

    Example:
        >>> layout = Layout()
        >>> h = RedundancyGraph([[False, False, True], [False] * 3, [True, False, False]], 0)
        >>> layout.seats(h, [0, 1, 2])
        (0, 2, 1)
        >>> empty = RedundancyGraph([[False] * 3] * 3, 0)
        >>> layout.seats(empty, [0, 1, 2])
        (0, 2, 1)
    """

    def __init__(self, order: SeatOrder = "group") -> None:
        if order not in get_args(SeatOrder):
            raise ValueError(f"`order` must be one of {get_args(SeatOrder)}, got {order!r}. Leave it out for 'group'.")
        self._order: SeatOrder = order
        self._seats: list[int] = []
        self._members_of: dict[int, frozenset[int]] = {}

    def seats(self, h: RedundancyGraph, players: Sequence[int]) -> tuple[int, ...]:
        """The players to draw, in the order of their seats.

        Args:
            h: Decides who sits next to whom when no one is seated yet.
            players: Indices of the players to draw.

        Example:
            >>> layout, h = Layout("index"), RedundancyGraph([[False] * 4] * 4, 0)
            >>> layout.seats(h, [2, 0, 1]), layout.seats(h, [1, 2, 3])
            ((0, 1, 2), (3, 1, 2))
        """
        staying = set(players) & set(self._seats)
        coming = [player for player in self._first_order(h) if player in set(players) - staying]
        seats = []
        for player in self._seats:
            if player in staying:
                seats.append(player)
            elif coming:
                seats.append(coming.pop(0))
        self._seats = seats + coming
        return tuple(self._seats)

    def slots(self, h: RedundancyGraph) -> tuple[int, ...]:
        """A number for each of `h.groups`, which stands for its letter and colour.

        Example:
            >>> pair = RedundancyGraph([[False, True, False], [True, False, False], [False] * 3], 0)
            >>> all_three = RedundancyGraph([[i != j for i in range(3)] for j in range(3)], 0)
            >>> layout = Layout()
            >>> layout.slots(pair), layout.slots(all_three)
            ((0,), (0,))
        """
        groups = [frozenset(group) for group in h.groups]
        shared = [
            (-len(group & before), slot, position)
            for position, group in enumerate(groups)
            for slot, before in self._members_of.items()
            if group & before
        ]
        slot_of: dict[int, int] = {}
        for _, slot, position in sorted(shared):
            if position not in slot_of and slot not in slot_of.values():
                slot_of[position] = slot
        for position in range(len(groups)):
            if position not in slot_of:
                slot_of[position] = self._free_slot(set(slot_of.values()))
        self._members_of.update((slot, groups[position]) for position, slot in slot_of.items())
        return tuple(slot_of[position] for position in range(len(groups)))

    def slot_of_players(self, h: RedundancyGraph) -> dict[int, int]:
        """The slot of each player that is in a group.

        Example:
            >>> h = RedundancyGraph([[False, False, True], [False] * 3, [True, False, False]], 0)
            >>> Layout().slot_of_players(h)
            {0: 0, 2: 0}
        """
        return {player: slot for slot, group in zip(self.slots(h), h.groups, strict=True) for player in group}

    def state_dict(self) -> dict[str, Any]:
        """What to store so that a resumed run goes on with the same seats and colours, in JSON's types.

        Example:
            >>> Layout("index").state_dict()
            {'order': 'index', 'seats': [], 'groups': {}}
        """
        groups = {str(slot): sorted(members) for slot, members in self._members_of.items()}
        return {"order": self._order, "seats": list(self._seats), "groups": groups}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> "Layout":
        """The layout that `state_dict` described.

        Example:
            >>> Layout.from_state_dict({"order": "index", "seats": [1, 0], "groups": {}}).state_dict()["seats"]
            [1, 0]
        """
        layout = cls(state["order"])
        layout._seats = list(state["seats"])
        layout._members_of = {int(slot): frozenset(members) for slot, members in state["groups"].items()}
        return layout

    def _first_order(self, h: RedundancyGraph) -> list[int]:
        if self._order == "index":
            return list(range(h.n_players))
        grouped = [player for group in h.groups for player in group]
        return grouped + [player for player in range(h.n_players) if player not in set(grouped)]

    def _free_slot(self, in_use: set[int]) -> int:
        """A slot nobody had; once the colours run out, one whose group is gone."""
        fresh = next(slot for slot in count() if slot not in in_use and slot not in self._members_of)
        if fresh < len(COLOURS):
            return fresh
        return next((slot for slot in sorted(self._members_of) if slot not in in_use), fresh)


def colour_of(slot: int) -> str:
    """The colour of a group.

    Example:
        >>> colour_of(0)
        '#0072B2'
    """
    return COLOURS[slot] if slot < len(COLOURS) else FURTHER_COLOUR


def letter_of(slot: int) -> str:
    """The letter of a group: A to Z, then AA, AB ...

    Example:
        >>> letter_of(0), letter_of(25), letter_of(26)
        ('A', 'Z', 'AA')
    """
    first, last = divmod(slot, 26)
    return ("" if first == 0 else letter_of(first - 1)) + chr(ord("A") + last)
