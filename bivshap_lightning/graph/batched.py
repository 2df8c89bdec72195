"""Rankings and strongly connected components of many graphs at once.

Metrics need the same result for the graph of every sample. Graphs of one size are stacked and computed together,
which takes hardly longer for a hundred small graphs than for one (benchmarks/bench_metrics.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.graph.checks import BoolArray, FloatArray
from bivshap_lightning.graph.greedy import LOOK_AHEAD, greedy_order, holding_order, is_greedy_order, signal_share
from bivshap_lightning.graph.ranking import (
    descending_order,
    hits,
    hits_of_one,
    pagerank,
    pagerank_of_one,
    ranks_from_order,
    restart_weights,
    softplus,
)
from bivshap_lightning.graph.structure import pairwise, pairwise_error_before_symmetrizing

if TYPE_CHECKING:
    from bivshap_lightning.graph.explanation_graph import ExplanationGraph

RankingMethod = Literal["keep", "remove", "hold", "shapley", "pagerank", "hits"]
IndexArray = NDArray[np.intp]

ELEMENTS_PER_STACK = 2**20
"""Matrix entries in one stack: enough for small graphs to be fast, little memory for large ones."""


class RankedPlayers(NamedTuple):
    """The ranking of one graph, (F,) each."""

    scores: FloatArray
    order: IndexArray
    """Players by descending score."""
    ranks: IndexArray
    """The rank of each player, 0 for the most important one."""


def rank_all(
    graphs: Sequence[ExplanationGraph],
    *,
    method: RankingMethod | None = None,
    default: RankingMethod = "keep",
    personalized: bool = False,
    oriented: bool = True,
) -> list[RankedPlayers]:
    """Return the ranking of each graph. The graphs cache it: do not write to the arrays.

    Args:
        graphs: Of any sizes.
        method: As in :meth:`~bivshap_lightning.ExplanationGraph.ranking`; None for `method_of` each graph.
        default: Of graphs with Shapley values where no method is given.
        personalized: As in `ranking`.
        oriented: Whether graphs of games with u(all) < u(none) are ranked with all signs reversed.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> graphs = [ExplanationGraph([[0, 1], [0, 0]]), ExplanationGraph([[0.0]])]
        >>> [ranking.order for ranking in rank_all(graphs)]
        [array([1, 0]), array([0])]
    """
    if method is None:
        methods = [method_of(graph, default, personalized=personalized) for graph in graphs]
        for one in dict.fromkeys(methods):
            members = [graph for graph, its in zip(graphs, methods, strict=True) if its == one]
            rank_all(members, method=one, personalized=personalized, oriented=oriented)
        return [graph._rankings[its, personalized, oriented] for graph, its in zip(graphs, methods, strict=True)]
    key = (method, personalized, oriented)
    unranked = [graph for graph in dict.fromkeys(graphs) if key not in graph._rankings]
    ranked_from = [_ranked_graph(graph, method) for graph in unranked]
    for chosen in same_size_stacks((graph.n_players, graph.shapley is None) for graph in ranked_from):
        stack = [ranked_from[place] for place in chosen]
        signs = np.array([graph.sign if oriented else 1.0 for graph in stack])
        shapley = None if stack[0].shapley is None else np.array([graph.shapley for graph in stack]) * signs[:, None]
        if method in ("keep", "remove", "hold", "shapley") or personalized:
            _check_shapley(shapley, method)
        prior = _priors([unranked[place] for place in chosen], stack, method, oriented=oriented)
        scores, order = _scores_and_order(stack, signs, shapley, prior, method=method, personalized=personalized)
        for place, *ranking in zip(chosen, scores, order, ranks_from_order(order), strict=True):
            unranked[place]._rankings[key] = RankedPlayers(*ranking)
    return [graph._rankings[key] for graph in graphs]


def method_of(graph: ExplanationGraph, default: RankingMethod = "keep", *, personalized: bool = False) -> RankingMethod:
    """Return how a graph is ranked where no method is given.

    Without Shapley values, which all others need, that is PageRank. A mean over samples is ranked by mean absolute
    Shapley values: mean absolute values are not those of a game, on which players could be selected.

    Args:
        graph: G.
        default: Of a graph with Shapley values.
        personalized: Whether a personalised ranking is asked for, which only PageRank is.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> method_of(ExplanationGraph([[0, 1], [0, 0]])), method_of(ExplanationGraph([[0, 1], [0, 0]], shapley=[1, 1]))
        ('pagerank', 'keep')
    """
    if personalized or graph.shapley is None:
        return "pagerank"
    return default if graph.absolute is None else "shapley"


def rank_one(graph: ExplanationGraph) -> RankedPlayers:
    """Return the default ranking of one graph, computed by itself whatever is cached.

    A cached ranking may come from a stack of graphs and differ in the last digits. Records use this one, so that they
    are the same whether a graph was just computed or read from a file.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> rank_one(ExplanationGraph([[0, 1], [0, 0]])).order
        array([1, 0])
    """
    method = method_of(graph)
    source = _ranked_graph(graph, method)
    sign = np.array([source.sign])
    shapley = None if source.shapley is None else source.shapley[None] * sign[:, None]
    prior = _priors([graph], [source], method, oriented=True)
    scores, order = _scores_and_order([source], sign, shapley, prior, method=method, personalized=False)
    return RankedPlayers(scores[0], order[0], ranks_from_order(order)[0])


def is_possible_ranking(graph: ExplanationGraph, order: IndexArray, scores: FloatArray, tolerance: float) -> bool:
    """Return whether a default ranking is that of a graph, up to rounding of the graph's values.

    Args:
        graph: G.
        order: (F,) players, best first.
        scores: (F,) their scores, in the same order.
        tolerance: share of the largest values by which they may have been changed.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> graph = ExplanationGraph([[0, 1], [0, 0]], shapley=[1, 3])
        >>> ranked = rank_one(graph)
        >>> is_possible_ranking(graph, ranked.order, ranked.scores[ranked.order], 1e-6)
        True
        >>> is_possible_ranking(graph, ranked.order[::-1], ranked.scores[ranked.order], 1e-6)
        False
    """
    found = rank_one(graph)
    expected = found.scores[found.order]
    slack = tolerance * max(float(np.abs(expected).max()), np.finfo(np.float64).tiny)
    if np.abs(scores - expected).max() > slack:
        return False
    if method_of(graph) != "keep":
        return bool(np.abs(found.scores[order] - scores).max() <= slack)
    source = _ranked_graph(graph, "keep")
    values = source.weights.T * source.sign, source.known_shapley * source.sign, signal_of(source)
    prior = shapley_prior(graph, source)
    # Records of 0.1.0 have the order of greedy selection that does not look ahead.
    return any(
        is_greedy_order(order, *values, tolerance=tolerance, prior=prior, look_ahead=q) for q in (LOOK_AHEAD, 0.0)
    )


def _ranked_graph(graph: ExplanationGraph, method: RankingMethod) -> ExplanationGraph:
    """Return the graph whose values are ranked: of log-odds for greedy selection, absolute ones of a mean graph."""
    if method in ("keep", "remove") and graph.log_odds is not None:
        graph = graph.log_odds
    return graph if graph.absolute is None else graph.absolute


def shapley_prior(graph: ExplanationGraph, source: ExplanationGraph, *, oriented: bool = True) -> FloatArray:
    """Return what "keep" and "remove" fall back to as noise grows, (F,): the graph's own Shapley values.

    Those of log-odds order players worse: an output near 0 or 1 counts there as much as a change of the decision.

    Args:
        graph: That is ranked.
        source: Whose values are ranked, such as the graph of its log-odds; the prior has its scale.
        oriented: Whether values are multiplied by `sign`.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> log_odds = ExplanationGraph([[0, 2], [2, 0]], shapley=[4, 4])
        >>> graph = ExplanationGraph([[0, 0.1], [0.3, 0]], shapley=[0.6, 0.2], log_odds=log_odds)
        >>> shapley_prior(graph, log_odds).round(6).tolist()
        [6.0, 2.0]
    """
    own = source if graph.shapley is None else graph if graph.absolute is None else graph.absolute
    phi: FloatArray = own.known_shapley * (own.sign if oriented else 1.0)
    whole = float(np.abs(phi).sum())
    if own is source or whole == 0:
        return phi
    return phi * (float(np.abs(source.known_shapley).sum()) / whole)


def signal_of(graph: ExplanationGraph) -> FloatArray:
    """Return the weight of the gains of "keep" and "remove" against the prior, (): 1 for exact values.

    Args:
        graph: Whose values are ranked.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> signal_of(ExplanationGraph([[0, 2], [2, 0]], shapley=[4, 4]))
        array(1.)
    """
    if not graph.is_estimated:
        return np.array(1.0)
    pair = pairwise(graph.weights.T[None], graph.known_shapley[None])
    share: FloatArray = signal_share(pair, _pairwise_noise(graph)[None])[0, ...]
    return share


def _priors(
    graphs: Sequence[ExplanationGraph], stack: Sequence[ExplanationGraph], method: RankingMethod, *, oriented: bool
) -> FloatArray | None:
    if method not in ("keep", "remove"):
        return None
    pairs = zip(graphs, stack, strict=True)
    return np.stack([shapley_prior(graph, source, oriented=oriented) for graph, source in pairs])


def _check_shapley(shapley: FloatArray | None, method: RankingMethod) -> None:
    if shapley is None and method == "pagerank":
        raise ValueError("`personalized` must be False without Shapley values, got True. Pass `shapley` to the graph.")
    if shapley is None:
        raise ValueError(
            f"`method` must be 'pagerank' or 'hits' without Shapley values, got {method!r}. "
            "Pass `shapley` to the graph."
        )


def _scores_and_order(
    stack: Sequence[ExplanationGraph],
    signs: FloatArray,
    shapley: FloatArray | None,
    prior: FloatArray | None,
    *,
    method: RankingMethod,
    personalized: bool,
) -> tuple[FloatArray, IndexArray]:
    """Return (N, F) scores and players by descending score."""
    weights = np.stack([graph.weights for graph in stack]) * signs[:, None, None]
    if method in ("keep", "remove", "hold") and shapley is not None:
        order = _greedy(stack, np.swapaxes(weights, 1, 2), shapley, prior, method)
        n_players = order.shape[1]
        scores = (n_players - ranks_from_order(order)) / (n_players * (n_players + 1) / 2)
        return scores, order
    if method == "shapley" and shapley is not None:
        return shapley, descending_order(shapley)
    if method == "hits" and personalized:
        raise ValueError("`personalized` must be False for HITS, got True. Only method='pagerank' has restarts.")
    adjacency = softplus(weights)
    if method == "hits":
        scores = hits_of_one(adjacency[0])[None] if len(stack) == 1 else hits(adjacency)
    else:
        restart = restart_weights(shapley) if personalized and shapley is not None else None
        scores = _pagerank(adjacency, restart)
    return scores, descending_order(scores, shapley)


def _pagerank(adjacency: FloatArray, restart: FloatArray | None) -> FloatArray:
    if len(adjacency) == 1:
        return pagerank_of_one(adjacency[0], None if restart is None else restart[0])[None]
    return pagerank(adjacency) if restart is None else pagerank(adjacency, restart)


def _greedy(
    stack: Sequence[ExplanationGraph],
    e2: FloatArray,
    shapley: FloatArray,
    prior: FloatArray | None,
    method: RankingMethod,
) -> IndexArray:
    signal = np.ones(len(stack))
    noisy = [place for place, graph in enumerate(stack) if graph.is_estimated]
    if noisy:
        errors = np.stack([_pairwise_noise(stack[place]) for place in noisy])
        signal[noisy] = signal_share(pairwise(e2[noisy], shapley[noisy]), errors)
    if method == "hold":
        return holding_order(e2, shapley, signal)
    return greedy_order(e2, shapley, signal, remove=method == "remove", prior=prior)


def _pairwise_noise(graph: ExplanationGraph) -> FloatArray:
    """Return standard errors of C: as given, otherwise those of E2 - R before it is made symmetric."""
    if graph.pairwise_standard_error is not None:
        return graph.pairwise_standard_error
    return pairwise_error_before_symmetrizing(graph.standard_error.T, graph.shapley_standard_error)


class Components(NamedTuple):
    """The strongly connected components of H as seen from the players, (..., F) each."""

    component_of: IndexArray
    """The smallest member of the player's component."""
    is_source: BoolArray
    """In a component with outgoing and without incoming edges."""
    is_sink: BoolArray
    """In a component with incoming and without outgoing edges."""


def find_components(adjacency: BoolArray) -> Components:
    """Return the strongly connected components of each graph of a stack, with sources and sinks.

    Args:
        adjacency: (..., F, F), diagonal False.

    Example:
        >>> cycle, chain = [[0, 0, 1], [0, 0, 0], [1, 0, 0]], [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
        >>> components = find_components(np.array([cycle, chain], dtype=np.bool_))
        >>> components.component_of
        array([[0, 1, 0],
               [0, 1, 2]])
        >>> components.is_sink
        array([[False, False, False],
               [False, False,  True]])
    """
    # Imported on use, like networkx: reading a stored graph should not take half a second.
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    n_players, n_nodes = adjacency.shape[-1], adjacency[..., 0].size
    # One block-diagonal graph of all of them: no component reaches across blocks.
    edges = np.flatnonzero(adjacency)
    if adjacency.size < 2**31:
        edges = edges.astype(np.int32)  # the index type of SciPy where it suffices
    source = edges // n_players
    target = edges + (source // n_players - source) * n_players
    ends = np.cumsum(np.bincount(source, minlength=n_nodes))
    entries = (np.ones(len(target)), target, np.concatenate(([0], ends)))
    # A matrix, because it takes 32-bit indices where they suffice: SciPy 1.11.1 prints an error about those of 64 bits
    # and returns labels of -9999.
    _, labels = connected_components(csr_matrix(entries, shape=(n_nodes, n_nodes)), connection="strong")
    smallest = np.empty(n_nodes, dtype=np.intp)
    smallest[labels[::-1]] = np.arange(n_nodes)[::-1] % n_players  # for equal labels NumPy keeps the last one written
    left, entered = labels[source], labels[target]
    crosses = left != entered
    is_left, is_entered = np.zeros((2, n_nodes), dtype=np.bool_)
    is_left[left[crosses]] = True
    is_entered[entered[crosses]] = True
    by_component = smallest, is_left & ~is_entered, is_entered & ~is_left
    return Components(*(values[labels].reshape(adjacency.shape[:-1]) for values in by_component))


def same_size_stacks(kinds: Iterable[tuple[int, ...]]) -> Iterator[list[int]]:
    """Yield the positions of items of one kind, at most `ELEMENTS_PER_STACK` matrix entries at a time.

    Args:
        kinds: A tuple per item that starts with F; equal tuples may be stacked.

    Example:
        >>> list(same_size_stacks([(3,), (5,), (3,)]))
        [[0, 2], [1]]
    """
    by_kind: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for position, kind in enumerate(kinds):
        by_kind[kind].append(position)
    for (n_players, *_), positions in by_kind.items():
        step = max(1, ELEMENTS_PER_STACK // n_players**2)
        yield from (positions[start : start + step] for start in range(0, len(positions), step))
