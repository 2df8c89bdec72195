"""Functions that write figures, text, histograms, descriptions and the index of records into TensorBoard's event files.

Each takes a `torch.utils.tensorboard.SummaryWriter`, such as `TensorBoardLogger.experiment` on rank zero. Start
TensorBoard with `START_LINE`: by default it keeps ten pictures per tag.

Histograms go through `SummaryWriter.add_histogram`. The others are written as protocol buffers, because
`add_figure` and `add_image` need the decoded picture, `add_text` appends "/text_summary" to the tag, and
`add_scalar` takes no description.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_TENSOR, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.scalar.metadata import create_summary_metadata
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from bivshap_lightning.views.figures.png import render_png

PLUGIN_NAME = "bivshap"
"""Of the tab in TensorBoard, :mod:`bivshap_lightning.views.tensorboard.plugin`."""

START_LINE = f"tensorboard --logdir lightning_logs --samples_per_plugin=images=1000,{PLUGIN_NAME}=1000"
"""How to start TensorBoard so that it shows the pictures and the records of every epoch."""

INDEX_VERSION = 1

HISTOGRAM_BINS = 50


class Writer(Protocol):
    """The part of torch's `SummaryWriter` that is used here."""

    log_dir: str

    def flush(self) -> None:
        """Write to disk what is buffered."""

    def add_histogram(self, tag: str, values: Any, global_step: int, bins: Any) -> None:
        """Write a histogram."""

    def _get_file_writer(self) -> Any:
        """The open event file; opens another one after `close`."""


def write_figure(writer: Writer, tag: str, figure: Figure, step: int) -> int:
    """Show a figure in the Images dashboard, as a PNG of at most 1,050 pixels across and 256 colours.

    Args:
        writer: Where to write.
        tag: Name of the picture; each step of a tag is a position of its slider.
        figure: Any matplotlib figure; it is not changed and needs no pyplot.
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
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype=DT_STRING, string_val=[markdown.encode()], tensor_shape=shape)
    content = TextPluginData(version=0).SerializeToString()
    plugin_data = SummaryMetadata.PluginData(plugin_name="text", content=content)
    _write(writer, Summary.Value(tag=tag, tensor=tensor, metadata=SummaryMetadata(plugin_data=plugin_data)), step)


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
    writer.add_histogram(tag, numbers, step, HISTOGRAM_BINS)


def describe_scalars(writer: Writer, descriptions: Mapping[str, str]) -> None:
    """Explain scalars in the Scalars dashboard, where the description appears behind an information sign.

    TensorBoard takes the description from the first entry of a tag, so this must be called before the first value is
    logged. The entry holds no value.

    Args:
        writer: Where to write.
        descriptions: A sentence in Markdown by tag.

    Example:
        >>> import tempfile
        >>> from torch.utils.tensorboard import SummaryWriter
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     describe_scalars(writer, {"bivshap/redundancy/density": "Share of pairs that H calls redundant."})
    """
    for tag, description in descriptions.items():
        metadata = create_summary_metadata(display_name=tag, description=description)
        _write(writer, Summary.Value(tag=tag, metadata=metadata), 0)


def write_index(writer: Writer, record: str | os.PathLike[str], step: int, *, stage: str, epoch: int | None) -> str:
    """Tell the tab of this package in TensorBoard that there is a record at a step, and where it lies.

    The event file holds the path relative to its own folder, so that logs can be moved as a whole. The arrays stay in
    the record.

    Args:
        writer: Where to write.
        record: JSON file of the record.
        step: As of the other summaries.
        stage: "validate" or "test".
        epoch: Of the training run, if known.

    Returns:
        The tag.

    Example:
        >>> import tempfile
        >>> from torch.utils.tensorboard import SummaryWriter
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     write_index(writer, f"{folder}/bivshap/validate.json", 0, stage="validate", epoch=0)
        'bivshap/record/validate'
    """
    # Both sides resolved alike: a relative log directory, or one below a link, gives the same path.
    path = Path(os.path.relpath(os.path.realpath(record), os.path.realpath(writer.log_dir))).as_posix()
    index = {"version": INDEX_VERSION, "record": path, "stage": stage, "epoch": epoch}
    tensor = TensorProto(
        dtype=DT_STRING, string_val=[json.dumps(index).encode()], tensor_shape=TensorShapeProto(dim=[])
    )
    plugin_data = SummaryMetadata.PluginData(plugin_name=PLUGIN_NAME, content=str(INDEX_VERSION).encode())
    metadata = SummaryMetadata(plugin_data=plugin_data, data_class=DATA_CLASS_TENSOR)
    tag = f"{Path(record).parent.name}/record/{stage}"
    _write(writer, Summary.Value(tag=tag, tensor=tensor, metadata=metadata), step)
    writer.flush()
    return tag


def _write(writer: Writer, value: Summary.Value, step: int) -> None:
    writer._get_file_writer().add_summary(Summary(value=[value]), step)
