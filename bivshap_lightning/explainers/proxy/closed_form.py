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


def gauss_nodes() -> list[tuple[float, float]]:
    """Pairs of a node x in (0, 1) and its weight; the weights of a node and its mirror image sum to 1 with all others.

    Example:
        >>> round(sum(2 * weight for _, weight in gauss_nodes()), 12)
        1.0
    """
    nodes, weights = np.polynomial.legendre.leggauss(2 * N_NODES)
    return [(float(x), float(w) / 2) for x, w in zip(nodes, weights, strict=True) if x > 0]


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
    result = relevance.new_zeros(len(relevance), len(players), len(signs))
    own_signs = signs.T[players]
    for x, node_weight in gauss_nodes():
        at_node, at_mirror = products(relevance, signs, x)
        f = _Factors.at(relevance[:, players], x)
        result += node_weight * f.row[:, :, None] * (at_node - at_mirror)[:, None]
        result += node_weight * f.row_sign[:, :, None] * own_signs * (at_node + at_mirror)[:, None]
    return result


def even_sections(relevance: Tensor, signs: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """E2 of every even section for some pairs of players, (B, K, P).

    Args:
        relevance: (B, n).
        signs: (P, n).
        rows: (K,) the players i.
        columns: (K,) the players j; -1 for the null column.
    """
    result = relevance.new_zeros(len(relevance), len(rows), len(signs))
    is_pair = (columns >= 0).to(relevance.dtype)
    row_signs, column_signs = signs.T[rows], signs.T[columns] * is_pair[:, None]
    for x, node_weight in gauss_nodes():
        by_node = products(relevance, signs, x)
        for mirror in (1, -1):
            f = _Factors.at(relevance, mirror * x)
            column = torch.where(columns >= 0, f.column[:, columns], 1.0)[:, :, None]
            column_sign = f.column_sign[:, columns, None] * column_signs
            row, row_sign = f.row[:, rows, None], f.row_sign[:, rows, None] * row_signs
            scale = node_weight * (1 + mirror * x) / 4
            for turn in (1, -1):  # the section of -t at x has the product of that of t at -x
                part = (row + turn * row_sign) * (column + turn * column_sign)
                result += part.mul_(scale * by_node[mirror != turn][:, None])
    return result


def odd_prior(relevance: Tensor) -> Tensor:
    """Prior variance (B, n) of the Shapley values under the odd part of the kernel."""
    weight, x = _all_nodes(relevance)
    result = torch.zeros_like(relevance)
    for sign in (1, -1):
        product = _prior_products(relevance, sign) * (weight[:, None] * weight)
        over = 1 + sign * relevance[:, None, None] * (x[:, None] * x)[..., None]
        result += (product[..., None] / over).sum(dim=(1, 2))
    return 2 * relevance * result


def even_prior(relevance: Tensor, rows: Tensor, columns: Tensor, *, pairwise: bool = False) -> Tensor:
    """Prior variance (B, K) of E2 under the even part of the kernel; column -1 stands for the null column.

    Args:
        relevance: (B, n).
        rows: (K,) the players i.
        columns: (K,) the players j.
        pairwise: of ``C = E2 - null column`` instead, where no column is -1.
    """
    weight, x = _all_nodes(relevance)
    weight = weight * (1 + x) / 2
    a, b = relevance[:, rows], relevance[:, columns]
    result = torch.zeros_like(a)
    for sign in (1, -1):
        product = _prior_products(relevance, sign) * (weight[:, None] * weight)
        for k, y in enumerate(x):
            over = sign * y * x[:, None]
            own = 1 + sign * b[:, None]
            if pairwise:  # minus twice the covariance with the null column, plus the variance of the latter
                own = own - 2 * (1 + sign * y * b[:, None]) + 1 + b[:, None] * over
            second = torch.where(columns >= 0, own / (1 + b[:, None] * over), 1.0)
            result += sign * 2 * a * (product[:, k, :, None] * second / (1 + a[:, None] * over)).sum(dim=1)
    return result


def _all_nodes(like: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and nodes, mirror images included, as tensors."""
    weights = [w for _, w in gauss_nodes() for _ in range(2)]
    return like.new_tensor(weights), like.new_tensor([m * x for x, _ in gauss_nodes() for m in (1, -1)])


def _prior_products(relevance: Tensor, sign: int) -> Tensor:
    """``prod_k (1 + sign a_k x y) / prod_k (1 + a_k)`` for all pairs of nodes x and y, (B, nodes, nodes)."""
    _, x = _all_nodes(relevance)
    grid = sign * (x[:, None] * x)[..., None]
    a = relevance[:, None, None]
    return (torch.log1p(a * grid) - torch.log1p(a)).sum(dim=3).exp()


def _gram(weights: Tensor, signs: Tensor) -> Tensor:
    """``signs' diag(weights[b]) signs`` for every sample, (B, n, n), one sample at a time."""
    return torch.stack([(signs * w[:, None]).T @ signs for w in weights])
