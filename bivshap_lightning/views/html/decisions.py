"""The sections about decisions: how few features carry one, and which columns of a table can go."""

from __future__ import annotations

from collections import Counter

from markupsafe import Markup

from bivshap_lightning.audit.record import SampleSummary
from bivshap_lightning.audit.record_columns import ADVICE, COPY, MAX_COST_SHARE
from bivshap_lightning.audit.record_decisions import SUFFICIENT
from bivshap_lightning.views.html.content import PageContent
from bivshap_lightning.views.html.markup import folded, section, table, tag
from bivshap_lightning.views.html.words import count, listing, percent

MAX_FEATURES, MAX_SAMPLES, MAX_MEMBERS, MAX_COLUMNS = 12, 8, 8, 30


def few_features(content: PageContent) -> str:
    """How few features suffice for a decision, in one sentence; empty for a record that does not say."""
    names = ("size", "stable_size", "stable_agreement")
    numbers = [content.record.metrics.get(f"{SUFFICIENT}{name}") for name in names]
    if any(number is None for number in numbers):
        return ""
    size, stable, agreement = (number.value for number in numbers if number is not None)
    n_players = sum(sample.n_players for sample in content.record.samples) / len(content.record.samples)
    return (
        f"{size:.1f} of {n_players:.0f} features suffice for a decision on average; with {stable:.1f}, "
        f"{percent(agreement)} of random additions leave it."
    )


def sufficing(sample: SampleSummary) -> str:
    """How few features suffice for the decision on a sample, without their names; empty if the record does not say."""
    return "" if sample.sufficient is None else sample.sufficient.sentence(sample.n_players, most=0)


def suffices(content: PageContent, anchor: str, title: str) -> Markup:
    """Which features are in the sets that suffice, and the sets of the hardest samples."""
    samples = [sample for sample in content.record.samples if sample.sufficient is not None]
    if not samples:
        why = "a value has no decision to keep" if content.is_regression else "audit again to have them"
        return section(anchor, title, tag("p", f"The record holds no sets of features that suffice: {why}."))
    parts = [
        tag("p", few_features(content)),
        tag("p", "A set suffices if the decision stays with the features of the set alone, all others replaced. That "
            "is a weak promise: other features can still change the decision when they come back. The stable set is "
            "grown until random additions do not change it; fresh random additions then say how often that holds."),
        _members(samples),
        _sets("Sets of the hardest samples.", _hardest(content)[:MAX_SAMPLES]),
    ]  # fmt: skip
    empty = sum(not sample.sufficient.members for sample in samples if sample.sufficient is not None)
    if empty:
        where = count(empty, "sample")
        parts.insert(1, tag("p", f"In {where} the decision stands with every feature replaced: the set is empty."))
    if len(samples) > MAX_SAMPLES:
        parts.append(folded(f"Sets of all {count(len(samples), 'sample')}", _sets("Sets of all samples.", samples)))
    return section(anchor, title, *parts)


def _hardest(content: PageContent) -> list[SampleSummary]:
    samples = [content.record.samples[position] for position in content.record.hardest_samples()]
    return [sample for sample in samples if sample.sufficient is not None]


def _members(samples: list[SampleSummary]) -> Markup:
    """In how many samples each feature is in the set; of many features, the most frequent."""
    found = [sample.sufficient for sample in samples if sample.sufficient is not None]
    small = Counter(name for one in found for name in one.members)
    stable = Counter(name for one in found for name in one.stable_members)
    shown = sorted(stable, key=lambda name: (-small[name], -stable[name]))[:MAX_FEATURES]
    rows = [(name, percent(small[name] / len(found)), percent(stable[name] / len(found))) for name in shown]
    more = f" {len(stable) - len(shown)} more are not listed." if len(stable) > len(shown) else ""
    what = f"Share of samples in which a feature is in the set.{more}"
    return table(what, ("feature", "in the set", "in the stable set"), rows) if rows else Markup()


def _sets(what: str, samples: list[SampleSummary]) -> Markup:
    rows = []
    for sample in samples:
        found = sample.sufficient
        if found is not None:
            added = found.stable_members[len(found.members) :]
            kept = f"{percent(found.stable_agreement)} of {found.n_supersets}"
            rows.append(
                (f"{sample.index}", sample.target, f"{len(found.members)} of {sample.n_players}",
                 listing(found.members, most=MAX_MEMBERS), listing(added, most=MAX_MEMBERS), kept)
            )  # fmt: skip
    head = ("sample", "decision", "suffice", "set", "added for the stable set", "random additions that agree")
    return table(what, head, rows, words=5)


def columns(content: PageContent, anchor: str, title: str) -> Markup:
    """What each column of a table is good for, and which can go; nothing where the record does not say."""
    report = content.record.columns
    if report is None:
        return Markup()
    n_copies = sum(bool(column.copies) for column in report.columns)
    advice = (
        f"{listing(report.can_go)} can go together." if report.can_go else "No column is recommended to be dropped."
    )
    copies = f" {count(n_copies, 'column')} have a copy: the most useful of each set of copies stays." * bool(n_copies)
    rows = [
        (column.name, "can go" if column.name in report.can_go else "keep", "; ".join(column.remarks),
         percent(column.share), f"{column.cost:+.4f} ± {column.cost_error:.4f}")
        for column in report.columns
    ]  # fmt: skip
    head = ("column", "advice", "roles, interchangeable columns, copies", "share of importance", "cost of dropping")
    shown = table("All columns, those that cost most to drop first.", head, rows[:MAX_COLUMNS], words=3)
    rest = rows[MAX_COLUMNS:]
    more = (
        [folded(count(len(rest), "more column"), table("Columns that cost less.", head, rest, words=3))] if rest else []
    )
    return section(
        anchor,
        title,
        tag("p", tag("b", f"{advice}{copies} {ADVICE}."), class_="decisive"),
        tag("p", "Cost of dropping: how much the column lowers the loss on the true labels, as its share of the whole "
            f"(mean Shapley value of the negative loss over {count(report.n_samples, 'sample')}, ± standard error; "
            "the audit takes about as many samples of each class). A column can go if that is at most "
            f"{percent(MAX_COST_SHARE)} of all costs, also at the upper end of its interval, or if a more useful "
            f"column is its copy: an association of at least {COPY:g} over the same samples (correlation, Cramer's V "
            "of categories). The cost is that of this model; a model that is trained without the column can make up "
            "for it."),
        shown,
        *more,
    )  # fmt: skip
