"""Scores of the players of a directed graph, and which of them are equal.

Mass flows along the edges, so the player that receives the most scores highest.
"""

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.graph.checks import FloatArray

TIE_TOLERANCE = 1e-12
"""Values closer than this share of the largest magnitude are tied."""

HITS_ROUNDS = 1_000


def positive_weights(weights: FloatArray) -> FloatArray:
    """`softplus(W)`, diagonal included: what the walk of the ranking runs on.

    The paper adds 1e-70 first, which no float64 can show after softplus.

    Example:
        >>> positive_weights(np.zeros((1, 1))).round(4)
        array([[0.6931]])
    """
    softplus: FloatArray = np.logaddexp(0.0, weights)
    return softplus


def restart_from(shapley: FloatArray) -> FloatArray:
    """Restart weights from signed Shapley values: those above zero, or the largest one if there is none.

    The paper's fallback is `phi - max(phi) + 1e-70`; clipped at zero, only the largest value survives.

    Example:
        >>> restart_from(np.array([0.5, -1.0])), restart_from(np.array([-2.0, -1.0]))
        (array([0.5, 0. ]), array([0., 1.]))
    """
    positive = np.maximum(shapley, 0.0)
    if positive.any():
        return positive
    largest: FloatArray = (shapley == shapley.max()).astype(np.float64)
    return largest


def pagerank(adjacency: FloatArray, restart: FloatArray | None = None) -> FloatArray:
    """scikit-network's PageRank with its defaults: damping 0.85, at most 10 iterations, tolerance 1e-6.

    Example:
        >>> pagerank(np.ones((2, 2)))
        array([0.5, 0.5])
    """
    # Imported where it is used, like networkx: reading a stored graph should not cost a second.
    from sknetwork.ranking import PageRank

    scores: FloatArray = PageRank().fit_predict(adjacency, restart)
    return scores


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

    Example:
        >>> tie_levels(np.array([0.1, 0.3, 0.1 + 1e-17]))
        array([1, 0, 1])
    """
    descending = np.argsort(-values, kind="stable")
    gaps = -np.diff(values[descending])
    levels = np.zeros(len(values), dtype=np.intp)
    levels[descending[1:]] = np.cumsum(gaps > TIE_TOLERANCE * np.abs(values).max())
    return levels
