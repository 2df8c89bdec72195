"""Directed graphs of an explanation: `ExplanationGraph` (G) and `RedundancyGraph` (H).

Orientation, defined here once: edge i -> j of G carries the importance of j given i; edge i -> j of H says that j
is redundant once i is present. In both matrices i is the row and j the column.

Everything here is NumPy and SciPy: a stored graph is read, ranked and analysed without torch.

Example:
    >>> from bivshap_lightning.graph import ExplanationGraph
    >>> # max(2a, b): once a is present b adds nothing, but not the other way round.
    >>> graph = ExplanationGraph([[0, 0], [1 / 2, 0]], names=["a", "b"], shapley=[3 / 2, 1 / 2])
    >>> h = graph.redundancy()
    >>> bool(h.adjacency[0, 1]), bool(h.adjacency[1, 0])
    (True, False)
    >>> h.sources, h.sinks
    ((0,), (1,))
    >>> graph.roles().roles
    ('essential', 'redundant')
"""

from bivshap_lightning.graph.averaging import mean_by_name
from bivshap_lightning.graph.explanation_graph import ExplanationGraph
from bivshap_lightning.graph.redundancy_graph import RedundancyGraph
from bivshap_lightning.graph.roles import ROLES, Role, Roles
from bivshap_lightning.graph.substitution import PlayerPair, Substitution, mean_substitution
from bivshap_lightning.graph.threshold import DEFAULT_GAMMA, RelativeGamma, relative_gamma

__all__ = [
    "DEFAULT_GAMMA",
    "ROLES",
    "ExplanationGraph",
    "PlayerPair",
    "RedundancyGraph",
    "RelativeGamma",
    "Role",
    "Roles",
    "Substitution",
    "mean_by_name",
    "mean_substitution",
    "relative_gamma",
]
