"""Graphs as networkx graphs, pandas tables and the fields of a file."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from bivshap_lightning.graph.explanation_graph import ExplanationGraph
    from bivshap_lightning.graph.redundancy_graph import RedundancyGraph
    from bivshap_lightning.graph.values import GraphValues

REQUIRED_FIELDS = ("weights", "names", "shapley", "standard_error", "provenance")
"""Fields that a stored ExplanationGraph must have."""

_ARRAYS = ("weights", "shapley", "standard_error", "shapley_standard_error", "pairwise_standard_error")
_NESTED = ("log_odds", "absolute")


def import_pandas() -> ModuleType:
    """Import pandas, which only tables need; raise ImportError that names the extra if it is not installed.

    Example:
        >>> import_pandas().__name__
        'pandas'
    """
    try:
        return import_module("pandas")
    except ImportError as error:
        raise ImportError(
            "`to_dataframe` must find pandas, got no such module. "
            "Install it with `pip install bivshap_lightning[pandas]`."
        ) from error


def explanation_to_networkx(graph: GraphValues) -> nx.DiGraph:
    """Return all ordered pairs as a networkx graph; see :meth:`~bivshap_lightning.ExplanationGraph.to_networkx`.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> explanation_to_networkx(ExplanationGraph([[0, 1], [2, 0]])).edges[1, 0]["weight"]
        2.0
    """
    import networkx as nx

    shapley = [None] * graph.n_players if graph.shapley is None else graph.shapley.tolist()
    result = nx.DiGraph()
    for player, name in enumerate(graph.names):
        result.add_node(player, name=name, shapley=shapley[player])
    source, target = graph.pairs()
    columns = source, target, graph.weights[source, target], graph.standard_error[source, target]
    for i, j, weight, error in zip(*(column.tolist() for column in columns), strict=True):
        result.add_edge(i, j, weight=weight, standard_error=error)
    return result


def explanation_to_dataframe(graph: GraphValues) -> pd.DataFrame:
    """Return all ordered pairs as a table; see :meth:`~bivshap_lightning.ExplanationGraph.to_dataframe`.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> len(explanation_to_dataframe(ExplanationGraph([[0, 1], [2, 0]])))
        2
    """
    pandas = import_pandas()
    source, target = graph.pairs()
    names = np.array(graph.names, dtype=object)
    return pandas.DataFrame(
        {
            "source": names[source],
            "target": names[target],
            "weight": graph.weights[source, target],
            "standard_error": graph.standard_error[source, target],
        }
    )


def redundancy_to_networkx(h: RedundancyGraph) -> nx.DiGraph:
    """Return the redundant edges as a networkx graph; see :meth:`~bivshap_lightning.RedundancyGraph.to_networkx`.

    Example:
        >>> from bivshap_lightning.graph import RedundancyGraph
        >>> list(redundancy_to_networkx(RedundancyGraph([[False, True], [False, False]], 0)).edges)
        [(0, 1)]
    """
    import networkx as nx

    result = nx.DiGraph()
    result.add_nodes_from((player, {"name": name}) for player, name in enumerate(h.names))
    result.add_edges_from(np.argwhere(h.adjacency).tolist())
    return result


def redundancy_to_dataframe(h: RedundancyGraph) -> pd.DataFrame:
    """Return the edges as a table; see :meth:`~bivshap_lightning.RedundancyGraph.to_dataframe`.

    Example:
        >>> from bivshap_lightning.graph import RedundancyGraph
        >>> redundancy_to_dataframe(RedundancyGraph([[False, True], [False, False]], 0))["status"].tolist()
        ['redundant']
    """
    pandas = import_pandas()
    source, target = np.nonzero(h.adjacency | h.undecided)
    names = np.array(h.names, dtype=object)
    status = np.where(h.adjacency[source, target], "redundant", "undecided")
    return pandas.DataFrame({"source": names[source], "target": names[target], "status": status})


def explanation_to_fields(graph: ExplanationGraph) -> dict[str, Any]:
    """Return the fields to store; those of nested graphs have the prefix "log_odds_" or "absolute_".

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> sorted(explanation_to_fields(ExplanationGraph([[0.0]])))
        ['names', 'provenance', 'shapley', 'standard_error', 'weights']
    """
    fields = {"names": np.array(graph.names), "provenance": graph.provenance, **_array_fields(graph)}
    if graph.absolute is not None and graph.shapley is not None:
        fields["scale"] = graph.scale
    for prefix in _NESTED:
        nested = getattr(graph, prefix)
        if nested is not None:
            fields |= {f"{prefix}_{name}": value for name, value in _array_fields(nested).items()}
            if nested.absolute is not None:
                fields |= {f"{prefix}_absolute_{k}": v for k, v in _array_fields(nested.absolute).items()}
    return fields


def explanation_from_fields(fields: Mapping[str, Any]) -> ExplanationGraph:
    """Return the graph of stored fields.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> explanation_from_fields(explanation_to_fields(ExplanationGraph([[0, 1], [2, 0]])))
        ExplanationGraph(2 players, exact weights in [0, 2])
    """
    return _graph_from_fields(fields, "", fields["names"], fields["provenance"])


def _array_fields(graph: ExplanationGraph) -> dict[str, Any]:
    fields = {name: getattr(graph, name) for name in _ARRAYS}
    if graph.shapley is None or not graph.shapley_standard_error.any():
        del fields["shapley_standard_error"]
    if graph.pairwise_standard_error is None:
        del fields["pairwise_standard_error"]
    return fields


def _graph_from_fields(
    fields: Mapping[str, Any], prefix: str, names: Any, provenance: Mapping[str, Any]
) -> ExplanationGraph:
    from bivshap_lightning.graph.explanation_graph import ExplanationGraph

    nested: dict[str, Any] = {
        name: _graph_from_fields(fields, f"{prefix}{name}_", names, {})
        for name in _NESTED
        if f"{prefix}{name}_weights" in fields
    }
    arrays = {name: fields.get(f"{prefix}{name}") for name in _ARRAYS[1:]}
    scale = fields.get(f"{prefix}scale")
    return ExplanationGraph(
        fields[f"{prefix}weights"], names=names, provenance=provenance, scale=scale, **arrays, **nested
    )
