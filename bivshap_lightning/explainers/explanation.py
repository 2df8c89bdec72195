"""The result of an explainer: matrices for a whole batch, with their provenance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from torch import Tensor

from bivshap_lightning.graph import ExplanationGraph, mean_by_name


@dataclass(frozen=True, eq=False)
class Explanation:
    """Bivariate Shapley values of a batch.

    Attributes:
        bivariate: (B, F, F) ``E2[b, i, j]``: importance of i when j is present, diagonal 0.
        shapley: (B, F) univariate Shapley values.
        standard_error: (B, F, F) of ``bivariate``, zero when exact. All samples share one design of coalitions,
            so errors of different samples are not independent.
        shapley_standard_error: (B, F).
        n_evaluations: (B,) model rows spent on each sample.
        target: (B,) what was explained.
        null_players: (B, F) bool: players that cannot change the sample's value.
        player_counts: (B,) how many of the F players the sample has; the others are padding.
        method: "exact", "trees", "sampling" or "kernel".
        seed: where the random design started; it plays no part in an exact explanation.
        behavior: what was read off the model.
        removal: what stood in for absent players.
        names: B tuples of the players' names, or None if nobody named them.

    Example:
        >>> from bivshap_lightning import BivariateShapley
        >>> import torch
        >>> either = BivariateShapley(lambda x: x.amax(dim=1), behavior="output")
        >>> explanation = either.attribute(torch.ones(1, 3))
        >>> explanation
        Explanation(1 samples, 3 players, method='exact', behavior='output', 8 evaluations per sample)
        >>> explanation.graph(0, names=["a", "b", "c"]).redundancy().groups
        ((0, 1, 2),)
    """

    bivariate: Tensor
    shapley: Tensor
    standard_error: Tensor
    shapley_standard_error: Tensor
    n_evaluations: Tensor
    target: Tensor
    null_players: Tensor
    player_counts: Tensor
    method: str
    seed: int
    behavior: str
    removal: str
    names: tuple[tuple[str, ...], ...] | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the values are free of sampling error."""
        return self.method in ("exact", "trees")

    def __len__(self) -> int:
        return len(self.bivariate)

    def __repr__(self) -> str:
        spent = f"{int(self.n_evaluations.max())} evaluations per sample"
        return (
            f"Explanation({len(self)} samples, {self.shapley.shape[1]} players, method={self.method!r}, "
            f"behavior={self.behavior!r}, {spent})"
        )

    def graph(self, index: int, names: Sequence[str] | None = None) -> ExplanationGraph:
        """The directed graph G of one sample, over the players that the sample has.

        Args:
            index: which sample.
            names: a name for each of its players; by default those of :attr:`names`, or else their numbers.
        """
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
        arrays = (self.bivariate[index, :n, :n].T, self.shapley[index, :n], self.standard_error[index, :n, :n].T)
        weights, shapley, error = (a.detach().cpu().numpy() for a in arrays)
        return ExplanationGraph(
            weights,
            names=names,
            shapley=shapley,
            standard_error=None if self.is_exact else error,
            shapley_standard_error=None if self.is_exact else self.shapley_standard_error[index, :n].detach().cpu(),
            provenance=self._provenance(index),
        )

    def graphs(self, names: Sequence[str] | None = None) -> list[ExplanationGraph]:
        """The graph G of every sample.

        Without other names they are made once and kept, as long as the explanation is: several metrics that judge it
        then rank them once.
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
        """What is sent to other processes: the explanation, without the graphs kept."""
        return {name: value for name, value in vars(self).items() if name != "_graphs"}

    def _on_cpu(self) -> Explanation:
        """The same with all tensors fetched from their device, in one go each."""
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), Tensor)}
        return replace(self, **{name: tensor.detach().cpu() for name, tensor in tensors.items()})

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
        }
