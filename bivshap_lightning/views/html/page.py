"""The HTML page of an audit: `render_page`, and `render_failure` for a record that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

from markupsafe import Markup

from bivshap_lightning import __version__
from bivshap_lightning.audit.record import AuditRecord, as_record
from bivshap_lightning.gate import Verdict
from bivshap_lightning.gate.measuring import demand_comparable
from bivshap_lightning.views.html import answers, decisions, sections
from bivshap_lightning.views.html.content import PageContent
from bivshap_lightning.views.html.explorer import explore, explorer_style, script_policy
from bivshap_lightning.views.html.headline import headline, title
from bivshap_lightning.views.html.markup import STYLE, bullets, tag, text

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""Of pages without the explorer; one with it adds the hash of its script."""

SECTIONS = {
    "verdict": ("Verdict", sections.verdict),
    "roles": ("Roles", answers.roles),
    "explore": ("Explore", explore),
    "pairs": ("Substitutes and partners", answers.pairs),
    "columns": ("Which columns can go", decisions.columns),
    "suffices": ("Features that suffice", decisions.suffices),
    "groups": ("Groups of H", sections.groups),
    "graphs": ("Graphs", sections.graphs),
    "curves": ("Against other methods", sections.curves),
    "samples": ("Hardest samples", sections.samples),
    "numbers": ("All numbers", sections.numbers),
    "made": ("How it was made", sections.made),
}
"""In order: title and writer by anchor, first those that stand open, then details, which fold. A writer that returns
nothing has nothing to say about the record."""


def render_page(
    record: AuditRecord | str | os.PathLike[str],
    *,
    verdict: Verdict | None = None,
    previous: AuditRecord | str | os.PathLike[str] | None = None,
) -> str:
    """An audit as one self-contained HTML page: the verdict first, then what it rests on.

    Args:
        record: the record, or the path of its JSON file.
        verdict: over the record, as :func:`~bivshap_lightning.gate.judge` returns it.
        previous: the record of the previous model, to show what changed.

    Returns:
        HTML that needs no network, neither torch nor the model. Its only script draws the explorer; everything else is
        there without.

    Raises:
        RecordError: a record is missing, damaged or contradicts itself.
        GateError: the records cannot be compared.

    Example:
        >>> render_page("/no/such/record.json")
        Traceback (most recent call last):
        ...
        bivshap_lightning.audit.errors.RecordError: `record` must be a readable file, got /no/such/record.json (No ...
    """
    record = as_record(record)
    previous = None if previous is None else as_record(previous)
    if previous is not None:
        demand_comparable(record, previous)
    content = PageContent(record, previous, verdict)
    written = {anchor: write(content, anchor, title) for anchor, (title, write) in SECTIONS.items()}
    links = [tag("a", SECTIONS[anchor][0], href=f"#{anchor}") for anchor, part in written.items() if part]
    return document(
        title(content),
        tag("a", "Skip to the verdict", class_="skip", href="#main"),
        headline(content),
        answers.notes(content),
        tag("nav", bullets(links), aria_label="Contents"),
        tag("main", *written.values(), id="main", tabindex="-1", aria_label="Audit"),
        tag("footer", tag("p", f"Written by bivshap report {__version__} from {Path(record.source).name}.",
                          class_="soft")),
        policy=f"{POLICY}; {script_policy()}",
        style=STYLE + explorer_style(),
    )  # fmt: skip


def render_failure(reason: str) -> str:
    """A page that says that there is no verdict, so that the page of an earlier run is not mistaken for this one's.

    Args:
        reason: why.

    Example:
        >>> "no record &lt;here&gt;" in render_failure("no record <here>")
        True
    """
    parts = tag("p", "Not judged", class_="kicker"), tag("h1", "The audit could not be read"), tag("p", reason)
    header = tag("header", tag("div", *parts, class_="verdict fail"))
    return document("Not judged", header)


def document(title: str, *body: Markup, policy: str = POLICY, style: str = STYLE) -> str:
    """A whole HTML document that loads nothing.

    Args:
        title: of the browser's tab.
        body: markup.
        policy: what the document may load and run, as a Content-Security-Policy.
        style: style sheet.

    Example:
        >>> "<title>a &lt; b</title>" in document("a < b")
        True
    """
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{text(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        *body,
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"
