"""The game: model, inputs, players, removal and behavior as one set function, and the only caller of the model.

A coalition is a set of players; its value is what the behavior reads off the model when the players in it keep
their input values and all others are removed. Explainers and metrics only ever ask a :class:`Game` for values of
coalitions, so chunking, memory, devices, evaluation mode and random numbers are settled here and nowhere else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad
from tqdm.auto import tqdm

from bivshap_lightning.behavior import Behavior, BehaviorFunction, BehaviorName, Link, detect_link, resolve_target
from bivshap_lightning.coalitions import Block, unique
from bivshap_lightning.inputs import as_tensor, as_tensors, check_inputs
from bivshap_lightning.model import Model, is_out_of_memory
from bivshap_lightning.players import Players
from bivshap_lightning.removal import Removal

# Input elements per forward pass when nobody says otherwise: large enough to keep a device busy, small enough for
# the activations of a convolutional network to fit into ordinary memory.
ELEMENTS_PER_CALL = {"cpu": 2**18, "other": 2**23}

Read = Callable[[Tensor, Tensor], Tensor]


class Game:
    """A batch of set functions, one per sample, over the same players.

    Args:
        model: a torch module, a function from inputs to scores, or an estimator (see
            :class:`~bivshap_lightning.model.Model`).
        inputs: the samples to explain, a tensor or array of shape (B, ...), or a tuple of them.
        baselines: what replaces an absent player: None (zero), a number, one row, one row per sample, or a tuple
            with one of these per input.
        background: instead of baselines, rows (R, ...) over which the value is averaged.
        feature_mask: integer player ids, broadcastable to the inputs; -1 marks elements that always stay. By
            default every element is a player.
        target: None for the class predicted on the whole input; an index, B indices, a class label, or a function
            of the scores. Frozen when the game is made.
        behavior: what is read off the scores: "probability", "logit", "log_odds", "loss" (negative), "output", or
            a function of (scores, target).
        link: what the scores mean: "softmax", "sigmoid", "identity", or "auto" for the rule of
            :mod:`~bivshap_lightning.behavior`.
        additional_forward_args: further arguments of the model; tensors with B rows follow their samples.
        perturbations_per_eval: at most this many times B rows per forward pass. None chooses, and halves the
            choice whenever memory runs out.
        show_progress: draw a progress bar of model rows.

    Attributes:
        inputs: the samples as a tuple of tensors on the model's device.
        n_samples: B.
        n_players: F.
        player_counts: (B,) how many of the F players each sample has.
        null_players: (B, F) bool: players whose input equals its replacement, or that the sample lacks. They cannot
            change any value.
        target: (B,) what is explained.
        behavior: how scores are read.
        removal: what stands in for absent players.
        additional_forward_args: further arguments of the model, as a tuple.
        n_evaluations: (B,) model rows spent so far.
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
        given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        self._model = Model(model, as_arrays=any(not isinstance(x, Tensor) for x in given))
        self.inputs = check_inputs(tuple(self._model.place(as_tensor(x)) for x in given))
        self.n_samples, self.device = self.inputs[0].shape[0], self.inputs[0].device
        extra = additional_forward_args
        self.additional_forward_args = () if extra is None else extra if isinstance(extra, tuple) else (extra,)
        self.players = Players.from_mask(self.inputs, as_tensors(feature_mask))
        self.n_players, self.player_counts = self.players.n_players, self.players.counts
        if self.n_players == 0:
            raise ValueError(
                f"`inputs` must hold at least one player, got none in shapes {[tuple(x.shape) for x in self.inputs]}. "
                "Give some elements a `feature_mask` id from 0 upwards."
            )
        if background is None:
            self.removal = Removal.from_baselines(self.inputs, baselines)
        elif baselines is None:
            self.removal = Removal.from_background(self.inputs, as_tensors(background) or ())
        else:
            raise ValueError("`baselines` must be None when `background` is given, got both. Pass one of them.")
        self._removes_to_zero = [not bool(rows.any()) for rows in self.removal.rows]
        self.null_players = ~self._differs()
        self._has_nulls = bool(self.null_players.any())
        self._nulls_are_shared = bool((self.null_players == self.null_players[:1]).all())
        self.rows_per_call = self._choose_rows_per_call(perturbations_per_eval)
        self.show_progress = show_progress
        self.n_evaluations = torch.zeros(self.n_samples, dtype=torch.int64, device=self.device)
        scores = self._scores_of_whole_inputs()
        self.n_outputs, self.dtype = scores.shape[1], scores.dtype
        self.behavior = self._choose_behavior(behavior, link, scores)
        self.target = resolve_target(target, scores, self.behavior, self._model.class_names)

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
        first, place = unique(masks, samples)
        return self._run(Block(masks[first], samples[first]), self._utility)[place]

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
            extra = tuple(self._repeat(value, block, 1) for value in self.additional_forward_args)
            return self._utility(self._model(tuple(inputs), extra), samples)

        with self._model.visit(gradients=True):
            yield utility

    def outputs(self, masks: Tensor) -> Tensor:
        """Model scores of coalitions (averaged over background rows).

        Args:
            masks: bool (B or 1, K, F).

        Returns:
            (B, K, C).
        """
        return self._evaluate(masks, lambda scores, samples: scores)

    def predict(self, masks: Tensor) -> Tensor:
        """Decisions of the model on coalitions: a class, or off / on for the target among independent labels.

        Args:
            masks: bool (B or 1, K, F).

        Returns:
            (B, K) int64.
        """
        if (self.behavior.name == "output" and self.n_outputs == 1) or self.target.is_floating_point():
            raise ValueError(
                f"`game` must be a classification to predict classes, got behavior {self.behavior.label!r} of a value. "
                "Use a metric of utilities instead, or another `behavior`."
            )
        if self.behavior.link == "softmax" and self.removal.n_rows == 1:
            # The likeliest class has the largest score; the sum keeps NaN and infinity visible to the check of values.
            decided = self._evaluate(masks, lambda scores, samples: scores.argmax(dim=1) + 0 * scores.sum(dim=1))
            return decided.long()
        p = self._evaluate(masks, lambda scores, samples: self.behavior.probabilities(scores))
        target = self.target.repeat_interleave(p.shape[1])
        labels_are_independent = self.behavior.link == "sigmoid" and self.n_outputs > 1
        decisions = self.behavior.predict(p.flatten(0, 1), target, independent_labels=labels_are_independent)
        return decisions.view(p.shape[:2])

    def _utility(self, scores: Tensor, samples: Tensor) -> Tensor:
        return self.behavior(scores, self.target[samples])

    def _differs(self) -> Tensor:
        """(B, F) bool: players with an element whose input differs from a stand-in."""
        flags = [(x[:, None] != r).any(dim=1).flatten(1) for x, r in zip(self.inputs, self.removal.rows, strict=True)]
        return self.players.any_element(flags)

    def _choose_rows_per_call(self, perturbations_per_eval: int | None) -> int:
        if perturbations_per_eval is None:
            budget = ELEMENTS_PER_CALL.get(self.device.type, ELEMENTS_PER_CALL["other"])
            if all(x.dim() <= 2 for x in self.inputs):
                budget *= 4  # rows of a table do not blow up into feature maps
            return max(1, budget // max(1, sum(x[0].numel() for x in self.inputs)))
        if perturbations_per_eval < 1:
            raise ValueError(
                f"`perturbations_per_eval` must be at least 1, got {perturbations_per_eval}. "
                "Pass None for an automatic choice."
            )
        return int(perturbations_per_eval) * self.n_samples

    def _scores_of_whole_inputs(self) -> Tensor:
        """Scores (B, C) of the unmasked inputs, asked for twice: a model of changing mind cannot be explained."""
        everyone = torch.ones(1, self.n_players, dtype=torch.bool, device=self.device)
        whole = Block(everyone, stand_ins=torch.zeros(1, dtype=torch.int64, device=self.device))
        with self._model.visit():  # one visit, because each starts from the same random numbers
            first, second = (self._sweep(whole, lambda scores, samples: scores)[:, 0].clone() for _ in range(2))
            is_stochastic = not torch.allclose(first, second, rtol=1e-4, atol=1e-5, equal_nan=True)
            culprit = (
                self._model.find_stochastic_module(self.inputs, self.additional_forward_args) if is_stochastic else None
            )
        self._count(2)
        self._check_finite(first)
        if is_stochastic:
            raise ValueError(
                "`model` must be deterministic, got outputs that differ by up to "
                f"{float((first - second).abs().max()):.2g} between two equal calls; the randomness comes from "
                f"{culprit or 'the function itself'}. Turn off dropout or sampling in its forward pass."
            )
        for dtype in {x.dtype for x in self.inputs} & {torch.float16, torch.bfloat16}:
            warnings.warn(
                f"`model` computes in {dtype}, which tells values apart only from about {torch.finfo(dtype).eps:.1g} "
                "upwards. Explain it in float32, or use a `gamma` above that.",
                stacklevel=3,
            )
        return first.clone()

    def _choose_behavior(self, name: Any, link: Any, scores: Tensor) -> Behavior:
        if self._model.is_regressor and not callable(name) and name not in ("output", "loss"):
            raise ValueError(
                f"`behavior` must be 'output' or 'loss' for a regressor, got {name!r}. Pass behavior='output'."
            )
        if link == "auto":
            link = detect_link(scores, gives_probabilities=self._model.gives_probabilities)
        return Behavior(name, link)

    def _evaluate(self, masks: Tensor, read: Read) -> Tensor:
        """Read something off the model for all coalitions, (B, K, ...), never running the same row twice."""
        masks = self._check_masks(masks)
        if self._has_nulls:
            # Coalitions that differ only in null players are the same input: let null players always be present.
            masks = masks | (self.null_players[:1] if self._nulls_are_shared else self.null_players)[:, None]
        if masks.shape[0] == 1:
            first, place = unique(masks[0])
            return self._run(Block(masks[0, first]), read).index_select(1, place)
        samples = torch.arange(self.n_samples, device=self.device).repeat_interleave(masks.shape[1])
        first, place = unique(masks.flatten(0, 1), samples)
        values = self._run(Block(masks.flatten(0, 1)[first], samples[first]), read)
        return values.index_select(0, place).view(*masks.shape[:2], *values.shape[1:])

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
        """Evaluate distinct coalitions: (B, K, ...) for a block that all samples share, (K, ...) for single rows."""
        n_rows, dim = self.removal.n_rows, 1 if block.samples is None else 0
        block = block.against(n_rows)
        n_calls = len(block) * (self.n_samples if block.samples is None else 1)
        with self._model.visit(), tqdm(
            total=n_calls, desc="model rows", unit="row", unit_scale=True, leave=False, disable=not self.show_progress
        ) as bar:  # fmt: skip
            values = self._sweep(block, read, bar)
        values = values.clone()  # an ordinary tensor again, which later code may put through autograd
        self._check_finite(values)
        if block.samples is None:
            self._count(len(block))
        else:
            self._count(torch.bincount(block.samples, minlength=self.n_samples))
        return values if n_rows == 1 else values.unflatten(dim, (-1, n_rows)).mean(dim=dim + 1)

    def _check_finite(self, values: Tensor) -> None:
        if not bool(torch.isfinite(values).all()):
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
        return torch.cat(parts, dim=dim)

    def _read(self, block: Block, read: Read) -> Tensor:
        """One forward pass, read: (B, K, ...) or (K, ...)."""
        n, k = (self.n_samples, len(block)) if block.samples is None else (len(block), 1)
        rows = tuple(self._perturb(block, position).flatten(0, 1) for position in range(len(self.inputs)))
        extra = tuple(self._repeat(value, block, k) for value in self.additional_forward_args)
        samples = block.samples
        if samples is None:
            samples = torch.arange(self.n_samples, device=self.device).repeat_interleave(k)
        values = read(self._model(rows, extra), samples)
        if values.shape[:1] != (n * k,):
            raise ValueError(
                f"`behavior` must return one value per row, got shape {tuple(values.shape)} for {n * k} rows."
            )
        return values.unflatten(0, (n, k)) if block.samples is None else values

    def _perturb(self, block: Block, position: int) -> Tensor:
        """One input with absent players replaced: (B, K, ...) or (K, 1, ...)."""
        x, stand_in = self.inputs[position], self.removal.rows[position]
        masks = block.masks[None] if block.samples is None else block.masks[:, None]
        if block.samples is not None:
            x = x.index_select(0, block.samples)
            stand_in = stand_in if len(stand_in) == 1 else stand_in.index_select(0, block.samples)
        if block.stand_ins is not None:
            stand_in = stand_in.index_select(1, block.stand_ins)
            stand_in = stand_in if block.samples is None else stand_in.transpose(0, 1)
        if not self.players.is_identity:
            masks = self._spread_over_elements(masks, block, position)
        masks, x = masks.unflatten(-1, x.shape[1:]), x[:, None]
        if x.dtype == torch.bool:
            return torch.where(masks, x, stand_in)
        # One of the terms is exactly zero, so this is exact, and several times faster than `where` with broadcasting.
        keep = masks.to(x.dtype)
        return keep * x if self._removes_to_zero[position] else torch.addcmul((1 - keep) * stand_in, keep, x)

    def _spread_over_elements(self, masks: Tensor, block: Block, position: int) -> Tensor:
        """Masks over players as masks over the elements of one input."""
        ids = self.players.ids[position]
        if self.players.has_fixed:
            masks = pad(masks, (0, 1), value=True)
        if len(ids) == 1:
            return masks.index_select(-1, ids[0])
        ids = (ids if block.samples is None else ids.index_select(0, block.samples))[:, None]
        shape = torch.broadcast_shapes(masks.shape[:2], ids.shape[:2])
        return masks.expand(*shape, -1).gather(2, ids.expand(*shape, -1))

    def _repeat(self, value: Any, block: Block, k: int) -> Any:
        """A further model argument, following its samples if it has one row for each."""
        if not isinstance(value, Tensor) or value.dim() == 0 or value.shape[0] != self.n_samples:
            return value
        return value.repeat_interleave(k, dim=0) if block.samples is None else value.index_select(0, block.samples)
