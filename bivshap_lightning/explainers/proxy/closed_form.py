"""Closed forms of bivariate Shapley values for the product kernel of the Gaussian-process proxy.

A coalition is a vector ``s`` of signs, 1 for present and -1 for absent players. The kernel is
``k(s, t) = prod_i (1 + a_i s_i t_i) / prod_i (1 + a_i)`` with a relevance ``0 < a_i < 1`` per player. Its sections have

    ``E2[i, j] = integral_0^1 q 2 a_i t_i (1 + a_j t_j) prod_{k != i, j} (1 + a_k t_k x) dq``  with ``x = 2 q - 1``

and the Shapley value of i without the factors of q and j, the null column without the factor of j. These are
polynomials in q, integrated by Gauss-Legendre nodes. The kernel splits into an odd part, which changes sign with the
complement of t and only has Shapley values (``E2[i, j] = shapley[i] / 2``), and an even part, whose Shapley values are
zero. Nodes x and -x share their sums over t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

# Nodes in (0, 1); with their mirror images they integrate polynomials in q of degree 15 exactly, and products of
# hundreds of factors close to 1 to about 1e-7.
N_NODES = 4


@dataclass(frozen=True)
class _Factors:
    """At a node x, the factors of i and j relative to ``1 + a t x`` as linear functions of the sign t, (B, n) each.

    ``2 a t / (1 + a t x) = row + row_sign t`` and ``(1 + a t) / (1 + a t x) = column + column_sign t``.
    """

    row: Tensor
    row_sign: Tensor
    column: Tensor
    column_sign: Tensor

    @classmethod
    def at(cls, relevance: Tensor, x: float) -> _Factors:
        a, denominator = relevance, 1 - (relevance * x) ** 2
        return cls(
            row=-2 * a**2 * x / denominator,
            row_sign=2 * a / denominator,
            column=(1 - a**2 * x) / denominator,
            column_sign=a * (1 - x) / denominator,
        )


@lru_cache(maxsize=1)
def gauss_nodes() -> tuple[tuple[float, float], ...]:
    """Pairs of a node x in (0, 1) and its weight; the weights of a node and its mirror image sum to 1 with all others.

    Example:
        >>> round(sum(2 * weight for _, weight in gauss_nodes()), 12)
        1.0
    """
    nodes, weights = np.polynomial.legendre.leggauss(2 * N_NODES)
    return tuple((float(x), float(w) / 2) for x, w in zip(nodes, weights, strict=True) if x > 0)


def products(relevance: Tensor, signs: Tensor, x: float) -> tuple[Tensor, Tensor]:
    """``prod_k (1 + a_k t_k x) / prod_k (1 + a_k)`` at a node and at its mirror image, (B, P) each.

    Args:
        relevance: (B, n).
        signs: (P, n).
        x: the node.
    """
    up, down = torch.log1p(relevance * x), torch.log1p(-relevance * x)
    level = ((up + down) / 2 - torch.log1p(relevance)).sum(dim=1, keepdim=True)
    tilt = ((up - down) / 2) @ signs.T
    return (level + tilt).exp(), (level - tilt).exp()


def even_part(relevance: Tensor, signs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """E2 (B, n, n) and null column (B, n) of ``sum_p weights[p] (k(s, t_p) + k(s, -t_p)) / 2``.

    Args:
        relevance: (B, n).
        signs: (P, n) centres t_p.
        weights: (B, P).
    """
    n_samples, n = relevance.shape
    bivariate, null_column = relevance.new_zeros(n_samples, n, n), relevance.new_zeros(n_samples, n)
    for x, node_weight in gauss_nodes():
        at_node, at_mirror = products(relevance, signs, x)
        same, opposite = weights * (at_node + at_mirror) / 2, weights * (at_node - at_mirror) / 2
        total, single = same.sum(dim=1, keepdim=True), opposite @ signs
        pairs = _gram(same, signs)
        for mirror in (1, -1):
            f, scale = _Factors.at(relevance, mirror * x), node_weight * (1 + mirror * x) / 2
            bivariate += scale * (f.row_sign[:, :, None] * f.column_sign[:, None]) * pairs
            by_row = f.row * total + mirror * f.row_sign * single
            bivariate += scale * by_row[:, :, None] * f.column[:, None]
            bivariate += scale * f.row[:, :, None] * (mirror * f.column_sign * single)[:, None]
            null_column += scale * by_row
    return bivariate, null_column


def odd_part(relevance: Tensor, signs: Tensor, weights: Tensor) -> Tensor:
    """Shapley values (B, n) of ``sum_p weights[p] (k(s, t_p) - k(s, -t_p)) / 2``; E2 is half of them."""
    shapley = torch.zeros_like(relevance)
    for x, node_weight in gauss_nodes():
        at_node, at_mirror = products(relevance, signs, x)
        same, opposite = weights * (at_node + at_mirror) / 2, weights * (at_node - at_mirror) / 2
        total, single = opposite.sum(dim=1, keepdim=True), same @ signs
        f = _Factors.at(relevance, x)
        # Both factors of a node equal those of its mirror image, where row and total change their signs.
        shapley += 2 * node_weight * (f.row * total + f.row_sign * single)
    return shapley


def odd_sections(relevance: Tensor, signs: Tensor, players: Tensor) -> Tensor:
    """Shapley values of every odd section for some players, (B, K, P)."""
    same, opposite = _sections_of_products(relevance, signs)
    nodes = [(w, _Factors.at(relevance[:, players], x)) for x, w in gauss_nodes()]
    level = torch.stack([w * f.row for w, f in nodes], dim=2) @ opposite
    return level.addcmul_(signs.T[players], torch.stack([w * f.row_sign for w, f in nodes], dim=2) @ same)


def even_sections(relevance: Tensor, signs: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """E2 of every even section for some pairs of players, (B, K, P).

    Args:
        relevance: (B, n).
        signs: (P, n).
        rows: (K,) the players i.
        columns: (K,) the players j; -1 for the null column.
    """
    same, opposite = _sections_of_products(relevance, signs)
    level, by_row, by_column, by_both = _even_coefficients(relevance, rows, columns)
    of_rows, of_columns = signs.T[rows], signs.T[columns]
    result = by_both @ same
    result *= of_rows
    result += by_column @ opposite
    result *= of_columns
    result += level @ same
    return result.addcmul_(of_rows, by_row @ opposite)


def _sections_of_products(relevance: Tensor, signs: Tensor) -> tuple[Tensor, Tensor]:
    """Sums and differences of the products at the nodes and at their mirror images, (B, nodes, P) each."""
    parts = [products(relevance, signs, x) for x, _ in gauss_nodes()]
    return torch.stack([a + b for a, b in parts], dim=1), torch.stack([a - b for a, b in parts], dim=1)


def _even_coefficients(relevance: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """How even sections depend on the signs of i and j: coefficients (B, K, nodes) of 1, s_i, s_j and s_i s_j.

    The first and the last one multiply sums of products, the others differences.
    """
    is_pair = columns >= 0
    found = []
    for x, node_weight in gauss_nodes():
        parts = []
        for mirror in (1, -1):
            f, scale = _Factors.at(relevance, mirror * x), node_weight * (1 + mirror * x) / 4
            column = torch.where(is_pair, f.column[:, columns], 1.0) * scale
            column_sign = torch.where(is_pair, f.column_sign[:, columns], 0.0) * scale
            row, row_sign = f.row[:, rows], f.row_sign[:, rows]
            parts.append((row * column, mirror * row_sign * column, mirror * row * column_sign, row_sign * column_sign))
        found.append([a + b for a, b in zip(*parts, strict=True)])
    level, by_row, by_column, by_both = (torch.stack(same, dim=2) for same in zip(*found, strict=True))
    return level, by_row, by_column, by_both


def odd_prior(relevance: Tensor) -> Tensor:
    """Prior variance (B, n) of the Shapley values under the odd part of the kernel."""
    grid = _Grid.like(relevance)
    return (_row_priors(relevance, grid) * grid.odd).sum(dim=2)


def even_prior(relevance: Tensor, rows: Tensor, columns: Tensor, *, pairwise: bool = False) -> Tensor:
    """Prior variance (B, K) of E2 under the even part of the kernel; column -1 stands for the null column.

    Args:
        relevance: (B, n).
        rows: (K,) the players i.
        columns: (K,) the players j.
        pairwise: of ``C = E2 - null column`` instead, where no column is -1.
    """
    grid = _Grid.like(relevance)
    b, own = relevance[:, :, None], grid.level + relevance[:, :, None] * grid.column
    if pairwise:  # minus twice the covariance with the null column, plus the variance of the latter
        own = own + grid.level * (b * grid.nodes - 1) - 2 * b * grid.cross
    by_column = torch.where(columns[:, None] >= 0, (own / (1 + b * grid.nodes))[:, columns], grid.level)
    return (_row_priors(relevance, grid)[:, rows] * by_column).sum(dim=2)


@dataclass(frozen=True)
class _Grid:
    """Products ``z = sign x y`` of pairs of nodes, of which prior variances are sums; equal products are one node.

    Attributes:
        nodes: (T,) different products.
        odd: (T,) sums of the weights of x and y.
        level: (T,) sums of signs times weights, which contain the factors q of E2, and likewise below.
        column: (T,) sums of weights.
        cross: (T,) sums of weights times y.
    """

    nodes: Tensor
    odd: Tensor
    level: Tensor
    column: Tensor
    cross: Tensor

    @classmethod
    def like(cls, tensor: Tensor) -> _Grid:
        """The grid in the precision and on the device of a tensor."""
        return cls(*(tensor.new_tensor(values) for values in _grid()))


@lru_cache(maxsize=1)
def _grid() -> tuple[tuple[float, ...], ...]:
    """The attributes of :class:`_Grid`."""
    all_nodes = [(mirror * x, w) for x, w in gauss_nodes() for mirror in (1, -1)]
    sums: dict[float, list[float]] = {}
    for x, u in all_nodes:
        for y, v in all_nodes:
            for sign in (1, -1):
                weight = u * v * (1 + x) * (1 + y) / 4
                parts = (sign * x * y, u * v, sign * weight, weight, weight * y)
                found = sums.setdefault(round(parts[0], 12), [parts[0], 0.0, 0.0, 0.0, 0.0])
                for k, part in enumerate(parts[1:], start=1):
                    found[k] += part
    return tuple(zip(*sums.values(), strict=True))


def _row_priors(relevance: Tensor, grid: _Grid) -> Tensor:
    """``2 a_i / (1 + a_i z) prod_k (1 + a_k z) / (1 + a_k)`` at all nodes z of the grid, (B, n, T)."""
    a = relevance[:, :, None]
    terms = 1 + a * grid.nodes
    return 2 * a / terms * (terms.log() - torch.log1p(a)).sum(dim=1, keepdim=True).exp()


def _gram(weights: Tensor, signs: Tensor) -> Tensor:
    """``signs' diag(weights[b]) signs`` for every sample, (B, n, n), one sample at a time."""
    return torch.stack([(signs * w[:, None]).T @ signs for w in weights])
