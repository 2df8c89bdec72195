"""The TOML file of rules, which is checked before anything is judged, and the reference that it may name."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.audit.record_files import checksum, read_regular_file
from bivshap_lightning.gate.reference import Reference
from bivshap_lightning.gate.rules import GateError, Rule
from bivshap_lightning.gate.thresholds import THRESHOLDS
from bivshap_lightning.graph.roles import ROLES
from bivshap_lightning.text import printable, shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

RULES_VERSION = 1
KEYS = ("metric", "feature", "class", *THRESHOLDS, "severity", "compare", "confidence")
FEATURE_KEYS = ("max_share", "role", "forbidden_role", "top", "makes_redundant")
"""What a rule about a named feature may say instead of naming a metric."""
TOP_KEYS = ("rule", "sha256", "reference", "reference_sha256")
MAX_BYTES = 2**20
"""Of a rules file, which people write."""


@dataclass(frozen=True)
class GateFile:
    """Rules and what they are judged against.

    Attributes:
        rules: at least one.
        reference: the mean of trusted records, if the file names one.

    Example:
        >>> GateFile((Rule(metric="top1_share", max=0.5),)).reference is None
        True
    """

    rules: tuple[Rule, ...]
    reference: Reference | None = None


def load_gate(path: str | os.PathLike[str]) -> GateFile:
    """Read a rules file and the reference that it names.

    Args:
        path: as in :func:`load_rules`. It may name a `reference`, the file beside it that `bivshap calibrate` wrote,
            and its checksum `reference_sha256`.

    Raises:
        GateError: as :func:`load_rules`; or the reference is missing, damaged or changed.
    """
    path = Path(path)
    content = _read(path)
    rules = _parse(content.get("rule"), path)
    if "sha256" in content and content["sha256"] != checksum({"rule": content["rule"]}):
        raise GateError(
            f"`sha256` must be the checksum of the rules, got {shown(content['sha256'])} in {path}. Fetch the "
            f'file again; if you changed the rules, set sha256 = "{checksum({"rule": content["rule"]})}".'
        )
    name, digest = content.get("reference"), content.get("reference_sha256")
    if name is None and digest is None:
        return GateFile(tuple(rules))
    if not isinstance(name, str) or not isinstance(digest, str) or Path(name).name != name:
        raise GateError(
            f"`reference` must be the name of a file beside the rules, with `reference_sha256`, got {shown(name)} and "
            f"{shown(digest)} in {path}. Calibrate again."
        )
    return GateFile(tuple(rules), Reference.load(path.with_name(name), sha256=digest))


def load_rules(path: str | os.PathLike[str]) -> list[Rule]:
    r"""Read the rules of a rules file.

    Args:
        path: of a TOML file with one ``[[rule]]`` per rule; "class" stands for `class_name`. It may begin with
            `version` and with `sha256`, the checksum of the rules, which detects damage that TOML does not show; the
            message about a wrong checksum has the right one.

    Raises:
        GateError: The file is missing, damaged, of a later version, empty, or has a rule that nothing could meet.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "gate.toml")
        ...     _ = path.write_text('[[rule]]\nfeature = "sex"\nmax_share = 0.05\ntop = false')
        ...     [rule.name for rule in load_rules(path)]
        ['feature/share of sex: max 0.05', 'feature/place of sex: min 2']
    """
    return list(load_gate(path).rules)


def as_gate(rules: str | os.PathLike[str] | Sequence[Rule] | GateFile) -> GateFile:
    """Rules with their reference, given as such, as rules or as the path of their file.

    Example:
        >>> as_gate([Rule(metric="class_graph/density", max=0.2)]).rules[0].metric
        'class_graph/density'
    """
    if isinstance(rules, GateFile):
        return rules
    if isinstance(rules, str | os.PathLike):
        return load_gate(rules)
    rules = tuple(rules)
    if not rules or not all(isinstance(rule, Rule) for rule in rules):
        raise GateError(f"`rules` must be a path or at least one Rule, got {shown(rules)}.")
    return GateFile(rules)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = parse_toml(read_regular_file(path, MAX_BYTES, "rules").decode())
    except RecordError as error:
        raise GateError(str(error)) from error
    except (ValueError, RecursionError) as error:  # TOML and UTF-8 errors are ValueErrors
        raise GateError(
            f"`rules` must be a TOML file, got {path} ({printable(str(error))}). Correct the file."
        ) from error
    version = content.pop("version", RULES_VERSION)
    if type(version) is not int or version != RULES_VERSION:
        raise GateError(
            f"`rules` must have version {RULES_VERSION}, got {shown(version)} in {path}. "
            "Upgrade bivshap_lightning to read later versions."
        )
    unknown = sorted(content.keys() - set(TOP_KEYS))
    if unknown:
        raise GateError(
            f"`rules` must hold [[rule]] tables, `version`, `sha256` and `reference` only, got {shown(unknown)} in "
            f"{path}."
        )
    return content


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text.

    Raises:
        ValueError: it is not TOML.

    Example:
        >>> parse_toml("version = 1")
        {'version': 1}
    """
    content: dict[str, Any] = tomllib.loads(text)
    return content


def _parse(tables: Any, path: Path) -> list[Rule]:
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise GateError(f"`rules` must hold at least one [[rule]] table, got none in {path}.")
    rules = []
    for place, table in enumerate(tables, start=1):
        try:
            rules += _rules_of(table)
        except GateError as error:
            raise GateError(f"Rule {place} of {path}: {error}") from error
    return rules


def _rules_of(table: Mapping[str, Any]) -> list[Rule]:
    """The rules of one table: one for a metric, one for each thing that is said about a feature."""
    about_feature = "feature" in table and "metric" not in table
    keys = (*KEYS[1:], *FEATURE_KEYS) if about_feature else KEYS
    unknown = sorted(table.keys() - set(keys))
    if unknown:
        raise GateError(f"A rule must use the keys {list(keys)} only, got {shown(unknown)}.")
    if not about_feature:
        if "metric" not in table:
            raise GateError("A rule must name its `metric` or a `feature`, got neither.")
        return [Rule(**_fields(table))]
    thresholds = sorted(table.keys() & set(THRESHOLDS))
    if thresholds:
        raise GateError(
            f"A rule about a feature must name its `metric`, such as 'feature/share', to have {thresholds}, got none."
        )
    common = {key: value for key, value in _fields(table).items() if key not in FEATURE_KEYS}
    found = [Rule(**{**common, **_shorthand(key, table[key])}) for key in FEATURE_KEYS if key in table]
    if not found:
        raise GateError(
            f"A rule about a feature must have a `metric` or one of {list(FEATURE_KEYS)}, got none for "
            f"{shown(table['feature'])}."
        )
    return found


def _fields(table: Mapping[str, Any]) -> dict[str, Any]:
    return {"class_name" if key == "class" else key: value for key, value in table.items()}


def _shorthand(key: str, value: Any) -> dict[str, Any]:
    """The fields of `Rule` that a key about a feature stands for."""
    if key == "max_share":
        return {"metric": "feature/share", "max": value}
    if key in ("role", "forbidden_role"):
        if value not in ROLES:
            close = difflib.get_close_matches(str(value), ROLES, n=1, cutoff=0.4)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise GateError(f"`{key}` must be one of {list(ROLES)}, got {shown(value)}.{hint}")
        threshold = {"min": 1.0} if key == "role" else {"max": 0.0}
        return {"metric": f"feature/{value}", "compare": "point", **threshold}
    if value is not False:
        raise GateError(f"`{key}` must be false, which forbids it, got {shown(value)}. Leave it out to allow it.")
    if key == "top":
        return {"metric": "feature/place", "min": 2.0}
    return {"metric": "feature/makes_redundant", "max": 0.0, "compare": "point"}
