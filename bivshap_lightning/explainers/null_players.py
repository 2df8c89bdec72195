"""Null players are removed before an estimate and restored after it.

A null player never changes a value. Its row of ``E2`` is zero, dropping it changes no other entry, and its column
is known from the game without it: on the n players that remain,

    ``E2[i, null] = sum over S of p(|S|) * (|S| + 1) / (n + 1) * (u(S + i) - u(S))``

where p is Shapley's weight. Every estimator works on the reduced game and estimates that column too. The rows of null
players are proven zeros and cost nothing; their common column is as good as the estimate of the other entries.

Samples of a batch can have different null players. Samples with equally many other players form one reduced game, so
the design of coalitions of a sample depends on its own players alone and not on the rest of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from bivshap_lightning.game import Game
from bivshap_lightning.game.coalitions import unique_of

# Elements of (samples, coalitions, players) masks held at once where every coalition has its own background row.
BLOCK_ELEMENTS = 2**24


@dataclass(frozen=True)
class Estimate:
    """Values and standard errors of n players, in float64.

    Attributes:
        bivariate: (B, n, n) ``E2[b, i, j]``, importance of i when j is present, diagonal 0.
        shapley: (B, n).
        null_column: (B, n) importance of i when a null player is present.
        bivariate_error: (B, n, n) standard errors of the above, zero only where a value is proven.
        shapley_error: (B, n).
        null_column_error: (B, n).
        pairwise_error: (B, n, n) standard errors of ``C = E2 - null_column`` before it is made symmetric; None if the
            estimator does not know them.
        absolute_gains: (B, n, n) and (B, n), like ``bivariate`` and ``null_column`` with the absolute value of every
            gain; None if the estimator does not see gains. Zero values with larger absolute gains are cancellations.
        log_odds: the estimate for the log-odds of the same rows, where the values are probabilities.
        noise: (B,) sum of the variances of E2 as they are expected, without what ``bivariate_error`` adds for gains
            that the rows may not have shown; None to take the sum of its squares.
        notes: B remarks on how a sample's values were found, such as a fallback, "" for none; or nothing at all.
    """

    bivariate: Tensor
    shapley: Tensor
    null_column: Tensor
    bivariate_error: Tensor
    shapley_error: Tensor
    null_column_error: Tensor
    pairwise_error: Tensor | None = field(default=None, kw_only=True)
    absolute_gains: tuple[Tensor, Tensor] | None = field(default=None, kw_only=True)
    log_odds: Estimate | None = field(default=None, kw_only=True)
    noise: Tensor | None = field(default=None, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    @classmethod
    def exact(
        cls,
        bivariate: Tensor,
        shapley: Tensor,
        null_column: Tensor,
        *,
        absolute_gains: tuple[Tensor, Tensor] | None = None,
    ) -> Estimate:
        """An estimate without error."""
        errors = (torch.zeros_like(bivariate), torch.zeros_like(shapley), torch.zeros_like(null_column))
        return cls(bivariate, shapley, null_column, *errors, pairwise_error=errors[0], absolute_gains=absolute_gains)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Values and errors, in the order of the fields."""
        values = (self.bivariate, self.shapley, self.null_column)
        return (*values, self.bivariate_error, self.shapley_error, self.null_column_error)

    def __len__(self) -> int:
        return len(self.bivariate)

    def __getitem__(self, samples: Tensor | slice) -> Estimate:
        """The estimate of some samples, by their int64 indices or as a slice."""
        chosen = range(len(self))[samples] if isinstance(samples, slice) else samples.tolist()
        notes = tuple(self.notes[k] for k in chosen) if self.notes else ()
        return replace(_combine([self], lambda same: same[0][samples]), notes=notes)

    @classmethod
    def join(cls, parts: Sequence[Estimate]) -> Estimate:
        """Estimates of blocks of samples with equally many players as one."""
        if len(parts) == 1:
            return parts[0]
        notes = tuple(note for part in parts for note in (part.notes or ("",) * len(part)))
        return replace(_combine(parts, lambda same: torch.cat(list(same))), notes=notes if any(notes) else ())

    def where(self, keeps: Sequence[bool], other: Estimate, *, notes: tuple[str, ...]) -> Estimate:
        """This estimate for the samples that keep it, another one for the rest."""
        kept = torch.tensor(keeps, device=self.bivariate.device)

        def choose(same: Sequence[Tensor]) -> Tensor:
            mine, theirs = same
            return torch.where(kept.view(-1, *[1] * (mine.dim() - 1)), mine, theirs)

        return replace(_combine([self, other], choose), notes=notes if any(notes) else ())

    def relative_error(self) -> Tensor:
        """(B,) the root mean square of the expected errors of E2 over that of E2 itself, noise taken out of the latter.

        Infinite where the values are no larger than their errors; zero for a constant game.
        """
        noise = (self.bivariate_error**2).sum(dim=(1, 2)) if self.noise is None else self.noise
        signal = (self.bivariate**2).sum(dim=(1, 2)) - noise
        return torch.where(
            noise == 0, 0.0, torch.where(signal > 0, (noise / signal.clamp(min=1e-300)).sqrt(), torch.inf)
        )


def _combine(parts: Sequence[Estimate], change: Callable[[Sequence[Tensor]], Tensor]) -> Estimate:
    """One estimate whose tensors are a function of those of several; without what some of them lack, and notes."""
    fields = [change(same) for same in zip(*(part.tensors for part in parts), strict=True)]
    pairwise = [part.pairwise_error for part in parts if part.pairwise_error is not None]
    gains = [part.absolute_gains for part in parts if part.absolute_gains is not None]
    nested = [part.log_odds for part in parts if part.log_odds is not None]
    noise = [part.noise for part in parts if part.noise is not None]
    has_gains = len(gains) == len(parts)
    return Estimate(
        *fields,
        pairwise_error=change(pairwise) if len(pairwise) == len(parts) else None,
        absolute_gains=(change([g[0] for g in gains]), change([g[1] for g in gains])) if has_gains else None,
        log_odds=_combine(nested, change) if len(nested) == len(parts) else None,
        noise=change(noise) if len(noise) == len(parts) else None,
    )


@dataclass(frozen=True)
class KeptPlayers:
    """Which players of samples remain, to turn what is known about them into what is known about all players.

    Attributes:
        null_players: bool (B', F).
        kept: int64 (B' or 1, n), the players that remain.
        samples: int64 (B',) which samples of the game these are; None for all.
        has_nulls: whether there is any null player.
    """

    null_players: Tensor
    kept: Tensor
    samples: Tensor | None
    has_nulls: bool

    def restore(self, bivariate: Tensor, null_column: Tensor) -> Tensor:
        """A matrix over the remaining players as one over all, null players filled in.

        Args:
            bivariate: (B, n, n).
            null_column: (B, n).

        Returns:
            (B, F, F).
        """
        n_samples, n, n_all = len(bivariate), self.kept.shape[1], self.null_players.shape[1]
        if not self.has_nulls:
            return bivariate
        kept = self.kept.expand(n_samples, -1)
        rows = bivariate.new_zeros(n_samples, n, n_all).scatter_(2, kept[:, None].expand(-1, n, -1), bivariate)
        rows = torch.where(self.null_players[:, None], null_column[:, :, None], rows)
        whole = rows.new_zeros(n_samples, n_all, n_all).scatter_(1, kept[:, :, None].expand(-1, -1, n_all), rows)
        return whole.masked_fill_(self.null_players[:, :, None], 0)

    def restore_vector(self, vector: Tensor) -> Tensor:
        """A (B, n) vector as (B, F), zero for null players."""
        if not self.has_nulls:
            return vector
        whole = vector.new_zeros(len(vector), self.null_players.shape[1])
        whole.scatter_(1, self.kept.expand(len(vector), -1), vector)
        return whole.masked_fill_(self.null_players, 0)


class ReducedGame:
    """A game over the players that are not null, for samples with equally many of them.

    Made of samples with different numbers of such players, it has as many players as the sample with the most; the
    others keep some of their null players, whose values are replaced when all players are restored. That is harmless
    for exact values only: elsewhere the design of a sample would depend on the other samples. Use :meth:`by_count`.

    Args:
        game: the game to reduce.
        samples: (B',) int64, the samples that take part; None for all.

    Attributes:
        n_players: n.
        n_samples: B', the number of samples that take part.
        samples: the argument.
        players: which players remain.

    Example:
        >>> game = Game(lambda x: x.sum(dim=1), torch.tensor([[0.0, 3.0, 0.0], [1.0, 2.0, 3.0]]), behavior="output")
        >>> ReducedGame(game).n_players
        3
        >>> [(part.n_players, part.samples.tolist()) for part in ReducedGame.by_count(game)]
        [(1, [0]), (3, [1])]
    """

    def __init__(self, game: Game, samples: Tensor | None = None) -> None:
        self.game, self.samples, self.device = game, samples, game.device
        null_players = game.null_players if samples is None else game.null_players[samples]
        self.n_samples = len(null_players)
        counts = (~null_players).sum(dim=1)
        self.n_players = max(1, int(counts.max()))
        kept = null_players.to(torch.int8).argsort(dim=1, stable=True)[:, : self.n_players]
        self._kept = kept[:1] if bool((kept == kept[:1]).all()) else kept
        self.players = KeptPlayers(null_players, self._kept, samples, bool(null_players.any()))

    @classmethod
    def by_count(cls, game: Game) -> list[ReducedGame]:
        """One reduced game for each number of non-null players that samples have."""
        counts = (~game.null_players).sum(dim=1).clamp(min=1)
        different = counts.unique().tolist()
        if len(different) == 1:
            return [cls(game)]
        return [cls(game, (counts == count).nonzero()[:, 0]) for count in different]

    def part(self, samples: Tensor) -> ReducedGame:
        """The same for some of the samples, by their int64 positions here."""
        return ReducedGame(self.game, samples if self.samples is None else self.samples[samples])

    @property
    def places(self) -> Tensor:
        """(B' or 1, F) int64: which of the remaining players a player is, -1 for those that were removed."""
        places = self._kept.new_full((len(self._kept), self.game.n_players), -1)
        return places.scatter_(1, self._kept, torch.arange(self.n_players, device=self.device).expand_as(self._kept))

    @property
    def n_background(self) -> int:
        """How many background rows there are for every coalition."""
        return self.game.removal.n_rows

    def __call__(self, masks: Tensor, replacements: Tensor | None = None) -> Tensor:
        """Values of coalitions of the remaining players, the same ones for every sample.

        Args:
            masks: bool (K, n).
            replacements: (K,) int64, the one background row of each; None for the mean over all of them.

        Returns:
            (B', K) float64.
        """
        if replacements is None:
            return self._values(masks)
        # Null players are no part of the masks, so what differs here differs for every sample.
        distinct = unique_of(masks, replacements)
        first, place = (None, None) if distinct is None else distinct
        if first is not None:
            masks, replacements = masks[first], replacements[first]
        size = max(1, BLOCK_ELEMENTS // (self.n_samples * self.game.n_players))
        parts = zip(masks.split(size), replacements.split(size), strict=True)
        values = torch.cat([self._values(*part) for part in parts], dim=1)
        return values if place is None else values.index_select(1, place[0])

    def _values(self, masks: Tensor, replacements: Tensor | None = None) -> Tensor:
        whole = masks.new_zeros(len(self._kept), len(masks), self.game.n_players)
        index = self._kept[:, None].expand(-1, len(masks), -1)
        whole.scatter_(2, index, masks.expand(len(self._kept), -1, -1))
        if self.samples is None and replacements is None:
            return self.game(whole).double()
        samples = torch.arange(self.n_samples, device=self.device) if self.samples is None else self.samples
        rows = whole.expand(self.n_samples, -1, -1).flatten(0, 1)
        against = None if replacements is None else replacements.repeat(self.n_samples)
        of_rows = samples.repeat_interleave(len(masks))
        values = self.game.values_of(rows, of_rows, against, are_distinct=replacements is not None)
        return values.view(self.n_samples, len(masks)).double()
