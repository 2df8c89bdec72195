"""Null players leave before the estimate and come back after it.

A null player never changes a value. Its row of ``E2`` is zero, dropping it changes no other entry, and its column
is known from the game without it: on the n players that remain,

    ``E2[i, null] = sum over S of p(|S|) * (|S| + 1) / (n + 1) * (u(S + i) - u(S))``

where p is Shapley's weight. Every estimator works on the reduced game and gives that column too, so null players
cost nothing and are exact whatever the method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bivshap_lightning.game import Game


@dataclass(frozen=True)
class Estimate:
    """What an estimator finds on n players, in float64.

    Attributes:
        bivariate: (B, n, n) ``E2[b, i, j]``, importance of i when j is present, diagonal 0.
        shapley: (B, n).
        null_column: (B, n) importance of i when a null player is present.
        bivariate_error: (B, n, n) standard errors of the above, zero when exact.
        shapley_error: (B, n).
        null_column_error: (B, n).
        notes: B remarks on how a sample's values were found, such as a fallback, "" for none; or nothing at all.
    """

    bivariate: Tensor
    shapley: Tensor
    null_column: Tensor
    bivariate_error: Tensor
    shapley_error: Tensor
    null_column_error: Tensor
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    @classmethod
    def exact(cls, bivariate: Tensor, shapley: Tensor, null_column: Tensor) -> Estimate:
        """An estimate without error."""
        errors = (torch.zeros_like(bivariate), torch.zeros_like(shapley), torch.zeros_like(null_column))
        return cls(bivariate, shapley, null_column, *errors)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All six tensors, in the order of the fields."""
        values = (self.bivariate, self.shapley, self.null_column)
        return (*values, self.bivariate_error, self.shapley_error, self.null_column_error)

    @classmethod
    def join(cls, parts: Sequence[Estimate]) -> Estimate:
        """Estimates of several groups of samples as one."""
        if len(parts) == 1:
            return parts[0]
        notes = [part.notes or ("",) * len(part.bivariate) for part in parts]
        tensors = (torch.cat(same) for same in zip(*(part.tensors for part in parts), strict=True))
        return cls(*tensors, notes=tuple(note for of_part in notes for note in of_part))

    def where(self, keeps: Sequence[bool], other: Estimate, *, notes: tuple[str, ...]) -> Estimate:
        """This estimate for the samples that keep it, another one for the rest."""
        kept = torch.tensor(keeps, device=self.bivariate.device)
        mixed = (
            torch.where(kept.view(-1, *[1] * (mine.dim() - 1)), mine, theirs)
            for mine, theirs in zip(self.tensors, other.tensors, strict=True)
        )
        return Estimate(*mixed, notes=notes if any(notes) else ())


class ReducedGame:
    """A game over as many players as its richest sample has non-null ones.

    Samples with fewer keep some of their null players to fill up; what is estimated for those is known better and
    replaced when all players are restored.

    Args:
        game: the game to reduce.

    Example:
        >>> game = Game(lambda x: x.sum(dim=1), torch.tensor([[0.0, 3.0, 0.0]]), behavior="output")
        >>> ReducedGame(game).n_players
        1
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        counts = (~game.null_players).sum(dim=1)
        self.n_players = max(1, int(counts.max()))
        self.n_samples, self.device = game.n_samples, game.device
        kept = game.null_players.to(torch.int8).argsort(dim=1, stable=True)[:, : self.n_players]
        self._kept = kept[:1] if bool((kept == kept[:1]).all()) else kept

    @property
    def places(self) -> Tensor:
        """(B or 1, F) int64: which of the remaining players a player is, -1 for those that left."""
        places = self._kept.new_full((len(self._kept), self.game.n_players), -1)
        return places.scatter_(1, self._kept, torch.arange(self.n_players, device=self.device).expand_as(self._kept))

    def __call__(self, masks: Tensor) -> Tensor:
        """Values of coalitions of the remaining players, the same ones for every sample.

        Args:
            masks: bool (K, n).

        Returns:
            (B, K) float64.
        """
        whole = masks.new_zeros(len(self._kept), len(masks), self.game.n_players)
        index = self._kept[:, None].expand(-1, len(masks), -1)
        return self.game(whole.scatter_(2, index, masks.expand(len(self._kept), -1, -1))).double()

    def restore(self, bivariate: Tensor, null_column: Tensor) -> Tensor:
        """A matrix over the remaining players as one over all, null players filled in.

        Args:
            bivariate: (B, n, n).
            null_column: (B, n).

        Returns:
            (B, F, F).
        """
        n_samples, n, n_all = len(bivariate), self.n_players, self.game.n_players
        kept = self._kept.expand(n_samples, -1)
        rows = bivariate.new_zeros(n_samples, n, n_all).scatter_(2, kept[:, None].expand(-1, n, -1), bivariate)
        rows = torch.where(self.game.null_players[:, None], null_column[:, :, None], rows)
        whole = rows.new_zeros(n_samples, n_all, n_all).scatter_(1, kept[:, :, None].expand(-1, -1, n_all), rows)
        return whole.masked_fill_(self.game.null_players[:, :, None], 0)

    def restore_vector(self, vector: Tensor) -> Tensor:
        """A (B, n) vector as (B, F), zero for null players."""
        whole = vector.new_zeros(len(vector), self.game.n_players)
        whole.scatter_(1, self._kept.expand(len(vector), -1), vector)
        return whole.masked_fill_(self.game.null_players, 0)
