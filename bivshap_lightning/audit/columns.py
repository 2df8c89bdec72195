"""Which columns of a table can go: importance, roles, the cost of dropping each, and copies in the data.

The cost is the mean Shapley value of the **loss game with true labels** (`behavior="loss"`), which of all measures
agreed best with training again without the column. What is recommended here is a guess about that: retrain to confirm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bivshap_lightning.audit.association import FloatArray, association
from bivshap_lightning.explainers import BivariateShapley
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.roles import ROLES, Roles, roles_of_all
from bivshap_lightning.graph.threshold import relative_gamma

COPY = 0.95
"""Association from which on two columns count as copies."""
Z = 1.645
"""One-sided 95 % bound of a cost."""
MAX_COST_SHARE = 0.01
"""A column whose cost is within this share of all costs, by its bound, can go."""


@dataclass(frozen=True)
class Column:
    """What one column is to the model and to the data.

    Attributes:
        name: of the column.
        share: of the mean absolute Shapley values.
        roles: share of samples in each role.
        interchangeable_with: other columns, and in how many samples any one of the two will do.
        cost: what dropping it costs: mean Shapley value of the loss game, positive if the column lowers the loss.
        cost_error: its standard error over samples.
        copies: other columns with an association of at least 0.95 in the data, and that association.
    """

    name: str
    share: float
    roles: dict[str, float]
    interchangeable_with: dict[str, int]
    cost: float
    cost_error: float
    copies: dict[str, float]


@dataclass(frozen=True)
class ColumnReport:
    """The columns of a table, those whose loss costs most first, and which can go.

    Attributes:
        columns: all columns.
        can_go: columns that are recommended to be dropped together; retrain to confirm.
        n_samples: that the report is over.
    """

    columns: tuple[Column, ...]
    can_go: tuple[str, ...]
    n_samples: int

    def to_text(self) -> str:
        """A table for the terminal, and the recommendation."""
        width = max(len(column.name) for column in self.columns)
        lines = [f"{'column':<{width}}  share  cost of dropping   roles, copies"]
        for column in self.columns:
            words = [f"{role} {share:.0%}" for role, share in column.roles.items() if share >= 0.005]
            partners = sorted(column.interchangeable_with.items(), key=lambda item: -item[1])[:3]
            words += [f"interchangeable with {name} in {n}" for name, n in partners]
            words += [f"copy of {name} ({value:.2f})" for name, value in column.copies.items()]
            cost = f"{column.cost:+.4f} ± {column.cost_error:.4f}"
            lines.append(f"{column.name:<{width}}  {column.share:5.3f}  {cost:<17}  {'; '.join(words)}")
        advice = ", ".join(self.can_go) or "none"
        return "\n".join([*lines, f"can go: {advice}. Retrain to confirm."])


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
    return _report(graphs, costs, association(table, categorical))


def _report(graphs: Sequence[ExplanationGraph], costs: FloatArray, related: FloatArray) -> ColumnReport:
    names, n = graphs[0].names, len(graphs)
    phi = np.abs([graph.known_shapley for graph in graphs]).mean(axis=0)
    scale = float(np.mean([graph.scale for graph in graphs]))
    gamma = max(relative_gamma(len(names), scale), 1e-7 * max(float(np.abs(g.weights).max()) for g in graphs))
    roles = roles_of_all(graphs, [gamma] * n)
    mean, error = costs.mean(axis=0), costs.std(axis=0, ddof=min(1, n - 1)) / np.sqrt(n)
    columns = [
        Column(
            name=name,
            share=float(phi[k] / (phi.sum() or 1.0)),
            roles={role: float(np.mean([found.roles[k] == role for found in roles])) for role in ROLES},
            interchangeable_with=_partners(roles, k),
            cost=float(mean[k]),
            cost_error=float(error[k]),
            copies={names[j]: float(related[k, j]) for j in range(len(names)) if j != k and related[k, j] >= COPY},
        )
        for k, name in enumerate(names)
    ]
    ordered = tuple(sorted(columns, key=lambda column: -column.cost))
    return ColumnReport(ordered, _can_go(ordered), n)


def _partners(roles: Sequence[Roles], player: int) -> dict[str, int]:
    """In how many samples a player is in a group with each other one."""
    counts: Counter[str] = Counter()
    for found in roles:
        for group in found.groups:
            if player in group:
                counts.update(found.names[k] for k in group if k != player)
    return dict(counts.most_common())


def _can_go(columns: Sequence[Column]) -> tuple[str, ...]:
    """Columns whose cost is negligible by its bound, and all but the most useful of each set of copies."""
    whole = sum(max(column.cost, 0.0) for column in columns)
    can_go: dict[str, None] = {}
    kept: set[str] = set()
    for column in columns:  # those that cost most first, so that the most useful copy is kept
        if kept & column.copies.keys() or column.cost + Z * column.cost_error <= MAX_COST_SHARE * whole:
            can_go[column.name] = None
        else:
            kept.add(column.name)
    return tuple(can_go)
