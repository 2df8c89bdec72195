"""One of two processes that judge their own samples and then agree on the numbers; started by test_metric_gloo.py."""

import sys
import warnings
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from bivshap_lightning import ExplanationGraph, Game
from bivshap_lightning.metrics import (
    DeletionAUC,
    DirectionalRedundancy,
    InsertionAUC,
    MutualRedundancyMasking,
    PostHocAccuracy,
)

N_SAMPLES = 7
SHARDS = {
    "uneven": [[[0, 1, 2], [3, 4]], [[5, 6]]],
    "unequal batches": [[[0]], [[1, 2], [3], [4, 5, 6]]],
    "empty second": [[[0, 1, 2, 3], [4, 5, 6]], []],
    "empty first": [[], [[0, 1, 2, 3, 4, 5, 6]]],
}
"""By scenario, the batches of each of the two processes."""


def metrics(**kwargs):
    """All five under both conventions."""
    classes = (PostHocAccuracy, InsertionAUC, DeletionAUC, MutualRedundancyMasking, DirectionalRedundancy)
    return {
        f"{cls.__name__}-{convention}": cls(convention=convention, **kwargs)
        for cls in classes
        for convention in ("default", "paper")
    }


def batch(samples):
    """The game and the graphs of some of the samples."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(N_SAMPLES, 5)))
    weights = torch.from_numpy(rng.normal(size=(5, 3)))
    matrices = rng.normal(size=(N_SAMPLES, 5, 5)) * (rng.random((N_SAMPLES, 5, 5)) < 0.6)
    matrices[:, range(5), range(5)] = 0
    game = Game(lambda rows: torch.tanh(3 * rows) @ weights, x[samples], link="softmax")
    return game, [ExplanationGraph(matrices[b]) for b in samples]


def judge(batches, **kwargs):
    """What each metric reports after the batches."""
    judges = metrics(**kwargs)
    for samples in batches:
        for metric in judges.values():
            metric.update(*batch(samples))
    return {name: dict(metric.compute()) for name, metric in judges.items()}


def complain(metric):
    """What a metric says that no process has given a sample, and what it counts after one from each."""
    try:
        metric.compute()
    except ValueError as error:
        metric.update(*batch([0]))
        return str(error), int(metric.compute()["n_samples"])
    return "nothing", 0


def main(rank, port, path):
    warnings.simplefilter("error")
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=150),
    )
    try:
        results = {
            (scenario, per_sample): judge(shards[rank], per_sample=per_sample)
            for scenario, shards in SHARDS.items()
            for per_sample in (False, True)
        }
        complaints = {name: complain(metric) for name, metric in metrics(per_sample=True).items()}
        torch.save({"results": results, "complaints": complaints}, path)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
