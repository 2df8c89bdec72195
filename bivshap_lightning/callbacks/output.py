"""What an audit leaves behind: panels in TensorBoard or in files, and the record on disk. Rank zero only."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bivshap_lightning.audit.audit import OURS, ExplainedSample, Findings, Settings
from bivshap_lightning.audit.record import MAX_CLASSES, hardest_first, save_audit, software_versions
from bivshap_lightning.gate.measures import Graph, class_metrics, estimate
from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.graph.averaging import mean_of_class
from bivshap_lightning.views import Panels

AFFORDABLE_SHARE = 0.1
"""Of an epoch; an audit that takes more is told what to turn down."""

LARGEST_PICTURE = 256
"""Longer sides of pictures are thinned out in records, which are to stay small."""


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
        path: Path,
        writers: Sequence[Any],
    ) -> None:
        """Write everything that one audit leaves behind.

        Args:
            findings: what was found.
            settings: what was computed.
            run: stage, epoch, step and the like.
            cost: seconds, forwards, share of the epoch.
            path: of the record.
            writers: TensorBoard writers; without any, pictures go to files beside the record.
        """
        classes = self._classes(findings.samples)
        if self._write_panels:
            for destination in writers or [path.parent]:
                self._draw(self._panels_of(destination), findings, classes, settings.gamma, run)
        if self._write_record:
            fields = self.fields(findings, settings, run, cost)
            arrays = arrays_of(findings.samples) | _pictures(findings.samples, self._shown(fields))
            save_audit(path, fields, arrays)

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
        """The mean graph of every class whose samples have players in common."""
        members = defaultdict(list)
        for sample in samples:
            members[sample.target if sample.label is None else float(sample.label)].append(sample)
        return {
            self.class_name(label): mean_of_class([sample.graph for sample in group])
            for label, group in sorted(members.items())
            if _are_alike(group)
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
            n = graph.provenance.get("n_graphs", 1)
            example = next((s for s in findings.samples if self._belongs(s, name)), None)
            panels.write_class(
                name,
                graph,
                graph.redundancy(gamma),
                step=step,
                subtitle=f"{when} · " + ("its only sample" if n == 1 else f"mean over {n} samples"),
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
        samples = [self._describe_sample(s, settings.gamma) for s in findings.samples]
        graphs = [Graph.of(s, f"sample {s['index']}", _class_of(s)) for s in samples]
        return {
            "configuration": {
                "method": findings.method,
                "behavior": settings.behavior if isinstance(settings.behavior, str) else repr(settings.behavior),
                "players": "automatic" if settings.feature_mask is None else _in_words(settings.feature_mask),
                "removal": " ".join([findings.removal, *_digests((settings.baselines, settings.background))]),
                "target": settings.target if settings.target is not None else "predicted",
                "gamma": settings.gamma,
                "seed": settings.seed,
                "n_evaluations": settings.n_evaluations,
                "explainers": list(findings.curves),
                "compare_n_evaluations": settings.compare_n_evaluations,
                "skipped": findings.skipped,
            },
            "versions": software_versions(),
            "run": dict(run),
            "metrics": {
                # Shares of all players come without an error; the samples tell it.
                n: {"value": v, "standard_error": e or (estimate(n, graphs) or (v, e))[1]}
                for n, (v, e) in findings.numbers.items()
            },
            "curves": {
                name: {"masked_fraction": x.tolist(), "accuracy": y.tolist(), "standard_error": e.tolist()}
                for name, (x, y, e) in findings.curves.items()
            },
            "classes": described,
            "class_metrics": class_metrics(graphs),
            "samples": samples,
            "cost": {**cost, "evaluations_per_sample": findings.n_evaluations},
        }

    def _describe_sample(self, sample: ExplainedSample, gamma: float) -> dict[str, Any]:
        shapley = sample.graph.shapley
        return {
            "index": sample.index,
            "label": None if sample.label is None else self.class_name(sample.label),
            "target": self.class_name(sample.target),
            "gain": None if shapley is None else float(shapley.sum()),
            "scores": dict(sample.scores),
            **({} if sample.words is None else {"words": list(sample.words)}),
            **_describe(sample.graph, sample.graph.redundancy(gamma)),
        }

    def _shown(self, fields: Mapping[str, Any]) -> list[int]:
        """Places of the samples that a page about the record shows: the hardest, and one of each class it draws."""
        if not self._n_samples:
            return []
        samples = fields["samples"]
        hardest = hardest_first(samples, predicted=fields["configuration"]["target"] == "predicted")
        first: dict[str, int] = {}
        for place, sample in enumerate(samples):
            first.setdefault(_class_of(sample), place)
        return sorted({*hardest[: self._n_samples], *list(first.values())[:MAX_CLASSES]})


def _class_of(described: Mapping[str, Any]) -> str:
    """The class that a sample counts for."""
    return str(described["target"] if described["label"] is None else described["label"])


def _in_words(maker: Any) -> str:
    """Who plays, in one phrase that tells different answers apart."""
    if isinstance(maker, (tuple, list)):
        return ", ".join(_in_words(part) for part in maker)
    if callable(maker) and not is_dataclass(maker):
        return str(getattr(maker, "__qualname__", type(maker).__qualname__))
    return "".join(_digests(maker)) or repr(maker)


def _digests(value: Any) -> list[str]:
    """Short digests of the tensors among what the user passed: two rows of one shape are not the same row."""
    if isinstance(value, (tuple, list)):
        return [digest for part in value for digest in _digests(part)]
    if not isinstance(value, (Tensor, np.ndarray)):
        return []
    octets = torch.as_tensor(value).detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return [f"#{hashlib.blake2b(octets, digest_size=4).hexdigest()}"]


def _are_alike(samples: Sequence[ExplainedSample]) -> bool:
    """Whether players of the same name are the same thing: columns, patches, words, but not superpixels."""
    if all(sample.words is not None for sample in samples):
        return True
    first = samples[0].segments
    parts = [sample.segments for sample in samples]
    same_parts = all(p is None or (first is not None and np.array_equal(p, first)) for p in parts)
    return same_parts and len({sample.graph.names for sample in samples}) == 1


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


def arrays_of(samples: Sequence[ExplainedSample]) -> dict[str, NDArray[Any]]:
    """Matrices of all samples, stacked if they have the same players and one by one if not."""
    parts = {
        "weights": [s.graph.weights for s in samples],
        "standard_error": [s.graph.standard_error for s in samples],
        "shapley": [s.graph.shapley for s in samples if s.graph.shapley is not None],
    }
    if len({s.graph.n_players for s in samples}) == 1:
        return {name: np.stack(rows).astype(np.float32) for name, rows in parts.items()}
    return {f"{name}_{k}": row.astype(np.float32) for name, rows in parts.items() for k, row in enumerate(rows)}


def _pictures(samples: Sequence[ExplainedSample], places: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Pictures and whose their pixels are, by the places of the samples."""
    found: dict[str, NDArray[Any]] = {}
    for place in places:
        image, segments = samples[place].image, samples[place].segments
        if image is not None and segments is not None and image.shape[0] in (1, 3):
            thin = -(-max(segments.shape) // LARGEST_PICTURE)
            found[f"image_{place}"] = _bytes(image[:, ::thin, ::thin])
            found[f"segments_{place}"] = segments[::thin, ::thin].astype(np.int32)
    return found


def _bytes(image: NDArray[Any]) -> NDArray[np.uint8]:
    """(H, W) or (H, W, 3) from 0 to 255; values outside 0 to 1, as of a normalised picture, are stretched to it."""
    pixels = np.moveaxis(image.astype(np.float64), 0, 2)
    if pixels.min() < 0 or pixels.max() > 1:
        pixels = (pixels - pixels.min()) / (np.ptp(pixels) or 1.0)
    found: NDArray[np.uint8] = np.round(255 * pixels).astype(np.uint8)
    return found[:, :, 0] if found.shape[2] == 1 else found


def summary_line(findings: Findings, gamma: float, cost: Mapping[str, float]) -> str:
    """What an audit found and what it cost, in one line."""
    numbers = {name: value for name, (value, _) in findings.numbers.items()}
    ranked = {e: numbers[f"bivshap/posthoc_accuracy/{e}"] for e in findings.curves}
    rivals = {e: v for e, v in ranked.items() if e != OURS}
    best = f" (best baseline {max(rivals, key=rivals.__getitem__)} {max(rivals.values()):.3f})" if rivals else ""
    skipped = f", without {', '.join(findings.skipped)} (the record says why)" if findings.skipped else ""
    return (
        f"{len(findings.samples)} samples, post-hoc accuracy {ranked[OURS]:.3f}{best}{skipped}, "
        f"{numbers['bivshap/redundancy/share_removable']:.0%} of players removable at accuracy "
        f"{numbers['bivshap/redundancy/accuracy_with_representatives']:.3f} (gamma {gamma:g}), "
        f"{cost['seconds']:.1f} s"
    )


def advice_on(cost: Mapping[str, float], past: Sequence[Mapping[str, float]]) -> str:
    """What to do about an audit that takes much of an epoch, said once."""
    if cost["share_of_epoch"] <= AFFORDABLE_SHARE:
        return ""
    if any(numbers["bivshap/cost/share_of_epoch"] > AFFORDABLE_SHARE for numbers in past):
        return f", {cost['share_of_epoch']:.0%} of the epoch"
    return (
        f", {cost['share_of_epoch']:.0%} of the epoch: lower `n_evaluations` or `n_samples`, shorten `compare_with`, "
        "set `time_budget`, or raise `every_n_epochs`"
    )
