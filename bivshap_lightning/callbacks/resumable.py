"""An audit whose finished chunks are kept on disk, so that it can be stopped and resumed, with a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from tqdm.auto import tqdm

from bivshap_lightning.audit.audit import Audit, AuditSettings, ChunkResult
from bivshap_lightning.audit.chunk_store import ChunkStore
from bivshap_lightning.audit.selection import SampleChunk, SampleSelection
from bivshap_lightning.callbacks.collectives import AttributedErrors
from bivshap_lightning.callbacks.lightning import gather_objects
from bivshap_lightning.callbacks.runner import AuditRunner


class ResumableRunner(AuditRunner):
    """Keeps finished chunks on disk and shows a progress bar; see :class:`AuditRunner` for the other arguments.

    Args:
        settings: what is computed.
        store: makes the chunk store, given the device.
        chunk_size: samples that are explained together, for any number of processes.
        arguments: of :class:`AuditRunner`.
    """

    may_set_up = True

    def __init__(
        self,
        settings: AuditSettings,
        *,
        store: Callable[[str], ChunkStore],
        chunk_size: int,
        arguments: Mapping[str, Any],
    ) -> None:
        super().__init__(settings, **arguments)
        self._make_store, self._size = store, chunk_size
        self._finished: set[str] = set()
        self._bar: Any = None
        self.store: ChunkStore | None = None

    def _chunk_size(self, trainer: Any) -> int:
        return self._size

    def _explain(
        self, trainer: Any, pl_module: Any, audit: Audit, selection: SampleSelection, start: float
    ) -> list[ChunkResult]:
        self.store = self._make_store(pl_module.device.type)
        self._finished = self.store.finished()
        if self.in_lockstep:  # then all must find the same chunks finished
            self._finished = set.intersection(*gather_objects(trainer, self._finished))
        hidden = None if trainer.is_global_zero else True  # None: where there is no terminal
        n_samples = selection.n_mine
        with tqdm(total=n_samples, desc="explaining", unit="sample", disable=hidden, file=sys.stderr) as self._bar:
            return super()._explain(trainer, pl_module, audit, selection, start)

    def _explain_chunk(self, audit: Audit, forward: nn.Module, chunk: SampleChunk, deadline: float) -> ChunkResult:
        if self.store is None:  # pragma: no cover - made before the first chunk
            raise RuntimeError("no chunk store")
        part = self.store.load(chunk, self._finished)
        if part is None:
            part = super()._explain_chunk(audit, AttributedErrors(forward), chunk, deadline)
            self.store.save(chunk, part)
        self._bar.update(len(chunk.places))
        return part
