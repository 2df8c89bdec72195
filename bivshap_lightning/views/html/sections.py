"""The sections of the page, each from the audit alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bivshap_lightning.audit.record import MAX_CLASSES, hardest_first
from bivshap_lightning.gate import Evidence
from bivshap_lightning.gate.drift import drift
from bivshap_lightning.gate.judging import pair_of
from bivshap_lightning.gate.measures import PREFIX
from bivshap_lightning.gate.rules import DRIFTS
from bivshap_lightning.gate.verdict import number
from bivshap_lightning.views import draw_curves
from bivshap_lightning.views.html.audit import Audit
from bivshap_lightning.views.html.drawings import drawing
from bivshap_lightning.views.html.markup import Markup, bullets, folded, picture, section, spelt, table, tag
from bivshap_lightning.views.html.words import count, listing, meaning, percent

OPEN_CLASSES, MAX_SAMPLES, MAX_GROUPS, MAX_MEMBERS = 4, 4, 10, 12
TWO_SIDED = 0.975
TILES = (
    f"{PREFIX}share_removable",
    f"{PREFIX}accuracy_with_representatives",
    "bivshap/posthoc_accuracy/ours",
    f"{PREFIX}share_undecided",
)


def title(audit: Audit) -> str:
    """For the browser's tab."""
    verdict = audit.verdict
    word = "Audit" if verdict is None else "Passed" if verdict.passed else "Failed"
    return f"{word}: {_when(audit.record['run'])}"


def _when(run: Mapping[str, Any]) -> str:
    words = [str(run["stage"])] if "stage" in run else []
    return ", ".join([*words, *(f"{k} {run[k]}" for k in ("epoch", "step") if k in run)]) or "unnamed run"


def headline(audit: Audit) -> Markup:
    """The verdict in one line, where the eye falls first."""
    verdict = audit.verdict
    n, n_classes = len(audit.evidence.samples), len({g.class_name for g in audit.evidence.samples})
    found = f"{count(n, 'sample')} of {count(n_classes, 'class')}"
    kind, kicker, line = "none", "No verdict: no rules were given", f"Redundancy audit of {found}"
    if verdict is not None:
        statuses = [o.status for o in verdict.outcomes]
        n_failed, n_warned = statuses.count("fail"), statuses.count("warn")
        kind, kicker = ("pass", "✓ Passed") if verdict.passed else ("fail", "✗ Failed")
        rules = count(len(statuses), "rule")
        line = f"The model breaks {n_failed} of {rules}"
        if verdict.passed:
            line = "The model passes" if n_warned else f"The model meets its {rules}"
        line += f", with {count(n_warned, 'warning')}" if n_warned else ""
    about = _when(audit.record["run"]) if verdict is None else f"{found} · {_when(audit.record['run'])}"
    if audit.previous is not None:
        about += f" · compared with {_when(audit.previous.run)}"
    parts = tag("p", kicker, class_="kicker"), tag("h1", line), tag("p", about, class_="soft")
    return tag("header", tag("div", *parts, class_=f"verdict {kind}"))


def verdict(audit: Audit, anchor: str, title: str) -> Markup:
    """What each rule found, and the few numbers to know."""
    judged = audit.verdict
    if judged is None:
        hint = tag("p", "The record was not held against rules: pass --rules to have it judged.")
        return section(anchor, title, hint, _tiles(audit))
    rows = []
    for o in judged.outcomes:
        c = o.check
        name = o.rule.metric if c.class_name == "all" else f"{o.rule.metric} of class {c.class_name}"
        limit = f"{c.threshold_name} {number(c.threshold)}".replace("_", " ")
        mark = tag("b", {"pass": "✓ pass", "fail": "✗ fail", "warn": "! warn"}[o.status], class_=o.status)
        said = tag("small", meaning(o.rule.metric)[0])
        rows.append((Markup(spelt(name) + said), mark, number(c.value), number(c.bound), limit))
    what = "Every rule with the number it judges and the confidence bound of that number on the unfavourable side."
    parts = [table(what, ("rule", "result", "value", "bound", "threshold"), rows, words=2), _tiles(audit)]
    for o in judged.outcomes:
        if o.status != "pass":
            parts += [tag("h3", f"Why “{o.rule.name}” is not met"), tag("p", o.reason), bullets(o.evidence)]
    return section(anchor, title, *parts)


def _tiles(audit: Audit) -> Markup:
    tiles = []
    for name in TILES:
        if name in audit.evidence.metrics:
            interval = audit.evidence.measure(name, "all", TWO_SIDED)
            sure = _interval(interval.lower, interval.upper)
            what = meaning(name)[0]
            tiles.append(Markup(tag("b", percent(interval.value)) + tag("span", what) + tag("p", sure, class_="soft")))
    return bullets(tiles, class_="tiles")


def _interval(lower: float | None, upper: float | None) -> str:
    return (
        "interval unknown" if lower is None or upper is None else f"95 % interval {percent(lower)} to {percent(upper)}"
    )


def groups(audit: Audit, anchor: str, title: str) -> Markup:
    """Which features stand in for one another, per class and over the samples."""
    behavior = audit.evidence.configuration["behavior"]
    parts = [
        tag("p", "The features of a group make each other redundant, directly or through other members: once the one "
            f"is present, the other changes the explained output ({behavior}) by no more than γ = {audit.gamma:g} on "
            "average. Which of them the model leans on is arbitrary then, and credit given to one belongs to all."),
        tag("p", "Redundancy can also run one way. A source makes others redundant and is made so by none; a sink is "
            "made redundant by others and makes none so."),
    ]  # fmt: skip
    rows = [
        (name, Markup("; ".join(map(_members, g["groups"])) or "none"), _members(g["sources"], ", "),
         _members(g["sinks"], ", "), percent(g["density"]), f"{g['n_undecided']:,}")
        for name, g in audit.record["classes"].items()
    ]  # fmt: skip
    if rows:
        what = "Mean graph of each class. Density: share of ordered pairs where the first makes the second redundant."
        head = ("class", "interchangeable groups", "sources", "sinks", "density", "undecided pairs")
        parts.append(table(what, head, rows, words=4))
    else:
        parts.append(tag("p", "No class has a mean graph, because its samples have different features."))
    return section(anchor, title, *parts, *_groups_over_samples(audit))


def _members(names: Sequence[str], sign: str = " = ") -> Markup:
    """All names, folded if there are many."""
    if len(names) <= MAX_MEMBERS:
        return tag("span", sign.join(names) or "none")
    summary = tag("summary", f"{len(names)}: {listing(names, most=3)}")
    return tag("details", summary, *(tag("span", name, sign) for name in names[:-1]), tag("span", names[-1]))


def _groups_over_samples(audit: Audit) -> Iterator[Markup]:
    counts, n_samples = audit.evidence.groups("all"), len(audit.evidence.samples)
    order = _heaviest(counts)
    if order:
        grouped = Counter(player for sample in audit.evidence.samples for group in sample.groups for player in group)
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
        gamma = audit.evidence.configuration["gamma"]
        yield tag("p", f"No sample has interchangeable features at γ = {number(gamma)}. An audit with a larger gamma "
                  "finds those that are nearly so.")  # fmt: skip
    if audit.previous is not None:
        before, n_before = audit.previous.groups("all"), len(audit.previous.samples)
        changes = [("new", group, counts[group], n_samples) for group in _heaviest(counts) if group not in before][:3]
        changes += [("gone", group, before[group], n_before) for group in _heaviest(before) if group not in counts][:3]
        yield tag("h3", "Since the previous record")
        yield from _drift(audit, audit.previous)
        entries = [tag("div", f"{word}: ", _members(g), f" ({k} of {n} samples)") for word, g, k, n in changes]
        yield bullets(entries) or tag("p", "The same groups.")


def _heaviest(counts: Mapping[tuple[str, ...], int]) -> list[tuple[str, ...]]:
    """Groups, those first that are large and in many samples."""
    return sorted(counts, key=lambda group: (-counts[group] * (len(group) - 1), group))


def _drift(audit: Audit, previous: Evidence) -> Iterator[Markup]:
    """How far the class graphs moved."""
    names = [name for name in audit.evidence.mean_graphs if name in previous.mean_graphs]
    if names:
        pairs = [(name, pair_of(name, audit.evidence, previous)) for name in names]
        rows = [(name, *(f"{drift(metric, pair).value:.3f}" for metric in DRIFTS)) for name, pair in pairs]
        what = "Drift of each class graph: 0 is the same as before; 1 (ranking: 2) is as different as can be."
        yield table(what, ("class", *(metric.removeprefix("drift/") for metric in DRIFTS)), rows)


def graphs(audit: Audit, anchor: str, title: str) -> Markup:
    """A picture per class, with the same in words."""
    second = "On the right, an arrow i → j says that j is redundant once i is present; one box holds features that "
    if audit.has_pictures:
        second = "In the middle, parts of one colour "
    third = " On the right, bright parts rank high." if audit.has_pictures else ""
    parts = [
        tag("p", "On the left, an arrow i → j is the importance of j once i is present: the wider, the more. "
            f"{second}make each other redundant.{third}")
    ]  # fmt: skip
    drawn, pictures = list(audit.class_graphs.items())[:MAX_CLASSES], []
    for name, graph in drawn:
        n = len(audit.evidence.samples_of(name)) if graph is not None else 0
        pictures.append(drawing(audit, f"Class “{name}”", f"mean over {count(n, 'sample')}", graph,
                                audit.record["classes"][name], audit.example(name)))  # fmt: skip
    parts += pictures[:OPEN_CLASSES]
    if pictures[OPEN_CLASSES:]:
        parts.append(folded(f"{count(len(drawn) - OPEN_CLASSES, 'more class')}", *pictures[OPEN_CLASSES:]))
    if len(audit.class_graphs) > len(drawn):
        parts.append(tag("p", f"The first {len(drawn)} of {len(audit.class_graphs)} classes are drawn."))
    if not drawn:
        parts.append(tag("p", "There is no mean graph to draw, because samples have different features. Graphs of "
                         "single samples stand below."))  # fmt: skip
    return section(anchor, title, *parts)


def curves(audit: Audit, anchor: str, title: str) -> Markup:
    """How the ranking does beside those of other methods."""
    found: Mapping[str, Any] = audit.record.get("curves") or {}
    if not found:
        return section(anchor, title, tag("p", "The record holds no curves."))
    lines = {name: (c["masked_fraction"], c["accuracy"], c["standard_error"]) for name, c in found.items()}
    figure = draw_curves(
        lines,
        title="Post-hoc accuracy as features are removed",
        xlabel="share of features removed, least important first",
        ylabel="same prediction as on the full input",
        caption="Higher is better: what is left is enough for the prediction.",
        ours="ours" if "ours" in lines else None,
    )
    areas = [(m, *(_area(audit, f"bivshap/{family}/{m}") for family in _AREAS)) for m in lines]
    words = "; ".join(f"{m} {area}" for m, area, *_ in areas)
    points = [(m, percent(x), percent(y), percent(e)) for m, c in lines.items() for x, y, e in zip(*c, strict=True)]
    # Few players make many equal points.
    steps = list(dict.fromkeys(points))
    return section(
        anchor,
        title,
        tag("p", "A good ranking names the features that carry the prediction: it stays when the others go, and falls "
            "when these go. “ours” is the ranking of the graphs above."),
        picture(figure, f"Curves of {count(len(lines), 'method')}. Mean over the curve: {words}.",
                "Share of samples that keep their prediction, by method."),
        table("Value ± standard error over samples.", ("method", *_AREAS.values()), areas),
        folded("The points of the curves", table("Points of the curves.", ("method", "removed", "same prediction",
               "standard error"), steps)),
    )  # fmt: skip


_AREAS = {
    "posthoc_accuracy": "post-hoc accuracy ↑",
    "insertion_auc": "insertion ↑",
    "deletion_auc": "deletion ↓",
}


def _area(audit: Audit, metric: str) -> str:
    if metric not in audit.evidence.metrics:
        return "–"
    value, error = audit.evidence.metrics[metric]
    return f"{value:.3f} ± {error:.3f}"


def samples(audit: Audit, anchor: str, title: str) -> Markup:
    """The samples to look at first."""
    predicted = audit.evidence.configuration["target"] == "predicted"
    rows = hardest_first(audit.record["samples"], predicted=predicted)
    head = ("sample", "label", "explained class", "gain", "groups", "removable", "undecided pairs")
    wrong = "Samples that the model gets wrong come first, then those" if predicted else "First come those"
    intro = (
        f"{wrong} whose features together add least to the explained output (“gain”: the sum of the Shapley values, "
        "which is the output on the whole input less the output with every feature removed). Explanations of such "
        "samples have little to explain. The record keeps no confidence of single predictions."
    )
    parts = [tag("p", intro), table("The hardest samples.", head, [_row(audit, k) for k in rows[:8]], words=3)]
    for k in rows[:MAX_SAMPLES]:
        sample = audit.record["samples"][k]
        label = "" if sample["label"] is None else f", labelled “{sample['label']}”"
        name = f"Sample {sample['index']}: why “{sample['target']}”{label}"
        parts.append(drawing(audit, name, "", audit.sample_graphs[k], sample, k))
    if len(rows) > 8:
        everything = table("All samples.", head, [_row(audit, k) for k in range(len(rows))], words=3)
        parts.append(folded(f"All {count(len(rows), 'sample')}", everything))
    return section(anchor, title, *parts)


def _row(audit: Audit, k: int) -> tuple[str, ...]:
    sample, graph = audit.record["samples"][k], audit.evidence.samples[k]
    label = "none" if sample["label"] is None else sample["label"]
    removable = f"{graph.n_removable} of {graph.n_players}"
    return (f"{sample['index']}", label, sample["target"], number(sample["gain"]), f"{len(graph.groups)}", removable,
            f"{graph.n_undecided:,}")  # fmt: skip


def numbers(audit: Audit, anchor: str, title: str) -> Markup:
    """Every metric with its meaning and uncertainty, and what it was before."""
    head = ["number", "value", "standard error", "95 % interval"]
    head += ["previous", "change"] if audit.previous is not None else []
    rows: list[list[object]] = []
    for name, (value, error) in audit.evidence.metrics.items():
        interval = audit.evidence.measure(name, "all", TWO_SIDED)
        known = interval.lower is not None and interval.upper is not None
        between = f"{number(interval.lower)} to {number(interval.upper)}" if known else "unknown"
        what = tag("small", " · ".join(filter(None, meaning(name))))
        row: list[object] = [Markup(spelt(name) + what), number(value), number(error), between]
        if audit.previous is not None:
            before = audit.previous.metrics.get(name)
            row += ["–", "–"] if before is None else [number(before[0]), f"{value - before[0]:+.4g}"]
        rows.append(row)
    note = (
        f"Over {count(len(audit.evidence.samples), 'sample')}. A standard error of 0 means that all samples agree; the "
        "interval then comes from their number."
    )
    parts = [tag("p", note), table("All numbers of the record.", head, rows), _by_class(audit)]
    return section(anchor, title, *parts)


_BY_CLASS = {
    "bivshap/posthoc_accuracy/ours": "post-hoc accuracy",
    f"{PREFIX}accuracy_with_representatives": "with representatives",
    f"{PREFIX}share_removable": "removable",
    f"{PREFIX}n_independent": "independent features",
    f"{PREFIX}mask_sinks_accuracy": "without sinks",
    f"{PREFIX}keep_only_sources_accuracy": "sources only",
}


def _by_class(audit: Audit) -> Markup:
    """The main numbers of every class."""
    rows = []
    for name, found in (audit.record.get("class_metrics") or {}).items():
        numbers = [found["metrics"].get(metric) for metric in _BY_CLASS]
        cells = ["–" if m is None else f"{m['value']:.3g} ± {m['standard_error']:.2g}" for m in numbers]
        rows.append((name, f"{found['n_samples']:,}", *cells))
    what = "The main numbers by class: value ± standard error over its samples."
    return table(what, ("class", "samples", *_BY_CLASS.values()), rows) if rows else Markup()


def made(audit: Audit, anchor: str, title: str) -> Markup:
    """Cost, configuration, versions and the run, as recorded."""
    names = {"cost": "Cost", "configuration": "Configuration", "run": "Run", "versions": "Versions"}
    parts = []
    for field, name in names.items():
        rows = list(_flat(audit.record[field]))
        facts = table(f"{name}, as recorded.", ("field", "value"), rows, words=2)
        parts += [tag("h3", name), tag("div", facts, class_="facts") if rows else tag("p", "Nothing was recorded.")]
    return section(anchor, title, *parts)


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested fields on one level; of long lists, such as the keys of the probe, the beginning."""
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
