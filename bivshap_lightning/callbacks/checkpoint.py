"""Checkpoints: read without running code in them, and restored as Lightning does."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

TRUST = "--trust-checkpoint"


class AuditError(Exception):
    """An error that the user of `bivshap audit` can fix, in one line."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a LightningModule.

    Attributes:
        path: of the file.
        sha256: of the file.
        content: what the file holds.
        is_trusted: whether the file may name code to run.
    """

    path: Path
    sha256: str
    content: dict[str, Any]
    is_trusted: bool

    @classmethod
    def load(cls, path: Path, *, trust: bool = False) -> Checkpoint:
        """Read a checkpoint.

        Args:
            path: of the file.
            trust: unpickle all objects, which can run any code; otherwise tensors and plain values only.

        Raises:
            AuditError: the file is missing, damaged, no checkpoint, or needs trust.

        Example:
            >>> Checkpoint.load(Path("/no/such.ckpt"))
            Traceback (most recent call last):
            bivshap_lightning.callbacks.checkpoint.AuditError: `--checkpoint` must be a readable file, got /no/such.ckpt
            (No such file or directory).
        """
        try:
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256") if hasattr(hashlib, "file_digest") else _digest(file)
        except OSError as error:
            raise AuditError(f"`--checkpoint` must be a readable file, got {path} ({error.strerror}).") from error
        content = _unpickle(path, trust)
        if not isinstance(content, dict) or not isinstance(content.get("state_dict"), Mapping):
            found = sorted(map(str, content))[:8] if isinstance(content, Mapping) else type(content).__name__
            raise AuditError(
                f"`--checkpoint` must be a checkpoint of a LightningModule, got no `state_dict` in {path}, only "
                f"{found}. Write it by Trainer.save_checkpoint or ModelCheckpoint."
            )
        return cls(path, sha256.hexdigest(), content, trust)

    def saved_arguments(self, kind: Any) -> dict[str, Any]:
        """The arguments of a class's ``__init__`` that `save_hyperparameters` stored in the checkpoint.

        Args:
            kind: a LightningModule or a LightningDataModule.
        """
        saved = self.content.get(kind.CHECKPOINT_HYPER_PARAMS_KEY) or {}
        if not isinstance(saved, Mapping):
            return {}
        values = {str(name): value for name, value in saved.items() if not str(name).startswith("_")}
        parameters = inspect.signature(kind.__init__).parameters
        whole = str(self.content.get(kind.CHECKPOINT_HYPER_PARAMS_NAME))
        if whole in parameters and parameters[whole].kind != inspect.Parameter.VAR_KEYWORD:
            return {whole: values}
        if any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            return values
        return {name: value for name, value in values.items() if name in parameters}

    def restore(self, model: Any, data: Any) -> None:
        """Load weights and states, as Lightning does.

        Raises:
            AuditError: the weights are those of another model.
        """
        model.configure_model()
        model.on_load_checkpoint(self.content)
        try:
            model.load_state_dict(self.content["state_dict"], strict=model.strict_loading)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise AuditError(
                f"`--checkpoint` must hold the weights of {type(model).__name__}, got others in {self.path}: "
                f"{reason[:600]}{'...' * (len(reason) > 600)} Give the model's class and arguments as in training."
            ) from error
        if data is not None and type(data).__qualname__ in self.content:
            data.load_state_dict(self.content[type(data).__qualname__])


def _digest(file: Any) -> Any:
    """What `hashlib.file_digest` does from Python 3.11 on."""
    digest = hashlib.sha256()
    while block := file.read(2**20):
        digest.update(block)
    return digest


def _unpickle(path: Path, trust: bool) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=not trust)
    except pickle.UnpicklingError as error:
        # The first line names what is not allowed; the others explain how to allow it.
        unsafe = re.search(r"GLOBAL (\S+)|but got (?:<class ')?([\w.]+)|unrecognized function (\S+)", str(error))
        if unsafe is None:
            raise _damaged(path, error) from error
        name = next(group for group in unsafe.groups() if group)
        raise AuditError(
            f"`--checkpoint` must hold tensors and plain values only, got {name} in {path}, which is code. "
            f"If you know who wrote the file and trust it to run anything, add {TRUST}."
        ) from error
    except Exception as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> AuditError:
    reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".removesuffix(": ")
    return AuditError(f"`--checkpoint` must be an intact checkpoint file, got {path} ({reason}).")
