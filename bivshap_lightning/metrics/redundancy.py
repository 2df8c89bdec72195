"""What both redundancy metrics need of H: how a batch of graphs makes it, and what it looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.graph.redundancy_graph import RedundancyRule
from bivshap_lightning.graph.threshold import decide_all
from bivshap_lightning.metrics.inputs import Graph, numbered_from
from bivshap_lightning.metrics.results import Convention, SampleScores, Totals

if TYPE_CHECKING:
    from torch import Tensor

IntArray = NDArray[np.intp]

STATISTICS: dict[str, tuple[int, ...]] = dict.fromkeys(
    ("density", "n_groups", "n_grouped", "n_undecided", "n_pairs", "players"), ()
)
"""The quantities of each H and their shapes."""


@dataclass(frozen=True)
class Redundancies:
    """H of B samples, their components found.

    Attributes:
        graphs: H of each sample.
        component_of: (B, F) the strongly connected component of each player, named after its smallest member. F is that
            of the game; players that a sample lacks are on their own.
        size_of: (B, F) how many members that component has.
    """

    graphs: list[RedundancyGraph]
    component_of: IntArray
    size_of: IntArray

    @classmethod
    def of(cls, graphs: Sequence[Graph], n_players: int, gamma: float, convention: Convention) -> Redundancies:
        """Make H of each G; what is an H already stays as it is.

        Args:
            graphs: B of them, G or H each.
            n_players: F of the game.
            gamma: The threshold.
            convention: Under "default" edges that the standard errors of G leave open are not redundant; under
                "paper" they are if `|weight| <= gamma`. Without standard errors there is no difference.

        Example:
            >>> pair = Redundancies.of([ExplanationGraph([[0, 0], [0, 0]])], 3, 1e-5, "default")
            >>> pair.component_of, pair.size_of
            (array([[0, 0, 2]]), array([[2, 2, 1]]))
        """
        rule: RedundancyRule = "noise" if convention == "default" else "paper"
        decided = iter(decide_all([g for g in graphs if isinstance(g, ExplanationGraph)], gamma, rule=rule))
        redundancies = [g if isinstance(g, RedundancyGraph) else next(decided) for g in graphs]
        condensations = RedundancyGraph.condense_all(redundancies)
        component_of = numbered_from([c.component_of for c in condensations], n_players)
        numbers = component_of + np.arange(len(graphs))[:, None] * n_players
        return cls(redundancies, component_of, np.bincount(numbers.ravel(), minlength=numbers.size)[numbers])


def describe(redundancies: Redundancies) -> SampleScores:
    """Density, groups and open edges of each H.

    Example:
        >>> describe(Redundancies.of([ExplanationGraph([[0, 0], [0, 0]])], 2, 1e-5, "default"))["density"]
        tensor([1.], dtype=torch.float64)
    """
    is_grouped = redundancies.size_of > 1
    is_smallest = redundancies.component_of == np.arange(is_grouped.shape[1])
    counts = [(h.n_redundant, h.n_undecided, len(h.names)) for h in redundancies.graphs]
    n_redundant, n_undecided, players = np.array(counts, dtype=np.float64).T
    n_grouped, n_groups = is_grouped.sum(axis=1), (is_grouped & is_smallest).sum(axis=1)
    pairs = players * (players - 1)
    columns = n_redundant / np.maximum(pairs, 1), n_groups, n_grouped, n_undecided, pairs, players
    return {name: torch.from_numpy(column) for name, column in zip(STATISTICS, columns, strict=True)}


def summarize(totals: Totals) -> dict[str, Tensor]:
    """What is reported of all H; the keys are listed for the metrics.

    Example:
        >>> pair = Redundancies.of([ExplanationGraph([[0, 0], [0, 0]])], 2, 1e-5, "default")
        >>> summarize(Totals.of(describe(pair)))["group_size"]
        tensor(2., dtype=torch.float64)
    """
    return {
        **totals.estimate("density"),
        "groups_per_sample": totals.mean("n_groups"),
        "group_size": totals.share("n_grouped", "n_groups"),
        "share_grouped": totals.share("n_grouped", "players"),
        "share_undecided": totals.share("n_undecided", "n_pairs"),
    }
