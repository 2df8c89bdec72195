"""Checks of the arrays and names that `ExplanationGraph` and `RedundancyGraph` are built from."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def read_only_floats(value: ArrayLike, argument: str, *, shape: tuple[int, ...] | None = None) -> FloatArray:
    """Return a read-only float64 copy; raise if entries are not finite real numbers or the shape is another.

    Example:
        >>> read_only_floats([1, 2], "shapley")
        array([1., 2.])
    """
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"`{argument}` must hold real numbers, got dtype {array.dtype}. Convert it to a float array.")
    if shape is not None:
        check_shape(array, shape, argument)
    floats = array.astype(np.float64)
    if not np.isfinite(floats).all():
        place = np.argwhere(~np.isfinite(floats))[0]
        raise ValueError(
            f"`{argument}` must be finite, got {floats[tuple(place)]} at {place.tolist()}. "
            "Look for overflow or missing values in the explained model's output."
        )
    floats.setflags(write=False)
    return floats


def read_only_flags(value: ArrayLike, argument: str) -> BoolArray:
    """Return a read-only copy of a boolean array; raise if it is of another dtype.

    Example:
        >>> read_only_flags([[False]], "adjacency")
        array([[False]])
    """
    flags = np.array(value)
    if flags.dtype != np.bool_:
        raise TypeError(f"`{argument}` must be boolean, got dtype {flags.dtype}. Compare with a threshold first.")
    flags.setflags(write=False)
    return flags


def check_square(matrix: NDArray[Any], argument: str) -> None:
    """Raise ValueError unless the matrix has shape (F, F) and a diagonal of zeros.

    Example:
        >>> check_square(np.zeros((2, 2)), "weights")
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(
            f"`{argument}` must have shape (F, F) with F >= 1, got {matrix.shape}. Pass the matrix of one sample."
        )
    if matrix.diagonal().any():
        player = int(np.flatnonzero(matrix.diagonal())[0])
        raise ValueError(
            f"`{argument}` must have an empty diagonal, got {matrix[player, player]} at {[player, player]}. "
            "Clear it with np.fill_diagonal."
        )


def check_shape(array: NDArray[Any], shape: tuple[int, ...], argument: str) -> None:
    """Raise ValueError if an array has another shape.

    Example:
        >>> check_shape(np.zeros(3), (3,), "shapley")
    """
    if array.shape != shape:
        raise ValueError(
            f"`{argument}` must have shape {shape}, got {array.shape}. Pass the entries of the same sample."
        )


def check_standard_error(value: ArrayLike | None, shape: tuple[int, ...], argument: str) -> FloatArray:
    """Return standard errors of the given shape, (F,) or (F, F); zeros if there are none.

    Example:
        >>> check_standard_error(None, (1, 1), "standard_error")
        array([[0.]])
    """
    if value is None:
        return np.broadcast_to(np.float64(0), shape)  # a single zero in memory instead of F * F
    errors = read_only_floats(value, argument, shape=shape)
    if errors.ndim == 2:
        check_square(errors, argument)
    if (errors < 0).any():
        place = np.argwhere(errors < 0)[0]
        raise ValueError(
            f"`{argument}` must be >= 0, got {errors[tuple(place)]} at {place.tolist()}. "
            "Pass the standard deviation of each estimate."
        )
    return errors


def check_provenance(provenance: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of the mapping in the types of JSON, so that a graph and its reloaded copy are equal.

    Example:
        >>> check_provenance({"seed": 0, "shape": (2, 3)})
        {'seed': 0, 'shape': [2, 3]}
    """
    try:
        copy: dict[str, Any] = json.loads(json.dumps(dict({} if provenance is None else provenance), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`provenance` must be a mapping that JSON can hold, got {type(provenance).__name__} ({error}). "
            "Convert arrays and tensors to plain numbers and lists."
        ) from error
    return copy


def check_names(names: Sequence[str] | None, n_players: int) -> tuple[str, ...]:
    """Return one distinct name per player; the player's index as text where no names are given.

    Example:
        >>> check_names(None, 3)
        ('0', '1', '2')
    """
    if names is None:
        return tuple(map(str, range(n_players)))
    names = tuple(names)
    for other in set(map(type, names)):
        if not issubclass(other, str):
            raise TypeError(f"`names` must be strings, got {other.__name__}. Convert each with str().")
    # NumPy's string arrays drop trailing NUL characters, so such a name would change when it is saved.
    if "\0" in "".join(names):
        broken = next(name for name in names if "\0" in name)
        raise ValueError(f"`names` must be free of NUL characters, got {broken!r}. Rename that player.")
    if len(names) != n_players:
        raise ValueError(f"`names` must name {n_players} players, got {len(names)}. Pass one name per player.")
    if len(set(names)) != n_players:
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`names` must be distinct, got {twice!r} more than once. Number the repeated ones.")
    return tuple(map(str, names))
