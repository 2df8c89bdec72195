"""Finished parts of an audit on disk, so that an audit that was killed goes on where it stopped.

One NPZ file per chunk of samples, written whole or not at all, that holds numbers and words and can hold no code. Its
name is a digest of all that the numbers depend on: another checkpoint, other settings, other samples, another release
look for other names and find nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bivshap_lightning.audit.audit import ExplainedSample, Part
from bivshap_lightning.audit.selection import Chunk
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.storage import read_record, write_record

KIND = "bivshap_lightning.AuditPart"
_GRAPH_ARRAYS = ("weights", "shapley", "standard_error")


class Journal:
    """The finished parts of one audit.

    Args:
        folder: where they are kept; made when the first one is.
        identity: what all parts depend on, in JSON's types.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Journal(Path(folder), {"checkpoint": "5f3a"}).finished()
        set()
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self._folder, self._identity = folder, json.dumps(identity, sort_keys=True)

    def finished(self) -> set[str]:
        """The names of all parts there are, those of other audits among them."""
        return {path.name for path in self._folder.glob("*.npz")}

    def name_of(self, chunk: Chunk) -> str:
        """The name under which the part of a chunk is kept."""
        text = json.dumps([self._identity, chunk.places, chunk.keys])
        return f"{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}.npz"

    def load(self, chunk: Chunk, names: Collection[str]) -> Part | None:
        """The part of a chunk, if its name is among the given ones and the file is intact."""
        name = self.name_of(chunk)
        if name not in names:
            return None
        try:
            return _from_fields(read_record(self._folder / name, KIND, tuple(f.name for f in dataclasses.fields(Part))))
        except (OSError, ValueError, KeyError, TypeError):  # then it is found anew
            return None

    def save(self, chunk: Chunk, part: Part) -> None:
        """Keep the part of a chunk."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_record(self._folder / self.name_of(chunk), KIND, _to_fields(part))

    def remove(self) -> None:
        """Forget all parts, those of other audits and half-written ones too."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                path.unlink(missing_ok=True)
            self._folder.rmdir()


def _to_fields(part: Part) -> dict[str, Any]:
    """A part as named arrays and JSON: what a field holds that is no array stays with the field, arrays go beside."""
    fields = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    fields["states"] = [list(key) for key in part.states]
    for number, state in enumerate(part.states.values()):
        fields |= {f"states.{number}.{name}": values for name, values in state.items()}
    fields["samples"] = []
    for number, sample in enumerate(part.samples):
        values = {f.name: getattr(sample, f.name) for f in dataclasses.fields(sample)}
        graph = values.pop("graph")
        values |= {"names": list(graph.names), "provenance": dict(graph.provenance)}
        values |= {name: getattr(graph, name) for name in _GRAPH_ARRAYS}
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        fields |= {f"samples.{number}.{name}": value for name, value in arrays.items()}
        fields["samples"].append({name: value for name, value in values.items() if name not in arrays})
    return fields


def _from_fields(fields: Mapping[str, Any]) -> Part:
    beside: dict[tuple[str, int], dict[str, Any]] = {}
    for path, value in fields.items():
        if path.count(".") == 2:
            field, number, name = path.split(".")
            beside.setdefault((field, int(number)), {})[name] = value
    states = {(metric, explainer): beside["states", k] for k, (metric, explainer) in enumerate(fields["states"])}
    samples = []
    for k, plain in enumerate(fields["samples"]):
        values = plain | beside["samples", k]
        graph = ExplanationGraph(**{name: values.pop(name) for name in (*_GRAPH_ARRAYS, "names", "provenance")})
        samples.append(ExplainedSample(graph=graph, **values))
    rest = {f.name: fields[f.name] for f in dataclasses.fields(Part)}
    return Part(**rest | {"states": states, "samples": samples})
