"""What is written into TensorBoard's event files, dashboard by dashboard.

Each function takes a `torch.utils.tensorboard.SummaryWriter`, such as `TensorBoardLogger.experiment` on rank zero,
and a step. Start TensorBoard with `START_LINE`: by default it keeps ten pictures per tag.
"""

import os
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.histogram_pb2 import HistogramProto
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_FLOAT, DT_STRING
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.views.figures.canvas import render_png
from bivshap_lightning.views.figures.layout import Layout
from bivshap_lightning.views.figures.names import tag_part
from bivshap_lightning.views.tensorboard.native_graph import build_native_graph

START_LINE = "tensorboard --logdir lightning_logs --samples_per_plugin=images=1000,bivshap=1000"
"""How to start TensorBoard so that it shows the pictures of every epoch."""

HISTOGRAM_BINS = 50


class Writer(Protocol):
    """The part of torch's `SummaryWriter` that is used here."""

    all_writers: Any

    def flush(self) -> None:
        """Bring to disk what is written so far."""

    def _get_file_writer(self) -> Any:
        """The open event file; opens another one after `close`."""


def write_figure(writer: Writer, tag: str, figure: Figure, step: int) -> int:
    """Show a figure in the Images dashboard, as a PNG of at most 1,050 pixels across and 256 colours.

    Args:
        writer: Where to write.
        tag: Name of the picture; each step of a tag is a position of its slider.
        figure: Any matplotlib figure; it is left as it is and needs no pyplot.
        step: Such as the epoch.

    Returns:
        Bytes of the PNG.

    Example:
        >>> import tempfile
        >>> from torch.utils.tensorboard import SummaryWriter
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     write_figure(writer, "bivshap/class/cat/graphs", Figure(), step=0) < 10_000
        True
    """
    png, width, height = render_png(figure)
    image = Summary.Image(encoded_image_string=png, width=width, height=height, colorspace=3)
    _write(writer, Summary.Value(tag=tag, image=image), step)
    return len(png)


def write_text(writer: Writer, tag: str, markdown: str, step: int) -> None:
    """Show Markdown in the Text dashboard; names in it must have been escaped with `markdown_text`.

    Args:
        writer: Where to write.
        tag: Name of the text.
        markdown: What to show; tables are rendered.
        step: Such as the epoch.

    Example:
        >>> import tempfile
        >>> from torch.utils.tensorboard import SummaryWriter
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     write_text(writer, "bivshap/class/cat/ranking", "| rank |", step=0)
    """
    tensor = TensorProto(dtype=DT_STRING, string_val=[markdown.encode()], tensor_shape=_shape(1))
    _write(writer, _tensor_value(tag, tensor, "text", TextPluginData(version=0).SerializeToString()), step)


def write_histogram(writer: Writer, tag: str, values: ArrayLike, step: int) -> None:
    """Show the distribution of some numbers in the Histograms and Distributions dashboards.

    Args:
        writer: Where to write.
        tag: Name of the histogram.
        values: At least one finite number, in any shape.
        step: Such as the epoch.

    Example:
        >>> import tempfile
        >>> from torch.utils.tensorboard import SummaryWriter
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     write_histogram(writer, "bivshap/class/cat/abs_weights", [0.0, 0.1, 0.3], step=0)
    """
    numbers = np.asarray(values, dtype=np.float64).ravel()
    if not numbers.size or not np.isfinite(numbers).all():
        raise ValueError(
            f"`values` must be finite numbers, at least one, got {numbers.size} of which "
            f"{int((~np.isfinite(numbers)).sum())} are not finite. Leave out what has no value."
        )
    counts, edges = np.histogram(numbers, bins=HISTOGRAM_BINS)
    histogram = HistogramProto(
        min=numbers.min(),
        max=numbers.max(),
        num=numbers.size,
        sum=numbers.sum(),
        sum_squares=numbers @ numbers,
        bucket_limit=edges.tolist(),
        # The first limit is the lower end of the first bin, so the bucket below it is empty.
        bucket=[0, *counts.tolist()],
    )
    _write(writer, Summary.Value(tag=tag, histo=histogram), step)


def write_curve(writer: Writer, tag: str, method: str, x: ArrayLike, y: ArrayLike, step: int) -> str:
    """Add a method's curve to a chart of the PR Curves dashboard, which draws any y over x between 0 and 1.

    TensorBoard gives colours to runs, so each method writes into a run of its own below the writer's folder.
    That run is flushed and closed together with the writer.

    Args:
        writer: Where to write.
        tag: Name of the chart, the same for all methods.
        method: Name of the method.
        x: (N,) from 0 to 1, at least two.
        y: (N,) from 0 to 1.
        step: Such as the epoch.

    Returns:
        The folder of the method's run.

    Example:
        >>> import os, tempfile
        >>> from torch.utils.tensorboard import SummaryWriter
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     run = write_curve(writer, "bivshap/posthoc/accuracy_vs_removed", "ours", [0, 1], [1, 0.2], 0)
        ...     os.path.relpath(run, folder).replace(os.sep, "/")
        'curves/ours'
    """
    recall, precision = _shares(x, "x"), _shares(y, "y")
    n_points = recall.size
    if recall.shape != precision.shape or recall.ndim != 1 or n_points < 2:
        raise ValueError(
            f"`x` and `y` must be vectors of one length, at least 2, got shapes {recall.shape} and {precision.shape}. "
            "Pass the points of one curve."
        )
    # Rows: true and false positives, true and false negatives, precision, recall. Counts of zero would cut the
    # curve down to a point.
    table = np.vstack((np.ones((4, n_points)), precision, recall))
    tensor = TensorProto(dtype=DT_FLOAT, float_val=table.ravel().tolist(), tensor_shape=_shape(6, n_points))
    content = PrCurvePluginData(version=0, num_thresholds=n_points).SerializeToString()
    run = _run_of(writer, method)
    summary = Summary(value=[_tensor_value(tag, tensor, "pr_curves", content)])
    writer.all_writers[run].add_summary(summary, step)
    return run


def write_redundancy_graph(
    writer: Writer,
    tag: str,
    h: RedundancyGraph,
    step: int,
    *,
    graph: ExplanationGraph | None = None,
    scores: ArrayLike | None = None,
    layout: Layout | None = None,
) -> int:
    """Show H in the Graphs dashboard: a node per player, a group as a scope that opens on a double click.

    The dashboard has no steps: of each tag it shows what was written last.

    Args:
        writer: Where to write.
        tag: Name in the dashboard's list of tags.
        h: The redundancy graph.
        step: Such as the epoch.
        graph: G of the same players, for the ranks written into the nodes.
        scores: (F,) ranking, high = important; by default `graph.ranking()`.
        layout: Where groups have their letters from, as in the pictures.

    Returns:
        Bytes of the graph.

    Example:
        >>> import tempfile
        >>> from torch.utils.tensorboard import SummaryWriter
        >>> h = RedundancyGraph([[False, True], [False, False]], 0)
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     write_redundancy_graph(writer, "bivshap/H/class/cat", h, step=0) < 1_000
        True
    """
    metadata = RunMetadata()
    native = build_native_graph(h, graph=graph, scores=scores, layout=layout)
    metadata.function_graphs.add().pre_optimization_graph.CopyFrom(native)
    content = metadata.SerializeToString()
    tensor = TensorProto(dtype=DT_STRING, string_val=[content], tensor_shape=_shape())
    _write(writer, _tensor_value(tag, tensor, "graph_run_metadata_graph", b"1"), step)
    return len(content)


def _write(writer: Writer, value: Summary.Value, step: int) -> None:
    writer._get_file_writer().add_summary(Summary(value=[value]), step)


def _tensor_value(tag: str, tensor: TensorProto, plugin: str, content: bytes) -> Summary.Value:
    plugin_data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return Summary.Value(tag=tag, tensor=tensor, metadata=SummaryMetadata(plugin_data=plugin_data))


def _shape(*sizes: int) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def _shares(values: ArrayLike, argument: str) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() <= 1):
        raise ValueError(
            f"`{argument}` must lie between 0 and 1, got {numbers.min()} to {numbers.max()}. "
            "Draw other curves with `draw_curves`."
        )
    return numbers


def _run_of(writer: Writer, method: str) -> str:
    """The folder of a method's run, with its event file among the writer's own as `add_scalars` does it."""
    main = writer._get_file_writer()
    run = os.path.join(main.get_logdir(), "curves", tag_part(method))
    if run not in writer.all_writers:
        writer.all_writers[run] = type(main)(run)
    return run
