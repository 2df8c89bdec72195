"""The page as a whole: `render_page`, and `render_failure` for a record that tells nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bivshap_lightning import __version__
from bivshap_lightning.audit.record import load_arrays
from bivshap_lightning.gate import Evidence, GateError, Rule, judge
from bivshap_lightning.gate.evidence import load_record
from bivshap_lightning.gate.graphs import class_graphs, sample_graphs
from bivshap_lightning.gate.rules import is_number
from bivshap_lightning.views.html import sections
from bivshap_lightning.views.html.audit import Audit
from bivshap_lightning.views.html.markup import STYLE, Markup, bullets, tag, text

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
SECTIONS = {
    "verdict": ("Verdict", sections.verdict),
    "groups": ("Groups", sections.groups),
    "graphs": ("Graphs", sections.graphs),
    "curves": ("Against other methods", sections.curves),
    "samples": ("Hardest samples", sections.samples),
    "numbers": ("All numbers", sections.numbers),
    "made": ("How it was made", sections.made),
}
"""In order: title and writer by anchor."""


def render_page(
    record: str | os.PathLike[str],
    rules: str | os.PathLike[str] | Sequence[Rule] | None = None,
    against: str | os.PathLike[str] | None = None,
) -> str:
    """An audit as one self-contained HTML page: the verdict first, then what it rests on.

    Args:
        record: the JSON file of the audit; its NPZ file must be beside it.
        rules: as in :func:`~bivshap_lightning.gate.judge`; without any there is no verdict.
        against: the record of the previous model, for rules about changes and to show what changed.

    Returns:
        HTML that needs no network, no script, neither torch nor the model.

    Raises:
        GateError: A file is missing or damaged, the rules cannot be judged, or the records cannot be compared.

    Example:
        >>> render_page("/no/such/record.json")
        Traceback (most recent call last):
        ...
        bivshap_lightning.gate.rules.GateError: `record` must be a readable file, got /no/such/record.json (No such ...
    """
    audit = _read(record, rules, against)
    links = [tag("a", title, href=f"#{anchor}") for anchor, (title, _) in SECTIONS.items()]
    try:
        body = [write(audit, anchor, title) for anchor, (title, write) in SECTIONS.items()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # What `Evidence` does not check, such as curves, is checked by being shown.
        raise GateError(f"{record}: the record must be whole, got parts that cannot be shown ({error}).") from error
    return _document(
        sections.title(audit),
        tag("a", "Skip to the verdict", class_="skip", href="#main"),
        sections.headline(audit),
        tag("nav", bullets(links), aria_label="Contents"),
        tag("main", *body, id="main", tabindex="-1"),
        tag("footer", tag("p", f"Written by bivshap report {__version__} from {Path(record).name}.", class_="soft")),
    )


def render_failure(reason: str) -> str:
    """A page that says that nothing could be judged, so that no page of an earlier run passes for this one's.

    Args:
        reason: why.

    Example:
        >>> "no record &lt;here&gt;" in render_failure("no record <here>")
        True
    """
    said = tag("header", tag("div", tag("p", "Not judged", class_="kicker"), tag("h1", "The audit could not be read"),
                             tag("p", reason), class_="verdict fail"))  # fmt: skip
    return _document("Not judged", said)


def _read(
    record: str | os.PathLike[str],
    rules: str | os.PathLike[str] | Sequence[Rule] | None,
    against: str | os.PathLike[str] | None,
) -> Audit:
    fields = load_record(record)
    evidence = Evidence(record)
    previous = None if against is None else Evidence(against)
    if previous is not None:
        evidence.demand_comparable(previous)
    for described in (*fields["samples"], *fields["classes"].values()):
        if not all(is_number(place.get("score")) for place in described["ranking"]):
            raise GateError(f"{record}: every player of a ranking must have a score, got none or another for some.")
    for sample in fields["samples"]:
        words = sample.get("words")
        if words is not None and not (isinstance(words, list) and len(words) == len(sample["players"])):
            raise GateError(f"{record}: `words` must hold one word per player, got another number for some sample.")
    try:
        arrays = load_arrays(record)
    except (OSError, ValueError, TypeError) as error:
        raise GateError(f"{record}: {error}") from error
    graphs = sample_graphs(fields, arrays)
    return Audit(
        record=fields,
        evidence=evidence,
        previous=previous,
        verdict=None if rules is None else judge(record, rules, against),
        sample_graphs=graphs,
        class_graphs=class_graphs(fields, graphs),
        arrays=arrays,
    )


def _document(title: str, *body: Markup) -> str:
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{text(title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        *body,
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"
