"""Training of L2X's selector by a Lightning Trainer; the model that is explained is run once and not changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss, pad
from torch.utils.data import DataLoader, Dataset

from bivshap_lightning.callbacks.lightning import package_of
from bivshap_lightning.explainers.rivals.l2x import (
    L2X,
    Approximator,
    Selector,
    draw_relaxed,
    kind_of,
    scores_of_players,
)
from bivshap_lightning.game import Game
from bivshap_lightning.game.behavior import BehaviorName, Link
from bivshap_lightning.game.model import global_rngs_kept
from bivshap_lightning.game.players import Players

# Samples of one game, whose players and outputs are read at a time.
SAMPLES_PER_GAME = 512


def fit_l2x(
    model: Any,
    data: Any,
    n_selected: int,
    *,
    selector: nn.Module | None = None,
    approximator: nn.Module | None = None,
    baselines: Any = None,
    background: Any = None,
    feature_mask: Any = None,
    behavior: BehaviorName = "probability",
    link: Link | Literal["auto"] = "auto",
    n_epochs: int = 10,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    temperature: float = 0.1,
    seed: int = 0,
    trainer: Any = None,
) -> L2X:
    """Train L2X's selector for a model on data, by a Trainer.

    Args:
        model: the model to be explained, as in :class:`~bivshap_lightning.Game`. Its output on the data is what the
            drawn players have to predict: class probabilities, or values with ``behavior="output"``.
        data: inputs (N, ...) as a tensor or an array; a tuple of them; or a DataLoader or Dataset, of whose batches
            that are tuples or lists the first entry counts. All samples must have one shape.
        n_selected: k, how many players are drawn.
        selector: your own module from the inputs to scores of players (B, F) or of elements; None for L2X's network for
            tables, texts or images.
        approximator: your own module, called as ``approximator(*inputs, *presence)`` with the inputs mixed with their
            replacements (integers as they are) and the presence of each of their elements in [0, 1]; it returns as many
            scores as the model has classes. None for L2X's network.
        baselines: what replaces absent players, as in :class:`~bivshap_lightning.Game`.
        background: rows, one of which is drawn at a time to replace absent players.
        feature_mask: the players.
        behavior: "output" to predict values; anything else to predict the model's distribution over classes.
        link: what the model's scores mean.
        n_epochs: passes over the data. Ignored if a ``trainer`` is given.
        batch_size: samples per step.
        learning_rate: of Adam.
        temperature: of the relaxed draws; the smaller, the closer to 0 and 1 and the noisier the gradients.
        seed: of the networks, the order of the samples and the draws.
        trainer: a Trainer of your own; None for one that shows a progress bar and writes nothing.

    Returns:
        The explainer, for ``compare_with=[...]`` and everywhere else.

    Raises:
        ValueError: ``n_selected`` is not below the number of players, or no default network fits the inputs.

    Example:
        >>> from pytorch_lightning import Trainer
        >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
        >>> quiet = Trainer(
        ...     max_epochs=1,
        ...     logger=False,
        ...     enable_progress_bar=False,
        ...     enable_model_summary=False,
        ...     accelerator="cpu",
        ...     enable_checkpointing=False,
        ... )
        >>> fit_l2x(lambda x: x[:, 0], x, n_selected=1, behavior="output", trainer=quiet).n_selected
        1
    """
    examples = _Examples.of(
        model, data, baselines=baselines, background=background, feature_mask=feature_mask, behavior=behavior, link=link
    )
    n_players = examples.players.n_players
    if not 1 <= n_selected < n_players:
        raise ValueError(
            f"`n_selected` must be from 1 to {n_players - 1}, one less than the players, got {n_selected}. Lower it."
        )
    trainer = trainer or _quiet_trainer(n_epochs)
    with global_rngs_kept({examples.targets.device}):
        torch.default_generator.manual_seed(seed)
        architecture = {} if selector is not None else kind_of(examples.inputs[0])
        chosen = selector or Selector(**architecture)
        second = approximator or Approximator(**kind_of(examples.inputs[0]), n_outputs=examples.targets.shape[1])
        package = package_of(type(trainer), "Trainer") or import_module("pytorch_lightning")
        kind = type("L2XTraining", (_Training, package.LightningModule), {})
        task = kind(chosen, second, examples, n_selected, temperature, learning_rate, seed)
        order = torch.Generator().manual_seed(seed)
        loader = DataLoader(_Indices(len(examples)), batch_size=batch_size, shuffle=True, generator=order)
        trainer.fit(task, loader)
    return L2X(chosen.cpu().eval(), n_selected, architecture)


class _Indices(Dataset[int]):
    """The numbers of the samples; a step finds the samples themselves on the device."""

    def __init__(self, n_samples: int) -> None:
        self.n_samples = n_samples

    def __len__(self) -> int:
        return self.n_samples

    def __getitem__(self, index: int) -> int:
        return index


@dataclass
class _Examples:
    """Samples, players, replacements, and what the model says of each sample.

    Attributes:
        inputs: per input, (N, ...).
        rows: per input, the replacements (1 or N, R, ...).
        players: of all samples.
        targets: (N, C) class probabilities, probabilities of labels, or standardised values.
        task: what kind the targets are.
    """

    inputs: tuple[Tensor, ...]
    rows: tuple[Tensor, ...]
    players: Players
    targets: Tensor
    task: Literal["classes", "labels", "values"]

    @classmethod
    def of(cls, model: Any, data: Any, **arguments: Any) -> _Examples:
        """Run the model on all samples."""
        games = [Game(model, inputs, **arguments) for inputs in _batches(data)]
        if not games:
            raise ValueError("`data` must hold at least one sample, got none.")
        first = games[0]
        if len({tuple(x.shape[1:] for x in game.inputs) for game in games}) > 1:
            raise ValueError(
                "`data` must hold samples of one shape, got several. Pad them, with -1 in `feature_mask` for padding."
            )
        is_value = first.behavior.name == "output"
        has_labels = first.behavior.link == "sigmoid" and first.n_outputs > 1
        whole = torch.ones(1, 1, first.n_players, dtype=torch.bool, device=first.device)
        scores = torch.cat([game.outputs(whole.new_ones(1, 1, game.n_players))[:, 0] for game in games]).float()
        if is_value:
            targets = (scores - scores.mean(dim=0)) / scores.std(dim=0).clamp(min=1e-12)
        else:
            targets = first.behavior.probabilities(scores)
        inputs = tuple(torch.cat(same) for same in zip(*(game.inputs for game in games), strict=True))
        rows = tuple(_joined(same, games) for same in zip(*(game.removal.rows for game in games), strict=True))
        task: Literal["classes", "labels", "values"] = "values" if is_value else "labels" if has_labels else "classes"
        return cls(inputs, rows, _all_players(games), targets, task)

    def __len__(self) -> int:
        return len(self.targets)

    def to(self, device: torch.device) -> _Examples:
        """The same on another device."""
        players = Players(
            tuple(ids.to(device) for ids in self.players.ids),
            self.players.n_players,
            self.players.counts.to(device),
            self.players.is_identity,
            self.players.has_fixed,
        )
        inputs, rows = (tuple(x.to(device) for x in same) for same in (self.inputs, self.rows))
        return _Examples(inputs, rows, players, self.targets.to(device), self.task)

    def players_of(self, samples: Tensor) -> Players:
        """The players of some samples."""
        whole = self.players
        ids = tuple(ids if len(ids) == 1 else ids[samples] for ids in whole.ids)
        return Players(ids, whole.n_players, whole.counts[samples], whole.is_identity, whole.has_fixed)

    def mixed(self, samples: Tensor, presence: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Inputs mixed with their replacements, then the presence of their elements.

        Args:
            samples: (n,) their numbers.
            presence: (n, F) of the players.
            generator: draws one of several replacements.
        """
        with_fixed, mixed, weights = pad(presence, (0, 1), value=1.0), [], []
        for x, rows, ids in zip(self.inputs, self.rows, self.players_of(samples).ids, strict=True):
            own, given = x[samples], rows if len(rows) == 1 else rows[samples]
            which = torch.randint(given.shape[1], (len(own),), generator=generator, device=generator.device)
            replacement = given[torch.arange(len(own), device=x.device) if len(given) > 1 else 0, which.to(x.device)]
            weight = with_fixed.gather(1, ids.expand(len(own), -1)).view(own.shape)
            weights.append(weight)
            mixed.append(weight * own + (1 - weight) * replacement if x.is_floating_point() else own)
        return (*mixed, *weights)


class _Training:
    """The steps of a LightningModule of either package."""

    def __init__(
        self,
        selector: nn.Module,
        approximator: nn.Module,
        examples: _Examples,
        n_selected: int,
        temperature: float,
        learning_rate: float,
        seed: int,
    ) -> None:
        super().__init__()
        self.selector, self.approximator = selector, approximator
        self.settings = (n_selected, temperature, learning_rate, seed)
        self._examples = examples
        self._generator: torch.Generator | None = None

    def training_step(self, samples: Tensor, batch_idx: int) -> Tensor:
        """How badly the drawn players predict the model's output."""
        n_selected, temperature, _, seed = self.settings
        if self._generator is None or self._generator.device != samples.device:
            rank = getattr(self, "global_rank", 0)
            self._generator = torch.Generator(device=samples.device).manual_seed(seed + 1 + rank)
            self._examples = self._examples.to(samples.device)
        examples = self._examples
        scores = scores_of_players(self.selector(*(x[samples] for x in examples.inputs)), examples.players_of(samples))
        presence = draw_relaxed(scores, n_selected, temperature, self._generator)
        found = self.approximator(*examples.mixed(samples, presence, self._generator))
        loss = _loss(found, examples.targets[samples], examples.task)
        self.log("loss", loss, prog_bar=True)  # type: ignore[attr-defined]
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam for both networks."""
        parameters = [*self.selector.parameters(), *self.approximator.parameters()]
        return torch.optim.Adam(parameters, lr=self.settings[2])


def _loss(found: Tensor, targets: Tensor, task: str) -> Tensor:
    if found.shape != targets.shape:
        raise ValueError(
            f"`approximator` must return {targets.shape[1]} scores per sample, got shape {tuple(found.shape)}."
        )
    if task == "values":
        return mse_loss(found, targets)
    return binary_cross_entropy_with_logits(found, targets) if task == "labels" else cross_entropy(found, targets)


def _quiet_trainer(n_epochs: int) -> Any:
    """A Trainer that shows its progress and writes nothing."""
    lightning = import_module("pytorch_lightning")
    return lightning.Trainer(
        max_epochs=n_epochs, logger=False, enable_checkpointing=False, enable_model_summary=False, devices=1
    )


def _batches(data: Any) -> Iterator[Any]:
    """Inputs of some samples at a time."""
    if isinstance(data, Dataset):
        data = DataLoader(data, batch_size=SAMPLES_PER_GAME, generator=torch.Generator().manual_seed(0))
    if isinstance(data, DataLoader):
        for batch in data:
            yield batch[0] if isinstance(batch, (tuple, list)) else batch
        return
    parts = data if isinstance(data, (tuple, list)) else (data,)
    for start in range(0, len(parts[0]), SAMPLES_PER_GAME):
        some = tuple(part[start : start + SAMPLES_PER_GAME] for part in parts)
        yield some if isinstance(data, (tuple, list)) else some[0]


def _joined(rows: Sequence[Tensor], games: Sequence[Game]) -> Tensor:
    """Replacements of all games: shared ones once, others sample by sample."""
    if all(len(part) == 1 and torch.equal(part, rows[0]) for part in rows):
        return rows[0]
    return torch.cat([
        part.expand(game.n_samples, *part.shape[1:]) for part, game in zip(rows, games, strict=True)
    ])  # fmt: skip


def _all_players(games: Sequence[Game]) -> Players:
    """The players of all games as those of one."""
    n = max(game.n_players for game in games)
    ids = []
    for same in zip(*(game.players.ids for game in games), strict=True):
        # An element of no player carries the number of players, which may differ between games.
        own = [x.masked_fill(x == game.n_players, n) for x, game in zip(same, games, strict=True)]
        shared = all(len(x) == 1 and torch.equal(x, own[0]) for x in own)
        every = [x.expand(game.n_samples, -1) for x, game in zip(own, games, strict=True)]
        ids.append(own[0] if shared else torch.cat(every))
    counts = torch.cat([game.player_counts for game in games])
    first = games[0].players
    return Players(tuple(ids), n, counts, first.is_identity, any(game.players.has_fixed for game in games))
