"""Mean graphs by name against their definition written out as loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bivshap_lightning.graph import ExplanationGraph, mean_by_name


def random_graph(words, seed):
    rng = np.random.default_rng(seed)
    weights, errors = rng.normal(size=(2, len(words), len(words)))
    np.fill_diagonal(weights, 0)
    np.fill_diagonal(errors, 0)
    seen, names = {}, []
    for word in words:
        seen[word] = seen.get(word, 0) + 1
        names.append(word if seen[word] == 1 else f"{word} ({seen[word]})")
    return ExplanationGraph(
        weights, names=names, shapley=rng.normal(size=len(words)), standard_error=np.abs(errors), provenance={"seed": 1}
    )


texts = st.lists(st.lists(st.sampled_from("abcde"), min_size=2, max_size=6), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(texts)
def test_every_weight_is_the_mean_over_the_pairs_of_the_two_names(sentences):
    graphs = [random_graph(words, seed) for seed, words in enumerate(sentences)]
    mean, largest = mean_by_name(graphs), max(float(np.abs(graph.weights).max()) for graph in graphs)
    assert mean.names == tuple(dict.fromkeys(word for words in sentences for word in words))
    for (p, a), (q, b) in itertools.permutations(enumerate(mean.names), 2):
        pairs = [
            (graph.weights[i, j], graph.standard_error[i, j], abs(graph.weights[i, j]))
            for graph, words in zip(graphs, sentences, strict=True)
            for i, j in itertools.permutations(range(len(words)), 2)
            if words[i] == a and words[j] == b
        ]
        if pairs:
            numbers = mean.weights[p, q], mean.standard_error[p, q], mean.absolute.weights[p, q]
            np.testing.assert_allclose(numbers, np.mean(pairs, axis=0))
        else:
            assert mean.redundancy(largest).undecided[p, q]
    for p, a in enumerate(mean.names):
        everyone = zip(graphs, sentences, strict=True)
        found = [(graph, i) for graph, words in everyone for i, word in enumerate(words) if word == a]
        np.testing.assert_allclose(mean.shapley[p], np.mean([graph.shapley[i] for graph, i in found]))
        np.testing.assert_allclose(mean.absolute.shapley[p], np.mean([abs(graph.shapley[i]) for graph, i in found]))
    assert mean.provenance == {"seed": 1, "n_graphs": len(graphs)}
    np.testing.assert_allclose(mean.scale, np.mean([abs(graph.shapley.sum()) for graph in graphs]))


def test_equal_players_give_the_ordinary_mean():
    graphs = [random_graph("abc", seed) for seed in range(3)]
    ordinary, mean = ExplanationGraph.mean(graphs), mean_by_name(graphs)
    np.testing.assert_allclose(mean.weights, ordinary.weights)
    np.testing.assert_allclose(mean.standard_error, ordinary.standard_error)
    np.testing.assert_allclose(mean.shapley, ordinary.shapley)
    np.testing.assert_allclose(mean.absolute.weights, ordinary.absolute.weights)
    np.testing.assert_allclose(mean.shapley_standard_error, ordinary.shapley_standard_error)


def test_only_the_most_important_names_stay():
    graph = ExplanationGraph(np.zeros((3, 3)), names=["a", "b", "c"], shapley=[0.1, -0.9, 0.5])
    assert mean_by_name([graph, graph], max_players=2).names == ("b", "c")
    common = [ExplanationGraph(np.zeros((2, 2)), names=names) for names in (["a", "b"], ["b", "c"])]
    assert mean_by_name(common, max_players=1).names == ("b",)


def test_labels_instead_of_names():
    graph = ExplanationGraph([[0, 1], [2, 0]], names=["x", "y"])
    assert mean_by_name([graph], [["u", "v"]]).names == ("u", "v")


def test_bad_graphs_are_refused():
    graph = ExplanationGraph([[0, 1], [2, 0]])
    with pytest.raises(ValueError, match="`graphs` must hold at least one graph"):
        mean_by_name([])
    with pytest.raises(ValueError, match="must all have Shapley values or none"):
        mean_by_name([graph, ExplanationGraph([[0, 1], [2, 0]], shapley=[1, 2])])
    with pytest.raises(ValueError, match="`labels` must have a name for each player"):
        mean_by_name([graph], [["a"]])
