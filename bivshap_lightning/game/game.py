"""The game: model, inputs, players, removal and behavior as one set function.

The value of a coalition is the behavior of the model when the players in it keep their input values and all others are
removed. Explainers and metrics get all values from a :class:`Game`, so that chunks, memory, devices, evaluation mode
and random numbers are handled in one place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor

from bivshap_lightning.game.behavior import (
    BehaviorFunction,
    BehaviorName,
    Link,
    choose_behavior,
    column_of_largest,
    resolve_target,
)
from bivshap_lightning.game.coalitions import Block, check_masks, unique, unique_of
from bivshap_lightning.game.determinism import check_deterministic
from bivshap_lightning.game.masked_inputs import MaskedInputs
from bivshap_lightning.game.model import Precision, is_out_of_memory
from bivshap_lightning.game.progress import ProgressBar, progress_bar
from bivshap_lightning.game.removal import check_finite
from bivshap_lightning.game.tree_game import checked_coalitions, ensemble_of, linear_weights
from bivshap_lightning.game.trees import TreeEnsemble, UnsupportedTreesError, check_trees

Read = Callable[[Tensor, Block], Tensor]


class Game:
    """A batch of set functions, one per sample, over the same players.

    Args:
        model: a torch module, a function from inputs to scores, or an estimator (see
            :class:`~bivshap_lightning.game.model.Model`).
        inputs: the samples to explain, a tensor or array of shape (B, ...), a data frame, or a tuple of them.
        baselines: what replaces an absent player: None (zero), a number, one row, one row per sample, a function of the
            input such as :class:`~bivshap_lightning.game.removal.Blur`, ``ZeroEmbedding()`` for tokens, or a tuple with
            one of these per input.
        background: instead of baselines, rows (R, ...) over which the value is averaged, or ``NearestRows(rows)``.
        feature_mask: integer player ids, broadcastable to the inputs, where -1 marks elements that always stay; or a
            maker such as ``Grid(4)``; see :func:`~bivshap_lightning.game.players.make_players`. By default every
            element is a player.
        target: None for the class predicted on the whole input; an index, B indices, a class label, or a function
            of the scores. Frozen when the game is made.
        behavior: what is read off the scores: "probability", "logit", "log_odds", "loss" (negative), "expected_loss"
            (negative, for labels of the model's own distribution), "output", or a function of (scores, target).
        link: what the scores mean: "softmax", "sigmoid", "identity", or "auto" for the rule of
            :mod:`~bivshap_lightning.game.behavior`.
        additional_forward_args: further arguments of the model; tensors with B rows follow their samples.
        perturbations_per_eval: at most this many times B rows per forward pass. None chooses, and halves the
            choice whenever memory runs out.
        show_progress: draw a progress bar of model rows; or the bar to advance by them.
        precision: "bf16" or "fp16" to run a torch module under autocast; values are float32 or float64 in any case.

    Attributes:
        inputs: the samples as a tuple of tensors on the model's device.
        n_samples: B.
        n_players: F.
        player_counts: (B,) how many of the F players each sample has.
        player_names: B tuples of names, or None if the players have none.
        null_players: (B, F) bool: players whose input equals its replacement, or that the sample lacks. They cannot
            change any value.
        target: (B,) what is explained.
        behavior: how scores are read.
        removal: what replaces absent players.
        module: the model if it is a torch module, for methods that look into it; None otherwise.
        additional_forward_args: further arguments of the model, as a tuple.
        n_evaluations: (B,) model rows spent so far, without the check for randomness where players are removed.
        rows_per_call: the largest number of rows in one forward pass.
        work_per_row: about how many multiply-adds the model takes for one row; None if it is no torch module.

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
        show_progress: bool | ProgressBar = False,
        precision: Precision | None = None,
    ) -> None:
        masked = MaskedInputs.of(model, inputs, baselines, background, feature_mask, additional_forward_args, precision)
        self._masked, self._model, self.module = masked, masked.model, masked.model.module
        self.inputs, self.additional_forward_args, self.removal = masked.inputs, masked.extra, masked.removal
        self.n_samples, self.device = self.inputs[0].shape[0], self.inputs[0].device
        self.players, self.player_names, self.null_players = masked.players, masked.names, masked.null_players
        self.n_players, self.player_counts = self.players.n_players, self.players.counts
        self._has_nulls = bool(self.null_players.any())
        self._nulls_are_shared = bool((self.null_players == self.null_players[:1]).all())
        self.rows_per_call = masked.rows_per_call(perturbations_per_eval)
        self.show_progress, self.n_outputs = show_progress, 0  # no outputs until the model has been run
        self.n_evaluations = torch.zeros(self.n_samples, dtype=torch.int64, device=self.device)
        scores = self._scores_of_inputs()
        self.dtype, self.work_per_row = scores.dtype, masked.work_per_row()
        names, is_regressor = self._model.class_names, self._model.is_regressor
        self.behavior = choose_behavior(
            behavior,
            self._model.link if link == "auto" else link,
            scores=scores,
            is_regressor=is_regressor,
            gives_probabilities=self._model.gives_probabilities,
        )
        self.target = resolve_target(target, scores, self.behavior, names, is_regressor=is_regressor)
        self._followed = (self.target, *self.behavior.reference(scores))
        self._is_checked = False
        self._trees: tuple[TreeEnsemble, Tensor] | UnsupportedTreesError | None = None

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

    def values_of(
        self, masks: Tensor, samples: Tensor, replacements: Tensor | None = None, *, are_distinct: bool = False
    ) -> Tensor:
        """Values of single coalitions, each of one sample, for methods that make masks row by row.

        Args:
            masks: bool (N, F).
            samples: (N,) int64, the sample of each coalition.
            replacements: (N,) int64, the one background row of each; None for the mean over all of them.
            are_distinct: no two are the same, which saves looking for equal ones.

        Returns:
            (N,) utilities.

        Example:
            >>> game = Game(lambda x: x.sum(dim=1), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), behavior="output")
            >>> game.values_of(torch.tensor([[True, False], [True, True]]), torch.tensor([1, 0]))
            tensor([3., 3.])
        """
        masks = check_masks(masks[None], self.n_samples, self.n_players).to(self.device)[0] | self.null_players[samples]
        number = samples if replacements is None else samples * self.removal.n_rows + replacements
        block = Block(masks, samples, replacements)
        distinct = None if are_distinct else unique_of(masks, number)
        if distinct is None:
            return self._run(block, self._utility)
        first, place = distinct
        return self._run(block[first], self._utility)[place[0]]

    def evaluation(self) -> AbstractContextManager[None]:
        """A context in which the state of the model is recorded and restored once, instead of for every call.

        Example:
            >>> game = Game(torch.nn.Linear(2, 3), torch.ones(1, 2))
            >>> with game.evaluation():
            ...     values = [game(torch.ones(1, 1, 2, dtype=torch.bool)) for _ in range(9)]
        """
        return self._model.evaluation()

    @contextmanager
    def differentiable(self) -> Iterator[Callable[..., Tensor]]:
        """The utility as a function of the inputs, for gradient methods.

        Within the context the model is in evaluation mode, and its state is restored afterwards. Gradients flow to the
        inputs of the function, which takes the inputs, then (N,) sample indices.

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
            return self._utility(self._scores(tuple(inputs), block), block)

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
        """Predicted class of each coalition or, for independent labels, whether the target label is on.

        Where a value is explained, as in a regression, the prediction is 1 if the value is at least as near to that of
        all players as to that of no player, and 0 otherwise.

        Args:
            masks: bool (B or 1, K, F).

        Returns:
            (B, K) int64.
        """
        is_value = self.behavior.name == "output" and (self.n_outputs == 1 or self._model.is_regressor)
        if is_value or self.target.is_floating_point():
            return self._is_near_all_players(masks)
        if self.behavior.link == "softmax" and self.removal.n_rows == 1:
            # The most likely class has the largest score; NaN marks scores that are not finite, which are refused.
            return self._evaluate(masks, lambda scores, block: column_of_largest(scores)).long()
        p = self._evaluate(masks, lambda scores, block: self.behavior.probabilities(scores))
        target = self.target.repeat_interleave(p.shape[1])
        labels_are_independent = self.behavior.link == "sigmoid" and self.n_outputs > 1
        decisions = self.behavior.predict(p.flatten(0, 1), target, independent_labels=labels_are_independent)
        return decisions.view(p.shape[:2])

    @property
    def has_trees(self) -> bool:
        """Whether the values are sums of leaves of trees, see :meth:`trees`."""
        try:
            self.trees()
        except UnsupportedTreesError:
            return False
        return True

    def trees(self) -> tuple[TreeEnsemble, Tensor]:
        """The model as a sum of trees, and the weights (B, C) with which its scores add up to the utility.

        Converted on the first call, and compared with the model on a few coalitions.

        Raises:
            UnsupportedTreesError: the model is no sum of trees, or the utility is not linear in its scores.

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
            except UnsupportedTreesError as refusal:
                self._trees = refusal
        if isinstance(self._trees, UnsupportedTreesError):
            raise UnsupportedTreesError(str(self._trees))
        return self._trees

    def _read_trees(self) -> tuple[TreeEnsemble, Tensor]:
        ensemble = ensemble_of(self._masked)
        weights = linear_weights(self.behavior, self.target, self.n_outputs)
        block = checked_coalitions(self._masked)
        with self._model.evaluation():
            scores = self._sweep(block, lambda scores, block: scores)
        self._count(len(block))
        check_trees(ensemble, self._masked.rows(block)[0], scores.flatten(0, 1))
        return ensemble, weights

    def _is_near_all_players(self, masks: Tensor) -> Tensor:
        """(B, K) int64: 1 where a value is nearer to that of all players than to that of none."""
        ends = torch.tensor([False, True], device=self.device)[None, :, None].expand(1, 2, self.n_players)
        of_none, of_all = self(ends).split(1, dim=1)
        values = self(masks)
        is_near: Tensor = (values - of_all).abs() <= (values - of_none).abs()
        return is_near.long()

    def _utility(self, scores: Tensor, block: Block) -> Tensor:
        return self.behavior(scores, *map(block.follow, self._followed))

    def _scores_of_inputs(self) -> Tensor:
        """Scores (B, C) of the unmasked inputs."""
        all_players = torch.ones(1, 1, self.n_players, dtype=torch.bool, device=self.device)
        block = Block(all_players, replacements=torch.zeros(1, dtype=torch.int64, device=self.device))
        with self._model.evaluation():
            scores = self._scores_twice(block, "on the inputs")[:, 0]
        self._count(2)
        check_finite(scores, self.removal)
        for dtype in {x.dtype for x in self.inputs} & {torch.float16, torch.bfloat16}:
            warnings.warn(
                f"`model` computes in {dtype}, whose relative precision is about {torch.finfo(dtype).eps:.1g}. "
                " Explain it in float32, or use a `gamma` above that.",
                stacklevel=3,
            )
        return scores

    def _scores_twice(self, block: Block, where: str) -> Tensor:
        """Scores of coalitions, refused if a second call gives others. Both start from different random numbers."""
        first, second = (self._sweep(block, lambda scores, block: scores).clone() for _ in range(2))
        check_deterministic(
            first,
            second,
            where,
            lambda: self._model.find_stochastic_module(self._masked.rows(block), self._masked.arguments(block)),
        )
        return first

    def _evaluate(self, masks: Tensor, read: Read) -> Tensor:
        """Compute something from the model's scores for all coalitions, (B, K, ...)."""
        masks = check_masks(masks, self.n_samples, self.n_players).to(self.device)
        if self._has_nulls:
            # Coalitions that differ only in null players are the same input, so null players are always present.
            masks = masks | (self.null_players[:1] if self._nulls_are_shared else self.null_players)[:, None]
        block, distinct = Block(masks), unique(masks)
        if distinct is None:
            return self._run(block, read)
        first, place = distinct
        if masks.shape[0] == 1:
            return self._run(block[first], read).index_select(1, place[0])
        values = self._run(block.spread(self.n_samples)[first], read)
        return values.index_select(0, place.flatten()).view(*place.shape, *values.shape[1:])

    def _run(self, block: Block, read: Read) -> Tensor:
        """Evaluate coalitions: (B, K, ...) for those of every sample, (K, ...) for those of one each."""
        n_rows = self.removal.n_rows if block.replacements is None else 1
        dim, block = 1 if block.samples is None else 0, block.against(n_rows)
        n_calls = len(block) * (self.n_samples if block.samples is None else 1)
        with self._model.evaluation(), progress_bar(n_calls, show=self.show_progress) as bar:
            self._check_once(block)
            values = self._sweep(block, read, bar)
        values = values.clone()  # the model may return a tensor that it keeps, and write to it
        check_finite(values, self.removal)
        n_spent = len(block) if block.samples is None else torch.bincount(block.samples, minlength=self.n_samples)
        self._count(n_spent)
        return values if n_rows == 1 else values.unflatten(dim, (-1, n_rows)).mean(dim=dim + 1)

    def _check_once(self, block: Block) -> None:
        """Refuse models that are random only where players are removed, e.g. those that fill in missing values."""
        if not self._is_checked:
            self._scores_twice(block.emptiest(), f"where players are removed ({self.removal.description})")
            self._is_checked = True

    def _count(self, n_rows: int | Tensor) -> None:
        self.n_evaluations = self.n_evaluations + n_rows  # a game may be made in inference mode and used outside it

    def _sweep(self, block: Block, read: Read, bar: ProgressBar | None = None) -> Tensor:
        """Evaluate a block in chunks; when one does not fit into memory, all later chunks are half as large."""
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

    def _scores(self, rows: tuple[Tensor, ...], block: Block) -> Tensor:
        """Scores (N, C) of rows, of as many columns as in every other call."""
        scores = self._model(rows, self._masked.arguments(block))
        self.n_outputs = self.n_outputs or scores.shape[1]
        if scores.shape[1] != self.n_outputs:
            raise ValueError(
                f"`model` must return the same number of scores in every call, got {scores.shape[1]} after "
                f"{self.n_outputs}. Wrap it in a function that returns (N, C) with a fixed C."
            )
        return scores

    def _read(self, block: Block, read: Read) -> Tensor:
        """Values from one forward pass: (B, K, ...) or (K, ...)."""
        n, k = (self.n_samples, len(block)) if block.samples is None else (len(block), 1)
        values = read(self._scores(self._masked.rows(block), block), block)
        if values.shape[:1] != (n * k,):
            raise ValueError(
                f"`behavior` must return one value per row, got shape {tuple(values.shape)} for {n * k} rows."
            )
        return values.unflatten(0, (n, k)) if block.samples is None else values
