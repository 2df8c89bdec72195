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

# Paths that descend together: enough to keep a device busy, few enough to stay in a processor's cache.
MAX_PATHS = 2**16


@dataclass(frozen=True)
class _Paths:
    """M paths from a root down to a node.

    Attributes:
        samples: (M,) the sample of each path.
        rows: (M,) its replacement row.
        nodes: (M,) the node that is reached.
        literals: (M, W) int32, what has been decided: 2 k for player k present, 2 k + 1 for absent, -1 for nothing.
    """

    samples: Tensor
    rows: Tensor
    nodes: Tensor
    literals: Tensor

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, index: slice | Tensor) -> _Paths:
        return _Paths(self.samples[index], self.rows[index], self.nodes[index], self.literals[index])


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
    """Adds up the leaves that paths reach, such as :class:`ConjunctionSum`."""

    def add(self, samples: Tensor, values: Tensor, literals: Tensor) -> None:
        """Add conjunctions, see :meth:`ConjunctionSum.add`."""


def add_leaves(game: ReducedGame, sums: LeafSum) -> None:
    """Add all leaves that mixtures of a sample and its baselines reach, as conjunctions.

    Raises:
        UnsupportedTreesError: the model is no tree ensemble, or the utility is not linear in its scores.
    """
    ensemble, weights = game.game.trees()
    _Descent(game, ensemble, weights).add_to(sums)


def explain_trees(game: ReducedGame) -> Estimate:
    """Bivariate Shapley values of a game whose model is a tree ensemble and whose utility is linear in its scores.

    Raises:
        UnsupportedTreesError: the game is not of that kind.
    """
    sums = ConjunctionSum(game.n_samples, game.n_players, game.device)
    add_leaves(game, sums)
    return sums.estimate()


class _Descent:
    """Descends the trees of an ensemble with all samples and replacement rows of a game."""

    def __init__(self, game: ReducedGame, ensemble: TreeEnsemble, weights: Tensor) -> None:
        self.game, self.ensemble, self.weights = game, ensemble, weights.double()
        replacements = game.game.removal.rows[0]
        self.n_rows, self.shares_rows = replacements.shape[1], len(replacements) == 1
        self.inputs = ensemble.as_compared(game.game.inputs[0])
        self.replacements = ensemble.as_compared(replacements).flatten(0, 1)
        self.players = _players_of_features(game)

    def add_to(self, sums: LeafSum) -> None:
        """Descend all trees, and add the leaves."""
        for start in self._starts():
            unfinished = [start]
            while unfinished:
                paths = unfinished.pop()
                if len(paths) > MAX_PATHS:
                    unfinished += [paths[: len(paths) // 2], paths[len(paths) // 2 :]]
                    continue
                at_leaf = self.ensemble.feature[paths.nodes] == LEAF
                self._finish(paths[at_leaf], sums)
                if not bool(at_leaf.all()):
                    unfinished.append(self._step(paths[~at_leaf]))

    def _starts(self) -> Iterator[_Paths]:
        """Paths at the roots of all trees that contribute to a sample's value, for each of its replacement rows."""
        matters = (self.weights[:, self.ensemble.outputs] != 0).any(dim=2)
        n_pairs, device = self.game.n_samples * self.n_rows, self.game.device
        for pairs in torch.arange(n_pairs, device=device).split(max(1, MAX_PATHS // self.ensemble.n_trees)):
            which, trees = matters[pairs // self.n_rows].nonzero(as_tuple=True)
            samples = pairs[which] // self.n_rows
            rows = pairs[which] % self.n_rows if self.shares_rows else pairs[which]
            literals = torch.full((len(trees), 1), -1, dtype=torch.int32, device=device)
            yield _Paths(samples, rows, self.ensemble.roots[trees], literals)

    def _step(self, paths: _Paths) -> _Paths:
        """Descend by one node. A path splits where sample and replacement differ and the player is undecided."""
        feature = self.ensemble.feature[paths.nodes]
        player = self.players[paths.samples if len(self.players) > 1 else 0, feature]
        left = self.ensemble.goes_left(paths.nodes, self.inputs[paths.samples, feature])
        replacement_left = self.ensemble.goes_left(paths.nodes, self.replacements[paths.rows, feature])
        differ = (left != replacement_left) & (player >= 0)
        absent = (paths.literals == (2 * player + 1)[:, None]).any(dim=1) & differ
        present = (paths.literals == (2 * player)[:, None]).any(dim=1)
        splits = differ & ~absent & ~present
        follows = torch.where(absent, replacement_left, left)
        decided = torch.where(splits, 2 * player, -1)
        other = splits.nonzero()[:, 0]
        nodes = self.ensemble.children[paths.nodes, (~follows).long()]
        replacement_nodes = self.ensemble.children[paths.nodes[other], (~replacement_left[other]).long()]
        literals = pad(paths.literals, (0, 1), value=-1)
        literals = torch.cat([literals, literals[other]])
        literals[:, -1] = torch.cat([decided, 2 * player[other] + 1])
        return _Paths(
            torch.cat([paths.samples, paths.samples[other]]),
            torch.cat([paths.rows, paths.rows[other]]),
            torch.cat([nodes, replacement_nodes]),
            literals,
        )

    def _finish(self, paths: _Paths, sums: LeafSum) -> None:
        values = self.ensemble.leaf_values(paths.nodes, self.weights[paths.samples]) / self.n_rows
        sums.add(paths.samples, values, paths.literals)


def _players_of_features(game: ReducedGame) -> Tensor:
    """(1 or B, features) int32: the remaining player that a feature belongs to, -1 if its value always stays."""
    ids = game.game.players.ids[0]
    places = pad(game.places, (0, 1), value=-1)  # elements that belong to no player carry the id after the last one
    n = max(len(ids), len(places))
    return places.expand(n, -1).gather(1, ids.expand(n, -1)).int()
