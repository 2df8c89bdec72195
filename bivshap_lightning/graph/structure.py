"""The two parts of bivariate Shapley values: a number per player, and a symmetric number per pair.

For every game, `E2[i, j] = R[i] + C[i, j]` off the diagonal with a symmetric C:

* `R[i] = (sum_j E2[i, j] + phi[i]) / (F + 1)`, the potential: the importance of i when it joins late.
* `C[i, j]`, the pairwise part: negative for substitutes, positive for complements.
  `sum_j C[i, j] = 2 R[i] - phi[i]`.

So the direction of an edge is a difference of potentials: `E2[i, j] - E2[j, i] = R[i] - R[j]`.

All functions take one graph or a stack of graphs of one size, E2 oriented as above (the transpose of graph weights).
They use nothing but what arrays and torch tensors have in common, so that both may be passed.
"""

import numpy as np

from bivshap_lightning.graph.checks import FloatArray


def potential(e2: FloatArray, shapley: FloatArray) -> FloatArray:
    """Return R, (..., F).

    Args:
        e2: (..., F, F), diagonal zero.
        shapley: (..., F).

    Example:
        >>> potential(np.array([[0, 1 / 2], [0, 0]]), np.array([3 / 2, 1 / 2])).round(3)  # max(2a, b)
        array([0.667, 0.167])
    """
    late: FloatArray = (e2.sum(axis=-1) + shapley) / (e2.shape[-1] + 1)
    return late


def potential_error(standard_error: FloatArray, shapley_error: FloatArray) -> FloatArray:
    """Return an upper bound of the standard error of R, (..., F).

    The errors of one row come from the same model evaluations, so they are taken as fully correlated.

    Args:
        standard_error: (..., F, F) of E2.
        shapley_error: (..., F).

    Example:
        >>> potential_error(np.array([[0, 0.2], [0.4, 0]]), np.array([0.1, 0.2])).round(3)
        array([0.1, 0.2])
    """
    return potential(standard_error, shapley_error)


def pairwise(e2: FloatArray, shapley: FloatArray) -> FloatArray:
    """Return C, (..., F, F): its symmetric part, because the antisymmetric part of an estimate is noise.

    Args:
        e2: (..., F, F), diagonal zero.
        shapley: (..., F).

    Example:
        >>> pairwise(np.array([[0, 1 / 2], [0, 0]]), np.array([3 / 2, 1 / 2])).round(3)  # max(2a, b)
        array([[ 0.   , -0.167],
               [-0.167,  0.   ]])
    """
    difference = e2 - potential(e2, shapley)[..., None]
    symmetric = (difference + difference.swapaxes(-1, -2)) / 2
    return _without_diagonal(symmetric)


def pairwise_error_before_symmetrizing(standard_error: FloatArray, shapley_error: FloatArray) -> FloatArray:
    """Return an upper bound of the standard error of `E2 - R`, (..., F, F), if errors of one row do not anticorrelate.

    The errors of a row are taken as independent: shared evaluations correlate them positively, and what they share
    cancels in the difference.

    Args:
        standard_error: (..., F, F) of E2.
        shapley_error: (..., F).

    Example:
        >>> pairwise_error_before_symmetrizing(np.array([[0, 0.3], [0.3, 0]]), np.zeros(2)).round(3)
        array([[0. , 0.2],
               [0.2, 0. ]])
    """
    n_players = standard_error.shape[-1]
    variance = standard_error**2
    # E2[i, j] - R[i] holds E2[i, j] with weight F / (F + 1), and the rest of the row and phi with -1 / (F + 1).
    shared = (variance.sum(axis=-1) + shapley_error**2)[..., None]
    total = (shared + (n_players**2 - 1) * variance) / (n_players + 1) ** 2
    return _without_diagonal(total**0.5)


def pairwise_error(standard_error: FloatArray, shapley_error: FloatArray) -> FloatArray:
    """Return an upper bound of the standard error of C, (..., F, F).

    Some estimators are symmetric by construction, so the errors of the two directions are taken as fully correlated.

    Args:
        standard_error: (..., F, F) of E2.
        shapley_error: (..., F).

    Example:
        >>> pairwise_error(np.array([[0, 0.3], [0.1, 0]]), np.zeros(2)).round(3)
        array([[0.   , 0.133],
               [0.133, 0.   ]])
    """
    error = pairwise_error_before_symmetrizing(standard_error, shapley_error)
    bound: FloatArray = (error + error.swapaxes(-1, -2)) / 2
    return bound


def _without_diagonal(matrix: FloatArray) -> FloatArray:
    players = np.arange(matrix.shape[-1])
    matrix[..., players, players] = 0.0
    return matrix
