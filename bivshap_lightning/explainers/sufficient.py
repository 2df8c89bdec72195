"""Sufficient sets: the smallest set found that keeps the decision, and the stable one that withstands random additions.

A set grows by the best of the players with the largest gains (:mod:`bivshap_lightning.graph.candidates`), as the model
itself judges them, until the decision is that of the whole input; members are then dropped while it stays. All other
players are at their replacement. That is a weak promise: some supersets change the decision. The stable set grows on
until the decision is the same on random supersets in a row, and fresh ones certify it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bivshap_lightning.checks import check_integer
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.game import Game
from bivshap_lightning.graph.candidates import KeepGains
from bivshap_lightning.graph.checks import BoolArray, FloatArray

N_CANDIDATES, PLAYERS_PER_CANDIDATE, N_SUPERSETS = 4, 16, 32
SUPERSETS_PER_TURN = 8
"""Random supersets that are asked about at once: most sets that are not stable are found out by the first few."""
FIRST, GROWTH, CERTIFICATE = range(3)
"""Streams of random supersets, so that those of the certificate are fresh."""


@dataclass(frozen=True)
class SufficientSet:
    """Players of one sample that suffice for its decision.

    Attributes:
        members: indices, in the order in which they were added.
        stable_members: likewise of the stable set, which contains `members`.
        names: of the members.
        stable_names: of the stable members.
        n_players: of the sample.
        agreement: share of random supersets of `members` with the decision of the whole input.
        stable_agreement: share of fresh random supersets of `stable_members` with it: the certificate.
        n_supersets: how many random supersets each share is over.
        n_evaluations: model rows that were spent on the sample.
        n_stable_evaluations: how many of them on the stable set and on both shares.
        seed: of the random supersets.
    """

    members: tuple[int, ...]
    stable_members: tuple[int, ...]
    names: tuple[str, ...]
    stable_names: tuple[str, ...]
    n_players: int
    agreement: float
    stable_agreement: float
    n_supersets: int
    n_evaluations: int
    n_stable_evaluations: int
    seed: int

    @property
    def size(self) -> int:
        """Number of members; 0 if the decision stands without any player."""
        return len(self.members)

    @property
    def stable_size(self) -> int:
        """Number of stable members."""
        return len(self.stable_members)

    def __str__(self) -> str:
        return (
            f"{self.size} of {self.n_players} suffice; with {self.stable_size}, {self.stable_agreement:.0%} of random "
            "additions leave the decision"
        )


def sufficient_set(
    game: Game,
    explanation: Explanation,
    *,
    n_candidates: int | None = None,
    n_supersets: int = N_SUPERSETS,
    seed: int = 0,
) -> tuple[SufficientSet, ...]:
    """Find for each sample the smallest set of players that keeps its decision, and the stable one.

    The decision is what :meth:`~bivshap_lightning.Game.predict` returns: the predicted class, whether the target label
    is on, or, where a value is explained, on which side of the middle between all and no players it lies.

    Args:
        game: of B samples. Explain the predicted class (`target=None`): the gains are those of the explained one.
        explanation: of the same game, by any explainer; univariate ones rank by their attributions.
        n_candidates: players that the model compares in each step; by default 4, or a sixteenth of all if that is more.
        n_supersets: random supersets on which the stable set must agree, and that certify it.
        seed: of the random supersets.

    Returns:
        B sets.

    Raises:
        ValueError: the explanation is of another game, or a number is too small.

    Example:
        >>> from bivshap_lightning import BivariateShapley
        >>> weights = torch.tensor([8.0, 1.0, 1.0, -1.0])
        >>> game = Game(lambda x: x @ weights - 4, torch.ones(1, 4))
        >>> explanation = BivariateShapley(lambda x: x @ weights - 4).attribute(torch.ones(1, 4))
        >>> found = sufficient_set(game, explanation)[0]
        >>> found.members, found.stable_members, str(found)
        ((0,), (0,), '1 of 4 suffice; with 1, 100% of random additions leave the decision')
    """
    if n_candidates is None:
        n_candidates = max(N_CANDIDATES, game.n_players // PLAYERS_PER_CANDIDATE)
    check_integer(n_candidates, "n_candidates", minimum=1)
    check_integer(n_supersets, "n_supersets", minimum=1)
    if tuple(explanation.shapley.shape) != (game.n_samples, game.n_players):
        raise ValueError(
            f"`explanation` must be of the game's {game.n_samples} samples and {game.n_players} players, got "
            f"{tuple(explanation.shapley.shape)}. Explain the same game."
        )
    search = _Search(game, explanation, n_supersets, seed)
    search.grow(n_candidates)
    search.prune()
    members, spent_before = [tuple(order) for order in search.orders], game.n_evaluations
    agreement = search.stabilise()
    certificate = search.agree(n_supersets, CERTIFICATE, 0).mean(axis=1)
    spent = (game.n_evaluations - search.spent_before).tolist()
    spent_on_stable = (game.n_evaluations - spent_before).tolist()
    return tuple(
        SufficientSet(
            members=members[b],
            stable_members=tuple(search.orders[b]),
            names=tuple(search.names[b][k] for k in members[b]),
            stable_names=tuple(search.names[b][k] for k in search.orders[b]),
            n_players=int(search.counts[b]),
            agreement=float(agreement[b]),
            stable_agreement=float(certificate[b]),
            n_supersets=n_supersets,
            n_evaluations=spent[b],
            n_stable_evaluations=spent_on_stable[b],
            seed=seed,
        )
        for b in range(game.n_samples)
    )


class _Search:
    """Sets of all samples that grow and shrink together."""

    def __init__(self, game: Game, explanation: Explanation, n_supersets: int, seed: int) -> None:
        self.game, self.n_supersets = game, n_supersets
        self.seed = check_integer(seed, "seed", minimum=0)
        self.spent_before = game.n_evaluations.clone()
        self.counts = game.player_counts.cpu().numpy()
        # Null players change nothing, so they are never candidates.
        self.is_player: BoolArray = ~game.null_players.cpu().numpy()
        self.gains, self.signs, self.names = _gains_of(game, explanation)
        self.sets: BoolArray = np.zeros((game.n_samples, game.n_players), dtype=np.bool_)
        self.orders: list[list[int]] = [[] for _ in range(game.n_samples)]
        everyone = torch.ones(1, 1, game.n_players, dtype=torch.bool, device=game.device)
        self.decision = game.predict(everyone).cpu().numpy()

    def _keeps(self, masks: BoolArray) -> BoolArray:
        """Whether coalitions (B, K, F) have the decision of the whole input, (B, K)."""
        predicted = self.game.predict(self._tensor(masks)).cpu().numpy()
        same: BoolArray = predicted == self.decision
        return same

    def _tensor(self, masks: BoolArray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(masks)).to(self.game.device)

    def _candidates(self, b: int, n: int) -> list[int]:
        n_real = len(self.gains[b].alone)
        taken = self.sets[b, :n_real] | ~self.is_player[b, :n_real]
        found: list[int] = self.gains[b].best(taken, n).tolist()
        return found

    def _add(self, b: int, player: int) -> None:
        self.sets[b, player] = True
        self.orders[b].append(player)

    def grow(self, n_candidates: int) -> None:
        """Add players until the decision is that of the whole input."""
        is_short = ~self._keeps(self.sets[:, None])[:, 0]
        while True:
            choices = {b: self._candidates(b, n_candidates) for b in np.flatnonzero(is_short).tolist()}
            choices = {b: candidates for b, candidates in choices.items() if candidates}
            if not choices:
                return
            samples = [b for b, candidates in choices.items() for _ in candidates]
            masks = self.sets[samples]
            masks[np.arange(len(samples)), [k for candidates in choices.values() for k in candidates]] = True
            owners = torch.tensor(samples, dtype=torch.int64, device=self.game.device)
            values = self.game.values_of(self._tensor(masks), owners).double().cpu().numpy()
            ends = np.cumsum([len(candidates) for candidates in choices.values()])[:-1]
            for (b, candidates), found in zip(choices.items(), np.split(values, ends), strict=True):
                self._add(b, candidates[int(np.argmax(self.signs[b] * found))])
            is_short &= ~self._keeps(self.sets[:, None])[:, 0]

    def prune(self) -> None:
        """Drop members, the one of the smallest gain first, while the decision stays."""
        queues = [
            sorted(order, key=gains.alone.tolist().__getitem__)
            for order, gains in zip(self.orders, self.gains, strict=True)
        ]
        for turn in range(max(map(len, queues), default=0)):
            masks = self.sets.copy()
            tried = {b: queue[turn] for b, queue in enumerate(queues) if turn < len(queue) and len(self.orders[b]) > 1}
            for b, player in tried.items():
                masks[b, player] = False
            keeps = self._keeps(masks[:, None])[:, 0]
            for b, player in tried.items():
                if keeps[b]:
                    self.sets[b, player] = False
                    self.orders[b].remove(player)

    def agree(self, n: int, stream: int, number: int, is_open: BoolArray | None = None) -> BoolArray:
        """Whether random supersets have the decision of the whole input, (B, n).

        Each adds every other player with one probability; the probabilities are spread evenly from 0 to 1, so that
        there are supersets of all sizes. All samples have the same draws, whichever batch they are in.
        """
        rng = np.random.default_rng([self.seed, stream, number])
        chance = rng.permutation(n) + rng.random(n)
        added: BoolArray = (n * rng.random((self.sets.shape[1], n)) < chance).T[None]
        if is_open is not None:
            added = added & is_open[:, None, None]
        return self._keeps(self.sets[:, None] | added)

    def stabilise(self) -> FloatArray:
        """Add players until `n_supersets` random supersets in a row agree; returns the share that does at first."""
        agrees = self.agree(self.n_supersets, FIRST, 0)
        is_same = np.logical_and.reduce(agrees, axis=1)
        n_agreed = np.where(is_same, self.n_supersets, 0)
        is_open, turn = ~is_same, 0
        n = min(SUPERSETS_PER_TURN, self.n_supersets)
        while True:
            for b in np.flatnonzero(is_open & ~is_same).tolist():
                candidates = self._candidates(b, 1)
                if candidates:
                    self._add(b, candidates[0])
                is_open[b] = bool(candidates)
            if not is_open.any():
                first: FloatArray = agrees.mean(axis=1)
                return first
            is_same = np.logical_and.reduce(self.agree(n, GROWTH, turn, is_open), axis=1)
            n_agreed = np.where(is_same, n_agreed + n, 0)
            is_open &= n_agreed < self.n_supersets
            turn += 1


def _gains_of(game: Game, explanation: Explanation) -> tuple[list[KeepGains], list[float], list[tuple[str, ...]]]:
    """Gains, orientation and names of the players of each sample."""
    counts = game.player_counts.tolist()
    if explanation.bivariate is not None:
        graphs = [explanation.graph(b) for b in range(game.n_samples)]
        return [KeepGains.of(graph) for graph in graphs], [graph.sign for graph in graphs], [g.names for g in graphs]
    scores = explanation.shapley.double().cpu().numpy()
    gains = [KeepGains(scores[b, :n], np.zeros((n, n))) for b, n in enumerate(counts)]
    names = explanation.names or [tuple(str(k) for k in range(n)) for n in counts]
    return gains, [1.0] * len(gains), [tuple(its) for its in names]
