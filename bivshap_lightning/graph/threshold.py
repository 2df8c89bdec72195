"""Thresholds of redundancy: the default gammas, and which edges of G are redundant, for many graphs at once.

A threshold is a number, the same for all samples, or a `RelativeGamma`, which gives each sample that of its number of
players.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bivshap_lightning.checks import check_gamma
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


@dataclass(frozen=True)
class RelativeGamma:
    """The default threshold of samples of one audit: of each the :func:`relative_gamma` of its own number of players.

    Args:
        scale: The mean of `abs(u(all) - u(none))` over the audited samples.

    Example:
        >>> gamma = RelativeGamma(0.8)
        >>> gamma.of(10), gamma.of(60)
        (0.008, 0.002)
    """

    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale >= 0):
            raise ValueError(
                f"`scale` must be finite and >= 0, got {self.scale}. Pass the mean of abs(u(all) - u(none))."
            )

    def of(self, n_players: int) -> float:
        """Return the threshold of a sample.

        Args:
            n_players: F of the sample.

        Example:
            >>> RelativeGamma(1.0).of(30)
            0.005
        """
        return relative_gamma(n_players, self.scale)


Gamma = float | RelativeGamma
"""A threshold of several samples: one number for all, or that of each by its number of players."""


def check_any_gamma(gamma: Gamma) -> Gamma:
    """Return a threshold of several samples if it is one.

    Example:
        >>> check_any_gamma(0), check_any_gamma(RelativeGamma(0.5))
        (0.0, RelativeGamma(scale=0.5))
    """
    return gamma if isinstance(gamma, RelativeGamma) else check_gamma(gamma)


def gammas_of(gamma: Gamma, graphs: Sequence[ExplanationGraph | RedundancyGraph]) -> list[float]:
    """Return the threshold of each graph.

    Args:
        gamma: One for all, or by number of players.
        graphs: Of any sizes.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> gammas_of(0.02, [ExplanationGraph([[0]])]), gammas_of(RelativeGamma(0.5), [ExplanationGraph([[0]])])
        ([0.02], [0.005])
    """
    return [gamma.of(graph.n_players) if isinstance(gamma, RelativeGamma) else gamma for graph in graphs]


def normal_quantile(confidence: float) -> float:
    """Return how many standard errors a two-sided interval of this confidence has on either side.

    Example:
        >>> round(normal_quantile(0.95), 2)
        1.96
    """
    return -NormalDist().inv_cdf((1 - confidence) / 2)


def redundancy_of_all(
    graphs: Sequence[ExplanationGraph],
    gamma: float | Sequence[float],
    *,
    rule: RedundancyRule = "noise",
    confidence: float = CONFIDENCE,
) -> list[RedundancyGraph]:
    """Return the redundancy graph of each graph. The graphs cache it.

    Args:
        graphs: Of any sizes.
        gamma: As in :meth:`~bivshap_lightning.ExplanationGraph.redundancy`, which checks it; one for all, or per graph.
        rule: Likewise.
        confidence: Likewise.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> [h.density for h in redundancy_of_all([ExplanationGraph([[0, 0], [1, 0]]), ExplanationGraph([[0]])], 1e-5)]
        [0.5, 0.0]
    """
    thresholds = list(gamma) if isinstance(gamma, Sequence) else [gamma] * len(graphs)
    requests = dict.fromkeys(zip(graphs, thresholds, strict=True))
    missing = [(graph, its) for graph, its in requests if (its, rule, confidence) not in graph._redundancies]
    for positions in same_size_stacks((g.n_players, rule == "noise" and g.is_estimated) for g, _ in missing):
        stack, its_gammas = zip(*(missing[position] for position in positions), strict=True)
        is_noisy = rule == "noise" and stack[0].is_estimated
        redundant, undecided = _redundant_and_undecided(stack, np.array(its_gammas), confidence if is_noisy else None)
        for graph, its_gamma, edges, undecided_edges in zip(stack, its_gammas, redundant, undecided, strict=True):
            graph._redundancies[its_gamma, rule, confidence] = RedundancyGraph.from_checked(
                adjacency=edges,
                gamma=its_gamma,
                rule=rule,
                confidence=confidence if rule == "noise" else None,
                undecided=undecided_edges,
                names=graph.names,
                n_redundant=int(np.count_nonzero(edges)),
                n_undecided=int(np.count_nonzero(undecided_edges)) if is_noisy else 0,
            )
    return [graph._redundancies[its, rule, confidence] for graph, its in zip(graphs, thresholds, strict=True)]


def _redundant_and_undecided(
    graphs: Sequence[ExplanationGraph], gammas: FloatArray, confidence: float | None
) -> tuple[BoolArray, BoolArray]:
    """Return redundant and undecided edges, (N, F, F) read-only; without a confidence, weights count as exact."""
    gamma = gammas[:, None, None]
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
