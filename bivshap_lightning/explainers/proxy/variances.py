"""Posterior variances of what is read off a Gaussian process: some in closed form, the others extended from them."""

from __future__ import annotations

import torch
from torch import Tensor

from bivshap_lightning.explainers.proxy import closed_form
from bivshap_lightning.explainers.proxy.gaussian_process import Factors, Hyperparameters

# Entries of E2 whose posterior error is computed; with more, those of the others follow from the players' relevances.
ERROR_PAIRS = 1024
# Players whose posterior error is computed, likewise.
ERROR_PLAYERS = 256


def posterior_variances(
    signs: Tensor, parameters: Hyperparameters, factors: Factors
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Variances of E2, Shapley values, null column and C per unit of scale, approximated for large n.

    Args:
        signs: (P + 1, n) of the pairs that the process is conditioned on, the last one being the full and the empty
            coalition.
        parameters: of the kernel.
        factors: of the systems.
    """
    n = signs.shape[1]
    relevance, share, linear = parameters.relevance, parameters.odd_share, parameters.linear
    players, places, columns = _functionals(n, relevance.device)
    m, rows = len(players), players[places]
    sections = share[:, :, None] * closed_form.odd_sections(relevance, signs, players)
    sections += 2 * linear[:, players, None] * signs.T[players]
    prior = share * closed_form.odd_prior(relevance)[:, players] + 4 * linear[:, players]
    odd, odd_empty = _reduce(prior, sections, sections @ factors.odd_inverse)
    few, some = torch.cat([players, rows]), torch.cat([torch.full_like(players, -1), columns])
    sections = closed_form.even_sections(relevance, signs, few, some)
    solved = sections @ factors.even_inverse
    even, even_empty = _reduce(closed_form.even_prior(relevance, few, some), sections, solved)
    # C is E2 minus the null column, whose odd parts are equal and cancel.
    prior = closed_form.even_prior(relevance, rows, columns, pairwise=True)
    differences = (x[:, m:] - x[:, places] for x in (sections, solved))
    pairwise, pairwise_empty = _reduce(prior, *differences)
    # The empty coalition is in the inverses but was not observed: its influence is removed.
    precision = (factors.odd_inverse[:, -1, -1:] + factors.even_inverse[:, -1, -1:]) / 4
    logs = relevance.log()
    shapley = _extend(odd + (odd_empty / 2) ** 2 / precision, players, logs)
    null = odd / 4 + even[:, :m] + ((even_empty[:, :m] - odd_empty / 2) / 2) ** 2 / precision
    bivariate = odd[:, places] / 4 + even[:, m:] + (even_empty[:, m:] / 2) ** 2 / precision
    pairwise = pairwise + (pairwise_empty / 2) ** 2 / precision
    bivariate, pairwise = (_extend_pairs(x, rows, columns, logs) for x in (bivariate, pairwise))
    return bivariate, shapley, _extend(null, players, logs), pairwise


def _functionals(n: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """What variances are computed of, everything if it is little: players, and pairs of one of them and a column.

    The first player of each pair is given by its place among the players.
    """
    n_players = min(n, ERROR_PLAYERS)
    n_pairs = min(n_players * (n - 1), ERROR_PAIRS)
    players = torch.arange(n_players, device=device) * n // n_players
    pairs = torch.arange(n_pairs, device=device) * (n_players * (n - 1)) // n_pairs
    places, others = pairs // (n - 1), pairs % (n - 1)
    return players, places, others + (others >= players[places]).long()


def _extend(some: Tensor, players: Tensor, logs: Tensor) -> Tensor:
    """Variances (B, n) of all players from those (B, m) of some, log-linear in the logarithms (B, n) of relevances."""
    if len(players) == logs.shape[1]:
        return some
    columns = torch.stack([torch.ones_like(logs), logs], dim=2)
    fitted = _log_linear(columns[:, players], some, columns)
    fitted[:, players] = some
    return fitted


def _extend_pairs(some: Tensor, rows: Tensor, columns: Tensor, logs: Tensor) -> Tensor:
    """Variances (B, n, n) of all pairs from those (B, K) of some."""
    n_samples, n = logs.shape
    if len(rows) == n * (n - 1):
        whole = some.new_zeros(n_samples, n, n)
        whole[:, rows, columns] = some
        return whole
    features = torch.stack([torch.ones_like(logs), logs], dim=2)
    known = torch.cat([features[:, rows], logs[:, columns, None]], dim=2)
    coefficients, level = _log_linear_fit(known, some)
    by_row = (features @ coefficients[:, :2])[:, :, 0] + level
    whole = (by_row[:, :, None] + (coefficients[:, 2:] * logs[:, None])).exp()
    whole[:, rows, columns] = some
    return whole


def _log_linear(known: Tensor, some: Tensor, columns: Tensor) -> Tensor:
    coefficients, level = _log_linear_fit(known, some)
    return ((columns @ coefficients)[:, :, 0] + level).exp()


def _log_linear_fit(columns: Tensor, variances: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients (B, k, 1) of a log-linear fit, and the logarithm (B, 1) of what keeps the mean variance."""
    floor = variances.amax(dim=1, keepdim=True).clamp(min=1e-300) * 1e-12
    target = torch.maximum(variances, floor).log()
    normal = columns.transpose(1, 2) @ columns
    normal = normal + 1e-9 * len(columns[0]) * torch.eye(columns.shape[2], dtype=columns.dtype, device=columns.device)
    coefficients = torch.linalg.solve(normal, columns.transpose(1, 2) @ target[:, :, None])
    fitted = (columns @ coefficients)[:, :, 0].exp()
    return coefficients, (target.exp().mean(dim=1, keepdim=True) / fitted.mean(dim=1, keepdim=True)).log()


def _reduce(prior: Tensor, sections: Tensor, solved: Tensor) -> tuple[Tensor, Tensor]:
    """Posterior variances (B, K) of functionals, and the weight (B, K) of the last pair in each."""
    return (prior - (solved * sections).sum(dim=2)).clamp(min=0), solved[:, :, -1]
