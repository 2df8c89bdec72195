"""Which of Captum's methods can explain a game, and which arguments their ``attribute`` accepts.

Captum's classes and signatures are inspected, so methods of later releases are found as well.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from importlib import import_module
from typing import Any

# Arguments of `attribute` that come from the game and cannot be given as options.
FROM_THE_GAME = ("inputs", "baselines", "target", "additional_forward_args", "feature_mask")
NICKNAMES = {"shapley_value_sampling": "shapley_sampling"}


def captum_methods() -> tuple[str, ...]:
    """Names of Captum's methods that can explain a game, sorted.

    Example:
        >>> captum_methods()[:4]
        ('feature_ablation', 'gradient_shap', 'input_x_gradient', 'integrated_gradients')
    """
    return tuple(sorted(name for name, method in _all_methods().items() if why_not(method) is None))


def captum() -> Any:
    """The module ``captum.attr``, imported only when one of its methods is used."""
    return import_module("captum.attr")


def is_method_name(name: str) -> bool:
    """Whether Captum has a method of this name, even one that cannot explain a game by name.

    Example:
        >>> is_method_name("deep_lift"), is_method_name("exact")
        (True, False)
    """
    return NICKNAMES.get(name, name) in _all_methods()


def find_method(name: str, argument: str = "method") -> type:
    """The class of a given name.

    Args:
        name: the class in snake case.
        argument: what the error message calls it.

    Raises:
        ValueError: Captum has no such method.
    """
    found = _all_methods().get(NICKNAMES.get(name, name))
    if found is None:
        raise ValueError(
            f"`{argument}` must be one of {captum_methods()}, got {name!r}. Or pass an attribution object of Captum."
        )
    return found


def name_of(method: type) -> str:
    """The name of a class in snake case.

    Example:
        >>> class InputXGradient: ...
        >>> name_of(InputXGradient)
        'input_x_gradient'
    """
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", method.__name__).lower()
    return NICKNAMES.get(name, name)


def why_not(method: type, given: Collection[str] = ()) -> str | None:
    """Why a class cannot explain a game by itself, or None if it can.

    Args:
        method: a class of Captum.
        given: arguments of ``attribute`` that the user supplies.
    """
    attr = captum()
    if not hasattr(method, "attribute") or not issubclass(
        method, (attr.PerturbationAttribution, attr.GradientAttribution)
    ):
        return "it is neither a perturbation method nor a gradient method"
    if issubclass(method, (attr.LayerAttribution, attr.NeuronAttribution)):
        return "it inspects layers of one model"
    if issubclass(method, attr.FeaturePermutation):
        return "it shuffles values between samples instead of removing players"
    needs = [p for p in _required(method) if p != "forward_func"]
    if needs:
        return f"it is built from {', '.join(f'`{p}`' for p in needs)}, not from a function alone"
    missing = missing_arguments(method, given)
    return f"its `attribute` also needs {', '.join(f'`{p}`' for p in missing)}" if missing else None


def missing_arguments(method: Any, given: Collection[str]) -> list[str]:
    """Arguments without which ``attribute`` cannot be called, beyond those of the game and those given."""
    parameters = accepted_arguments(method)
    return [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        and name not in (*FROM_THE_GAME, *given)
    ]


def accepted_arguments(method: Any) -> dict[str, inspect.Parameter]:
    """Parameters of ``attribute`` by name, including those of the method that a noise tunnel wraps."""
    parameters = dict(inspect.signature(method.attribute).parameters)
    parameters.pop("self", None)
    inner = getattr(method, "attribution_method", None)
    return parameters if inner is None else {**accepted_arguments(inner), **parameters}


def check_callable(method: Any, name: str, given: Collection[str], argument: str) -> None:
    """Check that an attribution object can be called with what a game has."""
    if not hasattr(method, "attribute") or "inputs" not in accepted_arguments(method):
        raise ValueError(f"`{argument}` must attribute to `inputs`, got {name!r}. Pass the method that it wraps.")
    missing = missing_arguments(method, given)
    if missing:
        raise ValueError(
            f"`options` must hold {', '.join(f'`{p}`' for p in missing)} for {name!r}, got {sorted(given)}."
        )


def check_options(method: Any, name: str, given: Collection[str]) -> None:
    """Check that further arguments are those of the method's ``attribute``."""
    accepted = set(accepted_arguments(method)) - {*FROM_THE_GAME, "return_convergence_delta", "return_input_shape"}
    unknown = sorted(set(given) - accepted)
    if unknown:
        raise ValueError(f"`options` must be among {sorted(accepted)} for {name!r}, got {unknown}.")


def _all_methods() -> dict[str, type]:
    attr = captum()
    found = [value for value in vars(attr).values() if inspect.isclass(value) and issubclass(value, attr.Attribution)]
    return {name_of(value): value for value in found}


def _required(method: type) -> list[str]:
    parameters = list(inspect.signature(method).parameters.values())
    return [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
