"""`AuditSettings`: what an audit computes, and the default threshold of redundancy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bivshap_lightning.audit.record_parts import FIXED_GAMMA, RELATIVE_GAMMA
from bivshap_lightning.checks import check_evaluations
from bivshap_lightning.explainers.auto import DEFAULT_TARGET_ERROR
from bivshap_lightning.explainers.registry import Explainer, StagedExplainer
from bivshap_lightning.graph import ExplanationGraph, RelativeGamma
from bivshap_lightning.graph.threshold import Gamma, gammas_of


@dataclass(frozen=True)
class AuditSettings:
    """What an audit computes; see :class:`~bivshap_lightning.callbacks.BivShapCallback` for most of it.

    Attributes:
        gamma: one threshold for all samples, or the smallest of `relative_gamma`; None before that is known.
        gamma_rule: how gamma was found.
        relative_gamma: the threshold by each sample's number of players; None for one number.
        remark: a sentence about the settings that belongs into the record, such as that of a poor replacement.
        target_error: relative error of E2 at which a sample's rows stop; None for the default one if `n_evaluations` is
            None as well, and otherwise for all rows.
        background_source: where drawn background rows are from; empty for rows that the user gave.
        columns: whether to find out what dropping each column of a table costs, by a second game.
    """

    method: Any
    behavior: Any
    link: Any
    target: Any
    n_evaluations: int | None
    gamma: float | None
    seed: int
    compare_with: tuple[Any, ...]
    baselines: Any
    background: Any
    feature_mask: Any
    perturbations_per_eval: int | None
    task: Any = "auto"
    gamma_rule: str = FIXED_GAMMA
    relative_gamma: RelativeGamma | None = None
    remark: str = ""
    target_error: float | None = None
    background_source: str = ""
    columns: bool = False

    def __post_init__(self) -> None:
        check_evaluations(self.n_evaluations)

    @property
    def known_gamma(self) -> float:
        """The threshold as one number: where samples differ in players, that of the one with the most, the smallest.

        Raises:
            ValueError: it is relative, and what there is to explain has not been measured yet.
        """
        if self.gamma is None:
            raise ValueError(
                "`gamma` must be a number to explain samples, got None. Call `with_relative_gamma` with the sizes of "
                "all samples first."
            )
        return self.gamma

    @property
    def any_gamma(self) -> Gamma:
        """The threshold of all samples, as metrics take it.

        Raises:
            ValueError: as for `known_gamma`.
        """
        return self.known_gamma if self.relative_gamma is None else self.relative_gamma

    def gammas_of(self, graphs: Sequence[ExplanationGraph]) -> list[float]:
        """The threshold of each sample.

        Args:
            graphs: of samples.
        """
        return gammas_of(self.any_gamma, graphs)

    def gamma_of_mean(self, graphs: Sequence[ExplanationGraph]) -> float:
        """The threshold of a mean graph: the smallest of its samples, whose weights it has.

        Not that of its own number of players: of texts it has the words of all.

        Args:
            graphs: of the samples, at least one.
        """
        return min(self.gammas_of(graphs))

    def error_to_reach(self, explainer: Explainer) -> float | None:
        """The relative error of E2 at which rows of our explanation stop; None if it takes all rows at once.

        Args:
            explainer: the one that `method` names.
        """
        if self.target_error is None and self.n_evaluations is None and isinstance(explainer, StagedExplainer):
            return DEFAULT_TARGET_ERROR
        return self.target_error

    def with_relative_gamma(self, sizes: Sequence[tuple[int, float]]) -> AuditSettings:
        """The settings with the default threshold, the smaller of 1 % and 15 % / F of the mean `abs(u(all) - u(none))`.

        F is each sample's own number of players, the mean is that over all samples.

        Args:
            sizes: number of players and `u(all) - u(none)` of each sample, as :meth:`Audit.sizes` returns them.
        """
        scale = float(np.mean([abs(gain) for _, gain in sizes]))
        relative = RelativeGamma(scale)
        smallest = min(relative.of(n_players) for n_players, _ in sizes)
        return replace(self, gamma=smallest, gamma_rule=RELATIVE_GAMMA, relative_gamma=relative)
