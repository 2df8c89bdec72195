"""Thresholds of redundancy: the default gammas, and which edges of G are redundant, for many graphs at once."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bivshap_lightning.graph.batched import same_size_stacks
from bivshap_lightning.graph.checks import BoolArray, FloatArray, read_only_floats
from bivshap_lightning.graph.redundancy_graph import RedundancyGraph, RedundancyRule

if TYPE_CHECKING:
    from bivshap_lightning.graph.explanation_graph import ExplanationGraph

DEFAULT_GAMMA = 1e-5
"""The paper's threshold: the default of everything that takes a fixed gamma."""

LARGEST_RELATIVE_GAMMA, RELATIVE_GAMMA_PER_PLAYER = 0.01, 0.15
"""The relative gamma is the smaller of 0.01 and 0.15 / F of `abs(u(all) - u(none))`."""

CONFIDENCE = 0.95
"""Default confidence of the intervals that decide edges and roles of estimated graphs."""

CURVE_POINTS = 200
"""Thresholds of a default density curve: all distinct ones up to this many, otherwise a grid of this size."""


def relative_gamma(n_players: int, scale: float) -> float:
    """Return the default threshold of roles: the smaller of 1 % and 15 % / F of what there is to explain.

    Args:
        n_players: F of the sample.
        scale: `abs(u(all) - u(none))`, of the sample or as a mean over the audited samples.

    Example:
        >>> relative_gamma(10, 0.8), relative_gamma(60, 0.8)
        (0.008, 0.002)
    """
    return min(LARGEST_RELATIVE_GAMMA, RELATIVE_GAMMA_PER_PLAYER / n_players) * scale


def normal_quantile(confidence: float) -> float:
    """Return how many standard errors a two-sided interval of this confidence has on either side.

    Example:
        >>> round(normal_quantile(0.95), 2)
        1.96
    """
    return -NormalDist().inv_cdf((1 - confidence) / 2)


def redundancy_of_all(
    graphs: Sequence[ExplanationGraph], gamma: float, *, rule: RedundancyRule = "noise", confidence: float = CONFIDENCE
) -> list[RedundancyGraph]:
    """Return the redundancy graph of each graph. The graphs cache it.

    Args:
        graphs: Of any sizes.
        gamma: As in :meth:`~bivshap_lightning.ExplanationGraph.redundancy`, which checks it.
        rule: Likewise.
        confidence: Likewise.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> [h.density for h in redundancy_of_all([ExplanationGraph([[0, 0], [1, 0]]), ExplanationGraph([[0]])], 1e-5)]
        [0.5, 0.0]
    """
    key = (gamma, rule, confidence)
    missing = [graph for graph in dict.fromkeys(graphs) if key not in graph._redundancies]
    for positions in same_size_stacks((graph.n_players, rule == "noise" and graph.is_estimated) for graph in missing):
        stack = [missing[position] for position in positions]
        is_noisy = rule == "noise" and stack[0].is_estimated
        redundant, undecided = _redundant_and_undecided(stack, gamma, confidence if is_noisy else None)
        for graph, edges, undecided_edges in zip(stack, redundant, undecided, strict=True):
            graph._redundancies[key] = RedundancyGraph.from_checked(
                adjacency=edges,
                gamma=gamma,
                rule=rule,
                confidence=confidence if rule == "noise" else None,
                undecided=undecided_edges,
                names=graph.names,
                n_redundant=int(np.count_nonzero(edges)),
                n_undecided=int(np.count_nonzero(undecided_edges)) if is_noisy else 0,
            )
    return [graph._redundancies[key] for graph in graphs]


def _redundant_and_undecided(
    graphs: Sequence[ExplanationGraph], gamma: float, confidence: float | None
) -> tuple[BoolArray, BoolArray]:
    """Return redundant and undecided edges, (N, F, F) read-only; without a confidence, weights count as exact."""
    magnitude = np.stack([(graph if graph.absolute is None else graph.absolute).weights for graph in graphs])
    np.abs(magnitude, out=magnitude)
    if confidence is None:
        redundant = magnitude <= gamma
        undecided = np.broadcast_to(np.False_, redundant.shape)
    else:
        half_width = normal_quantile(confidence) * np.stack([graph.standard_error for graph in graphs])
        redundant = magnitude + half_width <= gamma
        undecided = ~redundant & (magnitude - half_width <= gamma)
        undecided.setflags(write=False)
    players = np.arange(magnitude.shape[-1])
    redundant[:, players, players] = False
    redundant.setflags(write=False)
    return redundant, undecided


def density_curve(magnitudes: FloatArray, gammas: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """Return thresholds and the share of magnitudes at or below each; see `ExplanationGraph.density_curve`.

    Args:
        magnitudes: Sorted `|weight|` of all ordered pairs.
        gammas: (N,) thresholds, None for a default grid.

    Example:
        >>> density_curve(np.array([0.1, 0.3]), None)
        (array([0. , 0.1, 0.3]), array([0. , 0.5, 1. ]))
    """
    thresholds = _default_gammas(magnitudes) if gammas is None else read_only_floats(gammas, "gammas").copy()
    if thresholds.ndim != 1 or (thresholds < 0).any():
        raise ValueError(
            f"`gammas` must be a vector of numbers >= 0, got shape {thresholds.shape}. Leave it out for a default grid."
        )
    counts = np.searchsorted(magnitudes, thresholds, side="right")
    return thresholds, counts / max(len(magnitudes), 1)


def gamma_at_density(magnitudes: FloatArray, density: float) -> float:
    """Return the smallest threshold at which a share of magnitudes is reached; see `ExplanationGraph.suggest_gamma`.

    Args:
        magnitudes: Sorted `|weight|` of all ordered pairs.
        density: Above 0, up to 1.

    Example:
        >>> gamma_at_density(np.array([0.1, 0.3]), 0.5)
        0.1
    """
    if not 0 < density <= 1:
        raise ValueError(f"`density` must be above 0 and at most 1, got {density}. Try 0.5.")
    if not len(magnitudes):
        raise ValueError("`weights` must have a pair of players, got shape (1, 1). One player has no density.")
    # The same division as in `RedundancyGraph.density`, so that the density is met to the last bit.
    reached = np.arange(1, len(magnitudes) + 1) / len(magnitudes)
    return float(magnitudes[np.searchsorted(reached, density)])


def _default_gammas(magnitudes: FloatArray) -> FloatArray:
    distinct = np.unique(np.append(magnitudes, 0.0))
    if len(distinct) <= CURVE_POINTS:
        return distinct
    smallest, largest = distinct[distinct > 0][[0, -1]]
    return np.concatenate(([0.0], np.geomspace(smallest, largest, CURVE_POINTS - 1)))
