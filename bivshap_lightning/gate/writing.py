"""Writes rules files: calibrated rules with their reference beside them, and starter rules without trusted records."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path

from bivshap_lightning.audit.record_files import checksum
from bivshap_lightning.gate.calibration import Calibration
from bivshap_lightning.gate.rules import Rule
from bivshap_lightning.gate.rules_file import RULES_VERSION, parse_toml

STARTER = """\
# Starter rules, for a model without trusted records.
#
# They catch gross defects only: one feature with more importance than all others together, as a leaked label usually
# is where the model could not do without it, or a model that decides without its input. On the Adult table (networks,
# trees and logistic regressions, 64 samples) they failed 6 of 6 models with a leak and none of 6 clean ones. They do
# not catch a milder shortcut, a leak into a table whose other columns already decide (wine, divorce, digits),
# shuffled or noisy labels, swapped columns, a change of units, or anything that moves importance between several
# features. For these, audit three to five models that you trust and run `bivshap calibrate RECORD... -o gate.toml`.

version = 1

# No single feature has more than half of all importance. Where one honest column decides, clean models have more: 0.5
# to 0.6 with six columns (drug), 0.6 to 0.8 with four (iris, boosted trees). With so few columns, raise the limit.
[[rule]]
metric = "top1_share"
max = 0.5
compare = "point"

# No feature is three times as important as the next. In wide tables a leak may have less than half of all importance;
# some honest models do this too, so it is a reason to look.
[[rule]]
metric = "top1_lead"
max = 0.75
compare = "point"
severity = "warn"

# Control: without any feature the model must not already make nearly all of its decisions.
[[rule]]
metric = "bivshap/redundancy/empty_accuracy"
max = 0.95
compare = "point"
severity = "warn"

# One and the same feature does not suffice alone for four fifths of the decisions that need any feature. The size of
# sufficient sets tells less: it was 1.0 in clean models whose decisions rest on another single feature each.
[[rule]]
metric = "top1_alone"
max = 0.8
compare = "point"
severity = "warn"

# The audit was precise enough: few pairs are left undecided by its noise.
[[rule]]
metric = "bivshap/redundancy/share_undecided"
max = 0.5
compare = "point"
severity = "warn"
"""
"""A rules file for models without trusted records."""


def save_calibration(calibration: Calibration, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write the rules and, beside them, the reference, sealed by its checksum.

    Args:
        calibration: what :func:`~bivshap_lightning.gate.calibration.calibrate` found.
        path: of the rules file; the reference gets the same name with ".reference.json".

    Returns:
        The paths of both files.

    Raises:
        OSError: a file cannot be written.
    """
    path = Path(path)
    beside = path.with_name(f"{path.stem}.reference.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = calibration.reference.save(beside)
    rules = "\n".join(_rule_text(rule, calibration) for rule in calibration.gate.rules)
    seal = checksum({"rule": parse_toml(rules)["rule"]})
    n_records = len(calibration.reference.records)
    head = [
        f"# Written by `bivshap calibrate` from {n_records} trusted records. To calibrate again, run it again.",
        *(f"# warning: {warning}." for warning in calibration.warnings),
        f"version = {RULES_VERSION}",
        f'sha256 = "{seal}"',
        f"reference = {json.dumps(beside.name)}",
        f'reference_sha256 = "{digest}"',
        "",
    ]
    path.write_text("\n".join([*head, rules]), encoding="utf-8")
    return path, beside


def _rule_text(rule: Rule, calibration: Calibration) -> str:
    """One table, with the values that its threshold was found from."""
    found = calibration.reference.calibrated[rule.metric]
    values = ", ".join(f"{value:.4g}" for value in found.distances)
    how = "absolute" if found.multiple is None else f"{found.multiple:.3g} times the mean distance"
    lines = [f"# trusted records: {values}; threshold: {how}", "[[rule]]"]
    defaults = {field.name: field.default for field in fields(Rule)}
    for name, value in vars(rule).items():
        if value != defaults[name]:
            key = "class" if name == "class_name" else name
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join([*lines, ""])
