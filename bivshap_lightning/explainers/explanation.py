"""The result of every explainer: values for a batch of samples, together with how they were computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from bivshap_lightning.game import Game
from bivshap_lightning.graph import ExplanationGraph, mean_by_name, structure

LogOdds: TypeAlias = "Callable[[Explanation], Explanation]"
"""Makes the explanation of the log-odds of that of the probabilities."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Values of a batch of B samples over F players.

    Bivariate methods fill all fields. Univariate methods (Captum's, for example) have no interactions: there
    ``bivariate`` and ``standard_error`` are None and ``shapley`` holds the attributions of the method, whatever they
    are. Make one with :meth:`of`.

    Attributes:
        bivariate: (B, F, F) ``E2[b, i, j]``: importance of i when j is present, diagonal 0; None for univariate
            methods.
        shapley: (B, F) univariate Shapley values, or the attributions of a univariate method.
        standard_error: (B, F, F) of ``bivariate``, zero when exact. All samples share one design of coalitions,
            so errors of different samples are not independent. None for univariate methods.
        shapley_standard_error: (B, F), or None if the method does not estimate it.
        n_evaluations: (B,) model rows spent on each sample.
        target: (B,) the class or value that was explained.
        null_players: (B, F) bool: players that cannot change the sample's value.
        player_counts: (B,) how many of the F players the sample has; the others are padding.
        method: name of the explainer that computed the values, such as "exact" or "kernel_shap".
        seed: seed of the random design; exact methods ignore it.
        behavior: what was read off the model.
        removal: what replaced absent players.
        names: B tuples of the players' names, or None if they have no names.
        is_exact: whether the values are free of sampling error.
        absolute_gains: (B, F, F) like ``bivariate`` with the absolute value of every gain; None if the method does not
            see gains. A value of zero with larger absolute gains is a cancellation, not redundancy.
        pairwise_standard_error: (B, F, F) of the symmetric part ``C[i, j] = E2[i, j] - R[i]`` before it is made
            symmetric; None if the method does not estimate it.
        notes: B remarks on how a sample's values were found, such as a fallback, "" for none; () if there are none.
        log_odds_source: the explanation :attr:`log_odds`, or the function that makes it of this explanation when it is
            first asked for; None if there is none.

    Bivariate values have two parts, ``E2[b, i, j] = R[b, i] + C[b, i, j]``, see
    :mod:`bivshap_lightning.graph.structure`: :attr:`potential` R and the symmetric :attr:`pairwise` C.

    Example:
        >>> from bivshap_lightning import BivariateShapley
        >>> either = BivariateShapley(lambda x: x.amax(dim=1), behavior="output")
        >>> explanation = either.attribute(torch.ones(1, 3))
        >>> explanation
        Explanation(1 samples, 3 players, method='exact', behavior='output', 8 evaluations per sample)
        >>> explanation.graph(0, names=["a", "b", "c"]).redundancy().groups
        ((0, 1, 2),)
        >>> explanation.potential, explanation.pairwise[0, 0]
        (tensor([[0.0833, 0.0833, 0.0833]]), tensor([ 0.0000, -0.0833, -0.0833]))
    """

    bivariate: Tensor | None
    shapley: Tensor
    standard_error: Tensor | None
    shapley_standard_error: Tensor | None
    n_evaluations: Tensor
    target: Tensor
    null_players: Tensor
    player_counts: Tensor
    method: str
    seed: int
    behavior: str
    removal: str
    names: tuple[tuple[str, ...], ...] | None = None
    is_exact: bool = False
    absolute_gains: Tensor | None = None
    pairwise_standard_error: Tensor | None = None
    notes: tuple[str, ...] = ()
    log_odds_source: Explanation | LogOdds | None = None

    @classmethod
    def of(
        cls,
        game: Game,
        *,
        method: str,
        seed: int,
        shapley: Tensor,
        n_evaluations: Tensor,
        bivariate: Tensor | None = None,
        standard_error: Tensor | None = None,
        shapley_standard_error: Tensor | None = None,
        is_exact: bool = False,
        absolute_gains: Tensor | None = None,
        pairwise_standard_error: Tensor | None = None,
        log_odds: LogOdds | None = None,
        notes: tuple[str, ...] = (),
    ) -> Explanation:
        """Make an explanation of a game from the values that a method computed.

        Args:
            game: the game that was explained.
            method: name of the explainer.
            seed: seed of its random draws.
            shapley: (B, F) Shapley values, or attributions of a univariate method.
            n_evaluations: (B,) model rows spent, the difference of ``game.n_evaluations``.
            bivariate: (B, F, F), None for a univariate method.
            standard_error: (B, F, F) of ``bivariate``; zeros if left out.
            shapley_standard_error: (B, F).
            is_exact: whether the values are free of sampling error.
            absolute_gains: (B, F, F) like ``bivariate`` with the absolute value of every gain.
            pairwise_standard_error: (B, F, F) of the symmetric part before it is made symmetric.
            log_odds: the function that explains the log-odds of the same rows, called when they are first asked for.
            notes: B remarks on how a sample's values were found, or ().

        Raises:
            ValueError: a shape is wrong, or a value is NaN or infinite.

        Example:
            >>> game = Game(lambda x: x.sum(dim=1), torch.ones(1, 2), behavior="output")
            >>> scores, spent = torch.tensor([[1.0, 1.0]]), game.n_evaluations - game.n_evaluations
            >>> Explanation.of(game, method="mine", seed=0, shapley=scores, n_evaluations=spent).shapley
            tensor([[1., 1.]])
        """
        if bivariate is not None and standard_error is None:
            standard_error = torch.zeros_like(bivariate)
        for_pairs = {
            "bivariate": bivariate,
            "standard_error": standard_error,
            "absolute_gains": absolute_gains,
            "pairwise_standard_error": pairwise_standard_error,
        }
        for_players = {"shapley": shapley, "shapley_standard_error": shapley_standard_error}
        shape = (game.n_samples, game.n_players)
        checked = {name: _checked(name, value, (*shape, game.n_players), method) for name, value in for_pairs.items()}
        checked |= {name: _checked(name, value, shape, method) for name, value in for_players.items()}
        tensors: dict[str, Any] = {name: None if x is None else x.to(game.dtype) for name, x in checked.items()}
        return cls(
            **tensors,
            n_evaluations=n_evaluations,
            target=game.target,
            null_players=game.null_players,
            player_counts=game.player_counts,
            method=method,
            seed=seed,
            behavior=game.behavior.label,
            removal=game.removal.description,
            names=game.player_names,
            is_exact=is_exact,
            notes=notes,
            log_odds_source=log_odds,
        )

    def __len__(self) -> int:
        return len(self.shapley)

    def __repr__(self) -> str:
        spent = f"{int(self.n_evaluations.max())} evaluations per sample"
        return (
            f"Explanation({len(self)} samples, {self.shapley.shape[1]} players, method={self.method!r}, "
            f"behavior={self.behavior!r}, {spent})"
        )

    @cached_property
    def log_odds(self) -> Explanation | None:
        """The explanation of the log-odds of explained probabilities, from the same model rows; None elsewhere.

        Probabilities are cut to [0.001, 0.999]. Methods that do not evaluate coalitions have none. With background rows
        they are the log-odds of the mean probability; of "sampling", which evaluates a coalition against one row, the
        mean of the log-odds, as with ``behavior="log_odds"``. They are estimated when they are first asked for, also by
        a graph.
        """
        source = self.log_odds_source
        return source(self) if callable(source) else source

    @property
    def potential(self) -> Tensor:
        """(B, F) R: the importance of a player when it joins late; 0 for padding."""
        return self._part(structure.potential, self._pairs[0], self.shapley)

    @property
    def potential_error(self) -> Tensor:
        """(B, F) an upper bound of the standard error of :attr:`potential`."""
        return self._part(structure.potential_error, *self._errors)

    @property
    def pairwise(self) -> Tensor:
        """(B, F, F) C, symmetric: negative for substitutes, positive for players that need each other."""
        return self._part(structure.pairwise, self._pairs[0], self.shapley)

    @property
    def pairwise_error(self) -> Tensor:
        """(B, F, F) the standard error of :attr:`pairwise` where the estimator knows it, or an upper bound."""
        if self.pairwise_standard_error is not None:
            return self.pairwise_standard_error
        return self._part(structure.pairwise_error, *self._errors)

    @property
    def _pairs(self) -> tuple[Tensor, Tensor]:
        """The values of pairs and their errors."""
        if self.bivariate is None or self.standard_error is None:
            raise ValueError(
                f"`method` must be bivariate to give a graph, got {self.method!r}, which attributes to single players. "
                "Use `explanation.shapley`, or explain with a bivariate method such as 'auto'."
            )
        return self.bivariate, self.standard_error

    @property
    def _errors(self) -> tuple[Tensor, Tensor]:
        """The errors of pairs and of Shapley values; unknown ones of the latter are twice the mean of their row."""
        error = self._pairs[1]
        known = self.shapley_standard_error
        return error, 2 * error.sum(dim=2) / max(1, error.shape[2] - 1) if known is None else known

    def _part(self, compute: Callable[[Any, Any], Any], pairs: Tensor, players: Tensor) -> Tensor:
        """A part of the values of samples that may differ in their number of players."""
        counts = self.player_counts
        shape = compute(pairs[:0], players[:0]).shape[1:]
        found = pairs.new_zeros(len(self), *shape)
        for n in counts.unique().tolist():
            mine = (counts == n).nonzero()[:, 0]
            part = compute(pairs[mine, :n, :n], players[mine, :n])
            found[mine] = pad(part, (0, shape[-1] - n) * part[0].dim())
        return found

    def graph(self, index: int, names: Sequence[str] | None = None) -> ExplanationGraph:
        """The directed graph G of one sample, over the players that the sample has.

        Args:
            index: which sample.
            names: a name for each of its players; by default those of :attr:`names`, or else their numbers.

        Raises:
            ValueError: the method is univariate, or the sample has no players.
        """
        return self._graph(index, names, is_nested=False)

    def _graph(self, index: int, names: Sequence[str] | None, *, is_nested: bool) -> ExplanationGraph:
        bivariate, standard_error = self._pairs
        if not -len(self) <= index < len(self):
            raise IndexError(f"`index` must be below {len(self)}, the number of samples, got {index}.")
        n = int(self.player_counts[index])
        if n == 0:
            raise ValueError(
                f"`index` must name a sample that has players, got {index}, which has none (an empty "
                "text?). Leave it out."
            )
        if names is None and self.names is not None:
            names = self.names[index]
        arrays = (bivariate[index, :n, :n].T, self.shapley[index, :n], standard_error[index, :n, :n].T)
        weights, shapley, error = (a.detach().cpu().numpy() for a in arrays)
        phi_error = None if self.is_exact else self.shapley_standard_error
        pair_error = None if self.is_exact else self.pairwise_standard_error
        return ExplanationGraph(
            weights,
            names=names,
            shapley=shapley,
            standard_error=None if self.is_exact else error,
            shapley_standard_error=None if phi_error is None else phi_error[index, :n].detach().cpu().numpy(),
            pairwise_standard_error=None if pair_error is None else pair_error[index, :n, :n].detach().cpu().numpy(),
            log_odds=None if self.log_odds is None else self.log_odds._graph(index, names, is_nested=True),
            provenance={} if is_nested else self._provenance(index),
        )

    def graphs(self, names: Sequence[str] | None = None) -> list[ExplanationGraph]:
        """The graph G of every sample.

        Without other names the graphs are made once and cached, so that several metrics rank them once.
        """
        if names is None:
            return list(self._graphs)
        on_cpu = self._on_cpu()
        return [on_cpu.graph(index, names) for index in range(len(self))]

    @cached_property
    def _graphs(self) -> tuple[ExplanationGraph, ...]:
        on_cpu = self._on_cpu()
        return tuple(on_cpu.graph(index) for index in range(len(self)))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the explanation without the cached graphs, with the log-odds instead of the function."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"log_odds_source": self.log_odds}

    def _on_cpu(self) -> Explanation:
        """The same explanation with all tensors on the CPU, one transfer for each."""
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), Tensor)}
        log_odds = None if self.log_odds is None else self.log_odds._on_cpu()
        return replace(
            self, log_odds_source=log_odds, **{name: tensor.detach().cpu() for name, tensor in tensors.items()}
        )

    def mean_graph(self, indices: Sequence[int] | None = None, names: Sequence[str] | None = None) -> ExplanationGraph:
        """The mean graph over a subgroup of samples, such as a class; by default over all.

        Where samples have different named players, such as the words of texts, it has one node per name, see
        :func:`~bivshap_lightning.graph.mean_by_name`; samples without players are left out.
        """
        chosen = range(len(self)) if indices is None else indices
        graphs = [self.graph(int(index), names) for index in chosen if self.names is None or self.player_counts[index]]
        is_ragged = names is None and self.names is not None and len({graph.names for graph in graphs}) > 1
        return mean_by_name(graphs) if is_ragged else ExplanationGraph.mean(graphs)

    def _provenance(self, index: int) -> dict[str, Any]:
        return {
            "method": self.method,
            "seed": self.seed,
            "behavior": self.behavior,
            "removal": self.removal,
            "target": self.target[index].item(),
            "n_evaluations": int(self.n_evaluations[index]),
        } | ({"notes": self.notes[index]} if self.notes and self.notes[index] else {})


def _checked(name: str, value: Tensor | None, shape: tuple[int, ...], method: str) -> Tensor | None:
    if value is None:
        return None
    if tuple(value.shape) != shape:
        raise ValueError(
            f"`{name}` must have shape {shape}, one entry per sample and player of the game, got "
            f"{tuple(value.shape)} from {method!r}."
        )
    if bool(value.sum().isfinite()):  # shows every NaN and infinity in a fraction of the time
        return value
    is_finite = torch.isfinite(value)
    if not bool(is_finite.all()):
        raise ValueError(
            f"`{name}` must be finite, got {int((~is_finite).sum())} NaN or infinite of {value.numel()} from "
            f"{method!r}."
        )
    return value
