"""Argument checks shared by both graphs."""

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def read_only_floats(value: ArrayLike, argument: str, *, shape: tuple[int, ...] | None = None) -> FloatArray:
    """A read-only float64 copy of finite real numbers, of the given shape if there is one.

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
    """A read-only copy of a boolean array.

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
    """Refuse what is no (F, F) matrix with an empty diagonal.

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
            "No player says anything about itself: clear it with np.fill_diagonal."
        )


def check_shape(array: NDArray[Any], shape: tuple[int, ...], argument: str) -> None:
    """Refuse an array of another shape.

    Example:
        >>> check_shape(np.zeros(3), (3,), "shapley")
    """
    if array.shape != shape:
        raise ValueError(
            f"`{argument}` must have shape {shape}, got {array.shape}. Pass the entries of the same sample."
        )


def check_standard_error(standard_error: ArrayLike | None, n_players: int) -> FloatArray:
    """Standard errors of all weights, (F, F); zeros when there are none.

    Example:
        >>> check_standard_error(None, 1)
        array([[0.]])
    """
    shape = (n_players, n_players)
    if standard_error is None:
        return np.broadcast_to(np.float64(0), shape)  # one zero in memory, not F * F of them
    errors = read_only_floats(standard_error, "standard_error", shape=shape)
    check_square(errors, "standard_error")
    if (errors < 0).any():
        place = np.argwhere(errors < 0)[0]
        raise ValueError(
            f"`standard_error` must be >= 0, got {errors[tuple(place)]} at {place.tolist()}. "
            "Pass the standard deviation of each estimate."
        )
    return errors


def check_provenance(provenance: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of the mapping as JSON gives it back, so that a graph and its reloaded copy agree.

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
    """One distinct name per player; their positions when there are none.

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
    # NumPy's string arrays drop trailing NULs, so such a name would not survive being saved.
    if "\0" in "".join(names):
        broken = next(name for name in names if "\0" in name)
        raise ValueError(f"`names` must be free of NUL characters, got {broken!r}. Rename that player.")
    if len(names) != n_players:
        raise ValueError(f"`names` must name {n_players} players, got {len(names)}. Pass one name per player.")
    if len(set(names)) != n_players:
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`names` must be distinct, got {twice!r} more than once. Number the repeated ones.")
    return tuple(map(str, names))


def check_choice(value: str, literal: Any, argument: str) -> None:
    """Refuse a word that is no member of a `Literal`.

    Example:
        >>> from typing import Literal
        >>> check_choice("hits", Literal["pagerank", "hits"], "method")
    """
    if value not in get_args(literal):
        raise ValueError(f"`{argument}` must be one of {get_args(literal)}, got {value!r}. Pass one of these words.")


def check_gamma(gamma: float) -> float:
    """A finite threshold that is not negative, as a float.

    Example:
        >>> check_gamma(0)
        0.0
    """
    if not (np.isfinite(gamma) and gamma >= 0):
        raise ValueError(f"`gamma` must be finite and >= 0, got {gamma}. Try `suggest_gamma()`.")
    return float(gamma)


def import_pandas() -> ModuleType:
    """The pandas module, needed for tables only.

    Example:
        >>> import_pandas().__name__
        'pandas'
    """
    try:
        return import_module("pandas")
    except ImportError as error:
        raise ImportError(
            "`to_dataframe` must find pandas, got no such module. "
            "Install it with `pip install bivshap_lightning[pandas]`."
        ) from error
