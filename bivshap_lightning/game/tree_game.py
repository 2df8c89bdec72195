"""Games over tree ensembles: which games are sums of leaves, and the coalitions on which trees and model are compared.

The values of such a game are exact sums over trees, which ``explainers/trees.py`` computes without running the model.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bivshap_lightning.game.behavior import Behavior
from bivshap_lightning.game.coalitions import Block
from bivshap_lightning.game.masked_inputs import MaskedInputs
from bivshap_lightning.game.trees import TreeEnsemble, UnsupportedTreesError

# Coalitions of each sample on which the sum of the trees must equal the model's scores.
N_CHECKED = 6


def ensemble_of(masked: MaskedInputs) -> TreeEnsemble:
    """The model of a game as a tree ensemble.

    Args:
        masked: the model and the inputs of the game.

    Raises:
        UnsupportedTreesError: the model is no sum of trees, or gets more than one table.
    """
    if masked.removal.sampler is not None:
        raise UnsupportedTreesError(
            f"`background` must not depend on what is present to read trees, got {masked.removal.description!r}."
        )
    ensemble = masked.model.read_trees().to(masked.inputs[0].device)
    if len(masked.inputs) != 1 or masked.inputs[0].dim() != 2 or masked.extra:
        shapes = [tuple(x.shape) for x in masked.inputs]
        raise UnsupportedTreesError(f"`inputs` must be one table and nothing else for a tree ensemble, got {shapes}.")
    return ensemble


def linear_weights(behavior: Behavior, target: Tensor, n_outputs: int) -> Tensor:
    """The weights (B, C) with which the scores add up to the utility.

    Args:
        behavior: how scores are read.
        target: (B,) what is explained.
        n_outputs: C.

    Raises:
        UnsupportedTreesError: the utility is not linear in the scores.
    """
    weights = behavior.linear_weights(target, n_outputs)
    if weights is None:
        raise UnsupportedTreesError(
            f"`behavior` must be linear in the leaves of trees, got {behavior.label!r} of scores with link "
            f"{behavior.link!r}. Use 'probability' for a forest, 'logit' for boosted trees that classify, 'output' for "
            "a regression."
        )
    return weights


def checked_coalitions(masked: MaskedInputs) -> Block:
    """All players, no player, and random coalitions, each against another background row."""
    device = masked.inputs[0].device
    masks = torch.rand(N_CHECKED, masked.players.n_players, generator=torch.Generator().manual_seed(0)) < 0.5
    masks[0], masks[1] = True, False
    replacements = torch.arange(N_CHECKED, device=device) % masked.removal.n_rows
    return Block(masks[None].to(device), replacements=replacements)
