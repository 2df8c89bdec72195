"""Other explainers beside ours on equal terms: how many model rows each may spend, and what the metrics rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bivshap_lightning.explainers import Explanation, default_evaluations
from bivshap_lightning.explainers.registry import Explainer
from bivshap_lightning.explainers.rivals.univariate import KernelSHAP
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


@dataclass(frozen=True)
class Terms:
    """What others may spend on some of the samples.

    Attributes:
        game: of these samples.
        samples: which ones they are.
        n_rows: model rows for each.
        drawn: model rows that ours drew for each, repeated ones included.
        is_staged: whether ours drew them in stages.
    """

    game: SharedRows
    samples: list[int]
    n_rows: int
    drawn: int
    is_staged: bool

    def explain(self, other: Explainer, seed: int) -> Explanation:
        """Explain the samples by another explainer, with so many rows as long as it needs no more."""
        if other == KernelSHAP():
            other = KernelSHAP(drawn=self.drawn, in_stages=self.is_staged)
        return other.explain(self.game, max(self.n_rows, other.minimum_evaluations(self.game)), seed)


def equal_terms(game: SharedRows, ours: Explanation, asked: Tensor, *, is_staged: bool) -> list[Terms]:
    """What others may spend on the samples: as many model rows as ours did.

    Rows count whether or not they are evaluated already. Where ours drew few coalitions twice (:data:`REPEATED`), the
    others may draw as many as ours drew. KernelSHAP costs little beside ``kernel`` and ``proxy``, because it draws out
    of what they draw. Trees are read instead of being evaluated: beside them, others may spend what ours does on other
    models.

    Args:
        game: of the samples.
        ours: our explanation.
        asked: (B,) model rows that ours asked for, repeated ones included.
        is_staged: whether ours drew its rows in stages.
    """
    everyone = list(range(game.n_samples))
    if ours.method == "trees":
        return [Terms(game, everyone, default_evaluations(game), 0, is_staged)]
    few = asked <= (1 + REPEATED) * ours.n_evaluations
    terms = list(zip(torch.where(few, asked, ours.n_evaluations).tolist(), asked.tolist(), strict=True))
    members = {term: [b for b, its in enumerate(terms) if its == term] for term in dict.fromkeys(terms)}
    if len(members) == 1:
        return [Terms(game, everyone, *terms[0], is_staged)]
    return [
        Terms(game.part(torch.tensor(samples, device=game.device)), samples, *term, is_staged)
        for term, samples in members.items()
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
