"""Errors about models that cannot be explained without changing them, or that have no fixed output."""

from __future__ import annotations


class ModelStateError(RuntimeError):
    """A forward pass changes state that must not change, or that could not be put back."""


class StochasticModelError(ValueError):
    """A model answers equal inputs with different outputs, so that its values cannot be explained."""
