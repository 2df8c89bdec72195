"""The sections that answer first: which features replace or need each other, and which part each one plays.

Degrees come before thresholds: substitutes and partners have a strength and an error at any gamma, while roles and
groups depend on it. The sweep at the end of the roles shows how much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from bivshap_lightning.audit.record import MAX_PICTURED_CLASSES, AuditRecord, Estimate, PairSummary
from bivshap_lightning.gate.measuring import samples_of
from bivshap_lightning.graph import ROLES, ExplanationGraph
from bivshap_lightning.metrics.catalogue import ROLES as ROLES_TAG
from bivshap_lightning.metrics.catalogue import find_number
from bivshap_lightning.views import draw_axis
from bivshap_lightning.views.html.content import PageContent
from bivshap_lightning.views.html.drawings import sample_drawing
from bivshap_lightning.views.html.markup import beside, folded, picture, section, table, tag
from bivshap_lightning.views.html.words import count, listing, percent

MAX_FEATURES, MAX_PAIRS, OPEN_CLASSES = 30, 6, 2
AXIS_WORDS = (
    "Dot: the importance of a feature (Shapley value). Ring: its importance once the others are there. Features joined "
    "by a solid blue arc replace each other, by a dashed orange arc need each other."
)
GONE_WORDS = (
    "Gone: the share of a feature's importance that is lost when the other is present. Part of that happens with any "
    "other feature, because an output that is nearly reached cannot rise much; the pair's own part is what is left, "
    "with its standard error. A negative share means that the feature matters more then."
)


def notes(content: PageContent) -> Markup:
    """What must be known before any number is read."""
    sentences = [tag("p", tag("b", note[:1].upper() + note[1:], class_="warn")) for note in content.record.notes]
    return tag("aside", *sentences, class_="notes", aria_label="Notes") if sentences else Markup()


def pairs(content: PageContent, anchor: str, title: str) -> Markup:
    """The picture of each class, then the strongest substitutes and partners."""
    record = content.record
    removal = f"What replaces an absent feature: {record.configuration.removal.split(' #')[0]}."
    parts = [tag("p", f"{AXIS_WORDS} {removal}" if record.classes else removal), *_pictures(content)]
    if not any(sample.roles for sample in record.samples):
        return section(
            anchor, title, tag("p", "The record holds no degrees of substitution: audit again to have them.")
        )
    if not (record.substitutes or record.partners or record.classes):
        parts.append(tag("p", "The samples have different features: substitutes and partners of single samples are in "
                         "the explorer below."))  # fmt: skip
    else:
        parts.append(tag("p", GONE_WORDS))
        parts.append(beside(*_pair_tables(record.substitutes, record.partners, "over all samples")))
    by_class = [
        table_
        for name, graph in list(record.classes.items())[:MAX_PICTURED_CLASSES]
        for table_ in _pair_tables(graph.substitutes, graph.partners, f"of {_class(content, name)}")
    ]
    if len(record.classes) > 1:
        parts.append(folded("By class", *by_class))
    return section(anchor, title, *parts)


def _class(content: PageContent, name: str) -> str:
    return f"“{name}”" if content.is_regression else f"class “{name}”"


def _pictures(content: PageContent) -> list[Markup]:
    """The importance axis of every class with a mean graph, the first ones open; without, the clearest sample."""
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
    rest = drawn[OPEN_CLASSES:]
    return [beside(*drawn[:OPEN_CLASSES]), *([folded(count(len(rest), "more class"), beside(*rest))] if rest else [])]


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
    strongest = [f"{p.player} given {p.given}" for p in summary.substitutes[:1]]
    needed = [f"{p.player} with {p.given}" for p in summary.partners[:1]]
    words = f"{heading}. Strongest substitute: {listing(strongest)}. Strongest partner: {listing(needed)}."
    return picture(figure, words, words, is_narrow=True)


def _pair_tables(substitutes: Sequence[PairSummary], partners: Sequence[PairSummary], where: str) -> Iterator[Markup]:
    """One table of substitutes and one of partners, or a sentence."""
    kinds = {
        "substitutes": (substitutes, "given", "No features replace each other noticeably"),
        "partners": (partners, "together with", "No features need each other noticeably"),
    }
    for kind, (pairs, word, nothing) in kinds.items():
        if not pairs:
            yield tag("p", f"{nothing} {where}.")
            continue
        rows = [
            (f"{p.player} {word} {p.given}", percent(p.total), f"{percent(p.own)} ± {percent(p.own_error)}")
            for p in pairs[:MAX_PAIRS]
        ]
        yield table(f"Strongest {kind} {where}.", (f"feature {word} another", "gone", "the pair's own part"), rows)


def roles(content: PageContent, anchor: str, title: str) -> Markup:
    """Shares of roles over samples, per class and per feature, groups, and the sweep over gamma."""
    record = content.record
    if not any(sample.roles for sample in record.samples):
        return section(anchor, title, tag("p", "The record holds no roles: audit again to have them."))
    shares = dict(zip(ROLES, _shares(record.metrics), strict=True))
    meanings = [
        (tag("span", role) + tag("small", entry.meaning), shares[role])
        for role in ROLES
        if (entry := find_number(f"{ROLES_TAG}{role}")) is not None
    ]
    rule = "" if record.configuration.gamma_rule == "fixed" else f" ({record.configuration.gamma_rule})"
    parts = [
        tag("p", f"The part that each feature plays in a decision at γ = {content.gamma:.3g}{rule}, per sample."),
        table(
            "What the roles mean, and the share of features in each, ± standard error over samples.",
            ("role", "share"),
            meanings,
        ),
        *_interchangeable_groups(record),
        *_role_details(content),
        *_sweep(content),
    ]
    return section(anchor, title, *parts)


def _role_details(content: PageContent) -> Iterator[Markup]:
    """Roles per class, and per feature where features of the same name are the same thing in all samples."""
    record = content.record
    if len(record.class_metrics) > 1:
        yield folded("Roles by class", _role_shares(record))
    if not content.has_own_parts:
        yield folded("Roles by feature", _roles_of_features(record))


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
    order = sorted(counts, key=lambda group: -counts[group])[:MAX_PAIRS]
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
    yield folded("At other thresholds γ", table("The same explanations at other thresholds.", head, rows))
