"""`BivariateShapley`: explain a model by any explainer, with Captum's `attribute` signature."""

from __future__ import annotations

from typing import Any, Literal

from bivshap_lightning.explainers.auto import Auto, Purpose
from bivshap_lightning.explainers.estimator import EstimatorExplainer
from bivshap_lightning.explainers.exact import Exact
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.registry import Explainer, ExplainerLike, find_explainer
from bivshap_lightning.game import Game
from bivshap_lightning.game.behavior import BehaviorFunction, BehaviorName, Link
from bivshap_lightning.game.model import global_rngs_kept


class BivariateShapley:
    """Explain a model by directed feature interactions.

    Args:
        model: a torch module, a function from inputs to scores, or an estimator.
        method: how values are computed. "exact" enumerates all coalitions of the players that are not null. "trees" is
            exact for tree ensembles of any size and does not run the model: forests explained by their probability,
            boosted trees by their margin ("logit"), regressions by their output (see
            :mod:`bivshap_lightning.game.trees`). "sampling" follows random orders; where it saw no gain, the
            standard error bounds what a gain may still be. "kernel" fits a regression; its weights are closer to the
            truth at the same cost, its zeros are only small.
            "auto" is exact wherever trees can be read or enumeration costs no more than ``n_evaluations``, and
            otherwise what suits the ``purpose``. Any other name out of
            :func:`~bivshap_lightning.explainers.explainer_names`, a method of Captum (name, class or attribution
            object), or an object of the shape of :class:`~bivshap_lightning.explainers.Explainer` works as well.
        behavior: what is explained: "probability", "logit", "log_odds", "loss" (negative), "output", or a function
            of (scores (N, C), target (N,)).
        seed: seed of the random design. Samples with equally many non-null players get the same coalitions, whatever
            the other samples are.
        link: what the model's scores mean: "softmax", "sigmoid", "identity", or "auto" for the rule of
            :mod:`bivshap_lightning.game.behavior`.
        purpose: of "auto", what it serves when it cannot be exact: "redundancy" (sampling) or "weights" (kernel).
        exact_limit: of "auto" and "exact", the most non-null players that are enumerated.

    Example:
        >>> import torch
        >>> model = lambda x: torch.maximum(2 * x[:, 0], x[:, 1])
        >>> explanation = BivariateShapley(model, behavior="output").attribute(torch.ones(1, 2))
        >>> explanation.bivariate[0]
        tensor([[0.0000, 0.5000],
                [0.0000, 0.0000]])
        >>> h = explanation.graph(0, names=["big", "small"]).redundancy()
        >>> h.adjacency.tolist()  # small is redundant once big is present, not the reverse
        [[False, True], [False, False]]
    """

    def __init__(
        self,
        model: Any,
        method: ExplainerLike = "auto",
        behavior: BehaviorName | BehaviorFunction = "probability",
        seed: int = 0,
        *,
        link: Link | Literal["auto"] = "auto",
        purpose: Purpose = "redundancy",
        exact_limit: int = 16,
    ) -> None:
        if model is None:
            raise TypeError(
                "`model` must be a module, a function or an estimator, got None. To explain a game that exists, call "
                "`find_explainer(method).explain(game)`."
            )
        self.model, self.behavior, self.seed, self.link = model, behavior, seed, link
        self.explainer = _find(method, purpose, exact_limit)
        self._rows_per_call: int | None = None

    def attribute(
        self,
        inputs: Any,
        baselines: Any = None,
        target: Any = None,
        additional_forward_args: Any = None,
        feature_mask: Any = None,
        n_evaluations: int | None = None,
        perturbations_per_eval: int | None = None,
        show_progress: bool = False,
        *,
        background: Any = None,
    ) -> Explanation:
        """Explain a batch of samples; the arguments mean what they mean in Captum.

        Args:
            inputs: tensor or array (B, ...), or a tuple of them.
            baselines: what replaces an absent player: None (zero), a number, one row, one row per sample, a tuple.
            target: None (the predicted class), an index, B indices, a class label, or a function of the scores.
            additional_forward_args: further arguments of the model.
            feature_mask: integer player ids; -1 for elements that always stay.
            n_evaluations: at most this many model rows per sample; None for the method's default, which is the paper's
                ``2 * (2 * F + 2048)`` for the estimators of bivariate Shapley values.
            perturbations_per_eval: at most this many times B rows per forward pass; None chooses.
            show_progress: draw a progress bar.
            background: instead of baselines, rows over which values are averaged; each costs an evaluation.

        Returns:
            The explanation of all B samples.
        """
        game = Game(
            self.model,
            inputs,
            baselines=baselines,
            background=background,
            feature_mask=feature_mask,
            target=target,
            behavior=self.behavior,
            link=self.link,
            additional_forward_args=additional_forward_args,
            perturbations_per_eval=perturbations_per_eval,
            show_progress=show_progress,
        )
        limit = game.rows_per_call = min(game.rows_per_call, self._rows_per_call or game.rows_per_call)
        explanation = self.explain(game, n_evaluations)
        if game.rows_per_call < limit:
            self._rows_per_call = game.rows_per_call
        return explanation

    def explain(self, game: Game, n_evaluations: int | None = None) -> Explanation:
        """Explain an existing game with this object's method and seed.

        Args:
            game: the game, whose own model and behavior are used.
            n_evaluations: as for :meth:`attribute`.
        """
        # A user's method may draw from the global generators.
        with global_rngs_kept([game.device]), game.evaluation():
            return self.explainer.explain(game, n_evaluations, self.seed)


def _find(method: ExplainerLike, purpose: Purpose, exact_limit: int) -> Explainer:
    """The explainer, with the options that belong to two of the methods."""
    auto = Auto(purpose=purpose, exact_limit=exact_limit)
    if isinstance(method, str) and method == "auto":
        return auto
    if purpose != Auto().purpose:
        raise ValueError(f"`purpose` must be left out unless method='auto', got {purpose!r}.")
    if isinstance(method, str) and method == "exact":
        return EstimatorExplainer(Exact(exact_limit=exact_limit))
    if exact_limit != Auto().exact_limit:
        raise ValueError(f"`exact_limit` must be left out unless method is 'auto' or 'exact', got {exact_limit}.")
    return find_explainer(method)
