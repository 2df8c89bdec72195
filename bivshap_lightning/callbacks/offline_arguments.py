"""The command line of `bivshap audit` beyond its own options: for the user's classes, the Trainer and the callback.

Values come from three places, later ones taking precedence: what `save_hyperparameters` stored in the checkpoint, the
config that LightningCLI wrote, the command line. Classes named in config and command line are imported, because the
user wrote them. Values from a checkpoint are passed on unchanged and never imported, unless the checkpoint is trusted.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import yaml

from bivshap_lightning.callbacks.bivshap import BivShapCallback
from bivshap_lightning.callbacks.checkpoint import TRUST, AuditError, Checkpoint
from bivshap_lightning.callbacks.lightning import package_of

INSTALL = "pip install 'jsonargparse[signatures]>=4.32'"
# Trainer arguments of a config that are ignored, because they concern the training run only.
NOT_FROM_CONFIG = ("callbacks", "logger", "default_root_dir", "fast_dev_run", "enable_checkpointing", "profiler")
# Arguments of the callback that do not apply to an audit of one trained model. With a time budget the numbers would
# depend on the speed of the machine, and a resumed audit could differ from an uninterrupted one.
NOT_FOR_AUDIT = {"every_n_epochs", "max_share", "time_budget", "on_error", "write_record", "name"}
BASES = {"model": "LightningModule", "data": "LightningDataModule"}


@dataclass(frozen=True)
class Ingredients:
    """The objects and arguments of an audit.

    Attributes:
        lightning: the Lightning package of the model.
        model: the module, restored from the checkpoint.
        data: the datamodule; None if the model has its own dataloaders.
        trainer: arguments of the Trainer that were given.
        audit: arguments of the callback.
        identity: everything except the samples that the numbers depend on, as JSON types.
    """

    lightning: ModuleType
    model: Any
    data: Any
    trainer: dict[str, Any]
    audit: dict[str, Any]
    identity: dict[str, Any]


class Arguments:
    """Reads the arguments and instantiates the objects.

    Args:
        checkpoint: of the model.
        model: import path of its class; None if the config names it.
        data: import path of the datamodule's class, likewise.
        config: path of a config that LightningCLI wrote, or None.
    """

    def __init__(self, checkpoint: Checkpoint, model: str | None, data: str | None, config: Path | None) -> None:
        self._checkpoint = checkpoint
        written = {} if config is None else _read_config(config)
        self._classes: dict[str, Any] = {}
        self._config: dict[str, Any] = {}
        for section, path in (("model", model), ("data", data)):
            named, values = _class_and_arguments(written.get(section), section, config)
            if path or named:
                self._classes[section] = _find_class(str(path or named), section)
                self._config[section] = values
        if "model" not in self._classes:
            raise AuditError(
                "`--model` must name the class of the LightningModule, got none"
                f"{'' if config is None else f', and no class_path in {config}'}. Pass --model package.module.Class."
            )
        package = package_of(self._classes["model"], BASES["model"])
        if "data" in self._classes and package is not package_of(self._classes["data"], BASES["data"]):
            raise AuditError(
                "`--data` must come from the same Lightning as `--model`, got one from `lightning` and one from "
                "`pytorch_lightning`."
            )
        self._lightning: Any = package
        trainer = written.get("trainer") or {}
        self._config["trainer"] = {k: v for k, v in trainer.items() if k not in NOT_FROM_CONFIG}
        if type(written.get("seed_everything")) is int:
            self._config["seed_everything"] = written["seed_everything"]

    def help(self) -> str:
        """All arguments there are."""
        return str(self._parser({}).format_help())

    def make(self, words: Sequence[str]) -> Ingredients:
        """Read the command line and instantiate model and data.

        Raises:
            AuditError: an argument is unknown, has a wrong value, or is missing.
        """
        saved = {section: self._saved_arguments(section, words) for section in self._classes}
        parser = self._parser(saved)
        try:
            given = parser.parse_args(["--config", yaml.safe_dump(self._config), *words])
        except argparse.ArgumentError as error:
            raise AuditError(f"{' '.join(str(error).split())}. List all arguments with --options.") from error
        self._lightning.seed_everything(given.seed_everything, workers=True, verbose=False)
        made = getattr(parser, "instantiate", None) or parser.instantiate_classes  # the name before jsonargparse 4.49
        values = made(given)
        objects = {
            section: kind(**saved[section], **vars(values.get(section) or argparse.Namespace()))
            for section, kind in self._classes.items()
        }
        model, data = objects["model"], objects.get("data")
        self._checkpoint.restore(model, data)
        trainer = {name: value for name, value in vars(values.trainer).items() if value is not None}
        identity = self._identity(yaml.safe_load(parser.dump(given)))
        return Ingredients(self._lightning, model, data, trainer, dict(vars(values.audit)), identity)

    def _parser(self, skipped: Mapping[str, Mapping[str, Any]]) -> Any:
        try:
            jsonargparse: Any = import_module("jsonargparse")
        except ImportError as error:
            raise AuditError(f"`bivshap audit` needs jsonargparse, which is not installed. {INSTALL}") from error
        parser = jsonargparse.ArgumentParser("bivshap audit", exit_on_error=False)
        parser.add_argument("--config", action=jsonargparse.ActionConfigFile, help=argparse.SUPPRESS)
        parser.add_argument("--seed_everything", type=int, default=0, help="seed of all that model and data draw")
        common: dict[str, Any] = {"fail_untyped": False, "instantiate": False}
        for section, kind in self._classes.items():
            parser.add_class_arguments(kind, section, skip=set(skipped.get(section, ())), sub_configs=True, **common)
        parser.add_class_arguments(self._lightning.Trainer, "trainer", sub_configs=True, **common)
        parser.add_class_arguments(BivShapCallback, "audit", skip=set(NOT_FOR_AUDIT), **common)
        return parser

    def _saved_arguments(self, section: str, words: Sequence[str]) -> dict[str, Any]:
        """Arguments from the checkpoint that are not given in config or command line."""
        given = {m[1] for word in words if (m := re.match(rf"--{section}\.(\w+)", word))} | set(self._config[section])
        saved = self._checkpoint.saved_arguments(self._classes[section])
        values = {name: value for name, value in saved.items() if name not in given}
        classes = {name: path for name, value in values.items() if (path := _named_class(value)) is not None}
        for name, path in classes.items():
            if not self._checkpoint.is_trusted:
                raise AuditError(
                    f"`--{section}.{name}` must be given: the checkpoint only names a class for it, {path}, which "
                    f"is not imported from an untrusted checkpoint. Pass it, or --config, or {TRUST}."
                )
            self._config[section][name] = values.pop(name)
        return values

    def _identity(self, given: Mapping[str, Any]) -> dict[str, Any]:
        kind = self._classes["model"]
        return {
            "checkpoint": self._checkpoint.sha256,
            "model": f"{kind.__module__}.{kind.__qualname__}",
            "code": hashlib.sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest(),
            "arguments": {name: given.get(name) for name in ("model", "audit", "seed_everything")},
            "precision": (given.get("trainer") or {}).get("precision"),
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
        }


def _read_config(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise AuditError(f"`--config` must be a YAML file as LightningCLI writes it, got {path} ({reason}).") from error
    if not isinstance(found, dict) or not all(isinstance(found.get(s) or {}, dict) for s in (*BASES, "trainer")):
        raise AuditError(
            "`--config` must be a YAML file as LightningCLI writes it, with mappings `model`, `data` and `trainer`, "
            f"got something else in {path}."
        )
    return found


def _class_and_arguments(section: Any, name: str, path: Path | None) -> tuple[str | None, dict[str, Any]]:
    """A section of the config: with `class_path` if the CLI accepts subclasses, otherwise only the arguments."""
    section = dict(section or {})
    if "class_path" not in section:
        return None, section
    values = section.get("init_args") or {}
    if not isinstance(values, dict):
        raise AuditError(f"`--config` must hold a mapping {name}.init_args, got {type(values).__name__} in {path}.")
    return str(section["class_path"]), dict(values)


def _find_class(path: str, section: str) -> type:
    module, _, name = path.rpartition(".")
    kind, found = BASES[section], None
    if module:
        try:
            found = getattr(import_module(module), name, None)
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):
                raise  # something that the user's module imports
    if not isinstance(found, type) or package_of(found, kind) is None:
        got = "nothing of that name" if found is None else "something else"
        raise AuditError(
            f"`--{section}` must be the import path of a {kind}, package.module.Class, got {path}, where there is "
            f"{got}. Modules are looked for in {Path.cwd()} and among installed packages."
        )
    return found


def _named_class(value: Any) -> str | None:
    """The class path in a value from a checkpoint, if any."""
    if isinstance(value, Mapping):
        if "class_path" in value:
            return str(value["class_path"])
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return next((path for item in value if (path := _named_class(item)) is not None), None)
    return None
