"""The explorer inside the page: its script, its style sheet, and the graphs of the record as compressed bytes.

The page's policy allows this one script by its hash and nothing from the network. The data is JSON in an element that
browsers do not run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from bivshap_lightning.audit.record import MAX_PICTURED_CLASSES, AuditRecord, RecordError
from bivshap_lightning.gate import Verdict
from bivshap_lightning.views.explorer.assets import STYLE_SHEET, bundled_script, read_asset
from bivshap_lightning.views.explorer.numbers import describe_record
from bivshap_lightning.views.explorer.payload import Subject, graph_bytes, parse_subject, role_point, subject_data
from bivshap_lightning.views.html.answers import pictures
from bivshap_lightning.views.html.content import PageContent
from bivshap_lightning.views.html.markup import section, tag

MAX_SAMPLES = 8
"""Samples that can be explored in the page: the hardest."""

MAX_BYTES = 12 * 2**20
"""Graphs after the first are left out of the page once it would hold more bytes than this."""

SCRIPT = '\n{bundle}\nmodules["index.js"].renderEmbedded();\n'


def explorer_style() -> str:
    """The style sheet of the explorer."""
    return read_asset(STYLE_SHEET)


def explorer_script() -> str:
    """The script of the explorer, as it stands in the page."""
    return SCRIPT.replace("{bundle}", bundled_script())


def script_policy() -> str:
    """The part of the page's policy that allows the explorer's script and no other.

    Example:
        >>> script_policy().startswith("script-src 'sha256-")
        True
    """
    digest = hashlib.sha256(explorer_script().encode()).digest()
    return f"script-src 'sha256-{base64.b64encode(digest).decode()}'"


def explore(content: PageContent, anchor: str, title: str) -> Markup:
    """The section with the explorer, and the first pictures that need no script."""
    data = json.dumps(embedded_data(content), allow_nan=False).replace("<", "\\u003c")
    return section(
        anchor,
        title,
        tag("p", "Move γ, click a feature, choose another class, sample or view: everything follows. The verdict above "
            "stays that of the audit."),
        Markup("<noscript>The explorer needs JavaScript. The pictures below do not.</noscript>"),
        Markup('<div id="bivshap-explorer" class="bivshap-explorer" hidden></div>'),
        Markup(f'<script type="application/json" id="bivshap-data">{data}</script>'),
        Markup(f'<script type="module">{explorer_script()}</script>'),
        *pictures(content),
    )  # fmt: skip


def embedded_data(content: PageContent) -> dict[str, Any]:
    """The record, and the previous one if there is one, with the graphs that can be explored.

    Args:
        content: of the page.
    """
    subjects = [f"class:{name}" for name in list(content.record.classes)[:MAX_PICTURED_CLASSES]]
    hardest = content.record.hardest_samples()[:MAX_SAMPLES]
    subjects += [f"sample:{content.record.samples[position].index}" for position in hardest]
    records = [_embedded(content.record, "this record", subjects, content.verdict)]
    if content.previous is not None:
        records.append(_embedded(content.previous, "previous record", list(records[0]["graphs"]), None))
    return {"records": records}


def _embedded(record: AuditRecord, run: str, subjects: Sequence[str], verdict: Verdict | None) -> dict[str, Any]:
    graphs: dict[str, str] = {}
    points: dict[str, Any] = {}
    n_bytes = 0
    for name in subjects:
        subject: Subject = parse_subject(name)
        try:
            data = subject_data(record, subject)
        except RecordError:  # the previous record has other samples or classes
            continue
        packed = base64.b64encode(zlib.compress(graph_bytes(data), 6)).decode()
        n_bytes += len(packed)
        if graphs and n_bytes > MAX_BYTES:
            break
        graphs[name], points[name] = packed, role_point(data)
    description = describe_record(record, verdict=verdict)
    for entry in description["subjects"]:
        entry["is_here"] = entry["id"] in graphs
    moment = {"tag": "", "step": record.run.step or 0, "stage": record.run.stage, "epoch": record.run.epoch}
    return {"run": run, "moment": moment, "description": description, "graphs": graphs, "points": points}
