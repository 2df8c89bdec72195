"""What both redundancy metrics need of H: how it is made from a graph, and what it looks like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from bivshap_lightning.graph import RedundancyGraph
from bivshap_lightning.metrics.inputs import Graph
from bivshap_lightning.metrics.results import Convention, SampleScores, Totals

if TYPE_CHECKING:
    from torch import Tensor

STATISTICS: dict[str, tuple[int, ...]] = dict.fromkeys(
    ("density", "n_groups", "n_grouped", "n_undecided", "n_pairs", "players"), ()
)
"""The quantities of each H and their shapes."""


def as_redundancy_graph(graph: Graph, gamma: float, convention: Convention) -> RedundancyGraph:
    """H of a graph; what is an H already stays as it is.

    Args:
        graph: G or H.
        gamma: The threshold.
        convention: Under "default" edges that the standard errors of G leave open are not redundant; under "paper"
            they are if `|weight| <= gamma`. Without standard errors there is no difference.

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> as_redundancy_graph(ExplanationGraph([[0, 0], [1, 0]]), 1e-5, "default").sinks
        (1,)
    """
    if isinstance(graph, RedundancyGraph):
        return graph
    return graph.redundancy(gamma, rule="noise" if convention == "default" else "paper")


def describe(graphs: Sequence[RedundancyGraph]) -> SampleScores:
    """Density, groups and open edges of each H.

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> h = ExplanationGraph([[0, 0], [0, 0]]).redundancy()
        >>> describe([h])["density"]
        tensor([1.], dtype=torch.float64)
    """
    rows = []
    for h in graphs:
        sizes = [len(group) for group in h.groups]
        n_pairs = h.n_players * (h.n_players - 1)
        rows.append((h.density, len(sizes), sum(sizes), h.n_undecided, n_pairs, h.n_players))
    return dict(zip(STATISTICS, torch.tensor(rows, dtype=torch.float64).unbind(dim=1), strict=True))


def summarize(totals: Totals) -> dict[str, Tensor]:
    """What is reported of all H; the keys are listed for the metrics.

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> h = ExplanationGraph([[0, 0], [0, 0]]).redundancy()
        >>> summarize(Totals.of(describe([h])))["group_size"]
        tensor(2., dtype=torch.float64)
    """
    return {
        **totals.estimate("density"),
        "groups_per_sample": totals.mean("n_groups"),
        "group_size": totals.share("n_grouped", "n_groups"),
        "share_grouped": totals.share("n_grouped", "players"),
        "share_undecided": totals.share("n_undecided", "n_pairs"),
    }
