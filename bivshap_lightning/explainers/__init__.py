"""Explainers: from a :class:`~bivshap_lightning.game.Game` to an :class:`Explanation`.

They ask the game for values of coalitions and never see the model. Orientation, the trap of this field, is settled
by two names: an explanation's ``bivariate[b, i, j]`` is the importance of **i** when **j** is present, and a graph's
``weights`` is its transpose, so that an edge i → j carries the importance of j given i.
"""

from bivshap_lightning.explainers.bivariate import BivariateShapley, default_budget
from bivshap_lightning.explainers.explanation import Explanation

__all__ = ["BivariateShapley", "Explanation", "default_budget"]
