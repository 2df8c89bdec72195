"""The gate in real Trainers: the verdicts of the command line, and what follows from them."""

import re
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger
from torch.utils.data import DataLoader

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback, RedundancyGate
from bivshap_lightning.callbacks.lightning import MisconfigurationException
from bivshap_lightning.gate import GateError, RecordError, Rule, Verdict, judge, measure
from bivshap_lightning.gate.verdict_file import load_verdict
from bivshap_lightning.metrics.catalogue import CATALOGUE
from tests.callbacks.modules import DataModule, Faulty, Module, TextModule, Tokens, train_loader, valid_loader

SOME = {
    "n_samples": 6, "compare_with": ("feature_ablation",), "n_evaluations": 64, "panels": False, "every_n_epochs": 1
}  # fmt: skip
TAG = "bivshap/gate/passed"
ACCURACY = "bivshap/redundancy/accuracy_with_representatives"
EASY, IMPOSSIBLE = [Rule(metric=ACCURACY, min=0.1)], [Rule(metric="bivshap/redundancy/n_independent", min=100)]


def trainer(folder: Path, *callbacks, **kwargs) -> pl.Trainer:
    options = {
        "max_epochs": 2, "accelerator": "cpu", "devices": 1, "default_root_dir": folder, "logger": False,
        "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False,
    } | kwargs  # fmt: skip
    return pl.Trainer(callbacks=list(callbacks), **options)


def fit(folder: Path, gate: RedundancyGate, module=None, audit=None, **kwargs) -> pl.Trainer:
    run = trainer(folder, audit or BivShapCallback(**SOME), gate, **kwargs)
    run.fit(module or Module(), train_loader(), valid_loader())
    return run


class Broken(Module):
    """Cannot be explained: fails where a feature is removed."""

    def forward(self, x):
        if (x == 0).any():
            raise ArithmeticError("cannot divide by zero")
        return super().forward(x)


def test_a_pass_is_logged(tmp_path):
    gate = RedundancyGate(EASY)
    assert (gate.verdict, gate.reason) == (None, "")
    run = fit(tmp_path, gate)
    assert run.callback_metrics[TAG] == 1
    assert (gate.verdict.passed, gate.reason) == (True, "")


def test_the_verdict_is_that_of_the_record_on_disk(tmp_path):
    rules = [
        *EASY,
        *IMPOSSIBLE,
        Rule(metric="class_graph/density", max=0.5),
        Rule(metric="bivshap/insertion_auc/ours", max=0.4),
    ]
    gate = RedundancyGate(rules)
    with pytest.warns(UserWarning, match="gate FAILED"):
        fit(tmp_path, gate, max_epochs=1)
    (path,) = (tmp_path / "bivshap").glob("*.json")
    assert gate.verdict.results == judge(path, rules).results


def test_verdicts_are_kept_beside_the_records(tmp_path):
    with pytest.warns(UserWarning, match="gate FAILED"):
        fit(tmp_path, RedundancyGate(IMPOSSIBLE))
    paths = sorted((tmp_path / "bivshap").glob("*.json"))
    assert len(paths) == 2
    for path in paths:
        assert load_verdict(path).results == judge(path, IMPOSSIBLE).results


def test_an_audit_at_the_end_of_fitting_is_judged(tmp_path):
    """With an account that allows no audit between the first validation and the end."""
    audit, gate = BivShapCallback(**SOME | {"every_n_epochs": None, "max_share": 1e-9}), RedundancyGate(IMPOSSIBLE)
    with pytest.warns(UserWarning, match="gate FAILED"):
        run = fit(tmp_path, gate, audit=audit, max_epochs=3, logger=CSVLogger(tmp_path, name=None, version=""))
    assert [past["epoch"] for past in audit.history] == [0, run.current_epoch - 1]  # named by the last epoch that ran
    assert load_verdict(audit.record_path) == gate.verdict
    assert gate.verdict.results == judge(audit.record_path, IMPOSSIBLE).results


def test_a_bad_end_can_raise(tmp_path):
    audit = BivShapCallback(**SOME | {"every_n_epochs": None, "max_share": 1e-9})
    early = Rule(metric="bivshap/redundancy/empty_accuracy", min=0.7, compare="point")  # before training, not after
    with pytest.raises(RuntimeError, match=r"empty_accuracy is 0\.5"):
        fit(tmp_path, RedundancyGate([early], on_fail="raise"), audit=audit, max_epochs=3)
    assert len(audit.history) == 2


def test_failing_only_warns_by_default(tmp_path):
    gate = RedundancyGate(IMPOSSIBLE)
    with pytest.warns(UserWarning, match=r"RedundancyGate, epoch \d: gate FAILED(?s:.)*n_independent is .*min 100"):
        run = fit(tmp_path, gate)
    assert run.current_epoch == 2
    assert run.callback_metrics[TAG] == 0
    assert "min 100" in gate.reason


def test_failing_can_stop_training(tmp_path):
    with pytest.warns(UserWarning, match="gate FAILED"):
        run = fit(tmp_path, RedundancyGate(IMPOSSIBLE, on_fail="stop"), max_epochs=9)
    assert run.current_epoch == 1


def test_failing_can_raise(tmp_path):
    with pytest.raises(RuntimeError, match=r"RedundancyGate, epoch 0: gate FAILED(?s:.)*min 100"):
        fit(tmp_path, RedundancyGate(IMPOSSIBLE, on_fail="raise"))


def test_a_failed_audit_does_not_pass(tmp_path):
    gate = RedundancyGate(EASY)
    with pytest.warns(UserWarning, match="could not audit epoch 0|NOT JUDGED: the audit of epoch 0 failed"):
        run = fit(tmp_path, gate, Broken(), max_epochs=1)
    assert run.callback_metrics[TAG] == 0
    assert not gate.verdict.passed
    assert gate.reason == "the audit of epoch 0 failed, so there is no record"


def test_a_metric_that_was_not_found_fails(tmp_path):
    gate = RedundancyGate([Rule(metric="bivshap/insertion_auc/kernel_shap", min=0.0)])
    with pytest.warns(UserWarning, match=r"NOT JUDGED.*Did you mean"):
        run = fit(tmp_path, gate, max_epochs=1)
    assert run.callback_metrics[TAG] == 0


def test_epochs_without_audit_log_the_last_verdict(tmp_path):
    verdicts = []

    class Keep(pl.Callback):
        def on_validation_end(self, trainer, pl_module) -> None:
            if not trainer.sanity_checking:
                verdicts.append((gate.verdict, float(trainer.callback_metrics[TAG])))

    gate = RedundancyGate(EASY)
    run = trainer(tmp_path, BivShapCallback(**SOME | {"every_n_epochs": 2}), gate, Keep(), max_epochs=3)
    run.fit(Module(), train_loader(), valid_loader())
    assert [passed for _, passed in verdicts] == [1.0] * 3
    assert verdicts[0][0] is verdicts[1][0]
    assert verdicts[1][0] is not verdicts[2][0]


def test_changes_against_a_record(tmp_path):
    torch.manual_seed(0)
    fit(tmp_path, RedundancyGate(EASY), max_epochs=1)
    (path,) = (tmp_path / "bivshap").glob("*.json")
    rules = [Rule(metric="bivshap/redundancy/density", max_absolute_change=1.0, min_absolute_change=-1.0)]
    torch.manual_seed(0)
    for against in (path, AuditRecord.load(path)):
        gate = RedundancyGate(rules, against=against)
        run = trainer(tmp_path / "again", BivShapCallback(**SOME), gate, max_epochs=1)
        run.fit(Module(), train_loader(), valid_loader())
        assert gate.verdict.passed
    other = RedundancyGate(rules, against=path, on_fail="raise")
    with pytest.raises(RuntimeError, match=r"NOT JUDGED: record and .* must agree.*different gamma"):
        fit(tmp_path / "other", other, audit=BivShapCallback(**SOME, gamma=0.1), max_epochs=1)


def test_drift_against_a_record(tmp_path):
    """The arrays of the record are those in memory, rounded."""
    torch.manual_seed(0)
    module, other = Module(), Module()

    def validate(folder: str, module: Module, gate: RedundancyGate) -> None:
        trainer(tmp_path / folder, BivShapCallback(**SOME), gate).validate(module, valid_loader(), verbose=False)

    validate("first", module, RedundancyGate(EASY))
    (path,) = (tmp_path / "first" / "bivshap").glob("*.json")
    gate = RedundancyGate([Rule(metric="drift/weights", max=1e-3), Rule(metric="drift/ranking", max=2)], against=path)
    validate("same", module, gate)
    assert gate.verdict.passed, gate.reason
    with pytest.warns(UserWarning, match="fail: drift/weights of class"):
        validate("other", other, gate)
    assert not gate.verdict.passed


def test_checkpoints_can_monitor_it_and_keep_it(tmp_path):
    checkpoint = ModelCheckpoint(tmp_path, monitor=TAG, mode="max", filename="best")
    gate = RedundancyGate(EASY)
    audit = BivShapCallback(**SOME)
    run = trainer(tmp_path, audit, gate, checkpoint, enable_checkpointing=True, max_epochs=1)
    run.fit(Module(), train_loader(), valid_loader())
    assert checkpoint.best_model_score == 1
    resumed = RedundancyGate(EASY)
    audit = BivShapCallback(**SOME | {"every_n_epochs": 9})
    monitor = ModelCheckpoint(tmp_path, monitor=TAG, mode="max")
    again = trainer(tmp_path, audit, resumed, monitor, enable_checkpointing=True, max_epochs=2)
    again.fit(Module(), train_loader(), valid_loader(), ckpt_path=checkpoint.best_model_path)
    assert resumed.verdict == gate.verdict
    assert again.callback_metrics[TAG] == 1


def test_without_any_audit_there_is_no_pass(tmp_path):
    """A gate that joins a run between two audits."""
    checkpoint = ModelCheckpoint(tmp_path, filename="first")
    run = trainer(tmp_path, BivShapCallback(**SOME), checkpoint, enable_checkpointing=True, max_epochs=1)
    run.fit(Module(), train_loader(), valid_loader())
    callbacks = [BivShapCallback(**SOME | {"every_n_epochs": 9}), RedundancyGate(EASY), ModelCheckpoint(tmp_path)]
    late = trainer(tmp_path, *callbacks, enable_checkpointing=True, max_epochs=2)
    with pytest.warns(UserWarning, match="there has been no audit yet"):
        late.fit(Module(), train_loader(), valid_loader(), ckpt_path=checkpoint.best_model_path)
    assert late.callback_metrics[TAG] == 0


def test_validate_and_test(tmp_path):
    gate = RedundancyGate(EASY)
    run, module = trainer(tmp_path, BivShapCallback(**SOME), gate), Module()
    run.validate(module, valid_loader(), verbose=False)
    assert "stage validate" in gate.verdict.record
    run.test(module, valid_loader(), verbose=False)
    assert "stage test" in gate.verdict.record
    assert run.callback_metrics[TAG] == 1


def test_a_trainer_without_audit_is_refused(tmp_path):
    with pytest.raises(MisconfigurationException, match=r"must find one BivShapCallback .* got 0\. Pass Trainer"):
        trainer(tmp_path, RedundancyGate(EASY)).fit(Module(), train_loader(), valid_loader())
    with pytest.raises(MisconfigurationException, match="must come after BivShapCallback"):
        trainer(tmp_path, RedundancyGate(EASY), BivShapCallback()).fit(Module(), train_loader(), valid_loader())


def test_bad_arguments_are_refused_at_once(tmp_path):
    with pytest.raises(ValueError, match="`on_fail` must be 'log', 'stop' or 'raise', got 'shout'"):
        RedundancyGate(EASY, on_fail="shout")
    with pytest.raises(ValueError, match="`against` must be a previous record for rules about changes, got None"):
        RedundancyGate([Rule(metric=ACCURACY, min_absolute_change=0)])
    with pytest.raises(GateError, match="must be a readable file"):
        RedundancyGate(tmp_path / "none.toml")
    with pytest.raises(RecordError, match=r"none\.json"):
        RedundancyGate(EASY, against=tmp_path / "none.json")


@pytest.mark.parametrize("kind", ["exact", "sampling", "text"])
def test_real_records_agree_with_what_the_gate_derives(tmp_path, kind):
    """Every number that the gate derives from the samples equals the metric's; tokens give samples of all lengths."""
    audit = BivShapCallback(**SOME | {"n_samples": 9, "method": "auto" if kind == "text" else kind}, gamma=0.02)
    run = trainer(tmp_path, audit, max_epochs=1)
    if kind == "text":
        run.fit(TextModule(), DataLoader(Tokens(), batch_size=8), DataLoader(Tokens(), batch_size=8))
    else:
        run.fit(Module(), train_loader(), valid_loader())
    (path,) = (tmp_path / "bivshap").glob("*.json")
    record = AuditRecord.load(path)
    ratios = [number.tag for number in CATALOGUE if number.parts is not None]
    for name in ratios:
        assert measure(record, name).value == pytest.approx(record.metrics[name].value, abs=1e-6), name
    assert any(record.metrics[name].value > 0 for name in ratios)


class LogEpoch(pl.Callback):
    """Logged numbers are what a spawned process hands back."""

    def on_validation_epoch_end(self, trainer, pl_module) -> None:
        pl_module.log("last_epoch", float(trainer.current_epoch), sync_dist=True)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("module", [Module, Faulty])
def test_two_processes_agree(tmp_path, module):
    """Stopped together after one epoch, whether the rules or one process's audit failed."""
    gate = RedundancyGate(IMPOSSIBLE, on_fail="stop")
    run = trainer(
        tmp_path, BivShapCallback(**SOME), gate, LogEpoch(), devices=2, strategy="ddp_spawn", max_epochs=5,
        num_sanity_val_steps=0,
    )  # fmt: skip
    run.fit(module(), train_loader(), valid_loader(12, batch_size=4))
    assert run.callback_metrics["last_epoch"] == 0
    assert run.callback_metrics[TAG] == 0


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_processes_raise_together(tmp_path):
    gate = RedundancyGate(IMPOSSIBLE, on_fail="raise")
    run = trainer(tmp_path, BivShapCallback(**SOME), gate, devices=2, strategy="ddp_spawn", num_sanity_val_steps=0)
    with pytest.raises(Exception, match=r"RedundancyGate, epoch 0: gate FAILED"):
        run.fit(Module(), train_loader(), valid_loader(12, batch_size=4))


def test_lightning_cli(tmp_path):
    from pytorch_lightning.cli import LightningCLI

    rules, config = tmp_path / "gate.toml", tmp_path / "config.yaml"
    rules.write_text(f'[[rule]]\nmetric = "{ACCURACY}"\nmin = 0.1\n')
    config.write_text(
        "seed_everything: 0\n"
        "trainer:\n"
        f"  default_root_dir: {tmp_path}\n"
        "  max_epochs: 1\n  accelerator: cpu\n  logger: false\n  enable_progress_bar: false\n"
        "  enable_model_summary: false\n  enable_checkpointing: false\n"
        "  callbacks:\n"
        "    - class_path: bivshap_lightning.callbacks.BivShapCallback\n"
        "      init_args: {n_samples: 5, compare_with: [feature_ablation], panels: false, every_n_epochs: 1}\n"
        "    - class_path: bivshap_lightning.callbacks.RedundancyGate\n"
        f"      init_args: {{rules: {rules}, on_fail: stop}}\n"
    )
    cli = LightningCLI(Module, DataModule, args=["fit", "--config", str(config)], save_config_callback=None)
    (gate,) = [c for c in cli.trainer.callbacks if isinstance(c, RedundancyGate)]
    assert (gate.rules, gate.on_fail) == (tuple(EASY), "stop")
    assert cli.trainer.callback_metrics[TAG] == 1


def test_state_without_verdict():
    gate = RedundancyGate(EASY)
    gate.load_state_dict(gate.state_dict())
    assert gate.verdict is None
    gate.verdict = Verdict(error="why")
    other = RedundancyGate(EASY)
    other.load_state_dict(gate.state_dict())
    assert other.reason == "why"


def test_the_rules_of_the_manual_find_their_numbers(tmp_path):
    text = (Path(__file__).resolve().parents[2] / "docs" / "gating.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 2
    trainer(tmp_path, BivShapCallback(**SOME)).validate(Module(), valid_loader(), verbose=False)
    (path,) = (tmp_path / "bivshap").glob("*.json")
    first, second = AuditRecord.load(path).samples[0].players[:2]
    rules = tmp_path / "gate.toml"
    rules.write_text(blocks[0])
    assert len(judge(path, rules).results) == blocks[0].count("[[rule]]")
    rules.write_text(blocks[1].replace('"sex"', f'"{first}"').replace('"race"', f'"{second}"'))
    assert [result.rule.feature for result in judge(path, rules).results] == [first] * 4 + [second]
