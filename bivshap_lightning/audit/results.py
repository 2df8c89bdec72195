"""The results of chunks of samples and of a whole audit, and how metrics' results become numbers and scores by tag."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from bivshap_lightning.audit.record_changes import CHANGE, Change, ShapleyChange
from bivshap_lightning.audit.record_decisions import SufficientSummary
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.metrics.catalogue import find_number, ranking_numbers
from bivshap_lightning.metrics.intervals import ratio_of_sums
from bivshap_lightning.metrics.sample_metric import SampleMetric

OURS = "ours"
REDUNDANCY, ROLES, SWEEP = "redundancy", "roles", "sweep"
OF_GRAPHS = (REDUNDANCY, ROLES, SWEEP)
"""What stands in place of an explainer in the keys of metrics that judge our graphs and no ranking."""


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
        sufficient: players that suffice for its decision; None where a value is explained.
        row: (D,) the sample itself if it is a row of a table and the audit reports on columns.
        row_players: (D,) the player of each of these columns, -1 for none.
        column_costs: (F,) Shapley values of the loss game with the true label, likewise.
        change: of its Shapley values since the audit before; None if it is unknown.
        value: its value in the data, of a regression with one output; None if there is none.
    """

    index: int
    label: int | None
    target: float
    graph: ExplanationGraph
    image: NDArray[Any] | None = None
    segments: NDArray[Any] | None = None
    words: list[str] | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    sufficient: SufficientSummary | None = None
    row: NDArray[Any] | None = None
    row_players: NDArray[Any] | None = None
    column_costs: NDArray[Any] | None = None
    change: ShapleyChange | None = None
    value: float | None = None


@dataclass(frozen=True)
class ChunkResult:
    """The results of one chunk of samples.

    Attributes:
        samples: the chunk's, explained.
        errors: the mean standard error over the pairs of each that has any.
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
        sweep: roles, density and accuracies at several gammas, (6,) each, by name.
        n_forwards: model rows spent in all, over all processes.
        n_evaluations: model rows per sample that each explainer spent on its scores.
        method: how our values were computed.
        removal: what replaced absent players.
        skipped: other explainers that were left out, with the reason.
        compared_epoch: the epoch whose numbers of other explainers these are; None for this audit's own.
        change: since the audit before; None if there was none.
    """

    numbers: dict[str, tuple[float, float]]
    curves: dict[str, tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]
    samples: list[ExplainedSample]
    sweep: dict[str, NDArray[Any]]
    n_forwards: int
    n_evaluations: dict[str, float]
    method: str
    removal: str
    skipped: dict[str, str]
    compared_epoch: int | None = None
    change: Change | None = None

    def with_change_since(self, earlier: AuditResult, epoch: int, step: int) -> AuditResult:
        """This result with what changed since an earlier one.

        Args:
            earlier: a result, without numbers that are those of still earlier audits.
            epoch: of that result.
            step: of that result.
        """
        before, now = ({s.index: s.scores for s in result.samples} for result in (earlier, self))
        return replace(self, change=Change.between(before, now, epoch=epoch, step=step))

    def with_comparison(self, earlier: AuditResult, epoch: int) -> AuditResult:
        """This result with the numbers of other explainers of an earlier one, which judged the same samples.

        Args:
            earlier: a result with a comparison.
            epoch: of that result.
        """
        scores = {sample.index: sample.scores for sample in earlier.samples}
        return replace(
            self,
            numbers={**earlier.numbers, **self.numbers},
            curves=self.curves | {name: curve for name, curve in earlier.curves.items() if name not in self.curves},
            samples=[replace(s, scores={**scores.get(s.index, {}), **s.scores}) for s in self.samples],
            n_evaluations={**earlier.n_evaluations, **self.n_evaluations},
            skipped={**earlier.skipped, **self.skipped},
            compared_epoch=epoch,
        )


def ranking_metrics(task: str) -> dict[str, tuple[type[SampleMetric], str]]:
    """The metrics that judge a ranking, and which of their numbers is logged, by the metric's name in tags."""
    return {number.family: (number.metric_class(), number.key) for number in ranking_numbers(task)}


def add_up(metric: SampleMetric, states: Sequence[Mapping[str, NDArray[Any]]]) -> Mapping[str, Tensor]:
    """The result of a metric over all chunks, whose states are given in order."""
    metric.reset()
    for values in reversed(states):  # merge_state puts the incoming state before the own one
        state: dict[str, Any] = {name: torch.from_numpy(array).to(metric.device) for name, array in values.items()}
        if metric.per_sample:
            state["scores"] = [state["scores"]]
        metric.merge_state(state)
    return metric.compute()


def numbers_of_results(
    results: Mapping[tuple[str, str], Mapping[str, Tensor]], task: str
) -> dict[str, tuple[float, float]]:
    """Values and standard errors of all single numbers that mean something for the task, by tag."""
    numbers: dict[str, tuple[float, float]] = {}
    keys = {number.family: number.key for number in ranking_numbers(task)}
    for (metric, explainer), result in results.items():
        if explainer not in OF_GRAPHS:
            numbers[f"bivshap/{metric}/{explainer}"] = _number(result, keys[metric])
        elif explainer != SWEEP:
            numbers |= {
                f"bivshap/{explainer}/{name}": _number(result, name)
                for name, value in result.items()
                if value.dim() == 0 and not name.endswith("_se") and name != "n_samples"
            }
    return {tag: number for tag, number in numbers.items() if _is_meant(tag, task)}


def _is_meant(tag: str, task: str) -> bool:
    """Whether a number applies to a task; those that the catalogue lacks are refused later, by name."""
    entry = find_number(tag)
    return entry is None or entry.applies_to(task)


def with_scores(
    samples: Sequence[ExplainedSample], results: Mapping[tuple[str, str], Mapping[str, Tensor]], task: str
) -> list[ExplainedSample]:
    """Samples, given in the order in which the metrics saw them, with their scores; sorted by index."""
    scores: dict[str, list[float]] = {}
    keys = {number.family: number.key for number in ranking_numbers(task) if number.is_mean}
    for (metric, explainer), result in results.items():
        if explainer not in OF_GRAPHS:
            if metric in keys:
                scores[f"bivshap/{metric}/{explainer}"] = result[f"per_sample_{keys[metric]}"].tolist()
            continue
        # Of redundancy only accuracies and errors: a share of all players is no mean over samples.
        pattern = "per_sample_.*" if explainer == ROLES else "per_sample_.*(accuracy|error).*"
        names = [key.removeprefix("per_sample_") for key in result if re.fullmatch(pattern, key)]
        scores |= {f"bivshap/{explainer}/{name}": result[f"per_sample_{name}"].tolist() for name in names}
    scores = {tag: values for tag, values in scores.items() if _is_meant(tag, task)}
    found = [
        replace(s, scores={tag: values[k] for tag, values in scores.items()} | sufficient_scores(s))
        for k, s in enumerate(samples)
    ]
    return sorted(found, key=lambda s: s.index)


def sufficient_scores(sample: ExplainedSample) -> dict[str, float]:
    """What the sufficient set of a sample contributes, by tag."""
    return {} if sample.sufficient is None else sample.sufficient.scores


def sufficient_numbers(samples: Sequence[ExplainedSample]) -> dict[str, tuple[float, float]]:
    """Means and standard errors of what the sufficient sets contribute, by tag; none if a sample has no set."""
    found = [sufficient_scores(sample) for sample in samples]
    if not all(found):
        return {}
    return {tag: ratio_of_sums([(scores[tag], 1.0) for scores in found]) for tag in found[0]}


def change_numbers(samples: Sequence[ExplainedSample]) -> dict[str, tuple[float, float]]:
    """How much Shapley values changed and how much of that may be noise, by tag; none if no sample says."""
    found = [
        s.change.relative_to(s.graph.known_shapley.tolist())
        for s in samples
        if s.change is not None and s.graph.shapley is not None
    ]
    if not found:
        return {}
    return {
        f"{CHANGE}importance": ratio_of_sums([(change, 1.0) for change, _ in found]),
        f"{CHANGE}standard_error": (sum(error for _, error in found) / len(found), 0.0),
    }


def mean_errors(standard_error: Tensor | None, player_counts: Tensor) -> list[float]:
    """The mean standard error over the ordered pairs of each sample that has any.

    Args:
        standard_error: (B, F, F) of E2, with any values for players that a sample lacks; None where it is not known.
        player_counts: (B,) players of each sample.

    Example:
        >>> mean_errors(torch.tensor([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 5.0], [5.0, 0.0]]]), torch.tensor([2, 1]))
        [2.0]
    """
    if standard_error is None:
        return []
    n_pairs = (player_counts * (player_counts - 1)).tolist()
    n_players, device = standard_error.shape[1], standard_error.device
    off = ~torch.eye(n_players, dtype=torch.bool, device=device)
    has = torch.arange(n_players, device=device) < player_counts.to(device)[:, None]
    known = torch.where(has[:, :, None] & has[:, None, :], standard_error, 0)
    sums: list[float] = known[:, off].double().sum(dim=1).tolist()
    return [total / n for total, n in zip(sums, n_pairs, strict=True) if n]


def state_of(metric: SampleMetric) -> dict[str, NDArray[Any]]:
    """The state of a metric as arrays, which can be sent and stored."""
    state: dict[str, Any] = metric.metric_state
    # A method that was left out has no scores to join.
    tensors = {n: torch.cat(v) if isinstance(v, list) and v else torch.as_tensor(v) for n, v in state.items()}
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


def array_of(result: Mapping[str, Tensor], name: str) -> NDArray[Any]:
    """One entry of a metric's result as an array."""
    return result[name].cpu().numpy()


def _number(result: Mapping[str, Tensor], name: str) -> tuple[float, float]:
    error = result.get(f"{name}_se")
    return result[name].item(), 0.0 if error is None else error.item()
