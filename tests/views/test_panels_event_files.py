"""What reaches the event files and the folder, read back."""

import io
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.plugins.pr_curve import metadata as pr_metadata
from tensorboard.util.tensor_util import make_ndarray
from torch.utils.tensorboard import SummaryWriter

from bivshap_lightning.views import (
    START_LINE,
    Panels,
    draw_graphs,
    write_curve,
    write_figure,
    write_histogram,
    write_redundancy_graph,
    write_text,
)
from bivshap_lightning.views.figures.names import plain
from bivshap_lightning.views.tensorboard.native_graph import HOW_TO_READ, build_native_graph
from tests.views.panel_graphs import NASTY_NAMES, grouped_graph, random_graph, sentence_graph

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


def native_graph_of(value):
    return RunMetadata.FromString(value.tensor.string_val[0]).function_graphs[0].pre_optimization_graph


def as_networkx(native):
    graph = nx.DiGraph()
    for node in native.node:
        graph.add_node(node.name, op=node.op)
        graph.add_edges_from((source, node.name) for source in node.input)
    return graph


def test_a_figure_arrives_as_png(writer):
    figure = draw_graphs(sentence_graph(), sentence_graph().redundancy(), title="t")
    size = write_figure(writer, "bivshap/class/a/graphs", figure, 3)
    ((step, value),) = read(writer)["bivshap/class/a/graphs"]
    width, height, png = value.tensor.string_val
    assert (step, width, height, len(png)) == (3, b"1050", b"610", size)
    with Image.open(io.BytesIO(png)) as image:
        assert image.size == (1050, 610)


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


def test_curves_of_methods_are_runs_of_their_own_under_one_tag(writer):
    x = np.linspace(0, 1, 26)
    runs = [write_curve(writer, "tag", method, x, 1 - x**2, 4) for method in ("BivShap (ours)", "IG/Captum")]
    assert [Path(run).relative_to(writer.log_dir).as_posix() for run in runs] == [
        "curves/BivShap_ours",
        "curves/IG_Captum",
    ]
    writer.flush()
    for run in runs:
        accumulator = accumulated(run)
        assert accumulator.Tags()["tensors"] == ["tag"]
        event = accumulator.Tensors("tag")[0]
        table = make_ndarray(event.tensor_proto)
        assert (event.step, table.shape) == (4, (6, 26))
        np.testing.assert_allclose(table[pr_metadata.RECALL_INDEX], x, atol=1e-7)
        np.testing.assert_allclose(table[pr_metadata.PRECISION_INDEX], 1 - x**2, atol=1e-6)
        # TensorBoard cuts a curve where both counts are zero.
        assert table[pr_metadata.TRUE_POSITIVES_INDEX].min() > 0
        content = accumulator.SummaryMetadata("tag").plugin_data.content
        assert pr_metadata.parse_plugin_metadata(content).num_thresholds == 26


def test_a_method_keeps_its_event_file_over_epochs_and_gets_another_after_close(writer):
    for epoch in range(3):
        run = write_curve(writer, "tag", "ours", [0, 1], [1, 0], epoch)
    assert len(list(Path(run).iterdir())) == 1
    writer.close()
    write_curve(writer, "tag", "ours", [0, 1], [1, 0], 3)
    writer.flush()
    assert sorted(event.step for event in accumulated(run).Tensors("tag")) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0, 1], [0.5, 1.5], "`y` must lie between 0 and 1, got 0.5 to 1.5"),
        ([0, np.nan], [0, 1], "`x` must lie between 0 and 1, got nan to nan"),
        ([0, 1], [1], r"`x` and `y` must be vectors of one length, at least 2, got shapes \(2,\) and \(1,\)"),
        ([0], [1], r"`x` and `y` must be vectors of one length, at least 2, got shapes \(1,\)"),
    ],
)
def test_what_the_chart_cannot_show_is_refused(writer, x, y, message):
    with pytest.raises(ValueError, match=message):
        write_curve(writer, "tag", "ours", x, y, 0)


def test_the_graphs_dashboard_gets_the_quotient_of_h(writer):
    graph = grouped_graph([3, 1, 1, 2, 1], arrows=[(0, 1), (1, 2), (0, 2), (0, 3), (3, 2)], names=list("abcdefgh"))
    h = graph.redundancy()
    size = write_redundancy_graph(writer, "bivshap/H/class/x", h, 7, graph=graph)
    ((step, value),) = read(writer)["bivshap/H/class/x"]
    plugin = value.metadata.plugin_data
    assert (step, plugin.plugin_name, plugin.content) == (7, "graph_run_metadata_graph", b"1")
    assert len(value.tensor.string_val[0]) == size
    native = as_networkx(native_graph_of(value))
    # Scopes closed, every node goes by what is in front of the slash.
    closed = nx.quotient_graph(native, lambda a, b: a.split("/")[0] == b.split("/")[0] and "/" in a)
    titles = {part: next(iter(part)).split("/")[0] for part in closed}
    arrows = {(titles[a][0], titles[b][0]) for a, b in closed.edges}
    # A: a, b, c; B: f, g; d and e are single. The arrow A -> e is implied by A -> d -> e.
    assert arrows == {("A", "d"), ("A", "B"), ("d", "e"), ("B", "e")}
    assert {name.split("/")[1] for name in native if name.startswith("A.")} == {"a", "b", "c"}
    assert {name for name in native if name.startswith("without_any_arrow/")} == {"without_any_arrow/h"}


def test_members_of_a_group_reach_each_other():
    native = as_networkx(build_native_graph(grouped_graph([5, 1]).redundancy()))
    group = [name for name in native if name.startswith("A.")]
    assert len(group) == 5
    assert nx.is_strongly_connected(native.subgraph(group))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share_zero", [0.05, 0.15])
def test_h_can_be_read_back_up_to_reachability(seed, share_zero):
    h = random_graph(12, share_zero=share_zero, seed=seed).redundancy()
    native = as_networkx(build_native_graph(h))
    node_of = {
        int(d["op"].split("player ")[1][:-1]): node for node, d in native.nodes(data=True) if "player" in d["op"]
    }
    assert sorted(node_of) == list(range(12))
    # Features alike share the arrows of the node `each_one` beside them.
    hubs = {node.split("/")[0]: node for node in native if node.endswith("/each_one")}
    carrier = {player: hubs.get(node.split("/")[0], node) for player, node in node_of.items()}
    whole = h.to_networkx()
    for i in range(12):
        reached = nx.descendants(native, carrier[i])
        assert nx.descendants(whole, i) == {j for j in range(12) if carrier[j] in reached and i != j}


def test_nodes_say_name_rank_and_score_and_are_all_different():
    graph = random_graph(12, names=NASTY_NAMES, share_zero=0.3)
    native = build_native_graph(graph.redundancy(), graph=graph)
    ops = [node.op for node in native.node]
    names = [node.name for node in native.node]
    assert len(set(ops)) == len(ops)
    assert len(set(names)) == len(names)
    assert HOW_TO_READ in ops
    assert sum("rank 1 of 12, score" in op for op in ops) == 1
    assert any("<script>alert(1)</script>: rank" in op for op in ops)
    true_names = {node.attr["feature"].s.decode() for node in native.node if "feature" in node.attr}
    assert true_names == {plain(name) for name in NASTY_NAMES}
    assert "redundant once i is present" in native.node[0].attr["arrow"].s.decode()
    for node in native.node:
        assert node.attr["_output_shapes"].list.shape[0].dim[0].size == 1
        assert set(node.input) <= set(names)


@pytest.mark.parametrize("n_players", [1, 300])
def test_the_native_graph_is_bounded(n_players):
    graph = random_graph(n_players, share_zero=0.02)
    native = build_native_graph(graph.redundancy(), graph=graph)
    assert len(native.node) <= 270
    assert native.ByteSize() < 50_000


def test_names_that_are_reserved_or_equal_after_cleaning_stay_apart():
    graph = grouped_graph(
        [1, 1, 1, 1], arrows=[(0, 1), (1, 2), (2, 3)], names=["READ_ME", "a b", "a/b", "without_any_arrow"]
    )
    names = [node.name for node in build_native_graph(graph.redundancy()).node]
    assert names == ["READ_ME", "READ_ME_2", "a_b", "a_b_2", "without_any_arrow_2"]


def test_a_class_gets_its_four_tags(writer):
    graph = sentence_graph()
    tags = Panels(writer).write_class("negative", graph, graph.redundancy(), step=2)
    assert tags == [
        "bivshap/class/negative/graphs",
        "bivshap/class/negative/ranking",
        "bivshap/H/class/negative",
        "bivshap/class/negative/abs_weights",
    ]
    values = read(writer)
    assert set(values) == set(tags)
    assert {step for entries in values.values() for step, _ in entries} == {2}
    plugins = [values[tag][0][1].metadata.plugin_data.plugin_name for tag in tags]
    assert plugins == ["images", "text", "graph_run_metadata_graph", "histograms"]


def test_samples_are_drawn_as_words_as_pictures_or_with_names(writer):
    panels, graph = Panels(writer), sentence_graph()
    h = graph.redundancy()
    segments = np.arange(8).reshape(2, 4)
    tags = panels.write_sample(0, graph, h, step=0)
    tags += panels.write_sample(1, graph, h, step=0, words=graph.names)
    tags += panels.write_sample("a/b", graph, h, step=0, image=np.zeros((2, 4)), segments=segments)
    assert tags == ["bivshap/sample/0/graphs", "bivshap/sample/1/graphs", "bivshap/sample/a_b/graphs"]
    sizes = [read(writer)[tag][0][1].tensor.string_val[1] for tag in tags]
    assert len(set(sizes)) == 3


def test_curves_go_to_images_and_to_the_chart(writer):
    x = np.linspace(0, 1, 5)
    curves = {"ours": (x, 1 - x, None), "IG": (x, 1 - x**2, 0.1 * x)}
    assert Panels(writer).write_curves(curves, step=1) == ["bivshap/posthoc/accuracy_vs_removed"]
    assert list(read(writer)) == ["bivshap/posthoc/accuracy_vs_removed"]
    runs = {path.name for path in (Path(writer.log_dir) / "curves").iterdir()}
    assert runs == {"ours", "IG"}


def test_curves_beyond_zero_to_one_are_only_drawn(writer):
    Panels(writer).write_curves({"ours": ([0, 1], [3, 4], None)}, step=1, tag="bivshap/other")
    assert list(read(writer)) == ["bivshap/other"]
    assert not (Path(writer.log_dir) / "curves").exists()


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
        "figures/bivshap/class/a_b/graphs/step_000003.png",
        "figures/bivshap/class/a_b/ranking/step_000003.md",
        "figures/bivshap/posthoc/accuracy_vs_removed/step_000012.png",
        "figures/bivshap/sample/0/graphs/step_000003.png",
    ]
    with Image.open(tmp_path / files[0]) as image:
        assert image.size == (1050, 610)
    assert "| rank | feature |" in (tmp_path / files[1]).read_text(encoding="utf-8")


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
    assert len(Panels(writer).write_class("one", graph, graph.redundancy(), step=0)) == 3


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


def test_a_writer_of_a_subclass_is_welcome(tmp_path):
    class Own(SummaryWriter):
        pass

    with Own(str(tmp_path)) as writer:
        assert Panels(writer).write_sample(0, random_graph(2), random_graph(2).redundancy(), step=0)


def test_the_start_line_keeps_all_pictures():
    assert START_LINE == "tensorboard --logdir lightning_logs --samples_per_plugin=images=1000,bivshap=1000"
