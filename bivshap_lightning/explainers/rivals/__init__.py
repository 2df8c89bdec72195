"""Other explainers on the same :class:`~bivshap_lightning.game.Game`, for comparison with bivariate Shapley values.

They see the same samples, players, removal and behavior, and return the same
:class:`~bivshap_lightning.explainers.Explanation`, so a metric compares the explainers and nothing else. Captum's
methods need no file of their own. To add another method, write a file with a class of the shape of
:class:`~bivshap_lightning.explainers.Explainer`, decorate it with ``register``, and import it in
``explainers/__init__.py``.
"""

from bivshap_lightning.explainers.rivals.captum import CaptumExplainer, captum_explainer
from bivshap_lightning.explainers.rivals.captum_signatures import captum_methods

__all__ = ["CaptumExplainer", "captum_explainer", "captum_methods"]
