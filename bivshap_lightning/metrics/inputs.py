"""What the metrics take as `ranking_or_graph`, brought to one form. The only place that knows all the forms.

* Scores, high = important: (B, F), or (F,) for a game of one sample. Ties go by index. Entries of players that a
  sample lacks are ignored.
* An `ExplanationGraph` for a game of one sample, or a sequence of B of them. Players are ranked by `order()`: ties
  go by univariate value, then by index.
* An `Explanation` of the same B samples, which stands for its graphs; of a univariate method, for its attributions.
* For the redundancy metrics only, in place of any `ExplanationGraph`: a `RedundancyGraph`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bivshap_lightning.explainers import Explanation
from bivshap_lightning.game import Game
from bivshap_lightning.graph import ExplanationGraph, RedundancyGraph
from bivshap_lightning.graph.batched import rank_all

Graph: TypeAlias = ExplanationGraph | RedundancyGraph
Graphs: TypeAlias = Explanation | ExplanationGraph | RedundancyGraph | Sequence[Graph]
Ranking: TypeAlias = Tensor | NDArray[Any] | Sequence[Any] | Explanation | ExplanationGraph
RankingOrGraph: TypeAlias = Ranking | Graphs


def existing_players(game: Game) -> Tensor:
    """Which of the F players each sample has, bool (B, F) on the game's device.

    Example:
        >>> existing_players(Game(lambda x: x[:, 0], torch.ones(1, 2)))
        tensor([[True, True]])
    """
    return torch.arange(game.n_players, device=game.device) < game.player_counts[:, None]


def ranked_places(game: Game, ranking: RankingOrGraph, *, personalized: bool = False) -> Tensor:
    """The place of every player in its sample's ranking: 0 for the most important one.

    Args:
        game: The game to judge on.
        ranking: See above.
        personalized: Whether the walk that ranks the players of a graph restarts by univariate values.

    Returns:
        (B, F) int64 on the game's device. Players that a sample lacks have the last places.

    Example:
        >>> game = Game(lambda x: x[:, 0], torch.ones(1, 3))
        >>> ranked_places(game, [0.1, 0.3, 0.1])
        tensor([[1, 0, 2]])
    """
    _check_every_sample_plays(game)
    if not _are_graphs(ranking):
        return _places_of_scores(game, _as_scores(game, ranking))
    graphs = [graph for graph in _as_graphs(game, ranking) if isinstance(graph, ExplanationGraph)]
    if len(graphs) < game.n_samples:
        raise TypeError(
            "`ranking_or_graph` must rank the players, got RedundancyGraph. Pass the ExplanationGraph that it "
            "was made from, or scores."
        )
    rankings = rank_all(graphs, personalized=personalized)
    places = numbered_from([ranking.places for ranking in rankings], game.n_players)
    return torch.from_numpy(places).to(game.device)


def numbered_from(rows: Sequence[NDArray[np.intp]], n_players: int) -> NDArray[np.intp]:
    """Numbers of each sample's players, (B, F); players that a sample lacks go by their own.

    Args:
        rows: B of them, as long as the sample has players.
        n_players: F of the game.

    Example:
        >>> numbered_from([np.array([1, 0]), np.array([2, 1, 0])], 3)
        array([[1, 0, 2],
               [2, 1, 0]])
    """
    joined = np.concatenate(rows)
    if len(joined) == len(rows) * n_players:
        return joined.reshape(len(rows), n_players)
    numbers = np.tile(np.arange(n_players), (len(rows), 1))
    for sample, row in enumerate(rows):
        numbers[sample, : len(row)] = row
    return numbers


def redundancy_inputs(game: Game, graphs: RankingOrGraph) -> list[Graph]:
    """One graph per sample, each over the players of its sample.

    Args:
        game: The game to judge on.
        graphs: See above.

    Example:
        >>> game = Game(lambda x: x[:, 0], torch.ones(1, 2))
        >>> redundancy_inputs(game, ExplanationGraph([[0, 1], [2, 0]]))
        [ExplanationGraph(2 players, exact weights in [0, 2])]
    """
    _check_every_sample_plays(game)
    if not _are_graphs(graphs):
        raise TypeError(
            "`ranking_or_graph` must be graphs for a redundancy metric, got "
            f"{_describe(graphs)}. Pass an Explanation of a bivariate method, or one ExplanationGraph or "
            "RedundancyGraph per sample."
        )
    return _as_graphs(game, graphs)


def _check_every_sample_plays(game: Game) -> None:
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


def _as_graphs(game: Game, value: Any) -> list[Graph]:
    """Checked graphs, one per sample."""
    if isinstance(value, Explanation):
        graphs: list[Graph] = list(value.graphs())
    else:
        graphs = [value] if isinstance(value, (ExplanationGraph, RedundancyGraph)) else list(value)
    if len(graphs) != game.n_samples:
        raise ValueError(
            f"`ranking_or_graph` must hold one graph per sample of the game, {game.n_samples}, got {len(graphs)}. "
            "To judge one graph on all samples, repeat it."
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
    """Checked scores, float64 (B, F) on the CPU."""
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
    is_missing = scores.isnan() & existing_players(game).cpu()
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
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # no rectangular array, or tensors that are none on the CPU
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"`ranking_or_graph` must be scores, an Explanation or graphs, got {_describe(value)}. "
            "Pass a tensor of one score per sample and player."
        )
    return torch.from_numpy(array.astype(np.float64))


def _places_of_scores(game: Game, scores: Tensor) -> Tensor:
    # Players that a sample lacks have the highest indices, so a stable sort leaves them behind all others.
    lacking = ~existing_players(game).cpu()
    order = scores.masked_fill(lacking, -torch.inf).argsort(dim=1, descending=True, stable=True)
    order = order.to(game.device)
    places = torch.arange(game.n_players, device=game.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, places)


def _describe(value: Any) -> str:
    if isinstance(value, Explanation):
        return f"the univariate explanation of {value.method!r}"
    shape = getattr(value, "shape", None)
    return type(value).__name__ + ("" if shape is None else f" of shape {tuple(shape)}")
