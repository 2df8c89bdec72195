"""Straight-line answers, written from the definitions and sharing no code with the package."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

Value = Callable[[frozenset[int]], float]


def enumerate_e2(value: Value, n: int) -> np.ndarray:
    """E2[i, j] by its definition, one subset at a time."""
    e2 = np.zeros((n, n))
    for i, j in itertools.permutations(range(n), 2):
        others = [k for k in range(n) if k not in (i, j)]
        for size in range(n - 1):
            for rest in itertools.combinations(others, size):
                s = frozenset(rest) | {j}
                weight = math.factorial(len(s)) * math.factorial(n - len(s) - 1) / math.factorial(n)
                e2[i, j] += weight * (value(s | {i}) - value(s))
    return e2


def enumerate_shapley(value: Value, n: int) -> np.ndarray:
    phi = np.zeros(n)
    for i in range(n):
        others = [k for k in range(n) if k != i]
        for size in range(n):
            for rest in itertools.combinations(others, size):
                s = frozenset(rest)
                weight = math.factorial(len(s)) * math.factorial(n - len(s) - 1) / math.factorial(n)
                phi[i] += weight * (value(s | {i}) - value(s))
    return phi


def table_value(table: np.ndarray) -> Value:
    """A game given by its 2 ** n values; player k is bit k."""
    return lambda s: float(table[sum(1 << k for k in s)])


def table_model(table: np.ndarray | Tensor) -> Callable[[Tensor], Tensor]:
    """The same game as a model: inputs of ones, removed players are zeros."""
    values = torch.as_tensor(np.asarray(table))
    bits = 2 ** torch.arange(int(math.log2(len(values))))
    return lambda x: values[(x.round().long() * bits).sum(dim=1)]


class Unanimity:
    """A sum of unanimity games ``a_T [T is a subset of S]``: E2 and Shapley values in closed form, for any n."""

    def __init__(self, n: int, n_terms: int, seed: int, n_null: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.n = n
        self.sets = [rng.choice(n - n_null, size=rng.integers(1, 5), replace=False) for _ in range(n_terms)]
        self.scales = rng.normal(size=n_terms)
        self.e2, self.shapley = np.zeros((n, n)), np.zeros(n)
        members = np.zeros((n_terms, n))
        for row, (t, a) in enumerate(zip(self.sets, self.scales, strict=True)):
            members[row, t] = 1
            self.shapley[t] += a / len(t)
            for i in t:
                self.e2[i] += np.where(members[row] == 1, a / len(t), a / (len(t) + 1))
        np.fill_diagonal(self.e2, 0)
        self._members, self._scales = torch.tensor(members), torch.tensor(self.scales)

    def __call__(self, x: Tensor) -> Tensor:
        whole = (x.double() @ self._members.T) >= self._members.sum(dim=1) - 0.5
        return whole.double() @ self._scales


def relative_error(estimate: Tensor | np.ndarray, truth: np.ndarray) -> float:
    """RMSE of the off-diagonal entries, relative to their size."""
    off = ~np.eye(len(truth), dtype=bool)
    return float(np.sqrt(np.mean((np.asarray(estimate) - truth)[off] ** 2) / np.mean(truth[off] ** 2)))


def paper_kernel(value: Callable[[Tensor], Tensor], n: int, n_coalitions: int, seed: int) -> np.ndarray:
    """The paper's second algorithm, literally: KernelSHAP's coalitions, one regression per column on masked labels."""
    rng = np.random.default_rng(seed)
    sizes = np.arange(1, (n - 1) // 2 + 1 + (n % 2 == 0))
    mass = (n - 1) / (sizes * (n - sizes)) * np.where(2 * sizes == n, 1, 2)
    mass /= mass.sum()
    masks, weights, left, first, remaining = [], [], n_coalitions, 0, 1.0
    for s, m in zip(sizes, mass, strict=True):
        count = math.comb(n, s) * (1 if 2 * s == n else 2)
        if left * m / remaining < count:
            break
        for members in itertools.combinations(range(n), s):
            mask = np.isin(np.arange(n), members)
            for row in [mask] if 2 * s == n else [mask, ~mask]:
                masks.append(row)
                weights.append(m / count)
        left, first, remaining = left - count, first + 1, remaining - m
    drawn = rng.choice(sizes[first:], size=left // 2, p=mass[first:] / mass[first:].sum())
    for s in drawn:
        mask = np.isin(np.arange(n), rng.choice(n, size=s, replace=False))
        masks += [mask, ~mask]
        weights += [remaining / (2 * len(drawn))] * 2
    z, w = np.array(masks, dtype=float), np.array(weights)
    ends = value(torch.tensor(np.stack([np.zeros(n), np.ones(n)]))).numpy()
    y = value(torch.tensor(z)).numpy()
    inverse = np.linalg.inv(z.T @ (w[:, None] * z))
    solution = inverse @ (z.T @ ((w * y)[:, None] * z))
    ones = inverse.sum(axis=1)
    e2 = solution - np.outer(ones, (solution.sum(axis=0) - ends[1]) / ones.sum())
    np.fill_diagonal(e2, 0)
    return e2


def add_conjunction(e2: np.ndarray, present: list[int], absent: list[int], value: float) -> None:
    """Add E2 of a game worth ``value`` if all of one set of players are present and all of another absent."""
    p, a, f = len(present), len(absent), math.factorial
    for members, gain, elsewhere in (
        (present, value * f(max(p - 1, 0)) * f(a) / f(p + a), p / (p + a + 1)),
        (absent, -value * f(p) * f(max(a - 1, 0)) / f(p + a), (p + 1) / (p + a + 1)),
    ):
        for i in members:
            e2[i] += gain * elsewhere
            e2[i, present] += gain * (1 - elsewhere)
            e2[i, absent] -= gain * elsewhere
            e2[i, i] = 0


class Conjunctions:
    """A sum of ANDs of equally many players, each present; E2 in closed form."""

    def __init__(self, n: int, n_members: int, n_terms: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.n = n
        self.sets = [sorted(rng.choice(n, n_members, replace=False).tolist()) for _ in range(n_terms)]
        self.scales = [1.0] if n_terms == 1 else rng.normal(size=n_terms).tolist()
        self.e2 = np.zeros((n, n))
        for t, a in zip(self.sets, self.scales, strict=True):
            add_conjunction(self.e2, t, [], a)

    def __call__(self, x: Tensor) -> Tensor:
        return sum(a * (x[:, t] > 0.5).all(dim=1).double() for t, a in zip(self.sets, self.scales, strict=True))


class RandomTrees:
    """A sum of random decision trees over present and absent players; E2 by summing over the leaves."""

    def __init__(self, n: int, seed: int, n_trees: int | None = None, depth: int = 5) -> None:
        rng = np.random.default_rng(seed)
        self.n, self.e2, self.depth = n, np.zeros((n, n)), depth
        # Some players are split on more often than others, as in forests on real tables.
        share = rng.dirichlet(np.full(n, 0.7))
        n_trees = n if n_trees is None else n_trees
        self._splits = np.stack([rng.choice(n, size=2**depth - 1, p=share) for _ in range(n_trees)])
        self._leaves = rng.normal(size=(n_trees, 2**depth))
        for splits, leaves in zip(self._splits, self._leaves, strict=True):
            self._walk(splits, leaves, 0, {})

    def _walk(self, splits: np.ndarray, leaves: np.ndarray, node: int, decided: dict[int, bool]) -> None:
        if node >= len(splits):
            sides = [[k for k, side in decided.items() if side is wanted] for wanted in (True, False)]
            add_conjunction(self.e2, sides[0], sides[1], leaves[node - len(splits)])
            return
        player = int(splits[node])
        for side in (False, True):
            if decided.get(player, side) is side:
                self._walk(splits, leaves, 2 * node + 1 + side, {**decided, player: side})

    def __call__(self, x: Tensor) -> Tensor:
        present = x.numpy() > 0.5
        total = np.zeros(len(present))
        rows = np.arange(len(present))
        for splits, leaves in zip(self._splits, self._leaves, strict=True):
            node = np.zeros(len(present), dtype=int)
            for _ in range(self.depth):
                node = 2 * node + 1 + present[rows, splits[node]]
            total += leaves[node - len(splits)]
        return torch.from_numpy(total)
