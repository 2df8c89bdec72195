"""Exact values of tree ensembles, in polynomial time, without running the model.

A sample and its replacement row descend every tree together. Where both go the same way, nothing happens. Where they
differ, the descent splits: one branch follows the sample, which needs the player of the split to be present, the other
the replacement row, which needs it to be absent; from there on that player is decided. A leaf that is reached is a
conjunction of the decisions on its path, and :mod:`~bivshap_lightning.explainers.conjunctions` has its values in closed
form. Leaves that no mixture of sample and replacement reaches are never visited, so deep trees cost little more than
shallow ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from bivshap_lightning.explainers.conjunctions import ConjunctionSum
from bivshap_lightning.explainers.estimator import explain_without_null_players
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.null_players import Estimate, ReducedGame
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.game import Game
from bivshap_lightning.game.trees import LEAF, TreeEnsemble

# Walkers that take a step together: enough to keep a device busy, few enough to stay in a processor's cache.
WALKERS = 2**16


@dataclass(frozen=True)
class _Walkers:
    """Where M walks stand.

    Attributes:
        samples: (M,) whose walk it is.
        twins: (M,) the row that stands in for the sample.
        nodes: (M,) the node that is reached.
        literals: (M, W) int32, what has been decided: 2 k for player k present, 2 k + 1 for absent, -1 for nothing.
    """

    samples: Tensor
    twins: Tensor
    nodes: Tensor
    literals: Tensor

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, index: slice | Tensor) -> _Walkers:
        return _Walkers(self.samples[index], self.twins[index], self.nodes[index], self.literals[index])


class _LeafSums:
    """Sums over leaves as an estimator."""

    name = "trees"
    is_exact = True

    def minimum_evaluations(self, n_players: int) -> int:
        return 0

    def estimate(self, game: ReducedGame, n_coalitions: int, generator: torch.Generator) -> Estimate:
        return explain_trees(game)


@register
class Trees:
    """Exact values of tree ensembles as an explainer.

    Example:
        >>> import numpy as np
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> forest = RandomForestClassifier(n_estimators=7, random_state=0).fit(np.eye(4), [0, 0, 1, 1])
        >>> Trees().explain(Game(forest, np.eye(4))).n_evaluations
        tensor([0, 0, 0, 0])
    """

    name = "trees"
    is_exact = True

    def minimum_evaluations(self, game: Game) -> int:
        """None: the model is not run."""
        return 0

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain a game of trees.

        Raises:
            UnsupportedTreesError: the game is not of that kind.
        """
        game.trees()  # read and checked once per game, so the few rows of the check are not part of an explanation
        return explain_without_null_players(_LeafSums(), game, n_evaluations=n_evaluations, seed=seed)


class LeafSum(Protocol):
    """What adds up the leaves that the walks reach, such as :class:`ConjunctionSum`."""

    def add(self, samples: Tensor, values: Tensor, literals: Tensor) -> None:
        """Add conjunctions, see :meth:`ConjunctionSum.add`."""


def add_leaves(game: ReducedGame, sums: LeafSum) -> None:
    """Add all leaves that mixtures of a sample and its baselines reach, as conjunctions.

    Raises:
        UnsupportedTreesError: the model is no tree ensemble, or the utility is not linear in its scores.
    """
    ensemble, weights = game.game.trees()
    _Walk(game, ensemble, weights).add_to(sums)


def explain_trees(game: ReducedGame) -> Estimate:
    """Bivariate Shapley values of a game whose model is a tree ensemble and whose utility is linear in its scores.

    Raises:
        UnsupportedTreesError: the game is not of that kind.
    """
    sums = ConjunctionSum(game.n_samples, game.n_players, game.device)
    add_leaves(game, sums)
    return sums.estimate()


class _Walk:
    """All walks of a game through an ensemble."""

    def __init__(self, game: ReducedGame, ensemble: TreeEnsemble, weights: Tensor) -> None:
        self.game, self.ensemble, self.weights = game, ensemble, weights.double()
        stand_ins = game.game.removal.rows[0]
        self.n_rows, self.shares_rows = stand_ins.shape[1], len(stand_ins) == 1
        self.inputs = ensemble.as_compared(game.game.inputs[0])
        self.stand_ins = ensemble.as_compared(stand_ins).flatten(0, 1)
        self.players = _players_of_features(game)

    def add_to(self, sums: LeafSum) -> None:
        """Walk, and add the leaves."""
        for start in self._starts():
            unfinished = [start]
            while unfinished:
                walkers = unfinished.pop()
                if len(walkers) > WALKERS:
                    unfinished += [walkers[: len(walkers) // 2], walkers[len(walkers) // 2 :]]
                    continue
                at_leaf = self.ensemble.feature[walkers.nodes] == LEAF
                self._finish(walkers[at_leaf], sums)
                if not bool(at_leaf.all()):
                    unfinished.append(self._step(walkers[~at_leaf]))

    def _starts(self) -> Iterator[_Walkers]:
        """Walkers at the roots of all trees that matter to a sample, for each of its stand-ins."""
        matters = (self.weights[:, self.ensemble.outputs] != 0).any(dim=2)
        n_pairs, device = self.game.n_samples * self.n_rows, self.game.device
        for pairs in torch.arange(n_pairs, device=device).split(max(1, WALKERS // self.ensemble.n_trees)):
            which, trees = matters[pairs // self.n_rows].nonzero(as_tuple=True)
            samples = pairs[which] // self.n_rows
            twins = pairs[which] % self.n_rows if self.shares_rows else pairs[which]
            literals = torch.full((len(trees), 1), -1, dtype=torch.int32, device=device)
            yield _Walkers(samples, twins, self.ensemble.roots[trees], literals)

    def _step(self, walkers: _Walkers) -> _Walkers:
        """One step down. Where sample and stand-in part and the player is undecided, there are two walkers after it."""
        feature = self.ensemble.feature[walkers.nodes]
        player = self.players[walkers.samples if len(self.players) > 1 else 0, feature]
        left = self.ensemble.goes_left(walkers.nodes, self.inputs[walkers.samples, feature])
        twin_left = self.ensemble.goes_left(walkers.nodes, self.stand_ins[walkers.twins, feature])
        parts = (left != twin_left) & (player >= 0)
        absent = (walkers.literals == (2 * player + 1)[:, None]).any(dim=1) & parts
        present = (walkers.literals == (2 * player)[:, None]).any(dim=1)
        forks = parts & ~absent & ~present
        follows = torch.where(absent, twin_left, left)
        decided = torch.where(forks, 2 * player, -1)
        other = forks.nonzero()[:, 0]
        nodes = self.ensemble.children[walkers.nodes, (~follows).long()]
        twin_nodes = self.ensemble.children[walkers.nodes[other], (~twin_left[other]).long()]
        literals = pad(walkers.literals, (0, 1), value=-1)
        literals = torch.cat([literals, literals[other]])
        literals[:, -1] = torch.cat([decided, 2 * player[other] + 1])
        return _Walkers(
            torch.cat([walkers.samples, walkers.samples[other]]),
            torch.cat([walkers.twins, walkers.twins[other]]),
            torch.cat([nodes, twin_nodes]),
            literals,
        )

    def _finish(self, walkers: _Walkers, sums: LeafSum) -> None:
        values = self.ensemble.leaf_values(walkers.nodes, self.weights[walkers.samples]) / self.n_rows
        sums.add(walkers.samples, values, walkers.literals)


def _players_of_features(game: ReducedGame) -> Tensor:
    """(1 or B, features) int32: the remaining player that a feature belongs to, -1 if its value always stays."""
    ids = game.game.players.ids[0]
    places = pad(game.places, (0, 1), value=-1)  # elements that belong to no player carry the id after the last one
    n = max(len(ids), len(places))
    return places.expand(n, -1).gather(1, ids.expand(n, -1)).int()
