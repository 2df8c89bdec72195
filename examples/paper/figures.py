"""The illustrative figures: pictures with groups and heat maps, the sentence, subgroups of genes, and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from bivshap_lightning import BivariateShapley, Explanation, ExplanationGraph
from bivshap_lightning.views import draw_curves, draw_image_graphs, draw_words
from examples.paper.study import Study

DPI = 80


def draw_examples(study: Study, explanation: Explanation, pictures: Sequence[np.ndarray], gamma: float) -> Figure:
    """The paper's figure: pictures, their mutually redundant parts in white, and PageRank as a heat map."""
    n = len(pictures)
    figure = Figure(figsize=(1.6 * n, 5.2), dpi=DPI, layout="constrained")
    axes = figure.subplots(3, n, squeeze=False)
    segments = study.feature_mask(torch.as_tensor(np.asarray(study.inputs[:n])))[:, 0].numpy()
    for k, picture in enumerate(pictures):
        graph = explanation.graph(k)
        grouped = {player for group in graph.redundancy(gamma, rule="paper").groups for player in group}
        axes[0, k].imshow(picture, cmap="gray", vmin=0, vmax=1)
        axes[1, k].imshow(np.isin(segments[k], list(grouped)), cmap="gray", vmin=0, vmax=1)
        axes[2, k].imshow(graph.ranking(personalized=True)[segments[k]], cmap="magma")
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    for row, label in enumerate(("picture", f"redundant groups, γ = {gamma:g}", "PageRank on G")):
        axes[row, 0].set_ylabel(label, fontsize=8)
    return figure


def save_image_figures(
    study: Study, folder: Path, pictures: Sequence[np.ndarray], n_evaluations: int | None
) -> dict[str, Any]:
    """Explain the first pictures and draw them: the paper's figure, and G and H of the first one."""
    folder.mkdir(exist_ok=True)
    n = len(pictures)
    explanation = BivariateShapley(study.model, seed=0).explain(study.game(slice(0, n)), n_evaluations)
    draw_examples(study, explanation, pictures, 1e-5).savefig(folder / "examples.png")
    graph = explanation.graph(0)
    parts = study.feature_mask(torch.as_tensor(np.asarray(study.inputs[:1])))[0, 0].numpy()
    h = graph.redundancy(1e-5, rule="paper")
    title = f"{study.name}: sample 0, predicted class {int(explanation.target[0])}"
    scores = graph.ranking(personalized=True)
    draw_image_graphs(graph, h, pictures[0], parts, title=title, scores=scores).savefig(folder / "graphs.png", dpi=DPI)
    shares = [_share_grouped(explanation.graph(k)) for k in range(n)]
    return {
        "examples": {"n": n, "evaluations": float(explanation.n_evaluations.double().mean()), "share_grouped": shares}
    }


def _share_grouped(graph: ExplanationGraph) -> float:
    groups = graph.redundancy(1e-5, rule="paper").groups
    return sum(map(len, groups)) / graph.n_players


def save_sentence(study: Study, ids: torch.Tensor, words: Sequence[str], folder: Path, gamma: float) -> dict[str, Any]:
    """Explain the paper's sentence, draw G above H, and read off its four arrows."""
    folder.mkdir(exist_ok=True)
    explanation = BivariateShapley(study.model, seed=0).attribute(
        ids, baselines=study.baselines, feature_mask=study.feature_mask
    )
    graph = explanation.graph(0)
    h = graph.redundancy(gamma)
    with torch.no_grad():
        negative = 1 - float(study.model(ids).sigmoid().flatten()[0])
    title = f"The sentence of the paper: negative with probability {negative:.2f}"
    draw_words(graph, h, words=words, title=title, scores=graph.ranking(personalized=True)).savefig(
        folder / "sentence.png", dpi=DPI
    )
    arrows = {
        f"{a} -> {b}": {"weight": float(graph.weights[graph.names.index(a), graph.names.index(b)]),
                        "redundant": bool(h.adjacency[graph.names.index(a), graph.names.index(b)])}
        for a, b in (("worst", "awful"), ("awful", "worst"), ("worst", "surprisingly"), ("surprisingly", "worst"))
    }  # fmt: skip
    assert graph.shapley is not None
    return {
        "sentence": {
            "negative": negative, "gamma": gamma, "method": explanation.method, "arrows": arrows,
            "shapley": dict(zip(graph.names, graph.shapley.tolist(), strict=True)),
        }
    }  # fmt: skip


def draw_subgroups(graphs: Mapping[str, ExplanationGraph], n_shown: int) -> Figure:
    """Heat maps of the mean graphs of subgroups, over the genes that rank highest in their mean."""
    together = np.mean([graph.ranking(personalized=True) for graph in graphs.values()], axis=0)
    shown = np.argsort(-together, kind="stable")[:n_shown]
    figure = Figure(figsize=(4.6 * len(graphs), 4.6), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, len(graphs), squeeze=False)[0]
    largest = max(np.abs(graph.weights[np.ix_(shown, shown)]).max() for graph in graphs.values())
    for axis, (name, graph) in zip(axes, graphs.items(), strict=True):
        drawn = axis.imshow(graph.weights[np.ix_(shown, shown)], cmap="RdBu_r", vmin=-largest, vmax=largest)
        axis.set_title(f"{name} ({graph.provenance['n_graphs']} samples)", fontsize=9)
        axis.set(xlabel="j", ylabel="i: weight of the arrow i → j")
        axis.set_xticks([])
        axis.set_yticks([])
    figure.colorbar(drawn, ax=axes, shrink=0.7, label="mean importance of j when i is present")
    return figure


def save_curves(results: Mapping[str, Any], names: Mapping[str, str], folder: Path) -> list[str]:
    """Curves of one study from its summary: post-hoc accuracy, mutual masking, and density over gamma."""
    folder.mkdir(parents=True, exist_ok=True)
    methods = {m: r for m, r in results["methods"].items() if "metrics" in r}
    study, made = results["study"], []
    ranked = {names[m]: _curve(r["metrics"]["post_hoc"]) for m, r in methods.items()}
    if "auto" in methods and "keep_post_hoc" in methods["auto"]["metrics"]:
        ranked["ours, keep ranking"] = _curve(methods["auto"]["metrics"]["keep_post_hoc"])
    made.append(_save(ranked, f"{study}_post_hoc", folder, f"{study}: the least important features are masked",
                      "share of features masked", "post-hoc accuracy"))  # fmt: skip
    grouped = {names[m]: _curve(r["metrics"]["mutual_default"]) for m, r in methods.items() if r["is_bivariate"]}
    made.append(_save(grouped, f"{study}_mutual", folder, f"{study}: members of redundant groups are masked",
                      "share of features masked", "post-hoc accuracy"))  # fmt: skip
    return made


def _curve(result: Mapping[str, Any]) -> tuple[list[float], list[float], list[float]]:
    order = np.argsort(result["masked_fraction"], kind="stable")
    return tuple([result[key][k] for k in order] for key in ("masked_fraction", "curve", "curve_se"))  # type: ignore[return-value]


def _save(curves: Mapping[str, Any], name: str, folder: Path, title: str, xlabel: str, ylabel: str) -> str:
    draw_curves(curves, title=title, xlabel=xlabel, ylabel=ylabel).savefig(folder / f"{name}.png", dpi=DPI)
    return f"{name}.png"
