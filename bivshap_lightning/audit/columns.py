"""Which columns of a table can go: importance, roles, the cost of dropping each, and copies in the data.

The cost is the mean Shapley value of the **loss game with true labels** (`behavior="loss"`), which of all measures
agreed best with training again without the column. What is recommended here is a guess about that: retrain to confirm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bivshap_lightning.audit.association import FloatArray, copies
from bivshap_lightning.audit.batches import Batch
from bivshap_lightning.audit.record_columns import COPY, Column, ColumnReport
from bivshap_lightning.audit.results import ChunkResult, ExplainedSample
from bivshap_lightning.audit.settings import AuditSettings
from bivshap_lightning.explainers import BivariateShapley, default_evaluations, find_explainer
from bivshap_lightning.game import Game
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.roles import ROLES, Roles, roles_of_all
from bivshap_lightning.graph.threshold import relative_gamma

MIN_SAMPLES = 16
"""Samples from which on an audit reports on columns: of fewer, two columns can be alike by chance."""
MAX_VALUES, ROWS_PER_VALUE = 20, 5
"""A column of at most so many values, each on so many rows on average, is taken to hold categories."""


def column_report(
    model: Any,
    inputs: Any,
    labels: Any,
    *,
    names: Sequence[str] | None = None,
    categorical: Collection[int] = (),
    data: Any = None,
    baselines: Any = None,
    background: Any = None,
    method: str = "auto",
    n_evaluations: int | None = None,
    seed: int = 0,
) -> ColumnReport:
    """What each column of a table is to a classifier, what dropping it costs, and which columns can go.

    Args:
        model: as for :class:`~bivshap_lightning.BivariateShapley`.
        inputs: (N, F) samples with labels, held out from training.
        labels: (N,) true classes.
        names: of the columns; by default their numbers.
        categorical: columns that hold categories, for the association in the data.
        data: (M, F) rows on which association is measured; by default `inputs`.
        baselines: what replaces an absent column, as in `attribute`.
        background: rows that do, averaged over; for tables better than a fixed row.
        method: of the explainer.
        n_evaluations: model rows per sample and game.
        seed: of the coalitions.

    Raises:
        ValueError: shapes do not fit, as for `attribute` and :func:`~bivshap_lightning.audit.association.association`.

    Example:
        >>> torch.manual_seed(0)
        <torch._C.Generator object at ...>
        >>> x = torch.randn(40, 3)
        >>> x[:, 2] = x[:, 0]
        >>> report = column_report(lambda z: 3 * z[:, 0] + 0 * z[:, 1], x, (x[:, 0] > 0).long(), names=["a", "b", "c"])
        >>> report.columns[0].name, report.columns[0].copies, report.can_go
        ('a', {'c': 1.0}, ('b', 'c'))
    """
    settings: dict[str, Any] = {"baselines": baselines, "background": background, "n_evaluations": n_evaluations}
    targets = torch.as_tensor(labels)
    explained = BivariateShapley(model, method=method, seed=seed).attribute(inputs, **settings)
    by_loss = BivariateShapley(model, method=method, behavior="loss", seed=seed).attribute(
        inputs, target=targets, **settings
    )
    names = [str(k) for k in range(explained.shapley.shape[1])] if names is None else list(names)
    graphs = explained.graphs(names)
    costs = by_loss.shapley.double().cpu().numpy()
    table = np.asarray(inputs if data is None else data, dtype=np.float64)
    return _report(graphs, costs, copies(table, categorical, at_least=COPY), [_gamma_of(graphs)] * len(graphs))


def column_costs(game: Game, n_evaluations: int | None, seed: int) -> NDArray[Any]:
    """Shapley values (B, F) of a loss game, by a quarter of the rows of an explanation.

    The mean over samples is what counts, and its standard error over samples includes the noise of each value.

    Args:
        game: with ``behavior="loss"`` and the true labels as target.
        n_evaluations: model rows per sample that an explanation may spend; None for the default.
        seed: of the coalitions.

    Example:
        >>> game = Game(lambda x: x.sum(dim=1), torch.eye(2), target=torch.tensor([1.0, 1.0]), behavior="loss")
        >>> column_costs(game, None, 0)
        array([[1., 0.],
               [0., 1.]])
    """
    explainer = find_explainer("auto")
    usual = default_evaluations(game) if n_evaluations is None else n_evaluations
    with game.evaluation():
        found = explainer.explain(game, max(usual // 4, explainer.minimum_evaluations(game)), seed)
    return found.shapley.double().cpu().numpy()


def with_column_costs(result: ChunkResult, loss_game: Game, batch: Batch, settings: AuditSettings) -> ChunkResult:
    """The result of a chunk with the rows themselves and what dropping each column costs.

    Where a loss is infinite, as that of a class to which the model gives a probability of 0, there is no cost and the
    result stays as it is.

    Args:
        result: of the chunk.
        loss_game: of its samples, as :func:`column_costs` wants it.
        batch: the samples, rows of one table.
        settings: of the audit.
    """
    try:
        costs = column_costs(loss_game, settings.n_evaluations, settings.seed)
    except ValueError:
        return result
    ids = loss_game.players.ids[0].expand(len(batch), -1)
    players = torch.where(ids == loss_game.n_players, -1, ids).cpu().numpy()
    rows = batch.inputs[0].cpu().numpy()
    samples = [
        replace(sample, row=rows[b], row_players=players[b], column_costs=costs[b])
        for b, sample in enumerate(result.samples)
    ]
    return replace(result, samples=samples, n_forwards=result.n_forwards + int(loss_game.n_evaluations.sum()))


def columns_of_samples(samples: Sequence[ExplainedSample], gammas: Sequence[float]) -> ColumnReport | None:
    """The report on the columns of audited samples; None where they are no table with labels, or too few.

    Args:
        samples: of the whole audit.
        gammas: the threshold of the roles of each.
    """
    costs = [sample.column_costs for sample in samples if sample.column_costs is not None]
    rows = [sample.row for sample in samples if sample.row is not None]
    graphs = [sample.graph for sample in samples]
    one_table = len({graph.names for graph in graphs}) == 1 and len(rows) == len(costs) == len(samples)
    players = samples[0].row_players
    if not one_table or len(samples) < MIN_SAMPLES or players is None:
        return None
    table, categorical = table_of_players(np.stack(rows).astype(np.float64), players, graphs[0].n_players)
    return _report(graphs, np.stack(costs).astype(np.float64), copies(table, categorical, at_least=COPY), gammas)


def table_of_players(rows: FloatArray, players: NDArray[Any], n_players: int) -> tuple[FloatArray, list[int]]:
    """One column per player: the number itself, or a code where a player is a group of columns or has few values.

    Args:
        rows: (N, D) finite or not; a column that is not finite becomes constant, which has no association.
        players: (D,) the player of each column, -1 for none.
        n_players: F.

    Returns:
        (N, F) table, and which of its columns hold categories.

    Example:
        >>> table_of_players(np.array([[0.5, 0, 1], [0.7, 1, 0]]), np.array([0, 1, 1]), 2)
        (array([[0.5, 0. ],
               [0.7, 1. ]]), [1])
    """
    rows = np.where(np.isfinite(rows).all(axis=0), rows, 0.0)
    table, categorical = np.zeros((len(rows), n_players)), []
    for player in range(n_players):
        own = rows[:, players == player]
        codes = np.unique(own, axis=0, return_inverse=True)[1].reshape(-1)
        n_values = int(codes.max()) + 1
        if own.shape[1] > 1 or n_values <= min(MAX_VALUES, len(rows) // ROWS_PER_VALUE):
            categorical.append(player)
        table[:, player] = own[:, 0] if own.shape[1] == 1 else codes
    return table, categorical


def _gamma_of(graphs: Sequence[ExplanationGraph]) -> float:
    scale = float(np.mean([graph.scale for graph in graphs]))
    return max(relative_gamma(graphs[0].n_players, scale), 1e-7 * max(float(np.abs(g.weights).max()) for g in graphs))


def _report(
    graphs: Sequence[ExplanationGraph], costs: FloatArray, related: FloatArray, gammas: Sequence[float]
) -> ColumnReport:
    names, n = graphs[0].names, len(graphs)
    phi = np.abs([graph.known_shapley for graph in graphs]).mean(axis=0)
    roles = roles_of_all(graphs, gammas)
    mean, error = costs.mean(axis=0), costs.std(axis=0, ddof=min(1, n - 1)) / np.sqrt(n)
    columns = [
        Column(
            name=name,
            share=float(phi[k] / (phi.sum() or 1.0)),
            roles={role: float(np.mean([found.roles[k] == role for found in roles])) for role in ROLES},
            interchangeable_with=_partners(roles, k),
            cost=float(mean[k]),
            cost_error=float(error[k]),
            copies={names[j]: float(related[k, j]) for j in range(len(names)) if related[k, j] > 0},
        )
        for k, name in enumerate(names)
    ]
    return ColumnReport.of(columns, n)


def _partners(roles: Sequence[Roles], player: int) -> dict[str, int]:
    """In how many samples a player is in a group with each other one."""
    counts: Counter[str] = Counter()
    for found in roles:
        for group in found.groups:
            if player in group:
                counts.update(found.names[k] for k in group if k != player)
    return dict(counts.most_common())
