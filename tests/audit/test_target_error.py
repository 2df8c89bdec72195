"""Audits whose rows stop at a relative error: the default, a target of the user, and a number of rows instead."""

import pytest
import torch

from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.explainers import default_coalitions
from bivshap_lightning.explainers.auto import DEFAULT_TARGET_ERROR
from tests.callbacks.modules import Module, valid_loader
from tests.callbacks.test_bivshap_callback import trainer


def audited(folder, **arguments) -> BivShapCallback:
    torch.manual_seed(0)
    callback = BivShapCallback(
        n_samples=4, method="sampling", panels=False, on_error="raise", compare_with=(), **arguments
    )
    trainer(folder, callback).validate(Module(), valid_loader(), verbose=False)
    return callback


def test_rows_stop_at_the_default_target_and_the_provenance_says_so(tmp_path):
    graphs = [sample.graph for sample in audited(tmp_path).result.samples]
    for graph in graphs:
        assert f"target_error {DEFAULT_TARGET_ERROR:g} " in graph.provenance["notes"]
        assert graph.provenance["n_evaluations"] <= default_coalitions(6)
    assert min(graph.provenance["n_evaluations"] for graph in graphs) < default_coalitions(6)
    assert all(graph.log_odds is not None for graph in graphs)


def test_a_number_of_rows_or_another_target_replaces_the_default(tmp_path):
    fixed = audited(tmp_path / "fixed", n_evaluations=64).result.samples[0].graph.provenance
    assert "notes" not in fixed
    both = audited(tmp_path / "both", n_evaluations=300, target_error=1e-6).result.samples[0].graph.provenance
    assert "target_error 1e-06 not reached, all rows spent" in both["notes"]
    with pytest.raises(ValueError, match=r"`target_error` must be a positive number such as 0\.1"):
        BivShapCallback(target_error=-1)
