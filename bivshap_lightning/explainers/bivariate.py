"""`BivariateShapley`: explain a model by any explainer, with Captum's `attribute` signature."""

from __future__ import annotations

from typing import Any, Literal

from bivshap_lightning.checks import check_evaluations
from bivshap_lightning.explainers.auto import Auto, Purpose
from bivshap_lightning.explainers.estimator import EstimatorExplainer
from bivshap_lightning.explainers.exact import Exact
from bivshap_lightning.explainers.explanation import Explanation
from bivshap_lightning.explainers.registry import Explainer, ExplainerLike, explain_until, find_explainer
from bivshap_lightning.explainers.stages import check_target_error
from bivshap_lightning.game import Game
from bivshap_lightning.game.behavior import BehaviorFunction, BehaviorName, Link
from bivshap_lightning.game.model import Precision, global_rngs_kept


class BivariateShapley:
    """Explain a model by directed feature interactions.

    Args:
        model: a torch module, a function from inputs to scores, or an estimator.
        method: how values are computed. "exact" enumerates all coalitions of the players that are not null. "trees" is
            exact for tree ensembles of any size and does not run the model: forests explained by their probability,
            boosted trees by their margin ("logit"), regressions by their output (see
            :mod:`bivshap_lightning.game.trees`). "sampling" follows random orders; where it saw no gain, the
            standard error bounds what a gain may still be. "kernel" fits a regression; its weights are closer to the
            truth at the same cost, its zeros are only small. "proxy" fits a Gaussian process to each sample: the fewest
            model rows, and the most computation beside them. "auto" is exact wherever trees can be read or enumeration
            costs no more than ``n_evaluations``, "proxy" where the model rows that it saves cost more than its fit, and
            otherwise what suits the ``purpose``. Any other name out of
            :func:`~bivshap_lightning.explainers.explainer_names`, a method of Captum (name, class or attribution
            object), or an object of the shape of :class:`~bivshap_lightning.explainers.Explainer` works as well.
        behavior: what is explained: "probability", "logit", "log_odds", "loss" (negative), "expected_loss" (negative,
            under the model's own distribution of labels), "output", or a function of (scores (N, C), target (N,)).
        seed: seed of the random design. Samples with equally many non-null players get the same coalitions, whatever
            the other samples are.
        link: what the model's scores mean: "softmax", "sigmoid", "identity", or "auto" for the rule of
            :mod:`bivshap_lightning.game.behavior`.
        purpose: of "auto", what it serves when it is neither exact nor a proxy: "redundancy" (sampling) or "weights"
            (kernel).
        exact_limit: of "auto" and "exact", the most non-null players that are enumerated.
        target_error: draw rows in stages until the relative error of a sample's E2 is estimated to be at most this,
            such as 0.1; ``n_evaluations`` is the ceiling. ``Explanation.notes`` says how each sample ended.
        precision: "bf16" or "fp16" to run a torch module under autocast; None for its own precision.

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
        target_error: float | None = None,
        precision: Precision | None = None,
    ) -> None:
        if model is None:
            raise TypeError(
                "`model` must be a module, a function or an estimator, got None. To explain a game that exists, call "
                "`find_explainer(method).explain(game)`."
            )
        self.model, self.behavior, self.seed, self.link, self.precision = model, behavior, seed, link, precision
        self.explainer = _find(method, purpose, exact_limit)
        self.target_error = None if target_error is None else check_target_error(target_error)
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
        target_error: float | None = None,
    ) -> Explanation:
        """Explain a batch of samples; the arguments mean what they mean in Captum.

        Args:
            inputs: tensor or array (B, ...), or a tuple of them.
            baselines: what replaces an absent player: None (zero), a number, one row, one row per sample, a tuple.
            target: None (the predicted class), an index, B indices, a class label, or a function of the scores.
            additional_forward_args: further arguments of the model.
            feature_mask: integer player ids; -1 for elements that always stay.
            n_evaluations: at most this many model rows per sample; None for the method's default, which is the paper's
                ``2 * (2 * F + 2048)`` for the estimators of bivariate Shapley values. "auto" stops below it where the
                relative error is small enough, see :class:`~bivshap_lightning.explainers.Auto`.
            perturbations_per_eval: at most this many times B rows per forward pass; None chooses.
            show_progress: draw a progress bar.
            background: instead of baselines, rows over which values are averaged, each at the cost of an evaluation;
                ``NearestRows`` or ``ConditionalSampler`` for removal by conditional expectation.
            target_error: instead of the constructor's. Interrupting from the keyboard between stages returns the
                estimate so far.

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
            precision=self.precision,
        )
        limit = game.rows_per_call = min(game.rows_per_call, self._rows_per_call or game.rows_per_call)
        explanation = self.explain(game, n_evaluations, target_error=target_error)
        if game.rows_per_call < limit:
            self._rows_per_call = game.rows_per_call
        return explanation

    def explain(
        self, game: Game, n_evaluations: int | None = None, *, target_error: float | None = None
    ) -> Explanation:
        """Explain an existing game with this object's method and seed.

        Args:
            game: the game, whose own model and behavior are used.
            n_evaluations: as for :meth:`attribute`.
            target_error: likewise.
        """
        check_evaluations(n_evaluations)
        target = self.target_error if target_error is None else target_error
        # A user's method may draw from the global generators.
        with global_rngs_kept([game.device]), game.evaluation():
            if target is None:
                return self.explainer.explain(game, n_evaluations, self.seed)
            return explain_until(self.explainer, game, target, n_evaluations, self.seed, interruptible=True)


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
