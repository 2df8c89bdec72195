"""Argument checks that several packages of the project share. Imports neither NumPy nor torch."""

import math
from numbers import Integral
from typing import Any, get_args


def check_choice(value: object, literal: Any, argument: str) -> None:
    """Raise ValueError if a value is not one of the choices of a `Literal`.

    Args:
        value: What the caller passed.
        literal: The `Literal` type of the argument.
        argument: Name of the argument, for the message.

    Example:
        >>> from typing import Literal
        >>> check_choice("hits", Literal["pagerank", "hits"], "method")
    """
    if value not in get_args(literal):
        raise ValueError(f"`{argument}` must be one of {get_args(literal)}, got {value!r}. Pass one of these.")


def check_gamma(gamma: float) -> float:
    """Return the redundancy threshold as a float; raise ValueError if it is negative or not finite.

    Example:
        >>> check_gamma(0)
        0.0
    """
    if not (math.isfinite(gamma) and gamma >= 0):
        raise ValueError(f"`gamma` must be finite and >= 0, got {gamma}. Try `ExplanationGraph.suggest_gamma()`.")
    return float(gamma)


def check_fraction(value: float, argument: str) -> float:
    """Return a number strictly between 0 and 1 as a float; raise ValueError for any other.

    Example:
        >>> check_fraction(0.95, "confidence")
        0.95
    """
    if not 0 < value < 1:
        raise ValueError(f"`{argument}` must lie between 0 and 1, got {value}. Try 0.95.")
    return float(value)


def check_integer(value: int, argument: str, *, minimum: int) -> int:
    """Return a whole number of at least `minimum` as an int; raise ValueError for anything else.

    Example:
        >>> check_integer(5, "n_draws", minimum=1)
        5
    """
    if not isinstance(value, Integral) or value < minimum:
        raise ValueError(
            f"`{argument}` must be a whole number >= {minimum}, got {value!r}. Leave it out for the default."
        )
    return int(value)


def check_evaluations(n_evaluations: int | None) -> None:
    """Raise ValueError if a number of model rows is neither a whole number nor left out.

    Example:
        >>> check_evaluations(None)
    """
    if n_evaluations is not None and not isinstance(n_evaluations, Integral):
        raise ValueError(
            f"`n_evaluations` must be a whole number or None, got {n_evaluations!r}. Leave it out for the default."
        )
