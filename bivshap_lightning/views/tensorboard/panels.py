"""`Panels`: writes all panels of a class, a sample or a comparison, into TensorBoard or into files.

Which panels there are is listed in `registry`.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views.figures.curves import Curve, draw_curves
from bivshap_lightning.views.figures.layout import Layout
from bivshap_lightning.views.figures.names import distinct, tag_part
from bivshap_lightning.views.figures.png import render_png
from bivshap_lightning.views.tensorboard.registry import PANELS, Content, Panel, PanelData, Subject
from bivshap_lightning.views.tensorboard.summaries import (
    Writer,
    describe_scalars,
    write_figure,
    write_histogram,
    write_text,
)
from bivshap_lightning.views.tensorboard.tables import sweep_table

POST_HOC = "post_hoc/accuracy_vs_removed"
SWEEP = "roles/at_other_gammas"


class Panels:
    """Draws and writes panels, and keeps the layout of each from epoch to epoch.

    With a TensorBoard writer, panels go to the Images, Text and Histograms dashboards. With a folder, pictures go to
    `figures/<tag>/step_000003.png` and tables to `.md` files beside them; histograms are left out.

    Args:
        destination: A `torch.utils.tensorboard.SummaryWriter`, or the path of a folder.
        max_nodes: Players in a drawing of G if there are more than 24.
        max_edges: Arrows in a drawing of G.
        panels: What to write; by default every registered panel.
        prefix: First part of every tag.

    Example:
        >>> import tempfile
        >>> weights, shapley = [[0, 0, 1 / 4], [0, 0, 1 / 4], [1 / 6, 1 / 6, 0]], [1 / 2, 1 / 2, 1 / 2]
        >>> graph = ExplanationGraph(weights, names=["a", "b", "c"], shapley=shapley)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     panels = Panels(folder)
        ...     panels.write_class("cat", graph, graph.redundancy(), step=3)
        ...     sorted(file.name for file in Path(folder).rglob("*.*"))
        ['bivshap/class/cat/axis', 'bivshap/class/cat/graphs', 'bivshap/class/cat/ranking']
        ['step_000003.md', 'step_000003.png', 'step_000003.png']
    """

    def __init__(
        self,
        destination: Writer | str | os.PathLike[str],
        *,
        max_nodes: int = 20,
        max_edges: int = 40,
        panels: Sequence[Panel] | None = None,
        prefix: str = "bivshap",
    ) -> None:
        for argument, value, least in (("max_nodes", max_nodes, 1), ("max_edges", max_edges, 0)):
            if value < least:
                raise ValueError(f"`{argument}` must be at least {least}, got {value}. Leave it out for the default.")
        self._writer: Writer | None = None
        self._prefix = prefix
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
        self._max_nodes, self._max_edges = max_nodes, max_edges
        self._registered = PANELS if panels is None else panels
        self._layouts: dict[str, Layout] = {}
        self._parts: dict[str, str] = {}
        self._described: set[str] = set()

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
        graphs: Sequence[ExplanationGraph] | None = None,
        image: ArrayLike | None = None,
        segments: ArrayLike | None = None,
    ) -> list[str]:
        """All panels of a class.

        Args:
            name: Of the class, as it comes; tags carry it in a safe spelling.
            graph: G, such as the mean over the samples of the class.
            h: The redundancy graph of the same players.
            step: Such as the epoch.
            title: First line of the figures; by default the class.
            subtitle: Line below it.
            scores: (F,) ranking, high = important; by default `graph.ranking()`.
            graphs: The graphs of its samples, for means of absolute values and their spread.
            image: An image to draw on, as in `draw_image_graphs`.
            segments: (H, W) the player of each pixel; if given, the graphs are drawn on the image.

        Returns:
            The tags written.

        Example:
            See `Panels`.
        """
        return self._write(
            "class",
            name,
            step,
            graph=graph,
            h=h,
            title=f"Class “{name}”" if title is None else title,
            subtitle=subtitle,
            scores=scores,
            graphs=graphs,
            image=image,
            segments=segments,
        )

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
        """All panels of one sample: on its image, with its words, or with the names of the features.

        Args:
            index: Which sample, for the tag.
            graph: G of the sample.
            h: The redundancy graph of the same players.
            step: Such as the epoch.
            title: First line of the figures; by default the index.
            subtitle: Line below it.
            scores: (F,) ranking, high = important; by default `graph.ranking()`.
            image: An image to draw on, as in `draw_image_graphs`.
            segments: (H, W) the player of each pixel; if given, the graphs are drawn on the image.
            words: A word per player; if given, the graphs are drawn below the text.

        Returns:
            The tags written.

        Example:
            >>> import tempfile
            >>> graph = ExplanationGraph([[0, 0.3], [0.2, 0]], names=["not", "bad"], shapley=[0.6, 0.4])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Panels(folder).write_sample(0, graph, graph.redundancy(), step=0, words=["not", "bad"])
            ['bivshap/sample/0/axis', 'bivshap/sample/0/graphs']
        """
        return self._write(
            "sample",
            str(index),
            step,
            graph=graph,
            h=h,
            title=f"Sample {index}" if title is None else title,
            subtitle=subtitle,
            scores=scores,
            image=image,
            segments=segments,
            words=words,
        )

    def write_curves(
        self,
        curves: Mapping[str, Curve],
        *,
        step: int,
        tag: str = POST_HOC,
        title: str = "Post-hoc accuracy as features are removed",
        xlabel: str = "share of features removed, least important first",
        ylabel: str = "same prediction as on the full input",
        subtitle: str | None = None,
        caption: str | None = "Higher is better: what is left is enough for the prediction.",
        ours: str | None = None,
    ) -> list[str]:
        """Curves of several explainers as one picture.

        Args:
            curves: As in `draw_curves`.
            step: Such as the epoch.
            tag: Of the picture, without the prefix.
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
            ['bivshap/post_hoc/accuracy_vs_removed']
        """
        figure = draw_curves(
            curves, title=title, xlabel=xlabel, ylabel=ylabel, subtitle=subtitle, caption=caption, ours=ours
        )
        whole = f"{self._prefix}/{tag}"
        self._put(whole, figure, step)
        return [whole]

    def write_sweep(self, sweep: Mapping[str, ArrayLike], *, step: int, n_gammas: int = 1) -> list[str]:
        """What the same graphs say at other thresholds, as a table.

        Args:
            sweep: As in `sweep_table`.
            step: Such as the epoch.
            n_gammas: As in `sweep_table`.

        Returns:
            The tags written.
        """
        whole = f"{self._prefix}/{SWEEP}"
        self._put(whole, sweep_table(sweep, n_gammas=n_gammas), step)
        return [whole]

    def describe_scalars(self, descriptions: Mapping[str, str]) -> None:
        """Explain scalars in TensorBoard, once per tag; must be called before they are logged for the first time.

        Args:
            descriptions: A sentence by tag.

        Example:
            >>> Panels("figures").describe_scalars({"bivshap/redundancy/density": "Share of pairs called redundant."})
        """
        if self._writer is not None:
            unknown = {tag: text for tag, text in descriptions.items() if tag not in self._described}
            describe_scalars(self._writer, unknown)
            self._described |= set(unknown)

    def flush(self) -> None:
        """Write to disk what is buffered, at the end of an epoch; nothing to do for a folder.

        Example:
            >>> Panels("figures").flush()
        """
        if self._writer is not None:
            self._writer.flush()

    def state_dict(self) -> dict[str, Any]:
        """Layouts and spellings of names, to continue with after a restart; in JSON's types.

        Example:
            >>> Panels("figures").state_dict()
            {'layouts': {}, 'parts': {}}
        """
        layouts = {tag: layout.state_dict() for tag, layout in self._layouts.items()}
        return {"layouts": layouts, "parts": dict(self._parts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with what `state_dict` returned.

        Example:
            >>> panels = Panels("figures")
            >>> panels.load_state_dict({"layouts": {}, "parts": {"class/a b": "a_b"}})
            >>> panels.state_dict()["parts"]
            {'class/a b': 'a_b'}
        """
        self._layouts = {tag: Layout.from_state_dict(layout) for tag, layout in state["layouts"].items()}
        self._parts = dict(state["parts"])

    def _write(
        self,
        subject: Subject,
        name: str,
        step: int,
        *,
        graph: ExplanationGraph,
        h: RedundancyGraph,
        title: str,
        subtitle: str | None,
        scores: ArrayLike | None,
        graphs: Sequence[ExplanationGraph] | None = None,
        image: ArrayLike | None = None,
        segments: ArrayLike | None = None,
        words: Sequence[str] | None = None,
    ) -> list[str]:
        """Draw and write every panel of a subject; returns the tags."""
        if segments is None and image is not None:
            raise ValueError("`segments` must say which player each pixel of `image` belongs to, got None. Pass both.")
        start = f"{self._prefix}/{subject}/{self._part(subject, name)}"
        layout = self._layouts.setdefault(start, Layout("group" if words is None else "index"))
        data = PanelData(
            subject=subject,
            graph=graph,
            h=h,
            title=title,
            subtitle=subtitle,
            scores=scores,
            graphs=graphs,
            image=image,
            segments=segments,
            words=words,
            layout=layout,
            max_nodes=self._max_nodes,
            max_edges=self._max_edges,
        )
        panels = [panel for panel in self._registered if subject in panel.subjects]
        tags = [f"{start}/{panel.name}" for panel in panels]
        return [tag for tag, panel in zip(tags, panels, strict=True) if self._put(tag, panel.draw(data), step)]

    def _put(self, tag: str, content: Content, step: int) -> bool:
        """Write what a panel drew; returns whether there was anything to write."""
        if isinstance(content, Figure):
            if self._writer is not None:
                write_figure(self._writer, tag, content, step)
            else:
                self._file(tag, step, "png").write_bytes(render_png(content)[0])
            # The parts of a figure refer to one another: without this they would wait for the garbage collector.
            content.clear()
            return True
        if isinstance(content, str):
            if self._writer is not None:
                write_text(self._writer, tag, content, step)
            else:
                self._file(tag, step, "md").write_text(content, encoding="utf-8")
            return True
        if content is None or self._writer is None:
            return False
        write_histogram(self._writer, tag, content, step)
        return True

    def _file(self, tag: str, step: int, suffix: str) -> Path:
        parts = [tag_part(part) for part in tag.split("/")]
        folder = self._folder.joinpath("figures", *parts)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"step_{step:06d}.{suffix}"

    def _part(self, subject: Subject, name: str) -> str:
        """A safe spelling of a name, different from that of any other name of the same subject."""
        key = f"{subject}/{name}"
        if key not in self._parts:
            taken = [part for other, part in self._parts.items() if other.startswith(f"{subject}/")]
            self._parts[key] = distinct(tag_part(name), taken)
        return self._parts[key]
