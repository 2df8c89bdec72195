"""What may be judged, in all its forms, and what is refused."""

import numpy as np
import pytest
import torch

from bivshap_lightning import BivariateShapley, ExplanationGraph, Game
from bivshap_lightning.metrics import (
    DeletionAUC,
    DirectionalRedundancy,
    InsertionAUC,
    MutualRedundancyMasking,
    PostHocAccuracy,
)
from bivshap_lightning.metrics.inputs import graph_per_sample, player_ranks

RANKING_METRICS = [PostHocAccuracy, InsertionAUC, DeletionAUC]
REDUNDANCY_METRICS = [MutualRedundancyMasking, DirectionalRedundancy]
GRAPH = ExplanationGraph([[0, 1, 1], [0, 0, 1], [0, 1, 0]])


def game_of(n_samples: int = 1, n_players: int = 3, **kwargs) -> Game:
    return Game(lambda x: x.sum(dim=1) - 1.5, torch.ones(n_samples, n_players), link="sigmoid", **kwargs)


class TestRankings:
    @pytest.mark.parametrize(
        "scores",
        [
            torch.tensor([[0.1, 0.9, 0.1]]),
            torch.tensor([0.1, 0.9, 0.1]),
            torch.tensor([0.1, 0.9, 0.1], dtype=torch.bfloat16, requires_grad=True),
            torch.tensor([0, 2, 0]),
            np.array([[0.1, 0.9, 0.1]], dtype=np.float32),
            [0.1, 0.9, 0.1],
            [[0.1, 0.9, 0.1]],
            [torch.tensor([0.1, 0.9, 0.1])],
            [-torch.inf, torch.inf, -torch.inf],
        ],
    )
    def test_scores_of_any_kind(self, scores):
        assert player_ranks(game_of(), scores).tolist() == [[1, 0, 2]]

    def test_graphs_of_any_kind(self):
        for given in (GRAPH, [GRAPH], (GRAPH,)):
            assert player_ranks(game_of(), given).tolist() == [[2, 0, 1]]
        assert player_ranks(game_of(2), [GRAPH, GRAPH]).tolist() == [[2, 0, 1]] * 2

    def test_an_explanation_stands_for_its_graphs(self):
        model, x = torch.nn.Linear(3, 2), torch.rand(4, 3)
        explanation, game = BivariateShapley(model).attribute(x), Game(model, x)
        for personalized in (False, True):
            assert torch.equal(
                player_ranks(game, explanation, personalized=personalized),
                player_ranks(game, explanation.graphs(), personalized=personalized),
            )
        assert [g.n_players for g in graph_per_sample(game, explanation)] == [3] * 4

    def test_players_that_a_sample_lacks_come_last_whatever_their_scores(self):
        game = game_of(2, feature_mask=torch.tensor([[0, 1, 2], [0, 1, -1]]))
        for padding in (9.0, torch.nan, -torch.inf):
            scores = torch.tensor([[0.0, 1.0, 2.0], [-torch.inf, 1.0, padding]])
            assert player_ranks(game, scores).tolist() == [[2, 1, 0], [1, 0, 2]]
        graphs = [GRAPH, ExplanationGraph([[0, 1], [0, 0]])]
        assert player_ranks(game, graphs).tolist() == [[2, 0, 1], [1, 0, 2]]

    def test_ties_among_many_players_go_by_index(self):
        game = game_of(n_players=3000)
        assert player_ranks(game, torch.zeros(3000)).tolist() == [list(range(3000))]

    def test_single_precision_is_not_mistaken_for_ties(self):
        close = np.array([1.0, 1.0 + 1e-12, 1.0])
        assert player_ranks(game_of(), close).tolist() == [[1, 0, 2]]


class TestRefusals:
    @pytest.mark.parametrize("cls", RANKING_METRICS)
    def test_scores_of_another_length(self, cls):
        with pytest.raises(ValueError, match=r"must have shape \(2, 3\), one score .* got \(2, 4\)\. Rank the"):
            cls().update(game_of(2), torch.zeros(2, 4))
        with pytest.raises(ValueError, match=r"must have shape \(2, 3\), one score .* got \(3,\)\."):
            cls().update(game_of(2), torch.zeros(3))

    @pytest.mark.parametrize("cls", RANKING_METRICS)
    def test_nan_scores(self, cls):
        with pytest.raises(ValueError, match=r"must be free of NaN, got 2 NaN of 3 scores\. Rank players without"):
            cls().update(game_of(), torch.tensor([torch.nan, 1.0, torch.nan]))

    @pytest.mark.parametrize(
        ("nonsense", "name"),
        [
            (None, "NoneType"),
            ("best first", "str"),
            ([[1.0], [2.0, 3.0]], "list"),
            (torch.zeros(3, dtype=torch.complex64), r"Tensor of shape \(3,\)"),
        ],
    )
    def test_what_is_no_ranking(self, nonsense, name):
        with pytest.raises(TypeError, match=f"must be scores, an Explanation or graphs, got {name}. Pass a tensor"):
            PostHocAccuracy().update(game_of(), nonsense)

    @pytest.mark.parametrize("cls", RANKING_METRICS)
    def test_a_redundancy_graph_ranks_nobody(self, cls):
        with pytest.raises(TypeError, match=r"must rank the players, got RedundancyGraph\. Pass the ExplanationGraph"):
            cls().update(game_of(), GRAPH.redundancy())

    @pytest.mark.parametrize("cls", REDUNDANCY_METRICS)
    def test_scores_know_no_redundancy(self, cls):
        with pytest.raises(TypeError, match=r"must be graphs for a redundancy metric, got Tensor of shape \(1, 3\)"):
            cls().update(game_of(), torch.zeros(1, 3))

    @pytest.mark.parametrize("cls", RANKING_METRICS + REDUNDANCY_METRICS)
    def test_a_graph_of_another_game(self, cls):
        other = ExplanationGraph([[0, 1], [0, 0]])
        with pytest.raises(
            ValueError, match=r"same game, got a graph of 2 players for sample 1, which has 3\. Explain"
        ):
            cls().update(game_of(2), [GRAPH, other])

    @pytest.mark.parametrize("cls", RANKING_METRICS + REDUNDANCY_METRICS)
    @pytest.mark.parametrize(("graphs", "count"), [([], 0), ([GRAPH], 1), (GRAPH, 1), ([GRAPH] * 3, 3)])
    def test_graphs_for_other_samples_or_none(self, cls, graphs, count):
        with pytest.raises(ValueError, match=f"one graph per sample of the game, 2, got {count}. To use one graph"):
            cls().update(game_of(2), graphs)

    def test_graphs_mixed_with_scores(self):
        with pytest.raises(TypeError, match=r"must hold graphs only, got Tensor for sample 1\. Pass all samples"):
            PostHocAccuracy().update(game_of(2), [GRAPH, torch.zeros(3)])

    @pytest.mark.parametrize("cls", RANKING_METRICS + REDUNDANCY_METRICS)
    def test_a_sample_without_players(self, cls):
        game = game_of(2, feature_mask=torch.tensor([[0, 1, 2], [-1, -1, -1]]))
        with pytest.raises(ValueError, match=r"must have a player in every sample, got none in sample 1\. Leave"):
            cls().update(game, torch.zeros(2, 3))

    def test_no_samples(self):
        with pytest.raises(ValueError, match="`inputs` must hold at least one sample"):
            game_of(0)

    @pytest.mark.parametrize("cls", [PostHocAccuracy, *REDUNDANCY_METRICS])
    def test_a_regression_decides_between_the_whole_and_nothing(self, cls):
        value = Game(lambda x: x.sum(dim=1), torch.ones(1, 3), behavior="output")
        # The same game as a classification: class 1 from half of the value on.
        decision = Game(lambda x: 8 * x.sum(dim=1) - 11.9, torch.ones(1, 3))
        metrics = cls(), cls()
        for metric, game in zip(metrics, (value, decision), strict=True):
            metric.update(game, GRAPH)
        one, other = (metric.compute() for metric in metrics)
        for name, number in one.items():
            torch.testing.assert_close(number, other[name], msg=name)

    @pytest.mark.parametrize("cls", [InsertionAUC, DeletionAUC])
    def test_a_regression_has_areas(self, cls):
        game = Game(lambda x: x.sum(dim=1), torch.ones(1, 3), behavior="output")
        metric = cls()
        metric.update(game, GRAPH)
        assert metric.compute()["auc"] == {InsertionAUC: 1, DeletionAUC: 2}[cls]

    @pytest.mark.parametrize("cls", RANKING_METRICS + REDUNDANCY_METRICS)
    def test_an_unknown_convention(self, cls):
        with pytest.raises(ValueError, match=r"`convention` must be one of \('default', 'paper'\), got 'old'"):
            cls(convention="old")

    @pytest.mark.parametrize("cls", REDUNDANCY_METRICS)
    def test_a_gamma_below_zero(self, cls):
        with pytest.raises(ValueError, match="`gamma` must be finite and >= 0, got -1"):
            cls(gamma=-1)

    @pytest.mark.parametrize(("name", "value", "least"), [("n_draws", 0, 1), ("n_draws", 2.5, 1), ("seed", -1, 0)])
    def test_settings_of_the_draws(self, name, value, least):
        with pytest.raises(ValueError, match=f"`{name}` must be a whole number >= {least}, got {value}. Leave it"):
            MutualRedundancyMasking(**{name: value})

    @pytest.mark.parametrize("cls", RANKING_METRICS + REDUNDANCY_METRICS)
    def test_unknown_keywords(self, cls):
        with pytest.raises(ValueError, match="Unexpected keyword arguments: `gama`"):
            cls(gama=1)

    def test_a_refused_update_leaves_the_numbers_alone(self):
        metric = PostHocAccuracy()
        metric.update(game_of(), torch.zeros(3))
        before = metric.compute()
        with pytest.raises(ValueError, match="NaN"):
            metric.update(game_of(), torch.full((3,), torch.nan))
        after = metric.compute()
        assert all(torch.equal(before[key], after[key]) for key in before)
