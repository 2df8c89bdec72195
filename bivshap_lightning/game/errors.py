"""Errors about models that cannot be explained without changing them, or that have no fixed output."""

from __future__ import annotations


class ModelStateError(RuntimeError):
    """A forward pass changes state that must not change, or that could not be restored."""


class StochasticModelError(ValueError):
    """A model gives different outputs for equal inputs, so that its values cannot be explained."""
