"""What replaces objects that cannot be put back while a model is run: copies of caches, and what refuses to be used."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from types import MethodType
from typing import Any, NoReturn

from bivshap_lightning.game.errors import ModelStateError
from bivshap_lightning.game.state.caches import KIND as CACHE
from bivshap_lightning.game.state.caches import stand_in_for_cache
from bivshap_lightning.game.state.kinds import is_opaque_iterator


def stand_in_for(value: Any, name: str) -> Any:
    """What replaces a value that cannot be put back where it is held; None if nothing need be done.

    Args:
        value: any object.
        name: of the attribute or variable that holds it.
    """
    kind: Any = type(value)
    if is_opaque_iterator(kind):
        return RefusingIterator(name, kind.__name__)
    if kind is queue.SimpleQueue:
        return RefusingQueue(name, value.qsize())
    if kind is MethodType and type(value.__func__) is CACHE:
        function = stand_in_for_cache(value.__func__)
        return None if function is None else MethodType(function, value.__self__)
    return stand_in_for_cache(value) if kind is CACHE else None


def is_followed(value: Any, stand_in: Any) -> bool:
    """Whether what a value leads to is recorded, beside what replaces it."""
    return stand_in is None or type(value) in (CACHE, MethodType)


class RefusingIterator(Iterator[Any]):
    """Replaces an iterator whose position cannot be restored, and refuses to be advanced."""

    def __init__(self, name: str, kind: str) -> None:
        self._name, self._kind = name, kind

    def __next__(self) -> Any:
        raise ModelStateError(
            f"`model` must not advance an iterator in forward, got `next` on {self._name!r} ({self._kind}), whose "
            "position cannot be restored. Advance it in training_step, or draw from a torch.Generator."
        )

    def send(self, value: Any) -> Any:
        """Refuse it, as ``next``."""
        return next(self)


def unrestorable_iterator(kind: str) -> ModelStateError:
    """The error for an iterator in a place where it cannot be replaced by one that refuses to be advanced."""
    return ModelStateError(
        f"`model` must hold iterators as attributes, variables or items of lists and dictionaries, got one ({kind}) in "
        "another place, such as a deque, a partial or a default argument. If forward advanced it, its position could "
        "not be restored. Make it an attribute, or draw from a torch.Generator."
    )


class RefusingQueue:
    """Replaces a ``queue.SimpleQueue``, whose content cannot be copied, and refuses to be used.

    Args:
        name: of the attribute or variable.
        n_items: what ``qsize`` says.
    """

    def __init__(self, name: str, n_items: int) -> None:
        self._name, self._n_items = name, n_items

    def qsize(self) -> int:
        """Number of items when this was made."""
        return self._n_items

    def empty(self) -> bool:
        """Whether there was no item."""
        return not self._n_items

    def _refuse(self, *args: Any, **options: Any) -> NoReturn:
        raise ModelStateError(
            f"`model` must not use a queue.SimpleQueue in forward, got a call of {self._name!r}, whose content cannot "
            "be copied. Use a queue.Queue, or use it in training_step."
        )

    put = put_nowait = get = get_nowait = _refuse
