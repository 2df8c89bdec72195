"""`bivshap audit`: the audit of a trained model as a separate job, which can be stopped and resumed.

Finished chunks of samples are kept beside the record until it is written (:mod:`~bivshap_lightning.audit.chunk_store`).
The audit runs in a validation or test epoch of a Lightning Trainer with the same callback as in training, so the
Trainer provides several processes, precision and accelerators.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import sysconfig
import threading
import time
import traceback
import warnings
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bivshap_lightning
from bivshap_lightning.audit.audit import AuditSettings
from bivshap_lightning.audit.chunk_store import ChunkStore, StorageError
from bivshap_lightning.audit.json_fields import encode
from bivshap_lightning.audit.lock import FolderInUseError, locked_folder
from bivshap_lightning.audit.record import AuditRecord, RecordError, software_versions
from bivshap_lightning.audit.recording import setting_text
from bivshap_lightning.callbacks.bivshap import BivShapCallback
from bivshap_lightning.callbacks.checkpoint import AuditError, Checkpoint
from bivshap_lightning.callbacks.collectives import ELSEWHERE, ModelError, process_group_ended
from bivshap_lightning.callbacks.lightning import MisconfigurationException, rank_zero_only
from bivshap_lightning.callbacks.offline_arguments import Arguments, Ingredients
from bivshap_lightning.callbacks.resumable import ResumableRunner
from bivshap_lightning.callbacks.runner import AuditRunner
from bivshap_lightning.gate import GateError, judge, load_gate
from bivshap_lightning.graph.storage import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator

DONE, REFUSED, FAILED, INTERRUPTED, TERMINATED = 0, 2, 3, 130, 143
RECORD, ARRAYS, REPORT, TENSORBOARD, UNFINISHED = "audit.json", "audit.npz", "report.html", "tensorboard", "unfinished"
LIBRARIES = ("stdlib", "purelib", "platlib")
# Seconds that a process waits at most for its parent to end first, see `let_parent_leave`.
PATIENCE = 60.0


class OfflineAudit(BivShapCallback):
    """The callback of `bivshap audit`: resumable, with a record of a fixed name.

    Args:
        arguments: of :class:`BivShapCallback`.
        folder: the output folder.
        identity: everything except the samples that the numbers depend on.
        about: fields of the record about the model.
        chunk_size: samples that are explained together, for any number of processes.
    """

    def __init__(
        self,
        arguments: Mapping[str, Any],
        *,
        folder: Path,
        identity: Mapping[str, Any],
        about: Mapping[str, Any],
        chunk_size: int,
    ) -> None:
        self._folder, self._identity, self._known, self._size = folder, dict(identity), dict(about), chunk_size
        super().__init__(**arguments, on_error="raise")

    def _make_runner(self, settings: AuditSettings, **arguments: Any) -> AuditRunner:
        settings = replace(settings, columns=True)
        return ResumableRunner(settings, store=self._make_store, chunk_size=self._size, arguments=arguments)

    def _make_store(self, device: str) -> ChunkStore:
        rows = setting_text(self.runner.resolved.background)
        decisive = {**self._identity, "device": device, "versions": software_versions(), "background": rows}
        return ChunkStore(self._folder / UNFINISHED, decisive)

    def remove_chunks(self) -> None:
        """Delete the finished chunks once the record is written."""
        if isinstance(self.runner, ResumableRunner) and self.runner.store is not None:
            self.runner.store.remove()

    def _path_of_record(self, trainer: Any) -> Path | None:
        return self._folder / RECORD

    def _about(self, trainer: Any, stage: str) -> dict[str, Any]:
        return super()._about(trainer, stage) | self._known

    def _handle_error(self, trainer: Any, error: BaseException | None) -> None:
        """Raise what other arguments would fix as :class:`AuditError`, errors of the user's code unchanged."""
        if isinstance(error, ModelError):
            raise error.cause
        if isinstance(error, (ValueError, TypeError, StorageError)):
            raise AuditError(_one_line(error)) from error
        super()._handle_error(trainer, error)


@dataclass(frozen=True)
class Completion:
    """How the command ended.

    Attributes:
        code: exit code: 0 done, 2 for errors that other arguments fix, 3 for an error in the user's code or in this
            package, 130 and 143 after SIGINT and SIGTERM.
        text: what to print; empty on all processes but the first.
        error: what went wrong, in one line; empty if nothing did.
        details: the traceback, for errors that other arguments would not fix.
    """

    code: int
    text: str = ""
    error: str = ""
    details: str = ""


def run(options: Namespace, words: Sequence[str]) -> Completion:
    """Run the command.

    Args:
        options: the command's own: checkpoint, model, data, config, output, stage, rules, against, like, chunk_size,
            trust_checkpoint, json, options.
        words: the rest of the command line, for model, data, Trainer and callback.
    """
    with process_group_ended(), _interrupted_by_sigterm() as received:
        try:
            # With --json a program reads standard output, so what libraries print goes to standard error.
            with redirect_stdout(sys.stderr), _quiet():
                return Completion(DONE, text=_run(options, words))
        except (KeyboardInterrupt, SystemExit):  # Lightning turns the first into the second
            code = TERMINATED if received else INTERRUPTED
            return Completion(code, error="interrupted; run the same command again to resume.")
        except Exception as error:
            return _explained(error)


@contextmanager
def _interrupted_by_sigterm() -> Iterator[list[int]]:
    """Let SIGTERM end an audit as SIGINT does. Yields the list of signals received."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only that one can handle signals
        yield received
        return

    def interrupt(number: int, frame: Any) -> None:
        received.append(number)
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, previous)


def is_first_process() -> bool:
    """Whether this is the process that prints."""
    return not vars(rank_zero_only).get("rank")


def let_parent_leave() -> None:
    """Let the first process end with its own exit code: Lightning kills it as soon as it sees a child that failed."""
    parent, until = os.getppid(), time.monotonic() + PATIENCE
    while not is_first_process() and os.getppid() == parent and time.monotonic() < until:
        time.sleep(0.1)


def _run(options: Namespace, words: Sequence[str]) -> str:
    """Audit. Returns what is to be printed, nothing on all processes but the first."""
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as for `python -m`
    if options.chunk_size < 1:
        raise AuditError(f"`--chunk-size` must be at least 1, got {options.chunk_size}.")
    _check_rules(options)
    checkpoint = Checkpoint.load(options.checkpoint, trust=options.trust_checkpoint)
    arguments = Arguments(checkpoint, options.model, options.data, options.config)
    if options.options:
        return arguments.help()
    made = arguments.make(words)
    _check_dataloader(made, options.stage)
    folder = _writable(options.output)
    with locked_folder(folder) if is_first_process() else nullcontext():
        try:
            return _audit(options, checkpoint, made, folder)
        except OSError as error:
            if not _is_about(folder, error):
                raise
            failed = os.fsdecode(error.filename or folder)
            raise AuditError(f"`--output` must be a folder to write to, got {failed} ({error.strerror}).") from error
        except RuntimeError as error:  # Lightning's, where the folder of its logger is gone or cannot be looked at
            if not str(error).startswith(f"Missing folder: {folder}"):
                raise
            raise AuditError(f"`--output` must be a folder to write to, got {folder} ({error}).") from error


def _audit(options: Namespace, checkpoint: Checkpoint, made: Ingredients, folder: Path) -> str:
    try:
        audit = OfflineAudit(
            made.audit,
            folder=folder,
            identity={**made.identity, "chunk_size": options.chunk_size},
            about=_about(checkpoint, made),
            chunk_size=options.chunk_size,
        )
    except (ValueError, TypeError) as error:
        raise AuditError(f"`--audit` must have arguments that the callback takes: {_one_line(error)}") from error
    if options.like is not None:
        audit.runner.load_state_dict({options.stage: AuditRecord.load(options.like).run.sample_keys})
    trainer = _trainer(made, audit, folder)
    if trainer.is_global_zero:
        for name in (RECORD, ARRAYS, REPORT):  # files of an earlier run must not be mistaken for this run's
            for path in (folder / name, *folder.glob(f".{name}.*.tmp")):  # ... nor must halves of them stay
                path.unlink(missing_ok=True)
    epoch = trainer.validate if options.stage == "validate" else trainer.test
    epoch(made.model, datamodule=made.data, verbose=False)
    if audit.result is None:  # Lightning runs no epoch, and so no audit, without batches
        raise AuditError(f"`--data` must yield samples for --stage {options.stage}, got none.")
    if not trainer.is_global_zero:
        return ""
    _write_report(folder, options)
    audit.remove_chunks()
    return _result(audit, folder) if options.json else _last_line(audit, folder)


def _check_rules(options: Namespace) -> None:
    """Refuse rules that the report could not apply, before the audit starts."""
    if options.against is not None:
        AuditRecord.load(options.against)
    if options.rules is not None:
        gate = load_gate(options.rules)
        has_reference = gate.reference is not None
        changes = [r.name for r in gate.rules if r.needs_previous and not (r.is_record_drift and has_reference)]
        if changes and options.against is None:
            raise AuditError(f"`--against` must be a previous record for rules about changes, got none for {changes}.")


def _check_dataloader(made: Ingredients, stage: str) -> None:
    loader = {"validate": "val_dataloader", "test": "test_dataloader"}[stage]
    source, base = (made.model, "LightningModule") if made.data is None else (made.data, "LightningDataModule")
    if getattr(type(source), loader) is getattr(getattr(made.lightning, base), loader):
        name = type(source).__name__
        raise AuditError(f"`--data` must be the import path of a datamodule with a {loader}, got none in {name}.")


def _about(checkpoint: Checkpoint, made: Ingredients) -> dict[str, Any]:
    """Fields of the record about the model: epoch, step and file name, without local paths."""
    return {
        "epoch": int(checkpoint.content.get("epoch", 0)),
        "step": int(checkpoint.content.get("global_step", 0)),
        "checkpoint": checkpoint.path.name,
        "checkpoint_sha256": checkpoint.sha256,
        "model": made.identity["model"],
    }


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AuditError(f"`--output` must be a folder to write to, got {folder} ({error.strerror}).") from error
    if not os.access(folder, os.W_OK):
        raise AuditError(f"`--output` must be a folder to write to, got {folder} (not writable).")
    return folder


def _is_about(folder: Path, error: OSError) -> bool:
    """Whether an error of the operating system concerns the output folder, rather than files that the user reads.

    Failed writes name no file: they are ours if no code of the user was running.
    """
    if error.errno is None:
        return False
    if isinstance(error.filename, str | bytes):
        return Path(os.fsdecode(error.filename)).absolute().is_relative_to(folder.absolute())
    return not _frames_of_user(error)


def _trainer(made: Ingredients, audit: OfflineAudit, folder: Path) -> Any:
    """A Trainer with the given arguments, and with the audit among its callbacks."""
    given = dict(made.trainer)
    others = given.pop("callbacks", None) or []
    defaults = {
        "logger": made.lightning.loggers.TensorBoardLogger(folder, name=TENSORBOARD, version=""),
        "default_root_dir": folder,
        "enable_progress_bar": False,
        "enable_checkpointing": False,
        "enable_model_summary": False,
    }
    callbacks = [audit, *(others if isinstance(others, Sequence) else [others])]
    try:
        return made.lightning.Trainer(**defaults | given, callbacks=callbacks)
    except (ValueError, TypeError, MisconfigurationException) as error:
        raise AuditError(f"`--trainer` must have arguments that fit together: {_one_line(error)}") from error


def _write_report(folder: Path, options: Namespace) -> None:
    from bivshap_lightning.views.html import render_page

    record = AuditRecord.load(folder / RECORD)
    previous = None if options.against is None else AuditRecord.load(options.against)
    verdict = None if options.rules is None else judge(record, options.rules, previous)
    page = render_page(record, verdict=verdict, previous=previous)
    replace_file(folder / REPORT, page.encode())


def _paths(folder: Path) -> dict[str, str]:
    names = {"record": RECORD, "arrays": ARRAYS, "report": REPORT, "tensorboard": TENSORBOARD}
    return {what: str(folder / name) for what, name in names.items() if (folder / name).exists()}


def _last_line(audit: OfflineAudit, folder: Path) -> str:
    places = ", ".join(f"{what} {path}" for what, path in _paths(folder).items())
    columns = audit.record().columns
    table = "" if columns is None else f"{columns.to_text()}\n"
    return f"{table}bivshap: {audit.summary()}; {places}"


def _result(audit: OfflineAudit, folder: Path) -> str:
    record = audit.record()
    metrics = {name: number.value for name, number in record.metrics.items()}
    result = {**_paths(folder), "n_samples": len(record.samples), "metrics": metrics, "cost": asdict(record.cost)}
    result["columns"] = encode(record.columns)
    return json.dumps(result, allow_nan=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress messages of Lightning that concern training, and tracebacks of errors that are reported anyway."""
    names = ("pytorch_lightning", "lightning.pytorch", "lightning", "lightning_fabric")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The '.*_dataloader' does not have many workers")
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated")  # in Lightning itself
        # Duplicated samples count once here.
        warnings.filterwarnings("ignore", "Using `DistributedSampler` with the dataloaders")
        try:
            for logger in loggers:
                logger.setLevel(logging.WARNING)
            with _silent_writer_threads():
                yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@contextmanager
def _silent_writer_threads() -> Iterator[None]:
    """Print no traceback of TensorBoard's thread that writes: it raises its error again in the thread that logs."""
    previous = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if not isinstance(arguments.exc_value, OSError) or type(arguments.thread).__name__ != "_AsyncWriterThread":
            previous(arguments)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = previous


def _explained(error: Exception) -> Completion:
    """One line for errors that other arguments fix, with a traceback for all others."""
    if isinstance(error, (AuditError, GateError, RecordError, FolderInUseError, MisconfigurationException)):
        return Completion(REFUSED, error=_one_line(error))
    if str(error).startswith(ELSEWHERE):
        return Completion(FAILED, error=_one_line(error))
    # Where the user's own code is, if any: that is where they look first.
    place = (_frames_of_user(error) or traceback.extract_tb(error.__traceback__))[-1]
    where = f"{place.filename}, line {place.lineno}, in {place.name}"
    if isinstance(error, SyntaxError):
        where = f"{error.filename}, line {error.lineno}"
    line = f"the audit failed at {where}: {type(error).__name__}: {_one_line(error)}"
    return Completion(FAILED, error=line, details="".join(traceback.format_exception(error)))


def _frames_of_user(error: BaseException) -> list[traceback.FrameSummary]:
    """Where an error passed through code that belongs neither to this package nor to a library."""
    libraries = (str(Path(bivshap_lightning.__file__).parent), *(sysconfig.get_paths()[name] for name in LIBRARIES))
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if not frame.filename.startswith((*libraries, "<"))]


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
