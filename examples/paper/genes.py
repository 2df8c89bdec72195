"""Gene expression: a network of four layers on about 1,000 genes, of smokers (GSE994) or of leukemia (Golub).

The paper's data (COPDGene) are restricted, so these two public sets stand in. Values are standardised over the training
samples; an absent gene is at their mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from tqdm import tqdm

from bivshap_lightning import BivariateShapley, ExplanationGraph
from examples.paper.enrichment import by_symbol, over_representation, preranked, read_annotation, read_gene_sets
from examples.paper.figures import draw_subgroups
from examples.paper.network import BlackBox, accuracy, train
from examples.paper.study import Options, Study, as_floats, data_file

GSE994 = (
    "NCBI GEO, series GSE994 (series matrix), written by numpy.savez as X (75, 22215), probes, and status (current, "
    "former or never)"
)
GOLUB = (
    "the Broad Institute's Golub et al. 1999 leukemia set, written by numpy.savez as X (72, 7129), probes, label (ALL "
    "or AML) and split (train or test)"
)
N_GENES = 1000


class Mlp(BlackBox):
    """Four fully connected layers, 200 units in each of the three hidden ones, batch normalisation."""

    def __init__(self, n_genes: int) -> None:
        super().__init__()
        hidden = [nn.Linear(n_genes, 200), nn.BatchNorm1d(200), nn.ReLU()]
        for _ in range(2):
            hidden += [nn.Linear(200, 200), nn.BatchNorm1d(200), nn.ReLU()]
        self.layers = nn.Sequential(*hidden, nn.Linear(200, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def load(options: Options, data_set: Literal["genes", "golub"] = "genes") -> Study:
    """Train the network on one of the two sets."""
    values, labels, names, is_train = _smokers(options) if data_set == "genes" else _leukemia(options)
    n_genes, epochs = (40, 5) if options.quick else (N_GENES, options.epochs or (800 if options.full else 100))
    # The most variable genes of the training samples: their choice does not see the classes.
    chosen = np.sort(np.argsort(-values[is_train].var(axis=0))[:n_genes])
    values, names = values[:, chosen], names[chosen]
    scaled = as_floats((values - values[is_train].mean(axis=0)) / (values[is_train].std(axis=0) + 1e-6))
    y = torch.from_numpy(labels.astype(np.int64))
    train_rows, test_rows = np.flatnonzero(is_train), np.flatnonzero(~is_train)
    model = train(
        Mlp(n_genes), scaled[train_rows], y[train_rows], folder=options.folder(data_set), epochs=epochs, batch_size=8
    )
    title = "GSE994 (airway of smokers)" if data_set == "genes" else "Golub (leukemia)"
    notes = (
        f"{title} stands in for COPDGene, which is restricted: another tissue, {len(values)} samples instead of 2,048, "
        f"the {n_genes:,} most variable probes. No figure here can be compared with the paper's.",
        f"Epochs: {epochs} (the paper: 800).",
    )
    # Test samples come first; subgroups are averaged over all of them.
    order = np.concatenate([test_rows, train_rows])
    return Study(
        name=data_set, model=model, inputs=scaled[order], labels=y[order],
        accuracy=accuracy(model, scaled[test_rows], y[test_rows]), n_train=len(train_rows), n_test=len(test_rows),
        training=scaled[train_rows],
        baselines=0, feature_names=tuple(map(str, names)), batch_size=1, notes=notes,
    )  # fmt: skip


def extras(study: Study, options: Options, folder: Path) -> dict[str, Any]:
    """Mean graphs of the two classes, their rankings and, given gene sets, the enrichment of both."""
    names = ("never smokers", "smokers") if study.name == "genes" else ("ALL", "AML")
    n_each = 2 if options.quick else (len(study) if options.full else 10)
    graphs = {name: _mean_graph(study, label, n_each, options) for label, name in enumerate(names)}
    (folder / "figures").mkdir(exist_ok=True)
    draw_subgroups(graphs, 12 if options.quick else 100).savefig(folder / "figures" / "subgroups.png")
    return {"subgroups": {name: describe_subgroup(graph, options) for name, graph in graphs.items()}}


def _mean_graph(study: Study, label: int, n_each: int, options: Options) -> ExplanationGraph:
    rows = (study.labels == label).nonzero()[:n_each, 0].tolist()
    explainer = BivariateShapley(study.model, seed=0)

    def graphs() -> Iterator[ExplanationGraph]:  # one sample at a time: a graph of 1,000 genes has a million arrows
        for row in tqdm(rows, desc=f"{study.name} class {label}", unit="sample", dynamic_ncols=True):
            found = explainer.explain(study.game(slice(row, row + 1)), 200 if options.quick else None)
            yield found.graph(0, study.feature_names)

    return ExplanationGraph.mean(graphs())


def describe_subgroup(graph: ExplanationGraph, options: Options) -> dict[str, Any]:
    """The highest-ranked genes and, given gene sets, where they come from."""
    scores = dict(zip(graph.names, graph.ranking(personalized=True).tolist(), strict=True))
    ranked = sorted(scores, key=lambda gene: -scores[gene])
    found: dict[str, Any] = {"n_samples": graph.provenance["n_graphs"], "top": ranked[:20]}
    if options.gene_sets is not None:
        sets = read_gene_sets(options.gene_sets)
        genes = by_symbol(scores, read_annotation(options.annotation) if options.annotation else {})
        best = sorted(genes, key=lambda gene: -genes[gene])[: max(1, len(genes) // 10)]
        found["over_representation"] = over_representation(best, genes, sets)[:20]
        found["preranked"] = preranked(genes, sets, n_permutations=100 if options.quick else 1000)[:20]
    return found


def _smokers(options: Options) -> tuple[np.ndarray, ...]:
    """Log expression, current (1) or never (0) smoker, probes, and which samples are for training."""
    arrays = np.load(data_file(options, "gene_expression/gse994_airway_smoking.npz", GSE994))
    kept = np.isin(arrays["status"], ["current", "never"])
    values, labels = np.log2(arrays["X"][kept] + 16), (arrays["status"][kept] == "current").astype(int)
    train_rows, _ = train_test_split(np.arange(len(labels)), test_size=0.3, stratify=labels, random_state=1)
    return values, labels, arrays["probes"], np.isin(np.arange(len(labels)), train_rows)


def _leukemia(options: Options) -> tuple[np.ndarray, ...]:
    """Log expression, AML (1) or ALL (0), probes, and the published training samples."""
    arrays = np.load(data_file(options, "gene_expression/golub_leukemia.npz", GOLUB))
    values = np.log2(np.maximum(arrays["X"], 16).astype(np.float64))
    return values, (arrays["label"] == "AML").astype(int), arrays["probes"], arrays["split"] == "train"


if __name__ == "__main__":
    from examples.paper.experiment import main

    main("genes", "golub")
