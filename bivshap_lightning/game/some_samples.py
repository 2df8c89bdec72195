"""Some of the samples of a game as a game of their own."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from bivshap_lightning.game.game import Game
from bivshap_lightning.game.masked_inputs import MaskedInputs


class SomeSamples(Game):
    """Some of the samples of a game: the same model, players, removal, behavior and target.

    Evaluations are counted here and by the whole game.

    Args:
        game: the whole game.
        samples: (n,) int64, which samples.

    Example:
        >>> game = Game(lambda x: x.sum(dim=1), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), behavior="output")
        >>> some = SomeSamples(game, torch.tensor([1]))
        >>> some(torch.tensor([[[True, True], [True, False]]]))
        tensor([[7., 3.]])
        >>> game.n_evaluations.tolist()
        [2, 4]
    """

    def __init__(self, game: Game, samples: Tensor) -> None:
        self.__dict__.update(vars(game))
        self._game, self._samples = game, samples
        masked = self._masked = _select(game._masked, samples)
        self.inputs, self.additional_forward_args, self.removal = masked.inputs, masked.extra, masked.removal
        self.players, self.player_names, self.null_players = masked.players, masked.names, masked.null_players
        self.n_samples, self.player_counts, self.target = len(samples), masked.players.counts, game.target[samples]
        self._followed = tuple(values[samples] for values in game._followed)
        self._has_nulls = bool(self.null_players.any())
        self._nulls_are_shared = bool((self.null_players == self.null_players[:1]).all())
        self.n_evaluations = game.n_evaluations[samples]
        self._trees = None

    def _count(self, n_rows: int | Tensor) -> None:
        super()._count(n_rows)
        mine = torch.zeros_like(self._game.n_evaluations)
        self._game._count(mine.index_add(0, self._samples, n_rows + torch.zeros_like(self._samples)))


def _select(masked: MaskedInputs, samples: Tensor) -> MaskedInputs:
    n_samples = len(masked.inputs[0])

    def follows(value: object) -> bool:
        return isinstance(value, Tensor) and value.dim() > 0 and len(value) == n_samples

    players, removal = masked.players, masked.removal
    return replace(
        masked,
        inputs=tuple(x[samples] for x in masked.inputs),
        extra=tuple(value[samples] if follows(value) else value for value in masked.extra),
        players=replace(
            players,
            ids=tuple(ids if len(ids) == 1 else ids[samples] for ids in players.ids),
            counts=players.counts[samples],
        ),
        names=None if masked.names is None else tuple(masked.names[k] for k in samples.tolist()),
        removal=replace(removal, rows=tuple(r if len(r) == 1 else r[samples] for r in removal.rows)),
    )
