"""Background rows that the callback takes from the training data by itself.

A number of rows is drawn once, by the seed of the audit, on the first process, and sent to all. Nothing of the user's
is advanced: rows are read from a copy of the dataset (which shares its arrays) by a plain loader, with the random
generators seeded and put back. They pass the batch hooks of module and datamodule, as the batches of validation do.
"""

from __future__ import annotations

import io
import pickle
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from bivshap_lightning.audit.batches import Batch, read_batch
from bivshap_lightning.audit.default_removal import FEWEST_ROWS, automatic_rows, is_table, remark_on_zero
from bivshap_lightning.audit.selection import SampleSelection
from bivshap_lightning.audit.settings import AuditSettings
from bivshap_lightning.callbacks.lightning import gather_objects, rank_zero_info
from bivshap_lightning.callbacks.trainer_state import trainer_preserved
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.game import Game
from bivshap_lightning.game.model import global_rngs_kept
from bivshap_lightning.game.state.modules import preserved
from bivshap_lightning.game.state.process import process_settings_kept

Rows = tuple[Tensor, ...]
Gather = Callable[[Any], list[Any]]

MAX_SAVED = 2**18
"""Elements of a background that a checkpoint keeps; a larger one is drawn again by the same seed."""


class UnreadableError(Exception):
    """Rows cannot be taken from a loader; the message says why."""


class AutomaticRemoval:
    """Decides what replaces absent players where the user gave a number of rows, or nothing.

    Args:
        dataloader_idx: which of several validation dataloaders is explained.
        input_fn: finds the inputs in a batch.
        may_set_up: whether a datamodule may be set up for fitting, to get at its training data.
    """

    def __init__(self, dataloader_idx: int, input_fn: Callable[[Any], Any] | None, *, may_set_up: bool = False) -> None:
        self._dataloader_idx, self._input_fn, self._may_set_up = dataloader_idx, input_fn, may_set_up
        self._wanted: int | None = None
        self._rows: Rows = ()
        self._source = ""
        self._said = ""

    def state_dict(self) -> dict[str, Any]:
        """The drawn rows, unless they are large, for a checkpoint."""
        if not self._rows or sum(part.numel() for part in self._rows) > MAX_SAVED:
            return {}
        return {"wanted": self._wanted, "rows": list(self._rows), "source": self._source}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Use the rows of a checkpoint if as many are wanted."""
        if state:
            self._wanted, self._rows, self._source = state["wanted"], tuple(state["rows"]), state["source"]

    def resolve(
        self, settings: AuditSettings, trainer: Any, batch: Batch, game: Game, selection: SampleSelection, stage: str
    ) -> AuditSettings:
        """The settings with the rows that replace absent players, or with a remark where zero is a poor choice.

        A collective: every process must call it.

        Args:
            settings: of the audit.
            trainer: the Trainer.
            batch: one of the samples.
            game: of that sample, with a fixed replacement.
            selection: the samples.
            stage: whose samples they are.

        Raises:
            ValueError: the wanted number of rows cannot be had.
        """
        wanted = settings.background
        if settings.baselines is not None or not (wanted is None or isinstance(wanted, int)):
            return settings
        n_rows = wanted if isinstance(wanted, int) else 0
        if wanted is None and is_table(batch):
            least = find_explainer(settings.method).minimum_evaluations(game)
            n_rows = automatic_rows(game.n_players, least, settings.n_evaluations)
        if not n_rows:
            return self._without_rows(settings, trainer, batch, selection)
        shapes = [x.shape[1:] for x in batch.inputs]
        if self._wanted != n_rows or [part.shape[1:] for part in self._rows] != shapes:
            self._rows, self._source = self._draw(n_rows, trainer, batch, selection, stage, settings.seed)
            self._wanted = n_rows
        if wanted is None and len(self._rows[0]) < FEWEST_ROWS:  # a mean over so few depends on the draw
            return self._without_rows(settings, trainer, batch, selection)
        self._say(
            f"absent players are replaced by {len(self._rows[0])} {self._source}, and values are averaged over them"
        )
        rows = tuple(part.to(x.device) for part, x in zip(self._rows, batch.inputs, strict=True))
        return replace(settings, background=rows, background_source=self._source)

    def _without_rows(
        self, settings: AuditSettings, trainer: Any, batch: Batch, selection: SampleSelection
    ) -> AuditSettings:
        negative = any(bool((x < 0).any()) for row in selection.rows().values() for x in row[: len(batch.inputs)])
        is_normalised = any(gather_objects(trainer, negative))
        reason = f"there are only {len(self._rows[0])} rows of data" if self._rows else ""
        remark = remark_on_zero(batch, settings.n_evaluations, is_normalised=is_normalised, reason=reason)
        self._say(remark or "absent players are 0")
        return replace(settings, remark=remark)

    def _say(self, sentence: str) -> None:
        if sentence and sentence != self._said:
            rank_zero_info(f"bivshap: {sentence}")
        self._said = sentence

    def _draw(
        self, n_rows: int, trainer: Any, batch: Batch, selection: SampleSelection, stage: str, seed: int
    ) -> tuple[Rows, str]:
        """The rows, the same on all processes, and where they are from."""
        found: tuple[Rows, str] | None = None
        reasons: list[str] = []
        if trainer.is_global_zero:
            for source, loader in self._loaders(trainer, stage, reasons):
                try:
                    found = _rows_of(loader, n_rows, trainer, batch, self._input_fn, seed), f"rows of the {source} data"
                    break
                except Exception as error:
                    reasons.append(f"{source} data: {' '.join(str(error).split())}")
        found, reasons = gather_objects(trainer, (found, reasons))[0]
        if found is not None:
            for reason in reasons:
                rank_zero_info(f"bivshap: no background rows from {reason}")
            return found
        seen: dict[str, Rows] = {}
        for part in gather_objects(trainer, selection.rows()):
            seen |= part
        rows = [seen[key][: len(batch.inputs)] for key in selection.keys if key in seen]
        alike = [row for row in rows if [x.shape for x in row] == [x.shape[1:] for x in batch.inputs]]
        if len(alike) < 2:
            raise ValueError(
                f"`background` must be rows where none can be drawn, got {n_rows} as their number ("
                f"{'; '.join(reasons)}). Pass a tensor of rows, or `baselines`."
            )
        for reason in reasons:
            rank_zero_info(f"bivshap: no background rows from {reason}")
        return tuple(torch.stack(column) for column in zip(*alike[:n_rows], strict=True)), "of the explained samples"

    def _loaders(self, trainer: Any, stage: str, reasons: list[str]) -> Iterator[tuple[str, Any]]:
        """The loaders to try, with what their data is called."""
        training = trainer.train_dataloader
        if training is None:
            try:
                training = self._training_loaders(trainer)
            except Exception as error:
                reasons.append(f"training data: {type(error).__name__}: {' '.join(str(error).split())}")
        for loader in _flat(training):
            yield "training", loader
        explained = list(_flat(trainer.val_dataloaders if stage == "validate" else trainer.test_dataloaders))
        if self._dataloader_idx < len(explained):
            yield ("validation" if stage == "validate" else "test"), explained[self._dataloader_idx]

    def _training_loaders(self, trainer: Any) -> Any:
        """What the user's own `train_dataloader` returns, outside of fitting; None if there is no such method."""
        for owner in filter(None, (trainer.datamodule, trainer.lightning_module)):
            method = getattr(type(owner), "train_dataloader", None)
            is_theirs = method is None or method.__module__.partition(".")[0] in ("lightning", "pytorch_lightning")
            if is_theirs and "train_dataloader" not in vars(owner):  # `from_datasets` puts it into the instance
                continue
            with global_rngs_kept([]), preserved(trainer.lightning_module):
                try:
                    return owner.train_dataloader()
                except Exception:
                    if not self._may_set_up or owner is not trainer.datamodule:
                        raise
                    owner.setup("fit")
                    return owner.train_dataloader()
        return None


def _flat(loaders: Any) -> Iterator[Any]:
    """The loaders in a collection of them."""
    loaders = getattr(loaders, "iterables", loaders)  # Lightning's CombinedLoader
    if isinstance(loaders, Mapping):
        loaders = list(loaders.values())
    if isinstance(loaders, list | tuple):
        for part in loaders:
            yield from _flat(part)
    elif loaders is not None:
        yield loaders


def _rows_of(
    loader: Any, n_rows: int, trainer: Any, like: Batch, input_fn: Callable[[Any], Any] | None, seed: int
) -> Rows:
    """Rows of a loader's dataset, drawn by the seed, as the model gets them.

    Raises:
        UnreadableError: the dataset has no length, makes its own batches, cannot be copied or has other shapes.
    """
    module = trainer.lightning_module
    with global_rngs_kept([module.device]), process_settings_kept(), preserved(module), trainer_preserved(module):
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 - what datasets draw from, put back afterwards
        torch.manual_seed(seed)
        batch = trainer.precision_plugin.convert_input(drawn_batch(loader, n_rows, seed))
        batch = module._on_before_batch_transfer(batch, dataloader_idx=0)
        batch = trainer.strategy.batch_to_device(batch, module.device)
        found = read_batch(batch, input_fn, module.forward).inputs
    got, wanted = [tuple(x.shape[1:]) for x in found], [tuple(x.shape[1:]) for x in like.inputs]
    if got != wanted:
        raise UnreadableError(f"its rows have the shapes {got}, the explained samples {wanted}")
    return tuple(x.detach().cpu().clone() for x in found)


def drawn_batch(loader: Any, n_rows: int, seed: int) -> Any:
    """Rows drawn without replacement from the dataset of a loader, as one batch; the loader is not iterated.

    Args:
        loader: a DataLoader.
        n_rows: how many; all of a smaller dataset.
        seed: of the draw.

    Raises:
        UnreadableError: the dataset has no length, makes its own batches, or cannot be copied.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> loader = DataLoader(TensorDataset(torch.arange(10.0)), shuffle=True)
        >>> (rows,) = drawn_batch(loader, 3, seed=0)
        >>> rows.shape, torch.equal(rows, drawn_batch(loader, 3, seed=0)[0])
        (torch.Size([3]), True)
    """
    if not isinstance(loader, DataLoader):
        raise UnreadableError(f"a {type(loader).__name__} is no DataLoader")
    dataset = loader.dataset
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise UnreadableError(f"a {type(dataset).__name__} has no length")
    if loader.batch_sampler is None:
        raise UnreadableError("the dataset makes its own batches")
    among = _indices_of(loader.sampler) or range(len(dataset))
    order = torch.randperm(len(among), generator=torch.Generator().manual_seed(seed))[:n_rows]
    if not len(order):
        raise UnreadableError("the dataset is empty")
    copy, collate_fn = copied((dataset, loader.collate_fn))
    rows: DataLoader[Any] = DataLoader(
        copy,
        batch_size=len(order),
        sampler=[among[k] for k in order.tolist()],
        collate_fn=collate_fn,
        generator=torch.Generator(),
    )
    return next(iter(rows))


def _indices_of(sampler: Any) -> list[Any] | None:
    """The part of the dataset that a sampler is restricted to; inside Lightning's distributed wrapper too."""
    sampler = getattr(getattr(sampler, "dataset", None), "_sampler", sampler)
    indices = getattr(sampler, "indices", None)
    return None if indices is None else list(indices)


class _SharingPickler(pickle.Pickler):
    """Pickles everything but arrays and code, which the copy shares with the original."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.shared: list[Any] = []

    def persistent_id(self, value: Any) -> int | None:
        if isinstance(value, Tensor | np.ndarray | type | FunctionType | BuiltinFunctionType | ModuleType):
            self.shared.append(value)
            return len(self.shared) - 1
        return None

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.Generator):
            return _generator, (value.device, value.get_state())
        return NotImplemented


class _SharingUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: list[Any]) -> None:
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, key: int) -> Any:
        return self._shared[key]


def _generator(device: torch.device, state: Tensor) -> torch.Generator:
    return torch.Generator(device=device).set_state(state)


def copied(value: Any) -> Any:
    """A copy with own counters, caches and random generators, which shares arrays and code with the original.

    Args:
        value: such as a dataset.

    Raises:
        UnreadableError: it holds something that cannot be copied, such as an open file.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> original = TensorDataset(torch.arange(3.0))
        >>> copy = copied(original)
        >>> copy is original, copy.tensors[0] is original.tensors[0]
        (False, True)
    """
    file = io.BytesIO()
    pickler = _SharingPickler(file)
    try:
        pickler.dump(value)
        return _SharingUnpickler(io.BytesIO(file.getvalue()), pickler.shared).load()
    except Exception as error:  # whatever the user's classes raise
        raise UnreadableError(f"the dataset cannot be copied ({error})") from error
