"""Hand-made audit records with known numbers, for everything that reads records."""

import copy
from typing import Any

P = "bivshap/redundancy/"
PLAYERS = ("a", "b", "c", "d")


def graph(*groups, density=0.0, n_undecided=0, sources=(), sinks=(), players=PLAYERS) -> dict[str, Any]:
    return {
        "players": list(players),
        "ranking": [{"player": p, "score": 1.0} for p in players],
        "groups": [list(g) for g in groups],
        "sources": list(sources),
        "sinks": list(sinks),
        "density": density,
        "n_undecided": n_undecided,
    }


def record(samples=None, metrics=None, classes=None, **configuration) -> dict[str, Any]:
    """Twenty samples, half of them "cat" with a group of two among four players, half of them "dog" without."""
    if samples is None:
        samples = [("cat", graph(("a", "b"), density=0.2))] * 10 + [("dog", graph())] * 10
    if metrics is None:
        metrics = {
            f"{P}accuracy_with_representatives": (1.0, 0.0),
            f"{P}mask_sinks_accuracy": (0.9, 0.0670820393249937),
            f"{P}share_removable": (0.125, 0.0),
            f"{P}density": (0.1, 0.0223606797749979),
            "bivshap/posthoc_accuracy/ours": (0.8, 0.05),
            "bivshap/insertion_auc/ours": (0.5, 0.1),
            "bivshap/estimate/standard_error": (0.01, 0.0),
        }
    if classes is None:
        classes = {"cat": graph(("a", "b"), density=0.25, n_undecided=3), "dog": graph(density=0.5)}
    return copy.deepcopy(
        {
            "kind": "bivshap_lightning.Audit",
            "version": 1,
            "configuration": {
                "removal": "baseline 0", "behavior": "probability", "gamma": 1e-5, "target": "predicted",
            } | configuration,
            "versions": {},
            "run": {"stage": "validate", "epoch": 3, "step": 40},
            "metrics": {n: {"value": v, "standard_error": e} for n, (v, e) in metrics.items()},
            "classes": classes,
            "samples": [{"index": k, "label": c, "target": c, **g} for k, (c, g) in enumerate(samples)],
            "cost": {},
            "arrays": "record.npz",
        }
    )  # fmt: skip
