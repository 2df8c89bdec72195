"""Rankings, groups, pairs and sweeps as Markdown tables with escaped names, for the Text dashboard."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bivshap_lightning.graph import ROLES, ExplanationGraph, RedundancyGraph
from bivshap_lightning.views.figures.axis_values import values_of_class, values_of_sample
from bivshap_lightning.views.figures.graphs import check_same_players, order_of, scores_of
from bivshap_lightning.views.figures.layout import Layout, letter_of
from bivshap_lightning.views.figures.names import markdown_text, plain, shorten

_LONGEST_NAME = 40


def ranking_table(
    graph: ExplanationGraph,
    h: RedundancyGraph,
    *,
    top: int = 20,
    scores: ArrayLike | None = None,
    layout: Layout | None = None,
) -> str:
    """The most important players, one row each: score, Shapley value, group, and arrows of H from and to it.

    Args:
        graph: G.
        h: The redundancy graph of the same players.
        top: Number of rows.
        scores: (F,) ranking, high = important; by default `graph.ranking()`.
        layout: The one of the figures, for the same letters of groups.

    Example:
        >>> graph = ExplanationGraph([[0, 0], [1 / 2, 0]], names=["a", "b|c"], shapley=[3 / 2, 1 / 2])
        >>> print(ranking_table(graph, graph.redundancy()))
        | rank | feature | Shapley value | group | makes redundant | redundant given |
        | ---: | :--- | ---: | :---: | :--- | :--- |
        | 1 | a | 1.5 |  | b&#124;c |  |
        | 2 | b&#124;c | 0.5 |  |  | a |
        <BLANKLINE>
        Best to keep first: a feature that others replace comes after them.
        <BLANKLINE>
        *Makes redundant*: once the feature is present, these add nothing.
    """
    check_same_players(graph, h)
    number_of = (layout or Layout()).group_number_of_players(h)
    players = order_of(graph, scores)[:top]
    columns = {
        "rank": ("---:", [str(rank + 1) for rank in range(len(players))]),
        "feature": (":---", [_cell(graph.names[player]) for player in players]),
        "score": ("---:", [f"{scores_of(graph, scores)[player]:.4g}" for player in players]),
        "Shapley value": ("---:", [_number(graph.shapley, player) for player in players]),
        "group": (":---:", [letter_of(number_of[player]) if player in number_of else "" for player in players]),
        "makes redundant": (":---", [_some(h.names, np.flatnonzero(h.adjacency[p]), 3) for p in players]),
        "redundant given": (":---", [_some(h.names, np.flatnonzero(h.adjacency[:, p]), 3) for p in players]),
    }
    if graph.shapley is None:
        del columns["Shapley value"]
    elif scores is None:  # then scores are places, or the Shapley values themselves
        del columns["score"]
    table = _table(columns)
    left = graph.n_players - len(players)
    note = f" {left:,} more features are not listed." if left else ""
    is_kept = "score" not in columns and graph.absolute is None
    kept = "\n\nBest to keep first: a feature that others replace comes after them." if is_kept else ""
    return f"{table}{kept}\n\n*Makes redundant*: once the feature is present, these add nothing.{note}"


def groups_table(
    h: RedundancyGraph,
    graph: ExplanationGraph,
    *,
    top: int = 20,
    scores: ArrayLike | None = None,
    layout: Layout | None = None,
) -> str:
    """The groups of mutually redundant players, largest first, each with the member to keep.

    Args:
        h: The redundancy graph.
        graph: G of the same players.
        top: Number of rows.
        scores: (F,) ranking by which the member to keep is chosen; by default `graph.ranking()`.
        layout: The one of the figures, for the same letters of groups.

    Example:
        >>> graph = ExplanationGraph([[0, 0, 1], [0, 0, 1], [2, 2, 0]], names=["a", "b", "c"])
        >>> print(groups_table(graph.redundancy(), graph))
        | group | size | members | keep | redundant given | makes redundant |
        | :---: | ---: | :--- | :--- | :--- | :--- |
        | A | 2 | a, b | a |  |  |
        <BLANKLINE>
        Groups are connected by edges of H: once one end is present, the other adds at most 2 gamma = 2e-05 on
        average, also if it plays no part at all. *Keep* is the member that ranks highest.
    """
    check_same_players(graph, h)
    if not h.groups:
        return f"No two features make each other redundant at gamma = {h.gamma:.3g}: there are no groups."
    kept = set(h.representatives(scores_of(graph, scores)))
    numbers = (layout or Layout()).group_numbers(h)
    groups = [list(group) for group in h.groups[:top]]
    into = [np.setdiff1d(np.flatnonzero(h.adjacency[:, group].any(axis=1)), group) for group in groups]
    out_of = [np.setdiff1d(np.flatnonzero(h.adjacency[group].any(axis=0)), group) for group in groups]
    columns = {
        "group": (":---:", [letter_of(number) for number in numbers[:top]]),
        "size": ("---:", [str(len(group)) for group in groups]),
        "members": (":---", [_some(h.names, group, 8) for group in groups]),
        "keep": (":---", [_some(h.names, kept & set(group), 1) for group in groups]),
        "redundant given": (":---", [_some(h.names, players, 3) for players in into]),
        "makes redundant": (":---", [_some(h.names, players, 3) for players in out_of]),
    }
    table = _table(columns)
    left = len(h.groups) - len(groups)
    more = f" {left:,} smaller groups are not listed." if left else ""
    return (
        f"{table}\n\nGroups are connected by edges of H: once one end is present, the other adds at most 2 gamma = "
        f"{2 * h.gamma:.3g} on average, also if it plays no part at all. *Keep* is the member that ranks highest.{more}"
    )


def sweep_table(sweep: Mapping[str, ArrayLike], *, n_gammas: int = 1) -> str:
    """Roles, density of H and removable features at several thresholds, one row each.

    Args:
        sweep: By column, one value per threshold: "gamma", the roles, "density" and "share_removable".
        n_gammas: How many different default thresholds the samples have.

    Example:
        >>> shares = dict.fromkeys(("irrelevant", "interchangeable", "redundant", "undecided"), [0.0])
        >>> print(
        ...     sweep_table({"gamma": [0.01], **shares, "essential": [1.0], "density": [0.0], "share_removable": [0]})
        ... )
        | γ | irrelevant | interchangeable | redundant | essential | undecided | density of H | removable |
        | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
        | 0.01 | 0% | 0% | 0% | 100% | 0% | 0% | 0% |
        <BLANKLINE>
        Shares of features, mean over samples, from the same explanations at other thresholds γ.
    """
    titles = {role: role for role in ROLES} | {"density": "density of H", "share_removable": "removable"}
    gammas = [f"{gamma:.3g}" for gamma in np.asarray(sweep["gamma"]).tolist()]
    columns = {"γ": ("---:", gammas)}
    columns |= {
        title: ("---:", [f"{share:.0%}" for share in np.asarray(sweep[name]).tolist()])
        for name, title in titles.items()
    }
    note = "Shares of features, mean over samples, from the same explanations at other thresholds γ."
    if n_gammas > 1:
        note += " γ is that of the samples with the most features; the others are at the same multiple of their own."
    return f"{_table(columns)}\n\n{note}"


def pairs_table(graph: ExplanationGraph, *, graphs: Sequence[ExplanationGraph] | None = None, top: int = 10) -> str:
    """The pairs of players that replace each other or need each other most, as in `draw_axis`.

    Args:
        graph: G, with Shapley values.
        graphs: The samples of a class, all with the names of `graph`, for means over them.
        top: Number of rows.

    Example:
        >>> weights, shapley = [[0, 0, 1 / 4], [0, 0, 1 / 4], [1 / 6, 1 / 6, 0]], [1 / 2, 1 / 2, 1 / 2]
        >>> print(pairs_table(ExplanationGraph(weights, names=["a", "b", "c"], shapley=shapley)))
        | features | relation | pair term C |
        | :--- | :--- | ---: |
        | a, b | replace each other | -0.1667 |
        <BLANKLINE>
        C is how much the importance of one changes when the other is present, beyond what any other feature does.
    """
    values = values_of_sample(graph) if graphs is None else values_of_class(graphs)
    pairs = values.strongest_pairs(range(graph.n_players), top)
    if not pairs:
        return "No two features replace each other or need each other noticeably."
    columns = {
        "features": (":---", [f"{_cell(graph.names[i])}, {_cell(graph.names[j])}" for i, j, _ in pairs]),
        "relation": (":---", ["replace each other" if c < 0 else "need each other" for _, _, c in pairs]),
        "pair term C": ("---:", [f"{c:.4g}" for _, _, c in pairs]),
    }
    return (
        f"{_table(columns)}\n\nC is how much the importance of one changes when the other is present, beyond what "
        "any other feature does."
    )


def _table(columns: Mapping[str, tuple[str, Sequence[str]]]) -> str:
    """Markdown of columns, each with its alignment and its cells."""
    alignment = [column[0] for column in columns.values()]
    rows = zip(*(column[1] for column in columns.values()), strict=True)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (list(columns), alignment, *rows))


def _number(values: NDArray[np.float64] | None, player: int) -> str:
    return "" if values is None else f"{values[player]:.4g}"


def _some(names: Sequence[str], players: Iterable[int], n_shown: int) -> str:
    """The first names and the number of the others."""
    chosen = [int(player) for player in players]
    shown = ", ".join(_cell(names[player]) for player in chosen[:n_shown])
    return f"{shown} and {len(chosen) - n_shown} more" if len(chosen) > n_shown else shown


def _cell(name: str) -> str:
    return markdown_text(shorten(plain(name), _LONGEST_NAME))
