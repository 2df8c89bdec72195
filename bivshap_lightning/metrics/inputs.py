"""Converts everything that metrics accept as `ranking_or_graph` to ranks of players or to one graph per sample.

* Scores, high = important: (B, F), or (F,) for a game of one sample. Ties go by index. Scores of players that a
  sample does not have are ignored.
* An `ExplanationGraph` for a game of one sample, or a sequence of B of them. Players are ranked by `order()`: ties
  go by Shapley value, then by index.
* An `Explanation` of the same B samples: its graphs are used, or the attributions of a univariate method.
* For the redundancy metrics only, in place of any `ExplanationGraph`: a `RedundancyGraph`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bivshap_lightning.checks import check_choice
from bivshap_lightning.explainers import Explanation
from bivshap_lightning.game import Game
from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.graph.batched import RankingMethod, rank_all
from bivshap_lightning.metrics.results import Convention

AnyGraph: TypeAlias = ExplanationGraph | RedundancyGraph
GraphsLike: TypeAlias = Explanation | ExplanationGraph | RedundancyGraph | Sequence[AnyGraph]
RankingLike: TypeAlias = Tensor | NDArray[Any] | Sequence[Any] | Explanation | ExplanationGraph
RankingOrGraph: TypeAlias = RankingLike | GraphsLike


def player_ranks(
    game: Game,
    ranking: RankingOrGraph,
    *,
    method: RankingMethod | None = None,
    default: RankingMethod = "keep",
    personalized: bool = False,
    oriented: bool = True,
) -> Tensor:
    """Return the rank of every player in its sample's ranking: 0 for the most important one.

    Args:
        game: The game that the metric evaluates.
        ranking: See above.
        method: How the players of a graph are ranked, see :meth:`~bivshap_lightning.ExplanationGraph.ranking`.
        default: The method where none is given and Shapley values are known.
        personalized: Whether PageRank restarts by Shapley values.
        oriented: Whether graphs of games with u(all) < u(none) are ranked with all signs reversed.

    Returns:
        (B, F) int64 on the game's device. Players that a sample does not have are ranked last.

    Example:
        >>> game = Game(lambda x: x[:, 0], torch.ones(1, 3))
        >>> player_ranks(game, [0.1, 0.3, 0.1])
        tensor([[1, 0, 2]])
    """
    _check_samples_have_players(game)
    if not _are_graphs(ranking):
        return _ranks_of_scores(game, _as_scores(game, ranking))
    graphs = [graph for graph in _as_graphs(game, ranking) if isinstance(graph, ExplanationGraph)]
    if len(graphs) < game.n_samples:
        raise TypeError(
            "`ranking_or_graph` must rank the players, got RedundancyGraph. Pass the ExplanationGraph that it "
            "was made from, or scores."
        )
    rankings = rank_all(graphs, method=method, default=default, personalized=personalized, oriented=oriented)
    ranks = pad_with_indices([ranking.ranks for ranking in rankings], game.n_players)
    return torch.from_numpy(ranks).to(game.device)


def check_method(method: RankingMethod | None, convention: Convention = "default") -> RankingMethod | None:
    """Return the checked method of a ranking; the paper's convention is PageRank where none is given.

    Example:
        >>> check_method(None), check_method(None, "paper"), check_method("hits", "paper")
        (None, 'pagerank', 'hits')
    """
    if method is not None:
        check_choice(method, RankingMethod, "method")
    return "pagerank" if method is None and convention == "paper" else method


def pad_with_indices(rows: Sequence[NDArray[np.intp]], n_players: int) -> NDArray[np.intp]:
    """Return the rows as one (B, F) array; entries of players that a sample does not have are the player's index.

    Args:
        rows: B of them, each as long as the sample has players.
        n_players: F of the game.

    Example:
        >>> pad_with_indices([np.array([1, 0]), np.array([2, 1, 0])], 3)
        array([[1, 0, 2],
               [2, 1, 0]])
    """
    joined = np.concatenate(rows)
    if len(joined) == len(rows) * n_players:
        return joined.reshape(len(rows), n_players)
    padded = np.tile(np.arange(n_players), (len(rows), 1))
    for sample, row in enumerate(rows):
        padded[sample, : len(row)] = row
    return padded


def graph_per_sample(game: Game, graphs: RankingOrGraph) -> list[AnyGraph]:
    """Return one graph per sample, each over the players of its sample.

    Args:
        game: The game that the metric evaluates.
        graphs: See above.

    Example:
        >>> game = Game(lambda x: x[:, 0], torch.ones(1, 2))
        >>> graph_per_sample(game, ExplanationGraph([[0, 1], [2, 0]]))
        [ExplanationGraph(2 players, exact weights in [0, 2])]
    """
    _check_samples_have_players(game)
    if not _are_graphs(graphs):
        raise TypeError(
            "`ranking_or_graph` must be graphs for a redundancy metric, got "
            f"{_type_and_shape(graphs)}. Pass an Explanation of a bivariate method, or one ExplanationGraph or "
            "RedundancyGraph per sample."
        )
    return _as_graphs(game, graphs)


def _check_samples_have_players(game: Game) -> None:
    if not bool((game.player_counts > 0).all()):
        sample = int((game.player_counts == 0).nonzero()[0])
        raise ValueError(
            f"`game` must have a player in every sample, got none in sample {sample}. Leave that sample out."
        )


def _are_graphs(value: Any) -> bool:
    if isinstance(value, Sequence):
        return any(isinstance(item, (ExplanationGraph, RedundancyGraph)) for item in value) or not value
    if isinstance(value, Explanation):
        return value.bivariate is not None
    return isinstance(value, (ExplanationGraph, RedundancyGraph))


def _as_graphs(game: Game, value: Any) -> list[AnyGraph]:
    """Return checked graphs, one per sample."""
    if isinstance(value, Explanation):
        graphs: list[AnyGraph] = list(value.graphs())
    else:
        graphs = [value] if isinstance(value, (ExplanationGraph, RedundancyGraph)) else list(value)
    if len(graphs) != game.n_samples:
        raise ValueError(
            f"`ranking_or_graph` must hold one graph per sample of the game, {game.n_samples}, got {len(graphs)}. "
            "To use one graph for all samples, repeat it."
        )
    for sample, (graph, n_players) in enumerate(zip(graphs, game.player_counts.tolist(), strict=True)):
        if not isinstance(graph, (ExplanationGraph, RedundancyGraph)):
            raise TypeError(
                f"`ranking_or_graph` must hold graphs only, got {type(graph).__name__} for sample {sample}. "
                "Pass all samples as graphs or all as scores."
            )
        if len(graph.names) != n_players:
            raise ValueError(
                f"`ranking_or_graph` must be of the same game, got a graph of {graph.n_players} players for sample "
                f"{sample}, which has {n_players}. Explain the same inputs with the same `feature_mask`."
            )
    return graphs


def _as_scores(game: Game, value: Any) -> Tensor:
    """Return checked scores, float64 (B, F) on the CPU."""
    scores = _as_floats(value.shapley if isinstance(value, Explanation) else value)
    expected = (game.n_samples, game.n_players)
    given = tuple(scores.shape)
    if scores.dim() == 1 and game.n_samples == 1:
        scores = scores[None]
    if scores.shape != expected:
        raise ValueError(
            f"`ranking_or_graph` must have shape {expected}, one score per sample and player, got {given}. "
            "Rank the players of the same game."
        )
    is_missing = scores.isnan() & _has_player(game)
    if bool(is_missing.any()):
        raise ValueError(
            f"`ranking_or_graph` must be free of NaN, got {int(is_missing.sum())} NaN of {scores.numel()} scores. "
            "Rank players without a score last, with -inf."
        )
    return scores


def _as_floats(value: Any) -> Tensor:
    if isinstance(value, Tensor) and not value.is_complex():
        return value.detach().cpu().double()
    try:
        # Row by row: NumPy 1.24 makes no array of a list of tensors.
        array = np.asarray([np.asarray(row) for row in value] if isinstance(value, (list, tuple)) else value)
    except (TypeError, ValueError, RuntimeError):  # not rectangular, or tensors that are not on the CPU
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"`ranking_or_graph` must be scores, an Explanation or graphs, got {_type_and_shape(value)}. "
            "Pass a tensor of one score per sample and player."
        )
    return torch.from_numpy(array.astype(np.float64))


def _ranks_of_scores(game: Game, scores: Tensor) -> Tensor:
    # Players that a sample does not have are the highest indices, so a stable sort keeps them last.
    order = scores.masked_fill(~_has_player(game), -torch.inf).argsort(dim=1, descending=True, stable=True)
    order = order.to(game.device)
    ranks = torch.arange(game.n_players, device=game.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, ranks)


def _has_player(game: Game) -> Tensor:
    """Return which of the F players each sample has, bool (B, F) on the CPU."""
    return torch.arange(game.n_players) < game.player_counts.cpu()[:, None]


def _type_and_shape(value: Any) -> str:
    if isinstance(value, Explanation):
        return f"the univariate explanation of {value.method!r}"
    shape = getattr(value, "shape", None)
    return type(value).__name__ + ("" if shape is None else f" of shape {tuple(shape)}")
