"""Calibration: thresholds of drift from the records of models that people trust, such as retrains with other seeds.

Each trusted record is compared with the mean of the others. The threshold of a number is a multiple of the mean of
these leave-one-out distances. The multiples below were chosen on other models than those they were tested on
(benchmarks/bench_gate.py); from ten records on they are estimated from the distances themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bivshap_lightning.audit.record import AuditRecord, as_record
from bivshap_lightning.gate.judging import Record, judge
from bivshap_lightning.gate.profile import Profile, mean_profile, profile_of, sample_key
from bivshap_lightning.gate.record_drift import ProfilePair, record_drift
from bivshap_lightning.gate.reference import SAME_SETTINGS, Calibrated, Reference, demand_same_settings
from bivshap_lightning.gate.rules import GateError, Rule
from bivshap_lightning.gate.rules_file import GateFile
from bivshap_lightning.gate.verdict import Verdict

MULTIPLES = {"drift/shares": 2.4, "drift/rise": 3.3, "drift/samples": 3.2, "drift/roles": 1.4}
"""Thresholds as multiples of the mean leave-one-out distance."""
MIN_NDCG = 0.9
"""Absolute minimum of drift/ndcg, as other tools use it."""
VALIDATION_MULTIPLE = 3.0
"""Half width of the band of a validation metric, as a multiple of its mean leave-one-out distance."""
MIN_RECORDS, ENOUGH_RECORDS, RECORDS_TO_ESTIMATE = 3, 5, 10
CONFIDENCE = 0.99
"""Of the bound for one further model, where multiples are estimated; four numbers then have about 4 % false alarms."""
NO_SPREAD = 1e-9


@dataclass(frozen=True)
class Calibration:
    """Rules with their reference, and what to know about them.

    Attributes:
        gate: rules and reference.
        verdicts: of each trusted record, judged against the mean of the others.
        warnings: what limits the rules.
    """

    gate: GateFile
    verdicts: tuple[Verdict, ...]
    warnings: tuple[str, ...]

    @property
    def reference(self) -> Reference:
        """The mean of the trusted records."""
        if self.gate.reference is None:  # pragma: no cover - calibration always makes one
            raise GateError("`gate` must have a reference, got none.")
        return self.gate.reference

    def to_text(self) -> str:
        """Thresholds, verdicts of the trusted models and warnings, for the terminal."""
        lines = ["threshold  multiple  leave-one-out distances of the trusted records"]
        for metric, found in self.reference.calibrated.items():
            multiple = "absolute" if found.multiple is None else f"{found.multiple:.3g}"
            values = ", ".join(f"{distance:.3g}" for distance in found.distances)
            lines.append(f"{found.threshold:<9.4g}  {multiple:<8}  {metric}: {values}")
        lines += ["", "trusted models, each judged against the mean of the others:"]
        for name, verdict in zip(self.reference.records, self.verdicts, strict=True):
            reasons = "; ".join(verdict.reason.splitlines())
            lines.append(f"{'passed' if verdict.passed else 'FAILED'}  {name}" + (f": {reasons}" if reasons else ""))
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])


def calibrate(records: Sequence[Record], *, validation: Literal["fail", "warn"] = "warn") -> Calibration:
    """Rules about drift from records of models that people trust.

    Args:
        records: at least three, better five or more; audits of the same samples in the same way.
        validation: severity of the rules about validation metrics, which the records may carry.

    Raises:
        RecordError: a record is missing, damaged or contradicts itself.
        GateError: there are too few records, they are not comparable, two are equal, or no number varies.
    """
    if validation not in ("fail", "warn"):
        raise GateError(f"`validation` must be 'fail' or 'warn', got {validation!r}.")
    if len(records) < MIN_RECORDS:
        raise GateError(
            f"`records` must be at least {MIN_RECORDS} records of trusted models, better {ENOUGH_RECORDS}, got "
            f"{len(records)}. Train again with other seeds and audit each model."
        )
    loaded = [as_record(record) for record in records]
    _demand_comparable(loaded)
    profiles = [profile_of(record) for record in loaded]
    _demand_different(loaded, profiles)
    warnings = _warnings(loaded)
    others = [mean_profile(profiles[:k] + profiles[k + 1 :]) for k in range(len(profiles))]
    calibrated, left_out = _thresholds(profiles, others, loaded)
    bands = _validation_bands(loaded)
    rules = (*_rules(calibrated), *_validation_rules(bands, validation))
    reference = Reference(
        configuration=loaded[0].configuration,
        records=tuple(record.source for record in loaded),
        samples=mean_profile(profiles).samples,
        n_features=len(profiles[0].samples[0].players) if profiles[0].has_features else 0,
        calibrated={**calibrated, **bands},
    )
    verdicts = [
        judge(record, GateFile(rules, replace(reference, samples=other.samples)))
        for record, other in zip(loaded, others, strict=True)
    ]
    return Calibration(GateFile(rules, reference), tuple(verdicts), (*warnings, *left_out))


def _demand_comparable(records: Sequence[AuditRecord]) -> None:
    """Refuse records of different audits."""
    first = records[0]
    keys = {sample_key(first, sample.index): sample.players for sample in first.samples}
    for record in records[1:]:
        demand_same_settings(record, first.configuration, first.source, names=SAME_SETTINGS)
        its = {sample_key(record, sample.index): sample.players for sample in record.samples}
        if its.keys() != keys.keys():
            raise GateError(
                f"{record.source} and {first.source} must explain the same samples, got "
                f"{len(its.keys() & keys.keys())} shared of {len(its)} and {len(keys)}. Audit the same samples "
                "(`bivshap audit --like RECORD`)."
            )
        if its != keys:
            raise GateError(
                f"{record.source} and {first.source} must have the same players in every sample, got others. Audit "
                "both models with the same players."
            )


def _demand_different(records: Sequence[AuditRecord], profiles: Sequence[Profile]) -> None:
    """Refuse two audits of the same model, which would make the distances too small."""
    values = [np.concatenate([sample.shapley for sample in profile.samples]) for profile in profiles]
    for k, row in enumerate(values):
        for j in range(k):
            if np.array_equal(row, values[j]):
                raise GateError(
                    f"`records` must be of different models, got equal values in {records[j].source} and "
                    f"{records[k].source}. Train again with another seed."
                )


def _warnings(records: Sequence[AuditRecord]) -> list[str]:
    first, found = records[0], []
    if len(records) < ENOUGH_RECORDS:
        found.append(
            f"{len(records)} records: with fewer than {ENOUGH_RECORDS} the thresholds are uncertain, and harmless "
            "retrains may fail"
        )
    is_table = all(s.words is None for s in first.samples) and not any(name[:5] == "image" for name in first.arrays)
    if is_table and first.configuration.removal.split(" #")[0] == "baseline 0":
        found.append(
            "absent columns were replaced by 0, which explains a table against a row that may not exist: importance "
            "then varies more between retrains. Audit with `background`"
        )
    return found


def _thresholds(
    profiles: Sequence[Profile], others: Sequence[Profile], records: Sequence[AuditRecord]
) -> tuple[dict[str, Calibrated], list[str]]:
    """Thresholds by number, and why some numbers have none."""
    pairs = [ProfilePair(profile, other) for profile, other in zip(profiles, others, strict=True)]
    calibrated, left_out = {}, []
    for metric, multiple in MULTIPLES.items():
        if metric in ("drift/shares", "drift/rise") and not profiles[0].has_features:
            left_out.append(f"{metric} is left out: the samples have no features in common")
            continue
        configuration = records[0].configuration
        if metric == "drift/samples" and configuration.target == "predicted" and configuration.behavior != "output":
            left_out.append(
                f"{metric} is left out: samples were explained for the predicted class, which may change. Audit with "
                'target="label"'
            )
            continue
        distances = _distances(metric, pairs)
        mean = float(np.mean(distances))
        if mean <= NO_SPREAD:
            left_out.append(f"{metric} is left out: it does not vary between the trusted records")
            continue
        if len(records) >= RECORDS_TO_ESTIMATE:
            multiple = _estimated_multiple(distances)
        calibrated[metric] = Calibrated(distances, multiple, _rounded_up(multiple * mean))
    if not calibrated:
        raise GateError(
            f"`records` must differ in what they find, got no spread in any of {list(MULTIPLES)}: "
            f"{'; '.join(left_out)}. Calibrate on retrains with other seeds."
        )
    if profiles[0].has_features:
        calibrated["drift/ndcg"] = Calibrated(_distances("drift/ndcg", pairs), None, MIN_NDCG)
    return calibrated, left_out


def _distances(metric: str, pairs: Sequence[ProfilePair]) -> tuple[float, ...]:
    return tuple(float(value) for value in (record_drift(metric, pair) for pair in pairs) if value is not None)


def _estimated_multiple(distances: Sequence[float]) -> float:
    """The bound for one further model, as a multiple of the mean, if distances are log-normal."""
    from scipy.stats import t  # here, because importing scipy.stats takes longer than judging a record

    logs, n = np.log(np.maximum(distances, NO_SPREAD)), len(distances)
    reach = float(t.ppf(CONFIDENCE, n - 1)) * float(logs.std(ddof=1)) * math.sqrt(1 + 1 / n)
    return math.exp(float(logs.mean()) + reach) / float(np.mean(distances))


def _rounded_up(threshold: float) -> float:
    """A threshold of four digits that is not below the given one."""
    digits = 3 - math.floor(math.log10(threshold))
    return math.ceil(threshold * 10.0**digits) / 10.0**digits


def _rules(calibrated: dict[str, Calibrated]) -> list[Rule]:
    return [
        Rule(metric=metric, min=found.threshold) if found.multiple is None else Rule(metric=metric, max=found.threshold)
        for metric, found in calibrated.items()
    ]


def _validation_bands(records: Sequence[AuditRecord]) -> dict[str, Calibrated]:
    """For each validation metric that all records have and that varies, its distances and the half width of a band."""
    shared = set.intersection(*(set(record.validation_metrics) for record in records))
    found = {}
    for name in sorted(shared):
        values = np.array([record.validation_metrics[name] for record in records])
        means = (values.sum() - values) / (len(values) - 1)
        distances = np.abs(values - means)
        if distances.mean() > NO_SPREAD:
            width = VALIDATION_MULTIPLE * float(distances.mean())
            found[name] = Calibrated(tuple(values.tolist()), VALIDATION_MULTIPLE, _rounded_up(width))
    return found


def _validation_rules(bands: dict[str, Calibrated], severity: Literal["fail", "warn"]) -> list[Rule]:
    return [
        Rule(
            metric=name,
            min=float(f"{np.mean(band.distances) - band.threshold:.6g}"),
            max=float(f"{np.mean(band.distances) + band.threshold:.6g}"),
            severity=severity,
            compare="point",
        )
        for name, band in bands.items()
    ]
