"""Real Trainers on two gloo processes: the numbers of one process, and no process left waiting."""

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback
from tests.callbacks.modules import (
    Communicating,
    CommunicatingAndFaulty,
    CommunicatingGradients,
    Faulty,
    FaultyTrial,
    Module,
    SlowOnOneProcess,
    SometimesCommunicating,
    table,
    train_loader,
    valid_loader,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def trainer(folder: Path, callback: BivShapCallback, n_processes: int) -> pl.Trainer:
    return pl.Trainer(
        callbacks=[callback], max_epochs=1, accelerator="cpu", devices=n_processes, default_root_dir=folder,
        logger=False, strategy="ddp_spawn" if n_processes > 1 else "auto", enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False, num_sanity_val_steps=0,
    )  # fmt: skip


def callback(**kwargs) -> BivShapCallback:
    options = {"n_samples": 9, "compare_with": ("feature_ablation", "integrated_gradients"), "panels": False}
    return BivShapCallback(**options | {"on_error": "raise"} | kwargs)


def record(folder: Path) -> Path:
    (path,) = (folder / "bivshap").glob("*.json")
    return path


@pytest.mark.parametrize("kind", [Module, Communicating], ids=["local", "with collectives"])
@pytest.mark.parametrize("n_samples", [13, 1], ids=["uneven", "one process has nothing"])
def test_two_processes_find_what_one_finds(tmp_path, n_samples, kind):
    """Thirteen samples make uneven shards that the sampler evens out by a duplicate, which counts once.

    Where the model itself communicates, all processes make the same forward passes.
    """
    torch.manual_seed(0)
    module = kind()
    for n in (1, 2):
        trainer(tmp_path / str(n), callback(), n).validate(module, valid_loader(n_samples, batch_size=4), verbose=False)
    one, two = (AuditRecord.load(record(tmp_path / str(n))) for n in (1, 2))
    assert two.run.world_size == 2
    assert one.run.sample_keys == two.run.sample_keys
    assert one.metrics.keys() == two.metrics.keys()
    for name, number in one.metrics.items():
        assert vars(two.metrics[name]) == pytest.approx(vars(number), abs=1e-6), name
    for a, b in zip(one.samples, two.samples, strict=True):
        assert (a.index, a.label, a.groups) == (b.index, b.label, b.groups)
        assert b.scores == pytest.approx(a.scores, abs=1e-6)
    arrays = [one.arrays, two.arrays]
    torch.testing.assert_close(torch.tensor(arrays[0]["weights"]), torch.tensor(arrays[1]["weights"]))


def test_two_processes_use_the_same_background_rows(tmp_path):
    """Drawn from the training data by one process and sent to the other; no process reads what it does not have."""
    for n in (1, 2):
        torch.manual_seed(0)
        trainer(tmp_path / str(n), callback(background=5), n).fit(Module(), train_loader(), valid_loader(12))
    one, two = (AuditRecord.load(record(tmp_path / str(n))) for n in (1, 2))
    assert one.configuration.removal == two.configuration.removal == "mean over 5 rows of the training data"
    assert one.configuration.background == two.configuration.background != ""


def test_a_failure_on_one_process_fails_the_audit_on_all(tmp_path):
    """Training goes on, and all processes know."""
    run = trainer(tmp_path, callback(on_error="warn", baselines=0.0), 2)
    run.fit(Faulty(), train_loader(), valid_loader(12, batch_size=4))
    assert run.callback_metrics["bivshap/failed"] == 1
    assert not (tmp_path / "bivshap").exists()


def test_a_failure_can_end_all_processes(tmp_path):
    run = trainer(tmp_path, callback(baselines=0.0), 2)
    with pytest.raises(Exception, match=r"broken on rank 1|failed on another process"):
        run.fit(Faulty(), train_loader(), valid_loader(12, batch_size=4))


@pytest.mark.parametrize("kind", [SlowOnOneProcess, Communicating], ids=["slow", "with collectives"])
def test_a_time_budget_leaves_no_process_waiting(tmp_path, kind):
    """How many evaluations there is time for differs between processes, unless they must agree."""
    run = trainer(tmp_path, callback(method="sampling", time_budget=2.0), 2)
    run.fit(kind(), train_loader(), valid_loader(12, batch_size=4))
    assert run.callback_metrics["bivshap/failed"] == 0


def weights(module: pl.LightningModule) -> list[torch.Tensor]:
    return [p.detach().clone() for p in module.parameters()]


def fitted(
    folder: Path, kind: type[pl.LightningModule], *callbacks: BivShapCallback
) -> tuple[pl.Trainer, pl.LightningModule]:
    torch.manual_seed(0)
    module = kind()
    run = pl.Trainer(
        callbacks=list(callbacks), max_epochs=2, accelerator="cpu", devices=2, default_root_dir=folder, logger=False,
        strategy="ddp_spawn", enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        num_sanity_val_steps=0,
    )  # fmt: skip
    run.fit(module, DataLoader(table(64, seed=1), batch_size=16), valid_loader(12, batch_size=4))
    return run, module


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> pl.LightningModule:
    """Trained without audits. What the other kinds do differently, they do in audits, or it does not change a value."""
    return fitted(tmp_path_factory.mktemp("plain"), Module)[1]


@pytest.mark.parametrize("kind", [SometimesCommunicating, CommunicatingGradients])
def test_collectives_that_the_trial_pass_does_not_make_leave_no_process_waiting(tmp_path, kind):
    """Nine samples are two chunks on one process and one on the other. The audit begins again, in lockstep."""
    for n in (1, 2):
        torch.manual_seed(0)
        options = {"n_samples": 9, "baselines": 0.0, "compare_with": ("integrated_gradients",), "every_n_epochs": 1}
        trainer(tmp_path / str(n), callback(**options), n).fit(kind(), train_loader(), valid_loader(13, batch_size=4))
    two = AuditRecord.load(record(tmp_path / "2"))
    assert two.run.world_size == 2
    assert len(two.samples) == 9


@pytest.mark.parametrize("kind", [FaultyTrial, CommunicatingAndFaulty])
def test_what_happens_on_one_process_only_fails_the_audit_and_leaves_training_as_it_was(tmp_path, kind, plain):
    """An error in the trial pass, an error where others wait in a collective."""
    run, audited = fitted(tmp_path, kind, callback(on_error="warn", baselines=0.0, every_n_epochs=1))
    assert run.callback_metrics["bivshap/failed"] == 1
    for a, b in zip(weights(plain), weights(audited), strict=True):
        assert torch.equal(a, b)
