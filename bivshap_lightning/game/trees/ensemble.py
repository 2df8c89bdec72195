"""A tree ensemble as tensors, independent of the library that trained it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LEAF = -1
"""The child of a node that is a leaf."""
NUMERICAL = -1
# The largest difference, relative to the largest number involved, between a library's sum and ours: single precision.
TOLERANCE = 1e-5
# Rows times trees that are evaluated together.
ROWS_TIMES_TREES = 2**22


class UnsupportedTreesError(ValueError):
    """A model cannot be converted to a sum of trees, or the explained value is not linear in their leaves."""


@dataclass(frozen=True)
class Tree:
    """One tree as its library stores it; node 0 is the root.

    Attributes:
        feature: (N,) the column a node compares, :data:`LEAF` at leaves.
        threshold: (N,) a row goes left if its value is at most this.
        left: (N,) the left child.
        right: (N,) the right child.
        value: (N, K) what a leaf adds to the K outputs of the tree.
        categories: for nodes that compare a category: the codes that go left.
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]
    categories: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class TreeEnsemble:
    """A sum of trees.

    Attributes:
        feature: (N,) the column a node compares, -1 at leaves; the nodes of all trees are concatenated.
        threshold: (N,) float64, a row goes left if its value is at most this.
        children: (N, 2) the left and the right child.
        value: (N, K) float64, what a leaf adds to the K outputs of its tree.
        roots: (T,) where each tree starts, ascending.
        outputs: (T, K) which of the C scores a tree adds to.
        offset: (C,) float64, the scores before any tree.
        precision: the dtype in which the library compares values with thresholds.
        category: (N,) which set of categories a node compares, -1 for a threshold.
        category_sets: (sets, codes + 1) bool, whether a code goes left; the last one is for all other values.

    Example:
        >>> stump = Tree(*map(np.array, ([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], [[0.0], [-1], [1]])))
        >>> ensemble = TreeEnsemble.of([stump], outputs=[[0]], offset=[10.0], precision=torch.float64)
        >>> ensemble(torch.tensor([[0.4], [0.6]]))
        tensor([[ 9.],
                [11.]], dtype=torch.float64)
    """

    feature: Tensor
    threshold: Tensor
    children: Tensor
    value: Tensor
    roots: Tensor
    outputs: Tensor
    offset: Tensor
    precision: torch.dtype
    category: Tensor
    category_sets: Tensor

    @classmethod
    def of(
        cls,
        trees: Sequence[Tree],
        *,
        outputs: Sequence[Sequence[int]],
        offset: Sequence[float] | NDArray[np.float64],
        precision: torch.dtype,
    ) -> TreeEnsemble:
        """Concatenate trees.

        Args:
            trees: the trees.
            outputs: for each tree, the scores that its K values are added to.
            offset: the scores before any tree.
            precision: the dtype in which values are compared with thresholds.
        """
        roots = np.cumsum([0, *(len(tree.feature) for tree in trees)])[:-1]
        category, sets = _category_sets(trees, roots)
        children = [np.stack([t.left, t.right], axis=1) + root for t, root in zip(trees, roots, strict=True)]
        return cls(
            feature=_joined([tree.feature for tree in trees], torch.int64),
            threshold=_joined([tree.threshold for tree in trees], torch.float64),
            children=_joined(children, torch.int64),
            value=_joined([tree.value for tree in trees], torch.float64),
            roots=torch.as_tensor(roots),
            outputs=torch.as_tensor(np.asarray(outputs), dtype=torch.int64),
            offset=torch.tensor(np.asarray(offset), dtype=torch.float64),
            precision=precision,
            category=category,
            category_sets=sets,
        )

    @property
    def n_trees(self) -> int:
        """T."""
        return len(self.roots)

    def to(self, device: torch.device) -> TreeEnsemble:
        """The same trees on another device."""
        moved: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            moved[f.name] = value.to(device) if isinstance(value, Tensor) else value
        return TreeEnsemble(**moved)

    def as_compared(self, rows: Tensor) -> Tensor:
        """Rows in float64, rounded as the library rounds them before it compares."""
        return rows.to(self.precision).double()

    def goes_left(self, nodes: Tensor, values: Tensor) -> Tensor:
        """Whether values of the nodes' features go left, both of any one shape; values :meth:`as_compared`."""
        left = values <= self.threshold[nodes]
        if not len(self.category_sets):
            return left
        n_codes, which = self.category_sets.shape[1] - 1, self.category[nodes]
        code = values.trunc().clamp(-1, n_codes).long()
        code = code.masked_fill(code < 0, n_codes)
        return torch.where(which == NUMERICAL, left, self.category_sets[which.clamp(min=0), code])

    def leaf_values(self, leaves: Tensor, weights: Tensor) -> Tensor:
        """The contribution of single leaves to a weighted sum of scores.

        Args:
            leaves: (M,) nodes.
            weights: (M, C) the weight of each score.

        Returns:
            (M,) float64.
        """
        tree = torch.bucketize(leaves, self.roots, right=True) - 1
        return (self.value[leaves] * weights.gather(1, self.outputs[tree])).sum(dim=1)

    def __call__(self, rows: Tensor) -> Tensor:
        """Scores (N, C) of rows (N, features), in float64."""
        parts = self.as_compared(rows).split(max(1, ROWS_TIMES_TREES // self.n_trees))
        return torch.cat([self._scores(part) for part in parts])

    def _scores(self, rows: Tensor) -> Tensor:
        node = self.roots.expand(len(rows), -1)
        feature = self.feature[node]
        while bool((feature != LEAF).any()):
            left = self.goes_left(node, rows.gather(1, feature.clamp(min=0)))
            node = torch.where(feature == LEAF, node, self.children[node, (~left).long()])
            feature = self.feature[node]
        scores = self.offset.expand(len(rows), -1).clone()
        return scores.index_add_(1, self.outputs.flatten(), self.value[node].flatten(1))


def check_trees(ensemble: TreeEnsemble, rows: Tensor, scores: Tensor) -> None:
    """Refuse trees whose sum differs from the scores of their model.

    Args:
        ensemble: the trees that were read.
        rows: (N, features).
        scores: (N, C) of the model on these rows.

    Raises:
        UnsupportedTreesError: some score differs by more than single precision explains.
    """
    if len(ensemble.offset) != scores.shape[1]:
        raise UnsupportedTreesError(
            f"`model` must equal the sum of its trees, got {scores.shape[1]} scores for {len(ensemble.offset)} sums."
        )
    scale = torch.stack([x.abs().max() for x in (scores.double(), ensemble.offset, ensemble.value)]).max()
    distance = (ensemble(rows) - scores).abs().max()
    if not bool(distance <= TOLERANCE * scale):
        raise UnsupportedTreesError(
            f"`model` must equal the sum of its trees, got scores that differ by {float(distance):.2g} on a scale of "
            f"{float(scale):.2g}."
        )


def _joined(parts: Sequence[NDArray[np.generic]], dtype: torch.dtype) -> Tensor:
    return torch.as_tensor(np.concatenate(parts)).to(dtype)


def _category_sets(trees: Sequence[Tree], roots: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """The set of categories of each node, (N,), and the members of the sets, (sets, codes + 1)."""
    category = torch.full((sum(len(tree.feature) for tree in trees),), NUMERICAL)
    nodes = [(root + node, codes) for t, root in zip(trees, roots, strict=True) for node, codes in t.categories.items()]
    n_codes = 1 + max((code for _, codes in nodes for code in codes), default=-1)
    sets = torch.zeros(len(nodes), n_codes + 1, dtype=torch.bool)
    for index, (node, codes) in enumerate(nodes):
        category[node] = index
        sets[index, list(codes)] = True
    return category, sets
