"""One audit: explains samples with our method and with others, and judges all explanations on the same games.

Samples are explained chunk by chunk (:meth:`Audit.explain`). A :class:`ChunkResult` depends on the chunk and the
settings alone, so it may come from another process or from a file; :meth:`Audit.combine` makes one
:class:`AuditResult` of them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bivshap_lightning.audit.batches import Batch, explained_target, players_of, words_of
from bivshap_lightning.audit.changes import DrawnSample, changes_of, drawn_samples
from bivshap_lightning.audit.columns import with_column_costs
from bivshap_lightning.audit.comparison import ends, equal_terms, ranked, signs
from bivshap_lightning.audit.default_removal import is_table
from bivshap_lightning.audit.record_changes import ShapleyChange
from bivshap_lightning.audit.record_decisions import SufficientSummary
from bivshap_lightning.audit.results import (
    OF_GRAPHS,
    OURS,
    REDUNDANCY,
    ROLES,
    SWEEP,
    AuditResult,
    ChunkResult,
    ExplainedSample,
    add_up,
    array_of,
    change_numbers,
    mean_errors,
    numbers_of_results,
    ranking_metrics,
    state_of,
    sufficient_numbers,
    with_scores,
)
from bivshap_lightning.audit.selection import SampleChunk
from bivshap_lightning.audit.settings import AuditSettings
from bivshap_lightning.audit.task import as_classes, true_labels
from bivshap_lightning.audit.time_plan import TimePlan
from bivshap_lightning.explainers import Explanation, default_evaluations, explain_until, find_explainer
from bivshap_lightning.explainers.changes import drawn_values_kept
from bivshap_lightning.explainers.sufficient import N_SUPERSETS, SUPERSETS_PER_TURN, SufficientSet, sufficient_set
from bivshap_lightning.game import Game
from bivshap_lightning.game.players.images import channel_dim, visible
from bivshap_lightning.game.progress import Portion, ProgressBar
from bivshap_lightning.game.shared_rows import SharedRows
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.threshold import Gamma
from bivshap_lightning.metrics import (
    DirectionalRedundancy,
    GammaSweep,
    MutualRedundancyMasking,
    RepresentativesKept,
    RoleShares,
)
from bivshap_lightning.metrics.sample_metric import SampleMetric

COALITIONS_PER_SUPERSET = 128
"""A random superset may be evaluated per so many coalitions of the explanation: a few per cent are spent on them."""

__all__ = ["OURS", "Audit", "AuditResult", "AuditSettings", "ChunkResult", "ExplainedSample"]


class Audit:
    """What one process computes in an audit.

    Args:
        settings: what to compute.
        device: where metrics keep their sums.
        names: of the players, or None.
        agree: where all processes must make the same forward passes, gives every process the value of rank zero; used
            for what depends on the clock.
        progress: a bar of samples.
        earlier: what the audit before drew for the samples, by their index; None to keep nothing.

    Attributes:
        plan: of the time.
        drawn: what this audit drew for the samples, by their index, for the next one.
        comparison_seconds: what the other explainers have taken so far, here.
    """

    def __init__(
        self,
        settings: AuditSettings,
        device: torch.device,
        names: Sequence[str] | None = None,
        *,
        agree: Callable[[Any], Any] | None = None,
        progress: ProgressBar | None = None,
        earlier: Mapping[int, DrawnSample] | None = None,
    ) -> None:
        self.settings = settings
        self._names = names
        self._agree, self._progress = agree or (lambda value: value), progress
        self._explainer = find_explainer(settings.method)
        others = [find_explainer(other, argument="compare_with") for other in settings.compare_with]
        self._others = {other.name: other for other in others}
        # Without a gamma only games can be made.
        metrics = {} if settings.gamma is None else self._make_metrics(settings.any_gamma)
        self._metrics = {key: metric.to(device) for key, metric in metrics.items()}
        self._skipped: dict[str, str] = {}
        self.comparison_seconds, self.plan = 0.0, TimePlan()
        self._earlier, self.drawn = earlier, dict[int, DrawnSample]()

    def _make_metrics(self, gamma: Gamma) -> dict[tuple[str, str], SampleMetric]:
        # Results of other processes are combined explicitly, not synchronised by torchmetrics.
        alone: dict[str, Any] = {"sync_on_compute": False, "per_sample": True}
        seed = self.settings.seed
        metrics: dict[tuple[str, str], SampleMetric] = {
            (metric, explainer): kind(**alone)
            for metric, (kind, _) in ranking_metrics(self.settings.task).items()
            for explainer in (OURS, *self._others)
        }
        metrics["mutual", REDUNDANCY] = MutualRedundancyMasking(gamma=gamma, seed=seed, **alone)
        metrics["directional", REDUNDANCY] = DirectionalRedundancy(gamma=gamma, **alone)
        if self.settings.task == "regression":
            metrics["kept", REDUNDANCY] = RepresentativesKept(gamma=gamma, seed=seed, **alone)
        metrics["shares", ROLES] = RoleShares(gamma=gamma, seed=seed, **alone)
        metrics["gammas", SWEEP] = GammaSweep(gamma=gamma, seed=seed, sync_on_compute=False)
        return metrics

    def sizes(self, forward: nn.Module, chunk: SampleChunk) -> list[tuple[int, float]]:
        """Number of players and `u(all) - u(none)` of each sample of a chunk, by two model rows each.

        Args:
            forward: the model as a function of a batch's tensors.
            chunk: samples of one shape.
        """
        game = self.game(forward, chunk.batch, chunk.places)
        values = ends(game).double()
        return list(zip(game.player_counts.tolist(), (values[:, 0] - values[:, 1]).tolist(), strict=True))

    def explain(self, forward: nn.Module, chunk: SampleChunk, deadline: float) -> ChunkResult:
        """Explain a chunk of samples and judge the explanations.

        Args:
            forward: the model as a function of a batch's tensors.
            chunk: samples of one shape.
            deadline: by the plan's clock; evaluations are cut down and others left out to meet it.
        """
        _ = self.settings.known_gamma
        self.plan.deadline = deadline
        for metric in self._metrics.values():
            metric.reset()
        game = self.game(forward, chunk.batch, chunk.places)
        portion = None if self._progress is None else self._portion(self._progress, game)
        game.show_progress = portion or False
        with game.evaluation():
            result = self._explain_and_judge(game, chunk)
        if self.settings.columns and math.isinf(deadline):
            result = self._with_column_costs(result, game, forward, chunk.batch)
        if portion is not None:
            portion.finish()
        return result

    def _portion(self, bar: ProgressBar, game: Game) -> Portion:
        """The part of the bar that belongs to the samples of a game: ours, and others that spend as many rows."""
        n_others = sum(not other.is_exact for other in self._others.values())
        n_rows = (self.settings.n_evaluations or default_evaluations(game)) * (1 + n_others)
        return Portion(bar, game.n_samples, n_rows * game.n_samples)

    def _explain_and_judge(self, game: Game, chunk: SampleChunk) -> ChunkResult:
        shared = SharedRows(game)
        with drawn_values_kept() as drawn:
            explanation = self._explain(shared)
        asked = shared.n_asked
        explained = self.plan.clock()
        changes: Sequence[ShapleyChange | None] = [None] * len(explanation)
        if self._earlier is not None:
            found = drawn_samples(game, chunk.places, drawn)
            self.drawn |= found
            changes = changes_of(game, chunk.places, self._earlier, found)
        names = [self._names_of(game, b) for b in range(len(explanation))]
        graphs = [explanation.graph(b, n) for b, n in enumerate(names)]
        for (_, explainer), metric in self._metrics.items():
            if explainer in (OURS, *OF_GRAPHS):
                metric.update(shared, graphs)
        sets, start = self._sufficient(shared, explanation), self.plan.clock()
        self.plan.measure_judgement(start - explained, of_ours=True)
        spent = {OURS: int(explanation.n_evaluations.sum()), **self._judge_others(shared, explanation, asked)}
        self.comparison_seconds += self.plan.clock() - start
        # The only transfers from the device, after all evaluations.
        samples = self._samples(game, chunk.batch, chunk.places, graphs, sets)
        return ChunkResult(
            samples=[replace(sample, change=change) for sample, change in zip(samples, changes, strict=True)],
            errors=mean_errors(explanation.standard_error, game.player_counts),
            states={key: state_of(metric) for key, metric in self._metrics.items()},
            n_forwards=int(game.n_evaluations.sum()),
            spent=spent,
            method=explanation.method,
            removal=explanation.removal,
            skipped=dict(self._skipped),
        )

    def _with_column_costs(self, result: ChunkResult, game: Game, forward: nn.Module, batch: Batch) -> ChunkResult:
        """The result with what dropping each column costs, where the samples are rows of a table with true labels."""
        target = true_labels(batch.labels, self.settings.task, game.n_outputs)
        if target is None or not is_table(batch) or len(batch.inputs) > 1:
            return result
        return with_column_costs(result, self._game_of(forward, batch, target, "loss"), batch, self.settings)

    def combine(self, parts: Sequence[ChunkResult]) -> AuditResult:
        """Combine the results of all chunks; their order plays no part."""
        parts = sorted(parts, key=lambda part: part.samples[0].index)
        skipped = {name: why for part in reversed(parts) for name, why in part.skipped.items()}
        results = {
            key: add_up(metric, [part.states[key] for part in parts])
            for key, metric in self._metrics.items()
            if key[1] not in skipped
        }
        numbers = numbers_of_results(results, self.settings.task)
        errors = [error for part in parts for error in part.errors]
        numbers["bivshap/estimate/standard_error"] = (float(np.mean(errors or [0.0])), 0.0)
        curve_metric = next(metric for (metric, _), result in results.items() if "masked_fraction" in result)
        curves = {
            explainer: (array_of(result, "masked_fraction"), array_of(result, "curve"), array_of(result, "curve_se"))
            for (metric, explainer), result in results.items()
            if metric == curve_metric
        }
        samples = with_scores([s for part in parts for s in part.samples], results, self.settings.task)
        numbers |= sufficient_numbers(samples) | change_numbers(samples)
        return AuditResult(
            numbers=numbers,
            curves=curves,
            samples=samples,
            sweep={name: values.cpu().numpy() for name, values in results["gammas", SWEEP].items() if values.dim()},
            n_forwards=sum(part.n_forwards for part in parts),
            n_evaluations={e: sum(part.spent.get(e, 0) for part in parts) / len(samples) for e in curves},
            method=parts[0].method,
            removal=parts[0].removal,
            skipped=skipped,
        )

    def game(self, forward: nn.Module, batch: Batch, places: Sequence[int] = ()) -> Game:
        """The game of a batch, as the settings define it.

        Args:
            forward: the model as a function of the batch's tensors.
            batch: the samples.
            places: their indices among the chosen samples, by which independent labels take turns.
        """
        target = explained_target(batch, self.settings, places)
        return self._game_of(forward, batch, target, self.settings.behavior or "probability")

    def _game_of(self, forward: nn.Module, batch: Batch, target: Any, behavior: Any) -> Game:
        settings = self.settings
        return Game(
            forward,
            batch.inputs,
            baselines=settings.baselines,
            background=settings.background,
            feature_mask=players_of(batch, settings.feature_mask),
            target=target,
            behavior=behavior,
            link=settings.link,
            additional_forward_args=tuple(batch.extra.values()) or None,
            perturbations_per_eval=settings.perturbations_per_eval,
        )

    def _explain(self, game: Game) -> Explanation:
        """Explain with `n_evaluations`, or with as many as a short run says there is time for."""
        explainer, seed = self._explainer, self.settings.seed
        if not self.plan.is_limited:
            return self._explain_within(game, self.settings.n_evaluations)
        plan, least = self.plan, explainer.minimum_evaluations(game)
        start = plan.clock()
        pilot = explainer.explain(game, least, seed)
        n_pilot = int(pilot.n_evaluations.max())
        plan.measure_rows(n_pilot, plan.clock() - start)
        others = [other for name, other in self._others.items() if name not in self._skipped]
        exact = [other.minimum_evaluations(game) for other in others if other.is_exact]
        affordable = plan.rows_for_ours(_size(game), len(others) - len(exact), sum(exact), len(exact))
        wanted = self.settings.n_evaluations
        wanted = max(default_evaluations(game), least) if wanted is None else wanted
        n_evaluations = self._agree(min(wanted, affordable))
        if n_evaluations <= n_pilot:
            return pilot
        return self._explain_within(game, n_evaluations)

    def _explain_within(self, game: Game, n_evaluations: int | None) -> Explanation:
        """Explain with so many rows at most, with fewer where the target of the settings is reached before."""
        explainer, seed = self._explainer, self.settings.seed
        if (target := self.settings.error_to_reach(explainer)) is None:
            return explainer.explain(game, n_evaluations, seed)
        return explain_until(explainer, game, target, n_evaluations, seed)

    def _sufficient(self, game: Game, explanation: Explanation) -> Sequence[SufficientSet | None]:
        """Which players suffice for each decision; a value has none, so there is nothing to keep."""
        if self.settings.task == "regression":
            return [None] * len(explanation)
        wanted = self.settings.n_evaluations
        n_coalitions = (default_evaluations(game) if wanted is None else wanted) // game.removal.n_rows
        n_supersets = min(N_SUPERSETS, max(SUPERSETS_PER_TURN, n_coalitions // COALITIONS_PER_SUPERSET))
        return sufficient_set(game, explanation, n_supersets=n_supersets, seed=self.settings.seed)

    def _judge_others(self, game: SharedRows, ours: Explanation, asked: Tensor) -> dict[str, int]:
        """Explain the game by the other methods and judge them. Returns the model rows that each of them used."""
        spent: dict[str, int] = {}
        if not self._others:
            return spent
        signs_of_values, is_staged = signs(game), self.settings.error_to_reach(self._explainer) is not None
        parts = equal_terms(game, ours, asked, is_staged=is_staged)
        for name, other in self._others.items():
            if name in self._skipped:
                continue
            try:
                least = other.minimum_evaluations(game)
                n_rows = least if other.is_exact else max(least, *(part.n_rows for part in parts))
                if self.plan.is_limited and (reason := self._agree(self.plan.reason_to_skip(n_rows, _size(game)))):
                    self._skipped[name] = reason
                    continue
                found = [part.explain(other, self.settings.seed) for part in parts]
            except (ImportError, ValueError) as error:  # a missing extra leaves the other explainers alone
                self._skipped[name] = str(error)
                continue
            spent[name] = sum(int(explanation.n_evaluations.sum()) for explanation in found)
            is_signed = getattr(other, "is_signed", True)  # L2X selects; its scores are no contributions
            orientation = signs_of_values if is_signed else torch.ones_like(signs_of_values)
            scores = ranked(found, [part.samples for part in parts], orientation)
            start = self.plan.clock()
            for family in ranking_metrics(self.settings.task):
                metric = self._metrics[family, name]
                has_sizes = metric.by_size and found[0].bivariate is None  # ranks of graphs have none
                metric.update(game, scores.abs() if has_sizes else scores)
            self.plan.measure_judgement(self.plan.clock() - start, of_ours=False)
        return spent

    def _classes(self, labels: Tensor | None, n_samples: int) -> Tensor | None:
        """The class of each sample in the data, or None where there are none."""
        if self.settings.task != "auto":
            return as_classes(labels, self.settings.task)
        has_classes = labels is not None and not labels.is_floating_point() and labels.numel() == n_samples
        return labels.flatten() if has_classes and labels is not None else None

    def _names_of(self, game: Game, b: int) -> Sequence[str] | None:
        n = int(game.player_counts[b])
        if self._names is None:
            return None if game.player_names is None else game.player_names[b]
        if len(self._names) < n:
            raise ValueError(
                f"`feature_names` must name all {n} players, got {len(self._names)}. Leave it out for automatic names."
            )
        return self._names[:n]

    def _samples(
        self,
        game: Game,
        batch: Batch,
        places: Sequence[int],
        graphs: Sequence[ExplanationGraph],
        sets: Sequence[SufficientSet | None],
    ) -> list[ExplainedSample]:
        """The samples with their graphs, and what drawings need."""
        samples = []
        labels, words = batch.labels, words_of(batch, self.settings.feature_mask)
        classes = self._classes(labels, len(batch))
        values = true_labels(labels, "regression", game.n_outputs) if self.settings.task == "regression" else None
        is_image = len(batch.inputs) == 1 and batch.inputs[0].dim() == 4
        pictures = visible(batch.inputs[0]) if is_image else None
        ids = game.players.ids[0]
        for b, (place, found) in enumerate(zip(places, sets, strict=True)):
            image = segments = None
            if is_image:
                image = None if pictures is None else pictures[b].float().cpu().numpy()
                parts = ids[b if len(ids) > 1 else 0].view(batch.inputs[0].shape[1:])
                grid = parts.select(channel_dim(batch.inputs[0]) - 1, 0)
                segments = torch.where(grid == game.n_players, -1, grid).cpu().numpy()
            samples.append(
                ExplainedSample(
                    index=place,
                    label=None if classes is None else int(classes[b]),
                    target=game.target[b].item(),
                    graph=graphs[b],
                    image=image,
                    segments=segments,
                    words=words[b],
                    sufficient=None if found is None else SufficientSummary.of(found, graphs[b].names),
                    value=None if values is None else float(values[b]),
                )
            )
        return samples


def _size(game: Game) -> int:
    """Model rows of one coalition times the number of players."""
    return game.n_players * game.removal.n_rows
