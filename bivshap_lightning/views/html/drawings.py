"""A graph of the page as a picture: on the sample itself where the record holds a picture of it."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from bivshap_lightning.audit.record import GraphSummary, SampleSummary
from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views import draw_graphs, draw_image_graphs, draw_words
from bivshap_lightning.views.html.content import PageContent
from bivshap_lightning.views.html.decisions import sufficing
from bivshap_lightning.views.html.markup import picture
from bivshap_lightning.views.html.words import count, listing


def drawing(
    content: PageContent,
    graph: ExplanationGraph,
    *,
    summary: GraphSummary,
    name: str,
    subtitle: str,
    position: int | None,
) -> Markup:
    """A graph as a picture, with the same in words; the words are those of the record.

    Args:
        content: of the page.
        graph: G.
        summary: what the record says about it.
        name: of the class or sample.
        subtitle: a line below the name.
        position: of the sample on whose picture it is drawn.
    """
    idle = set(summary.players_of_role("irrelevant"))  # features that speak against the output rank below these
    top = [entry.player for entry in summary.ranking if entry.player not in idle]
    leading = f"Most important: {listing(top[:5])}." if top else "No feature plays a part."
    found = summary.sufficient if isinstance(summary, SampleSummary) else None
    few = "" if found is None else f" {_sentence(found.sentence(summary.n_players))}."
    words = f"{name}. {leading}{few} Mutually redundant: {_groups(summary)}."
    h = graph.redundancy(content.record.gamma_of(summary))
    drawn = {frozenset(graph.names[k] for k in group) for group in h.groups}
    same = drawn == {frozenset(group) for group in summary.groups}
    note = "" if same else " Drawn from weights that were rounded for storage, by which groups differ slightly."
    figure, what = _figure(content, graph, h, summary, position, {"title": name, "subtitle": subtitle})
    is_narrow = f"segments_{position}" in content.record.arrays  # panels of pictures are drawn for thumbnails
    return picture(figure, f"{what} {words}", f"{words}{note}", is_narrow=is_narrow)


def sample_drawing(content: PageContent, position: int) -> Markup:
    """The graphs of one sample.

    Args:
        content: of the page.
        position: of the sample.
    """
    sample, graph = content.record.samples[position], content.record.sample_graphs[position]
    label = "" if sample.label is None else f", labelled “{sample.label}”"
    name = f"Sample {sample.index}: why “{sample.target}”{label}"
    return drawing(content, graph, summary=sample, name=name, subtitle=sufficing(sample), position=position)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _groups(summary: GraphSummary) -> str:
    """The groups of H; irrelevant members, of which there are usually many, are counted only."""
    irrelevant = set(summary.players_of_role("irrelevant"))
    found = []
    for group in summary.groups:
        relevant = [player for player in group if player not in irrelevant]
        n_others = len(group) - len(relevant)
        others = f"{count(n_others, 'feature')} that {'plays' if n_others == 1 else 'play'} no part"
        found.append(listing(relevant) + (f", with {others}" if n_others else "") if relevant else others)
    return "; ".join(found) or "none"


def _figure(
    content: PageContent,
    graph: ExplanationGraph,
    h: RedundancyGraph,
    summary: GraphSummary,
    position: int | None,
    titles: dict[str, Any],
) -> tuple[Figure, str]:
    """The figure that suits the sample (its picture, its words, or the names of its features), and what it shows."""
    scores = graph.ranking()
    segments = content.record.arrays.get(f"segments_{position}")
    if segments is not None:
        image = content.record.arrays[f"image_{position}"]
        figure = draw_image_graphs(graph, h, image, segments, scores=scores, **titles)
        return figure, "Explanation graph, redundant groups and ranking, drawn on the picture."
    words = summary.words if isinstance(summary, SampleSummary) else None
    if words is not None:
        figure = draw_words(graph, h, words=list(words), scores=scores, **titles)
        return figure, f"Explanation of the text “{' '.join(words)}”."
    return draw_graphs(graph, h, scores=scores, **titles), "Explanation graph and redundancy graph."
