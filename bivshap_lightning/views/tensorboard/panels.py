"""`Panels`: the whole set of panels of a class, a sample or a comparison, into TensorBoard or into files."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views.figures.canvas import render_png
from bivshap_lightning.views.figures.curves import Curve, draw_curves
from bivshap_lightning.views.figures.graphs import draw_graphs, draw_words
from bivshap_lightning.views.figures.images import draw_image_graphs
from bivshap_lightning.views.figures.layout import Layout
from bivshap_lightning.views.figures.names import distinct, markdown_text, tag_part
from bivshap_lightning.views.tensorboard.summaries import (
    Writer,
    write_curve,
    write_figure,
    write_histogram,
    write_redundancy_graph,
    write_text,
)
from bivshap_lightning.views.tensorboard.tables import groups_table, ranking_table

POSTHOC_TAG = "bivshap/posthoc/accuracy_vs_removed"


class Panels:
    """Draws and writes panels, and remembers the layout of each from epoch to epoch.

    With a TensorBoard writer, panels go to the Images, Text, Graphs, Histograms and PR Curves dashboards. With a
    folder, pictures go to `figures/<tag>/step_000003.png` and tables to `.md` files beside them.

    A picture takes 20 to 80 KB (photographs up to 170 KB) and about a quarter of a second; a table 1 to 5 KB, H in
    the Graphs dashboard 2 to 40 KB, a histogram 1 KB, a curve 1 KB. Ten classes, four samples and a chart come to
    about 0.8 MB and 4 seconds an epoch.

    Args:
        destination: A `torch.utils.tensorboard.SummaryWriter`, or the path of a folder.
        max_nodes: Players in a drawing of G if there are more than 24.
        max_edges: Arrows in a drawing of G.

    Example:
        >>> import tempfile
        >>> graph = ExplanationGraph([[0, 0, 1 / 4], [0, 0, 1 / 4], [1 / 6, 1 / 6, 0]], names=["a", "b", "c"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     panels = Panels(folder)
        ...     panels.write_class("cat", graph, graph.redundancy(), step=3)
        ...     sorted(file.name for file in Path(folder).rglob("*.*"))
        ['bivshap/class/cat/graphs', 'bivshap/class/cat/ranking']
        ['step_000003.md', 'step_000003.png']
    """

    def __init__(
        self, destination: Writer | str | os.PathLike[str], *, max_nodes: int = 20, max_edges: int = 40
    ) -> None:
        for argument, value, least in (("max_nodes", max_nodes, 1), ("max_edges", max_edges, 0)):
            if value < least:
                raise ValueError(f"`{argument}` must be at least {least}, got {value}. The default reads well.")
        self._writer: Writer | None = None
        self._folder = Path()
        if isinstance(destination, str | os.PathLike):
            self._folder = Path(destination)
        elif any(base.__module__.startswith("torch.utils.tensorboard") for base in type(destination).__mro__):
            self._writer = destination
        else:
            raise TypeError(
                "`destination` must be torch's SummaryWriter or the path of a folder, got "
                f"{type(destination).__module__}.{type(destination).__name__}. "
                "On rank zero pass `logger.experiment`; for other loggers pass a folder."
            )
        self._limits = {"max_nodes": max_nodes, "max_edges": max_edges}
        self._layouts: dict[str, Layout] = {}
        self._parts: dict[str, str] = {}

    def write_class(
        self,
        name: str,
        graph: ExplanationGraph,
        h: RedundancyGraph,
        *,
        step: int,
        title: str | None = None,
        subtitle: str | None = None,
        scores: ArrayLike | None = None,
        image: ArrayLike | None = None,
        segments: ArrayLike | None = None,
    ) -> list[str]:
        """All panels of a class: the graphs, the tables and, in TensorBoard, H as a graph and a histogram.

        Args:
            name: Of the class, as it comes; tags carry it in a safe spelling.
            graph: G, such as the mean over the samples of the class.
            h: The redundancy graph of the same players.
            step: Such as the epoch.
            title: First line of the picture; by default the class.
            subtitle: Line below it.
            scores: (F,) ranking, high = important; by default `graph.ranking()`.
            image: A picture to draw on, as in `draw_image_graphs`.
            segments: (H, W) the player of each pixel; if given, the graphs are drawn on the picture.

        Returns:
            The tags written.

        Example:
            See `Panels`.
        """
        part = f"class/{self._part('class', name)}"
        title = f"Class “{name}”" if title is None else title
        tag = f"bivshap/{part}/graphs"
        self._write_picture(tag, graph, h, step, title, subtitle, scores, image=image, segments=segments)
        tags = [tag, f"bivshap/{part}/ranking"]
        layout = self._layouts[tag]
        tables = (
            f"### Ranking: {markdown_text(title)}",
            ranking_table(graph, h, scores=scores, layout=layout),
            "### Groups",
            groups_table(h, graph, scores=scores, layout=layout),
        )
        self._put_text(tags[-1], "\n\n".join(tables) + "\n", step)
        if self._writer is not None:
            tags += self._write_dashboards(self._writer, part, graph, h, step, scores, layout)
        return tags

    def write_sample(
        self,
        index: int | str,
        graph: ExplanationGraph,
        h: RedundancyGraph,
        *,
        step: int,
        title: str | None = None,
        subtitle: str | None = None,
        scores: ArrayLike | None = None,
        image: ArrayLike | None = None,
        segments: ArrayLike | None = None,
        words: Sequence[str] | None = None,
    ) -> list[str]:
        """The graphs of one sample: on its picture, as words, or with the names of the features.

        Args:
            index: Which sample, for the tag.
            graph: G of the sample.
            h: The redundancy graph of the same players.
            step: Such as the epoch.
            title: First line of the picture; by default the index.
            subtitle: Line below it.
            scores: (F,) ranking, high = important; by default `graph.ranking()`.
            image: A picture to draw on, as in `draw_image_graphs`.
            segments: (H, W) the player of each pixel; if given, the graphs are drawn on the picture.
            words: A word per player; if given, the graphs are drawn below the text.

        Returns:
            The tags written.

        Example:
            >>> import tempfile
            >>> graph = ExplanationGraph([[0, 0.3], [0.2, 0]], names=["not", "bad"])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Panels(folder).write_sample(0, graph, graph.redundancy(), step=0, words=["not", "bad"])
            ['bivshap/sample/0/graphs']
        """
        tag = f"bivshap/sample/{self._part('sample', str(index))}/graphs"
        title = f"Sample {index}" if title is None else title
        self._write_picture(tag, graph, h, step, title, subtitle, scores, image=image, segments=segments, words=words)
        return [tag]

    def write_curves(
        self,
        curves: Mapping[str, Curve],
        *,
        step: int,
        tag: str = POSTHOC_TAG,
        title: str = "Post-hoc accuracy as features are removed",
        xlabel: str = "share of features removed, least important first",
        ylabel: str = "same prediction as on the full input",
        subtitle: str | None = None,
        caption: str | None = "Higher is better: what is left is enough for the prediction.",
        ours: str | None = None,
    ) -> list[str]:
        """Curves of several methods as one picture and, in TensorBoard, as a chart of the PR Curves dashboard.

        The chart takes curves whose x and y lie between 0 and 1; others are left to the picture.

        Args:
            curves: As in `draw_curves`.
            step: Such as the epoch.
            tag: Of both.
            title: As in `draw_curves`.
            xlabel: As in `draw_curves`.
            ylabel: As in `draw_curves`.
            subtitle: As in `draw_curves`.
            caption: As in `draw_curves`.
            ours: As in `draw_curves`.

        Returns:
            The tags written.

        Example:
            >>> import tempfile
            >>> curve = [0.0, 0.5, 1.0], [1.0, 0.9, 0.1], None
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Panels(folder).write_curves({"BivShap": curve}, step=0)
            ['bivshap/posthoc/accuracy_vs_removed']
        """
        figure = draw_curves(
            curves, title=title, xlabel=xlabel, ylabel=ylabel, subtitle=subtitle, caption=caption, ours=ours
        )
        self._put_figure(tag, figure, step)
        if self._writer is not None and all(_is_a_chart(x, y) for x, y, _ in curves.values()):
            for method, (x, y, _) in curves.items():
                write_curve(self._writer, tag, self._part("curves", method), x, y, step)
        return [tag]

    def flush(self) -> None:
        """Bring to disk what is written so far, at the end of an epoch; files of a folder are there already.

        Example:
            >>> Panels("figures").flush()
        """
        if self._writer is not None:
            self._writer.flush()

    def state_dict(self) -> dict[str, Any]:
        """The layouts and the spelling of names, to go on with after a restart; in JSON's types.

        Example:
            >>> Panels("figures").state_dict()
            {'layouts': {}, 'parts': {}}
        """
        layouts = {tag: layout.state_dict() for tag, layout in self._layouts.items()}
        return {"layouts": layouts, "parts": dict(self._parts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state_dict` gave.

        Example:
            >>> panels = Panels("figures")
            >>> panels.load_state_dict({"layouts": {}, "parts": {"class/a b": "a_b"}})
            >>> panels.state_dict()["parts"]
            {'class/a b': 'a_b'}
        """
        self._layouts = {tag: Layout.from_state_dict(layout) for tag, layout in state["layouts"].items()}
        self._parts = dict(state["parts"])

    def _write_picture(
        self,
        tag: str,
        graph: ExplanationGraph,
        h: RedundancyGraph,
        step: int,
        title: str,
        subtitle: str | None,
        scores: ArrayLike | None,
        *,
        image: ArrayLike | None,
        segments: ArrayLike | None,
        words: Sequence[str] | None = None,
    ) -> None:
        """The picture that suits what is known about the players."""
        if segments is None and image is not None:
            raise ValueError("`segments` must say which player each pixel of `image` belongs to, got None. Pass both.")
        layout = self._layouts.setdefault(tag, Layout("group" if words is None else "index"))
        if segments is not None:
            figure = draw_image_graphs(
                graph, h, image, segments, title=title, subtitle=subtitle, scores=scores, layout=layout, **self._limits
            )
        elif words is not None:
            figure = draw_words(
                graph, h, title=title, subtitle=subtitle, words=words, scores=scores, layout=layout, **self._limits
            )
        else:
            figure = draw_graphs(graph, h, title=title, subtitle=subtitle, scores=scores, layout=layout, **self._limits)
        self._put_figure(tag, figure, step)

    def _write_dashboards(
        self,
        writer: Writer,
        part: str,
        graph: ExplanationGraph,
        h: RedundancyGraph,
        step: int,
        scores: ArrayLike | None,
        layout: Layout,
    ) -> list[str]:
        """What only TensorBoard can show."""
        tags = [f"bivshap/H/{part}"]
        write_redundancy_graph(writer, tags[0], h, step, graph=graph, scores=scores, layout=layout)
        if graph.n_players > 1:
            off_diagonal = ~np.eye(graph.n_players, dtype=np.bool_)
            tags.append(f"bivshap/{part}/abs_weights")
            write_histogram(writer, tags[-1], np.abs(graph.weights[off_diagonal]), step)
        return tags

    def _put_figure(self, tag: str, figure: Figure, step: int) -> None:
        if self._writer is not None:
            write_figure(self._writer, tag, figure, step)
        else:
            self._file(tag, step, "png").write_bytes(render_png(figure)[0])
        # Its parts refer to one another: without this they would wait for the garbage collector.
        figure.clear()

    def _put_text(self, tag: str, markdown: str, step: int) -> None:
        if self._writer is not None:
            write_text(self._writer, tag, markdown, step)
        else:
            self._file(tag, step, "md").write_text(markdown, encoding="utf-8")

    def _file(self, tag: str, step: int, suffix: str) -> Path:
        parts = [tag_part(part) for part in tag.split("/")]
        folder = self._folder.joinpath("figures", *parts)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"step_{step:06d}.{suffix}"

    def _part(self, kind: str, name: str) -> str:
        """A safe spelling of a name, different from that of any other name of its kind."""
        key = f"{kind}/{name}"
        if key not in self._parts:
            taken = [part for other, part in self._parts.items() if other.startswith(f"{kind}/")]
            self._parts[key] = distinct(tag_part(name), taken)
        return self._parts[key]


def _is_a_chart(x: ArrayLike, y: ArrayLike) -> bool:
    values = np.concatenate((np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)))
    return bool(values.size >= 4 and values.min() >= 0 and values.max() <= 1)
