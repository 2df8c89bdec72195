"""`bivshap audit`: the audit of a trained model as a job of its own, which can be killed and started again.

Finished chunks of samples are kept beside the record until it is written (:mod:`~bivshap_lightning.audit.chunk_store`).
All work is a validation or test epoch of a Lightning Trainer with the same callback as in training, so everything a
Trainer can do (several processes, precision, accelerators) is done by it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import sysconfig
import time
import traceback
import warnings
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

import bivshap_lightning
from bivshap_lightning.audit.audit import Audit, Part
from bivshap_lightning.audit.batches import Forward
from bivshap_lightning.audit.chunk_store import Journal
from bivshap_lightning.audit.record import AuditRecord, RecordError, software_versions
from bivshap_lightning.audit.selection import Chunk, Probe
from bivshap_lightning.callbacks.bivshap import ELSEWHERE, BivShapCallback
from bivshap_lightning.callbacks.checkpoint import AuditError, Checkpoint
from bivshap_lightning.callbacks.lightning import (
    MisconfigurationException,
    gather_objects,
    is_sharded,
    rank_zero_only,
)
from bivshap_lightning.callbacks.offline_arguments import Arguments, Ingredients
from bivshap_lightning.gate import GateError, judge, load_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

DONE, REFUSED, FAILED, INTERRUPTED = 0, 2, 3, 130
RECORD, ARRAYS, REPORT, TENSORBOARD, UNFINISHED = "audit.json", "audit.npz", "report.html", "tensorboard", "unfinished"
# How long a process waits for its parent to end first, see `_leave`.
PATIENCE = 10.0


class OfflineAudit(BivShapCallback):
    """The callback, with finished chunks kept on disk, a progress bar, and a record of a fixed name.

    Args:
        arguments: of :class:`BivShapCallback`.
        folder: where everything goes.
        identity: what decides the numbers, but for the samples.
        about: what the record says about the model that was audited.
        chunk_size: samples that are explained together, whatever the number of processes.
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
        super().__init__(**arguments, on_error="raise")
        self._folder, self._identity, self._known, self._size = folder, dict(identity), dict(about), chunk_size
        self._finished: set[str] = set()
        self._bar: Any = None
        self.journal: Journal | None = None

    def _chunk_size(self, trainer: Any) -> int:
        return self._size

    def _record_path(self, trainer: Any) -> Path | None:
        return self._folder / RECORD

    def _about(self, trainer: Any, stage: str) -> dict[str, Any]:
        return super()._about(trainer, stage) | self._known

    def _explain(self, trainer: Any, pl_module: Any, audit: Audit, probe: Probe, start: float) -> list[Part]:
        decisive = {**self._identity, "device": pl_module.device.type, "versions": software_versions()}
        self.journal = Journal(self._folder / UNFINISHED, decisive)
        self._finished = self.journal.finished()
        if is_sharded(trainer):  # all processes must make the same forward passes
            self._finished = set.intersection(*gather_objects(trainer, self._finished))
        hidden = None if trainer.is_global_zero else True  # None: where there is no terminal
        with tqdm(total=probe.n_mine, desc="explaining", unit="sample", disable=hidden, file=sys.stderr) as self._bar:
            return super()._explain(trainer, pl_module, audit, probe, start)

    def _explain_chunk(self, audit: Audit, forward: Forward, chunk: Chunk, deadline: float) -> Part:
        journal = self.journal
        if journal is None:  # pragma: no cover - made before the first chunk
            raise RuntimeError("no journal")
        part = journal.load(chunk, self._finished)
        if part is None:
            part = super()._explain_chunk(audit, forward, chunk, deadline)
            journal.save(chunk, part)
        self._bar.update(len(chunk.places))
        return part


@dataclass(frozen=True)
class Outcome:
    """How an audit ended.

    Attributes:
        code: exit code: 0 done, 2 for what the user has to change, 3 for an error in the user's code or in ours.
        text: what to print; empty on all processes but the first.
        error: what went wrong, in one line; empty if nothing did.
        details: the traceback of an error that is nobody's argument.
    """

    code: int
    text: str = ""
    error: str = ""
    details: str = ""


def run(options: Namespace, words: Sequence[str]) -> Outcome:
    """Run the command.

    Args:
        options: the command's own: checkpoint, model, data, config, output, stage, rules, against, chunk_size,
            trust_checkpoint, json, options.
        words: the rest of the command line, for model, data, Trainer and callback.
    """
    try:
        # What others print is no output of this command: with --json, a program reads that.
        with redirect_stdout(sys.stderr), _quiet():
            return Outcome(DONE, text=_run(options, words))
    except (KeyboardInterrupt, SystemExit):  # Lightning turns the first into the second
        return Outcome(INTERRUPTED, error="interrupted; the same command goes on where this one stopped.")
    except Exception as error:
        return _explained(error)


def is_first_process() -> bool:
    """Whether this process is the one to talk."""
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
    audit = OfflineAudit(
        made.audit,
        folder=folder,
        identity={**made.identity, "chunk_size": options.chunk_size},
        about=_about(checkpoint, made),
        chunk_size=options.chunk_size,
    )
    trainer = _trainer(made, audit, folder)
    if trainer.is_global_zero:
        for name in (RECORD, ARRAYS, REPORT):  # those of an earlier run could pass for this one's
            (folder / name).unlink(missing_ok=True)
    epoch = trainer.validate if options.stage == "validate" else trainer.test
    epoch(made.model, datamodule=made.data, verbose=False)
    if audit.findings is None:  # Lightning runs no epoch, and so no audit, without batches
        raise AuditError(f"`--data` must yield samples for --stage {options.stage}, got none.")
    if not trainer.is_global_zero:
        return ""
    if audit.journal is not None:
        audit.journal.remove()
    _write_report(folder, options)
    return _result(audit, folder) if options.json else _last_line(audit, folder)


def _check_rules(options: Namespace) -> None:
    """Refuse rules that the report could not apply: now, not after hours of work."""
    if options.against is not None:
        AuditRecord.load(options.against)
    if options.rules is not None:
        changes = [rule.name for rule in load_rules(options.rules) if rule.needs_previous]
        if changes and options.against is None:
            raise AuditError(f"`--against` must be a previous record for rules about changes, got none for {changes}.")


def _check_dataloader(made: Ingredients, stage: str) -> None:
    loader = {"validate": "val_dataloader", "test": "test_dataloader"}[stage]
    source, base = (made.model, "LightningModule") if made.data is None else (made.data, "LightningDataModule")
    if getattr(type(source), loader) is getattr(getattr(made.home, base), loader):
        name = type(source).__name__
        raise AuditError(f"`--data` must be the import path of a datamodule with a {loader}, got none in {name}.")


def _about(checkpoint: Checkpoint, made: Ingredients) -> dict[str, Any]:
    """What the record says about the model: the moment of training and the file, but no path of this machine."""
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


def _trainer(made: Ingredients, audit: OfflineAudit, folder: Path) -> Any:
    """A Trainer with the given arguments, and with the audit among its callbacks."""
    given = dict(made.trainer)
    others = given.pop("callbacks", None) or []
    defaults = {
        "logger": made.home.loggers.TensorBoardLogger(folder, name=TENSORBOARD, version=""),
        "default_root_dir": folder,
        "enable_progress_bar": False,
        "enable_checkpointing": False,
        "enable_model_summary": False,
    }
    callbacks = [audit, *(others if isinstance(others, Sequence) else [others])]
    try:
        return made.home.Trainer(**defaults | given, callbacks=callbacks)
    except (ValueError, TypeError, MisconfigurationException) as error:
        raise AuditError(f"`--trainer` must have arguments that fit together: {_one_line(error)}") from error


def _write_report(folder: Path, options: Namespace) -> None:
    from bivshap_lightning.views.html import render_page

    record = AuditRecord.load(folder / RECORD)
    previous = None if options.against is None else AuditRecord.load(options.against)
    verdict = None if options.rules is None else judge(record, options.rules, previous)
    page = render_page(record, verdict=verdict, previous=previous)
    (folder / REPORT).write_text(page, encoding="utf-8")


def _paths(folder: Path) -> dict[str, str]:
    names = {"record": RECORD, "arrays": ARRAYS, "report": REPORT, "tensorboard": TENSORBOARD}
    return {what: str(folder / name) for what, name in names.items() if (folder / name).exists()}


def _last_line(audit: OfflineAudit, folder: Path) -> str:
    places = ", ".join(f"{what} {path}" for what, path in _paths(folder).items())
    return f"bivshap: {audit.summary()}; {places}"


def _result(audit: OfflineAudit, folder: Path) -> str:
    record = audit.record()
    metrics = {name: number.value for name, number in record.metrics.items()}
    result = {**_paths(folder), "n_samples": len(record.samples), "metrics": metrics, "cost": asdict(record.cost)}
    return json.dumps(result, allow_nan=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without announcements and advice of Lightning that are for those who train."""
    names = ("pytorch_lightning", "lightning.pytorch", "lightning", "lightning_fabric")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The '.*_dataloader' does not have many workers")
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated")  # in Lightning itself
        # Samples that it doubles count once here.
        warnings.filterwarnings("ignore", "Using `DistributedSampler` with the dataloaders")
        try:
            for logger in loggers:
                logger.setLevel(logging.WARNING)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _explained(error: Exception) -> Outcome:
    """What went wrong: one line for what the user has to change, with a traceback for all else."""
    ours = str(Path(bivshap_lightning.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    refused = isinstance(error, (AuditError, GateError, RecordError, MisconfigurationException)) or (
        # A check of ours that an argument did not pass.
        isinstance(error, (ValueError, TypeError)) and bool(frames) and frames[-1].filename.startswith(ours)
    )
    if refused:
        return Outcome(REFUSED, error=_one_line(error))
    if str(error) == ELSEWHERE:
        return Outcome(FAILED, error=ELSEWHERE)
    libraries = (ours, *(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")))
    own = [frame for frame in frames if not frame.filename.startswith((*libraries, "<"))]
    place = (own or frames)[-1]
    where = f"{place.filename}, line {place.lineno}, in {place.name}"
    if isinstance(error, SyntaxError):
        where = f"{error.filename}, line {error.lineno}"
    line = f"the audit failed at {where}: {type(error).__name__}: {_one_line(error)}"
    return Outcome(FAILED, error=line, details="".join(traceback.format_exception(error)))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
