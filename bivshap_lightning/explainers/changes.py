"""How much Shapley values change from one model to the next, with the standard error of the change.

Explanations with one seed draw the same coalitions. The difference of two games is a game, and Shapley values are
linear in the game, so the estimator of the values, given the differences of the drawn values, estimates the change. Its
error is that of the difference alone: what the two games have in common, and the error that it causes, cancels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from bivshap_lightning.explainers.null_players import ReducedGame
from bivshap_lightning.explainers.rows import RowEstimator, Rows


@dataclass(frozen=True)
class DrawnValues:
    """What was drawn to explain one sample.

    Attributes:
        estimator: that drew and used the values.
        rows: the coalitions.
        values: (K,) of the coalitions.
        places: (F,) int64, which of the drawn players each player is, -1 for null players that were left out.
        learned: what the estimator learned about the sample, as in
            :meth:`~bivshap_lightning.explainers.rows.RowEstimator.go_on`; None for nothing.
    """

    estimator: RowEstimator
    rows: Rows
    values: Tensor
    places: Tensor
    learned: Tensor | None = None


_COLLECTED: ContextVar[dict[int, DrawnValues] | None] = ContextVar("collected", default=None)


@contextmanager
def drawn_values_kept() -> Iterator[dict[int, DrawnValues]]:
    """Keep what is drawn while samples of one game are explained, by the number of the sample.

    Estimators that do not separate drawing from estimating, and trees, which are read, leave nothing.

    Example:
        >>> from bivshap_lightning.explainers import find_explainer
        >>> from bivshap_lightning.game import Game
        >>> game = Game(lambda x: x.amax(dim=1), torch.tensor([[1.0, 1.0, 2.0]]), behavior="output")
        >>> with drawn_values_kept() as drawn:
        ...     explanation = find_explainer("exact").explain(game)
        >>> drawn[0].values.shape
        torch.Size([8])
    """
    found: dict[int, DrawnValues] = {}
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)


def keep_drawn_values(
    estimator: RowEstimator, rows: Rows, values: Tensor, game: ReducedGame, learned: Tensor | None
) -> None:
    """Keep the values (B', K) of the samples of a reduced game, if :func:`drawn_values_kept` asks for them."""
    found = _COLLECTED.get()
    if found is None:
        return
    samples = range(game.n_samples) if game.samples is None else game.samples.tolist()
    places = game.places.expand(len(values), -1)
    for k, sample in enumerate(samples):
        found[sample] = DrawnValues(estimator, rows, values[k], places[k], None if learned is None else learned[k])


def shapley_changes(
    before: Sequence[DrawnValues | None], now: Sequence[DrawnValues | None]
) -> list[tuple[Tensor, Tensor] | None]:
    """The change of the Shapley values of each sample and its standard error, (F,) each; None where it is unknown.

    It is unknown where the two were not drawn by the same estimator over the same players, or have no coalitions in
    common. Of stages the shorter ones are used, with which the longer ones begin.

    Args:
        before: what was drawn for the samples with the earlier model.
        now: what was drawn for them with the later one.
    """
    found: list[tuple[Tensor, Tensor] | None] = [None] * len(now)
    groups: dict[tuple[int, int], dict[int, tuple[DrawnValues, DrawnValues]]] = {}
    for k, old, new in _with_same_players(before, now):
        groups.setdefault((id(old.rows), id(new.rows)), {})[k] = (old, new)
    for members in groups.values():
        pairs = list(members.values())
        shorter = min(pairs[0], key=lambda drawn: len(drawn.values))
        if not _are_common(shorter, *pairs[0]):
            continue
        n_rows = len(shorter.values)
        differences = torch.stack([new.values[:n_rows] - old.values[:n_rows] for old, new in pairs])
        known = [old.learned if shorter is pairs[0][0] else new.learned for old, new in pairs]
        learned = [one for one in known if one is not None]
        start = torch.stack(learned) if len(learned) == len(pairs) else None
        # What a game has taught holds for its change as well: learning goes on from there.
        (estimate,), _ = shorter.estimator.go_on(shorter.rows, [differences], start)
        for k, (_, new), change, error in zip(members, pairs, estimate.shapley, estimate.shapley_error, strict=True):
            found[k] = (_of_all(change, new.places), _of_all(error, new.places))
    return found


def _with_same_players(
    before: Sequence[DrawnValues | None], now: Sequence[DrawnValues | None]
) -> list[tuple[int, DrawnValues, DrawnValues]]:
    """The samples whose drawn players are the same in both; one transfer from the device for all."""
    known = [
        (k, old, new)
        for k, (old, new) in enumerate(zip(before, now, strict=True))
        if old is not None and new is not None and len(old.places) == len(new.places)
    ]
    if not known:
        return []
    same = torch.stack([(old.places == new.places).all() for _, old, new in known]).tolist()
    return [entry for entry, is_same in zip(known, same, strict=True) if is_same]


def _of_all(values: Tensor, places: Tensor) -> Tensor:
    """Values of the drawn players as those of all; zero for the others."""
    return torch.where(places < 0, 0.0, values[places.clamp(min=0)])


def _are_common(shorter: DrawnValues, old: DrawnValues, new: DrawnValues) -> bool:
    """Whether both began with the coalitions of the shorter one."""
    if type(old.estimator) is not type(new.estimator):
        return False
    common, n_rows = shorter.rows.coalitions, len(shorter.values)
    same = [drawn.rows.coalitions[:n_rows] for drawn in (old, new) if drawn is not shorter]
    return all(torch.equal(common, coalitions) for coalitions in same)
