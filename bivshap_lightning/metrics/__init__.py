"""Metrics of explanations: post-hoc accuracy, insertion and deletion AUC, mutual and directional redundancy, roles.

Nine `torchmetrics.Metric` classes on pure functions. All of them evaluate any ranking or graph, of any explainer, on
one :class:`~bivshap_lightning.game.Game`: ``metric.update(game, ranking_or_graph)``, as often as there are batches,
then ``metric.compute()``. The same without state: :mod:`bivshap_lightning.metrics.functional`.

| metric | main numbers | range | better |
| --- | --- | --- | --- |
| `PostHocAccuracy` | ``area`` | 0 to 1 | higher |
| `InsertionAUC` | ``auc`` | 0 to 1 for probabilities | higher |
| `DeletionAUC` | ``auc`` | 0 to 1 for probabilities | lower |
| `MutualRedundancyMasking` | ``accuracy_with_representatives``, ``share_removable`` | 0 to 1 | higher |
| `DirectionalRedundancy` | accuracy and share masked of four maskings | 0 to 1 | depends on the masking |
| `RoleShares` | share of players in each of five roles | 0 to 1 | neither |
| `GammaSweep` | role shares, density and accuracy at six thresholds | 0 to 1 | neither |
| `PredictionKept` | for regressions: ``error`` in units, ``share_kept`` | 0 or more; 0 to 1 | lower; higher |
| `RepresentativesKept` | for regressions: ``error_with_representatives`` and its controls | 0 or more | lower |

Every accuracy and area ``x`` comes with its standard error ``x_se`` over samples, and every result with
``n_samples`` and the name of its convention. "paper" repeats the choices of the paper and its published code where
the default differs: see each metric.

Example:
    >>> import torch
    >>> from bivshap_lightning import BivariateShapley, Game
    >>> from bivshap_lightning.metrics import InsertionAUC
    >>> _ = torch.manual_seed(0)
    >>> model, x = torch.nn.Linear(4, 3), torch.rand(8, 4)
    >>> metric = InsertionAUC()
    >>> metric.update(Game(model, x), BivariateShapley(model).attribute(x))
    >>> result = metric.compute()
    >>> result["auc"].shape, result.convention
    (torch.Size([]), 'default')
"""

from typing import TYPE_CHECKING

__all__ = [
    "Convention",
    "DeletionAUC",
    "DirectionalRedundancy",
    "GammaSweep",
    "InsertionAUC",
    "MetricResult",
    "MutualRedundancyMasking",
    "PostHocAccuracy",
    "PredictionKept",
    "RepresentativesKept",
    "RoleShares",
]

if TYPE_CHECKING:
    from bivshap_lightning.metrics.auc import DeletionAUC, InsertionAUC
    from bivshap_lightning.metrics.directional import DirectionalRedundancy
    from bivshap_lightning.metrics.kept import PredictionKept, RepresentativesKept
    from bivshap_lightning.metrics.mutual import MutualRedundancyMasking
    from bivshap_lightning.metrics.post_hoc import PostHocAccuracy
    from bivshap_lightning.metrics.results import Convention, MetricResult
    from bivshap_lightning.metrics.roles import RoleShares
    from bivshap_lightning.metrics.sweep import GammaSweep
else:
    # Loaded on first use, so that the catalogue of numbers can be imported without torch.
    _HOMES = {
        "Convention": "results",
        "DeletionAUC": "auc",
        "DirectionalRedundancy": "directional",
        "InsertionAUC": "auc",
        "MetricResult": "results",
        "MutualRedundancyMasking": "mutual",
        "PostHocAccuracy": "post_hoc",
        "RoleShares": "roles",
        "GammaSweep": "sweep",
        "PredictionKept": "kept",
        "RepresentativesKept": "kept",
    }

    def __getattr__(name: str) -> object:
        """Import a public name from the module that defines it, once (PEP 562)."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """List the lazy names too, for completion in shells and notebooks."""
        return sorted({*globals(), *__all__})
