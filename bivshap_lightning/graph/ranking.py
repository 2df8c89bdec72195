"""PageRank and HITS scores of explanation graphs, and the sorting of scores with ties.

A single graph is scored by scikit-network. Metrics score hundreds of small dense graphs, for which the conversion to
sparse matrices takes ten times as long as the iteration (benchmarks/bench_metrics.py): `pagerank` and `hits` here
compute the same numbers for a stack of graphs at once and are tested against scikit-network.

Scores flow along the edges: the player that receives the most scores highest.
"""

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.graph.checks import FloatArray

TIE_TOLERANCE = 1e-12
"""Values closer than this share of the largest magnitude are tied."""

DAMPING, PAGERANK_ITERATIONS, PAGERANK_TOLERANCE = 0.85, 10, 1e-6
"""The defaults of scikit-network's PageRank."""

HITS_ITERATIONS = 1_000

LARGE_WEIGHT = 40.0
"""Above this value softplus equals the identity in float64."""


def softplus(weights: FloatArray) -> FloatArray:
    """Return `softplus(W)`, diagonal included: the positive weights that PageRank and HITS run on.

    The paper adds 1e-70 first, which has no effect in float64.

    Example:
        >>> softplus(np.zeros((1, 1))).round(4)
        array([[0.6931]])
    """
    # In place: np.logaddexp takes ten times as long.
    with np.errstate(over="ignore"):
        positive: FloatArray = np.exp(weights)
    np.log1p(positive, out=positive)
    if weights.max() > LARGE_WEIGHT:
        np.copyto(positive, weights, where=weights > LARGE_WEIGHT)
    return positive


def restart_weights(shapley: FloatArray) -> FloatArray:
    """Return the restart distribution, not normalised: positive Shapley values, or the largest one if none is positive.

    The paper's fallback is `phi - max(phi) + 1e-70`; clipped at zero, only the largest value remains.

    Args:
        shapley: (..., F).

    Example:
        >>> restart_weights(np.array([[0.5, -1.0], [-2.0, -1.0]]))
        array([[0.5, 0. ],
               [0. , 1. ]])
    """
    positive = np.maximum(shapley, 0.0)
    is_largest = shapley == shapley.max(axis=-1, keepdims=True)
    restart: FloatArray = np.where(positive.any(axis=-1, keepdims=True), positive, is_largest)
    return restart


def pagerank_of_one(adjacency: FloatArray, restart: FloatArray | None = None) -> FloatArray:
    """Return scikit-network's PageRank of one graph, with its defaults.

    Args:
        adjacency: (F, F), no negative entry, at least one positive.
        restart: (F,), no negative entry and not all zero. None restarts uniformly.

    Returns:
        (F,) scores that sum to one.

    Example:
        >>> pagerank_of_one(np.array([[0.0, 1.0], [0.0, 0.0]])).round(3)
        array([0.112, 0.888])
    """
    # Imported on use: reading a stored graph does not need it.
    from sknetwork.ranking import PageRank

    scores: FloatArray = PageRank().fit_predict(adjacency, restart)
    return scores


def hits_of_one(adjacency: FloatArray) -> FloatArray:
    """Return scikit-network's HITS authority scores of one graph, normalised to sum one.

    Args:
        adjacency: (F, F), no negative entry, at least one positive.

    Example:
        >>> hits_of_one(np.array([[0.0, 1.0], [0.0, 0.0]])).round(3)
        array([0., 1.])
    """
    from sknetwork.linalg import LanczosSVD
    from sknetwork.ranking import HITS

    class UniformStart(LanczosSVD):  # type: ignore[misc]  # scikit-network has no type information
        """Starts at a constant vector; the default start is random, and so would be the last digits of the scores."""

        def fit(self, matrix: object, n_components: int, init_vector: object = None) -> object:
            return super().fit(matrix, n_components, np.ones(len(adjacency)))

    if len(adjacency) == 1:
        return np.ones(1)  # the solver needs two players
    scores: FloatArray = HITS(UniformStart()).fit(adjacency).scores_col_
    scores /= scores.sum()
    return scores


def pagerank(adjacency: FloatArray, restart: FloatArray | None = None) -> FloatArray:
    """Return scikit-network's PageRank, with its defaults, of a stack of dense graphs of one size.

    Damping 0.85; at most 10 iterations from the restart vector; the iterate before the one that changes by less than
    1e-6; nodes without outgoing edges pass nothing on and restart with full weight.

    Args:
        adjacency: (..., F, F), no negative entry.
        restart: (..., F), no negative entry and not all zero. None restarts uniformly.

    Returns:
        (..., F) scores that sum to one.

    Example:
        >>> pagerank(np.array([[[1.0, 1.0], [1.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]])).round(3)
        array([[0.5  , 0.5  ],
               [0.112, 0.888]])
    """
    out_weight = adjacency @ np.ones(adjacency.shape[-1])  # faster than a sum over the last axis
    step = DAMPING / np.where(out_weight > 0, out_weight, 1.0)
    restart = np.ones(adjacency.shape[:-1]) if restart is None else restart
    base = (1 - DAMPING * (out_weight > 0)) * (restart / restart.sum(axis=-1, keepdims=True))
    scores, mass = base, base.sum(axis=-1, keepdims=True)
    has_converged = np.zeros((*base.shape[:-1], 1), dtype=np.bool_)
    for _ in range(PAGERANK_ITERATIONS):
        following = ((scores * step)[..., None, :] @ adjacency)[..., 0, :]
        following += base * mass
        following /= following.sum(axis=-1, keepdims=True)
        has_converged |= np.abs(following - scores).sum(axis=-1, keepdims=True) < PAGERANK_TOLERANCE
        if has_converged.all():
            break
        scores, mass = np.where(has_converged, scores, following) if has_converged.any() else following, 1.0
    total: FloatArray = scores / scores.sum(axis=-1, keepdims=True)
    return total


def hits(adjacency: FloatArray) -> FloatArray:
    """Return HITS authority scores of a stack of dense graphs of one size, by power iteration.

    Args:
        adjacency: (..., F, F), no negative entry.

    Returns:
        (..., F) scores that sum to one.

    Example:
        >>> hits(np.array([[0.0, 1.0], [0.0, 0.0]]))
        array([0., 1.])
    """
    scores = np.full(adjacency.shape[:-1], 1 / adjacency.shape[-1])
    transposed = np.swapaxes(adjacency, -1, -2)
    for _ in range(HITS_ITERATIONS):
        previous, scores = scores, (transposed @ (adjacency @ scores[..., None]))[..., 0]
        scores /= scores.sum(axis=-1, keepdims=True)
        if (np.abs(scores - previous).sum(axis=-1) < TIE_TOLERANCE).all():
            break
    return scores


def tie_levels(values: FloatArray) -> NDArray[np.intp]:
    """Return 0 for the largest values, 1 for the next lower ones, and so on; tied values share a level.

    Scores of symmetric players differ in the last digits only. Neighbours in sorted order are tied when their
    difference is at most `TIE_TOLERANCE` times the largest magnitude; unlike rounding, this has no boundary that could
    separate two nearly equal values.

    Args:
        values: (..., F), each row by itself.

    Example:
        >>> tie_levels(np.array([0.1, 0.3, 0.1 + 1e-17]))
        array([1, 0, 1])
    """
    return _levels(*_sorted_with_gaps(values))


def descending_order(scores: FloatArray, tie_breaker: FloatArray | None = None) -> NDArray[np.intp]:
    """Return players by descending score; tied ones by descending tie-breaker, then by index.

    Args:
        scores: (..., F), each row by itself.
        tie_breaker: (..., F).

    Example:
        >>> descending_order(np.array([0.1, 0.3, 0.1]), np.array([1.0, 2.0, 3.0]))
        array([1, 2, 0])
    """
    descending, is_gap = _sorted_with_gaps(scores)
    if is_gap.all():
        return descending
    levels = _levels(descending, is_gap)
    if tie_breaker is not None:
        levels = levels * levels.shape[-1] + tie_levels(tie_breaker)
    return np.argsort(levels, axis=-1, kind="stable")


def ranks_from_order(order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rank of each player, 0 for the first one of the order.

    Args:
        order: (..., F) players.

    Example:
        >>> ranks_from_order(np.array([2, 0, 1]))
        array([1, 2, 0])
    """
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(order.shape[-1]), order.shape), axis=-1)
    return ranks


def _levels(descending: NDArray[np.intp], is_gap: NDArray[np.bool_]) -> NDArray[np.intp]:
    levels = np.zeros_like(descending)
    np.put_along_axis(levels, descending[..., 1:], np.cumsum(is_gap, axis=-1), axis=-1)
    return levels


def _sorted_with_gaps(values: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return (..., F) players by descending value, and (..., F - 1) whether each is above the next beyond a tie."""
    descending = np.argsort(-values, axis=-1, kind="stable")
    gaps = -np.diff(np.take_along_axis(values, descending, axis=-1), axis=-1)
    return descending, gaps > TIE_TOLERANCE * np.abs(values).max(axis=-1, keepdims=True)
