"""`Reference`: the mean importance profile of trusted records, the file beside a rules file that drift is judged by.

`bivshap calibrate` writes it. The rules file names it together with its checksum, so a reference that was changed after
the calibration, or that belongs to other rules, is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.audit.json_fields import NOT_STORED, decode, encode
from bivshap_lightning.audit.record import AuditRecord, Configuration
from bivshap_lightning.audit.record_checks import TOLERANCE
from bivshap_lightning.audit.record_files import checksum, read_regular_file
from bivshap_lightning.audit.record_parts import COMPARED
from bivshap_lightning.gate.profile import Profile, SampleProfile
from bivshap_lightning.gate.rules import GateError
from bivshap_lightning.graph.roles import ROLES
from bivshap_lightning.graph.storage import write_record
from bivshap_lightning.text import printable, shown

KIND = "bivshap_lightning.Reference"
REFERENCE_VERSION = 1
MAX_BYTES = 256 * 2**20
SAME_SETTINGS = (*COMPARED, "seed", "n_evaluations")
"""Configuration in which a record must agree with the reference: other settings have other distances."""


@dataclass(frozen=True)
class Calibrated:
    """How the threshold of one number was found.

    Attributes:
        distances: of each trusted record from the mean of the others.
        multiple: of their mean, which is the threshold; None for an absolute threshold.
        threshold: the result.
    """

    distances: tuple[float, ...]
    multiple: float | None
    threshold: float


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The mean over trusted records.

    Attributes:
        configuration: of the trusted audits.
        records: what messages call the trusted records.
        samples: mean profiles.
        n_features: number of features that all samples have in common; 0 if players are each sample's own.
        calibrated: thresholds by number.
        source: what messages call it.

    Example:
        >>> Reference(configuration=Configuration("logit", "softmax", "automatic", "0", 1, 1e-5), samples=()).profile
        Profile(samples=(), has_features=False, source='reference')
    """

    configuration: Configuration
    samples: tuple[SampleProfile, ...]
    records: tuple[str, ...] = ()
    n_features: int = 0
    calibrated: Mapping[str, Calibrated] = field(default_factory=dict)
    source: str = field(default="reference", compare=False, metadata=NOT_STORED)

    @property
    def profile(self) -> Profile:
        """The mean profile."""
        return Profile(self.samples, self.n_features > 0, self.source)

    @property
    def name(self) -> str:
        """What a verdict calls it."""
        return f"{self.source} (mean of {len(self.records)} trusted records)"

    @property
    def content(self) -> dict[str, Any]:
        """The JSON values of the file, without its checksum."""
        fields: dict[str, Any] = encode(self)
        content: dict[str, Any] = json.loads(json.dumps({"kind": KIND, "version": REFERENCE_VERSION, **fields}))
        return content

    @property
    def sha256(self) -> str:
        """The checksum by which a rules file names the reference."""
        return checksum(self.content)

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the file.

        Args:
            path: of a JSON file.

        Returns:
            The checksum, for the rules file.

        Raises:
            OSError: the file cannot be written.
        """
        content = self.content
        digest = checksum(content)
        fields = {name: value for name, value in content.items() if name not in ("kind", "version")}
        write_record(path, KIND, {**fields, "sha256": digest}, version=REFERENCE_VERSION)
        return digest

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, sha256: str | None = None) -> Reference:
        """Read and verify the file.

        Args:
            path: of the JSON file.
            sha256: the checksum that it must have; None for the one in the file itself.

        Raises:
            GateError: it is missing, damaged, changed or of another version.
        """
        content = _read(Path(path))
        stored = content.pop("sha256", None)
        try:
            found = checksum(content)
        except (ValueError, RecursionError) as error:
            raise _not_intact(Path(path), error) from error
        if found != stored or (sha256 is not None and found != sha256):
            raise GateError(
                f"`reference` must be the file that `bivshap calibrate` wrote with the rules, got one that was changed "
                f"in {path}. Fetch it again, or calibrate again."
            )
        fields = {name: value for name, value in content.items() if name not in ("kind", "version")}
        try:
            reference = decode(cls, fields, source=str(path))
        except RecordError as error:
            raise GateError(f"`reference` must be intact, got {printable(str(error))}") from error
        _verify(reference, path)
        return cls(**{**vars(reference), "source": str(path)})

    def demand_comparable(self, record: AuditRecord) -> None:
        """Refuse a record that was audited in another way than the trusted ones.

        Raises:
            GateError: naming the settings that differ.
        """
        demand_same_settings(record, self.configuration, self.source, names=SAME_SETTINGS)


def demand_same_settings(
    record: AuditRecord, configuration: Configuration, source: str, *, names: tuple[str, ...]
) -> None:
    """Refuse a record whose configuration differs from another one.

    Args:
        record: the record in question.
        configuration: of what it is compared with.
        source: what messages call that.
        names: the fields that must agree.

    Raises:
        GateError: naming the fields that differ.
    """
    pairs = {name: (getattr(configuration, name), getattr(record.configuration, name)) for name in names}
    differing = [
        f"{name.removeprefix('compared_')} (previous {old!r}, now {new!r})"
        for name, (old, new) in pairs.items()
        if old != new
    ]
    if differing:
        hint = "Audit both models the same way."
        if all("background rows #" in str(removal) for removal in pairs.get("removal", ("", ""))):
            hint += " Where the same background rows were meant, their values have changed: compare the tables first."
        raise GateError(
            f"{record.source} and {source} must agree in what they measure, got different {', '.join(differing)}. "
            f"{hint}"
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_regular_file(path, MAX_BYTES, "reference"))
    except RecordError as error:
        raise GateError(f"{error} Keep it beside the rules, or calibrate again.") from error
    except (ValueError, RecursionError) as error:
        raise _not_intact(path, error) from error
    kind = content.get("kind") if isinstance(content, dict) else type(content).__name__
    if not isinstance(content, dict) or kind != KIND:
        raise GateError(f"`reference` must be of kind {KIND!r}, got {shown(kind)} in {path}. Pass another file.")
    if content.get("version") is True or content.get("version") != REFERENCE_VERSION:
        raise GateError(
            f"`reference` must have version {REFERENCE_VERSION}, got {shown(content.get('version'))} in {path}. "
            "Upgrade bivshap_lightning to read later versions, or calibrate again."
        )
    return content


def _not_intact(path: Path, error: Exception) -> GateError:
    return GateError(f"`reference` must be an intact JSON file, got {path} ({printable(str(error))}). Fetch it again.")


def _verify(reference: Reference, path: str | os.PathLike[str]) -> None:
    for k, sample in enumerate(reference.samples):
        lengths = {len(sample.players), len(sample.shapley), len(sample.importance), *map(len, sample.roles.values())}
        if len(lengths) != 1 or set(sample.roles) != set(ROLES):
            raise GateError(f"`reference` must hold one value per player, got others for sample {k} in {path}.")
        shares = [share for values in (sample.importance, *sample.roles.values()) for share in values]
        if not all(0 <= share <= 1 + TOLERANCE for share in shares):
            raise GateError(f"`reference` must hold shares from 0 to 1, got others for sample {k} in {path}.")
    if reference.n_features < 0:
        raise GateError(f"`reference` must hold 0 features or more, got {reference.n_features} in {path}.")
