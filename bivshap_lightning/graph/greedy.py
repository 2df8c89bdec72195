"""Rankings that use redundancy: greedy selection on the quadratic game with the same phi and E2.

`u2(S) = sum_{i in S} g[i] + 6 sum_{i < j in S} C[i, j]` with `g = 4 phi - 6 R` is the only quadratic game with the
Shapley values and bivariate Shapley values of the explained one. "keep" adds the player of the largest gain first, so a
duplicate of a chosen player comes late. "remove" takes away the player of the largest loss first, so duplicates go
together. "hold" is about a value that is to stay where it is, whether it is high or low: it takes away first what
leaves the value nearest to that of all players.

Gains of the first two look ahead: they are means over the players that are still to choose from, each of them already
added (or removed) with a chance of `LOOK_AHEAD`. All are shrunk by the noise of the pairwise part: with pure noise
"keep" and "remove" are the order of Shapley values, those of the decision's probability where the gains are of its
log-odds.
"""

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.graph import structure
from bivshap_lightning.graph.checks import FloatArray
from bivshap_lightning.graph.ranking import TIE_TOLERANCE, descending_order, ranks_from_order

SYMMETRIC_NOISE = 1 / 3
"""Squared error of the symmetric C over the squared standard error before it is made symmetric. Symmetrising halves
independent noise, and the standard errors are conservative: between seeds 1/2 to 1/7 was seen on trained models."""

LOOK_AHEAD = 0.2
"""The chance. At 0 greedy selection is myopic and trusts the quadratic game at the empty set, where it fits worst:
"keep" was then significantly below the order of Shapley values on 14 of 108 enumerated games of tables and digits, all
14 with background rows, and from 0.15 to 0.3 on one. At 1/2 the first player is that of the largest Shapley value."""


def signal_share(pairwise: FloatArray, error: FloatArray) -> FloatArray:
    """Return the share of the squared pairwise part that is not noise, (N,): 1 for exact values, 0 for pure noise.

    Args:
        pairwise: (N, F, F) C.
        error: (N, F, F) standard errors of C before it is made symmetric.

    Example:
        >>> pair = np.array([[[0.0, -0.2], [-0.2, 0.0]]])
        >>> signal_share(pair, np.abs(pair)).round(3)
        array([0.667])
    """
    noise = SYMMETRIC_NOISE * np.square(error).mean(axis=(1, 2))
    total = np.square(pairwise).mean(axis=(1, 2))
    share: FloatArray = np.clip(1 - noise / np.where(total > 0, total, 1.0), 0.0, 1.0)
    return share


def shrunk_gains(
    e2: FloatArray,
    shapley: FloatArray,
    signal: FloatArray,
    *,
    remove: bool = False,
    prior: FloatArray | None = None,
    look_ahead: float = LOOK_AHEAD,
) -> tuple[FloatArray, FloatArray]:
    """Return the gain of each player before any is chosen, (..., F), and what each chosen one adds to those of others.

    Args:
        e2: (..., F, F).
        shapley: (..., F).
        signal: (...) weight of the gains against the prior, from `signal_share`.
        remove: Whether players are removed from all players instead of added to none; gains are then losses.
        prior: (..., F) what decides without signal, in the units of the gains; by default the Shapley values.
        look_ahead: The chance with which a player that is still to choose from is taken to be chosen.

    Returns:
        Gains (..., F) and steps (..., F, F), the chosen player first.

    Example:
        >>> gain, step = shrunk_gains(np.zeros((2, 2)), np.array([1 / 2, 1 / 2]), np.array(1.0))  # OR(a, b)
        >>> gain.round(3), step[0].round(3)  # the second one adds nothing
        (array([0.8, 0.8]), array([ 0. , -0.8]))
    """
    direction, weight = -1.0 if remove else 1.0, signal[..., None]
    excess = 2 * structure.potential(e2, shapley) - shapley
    gain = weight * (shapley - direction * (3 - 6 * look_ahead) * excess)
    step = direction * 6 * (1 - look_ahead) * weight[..., None] * structure.pairwise(e2, shapley)
    return gain + (1 - weight) * (shapley if prior is None else prior), step


def greedy_order(
    e2: FloatArray, shapley: FloatArray, signal: FloatArray, *, remove: bool, prior: FloatArray | None = None
) -> NDArray[np.intp]:
    """Return players in the order of greedy selection, (N, F). Ties go by Shapley value, then by index.

    Args:
        e2: (N, F, F).
        shapley: (N, F).
        signal: (N,) as in `shrunk_gains`, like what follows.
        remove: Whether players are removed from all players, most damaging first, instead of added to none.
        prior: (N, F).

    Example:
        >>> # OR(a, b) + c / 4: one of a and b first, then c; the other one adds nothing any more.
        >>> e2 = np.array([[[0, 0, 1 / 6], [0, 0, 1 / 6], [1 / 8, 1 / 8, 0]]])
        >>> greedy_order(e2, np.array([[1 / 2, 1 / 2, 1 / 4]]), np.ones(1), remove=False)
        array([[0, 2, 1]])
    """
    gain, step = shrunk_gains(e2, shapley, signal, remove=remove, prior=prior)
    tolerance = TIE_TOLERANCE * (np.abs(gain).max(axis=1) + np.abs(step).max(axis=(1, 2)))[:, None]
    preference = ranks_from_order(descending_order(shapley))
    samples, n_players = np.arange(len(gain)), gain.shape[1]
    order = np.empty(gain.shape, dtype=np.intp)
    is_left = np.ones(gain.shape, dtype=np.bool_)
    for position in range(n_players):
        best = np.where(is_left, gain, -np.inf).max(axis=1, keepdims=True)
        is_tied = is_left & (gain >= best - tolerance)
        chosen = np.where(is_tied, preference, n_players).argmin(axis=1)
        order[:, position] = chosen
        is_left[samples, chosen] = False
        gain += step[samples, chosen]
    return order


def holding_order(e2: FloatArray, shapley: FloatArray, signal: FloatArray) -> NDArray[np.intp]:
    """Return players in the reverse order of removals that keep the value near that of all players, (N, F).

    At every step the player goes whose removal leaves the quadratic game nearest to its value of all players. Players
    of opposite effects go together; the last one comes first. Ties go by size of the Shapley value, then by index.

    Args:
        e2: (N, F, F).
        shapley: (N, F).
        signal: (N,) as in `shrunk_gains`.

    Example:
        >>> shapley = np.array([[3.0, -1.0, 1.1]])  # an additive game: the last two together change next to nothing
        >>> holding_order(np.repeat(shapley[..., None] / 2, 3, axis=2) * (1 - np.eye(3)), shapley, np.ones(1))
        array([[0, 2, 1]])
    """
    loss, step = shrunk_gains(e2, shapley, signal, remove=True, look_ahead=0.0)
    tolerance = TIE_TOLERANCE * (np.abs(loss).max(axis=1) + np.abs(step).max(axis=(1, 2)))[:, None]
    preference = ranks_from_order(descending_order(-np.abs(shapley)))
    samples, n_players = np.arange(len(loss)), loss.shape[1]
    order, lost = np.empty(loss.shape, dtype=np.intp), np.zeros((len(loss), 1))
    is_left = np.ones(loss.shape, dtype=np.bool_)
    for position in reversed(range(n_players)):
        distance = np.where(is_left, np.abs(lost + loss), np.inf)
        is_tied = is_left & (distance <= distance.min(axis=1, keepdims=True) + tolerance)
        chosen = np.where(is_tied, preference, n_players).argmin(axis=1)
        order[:, position] = chosen
        is_left[samples, chosen] = False
        lost += loss[samples, chosen][:, None]
        loss += step[samples, chosen]
    return order


def is_greedy_order(
    order: NDArray[np.intp],
    e2: FloatArray,
    shapley: FloatArray,
    signal: FloatArray,
    *,
    tolerance: float,
    prior: FloatArray | None = None,
    look_ahead: float = LOOK_AHEAD,
) -> bool:
    """Return whether each player of an order to keep has the largest gain when it is chosen, up to a tolerance.

    Args:
        order: (F,) players.
        e2: (F, F).
        shapley: (F,).
        signal: () weight of the gains against the prior.
        tolerance: share of the largest gains that may be missing, such as what rounding of the values may cause.
        prior: (F,) as in `greedy_order`.
        look_ahead: As in `shrunk_gains`.

    Example:
        >>> e2 = np.array([[0, 0, 1 / 6], [0, 0, 1 / 6], [1 / 8, 1 / 8, 0]])
        >>> values = e2, np.array([1 / 2, 1 / 2, 1 / 4]), np.array(1.0)
        >>> [is_greedy_order(np.array(order), *values, tolerance=1e-9) for order in ([1, 2, 0], [0, 1, 2])]
        [True, False]
    """
    gain, step = shrunk_gains(e2, shapley, signal, prior=prior, look_ahead=look_ahead)
    slack = tolerance * (np.abs(gain).max() + len(gain) * np.abs(step).max())
    is_left = np.ones(len(gain), dtype=np.bool_)
    for chosen in order:
        if gain[chosen] < gain[is_left].max() - slack:
            return False
        is_left[chosen] = False
        gain = gain + step[chosen]
    return True
