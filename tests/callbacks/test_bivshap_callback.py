"""The callback in real Trainers: what it logs, what it leaves untouched, how it resumes and how it fails."""

import copy
import json
import random
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from bivshap_lightning import Game
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.callbacks import BivShapCallback, PanelOptions
from bivshap_lightning.callbacks.output import advice_on
from bivshap_lightning.explainers import BivariateShapley
from bivshap_lightning.game import players
from bivshap_lightning.metrics.catalogue import find_number
from tests.callbacks.modules import Module, Pictures, Sure, TextModule, Tokens, table, train_loader, valid_loader

SOME = {
    "n_samples": 6, "compare_with": ("feature_ablation",), "n_evaluations": 64, "on_error": "raise", "panels": False,
    "every_n_epochs": 1,
}  # fmt: skip
PANELS = {**SOME, "panels": True}


def trainer(folder: Path, *callbacks, **kwargs) -> pl.Trainer:
    options = {
        "max_epochs": 2, "accelerator": "cpu", "devices": 1, "default_root_dir": folder, "logger": False,
        "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False,
    } | kwargs  # fmt: skip
    return pl.Trainer(callbacks=list(callbacks), **options)


def fit(folder: Path, callback: BivShapCallback, module=None, train=None, valid=None, **kwargs) -> pl.Trainer:
    torch.manual_seed(0)
    run = trainer(folder, callback, **kwargs)
    train, valid = (train_loader() if train is None else train), (valid_loader() if valid is None else valid)
    run.fit(module or Module(), train, valid)
    return run


def events(folder: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(folder), size_guidance={"images": 0, "tensors": 0, "scalars": 0})
    accumulator.Reload()
    return accumulator


def test_one_line_is_enough(tmp_path):
    """No arguments at all: numbers for ours and every default baseline."""
    callback = BivShapCallback()
    run = fit(tmp_path, callback, max_epochs=1)
    names = set(run.callback_metrics)
    for explainer in ("ours", "kernel_shap", "shapley_sampling", "integrated_gradients", "feature_ablation"):
        for metric in ("post_hoc_accuracy", "insertion_auc", "deletion_auc"):
            assert f"bivshap/{metric}/{explainer}" in names
    assert {"bivshap/redundancy/share_removable", "bivshap/redundancy/accuracy_with_representatives"} <= names
    assert {"bivshap/cost/seconds", "bivshap/cost/forwards", "bivshap/cost/epochs"} <= names
    assert run.callback_metrics["bivshap/failed"] == 0
    assert callback.result.method == "exact"
    assert callback.result.skipped == {}


def test_numbers_are_those_of_the_library(tmp_path):
    """What is logged equals the metric computed by hand on the same samples."""
    from bivshap_lightning.metrics import InsertionAUC

    callback, module = BivShapCallback(**SOME), Module()
    run = fit(tmp_path, callback, module, max_epochs=1)
    batch = next(callback.runner._selections["validate"].chunks()).batch
    game = Game(module.eval(), batch.inputs)
    metric = InsertionAUC()
    metric.update(game, BivariateShapley(module, seed=0).explain(game, 64))
    expected = float(metric.compute()["auc"])
    assert float(run.callback_metrics["bivshap/insertion_auc/ours"]) == pytest.approx(expected, abs=1e-6)


class Snapshot(pl.Callback):
    """What training leaves behind, down to the next random draws, and the gradients that a validation interrupts."""

    def __init__(self) -> None:
        self.gradients = []

    def on_validation_end(self, trainer, pl_module) -> None:
        self.gradients += [None if p.grad is None else p.grad.clone() for p in pl_module.parameters()]

    def on_fit_end(self, trainer, pl_module) -> None:
        self.weights = {k: v.clone() for k, v in pl_module.state_dict().items()}
        state = trainer.optimizers[0].state_dict()["state"]
        self.optimizer = [t.clone() for s in state.values() for t in s.values()]
        self.flags = [m.training for m in pl_module.modules()]
        self.draws = (torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random())  # noqa: NPY002


class Fickle(Module):
    """Draws random numbers, to no effect, where it sees that a feature was removed: nowhere in training."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if (x == 0).any():
            np.random.rand(3)  # noqa: NPY002
            random.random()
        return super().forward(x)


@pytest.mark.parametrize(("module", "accumulate"), [(Module, 1), (Module, 2), (Fickle, 1)])
def test_training_is_bit_identical_with_and_without(tmp_path, module, accumulate):
    snapshots = []
    for audits in (False, True):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        snapshot = Snapshot()
        extra = [BivShapCallback(n_samples=4, n_evaluations=64, on_error="raise")] if audits else []
        # A validation after every batch falls between the batches whose gradients are accumulated.
        options = {"accumulate_grad_batches": accumulate, "val_check_interval": 1 if accumulate > 1 else 1.0}
        run = trainer(tmp_path, *extra, snapshot, max_epochs=3, **options)
        run.fit(module(), train_loader(), valid_loader())
        snapshots.append(snapshot)
    without, with_audits = snapshots
    assert all(torch.equal(with_audits.weights[k], v) for k, v in without.weights.items())
    assert all(torch.equal(a, b) for a, b in zip(without.optimizer, with_audits.optimizer, strict=True))
    assert without.flags == with_audits.flags
    assert without.draws == with_audits.draws
    assert accumulate == 1 or any(gradient is not None for gradient in without.gradients)
    for gradient, other in zip(without.gradients, with_audits.gradients, strict=True):
        assert (gradient is None) == (other is None)
        assert gradient is None or torch.equal(gradient, other)


def test_the_same_samples_and_coalitions_every_epoch(tmp_path):
    """A model that does not learn is explained the same way each time."""

    class Stubborn(Module):
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    seen = []

    class Keep(pl.Callback):
        def on_validation_end(self, trainer, pl_module) -> None:
            if not trainer.sanity_checking:
                seen.append([s.graph.weights for s in callback.result.samples])

    callback, keep = BivShapCallback(**SOME | {"method": "sampling"}), Keep()
    run = trainer(tmp_path, callback, keep, max_epochs=2)
    module = Stubborn()
    module.network[1].momentum = 0.0  # BatchNorm's statistics would move too
    run.fit(module, train_loader(), valid_loader())
    np.testing.assert_allclose(seen[0], seen[1], atol=1e-6)


def test_schedule_and_trigger(tmp_path):
    class Trigger(pl.Callback):
        def on_train_epoch_start(self, trainer, pl_module) -> None:
            if trainer.current_epoch == 4:
                callback.trigger()

    callback = BivShapCallback(**SOME | {"every_n_epochs": 3})
    run = trainer(tmp_path, callback, Trigger(), max_epochs=6)
    run.fit(Module(), train_loader(), valid_loader())
    assert [h["epoch"] for h in callback.history] == [0, 3, 4]
    # The last values are logged again in between, so that nothing that monitors them misses its key.
    assert "bivshap/post_hoc_accuracy/ours" in run.callback_metrics


def test_validate_and_test(tmp_path):
    callback = BivShapCallback(**SOME)
    run, module = trainer(tmp_path, callback), Module()
    run.validate(module, valid_loader(), verbose=False)
    assert callback.history[-1]["stage"] == "validate"
    validated = callback.result.numbers
    run.test(module, valid_loader(), verbose=False)
    assert callback.history[-1]["stage"] == "test"
    assert callback.result.numbers.keys() == validated.keys()
    for name, (value, error) in validated.items():
        assert callback.result.numbers[name] == (pytest.approx(value), pytest.approx(error))
    assert sorted(p.name for p in (tmp_path / "bivshap").glob("*.json")) == [
        "test_epoch0000_step0000000.json",
        "validate_epoch0000_step0000000.json",
    ]


def test_gradient_baselines_work_under_inference_mode(tmp_path):
    callback = BivShapCallback(**SOME | {"compare_with": ("integrated_gradients",)})
    run = trainer(tmp_path, callback)
    module = Module()
    run.validate(module, valid_loader(), verbose=False)
    assert "bivshap/post_hoc_accuracy/integrated_gradients" in run.callback_metrics
    assert all(p.grad is None for p in module.parameters())


def test_resuming_continues_history_with_the_same_samples(tmp_path):
    first = BivShapCallback(**PANELS)
    checkpoint = ModelCheckpoint(tmp_path, filename="last")
    run = trainer(tmp_path, first, checkpoint, enable_checkpointing=True, max_epochs=2)
    run.fit(Module(), train_loader(), valid_loader())
    layouts = copy.deepcopy(first.output.state_dict())
    assert layouts
    second, taken_up = BivShapCallback(**PANELS), []

    class Look(pl.Callback):
        def on_train_start(self, trainer, pl_module) -> None:
            taken_up.append(copy.deepcopy(second.output.state_dict()))

    resumed = trainer(tmp_path, second, ModelCheckpoint(tmp_path), Look(), enable_checkpointing=True, max_epochs=4)
    resumed.fit(Module(), train_loader(), valid_loader(batch_size=7), ckpt_path=checkpoint.best_model_path)
    assert [h["epoch"] for h in second.history] == [0, 1, 2, 3]
    assert second.history[:2] == first.history
    assert second.runner.sample_keys("validate") == first.runner.sample_keys("validate")
    assert taken_up == [layouts]  # pictures go on with the same seats and colours


def test_monitors_see_the_numbers(tmp_path):
    stopping = EarlyStopping("bivshap/insertion_auc/ours", mode="max", patience=1, min_delta=10.0)
    checkpoint = ModelCheckpoint(tmp_path, monitor="bivshap/redundancy/share_removable", mode="max")
    callback = BivShapCallback(**SOME)
    run = trainer(tmp_path, callback, stopping, checkpoint, enable_checkpointing=True, max_epochs=9)
    run.fit(Module(), train_loader(), valid_loader())
    assert run.current_epoch == 2
    assert checkpoint.best_model_score is not None


def test_sanity_check_and_trial_runs_leave_nothing(tmp_path):
    callback = BivShapCallback(**SOME)
    fit(tmp_path, callback, num_sanity_val_steps=2, limit_val_batches=1)
    assert len(callback.history) == 2
    trial = BivShapCallback(**SOME)
    fit(tmp_path / "trial", trial, fast_dev_run=True)
    assert len(trial.history) == 1
    assert not (tmp_path / "trial").exists()


def test_several_dataloaders(tmp_path):
    other = TensorDataset(torch.full((9, 6), 5.0), torch.zeros(9, dtype=torch.long))
    callback = BivShapCallback(**SOME, dataloader_idx=1)
    fit(tmp_path, callback, valid=[valid_loader(), DataLoader(other, batch_size=4)], max_epochs=1)
    assert next(callback.runner._selections["validate"].chunks()).batch.inputs[0].eq(5).all()
    missing = BivShapCallback(**SOME | {"on_error": "warn"}, dataloader_idx=2)
    with pytest.warns(
        UserWarning, match="(?s)could not audit epoch 0.*dataloader that yields samples with at least two players"
    ):
        fit(tmp_path, missing, max_epochs=1)


def test_iterable_datasets(tmp_path):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(table(20))

    callback = BivShapCallback(**SOME)
    fit(tmp_path, callback, valid=DataLoader(Stream(), batch_size=5), max_epochs=1)
    assert len(callback.result.samples) == 6


def test_mixed_precision_goes_through_the_trainers_plugin(tmp_path):
    seen = set()

    class Peek(Module):
        def forward(self, x):
            out = super().forward(x)
            seen.add(out.dtype)
            return out

    callback = BivShapCallback(**SOME)
    fit(tmp_path, callback, Peek(), precision="bf16-mixed", max_epochs=1)
    assert seen == {torch.bfloat16}
    assert len(callback.history) == 1


def test_compiled_modules(tmp_path):
    callback, module = BivShapCallback(**SOME), Module()
    run = trainer(tmp_path, callback, max_epochs=1)
    run.fit(torch.compile(module, backend="eager"), train_loader(), valid_loader())
    assert run.callback_metrics["bivshap/failed"] == 0


def test_lightnings_other_name(tmp_path):
    import lightning.pytorch as other

    from tests.callbacks.modules import Steps, network

    class OtherModule(Steps, other.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def forward(self, x):
            return self.network(x)

    callback = BivShapCallback(**SOME)
    assert isinstance(callback, other.Callback)
    assert isinstance(callback, pl.Callback)
    run = other.Trainer(
        callbacks=[callback], max_epochs=1, accelerator="cpu", logger=False, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False, default_root_dir=tmp_path,
    )  # fmt: skip
    run.fit(OtherModule(), train_loader(), valid_loader())
    assert run.callback_metrics["bivshap/failed"] == 0


def test_lightning_cli(tmp_path):
    from pytorch_lightning.cli import LightningCLI

    from tests.callbacks.modules import DataModule

    config = tmp_path / "config.yaml"
    config.write_text(
        "seed_everything: 0\n"
        "trainer:\n"
        f"  default_root_dir: {tmp_path}\n"
        "  max_epochs: 1\n  accelerator: cpu\n  logger: false\n  enable_progress_bar: false\n"
        "  enable_model_summary: false\n  enable_checkpointing: false\n"
        "  callbacks:\n"
        "    - class_path: bivshap_lightning.callbacks.BivShapCallback\n"
        "      init_args:\n"
        "        {n_samples: 5, compare_with: [feature_ablation], gamma: 0.001, method: sampling, feature_mask:\n"
        "         {class_path: bivshap_lightning.Segments, init_args: {n: 3}}, baselines: 1}\n"
    )
    cli = LightningCLI(Module, DataModule, args=["fit", "--config", str(config)], save_config_callback=None)
    (callback,) = [c for c in cli.trainer.callbacks if isinstance(c, BivShapCallback)]
    assert (callback.runner.n_samples, callback.settings.gamma) == (5, 0.001)
    assert callback.settings.feature_mask == players.Segments(3)
    assert callback.result.removal == "baseline 1"
    assert len(callback.history) == 1


def test_hugging_face_batches(tmp_path):
    callback = BivShapCallback(**SOME)
    run = fit(
        tmp_path, callback, TextModule(), DataLoader(Tokens(), batch_size=8), DataLoader(Tokens(), batch_size=8),
        max_epochs=1,
    )  # fmt: skip
    assert run.callback_metrics["bivshap/failed"] == 0
    # Padding is no player: every sample has as many as it has tokens.
    tokens = Tokens()
    lengths = {int(n) for n in tokens.attention.sum(dim=1)}
    assert {s.graph.n_players for s in callback.result.samples} <= lengths


def test_texts_are_drawn_as_words(tmp_path):
    words = players.Tokens([f"word{k}" for k in range(20)])
    callback = BivShapCallback(**PANELS | {"panels": PanelOptions(n_classes=1)}, feature_mask=words)
    loader = DataLoader(Tokens(), batch_size=8)
    fit(tmp_path, callback, TextModule(), loader, loader, max_epochs=1)
    sample = callback.result.samples[0]
    assert all(w.startswith("word") for w in sample.words)
    assert len(sample.words) == sample.graph.n_players
    assert list((tmp_path / "bivshap").rglob("sample/*/graphs/*.png"))
    few = BivShapCallback(**SOME, feature_mask=players.Tokens(["only one"]))
    with pytest.raises(ValueError, match="`vocabulary` must know every token"):
        fit(tmp_path, few, TextModule(), loader, loader)


def test_baselines_that_cannot_play_are_left_out_and_named(tmp_path):
    callback = BivShapCallback(**SOME | {"compare_with": ("integrated_gradients", "feature_ablation")})
    fit(tmp_path, callback, TextModule(), DataLoader(Tokens(), batch_size=8), DataLoader(Tokens(), batch_size=8))
    assert list(callback.result.skipped) == ["integrated_gradients"]
    assert ", without integrated_gradients (the record says why), " in callback.summary()
    assert "bivshap/post_hoc_accuracy/feature_ablation" in callback.result.numbers


@pytest.mark.parametrize(
    "schedule", [{"limit_val_batches": 0}, {"check_val_every_n_epoch": 2}], ids=["no validation", "never due"]
)
def test_a_schedule_without_audits_is_told(tmp_path, schedule):
    callback = BivShapCallback(**SOME | {"every_n_epochs": 2})
    with pytest.warns(UserWarning, match="audited nothing: no validation ran in epochs .* got every_n_epochs=2"):
        fit(tmp_path, callback, max_epochs=2, **schedule)
    assert callback.history == []


def test_unreadable_batches(tmp_path):
    class Odd(Module):
        def validation_step(self, batch, batch_idx):
            pass

    data = DataLoader([{"pixels": row, "meta": 1} for row in table(8).tensors[0]], batch_size=4)
    with pytest.warns(UserWarning, match=r"(?s)pixels: float32 \(4, 6\).*input_fn=lambda batch"):
        run = fit(tmp_path, BivShapCallback(n_samples=2), Odd(), valid=data, max_epochs=1)
    assert run.callback_metrics["bivshap/failed"] == 1
    with pytest.raises(TypeError, match="`batch` must hold input tensors"):
        fit(tmp_path, BivShapCallback(n_samples=2, on_error="raise"), Odd(), valid=data, max_epochs=1)
    told = BivShapCallback(**SOME, input_fn=lambda batch: batch["pixels"])
    assert fit(tmp_path, told, Odd(), valid=data, max_epochs=1).callback_metrics["bivshap/failed"] == 0


def test_failures_leave_training_alone(tmp_path):
    class Broken(Module):
        def forward(self, x):
            if (x == 0).any():
                raise ArithmeticError("cannot divide by zero")
            return super().forward(x)

    with pytest.warns(UserWarning, match=r"(?s)could not audit epoch.*ArithmeticError: cannot divide by zero"):
        run = fit(tmp_path, BivShapCallback(n_samples=3, baselines=0.0), Broken())
    assert run.current_epoch == 2
    assert run.callback_metrics["bivshap/failed"] == 1
    with pytest.raises(ArithmeticError, match="cannot divide by zero"):
        fit(tmp_path, BivShapCallback(n_samples=3, baselines=0.0, on_error="raise"), Broken())


def test_a_failure_to_write_is_a_failure_too(tmp_path):
    """The numbers are logged all the same."""
    (tmp_path / "bivshap").write_text("a file where the folder of records should be")
    with pytest.warns(UserWarning, match="could not audit epoch 0; training goes on"):
        run = fit(tmp_path, BivShapCallback(**SOME | {"on_error": "warn"}), max_epochs=1)
    assert run.callback_metrics["bivshap/failed"] == 1
    assert "bivshap/post_hoc_accuracy/ours" in run.callback_metrics
    with pytest.raises(OSError, match="bivshap"):
        fit(tmp_path, BivShapCallback(**SOME), max_epochs=1)


def test_time_budget_cuts_evaluations_and_says_what_was_reached(tmp_path):
    generous = BivShapCallback(**SOME | {"method": "sampling", "n_evaluations": 2000})
    fit(tmp_path, generous, max_epochs=1)
    hurried = BivShapCallback(**SOME | {"method": "sampling", "n_evaluations": 2000}, time_budget=1e-6)
    fit(tmp_path, hurried, max_epochs=1)
    assert (
        hurried.result.numbers["bivshap/estimate/standard_error"][0]
        > (generous.result.numbers["bivshap/estimate/standard_error"][0])
    )
    assert hurried.result.skipped["feature_ablation"].startswith("time_budget has 0 s left of the ")
    ample = BivShapCallback(**SOME | {"method": "sampling", "n_evaluations": 2000}, time_budget=600)
    fit(tmp_path, ample, max_epochs=1)
    assert ample.result.skipped == {}


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"every_n_epochs": 0}, "`every_n_epochs` must be at least 1, got 0"),
        ({"n_samples": 0}, "`n_samples` must be at least 1, got 0"),
        ({"time_budget": 0.0}, "`time_budget` must be a positive number of seconds"),
        ({"on_error": "ignore"}, "`on_error` must be 'warn' or 'raise', got 'ignore'"),
        ({"compare_with": ("guesswork",)}, "guesswork"),
        ({"class_names": ["cat", "dog", "cat"]}, "`class_names` must be distinct, got 'cat' more than once"),
        ({"class_names": ["some", "all"]}, "`class_names` must not hold 'all', which gate rules use"),
    ],
)
def test_bad_arguments_are_refused_at_once(arguments, match):
    with pytest.raises(ValueError, match=match):
        BivShapCallback(**arguments)


def test_too_few_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="`feature_names` must name all 6 players, got 2"):
        fit(tmp_path, BivShapCallback(**SOME, feature_names=["a", "b"]))


def test_every_documented_tag_is_in_the_event_file(tmp_path):
    """At the step of Lightning's own scalars."""
    callback = BivShapCallback(**PANELS, class_names=["low", "mid", "high"])
    logger = TensorBoardLogger(tmp_path, name="run", version="")
    run = fit(tmp_path, callback, logger=logger, max_epochs=2)
    found = events(tmp_path / "run")
    tags = found.Tags()
    scalars = set(tags["scalars"])
    computed = set(callback.history[-1]["numbers"])
    charted = {tag for tag in computed if find_number(tag).is_charted}
    assert charted == {tag for tag in scalars if tag.startswith("bivshap/")}
    assert len(charted) < len(computed) / 2
    assert computed <= set(run.callback_metrics)  # where EarlyStopping and ModelCheckpoint look
    for tag in charted:
        assert found.SummaryMetadata(tag).summary_description == find_number(tag).description
    steps = [e.step for e in found.Scalars("val_loss")]
    assert [e.step for e in found.Scalars("bivshap/post_hoc_accuracy/ours")] == steps
    for name in ("low", "mid", "high"):
        for panel in ("axis", "graphs"):
            assert [e.step for e in found.Images(f"bivshap/class/{name}/{panel}")] == steps
        assert f"bivshap/class/{name}/abs_weights" in {*tags["histograms"], *tags["tensors"]}
        tensors = set(tags["tensors"])
        assert any(t.startswith(f"bivshap/class/{name}/ranking") for t in tensors)
    assert [e.step for e in found.Images("bivshap/sample/0/graphs")] == steps
    assert "bivshap/post_hoc/accuracy_vs_removed" in tags["images"]


def test_other_loggers_get_files_and_all_numbers_on_request(tmp_path):
    callback = BivShapCallback(**SOME | {"panels": PanelOptions(n_samples=1, n_classes=1, all_scalars=True)})
    csv = CSVLogger(tmp_path, name="csv", version="")
    fit(tmp_path, callback, logger=csv, max_epochs=1)
    pictures = [p.relative_to(tmp_path).as_posix() for p in (tmp_path / "csv" / "bivshap").rglob("*.png")]
    assert any("sample" in p for p in pictures)
    assert any("class" in p for p in pictures)
    columns = (tmp_path / "csv" / "metrics.csv").read_text().splitlines()[0].split(",")
    assert set(callback.history[-1]["numbers"]) <= set(columns)


def test_two_loggers(tmp_path):
    loggers = [CSVLogger(tmp_path, name="csv", version=""), TensorBoardLogger(tmp_path, name="tb", version="")]
    fit(tmp_path, BivShapCallback(**PANELS), logger=loggers, max_epochs=1)
    assert "bivshap/post_hoc_accuracy/ours" in (tmp_path / "csv" / "metrics.csv").read_text()
    assert "bivshap/sample/0/graphs" in events(tmp_path / "tb").Tags()["images"]


def test_pictures_are_drawn_on_the_picture(tmp_path):
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(12, 1, 8, 8), torch.arange(12) % 3)
    callback = BivShapCallback(**SOME | {"n_evaluations": 300})
    fit(tmp_path, callback, Pictures(), DataLoader(data, batch_size=4), DataLoader(data, batch_size=4), max_epochs=1)
    sample = callback.result.samples[0]
    assert sample.image.shape == (1, 8, 8)
    assert sample.segments.tolist() == torch.arange(64).view(8, 8).tolist()
    assert sample.graph.names[:9] == ("r0c0", "r0c1", "r0c2", "r0c3", "r0c4", "r0c5", "r0c6", "r0c7", "r1c0")


def test_the_record_says_everything(tmp_path):
    callback = BivShapCallback(**SOME, feature_names=list("abcdef"), class_names=["low", "mid", "high"])
    fit(tmp_path, callback, max_epochs=1)
    (path,) = (tmp_path / "bivshap").glob("*.json")
    record = AuditRecord.load(path)
    assert record.configuration.method == "exact"
    assert record.configuration.link == "auto"
    assert record.configuration.removal == "baseline 0"
    assert record.configuration.seed == 0
    assert record.run.epoch == 0
    assert record.versions["torch"].startswith("2.")
    for name, (value, error) in callback.result.numbers.items():
        assert record.metrics[name].value == value
        assert error in (0, record.metrics[name].standard_error)  # the record has more, from the samples
    assert {s.label for s in record.samples} == {"low", "mid", "high"}
    assert {p.player for p in record.samples[0].ranking} == set("abcdef")
    assert record.arrays["weights"].shape == (6, 6, 6)
    np.testing.assert_allclose(record.arrays["weights"][0], callback.result.samples[0].graph.weights, atol=1e-7)
    assert json.loads(path.read_text())["kind"] == "bivshap_lightning.Audit"
    assert callback.record().metrics == record.metrics
    with pytest.raises(RuntimeError, match="`record` must be asked for after an audit"):
        BivShapCallback().record()
    assert not list((tmp_path / "bivshap").glob(".*"))


def test_one_line_says_what_was_found_and_what_it_cost(tmp_path, caplog):
    callback = BivShapCallback(**SOME, gamma=0.05)
    with pytest.raises(RuntimeError, match="`summary` must be asked for after an audit"):
        callback.summary()
    with caplog.at_level("INFO"):
        fit(tmp_path, callback, Sure(), max_epochs=1)
    task, removal, line = [r.message for r in caplog.records if r.message.startswith("bivshap:")]
    assert removal.startswith("bivshap: absent columns are 0, a value that they may never have: n_evaluations=64")
    assert task == "bivshap: task multiclass (labels are classes, 3 outputs)"
    assert line.startswith("bivshap: epoch 0, ")
    assert "6 samples, post-hoc accuracy" in line
    assert callback.summary() in line
    numbers = {name: value for name, (value, _) in callback.result.numbers.items()}
    random, empty = (numbers[f"bivshap/redundancy/{name}_accuracy"] for name in ("random_removal", "empty"))
    assert f"(as many at random {random:.3f}, all removed {empty:.3f})" in line
    assert f"{numbers['bivshap/roles/essential']:.0%} essential" in line
    assert f"(gamma {callback.runner.resolved.gamma:.2g})" in line
    assert f"{callback.history[-1]['numbers']['bivshap/cost/epochs']:.2g} x the epoch" in line


@pytest.mark.parametrize(
    ("epochs", "past", "others", "output", "said"),
    [
        (0.05, 0, 3.0, 1.0, ""),
        (
            11.0,
            0,
            3.0,
            1.0,
            ": 60% our explanation and its metrics (`n_evaluations`, `n_samples`), 30% other explainers "
            "(`compare_with`), 10% pictures and record (`panels`); lower what is in brackets, or set `time_budget`",
        ),
        (11.0, 0, None, 0.1, ": 99% our explanation and its metrics (`n_evaluations`, `n_samples`); lower what is in"),
        (11.0, 1, 3.0, 1.0, ""),
    ],
)
def test_the_first_dear_audit_says_where_its_time_went_and_what_would_lower_it(epochs, past, others, output, said):
    found = advice_on(
        {"seconds": 10.0, "epochs": epochs},
        [{"bivshap/cost/epochs": 0.05}] * past,
        comparison_seconds=others,
        output_seconds=output,
    )
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_a_time_budget_that_was_not_kept_is_named_every_time():
    cost, past = {"seconds": 2.7, "epochs": 0.05}, [{"bivshap/cost/epochs": 0.05}]
    arguments = {"comparison_seconds": None, "output_seconds": 0.1}
    assert advice_on(cost, past, time_budget=2.5, **arguments) == ""
    assert advice_on(cost, past, time_budget=2.4, **arguments).startswith("; `time_budget` is 2.4 s, less than")
    arguments["comparison_seconds"] = 1.0
    assert advice_on(cost, past, time_budget=2.4, **arguments).startswith(
        "; `time_budget` is 2.4 s, and this took longer"
    )
