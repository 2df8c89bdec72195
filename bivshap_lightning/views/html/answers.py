"""The sections that answer first: which part each feature plays, and which features replace or need each other.

Substitutes and partners have a strength and an error at any gamma, while roles and groups depend on it. The sweep at
the end of the roles shows how much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from markupsafe import Markup

from bivshap_lightning.audit.record import MAX_PICTURED_CLASSES, AuditRecord, Estimate, PairSummary
from bivshap_lightning.gate.measuring import samples_of
from bivshap_lightning.graph import ROLES, ExplanationGraph
from bivshap_lightning.metrics.catalogue import ROLES as ROLES_TAG
from bivshap_lightning.metrics.catalogue import find_number
from bivshap_lightning.views import draw_axis
from bivshap_lightning.views.html.content import PageContent
from bivshap_lightning.views.html.drawings import sample_drawing
from bivshap_lightning.views.html.markup import beside, bullets, folded, picture, section, table, tag
from bivshap_lightning.views.html.words import count, listing, percent

MAX_FEATURES, MAX_PAIRS, OPEN_PAIRS, MAX_GROUPS, MAX_NAMED = 30, 6, 3, 6, 3
AXIS_WORDS = (
    "Dot: the importance of a feature (Shapley value). Ring: its importance once the others are there. Features joined "
    "by a solid blue arc replace each other, by a dashed orange arc need each other."
)
GONE = (
    "Gone: the share of the first feature's importance that is lost when the other is present. The pair's own part: "
    "what is lost beyond what a feature without effect takes away."
)
GONE_WORDS = (
    "Part of a feature's importance is gone with any other one present, because an output that is nearly reached "
    "cannot rise much; the pair's own part is what is left, with its standard error if it is estimated. A negative "
    "share means that the feature matters more then."
)
SIGNS = {"essential": "●", "interchangeable": "◆", "redundant": "▽", "irrelevant": "○", "undecided": "?"}
"""Signs of roles, as in the explorer, in the order of the tiles."""


def notes(content: PageContent) -> Markup:
    """What must be known before any number is read."""
    found = dict.fromkeys([*(() if content.verdict is None else content.verdict.notes), *content.record.notes])
    sentences = [tag("p", tag("b", note[:1].upper() + note[1:], class_="warn")) for note in found]
    return tag("aside", *sentences, class_="notes", aria_label="Notes") if sentences else Markup()


def pairs(content: PageContent, anchor: str, title: str) -> Markup:
    """The strongest substitutes and partners; folded below them the others and those of each class."""
    record = content.record
    if not any(sample.roles for sample in record.samples):
        said = "The record holds no degrees of substitution: audit again to have them."
    elif not (record.substitutes or record.partners or record.classes):
        said = "The samples have different features: those of single samples are in the explorer above."
    else:
        lists = {"substitutes": record.substitutes, "partners": record.partners}
        first = [_pair_table(kind, found[:OPEN_PAIRS], "over all samples") for kind, found in lists.items()]
        rest = [
            _pair_table(kind, found[OPEN_PAIRS:MAX_PAIRS], "over all samples, continued")
            for kind, found in lists.items()
            if found[OPEN_PAIRS:]
        ]
        more = folded("More pairs, and how to read them", tag("p", GONE_WORDS), beside(*rest), *_by_class(content))
        return section(anchor, title, tag("p", GONE), beside(*first), more)
    return section(anchor, title, tag("p", said))


def _by_class(content: PageContent) -> Iterator[Markup]:
    if len(content.record.classes) > 1:
        for name, graph in list(content.record.classes.items())[:MAX_PICTURED_CLASSES]:
            lists = {"substitutes": graph.substitutes, "partners": graph.partners}
            where = f"of {_class(content, name)}"
            yield beside(*(_pair_table(kind, found[:MAX_PAIRS], where) for kind, found in lists.items()))


def _class(content: PageContent, name: str) -> str:
    return f"“{name}”" if content.is_regression else f"class “{name}”"


def pictures(content: PageContent) -> list[Markup]:
    """The importance axis of every class with a mean graph, folded; without, the clearest sample.

    Args:
        content: of the page.
    """
    drawn = []
    for name, graph in list(content.record.class_graphs.items())[:MAX_PICTURED_CLASSES]:
        members = [
            g
            for sample, g in zip(content.record.samples, content.record.sample_graphs, strict=True)
            if sample.class_name == name
        ]
        if graph.shapley is None:
            continue
        drawn.append(_picture(content, name, graph, members))
    if not drawn:
        return _clearest_sample(content)
    what = "The output as a picture" if content.is_regression else f"Pictures of {count(len(drawn), 'class')}"
    return [folded(what, tag("p", AXIS_WORDS), beside(*drawn))]


def _clearest_sample(content: PageContent) -> list[Markup]:
    """The graphs of the sample whose features add most to its output, of those that have a picture if any has one."""
    order = content.record.hardest_samples()
    pictured = [k for k in order if f"segments_{k}" in content.record.arrays]
    return [sample_drawing(content, k) for k in (pictured or order)[-1:]]


def _picture(content: PageContent, name: str, graph: ExplanationGraph, members: Sequence[ExplanationGraph]) -> Markup:
    same = all(member.names == graph.names and member.shapley is not None for member in members)
    n = len(samples_of(content.record, name))
    heading = f"What matters for {_class(content, name)}"
    figure = draw_axis(
        graph,
        title=heading,
        subtitle=f"mean over {count(n, 'sample')}",
        graphs=members if same else None,
        xlabel=content.record.configuration.behavior,
    )
    summary = content.record.classes[name]
    sizes = np.zeros(graph.n_players) if graph.shapley is None else np.abs(graph.shapley)
    largest = [f"{graph.names[k]} ({sizes[k]:.2g})" for k in np.argsort(-sizes, kind="stable")[:MAX_NAMED]]
    gone = [f"{p.player} given {p.given} ({percent(p.total)})" for p in summary.substitutes[:MAX_NAMED]]
    words = f"{heading}. Largest Shapley values: {listing(largest)}. Largest shares gone: {listing(gone)}."
    return picture(figure, words, f"{heading}, mean over {count(n, 'sample')}.", is_narrow=True)


_PAIRS = {
    "substitutes": ("given", "No features replace each other noticeably"),
    "partners": ("with", "No features need each other noticeably"),
}
"""By kind of pair: the word between the two, and what is said if there are none."""


def _pair_table(kind: str, pairs: Sequence[PairSummary], where: str) -> Markup:
    """A table of substitutes or partners, or a sentence."""
    word, nothing = _PAIRS[kind]
    if not pairs:
        return tag("p", f"{nothing} {where}.")
    rows = [(f"{p.player} {word} {p.given}", percent(p.total), _own_part(p)) for p in pairs]
    return table(f"Strongest {kind} {where}.", (f"feature {word} another", "gone", "the pair's own part"), rows)


def _own_part(pair: PairSummary) -> str:
    return f"{percent(pair.own)} ± {percent(pair.own_error)}" if pair.own_error else percent(pair.own)


def roles(content: PageContent, anchor: str, title: str) -> Markup:
    """Shares of roles over samples, per class and per feature, groups, and the sweep over gamma."""
    record = content.record
    if not any(sample.roles for sample in record.samples):
        return section(anchor, title, tag("p", "The record holds no roles: audit again to have them."))
    rule = "is fixed" if record.configuration.gamma_rule == "fixed" else f"= {record.configuration.gamma_rule}"
    intro = (
        f"The part that features play in a decision at γ = {content.gamma_text()}: share of features, ± standard error "
        f"over samples. What replaces an absent feature: {record.configuration.removal.split(' #')[0]}."
    )
    said = tag("p", f"γ is the largest importance that counts as redundant. Here γ {rule}.")
    rest = *_interchangeable_groups(record), *_role_details(content), *_sweep(content)
    details = folded("Roles in detail", said, *rest)
    return section(anchor, title, tag("p", intro), _tiles(record), details)


def _tiles(record: AuditRecord) -> Markup:
    """The share of features in each role, and what the role means."""
    tiles = []
    for role, sign in SIGNS.items():
        entry, found = find_number(f"{ROLES_TAG}{role}"), record.metrics.get(f"{ROLES_TAG}{role}")
        if entry is not None:
            share = "–" if found is None else percent(found.value)
            error = "" if found is None else tag("small", f" ± {percent(found.standard_error)}")
            mark = tag("span", sign, aria_hidden="true")
            what = tag("span", mark, f" {role}: ", tag("span", entry.meaning, class_="soft"))
            tiles.append(tag("b", share, error) + what)
    return bullets(tiles, class_="tiles")


def _role_details(content: PageContent) -> Iterator[Markup]:
    """Roles per class, and per feature where features of the same name are the same thing in all samples."""
    record = content.record
    if len(record.class_metrics) > 1:
        yield _role_shares(record)
    if not content.has_own_parts:
        yield _roles_of_features(record)


def _role_shares(record: AuditRecord) -> Markup:
    rows = [("all samples", *_shares(record.metrics))]
    rows += [(name, *_shares(found.metrics)) for name, found in record.class_metrics.items()]
    return table("Share of features in each role, ± standard error over samples.", ("samples", *ROLES), rows)


def _shares(metrics: Mapping[str, Estimate]) -> list[str]:
    found = [metrics.get(f"{ROLES_TAG}{role}") for role in ROLES]
    return ["–" if m is None else f"{percent(m.value)} ± {percent(m.standard_error)}" for m in found]


def _roles_of_features(record: AuditRecord) -> Markup:
    """Features that are not always irrelevant first; of many, the first."""
    by_feature = record.roles_of_features
    order = sorted(by_feature, key=lambda name: by_feature[name]["irrelevant"])
    rows = [(name, *(percent(by_feature[name][role]) for role in ROLES)) for name in order[:MAX_FEATURES]]
    more = f" {len(order) - MAX_FEATURES} more are not listed." if len(order) > MAX_FEATURES else ""
    return table(f"Share of samples in which each feature has each role.{more}", ("feature", *ROLES), rows)


def _interchangeable_groups(record: AuditRecord) -> Iterator[Markup]:
    """Groups of relevant features of which any one will do, and whether the model confirms them."""
    counts: dict[tuple[str, ...], int] = {}
    for sample in record.samples:
        for group in sample.interchangeable:
            counts[group] = counts.get(group, 0) + 1
    if not counts:
        yield tag("p", "No relevant features are interchangeable at this γ: the degrees above say how near they come.")
        return
    order = sorted(counts, key=lambda group: -counts[group])[:MAX_GROUPS]
    rows = [(" = ".join(group), f"{counts[group]} of {len(record.samples)}") for group in order]
    confirmed = record.metrics.get(f"{ROLES_TAG}share_groups_confirmed")
    said = "" if confirmed is None else (
        f" The model confirms {percent(confirmed.value)} of them: one random member is enough for the decision, and "
        "without all members the output changes."
    )  # fmt: skip
    yield table(f"Interchangeable features.{said}", ("group", "samples that have it"), rows)


def _sweep(content: PageContent) -> Iterator[Markup]:
    points = content.record.sweep
    if not points:
        return
    head = ["γ", *ROLES, "density of H", "removable"]
    head += [] if content.is_regression else ["same prediction without them", "as many at random"]
    rows = []
    for point in points:
        row = [f"{point.gamma:.3g}", *(percent(point.roles[role]) for role in ROLES)]
        row += [percent(point.density), percent(point.share_removable)]
        if not content.is_regression:
            row += [percent(point.accuracy_with_representatives), percent(point.random_removal_accuracy)]
        rows.append(row)
    low, high = content.record.gamma_range
    shown = "" if low == high else (
        " γ is that of the samples with the most features; the others are at the same multiple of their own."
    )  # fmt: skip
    yield table(f"The same explanations at other thresholds γ.{shown}", head, rows)
