"""Writes what an audit produces: panels in TensorBoard or in files, the record on disk, one line. Rank zero only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bivshap_lightning.audit.audit import OURS, AuditResult, AuditSettings, ExplainedSample
from bivshap_lightning.audit.notes import notes_of
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.audit.record_parts import NOTHING
from bivshap_lightning.audit.recording import ClassNames, make_record, mean_graphs
from bivshap_lightning.graph import ROLES, ExplanationGraph
from bivshap_lightning.metrics.catalogue import REDUNDANCY, find_number, ranking_numbers
from bivshap_lightning.metrics.catalogue import ROLES as ROLES_TAG
from bivshap_lightning.views import Panels, write_index

AFFORDABLE_SHARE = 0.1
"""Of an epoch; for an audit that takes more, the log says what to lower."""
BUDGET_TOLERANCE = 0.1
"""By how much of it an audit may exceed `time_budget` before the log says so."""


@dataclass(frozen=True)
class PanelOptions:
    """How many pictures an audit draws, and which of its numbers are charted.

    Args:
        n_samples: samples that get pictures, here and in the record, which also keeps one of each class; 0 for none.
        n_classes: classes that get pictures and tables.
        draw: False draws nothing; the record still keeps the pictures of its samples.
        all_scalars: whether loggers get every number. False: the two dozen of the catalogue that are marked for charts;
            the others stay in the record and the tab, and callbacks such as EarlyStopping can name them too.

    Example:
        >>> PanelOptions(n_samples=2, n_classes=3).draw
        True
    """

    n_samples: int = 4
    n_classes: int = 10
    draw: bool = True
    all_scalars: bool = False


class Output:
    """Writes the results of audits, and keeps the layout of drawings from epoch to epoch.

    Args:
        class_names: a name per class, or None.
        panels: how many pictures are drawn.
        write_record: whether to write the record.

    Attributes:
        prefix: first part of the tags of panels.
        writes_record: whether records are written.
    """

    def __init__(self, class_names: Sequence[str] | None, panels: PanelOptions, *, write_record: bool) -> None:
        self._class_names, self._options, self.writes_record = ClassNames(class_names), panels, write_record
        self.prefix = "bivshap"
        self._panels: dict[str, tuple[Any, Panels]] = {}
        self._layouts: dict[str, Any] = {}

    def write(
        self,
        result: AuditResult,
        settings: AuditSettings,
        run: Mapping[str, Any],
        cost: Mapping[str, float],
        path: Path,
        writers: Sequence[Any],
    ) -> None:
        """Write panels and record of one audit.

        Args:
            result: what was found.
            settings: what was computed.
            run: stage, epoch, step and the like.
            cost: seconds, forwards, epochs.
            path: of the record.
            writers: TensorBoard writers; without any, pictures go to files beside the record.
        """
        self._class_names = replace(self._class_names, task=settings.task)
        if self._options.draw:
            classes = mean_graphs(result.samples, self._class_names)
            for destination in writers or [path.parent]:
                self._draw(self._panels_of(destination), result, classes, settings, run)
        if self.writes_record:
            self.record(result, settings, run, cost).save(path)
            for writer in writers:
                write_index(writer, path, run["step"], stage=run["stage"], epoch=run["epoch"])

    def is_charted(self, tag: str) -> bool:
        """Whether loggers get a number.

        Args:
            tag: as in the catalogue; one that it does not have is charted.
        """
        number = find_number(tag)
        return self._options.all_scalars or number is None or number.is_charted

    def describe(self, tags: Iterable[str], writers: Sequence[Any]) -> None:
        """Explain charted numbers in TensorBoard; must be called before they are logged for the first time.

        Args:
            tags: as in the catalogue.
            writers: TensorBoard writers.
        """
        numbers = {tag: find_number(tag) for tag in tags if self.is_charted(tag)}
        descriptions = {self.tag(tag): number.description for tag, number in numbers.items() if number is not None}
        for writer in writers:
            self._panels_of(writer).describe_scalars(descriptions)

    def tag(self, tag: str) -> str:
        """A tag of the catalogue under the name of this callback."""
        return self.prefix + tag.removeprefix("bivshap")

    def state_dict(self) -> dict[str, Any]:
        """The layouts of all drawings, so that they stay the same when a run is resumed."""
        panels = [panels for _, panels in self._panels.values()]
        return panels[0].state_dict() if panels else self._layouts

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the layouts."""
        self._panels, self._layouts = {}, dict(state_dict)

    def _panels_of(self, destination: Any) -> Panels:
        """The panels of a writer or folder; a new writer to the same folder uses the same layouts."""
        key = str(destination if isinstance(destination, Path) else destination.log_dir)
        known, panels = self._panels.get(key, (None, None))
        if panels is None or known is not destination:
            layouts = panels.state_dict() if panels is not None else self.state_dict()
            panels = Panels(destination, prefix=self.prefix)
            if layouts:
                panels.load_state_dict(layouts)
            self._panels[key] = (destination, panels)
        return panels

    def _draw(
        self,
        panels: Panels,
        result: AuditResult,
        classes: Mapping[str, ExplanationGraph],
        settings: AuditSettings,
        run: Mapping[str, Any],
    ) -> None:
        step, when = run["step"], f"epoch {run['epoch']}"
        for name, graph in list(classes.items())[: self._options.n_classes]:
            n = graph.provenance.get("n_graphs", 1)
            members = [s for s in result.samples if self._class_names.of_sample(s) == name]
            example = members[0] if members else None
            panels.write_class(
                name,
                graph,
                graph.redundancy(settings.gamma_of_mean([sample.graph for sample in members])),
                step=step,
                subtitle=f"{when} · " + ("its only sample" if n == 1 else f"mean over {n} samples"),
                graphs=[sample.graph for sample in members],
                image=None if example is None else example.image,
                segments=None if example is None else example.segments,
            )
        gammas = settings.gammas_of([sample.graph for sample in result.samples])
        for sample, gamma in list(zip(result.samples, gammas, strict=True))[: self._options.n_samples]:
            said = self._class_names.of(sample.target)
            truth = "" if sample.label is None else f", labelled “{self._class_names.of(sample.label)}”"
            panels.write_sample(
                sample.index,
                sample.graph,
                sample.graph.redundancy(gamma),
                step=step,
                title=f"Sample {sample.index}: why “{said}”{truth}",
                subtitle=f"{when}{_sufficient(sample)}",
                image=sample.image,
                segments=sample.segments,
                words=sample.words,
            )
        spent = result.n_evaluations
        curves = {f"{name}, {spent[name]:,.0f} rows": curve for name, curve in result.curves.items()}
        compared = "" if result.compared_epoch is None else f", other explainers of epoch {result.compared_epoch}"
        panels.write_curves(curves, step=step, subtitle=f"{when}{compared}; rows: model rows spent per sample")
        if result.sweep:
            panels.write_sweep(result.sweep, step=step, n_gammas=len(set(gammas)))

    def record(
        self, result: AuditResult, settings: AuditSettings, run: Mapping[str, Any], cost: Mapping[str, float]
    ) -> AuditRecord:
        """The record of an audit, as :meth:`write` takes the arguments."""
        return make_record(
            result, settings, run=run, cost=cost, class_names=self._class_names, n_pictures=self._options.n_samples
        )


def _sufficient(sample: ExplainedSample) -> str:
    """How few features suffice, in the few words that fit below a title; the page says more."""
    found = sample.sufficient
    return "" if found is None else f" · {found.sentence(sample.graph.n_players, most=0).partition(';')[0]}"


def summary_line(result: AuditResult, settings: AuditSettings, cost: Mapping[str, float]) -> str:
    """What an audit found and what it cost, in one line; an accuracy after removal stands beside its controls.

    Where there is nothing to explain the line says that, and no numbers that describe noise.
    """
    n_samples = f"{len(result.samples)} samples"
    took = f"{cost['seconds']:.1f} s" + (f", {cost['epochs']:.2g} x the epoch" if cost["epochs"] else "")
    if notes := [note for note in notes_of(result, settings) if note.startswith(NOTHING)]:
        return " ".join([*notes, f"{n_samples}, {took}"])
    numbers = {name: value for name, (value, _) in result.numbers.items()}
    (judged, *_) = [number for number in ranking_numbers(settings.task) if number.tag_of(OURS) in numbers]
    ranked = {e: numbers[judged.tag_of(e)] for e in result.curves}
    others = {e: v for e, v in ranked.items() if e != OURS}
    best = max if judged.direction == "higher" else min
    name = best(others, key=others.__getitem__) if others else ""
    when = "" if result.compared_epoch is None else f" in epoch {result.compared_epoch}"
    beside = f" (best other {name} {others[name]:.3f}{when})" if others else ""
    skipped = f", without {', '.join(result.skipped)} (the record says why)" if result.skipped else ""
    roles = ", ".join(f"{numbers[ROLES_TAG + role]:.0%} {role}" for role in ROLES)
    return (
        f"{n_samples}, {judged.title} {ranked[OURS]:.3f}{beside}{skipped}, features are "
        f"{roles} ({_gammas(result, settings)}), {_removable(numbers)}{took}"
    )


def _gammas(result: AuditResult, settings: AuditSettings) -> str:
    """The threshold, or the smallest and the largest one."""
    gammas = settings.gammas_of([sample.graph for sample in result.samples])
    low, high = (f"{gamma:.2g}" for gamma in (min(gammas), max(gammas)))
    return f"gamma {low}" if low == high else f"gamma {low} to {high} by number of features"


def _removable(numbers: Mapping[str, float]) -> str:
    """What is kept without the removable features of H, beside its controls."""
    removable = numbers[f"{REDUNDANCY}share_removable"]
    if not removable:
        return "0% removable, "
    share = f"{removable:.0%} removable at"
    kinds = {
        "accuracy": ("accuracy_with_representatives", "random_removal_accuracy", "empty_accuracy"),
        "an error of": ("error_with_representatives", "random_removal_error", "empty_error"),
    }
    for word, names in kinds.items():
        if f"{REDUNDANCY}{names[0]}" in numbers:
            kept, random, empty = (f"{numbers[f'{REDUNDANCY}{name}']:.3f}" for name in names)
            return f"{share} {word} {kept} (as many at random {random}, all removed {empty}), "
    return ""


def advice_on(
    cost: Mapping[str, float],
    past: Sequence[Mapping[str, float]],
    *,
    comparison_seconds: float | None,
    output_seconds: float,
    time_budget: float | None = None,
    next_audit: str = "",
) -> str:
    """Where the time of an audit went and what would lower it, if it takes long beside an epoch; said once.

    Args:
        cost: of the audit.
        past: numbers of earlier audits.
        comparison_seconds: of other explainers; None if they did not run.
        output_seconds: of panels and the record.
        time_budget: that the audit had, if any. One that was too small is named every time.
        next_audit: when the next one follows, in words.
    """
    late = ""
    if time_budget is not None and cost["seconds"] > (1 + BUDGET_TOLERANCE) * time_budget:
        why = (
            "and this took longer than foreseen"
            if comparison_seconds
            else "less than the fewest rows and pictures take"
        )
        late = f"; `time_budget` is {time_budget:g} s, {why}"
    if cost["epochs"] <= AFFORDABLE_SHARE or past:
        return late
    seconds, others = max(cost["seconds"], 1e-9), comparison_seconds or 0.0
    parts = {
        "our explanation and its metrics (`n_evaluations`, `n_samples`)": seconds - others - output_seconds,
        "other explainers (`compare_with`)": others,
        "pictures and record (`panels`)": output_seconds,
    }
    shares = [f"{part / seconds:.0%} {name}" for name, part in parts.items() if part > 0.05 * seconds]
    coming = f"; {next_audit}" if next_audit else ""
    return f"{late}: {', '.join(shares)}; lower what is in brackets, or set `time_budget`{coming}"
