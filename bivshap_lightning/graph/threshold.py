"""From G to H: which edges are redundant. Many graphs at once, like everything that a metric asks of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from bivshap_lightning.graph.batched import stacks
from bivshap_lightning.graph.checks import BoolArray
from bivshap_lightning.graph.redundancy_graph import RedundancyGraph, RedundancyRule

if TYPE_CHECKING:
    from bivshap_lightning.graph.explanation_graph import ExplanationGraph

CONFIDENCE = 0.95
"""Of the intervals of the noise rule, unless somebody asks for another."""


def decide_all(
    graphs: Sequence[ExplanationGraph], gamma: float, *, rule: RedundancyRule = "noise", confidence: float = CONFIDENCE
) -> list[RedundancyGraph]:
    """`redundancy` of each graph. The graphs keep them.

    Args:
        graphs: Of any sizes.
        gamma: As in :meth:`~bivshap_lightning.ExplanationGraph.redundancy`, which checks it.
        rule: Likewise.
        confidence: Likewise.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> [h.density for h in decide_all([ExplanationGraph([[0, 0], [1, 0]]), ExplanationGraph([[0]])], 1e-5)]
        [0.5, 0.0]
    """
    key = (gamma, rule, confidence)
    undecided_yet = [graph for graph in dict.fromkeys(graphs) if key not in graph._redundancies]
    for places in stacks((graph.n_players, rule == "noise" and graph.is_estimated) for graph in undecided_yet):
        stack = [undecided_yet[place] for place in places]
        is_noisy = rule == "noise" and stack[0].is_estimated
        redundant, undecided = _decide(stack, gamma, confidence if is_noisy else None)
        for graph, edges, open_edges in zip(stack, redundant, undecided, strict=True):
            graph._redundancies[key] = RedundancyGraph.of_checked(
                adjacency=edges,
                gamma=gamma,
                rule=rule,
                confidence=confidence if rule == "noise" else None,
                undecided=open_edges,
                names=graph.names,
                n_redundant=int(np.count_nonzero(edges)),
                n_undecided=int(np.count_nonzero(open_edges)) if is_noisy else 0,
            )
    return [graph._redundancies[key] for graph in graphs]


def _decide(graphs: Sequence[ExplanationGraph], gamma: float, confidence: float | None) -> tuple[BoolArray, BoolArray]:
    """Redundant and undecided edges of N graphs of one size, (N, F, F) read-only; without confidence taken as exact."""
    magnitude = np.stack([graph.weights for graph in graphs])
    np.abs(magnitude, out=magnitude)
    if confidence is None:
        redundant = magnitude <= gamma
        undecided = np.broadcast_to(np.False_, redundant.shape)
    else:
        z = -NormalDist().inv_cdf((1 - confidence) / 2)
        half_width = z * np.stack([graph.standard_error for graph in graphs])
        redundant = magnitude + half_width <= gamma
        undecided = ~redundant & (magnitude - half_width <= gamma)
        undecided.setflags(write=False)
    players = np.arange(magnitude.shape[-1])
    redundant[:, players, players] = False
    redundant.setflags(write=False)
    return redundant, undecided
