"""The game: model, inputs, players, removal and behavior as one set function, and the only caller of the model.

A coalition is a set of players; its value is what the behavior reads off the model when the players in it keep
their input values and all others are removed. Explainers and metrics only ever ask a :class:`Game` for values of
coalitions, so chunking, memory, devices, evaluation mode and random numbers are settled here and nowhere else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import isfinite
from typing import Any, Literal

import torch
from torch import Tensor
from tqdm.auto import tqdm

from bivshap_lightning.game.behavior import (
    Behavior,
    BehaviorFunction,
    BehaviorName,
    Link,
    detect_link,
    place_of_largest,
    resolve_target,
)
from bivshap_lightning.game.coalitions import Block, unique
from bivshap_lightning.game.masked_inputs import Setting
from bivshap_lightning.game.model import is_out_of_memory
from bivshap_lightning.game.trees import TreeEnsemble, TreesRefused, check_trees

# Mixtures of each sample and its stand-ins on which trees must say what their model says.
CHECKED_MIXTURES = 6

Read = Callable[[Tensor, Block], Tensor]


class StochasticModelError(ValueError):
    """A model answers equal inputs with different outputs, so that its values cannot be explained."""


class Game:
    """A batch of set functions, one per sample, over the same players.

    Args:
        model: a torch module, a function from inputs to scores, or an estimator (see
            :class:`~bivshap_lightning.game.model.Model`).
        inputs: the samples to explain, a tensor or array of shape (B, ...), a data frame, or a tuple of them.
        baselines: what replaces an absent player: None (zero), a number, one row, one row per sample, a function of the
            input such as :class:`~bivshap_lightning.game.removal.Blur`, ``ZeroEmbedding()`` for tokens, or a tuple with
            one of these per input.
        background: instead of baselines, rows (R, ...) over which the value is averaged.
        feature_mask: integer player ids, broadcastable to the inputs, where -1 marks elements that always stay; or a
            maker such as ``Grid(4)``; see :func:`~bivshap_lightning.game.players.make_players`. By default every
            element is a player.
        target: None for the class predicted on the whole input; an index, B indices, a class label, or a function
            of the scores. Frozen when the game is made.
        behavior: what is read off the scores: "probability", "logit", "log_odds", "loss" (negative), "output", or
            a function of (scores, target).
        link: what the scores mean: "softmax", "sigmoid", "identity", or "auto" for the rule of
            :mod:`~bivshap_lightning.game.behavior`.
        additional_forward_args: further arguments of the model; tensors with B rows follow their samples.
        perturbations_per_eval: at most this many times B rows per forward pass. None chooses, and halves the
            choice whenever memory runs out.
        show_progress: draw a progress bar of model rows.

    Attributes:
        inputs: the samples as a tuple of tensors on the model's device.
        n_samples: B.
        n_players: F.
        player_counts: (B,) how many of the F players each sample has.
        player_names: B tuples of names, or None if nobody named the players.
        null_players: (B, F) bool: players whose input equals its replacement, or that the sample lacks. They cannot
            change any value.
        target: (B,) what is explained.
        behavior: how scores are read.
        removal: what stands in for absent players.
        additional_forward_args: further arguments of the model, as a tuple.
        n_evaluations: (B,) model rows spent so far, without those of a check that the model is not random where
            players are removed.
        rows_per_call: the largest number of rows in one forward pass.

    Example:
        >>> game = Game(lambda x: x @ torch.tensor([1.0, 2.0]), torch.ones(1, 2), behavior="output")
        >>> game(torch.tensor([[[False, False], [True, False], [True, True]]]))
        tensor([[0., 1., 3.]])
    """

    def __init__(
        self,
        model: Any,
        inputs: Any,
        *,
        baselines: Any = None,
        background: Any = None,
        feature_mask: Any = None,
        target: Any = None,
        behavior: BehaviorName | BehaviorFunction = "probability",
        link: Link | Literal["auto"] = "auto",
        additional_forward_args: Any = None,
        perturbations_per_eval: int | None = None,
        show_progress: bool = False,
    ) -> None:
        setting = Setting.of(model, inputs, baselines, background, feature_mask, additional_forward_args)
        self._setting, self._model = setting, setting.model
        self.inputs, self.additional_forward_args, self.removal = setting.inputs, setting.extra, setting.removal
        self.n_samples, self.device = self.inputs[0].shape[0], self.inputs[0].device
        self.players, self.player_names, self.null_players = setting.players, setting.names, setting.null_players
        self.n_players, self.player_counts = self.players.n_players, self.players.counts
        self._has_nulls = bool(self.null_players.any())
        self._nulls_are_shared = bool((self.null_players == self.null_players[:1]).all())
        self.rows_per_call = setting.rows_per_call(perturbations_per_eval)
        self.show_progress = show_progress
        self.n_evaluations = torch.zeros(self.n_samples, dtype=torch.int64, device=self.device)
        scores = self._scores_of_inputs()
        self.n_outputs, self.dtype = scores.shape[1], scores.dtype
        self.behavior = self._choose_behavior(behavior, link, scores)
        names, is_regressor = self._model.class_names, self._model.is_regressor
        self.target = resolve_target(target, scores, self.behavior, names, is_regressor=is_regressor)
        self._is_checked = False
        self._trees: tuple[TreeEnsemble, Tensor] | TreesRefused | None = None

    def __repr__(self) -> str:
        return (
            f"Game({self.n_samples} samples, {self.n_players} players, behavior={self.behavior.label!r}, "
            f"link={self.behavior.link!r}, removal={self.removal.description!r})"
        )

    def __call__(self, masks: Tensor) -> Tensor:
        """Values of coalitions.

        Args:
            masks: bool (B or 1, K, F), True for players that are present.

        Returns:
            (B, K) utilities.
        """
        return self._evaluate(masks, self._utility)

    def values_of(self, masks: Tensor, samples: Tensor) -> Tensor:
        """Values of single coalitions, each of one sample: for methods that build their rows themselves.

        Args:
            masks: bool (N, F).
            samples: (N,) int64, whose coalition each row is.

        Returns:
            (N,) utilities.

        Example:
            >>> game = Game(lambda x: x.sum(dim=1), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), behavior="output")
            >>> game.values_of(torch.tensor([[True, False], [True, True]]), torch.tensor([1, 0]))
            tensor([3., 3.])
        """
        masks = self._check_masks(masks[None])[0] | self.null_players[samples]
        # Equal coalitions of different samples are told apart by the digits of the samples' numbers.
        digits = samples[:, None] >> torch.arange(self.n_samples.bit_length(), device=self.device) & 1 == 1
        block, distinct = Block(masks, samples), unique(torch.cat([masks, digits], dim=1)[None])
        if distinct is None:
            return self._run(block, self._utility)
        first, place = distinct
        return self._run(block[first], self._utility)[place[0]]

    @contextmanager
    def differentiable(self) -> Iterator[Callable[..., Tensor]]:
        """The utility as a function of the inputs themselves, for methods that follow gradients.

        Within the context the model is visited as ever (evaluation mode, nothing touched), but gradients flow to
        the inputs that the function is called with. The function takes the inputs, then (N,) sample indices.

        Example:
            >>> game = Game(lambda x: (x**2).sum(dim=1), torch.tensor([[1.0, 2.0]]), behavior="output")
            >>> with game.differentiable() as utility:
            ...     x = game.inputs[0].clone().requires_grad_()
            ...     torch.autograd.grad(utility(x, torch.tensor([0])).sum(), x)[0]
            tensor([[2., 4.]])
        """

        def utility(*arguments: Tensor) -> Tensor:
            *inputs, samples = arguments
            self._count(torch.bincount(samples, minlength=self.n_samples))
            block = Block(samples.new_empty(0), samples)
            return self._utility(self._model(tuple(inputs), self._setting.arguments(block)), block)

        with self._model.evaluation(gradients=True):
            yield utility

    def outputs(self, masks: Tensor) -> Tensor:
        """Model scores of coalitions (averaged over background rows).

        Args:
            masks: bool (B or 1, K, F).

        Returns:
            (B, K, C).
        """
        return self._evaluate(masks, lambda scores, block: scores)

    def predict(self, masks: Tensor) -> Tensor:
        """Decisions of the model on coalitions: a class, or off / on for the target among independent labels.

        Where a value is explained, such as a regression's, the decision is 1 if it is as near to the value of the whole
        input as to that of no player at all, or nearer, and 0 otherwise.

        Args:
            masks: bool (B or 1, K, F).

        Returns:
            (B, K) int64.
        """
        is_value = self.behavior.name == "output" and (self.n_outputs == 1 or self._model.is_regressor)
        if is_value or self.target.is_floating_point():
            return self._is_near_the_whole(masks)
        if self.behavior.link == "softmax" and self.removal.n_rows == 1:
            # The likeliest class has the largest score. If that is NaN or infinite, the check of values will see it.
            return self._evaluate(masks, lambda scores, block: place_of_largest(scores)).long()
        p = self._evaluate(masks, lambda scores, block: self.behavior.probabilities(scores))
        target = self.target.repeat_interleave(p.shape[1])
        labels_are_independent = self.behavior.link == "sigmoid" and self.n_outputs > 1
        decisions = self.behavior.predict(p.flatten(0, 1), target, independent_labels=labels_are_independent)
        return decisions.view(p.shape[:2])

    @property
    def has_trees(self) -> bool:
        """Whether the values are sums of the leaves of trees, which :meth:`trees` gives."""
        try:
            self.trees()
        except TreesRefused:
            return False
        return True

    def trees(self) -> tuple[TreeEnsemble, Tensor]:
        """The model as a sum of trees, and the weights (B, C) with which its scores add up to the utility.

        Read when first asked for, and checked against the model on mixtures of samples and stand-ins.

        Raises:
            TreesRefused: the model is no sum of trees, or the utility is not linear in its scores.

        Example:
            >>> import numpy as np
            >>> from sklearn.ensemble import RandomForestClassifier
            >>> x, y = np.eye(4), [0, 0, 1, 1]
            >>> game = Game(RandomForestClassifier(n_estimators=7, random_state=0).fit(x, y), x)
            >>> ensemble, weights = game.trees()
            >>> ensemble.n_trees, weights.shape
            (7, torch.Size([4, 2]))
        """
        if self._trees is None:
            try:
                self._trees = self._read_trees()
            except TreesRefused as refusal:
                self._trees = refusal
        if isinstance(self._trees, TreesRefused):
            raise TreesRefused(str(self._trees))
        return self._trees

    def _read_trees(self) -> tuple[TreeEnsemble, Tensor]:
        ensemble = self._model.read_trees().to(self.device)
        weights = self.behavior.linear_weights(self.target, self.n_outputs)
        if weights is None:
            raise TreesRefused(
                f"`behavior` must add up the leaves of trees, got {self.behavior.label!r} of scores with link "
                f"{self.behavior.link!r}. Use 'probability' for a forest, 'logit' for boosted trees that classify, "
                "'output' for a regression."
            )
        if len(self.inputs) != 1 or self.inputs[0].dim() != 2 or self.additional_forward_args:
            shapes = [tuple(x.shape) for x in self.inputs]
            raise TreesRefused(f"`inputs` must be one table and nothing else to be sent down trees, got {shapes}.")
        masks = torch.rand(CHECKED_MIXTURES, self.n_players, generator=torch.Generator().manual_seed(0)) < 0.5
        masks[0], masks[1] = True, False
        stand_ins = torch.arange(CHECKED_MIXTURES, device=self.device) % self.removal.n_rows
        block = Block(masks[None].to(self.device), stand_ins=stand_ins)
        with self._model.evaluation():
            scores = self._sweep(block, lambda scores, block: scores)
        self._count(CHECKED_MIXTURES)
        check_trees(ensemble, self._setting.rows(block)[0], scores.flatten(0, 1))
        return ensemble, weights

    def _is_near_the_whole(self, masks: Tensor) -> Tensor:
        """(B, K) int64: 1 where a value is nearer to that of all players than to that of none."""
        ends = torch.tensor([False, True], device=self.device)[None, :, None].expand(1, 2, self.n_players)
        nothing, whole = self(ends).split(1, dim=1)
        values = self(masks)
        is_near: Tensor = (values - whole).abs() <= (values - nothing).abs()
        return is_near.long()

    def _utility(self, scores: Tensor, block: Block) -> Tensor:
        return self.behavior(scores, block.follow(self.target))

    def _scores_of_inputs(self) -> Tensor:
        """Scores (B, C) of the unmasked inputs."""
        everyone = torch.ones(1, 1, self.n_players, dtype=torch.bool, device=self.device)
        block = Block(everyone, stand_ins=torch.zeros(1, dtype=torch.int64, device=self.device))
        with self._model.evaluation():
            scores = self._scores_twice(block, "on the inputs")[:, 0]
        self._count(2)
        self._check_finite(scores)
        for dtype in {x.dtype for x in self.inputs} & {torch.float16, torch.bfloat16}:
            warnings.warn(
                f"`model` computes in {dtype}, which tells values apart only from about {torch.finfo(dtype).eps:.1g} "
                "upwards. Explain it in float32, or use a `gamma` above that.",
                stacklevel=3,
            )
        return scores

    def _scores_twice(self, block: Block, where: str) -> Tensor:
        """Scores of coalitions, refused if a second call gives others. Both start from different random numbers."""
        first, second = (self._sweep(block, lambda scores, block: scores).clone() for _ in range(2))
        if not torch.allclose(first, second, rtol=1e-4, atol=1e-5, equal_nan=True):
            rows, arguments = self._setting.rows(block), self._setting.arguments(block)
            module = self._model.find_stochastic_module(rows, arguments)
            raise StochasticModelError(
                "`model` must be deterministic, got outputs that differ by up to "
                f"{float((first - second).abs().max()):.2g} between two equal calls {where}; the randomness comes from "
                f"{module or 'the function itself'}. Turn off dropout or sampling in its forward pass."
            )
        return first

    def _choose_behavior(self, name: Any, link: Any, scores: Tensor) -> Behavior:
        if self._model.is_regressor and not callable(name) and name not in ("output", "loss"):
            raise ValueError(
                f"`behavior` must be 'output' or 'loss' for a regressor, got {name!r}. Pass behavior='output'."
            )
        if link == "auto":
            link = self._model.link or detect_link(scores, gives_probabilities=self._model.gives_probabilities)
        return Behavior(name, link)

    def _evaluate(self, masks: Tensor, read: Read) -> Tensor:
        """Read something off the model for all coalitions, (B, K, ...)."""
        masks = self._check_masks(masks)
        if self._has_nulls:
            # Coalitions that differ only in null players are the same input: let null players always be present.
            masks = masks | (self.null_players[:1] if self._nulls_are_shared else self.null_players)[:, None]
        block, distinct = Block(masks), unique(masks)
        if distinct is None:
            return self._run(block, read)
        first, place = distinct
        if masks.shape[0] == 1:
            return self._run(block[first], read).index_select(1, place[0])
        values = self._run(block.spread(self.n_samples)[first], read)
        return values.index_select(0, place.flatten()).view(*place.shape, *values.shape[1:])

    def _check_masks(self, masks: Tensor) -> Tensor:
        expected = f"bool (1 or {self.n_samples}, K, {self.n_players})"
        if not isinstance(masks, Tensor) or masks.dtype != torch.bool:
            got = masks.dtype if isinstance(masks, Tensor) else type(masks).__name__
            raise TypeError(f"`masks` must be {expected}, got {got}. Convert them with `.bool()`.")
        if masks.dim() != 3 or masks.shape[0] not in (1, self.n_samples) or masks.shape[2] != self.n_players:
            raise ValueError(f"`masks` must be {expected}, got {tuple(masks.shape)}. True marks present players.")
        if masks.shape[1] == 0:
            raise ValueError(f"`masks` must hold at least one coalition, got {tuple(masks.shape)}.")
        return masks.to(self.device)

    def _run(self, block: Block, read: Read) -> Tensor:
        """Evaluate coalitions: (B, K, ...) for those of every sample, (K, ...) for those of one each."""
        n_rows, dim = self.removal.n_rows, 1 if block.samples is None else 0
        block = block.against(n_rows)
        n_calls = len(block) * (self.n_samples if block.samples is None else 1)
        with self._model.evaluation(), self._progress_bar(n_calls) as bar:
            if not self._is_checked:
                # Some models are random only where players are removed, e.g. those that fill in missing values.
                self._scores_twice(block.emptiest(), f"where players are removed ({self.removal.description})")
                self._is_checked = True
            values = self._sweep(block, read, bar)
        values = values.clone()  # the model may return a tensor that it keeps, and write to it
        self._check_finite(values)
        if block.samples is None:
            self._count(len(block))
        else:
            self._count(torch.bincount(block.samples, minlength=self.n_samples))
        return values if n_rows == 1 else values.unflatten(dim, (-1, n_rows)).mean(dim=dim + 1)

    def _progress_bar(self, n_calls: int) -> AbstractContextManager[tqdm[Any] | None]:
        if not self.show_progress:  # a bar that is switched off still takes as long as a small forward pass
            return nullcontext()
        bar: AbstractContextManager[tqdm[Any]] = tqdm(
            total=n_calls, desc="model rows", unit="row", unit_scale=True, leave=False
        )
        return bar

    def _check_finite(self, values: Tensor) -> None:
        # A sum shows every NaN and infinity, and takes a fraction of the time; it can also overflow by itself.
        if not isfinite(values.sum().item()) and not bool(torch.isfinite(values).all()):
            raise ValueError(
                f"`model` must give finite values, got {int((~torch.isfinite(values)).sum())} NaN or infinite of "
                f"{values.numel()}. Check the model on inputs where players are removed ({self.removal.description}); "
                "logarithms of a probability of 0 or 1 are infinite, behavior='probability' is not."
            )

    def _count(self, n_rows: int | Tensor) -> None:
        # Not in place: a game made in inference mode may be played outside it.
        self.n_evaluations = self.n_evaluations + n_rows

    def _sweep(self, block: Block, read: Read, bar: tqdm[Any] | None = None) -> Tensor:
        """Run a block in chunks that fit into memory, halving them for good whenever one does not."""
        if block.samples is None and self.rows_per_call < self.n_samples:
            values = self._sweep(block.spread(self.n_samples), read, bar)
            return values.view(self.n_samples, len(block), *values.shape[1:])
        width, dim = (self.n_samples, 1) if block.samples is None else (1, 0)
        parts, start = [], 0
        while start < len(block):
            chunk = block[start : start + max(1, self.rows_per_call // width)]
            try:
                parts.append(self._read(chunk, read))
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or self.rows_per_call == 1:
                    raise
                self.rows_per_call = max(1, len(chunk) * width // 2)
            else:
                start += len(chunk)
                if bar is not None:
                    bar.update(len(chunk) * width)
            if self.rows_per_call < width and start < len(block):
                parts.append(self._sweep(block[start:], read, bar))
                break
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dim)

    def _read(self, block: Block, read: Read) -> Tensor:
        """One forward pass, read: (B, K, ...) or (K, ...)."""
        n, k = (self.n_samples, len(block)) if block.samples is None else (len(block), 1)
        values = read(self._model(self._setting.rows(block), self._setting.arguments(block)), block)
        if values.shape[:1] != (n * k,):
            raise ValueError(
                f"`behavior` must return one value per row, got shape {tuple(values.shape)} for {n * k} rows."
            )
        return values.unflatten(0, (n, k)) if block.samples is None else values
