"""The metrics as functions of one batch, without state; they return scores per sample too.

Example:
    >>> import torch
    >>> from bivshap_lightning import Game
    >>> from bivshap_lightning.metrics.functional import deletion_auc
    >>> weights = torch.tensor([3.0, 2.0, 1.0])
    >>> game = Game(lambda x: x @ weights, torch.ones(1, 3), behavior="output")
    >>> float(deletion_auc(game, weights)["auc"])  # (6 + 3 + 1) / 3
    3.33...
"""

from bivshap_lightning.metrics.auc import deletion_auc, insertion_auc
from bivshap_lightning.metrics.directional import directional_redundancy
from bivshap_lightning.metrics.mutual import mutual_redundancy_masking
from bivshap_lightning.metrics.post_hoc import post_hoc_accuracy
from bivshap_lightning.metrics.roles import role_shares

__all__ = [
    "deletion_auc",
    "directional_redundancy",
    "insertion_auc",
    "mutual_redundancy_masking",
    "post_hoc_accuracy",
    "role_shares",
]
