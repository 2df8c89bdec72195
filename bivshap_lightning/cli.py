"""`bivshap`: the command line. Exit codes: 0 pass, 1 fail, 2 usage or a missing or bad record, 3 internal error."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from bivshap_lightning import __version__
from bivshap_lightning.console import FAILED, INTERNAL, PASSED, UNJUDGED, OutputError, fail, put, put_error, put_json
from bivshap_lightning.trusted_records import add_calibrate, add_history

EPILOG = "exit codes: 0 pass, 1 fail, 2 usage or a missing or bad record, 3 internal error"
STDOUT = "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: of the command line; None for those of this process.

    Returns:
        The exit code. ``--help`` exits by itself, as is argparse's habit.

    Example:
        >>> main(["gate", "/no/such/record.json", "--rules", "/no/such/gate.toml"])
        2
        >>> main(["--version", "--json"])
        {"version": "..."}
        0
    """
    for stream in (sys.stdout, sys.stderr):
        # Names in a record may hold what the terminal's encoding lacks.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _run(arguments, _wants_json(arguments))
    except OutputError as error:  # a verdict that nobody can read is none
        return fail(str(error), as_json=False)


def _run(arguments: Sequence[str], as_json: bool) -> int:
    try:
        options, words = _parser().parse_known_args(arguments)
        if words and options.run is not _audit:
            _parser().error(f"unrecognized arguments: {' '.join(words)}")
        options.words = words
        code: int = options.run(options)
    except OutputError:
        raise
    except _UsageError as error:
        return fail(str(error) if as_json else error.with_usage, as_json)
    except Exception as error:  # a message and an exit code, never a pass
        return fail(f"internal error: {type(error).__name__}: {error}", as_json, INTERNAL)
    return code


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether errors are to be JSON too, known before the arguments are understood."""
    if "--json" not in arguments:
        return "--json=-" in arguments
    after = arguments[arguments.index("--json") + 1 :]
    return arguments[0] != "gate" or not after or after[0].startswith("-")


class _UsageError(Exception):
    """Wrong arguments of the command line."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.with_usage = f"{message} ({' '.join(usage.split())})"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(message, self.format_usage())

    def print_help(self, file: Any = None) -> None:
        put(self.format_help().rstrip("\n"))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("bivshap", description="Audits of Bivariate Shapley explanations.", epilog=EPILOG)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("--json", action="store_true", help="print it as JSON; every command has this option as well")
    parser.set_defaults(run=_version)
    commands = parser.add_subparsers(metavar="COMMAND")
    for add in (_add_demo, _add_audit, _add_gate, add_calibrate, add_history, _add_report, _add_tensorboard):
        add(commands)
    return parser


def _version(options: argparse.Namespace) -> int:
    if not options.version:
        raise _UsageError("a COMMAND is required, got none; `bivshap --help` lists them", _parser().format_usage())
    if options.json:
        put_json({"version": __version__})
    else:
        put(f"bivshap-lightning {__version__}")
    return PASSED


def _add_json(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--json", action="store_true", help=f"print {what} as one JSON object, and nothing else")


def _add_audit(commands: Any) -> None:
    audit = commands.add_parser(
        "audit",
        help="audit a trained model",
        description="Audit a trained LightningModule: write its record, a page for readers, and pictures for "
        "TensorBoard. Run the same command again to resume an audit that was stopped. Further arguments are passed on: "
        "--trainer.* to the Trainer, --audit.* to BivShapCallback, --model.* and --data.* to your classes; --options "
        "lists them.",
        epilog="exit codes: 0 done; 2 usage, a missing, damaged or untrusted checkpoint, or a folder that cannot be "
        "written; 3 an error in your code or in ours; 130 and 143 after SIGINT and SIGTERM",
    )
    audit.add_argument("--checkpoint", required=True, type=Path, metavar="FILE", help="that a Trainer wrote")
    audit.add_argument("--model", metavar="CLASS", help="import path of the LightningModule: package.module.Class")
    audit.add_argument("--data", metavar="CLASS", help="import path of the LightningDataModule")
    audit.add_argument(
        "--config", type=Path, metavar="FILE", help="YAML file of LightningCLI, instead of these or beside"
    )
    audit.add_argument("-o", "--output", type=Path, default=Path("bivshap_audit"), metavar="FOLDER",
                       help="where everything goes, %(default)s by default")  # fmt: skip
    audit.add_argument("--stage", choices=("validate", "test"), default="validate",
                       help="which dataloader samples come from, that of validation by default")  # fmt: skip
    audit.add_argument("--rules", metavar="FILE", help="TOML file with rules; the page then starts with a verdict")
    audit.add_argument("--against", metavar="PREVIOUS", help="record of the previous model, to show what changed")
    audit.add_argument("--like", metavar="RECORD", help="explain the samples of this record, where the data has them")
    audit.add_argument("--chunk-size", type=int, default=16, metavar="N",
                       help="samples that are explained together and then kept, %(default)s by default")  # fmt: skip
    audit.add_argument("--trust-checkpoint", action="store_true", help="let the checkpoint run whatever code it holds")
    audit.add_argument("--options", action="store_true", help="list all further arguments and stop")
    _add_json(audit, "where everything is and what was found")
    audit.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> int:
    from bivshap_lightning.callbacks.offline import is_first_process, let_parent_leave, run

    outcome = run(options, options.words)
    if outcome.error:
        fail(outcome.error, options.json and is_first_process(), outcome.code)
        if outcome.details:
            put_error(outcome.details.rstrip("\n"))
        let_parent_leave()
    elif outcome.text:
        put(outcome.text)
    return outcome.code


def _add_gate(commands: Any) -> None:
    gate = commands.add_parser(
        "gate", help="judge an audit record by rules", description="Judge an audit record by rules.", epilog=EPILOG
    )
    gate.add_argument("record", metavar="RECORD", help="JSON file that BivShapCallback wrote to <log_dir>/bivshap")
    gate.add_argument("--rules", required=True, metavar="FILE", help="TOML file with one [[rule]] per rule")
    gate.add_argument("--against", metavar="PREVIOUS", help="record of the previous model, for rules about changes")
    for form in ("junit", "markdown"):
        gate.add_argument(f"--{form}", metavar="OUT", help=f"write the verdict as {form} to this file")
    gate.add_argument(
        "--json", nargs="?", const=STDOUT, metavar="OUT",
        help="write the verdict as JSON to this file; without one, or with -, print it instead of the table",
    )  # fmt: skip
    gate.add_argument(
        "--keep", action="store_true", help="keep the verdict beside the record too, where TensorBoard's tab shows it"
    )
    gate.set_defaults(run=_gate)


def _gate(options: argparse.Namespace) -> int:
    from bivshap_lightning.gate import GateError, RecordError, Verdict, judge

    as_json = options.json == STDOUT
    try:
        verdict = judge(options.record, options.rules, options.against)
    except (GateError, RecordError) as error:
        verdict = Verdict(error=str(error))
    # Reports are written for errors too: one of an earlier run must not be mistaken for this run's.
    for form in ("junit", "json", "markdown"):
        path: str | None = getattr(options, form)
        if path is None or (form == "json" and as_json):
            continue
        try:
            Path(path).write_text(getattr(verdict, f"to_{form}")(), encoding="utf-8")
        except OSError as error:
            return fail(f"`--{form}` must be a writable file, got {path} ({error.strerror}).", as_json)
    if options.keep and Path(options.record).is_file():
        from bivshap_lightning.gate.verdict_file import save_verdict

        try:
            save_verdict(verdict, options.record)
        except OSError as error:
            return fail(f"`--keep` must be able to write beside {options.record} ({error.strerror}).", as_json)
    if as_json:
        put(verdict.to_json())
    elif verdict.error is None:
        put(verdict.to_text())
    else:
        return fail(verdict.error, as_json=False)
    return UNJUDGED if verdict.error is not None else PASSED if verdict.passed else FAILED


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report",
        help="write an audit record as one HTML page for readers",
        description="Write an audit record as one HTML page that needs no network, no script and no model.",
        epilog="exit codes: 0 page written, whatever the verdict on it; 2 usage or a missing or bad record; "
        "3 internal error",
    )
    report.add_argument("record", metavar="RECORD", help="JSON file of the audit, with its NPZ file beside it")
    report.add_argument("-o", "--output", required=True, type=Path, metavar="HTML", help="the page to write")
    report.add_argument("--rules", metavar="FILE", help="TOML file with rules; the page then starts with a verdict")
    report.add_argument("--against", metavar="PREVIOUS", help="record of the previous model, to show what changed")
    _add_json(report, "where the page is and the verdict on it")
    report.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> int:
    from bivshap_lightning.audit.record import AuditRecord
    from bivshap_lightning.gate import GateError, RecordError, judge
    from bivshap_lightning.views.html import render_failure, render_page

    failure = verdict = None
    try:
        record = AuditRecord.load(options.record)
        previous = None if options.against is None else AuditRecord.load(options.against)
        verdict = None if options.rules is None else judge(record, options.rules, previous)
        page = render_page(record, verdict=verdict, previous=previous)
    except (GateError, RecordError) as error:
        # Written for errors too: the page of an earlier run must not be mistaken for this run's.
        failure = str(error)
        page = render_failure(failure)
    try:
        options.output.write_text(page, encoding="utf-8")
    except OSError as error:
        failure = f"`--output` must be a writable file, got {options.output} ({error.strerror})."
    if failure is not None:
        return fail(failure, options.json)
    if options.json:
        put_json({"page": str(options.output), "verdict": verdict and json.loads(verdict.to_json())})
    else:
        put(f"bivshap: page {options.output}" + (f"; {verdict.headline}" if verdict else ""))
    return PASSED


def _add_tensorboard(commands: Any) -> None:
    board = commands.add_parser(
        "tensorboard", help="start TensorBoard so that it shows every epoch's pictures", epilog=EPILOG
    )
    board.add_argument("logdir", metavar="LOGDIR", help="folder with event files, such as lightning_logs")
    board.add_argument("--port", type=int, help="of the page; TensorBoard's own default is 6006, or the next free one")
    _add_json(board, "the command that would start it")
    board.set_defaults(run=_tensorboard)


def _tensorboard(options: argparse.Namespace) -> int:
    from bivshap_lightning.views import START_LINE

    if not Path(options.logdir).is_dir():
        return fail(f"LOGDIR must be a folder, got {options.logdir}.", options.json)
    flags = [word for word in START_LINE.split() if word.startswith("--") and word != "--logdir"]
    if options.port is not None:
        flags += ["--port", str(options.port)]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", options.logdir, *flags]
    if options.json:
        put_json({"command": command})
        return PASSED
    try:
        return subprocess.call(command)
    except KeyboardInterrupt:  # the usual way to stop TensorBoard
        return PASSED


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="train, audit and judge a classifier of wines, in about a minute",
        description="Train a small network on scikit-learn's wines with BivShapCallback, judge it, and "
        "write record, page and picture into a folder. Nothing is downloaded.",
        epilog="exit codes: 0 done, whatever the verdict; 2 usage; 3 internal error",
    )
    demo.add_argument("-o", "--output", type=Path, default=Path("bivshap_demo"), metavar="FOLDER",
                      help="where everything goes, %(default)s by default")  # fmt: skip
    demo.add_argument("--seed", type=int, default=0, help="of the network and the order of its samples, 0 by default")
    _add_json(demo, "what was found and where it is")
    demo.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> int:
    from bivshap_lightning.demo import run_demo

    try:
        demo = run_demo(options.output, seed=options.seed)
    except OSError as error:
        return fail(f"`--output` must be a writable folder, got {options.output} ({error.strerror}).", options.json)
    if options.json:
        put_json(demo.to_dict())
    else:
        put(demo.to_text())
    return PASSED


if __name__ == "__main__":
    raise SystemExit(main())
