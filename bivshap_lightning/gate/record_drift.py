"""Drift between records: distances of two importance profiles, and which features or samples moved.

`drift/shares`, `drift/rise` and `drift/ndcg` compare the shares of features in the mean absolute Shapley values;
`drift/samples` and `drift/roles` compare the same samples one by one. The catalogue of numbers has the formulas.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bivshap_lightning.audit.record_parts import ALL_CLASSES
from bivshap_lightning.gate.profile import Profile, Shares, shares_of
from bivshap_lightning.graph.checks import FloatArray
from bivshap_lightning.graph.roles import ROLES

RISE_OFFSET = 0.01
"""Added to shares before they are divided, so that features without importance do not rise without limit."""

ENOUGH_SHARED = 0.5
"""Shares are compared on the shared samples if these are at least this share of the record's, else on all samples."""


@dataclass(frozen=True, eq=False)
class ProfilePair:
    """Two profiles of the same features: now, and before.

    Attributes:
        now: the profile in question.
        before: the reference, or the profile of the previous record.
        class_name: whose samples are compared; "all" for all.
    """

    now: Profile
    before: Profile
    class_name: str = ALL_CLASSES

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The samples that both have, in the order of now."""
        before = self.before.by_key
        return tuple(key for key in self._keys_now if key in before)

    @cached_property
    def _keys_now(self) -> tuple[str, ...]:
        return tuple(s.key for s in self.now.samples if self.class_name in (ALL_CLASSES, s.class_name))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What the reader must know first: samples that are not shared, or that were explained for other classes."""
        n_shared, found = len(self.keys), list(sharing_note(self._keys_now, self.before.by_key))
        now, before = self.now.by_key, self.before.by_key
        moved = sum(now[key].target != before[key].target for key in self.keys)
        if moved:
            found.append(
                f"{moved} of {n_shared} shared samples were explained for another class than before: drift/samples "
                'needs a fixed class. Audit with target="label".'
            )
        return tuple(found)

    @cached_property
    def shares(self) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
        """Features, and their shares now and before."""
        shared = self.keys if len(self.keys) >= ENOUGH_SHARED * len(self._keys_now) and self.keys else None
        now, before = (shares_of(p, class_name=self.class_name, keys=shared) for p in (self.now, self.before))
        names = tuple(dict.fromkeys((*now.names, *before.names)))
        values = [np.array([shares.of(name) for name in names]) for shares in (now, before)]
        return names, values[0], values[1]

    @cached_property
    def aligned(self) -> list[tuple[tuple[str, ...], FloatArray, FloatArray, FloatArray, FloatArray]]:
        """For each shared sample its players, Shapley values (F,) and role frequencies (F, 5) now and before."""
        now, before = self.now.by_key, self.before.by_key
        found = []
        for key in self.keys:
            names = tuple(dict.fromkeys((*now[key].players, *before[key].players)))
            phi, roles = np.zeros((2, len(names))), np.zeros((2, len(names), len(ROLES)))
            roles[:, :, ROLES.index("irrelevant")] = 1.0  # what a player is in a record that does not have it
            for k, sample in enumerate((now[key], before[key])):
                places = [names.index(name) for name in sample.players]
                phi[k, places] = sample.shapley
                roles[k, places] = np.array([sample.roles[role] for role in ROLES]).T
            found.append((names, phi[0], phi[1], roles[0], roles[1]))
        return found


def sharing_note(now: Collection[str], before: Collection[str]) -> tuple[str, ...]:
    """A sentence if two records do not explain the same samples; nothing if they do.

    Args:
        now: keys of the samples of the record in question.
        before: keys of those before.

    Example:
        >>> sharing_note(["a", "b"], ["b", "a"])
        ()
        >>> sharing_note(["a", "b"], ["b", "c"])[0].partition(":")[0]
        'the records share 1 of 2 samples'
        >>> sharing_note(["a", "b"], ["a", "b", "c"])[0].partition(":")[0]
        'the records share 2 of 2 samples (3 before)'
    """
    n_shared = len(set(now) & set(before))
    if n_shared == len(now) == len(before):
        return ()
    there = "" if len(now) == len(before) else f" ({len(before)} before)"
    return (
        f"the records share {n_shared} of {len(now)} samples{there}: other samples have other importances, whatever "
        "the model. Audit the same samples (`bivshap audit --like RECORD`).",
    )


def _hellinger(pair: ProfilePair) -> float:
    _, now, before = pair.shares
    return math.sqrt(float(np.square(np.sqrt(now) - np.sqrt(before)).sum()) / 2)


def _growth(pair: ProfilePair) -> FloatArray:
    _, now, before = pair.shares
    growth: FloatArray = np.log((now + RISE_OFFSET) / (before + RISE_OFFSET))
    return growth


def _rise(pair: ProfilePair) -> float:
    return max(0.0, float(_growth(pair).max()))


def _ndcg(pair: ProfilePair) -> float:
    _, now, before = pair.shares
    discount = 1 / np.log2(np.arange(len(now)) + 2)
    best = float((np.sort(before)[::-1] * discount).sum())
    # Ties go by the shares before, so that equal shares are no disagreement.
    order = np.lexsort((-before, -now))
    return float((before[order] * discount).sum()) / best if best > 0 else 1.0


def _turn(pair: ProfilePair) -> float | None:
    if not pair.aligned:
        return None
    now, before = (np.concatenate([row[k] for row in pair.aligned]) for k in (1, 2))
    return _one_less_cosine(now, before)


def _one_less_cosine(now: FloatArray, before: FloatArray) -> float:
    size = float(np.linalg.norm(now) * np.linalg.norm(before))
    if size == 0:
        return 0.0 if np.array_equal(now, before) else 1.0
    return min(2.0, max(0.0, 1 - float(now @ before) / size))


def _other_roles(pair: ProfilePair) -> float | None:
    if not pair.aligned:
        return None
    same = np.concatenate([(row[3] * row[4]).sum(axis=1) for row in pair.aligned])
    return 1 - float(same.mean())


def share_text(share: float) -> str:
    """A share for readers.

    Example:
        >>> share_text(0.034), share_text(1.0)
        ('.03', '1.00')
    """
    return f"{share:.2f}".removeprefix("0")


def place_text(place: int) -> str:
    """A place for readers.

    Example:
        >>> place_text(1), place_text(13)
        ('first', 'place 13')
    """
    return "first" if place == 1 else f"place {place}"


def _features_by(pair: ProfilePair, size: FloatArray, n: int) -> list[str]:
    names, *both = pair.shares
    now, before = (Shares(names, values) for values in both)
    order = [k for k in np.argsort(-size, kind="stable")[:n].tolist() if size[k] > 0]
    return [
        f"{name}: {place_text(before.place(name))} before, {place_text(now.place(name))} now, "
        f"share {share_text(before.of(name))} -> {share_text(now.of(name))}"
        for name in (names[k] for k in order)
    ]


def _moved_shares(pair: ProfilePair, n: int) -> list[str]:
    _, now, before = pair.shares
    return _features_by(pair, np.abs(now - before), n)


def _moved_rise(pair: ProfilePair, n: int) -> list[str]:
    return _features_by(pair, _growth(pair), n)


def _moved_samples(pair: ProfilePair, n: int) -> list[str]:
    """Features whose Shapley values moved most over the samples, then the samples that turned most."""
    if not pair.aligned:
        return list(pair.notes[:1])
    moved: dict[str, float] = {}
    for names, now, before, *_ in pair.aligned:
        for name, square in zip(names, np.square(now - before).tolist(), strict=True):
            moved[name] = moved.get(name, 0.0) + square
    whole = sum(moved.values()) or 1.0
    largest = sorted(moved, key=lambda name: -moved[name])[:n]
    lines = [f"{name}: {moved[name] / whole:.0%} of what moved" for name in largest if moved[name] > 0]
    turned = [_one_less_cosine(now, before) for _, now, before, *_ in pair.aligned]
    worst = np.argsort(-np.array(turned), kind="stable")[:n].tolist()
    by_key = pair.now.by_key
    for k in worst:
        names, now, before, *_ = pair.aligned[k]
        most = int(np.argmax(np.abs(now - before)))
        lines.append(
            f"sample {pair.keys[k]} (class {by_key[pair.keys[k]].class_name}): 1 - cosine {turned[k]:.2g}, "
            f"{names[most]} {before[most]:+.3g} -> {now[most]:+.3g}"
        )
    return lines


def _moved_roles(pair: ProfilePair, n: int) -> list[str]:
    if not pair.aligned:
        return list(pair.notes[:1])
    changed: dict[str, float] = {}
    steps: dict[str, Counter[tuple[str, str]]] = {}
    for names, _, _, now, before in pair.aligned:
        for k, name in enumerate(names):
            changed[name] = changed.get(name, 0.0) + 1 - float(now[k] @ before[k])
            step = ROLES[int(before[k].argmax())], ROLES[int(now[k].argmax())]
            if step[0] != step[1]:
                steps.setdefault(name, Counter())[step] += 1
    lines = []
    for name in sorted(changed, key=lambda name: -changed[name])[:n]:
        if changed[name] > 1e-9:
            most = steps.get(name, Counter()).most_common(1)
            words = f", most often {most[0][0][0]} -> {most[0][0][1]}" if most else ""
            lines.append(f"{name}: another role in {changed[name]:.3g} of {len(pair.keys)} samples{words}")
    return lines


_MEASURES: dict[str, tuple[Callable[[ProfilePair], float | None], Callable[[ProfilePair, int], list[str]]]] = {
    "drift/shares": (_hellinger, _moved_shares),
    "drift/rise": (_rise, _moved_rise),
    "drift/samples": (_turn, _moved_samples),
    "drift/roles": (_other_roles, _moved_roles),
    "drift/ndcg": (_ndcg, _moved_shares),
}


def record_drift(metric: str, pair: ProfilePair) -> float | None:
    """A distance of two profiles; None where the samples that it needs are not shared.

    Args:
        metric: "drift/shares", "drift/rise", "drift/samples", "drift/roles" or "drift/ndcg".
        pair: the profiles.

    Raises:
        GateError: the profiles have no features in common for a number of features.

    Example:
        >>> from bivshap_lightning.gate.profile import SampleProfile
        >>> roles = {role: (float(role == "essential"),) * 2 for role in ROLES}
        >>> samples = [
        ...     SampleProfile("x", "cat", "cat", ("a", "b"), phi, phi, roles) for phi in ((1.0, 0.0), (0.5, 0.5))
        ... ]
        >>> pair = ProfilePair(*(Profile((sample,)) for sample in samples))
        >>> round(record_drift("drift/shares", pair), 3), round(record_drift("drift/samples", pair), 3)
        (0.541, 0.293)
    """
    return _MEASURES[metric][0](pair)


def largest_record_moves(metric: str, pair: ProfilePair, n: int = 3) -> list[str]:
    """The features, and for drift/samples the samples, that moved most, in words.

    Args:
        metric: which distance.
        pair: the profiles.
        n: at most so many of each kind.

    Example:
        >>> from bivshap_lightning.gate.profile import SampleProfile
        >>> roles = {role: (float(role == "essential"),) * 2 for role in ROLES}
        >>> samples = [
        ...     SampleProfile("x", "cat", "cat", ("a", "b"), phi, phi, roles) for phi in ((0.1, 0.9), (0.9, 0.1))
        ... ]
        >>> largest_record_moves("drift/rise", ProfilePair(*(Profile((sample,)) for sample in samples)))
        ['b: place 2 before, first now, share .10 -> .90']
    """
    return _MEASURES[metric][1](pair, n)
