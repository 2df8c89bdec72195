"""The sections about decisions: how few features carry one, and which columns of a table can go."""

from __future__ import annotations

from collections import Counter
from statistics import median

from markupsafe import Markup

from bivshap_lightning.audit.record import SampleSummary
from bivshap_lightning.audit.record_columns import ADVICE, COPY, MAX_COST_SHARE
from bivshap_lightning.audit.record_decisions import SUFFICIENT
from bivshap_lightning.gate import GateError
from bivshap_lightning.gate.features import importance_of
from bivshap_lightning.views.html.content import PageContent
from bivshap_lightning.views.html.markup import folded, folded_section, section, table, tag
from bivshap_lightning.views.html.words import count, listing, percent

MAX_FEATURES, MAX_SAMPLES, MAX_MEMBERS, MAX_COLUMNS, MAX_NAMED = 12, 8, 8, 30, 3
NOTICEABLE = 0.05
"""Of all importance, and of a feature's own: less is not worth a sentence at the top of the page."""


def few_features(content: PageContent) -> str:
    """How few features suffice for a decision, in one sentence; empty for a record that does not say."""
    samples = [sample for sample in content.record.samples if sample.sufficient is not None]
    sizes = [len(sample.sufficient.members) for sample in samples if sample.sufficient is not None]
    if not sizes:
        return ""
    n_players, needed = median(sample.n_players for sample in samples), [size for size in sizes if size]
    n_empty, of_all = len(sizes) - len(needed), f"of {count(len(sizes), 'sample')}"
    if n_empty < len(needed):
        none = f"; in {n_empty} of them none is needed" if n_empty else ""
        return f"{_suffice(median(sizes), n_players)} for a decision (median {of_all}){none}."
    rest = f"; in the others {_suffice(median(needed), n_players)} (median)" if needed else ""
    return f"In {n_empty} {of_all} the decision stands with every feature replaced{rest}."


def _suffice(size: float, n_players: float) -> str:
    return f"{size:g} of {n_players:g} features suffice{'s' if size == 1 else ''}"


def leaning(content: PageContent) -> str:
    """What the model leans on, in one sentence: the strongest features and substitutes; empty if it is not known."""
    if content.has_own_parts:
        return ""
    try:
        names, importance = importance_of(content.record)
    except GateError:  # the samples have no features in common
        return ""
    totals = importance.sum(axis=0)
    if not totals.sum():
        return ""
    order = (-totals).argsort(kind="stable")[:MAX_NAMED].tolist()
    strongest = [f"{names[k]} ({totals[k] / totals.sum():.0%})".replace("%", " %") for k in order if totals[k] > 0]
    share = dict(zip(names, totals / totals.sum(), strict=True))
    pairs = [
        pair
        for pair in content.record.substitutes
        if pair.own >= NOTICEABLE and min(share.get(pair.player, 0), share.get(pair.given, 0)) >= NOTICEABLE
    ]
    replaced = f" Its strongest substitutes are {pairs[0].player} and {pairs[0].given}." if pairs else ""
    return f"The model leans most on {listing(strongest)} of all importance.{replaced}"


def sufficing(sample: SampleSummary) -> str:
    """How few features suffice for the decision on a sample, without their names; empty if the record does not say."""
    return "" if sample.sufficient is None else sample.sufficient.sentence(sample.n_players, most=0)


def suffices(content: PageContent, anchor: str, title: str) -> Markup:
    """Which features are in the sets that suffice, and the sets of the hardest samples."""
    samples = [sample for sample in content.record.samples if sample.sufficient is not None]
    if not samples:
        why = "a value has no decision to keep" if content.is_regression else "audit again to have them"
        return folded_section(anchor, title, tag("p", f"The record holds no sets of features that suffice: {why}."))
    hardest = _hardest(content)
    parts = [
        tag("p", few_features(content), _stability(content)),
        tag("p", "A set suffices if the decision stays with the features of the set alone, all others replaced. That "
            "is a weak promise: other features can still change the decision when they come back. The stable set is "
            "grown until random additions do not change it; fresh random additions then say how often that holds."),
        Markup() if content.has_own_parts else _members(samples),
        _sets("Sets of the hardest samples.", hardest[:MAX_SAMPLES]),
    ]  # fmt: skip
    if others := hardest[MAX_SAMPLES:]:
        what = f"Sets of {count(len(others), 'more sample')}"
        parts.append(folded(what, _sets(f"{what}, in this order.", others)))
    return folded_section(anchor, title, *parts)


def _stability(content: PageContent) -> str:
    numbers = [content.record.metrics.get(f"{SUFFICIENT}{name}") for name in ("stable_size", "stable_agreement")]
    values = [number.value for number in numbers if number is not None]
    if len(values) < 2:
        return ""
    size, agreement = values
    return f" The stable set has {size:.1f} on average; {percent(agreement)} of random additions leave the decision."


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
    together = " together" if len(report.can_go) > 1 else ""
    advice = f"{listing(report.can_go)} can go{together}. {ADVICE}." if report.can_go else "No column can go."
    copies = f" {n_copies} columns have copies: the most useful of each set of copies stays." if n_copies else ""
    rows = [
        (column.name, "can go" if column.name in report.can_go else "keep", "; ".join(column.remarks),
         percent(column.share), f"{column.cost:+.4f} ± {column.cost_error:.4f}")
        for column in report.columns
    ]  # fmt: skip
    head = ("column", "advice", "roles, interchangeable columns, copies", "share of importance", "cost of dropping")
    shown = table("Columns, those that cost most to drop first.", head, rows[:MAX_COLUMNS], words=3)
    rest = rows[MAX_COLUMNS:]
    more = (
        [folded(count(len(rest), "more column"), table("Columns that cost less.", head, rest, words=3))] if rest else []
    )
    details = (
        tag("p", "Cost of dropping: how much the column lowers the loss on the true labels, as its share of the whole "
            f"(mean Shapley value of the negative loss over {count(report.n_samples, 'sample')}, ± standard error; "
            "the audit takes about as many samples of each class). The cost is that of this model; a model that is "
            "trained without the column can make up for it."),
        tag("p", "A column can go if its cost is at most "
            f"{percent(MAX_COST_SHARE)} of all costs, also at the upper end of its interval, or if a more useful "
            f"column is its copy: an association of at least {COPY:g} over the same samples (correlation, Cramer's V "
            "of categories)."),
        shown,
        *more,
    )  # fmt: skip
    decisive = tag("p", tag("b", f"{advice}{copies}"), class_="decisive")
    return section(anchor, title, decisive, folded("What each column costs", *details))
