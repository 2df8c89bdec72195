"""One audit: explain the probe, let rivals explain it too, judge them all on the same games.

The work of a process (:meth:`Audit.explain`) needs no other process and may fail; only then do processes talk
(:meth:`Audit.findings`), so that a failure can be agreed upon before anybody waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bivshap_lightning.callbacks.batches import Batch
from bivshap_lightning.callbacks.probe import Gather
from bivshap_lightning.explainers import BivariateShapley, Explanation
from bivshap_lightning.explainers.rivals import captum_rival
from bivshap_lightning.game import Game
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.metrics import (
    DeletionAUC,
    DirectionalRedundancy,
    InsertionAUC,
    MutualRedundancyMasking,
    PostHocAccuracy,
)
from bivshap_lightning.players import automatic_mask

OURS = "ours"
# Which number of a metric is logged, by the metric's name in tags.
RANKING_METRICS = {
    "posthoc_accuracy": (PostHocAccuracy, "area"),
    "insertion_auc": (InsertionAUC, "auc"),
    "deletion_auc": (DeletionAUC, "auc"),
}


@dataclass(frozen=True)
class Settings:
    """What an audit computes; see :class:`~bivshap_lightning.callbacks.BivShapCallback` for the meaning."""

    method: str
    behavior: Any
    link: Any
    target: Any
    budget: int | None
    gamma: float
    seed: int
    baselines: tuple[Any, ...]
    baseline_budget: int | None
    replacement: Any
    background: Any
    feature_mask: Any
    perturbations_per_eval: int | None


@dataclass(frozen=True)
class ExplainedSample:
    """A sample of the probe and what was found about it.

    Attributes:
        index: its place in the probe.
        label: its class in the data, or None.
        target: the class that was explained.
        graph: G.
        image: (C, H, W) if it is a picture.
        segments: (H, W) the player of each pixel of a picture.
        words: one per player if it is a text.
    """

    index: int
    label: int | None
    target: float
    graph: ExplanationGraph
    image: NDArray[Any] | None = None
    segments: NDArray[Any] | None = None
    words: list[str] | None = None


@dataclass(frozen=True)
class Findings:
    """What an audit found, the same on every process.

    Attributes:
        numbers: value and standard error by tag.
        curves: by explainer, the post-hoc accuracy curve as (masked fraction, accuracy, standard error).
        samples: all explained samples, in order of the probe.
        n_forwards: model rows spent in all, over all processes.
        n_evaluations: model rows per sample that each explainer spent on its scores.
        method: how our values were found.
        removal: what stood in for absent players.
        skipped: rivals that were left out, with the reason.
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
    """The state of one audit on one process.

    Args:
        settings: what to compute.
        device: where metrics keep their sums.
        names: of the players, or None.
        words_fn: turns the tokens of a sample that are players into words, or None.
        synchronize: metrics add up over processes (False if all processes explain the same samples).
    """

    def __init__(
        self,
        settings: Settings,
        device: torch.device,
        names: Sequence[str] | None = None,
        words_fn: Callable[[Tensor], Sequence[str]] | None = None,
        *,
        synchronize: bool,
    ) -> None:
        self.settings = settings
        self._names, self._words_fn = names, words_fn
        rivals = [captum_rival(baseline, seed=settings.seed) for baseline in settings.baselines]
        self._rivals = {rival.name: rival for rival in rivals}
        options: dict[str, Any] = {"sync_on_compute": synchronize}
        self._rankings = {
            (metric, explainer): kind(personalized=explainer == OURS, per_sample=explainer == OURS, **options).to(
                device
            )
            for metric, (kind, _) in RANKING_METRICS.items()
            for explainer in (OURS, *self._rivals)
        }
        self._mutual = MutualRedundancyMasking(gamma=settings.gamma, seed=settings.seed, **options).to(device)
        self._directional = DirectionalRedundancy(gamma=settings.gamma, **options).to(device)
        self._synchronize = synchronize
        self._samples: list[ExplainedSample] = []
        self._errors: list[float] = []
        self._n_forwards, self._method, self._removal = 0, "none", "none"
        self._spent: dict[str, int] = {}
        self.skipped: dict[str, str] = {}

    def explain(self, forward: nn.Module, batches: Sequence[tuple[Batch, Sequence[int]]], deadline: float) -> None:
        """Explain this process's samples and update the metrics.

        Args:
            forward: the model as a function of a batch's tensors.
            batches: samples of one shape together, with their places in the probe.
            deadline: by :func:`time.perf_counter`; evaluations are cut down and rivals left out to meet it.
        """
        for batch, places in batches:
            game = self._game(forward, batch)
            explanation = self._explain(game, deadline)
            self._spent[OURS] = self._spent.get(OURS, 0) + int(explanation.n_evaluations.sum())
            words = [self._words_of(game, b) for b in range(len(explanation))]
            names = [self._names_of(game, b) if w is None else _distinct(w) for b, w in enumerate(words)]
            graphs = [explanation.graph(b, n) for b, n in enumerate(names)]
            for metric in RANKING_METRICS:
                self._rankings[metric, OURS].update(game, graphs)
            self._mutual.update(game, graphs)
            self._directional.update(game, graphs)
            self._judge_rivals(game, deadline)
            self._note(game, batch, places, explanation, graphs, words)

    def findings(self, gather: Gather) -> Findings:
        """Add up over all processes. Every process must call this."""
        # A rival that one process left out is left out by all: metrics wait for every process.
        self.skipped = {name: why for part in gather(self.skipped) for name, why in part.items()}
        results = {key: metric.compute() for key, metric in self._rankings.items() if key[1] not in self.skipped}
        numbers = {
            f"bivshap/{metric}/{explainer}": _number(result, RANKING_METRICS[metric][1])
            for (metric, explainer), result in results.items()
        }
        for metric in (self._mutual, self._directional):
            result = metric.compute()
            numbers |= {
                f"bivshap/redundancy/{name}": _number(result, name)
                for name, value in result.items()
                if value.dim() == 0 and not name.endswith("_se") and name != "n_samples"
            }
        curves = {
            explainer: (_array(result, "masked_fraction"), _array(result, "curve"), _array(result, "curve_se"))
            for (metric, explainer), result in results.items()
            if metric == "posthoc_accuracy"
        }
        everyone = gather((self._samples, self._errors, self._n_forwards, self._method, self._removal, self._spent))
        if not self._synchronize:
            everyone = everyone[:1]
        errors = [e for part in everyone for e in part[1]]
        numbers["bivshap/estimate/standard_error"] = (float(np.mean(errors)), 0.0)
        n_samples = max(1, sum(len(part[0]) for part in everyone))
        spent = {e: sum(part[5].get(e, 0) for part in everyone) / n_samples for e in curves}
        method, removal = next((p[3:5] for p in everyone if p[3] != "none"), ("none", "none"))
        return Findings(
            numbers=numbers,
            curves=curves,
            samples=sorted((s for part in everyone for s in part[0]), key=lambda s: s.index),
            n_forwards=sum(part[2] for part in everyone),
            n_evaluations=spent,
            method=method,
            removal=removal,
            skipped=dict(self.skipped),
        )

    def _game(self, forward: nn.Module, batch: Batch) -> Game:
        settings = self.settings
        mask = settings.feature_mask
        if callable(mask):
            mask = mask(batch.inputs[0] if len(batch.inputs) == 1 else batch.inputs)
        if mask is None:
            mask = _without_padding(automatic_mask(batch.inputs), batch)
        return Game(
            forward,
            batch.inputs,
            baselines=settings.replacement,
            background=settings.background,
            feature_mask=mask,
            target=batch.labels if settings.target == "label" else settings.target,
            behavior=settings.behavior,
            link=settings.link,
            additional_forward_args=tuple(batch.extra.values()) or None,
            perturbations_per_eval=settings.perturbations_per_eval,
        )

    def _explain(self, game: Game, deadline: float) -> Explanation:
        """Explain within the budget, or with as many evaluations as a pilot says there is time for."""
        explainer = BivariateShapley(None, self.settings.method, seed=self.settings.seed)  # type: ignore[arg-type]
        if np.isinf(deadline):
            return explainer.explain(game, self.settings.budget)
        start = time.perf_counter()
        pilot = explainer.explain(game, explainer.minimum_evaluations(game))
        seconds = time.perf_counter() - start
        # Half of what is left, because rivals and metrics want their time too.
        affordable = int(pilot.n_evaluations.max()) * (deadline - time.perf_counter()) / 2 / max(seconds, 1e-6)
        wanted = explainer.budget(game) if self.settings.budget is None else self.settings.budget
        n_evaluations = min(wanted, int(affordable))
        return pilot if n_evaluations <= int(pilot.n_evaluations.max()) else explainer.explain(game, n_evaluations)

    def _judge_rivals(self, game: Game, deadline: float) -> None:
        for name, rival in self._rivals.items():
            if name in self.skipped:
                continue
            if time.perf_counter() > deadline:
                self.skipped[name] = "time_budget was used up"
                continue
            before = int(game.n_evaluations.sum())
            if self.settings.baseline_budget is not None:
                least = 4 * game.n_players * game.removal.n_rows
                rival = replace(rival, n_evaluations=max(self.settings.baseline_budget, least))
            try:
                scores = rival.attribute(game)
            except ValueError as error:
                self.skipped[name] = str(error)
                continue
            self._spent[name] = self._spent.get(name, 0) + int(game.n_evaluations.sum()) - before
            for metric in RANKING_METRICS:
                self._rankings[metric, name].update(game, scores)

    def _words_of(self, game: Game, b: int) -> list[str] | None:
        """The words of a text, one per player, if there is a function that knows them."""
        if self._words_fn is None:
            return None
        ids = game.players.ids[0][b if len(game.players.ids[0]) > 1 else 0]
        is_player = ids < game.n_players
        words = [str(word) for word in self._words_fn(game.inputs[0][b].flatten()[is_player])]
        n = int(game.player_counts[b])
        if len(words) != n:
            raise ValueError(f"`words_fn` must return a word for each of {n} players, got {len(words)}.")
        return words

    def _names_of(self, game: Game, b: int) -> Sequence[str] | None:
        n = int(game.player_counts[b])
        if self._names is not None:
            if len(self._names) < n:
                raise ValueError(
                    f"`feature_names` must name all {n} players, got {len(self._names)}. "
                    "Leave it out for automatic names."
                )
            return self._names[:n]
        shape = game.inputs[0].shape
        if len(shape) == 4 and len(game.inputs) == 1 and self.settings.feature_mask is None:
            columns = min(8, shape[3])
            return [f"r{k // columns}c{k % columns}" for k in range(n)]
        return None

    def _note(
        self,
        game: Game,
        batch: Batch,
        places: Sequence[int],
        explanation: Explanation,
        graphs: Sequence[ExplanationGraph],
        words: Sequence[list[str] | None],
    ) -> None:
        """Remember samples, errors and cost; here, after the work, numbers leave the device."""
        off = ~torch.eye(game.n_players, dtype=torch.bool, device=game.device)
        self._errors += explanation.standard_error[:, off].double().mean(dim=1).tolist()
        self._n_forwards += int(game.n_evaluations.sum())
        self._method, self._removal = explanation.method, explanation.removal
        labels = batch.labels
        has_classes = labels is not None and not labels.is_floating_point()
        is_image = len(batch.inputs) == 1 and batch.inputs[0].dim() == 4
        ids = game.players.ids[0]
        for b, place in enumerate(places):
            image = segments = None
            if is_image:
                image = batch.inputs[0][b].float().cpu().numpy()
                grid = ids[b if len(ids) > 1 else 0].view(batch.inputs[0].shape[1:])[0]
                segments = torch.where(grid == game.n_players, -1, grid).cpu().numpy()
            self._samples.append(
                ExplainedSample(
                    index=place,
                    label=int(labels.flatten()[b]) if has_classes and labels is not None else None,
                    target=game.target[b].item(),
                    graph=graphs[b],
                    image=image,
                    segments=segments,
                    words=words[b],
                )
            )


def _without_padding(masks: tuple[Tensor, ...], batch: Batch) -> tuple[Tensor, ...]:
    """Tokens that an attention mask hides are no players."""
    hidden = batch.extra.get("attention_mask")
    if hidden is None or len(masks) != 1 or hidden.shape != batch.inputs[0].shape[:2]:
        return masks
    kept = hidden.bool()
    ids = (kept.long().cumsum(dim=1) - 1).masked_fill(~kept, -1)
    return (ids.view(*ids.shape, *[1] * (batch.inputs[0].dim() - 2)).expand(batch.inputs[0].shape),)


def _distinct(words: Sequence[str]) -> list[str]:
    """Words as names: one that occurs again gets a number."""
    seen: dict[str, int] = {}
    names = []
    for word in words:
        seen[word] = seen.get(word, 0) + 1
        names.append(word if seen[word] == 1 else f"{word} ({seen[word]})")
    return names


def _array(result: Mapping[str, Tensor], name: str) -> NDArray[Any]:
    return result[name].cpu().numpy()


def _number(result: Mapping[str, Tensor], name: str) -> tuple[float, float]:
    error = result.get(f"{name}_se")
    return result[name].item(), 0.0 if error is None else error.item()
