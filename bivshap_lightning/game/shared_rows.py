"""A game that evaluates no coalition twice, for metrics of several explainers on the same samples.

Rankings have coalitions in common: all players, none, and equal prefixes; insertion and post-hoc accuracy of one
ranking even have most of them in common.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bivshap_lightning.game.coalitions import Block, check_masks, pack
from bivshap_lightning.game.game import Game
from bivshap_lightning.game.progress import progress_bar
from bivshap_lightning.game.removal import check_finite

MAX_ELEMENTS = 2**24
"""Scores that are kept; once there are more, further coalitions are evaluated without being kept."""


class SharedRows(Game):
    """A game that keeps the scores of evaluated coalitions. Evaluations are counted by the game it is made of.

    Args:
        game: the game, which must have been evaluated before; until then nothing is kept.

    Example:
        >>> game = Game(lambda x: x.sum(dim=1), torch.ones(2, 3), behavior="output")
        >>> masks = torch.tensor([[[False, False, True], [True, True, True]]])
        >>> _, shared = game(masks), SharedRows(game)
        >>> before = game.n_evaluations
        >>> _ = shared(masks), shared(masks[:, :1])
        >>> (game.n_evaluations - before).tolist()
        [2, 2]
    """

    def __init__(self, game: Game) -> None:
        shared = {k: v for k, v in vars(game).items() if k not in ("n_evaluations", "rows_per_call")}
        self.__dict__.update(shared)
        self._game = game
        self._codes = torch.empty(0, dtype=torch.int64, device=game.device)
        self._words: Tensor | None = None
        self._kept: Tensor | None = None

    @property
    def n_evaluations(self) -> Tensor:
        """(B,) model rows spent so far."""
        return self._game.n_evaluations

    @n_evaluations.setter
    def n_evaluations(self, value: Tensor) -> None:
        self._game.n_evaluations = value

    @property
    def rows_per_call(self) -> int:
        """The largest number of rows in one forward pass."""
        return self._game.rows_per_call

    @rows_per_call.setter
    def rows_per_call(self, value: int) -> None:
        self._game.rows_per_call = value

    def _evaluate(self, masks: Tensor, read: Callable[[Tensor, Block], Tensor]) -> Tensor:
        if not self._game._is_checked or (self._kept is not None and self._kept.numel() > MAX_ELEMENTS):
            return self._game._evaluate(masks, read)
        masks = check_masks(masks, self.n_samples, self.n_players).to(self.device) | self.null_players[:, None]
        block, n_rows = Block(masks).spread(self.n_samples), self.removal.n_rows
        samples = torch.arange(self.n_samples, device=self.device).repeat_interleave(masks.shape[1])
        scores = self._find(block, samples)
        if scores is None:
            return self._game._evaluate(masks, read)
        values = read(scores.flatten(0, 1), block.against(n_rows))
        values = values if n_rows == 1 else values.unflatten(0, (-1, n_rows)).mean(dim=1)
        return values.view(self.n_samples, masks.shape[1], *values.shape[1:])

    def _find(self, block: Block, samples: Tensor) -> Tensor | None:
        """(N, background rows, C) scores of coalitions, of new ones by the model; None if two have the same code."""
        words = torch.cat([pack(block.masks), samples[:, None]], dim=1)
        codes = _codes_of(words)
        n_known, all_codes = len(self._codes), torch.cat([self._codes, codes])
        all_words = words if self._words is None else torch.cat([self._words, words])
        distinct, inverse = all_codes.unique(return_inverse=True)
        positions = torch.arange(len(all_codes), device=self.device)
        first = torch.full_like(distinct, len(all_codes)).scatter_reduce_(0, inverse, positions, "amin")[inverse]
        if not torch.equal(all_words[first], all_words):
            return None
        is_new = (first == positions) & (positions >= n_known)
        new = is_new.nonzero()[:, 0] - n_known
        if len(new):
            found = self._scores_of(block[new])
            self._kept = found if self._kept is None else torch.cat([self._kept, found])
            self._codes, self._words = (
                torch.cat([self._codes, codes[new]]),
                torch.cat([all_words[:n_known], words[new]]),
            )
        # Known coalitions keep their place; new ones follow in order.
        place = torch.where(positions < n_known, positions, n_known - 1 + is_new.cumsum(0))
        return None if self._kept is None else self._kept[place[first[n_known:]]]

    def _scores_of(self, block: Block) -> Tensor:
        """(K, background rows, C) scores of coalitions of one sample each."""
        n_rows = self.removal.n_rows
        rows = block.against(n_rows)
        with self._model.evaluation(), progress_bar(len(rows), show=self._game.show_progress) as bar:
            scores = self._sweep(rows, lambda scores, block: scores, bar).clone()
        check_finite(scores, self.removal)
        if rows.samples is not None:
            self._count(torch.bincount(rows.samples, minlength=self.n_samples))
        return scores.view(-1, n_rows, scores.shape[1])


def _codes_of(words: Tensor) -> Tensor:
    """(N,) int64 codes of rows of words; different rows have different codes but for a chance of about 2 ** -64."""
    code = torch.zeros_like(words[:, 0])
    for word in words.unbind(dim=1):
        code = (code ^ word) * -7046029254386353131  # an odd constant; products wrap around
        code = code ^ (code >> 29)
    return code
