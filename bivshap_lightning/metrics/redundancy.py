"""Redundancy graphs of a batch with their components and statistics, shared by the redundancy metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.graph.redundancy_graph import RedundancyRule
from bivshap_lightning.graph.threshold import redundancy_of_all
from bivshap_lightning.metrics.inputs import AnyGraph, pad_with_indices
from bivshap_lightning.metrics.results import Convention, SampleScores, Totals

if TYPE_CHECKING:
    from torch import Tensor

IntArray = NDArray[np.intp]

STATISTICS: dict[str, tuple[int, ...]] = dict.fromkeys(
    ("density", "n_groups", "n_grouped", "n_undecided", "n_pairs", "players"), ()
)
"""The quantities of each H and their shapes."""


@dataclass(frozen=True)
class RedundancyBatch:
    """H of B samples with its strongly connected components.

    Attributes:
        graphs: H of each sample.
        component_of: (B, F) the smallest member of each player's component. F is that of the game; players that a
            sample does not have are components of their own.
        size_of: (B, F) the size of that component.
    """

    graphs: list[RedundancyGraph]
    component_of: IntArray
    size_of: IntArray

    @classmethod
    def from_graphs(
        cls, graphs: Sequence[AnyGraph], n_players: int, gamma: float | Sequence[float], convention: Convention
    ) -> RedundancyBatch:
        """Return H of each G; graphs that are an H already are used as they are.

        Args:
            graphs: B of them, G or H each.
            n_players: F of the game.
            gamma: The threshold; one for all, or per graph.
            convention: Under "default" edges that the standard errors of G leave undecided are not redundant; under
                "paper" they are if `|weight| <= gamma`. Without standard errors there is no difference.

        Example:
            >>> pair = RedundancyBatch.from_graphs([ExplanationGraph([[0, 0], [0, 0]])], 3, 1e-5, "default")
            >>> pair.component_of, pair.size_of
            (array([[0, 0, 2]]), array([[2, 2, 1]]))
        """
        rule: RedundancyRule = "noise" if convention == "default" else "paper"
        gammas = gamma if isinstance(gamma, Sequence) else [gamma] * len(graphs)
        open_ones = [(g, its) for g, its in zip(graphs, gammas, strict=True) if isinstance(g, ExplanationGraph)]
        decided = iter(redundancy_of_all([g for g, _ in open_ones], [its for _, its in open_ones], rule=rule))
        redundancies = [g if isinstance(g, RedundancyGraph) else next(decided) for g in graphs]
        components = RedundancyGraph.components_of_all(redundancies)
        component_of = pad_with_indices([c.component_of for c in components], n_players)
        numbers = component_of + np.arange(len(graphs))[:, None] * n_players
        return cls(redundancies, component_of, np.bincount(numbers.ravel(), minlength=numbers.size)[numbers])


def h_statistics(batch: RedundancyBatch) -> SampleScores:
    """Return density, groups and undecided edges of each H.

    Example:
        >>> pair = RedundancyBatch.from_graphs([ExplanationGraph([[0, 0], [0, 0]])], 2, 1e-5, "default")
        >>> h_statistics(pair)["density"]
        tensor([1.], dtype=torch.float64)
    """
    is_grouped = batch.size_of > 1
    is_smallest = batch.component_of == np.arange(is_grouped.shape[1])
    counts = [(h.n_redundant, h.n_undecided, len(h.names)) for h in batch.graphs]
    n_redundant, n_undecided, players = np.array(counts, dtype=np.float64).T
    n_grouped, n_groups = is_grouped.sum(axis=1), (is_grouped & is_smallest).sum(axis=1)
    pairs = players * (players - 1)
    columns = n_redundant / np.maximum(pairs, 1), n_groups, n_grouped, n_undecided, pairs, players
    return {name: torch.from_numpy(column) for name, column in zip(STATISTICS, columns, strict=True)}


def summarize_statistics(totals: Totals) -> dict[str, Tensor]:
    """Return what is reported of all H; the metrics document the keys.

    Example:
        >>> pair = RedundancyBatch.from_graphs([ExplanationGraph([[0, 0], [0, 0]])], 2, 1e-5, "default")
        >>> summarize_statistics(Totals.of(h_statistics(pair)))["group_size"]
        tensor(2., dtype=torch.float64)
    """
    return {
        **totals.estimate("density"),
        "groups_per_sample": totals.mean("n_groups"),
        "group_size": totals.share("n_grouped", "n_groups"),
        "share_grouped": totals.share("n_grouped", "players"),
        "share_undecided": totals.share("n_undecided", "n_pairs"),
    }
