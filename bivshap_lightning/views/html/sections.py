"""The sections of the page, each made from the page's content alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from bivshap_lightning.audit.json_fields import encode
from bivshap_lightning.audit.record import MAX_PICTURED_CLASSES, AuditRecord
from bivshap_lightning.audit.record_decisions import SUFFICIENT
from bivshap_lightning.gate.drift import drift
from bivshap_lightning.gate.judging import graph_pair
from bivshap_lightning.gate.measuring import count_groups, heaviest_groups, measure, samples_of
from bivshap_lightning.gate.verdict import RuleResult, number
from bivshap_lightning.metrics.catalogue import REDUNDANCY, ROLES, find_number, numbers_of, ranking_numbers
from bivshap_lightning.views import draw_curves
from bivshap_lightning.views.html.content import PageContent
from bivshap_lightning.views.html.drawings import drawing, sample_drawing
from bivshap_lightning.views.html.markup import (
    breakable,
    bullets,
    folded,
    folded_section,
    picture,
    section,
    table,
    tag,
)
from bivshap_lightning.views.html.words import count, listing, meaning, percent

OPEN_CLASSES, MAX_SAMPLES, MAX_ROWS, MAX_GROUPS, MAX_MEMBERS = 4, 4, 8, 10, 12
TWO_SIDED = 0.975
OURS = "ours"
CONTROLS = {"random_removal_accuracy": "with as many features removed at random", "empty_accuracy": "with none left"}
"""What the share of predictions that stay with one feature of each group must be compared with."""
BY_CLASS = (
    f"bivshap/post_hoc_accuracy/{OURS}",
    f"bivshap/removal_error/{OURS}",
    f"{ROLES}n_independent",
    f"{SUFFICIENT}size",
    f"{REDUNDANCY}accuracy_with_representatives",
    f"{REDUNDANCY}share_removable",
    f"{REDUNDANCY}n_independent",
    f"{REDUNDANCY}mask_sinks_accuracy",
    f"{REDUNDANCY}keep_only_sources_accuracy",
)
"""The numbers in the table of classes."""


def verdict(content: PageContent, anchor: str, title: str) -> Markup:
    """The rules that are not met and why; those that are met fold away. Nothing without rules."""
    judged = content.verdict
    if judged is None:
        return Markup()
    unmet = [o for o in judged.results if o.status != "pass"]
    met = [o for o in judged.results if o.status == "pass"]
    met_title = f"{count(len(met), 'rule')} met"
    if not unmet:
        return folded_section(anchor, f"{title}: {met_title}", _rules(met))
    parts = [_rules(unmet)]
    for o in unmet:
        evidence = tag("p", "; ".join(o.evidence), class_="soft") if o.evidence else Markup()
        parts += [tag("h3", f"Why “{o.rule.name}” is not met"), tag("p", o.reason), evidence]
    if met:
        parts.append(folded(met_title, _rules(met)))
    return section(anchor, title, *parts)


def _rules(results: Sequence[RuleResult]) -> Markup:
    rows = []
    for o in results:
        c = o.check
        limit = f"{c.threshold_name} {number(c.threshold)}".replace("_", " ")
        mark = tag("b", {"pass": "✓ pass", "fail": "✗ fail", "warn": "! warn"}[o.status], class_=o.status)
        said = tag("small", meaning(o.rule.metric)[0])
        rows.append((breakable(o.subject) + said, mark, number(c.value), number(c.bound), limit))
    what = "Every rule with the number it judges and the confidence bound of that number on the unfavourable side."
    return table(what, ("rule", "result", "value", "bound", "threshold"), rows, words=2)


def groups(content: PageContent, anchor: str, title: str) -> Markup:
    """Which features replace each other, per class and over the samples."""
    behavior = content.record.configuration.behavior
    parts = [
        tag("p", "Groups of the redundancy graph H, as the paper defines it. An edge i → j of H says that once i is "
            f"present, j adds at most 2 γ = {content.gamma_text(2)} to the explained output ({behavior}) on average. A "
            "group is connected by such edges in both directions, so that two of its members can add more than that "
            "to each other."),
        tag("p", "H does not ask whether a feature matters at all: most members of large groups usually "
            "play no part in the decision, see the roles above."),
        tag("p", "Redundancy can also run one way. A source makes others redundant and is made so by none; a sink is "
            "made redundant by others and makes none so."),
    ]  # fmt: skip
    rows = [
        (name, Markup("; ").join(map(_members, g.groups)) or "none", _members(g.sources, ", "),
         _members(g.sinks, ", "), percent(g.density), f"{g.n_undecided:,}")
        for name, g in content.record.classes.items()
    ]  # fmt: skip
    if rows:
        low, high = content.record.gamma_range
        at = "" if low == high else ", at the smallest γ of its samples"
        what = (
            f"Mean graph of each class{at}. Density: share of ordered pairs where the first makes the second redundant."
        )
        head = ("class", "groups", "sources", "sinks", "density", "undecided pairs")
        parts.append(table(what, head, rows, words=4))
    else:
        parts.append(tag("p", "No class has a mean graph, because its samples have different features."))
    return folded_section(anchor, title, *parts, *_representatives(content), *_groups_over_samples(content))


def _representatives(content: PageContent) -> Iterator[Markup]:
    """How many predictions stay with one feature of each group, and what that must be compared with."""
    name, metrics = f"{REDUNDANCY}accuracy_with_representatives", content.record.metrics
    if name not in metrics:
        return
    interval = measure(content.record, name, confidence=TWO_SIDED)
    sure = _interval(interval.lower, interval.upper)
    known = {said: metrics.get(f"{REDUNDANCY}{control}") for control, said in CONTROLS.items()}
    compared = [f"{percent(found.value)} {said}" for said, found in known.items() if found is not None]
    compare = f" Compare: {', '.join(compared)}." if compared else ""
    yield tag("p", f"{percent(interval.value)} of predictions stay with one feature of each group ({sure}).{compare}")


def _interval(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return "interval unknown"
    return f"95 % interval: {percent(lower)} to {percent(upper)}"


def _members(names: Sequence[str], sign: str = " = ") -> Markup:
    """All names, folded if there are many."""
    if len(names) <= MAX_MEMBERS:
        return tag("span", sign.join(names) or "none")
    summary = tag("summary", f"{len(names)}: {listing(names, most=3)}")
    return tag("details", summary, *(tag("span", name, sign) for name in names[:-1]), tag("span", names[-1]))


def _groups_over_samples(content: PageContent) -> Iterator[Markup]:
    counts, n_samples = count_groups(content.record), len(content.record.samples)
    order = heaviest_groups(counts)
    if order:
        grouped = Counter(player for sample in content.record.samples for group in sample.groups for player in group)
        always = [player for player, n in grouped.items() if n == n_samples]
        sometimes = count(len(grouped) - len(always), "feature")
        yield tag(
            "div", "In a group in every sample: ", _members(always, ", "), f". In some samples only: {sometimes}."
        )
        left_out = f" {len(order) - MAX_GROUPS} lighter ones are left out." if len(order) > MAX_GROUPS else ""
        what = f"Groups in the graphs of single samples, those that weigh most first.{left_out}"
        rows = [(_members(g), f"{len(g)}", f"{counts[g]} of {n_samples}") for g in order[:MAX_GROUPS]]
        yield table(what, ("group", "features", "samples that have it"), rows)
    else:
        gamma = content.gamma_text(form=number)
        yield tag("p", f"No sample has mutually redundant features at γ = {gamma}. An audit with a larger "
                  "gamma finds those that are nearly so.")  # fmt: skip
    if content.previous is not None:
        before, n_before = count_groups(content.previous), len(content.previous.samples)
        changes = [
            ("new", group, counts[group], n_samples) for group in heaviest_groups(counts) if group not in before
        ][:3]
        changes += [
            ("gone", group, before[group], n_before) for group in heaviest_groups(before) if group not in counts
        ][:3]
        yield tag("h3", "Since the previous record")
        yield from _drift(content, content.previous)
        entries = [tag("div", f"{word}: ", _members(g), f" ({k} of {n} samples)") for word, g, k, n in changes]
        yield bullets(entries) or tag("p", "The same groups.")


def _drift(content: PageContent, previous: AuditRecord) -> Iterator[Markup]:
    """How far the class graphs moved."""
    names = [name for name in content.record.class_graphs if name in previous.class_graphs]
    if names:
        pairs = [(name, graph_pair(name, content.record, previous)) for name in names]
        drifts = numbers_of("drift")
        rows = [(name, *(f"{drift(d.tag, pair).value:.3f}" for d in drifts)) for name, pair in pairs]
        what = "Drift of each class graph: 0 is the same as before; 1 (ranking: 2) is as different as can be."
        yield table(what, ("class", *(d.title for d in drifts)), rows)


def graphs(content: PageContent, anchor: str, title: str) -> Markup:
    """A picture per class, with the same in words."""
    second = "On the right, an arrow i → j says that j is redundant once i is present; one box holds features that "
    if content.has_pictures:
        second = "In the middle, parts of one colour "
    third = " On the right, bright parts rank high." if content.has_pictures else ""
    parts = [
        tag("p", "On the left, an arrow i → j is the importance of j once i is present: the wider, the more. "
            f"{second}make each other redundant.{third}")
    ]  # fmt: skip
    classes = content.record.class_graphs
    drawn, pictures = list(classes.items())[:MAX_PICTURED_CLASSES], []
    kind = "Output" if content.is_regression else "Class"
    for name, graph in drawn:
        subtitle = f"mean over {count(len(samples_of(content.record, name)), 'sample')}"
        pictures.append(drawing(content, graph, summary=content.record.classes[name], name=f"{kind} “{name}”",
                                subtitle=subtitle, position=content.example(name)))  # fmt: skip
    parts += pictures[:OPEN_CLASSES]
    if pictures[OPEN_CLASSES:]:
        parts.append(folded(f"{count(len(drawn) - OPEN_CLASSES, 'more class')}", *pictures[OPEN_CLASSES:]))
    if len(classes) > len(drawn):
        parts.append(tag("p", f"The first {len(drawn)} of {len(classes)} classes are drawn."))
    if not drawn:
        parts.append(tag("p", "There is no mean graph to draw, because samples have different features. Graphs of "
                         "single samples stand below."))  # fmt: skip
    return folded_section(anchor, title, *parts)


def curves(content: PageContent, anchor: str, title: str) -> Markup:
    """How the ranking does beside those of other methods."""
    if not content.record.curves:
        return folded_section(anchor, title, tag("p", "The record holds no curves."))
    lines = {
        name: (list(c.masked_fraction), list(c.accuracy), list(c.standard_error))
        for name, c in content.record.curves.items()
    }
    title_, ylabel, kept = _CURVES[content.is_regression]
    figure = draw_curves(
        lines,
        title=title_,
        xlabel="share of features removed, least important first",
        ylabel=ylabel,
        caption="Higher is better: what is left is enough for the prediction.",
        ours=OURS if OURS in lines else None,
    )
    judged = ranking_numbers(content.record.configuration.task)
    areas = [(m, *(_area(content, n.tag_of(m)) for n in judged)) for m in lines]
    heads = [f"{n.title} {'↑' if n.direction == 'higher' else '↓'}" for n in judged]
    words = "; ".join(f"{m} {area}" for m, area, *_ in areas)
    points = [(m, percent(x), percent(y), percent(e)) for m, c in lines.items() for x, y, e in zip(*c, strict=True)]
    # Few players make many equal points.
    steps = list(dict.fromkeys(points))
    return folded_section(
        anchor,
        title,
        tag("p", "A good ranking names the features that carry the prediction: it stays when the others go, and falls "
            "when these go. “ours” is, for each number, the ranking that it is about: best to keep first, for deletion "
            f"most damaging removal first, read off {content.ranked_on}."),
        picture(figure, f"Curves of {count(len(lines), 'method')}. Mean over the curve: {words}.",
                f"{kept}, by method."),
        table("Value ± standard error over samples. Rows: model rows per sample that each method spent.",
              ("method", "rows", *heads), [(m, _rows_of(content, m), *rest) for m, *rest in areas]),
        folded("The points of the curves", table("Points of the curves.", ("method", "removed", ylabel,
               "standard error"), steps)),
    )  # fmt: skip


_CURVES = {
    False: ("Post-hoc accuracy as features are removed", "same prediction as on the full input",
            "Share of samples that keep their prediction"),
    True: ("What is kept of the prediction as features are removed", "share of the prediction kept",
           "Share of the predicted value that is kept"),
}  # fmt: skip
"""Title, axis and caption of the curves; of regressions under True."""


def _rows_of(content: PageContent, method: str) -> str:
    spent = content.record.cost.evaluations_per_sample.get(method)
    return "–" if spent is None else f"{spent:,.0f}"


def _area(content: PageContent, metric: str) -> str:
    if metric not in content.record.metrics:
        return "–"
    found = content.record.metrics[metric]
    return f"{found.value:.3f} ± {found.standard_error:.3f}"


def samples(content: PageContent, anchor: str, title: str) -> Markup:
    """The samples to look at first."""
    predicted = content.record.configuration.target == "predicted"
    rows = content.record.hardest_samples()
    explained = "explained output" if content.is_regression else "explained class"
    head = ("sample", "label", explained, "gain", "groups", "removable", "undecided pairs")
    wrong = "Samples that the model gets wrong come first, then those" if predicted else "First come those"
    adds = "add least to"
    if content.is_regression:
        wrong, adds = "First come those", "move least, up or down,"
    intro = (
        f"{wrong} whose features together {adds} the explained output (“gain”: the sum of the Shapley values, "
        "which is the output on the whole input less the output with every feature removed). Where the gain is near 0 "
        "there is little to explain. The record keeps no confidence of single predictions."
    )
    first, others = [_row(content, k) for k in rows[:MAX_ROWS]], [_row(content, k) for k in rows[MAX_ROWS:]]
    parts = [tag("p", intro), table("The hardest samples.", head, first, words=3)]
    if others:
        what = count(len(others), "more sample")
        parts.append(folded(what, table(f"{what}, in this order.", head, others, words=3)))
    parts += [sample_drawing(content, k) for k in rows[:MAX_SAMPLES]]
    return folded_section(anchor, title, *parts)


def _row(content: PageContent, k: int) -> tuple[str, ...]:
    sample = content.record.samples[k]
    label = "none" if sample.label is None else sample.label
    removable = f"{sample.n_removable} of {sample.n_players}"
    return (f"{sample.index}", label, sample.target, number(sample.gain), f"{sample.n_groups}", removable,
            f"{sample.n_undecided:,}")  # fmt: skip


def numbers(content: PageContent, anchor: str, title: str) -> Markup:
    """Every metric with its meaning and uncertainty, and what it was before."""
    head = ["number", "value", "standard error", "95 % interval"]
    head += ["previous", "change"] if content.previous is not None else []
    rows: list[list[object]] = []
    for name, found in content.record.metrics.items():
        interval = measure(content.record, name, confidence=TWO_SIDED)
        known = interval.lower is not None and interval.upper is not None
        between = f"{number(interval.lower)} to {number(interval.upper)}" if known else "unknown"
        error, entry = number(found.standard_error), find_number(name)
        if entry is not None and entry.interval == "none":
            error = between = "none"
        what = tag("small", " · ".join(filter(None, meaning(name))))
        row: list[object] = [breakable(name) + what, number(found.value), error, between]
        if content.previous is not None:
            before = content.previous.metrics.get(name)
            row += ["–", "–"] if before is None else [number(before.value), f"{found.value - before.value:+.4g}"]
        rows.append(row)
    over = count(len(content.record.samples), "sample")
    note = (
        f"Over {over}. A standard error of 0: all samples agree, and the interval of a share of samples comes from "
        "their number. None: the number is taken as it is."
    )
    parts = [tag("p", note), table("All numbers of the record.", head, rows), _by_class(content)]
    return folded_section(anchor, title, *parts)


def _by_class(content: PageContent) -> Markup:
    """The main numbers of every class."""
    rows = []
    by_class = content.record.class_metrics
    shown = [metric for metric in BY_CLASS if any(metric in of_class.metrics for of_class in by_class.values())]
    for name, of_class in by_class.items():
        found = [of_class.metrics.get(metric) for metric in shown]
        cells = ["–" if m is None else f"{m.value:.3g} ± {m.standard_error:.2g}" for m in found]
        rows.append((name, f"{of_class.n_samples:,}", *cells))
    what = "The main numbers by class: value ± standard error over its samples."
    heads = [entry.title for entry in map(find_number, shown) if entry is not None]
    return table(what, ("class", "samples", *heads), rows) if rows else Markup()


def made(content: PageContent, anchor: str, title: str) -> Markup:
    """Cost, configuration, versions and the run, as recorded."""
    names = {"cost": "Cost", "configuration": "Configuration", "run": "Run", "versions": "Versions"}
    parts = []
    for field, name in names.items():
        rows = list(_flat(encode(getattr(content.record, field))))
        facts = table(f"{name}, as recorded.", ("field", "value"), rows, words=2)
        parts += [tag("h3", name), tag("div", facts, class_="facts") if rows else tag("p", "Nothing was recorded.")]
    return folded_section(anchor, title, *parts)


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested fields on one level; of long lists the beginning."""
    for key, value in fields.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}: ")
        elif isinstance(value, list):
            yield name, listing([str(entry) for entry in value], most=6)
        elif isinstance(value, float):
            yield name, f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else number(value)
        else:
            yield name, "none" if value is None else str(value)
