"""The description of a record for the explorer: its classes and samples, all numbers with what they mean, curves."""

from __future__ import annotations

from typing import Any

from bivshap_lightning.audit.json_fields import encode
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.gate import Verdict
from bivshap_lightning.gate.measuring import measure
from bivshap_lightning.metrics.catalogue import REDUNDANCY, find_number
from bivshap_lightning.metrics.number import EXPLAINER, INTERVALS
from bivshap_lightning.views.explorer.payload import run_fields

TWO_SIDED = 0.975
"""One-sided confidence of each side of a 95 % interval."""

_CONTROLS = {
    "accuracy_with_representatives": "random_removal_accuracy",
    "error_with_representatives": "random_removal_error",
    **{
        f"{masking}_accuracy": f"{masking}_random_accuracy"
        for masking in ("mask_sinks", "keep_only_sources", "mask_sources", "keep_only_sinks")
    },
}
"""The number that an accuracy or error after removal is compared with: as many players removed at random."""


def describe_record(record: AuditRecord, *, verdict: Verdict | None = None) -> dict[str, Any]:
    """All of a record but its graphs, as JSON values.

    Args:
        record: the record; its arrays are not read, except for which of them exist.
        verdict: over the record, if it was judged.
    """
    configuration = encode(record.configuration)
    return {
        "run": run_fields(record),
        "configuration": configuration,
        "gamma": record.configuration.gamma,
        "subjects": _subjects(record),
        "numbers": [_number(record, tag) for tag in record.metrics],
        "curves": encode(dict(record.curves)),
        "evaluations": dict(record.cost.evaluations_per_sample),
        "skipped": dict(record.configuration.skipped),
        "n_samples": len(record.samples),
        "verdict": None if verdict is None else describe_verdict(verdict),
    }


def _subjects(record: AuditRecord) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, summary in record.classes.items():
        n_samples = sum(sample.class_name == name for sample in record.samples)
        found.append({"id": f"class:{name}", "kind": "class", "name": name, "n_samples": n_samples,
                      "n_players": summary.n_players, "gamma": record.gamma_of(summary)})  # fmt: skip
    for position in record.hardest_samples():
        sample = record.samples[position]
        found.append({
            "id": f"sample:{sample.index}", "kind": "sample", "name": str(sample.index), "label": sample.label,
            "target": sample.target, "gain": sample.gain, "n_players": sample.n_players,
            "gamma": record.gamma_of(sample),
            "text": None if sample.words is None else " ".join(sample.words[:12]),
            "has_picture": f"segments_{position}" in record.arrays,
        })  # fmt: skip
    return found


def _number(record: AuditRecord, tag: str) -> dict[str, Any]:
    found, entry = record.metrics[tag], find_number(tag)
    interval = measure(record, tag, confidence=TWO_SIDED)
    row: dict[str, Any] = {
        "tag": tag,
        "value": found.value,
        "standard_error": found.standard_error,
        "lower": interval.lower,
        "upper": interval.upper,
        "title": tag,
        "meaning": "",
        "better": "",
        "formula": "",
        "interval": "",
        "family": tag,
        "explainer": None,
        "control": None,
    }
    if entry is None:
        return row
    start = entry.tag.partition(EXPLAINER)[0]
    control = REDUNDANCY + _CONTROLS.get(entry.family, "")
    if control in record.metrics:
        row["control"] = {"tag": control, "value": record.metrics[control].value}
    return row | {
        "title": entry.title,
        "meaning": entry.meaning,
        "better": entry.better,
        "formula": entry.formula,
        "interval": INTERVALS[entry.interval],
        "family": entry.family,
        "explainer": tag.removeprefix(start) if EXPLAINER in entry.tag else None,
    }


def describe_verdict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as JSON values: whether it passed, and each rule with its reason.

    Args:
        verdict: of the gate.

    Example:
        >>> describe_verdict(Verdict(error="no record"))["passed"]
        False
    """
    rules = [{"name": o.rule.name, "status": o.status, "reason": o.reason} for o in verdict.results]
    return {"passed": verdict.passed, "error": verdict.error, "rules": rules}
