"""`RedundancyGraph`, H: which player is redundant once which other player is present."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bivshap_lightning.checks import check_choice, check_gamma
from bivshap_lightning.graph import conversion
from bivshap_lightning.graph.batched import Components, IndexArray, find_components, same_size_stacks
from bivshap_lightning.graph.checks import (
    BoolArray,
    check_names,
    check_shape,
    check_square,
    read_only_flags,
    read_only_floats,
)
from bivshap_lightning.graph.ranking import pagerank_of_one, tie_levels
from bivshap_lightning.graph.storage import read_record, write_record

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

RedundancyRule = Literal["noise", "paper"]
SourceSinkConvention = Literal["default", "paper"]
PlayerIndices = tuple[int, ...]
"""Indices of players, ascending."""

_KIND = "bivshap_lightning.RedundancyGraph"
_FIELDS = ("adjacency", "gamma", "rule", "confidence", "undecided", "names")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RedundancyGraph:
    """The redundancy graph H of an `ExplanationGraph` at one threshold; usually returned by its `redundancy`.

    Args:
        adjacency: (F, F) booleans, diagonal False.
        gamma: The threshold of the weights.
        rule: "noise" if standard errors were taken into account, "paper" if not.
        confidence: Of the intervals of the noise rule, else None.
        undecided: (F, F) booleans, True where the noise allows both answers. None means nowhere.
        names: F distinct strings, by default "0" to "F-1".

    Attributes:
        adjacency: `adjacency[i, j]`, whether j is redundant once i is present. Both arrays are read-only.
        gamma: As given.
        rule: As given.
        confidence: As given.
        undecided: As given, all False if None.
        names: As given.
        n_redundant: Number of redundant edges.
        n_undecided: Number of undecided edges.

    Example:
        >>> h = RedundancyGraph([[False, True, True], [True, False, True], [False, False, False]], 1e-5)
        >>> h
        RedundancyGraph(3 players, gamma=1e-05, rule='paper', density 0.667, 1 group, 0 undecided)
        >>> h.groups, h.sources, h.sinks
        (((0, 1),), (0, 1), (2,))
    """

    adjacency: BoolArray
    gamma: float
    rule: RedundancyRule
    confidence: float | None
    undecided: BoolArray
    names: tuple[str, ...]
    n_redundant: int
    n_undecided: int

    def __init__(
        self,
        adjacency: ArrayLike,
        gamma: float,
        *,
        rule: RedundancyRule = "paper",
        confidence: float | None = None,
        undecided: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        flags = read_only_flags(adjacency, "adjacency")
        check_square(flags, "adjacency")
        undecided_flags = read_only_flags(np.zeros_like(flags) if undecided is None else undecided, "undecided")
        if undecided is not None:
            check_shape(undecided_flags, flags.shape, "undecided")
            check_square(undecided_flags, "undecided")
        if undecided is not None and (flags & undecided_flags).any():
            place = np.argwhere(flags & undecided_flags)[0].tolist()
            raise ValueError(f"`undecided` must not overlap `adjacency`, got both at {place}. Clear one of them.")
        check_choice(rule, RedundancyRule, "rule")
        # A frozen instance has no setters; its attributes are filled in once.
        vars(self).update(
            adjacency=flags,
            gamma=check_gamma(gamma),
            rule=rule,
            confidence=confidence,
            undecided=undecided_flags,
            names=check_names(names, len(flags)),
            n_redundant=int(np.count_nonzero(flags)),
            n_undecided=0 if undecided is None else int(np.count_nonzero(undecided_flags)),
        )

    @classmethod
    def from_checked(cls, **attributes: Any) -> "RedundancyGraph":
        """Return a graph of attributes that need no checks, all of them given."""
        graph = object.__new__(cls)
        vars(graph).update(attributes)
        return graph

    def __repr__(self) -> str:
        n_groups = len(self.groups)
        return (
            f"RedundancyGraph({self.n_players} player{'s' * (self.n_players > 1)}, gamma={self.gamma:g}, "
            f"rule={self.rule!r}, density {self.density:.3g}, {n_groups} group{'s' * (n_groups != 1)}, "
            f"{self.n_undecided} undecided)"
        )

    @property
    def n_players(self) -> int:
        """Number of players, F.

        Example:
            >>> RedundancyGraph([[False, True], [False, False]], 0).n_players
            2
        """
        return len(self.adjacency)

    @property
    def density(self) -> float:
        """Redundant edges as a share of the F (F - 1) possible ones, 0 to 1; 0 if there are none.

        Example:
            >>> RedundancyGraph([[False, True], [False, False]], 0).density
            0.5
        """
        return self.n_redundant / max(self.n_players * (self.n_players - 1), 1)

    @property
    def component_of(self) -> IndexArray:
        """(F,) the strongly connected component of each player, named after its smallest member.

        Example:
            >>> RedundancyGraph([[False, False, True], [False] * 3, [True, False, False]], 0).component_of
            array([0, 1, 0])
        """
        return self._components.component_of

    @cached_property
    def _components(self) -> Components:
        return find_components(self.adjacency)

    @staticmethod
    def components_of_all(graphs: "Sequence[RedundancyGraph]") -> list[Components]:
        """Return components, sources and sinks of many graphs, found in stacks. The graphs cache them.

        Example:
            >>> h = RedundancyGraph([[False, True], [True, False]], 0)
            >>> RedundancyGraph.components_of_all([h])[0].component_of
            array([0, 0])
        """
        missing = [h for h in dict.fromkeys(graphs) if "_components" not in vars(h)]
        for positions in same_size_stacks(h.adjacency.shape for h in missing):
            stacked = find_components(np.stack([missing[position].adjacency for position in positions]))
            for position, *components in zip(positions, *stacked, strict=True):
                vars(missing[position])["_components"] = Components(*components)
        return [h._components for h in graphs]

    @cached_property
    def components(self) -> tuple[PlayerIndices, ...]:
        """All strongly connected components: the largest first, then by smallest member; members ascending.

        Example:
            >>> RedundancyGraph([[False, False, True], [False] * 3, [True, False, False]], 0).components
            ((0, 2), (1,))
        """
        names, sizes = np.unique(self.component_of, return_counts=True)
        members = np.split(np.argsort(self.component_of, kind="stable"), np.cumsum(sizes)[:-1])
        return tuple(tuple(members[place].tolist()) for place in np.lexsort((names, -sizes)))

    @cached_property
    def groups(self) -> tuple[PlayerIndices, ...]:
        """Mutually redundant players: the strongly connected components of H with more than one member.

        If the value never falls when a player joins (a monotone game), H at gamma = 0 is transitive and every member
        makes every other one redundant. Otherwise two members may be joined by a path alone, and what one adds once the
        other is present can exceed gamma.

        Example:
            >>> RedundancyGraph([[False, False, True], [False] * 3, [True, False, False]], 0).groups
            ((0, 2),)
        """
        return tuple(members for members in self.components if len(members) > 1)

    def representatives(self, scores: ArrayLike | None = None) -> PlayerIndices:
        """Return the players left when each group is reduced to one; players in no group all stay.

        Args:
            scores: (F,), such as `ExplanationGraph.ranking()`. Each group keeps its highest score; of ties
                (to 1e-12 of the largest magnitude) the lowest index. None keeps the lowest index.

        Example:
            >>> h = RedundancyGraph([[False, True, False], [True, False, False], [False] * 3], 0)
            >>> h.representatives([0.1, 0.7, 0.2])
            (1, 2)
        """
        shape = (self.n_players,)
        values = read_only_floats(np.zeros(shape) if scores is None else scores, "scores", shape=shape)
        levels = tie_levels(values).tolist()
        return tuple(sorted(min(members, key=lambda m: (levels[m], m)) for members in self.components))

    @cached_property
    def component_edges(self) -> BoolArray:
        """(C, C) whether an edge of H leads from one component to another, numbered as in `components`.

        Example:
            >>> RedundancyGraph([[False, True], [False, False]], 0).component_edges
            array([[False,  True],
                   [False, False]])
        """
        number_of = np.empty(self.n_players, dtype=np.intp)
        for number, members in enumerate(self.components):
            number_of[list(members)] = number
        source, target = np.nonzero(self.adjacency)
        edges = np.zeros((len(self.components),) * 2, dtype=np.bool_)
        edges[number_of[source], number_of[target]] = True
        np.fill_diagonal(edges, False)
        return edges

    def quotient(self) -> "nx.DiGraph":
        """Return the condensation of H, a DAG: one node per component, numbered as in `components`.

        Nodes carry `members` (indices) and `names`.

        Example:
            >>> h = RedundancyGraph([[False, True, True], [True, False, True], [False] * 3], 0, names="abc")
            >>> h.quotient().nodes[0]["names"], list(h.quotient().edges)
            (('a', 'b'), [(0, 1)])
        """
        import networkx as nx

        graph = nx.DiGraph()
        for node, members in enumerate(self.components):
            graph.add_node(node, members=members, names=tuple(self.names[m] for m in members))
        graph.add_edges_from(np.argwhere(self.component_edges).tolist())
        return graph

    @property
    def sources(self) -> PlayerIndices:
        """Players of components that make others redundant and that no other component makes redundant.

        Components with outgoing and without incoming edges in the condensation.

        Example:
            >>> RedundancyGraph([[False, True], [False, False]], 0).sources
            (0,)
        """
        return self.sources_and_sinks()[0]

    @property
    def sinks(self) -> PlayerIndices:
        """Players of components that another component makes redundant and that make no other redundant.

        Components with incoming and without outgoing edges in the condensation.

        Example:
            >>> RedundancyGraph([[False, True], [False, False]], 0).sinks
            (1,)
        """
        return self.sources_and_sinks()[1]

    def sources_and_sinks(self, convention: SourceSinkConvention = "default") -> tuple[PlayerIndices, PlayerIndices]:
        """Return sources and sinks of H, expanded from components to players.

        Args:
            convention: "default" takes all components without incoming / outgoing edges. "paper" takes those
                of the smallest / largest PageRank in each weakly connected part: the same sources, but usually one
                sink out of several and on large graphs sometimes a component that is no sink. Parts of a single
                component have neither.

        Example:
            >>> h = RedundancyGraph([[False, True, True], [False] * 3, [False] * 3], 0)
            >>> h.sources_and_sinks("paper")
            ((0,), (1, 2))
        """
        check_choice(convention, SourceSinkConvention, "convention")
        if convention not in self._directions:
            find = self._pagerank_extremes if convention == "paper" else self._all_sources_and_sinks
            self._directions[convention] = find()
        return self._directions[convention]

    # Metrics, tables and figures use both, some of them several times.
    @cached_property
    def _directions(self) -> dict[SourceSinkConvention, tuple[PlayerIndices, PlayerIndices]]:
        return {}

    def _all_sources_and_sinks(self) -> tuple[PlayerIndices, PlayerIndices]:
        sources, sinks = map(np.flatnonzero, self._components[1:])
        return tuple(sources.tolist()), tuple(sinks.tolist())

    @cached_property
    def transitivity(self) -> float:
        """Share of the paths i -> j -> k (distinct players) closed by i -> k, 0 to 1; 1 if there are none.

        Example:
            >>> RedundancyGraph([[False, True, False], [False, False, True], [False] * 3], 0).transitivity
            0.0
        """
        # Single precision counts exactly up to 2**24 players and halves the time of the product.
        edges = self.adjacency.astype(np.float32)
        paths = edges @ edges
        np.fill_diagonal(paths, 0.0)
        n_paths = paths.sum(dtype=np.float64)
        return float(paths[self.adjacency].sum(dtype=np.float64) / n_paths) if n_paths else 1.0

    def to_networkx(self) -> "nx.DiGraph":
        """Return a `networkx.DiGraph` of the redundant edges; nodes are indices with `name`.

        Example:
            >>> list(RedundancyGraph([[False, True], [False, False]], 0).to_networkx().edges)
            [(0, 1)]
        """
        return conversion.redundancy_to_networkx(self)

    def to_dataframe(self) -> "pd.DataFrame":
        """Return a table of edges: source and target (names), status "redundant" or "undecided". Needs pandas.

        Example:
            >>> print(RedundancyGraph([[False, True], [False, False]], 0, names=["a", "b"]).to_dataframe())
              source target     status
            0      a      b  redundant
        """
        return conversion.redundancy_to_dataframe(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to a `.npz` or `.json` file, replacing it in one step.

        Args:
            path: Its suffix chooses the format.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     RedundancyGraph([[False, True], [False, False]], 0).save(f"{folder}/h.json")
            ...     RedundancyGraph.load(f"{folder}/h.json").sinks
            (1,)
        """
        fields = {name: getattr(self, name) for name in _FIELDS}
        write_record(path, _KIND, {**fields, "names": np.array(self.names)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "RedundancyGraph":
        """Read a graph that `save` wrote; torch is not needed.

        Args:
            path: A `.npz` or `.json` file.

        Raises:
            ValueError: The file is damaged, of another kind, of a later version, or holds no valid graph.

        Example:
            See `save`.
        """
        record = read_record(path, _KIND, _FIELDS)
        adjacency, gamma = record["adjacency"], record["gamma"]
        try:
            return cls(adjacency, gamma, **{name: record[name] for name in _FIELDS[2:]})
        except (TypeError, ValueError) as error:
            raise ValueError(f"`path` must hold a valid graph, got {os.fspath(path)}: {error}") from error

    def _pagerank_extremes(self) -> tuple[PlayerIndices, PlayerIndices]:
        """Return players of lowest and of highest PageRank in each weakly connected part of at least two components.

        Scores of such a part are never all equal: a successor of a source always receives more than the source.
        """
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import connected_components

        lowest, highest = [], []
        edges = csr_matrix(self.component_edges, dtype=np.float64)
        n_parts, part_of = connected_components(edges, connection="weak")
        for part in range(n_parts):
            nodes = np.flatnonzero(part_of == part)
            if len(nodes) > 1:
                levels = tie_levels(pagerank_of_one(edges[nodes][:, nodes]))
                lowest += nodes[levels == levels.max()].tolist()
                highest += nodes[levels == 0].tolist()
        return self._expand(lowest), self._expand(highest)

    def _expand(self, nodes: Iterable[int]) -> PlayerIndices:
        return tuple(sorted(player for node in nodes for player in self.components[node]))
