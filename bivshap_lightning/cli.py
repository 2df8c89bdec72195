"""`bivshap`: the command line. Exit codes: 0 pass, 1 fail, 2 usage or missing or damaged evidence, 3 internal error."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bivshap_lightning import __version__

PASSED, FAILED, UNJUDGED, INTERNAL = 0, 1, 2, 3
EPILOG = "exit codes: 0 pass, 1 fail, 2 usage or missing or damaged evidence, 3 internal error"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: of the command line; None for those of this process.

    Returns:
        The exit code. Wrong usage and ``--help`` exit by themselves, as is argparse's habit.

    Example:
        >>> main(["gate", "/no/such/record.json", "--rules", "/no/such/gate.toml"])
        2
    """
    for stream in (sys.stdout, sys.stderr):
        # Names in a record may hold what the terminal's encoding lacks.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except Exception as error:  # the last line of defence: a message and a code, never a pass
        print(f"bivshap: internal error: {type(error).__name__}: {_line(str(error))}", file=sys.stderr)
        return INTERNAL
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("bivshap", description="Audits of Bivariate Shapley explanations.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"bivshap-lightning {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    gate = commands.add_parser(
        "gate", help="judge an audit record by rules", description="Judge an audit record by rules.", epilog=EPILOG
    )
    gate.add_argument("record", metavar="RECORD", help="JSON file that BivShapCallback wrote to <log_dir>/bivshap")
    gate.add_argument("--rules", required=True, metavar="FILE", help="TOML file with one [[rule]] per rule")
    gate.add_argument("--against", metavar="PREVIOUS", help="record of the previous model, for rules about changes")
    for form in ("junit", "json", "markdown"):
        gate.add_argument(f"--{form}", type=Path, metavar="OUT", help=f"write the verdict as {form} to this file")
    gate.set_defaults(run=_gate)
    report = commands.add_parser(
        "report",
        help="write an audit record as one HTML page for readers",
        description="Write an audit record as one HTML page that needs no network, no script and no model.",
        epilog="exit codes: 0 page written, whatever the verdict on it; 2 usage or missing or damaged evidence; "
        "3 internal error",
    )
    report.add_argument("record", metavar="RECORD", help="JSON file of the audit, with its NPZ file beside it")
    report.add_argument("-o", "--output", required=True, type=Path, metavar="HTML", help="the page to write")
    report.add_argument("--rules", metavar="FILE", help="TOML file with rules; the page then starts with a verdict")
    report.add_argument("--against", metavar="PREVIOUS", help="record of the previous model, to show what changed")
    report.set_defaults(run=_report)
    board = commands.add_parser(
        "tensorboard", help="start TensorBoard so that it shows every epoch's pictures", epilog=EPILOG
    )
    board.add_argument("logdir", metavar="LOGDIR", help="folder with event files, such as lightning_logs")
    board.set_defaults(run=_tensorboard)
    return parser


def _gate(options: argparse.Namespace) -> int:
    from bivshap_lightning.gate import GateError, Verdict, judge, load_rules

    try:
        verdict = judge(options.record, load_rules(options.rules), options.against)
    except GateError as error:
        verdict = Verdict(error=str(error))
    # Reports are written for errors too: a report of an earlier run that stays behind could pass for this one's.
    for form in ("junit", "json", "markdown"):
        path: Path | None = getattr(options, form)
        if path is not None:
            try:
                path.write_text(getattr(verdict, f"to_{form}")(), encoding="utf-8")
            except OSError as error:
                print(f"bivshap: `--{form}` must be a writable file, got {path} ({error.strerror}).", file=sys.stderr)
                return UNJUDGED
    if verdict.error is not None:
        print(f"bivshap: {_line(verdict.error)}", file=sys.stderr)
        return UNJUDGED
    try:
        print(verdict.to_text(), flush=True)
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough; the verdict stands
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PASSED if verdict.passed else FAILED


def _report(options: argparse.Namespace) -> int:
    from bivshap_lightning.gate import GateError
    from bivshap_lightning.webpage import render_failure, render_page

    failure = None
    try:
        page = render_page(options.record, options.rules, options.against)
    except GateError as error:
        # Written all the same: a page of an earlier run that stays behind could pass for this one's.
        failure = str(error)
        page = render_failure(failure)
    try:
        options.output.write_text(page, encoding="utf-8")
    except OSError as error:
        failure = f"`--output` must be a writable file, got {options.output} ({error.strerror})."
    if failure is not None:
        print(f"bivshap: {_line(failure)}", file=sys.stderr)
        return UNJUDGED
    return PASSED


def _tensorboard(options: argparse.Namespace) -> int:
    from bivshap_lightning.panels import START_LINE

    if not Path(options.logdir).is_dir():
        print(f"bivshap: LOGDIR must be a folder, got {_line(options.logdir)}.", file=sys.stderr)
        return UNJUDGED
    flags = [word for word in START_LINE.split() if word.startswith("--") and word != "--logdir"]
    try:
        return subprocess.call([sys.executable, "-m", "tensorboard.main", "--logdir", options.logdir, *flags])
    except KeyboardInterrupt:  # how one leaves TensorBoard
        return PASSED


def _line(text: str) -> str:
    """A message on one line, whatever names it quotes."""
    return "".join(c if c.isprintable() else "?" for c in text)


if __name__ == "__main__":
    raise SystemExit(main())
