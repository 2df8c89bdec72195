"""Frozen dataclasses from and to JSON values, checked by their type annotations.

:func:`decode` accepts exactly what the annotations say (numbers must be finite, `true` is not a number, every field
must be present, unknown fields are refused) and names the place of the first mismatch. Supported annotations:
`str`, `int`, `float`, `None`, unions of these, `tuple[X, ...]`, `Mapping[str, X]` and dataclasses.

A new field of a record is one line in its dataclass, with a default and ``metadata=OPTIONAL``, by which files written
before it are still read. ``metadata=NOT_STORED`` keeps a field out of the file.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.text import shown

T = TypeVar("T")
MAX_INTEGER = 2**53
OPTIONAL = {"optional": True}
"""Metadata of a field that a file may lack; the default of the dataclass then applies."""
NOT_STORED = {"stored": False}
"""Metadata of a field that is not part of the file."""
_EXPECTED = {str: "a text", int: "a whole number", float: "a finite number", NoneType: "null"}


class _MismatchError(Exception):
    """A value that does not fit its annotation; callers add their part of the place while it passes through them."""

    def __init__(self, rule: str, got: object) -> None:
        super().__init__(rule)
        self.rule, self.got = rule, got
        self.place: list[str] = []


def decode(kind: type[T], value: object, *, source: str) -> T:
    """A dataclass from JSON values.

    Args:
        kind: the dataclass.
        value: what :func:`json.loads` returned.
        source: what messages call it.

    Raises:
        RecordError: naming the place, the rule and what was found.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Point:
        ...     x: float
        ...     names: tuple[str, ...] = dataclasses.field(default=(), metadata=OPTIONAL)
        >>> decode(Point, {"x": 1, "names": ["a"]}, source="file"), decode(Point, {"x": 2}, source="file")
        (Point(x=1.0, names=('a',)), Point(x=2.0, names=()))
        >>> decode(Point, {"x": True}, source="file")
        Traceback (most recent call last):
        ...
        bivshap_lightning.audit.errors.RecordError: file: x must be a finite number, got True. Audit again or pass ...
    """
    try:
        return cast("T", _decode(kind, value))
    except _MismatchError as mismatch:
        place = "".join(reversed(mismatch.place)).removeprefix(".") or "the record"
        raise RecordError(
            f"{source}: {place} must be {mismatch.rule}, got {shown(mismatch.got)}. Audit again or pass another record."
        ) from None


def _decode(kind: Any, value: Any) -> Any:
    if kind in _EXPECTED:
        if not _fits(kind, value):
            raise _MismatchError(_EXPECTED[kind], value)
        return float(value) if kind is float else value
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _decode_union(arguments, value)
    if origin is tuple:
        if not isinstance(value, list):
            raise _MismatchError("a list", value)
        return tuple(_decode_part(arguments[0], part, "[{}]", k) for k, part in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _MismatchError("an object", value)
        return {key: _decode_part(arguments[1], part, "[{}]", key) for key, part in value.items()}
    return _decode_dataclass(kind, value)


def _decode_part(kind: Any, value: Any, form: str, key: str | int) -> Any:
    try:
        return _decode(kind, value)
    except _MismatchError as mismatch:
        mismatch.place.append(form.format(shown(key) if form == "[{}]" else key))
        raise


def _decode_union(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in kinds:
        if kind in _EXPECTED and _fits(kind, value):
            return _decode(kind, value)
    compound = [kind for kind in kinds if kind not in _EXPECTED]
    if compound and value is not None:
        return _decode(compound[0], value)
    raise _MismatchError(" or ".join(_EXPECTED[kind] for kind in kinds if kind in _EXPECTED), value)


def _fits(kind: type, value: Any) -> bool:
    if kind is float:
        return is_finite_number(value)
    if kind is int:
        return type(value) is int and abs(value) <= MAX_INTEGER
    return isinstance(value, kind)


def _decode_dataclass(kind: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise _MismatchError("an object", value)
    stored = _stored_fields(kind)
    unknown = sorted(value.keys() - stored.keys())
    if unknown:
        raise _MismatchError(f"without unknown fields such as {shown(unknown[0])}; upgrade bivshap_lightning", unknown)
    missing = sorted(name for name, (_, required) in stored.items() if required and name not in value)
    if missing:
        raise _MismatchError(f"complete, with {missing[0]!r}", sorted(value))
    return kind(**{name: _decode_part(stored[name][0], part, ".{}", name) for name, part in value.items()})


@cache
def _stored_fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Annotation, and whether the field is required, by name."""
    hints = get_type_hints(kind)
    return {
        field.name: (hints[field.name], not field.metadata.get("optional", False))
        for field in dataclasses.fields(kind)
        if field.metadata.get("stored", True)
    }


def encode(value: Any) -> Any:
    """JSON values from a dataclass and what it holds.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Point:
        ...     x: float
        ...     names: tuple[str, ...] = ()
        >>> encode(Point(1.0, ("a",)))
        {'x': 1.0, 'names': ['a']}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: encode(getattr(value, name)) for name in _stored_fields(type(value))}
    if isinstance(value, Mapping):
        return {str(key): encode(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [encode(part) for part in value]
    return value


def is_finite_number(value: object) -> bool:
    """Whether a value read from a file is a finite number; true and false are not numbers.

    Example:
        >>> is_finite_number(1), is_finite_number(float("nan")), is_finite_number(True), is_finite_number("1")
        (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of floats
        return False
