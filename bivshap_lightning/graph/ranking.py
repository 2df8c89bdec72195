"""Scores of the players of a directed graph, and which of them are equal.

Mass flows along the edges, so the player that receives the most scores highest.
"""

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.graph.checks import FloatArray

TIE_TOLERANCE = 1e-12
"""Values closer than this share of the largest magnitude are tied."""

DAMPING, PAGERANK_ROUNDS, PAGERANK_TOLERANCE = 0.85, 10, 1e-6
"""scikit-network's defaults."""

HITS_ROUNDS = 1_000

LARGE_WEIGHT = 40.0
"""From here on softplus is the identity, to the last bit of a float64."""


def positive_weights(weights: FloatArray) -> FloatArray:
    """`softplus(W)`, diagonal included: what the walk of the ranking runs on.

    The paper adds 1e-70 first, which no float64 can show after softplus.

    Example:
        >>> positive_weights(np.zeros((1, 1))).round(4)
        array([[0.6931]])
    """
    # One array, in place: np.logaddexp takes ten times as long, and more arrays cost more than what is done to them.
    with np.errstate(over="ignore"):
        softplus: FloatArray = np.exp(weights)
    np.log1p(softplus, out=softplus)
    if weights.max() > LARGE_WEIGHT:
        np.copyto(softplus, weights, where=weights > LARGE_WEIGHT)
    return softplus


def restart_from(shapley: FloatArray) -> FloatArray:
    """Restart weights from signed Shapley values: those above zero, or the largest one if there is none.

    The paper's fallback is `phi - max(phi) + 1e-70`; clipped at zero, only the largest value survives.

    Args:
        shapley: (..., F).

    Example:
        >>> restart_from(np.array([[0.5, -1.0], [-2.0, -1.0]]))
        array([[0.5, 0. ],
               [0. , 1. ]])
    """
    positive = np.maximum(shapley, 0.0)
    is_largest = shapley == shapley.max(axis=-1, keepdims=True)
    restart: FloatArray = np.where(positive.any(axis=-1, keepdims=True), positive, is_largest)
    return restart


def pagerank(adjacency: FloatArray, restart: FloatArray | None = None) -> FloatArray:
    """scikit-network's PageRank with its defaults, for dense graphs and for many of one size at once.

    What it computes is settled there: damping 0.85; at most 10 iterations from the restart vector; the iterate
    before the one that moves by less than 1e-6; dangling nodes pass on nothing and restart with full weight. Its own
    solver turns every graph into a sparse one first, which takes ten times as long as the walk.

    Args:
        adjacency: (..., F, F), no entry below zero.
        restart: (..., F), no entry below zero and not all zero. None restarts anywhere alike.

    Returns:
        (..., F) scores that sum to one.

    Example:
        >>> pagerank(np.array([[[1.0, 1.0], [1.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]])).round(3)
        array([[0.5  , 0.5  ],
               [0.112, 0.888]])
    """
    out_weight = adjacency @ np.ones(adjacency.shape[-1])  # in a fraction of the time of a sum over the last axis
    step = DAMPING / np.where(out_weight > 0, out_weight, 1.0)
    restart = np.ones(adjacency.shape[:-1]) if restart is None else restart
    base = (1 - DAMPING * (out_weight > 0)) * (restart / restart.sum(axis=-1, keepdims=True))
    scores, mass = base, base.sum(axis=-1, keepdims=True)
    is_settled = np.zeros((*base.shape[:-1], 1), dtype=np.bool_)
    for _ in range(PAGERANK_ROUNDS):
        following = ((scores * step)[..., None, :] @ adjacency)[..., 0, :]
        following += base * mass
        following /= following.sum(axis=-1, keepdims=True)
        is_settled |= np.abs(following - scores).sum(axis=-1, keepdims=True) < PAGERANK_TOLERANCE
        if is_settled.all():
            break
        scores, mass = np.where(is_settled, scores, following) if is_settled.any() else following, 1.0
    total: FloatArray = scores / scores.sum(axis=-1, keepdims=True)
    return total


def authorities(adjacency: FloatArray) -> FloatArray:
    """HITS authority scores, summing to one.

    Power iteration from the uniform vector, because scikit-network's HITS starts a Lanczos solver at a random
    one: its scores differ from call to call, and it refuses a single player.

    Example:
        >>> authorities(np.array([[0.0, 1.0], [0.0, 0.0]]))
        array([0., 1.])
    """
    scores = np.full(len(adjacency), 1 / len(adjacency))
    for _ in range(HITS_ROUNDS):
        previous, scores = scores, adjacency.T @ (adjacency @ scores)
        scores /= scores.sum()
        if np.abs(scores - previous).sum() < TIE_TOLERANCE:
            break
    return scores


def tie_levels(values: FloatArray) -> NDArray[np.intp]:
    """0 for the largest values, 1 for the next lower ones, and so on; tied values share a level.

    Symmetric players get scores that differ in the last bits only. Neighbours in sorted order are tied when
    their gap is at most `TIE_TOLERANCE` times the largest magnitude; unlike rounding, this has no boundary
    that could separate two nearly equal values.

    Args:
        values: (..., F), every row for itself.

    Example:
        >>> tie_levels(np.array([0.1, 0.3, 0.1 + 1e-17]))
        array([1, 0, 1])
    """
    return _levels(*_sorted_with_gaps(values))


def _levels(descending: NDArray[np.intp], is_gap: NDArray[np.bool_]) -> NDArray[np.intp]:
    levels = np.zeros_like(descending)
    np.put_along_axis(levels, descending[..., 1:], np.cumsum(is_gap, axis=-1), axis=-1)
    return levels


def _sorted_with_gaps(values: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(..., F) players by descending value, and (..., F - 1) whether one is above the next by more than a tie."""
    descending = np.argsort(-values, axis=-1, kind="stable")
    gaps = -np.diff(np.take_along_axis(values, descending, axis=-1), axis=-1)
    return descending, gaps > TIE_TOLERANCE * np.abs(values).max(axis=-1, keepdims=True)


def order_of(scores: FloatArray, tie_breaker: FloatArray | None = None) -> NDArray[np.intp]:
    """Players by descending score; of tied ones by descending tie-breaker, then by index.

    Args:
        scores: (..., F), every row for itself.
        tie_breaker: (..., F).

    Example:
        >>> order_of(np.array([0.1, 0.3, 0.1]), np.array([1.0, 2.0, 3.0]))
        array([1, 2, 0])
    """
    descending, is_gap = _sorted_with_gaps(scores)
    if is_gap.all():
        return descending
    levels = _levels(descending, is_gap)
    if tie_breaker is not None:
        levels = levels * levels.shape[-1] + tie_levels(tie_breaker)
    return np.argsort(levels, axis=-1, kind="stable")
