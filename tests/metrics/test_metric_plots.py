"""Figures of results: what they show, and that they are not registered with pyplot."""

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from bivshap_lightning import ExplanationGraph, Game
from bivshap_lightning.metrics import (
    DeletionAUC,
    DirectionalRedundancy,
    InsertionAUC,
    MutualRedundancyMasking,
    PostHocAccuracy,
    RoleShares,
)

METRICS = [PostHocAccuracy, InsertionAUC, DeletionAUC, MutualRedundancyMasking, DirectionalRedundancy, RoleShares]
every_metric = pytest.mark.parametrize("cls", METRICS)


def updated(cls, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    x, weights = torch.from_numpy(rng.normal(size=(6, 5))), torch.from_numpy(rng.normal(size=5))
    game = Game(lambda rows: 3 * torch.tanh(rows) @ weights, x, link="sigmoid")
    matrices = rng.normal(size=(6, 5, 5)) * (rng.random((6, 5, 5)) < 0.5)
    matrices[:, range(5), range(5)] = 0
    metric = cls(**kwargs)
    metric.update(game, [ExplanationGraph(matrix, shapley=rng.normal(size=5)) for matrix in matrices])
    return metric


@every_metric
class TestEveryFigure:
    def test_is_drawn_without_pyplot(self, cls, tmp_path):
        before = plt.get_fignums()
        convention = "default" if cls is RoleShares else "paper"
        figure, ax = updated(cls, convention=convention).plot()
        assert isinstance(figure, Figure)
        assert ax in figure.axes
        assert plt.get_fignums() == before
        assert ax.get_title() == f"{cls.__name__} ({convention} convention)"
        figure.savefig(tmp_path / "figure.png")

    def test_is_drawn_on_given_axes(self, cls):
        parent = Figure()
        ax = parent.subfigures(1, 2)[0].subplots()
        figure, same = updated(cls).plot(ax=ax)
        assert figure is parent
        assert same is ax

    def test_draws_the_given_result(self, cls):
        metric, other = updated(cls), updated(cls, seed=1)
        _, ax = metric.plot(other.compute())
        _, expected = other.plot()
        assert ax.get_legend_handles_labels()[1] == expected.get_legend_handles_labels()[1]

    def test_shows_several_results_over_steps(self, cls):
        results = [updated(cls, seed=seed).compute() for seed in range(4)]
        _, ax = cls().plot(results)
        names = [line.get_label().replace(" ", "_") for line in ax.lines]
        for name, line in zip(names, ax.lines, strict=True):
            assert list(line.get_ydata()) == [result[name].item() for result in results]
        assert ax.get_xlabel() == "step"


@pytest.mark.parametrize("cls", [InsertionAUC, DeletionAUC])
def test_a_result_is_labelled_by_its_own_convention(cls):
    _, ax = cls().plot(updated(cls, convention="paper").compute())
    assert ax.get_title() == f"{cls.__name__} (paper convention)"
    assert ax.get_ylabel() == "utility above 0.5"


def test_a_curve_shows_its_points():
    metric = updated(PostHocAccuracy)
    _, ax = metric.plot()
    result = metric.compute()
    assert ax.lines[0].get_xdata().tolist() == result["masked_fraction"].tolist()
    assert ax.lines[0].get_ydata().tolist() == result["curve"].tolist()
    assert ax.get_legend().get_texts()[0].get_text().startswith(f"area {result['area'].item():.3f} ±")


def test_bars_show_accuracies_and_shares():
    metric = updated(DirectionalRedundancy)
    _, ax = metric.plot()
    result = metric.compute()
    names = ["mask_sinks", "keep_only_sources", "mask_sources", "keep_only_sinks"]
    assert [bar.get_width() for bar in ax.patches] == [result[f"{name}_accuracy"].item() for name in names]
    for label, name in zip(ax.get_yticklabels(), names, strict=True):
        share = 100 * result[f"{name}_share_masked"].item()
        assert label.get_text() == f"{name.replace('_', ' ')} ({share:.0f} % masked)"


def test_bars_show_the_shares_of_roles():
    metric = updated(RoleShares)
    _, ax = metric.plot()
    result = metric.compute()
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert [bar.get_width() for bar in ax.patches] == [result[name].item() for name in names]
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(1)
