"""A gamma by each sample's number of players: every metric sees each sample as it would with that number alone."""

import numpy as np
import pytest
import torch

from bivshap_lightning import Game
from bivshap_lightning.graph import RelativeGamma
from bivshap_lightning.graph.threshold import redundancy_of_all
from bivshap_lightning.metrics import (
    DirectionalRedundancy,
    GammaSweep,
    MutualRedundancyMasking,
    RepresentativesKept,
    RoleShares,
)
from bivshap_lightning.metrics.sweep import FACTORS

COUNTS = [2, 17, 24, 17, 5]
SCALE = 40.0  # large enough for weights of size 1 to be decided differently at F = 2, 17 and 24
KINDS = [MutualRedundancyMasking, DirectionalRedundancy, RepresentativesKept, RoleShares, GammaSweep]


def of_the_design(n_players: int) -> float:
    return min(0.01, 0.15 / n_players) * SCALE


def logits(x):
    score = torch.tanh(x).sum(dim=1)
    return torch.stack([-score, score], dim=1)


def game_of(samples):
    """The game of players 0, 1, ... of each sample, as many as it has."""
    width = max(COUNTS[b] for b in samples)
    players = torch.arange(width)
    ids = torch.stack([players.where(players < COUNTS[b], -1) for b in samples])
    x = torch.randn(len(COUNTS), max(COUNTS), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x = x * (torch.arange(max(COUNTS)) < torch.tensor(COUNTS)[:, None])  # as padding, what a sample lacks adds nothing
    return Game(logits, x[samples][:, :width], feature_mask=ids, behavior="logit", link="softmax")


@pytest.fixture(scope="module")
def graphs(random_graphs):
    return random_graphs(5, COUNTS, noise=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_each_sample_is_decided_at_the_gamma_of_its_number_of_players(kind, graphs):
    whole = kind(gamma=RelativeGamma(SCALE))
    whole.update(game_of([0, 1]), graphs[:2])
    whole.update(game_of([2, 3, 4]), graphs[2:])
    alone = []
    for b, graph in enumerate(graphs):
        metric = kind(gamma=of_the_design(COUNTS[b]))
        metric.update(game_of([b]), [graph])
        alone.append(metric._totals().sums)
    for name, found in whole._totals().sums.items():
        if "random" in name or name in ("curve", "n_stable", "n_confirmed"):
            continue  # which players are drawn depends on how many the game has
        torch.testing.assert_close(found, sum(sums[name] for sums in alone), msg=lambda m, n=name: f"{n}: {m}")
    # What it must not be: the strictest of them for all.
    common = kind(gamma=of_the_design(max(COUNTS)))
    common.update(game_of(list(range(5))), graphs)
    assert not torch.equal(common.sums, whole.sums)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_numbers_of_players_give_what_a_number_gives(kind, random_graphs):
    graphs = random_graphs(2, [17, 17], noise=0.1)
    found = []
    for gamma in (RelativeGamma(SCALE), of_the_design(17)):
        metric = kind(gamma=gamma)
        metric.update(game_of([1, 3]), graphs)
        found.append(metric.compute())
    assert set(found[0]) == set(found[1])
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_the_sweep_names_the_smallest_thresholds(graphs):
    metric, other = GammaSweep(gamma=RelativeGamma(SCALE)), GammaSweep(gamma=RelativeGamma(SCALE))
    metric.update(game_of([0, 1]), graphs[:2])
    assert metric.gammas == pytest.approx([f * of_the_design(17) for f in FACTORS])
    other.update(game_of([2, 4]), [graphs[2], graphs[4]])
    metric.merge_state(other)
    assert metric.compute()["gamma"].tolist() == pytest.approx([f * of_the_design(24) for f in FACTORS])
    metric.reset()
    metric.update(game_of([0]), graphs[:1])
    assert metric.gammas == pytest.approx([f * of_the_design(2) for f in FACTORS])


def test_shares_of_a_scale_are_those_of_its_relative_gamma(graphs):
    results = []
    for arguments in ({"scale": SCALE}, {"gamma": RelativeGamma(SCALE)}):
        metric = RoleShares(**arguments)
        metric.update(game_of(list(range(5))), graphs)
        results.append(metric.compute())
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])


def test_redundancy_takes_a_threshold_per_graph(graphs):
    gammas = [of_the_design(n) for n in COUNTS]
    for graph, gamma, h in zip(graphs, gammas, redundancy_of_all(graphs, gammas), strict=True):
        alone = graph.redundancy(gamma)
        assert h.gamma == gamma
        np.testing.assert_array_equal(h.adjacency, alone.adjacency)
        np.testing.assert_array_equal(h.undecided, alone.undecided)
    twice = redundancy_of_all([graphs[1], graphs[1]], [0.1, 0.5])
    assert [h.n_redundant for h in twice] == [graphs[1].redundancy(g).n_redundant for g in (0.1, 0.5)]


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_a_scale_is_a_size(scale):
    with pytest.raises(ValueError, match=r"`scale` must be finite and >= 0, got"):
        RelativeGamma(scale)
