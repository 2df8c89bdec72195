"""A graph of the page as a picture: on the sample itself where the record holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views import draw_graphs, draw_image_graphs, draw_words
from bivshap_lightning.views.html.audit import Audit
from bivshap_lightning.views.html.markup import Markup, picture, tag
from bivshap_lightning.views.html.words import listing


def drawing(
    audit: Audit,
    name: str,
    subtitle: str,
    graph: ExplanationGraph | None,
    described: Mapping[str, Any],
    place: int | None,
) -> Markup:
    """A graph as a picture, with the same in words; the words are those of the record.

    Args:
        audit: what the page is about.
        name: of the class or sample.
        subtitle: a line below it.
        graph: G, or None if there is none to draw.
        described: what the record says of it.
        place: of the sample on whose picture it is drawn.
    """
    top = [entry["player"] for entry in described["ranking"]]
    said = "; ".join(listing(group) for group in described["groups"]) or "none"
    words = f"{name}. Most important: {listing(top[:5])}. Interchangeable: {said}."
    if graph is None:
        return tag("p", f"{words} Not drawn: its samples differ in their features, so that there is no mean graph.")
    h = graph.redundancy(audit.gamma)
    again = {frozenset(graph.names[k] for k in group) for group in h.groups}
    same = again == {frozenset(group) for group in described["groups"]}
    note = "" if same else " Drawn from weights that were rounded for storage, by which groups differ slightly."
    figure, what = _figure(audit, graph, h, described, place, {"title": name, "subtitle": subtitle})
    return picture(figure, f"{what} {words}", f"{words}{note}")


def _figure(
    audit: Audit,
    graph: ExplanationGraph,
    h: RedundancyGraph,
    described: Mapping[str, Any],
    place: int | None,
    titles: Mapping[str, Any],
) -> tuple[Figure, str]:
    """What suits the sample: its picture, its words, or the names of its features; and what is to be seen."""
    scores = graph.ranking(personalized=graph.shapley is not None)
    segments = audit.arrays.get(f"segments_{place}")
    if segments is not None:
        image = np.asarray(audit.arrays[f"image_{place}"])
        figure = draw_image_graphs(graph, h, image, segments, scores=scores, **titles)
        return figure, "Explanation graph, redundant groups and ranking, drawn on the picture."
    words = described.get("words")
    if words is not None:
        figure = draw_words(graph, h, words=words, scores=scores, **titles)
        return figure, f"Explanation of the text “{' '.join(words)}”."
    return draw_graphs(graph, h, scores=scores, **titles), "Explanation graph and redundancy graph."
