"""Bivariate Shapley explanations: which feature makes which other feature redundant, per prediction.

Any model, a torch module or a function from array to scores, becomes a directed graph over its features,
after Masoomi et al., "Explanations of Black-Box Models based on Directional Feature Interactions", ICLR 2022:

    from bivshap_lightning import BivariateShapley

    explanation = BivariateShapley(model, seed=0).attribute(inputs)
    graph = explanation.graph(0)            # of the first sample; W[i, j]: importance of j when i is present
    graph.ranking()                         # one score per feature, high = important
    graph.redundancy(gamma=1e-5).groups     # features that replace one another

Public names are loaded on first use: importing the package imports neither torch nor Lightning nor Captum.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "AuditRecord",
    "BivariateShapley",
    "Blur",
    "ChannelMean",
    "Columns",
    "ConditionalSampler",
    "Explanation",
    "ExplanationGraph",
    "Game",
    "Grid",
    "NearestRows",
    "RedundancyGraph",
    "Segments",
    "Superpixels",
    "Tokens",
    "ZeroEmbedding",
    "__version__",
    "sufficient_set",
    "typical_row",
]

if TYPE_CHECKING:
    from bivshap_lightning.audit.record import AuditRecord
    from bivshap_lightning.explainers import BivariateShapley, Explanation
    from bivshap_lightning.explainers.sufficient import sufficient_set
    from bivshap_lightning.game import Game
    from bivshap_lightning.game.conditional import ConditionalSampler, NearestRows
    from bivshap_lightning.game.embedding import ZeroEmbedding
    from bivshap_lightning.game.players import Columns, Grid, Segments, Superpixels, Tokens
    from bivshap_lightning.game.removal import Blur, ChannelMean, typical_row
    from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
else:
    # Hidden from type checkers, to which a module-level __getattr__ would make every misspelt name valid.
    _MODULES = {
        "audit.record": ("AuditRecord",),
        "explainers": ("BivariateShapley", "Explanation"),
        "explainers.sufficient": ("sufficient_set",),
        "game": ("Game",),
        "game.conditional": ("ConditionalSampler", "NearestRows"),
        "game.embedding": ("ZeroEmbedding",),
        "game.players": ("Columns", "Grid", "Segments", "Superpixels", "Tokens"),
        "game.removal": ("Blur", "ChannelMean", "typical_row"),
        "graph": ("ExplanationGraph", "RedundancyGraph"),
    }
    _HOMES = {name: module for module, names in _MODULES.items() for name in names}

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
