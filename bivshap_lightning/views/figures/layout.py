"""`Layout`: positions of players and colours of groups that stay the same from epoch to epoch."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Literal, get_args

from bivshap_lightning.graph import RedundancyGraph

PlayerOrder = Literal["group", "index"]

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
"""Of the groups A, B, C ...; the first seven are Okabe and Ito's colour-blind safe palette."""

FURTHER_COLOUR = "#B0BEC5"
"""Of the groups after the tenth."""


class Layout:
    """Order of players and colours of groups, kept from figure to figure.

    Keep one layout per tag and pass it again each epoch. A player keeps its position as long as it is drawn; a new
    one takes the position of one that is no longer drawn. A group keeps its letter and colour as long as it shares
    members with the group that had them last.

    Args:
        order: Of the players in the first figure: "group" puts mutually redundant players side by side, "index"
            keeps the order of the players, such as the reading order of words.

    Example:
        >>> layout = Layout()
        >>> h = RedundancyGraph([[False, False, True], [False] * 3, [True, False, False]], 0)
        >>> layout.arrange(h, [0, 1, 2])
        (0, 2, 1)
        >>> empty = RedundancyGraph([[False] * 3] * 3, 0)
        >>> layout.arrange(empty, [0, 1, 2])
        (0, 2, 1)
    """

    def __init__(self, order: PlayerOrder = "group") -> None:
        if order not in get_args(PlayerOrder):
            raise ValueError(
                f"`order` must be one of {get_args(PlayerOrder)}, got {order!r}. Leave it out for 'group'."
            )
        self._order: PlayerOrder = order
        self._players: list[int] = []
        self._members_of: dict[int, frozenset[int]] = {}

    def arrange(self, h: RedundancyGraph, players: Sequence[int]) -> tuple[int, ...]:
        """The players to draw, in the order of their positions.

        Args:
            h: Decides the order of the players that have no position yet.
            players: Indices of the players to draw.

        Example:
            >>> layout, h = Layout("index"), RedundancyGraph([[False] * 4] * 4, 0)
            >>> layout.arrange(h, [2, 0, 1]), layout.arrange(h, [1, 2, 3])
            ((0, 1, 2), (3, 1, 2))
        """
        staying = set(players) & set(self._players)
        coming = [player for player in self._first_order(h) if player in set(players) - staying]
        arranged = []
        for player in self._players:
            if player in staying:
                arranged.append(player)
            elif coming:
                arranged.append(coming.pop(0))
        self._players = arranged + coming
        return tuple(self._players)

    def group_numbers(self, h: RedundancyGraph) -> tuple[int, ...]:
        """A number for each of `h.groups`, which determines its letter and colour.

        Example:
            >>> pair = RedundancyGraph([[False, True, False], [True, False, False], [False] * 3], 0)
            >>> all_three = RedundancyGraph([[i != j for i in range(3)] for j in range(3)], 0)
            >>> layout = Layout()
            >>> layout.group_numbers(pair), layout.group_numbers(all_three)
            ((0,), (0,))
        """
        groups = [frozenset(group) for group in h.groups]
        shared = [
            (-len(group & before), number, position)
            for position, group in enumerate(groups)
            for number, before in self._members_of.items()
            if group & before
        ]
        number_of: dict[int, int] = {}
        for _, number, position in sorted(shared):
            if position not in number_of and number not in number_of.values():
                number_of[position] = number
        for position in range(len(groups)):
            if position not in number_of:
                number_of[position] = self._free_number(set(number_of.values()))
        self._members_of.update((number, groups[position]) for position, number in number_of.items())
        return tuple(number_of[position] for position in range(len(groups)))

    def group_number_of_players(self, h: RedundancyGraph) -> dict[int, int]:
        """The group number of each player that is in a group.

        Example:
            >>> h = RedundancyGraph([[False, False, True], [False] * 3, [True, False, False]], 0)
            >>> Layout().group_number_of_players(h)
            {0: 0, 2: 0}
        """
        return {
            player: number for number, group in zip(self.group_numbers(h), h.groups, strict=True) for player in group
        }

    def state_dict(self) -> dict[str, Any]:
        """What to store so that a resumed run keeps positions and colours, in JSON's types.

        Example:
            >>> Layout("index").state_dict()
            {'order': 'index', 'players': [], 'groups': {}}
        """
        groups = {str(number): sorted(members) for number, members in self._members_of.items()}
        return {"order": self._order, "players": list(self._players), "groups": groups}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> "Layout":
        """The layout that `state_dict` described.

        Example:
            >>> Layout.from_state_dict({"order": "index", "players": [1, 0], "groups": {}}).state_dict()["players"]
            [1, 0]
        """
        layout = cls(state["order"])
        layout._players = list(state["players"])
        layout._members_of = {int(number): frozenset(members) for number, members in state["groups"].items()}
        return layout

    def _first_order(self, h: RedundancyGraph) -> list[int]:
        if self._order == "index":
            return list(range(h.n_players))
        grouped = [player for group in h.groups for player in group]
        return grouped + [player for player in range(h.n_players) if player not in set(grouped)]

    def _free_number(self, in_use: set[int]) -> int:
        """An unused number; once the colours run out, that of a group that no longer exists."""
        fresh = next(number for number in count() if number not in in_use and number not in self._members_of)
        if fresh < len(COLOURS):
            return fresh
        return next((number for number in sorted(self._members_of) if number not in in_use), fresh)


def colour_of(number: int) -> str:
    """The colour of a group.

    Example:
        >>> colour_of(0)
        '#0072B2'
    """
    return COLOURS[number] if number < len(COLOURS) else FURTHER_COLOUR


def letter_of(number: int) -> str:
    """The letter of a group: A to Z, then AA, AB ...

    Example:
        >>> letter_of(0), letter_of(25), letter_of(26)
        ('A', 'Z', 'AA')
    """
    first, last = divmod(number, 26)
    return ("" if first == 0 else letter_of(first - 1)) + chr(ord("A") + last)
