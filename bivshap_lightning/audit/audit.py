"""One audit: explains samples with our method and with others, and judges all explanations on the same games.

Samples are explained chunk by chunk (:meth:`Audit.explain`). A :class:`ChunkResult` depends on the chunk and the
settings alone, so it may come from another process or from a file; :meth:`Audit.combine` makes one
:class:`AuditResult` of them all.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bivshap_lightning.audit.batches import Batch, labels_as_target, players_of
from bivshap_lightning.audit.selection import SampleChunk
from bivshap_lightning.audit.task import as_classes
from bivshap_lightning.explainers import Explanation, default_evaluations, find_explainer
from bivshap_lightning.game import Game
from bivshap_lightning.game.players import Tokens
from bivshap_lightning.game.players.images import channel_dim, visible
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.metrics import DirectionalRedundancy, MutualRedundancyMasking
from bivshap_lightning.metrics.catalogue import ranking_numbers
from bivshap_lightning.metrics.sample_metric import SampleMetric

OURS = "ours"
REDUNDANCY = "redundancy"


def ranking_metrics() -> dict[str, tuple[type[SampleMetric], str]]:
    """The metrics that judge a ranking, and which of their numbers is logged, by the metric's name in tags."""
    return {number.family: (number.metric_class(), number.key) for number in ranking_numbers()}


@dataclass(frozen=True)
class AuditSettings:
    """What an audit computes; see :class:`~bivshap_lightning.callbacks.BivShapCallback` for the meaning."""

    method: Any
    behavior: Any
    link: Any
    target: Any
    n_evaluations: int | None
    gamma: float
    seed: int
    compare_with: tuple[Any, ...]
    compare_n_evaluations: int | None
    baselines: Any
    background: Any
    feature_mask: Any
    perturbations_per_eval: int | None
    task: Any = "auto"


@dataclass(frozen=True)
class ExplainedSample:
    """An explained sample.

    Attributes:
        index: its position among the chosen samples.
        label: its class in the data, or None.
        target: the class that was explained.
        graph: G.
        image: (C, H, W) if it is a picture.
        segments: (H, W) the player of each pixel of a picture.
        words: one per player if it is a text.
        scores: what the metrics gave it, by tag.
    """

    index: int
    label: int | None
    target: float
    graph: ExplanationGraph
    image: NDArray[Any] | None = None
    segments: NDArray[Any] | None = None
    words: list[str] | None = None
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ChunkResult:
    """The results of one chunk of samples.

    Attributes:
        samples: the chunk's, explained.
        errors: the mean standard error of each.
        states: of the metrics, by metric and explainer; what they sum up can be added.
        n_forwards: model rows spent in all.
        spent: model rows that each explainer spent on its scores.
        method: how our values were computed.
        removal: what replaced absent players.
        skipped: other explainers that were left out, with the reason.
    """

    samples: list[ExplainedSample]
    errors: list[float]
    states: dict[tuple[str, str], dict[str, NDArray[Any]]]
    n_forwards: int
    spent: dict[str, int]
    method: str
    removal: str
    skipped: dict[str, str]


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit, the same on every process.

    Attributes:
        numbers: value and standard error by tag.
        curves: by explainer, the post-hoc accuracy curve as (masked fraction, accuracy, standard error).
        samples: all explained samples, in order of their index.
        n_forwards: model rows spent in all, over all processes.
        n_evaluations: model rows per sample that each explainer spent on its scores.
        method: how our values were computed.
        removal: what replaced absent players.
        skipped: other explainers that were left out, with the reason.
    """

    numbers: dict[str, tuple[float, float]]
    curves: dict[str, tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]
    samples: list[ExplainedSample]
    n_forwards: int
    n_evaluations: dict[str, float]
    method: str
    removal: str
    skipped: dict[str, str]


class Audit:
    """What one process computes in an audit.

    Args:
        settings: what to compute.
        device: where metrics keep their sums.
        names: of the players, or None.
        agree: where all processes must make the same forward passes, gives every process the value of rank zero; used
            for what depends on the clock.
    """

    def __init__(
        self,
        settings: AuditSettings,
        device: torch.device,
        names: Sequence[str] | None = None,
        *,
        agree: Callable[[Any], Any] | None = None,
    ) -> None:
        self.settings = settings
        self._names = names
        self._agree = agree or (lambda value: value)
        self._explainer = find_explainer(settings.method)
        others = [find_explainer(other, argument="compare_with") for other in settings.compare_with]
        self._others = {other.name: other for other in others}
        # Results of other processes are combined explicitly, not synchronised by torchmetrics.
        alone: dict[str, Any] = {"sync_on_compute": False, "per_sample": True}
        metrics: dict[tuple[str, str], SampleMetric] = {
            (metric, explainer): kind(personalized=explainer == OURS, **alone)
            for metric, (kind, _) in ranking_metrics().items()
            for explainer in (OURS, *self._others)
        }
        metrics["mutual", REDUNDANCY] = MutualRedundancyMasking(gamma=settings.gamma, seed=settings.seed, **alone)
        metrics["directional", REDUNDANCY] = DirectionalRedundancy(gamma=settings.gamma, **alone)
        self._metrics = {key: metric.to(device) for key, metric in metrics.items()}
        self._skipped: dict[str, str] = {}

    def explain(self, forward: nn.Module, chunk: SampleChunk, deadline: float) -> ChunkResult:
        """Explain a chunk of samples and judge the explanations.

        Args:
            forward: the model as a function of a batch's tensors.
            chunk: samples of one shape.
            deadline: by :func:`time.perf_counter`; evaluations are cut down and others left out to meet it.
        """
        for metric in self._metrics.values():
            metric.reset()
        game = self.game(forward, chunk.batch, chunk.places)
        with game.evaluation():
            return self._explain_and_judge(game, chunk, deadline)

    def _explain_and_judge(self, game: Game, chunk: SampleChunk, deadline: float) -> ChunkResult:
        explanation = self._explain(game, deadline)
        names = [self._names_of(game, b) for b in range(len(explanation))]
        graphs = [explanation.graph(b, n) for b, n in enumerate(names)]
        for (_, explainer), metric in self._metrics.items():
            if explainer in (OURS, REDUNDANCY):
                metric.update(game, graphs)
        spent = {OURS: int(explanation.n_evaluations.sum()), **self._judge_others(game, deadline)}
        # The only transfers from the device, after all evaluations.
        off = ~torch.eye(game.n_players, dtype=torch.bool, device=game.device)
        error = explanation.standard_error
        return ChunkResult(
            samples=self._samples(game, chunk.batch, chunk.places, graphs),
            errors=[] if error is None else error[:, off].double().mean(dim=1).tolist(),
            states={key: _state_of(metric) for key, metric in self._metrics.items()},
            n_forwards=int(game.n_evaluations.sum()),
            spent=spent,
            method=explanation.method,
            removal=explanation.removal,
            skipped=dict(self._skipped),
        )

    def combine(self, parts: Sequence[ChunkResult]) -> AuditResult:
        """Combine the results of all chunks; their order plays no part."""
        parts = sorted(parts, key=lambda part: part.samples[0].index)
        skipped = {name: why for part in reversed(parts) for name, why in part.skipped.items()}
        results = {key: self._add_up(key, parts) for key in self._metrics if key[1] not in skipped}
        numbers: dict[str, tuple[float, float]] = {}
        keys = {number.family: number.key for number in ranking_numbers()}
        for (metric, explainer), result in results.items():
            if explainer != REDUNDANCY:
                numbers[f"bivshap/{metric}/{explainer}"] = _number(result, keys[metric])
                continue
            numbers |= {
                f"bivshap/redundancy/{name}": _number(result, name)
                for name, value in result.items()
                if value.dim() == 0 and not name.endswith("_se") and name != "n_samples"
            }
        numbers["bivshap/estimate/standard_error"] = (float(np.mean([e for part in parts for e in part.errors])), 0.0)
        curves = {
            explainer: (_array(result, "masked_fraction"), _array(result, "curve"), _array(result, "curve_se"))
            for (metric, explainer), result in results.items()
            if metric == "post_hoc_accuracy"
        }
        samples = _scored([s for part in parts for s in part.samples], results)
        return AuditResult(
            numbers=numbers,
            curves=curves,
            samples=samples,
            n_forwards=sum(part.n_forwards for part in parts),
            n_evaluations={e: sum(part.spent.get(e, 0) for part in parts) / len(samples) for e in curves},
            method=parts[0].method,
            removal=parts[0].removal,
            skipped=skipped,
        )

    def _add_up(self, key: tuple[str, str], parts: Sequence[ChunkResult]) -> Mapping[str, Tensor]:
        metric = self._metrics[key]
        metric.reset()
        for part in reversed(parts):  # merge_state puts the incoming state before the own one
            state: dict[str, Any] = {
                name: torch.from_numpy(values).to(metric.device) for name, values in part.states[key].items()
            }
            if metric.per_sample:
                state["scores"] = [state["scores"]]
            metric.merge_state(state)
        return metric.compute()

    def game(self, forward: nn.Module, batch: Batch, places: Sequence[int] = ()) -> Game:
        """The game of a batch, as the settings define it.

        Args:
            forward: the model as a function of the batch's tensors.
            batch: the samples.
            places: their indices among the chosen samples, by which independent labels take turns.
        """
        settings = self.settings
        return Game(
            forward,
            batch.inputs,
            baselines=settings.baselines,
            background=settings.background,
            feature_mask=players_of(batch, settings.feature_mask),
            target=self._target(batch, places),
            behavior=settings.behavior or "probability",
            link=settings.link,
            additional_forward_args=tuple(batch.extra.values()) or None,
            perturbations_per_eval=settings.perturbations_per_eval,
        )

    def _target(self, batch: Batch, places: Sequence[int]) -> Any:
        """What is explained: the user's choice; of independent labels, for each sample one that is on, in turn."""
        settings = self.settings
        if settings.target == "label" and settings.task != "multilabel":
            return labels_as_target(batch, settings.behavior)
        if settings.target not in (None, "label") or settings.task != "multilabel":
            return settings.target
        if batch.labels is None:
            return None
        labels_on = [row.nonzero()[:, 0].tolist() or list(range(len(row))) for row in batch.labels.cpu()]
        turns = places or range(len(labels_on))
        return torch.tensor([on[place % len(on)] for on, place in zip(labels_on, turns, strict=True)])

    def _explain(self, game: Game, deadline: float) -> Explanation:
        """Explain with `n_evaluations`, or with as many as a short run says there is time for."""
        explainer, seed = self._explainer, self.settings.seed
        if np.isinf(deadline):
            return explainer.explain(game, self.settings.n_evaluations, seed)
        start = time.perf_counter()
        pilot = explainer.explain(game, explainer.minimum_evaluations(game), seed)
        seconds = time.perf_counter() - start
        # Half of the time left: the other explainers and the metrics need the rest.
        affordable = int(pilot.n_evaluations.max()) * (deadline - time.perf_counter()) / 2 / max(seconds, 1e-6)
        least = explainer.minimum_evaluations(game)
        wanted = self.settings.n_evaluations
        wanted = max(default_evaluations(game), least) if wanted is None else wanted
        n_evaluations = self._agree(min(wanted, int(affordable)))
        return (
            pilot if n_evaluations <= int(pilot.n_evaluations.max()) else explainer.explain(game, n_evaluations, seed)
        )

    def _judge_others(self, game: Game, deadline: float) -> dict[str, int]:
        """Explain the game by the other methods and judge them. Returns the model rows that each of them spent."""
        spent = {}
        for name, other in self._others.items():
            if name in self._skipped:
                continue
            if not math.isinf(deadline) and self._agree(time.perf_counter() > deadline):
                self._skipped[name] = "time_budget was used up"
                continue
            n_evaluations = self.settings.compare_n_evaluations
            if n_evaluations is not None:
                n_evaluations = max(n_evaluations, 4 * game.n_players * game.removal.n_rows)
            try:
                explanation = other.explain(game, n_evaluations, self.settings.seed)
            except ValueError as error:
                self._skipped[name] = str(error)
                continue
            spent[name] = int(explanation.n_evaluations.sum())
            for metric in ranking_metrics():
                self._metrics[metric, name].update(game, explanation)
        return spent

    def _classes(self, labels: Tensor | None, n_samples: int) -> Tensor | None:
        """The class of each sample in the data, or None where there are none."""
        if self.settings.task != "auto":
            return as_classes(labels, self.settings.task)
        has_classes = labels is not None and not labels.is_floating_point() and labels.numel() == n_samples
        return labels.flatten() if has_classes and labels is not None else None

    def _words_of(self, batch: Batch) -> Sequence[list[str] | None]:
        """For each sample the words of its players, if it is a text whose vocabulary is known."""
        tokens = players_of(batch, self.settings.feature_mask)
        if not isinstance(tokens, Tokens) or tokens.vocabulary is None:
            return [None] * len(batch)
        return tokens.words(batch.inputs[0])

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
    ) -> list[ExplainedSample]:
        """The samples with their graphs, and what drawings need."""
        samples = []
        labels, words = batch.labels, self._words_of(batch)
        classes = self._classes(labels, len(batch))
        is_image = len(batch.inputs) == 1 and batch.inputs[0].dim() == 4
        pictures = visible(batch.inputs[0]) if is_image else None
        ids = game.players.ids[0]
        for b, place in enumerate(places):
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
                )
            )
        return samples


def _scored(
    samples: Sequence[ExplainedSample], results: Mapping[tuple[str, str], Mapping[str, Tensor]]
) -> list[ExplainedSample]:
    """Samples, given in the order in which the metrics saw them, with their scores; sorted by index."""
    scores: dict[str, list[float]] = {}
    keys = {number.family: number.key for number in ranking_numbers()}
    for (metric, explainer), result in results.items():
        if explainer != REDUNDANCY:
            scores[f"bivshap/{metric}/{explainer}"] = result[f"per_sample_{keys[metric]}"].tolist()
            continue
        # Accuracies only: a share of all players is no mean over samples.
        names = [key.removeprefix("per_sample_") for key in result if re.fullmatch("per_sample_.*accuracy.*", key)]
        scores |= {f"bivshap/redundancy/{name}": result[f"per_sample_{name}"].tolist() for name in names}
    found = [replace(s, scores={tag: values[k] for tag, values in scores.items()}) for k, s in enumerate(samples)]
    return sorted(found, key=lambda s: s.index)


def _state_of(metric: SampleMetric) -> dict[str, NDArray[Any]]:
    state: dict[str, Any] = metric.metric_state
    # A method that was left out has no scores to join.
    tensors = {n: torch.cat(v) if isinstance(v, list) and v else torch.as_tensor(v) for n, v in state.items()}
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


def _array(result: Mapping[str, Tensor], name: str) -> NDArray[Any]:
    return result[name].cpu().numpy()


def _number(result: Mapping[str, Tensor], name: str) -> tuple[float, float]:
    error = result.get(f"{name}_se")
    return result[name].item(), 0.0 if error is None else error.item()
