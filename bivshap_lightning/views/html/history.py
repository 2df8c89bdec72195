"""The HTML page of a history of records: `render_history`, `bivshap history` on the command line."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from bivshap_lightning import __version__
from bivshap_lightning.gate.history import History
from bivshap_lightning.gate.record_drift import share_text
from bivshap_lightning.gate.verdict import number
from bivshap_lightning.graph.roles import ROLES
from bivshap_lightning.metrics.catalogue import find_number, numbers_of
from bivshap_lightning.views.html.markup import bullets, picture, section, table, tag
from bivshap_lightning.views.html.page import document
from bivshap_lightning.views.html.timeline import MAX_FEATURES, draw_bump_chart, draw_drift, drift_ratios
from bivshap_lightning.views.html.words import count, percent

MAX_ROWS = 40
"""Features in the table of shares."""


def render_history(history: History) -> str:
    """A timeline as one self-contained HTML page.

    Args:
        history: as :func:`~bivshap_lightning.gate.history.make_history` returns it.

    Returns:
        HTML that needs no network, no script and neither torch nor the models.
    """
    n = len(history.entries)
    failed = [entry for entry in history.entries if entry.verdict is not None and not entry.verdict.passed]
    judged = [entry for entry in history.entries if entry.verdict is not None]
    title = f"{count(n, 'record')}, from {history.entries[0].name} to {history.entries[-1].name}"
    kicker = "Not judged" if not judged else f"{len(judged) - len(failed)} of {count(len(judged), 'record')} passed"
    kind = "verdict" if not judged else "verdict fail" if failed else "verdict pass"
    parts = [tag("p", kicker, class_="kicker"), tag("h1", title), *(tag("p", note) for note in history.notes)]
    body = [
        section("features", "Features", *_features(history)),
        section("drift", "Drift", *_drift(history)),
        section("verdicts", "Verdicts", *_verdicts(history)),
        section("roles", "Roles", _roles(history)),
    ]
    footer = tag("footer", tag("p", f"Written by bivshap history {__version__}.", class_="soft"))
    return document("History", tag("header", tag("div", *parts, class_=kind)), tag("main", *body, id="main"), footer)


def _features(history: History) -> Iterator[Markup]:
    if not history.features:
        yield tag("p", "The samples have no features in common, so there are no shares of features.")
        return
    first, last = history.entries[0], history.entries[-1]
    words = [
        f"{name}: place {first.places.get(name, '-')} in {first.name}, {last.places.get(name, '-')} in {last.name}, "
        f"share {share_text(first.shares.get(name, 0.0))} -> {share_text(last.shares.get(name, 0.0))}"
        for name in history.features[:MAX_FEATURES]
    ]
    shown = f"the {MAX_FEATURES} largest" if len(history.features) > MAX_FEATURES else "all"
    yield picture(draw_bump_chart(history), "; ".join(words), f"Places of features, {shown}. Shares at both ends.")
    rows = [
        (name, *(share_text(entry.shares.get(name, 0.0)) for entry in history.entries))
        for name in history.features[:MAX_ROWS]
    ]
    yield table("Share of each feature in mean |phi|.", ("feature", *(e.name for e in history.entries)), rows)


def _drift(history: History) -> Iterator[Markup]:
    yield tag("p", f"Measured from {history.against}.")
    ratios = drift_ratios(history)
    if ratios:
        words = [
            f"{name}: {', '.join('unknown' if v is None else f'{v:.2f}' for v in row)}" for name, row in ratios.items()
        ]
        yield picture(draw_drift(history), "; ".join(words), "Drift of each record as a multiple of its threshold.")
    tags = [n.tag for n in numbers_of("record drift") if any(n.tag in entry.drift for entry in history.entries)]
    rows = [
        (entry.name, *(number(entry.drift[t]) if t in entry.drift else "-" for t in tags)) for entry in history.entries
    ]
    if history.thresholds:
        rows.append(("threshold", *(number(history.thresholds[t]) if t in history.thresholds else "-" for t in tags)))
    heads = [entry.title for entry in (find_number(t) for t in tags) if entry is not None]
    yield table("0 is no change; NDCG: 1 is no change.", ("record", *heads), rows)


def _verdicts(history: History) -> Iterator[Markup]:
    if all(entry.verdict is None for entry in history.entries):
        yield tag("p", "No rules were given. `--rules gate.toml` adds a verdict on every record.")
        return
    for entry in history.entries:
        if entry.verdict is None:
            yield tag("p", f"{entry.name}: not judged, because all rules are about changes.")
            continue
        word = "passed" if entry.verdict.passed else "failed"
        yield tag("p", tag("b", f"{entry.name}: {word}", class_=word[:4]))
        yield bullets([o.reason for o in entry.verdict.results if o.status != "pass"])
        if not entry.verdict.passed:
            yield bullets(entry.moved)


def _roles(history: History) -> Markup:
    metrics = sorted({name for entry in history.entries for name in entry.validation_metrics})
    rows = [
        (
            entry.name,
            *(percent(entry.roles[role]) for role in ROLES),
            *(number(entry.validation_metrics.get(name)) for name in metrics),
        )
        for entry in history.entries
    ]
    return table("Share of samples and players in each role; validation metrics.", ("record", *ROLES, *metrics), rows)
