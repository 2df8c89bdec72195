"""A game that evaluates no coalition twice, for several explainers and metrics on the same samples.

Rankings have coalitions in common: all players, none, and equal prefixes; insertion and post-hoc accuracy of one
ranking even have most of them in common. So have explainers that draw the same design with the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bivshap_lightning.game.coalitions import Block, check_masks, pack
from bivshap_lightning.game.game import Game
from bivshap_lightning.game.progress import progress_bar
from bivshap_lightning.game.removal import check_finite
from bivshap_lightning.game.some_samples import SomeSamples
from bivshap_lightning.game.trees import TreeEnsemble

MAX_ELEMENTS = 2**24
"""Scores that are kept; once there are more, further coalitions are evaluated without being kept."""


class _Kept:
    """Scores of evaluated coalitions.

    Attributes:
        codes: (N,) int64 of the coalitions.
        words: (N, words) int64, the coalitions and their samples.
        scores: (N, background rows, C), None before the first ones.
    """

    def __init__(self, codes: Tensor, words: Tensor, scores: Tensor | None) -> None:
        self.codes, self.words, self.scores = codes, words, scores

    @property
    def is_full(self) -> bool:
        """Whether no more are kept."""
        return self.scores is not None and self.scores.numel() > MAX_ELEMENTS


class SharedRows(Game):
    """A game that keeps the scores of evaluated coalitions, and so evaluates none of them twice.

    Coalitions for which a background row each is named are evaluated as usual.

    Args:
        game: the game, which counts the model rows that are evaluated.

    Attributes:
        n_evaluations: (B,) model rows that were asked for, as a game counts them; those that were known are included.
        n_asked: (B,) the same, coalitions that one call asks for twice counted twice.

    Example:
        >>> game = Game(lambda x: x.sum(dim=1), torch.ones(2, 3), behavior="output")
        >>> masks = torch.tensor([[[False, False, True], [True, True, True]]])
        >>> _, shared = game(masks), SharedRows(game)
        >>> before = game.n_evaluations
        >>> _ = shared(masks), shared(masks[:, :1])
        >>> (game.n_evaluations - before).tolist(), (shared.n_evaluations - before).tolist()
        ([2, 2], [3, 3])
    """

    def __init__(self, game: Game) -> None:
        own = {k: v for k, v in vars(game).items() if k not in ("rows_per_call", "_is_checked")}
        self.__dict__.update(own)
        self._game = game
        self.n_asked = torch.zeros_like(game.n_evaluations)
        # The number of each sample in the game whose scores are kept.
        self._numbers = torch.arange(game.n_samples, device=game.device)
        words = torch.empty(0, math.ceil(game.n_players / 64) + 1, dtype=torch.int64, device=game.device)
        self._kept = _Kept(words[:, 0], words, None)

    def part(self, samples: Tensor) -> SharedRows:
        """The same for some of the samples (n,) int64, with the same scores kept."""
        part = SharedRows(SomeSamples(self._game, samples))
        part._numbers, part._kept = self._numbers[samples], self._kept
        return part

    @property
    def rows_per_call(self) -> int:
        """The largest number of rows in one forward pass."""
        return self._game.rows_per_call

    @rows_per_call.setter
    def rows_per_call(self, value: int) -> None:
        self._game.rows_per_call = value

    @property
    def _is_checked(self) -> bool:
        return self._game._is_checked

    @_is_checked.setter
    def _is_checked(self, value: bool) -> None:
        self._game._is_checked = value

    def trees(self) -> tuple[TreeEnsemble, Tensor]:
        """See :meth:`Game.trees`."""
        return self._game.trees()

    def values_of(
        self, masks: Tensor, samples: Tensor, replacements: Tensor | None = None, *, are_distinct: bool = False
    ) -> Tensor:
        """See :meth:`Game.values_of`."""
        if replacements is None and not self._kept.is_full:
            masks = check_masks(masks[None], self.n_samples, self.n_players).to(self.device)[0]
            values = self._known(Block(masks | self.null_players[samples], samples), self._utility)
            if values is not None:
                return values
        return super().values_of(masks, samples, replacements, are_distinct=are_distinct)

    def _count(self, n_rows: int | Tensor) -> None:
        super()._count(n_rows)
        self.n_asked = self.n_asked + n_rows
        self._game._count(n_rows)

    def _evaluate(self, masks: Tensor, read: Callable[[Tensor, Block], Tensor]) -> Tensor:
        if not self._kept.is_full:
            masks = check_masks(masks, self.n_samples, self.n_players).to(self.device)
            block = Block(masks | self.null_players[:, None]).spread(self.n_samples)
            values = self._known(block, read)
            if values is not None:
                return values.view(self.n_samples, masks.shape[1], *values.shape[1:])
        return super()._evaluate(masks, read)

    def _known(self, block: Block, read: Callable[[Tensor, Block], Tensor]) -> Tensor | None:
        """(N, ...) what is read off the scores of coalitions of one sample each; None if two have the same code."""
        scores, n_rows = self._find(block), self.removal.n_rows
        if scores is None:
            return None
        values = read(scores.flatten(0, 1), block.against(n_rows))
        return values if n_rows == 1 else values.unflatten(0, (-1, n_rows)).mean(dim=1)

    def _find(self, block: Block) -> Tensor | None:
        """(N, background rows, C) scores of coalitions, of new ones by the model; None if two have the same code."""
        kept, samples = self._kept, block.samples
        if samples is None:
            raise ValueError("`block` must hold coalitions of one sample each, got None. Call `Block.spread` first.")
        words = torch.cat([pack(block.masks), self._numbers[samples][:, None]], dim=1)
        codes = _codes_of(words)
        n_known, all_codes, all_words = len(kept.codes), torch.cat([kept.codes, codes]), torch.cat([kept.words, words])
        distinct, inverse = all_codes.unique(return_inverse=True)
        positions = torch.arange(len(all_codes), device=self.device)
        first = torch.full_like(distinct, len(all_codes)).scatter_reduce_(0, inverse, positions, "amin")[inverse]
        if not torch.equal(all_words[first], all_words):
            return None
        is_new = (first == positions) & (positions >= n_known)
        new = is_new.nonzero()[:, 0] - n_known
        if len(new):
            found = self._scores_of(block[new])
            kept.scores = found if kept.scores is None else torch.cat([kept.scores, found])
            kept.codes, kept.words = torch.cat([kept.codes, codes[new]]), torch.cat([kept.words, words[new]])
        asked = torch.full_like(distinct, -1).scatter_(0, inverse[n_known:], samples)
        super()._count(self.removal.n_rows * torch.bincount(asked[asked >= 0], minlength=self.n_samples))
        self.n_asked = self.n_asked + self.removal.n_rows * torch.bincount(samples, minlength=self.n_samples)
        # Known coalitions keep their place; new ones follow in order.
        place = torch.where(positions < n_known, positions, n_known - 1 + is_new.cumsum(0))
        return None if kept.scores is None else kept.scores[place[first[n_known:]]]

    def _scores_of(self, block: Block) -> Tensor:
        """(K, background rows, C) scores of coalitions of one sample each."""
        n_rows = self.removal.n_rows
        rows = block.against(n_rows)
        with self._model.evaluation(), progress_bar(len(rows), show=self._game.show_progress) as bar:
            self._check_once(rows)
            scores = self._sweep(rows, lambda scores, block: scores, bar).clone()
        check_finite(scores, self.removal)
        if rows.samples is not None:
            self._game._count(torch.bincount(rows.samples, minlength=self.n_samples))
        return scores.view(-1, n_rows, scores.shape[1])


def _codes_of(words: Tensor) -> Tensor:
    """(N,) int64 codes of rows of words; different rows have different codes but for a chance of about 2 ** -64."""
    code = torch.zeros_like(words[:, 0])
    for word in words.unbind(dim=1):
        code = code ^ word
        # As splitmix64 mixes: one product and shift leave coalitions of few players, or all but few, too regular.
        for factor in (-4658895280553007687, -7723592293110705685):
            code = (code ^ (code >> 30 & 0x3FFFFFFFF)) * factor  # products wrap around
        code = code ^ (code >> 31 & 0x1FFFFFFFF)
    return code
