"""Captum's attribution methods as explainers of a game.

Captum's classes are of two kinds:

* a **perturbation** method (KernelShap, ShapleyValueSampling, FeatureAblation, ...) gets one feature per player, 1 when
  present and 0 when absent, and its forward function is the game. Players, removal (background rows included), null
  players, chunks and evaluation mode are the game's;
* a **gradient** method (IntegratedGradients, ...) gets the inputs themselves and the gradient of the utility between
  baselines and inputs; attributions of the elements of a player are summed. Its baseline is the mean of the background
  rows when there are several, except that a method which takes a distribution of baselines (GradientShap) gets all of
  them. Methods without baselines (Saliency, InputXGradient) ignore removal.

Captum draws from the global random generators. They are seeded here and restored afterwards, and a method that draws
anew for each sample runs sample by sample from the same seed, so that no score depends on the rest of the batch.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor

from bivshap_lightning.explainers.estimator import check_not_too_many
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.rivals.captum_signatures import (
    accepted_arguments,
    captum,
    captum_methods,
    check_callable,
    check_options,
    find_method,
    is_method_name,
    name_of,
    why_not,
)
from bivshap_lightning.explainers.rivals.element_attribution import (
    arguments_of_the_model,
    baseline_rows,
    check_floating_point,
    connected,
    gather_by_player,
)
from bivshap_lightning.game import Game
from bivshap_lightning.game.evaluation_mode import global_rngs_kept, seed_global_rngs
from bivshap_lightning.game.model import is_out_of_memory

# Mask elements that Captum allocates for one call of the game, which cuts them into chunks for the model itself.
MASK_ELEMENTS_PER_CALL = 2**22
# From here on Captum itself advises against its enumeration of all orders.
TOO_MANY_TO_ENUMERATE = 10
DEFAULT_ORDERS, DEFAULT_STEPS = 25, 50
# Integrals have converged when attributions sum to the difference of outputs within this share of their sizes.
CONVERGED = 0.01
# Finding more nodes of a Gauss-Legendre rule takes seconds, whatever the model; the midpoint rule needs no search.
MOST_GAUSS_STEPS = 200


def is_captum_method(method: object) -> bool:
    """Whether this is the name of a method of Captum, one of its classes, or an attribution object.

    Example:
        >>> is_captum_method("kernel_shap"), is_captum_method("kernel")
        (True, False)
    """
    if isinstance(method, str):
        return is_method_name(method)
    return issubclass(method if isinstance(method, type) else type(method), captum().Attribution)


def captum_explainer(
    method: Any, *, options: Mapping[str, Any] | None = None, argument: str = "method"
) -> CaptumExplainer:
    """One of Captum's methods as an explainer.

    Args:
        method: a name out of :func:`~bivshap_lightning.explainers.rivals.captum_methods`, a class of Captum, or an
            attribution object. An object keeps its own forward function, which must return what the model of the
            game returns; it gets the game's inputs, baselines, target, players and further arguments as far as its
            ``attribute`` accepts them. It explains the score of the target, whatever the game's behavior is, and
            its evaluations are not counted.
        options: further arguments of Captum's ``attribute``, such as ``{"abs": False}`` for Saliency, whose scores
            have no sign otherwise.
        argument: what error messages call ``method``.

    Raises:
        ValueError: the name is unknown, or the method cannot explain a game.
        TypeError: ``method`` is none of these.

    Example:
        >>> game = Game(lambda x: x[:, 0] * x[:, 1] + x[:, 2], torch.ones(1, 3), behavior="output")
        >>> captum_explainer("shapley_values").explain(game).shapley
        tensor([[0.5000, 0.5000, 1.0000]])
        >>> captum_explainer("feature_ablation").explain(game).shapley
        tensor([[1., 1., 1.]])
    """
    given = dict(options or {})
    if isinstance(method, str):
        method = find_method(method, argument)
    kind = method if isinstance(method, type) else type(method)
    if not issubclass(kind, captum().Attribution):
        raise TypeError(
            f"`{argument}` must be a name out of {captum_methods()}, a class of Captum or an attribution object, got "
            f"{kind.__name__}."
        )
    name = name_of(kind)
    if kind is method:
        reason = why_not(kind, given)
        if reason is not None:
            raise ValueError(
                f"`{argument}` must be one of {captum_methods()} to be used by name or class, got {name!r}: {reason}. "
                "Build it around your model and pass the object, with `options` for what its `attribute` needs."
            )
    else:
        check_callable(method, name, given, argument)
    check_options(method, name, given)
    return CaptumExplainer(method, name, given)


@dataclass(frozen=True)
class CaptumExplainer:
    """A method of Captum that attributes to the players of a game; made by :func:`captum_explainer`.

    Attributes:
        method: a class of Captum, or an attribution object.
        name: the class in snake case.
        options: further arguments of Captum's ``attribute``.

    Example:
        >>> explainer = captum_explainer("integrated_gradients")
        >>> explainer.name, explainer.is_exact
        ('integrated_gradients', False)
        >>> game = Game(lambda x: (x**2).sum(dim=1), torch.tensor([[1.0, 2.0]]), behavior="output")
        >>> explainer.explain(game).shapley
        tensor([[1., 4.]])
    """

    method: Any
    name: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def is_exact(self) -> bool:
        """Whether the method neither draws samples nor integrates numerically."""
        return not {"n_samples", "nt_samples", "n_steps"} & set(accepted_arguments(self.method))

    @property
    def uses_masks(self) -> bool:
        """Whether the method perturbs present and absent players instead of the inputs themselves."""
        return isinstance(self.method, type) and self.is_a("PerturbationAttribution")

    @property
    def runs_sample_by_sample(self) -> bool:
        """Whether it draws anew for each sample, or takes background rows, which belong to a sample."""
        draws = {"n_samples", "nt_samples"} & set(accepted_arguments(self.method))
        return (bool(draws) and not self.is_a("ShapleyValueSampling")) or self.takes_background

    @property
    def takes_background(self) -> bool:
        """Whether its ``attribute`` requires a distribution of baselines."""
        baselines = accepted_arguments(self.method).get("baselines")
        return baselines is not None and baselines.default is baselines.empty

    def is_a(self, base: str) -> bool:
        """Whether the method is of a class of Captum, given by name."""
        kind = self.method if isinstance(self.method, type) else type(self.method)
        return issubclass(kind, getattr(captum(), base))

    def minimum_evaluations(self, game: Game) -> int:
        """The fewest model rows per sample for methods of variable cost; what the others cost.

        ShapleyValueSampling needs two orders, KernelShap and Lime two perturbations more than players, gradient methods
        one step. Attribution objects that run their own forward function count as gradient methods do.
        """
        n, n_rows = game.n_players, game.removal.n_rows
        if self.is_a("ShapleyValues"):
            self._check_enumerable(game)
            return (1 + n * math.factorial(n)) * n_rows
        if "n_samples" in accepted_arguments(self.method) and self.is_a("PerturbationAttribution"):
            return (2 * n if self.is_a("ShapleyValueSampling") else n + 2) * n_rows
        return (n + 1) * n_rows if self.uses_masks else 1

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Attribute to the players of a game.

        Args:
            game: the game; model, random generators and parameter gradients are not changed.
            n_evaluations: model rows per sample. KernelShap and Lime turn each into a perturbation,
                ShapleyValueSampling spends F of them per order (plus one row for the empty coalition), gradient methods
                one per step or draw. IntegratedGradients starts with 50 steps and doubles them for samples whose
                attributions miss the difference of outputs by more than 1 % of the sum of their sizes; more than 200
                steps are those of the midpoint rule. None for 25 orders; for ``25 * F`` perturbations but at most
                ``max(1024, 4 * F)``, because Captum takes about a quarter of a millisecond for each, whatever the
                model; and for 50 steps or draws. Methods of fixed cost ignore it.
            seed: seed of Captum's random draws.

        Returns:
            An explanation without interactions. Attributions have a sign where the method has one and are exactly 0
            for null players.

        Raises:
            ValueError: the method cannot explain this game, or its attributions are not finite.
        """
        if n_evaluations is not None:
            check_not_too_many(n_evaluations // game.removal.n_rows, self.name)
        if n_evaluations is not None and n_evaluations < 1:
            raise ValueError(f"`n_evaluations` must be at least 1, got {n_evaluations}. Pass None for the default.")
        if self.is_a("ShapleyValues"):
            self._check_enumerable(game)
        before = game.n_evaluations
        with global_rngs_kept([game.device]), warnings.catch_warnings():
            # Announcements of hooks (DeepLift, GuidedBackprop), which Captum removes again.
            warnings.filterwarnings("ignore", r"Setting (forward, backward|backward) hooks", UserWarning)
            scores = _Run(self, game, n_evaluations, seed).scores().masked_fill(game.null_players, 0)
        if not bool(torch.isfinite(scores).all()):
            raise ValueError(
                f"`game` must have finite attributions, got {int((~torch.isfinite(scores)).sum())} NaN or infinite "
                f"of {scores.numel()} from {self.name!r}. Its gradient may not exist at the inputs or between them "
                "and their baselines: try a perturbation method."
            )
        spent = game.n_evaluations - before
        return Explanation.of(
            game, method=self.name, seed=seed, shapley=scores, n_evaluations=spent, is_exact=self.is_exact
        )

    def _check_enumerable(self, game: Game) -> None:
        if game.n_players >= TOO_MANY_TO_ENUMERATE:
            raise ValueError(
                f"`game` must have fewer than {TOO_MANY_TO_ENUMERATE} players for 'shapley_values', got "
                f"{game.n_players}, in {game.n_players}! orders. Use 'shapley_sampling', or 'exact'."
            )


@dataclass(frozen=True)
class _Run:
    """One run of a method on a game."""

    explainer: CaptumExplainer
    game: Game
    n_evaluations: int | None
    seed: int

    def scores(self) -> Tensor:
        """(B, F) attributions in the game's dtype."""
        return self._attribute_to_masks() if self.explainer.uses_masks else self._attribute_to_inputs()

    def _attribute_to_masks(self) -> Tensor:
        """Captum sees ones for present players and zeros for absent ones; the game evaluates them."""
        explainer, game = self.explainer, self.game
        n_samples, n_players = game.n_samples, game.n_players
        width = max(2, n_players)  # a dummy feature beside a single player, because KernelShap cannot draw from one
        method = explainer.method(lambda z, rows: game.values_of(z[:, :n_players] > 0.5, rows))
        size = 1 if explainer.runs_sample_by_sample else n_samples
        arguments = self._accepted(
            baselines=0,
            n_samples=self._n_draws(),
            perturbations_per_eval=self._n_together(MASK_ELEMENTS_PER_CALL // (size * width)),
            return_input_shape=False,
        )
        present = torch.ones(size, width, device=game.device)
        scores = torch.zeros(n_samples, n_players, dtype=game.dtype, device=game.device)
        for rows in torch.arange(n_samples, device=game.device).split(size):
            if not bool(game.null_players[rows].all()):
                seed_global_rngs(self.seed, game.device)
                found = method.attribute(present, additional_forward_args=(rows,), **arguments)
                scores[rows] = found.reshape(size, width)[:, :n_players].to(scores)
        return scores

    def _attribute_to_inputs(self) -> Tensor:
        """Captum sees the inputs; attributions of their elements are gathered by player."""
        explainer, game = self.explainer, self.game
        if not explainer.is_a("PerturbationAttribution"):
            check_floating_point(game, explainer.name)
        with game.differentiable() as utility:
            given = explainer.method
            method = given(connected(utility)) if isinstance(given, type) else given
            while True:
                try:
                    return self._attribute_in_parts(method)
                except (MemoryError, RuntimeError) as error:
                    if not is_out_of_memory(error):
                        self._refuse_without_gradients(error)
                    if not is_out_of_memory(error) or game.rows_per_call == 1:
                        raise
                    game.rows_per_call = max(1, game.rows_per_call // 2)

    def _refuse_without_gradients(self, error: BaseException) -> None:
        """Raise ValueError for an error of a backward pass, such as that of recurrent layers of cuDNN in eval mode."""
        if any(frame.f_code is torch.autograd.grad.__code__ for frame, _ in walk_tb(error.__traceback__)):
            raise ValueError(
                f"`model` must have a backward pass in eval mode for {self.explainer.name!r}, got "
                f"{type(error).__name__}: {' '.join(str(error).split())[:300]} Use a perturbation method."
            ) from error

    def _attribute_in_parts(self, method: Any) -> Tensor:
        game = self.game
        size = 1 if self.explainer.runs_sample_by_sample else game.rows_per_call
        repeats = "feature_mask" in accepted_arguments(method)
        scores = torch.zeros(game.n_samples, game.n_players, dtype=game.dtype, device=game.device)
        for rows in torch.arange(game.n_samples, device=game.device).split(size):
            if bool(game.null_players[rows].all()):
                continue
            for part, found in self._attribute_rows(method, rows):
                shapes, expected = [tuple(a.shape) for a in found], [(len(part), *x.shape[1:]) for x in game.inputs]
                if shapes != expected:
                    raise ValueError(
                        f"`method` must attribute to every element of the inputs, of shapes {expected}, got {shapes} "
                        f"from {self.explainer.name!r}."
                    )
                scores[part] = gather_by_player(game, part, found, average=repeats)
        return scores

    def _attribute_rows(self, method: Any, rows: Tensor) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
        """Attributions of some of the samples; of an integral again, with more steps, for those not converged."""
        n_steps, left = min(DEFAULT_STEPS, self.n_evaluations or DEFAULT_STEPS), self.n_evaluations or 0
        accepted = set(accepted_arguments(method))
        may_refine = {"n_steps", "return_convergence_delta"} <= accepted and not self.explainer.options
        while True:
            seed_global_rngs(self.seed, self.game.device)
            # Another round takes twice the steps of this one; telling whether it is needed takes two rows.
            if not may_refine or left < 3 * n_steps + 2:
                n_steps = n_steps if may_refine else self.n_evaluations or DEFAULT_STEPS
                yield rows, self._average_over_draws(method, self._input_arguments(rows, n_steps))
                return
            arguments = self._input_arguments(rows, n_steps)
            found, delta = method.attribute(**arguments, return_convergence_delta=True)
            yield rows, _as_tuple(found)
            size = sum(a.detach().abs().reshape(len(rows), -1).sum(dim=1) for a in _as_tuple(found))
            rows = rows[(delta.abs() > CONVERGED * size).to(rows.device)]
            if not len(rows):
                return
            n_steps, left = 2 * n_steps, left - n_steps - 2

    def _input_arguments(self, rows: Tensor, n_steps: int) -> dict[str, Any]:
        """Arguments of ``attribute`` for some of the samples."""
        explainer, game = self.explainer, self.game
        inputs = tuple(x[rows] for x in game.inputs)
        if not explainer.is_a("PerturbationAttribution"):
            inputs = tuple(x.requires_grad_() for x in inputs)
        arguments: dict[str, Any] = {
            "inputs": inputs,
            "n_samples": self._n_draws(),
            "n_steps": n_steps,
            "internal_batch_size": game.rows_per_call,
            "perturbations_per_eval": self._n_together(game.rows_per_call // len(rows)),
        }
        if n_steps > MOST_GAUSS_STEPS:
            arguments["method"] = "riemann_middle"
        if "baselines" in accepted_arguments(explainer.method):
            arguments["baselines"] = baseline_rows(game, rows, all_of_them=explainer.takes_background)
        if isinstance(explainer.method, type):
            arguments["additional_forward_args"] = (rows,)
        else:
            arguments |= arguments_of_the_model(game, rows)
        if len(inputs) == 1:
            alone = {"inputs", "baselines", "feature_mask"} & set(arguments)
            arguments |= {name: arguments[name][0] for name in alone}
        return self._accepted(**arguments)

    def _average_over_draws(self, method: Any, arguments: dict[str, Any]) -> tuple[Tensor, ...]:
        """Call ``attribute``, with no more draws at a time than rows fit into memory."""
        limit, n_draws = self.game.rows_per_call, arguments.get("n_samples")
        if n_draws is None or not self.explainer.is_a("GradientAttribution"):
            return _as_tuple(method.attribute(**arguments))
        sums: tuple[Tensor, ...] = ()
        for start in range(0, n_draws, limit):
            arguments["n_samples"] = min(limit, n_draws - start)
            found = _as_tuple(method.attribute(**arguments))
            found = tuple(a * (arguments["n_samples"] / n_draws) for a in found)
            sums = tuple(a + b for a, b in zip(sums, found, strict=True)) if sums else found
        return sums

    def _accepted(self, **arguments: Any) -> dict[str, Any]:
        accepted = accepted_arguments(self.explainer.method)
        known = {name: value for name, value in arguments.items() if name in accepted}
        return known | dict(self.explainer.options)

    def _n_together(self, room: int) -> int:
        """How many perturbations Captum evaluates together; no more than there are, as it allocates all of them."""
        by_sample = self.explainer.runs_sample_by_sample
        return max(1, min(room, self._n_draws() if by_sample else self.game.n_players + 1))

    def _n_draws(self) -> int:
        """``n_samples`` of methods that have one: orders, perturbations or draws."""
        explainer, n, n_rows = self.explainer, self.game.n_players, self.game.removal.n_rows
        if not explainer.is_a("PerturbationAttribution"):
            return self.n_evaluations or DEFAULT_STEPS
        in_orders = explainer.is_a("ShapleyValueSampling")
        if self.n_evaluations is None:
            return DEFAULT_ORDERS if in_orders else min(DEFAULT_ORDERS * n, max(1024, 4 * n))
        n_coalitions, least = self.n_evaluations // n_rows, 2 * n if in_orders else n + 2
        if n_coalitions < least and "n_samples" in accepted_arguments(explainer.method):
            per_row = f" ({least} coalitions times {n_rows} background rows)" if n_rows > 1 else ""
            raise ValueError(
                f"`n_evaluations` must be at least {least * n_rows}{per_row} for {explainer.name!r} with {n} players, "
                f"got {self.n_evaluations}. Raise it, or group players by `feature_mask`."
            )
        return n_coalitions // n if in_orders else n_coalitions


def _as_tuple(found: Any) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)
