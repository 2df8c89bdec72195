"""Records whose arrays are those of another graph are refused, with all checksums right; rounding is allowed for."""

import numpy as np
import pytest

from bivshap_lightning import AuditRecord, ExplanationGraph
from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.audit.json_fields import encode
from bivshap_lightning.audit.record import GraphSummary
from bivshap_lightning.audit.record_parts import strongest_pairs
from bivshap_lightning.audit.recording import arrays_of
from bivshap_lightning.audit.results import ExplainedSample
from bivshap_lightning.graph.averaging import mean_of_class
from bivshap_lightning.graph.batched import is_possible_ranking, rank_one
from bivshap_lightning.graph.substitution import mean_substitution
from tests.audit.test_record import ARCHIVE, changed
from tests.records import GAMMA, PLAYERS, fields, npz, write

N, F = 6, 4


def exact_graph(generator: np.random.Generator) -> ExplanationGraph:
    """The graph of a random game of pairs, which satisfies every identity of Shapley values."""
    single, pair = generator.normal(2, 1, F), np.triu(generator.normal(0, 0.5, (F, F)), 1)
    pair = pair + pair.T
    e2 = (single[:, None] / 2 + pair.sum(axis=1, keepdims=True) / 3 + pair / 6) * (1 - np.eye(F))
    return ExplanationGraph(e2.T, names=PLAYERS, shapley=single + pair.sum(axis=1) / 2)


def plain(graph: ExplanationGraph) -> ExplanationGraph:
    return ExplanationGraph(graph.weights, names=graph.names)


def files(*, with_shapley: bool = True) -> tuple[dict, dict[str, np.ndarray]]:
    """The fields and arrays of a record of exact graphs."""
    generator = np.random.default_rng(0)
    graphs = [exact_graph(generator) for _ in range(N)]
    graphs = graphs if with_shapley else [plain(graph) for graph in graphs]
    samples = [(k, encode(GraphSummary.of(graph, GAMMA))) for k, graph in enumerate(graphs)]
    classes = {"cat": encode(GraphSummary.of(mean_of_class(graphs), GAMMA))}
    content = fields([("cat", summary) for _, summary in samples], {}, classes, gamma=GAMMA)
    for sample, graph in zip(content["samples"], graphs, strict=True):
        sample["gain"] = float(graph.shapley.sum()) if with_shapley else None
    arrays = {"weights": np.stack([g.weights for g in graphs]).astype(np.float32)}
    if with_shapley:
        pairs = strongest_pairs(mean_substitution(graphs, gammas=[GAMMA] * N))
        content |= encode(pairs)
        content["classes"]["cat"] |= encode(pairs)
        arrays["shapley"] = np.stack([g.shapley for g in graphs]).astype(np.float32)
    return content, arrays


def archived() -> tuple[dict, dict[str, np.ndarray]]:
    found = AuditRecord.load(ARCHIVE / "version_3.json")
    return found.to_fields(), dict(found.arrays)


RECORDS = {"exact": files, "without Shapley values": lambda: files(with_shapley=False), "archived": archived}
MATRICES, VECTORS = ("weights", "standard_error"), ("shapley", "shapley_standard_error")


def graphs_changed(arrays, matrices=lambda m: m, vectors=lambda v: v):
    made = {name: matrices(arrays[name]) for name in MATRICES if name in arrays}
    made |= {name: vectors(arrays[name]) for name in VECTORS if name in arrays}
    return {**arrays, **made}


def swapped(stack):
    return stack[[1, 0, *range(2, len(stack))]]


MUTATIONS = {
    "negated weights": lambda a: {**a, "weights": -a["weights"]},
    "negated weights of one sample": lambda a: {**a, "weights": np.concatenate([-a["weights"][:1], a["weights"][1:]])},
    "transposed weights": lambda a: {**a, "weights": a["weights"].swapaxes(1, 2)},
    "samples swapped": lambda a: graphs_changed(a, swapped, swapped),
    "players permuted": lambda a: graphs_changed(a, lambda m: np.roll(m, 1, (1, 2)), lambda v: np.roll(v, 1, 1)),
    "two players exchanged": lambda a: graphs_changed(
        a, lambda m: m[:, [1, 0, 2, 3]][:, :, [1, 0, 2, 3]], lambda v: v[:, [1, 0, 2, 3]]
    ),
    "weights doubled": lambda a: {**a, "weights": 2 * a["weights"]},
    "everything doubled": lambda a: graphs_changed(a, lambda m: 2 * m, lambda v: 2 * v),
    "everything negated": lambda a: {**a, **{n: -a[n] for n in ("weights", "shapley") if n in a}},
}


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("kind", RECORDS)
def test_arrays_of_another_graph_are_refused(tmp_path, kind, mutation):
    content, arrays = RECORDS[kind]()
    found = AuditRecord.load(write(tmp_path / "audit.json", content, npz(**arrays)))
    assert len(found.samples) == len(arrays["weights"])
    path = write(tmp_path / "audit.json", content, npz(**MUTATIONS[mutation](arrays)))
    with pytest.raises(
        RecordError, match=r"audit\.json: \S+ must be (what the arrays say|the sum of its Shapley values)"
    ):
        AuditRecord.load(path)


@pytest.mark.parametrize("kind", RECORDS)
def test_arrays_within_rounding_are_accepted(tmp_path, kind):
    content, arrays = RECORDS[kind]()
    generator = np.random.default_rng(1)
    for name in (*MATRICES, *VECTORS):
        if name in arrays:
            arrays[name] = arrays[name] * (1 + 2.0**-24 * generator.choice([-1, 1], arrays[name].shape))
    AuditRecord.load(write(tmp_path / "audit.json", content, npz(**arrays)))


@pytest.mark.parametrize(
    ("place", "change", "match"),
    [
        (("samples", 2, "ranking"), lambda old: old[::-1], r"samples\[2\]\.ranking must be what the arrays say"),
        (("samples", 2, "ranking", 0, "score"), 0.9, r"samples\[2\]\.ranking must be what the arrays say"),
        (("classes", "cat", "ranking"), lambda old: old[::-1], r"classes\['cat'\]\.ranking must be what"),
        (("samples", 2, "partners", 0, "own"), lambda old: -old, r"samples\[2\]\.partners\[0\] must be what"),
        (("samples", 2, "substitutes", 0, "total"), lambda old: old + 0.01, r"\[2\]\.substitutes\[0\] must be"),
        (("samples", 2, "substitutes", 0, "own_error"), lambda old: old + 0.01, r"\[2\]\.substitutes\[0\] must be"),
        (("classes", "cat", "partners", 0, "own"), lambda old: 2 * old, r"classes\['cat'\]\.partners\[0\] must be"),
        (("substitutes", 0, "own"), lambda old: 2 * old, r"json: substitutes\[0\] must be what the arrays say"),
        (("substitutes", 0, "player"), "nobody", r"json: substitutes\[0\] must be what the arrays say"),
    ],
)
def test_rankings_and_pairs_that_contradict_the_arrays_are_named(tmp_path, place, change, match):
    content, arrays = files()
    path = write(tmp_path / "audit.json", changed(content, place, change), npz(**arrays))
    with pytest.raises(RecordError, match=match):
        AuditRecord.load(path)


def test_the_standard_error_of_the_graphs_follows_from_the_arrays(tmp_path):
    content, arrays = archived()
    place = ("metrics", "bivshap/estimate/standard_error", "value")
    path = write(tmp_path / "audit.json", changed(content, place, lambda old: 1.01 * old), npz(**arrays))
    with pytest.raises(RecordError, match=r"tandard_error'\]\.value must be what the arrays say"):
        AuditRecord.load(path)


def test_rankings_of_many_graphs_survive_single_precision():
    """Of estimated, exact and duplicated values; ties may go either way, other orders not."""
    generator = np.random.default_rng(2)
    for k in range(200):
        n = int(generator.integers(2, 30))
        weights, phi = generator.normal(0, 1, (n, n)) * (1 - np.eye(n)), generator.normal(0, 1, n)
        if k % 3 == 1:
            weights, phi = np.round(weights, 0), np.round(phi, 0)
        error = 0.3 * np.abs(weights) if k % 2 else None
        graph = ExplanationGraph(weights, shapley=phi, standard_error=error)
        ranked = rank_one(graph)
        rounded = ExplanationGraph(
            weights.astype(np.float32), shapley=phi.astype(np.float32),
            standard_error=None if error is None else error.astype(np.float32),
            shapley_standard_error=graph.shapley_standard_error,
        )  # fmt: skip
        scores = ranked.scores[ranked.order]
        assert is_possible_ranking(rounded, ranked.order, scores, 2.0**-18)
        if k % 3 != 1 and n > 4:
            assert not is_possible_ranking(rounded, ranked.order[::-1], scores, 2.0**-18)


def test_samples_of_which_some_only_were_estimated(tmp_path):
    """What decides their rankings is kept for each of them, so that the record is not refused."""
    generator = np.random.default_rng(3)
    exact = exact_graph(generator)
    log_odds = ExplanationGraph(exact.weights, names=PLAYERS, shapley=exact.shapley[::-1])
    noise = np.abs(exact.weights)
    estimated = ExplanationGraph(
        exact.weights, names=PLAYERS, shapley=exact.shapley, standard_error=noise, log_odds=log_odds,
        pairwise_standard_error=0.01 * noise,
    )  # fmt: skip
    samples = [
        ExplainedSample(index=k, label=0, target=0, graph=graph, scores={})
        for k, graph in enumerate((exact, estimated))
    ]
    arrays = arrays_of(samples)
    assert {"weights", "shapley", "pairwise_standard_error_1", "log_odds_weights_1"} <= arrays.keys()
    assert "log_odds_weights_0" not in arrays
    content = fields([("cat", encode(GraphSummary.of(s.graph, GAMMA))) for s in samples], {}, {}, gamma=GAMMA)
    for found, sample in zip(content["samples"], samples, strict=True):
        found["gain"] = float(sample.graph.shapley.sum())
    record = AuditRecord.load(write(tmp_path / "audit.json", content, npz(**arrays)))
    assert record.sample_graphs[0].log_odds is None
    assert record.sample_graphs[1].log_odds is not None
