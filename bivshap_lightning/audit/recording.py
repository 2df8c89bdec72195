"""Makes the `AuditRecord` of an audit: settings and results in, one typed record out."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bivshap_lightning.audit.audit import AuditResult, AuditSettings, ExplainedSample
from bivshap_lightning.audit.columns import columns_of_samples
from bivshap_lightning.audit.json_fields import is_finite_number
from bivshap_lightning.audit.notes import notes_of
from bivshap_lightning.audit.record import (
    MAX_PICTURED_CLASSES,
    AuditRecord,
    ClassMetrics,
    Configuration,
    Cost,
    Curve,
    Estimate,
    GammaPoint,
    GraphSummary,
    Run,
    SampleSummary,
    software_versions,
)
from bivshap_lightning.audit.record_arrays import LOG_ODDS, PARTS
from bivshap_lightning.audit.record_parts import ALL_CLASSES, strongest_pairs
from bivshap_lightning.graph import ROLES, ExplanationGraph
from bivshap_lightning.graph.averaging import MAX_NAMES_OF_CLASS, mean_of_class
from bivshap_lightning.graph.substitution import mean_substitution
from bivshap_lightning.metrics.catalogue import CATALOGUE, estimate_over, find_number

LARGEST_PICTURE = 256
"""Pixels of the longer side of a picture in a record; larger ones are thinned out, to keep records small."""


@dataclass(frozen=True)
class ClassNames:
    """Names of classes by index; a regression has outputs instead.

    Attributes:
        names: one per class or output, or None to use the indices.
        task: of the model.

    Example:
        >>> ClassNames(["cat", "dog"]).of(1), ClassNames(None).of(1.0), ClassNames(["cat"]).of(None)
        ('dog', '1', 'none')
        >>> ClassNames(None, "regression").of(0), ClassNames(None, "regression").of(2)
        ('output', 'output 2')
    """

    names: Sequence[str] | None = None
    task: str = "auto"

    def __post_init__(self) -> None:
        names = [] if self.names is None else list(map(str, self.names))
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"`class_names` must be distinct, got {twice!r} more than once. Number the repeated ones.")
        if ALL_CLASSES in names:
            raise ValueError(
                f"`class_names` must not hold {ALL_CLASSES!r}, which gate rules use for all samples, got it at "
                f"{names.index(ALL_CLASSES)}. Rename that class."
            )

    def of(self, index: float | None) -> str:
        """The name of a class."""
        if index is None:
            return "none"
        known = self.names is not None and float(index).is_integer() and 0 <= index < len(self.names)
        if known and self.names is not None:
            return str(self.names[int(index)])
        if self.task == "regression":
            return f"output {index:g}" if index else "output"
        return f"{index:g}"

    def of_sample(self, sample: ExplainedSample) -> str:
        """The class that a sample counts for: its label, or the explained class where there is none."""
        return self.of(sample.target if sample.label is None else sample.label)


def make_record(
    result: AuditResult,
    settings: AuditSettings,
    *,
    run: Mapping[str, Any],
    cost: Mapping[str, float],
    class_names: ClassNames,
    n_pictures: int = 0,
) -> AuditRecord:
    """The record of an audit.

    Args:
        result: what was found.
        settings: what was computed.
        run: fields of :class:`~bivshap_lightning.audit.record.Run`; and, under "validation_metrics", what the training
            run itself logged.
        cost: seconds, forwards and share of the epoch.
        class_names: names of the classes.
        n_pictures: how many of the hardest samples keep a picture, besides one of each class; 0 for none at all.

    Raises:
        ValueError: a number is not in the catalogue.
    """
    unknown = [tag for tag in result.numbers if find_number(tag) is None]
    if unknown:
        raise ValueError(f"`numbers` must be in the catalogue of numbers, got {unknown}. Add an entry for each.")
    logged: Mapping[str, float] = run.get("validation_metrics", {})
    about = {name: value for name, value in run.items() if name != "validation_metrics"}
    class_names = replace(class_names, task=settings.task)
    gammas = settings.gammas_of([sample.graph for sample in result.samples])
    samples = tuple(
        _sample_summary(sample, gamma, class_names) for sample, gamma in zip(result.samples, gammas, strict=True)
    )
    record = AuditRecord(
        configuration=configuration_of(result, settings),
        versions=software_versions(),
        run=Run(**{**about, "sample_keys": tuple(run.get("sample_keys", ()))}, compared_epoch=result.compared_epoch),
        validation_metrics={name: value for name, value in logged.items() if is_finite_number(value)},
        # Shares of all players come without a standard error; the samples have it.
        metrics={
            tag: Estimate(value, error or (estimate_over(tag, samples) or (value, error))[1])
            for tag, (value, error) in result.numbers.items()
        },
        curves={
            name: Curve(tuple(x.tolist()), tuple(y.tolist()), tuple(e.tolist()))
            for name, (x, y, e) in result.curves.items()
        },
        classes=_class_summaries(result.samples, settings, class_names),
        class_metrics=class_metrics(samples),
        samples=samples,
        cost=Cost(**cost, evaluations_per_sample=dict(result.n_evaluations)),
        **(_pairs_over(result.samples, settings) if have_common_players(result.samples) else {}),
        sweep=_sweep_of(result.sweep),
        change=result.change,
        notes=notes_of(result, settings),
        columns=columns_of_samples(result.samples, gammas),
        arrays=arrays_of(result.samples),
    )
    pictures = pictures_of(result.samples, _pictured(record, n_pictures))
    return replace(record, arrays={**record.arrays, **pictures})


def configuration_of(result: AuditResult, settings: AuditSettings) -> Configuration:
    """What was computed, in texts that tell different settings apart."""
    return Configuration(
        method=result.method,
        behavior=setting_text(settings.behavior),
        link=setting_text(settings.link),
        players="automatic" if settings.feature_mask is None else setting_text(settings.feature_mask),
        removal=_removal_text(result, settings),
        background="" if settings.background is None else setting_text(settings.background),
        target="predicted" if settings.target is None else settings.target,
        gamma=settings.known_gamma,
        gamma_rule=settings.gamma_rule,
        task="" if settings.task == "auto" else settings.task,
        seed=settings.seed,
        n_evaluations=settings.n_evaluations,
        explainers=tuple(result.curves),
        skipped=dict(result.skipped),
    )


def _removal_text(result: AuditResult, settings: AuditSettings) -> str:
    """What absent players were replaced by.

    Rows that the user gave are told apart by their content. Rows that were drawn are named by the rule: audits of two
    models are comparable although the second was trained on newer data.
    """
    if settings.background_source:
        return f"mean over {len(settings.background[0])} {settings.background_source}"
    return " ".join([result.removal, *_digests((settings.baselines, settings.background))])


def setting_text(value: Any) -> str:
    """A setting in one phrase: texts as they are, functions by name, tensors by a digest of their content.

    Example:
        >>> setting_text("softmax"), setting_text(len), setting_text(torch.zeros(2)).startswith("#")
        ('softmax', 'len', True)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, tuple | list):
        return ", ".join(setting_text(part) for part in value)
    if callable(value) and not is_dataclass(value):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    return "".join(_digests(value)) or repr(value)


def _digests(value: Any) -> list[str]:
    """Short digests of the tensors in a setting: two rows of one shape are not the same row."""
    if isinstance(value, tuple | list):
        return [digest for part in value for digest in _digests(part)]
    if not isinstance(value, Tensor | np.ndarray):
        return []
    octets = torch.as_tensor(value).detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return [f"#{hashlib.blake2b(octets, digest_size=4).hexdigest()}"]


def _sample_summary(sample: ExplainedSample, gamma: float, class_names: ClassNames) -> SampleSummary:
    shapley = sample.graph.shapley
    return SampleSummary(
        index=sample.index,
        label=None if sample.label is None else class_names.of(sample.label),
        target=class_names.of(sample.target),
        gain=None if shapley is None else float(shapley.sum()),
        scores=dict(sample.scores),
        words=None if sample.words is None else tuple(sample.words),
        sufficient=sample.sufficient,
        change=sample.change,
        **GraphSummary.fields_of(sample.graph, gamma),
    )


def _class_summaries(
    samples: Sequence[ExplainedSample], settings: AuditSettings, class_names: ClassNames
) -> dict[str, GraphSummary]:
    """What is said about every class: its mean graph, and the strongest pairs over its samples."""
    members: dict[str, list[ExplainedSample]] = defaultdict(list)
    for sample in samples:
        members[class_names.of_sample(sample)].append(sample)
    found = {}
    for name, graph in mean_graphs(samples, class_names).items():
        gamma = settings.gamma_of_mean([sample.graph for sample in members[name]])
        found[name] = replace(GraphSummary.of(graph, gamma), **_pairs_over(members[name], settings))
    return found


def _pairs_over(samples: Sequence[ExplainedSample], settings: AuditSettings) -> dict[str, Any]:
    """The strongest substitutes and partners over samples, each weighted by the importance in the sample."""
    graphs = [sample.graph for sample in samples]
    if any(graph.shapley is None for graph in graphs):
        return {}
    labels = None if any(s.words is None for s in samples) else [list(s.words) for s in samples if s.words is not None]
    parts = mean_substitution(graphs, labels, gammas=settings.gammas_of(graphs), max_players=MAX_NAMES_OF_CLASS)
    return strongest_pairs(parts)


def _sweep_of(sweep: Mapping[str, NDArray[Any]]) -> tuple[GammaPoint, ...]:
    names = [f.name for f in fields(GammaPoint) if f.name != "roles"]
    return tuple(
        GammaPoint(
            roles={role: float(sweep[role][k]) for role in ROLES}, **{name: float(sweep[name][k]) for name in names}
        )
        for k in range(len(sweep["gamma"]))
    )


def class_metrics(samples: Sequence[SampleSummary]) -> dict[str, ClassMetrics]:
    """Every number that the samples determine, by class.

    Args:
        samples: of all classes.
    """
    members: dict[str, list[SampleSummary]] = {}
    for sample in samples:
        members.setdefault(sample.class_name, []).append(sample)
    ratios = [number.tag for number in CATALOGUE if number.parts is not None]
    found = {}
    for name, group in members.items():
        numbers = {tag: estimate_over(tag, group) for tag in (*group[0].scores, *ratios)}
        metrics = {tag: Estimate(*number) for tag, number in numbers.items() if number is not None}
        found[name] = ClassMetrics(len(group), metrics)
    return found


def mean_graphs(samples: Sequence[ExplainedSample], class_names: ClassNames) -> dict[str, ExplanationGraph]:
    """The mean graph of every class whose samples have players in common.

    A class of one picture has none either if the pictures of other samples have other parts: next to the classes it
    would look like a mean.

    Args:
        samples: of all classes.
        class_names: names of the classes.
    """
    members = defaultdict(list)
    for sample in samples:
        members[sample.target if sample.label is None else float(sample.label)].append(sample)
    own_parts = samples[0].segments is not None and not have_common_players(samples)
    return {
        class_names.of(label): mean_of_class([sample.graph for sample in group])
        for label, group in sorted(members.items())
        if have_common_players(group) and not (own_parts and len(group) == 1)
    }


def have_common_players(samples: Sequence[ExplainedSample]) -> bool:
    """Whether players of the same name are the same thing: columns, patches and words are, superpixels are not.

    Args:
        samples: at least one.
    """
    if all(sample.words is not None for sample in samples):
        return True
    first = samples[0].segments
    parts = [sample.segments for sample in samples]
    same_parts = all(p is None or (first is not None and np.array_equal(p, first)) for p in parts)
    return same_parts and len({sample.graph.names for sample in samples}) == 1


def arrays_of(samples: Sequence[ExplainedSample]) -> dict[str, NDArray[Any]]:
    """Matrices of all samples in single precision, stacked if all have them and the same players, otherwise one by one.

    Those of the log-odds are kept beside them: rankings are made from these.

    Args:
        samples: in order.
    """
    stacked = len({s.graph.n_players for s in samples}) == 1
    found: dict[str, NDArray[Any]] = {}
    graphs: dict[str, list[ExplanationGraph | None]]
    graphs = {"": [s.graph for s in samples], LOG_ODDS: [s.graph.log_odds for s in samples]}
    for prefix, members in graphs.items():
        for name in PARTS:
            rows = ((k, getattr(graph, name, None)) for k, graph in enumerate(members))
            known = {k: row for k, row in rows if row is not None}
            if stacked and len(known) == len(samples):
                found[f"{prefix}{name}"] = np.stack(list(known.values())).astype(np.float32)
            else:  # such as of a short text, all of whose coalitions were evaluated, among longer ones
                found |= {f"{prefix}{name}_{k}": row.astype(np.float32) for k, row in known.items()}
    return found


def _pictured(record: AuditRecord, n_pictures: int) -> list[int]:
    """Positions of the samples that a page about the record shows: the hardest, and one of each class it draws."""
    if not n_pictures:
        return []
    first: dict[str, int] = {}
    for position, sample in enumerate(record.samples):
        first.setdefault(sample.class_name, position)
    return sorted({*record.hardest_samples()[:n_pictures], *list(first.values())[:MAX_PICTURED_CLASSES]})


def pictures_of(samples: Sequence[ExplainedSample], positions: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Pictures and the player of each of their pixels, by the positions of the samples.

    Args:
        samples: in order.
        positions: of the samples that are wanted; those that are no pictures are left out.
    """
    found: dict[str, NDArray[Any]] = {}
    for position in positions:
        image, segments = samples[position].image, samples[position].segments
        if image is not None and segments is not None and image.shape[0] in (1, 3):
            thin = -(-max(segments.shape) // LARGEST_PICTURE)
            found[f"image_{position}"] = to_bytes(image[:, ::thin, ::thin])
            found[f"segments_{position}"] = segments[::thin, ::thin].astype(np.int32)
    return found


def to_bytes(image: NDArray[Any]) -> NDArray[np.uint8]:
    """A picture (C, H, W) as (H, W) or (H, W, 3) from 0 to 255; values outside 0 to 1 are stretched to that range.

    Args:
        image: with one or three channels.

    Example:
        >>> to_bytes(np.array([[[0.0, 1.0]]])).tolist()
        [[0, 255]]
    """
    pixels = np.moveaxis(image.astype(np.float64), 0, 2)
    if pixels.min() < 0 or pixels.max() > 1:
        pixels = (pixels - pixels.min()) / (np.ptp(pixels) or 1.0)
    found: NDArray[np.uint8] = np.round(255 * pixels).astype(np.uint8)
    return found[:, :, 0] if found.shape[2] == 1 else found
