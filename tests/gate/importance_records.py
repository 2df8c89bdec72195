"""Hand-made audit records with given Shapley values of named features, in memory and on disk."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from bivshap_lightning.audit.record import AuditRecord, Configuration, GraphSummary, Run, SampleSummary
from bivshap_lightning.graph import ExplanationGraph

NAMES = ("age", "sex", "job")
GAMMA = 1e-5


def additive(phi) -> np.ndarray:
    """Weights of the additive game with these Shapley values: W[i, j] = phi[j] / 2."""
    weights = np.tile(np.asarray(phi, dtype=float) / 2, (len(phi), 1))
    np.fill_diagonal(weights, 0)
    return weights


def importance_record(
    shapley, *, names=NAMES, weights=None, keys=None, classes=None, target="label", source="record", **settings
) -> AuditRecord:
    """One sample per row of `shapley`; the games are additive unless `weights` are given."""
    shapley = np.asarray(shapley, dtype=np.float32)
    weights = np.stack([additive(phi) for phi in shapley]) if weights is None else np.asarray(weights)
    stored = weights.astype(np.float32)
    graphs = [ExplanationGraph(w, names=names, shapley=phi) for w, phi in zip(stored, shapley, strict=True)]
    classes = ["cat"] * len(graphs) if classes is None else classes
    samples = tuple(
        SampleSummary(index=k, label=c, target=c, gain=float(g.shapley.sum()), **GraphSummary.fields_of(g, GAMMA))
        for k, (c, g) in enumerate(zip(classes, graphs, strict=True))
    )
    members = {c: [g for g, its in zip(graphs, classes, strict=True) if its == c] for c in dict.fromkeys(classes)}
    configuration = Configuration("probability", "auto", "automatic", "background of 50 rows", target, GAMMA)
    return AuditRecord(
        configuration=replace(configuration, **settings),
        samples=samples,
        run=Run(stage="validate", sample_keys=tuple(f"key{k}" for k in range(len(graphs))) if keys is None else keys),
        classes={c: GraphSummary.of(ExplanationGraph.mean(group), GAMMA) for c, group in members.items()},
        arrays={"weights": stored, "shapley": shapley},
        source=source,
    )


def save(record: AuditRecord, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return record.save(path)


def retrains(n, *, seed=0, base=(0.5, 0.3, 0.2), spread=0.03, n_samples=8, **settings) -> list[AuditRecord]:
    """Records of models that differ by small noise in all Shapley values."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1, 1], (n_samples, len(base)))
    return [
        importance_record(signs * base + spread * rng.normal(size=signs.shape), source=f"model{k}", **settings)
        for k in range(n)
    ]
