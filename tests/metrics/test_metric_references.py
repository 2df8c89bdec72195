"""Every number against references written as loops over samples and players from the definitions."""

from collections.abc import Callable
from fractions import Fraction
from math import exp, log1p, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bivshap_lightning import BivariateShapley, ExplanationGraph, Game, RedundancyGraph
from bivshap_lightning.metrics import (
    DeletionAUC,
    DirectionalRedundancy,
    InsertionAUC,
    MutualRedundancyMasking,
    PostHocAccuracy,
)
from bivshap_lightning.metrics.functional import (
    deletion_auc,
    directional_redundancy,
    insertion_auc,
    mutual_redundancy_masking,
    post_hoc_accuracy,
)

CONVENTIONS = ["default", "paper"]
Players = set[int]


class Reference:
    """What the references may ask: the decision and the utility of a sample when some players are present."""

    def __init__(
        self,
        counts: list[int],
        decision: Callable[[int, Players], int],
        utility: Callable[[int, Players], float],
    ) -> None:
        self.counts, self.decision, self.utility = counts, decision, utility

    def everyone(self, sample: int) -> Players:
        return set(range(self.counts[sample]))

    def stays(self, sample: int, present: Players) -> float:
        return float(self.decision(sample, present) == self.decision(sample, self.everyone(sample)))


def mean_and_error(name: str, values: list[float]) -> dict[str, float]:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return {name: mean, f"{name}_se": sqrt(variance / len(values))}


def curve_and_error(rows: list[list[float]]) -> dict[str, list[float]]:
    columns = [mean_and_error("curve", list(column)) for column in zip(*rows, strict=True)]
    return {key: [column[key] for column in columns] for key in ("curve", "curve_se")}


def order_of(scores: list[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda player: (-scores[player], player))


def reference_post_hoc(reference: Reference, orders: list[list[int]]) -> dict[str, Any]:
    rows, areas, masked, total = [], [], [0] * 26, 0
    for sample, order in enumerate(orders):
        n = len(order)
        row, fractions = [], []
        for step in range(26):
            n_masked = int(Fraction(step, 25) * n)
            row.append(reference.stays(sample, set(order[: n - n_masked])))
            fractions.append(n_masked / n)
            masked[step] += n_masked
        total += n
        rows.append(row)
        areas.append(sum((fractions[s + 1] - fractions[s]) * (row[s] + row[s + 1]) / 2 for s in range(25)))
    return {
        **mean_and_error("area", areas),
        **curve_and_error(rows),
        "masked_fraction": [m / total for m in masked],
        "per_sample_area": areas,
    }


def reference_auc(reference: Reference, orders: list[list[int]], convention: str, *, insert: bool) -> dict[str, Any]:
    scores, rows, reached, total = [], [], [0] * 26, 0
    for sample, order in enumerate(orders):
        n = len(order)
        c = reference.utility(sample, set()) if convention == "default" else 0.5
        is_negative = convention == "default" and reference.utility(sample, set(order)) < c
        gains = []
        for k in range(n + 1):
            present = set(order[:k]) if insert else set(order[k:])
            gain = reference.utility(sample, present) - c
            gains.append(max(-gain if is_negative else gain, 0.0))
        scores.append(sum(gains[:n]) / n)
        steps = [int(Fraction(step, 25) * n) for step in range(26)]
        rows.append([gains[k] for k in steps])
        reached = [r + k for r, k in zip(reached, steps, strict=True)]
        total += n
    return {
        **mean_and_error("auc", scores),
        **curve_and_error(rows),
        "inserted_fraction" if insert else "removed_fraction": [r / total for r in reached],
        "per_sample_auc": scores,
    }


def redundant_edges(graph: ExplanationGraph, gamma: float, convention: str) -> list[list[bool]]:
    n = graph.n_players
    half = 1.959963984540054 if convention == "default" else 0.0
    return [
        [i != j and abs(graph.weights[i, j]) + half * graph.standard_error[i, j] <= gamma for j in range(n)]
        for i in range(n)
    ]


def components_of(edges: list[list[bool]]) -> list[list[int]]:
    """Strongly connected components by reachability."""
    n = len(edges)
    reaches = [[i == j or edges[i][j] for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                reaches[i][j] = reaches[i][j] or (reaches[i][k] and reaches[k][j])
    found: list[list[int]] = []
    for i in range(n):
        if not any(i in component for component in found):
            found.append([j for j in range(n) if reaches[i][j] and reaches[j][i]])
    return found


def statistics(graphs: list[ExplanationGraph], gamma: float, convention: str) -> dict[str, float]:
    densities, n_groups, n_grouped, n_undecided, n_pairs, total = [], 0, 0, 0, 0, 0
    for graph in graphs:
        n, edges = graph.n_players, redundant_edges(graph, gamma, convention)
        groups = [component for component in components_of(edges) if len(component) > 1]
        densities.append(sum(map(sum, edges)) / (n * (n - 1)) if n > 1 else 0.0)
        n_groups, n_grouped, total = n_groups + len(groups), n_grouped + sum(map(len, groups)), total + n
        n_pairs += n * (n - 1)
        half = 1.959963984540054 if convention == "default" else 0.0
        for i in range(n):
            for j in range(n):
                low = abs(graph.weights[i, j]) - half * graph.standard_error[i, j]
                n_undecided += i != j and not edges[i][j] and low <= gamma
    return {
        **mean_and_error("density", densities),
        "groups_per_sample": n_groups / len(graphs),
        "group_size": n_grouped / n_groups if n_groups else 0.0,
        "share_grouped": n_grouped / total,
        "share_undecided": n_undecided / n_pairs if n_pairs else 0.0,
    }


def random_removal(reference: Reference, sample: int, n_removed: int, n_draws: int, seed: int) -> float:
    """Mean accuracy with as many players removed, consecutive ones of a random circle, at equal distances."""
    n = reference.counts[sample]
    keys = np.random.PCG64(seed).jumped().random_raw(n).tolist()
    circle = sorted(range(n), key=lambda player: keys[player])
    right = 0.0
    for draw in range(n_draws):
        start = int(Fraction(draw, n_draws) * n)
        removed = {circle[(start + step) % n] for step in range(n_removed)}
        right += reference.stays(sample, reference.everyone(sample) - removed)
    return right / n_draws


def order_in(graph, convention, method="keep") -> list[int]:
    """The order of players that a metric takes by default: what it is about, or PageRank as in the paper."""
    if convention == "paper":
        return graph.order("pagerank", oriented=False).tolist()
    return graph.order(method).tolist()


def reference_mutual(
    reference: Reference,
    graphs: list[ExplanationGraph],
    convention: str,
    *,
    gamma: float = 1e-5,
    n_draws: int = 5,
    seed: int = 0,
) -> dict[str, Any]:
    rows, with_representatives, shares, masked, removable, total = [], [], [], [0] * 11, 0, 0
    random, empty = [], []
    for sample, graph in enumerate(graphs):
        n, order = graph.n_players, order_in(graph, convention)
        keys = np.random.PCG64(seed).random_raw(n).tolist()
        components = components_of(redundant_edges(graph, gamma, convention))
        groups = [component for component in components if len(component) > 1]
        ungrouped = {component[0] for component in components if len(component) == 1}
        stay = ungrouped | {min(group, key=order.index) for group in groups}
        with_representatives.append(reference.stays(sample, stay))
        shares.append((n - len(stay)) / n)
        random.append(random_removal(reference, sample, n - len(stay), n_draws, seed))
        empty.append(reference.stays(sample, set()))
        removable, total = removable + n - len(stay), total + n
        row = []
        for level in range(11):
            right = 0.0
            for draw in range(n_draws):
                present = set(ungrouped)
                for group in groups:
                    ring, size = sorted(group, key=lambda player: keys[player]), len(group)
                    n_kept = int(Fraction(level, 10) * size)
                    if convention == "default":
                        n_kept = max(1, n_kept)
                    start = int(Fraction(draw, n_draws) * size)
                    present |= {ring[(start + step) % size] for step in range(n_kept)}
                right += reference.stays(sample, present)
            masked[level] += n - len(present)
            row.append(right / n_draws)
        rows.append(row)
    return {
        **mean_and_error("accuracy_with_representatives", with_representatives),
        **mean_and_error("random_removal_accuracy", random),
        **mean_and_error("empty_accuracy", empty),
        "share_removable": removable / total,
        **mean_and_error("n_independent", [graph.n_players * (1 - s) for graph, s in zip(graphs, shares, strict=True)]),
        **curve_and_error(rows),
        "masked_fraction": [m / total for m in masked],
        "keep_level": [level / 10 for level in range(11)],
        **statistics(graphs, gamma, convention),
        "per_sample_accuracy_with_representatives": with_representatives,
        "per_sample_share_removable": shares,
    }


def pagerank_of(edges: list[list[bool]]) -> list[float]:
    """Damping 0.85, at most 10 rounds, tolerance 1e-6; a node with out-edges restarts less."""
    n = len(edges)
    scores = [1 / n] * n
    for _ in range(10):
        new = []
        for v in range(n):
            incoming = sum(scores[w] / sum(edges[w]) for w in range(n) if edges[w][v])
            restart = (1 - 0.85 * any(edges[v])) / n
            new.append(0.85 * incoming + restart * sum(scores))
        total = sum(new)
        new = [value / total for value in new]
        change, scores = sum(abs(a - b) for a, b in zip(new, scores, strict=True)), new
        if change < 1e-6:
            break
    return scores


def sources_and_sinks_of(edges: list[list[bool]], convention: str) -> tuple[Players, Players]:
    components = components_of(edges)
    m = len(components)
    condensed = [
        [a != b and any(edges[i][j] for i in components[a] for j in components[b]) for b in range(m)] for a in range(m)
    ]
    sources: Players = set()
    sinks: Players = set()
    if convention == "default":
        for node, members in enumerate(components):
            has_out, has_in = any(condensed[node]), any(row[node] for row in condensed)
            sources |= set(members) if has_out and not has_in else set()
            sinks |= set(members) if has_in and not has_out else set()
        return sources, sinks
    either = [[condensed[a][b] or condensed[b][a] for b in range(m)] for a in range(m)]
    for part in components_of(either):
        if len(part) > 1:
            scores = pagerank_of([[condensed[a][b] for b in part] for a in part])
            for node, score in zip(part, scores, strict=True):
                sources |= set(components[node]) if score < min(scores) + 1e-12 else set()
                sinks |= set(components[node]) if score > max(scores) - 1e-12 else set()
    return sources, sinks


def reference_directional(
    reference: Reference,
    graphs: list[ExplanationGraph],
    convention: str,
    *,
    gamma: float = 1e-5,
    n_draws: int = 5,
    seed: int = 0,
) -> dict[str, Any]:
    names = ["mask_sinks", "keep_only_sources", "mask_sources", "keep_only_sinks"]
    right: dict[str, list[float]] = {name: [] for name in names}
    random: dict[str, list[float]] = {name: [] for name in names}
    empty = []
    masked, total, without = dict.fromkeys(names, 0), 0, []
    for sample, graph in enumerate(graphs):
        everyone = reference.everyone(sample)
        sources, sinks = sources_and_sinks_of(redundant_edges(graph, gamma, convention), convention)
        without.append(float(not sources and not sinks))
        present = {
            "mask_sinks": everyone - sinks,
            "keep_only_sources": sources if sources or convention == "paper" else everyone,
            "mask_sources": everyone - sources,
            "keep_only_sinks": sinks if sinks or convention == "paper" else everyone,
        }
        empty.append(reference.stays(sample, set()))
        for name in names:
            right[name].append(reference.stays(sample, present[name]))
            masked[name] += len(everyone - present[name])
            n_removed = len(everyone - present[name])
            random[name].append(random_removal(reference, sample, n_removed, n_draws, seed))
        total += len(everyone)
    result: dict[str, Any] = {"share_without_direction": sum(without) / len(without)}
    result |= mean_and_error("empty_accuracy", empty)
    for name in names:
        result |= mean_and_error(f"{name}_accuracy", right[name])
        result |= mean_and_error(f"{name}_random_accuracy", random[name])
        result[f"{name}_share_masked"] = masked[name] / total
        result[f"per_sample_{name}_accuracy"] = right[name]
    return result | statistics(graphs, gamma, convention)


def assert_agrees(result: dict[str, torch.Tensor], expected: dict[str, Any], n_samples: int) -> None:
    expected = {**expected, "n_samples": n_samples}
    assert set(result) == set(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(result[key].numpy(), value, atol=1e-6, rtol=0, err_msg=key)


def assert_class_and_function_agree_with(expected, metric, function, game, given_, **kwargs):
    """Both forms give the reference's numbers."""
    metric.update(game, given_)
    assert_agrees(metric.compute(), expected, game.n_samples)
    assert_agrees(function(game, given_, **kwargs), expected, game.n_samples)


SEEDS = st.integers(0, 10**6)


@pytest.mark.parametrize("is_ragged", [False, True])
class TestOnRandomGames:
    @settings(max_examples=25)
    @given(seed=SEEDS)
    def test_post_hoc_accuracy(self, table_game, seed, is_ragged):
        table = table_game(seed, is_ragged=is_ragged)
        scores = np.random.default_rng(seed).integers(0, 4, (table.n_samples, table.n_players))  # with ties
        orders = [order_of(row[:n].tolist()) for row, n in zip(scores, table.counts, strict=True)]
        game, width = table.game(), max(table.counts)
        expected = reference_post_hoc(Reference(table.counts, table.decision, table.utility), orders)
        assert_class_and_function_agree_with(
            expected, PostHocAccuracy(per_sample=True), post_hoc_accuracy, game, scores[:, :width]
        )

    @pytest.mark.parametrize("convention", CONVENTIONS)
    @settings(max_examples=25)
    @given(seed=SEEDS)
    def test_areas(self, table_game, random_graphs, seed, is_ragged, convention):
        table = table_game(seed, is_ragged=is_ragged)
        graphs = random_graphs(seed, table.counts)
        reference, game = Reference(table.counts, table.decision, table.utility), table.game()
        for insert, metric, function in (
            (True, InsertionAUC(convention=convention, per_sample=True), insertion_auc),
            (False, DeletionAUC(convention=convention, per_sample=True), deletion_auc),
        ):
            orders = [order_in(graph, convention, "keep" if insert else "remove") for graph in graphs]
            expected = reference_auc(reference, orders, convention, insert=insert)
            assert_class_and_function_agree_with(expected, metric, function, game, graphs, convention=convention)

    @pytest.mark.parametrize("convention", CONVENTIONS)
    @settings(max_examples=25)
    @given(seed=SEEDS, n_draws=st.integers(1, 7))
    def test_mutual_redundancy(self, table_game, random_graphs, seed, is_ragged, convention, n_draws):
        table = table_game(seed, n_players=6, is_ragged=is_ragged)
        graphs = random_graphs(seed, table.counts, noise=0.3 * (seed % 2))
        arguments = {"gamma": 0.2, "n_draws": n_draws, "seed": seed}
        reference = Reference(table.counts, table.decision, table.utility)
        assert_class_and_function_agree_with(
            reference_mutual(reference, graphs, convention, **arguments),
            MutualRedundancyMasking(convention=convention, per_sample=True, **arguments),
            mutual_redundancy_masking,
            table.game(),
            graphs,
            convention=convention,
            **arguments,
        )

    @pytest.mark.parametrize("convention", CONVENTIONS)
    @settings(max_examples=25)
    @given(seed=SEEDS, n_draws=st.integers(1, 7))
    def test_directional_redundancy(self, table_game, random_graphs, seed, is_ragged, convention, n_draws):
        table = table_game(seed, n_players=6, is_ragged=is_ragged)
        graphs = random_graphs(seed, table.counts, noise=0.3 * (seed % 2))
        reference = Reference(table.counts, table.decision, table.utility)
        assert_class_and_function_agree_with(
            reference_directional(reference, graphs, convention, gamma=0.2, n_draws=n_draws, seed=seed),
            DirectionalRedundancy(gamma=0.2, convention=convention, per_sample=True, n_draws=n_draws, seed=seed),
            directional_redundancy,
            table.game(),
            graphs,
            convention=convention,
            gamma=0.2,
            n_draws=n_draws,
            seed=seed,
        )


def test_the_ranking_of_a_graph_is_the_one_written_down(random_graphs):
    """`softplus(W)` with its diagonal, ten rounds of PageRank, the highest score first."""
    for graph in random_graphs(0, [7, 5, 9]):
        n = graph.n_players
        weights = [[log1p(exp(w)) for w in row] for row in graph.weights.tolist()]
        scores = [1 / n] * n
        for _ in range(10):
            new = [
                0.85 * sum(scores[w] * weights[w][v] / sum(weights[w]) for w in range(n)) + 0.15 / n * sum(scores)
                for v in range(n)
            ]
            new = [value / sum(new) for value in new]
            change, scores = sum(abs(a - b) for a, b in zip(new, scores, strict=True)), new
            if change < 1e-6:
                break
        assert graph.order("pagerank", oriented=False).tolist() == order_of(scores)


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    """A network that reads digits, explained on 12 of them with 16 players of 2 x 2 pixels."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[100:]), y[100:]).backward()
        optimizer.step()
    players = torch.arange(16).view(4, 4).repeat_interleave(2, 0).repeat_interleave(2, 1).reshape(1, 64)
    samples = x[:12]
    assert (model(samples).argmax(1) == y[:12]).float().mean() > 0.8
    explainer = BivariateShapley(model, method="sampling", seed=0)
    explanation = explainer.attribute(samples, feature_mask=players, n_evaluations=512)
    return {
        "game": Game(model, samples, feature_mask=players),
        "explanation": explanation,
        "reference": _reference_of_network(model, samples.numpy(), players[0].numpy()),
    }


def _reference_of_network(model: torch.nn.Sequential, samples: np.ndarray, players: np.ndarray) -> Reference:
    first, second = ([p.detach().numpy().astype(np.float64) for p in model[index].parameters()] for index in (0, 2))

    def probabilities(sample: int, present: Players) -> np.ndarray:
        row = samples[sample] * np.isin(players, list(present))
        hidden = np.maximum(first[0] @ row + first[1], 0)
        logits = second[0] @ hidden + second[1]
        logits = np.exp(logits - logits.max())
        return logits / logits.sum()

    def decision(sample: int, present: Players) -> int:
        return int(probabilities(sample, present).argmax())

    def utility(sample: int, present: Players) -> float:
        return float(probabilities(sample, present)[decision(sample, set(range(16)))])

    return Reference([16] * len(samples), decision, utility)


@pytest.mark.parametrize("convention", CONVENTIONS)
class TestOnATrainedModel:
    def test_post_hoc_accuracy(self, trained, convention):
        metric = PostHocAccuracy(convention=convention, personalized=True, per_sample=True)
        metric.update(trained["game"], trained["explanation"])
        oriented, graphs = convention == "default", trained["explanation"].graphs()
        orders = [graph.order(personalized=True, oriented=oriented).tolist() for graph in graphs]
        expected = reference_post_hoc(trained["reference"], orders)
        assert_agrees(metric.compute(), expected, 12)
        assert 0 < expected["area"] < 1

    @pytest.mark.parametrize(("cls", "insert"), [(InsertionAUC, True), (DeletionAUC, False)])
    def test_areas(self, trained, convention, cls, insert):
        metric = cls(convention=convention, per_sample=True)
        scores = trained["explanation"].shapley
        metric.update(trained["game"], scores)
        orders = [order_of(row) for row in scores.tolist()]
        expected = reference_auc(trained["reference"], orders, convention, insert=insert)
        assert_agrees(metric.compute(), expected, 12)
        assert 0 < expected["auc"] < 1

    @pytest.mark.parametrize("gamma", [1e-5, 0.005])
    def test_redundancy(self, trained, convention, gamma):
        graphs = trained["explanation"].graphs()
        for metric, reference in (
            (MutualRedundancyMasking, reference_mutual),
            (DirectionalRedundancy, reference_directional),
        ):
            judge = metric(gamma=gamma, convention=convention, per_sample=True)
            judge.update(trained["game"], trained["explanation"])
            expected = reference(trained["reference"], graphs, convention, gamma=gamma)
            assert_agrees(judge.compute(), expected, 12)
            assert expected["share_grouped"] > 0


def test_a_redundancy_graph_is_taken_as_it_is(table_game, random_graphs):
    table = table_game(3, n_players=5)
    graphs = random_graphs(3, table.counts)
    given_ = [graph.redundancy(0.4) for graph in graphs]
    assert all(isinstance(h, RedundancyGraph) for h in given_)
    for function in (mutual_redundancy_masking, directional_redundancy):
        direct, by_gamma = function(table.game(), given_), function(table.game(), graphs, gamma=0.4)
        for key in set(direct) - {key for key in direct if "with_representatives" in key}:
            assert torch.equal(direct[key], by_gamma[key]), key
