"""Sentences about a whole audit: nothing to explain, an accuracy no better than its control, or most pairs undecided.

They stand in the record, on the page and in the log line, because numbers alone do not say it: a model that ignores its
inputs has 100 % removable features at accuracy 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bivshap_lightning.audit.audit import OURS, AuditResult, AuditSettings, ExplainedSample
from bivshap_lightning.audit.record_parts import NOTHING
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.checks import FloatArray
from bivshap_lightning.graph.threshold import CONFIDENCE, normal_quantile, redundancy_of_all
from bivshap_lightning.metrics.catalogue import REDUNDANCY

LITTLE = {"probability": 0.1, "logit": 0.5, "log_odds": 0.5}
"""Mean `abs(u(all) - u(none))` by behavior up to which there is nothing to explain: what untrained networks reach."""

LITTLE_OF_LABELS = 0.1
"""The same for values, as a share of the median distance of labels from their median."""

OTHER_UNITS = 0.7
"""Correlation of labels with what features add from which a small output is taken to be in other units than labels."""

MANY_UNDECIDED = 0.5
"""Share of undecided pairs above which a note says what would lower it."""


def notes_of(result: AuditResult, settings: AuditSettings) -> tuple[str, ...]:
    """What must be known before any number of an audit is read; empty if there is nothing of that kind.

    Args:
        result: of the audit.
        settings: of the audit.
    """
    found = [
        _nothing_to_explain(result, settings),
        _control_is_as_good(result),
        _undecided([sample.graph for sample in result.samples], settings),
        _earlier(result),
        settings.remark,
    ]
    return tuple(note for note in found if note)


def _nothing_to_explain(result: AuditResult, settings: AuditSettings) -> str:
    """Whether features change the output by no more than the noise of the estimate, or than an untrained model's."""
    graphs = [sample.graph for sample in result.samples]
    size = float(np.mean([graph.scale for graph in graphs]))
    noise = 2 * float(np.mean([np.sqrt(np.square(graph.shapley_standard_error).sum()) for graph in graphs]))
    little = LITTLE.get(settings.behavior, 0.0) if isinstance(settings.behavior, str) else 0.0
    if size > max(noise, little):
        return _less_than_labels(result.samples, size) if settings.behavior == "output" else ""
    reason = f"the noise of the estimate is {noise:.2g}" if noise > little else f"untrained models reach {little:g}"
    numbers = "errors" if settings.task == "regression" else "accuracies"
    return _nothing(size, f"and {reason}. Roles, groups and {numbers} describe noise.")


def _nothing(size: float, reason: str) -> str:
    return f"{NOTHING}: with all features and with none the explained output differs by {size:.2g} on average, {reason}"


def _less_than_labels(samples: Sequence[ExplainedSample], size: float) -> str:
    """Whether features move a value by next to nothing of what labels differ by, and not along with them."""
    values = np.array([sample.value for sample in samples if sample.value is not None])
    if len(values) < len(samples):
        return ""
    spread = float(np.median(np.abs(values - np.median(values))))
    gains = np.array([sample.graph.known_shapley.sum() for sample in samples])
    if size > LITTLE_OF_LABELS * spread or _correlation(gains, values) >= OTHER_UNITS:
        return ""
    return _nothing(
        size,
        f"and half of the labels are {spread:.2g} or more from their median. Unless the output is in other units than "
        "labels, roles, groups and errors describe noise.",
    )


def _correlation(a: FloatArray, b: FloatArray) -> float:
    """Pearson's correlation; 0 if one of the two does not vary."""
    both = np.sqrt(np.square(a - a.mean()).sum() * np.square(b - b.mean()).sum())
    return float(((a - a.mean()) * (b - b.mean())).sum() / both) if both > 0 else 0.0


def _control_is_as_good(result: AuditResult) -> str:
    """Whether as many features removed at random keep the prediction as often as those that are called removable."""
    names = ("accuracy_with_representatives", "random_removal_accuracy", "share_removable")
    if not all(f"{REDUNDANCY}{name}" in result.numbers for name in names):
        return ""
    accuracy, random, removable = (result.numbers[f"{REDUNDANCY}{name}"][0] for name in names)
    if not removable or accuracy > random:
        return ""
    as_often = f"{accuracy:.0%}" == f"{random:.0%}"
    control = (
        "and so does removing as many features at random"
        if as_often
        else f"removing as many features at random in {random:.0%}"
    )
    return (
        f"Keeping one feature of each group of H keeps the prediction in {accuracy:.0%} of the samples, {control}: the "
        "groups say nothing here."
    ).replace("%", " %")


def _undecided(graphs: Sequence[ExplanationGraph], settings: AuditSettings) -> str:
    """How wide the intervals of undecided pairs are and what narrows them, if these are most pairs."""
    gammas = settings.gammas_of(graphs)
    of_samples = redundancy_of_all(graphs, gammas)
    n_pairs = sum(h.n_players * (h.n_players - 1) for h in of_samples)
    n_undecided = sum(h.n_undecided for h in of_samples)
    if n_undecided <= MANY_UNDECIDED * n_pairs or not min(gammas):
        return ""
    errors = [graph.standard_error[h.undecided] / h.gamma for graph, h in zip(graphs, of_samples, strict=True)]
    width = normal_quantile(CONFIDENCE) * float(np.median(np.concatenate(errors)))
    share = f"{n_undecided / n_pairs:.0%}".replace("%", " %")
    return (
        f"{share} of the ordered pairs are undecided: the intervals of half of them reach {width:.2g} times gamma or "
        'more to either side. A larger `n_evaluations` narrows them, with `method="proxy"` most; fewer, larger groups '
        "of features or a larger `gamma` need fewer rows."
    )


def _earlier(result: AuditResult) -> str:
    """Whether the numbers of other explainers are those of an earlier epoch."""
    if result.compared_epoch is None:
        return ""
    others = ", ".join(name for name in result.curves if name != OURS)
    return f"The numbers of {others} are those of epoch {result.compared_epoch}: they do not run in every audit."
