"""Many graphs at once: what takes a moment for one small graph takes hardly longer for a hundred of them.

A metric asks the same of every sample's graph, so graphs of one size go through NumPy and SciPy as one stack here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.graph.checks import BoolArray, FloatArray
from bivshap_lightning.graph.ranking import authorities, order_of, pagerank, positive_weights, restart_from

if TYPE_CHECKING:
    from bivshap_lightning.graph.explanation_graph import ExplanationGraph

RankingMethod = Literal["pagerank", "hits"]
IndexArray = NDArray[np.intp]

ELEMENTS_PER_STACK = 2**20
"""Matrix entries in one stack: more than small graphs need to be fast, and no burden on memory for large ones."""


class Ranking(NamedTuple):
    """What is known of a ranked graph, (F,) each."""

    scores: FloatArray
    order: IndexArray
    """Players by descending score."""
    places: IndexArray
    """The place of each player in that order."""


def rank_all(
    graphs: Sequence[ExplanationGraph], *, personalized: bool = False, method: RankingMethod = "pagerank"
) -> list[Ranking]:
    """`ranking` and `order` of each graph. The graphs keep them, so they are not for writing.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> graphs = [ExplanationGraph([[0, 1], [0, 0]]), ExplanationGraph([[0.0]])]
        >>> [ranking.order for ranking in rank_all(graphs)]
        [array([1, 0]), array([0])]
    """
    key = (personalized, method)
    unranked = [graph for graph in dict.fromkeys(graphs) if key not in graph._rankings]
    for chosen in stacks((graph.n_players, graph.shapley is None) for graph in unranked):
        stack = [unranked[place] for place in chosen]
        shapley = None if stack[0].shapley is None else np.array([graph.shapley for graph in stack])
        adjacency = positive_weights(np.stack([graph.weights for graph in stack]))
        scores = _scores(adjacency, shapley, personalized=personalized, method=method)
        order = order_of(scores, shapley)
        places = np.empty_like(order)
        np.put_along_axis(places, order, np.arange(order.shape[1]), axis=1)
        for graph, *ranking in zip(stack, scores, order, places, strict=True):
            graph._rankings[key] = Ranking(*ranking)
    return [graph._rankings[key] for graph in graphs]


def _scores(
    adjacency: FloatArray, shapley: FloatArray | None, *, personalized: bool, method: RankingMethod
) -> FloatArray:
    if method == "hits":
        if personalized:
            raise ValueError("`personalized` must be False for HITS, got True. Only method='pagerank' has restarts.")
        return np.stack([authorities(matrix) for matrix in adjacency])
    if not personalized:
        return pagerank(adjacency)
    if shapley is None:
        raise ValueError("`personalized` must be False without Shapley values, got True. Pass `shapley` to the graph.")
    return pagerank(adjacency, restart_from(shapley))


class Condensation(NamedTuple):
    """H with every strongly connected component taken as one, in terms of players: (..., F) each."""

    component_of: IndexArray
    """Named after its smallest member."""
    is_source: BoolArray
    """In a component that edges only leave."""
    is_sink: BoolArray
    """In a component that edges only enter."""


def condense(adjacency: BoolArray) -> Condensation:
    """The condensation of each of many graphs.

    Args:
        adjacency: (..., F, F), diagonal False.

    Example:
        >>> ring, chain = [[0, 0, 1], [0, 0, 0], [1, 0, 0]], [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
        >>> condensation = condense(np.array([ring, chain], dtype=np.bool_))
        >>> condensation.component_of
        array([[0, 1, 0],
               [0, 1, 2]])
        >>> condensation.is_sink
        array([[False, False, False],
               [False, False,  True]])
    """
    # Imported where it is used, like networkx: reading a stored graph should not take half a second.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n_players, n_nodes = adjacency.shape[-1], adjacency[..., 0].size
    # One graph of them all side by side: its components are theirs.
    edges = np.flatnonzero(adjacency)
    if adjacency.size < 2**31:
        edges = edges.astype(np.int32)  # SciPy's own index type, wherever it is enough
    source = edges // n_players
    target = edges + (source // n_players - source) * n_players
    ends = np.cumsum(np.bincount(source, minlength=n_nodes))
    entries = (np.ones(len(target)), target, np.concatenate(([0], ends)))
    _, labels = connected_components(csr_array(entries, shape=(n_nodes, n_nodes)), connection="strong")
    smallest = np.empty(n_nodes, dtype=np.intp)
    smallest[labels[::-1]] = np.arange(n_nodes)[::-1] % n_players  # of equal labels the last one is written
    left, entered = labels[source], labels[target]
    crosses = left != entered
    is_left, is_entered = np.zeros((2, n_nodes), dtype=np.bool_)
    is_left[left[crosses]] = True
    is_entered[entered[crosses]] = True
    by_component = smallest, is_left & ~is_entered, is_entered & ~is_left
    return Condensation(*(values[labels].reshape(adjacency.shape[:-1]) for values in by_component))


def stacks(kinds: Iterable[tuple[int, ...]]) -> Iterator[list[int]]:
    """Places of items of one kind, which starts with F, as many at a time as go into one stack.

    Example:
        >>> list(stacks([(3,), (5,), (3,)]))
        [[0, 2], [1]]
    """
    alike: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, kind in enumerate(kinds):
        alike[kind].append(place)
    for (n_players, *_), places in alike.items():
        step = max(1, ELEMENTS_PER_STACK // n_players**2)
        yield from (places[start : start + step] for start in range(0, len(places), step))
