"""Names shared by the players of several graphs, such as the words of texts."""

import re
from collections.abc import Sequence

import numpy as np

from bivshap_lightning.graph.batched import IndexArray
from bivshap_lightning.graph.checks import FloatArray

_REPEAT_NUMBER = re.compile(r" \(\d+\)$")


def names_without_repeat_number(names: Sequence[str]) -> list[str]:
    """Return names without the number that tells a repeated word from the first one.

    Example:
        >>> names_without_repeat_number(["the", "film", "the (2)"])
        ['the', 'film', 'the']
    """
    return [_REPEAT_NUMBER.sub("", name) for name in names]


def positions_by_name(
    labels: Sequence[Sequence[str]], importance: Sequence[FloatArray], max_names: int | None
) -> tuple[list[str], list[IndexArray]]:
    """Return the distinct names, and for each graph the position of each player's name among them.

    Args:
        labels: For each graph a name per player.
        importance: For each graph a number per player.
        max_names: Keep the names of the largest total importance only; None keeps all.

    Returns:
        The names in the order of their first occurrence, and (F,) positions per graph, -1 for names left out.

    Example:
        >>> names, positions = positions_by_name([["a", "b"], ["c", "a"]], [np.ones(2), np.ones(2)], None)
        >>> names, positions
        (['a', 'b', 'c'], [array([0, 1]), array([2, 0])])
    """
    total: dict[str, float] = {}
    for words, values in zip(labels, importance, strict=True):
        for word, value in zip(words, values.tolist(), strict=True):
            total[word] = total.get(word, 0.0) + value
    kept = set(sorted(total, key=lambda word: -total[word])[:max_names])
    names = [word for word in total if word in kept]
    number = {word: k for k, word in enumerate(names)}
    return names, [np.array([number.get(word, -1) for word in words], dtype=np.intp) for words in labels]
