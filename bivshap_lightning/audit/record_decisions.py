"""Parts of an audit record that answer a question about a decision: which few features suffice for it. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bivshap_lightning.explainers.sufficient import SufficientSet

SUFFICIENT = "bivshap/sufficient/"
"""Start of the tags of numbers about sufficient sets."""


@dataclass(frozen=True)
class SufficientSummary:
    """Players that suffice for the decision on a sample while all others are replaced.

    Attributes:
        members: the smallest set that was found, in the order in which its players were added.
        stable_members: the set that also withstands random additions; begins with `members`.
        agreement: share of random supersets of `members` with the decision of the whole input.
        stable_agreement: share of fresh random supersets of `stable_members` with it: the certificate.
        n_supersets: how many random supersets each share is over.
        n_evaluations: model rows that were spent on the search.

    Example:
        >>> found = SufficientSummary(("age",), ("age", "sex"), 0.75, 1.0, 32, 90)
        >>> found.sentence(12)
        '1 of 12 features suffices: age; with 2, 100 % of random additions leave the decision'
    """

    members: tuple[str, ...]
    stable_members: tuple[str, ...]
    agreement: float
    stable_agreement: float
    n_supersets: int
    n_evaluations: int

    @classmethod
    def of(cls, found: SufficientSet, names: Sequence[str]) -> SufficientSummary:
        """The same set as a part of a record.

        Args:
            found: the set.
            names: of the sample's players.
        """
        return cls(
            members=tuple(names[k] for k in found.members),
            stable_members=tuple(names[k] for k in found.stable_members),
            agreement=found.agreement,
            stable_agreement=found.stable_agreement,
            n_supersets=found.n_supersets,
            n_evaluations=found.n_evaluations,
        )

    @property
    def scores(self) -> dict[str, float]:
        """What the set contributes to the numbers of the audit, by tag."""
        return {
            f"{SUFFICIENT}size": float(len(self.members)),
            f"{SUFFICIENT}stable_size": float(len(self.stable_members)),
            f"{SUFFICIENT}stable_agreement": self.stable_agreement,
        }

    def sentence(self, n_players: int, *, most: int = 5) -> str:
        """The set in words.

        Args:
            n_players: of the sample.
            most: names are left out if there are more than this.
        """
        n = len(self.members)
        named = f": {', '.join(self.members)}" if n <= most else ""
        start = f"{n} of {n_players} features suffice{'s' * (n == 1)}{named}" if n else "no feature is needed"
        grown = "" if self.stable_members == self.members else f"with {len(self.stable_members)}, "
        return f"{start}; {grown}{self.stable_agreement:.0%} of random additions leave the decision".replace("%", " %")
