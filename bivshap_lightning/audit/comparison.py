"""Other explainers beside ours on equal terms: how many model rows each may spend, and what the metrics rank."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bivshap_lightning.explainers import Explanation, default_evaluations
from bivshap_lightning.game import Game
from bivshap_lightning.game.shared_rows import SharedRows
from bivshap_lightning.graph.batched import rank_all
from bivshap_lightning.metrics.inputs import pad_with_indices

REPEATED = 0.02
"""The share of rows that ours may have drawn twice for others to draw as many as ours drew, not as many as it spent."""


def ends(game: Game) -> Tensor:
    """The values of all players and of none, (B, 2)."""
    return game(torch.tensor([[True], [False]], device=game.device).expand(1, 2, game.n_players))


def signs(game: Game) -> Tensor:
    """The sign of `u(all) - u(none)` of each sample, (B, 1), 1 for 0."""
    values = ends(game)
    return torch.where(values[:, :1] < values[:, 1:], -1.0, 1.0)


def equal_terms(game: SharedRows, ours: Explanation, asked: Tensor) -> list[tuple[SharedRows, list[int], int]]:
    """Games of the samples with equally many model rows for the others, which samples they are, and how many rows.

    Rows count whether or not they are evaluated already. Where ours drew few coalitions twice (:data:`REPEATED`), the
    others may draw as many as ours drew: then KernelSHAP draws those of the first stage of ``kernel`` and ``proxy``,
    and costs nothing where ours took no other. Trees are read instead of being evaluated: beside them, others may spend
    what ours does on other models.

    Args:
        game: of the samples.
        ours: our explanation.
        asked: (B,) model rows that ours asked for, repeated ones included.
    """
    if ours.method == "trees":
        return [(game, list(range(game.n_samples)), default_evaluations(game))]
    few = asked <= (1 + REPEATED) * ours.n_evaluations
    spent = torch.where(few, asked, ours.n_evaluations).tolist()
    members = {n_rows: [b for b, n in enumerate(spent) if n == n_rows] for n_rows in dict.fromkeys(spent)}
    if len(members) == 1:
        return [(game, list(range(game.n_samples)), spent[0])]
    return [
        (game.part(torch.tensor(samples, device=game.device)), samples, n_rows) for n_rows, samples in members.items()
    ]


def ranked(found: Sequence[Explanation], members: Sequence[Sequence[int]], signs: Tensor) -> Tensor:
    """What the metrics rank, in the order of the samples: scores with the sign of `u(all) - u(none)`, (B, F).

    Graphs of others are ranked by PageRank, as in the paper, which gives them that sign.
    """
    samples = [b for group in members for b in group]
    order = sorted(range(len(samples)), key=samples.__getitem__)
    if found[0].bivariate is not None:
        graphs = [graph for explanation in found for graph in explanation.graphs()]
        ranks = [one.ranks for one in rank_all([graphs[place] for place in order], method="pagerank")]
        return -torch.from_numpy(pad_with_indices(ranks, found[0].shapley.shape[1])).double()
    scores = torch.cat([explanation.shapley for explanation in found])[torch.tensor(order, device=signs.device)]
    return scores * signs.to(scores)
