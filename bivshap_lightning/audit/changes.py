"""What changed since the audit before: which samples can be compared, and by how much their Shapley values differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from bivshap_lightning.audit.record_changes import ShapleyChange
from bivshap_lightning.explainers.changes import DrawnValues, shapley_changes
from bivshap_lightning.game import Game


@dataclass(frozen=True)
class DrawnSample:
    """What one audit leaves to the next about a sample.

    Attributes:
        drawn: values of its coalitions.
        target: the class that was explained.
    """

    drawn: DrawnValues
    target: float


def drawn_samples(game: Game, places: Sequence[int], drawn: Mapping[int, DrawnValues]) -> dict[int, DrawnSample]:
    """What is left about the samples of a game, by their index.

    Args:
        game: of the samples.
        places: their indices among the chosen samples.
        drawn: values of coalitions by the number of the sample in the game.
    """
    targets = game.target.tolist()
    return {places[b]: DrawnSample(values, targets[b]) for b, values in drawn.items()}


def changes_of(
    game: Game, places: Sequence[int], earlier: Mapping[int, DrawnSample], now: Mapping[int, DrawnSample]
) -> list[ShapleyChange | None]:
    """The change of each sample; None where it is unknown, as where another class is explained now.

    Args:
        game: of the samples now.
        places: their indices among the chosen samples.
        earlier: what the audit before drew, by index.
        now: what this one drew.
    """
    pairs = [(earlier.get(place), now.get(place)) for place in places]
    same = [(a.drawn, b.drawn) if a and b and a.target == b.target else (None, None) for a, b in pairs]
    found = shapley_changes([a for a, _ in same], [b for _, b in same])
    known = [torch.stack(change) for change in found if change is not None]
    on_host = iter(torch.stack(known).tolist() if known else [])
    counts = game.player_counts.tolist()
    return [
        None if change is None else ShapleyChange(*(tuple(part[:n]) for part in next(on_host)))
        for change, n in zip(found, counts, strict=True)
    ]
