"""The error that a bad audit record raises, whatever is wrong with it."""

from __future__ import annotations


class RecordError(ValueError):
    """An audit record that cannot be used: missing, damaged, of another version, or in contradiction with itself.

    Everything that reads records raises this class for a bad one; the command line ends with exit code 2.

    Example:
        >>> issubclass(RecordError, ValueError)
        True
    """
