"""What an audit leaves behind: panels in TensorBoard or in files, and the record on disk. Rank zero only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bivshap_lightning.callbacks.audit import ExplainedSample, Findings, Settings
from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.panels import Panels
from bivshap_lightning.report import save_audit, software_versions


class Output:
    """Writes findings, keeping the layout of pictures from epoch to epoch.

    Args:
        class_names: a name per class, or None.
        n_samples: samples that get a picture.
        n_classes: classes that get pictures and tables.
        write_panels: whether to draw at all.
        write_record: whether to write the record.
    """

    def __init__(
        self, class_names: Sequence[str] | None, n_samples: int, n_classes: int, write_panels: bool, write_record: bool
    ) -> None:
        self._class_names, self._n_samples, self._n_classes = class_names, n_samples, n_classes
        self._write_panels, self._write_record = write_panels, write_record
        self._panels: dict[str, tuple[Any, Panels]] = {}
        self._layouts: dict[str, Any] = {}

    def write(
        self,
        findings: Findings,
        settings: Settings,
        run: Mapping[str, Any],
        cost: Mapping[str, float],
        directory: Path,
        writers: Sequence[Any],
    ) -> None:
        """Write everything that one audit leaves behind.

        Args:
            findings: what was found.
            settings: what was computed.
            run: stage, epoch, step and the like.
            cost: seconds, forwards, share of the epoch.
            directory: where records go.
            writers: TensorBoard writers; without any, pictures go to files in the directory.
        """
        classes = self._classes(findings.samples)
        if self._write_panels:
            for destination in writers or [directory]:
                self._draw(self._panels_of(destination), findings, classes, settings.gamma, run)
        if self._write_record:
            name = f"{run['stage']}_epoch{run['epoch']:04d}_step{run['step']:07d}.json"
            fields = self.fields(findings, settings, run, cost)
            save_audit(directory / name, fields, _arrays(findings.samples))

    def state_dict(self) -> dict[str, Any]:
        """The layouts of all pictures, so that they do not jump when a run is resumed."""
        panels = [panels for _, panels in self._panels.values()]
        return panels[0].state_dict() if panels else self._layouts

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take up the layouts again."""
        self._panels, self._layouts = {}, dict(state_dict)

    def _panels_of(self, destination: Any) -> Panels:
        """The panels of a writer or folder; a new writer to the same place goes on with the same layouts."""
        key = str(destination if isinstance(destination, Path) else destination.log_dir)
        known, panels = self._panels.get(key, (None, None))
        if panels is None or known is not destination:
            layouts = panels.state_dict() if panels is not None else self.state_dict()
            panels = Panels(destination)
            if layouts:
                panels.load_state_dict(layouts)
            self._panels[key] = (destination, panels)
        return panels

    def class_name(self, index: float | None) -> str:
        """The name of a class."""
        if index is None:
            return "none"
        known = self._class_names is not None and float(index).is_integer() and 0 <= index < len(self._class_names)
        return str(self._class_names[int(index)]) if known and self._class_names is not None else f"{index:g}"

    def _classes(self, samples: Sequence[ExplainedSample]) -> dict[str, ExplanationGraph]:
        """The mean graph of every class whose samples have the same players."""
        members = defaultdict(list)
        for sample in samples:
            members[sample.target if sample.label is None else float(sample.label)].append(sample.graph)
        return {
            self.class_name(label): ExplanationGraph.mean(graphs)
            for label, graphs in sorted(members.items())
            if len({g.names for g in graphs}) == 1
        }

    def _draw(
        self,
        panels: Panels,
        findings: Findings,
        classes: Mapping[str, ExplanationGraph],
        gamma: float,
        run: Mapping[str, Any],
    ) -> None:
        step, when = run["step"], f"epoch {run['epoch']}"
        for name, graph in list(classes.items())[: self._n_classes]:
            example = next((s for s in findings.samples if self._belongs(s, name)), None)
            panels.write_class(
                name,
                graph,
                graph.redundancy(gamma),
                step=step,
                subtitle=f"{when} · mean over {graph.provenance.get('n_graphs', 1)} samples",
                scores=_scores(graph),
                image=None if example is None else example.image,
                segments=None if example is None else example.segments,
            )
        for sample in findings.samples[: self._n_samples]:
            said = self.class_name(sample.target)
            truth = "" if sample.label is None else f", labelled “{self.class_name(sample.label)}”"
            panels.write_sample(
                sample.index,
                sample.graph,
                sample.graph.redundancy(gamma),
                step=step,
                title=f"Sample {sample.index}: why “{said}”{truth}",
                subtitle=when,
                scores=_scores(sample.graph),
                image=sample.image,
                segments=sample.segments,
                words=sample.words,
            )
        panels.write_curves(findings.curves, step=step, subtitle=when)

    def _belongs(self, sample: ExplainedSample, name: str) -> bool:
        return self.class_name(sample.target if sample.label is None else sample.label) == name

    def fields(
        self, findings: Findings, settings: Settings, run: Mapping[str, Any], cost: Mapping[str, float]
    ) -> dict[str, Any]:
        """Everything of a record but the arrays."""
        classes = self._classes(findings.samples)
        described = {name: _describe(g, g.redundancy(settings.gamma)) for name, g in classes.items()}
        return {
            "configuration": {
                "method": findings.method,
                "behavior": settings.behavior if isinstance(settings.behavior, str) else repr(settings.behavior),
                "removal": findings.removal,
                "target": settings.target if settings.target is not None else "predicted",
                "gamma": settings.gamma,
                "seed": settings.seed,
                "budget": settings.budget,
                "explainers": list(findings.curves),
                "baseline_budget": settings.baseline_budget,
                "skipped": findings.skipped,
            },
            "versions": software_versions(),
            "run": dict(run),
            "metrics": {n: {"value": v, "standard_error": e} for n, (v, e) in findings.numbers.items()},
            "curves": {
                name: {"masked_fraction": x.tolist(), "accuracy": y.tolist(), "standard_error": e.tolist()}
                for name, (x, y, e) in findings.curves.items()
            },
            "classes": described,
            "samples": [
                {
                    "index": s.index,
                    "label": None if s.label is None else self.class_name(s.label),
                    "target": self.class_name(s.target),
                    **_describe(s.graph, s.graph.redundancy(settings.gamma)),
                }
                for s in findings.samples
            ],
            "cost": {**cost, "evaluations_per_sample": findings.n_evaluations},
        }


def _describe(graph: ExplanationGraph, h: RedundancyGraph) -> dict[str, Any]:
    """Rankings and groups by name."""
    names, scores = graph.names, _scores(graph)
    order = graph.order(personalized=graph.shapley is not None)
    return {
        "players": list(names),  # in the order of the arrays
        "ranking": [{"player": names[k], "score": float(scores[k])} for k in order],
        "groups": [[names[k] for k in group] for group in h.groups],
        "sources": [names[k] for k in h.sources],
        "sinks": [names[k] for k in h.sinks],
        "density": h.density,
        "n_undecided": int(h.n_undecided),
    }


def _scores(graph: ExplanationGraph) -> NDArray[np.float64]:
    """The ranking that the metrics judge."""
    return graph.ranking(personalized=graph.shapley is not None)


def _arrays(samples: Sequence[ExplainedSample]) -> dict[str, NDArray[Any]]:
    """Matrices of all samples, stacked if they have the same players and one by one if not."""
    parts = {
        "weights": [s.graph.weights for s in samples],
        "standard_error": [s.graph.standard_error for s in samples],
        "shapley": [s.graph.shapley for s in samples if s.graph.shapley is not None],
    }
    if len({s.graph.n_players for s in samples}) == 1:
        return {name: np.stack(rows).astype(np.float32) for name, rows in parts.items()}
    return {f"{name}_{k}": row.astype(np.float32) for name, rows in parts.items() for k, row in enumerate(rows)}
