"""What both redundancy metrics need of H: how it is made from a graph, and what it looks like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from bivshap_lightning.graph import RedundancyGraph
from bivshap_lightning.graph.redundancy import RedundancyRule
from bivshap_lightning.metrics.inputs import Graph
from bivshap_lightning.metrics.results import Convention, SampleScores, Totals

if TYPE_CHECKING:
    from torch import Tensor

STATISTICS: dict[str, tuple[int, ...]] = dict.fromkeys(
    ("density", "n_groups", "n_grouped", "n_undecided", "n_pairs", "players"), ()
)
"""The quantities of each H and their shapes."""


def as_redundancy_graphs(graphs: Sequence[Graph], gamma: float, convention: Convention) -> list[RedundancyGraph]:
    """H of each graph, its components found; what is an H already stays as it is.

    Args:
        graphs: G or H each.
        gamma: The threshold.
        convention: Under "default" edges that the standard errors of G leave open are not redundant; under "paper"
            they are if `|weight| <= gamma`. Without standard errors there is no difference.

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> as_redundancy_graphs([ExplanationGraph([[0, 0], [1, 0]])], 1e-5, "default")[0].sinks
        (1,)
    """
    rule: RedundancyRule = "noise" if convention == "default" else "paper"
    redundancy = [g if isinstance(g, RedundancyGraph) else g.redundancy(gamma, rule=rule) for g in graphs]
    RedundancyGraph.find_components(redundancy)
    return redundancy


def components_of(graphs: Sequence[RedundancyGraph], n_players: int) -> NDArray[np.intp]:
    """The component of each player, named after its smallest member; players that a sample lacks are on their own.

    Args:
        graphs: B of them.
        n_players: F of the game.

    Returns:
        (B, F).

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> components_of([ExplanationGraph([[0, 0], [0, 0]]).redundancy()], 3)
        array([[0, 0, 2]])
    """
    components = np.tile(np.arange(n_players), (len(graphs), 1))
    for row, h in zip(components, graphs, strict=True):
        row[: h.n_players] = h.component_of
    return components


def sizes_of(components: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many members the component of each player has, (B, F) of (B, F).

    Example:
        >>> sizes_of(np.array([[0, 0, 2]]))
        array([[2, 2, 1]])
    """
    numbered = components + np.arange(len(components))[:, None] * components.shape[1]
    sizes: NDArray[np.intp] = np.bincount(numbered.ravel(), minlength=numbered.size)[numbered]
    return sizes


def describe(graphs: Sequence[RedundancyGraph], components: NDArray[np.intp]) -> SampleScores:
    """Density, groups and open edges of each H.

    Args:
        graphs: B of them.
        components: Their `components_of`, (B, F).

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> h = ExplanationGraph([[0, 0], [0, 0]]).redundancy()
        >>> describe([h], components_of([h], 2))["density"]
        tensor([1.], dtype=torch.float64)
    """
    is_grouped = sizes_of(components) > 1
    n_grouped = is_grouped.sum(axis=1)
    n_groups = (is_grouped & (components == np.arange(components.shape[1]))).sum(axis=1)
    density, n_undecided, players = np.array([(h.density, h.n_undecided, h.n_players) for h in graphs]).T
    columns = (density, n_groups, n_grouped, n_undecided, players * (players - 1), players)
    return {name: torch.from_numpy(column.astype(np.float64)) for name, column in zip(STATISTICS, columns, strict=True)}


def summarize(totals: Totals) -> dict[str, Tensor]:
    """What is reported of all H; the keys are listed for the metrics.

    Example:
        >>> from bivshap_lightning import ExplanationGraph
        >>> h = ExplanationGraph([[0, 0], [0, 0]]).redundancy()
        >>> summarize(Totals.of(describe([h], components_of([h], 2))))["group_size"]
        tensor(2., dtype=torch.float64)
    """
    return {
        **totals.estimate("density"),
        "groups_per_sample": totals.mean("n_groups"),
        "group_size": totals.share("n_grouped", "n_groups"),
        "share_grouped": totals.share("n_grouped", "players"),
        "share_undecided": totals.share("n_undecided", "n_pairs"),
    }
