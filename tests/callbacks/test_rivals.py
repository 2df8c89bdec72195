"""All other methods through the callback: on two processes, and where an extra is missing."""

import sys
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from bivshap_lightning import Game, Superpixels
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.explainers import explainer_names, find_explainer
from bivshap_lightning.explainers.rivals.l2x import L2X, Selector
from tests.callbacks.modules import N_FEATURES, Module, table, valid_loader


def trainer(folder: Path, callback: BivShapCallback, n_processes: int = 1) -> pl.Trainer:
    return pl.Trainer(
        callbacks=[callback], accelerator="cpu", devices=n_processes, default_root_dir=folder, logger=False,
        strategy="ddp_spawn" if n_processes > 1 else "auto", enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_method_is_compared_on_two_processes(tmp_path):
    """With background rows, which permutation needs; only "trees" cannot explain a network."""
    pytest.importorskip("torch_geometric")
    pytest.importorskip("shapiq")
    names = [name for name in explainer_names() if name != "auto"]
    selector = L2X(Selector("table", N_FEATURES), 2)
    callback = BivShapCallback(
        n_samples=4, compare_with=[*names, selector], background=table(2, seed=5).tensors[0], panels=False,
        on_error="raise", n_evaluations=128,
    )  # fmt: skip
    trainer(tmp_path, callback, 2).validate(Module(), valid_loader(8, batch_size=4), verbose=False)
    (path,) = (tmp_path / "bivshap").glob("*.json")
    record = AuditRecord.load(path)
    assert record.run.world_size == 2
    prefix = "bivshap/insertion_auc/"
    judged = {name.removeprefix(prefix) for name in record.metrics if name.startswith(prefix) and name.count("/") == 2}
    assert judged == {*names, "l2x", "ours"} - {"trees"}


@pytest.mark.parametrize(("module", "method", "extra"), [
    ("shapiq", "shapiq_sii", "rivals"),
    ("shapiq", "shapiq_stii", "rivals"),
    ("torch_geometric", "gnn_explainer", "gnn"),
])  # fmt: skip
def test_a_missing_extra_names_the_pip_line_and_nothing_else_breaks(module, method, extra, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    game = Game(lambda x: x.prod(dim=1), torch.ones(1, 3), behavior="output")
    with pytest.raises(ImportError, match=rf"`{module}` must be installed .*pip install bivshap-lightning\[{extra}\]"):
        find_explainer(method).explain(game)
    assert find_explainer("exact").explain(game).shapley.sum() == pytest.approx(1)
    callback = BivShapCallback(n_samples=4, compare_with=[method, "occlusion"], panels=False, on_error="raise")
    run = trainer(tmp_path, callback)
    run.validate(Module(), valid_loader(), verbose=False)
    assert f"pip install bivshap-lightning[{extra}]" in callback.result.skipped[method]
    assert "bivshap/insertion_auc/occlusion" in run.callback_metrics


def test_superpixels_name_the_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    with pytest.raises(ImportError, match=r'pip install "bivshap-lightning\[image\]"'):
        Superpixels(4)(torch.rand(1, 3, 8, 8))
