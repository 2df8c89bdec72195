"""Drift of class graphs: distances worked by hand or by others, and how rules use them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from bivshap_lightning.audit.record import AuditRecord, RecordError
from bivshap_lightning.gate import GateError, Rule, Verdict, judge
from bivshap_lightning.gate.drift import GraphPair, drift, largest_moves
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.metrics.catalogue import find_number, numbers_of
from tests.records import fields, npz, summary, write
from tests.test_cli import call, refused

GAMMA = 1e-5
NAMES = ("a", "b", "c", "d")


def pair(now, before, **kwargs) -> GraphPair:
    return GraphPair.of(ExplanationGraph(now, **kwargs), ExplanationGraph(before, **kwargs), GAMMA)


def test_weights_by_hand():
    """|3-1| + |1-2| + |0-0| of 3+1 + 1+2: 3/7."""
    assert drift("drift/weights", pair([[0, 3], [1, 0]], [[0, 1], [2, 0]])).value == pytest.approx(3 / 7)
    assert drift("drift/weights", pair([[0, 0], [0, 0]], [[0, 0], [0, 0]])).value == 0
    assert drift("drift/weights", pair([[0, 3], [0, 0]], [[0, 0], [1, 0]])).value == 1
    # Nothing is known below: noise adds to a distance.
    assert drift("drift/weights", pair([[0, 3], [1, 0]], [[0, 1], [2, 0]])).lower is None


def test_redundancy_by_hand():
    """Edges a → b and b → a before, a → b and c → a now: one of three is shared."""
    before, now = np.ones((3, 3)), np.ones((3, 3))
    before[0, 1] = before[1, 0] = now[0, 1] = now[2, 0] = 0
    np.fill_diagonal(before, 0)
    np.fill_diagonal(now, 0)
    both = pair(now, before, names=["a", "b", "c"])
    assert drift("drift/redundancy", both).value == pytest.approx(2 / 3)
    assert largest_moves("drift/redundancy", both) == ["now redundant: c → a", "no longer redundant: b → a"]


@given(st.lists(st.sampled_from("rno"), min_size=12, max_size=12))
def test_open_edges_bound_the_distance_as_enumeration_does(states):
    """Every way to settle the open edges of three players, in both graphs."""
    weight, error = {"r": 0.0, "n": 1.0, "o": 0.5}, {"r": 0.0, "n": 0.0, "o": 1.0}
    places = [(i, j) for i in range(3) for j in range(3) if i != j]
    graphs, settled = [], []
    for half in (states[:6], states[6:]):
        weights, errors = np.zeros((3, 3)), np.zeros((3, 3))
        for (i, j), state in zip(places, half, strict=True):
            weights[i, j], errors[i, j] = weight[state], error[state]
        graphs.append(ExplanationGraph(weights, standard_error=errors))
        choices = [{"r": (True,), "n": (False,), "o": (True, False)}[state] for state in half]
        settled.append([frozenset(k for k, r in enumerate(way) if r) for way in itertools.product(*choices)])
    distances = [1 - len(x & y) / len(x | y) if x | y else 0.0 for x in settled[0] for y in settled[1]]
    found = drift("drift/redundancy", GraphPair.of(*graphs, GAMMA))
    assert found.upper == pytest.approx(max(distances))
    assert found.lower <= found.value <= found.upper
    # With nothing but open edges none may be redundant at all; else the bound is met.
    if "r" in states:
        assert found.lower == pytest.approx(min(distances))


@given(st.integers(0, 10**6))
def test_ranking_is_spearmans(seed):
    generator = np.random.default_rng(seed)
    now, before = generator.uniform(0.1, 1, (2, 6, 6))
    for weights in (now, before):
        np.fill_diagonal(weights, 0)
        weights[:, 5] = weights[:, 4] = 0  # ties
    scores = [ExplanationGraph(weights).ranking() for weights in (now, before)]
    expected = 1 - spearmanr(*(s.round(9) for s in scores)).statistic
    assert drift("drift/ranking", pair(now, before)).value == pytest.approx(expected, abs=1e-9)


def test_rankings_that_tell_nothing_apart():
    flat, steep = [[0, 1], [1, 0]], [[0, 3], [1, 0]]
    assert drift("drift/ranking", pair(flat, flat)).value == 0
    assert drift("drift/ranking", pair(steep, flat)).value == 1
    assert drift("drift/ranking", pair(steep, [[0, 1], [3, 0]])).value == pytest.approx(2)


def test_players_are_aligned_by_name_and_strangers_count():
    old = ExplanationGraph([[0, 1, 2], [3, 0, 4], [5, 6, 0]], names=["a", "b", "c"])
    order = [2, 0, 1]
    new = ExplanationGraph(old.weights[np.ix_(order, order)], names=["c", "a", "b"])
    for metric in ("drift/weights", "drift/redundancy", "drift/ranking"):
        assert drift(metric, GraphPair.of(new, old, GAMMA)).value == pytest.approx(0)
    fewer = ExplanationGraph([[0, 1], [3, 0]], names=["a", "b"])
    # All weight of "c" is lost: 2 + 4 + 5 + 6 of 21 + 4.
    assert drift("drift/weights", GraphPair.of(fewer, old, GAMMA)).value == pytest.approx(17 / 25)


def with_arrays(weights, **run) -> AuditRecord:
    """Four samples of "cat" with these weights."""
    content = fields_of(weights)
    content["run"] |= run
    return replace(AuditRecord.from_fields(content), arrays={"weights": stack_of(weights)})


def fields_of(weights):
    found = summary(np.asarray(weights))
    return fields([("cat", found)] * 4, {}, {"cat": found})


def stack_of(weights):
    return np.stack([np.asarray(weights, dtype=np.float32)] * 4)


BEFORE = np.ones((4, 4)) - np.eye(4)
NOW = BEFORE.copy()
NOW[0, 1] = 4.0
RULES = '[[rule]]\nmetric = "drift/weights"\nmax = {}\n'


@pytest.mark.parametrize(("limit", "code"), [(0.12, 0), (0.11, 1)])
def test_rules_about_drift(tmp_path, limit, code):
    """3 of 15 + 12 is 0.111..."""
    paths = []
    for name, weights in (("new", NOW), ("old", BEFORE)):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "audit.json"
        paths.append(write(path, fields_of(weights), npz(weights=stack_of(weights))))
    (tmp_path / "gate.toml").write_text(RULES.format(limit))
    done, output = call("gate", paths[0], "--rules", tmp_path / "gate.toml", "--against", paths[1])
    assert done == code, output
    assert ("edge a → b: 1 before, 4 now" in output) is bool(code)
    done, output = call("gate", paths[0], "--rules", tmp_path / "gate.toml")
    assert refused(done, output)
    assert "needs a previous record" in output


def test_drift_in_memory_and_by_class():
    new, old = with_arrays(NOW), with_arrays(BEFORE)
    verdict = judge(new, [Rule(metric="drift/ranking", class_name="cat", max=2)], old)
    assert verdict.passed
    assert verdict.results[0].check.class_name == "cat"
    # A lower bound is not known, so that a minimum is never shown to be met.
    (unknown,) = judge(new, [Rule(metric="drift/weights", min=0.01)], old).results
    assert unknown.inconclusive
    assert '(a larger evaluation budget, or compare = "point", may decide)' in unknown.reason


def test_other_samples_are_named_as_a_reason():
    new, old = with_arrays(NOW, sample_keys=["a", "b", "c", "d"]), with_arrays(BEFORE, sample_keys=["d", "e", "f", "g"])
    rule = Rule(metric="drift/weights", max=0.01)
    verdict = judge(new, [rule], old)
    assert "the records share 1 of 4 samples" in verdict.notes[0]
    assert verdict.to_text().splitlines()[1].startswith("note: the records share 1 of 4 samples")
    assert "share 1 of 4 samples" in verdict.to_markdown().partition("| rule |")[0]
    assert Verdict.from_json(verdict.to_json()) == verdict
    same = with_arrays(BEFORE, sample_keys=["a", "b", "c", "d"])
    assert judge(same, [rule], same).notes == ()
    assert judge(new, [rule], same).results[0].evidence[0] == "edge a → b: 1 before, 4 now"


def test_drift_without_arrays_or_class_is_refused():
    new, old = with_arrays(NOW), with_arrays(BEFORE)
    rule = Rule(metric="drift/weights", max=1)
    with pytest.raises(RecordError, match=r"arrays must hold \(4, 4\) weights for sample 0, got None"):
        judge(replace(new, arrays={}), [rule], old)
    with pytest.raises(GateError, match=r"one that has a mean graph, got 'cow'\. There are: cat"):
        judge(new, [Rule(metric="drift/weights", class_name="cow", max=1)], old)
    content = fields_of(BEFORE)
    content["classes"]["dog"] = content["classes"]["cat"]
    for sample in content["samples"][:2]:
        sample["label"] = "dog"
    two_classes = replace(AuditRecord.from_fields(content), arrays=old.arrays)
    with pytest.raises(GateError, match="one that has a mean graph, got 'dog'"):
        judge(new, [rule], two_classes)


def test_every_drift_of_the_catalogue_is_computed():
    found = {number.tag: drift(number.tag, pair(NOW, BEFORE)) for number in numbers_of("drift")}
    assert all(find_number(tag).contains(interval.value) for tag, interval in found.items())


def test_each_graph_is_redundant_at_its_own_gamma():
    """A relative gamma grows with what there is to explain: a graph of ten times the size has the same H."""
    old = ExplanationGraph([[0, 0.02, 0.5], [0.3, 0, 0.01], [0.4, 0.2, 0]])
    new = ExplanationGraph(10 * old.weights)
    assert drift("drift/redundancy", GraphPair.of(new, old, 0.2, 0.02)).value == 0
    assert drift("drift/redundancy", GraphPair.of(new, old, 0.2)).value > 0
