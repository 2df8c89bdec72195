"""GNNExplainer (Ying et al. 2019, of PyTorch Geometric) around a model that is no graph network, as the paper has it.

Players are the nodes of a graph in which every player has an edge to every other. GNNExplainer learns a mask over nodes
and one over edges that keep the model's output, each pushed towards few entries; importances of edges are the directed
weights. The model has no use for the edges, so nothing but their random start and the penalty on their number decides
their importance: as the paper finds, it has nothing to learn from. Its directions and its ranking mean nothing for such
a model, and no two players are ever found redundant. Importances of nodes do depend on the model.

To explain a real graph network, make its nodes or edges the players of a game, see ``examples/gnn_nodes.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.registry import register
from bivshap_lightning.explainers.rivals.element_attribution import (
    baseline_rows,
    check_floating_point,
    connected,
    element_players,
)
from bivshap_lightning.game import Game
from bivshap_lightning.game.evaluation_mode import global_rngs_kept, seed_global_rngs

# PyTorch Geometric's default, which the paper uses.
DEFAULT_STEPS = 100
# PyTorch Geometric leaves out edges whose first gradient is exactly zero, and refuses a model without any. The sum of
# the messages, times this, gives every edge a gradient without changing the output in floating point.
NEGLIGIBLE = 1e-30


@register
@dataclass(frozen=True)
class GNNExplainer:
    """PyTorch Geometric's GNNExplainer on the fully connected graph of the players.

    ``bivariate[b, i, j]`` is the importance of the edge from j to i, ``shapley`` are the importances of the nodes; both
    are between 0 and 1. One model row is spent in every step, and two on the values of all players and of none.

    Example:
        >>> from bivshap_lightning.explainers import find_explainer
        >>> game = Game(lambda x: x.sum(dim=1), torch.ones(1, 2), behavior="output")
        >>> find_explainer("gnn_explainer").minimum_evaluations(game)
        3
    """

    name: ClassVar[str] = "gnn_explainer"
    is_exact: ClassVar[bool] = False

    def minimum_evaluations(self, game: Game) -> int:
        """One step, and the values of all players and of none."""
        return 1 + 2 * game.removal.n_rows

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Learn masks for each sample.

        Args:
            game: a game whose model is differentiable. With several background rows their mean is the baseline.
            n_evaluations: two more than the number of steps, which is 100 at most, PyTorch Geometric's default.
            seed: of the masks' random start.

        Raises:
            ImportError: PyTorch Geometric is not installed.
            ValueError: the inputs or the model have no gradient, or there is a single player.
        """
        if find_spec("torch_geometric") is None:
            raise ImportError(
                "`torch_geometric` must be installed for 'gnn_explainer', got no such module. Install it with "
                "`pip install bivshap-lightning[gnn]`."
            )
        check_floating_point(game, self.name)
        least = self.minimum_evaluations(game)
        if n_evaluations is not None and n_evaluations < least:
            raise ValueError(
                f"`n_evaluations` must be at least {least}, got {n_evaluations}. Pass None for the default."
            )
        if game.n_players < 2:
            raise ValueError("`feature_mask` must make at least two players, got 1. A graph needs two nodes.")
        before, n = game.n_evaluations, game.n_players
        n_steps = DEFAULT_STEPS if n_evaluations is None else min(DEFAULT_STEPS, n_evaluations - least + 1)
        whole = game(torch.tensor([[False], [True]], device=game.device).expand(1, 2, n))
        nodes = torch.zeros(game.n_samples, n, dtype=game.dtype, device=game.device)
        edges = nodes[:, :, None].repeat(1, 1, n)
        with global_rngs_kept([game.device]), game.differentiable() as utility:
            for b in range(game.n_samples):
                players = (~game.null_players[b]).nonzero()[:, 0]
                if len(players) > 1:
                    value = _value_of_presence(game, connected(utility), b, players)
                    seed_global_rngs(seed, game.device)
                    found = self._learn(_log_probability(game, value, whole[b]), len(players), n_steps, game.device)
                    nodes[b, players] = found[0].to(nodes)
                    edges[b, players[:, None], players] = found[1].T.to(edges)
        return Explanation.of(
            game,
            method=self.name,
            seed=seed,
            shapley=nodes,
            bivariate=edges,
            n_evaluations=game.n_evaluations - before,
        )

    def _learn(
        self, value: Callable[[Tensor], Tensor], n: int, n_steps: int, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Importances of nodes (n,) and of the edges from the first player to the second (n, n)."""
        explain = import_module("torch_geometric.explain")
        explainer = explain.Explainer(
            _graph_model(value),
            algorithm=explain.GNNExplainer(epochs=n_steps),
            explanation_type="phenomenon",
            node_mask_type="object",
            edge_mask_type="object",
            model_config={"mode": "multiclass_classification", "task_level": "graph", "return_type": "log_probs"},
        )
        presence = torch.ones(n, 1, device=device)
        source, target = (~torch.eye(n, dtype=torch.bool, device=presence.device)).nonzero().T
        first = torch.zeros(1, dtype=torch.int64, device=presence.device)
        found = explainer(presence, torch.stack([source, target]), target=first)
        importance = presence.new_zeros(n, n)
        importance[source, target] = found.edge_mask.detach()
        return found.node_mask.detach()[:, 0], importance


def _graph_model(value: Callable[[Tensor], Tensor]) -> nn.Module:
    """A function of the nodes as a model of nodes and edges, whose messages do not matter."""
    message_passing: Any = import_module("torch_geometric.nn").MessagePassing

    class Messages(message_passing):  # type: ignore[misc]
        """Adds up the nodes at the other ends of all edges."""

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            received: Tensor = self.propagate(edge_index, x=x)
            return received

    class GraphModel(nn.Module):
        """The model without the graph."""

        def __init__(self) -> None:
            super().__init__()
            self.messages = Messages()

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            found: Tensor = value(x) + NEGLIGIBLE * self.messages(torch.ones_like(x), edge_index).sum()
            return found

    return GraphModel()


def _value_of_presence(
    game: Game, utility: Callable[..., Tensor], sample: int, players: Tensor
) -> Callable[..., Tensor]:
    """The utility of one sample as a function of the presence (n, 1) of some players, all others being present."""
    rows = torch.tensor([sample], device=game.device)
    inputs = tuple(x[rows] for x in game.inputs)
    baselines, ids = baseline_rows(game, rows, all_of_them=False), element_players(game, rows)

    def value(presence: Tensor) -> Tensor:
        weights = torch.ones(game.n_players + 1, dtype=presence.dtype, device=game.device)
        weights = weights.index_put((players,), presence.to(game.device)[:, 0])
        mixed = (b + (x - b) * weights[i].to(x) for x, b, i in zip(inputs, baselines, ids, strict=True))
        return utility(*mixed, rows)

    return value


def _log_probability(game: Game, value: Callable[[Tensor], Tensor], ends: Tensor) -> Callable[[Tensor], Tensor]:
    """What GNNExplainer maximises, (1, 1): the log-probability of the target, or minus a squared relative change."""
    of_none, of_all = ends
    is_probability = game.behavior.name == "probability"
    is_log = game.behavior.name == "loss" and not game.target.is_floating_point()
    scale = torch.where(of_all == of_none, torch.ones_like(of_all), of_all - of_none)

    def log_probability(presence: Tensor) -> Tensor:
        found = value(presence)[:, None]
        if is_log:
            return found
        if is_probability:
            return found.clamp(min=torch.finfo(found.dtype).tiny).log()
        change: Tensor = (found - of_all) / scale
        return -(change**2)

    return log_probability
