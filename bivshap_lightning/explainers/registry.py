"""The registry of explainers: one protocol and one list of names for our estimators and all other methods.

To add a method, write one file with a class that has the shape of :class:`Explainer` (any method on a whole game) or
of :class:`~bivshap_lightning.explainers.estimator.Estimator` (bivariate Shapley values of a game without null
players), decorate it with :func:`register`, and import the file in ``explainers/__init__.py``. It is then known by name
to :class:`~bivshap_lightning.BivariateShapley`, the callback and the benchmarks. Captum's methods are known by name as
well, except for those of a registered name; an object of the right shape needs no registration.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from bivshap_lightning.explainers.estimator import Estimator, EstimatorExplainer
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.game import Game


@runtime_checkable
class Explainer(Protocol):
    """A method that explains a game, with or without interactions.

    Example:
        >>> import torch
        >>> class LeaveOneOut:
        ...     name, is_exact = "leave_one_out", True
        ...
        ...     def minimum_evaluations(self, game):
        ...         return (game.n_players + 1) * game.removal.n_rows
        ...
        ...     def explain(self, game, n_evaluations=None, seed=0):
        ...         before = game.n_evaluations
        ...         whole = torch.ones(1, 1, game.n_players, dtype=torch.bool)
        ...         without = ~torch.eye(game.n_players, dtype=torch.bool)[None]
        ...         values = game(torch.cat([whole, without], dim=1))
        ...         return Explanation.of(
        ...             game,
        ...             method=self.name,
        ...             seed=seed,
        ...             is_exact=True,
        ...             shapley=values[:, :1] - values[:, 1:],
        ...             n_evaluations=game.n_evaluations - before,
        ...         )
        >>> isinstance(LeaveOneOut(), Explainer)
        True
        >>> game = Game(lambda x: x.prod(dim=1), torch.tensor([[2.0, 3.0]]), behavior="output")
        >>> find_explainer(LeaveOneOut()).explain(game).shapley
        tensor([[6., 6.]])
    """

    @property
    def name(self) -> str:
        """The name under which it is registered, logged and drawn."""

    @property
    def is_exact(self) -> bool:
        """Whether its values are exactly those that it defines, without sampling or numerical integration."""

    def minimum_evaluations(self, game: Game) -> int:
        """The fewest model rows per sample with which it can explain a game.

        Raises:
            ValueError: it cannot explain this game with any number.
        """

    def explain(self, game: Game, n_evaluations: int | None = None, seed: int = 0) -> Explanation:
        """Explain all samples of a game.

        Args:
            game: the game; the method gets values from it and must not change the model or random generators.
            n_evaluations: at most this many model rows per sample; None for the method's default.
            seed: seed of the method's random draws.
        """


@runtime_checkable
class StagedExplainer(Explainer, Protocol):
    """An explainer that can draw rows in stages until its values are accurate enough."""

    def explain_until(
        self,
        game: Game,
        target_error: float,
        n_evaluations: int | None = None,
        seed: int = 0,
        *,
        interruptible: bool = False,
    ) -> Explanation:
        """Explain all samples of a game.

        Args:
            game: the game.
            target_error: a sample stops once the relative error of its E2 is estimated to be at most this.
            n_evaluations: at most this many model rows per sample; None for the method's default.
            seed: seed of the method's random draws.
            interruptible: a KeyboardInterrupt ends the stages, and the estimates so far are the result.
        """


# A registered name, a Captum method (name, class or attribution object), or an object of the shape of `Explainer` or
# `Estimator`. Captum's classes have no common type that can be named without importing Captum.
ExplainerLike: TypeAlias = Any
T = TypeVar("T")

_EXPLAINERS: dict[str, Explainer] = {}


def register(explainer: T) -> T:
    """Make an explainer or estimator known by its name; a decorator for classes, or a function for objects.

    Args:
        explainer: an object of the shape of :class:`Explainer` or
            :class:`~bivshap_lightning.explainers.estimator.Estimator`, or a class of such objects that can be made
            without arguments.

    Returns:
        The argument itself.

    Raises:
        TypeError: it has neither shape.
        ValueError: the name is taken by another class.

    Example:
        >>> from bivshap_lightning.explainers.exact import Exact
        >>> register(Exact(exact_limit=16)) == Exact()
        True
    """
    made = explainer() if isinstance(explainer, type) else explainer
    found = _as_explainer(made)
    if found is None:
        raise TypeError(
            f"`explainer` must have `name`, `is_exact`, `minimum_evaluations` and `explain` (or `estimate`), got "
            f"{type(made).__name__}. See bivshap_lightning.explainers.registry.Explainer."
        )
    taken = _EXPLAINERS.get(found.name)
    if taken is not None and _class_name(taken) != _class_name(found):
        raise ValueError(
            f"`explainer` must have a name of its own, got {found.name!r}, which {_class_name(taken)} has. Rename it."
        )
    _EXPLAINERS[found.name] = found
    return explainer


def explainer_names() -> tuple[str, ...]:
    """Names of all explainers: the registered ones, then Captum's methods that can be used by name.

    Example:
        >>> names = explainer_names()
        >>> [name in names for name in ("auto", "exact", "kernel", "paper_sampling", "kernel_shap")]
        [True, True, True, True, True]
    """
    from bivshap_lightning.explainers.rivals.captum_signatures import captum_methods

    return (*sorted(_EXPLAINERS), *(name for name in captum_methods() if name not in _EXPLAINERS))


def find_explainer(method: ExplainerLike, *, argument: str = "method") -> Explainer:
    """The explainer for a name or an object.

    Args:
        method: a name out of :func:`explainer_names`; a class or attribution object of Captum; or any object of the
            shape of :class:`Explainer` or :class:`~bivshap_lightning.explainers.estimator.Estimator`.
        argument: what error messages call it.

    Raises:
        ValueError: a name is unknown, or a method of Captum cannot be used this way.
        TypeError: the object is none of these.

    Example:
        >>> import torch
        >>> game = Game(lambda x: x.amax(dim=1), torch.ones(1, 2), behavior="output")
        >>> find_explainer("auto").explain(game).shapley
        tensor([[0.5000, 0.5000]])
        >>> find_explainer("feature_ablation").explain(game).shapley
        tensor([[0., 0.]])
    """
    from bivshap_lightning.explainers.rivals.captum import captum_explainer, is_captum_method

    if isinstance(method, str) and method in _EXPLAINERS:
        return _EXPLAINERS[method]
    if isinstance(method, str) and method == "l2x":
        raise ValueError(
            f"`{argument}` must be a trained selector, got the name 'l2x'. Train one with "
            "`bivshap_lightning.callbacks.fit_l2x(model, data, n_selected=k)` and pass it, or `L2X.load(path)`."
        )
    if not isinstance(method, (str, type)):
        found = _as_explainer(method)
        if found is not None:
            return found
    if is_captum_method(method):
        return captum_explainer(method, argument=argument)
    if isinstance(method, str):
        close = get_close_matches(method, explainer_names(), n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
        raise ValueError(
            f"`{argument}` must be the name of an explainer, got {method!r}. {hint}The names are {explainer_names()}."
        )
    got = f"the class {method.__name__}" if isinstance(method, type) else type(method).__name__
    raise TypeError(
        f"`{argument}` must be a name out of `explainer_names()`, a method of Captum, or an object with `name`, "
        f"`is_exact`, `minimum_evaluations` and `explain`, got {got}."
    )


def explain_until(
    explainer: Explainer,
    game: Game,
    target_error: float,
    n_evaluations: int | None = None,
    seed: int = 0,
    *,
    interruptible: bool = False,
) -> Explanation:
    """Explain a game with rows in stages, see :class:`StagedExplainer`.

    Raises:
        ValueError: the explainer has no standard errors of bivariate values, so no stages either.

    Example:
        >>> import torch
        >>> game = Game(lambda x: x.amax(dim=1) + x.sum(dim=1), torch.ones(1, 20), behavior="output")
        >>> explain_until(find_explainer("kernel"), game, 0.1).notes[0][:25]
        'target_error 0.1 reached:'
    """
    if not isinstance(explainer, StagedExplainer):
        raise ValueError(
            f"`target_error` must be left out for method={explainer.name!r}, which does not draw rows in stages, got "
            f"{target_error}. Pass `n_evaluations` instead."
        )
    return explainer.explain_until(game, target_error, n_evaluations, seed, interruptible=interruptible)


def _as_explainer(candidate: object) -> Explainer | None:
    if isinstance(candidate, Explainer):
        return candidate
    return EstimatorExplainer(candidate) if isinstance(candidate, Estimator) else None


def _class_name(explainer: Explainer) -> str:
    """The class of an explainer or of the estimator in it. A class that is defined again keeps its name."""
    kind = type(explainer.estimator if isinstance(explainer, EstimatorExplainer) else explainer)
    return f"{kind.__module__}.{kind.__qualname__}"
