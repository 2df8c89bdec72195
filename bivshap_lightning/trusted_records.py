"""The commands over several records: `bivshap calibrate` and `bivshap history`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bivshap_lightning.console import PASSED, fail, put, put_json, put_lines


def add_calibrate(commands: Any) -> None:
    """Add `bivshap calibrate` to the parser's commands."""
    command = commands.add_parser(
        "calibrate",
        help="make rules about drift from records of models that you trust",
        description="Write rules whose thresholds are multiples of the distances between records of models that you "
        "trust, such as retrains with other seeds, and beside them the reference that `bivshap gate` then judges by.",
        epilog="exit codes: 0 rules written; 2 usage, or records that are missing, bad or not comparable; "
        "3 internal error",
    )
    command.add_argument(
        "records", metavar="RECORD", nargs="*",
        help="JSON files of audits, three or more, better five, of the same samples in the same way",
    )  # fmt: skip
    command.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="the TOML file to write")
    command.add_argument(
        "--starter", action="store_true",
        help="write starter rules instead, which need no records and catch only gross leaks",
    )  # fmt: skip
    command.add_argument(
        "--validation", choices=("warn", "fail"), default="warn",
        help="severity of rules about the run's own validation metrics, %(default)s by default",
    )  # fmt: skip
    command.add_argument(
        "--json", action="store_true",
        help="print thresholds, verdicts on the trusted models and warnings as one JSON object, and nothing else",
    )  # fmt: skip
    command.set_defaults(run=_calibrate)


def _calibrate(options: argparse.Namespace) -> int:
    from bivshap_lightning.gate import GateError, RecordError, calibrate, save_calibration

    if options.starter:
        return _write_starter(options)
    try:
        calibration = calibrate(options.records, validation=options.validation)
        rules, reference = save_calibration(calibration, options.output)
    except (GateError, RecordError) as error:
        return fail(str(error), options.json)
    except OSError as error:
        return fail(f"`--output` must be a writable file, got {options.output} ({error.strerror}).", options.json)
    if not options.json:
        put_lines(f"{calibration.to_text()}\nbivshap: rules {rules}; reference {reference}")
        return PASSED
    found = calibration.reference
    verdicts = zip(found.records, calibration.verdicts, strict=True)
    put_json(
        {
            "rules": str(rules),
            "reference": str(reference),
            "calibrated": {metric: vars(calibrated) for metric, calibrated in found.calibrated.items()},
            "verdicts": [{"record": name, "passed": v.passed, "reason": v.reason} for name, v in verdicts],
            "warnings": list(calibration.warnings),
        }
    )
    return PASSED


def _write_starter(options: argparse.Namespace) -> int:
    from bivshap_lightning.gate import STARTER

    if options.records:
        n_records = len(options.records)
        return fail(f"`--starter` must be given without records, got {n_records}. Leave out one of them.", options.json)
    try:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(STARTER, encoding="utf-8")
    except OSError as error:
        return fail(f"`--output` must be a writable file, got {options.output} ({error.strerror}).", options.json)
    if options.json:
        put_json({"rules": str(options.output)})
    else:
        put(f"bivshap: starter rules {options.output}; they catch only gross leaks")
    return PASSED


def add_history(commands: Any) -> None:
    """Add `bivshap history` to the parser's commands."""
    command = commands.add_parser(
        "history",
        help="show how importance moved over many records",
        description="Show ranks and shares of features, roles, drift with its thresholds and verdicts over records of "
        "epochs or releases, in the order given, as one HTML page and as JSON.",
        epilog="exit codes: 0 done, whatever the verdicts; 2 usage, or records that are missing, bad or not "
        "comparable; 3 internal error",
    )
    command.add_argument("records", metavar="RECORD", nargs="+", help="JSON files of audits, oldest first; two or more")
    command.add_argument("-o", "--output", type=Path, metavar="HTML", help="the page to write")
    command.add_argument(
        "--rules", metavar="FILE", help="TOML file with rules: thresholds of drift, and a verdict on every record"
    )
    command.add_argument("--json", action="store_true", help="print everything as one JSON object, and nothing else")
    command.set_defaults(run=_history)


def _history(options: argparse.Namespace) -> int:
    from bivshap_lightning.gate import GateError, RecordError, make_history

    if options.output is None and not options.json:
        return fail("`--output` must be given, or `--json`, got neither. Pass `-o history.html`.", options.json)
    try:
        history = make_history(options.records, rules=options.rules)
        if options.output is not None:
            from bivshap_lightning.views.html.history import render_history

            options.output.write_text(render_history(history), encoding="utf-8")
    except (GateError, RecordError) as error:
        return fail(str(error), options.json)
    except OSError as error:
        return fail(f"`--output` must be a writable file, got {options.output} ({error.strerror}).", options.json)
    if options.json:
        put_json(json.loads(history.to_json()))
    else:
        put_lines(f"{history.to_text()}\nbivshap: page {options.output}")
    return PASSED
