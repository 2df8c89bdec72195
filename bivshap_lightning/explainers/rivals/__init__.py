"""Rivals: other explainers on the same footing as ours, a :class:`~bivshap_lightning.game.Game` in, scores out.

A rival sees the same samples, players, removal and behavior, so a metric that compares it with ours compares the
explainers and nothing else. To add one, write a file with a class that fulfils :class:`Rival`.
"""

from bivshap_lightning.explainers.rivals.captum import CaptumRival, captum_rival
from bivshap_lightning.explainers.rivals.captum_signatures import captum_methods
from bivshap_lightning.explainers.rivals.rival import Rival

__all__ = ["CaptumRival", "Rival", "captum_methods", "captum_rival"]
