"""Sums over samples, their means and standard errors, and the result of a metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Convention = Literal["default", "paper"]
"""Which definition a number follows where the default and the paper's differ."""

SampleScores = Mapping[str, Tensor]
"""Quantities of each sample of a batch, by name: (B,) or (B, P)."""


class MetricResult(dict[str, Tensor]):
    """The numbers of one metric by name, float64, with the metric's name and convention.

    Entries are single numbers, curves (P,) or scores per sample (N,). It is an ordinary dictionary to torchmetrics:
    a `MetricCollection` merges the entries into its own dictionary, and `collection[name].convention` tells the
    convention there.

    Args:
        values: The numbers.
        metric: The name of the metric.
        convention: The convention of the numbers.

    Attributes:
        metric: As given, None if unknown.
        convention: As given, None if unknown.

    Example:
        >>> result = MetricResult({"auc": torch.tensor(0.5)}, metric="InsertionAUC", convention="paper")
        >>> result
        InsertionAUC(convention='paper', auc=0.5)
        >>> result["auc"], result.convention
        (tensor(0.5000), 'paper')
    """

    def __init__(
        self, values: Mapping[str, Tensor], *, metric: str | None = None, convention: Convention | None = None
    ) -> None:
        super().__init__(values)
        self.metric = metric
        self.convention = convention

    def __repr__(self) -> str:
        entries = (f"{k}={v.item():.6g}" if v.dim() == 0 else f"{k}: {len(v)} values" for k, v in self.items())
        return f"{self.metric or 'MetricResult'}({', '.join([f'convention={self.convention!r}', *entries])})"

    @property
    def scalars(self) -> dict[str, float]:
        """The single numbers as floats, for a logger or a file.

        Example:
            >>> MetricResult({"auc": torch.tensor(0.5), "curve": torch.zeros(26)}).scalars
            {'auc': 0.5}
        """
        return {name: value.item() for name, value in self.items() if value.dim() == 0}


@dataclass(frozen=True)
class Totals:
    """Sums over samples, from which all reported numbers are computed; those of batches and processes add up.

    Attributes:
        n_samples: Number of samples.
        sums: By quantity, () or (P,).
        squares: Likewise, sums of squares.

    Example:
        >>> totals = Totals.of({"accuracy": torch.tensor([1.0, 1.0, 0.0, 1.0])})
        >>> totals.mean("accuracy"), totals.standard_error("accuracy")
        (tensor(0.7500, dtype=torch.float64), tensor(0.2165, dtype=torch.float64))
    """

    n_samples: Tensor
    sums: SampleScores
    squares: SampleScores

    @classmethod
    def of(cls, scores: SampleScores) -> Totals:
        """Return the sums over one batch.

        Args:
            scores: (B,) or (B, P) each.

        Example:
            >>> Totals.of({"area": torch.tensor([0.25, 0.5])}).sums
            {'area': tensor(0.7500, dtype=torch.float64)}
        """
        doubles = {name: values.double() for name, values in scores.items()}
        return cls(
            n_samples=torch.tensor(len(next(iter(doubles.values())))),
            sums={name: values.sum(dim=0) for name, values in doubles.items()},
            squares={name: values.square().sum(dim=0) for name, values in doubles.items()},
        )

    def mean(self, name: str) -> Tensor:
        """Return the mean over samples.

        Example:
            >>> Totals.of({"area": torch.tensor([0.25, 0.5])}).mean("area")
            tensor(0.3750, dtype=torch.float64)
        """
        return self.sums[name] / self.n_samples

    def standard_error(self, name: str) -> Tensor:
        """The standard error of the mean, `sqrt((mean of squares - square of mean) / n)`.

        Of 0/1 scores this is the binomial one, `sqrt(p (1 - p) / n)`; of others, the one that the bootstrap over
        samples converges to. It is 0 when all samples agree, so also for a single sample: bounds for few samples
        need `n_samples` too.

        Example:
            >>> Totals.of({"area": torch.tensor([0.25, 0.5])}).standard_error("area")
            tensor(0.0884, dtype=torch.float64)
        """
        variance = self.squares[name] / self.n_samples - self.mean(name).square()
        return (variance.clamp(min=0) / self.n_samples).sqrt()

    def estimate(self, name: str) -> dict[str, Tensor]:
        """Return the mean as `<name>` and its standard error as `<name>_se`.

        Example:
            >>> list(Totals.of({"area": torch.tensor([0.25, 0.5])}).estimate("area"))
            ['area', 'area_se']
        """
        return {name: self.mean(name), f"{name}_se": self.standard_error(name)}

    def share(self, part: str, whole: str) -> Tensor:
        """Return the sum of one quantity over the sum of another; 0 if both are 0.

        Example:
            >>> Totals.of({"masked": torch.tensor([1, 2]), "players": torch.tensor([2, 4])}).share("masked", "players")
            tensor(0.5000, dtype=torch.float64)
        """
        return self.sums[part] / self.sums[whole].clamp(min=1)


def functional_result(
    metric: str,
    convention: Convention,
    scores: SampleScores,
    summarize: Callable[[Totals], dict[str, Tensor]],
    per_sample: tuple[str, ...],
) -> MetricResult:
    """Return the result of one batch with its scores per sample.

    Args:
        metric: Its name.
        convention: Its convention.
        scores: Quantities per sample.
        summarize: Computes the reported numbers from sums over samples.
        per_sample: Which quantities are reported per sample, as `per_sample_<name>`.

    Example:
        >>> scores = {"auc": torch.tensor([0.5, 0.25])}
        >>> functional_result("InsertionAUC", "default", scores, lambda totals: totals.estimate("auc"), ("auc",))
        InsertionAUC(convention='default', auc=0.375, auc_se=0.0883883, n_samples=2, per_sample_auc: 2 values)
    """
    totals = Totals.of(scores)
    extra = {f"per_sample_{name}": scores[name].double() for name in per_sample}
    values = {**summarize(totals), "n_samples": totals.n_samples, **extra}
    return MetricResult(values, metric=metric, convention=convention)
