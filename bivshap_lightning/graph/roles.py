"""Roles of players: irrelevant, interchangeable, redundant, essential or undecided.

With phi the Shapley values, `E2[i, j]` the importance of i when j is present and R the potential, at threshold gamma:

* irrelevant: `abs(phi[i]) <= 2 gamma` and `abs(E2[i, j]) <= gamma` for every j. All other players are relevant.
* j makes i redundant if both are relevant and `abs(E2[i, j]) <= min(gamma, abs(R[i]) / 2)`. The second bound asks that
  j, and not the weakness of i, is the reason.
* interchangeable: in a strongly connected component of at least two players of the graph of these edges.
* redundant: in no such component, and some relevant player makes it redundant.
* essential: relevant, and no player makes it redundant.
* undecided: the standard errors allow more than one of these.

Estimated graphs are decided twice, with as few and with as many relevant players and edges as their confidence
intervals allow. Roles depend on relevance and edges monotonically (more edges turn essential into redundant into
interchangeable), so a player whose role is the same in both extremes has that role in every case between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from bivshap_lightning.graph import structure
from bivshap_lightning.graph.batched import IndexArray, find_components, same_size_stacks
from bivshap_lightning.graph.checks import BoolArray, FloatArray
from bivshap_lightning.graph.threshold import CONFIDENCE, normal_quantile

if TYPE_CHECKING:
    from bivshap_lightning.graph.explanation_graph import ExplanationGraph

Role = Literal["irrelevant", "interchangeable", "redundant", "essential", "undecided"]
"""The part that a player has in a decision."""
ROLES: tuple[Role, ...] = get_args(Role)
"""All roles, in the order of their shares in tables."""
_IRRELEVANT, _INTERCHANGEABLE, _REDUNDANT, _ESSENTIAL, _UNDECIDED = range(len(ROLES))


@dataclass(frozen=True)
class Roles:
    """The role of each player of one graph. Iterates over, and is indexed like, `roles`.

    Attributes:
        roles: One of `ROLES` per player.
        groups: Interchangeable players, as indices: any one of a group will do.
        redundant_given: Per player the relevant players that make it redundant with the stated confidence.
        gamma: The threshold.
        confidence: Of the intervals of estimated graphs.
        names: Of the players.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> # max(2a, b) and a player c without effect: b says nothing new once a is there.
        >>> graph = ExplanationGraph([[0, 0, 0], [1 / 2, 0, 0], [2 / 3, 1 / 6, 0]], shapley=[3 / 2, 1 / 2, 0])
        >>> roles = graph.roles()
        >>> roles.roles
        ('essential', 'redundant', 'irrelevant')
        >>> roles.redundant_given[1], roles.n_independent
        ((0,), 1)
        >>> roles[1], len(roles)
        ('redundant', 3)
    """

    roles: tuple[Role, ...]
    groups: tuple[tuple[int, ...], ...]
    redundant_given: tuple[tuple[int, ...], ...]
    gamma: float
    confidence: float
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.roles)

    def __iter__(self) -> Iterator[Role]:
        return iter(self.roles)

    def __getitem__(self, player: int) -> Role:
        return self.roles[player]

    @property
    def n_independent(self) -> int:
        """Essential players plus groups of interchangeable ones.

        Example:
            >>> Roles(("interchangeable",) * 2, ((0, 1),), ((1,), (0,)), 0.01, 0.95, ("a", "b")).n_independent
            1
        """
        return self.roles.count("essential") + len(self.groups)

    @property
    def shares(self) -> dict[Role, float]:
        """The share of players in each role; they sum to 1.

        Example:
            >>> Roles(("essential", "irrelevant"), (), ((), ()), 0.01, 0.95, ("a", "b")).shares["essential"]
            0.5
        """
        return {role: self.roles.count(role) / len(self.roles) for role in ROLES}

    def players(self, role: Role) -> tuple[int, ...]:
        """Return the players of a role, as indices.

        Example:
            >>> Roles(("essential", "irrelevant"), (), ((), ()), 0.01, 0.95, ("a", "b")).players("irrelevant")
            (1,)
        """
        return tuple(player for player, its_role in enumerate(self.roles) if its_role == role)


class Relevance(NamedTuple):
    """Which players are relevant in every, and in at least one, case that the noise allows, (N, F) each."""

    certain: BoolArray
    possible: BoolArray


class _Values(NamedTuple):
    """Magnitudes of N graphs of one size and their standard errors."""

    is_exact: bool
    """Whether all errors are zero."""

    e2: FloatArray
    e2_error: FloatArray
    shapley: FloatArray
    shapley_error: FloatArray
    potential: FloatArray
    potential_error: FloatArray


def roles_of_all(
    graphs: Sequence[ExplanationGraph], gammas: Sequence[float] | None = None, *, confidence: float = CONFIDENCE
) -> list[Roles]:
    """Return the roles of each graph. The graphs cache them.

    Args:
        graphs: Of any sizes, with Shapley values.
        gammas: A threshold per graph; None for each graph's own relative one.
        confidence: As in :meth:`~bivshap_lightning.ExplanationGraph.roles`.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> pair = ExplanationGraph([[0, 0], [0, 0]], shapley=[1 / 2, 1 / 2])  # OR(a, b)
        >>> roles_of_all([pair])[0].groups
        ((0, 1),)
    """
    thresholds = [graph.relative_gamma for graph in graphs] if gammas is None else list(gammas)
    requests = dict.fromkeys(zip(graphs, thresholds, strict=True))
    missing = [(graph, gamma) for graph, gamma in requests if (gamma, confidence) not in graph._roles]
    for positions in same_size_stacks((graph.n_players, graph.is_estimated) for graph, _ in missing):
        stack = [missing[position][0] for position in positions]
        gamma = np.array([missing[position][1] for position in positions])
        codes, component_of, edges = _decide(_values(stack), gamma, confidence)
        columns = zip(stack, gamma.tolist(), codes.tolist(), component_of, _targets(edges), strict=True)
        for graph, threshold, its_codes, its_components, given in columns:
            graph._roles[threshold, confidence] = Roles(
                roles=tuple(ROLES[code] for code in its_codes),
                groups=_groups(its_components),
                redundant_given=given,
                gamma=threshold,
                confidence=confidence,
                names=graph.names,
            )
    return [graph._roles[gamma, confidence] for graph, gamma in zip(graphs, thresholds, strict=True)]


def relevance(graphs: Sequence[ExplanationGraph], gammas: FloatArray, confidence: float = CONFIDENCE) -> Relevance:
    """Return which players of graphs of one size are relevant.

    "Certain" takes the largest of F comparisons, so the weights share half of the error probability (Bonferroni) and
    the Shapley value has the other half.

    Args:
        graphs: N of one size, with Shapley values.
        gammas: (N,).
        confidence: Of the intervals.

    Example:
        >>> from bivshap_lightning.graph import ExplanationGraph
        >>> graph = ExplanationGraph([[0, 0], [1 / 2, 0]], shapley=[1, 0])
        >>> relevance([graph], np.array([0.01])).certain
        array([[ True, False]])
    """
    return _relevance(_values(graphs), gammas, confidence)


def _values(graphs: Sequence[ExplanationGraph]) -> _Values:
    """Stack E2, phi and R of the graphs; of a mean graph, the means of absolute values."""
    sources = [graph if graph.absolute is None else graph.absolute for graph in graphs]
    e2 = np.stack([graph.weights.T for graph in sources])
    shapley = np.stack([graph.known_shapley for graph in sources])
    e2_error = np.stack([graph.standard_error.T for graph in graphs])
    shapley_error = np.stack([graph.shapley_standard_error for graph in graphs])
    late = np.abs(structure.potential(e2, shapley))
    late_error = structure.potential_error(e2_error, shapley_error)
    is_exact = not (e2_error.any() or shapley_error.any())
    return _Values(is_exact, np.abs(e2), e2_error, np.abs(shapley), shapley_error, late, late_error)


def _relevance(values: _Values, gamma: FloatArray, confidence: float) -> Relevance:
    n_players, z = values.e2.shape[1], normal_quantile(confidence)
    per_player, per_pair = gamma[:, None], gamma[:, None, None]
    if values.is_exact:
        is_relevant = (values.shapley > 2 * per_player) | (values.e2 > per_pair).any(axis=2)
        return Relevance(certain=is_relevant, possible=is_relevant)
    is_irrelevant = values.shapley + z * values.shapley_error <= 2 * per_player
    is_irrelevant &= (values.e2 + z * values.e2_error <= per_pair).all(axis=2)
    half = (1 - confidence) / 2
    is_relevant = values.shapley - normal_quantile(1 - half) * values.shapley_error > 2 * per_player
    z_any = normal_quantile(1 - half / max(n_players - 1, 1))
    is_relevant |= (values.e2 - z_any * values.e2_error > per_pair).any(axis=2)
    return Relevance(certain=is_relevant, possible=~is_irrelevant)


def _decide(values: _Values, gamma: FloatArray, confidence: float) -> tuple[IndexArray, IndexArray, BoolArray]:
    """Return codes of roles (N, F), components of the certain edges (N, F), and those edges [i, j] (N, F, F)."""
    z, relevant = normal_quantile(confidence), _relevance(values, gamma, confidence)
    if values.is_exact:
        bound = np.minimum(gamma[:, None], values.potential / 2)
        return _roles_of_edges(relevant.certain, values.e2 <= bound[..., None])
    smallest = np.maximum(values.potential - z * values.potential_error, 0) / 2
    largest = (values.potential + z * values.potential_error) / 2
    certain = values.e2 + z * values.e2_error <= np.minimum(gamma[:, None], smallest)[..., None]
    possible = values.e2 - z * values.e2_error <= np.minimum(gamma[:, None], largest)[..., None]
    fewest, component_of, edges = _roles_of_edges(relevant.certain, certain)
    most, _, _ = _roles_of_edges(relevant.possible, possible)
    return np.where(fewest == most, fewest, _UNDECIDED), component_of, edges


def _roles_of_edges(is_relevant: BoolArray, makes_redundant: BoolArray) -> tuple[IndexArray, IndexArray, BoolArray]:
    """Return codes of roles, components and edges between relevant players, as if there were no noise."""
    edges = makes_redundant & is_relevant[:, :, None] & is_relevant[:, None, :]
    players = np.arange(edges.shape[1])
    edges[:, players, players] = False
    component_of = find_components(edges).component_of
    numbers = component_of + np.arange(len(edges))[:, None] * len(players)
    is_grouped = np.bincount(numbers.ravel(), minlength=numbers.size)[numbers] > 1
    codes = np.where(edges.any(axis=2), _REDUNDANT, _ESSENTIAL)
    codes = np.where(is_grouped, _INTERCHANGEABLE, codes)
    return np.where(is_relevant, codes, _IRRELEVANT), component_of, edges


def _targets(edges: BoolArray) -> list[tuple[tuple[int, ...], ...]]:
    """Return for each graph and player i the players j with an edge [i, j]."""
    n_graphs, n_players, _ = edges.shape
    ends = np.cumsum(np.count_nonzero(edges, axis=2)).tolist()
    columns = np.nonzero(edges)[2].tolist()
    rows = [tuple(columns[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return [tuple(rows[k * n_players : (k + 1) * n_players]) for k in range(n_graphs)]


def _groups(component_of: IndexArray) -> tuple[tuple[int, ...], ...]:
    """Return components with more than one member, the largest first, then by smallest member."""
    names, sizes = np.unique(component_of, return_counts=True)
    if len(names) == len(component_of):
        return ()
    order = np.lexsort((names, -sizes))
    return tuple(tuple(np.flatnonzero(component_of == names[k]).tolist()) for k in order if sizes[k] > 1)
