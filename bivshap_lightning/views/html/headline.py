"""The top of the page: the verdict, and the sentence that decides."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from bivshap_lightning.audit.record import Run
from bivshap_lightning.views.html.content import PageContent
from bivshap_lightning.views.html.decisions import few_features, leaning
from bivshap_lightning.views.html.markup import tag
from bivshap_lightning.views.html.words import count


def title(content: PageContent) -> str:
    """The title of the browser's tab."""
    verdict = content.verdict
    word = "Audit" if verdict is None else "Passed" if verdict.passed else "Failed"
    return f"{word}: {_when(content.record.run)}"


def _when(run: Run) -> str:
    words = [str(value) if name == "stage" else f"{name} {value}" for name, value in run.moment.items()]
    return ", ".join(words) or "unnamed run"


def headline(content: PageContent) -> Markup:
    """The verdict in one line, at the top of the page."""
    verdict = content.verdict
    n, n_classes = len(content.record.samples), len({sample.class_name for sample in content.record.samples})
    found = count(n, "sample") + ("" if content.is_regression else f" of {count(n_classes, 'class')}")
    kind, kicker, line = "none", "No verdict: no rules were given", f"Redundancy audit of {found}"
    if verdict is not None:
        statuses = [o.status for o in verdict.results]
        n_failed, n_warned = statuses.count("fail"), statuses.count("warn")
        kind, kicker = ("pass", "✓ Passed") if verdict.passed else ("fail", "✗ Failed")
        rules = count(len(statuses), "rule")
        line = f"The model breaks {n_failed} of {rules}"
        if verdict.passed:
            line = "The model passes" if n_warned else f"The model meets its {rules}"
        line += f", with {count(n_warned, 'warning')}" if n_warned else ""
        line = line if verdict.error is None else "The record was not judged"
    when = _when(content.record.run)
    about = f"{when} · --rules has the record judged" if verdict is None else f"{found} · {when}"
    if content.previous is not None:
        about += f" · compared with {_when(content.previous.run)}"
    parts = tag("p", kicker, class_="kicker"), tag("h1", line), _decisive(content), tag("p", about, class_="soft")
    return tag("header", tag("div", *parts, class_=f"verdict {kind}"))


def _decisive(content: PageContent) -> Markup:
    """What to remember: why the gate failed, or else what the model leans on; then how few features suffice."""
    broken = [] if content.verdict is None else [o for o in content.verdict.results if o.status == "fail"]
    first = _reason(broken[0].reason, broken[0].evidence) if broken else leaning(content)
    if content.verdict is not None and content.verdict.error is not None:
        first = content.verdict.error
    sentence = "" if broken else few_features(content)
    return Markup().join([tag("p", first, class_="decisive") if first else "", tag("p", sentence) if sentence else ""])


def _reason(reason: str, evidence: Sequence[str]) -> str:
    """The reason with its first piece of evidence, which names a feature or a sample, unless the reason does."""
    named = [line for line in evidence[:1] if line not in reason]
    return "; ".join([reason, *named]) + "."
