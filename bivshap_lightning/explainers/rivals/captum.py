"""Captum's attribution methods, playing a game of ours.

By Captum's own family tree there are two ways to play:

* a **perturbation** method (KernelShap, ShapleyValueSampling, FeatureAblation, ...) sees one feature per player, 1 when
  present and 0 when absent, and asks the game for values. Players, removal (background rows included), null
  players, chunks and evaluation mode are the game's;
* a **gradient** method (IntegratedGradients, ...) sees the inputs themselves and follows the gradient of the utility
  from the stand-ins to them; what it attributes to the elements of a player is summed. Its baseline is the mean of
  the background rows when there are several, except that a method which asks for a distribution of baselines
  (GradientShap) gets all of them. Methods without baselines (Saliency, InputXGradient) know nothing of removal.

Captum draws from the global random generators. They are seeded here and put back afterwards, and a method that draws
anew for each sample runs sample by sample from the same seed, so that no score depends on the rest of the batch.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bivshap_lightning.explainers.rivals.captum_signatures import (
    FROM_THE_GAME,
    accepted_arguments,
    captum,
    captum_methods,
    find_method,
    missing_arguments,
    name_of,
    require_scikit_learn,
    why_not,
)
from bivshap_lightning.explainers.rivals.element_attribution import (
    arguments_of_the_model,
    check_floating_point,
    connected,
    gather_by_player,
    stand_ins,
)
from bivshap_lightning.game import Game
from bivshap_lightning.game.model import global_rngs_kept, is_out_of_memory

# Mask elements that Captum lays out for one call of the game, which cuts them into chunks for the model itself.
MASK_ELEMENTS_PER_CALL = 2**22
# From here on Captum itself advises against its enumeration of all orders.
TOO_MANY_TO_ENUMERATE = 10
DEFAULT_ORDERS, DEFAULT_STEPS = 25, 50


def captum_rival(
    method: Any,
    *,
    n_evaluations: int | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> CaptumRival:
    """One of Captum's methods as a rival.

    Args:
        method: a name out of :func:`~bivshap_lightning.explainers.rivals.captum_signatures`, a class of Captum, or an
            attribution object. An object keeps its own forward function, which must return what the model of the
            game returns; it gets the game's inputs, baselines, target, players and further arguments as far as its
            ``attribute`` accepts them. It explains the score of the target, whatever the game's behavior is, and
            its evaluations are not counted.
        n_evaluations: model rows per sample. KernelShap and Lime turn each into a perturbation, ShapleyValueSampling
            spends F of them per order (plus one row for the empty coalition), gradient methods one per step or draw.
            None for 25 orders; for ``25 * F`` perturbations but at most ``max(1024, 4 * F)``, because Captum takes
            about a quarter of a millisecond for each, whatever the model; and for 50 steps or draws. Methods of
            fixed cost ignore it.
        seed: start of Captum's random draws.
        options: further arguments of Captum's ``attribute``, such as ``{"abs": False}`` for Saliency, whose scores
            have no sign otherwise.

    Raises:
        ValueError: the name is unknown, or the method cannot play.
        TypeError: ``method`` is none of these.
        ImportError: KernelShap or Lime without scikit-learn.

    Example:
        >>> game = Game(lambda x: x[:, 0] * x[:, 1] + x[:, 2], torch.ones(1, 3), behavior="output")
        >>> captum_rival("shapley_values").attribute(game)
        tensor([[0.5000, 0.5000, 1.0000]])
        >>> captum_rival("feature_ablation").attribute(game)
        tensor([[1., 1., 1.]])
    """
    given = dict(options or {})
    if isinstance(method, str):
        method = find_method(method)
    if n_evaluations is not None and n_evaluations < 1:
        raise ValueError(f"`n_evaluations` must be at least 1, got {n_evaluations}. Pass None for the default.")
    kind = method if isinstance(method, type) else type(method)
    if not issubclass(kind, captum().Attribution):
        raise TypeError(
            f"`method` must be a name out of {captum_methods()}, a class of Captum or an attribution object, got "
            f"{kind.__name__}."
        )
    name = name_of(kind)
    if kind is method:
        reason = why_not(kind, given)
        if reason is not None:
            raise ValueError(
                f"`method` must be one of {captum_methods()} when it is built here, got {name!r}: {reason}. Build it "
                "around your model and pass the object, with `options` for what its `attribute` needs."
            )
    else:
        _check_callable(method, name, given)
    _check_options(method, name, given)
    require_scikit_learn(kind, name)
    return CaptumRival(method, name, n_evaluations, seed, given)


@dataclass(frozen=True)
class CaptumRival:
    """A method of Captum that scores the players of a game; made by :func:`captum_rival`.

    Attributes:
        method: a class of Captum, or an attribution object.
        name: the class in snake case.
        n_evaluations: model rows per sample, None for the method's default.
        seed: start of Captum's random draws.
        options: further arguments of Captum's ``attribute``.

    Example:
        >>> rival = captum_rival("integrated_gradients")
        >>> rival.name
        'integrated_gradients'
        >>> rival.attribute(Game(lambda x: (x**2).sum(dim=1), torch.tensor([[1.0, 2.0]]), behavior="output"))
        tensor([[1., 4.]])
    """

    method: Any
    name: str
    n_evaluations: int | None = None
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def attribute(self, game: Game) -> Tensor:
        """Score the players of a game.

        Args:
            game: the game; model, random generators and parameter gradients stay as they are.

        Returns:
            (B, F) scores in the game's dtype, signed where the method has a sign, exactly 0 for null players.

        Raises:
            ValueError: the method cannot play this game, or its scores are not finite.
        """
        if self._is_a("ShapleyValues") and game.n_players >= TOO_MANY_TO_ENUMERATE:
            raise ValueError(
                f"`game` must have fewer than {TOO_MANY_TO_ENUMERATE} players for 'shapley_values', got "
                f"{game.n_players}, in {game.n_players}! orders. Use 'shapley_sampling', or BivariateShapley with "
                "method='exact'."
            )
        with global_rngs_kept([game.device]), warnings.catch_warnings():
            # Announcements of hooks (DeepLift, GuidedBackprop), which Captum removes again.
            warnings.filterwarnings("ignore", r"Setting (forward, backward|backward) hooks", UserWarning)
            scores = self._play_with_masks(game) if self._plays_with_masks else self._play_with_inputs(game)
        scores = scores.masked_fill(game.null_players, 0)
        if not bool(torch.isfinite(scores).all()):
            raise ValueError(
                f"`game` must have finite attributions, got {int((~torch.isfinite(scores)).sum())} NaN or infinite "
                f"of {scores.numel()} from {self.name!r}. Its gradient may not exist at the inputs or between them "
                "and their stand-ins: try a perturbation method."
            )
        return scores

    @property
    def _plays_with_masks(self) -> bool:
        return isinstance(self.method, type) and issubclass(self.method, captum().PerturbationAttribution)

    @property
    def _goes_sample_by_sample(self) -> bool:
        """It draws anew for each sample, or takes background rows, which belong to a sample."""
        draws = {"n_samples", "nt_samples"} & set(accepted_arguments(self.method))
        return (bool(draws) and not self._is_a("ShapleyValueSampling")) or self._wants_background

    @property
    def _wants_background(self) -> bool:
        baselines = accepted_arguments(self.method).get("baselines")
        return baselines is not None and baselines.default is baselines.empty

    def _is_a(self, base: str) -> bool:
        kind = self.method if isinstance(self.method, type) else type(self.method)
        return issubclass(kind, getattr(captum(), base))

    def _play_with_masks(self, game: Game) -> Tensor:
        """Present players are ones, absent ones zeros, and the game says what that is worth."""
        n_samples, n_players = game.n_samples, game.n_players
        width = max(2, n_players)  # a dummy keeps a lone player company, from whom KernelShap cannot draw
        method = self.method(lambda z, rows: game.values_of(z[:, :n_players] > 0.5, rows))
        size = 1 if self._goes_sample_by_sample else n_samples
        arguments = self._accepted(
            baselines=0,
            n_samples=self._n_draws(game),
            perturbations_per_eval=self._at_once(game, MASK_ELEMENTS_PER_CALL // (size * width)),
            return_input_shape=False,
        )
        present = torch.ones(size, width, device=game.device)
        scores = torch.zeros(n_samples, n_players, dtype=game.dtype, device=game.device)
        for rows in torch.arange(n_samples, device=game.device).split(size):
            if not bool(game.null_players[rows].all()):
                _seed_global_rngs(self.seed, game.device)
                found = method.attribute(present, additional_forward_args=(rows,), **arguments)
                scores[rows] = found.reshape(size, width)[:, :n_players].to(scores)
        return scores

    def _play_with_inputs(self, game: Game) -> Tensor:
        """Elements of the inputs are attributed, and count for their players."""
        if not self._is_a("PerturbationAttribution"):
            check_floating_point(game, self.name)
        with game.differentiable() as utility:
            method = self.method(connected(utility)) if isinstance(self.method, type) else self.method
            while True:
                try:
                    return self._attribute_in_parts(game, method)
                except (MemoryError, RuntimeError) as error:
                    if not is_out_of_memory(error) or game.rows_per_call == 1:
                        raise
                    game.rows_per_call = max(1, game.rows_per_call // 2)

    def _attribute_in_parts(self, game: Game, method: Any) -> Tensor:
        size = 1 if self._goes_sample_by_sample else game.rows_per_call
        repeats = "feature_mask" in accepted_arguments(method)
        scores = torch.zeros(game.n_samples, game.n_players, dtype=game.dtype, device=game.device)
        for rows in torch.arange(game.n_samples, device=game.device).split(size):
            if not bool(game.null_players[rows].all()):
                _seed_global_rngs(self.seed, game.device)
                arguments = self._input_arguments(game, rows)
                found = self._average_over_draws(method, arguments, game.rows_per_call)
                shapes, expected = [tuple(a.shape) for a in found], [(len(rows), *x.shape[1:]) for x in game.inputs]
                if shapes != expected:
                    raise ValueError(
                        f"`method` must attribute to every element of the inputs, of shapes {expected}, got {shapes} "
                        f"from {self.name!r}."
                    )
                scores[rows] = gather_by_player(game, rows, found, average=repeats)
        return scores

    def _input_arguments(self, game: Game, rows: Tensor) -> dict[str, Any]:
        """What ``attribute`` is called with for some of the samples."""
        inputs = tuple(x[rows] for x in game.inputs)
        if not self._is_a("PerturbationAttribution"):
            inputs = tuple(x.requires_grad_() for x in inputs)
        arguments: dict[str, Any] = {
            "inputs": inputs,
            "n_samples": self._n_draws(game),
            "n_steps": self.n_evaluations or DEFAULT_STEPS,
            "internal_batch_size": game.rows_per_call,
            "perturbations_per_eval": self._at_once(game, game.rows_per_call // len(rows)),
        }
        if "baselines" in accepted_arguments(self.method):
            arguments["baselines"] = stand_ins(game, rows, all_of_them=self._wants_background)
        if isinstance(self.method, type):
            arguments["additional_forward_args"] = (rows,)
        else:
            arguments |= arguments_of_the_model(game, rows)
        if len(inputs) == 1:
            alone = {"inputs", "baselines", "feature_mask"} & set(arguments)
            arguments |= {name: arguments[name][0] for name in alone}
        return self._accepted(**arguments)

    def _average_over_draws(self, method: Any, arguments: dict[str, Any], limit: int) -> tuple[Tensor, ...]:
        """Call ``attribute``, with no more draws at a time than rows fit into memory."""
        n_draws = arguments.get("n_samples")
        if n_draws is None or not self._is_a("GradientAttribution"):
            return _as_tuple(method.attribute(**arguments))
        sums: tuple[Tensor, ...] = ()
        for start in range(0, n_draws, limit):
            arguments["n_samples"] = min(limit, n_draws - start)
            found = _as_tuple(method.attribute(**arguments))
            found = tuple(a * (arguments["n_samples"] / n_draws) for a in found)
            sums = tuple(a + b for a, b in zip(sums, found, strict=True)) if sums else found
        return sums

    def _accepted(self, **arguments: Any) -> dict[str, Any]:
        accepted = accepted_arguments(self.method)
        return {name: value for name, value in arguments.items() if name in accepted} | dict(self.options)

    def _at_once(self, game: Game, room: int) -> int:
        """How many perturbations Captum lays out together: never more than it has, because it prepares for all."""
        n_perturbations = self._n_draws(game) if self._goes_sample_by_sample else game.n_players + 1
        return max(1, min(room, n_perturbations))

    def _n_draws(self, game: Game) -> int:
        """``n_samples`` of methods that have one: orders, perturbations or draws."""
        if not self._is_a("PerturbationAttribution"):
            return self.n_evaluations or DEFAULT_STEPS
        n, n_rows = game.n_players, game.removal.n_rows
        in_orders = self._is_a("ShapleyValueSampling")
        if self.n_evaluations is None:
            return DEFAULT_ORDERS if in_orders else min(DEFAULT_ORDERS * n, max(1024, 4 * n))
        n_coalitions, least = self.n_evaluations // n_rows, 2 * n if in_orders else n + 2
        if n_coalitions < least and "n_samples" in accepted_arguments(self.method):
            per_row = f" ({least} coalitions times {n_rows} background rows)" if n_rows > 1 else ""
            raise ValueError(
                f"`n_evaluations` must be at least {least * n_rows}{per_row} for {self.name!r} with {n} players, got "
                f"{self.n_evaluations}. Raise it, or group players by `feature_mask`."
            )
        return n_coalitions // n if in_orders else n_coalitions


def _check_callable(method: Any, name: str, given: Mapping[str, Any]) -> None:
    """Refuse an attribution object that cannot be called with what a game has."""
    if not hasattr(method, "attribute") or "inputs" not in accepted_arguments(method):
        raise ValueError(f"`method` must attribute to `inputs`, got {name!r}. Pass the method that it wraps.")
    missing = missing_arguments(method, given)
    if missing:
        raise ValueError(
            f"`options` must hold {', '.join(f'`{p}`' for p in missing)} for {name!r}, got {sorted(given)}."
        )


def _check_options(method: Any, name: str, given: Mapping[str, Any]) -> None:
    accepted = set(accepted_arguments(method)) - {*FROM_THE_GAME, "return_convergence_delta", "return_input_shape"}
    unknown = sorted(set(given) - accepted)
    if unknown:
        raise ValueError(f"`options` must be among {sorted(accepted)} for {name!r}, got {unknown}.")


def _as_tuple(found: Any) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def _seed_global_rngs(seed: int, device: torch.device) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.default_generator.manual_seed(seed)  # `torch.manual_seed` would also seed devices that are not kept
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)
