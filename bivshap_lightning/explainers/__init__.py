"""Explainers: from a :class:`~bivshap_lightning.game.Game` to an :class:`Explanation`.

They get values of coalitions from the game and never call the model. Orientation is fixed by two names:
``Explanation.bivariate[b, i, j]`` is the importance of **i** when **j** is present, and ``weights`` of a graph is
its transpose, so that an edge i → j carries the importance of j given i.

Importing a module here registers its explainers, see :mod:`~bivshap_lightning.explainers.registry`.
"""

from bivshap_lightning.explainers import (  # noqa: F401  (each registers its explainers)
    exact,
    extension,
    kernel,
    paper,
    proxy,
    sampling,
    trees,
)
from bivshap_lightning.explainers.auto import Auto
from bivshap_lightning.explainers.bivariate import BivariateShapley
from bivshap_lightning.explainers.estimator import Estimator, default_coalitions, default_evaluations
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.registry import Explainer, explain_until, explainer_names, find_explainer, register
from bivshap_lightning.explainers.rivals import (  # noqa: F401  (each registers its explainers)
    asymmetric,
    deep_lift,
    gnn_explainer,
    occlusion,
    permutation,
    second_order,
    shapiq,
    univariate,
)

__all__ = [
    "Auto",
    "BivariateShapley",
    "Estimator",
    "Explainer",
    "Explanation",
    "default_coalitions",
    "default_evaluations",
    "explain_until",
    "explainer_names",
    "find_explainer",
    "register",
]
