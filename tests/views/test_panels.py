"""What reaches the event files and the folder, read back."""

import io
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util.tensor_util import make_ndarray
from torch.utils.tensorboard import SummaryWriter

from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.views import (
    START_LINE,
    Panel,
    Panels,
    describe_scalars,
    draw_graphs,
    register_panel,
    write_figure,
    write_histogram,
    write_text,
)
from bivshap_lightning.views.tensorboard import registry
from tests.views.example_graphs import grouped_graph, random_graph, sentence_graph

TINY = {"images": 0, "tensors": 0, "histograms": 0}


@pytest.fixture
def writer(tmp_path):
    with SummaryWriter(str(tmp_path / "run")) as opened:
        yield opened


def read(writer):
    """All values of the writer's main event file, by tag, as (step, value)."""
    writer.flush()
    values = {}
    for file in sorted(Path(writer.log_dir).glob("events*")):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                values.setdefault(value.tag, []).append((event.step, value))
    return values


def accumulated(folder):
    accumulator = EventAccumulator(str(folder), size_guidance=TINY)
    accumulator.Reload()
    return accumulator


def test_a_figure_arrives_as_png(writer):
    figure = draw_graphs(sentence_graph(), sentence_graph().redundancy(), title="t")
    size = write_figure(writer, "bivshap/class/a/graphs", figure, 3)
    ((step, value),) = read(writer)["bivshap/class/a/graphs"]
    width, height, png = value.tensor.string_val
    assert (step, width, len(png)) == (3, b"700", size)
    with Image.open(io.BytesIO(png)) as image:
        assert image.size == (700, int(height))


def test_each_epoch_is_a_step_of_one_tag(writer):
    graph = grouped_graph([2, 1])
    panels = Panels(writer)
    for epoch in range(3):
        panels.write_sample(0, graph, graph.redundancy(), step=epoch)
    assert [step for step, _ in read(writer)["bivshap/sample/0/graphs"]] == [0, 1, 2]


def test_text_arrives_under_exactly_its_tag(writer):
    write_text(writer, "bivshap/class/a/ranking", "| ä |", 1)
    ((step, value),) = read(writer)["bivshap/class/a/ranking"]
    assert (step, value.metadata.plugin_data.plugin_name) == (1, "text")
    assert value.tensor.string_val[0].decode() == "| ä |"


def test_a_histogram_counts_every_value(writer):
    values = np.abs(np.random.default_rng(0).normal(size=1000))
    write_histogram(writer, "h", values, 0)
    write_histogram(writer, "flat", [0.0, 0.0], 0)
    entries = read(writer)
    assert make_ndarray(entries["flat"][0][1].tensor)[:, 2].sum() == 2
    buckets = make_ndarray(entries["h"][0][1].tensor)
    assert buckets[:, 2].sum() == 1000
    assert buckets[0, 0] == pytest.approx(values.min())
    assert buckets[-1, 1] == pytest.approx(values.max())


@pytest.mark.parametrize("values", [[], [0.0, np.nan]])
def test_a_histogram_of_nothing_or_of_nan_is_refused(writer, values):
    with pytest.raises(ValueError, match="`values` must be finite numbers, at least one, got"):
        write_histogram(writer, "h", values, 0)


def test_scalars_are_described_by_their_first_entry_which_holds_no_value(writer):
    tag = "bivshap/redundancy/density"
    describe_scalars(writer, {tag: "Share of *pairs* called redundant."})
    for step in range(3):
        writer.add_scalar(tag, 0.1 * step, step)
    writer.flush()
    accumulator = accumulated(writer.log_dir)
    assert accumulator.SummaryMetadata(tag).summary_description == "Share of *pairs* called redundant."
    assert [event.step for event in accumulator.Scalars(tag)] == [0, 1, 2]


def test_panels_describe_each_scalar_once(writer, tmp_path):
    panels = Panels(writer)
    panels.describe_scalars({"a": "first"})
    panels.describe_scalars({"a": "again", "b": "second"})
    described = {tag: [v.metadata.summary_description for _, v in values] for tag, values in read(writer).items()}
    assert described == {"a": ["first"], "b": ["second"]}
    Panels(tmp_path / "folder").describe_scalars({"a": "first"})
    assert not (tmp_path / "folder").exists()


def test_a_class_gets_its_panels_the_axis_first(writer):
    graph = sentence_graph()
    tags = Panels(writer).write_class("negative", graph, graph.redundancy(), step=2)
    assert tags == [
        "bivshap/class/negative/axis",
        "bivshap/class/negative/graphs",
        "bivshap/class/negative/ranking",
        "bivshap/class/negative/abs_weights",
    ]
    values = read(writer)
    assert set(values) == set(tags)
    assert {step for entries in values.values() for step, _ in entries} == {2}
    plugins = [values[tag][0][1].metadata.plugin_data.plugin_name for tag in tags]
    assert plugins == ["images", "images", "text", "histograms"]


def test_samples_are_drawn_as_words_as_pictures_or_with_names(writer):
    panels, graph = Panels(writer), sentence_graph()
    h = graph.redundancy()
    segments = np.arange(8).reshape(2, 4)
    tags = panels.write_sample(0, graph, h, step=0)
    tags += panels.write_sample(1, graph, h, step=0, words=graph.names)
    tags += panels.write_sample("a/b", graph, h, step=0, image=np.zeros((2, 4)), segments=segments)
    assert tags == [f"bivshap/sample/{name}/{panel}" for name in ("0", "1", "a_b") for panel in ("axis", "graphs")]
    for panel in ("axis", "graphs"):
        sizes = [read(writer)[tag][0][1].tensor.string_val[1] for tag in tags if tag.endswith(panel)]
        assert len(set(sizes)) == 3


def test_the_samples_of_a_class_change_its_axis(tmp_path):
    graph = random_graph(5)
    files = []
    for name, graphs in {"mean": None, "samples": [random_graph(5, seed=seed) for seed in range(4)]}.items():
        Panels(tmp_path / name).write_class("c", graph, graph.redundancy(), step=0, graphs=graphs)
        files.append((tmp_path / name / "figures/bivshap/class/c/axis/step_000000.png").read_bytes())
    assert files[0] != files[1]


def test_samples_with_other_players_than_their_mean_are_left_out(tmp_path):
    graph = random_graph(3, names=["a", "b", "c"])
    others = [random_graph(2, names=["a", "b"]), random_graph(2, names=["b", "c"])]
    tags = Panels(tmp_path).write_class("c", graph, graph.redundancy(), step=0, graphs=others)
    assert tags[0] == "bivshap/class/c/axis"


def test_a_graph_without_shapley_values_has_no_axis(tmp_path):
    graph = ExplanationGraph([[0, 1], [1, 0]])
    assert Panels(tmp_path).write_sample(0, graph, graph.redundancy(), step=0) == ["bivshap/sample/0/graphs"]


def draw_density(data):
    """A panel of someone else's."""
    return f"Density of H of {data.title}: {data.h.density:.2f}"


def test_a_panel_is_added_by_one_function_and_one_line(writer, monkeypatch):
    monkeypatch.setattr(registry, "PANELS", registry.PANELS.copy())
    monkeypatch.setattr("bivshap_lightning.views.tensorboard.panels.PANELS", registry.PANELS)
    register_panel(Panel("density", ("class", "sample"), draw_density))
    graph = grouped_graph([2, 1])
    panels = Panels(writer)
    tags = panels.write_class("c", graph, graph.redundancy(), step=0)
    tags += panels.write_sample(0, graph, graph.redundancy(), step=0)
    values = read(writer)
    assert [tag for tag in tags if tag.endswith("density")] == ["bivshap/class/c/density", "bivshap/sample/0/density"]
    assert values["bivshap/class/c/density"][0][1].tensor.string_val[0].decode() == "Density of H of Class “c”: 0.33"
    with pytest.raises(ValueError, match="`panel` must have a name of its own, got 'density' again"):
        register_panel(Panel("density", ("class",), draw_density))


def test_the_panels_given_are_the_ones_written(tmp_path):
    graph = grouped_graph([2, 1])
    panels = Panels(tmp_path, panels=[Panel("density", ("class",), draw_density)])
    assert panels.write_class("c", graph, graph.redundancy(), step=0) == ["bivshap/class/c/density"]
    assert panels.write_sample(0, graph, graph.redundancy(), step=0) == []


@pytest.mark.parametrize(
    ("name", "subjects", "message"),
    [
        ("a b", ("class",), "`name` must consist of letters, digits, .* got 'a b'. Try 'a_b'"),
        ("a", (), r"`subjects` must be some of \('class', 'sample'\), got \(\)"),
        ("a", ("epoch",), r"`subjects` must be some of \('class', 'sample'\), got \('epoch',\)"),
    ],
)
def test_a_panel_without_a_usable_name_or_subject_is_refused(name, subjects, message):
    with pytest.raises(ValueError, match=message):
        Panel(name, subjects, draw_density)


def test_curves_go_to_images_and_make_no_runs_of_their_own(writer):
    x = np.linspace(0, 1, 5)
    curves = {"ours": (x, 1 - x, None), "IG": (x, 1 - x**2, 0.1 * x)}
    assert Panels(writer).write_curves(curves, step=1) == ["bivshap/post_hoc/accuracy_vs_removed"]
    ((step, value),) = read(writer)["bivshap/post_hoc/accuracy_vs_removed"]
    assert (step, value.metadata.plugin_data.plugin_name) == (1, "images")
    assert not [path for path in Path(writer.log_dir).iterdir() if path.is_dir()]


def test_class_names_from_data_have_safe_and_different_tags(writer):
    panels, graph = Panels(writer), grouped_graph([2, 1])
    names = [">50K", "<=50K", "a/b", "a b", "<script>", "../..", "日本"]
    tags = [panels.write_class(name, graph, graph.redundancy(), step=0)[0] for name in names]
    parts = [tag.split("/")[2] for tag in tags]
    assert parts == ["gt_50K", "le_50K", "a_b", "a_b_2", "lt_script_gt", "unnamed", "日本"]
    assert panels.write_class("a b", graph, graph.redundancy(), step=1)[0] == tags[3]
    text = read(writer)["bivshap/class/lt_script_gt/ranking"][0][1].tensor.string_val[0].decode()
    assert "<script>" not in text
    assert "&#60;script&#62;" in text


def test_without_tensorboard_pictures_and_tables_are_files(tmp_path):
    panels, graph = Panels(tmp_path), sentence_graph()
    panels.write_class("a/../b", graph, graph.redundancy(), step=3)
    panels.write_sample(0, graph, graph.redundancy(), step=3)
    panels.write_curves({"ours": ([0, 1], [1, 0], None)}, step=12)
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert files == [
        "figures/bivshap/class/a_b/axis/step_000003.png",
        "figures/bivshap/class/a_b/graphs/step_000003.png",
        "figures/bivshap/class/a_b/ranking/step_000003.md",
        "figures/bivshap/post_hoc/accuracy_vs_removed/step_000012.png",
        "figures/bivshap/sample/0/axis/step_000003.png",
        "figures/bivshap/sample/0/graphs/step_000003.png",
    ]
    with Image.open(tmp_path / files[0]) as image:
        assert image.width == 700
    assert "| rank | feature |" in (tmp_path / files[2]).read_text(encoding="utf-8")


def test_letters_in_the_table_are_those_in_the_picture_over_epochs(tmp_path):
    panels = Panels(tmp_path)
    panels.write_class("c", grouped_graph([2, 3, 1]), grouped_graph([2, 3, 1]).redundancy(), step=0)
    later = grouped_graph([2, 1, 1, 1, 1])
    panels.write_class("c", later, later.redundancy(), step=1)
    table = (tmp_path / "figures/bivshap/class/c/ranking/step_000001.md").read_text(encoding="utf-8")
    assert "| B | 2 | 0, 1 |" in table


def test_panels_go_on_after_a_restart(tmp_path):
    graph = random_graph(40)
    first = Panels(tmp_path)
    first.write_class("a b", graph, graph.redundancy(), step=0)
    state = json.loads(json.dumps(first.state_dict()))
    second = Panels(tmp_path)
    second.load_state_dict(state)
    other = random_graph(40, seed=1)
    for panels in (first, second):
        panels.write_class("a/b", other, other.redundancy(), step=1)
        panels.write_class("a b", other, other.redundancy(), step=1)
    assert first.state_dict() == second.state_dict()


def test_one_player_has_panels_too(writer):
    graph = random_graph(1)
    tags = Panels(writer).write_class("one", graph, graph.redundancy(), step=0)
    assert [tag.rpartition("/")[2] for tag in tags] == ["axis", "graphs", "ranking"]


@pytest.mark.parametrize("argument", ["max_nodes", "max_edges"])
def test_limits_are_checked(tmp_path, argument):
    with pytest.raises(ValueError, match=f"`{argument}` must be at least [01], got -1"):
        Panels(tmp_path, **{argument: -1})


def test_a_picture_needs_its_segments(tmp_path):
    graph = random_graph(4)
    with pytest.raises(ValueError, match="`segments` must say which player each pixel of `image` belongs to, got None"):
        Panels(tmp_path).write_sample(0, graph, graph.redundancy(), step=0, image=np.zeros((2, 2)))


def test_other_writers_are_refused_with_a_way_out():
    with pytest.raises(
        TypeError, match="`destination` must be torch's SummaryWriter or the path of a folder, got builtins"
    ):
        Panels(3)


def test_a_subclass_of_the_writer_is_accepted(tmp_path):
    class Own(SummaryWriter):
        pass

    with Own(str(tmp_path)) as writer:
        assert Panels(writer).write_sample(0, random_graph(2), random_graph(2).redundancy(), step=0)


def test_the_start_line_is_understood_by_tensorboard_and_names_only_its_plugins():
    program, *arguments = START_LINE.split()
    assert program == "tensorboard"
    with warnings.catch_warnings():
        # A library inside TensorBoard warns about another one inside it.
        warnings.simplefilter("ignore", DeprecationWarning)
        from tensorboard.default import get_static_plugins
        from tensorboard.program import TensorBoard

        from bivshap_lightning.views.tensorboard.plugin import BivShapPlugin

        plugins = [*get_static_plugins(), BivShapPlugin]
        board = TensorBoard(plugins=plugins)
        board.configure(("tensorboard", *arguments))
    kept = board.flags.samples_per_plugin
    assert kept["images"] >= 1000
    assert set(kept) <= {getattr(plugin, "plugin_name", None) for plugin in plugins}


def test_the_sweep_over_gamma_goes_to_text(writer):
    roles = ("irrelevant", "interchangeable", "redundant", "essential", "undecided")
    sweep = {"gamma": [0.001, 0.01], **{role: [0.2, 0.2] for role in roles}, "density": [0.1, 0.35],
             "share_removable": [0.0, 0.25]}  # fmt: skip
    assert Panels(writer).write_sweep(sweep, step=3) == ["bivshap/roles/at_other_gammas"]
    (((step, value),),) = [v for t, v in read(writer).items() if "at_other_gammas" in t]
    assert (step, value.metadata.plugin_data.plugin_name) == (3, "text")
    text = value.tensor.string_val[0].decode()
    assert "| 0.001 | 20% | 20% | 20% | 20% | 20% | 10% | 0% |" in text
    assert "| 0.01 | 20% | 20% | 20% | 20% | 20% | 35% | 25% |" in text
