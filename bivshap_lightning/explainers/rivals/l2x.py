"""L2X, a learned selector of the k players that tell most about the model's output (Chen et al. 2018).

A selector network reads a sample and gives a score to each player. While it is trained, k players are drawn by these
scores, relaxed so that gradients pass (Gumbel-softmax, the largest of k draws), and a second network predicts the
model's output from the drawn players alone. Both learn together; only the selector is needed afterwards, and one
forward pass of it explains a batch without running the model.

Train one with :func:`bivshap_lightning.callbacks.fit_l2x`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, relu

from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.game import Game
from bivshap_lightning.game.model import global_rngs_kept
from bivshap_lightning.game.players import Players
from bivshap_lightning.game.players.images import channel_dim

Kind = Literal["table", "sequence", "tokens", "image"]
FORMAT = "bivshap_lightning.l2x.1"


@dataclass(frozen=True, eq=False)
class L2X:
    """A trained selector as an explainer; ``shapley`` of its explanations are probabilities of being drawn first.

    They are no contributions to the output: they have no sign, and only their order means something. Evaluations are 0.

    Attributes:
        selector: from the inputs to scores of the players (B, F) or of the input elements, which are averaged over each
            player.
        n_selected: k.
        architecture: arguments of :class:`Selector` if the selector is one, so that :meth:`load` can build it.

    Example:
        >>> class Second(nn.Module):
        ...     def forward(self, x):
        ...         return torch.tensor([[0.0, 5.0, 1.0]]).expand(len(x), 3)
        >>> game = Game(lambda x: x.sum(dim=1), torch.ones(1, 3), behavior="output")
        >>> explainer = L2X(Second(), n_selected=1)
        >>> explainer.explain(game).shapley.argmax().item(), explainer.select(game)
        (1, tensor([[False,  True, False]]))
    """

    selector: nn.Module
    n_selected: int
    architecture: Mapping[str, Any] = field(default_factory=dict)
    name: ClassVar[str] = "l2x"
    is_exact: ClassVar[bool] = False
    is_signed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.n_selected < 1:
            raise ValueError(f"`n_selected` must be at least 1, got {self.n_selected}.")

    def minimum_evaluations(self, game: Game) -> int:
        """0: the model is not run."""
        return 0

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """One forward pass of the selector.

        Args:
            game: a game whose inputs are like those that the selector was trained on.
            n_evaluations: ignored.
            seed: ignored.
        """
        scores = self._scores(game).softmax(dim=1).masked_fill(game.null_players, 0)
        spent = torch.zeros_like(game.n_evaluations)
        return Explanation.of(game, method=self.name, seed=seed, shapley=scores, n_evaluations=spent)

    def select(self, game: Game) -> Tensor:
        """The k players with the highest scores, or all that a sample has, bool (B, F)."""
        scores = self._scores(game)
        ranks = scores.argsort(dim=1, descending=True).argsort(dim=1)
        return (ranks < self.n_selected) & game.players.exists

    def _scores(self, game: Game) -> Tensor:
        first = next(self.selector.parameters(), None)
        inputs = game.inputs if first is None else tuple(x.to(first.device) for x in game.inputs)
        was_training = self.selector.training
        self.selector.eval()
        try:
            with torch.no_grad(), global_rngs_kept([game.device]):
                return scores_of_players(self.selector(*inputs).to(game.device), game.players)
        finally:
            self.selector.train(was_training)

    def save(self, path: str | Path) -> None:
        """Write the selector's weights; only tensors, numbers and strings, which :meth:`load` reads without code."""
        state = {name: value.detach().cpu() for name, value in self.selector.state_dict().items()}
        content = {"format": FORMAT, "n_selected": self.n_selected, "architecture": dict(self.architecture)}
        torch.save({**content, "state": state}, Path(path))

    @classmethod
    def load(cls, path: str | Path, selector: nn.Module | None = None) -> L2X:
        """Read a saved selector.

        Args:
            path: what :meth:`save` wrote. A file that holds anything but tensors, numbers and strings is refused.
            selector: a module of the user's own architecture, whose weights are overwritten; None for the default one.

        Raises:
            ValueError: the file is no saved selector, or needs a module.
        """
        content = torch.load(Path(path), map_location="cpu", weights_only=True)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"`path` must be a file that `L2X.save` wrote, got {str(path)!r}.")
        architecture = content["architecture"]
        if selector is None and not architecture:
            raise ValueError(
                "`selector` must be a module of the architecture that was trained, because it was not the default one, "
                "got None. Pass `L2X.load(path, selector=YourModule())`."
            )
        with global_rngs_kept([]):
            made = Selector(**architecture) if selector is None else selector
        made.load_state_dict(content["state"])
        return cls(made, content["n_selected"], {} if selector is not None else architecture)


def scores_of_players(found: Tensor, players: Players) -> Tensor:
    """What a selector returned as scores (B, F); players that a sample lacks have the score -inf.

    Args:
        found: (B, F), or scores of the elements of the first input, with or without its channels.
        players: of the game.

    Raises:
        ValueError: there is neither a score per player nor one per element.

    Example:
        >>> pairs = Players.from_mask([torch.zeros(1, 4)], [torch.tensor([[0, 0, 1, 1]])])
        >>> scores_of_players(torch.tensor([[1.0, 3.0, 5.0, 5.0]]), pairs)
        tensor([[2., 5.]])
    """
    n_samples, n = len(found), players.n_players
    flat = found.reshape(n_samples, -1)
    ids = players.ids[0].expand(n_samples, -1)
    if flat.shape[1] == ids.shape[1]:
        sums = flat.new_zeros(n_samples, n + 1).scatter_add(1, ids, flat)
        counts = torch.zeros_like(sums).scatter_add(1, ids, torch.ones_like(flat))
        flat = (sums / counts.clamp(min=1))[:, :n]
    elif flat.shape[1] != n:
        raise ValueError(
            f"`selector` must return a score for each of {n} players or {ids.shape[1]} input elements, got shape "
            f"{tuple(found.shape)}."
        )
    return flat.masked_fill(~players.exists, -torch.inf)


def draw_relaxed(scores: Tensor, n_selected: int, temperature: float, generator: torch.Generator) -> Tensor:
    """Relaxed indicators (B, F) of k players: the largest of k Gumbel-softmax draws.

    Example:
        >>> drawn = draw_relaxed(torch.tensor([[9.0, 0.0, 9.0]]), 2, 0.1, torch.Generator().manual_seed(0))
        >>> drawn.round()
        tensor([[1., 0., 1.]])
    """
    shape = (len(scores), n_selected, scores.shape[1])
    uniform = torch.rand(shape, generator=generator, device=generator.device).to(scores).clamp(1e-7, 1 - 1e-7)
    gumbel = -(-uniform.log()).log()
    return ((scores[:, None].log_softmax(dim=2) + gumbel) / temperature).softmax(dim=2).amax(dim=1)


class Selector(nn.Module):
    """L2X's selector: three dense layers for tables, convolutions with global information for texts and images.

    Args:
        kind: what the inputs are: rows of a table (B, D), sequences of vectors (B, T, D), token ids (B, T) or images.
        n_features: D, the number of channels, or the size of the vocabulary.
        n_hidden: width of the layers.
        channel: the dimension of an image's channels.

    Example:
        >>> Selector("image", n_features=3)(torch.zeros(2, 3, 8, 8)).shape
        torch.Size([2, 3, 8, 8])
    """

    def __init__(self, kind: Kind, n_features: int, n_hidden: int = 100, channel: int = 1) -> None:
        super().__init__()
        self.kind, self.channel = kind, channel
        self.body = _body(kind, n_features, n_hidden)
        if kind == "table":
            self.head: nn.Module = nn.Linear(n_hidden, n_features)
        else:
            convolution = nn.Conv2d if kind == "image" else nn.Conv1d
            self.joined = convolution(2 * n_hidden, n_hidden, 1)
            self.head = convolution(n_hidden, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the elements."""
        if self.kind == "table":
            scores: Tensor = self.head(relu(self.body(x)))
            return scores
        local = relu(self.body(x.movedim(self.channel, 1) if self.kind == "image" else x))
        overall = local.flatten(2).amax(dim=2).view(*local.shape[:2], *[1] * (local.dim() - 2))
        found: Tensor = self.head(relu(self.joined(torch.cat([local, overall.expand_as(local)], dim=1))))
        if self.kind == "image":
            size = x.movedim(self.channel, 1).shape[2:]
            found = interpolate(found, size=size, mode="bilinear", align_corners=False)
            return found.movedim(1, self.channel).expand_as(x)
        return found[:, 0] if self.kind == "tokens" else found[:, 0, :, None].expand_as(x)


class Approximator(nn.Module):
    """L2X's second network, which predicts the model's output from what the drawn players show.

    Args:
        kind: as for :class:`Selector`.
        n_features: as for :class:`Selector`.
        n_outputs: how many numbers it predicts.
        n_hidden: width of the layers.
        channel: the dimension of an image's channels.

    Example:
        >>> Approximator("table", n_features=4, n_outputs=3)(torch.zeros(2, 4), torch.ones(2, 4)).shape
        torch.Size([2, 3])
    """

    def __init__(self, kind: Kind, n_features: int, n_outputs: int, n_hidden: int = 200, channel: int = 1) -> None:
        super().__init__()
        self.kind, self.channel = kind, channel
        self.body = _body(kind, n_features, n_hidden)
        self.head = nn.Linear(n_hidden, n_outputs)

    def forward(self, x: Tensor, presence: Tensor) -> Tensor:
        """Predict from an input.

        Args:
            x: the input, mixed with what replaces absent players; token ids as they are.
            presence: of each element, between 0 and 1; it weighs the embeddings of tokens.
        """
        if self.kind == "tokens":
            hidden = self.body[1:](self.body[0](x) * presence[:, None])
        else:
            hidden = self.body(x.movedim(self.channel, 1) if self.kind == "image" else x)
        hidden = relu(hidden)
        found: Tensor = self.head(hidden if self.kind == "table" else hidden.flatten(2).amax(dim=2))
        return found


def kind_of(x: Tensor) -> dict[str, Any]:
    """The arguments of the default networks for an input; raises ValueError if there are none for it.

    Example:
        >>> kind_of(torch.zeros(5, 8))
        {'kind': 'table', 'n_features': 8, 'channel': 1}
    """
    if x.dim() == 4:
        channel = channel_dim(x)
        return {"kind": "image", "n_features": x.shape[channel], "channel": channel}
    if x.dim() == 2 and not x.is_floating_point():
        return {"kind": "tokens", "n_features": int(x.max()) + 1, "channel": 1}
    if x.dim() in (2, 3):
        return {"kind": "table" if x.dim() == 2 else "sequence", "n_features": x.shape[-1], "channel": 1}
    raise ValueError(
        f"`inputs` must be a table, a sequence, token ids or images for L2X's own networks, got shape "
        f"{tuple(x.shape)}. Pass your own `selector` and `approximator`."
    )


class _Vectors(nn.Module):
    """Tokens or sequences of vectors as (B, D, T)."""

    def __init__(self, kind: Kind, n_features: int, n_hidden: int) -> None:
        super().__init__()
        is_text = kind == "tokens"
        self.embedding: nn.Module = nn.Embedding(n_features, n_hidden) if is_text else nn.Linear(n_features, n_hidden)

    def forward(self, x: Tensor) -> Tensor:
        embedded: Tensor = self.embedding(x)
        return embedded.mT


def _body(kind: Kind, n_features: int, n_hidden: int) -> nn.Sequential:
    """Layers up to the last hidden one, without its activation: (B, H), (B, H, T) or (B, H, height, width)."""
    if kind == "table":
        return nn.Sequential(nn.Linear(n_features, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_hidden))
    if kind == "image":
        return nn.Sequential(
            nn.Conv2d(n_features, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.Conv2d(32, n_hidden, 5, padding=2),
        )
    convolution = nn.Conv1d(n_hidden, n_hidden, 3, padding=1)
    return nn.Sequential(_Vectors(kind, n_features, n_hidden), convolution)
