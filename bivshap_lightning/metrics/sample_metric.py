"""`SampleMetric`: base class of the metrics, a `torchmetrics.Metric` whose state is sums over samples."""

from __future__ import annotations

import functools
import hashlib
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from bivshap_lightning.checks import check_choice
from bivshap_lightning.game import Game
from bivshap_lightning.metrics.inputs import RankingOrGraph
from bivshap_lightning.metrics.results import Convention, MetricResult, SampleScores, Totals

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PlotValue = Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]]
"""A result, or the results of several steps."""


class SampleMetric(Metric):
    """Base class of metrics that are computed from sums over samples.

    A subclass defines what to measure on a batch (`_measure`), how to compute the result from sums of that
    (`_summarize`) and how to draw a result (`_draw`); this class does states, batches, processes and merging.

    States are float64, which Apple's MPS devices do not support: leave the metric on the CPU there. The game may be on
    any device.

    Args:
        convention: Which definition the numbers follow, see the subclass.
        per_sample: Whether to keep the scores of every sample, to report as `per_sample_<name>` (N,) in the order of
            the updates, process by process.
        settings: All other arguments that the numbers depend on, by name.
        kwargs: torchmetrics' own: `sync_on_compute`, `process_group` ...

    Example:
        >>> class PlayerCount(SampleMetric):
        ...     _shapes, _per_sample, _main = {"count": ()}, ("count",), ("count",)
        ...
        ...     def __init__(self, **kwargs):
        ...         super().__init__(convention="default", per_sample=True, settings={}, **kwargs)
        ...
        ...     def _measure(self, game, ranking_or_graph):
        ...         return {"count": game.player_counts}
        ...
        ...     def _summarize(self, totals):
        ...         return totals.estimate("count")
        ...
        ...     def _draw(self, ax, result):
        ...         ax.axhline(result["count"].item())
        >>> metric = PlayerCount()
        >>> metric.update(Game(torch.nn.Linear(3, 2), torch.ones(4, 3)), torch.zeros(4, 3))
        >>> metric.compute()
        PlayerCount(convention='default', count=3, count_se=0, n_samples=4, per_sample_count: 4 values)
    """

    is_differentiable: bool = False
    full_state_update: bool = False
    by_size: ClassVar[bool] = False
    """Whether signed scores of importance are to be given without their signs."""

    _shapes: ClassVar[Mapping[str, tuple[int, ...]]]
    """The quantities of a sample and their shapes."""
    _per_sample: ClassVar[tuple[str, ...]]
    """Those that are reported per sample on request."""
    _main: ClassVar[tuple[str, ...]]
    """The reported numbers to follow over several steps."""

    sums: Tensor
    squares: Tensor
    n_samples: Tensor
    settings_digest: Tensor
    scores: list[Tensor]

    def __init__(
        self, *, convention: Convention, per_sample: bool, settings: Mapping[str, object], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_choice(convention, Convention, "convention")
        self.convention: Convention = convention
        self.per_sample = per_sample
        self._digest = _digest(type(self).__name__, convention=convention, **settings)
        size = sum(map(prod, self._shapes.values()))
        self.add_state("sums", torch.zeros(size, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("squares", torch.zeros(size, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("n_samples", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        # Part of the state because a MetricCollection lets metrics of equal states share one update: two metrics whose
        # states are equal by chance on the first batch must differ in something.
        self.add_state("settings_digest", torch.tensor(self._digest, dtype=torch.uint8), dist_reduce_fx="max")
        if per_sample:
            self.add_state("scores", [], dist_reduce_fx="cat")

    def update(self, game: Game, ranking_or_graph: RankingOrGraph) -> None:
        """Evaluate one batch; all its coalitions go through the game in one pass.

        Args:
            game: The game of B samples.
            ranking_or_graph: See :mod:`bivshap_lightning.metrics.inputs`.

        Example:
            >>> from bivshap_lightning.metrics import PostHocAccuracy
            >>> metric, game = PostHocAccuracy(), Game(torch.nn.Linear(3, 2), torch.ones(4, 3))
            >>> metric.update(game, torch.zeros(4, 3))
            >>> metric.update(game, torch.zeros(4, 3))
            >>> int(metric.n_samples)
            8
        """
        with game.evaluation():
            scores = self._measure(game, ranking_or_graph)
        measured = {name: v.to(self.device).double() for name, v in scores.items()}
        rows = torch.cat([measured[name].reshape(game.n_samples, -1) for name in self._shapes], dim=1)
        # Not in place: a state may have been created under inference mode.
        self.sums = self.sums + rows.sum(dim=0)
        self.squares = self.squares + rows.square().sum(dim=0)
        self.n_samples = self.n_samples + game.n_samples
        if self.per_sample:
            self.scores.append(torch.stack([measured[name] for name in self._per_sample], dim=1))

    def compute(self) -> MetricResult:
        """Return the numbers over all samples so far, of all processes.

        Returns:
            Entries as listed for the class.

        Raises:
            ValueError: There are no samples, or the state comes from a metric of other settings.

        Example:
            >>> from bivshap_lightning.metrics import PostHocAccuracy
            >>> metric = PostHocAccuracy()
            >>> metric.update(Game(torch.nn.Linear(3, 2), torch.ones(4, 3)), torch.zeros(4, 3))
            >>> list(metric.compute())
            ['area', 'area_se', 'curve', 'curve_se', 'masked_fraction', 'n_samples']
        """
        self._check_same_settings("state", self.settings_digest)
        if not int(self.n_samples):
            raise ValueError(
                f"`compute` must follow an update of {type(self).__name__}, got no samples. "
                "Call `update(game, ranking_or_graph)` first."
            )
        result = {**self._summarize(self._totals()), "n_samples": self.n_samples}
        if self.per_sample:
            columns = dim_zero_cat(self.scores).unbind(dim=1)
            result |= {f"per_sample_{name}": c for name, c in zip(self._per_sample, columns, strict=True)}
        return self._named(result)

    def plot(self, val: PlotValue | None = None, ax: Axes | None = None) -> tuple[Figure, Axes]:
        """Draw a result, or the main numbers of several results step by step.

        Args:
            val: What `compute` or `forward` returned, or a sequence of such. By default `compute()`.
            ax: Where to draw. By default the axes of a new figure, which is not registered with pyplot.

        Returns:
            The figure and the axes.

        Example:
            >>> from bivshap_lightning.metrics import PostHocAccuracy
            >>> metric, game = PostHocAccuracy(), Game(torch.nn.Linear(3, 2), torch.ones(4, 3))
            >>> results = [metric(game, torch.zeros(4, 3)) for _ in range(3)]
            >>> figure, ax = metric.plot(results)
            >>> ax.get_title()
            'PostHocAccuracy (default convention)'
        """
        from bivshap_lightning.metrics.plotting import draw_steps, new_axes

        value = self.compute() if val is None else val
        ax = new_axes() if ax is None else ax
        if isinstance(value, Mapping):
            self._draw(ax, value)
        else:
            draw_steps(ax, value, self._main, upper_bound=self.plot_upper_bound)
        ax.set_title(f"{type(self).__name__} ({self._convention_of(value)} convention)")
        # `ax.figure` may be a subfigure; its `figure` is the whole figure.
        return ax.figure.figure, ax

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the state of another metric of the same settings.

        Args:
            incoming_state: The other metric, or its `metric_state`.

        Raises:
            ValueError: The other metric measures something else.

        Example:
            >>> from bivshap_lightning.metrics import PostHocAccuracy
            >>> first, second = PostHocAccuracy(), PostHocAccuracy()
            >>> second.update(Game(torch.nn.Linear(3, 2), torch.ones(4, 3)), torch.zeros(4, 3))
            >>> first.merge_state(second)
            >>> int(first.compute()["n_samples"])
            4
        """
        state: Any = incoming_state.metric_state if isinstance(incoming_state, Metric) else incoming_state
        if isinstance(state, dict):
            self._check_same_settings("incoming_state", state.get("settings_digest"))
        super().merge_state(incoming_state)
        self._computed = None  # torchmetrics would return the cached number

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Gather the states of all processes, as torchmetrics does; `compute` calls this.

        Example:
            >>> from bivshap_lightning.metrics import PostHocAccuracy
            >>> PostHocAccuracy().sync()  # there is only one process
        """
        if self.per_sample and not len(self.scores):
            # A process without samples sends a matrix of no rows: torchmetrics would send a vector of another dtype,
            # on which the gathering hangs.
            self.scores = [torch.zeros(0, len(self._per_sample), dtype=torch.float64, device=self.device)]
        super().sync(*args, **kwargs)

    @abstractmethod
    def _measure(self, game: Game, ranking_or_graph: RankingOrGraph) -> SampleScores:
        """Return the quantities of every sample, as declared in `_shapes`."""

    @abstractmethod
    def _summarize(self, totals: Totals) -> dict[str, Tensor]:
        """Return the reported numbers."""

    @abstractmethod
    def _draw(self, ax: Axes, result: Mapping[str, Tensor]) -> None:
        """Draw one result."""

    def _check_same_settings(self, argument: str, digest: Tensor | None) -> None:
        if digest is None or digest.tolist() != self._digest:
            raise ValueError(
                f"`{argument}` must come from a {type(self).__name__} of the same settings, got another metric's. "
                "Make both with the same arguments."
            )

    def _convention_of(self, value: PlotValue) -> str:
        """Return the convention of a result, or this metric's own if the result has none."""
        return getattr(value, "convention", None) or self.convention

    def _named(self, values: Mapping[str, Tensor]) -> MetricResult:
        return MetricResult(values, metric=type(self).__name__, convention=self.convention)

    def _totals(self) -> Totals:
        sizes = [prod(shape) for shape in self._shapes.values()]
        sums, squares = (
            {
                name: part.view(shape)
                for (name, shape), part in zip(self._shapes.items(), state.split(sizes), strict=True)
            }
            for state in (self.sums, self.squares)
        )
        return Totals(self.n_samples, sums, squares)

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap torchmetrics' own wrapper of `compute`.

        * No warning for a process without samples: whether there are samples is known after the gathering.
        * After an error the local state is restored, so that the metric can be used further.
        * The result is a `MetricResult` again: torchmetrics rebuilds dictionaries item by item and squeezes vectors of
          one element.
        """
        inner = super()._wrap_compute(compute)

        @functools.wraps(compute)
        def outer(*args: Any, **kwargs: Any) -> MetricResult:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The ``compute`` method of metric", UserWarning)
                try:
                    values = inner(*args, **kwargs)
                except BaseException:
                    self.unsync(should_unsync=self._is_synced and self._should_unsync)
                    raise
            return self._named(
                {k: torch.atleast_1d(v) if k.startswith("per_sample_") else v for k, v in values.items()}
            )

        return outer


def _digest(name: str, **settings: object) -> list[int]:
    """Return eight bytes that differ between metrics of different names or settings."""
    text = repr((name, sorted(settings.items())))
    return list(hashlib.blake2b(text.encode(), digest_size=8).digest())
