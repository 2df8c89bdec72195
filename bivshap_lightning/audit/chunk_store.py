"""Finished chunks of an audit on disk, so that an audit that was stopped goes on where it stopped.

One NPZ file per chunk of samples, written whole or not at all, with numbers and words and without code. Its name is a
digest of everything that the numbers depend on: another checkpoint, other settings, other samples or another release
have other names. The file repeats what it belongs to, and is read only if that is the chunk asked for.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bivshap_lightning.audit.audit import ChunkResult, ExplainedSample
from bivshap_lightning.audit.json_fields import decode, encode
from bivshap_lightning.audit.record_decisions import SufficientSummary
from bivshap_lightning.audit.selection import SampleChunk
from bivshap_lightning.graph.conversion import explanation_from_fields, explanation_to_fields
from bivshap_lightning.graph.storage import read_record, write_record

KIND = "bivshap_lightning.AuditChunk"
GRAPH = "graph:"
"""Marks the fields of a sample's graph."""


class StorageError(Exception):
    """A finished chunk could not be written; the message says where and why."""


class ChunkStore:
    """The finished chunks of one audit.

    Args:
        folder: where they are kept; made, in a folder that exists, when the first one is.
        identity: what all chunks depend on, in JSON's types.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ChunkStore(Path(folder), {"checkpoint": "5f3a"}).finished()
        set()
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self._folder, self._identity = folder, json.dumps(identity, sort_keys=True)

    def finished(self) -> set[str]:
        """The names of all files of chunks, those of other audits among them."""
        try:
            return {path.name for path in self._folder.glob("*.npz") if path.is_file()}
        except OSError:  # a folder that cannot be listed holds nothing to go on with
            return set()

    def name_of(self, chunk: SampleChunk) -> str:
        """The name of the file of a chunk."""
        return f"{self._digest(chunk)}.npz"

    def load(self, chunk: SampleChunk, names: Collection[str]) -> ChunkResult | None:
        """What was found about a chunk, if its file is among the given names, intact, and about this very chunk."""
        name = self.name_of(chunk)
        if name not in names:
            return None
        wanted = (*(f.name for f in dataclasses.fields(ChunkResult)), "digest")
        try:
            fields = read_record(self._folder / name, KIND, wanted)
            part = _from_fields(fields)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # then it is computed again
            return None
        belongs = fields["digest"] == self._digest(chunk) and [s.index for s in part.samples] == list(chunk.places)
        return part if belongs else None

    def save(self, chunk: SampleChunk, part: ChunkResult) -> None:
        """Keep what was found about a chunk.

        Raises:
            StorageError: the disk is full, the folder is gone or cannot be written to.
        """
        try:
            self._folder.mkdir(exist_ok=True)  # but not the output folder: if that is gone, so are earlier chunks
            write_record(self._folder / self.name_of(chunk), KIND, {**_to_fields(part), "digest": self._digest(chunk)})
        except OSError as error:
            raise StorageError(
                f"a finished chunk must be written to {self._folder}, got {error.strerror or error}. Chunks written "
                "before are kept: make room or restore the folder, and start the same command again."
            ) from error

    def remove(self) -> None:
        """Delete all chunks, those of other audits and half-written ones too; files of others stay."""
        with suppress(OSError):
            for path in self._folder.iterdir():
                if path.is_file() and (path.suffix == ".npz" or path.name.endswith(".npz.tmp") or ".npz." in path.name):
                    path.unlink(missing_ok=True)
            self._folder.rmdir()

    def _digest(self, chunk: SampleChunk) -> str:
        text = json.dumps([self._identity, chunk.places, chunk.keys])
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _to_fields(part: ChunkResult) -> dict[str, Any]:
    """A result as named arrays and JSON: what a field holds that is no array stays with the field, arrays go beside."""
    fields = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    fields["states"] = [list(key) for key in part.states]
    for number, state in enumerate(part.states.values()):
        fields |= {f"states/{number}/{name}": values for name, values in state.items()}
    fields["samples"] = []
    for number, sample in enumerate(part.samples):
        values = {f.name: getattr(sample, f.name) for f in dataclasses.fields(sample) if f.name != "graph"}
        values["sufficient"] = encode(sample.sufficient)
        values |= {f"{GRAPH}{name}": value for name, value in explanation_to_fields(sample.graph).items()}
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        fields |= {f"samples/{number}/{name}": value for name, value in arrays.items()}
        fields["samples"].append({name: value for name, value in values.items() if name not in arrays})
    return fields


def _from_fields(fields: Mapping[str, Any]) -> ChunkResult:
    beside: dict[tuple[str, int], dict[str, Any]] = {}
    for path, value in fields.items():
        if path.count("/") == 2:
            field, number, name = path.split("/")
            beside.setdefault((field, int(number)), {})[name] = value
    states = {(metric, explainer): beside["states", k] for k, (metric, explainer) in enumerate(fields["states"])}
    samples = []
    for k, plain in enumerate(fields["samples"]):
        values = plain | beside["samples", k]
        graph = {name.removeprefix(GRAPH): values.pop(name) for name in list(values) if name.startswith(GRAPH)}
        found = values.pop("sufficient")
        sufficient = None if found is None else decode(SufficientSummary, found, source="chunk")
        samples.append(ExplainedSample(graph=explanation_from_fields(graph), sufficient=sufficient, **values))
    rest = {f.name: fields[f.name] for f in dataclasses.fields(ChunkResult)}
    return ChunkResult(**rest | {"states": states, "samples": samples})
