"""What replaces absent players when the user gives a number of rows, an import path or nothing, in real Trainers."""

import sys

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, SubsetRandomSampler, TensorDataset

from bivshap_lightning import Game
from bivshap_lightning.audit.default_removal import automatic_rows, background_of
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.audit.recording import setting_text
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.callbacks.background import UnreadableError, copied, drawn_batch
from bivshap_lightning.explainers import BivariateShapley
from bivshap_lightning.views.html import render_page
from tests.callbacks.modules import DataModule, Module, Pictures, TextModule, Tokens, table, train_loader, valid_loader
from tests.callbacks.projects import NAMES, QUICK
from tests.callbacks.test_bivshap_callback import SOME, fit, trainer

DEFAULT = {**SOME, "n_evaluations": None, "n_samples": 3, "compare_with": ()}


def the_record(folder) -> AuditRecord:
    return AuditRecord.load(max((folder / "bivshap").glob("*.json")))


def background(callback) -> torch.Tensor:
    (rows,) = callback.runner.resolved.background
    return rows


def are_rows_of(rows: torch.Tensor, data: torch.Tensor) -> bool:
    return bool((rows[:, None] == data[None]).all(dim=2).any(dim=1).all())


def test_tables_get_rows_of_the_training_data(tmp_path, caplog):
    """In the game, the log, the record and on the page; the same rows in every epoch."""
    callback, module = BivShapCallback(**DEFAULT), Module()
    with caplog.at_level("INFO"):
        fit(tmp_path, callback, module)
    rows = background(callback)
    assert rows.shape == (32, 6)
    assert len(torch.unique(rows, dim=0)) == 32
    assert are_rows_of(rows, train_loader().dataset.tensors[0])
    said = "mean over 32 rows of the training data"
    assert caplog.text.count("absent players are replaced by 32 rows of the training data") == 1
    record = the_record(tmp_path)
    assert record.configuration.removal == said
    assert record.configuration.background.startswith("#")
    assert not any("absent" in note for note in record.notes)
    assert f"What replaces an absent feature: {said}." in render_page(record)
    batch = next(callback.runner._selections["validate"].chunks()).batch
    exact = BivariateShapley(module.eval()).attribute(batch.inputs[0], background=rows)
    np.testing.assert_allclose(callback.result.samples[0].graph.weights, exact.graph(0).weights, atol=1e-6)


@pytest.mark.parametrize(
    ("n_players", "least", "n_evaluations", "expected"),
    [
        (6, 24, None, 32), (10, 40, None, 32), (11, 40, None, 16), (12, 40, None, 8), (54, 200, None, 8),
        (1000, 4000, None, 8), (5000, 20000, None, 0),
        (6, 24, 511, 0), (6, 24, 512, 8), (6, 24, 10**6, 32), (14, 60, 8000, 0), (14, 60, 8304, 8),
    ],
)  # fmt: skip
def test_the_size_follows_from_counts(n_players, least, n_evaluations, expected):
    found = automatic_rows(n_players, least, n_evaluations)
    assert found == expected
    coalitions = min(2**n_players, 2 * (2 * n_players + 2048))
    assert found * max(coalitions if n_evaluations is None else 0, least) <= max(2**16, n_evaluations or 0)


def test_a_small_budget_leaves_zero_and_says_so(tmp_path, caplog):
    callback = BivShapCallback(**{**DEFAULT, "n_evaluations": 64})
    with caplog.at_level("INFO"):
        fit(tmp_path, callback, max_epochs=1)
    record = the_record(tmp_path)
    assert record.configuration.removal == "baseline 0"
    (note,) = [note for note in record.notes if note.startswith("absent columns are 0")]
    assert "n_evaluations=64 leaves no room for background rows" in note
    assert note in caplog.text
    assert "leaves no room for background rows" in render_page(record)


@pytest.mark.parametrize("options", [{"baselines": 0.0}, {"background": torch.ones(3, 6)}])
def test_what_the_user_gives_is_used_as_it_is(tmp_path, options):
    callback = BivShapCallback(**DEFAULT | options)
    fit(tmp_path, callback, max_epochs=1)
    record = the_record(tmp_path)
    assert callback.runner.resolved.background_source == ""
    assert record.configuration.removal.startswith("baseline 0" if "baselines" in options else "mean over 3 background")
    assert record.notes == () or not any("absent" in note for note in record.notes)


def test_a_number_of_rows_is_drawn_by_the_seed_alone(tmp_path):
    """Whatever the loader shuffles, batches or has drawn before."""
    found = []
    for k, batch_size in enumerate((16, 5)):
        torch.manual_seed(k)
        callback = BivShapCallback(**DEFAULT, background=7)
        loader = DataLoader(table(64, seed=1), batch_size=batch_size, shuffle=True)
        trainer(tmp_path / str(k), callback, max_epochs=1).fit(Module(), loader, valid_loader())
        found.append(background(callback))
    assert found[0].shape == (7, 6)
    assert torch.equal(*found)
    other = BivShapCallback(**DEFAULT, background=7, seed=1)
    fit(tmp_path / "other", other, max_epochs=1)
    assert not torch.equal(background(other), found[0])


class Noisy(Dataset):
    """Augments from generators of its own and from global ones, counts, and caches."""

    def __init__(self, data) -> None:
        self.data, self.n_read, self.cache = data, 0, {}
        self.numpy, self.torch = np.random.default_rng(0), torch.Generator().manual_seed(0)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int):
        x, y = self.data[i]
        self.n_read += 1
        self.cache[i] = self.n_read
        noise = torch.rand(1, generator=self.torch) + self.numpy.random() + torch.rand(1) + np.random.rand()  # noqa: NPY002
        return x + 0.01 * noise, y


def test_training_on_a_dataset_with_state_is_bit_identical(tmp_path):
    """The rows come from a copy: what the dataset draws, counts and caches is what it would be without audits."""
    ends = []
    for name, options in (("without", None), ("with", {"background": 8}), ("default", {})):
        data = Noisy(table(32, seed=1))
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        callbacks = [] if options is None else [BivShapCallback(**DEFAULT | options)]
        run = trainer(tmp_path / name, *callbacks)
        run.fit(Module(), DataLoader(data, batch_size=8, shuffle=True), valid_loader())
        weights = torch.cat([p.detach().flatten() for p in run.lightning_module.parameters()])
        drawn = (torch.rand(3).tolist(), np.random.rand(2).tolist(), data.numpy.random(), data.torch.get_state())  # noqa: NPY002
        ends.append((weights, data.n_read, data.cache, drawn))
        if options is not None:
            assert background(callbacks[0]).shape == (options.get("background", 32), 6)
    for weights, n_read, cache, drawn in ends[1:]:
        assert torch.equal(weights, ends[0][0])
        assert (n_read, cache, drawn[:3]) == (ends[0][1], ends[0][2], ends[0][3][:3])
        assert torch.equal(drawn[3], ends[0][3][3])


def test_a_resumed_run_uses_the_same_rows(tmp_path):
    first = BivShapCallback(**DEFAULT, background=5)
    run = fit(tmp_path / "a", first, train=DataLoader(Noisy(table(32, seed=1)), batch_size=8), max_epochs=1)
    run.save_checkpoint(tmp_path / "run.ckpt", weights_only=False)
    second = BivShapCallback(**DEFAULT, background=5)
    other = DataLoader(Noisy(table(40, seed=5)), batch_size=8)  # its rows would differ
    resumed = trainer(tmp_path / "b", second, max_epochs=2)
    resumed.fit(Module(), other, valid_loader(), ckpt_path=tmp_path / "run.ckpt")
    assert torch.equal(background(first), background(second))
    changed = BivShapCallback(**DEFAULT, background=6)
    trainer(tmp_path / "c", changed, max_epochs=2).fit(Module(), other, valid_loader(), ckpt_path=tmp_path / "run.ckpt")
    assert len(background(changed)) == 6


class Stream(IterableDataset):
    def __init__(self, data) -> None:
        self.data = data

    def __iter__(self):
        return (self.data[i] for i in range(len(self.data)))


def test_without_a_length_rows_are_validation_data(tmp_path, caplog):
    callback = BivShapCallback(**DEFAULT)
    with caplog.at_level("INFO"):
        fit(tmp_path, callback, train=DataLoader(Stream(table(32, seed=1)), batch_size=8), max_epochs=1)
    assert "no background rows from training data: a Stream has no length" in caplog.text
    assert the_record(tmp_path).configuration.removal == "mean over 32 rows of the validation data"
    assert are_rows_of(background(callback), table().tensors[0])


def test_without_any_length_rows_are_the_explained_samples(tmp_path, caplog):
    callback = BivShapCallback(**DEFAULT | {"n_samples": 9})
    loaders = [DataLoader(Stream(table(32, seed=k)), batch_size=8) for k in (1, 2)]
    with caplog.at_level("INFO"):
        fit(tmp_path, callback, train=loaders[0], valid=loaders[1], max_epochs=1)
    assert caplog.text.count("a Stream has no length") == 2
    assert the_record(tmp_path).configuration.removal == "mean over 9 of the explained samples"
    assert are_rows_of(background(callback), table(32, seed=2).tensors[0])


def test_few_rows_are_none_by_default(tmp_path):
    callback = BivShapCallback(**DEFAULT)
    fit(tmp_path, callback, train=DataLoader(table(5, seed=1), batch_size=5), max_epochs=1)
    record = the_record(tmp_path)
    assert record.configuration.removal == "baseline 0"
    assert any("there are only 5 rows of data. Better: baselines=typical_row" in note for note in record.notes)


def test_the_explained_one_of_several_validation_loaders_is_asked(tmp_path):
    callback = BivShapCallback(**DEFAULT, dataloader_idx=1)
    stream = DataLoader(Stream(table(32, seed=1)), batch_size=8)
    fit(tmp_path, callback, train=stream, valid=[valid_loader(), DataLoader(table(48, seed=7), batch_size=16)],
        max_epochs=1)  # fmt: skip
    assert are_rows_of(background(callback), table(48, seed=7).tensors[0])


def test_samplers_restrict_the_rows():
    loader = DataLoader(TensorDataset(torch.arange(100.0)), batch_size=4, sampler=SubsetRandomSampler([3, 5, 8]))
    assert sorted(drawn_batch(loader, 10, seed=0)[0].tolist()) == [3, 5, 8]


def test_outside_of_fitting_the_datamodule_is_asked(tmp_path):
    callback = BivShapCallback(**DEFAULT)
    trainer(tmp_path, callback).validate(Module(), datamodule=DataModule(), verbose=False)
    assert are_rows_of(background(callback), train_loader().dataset.tensors[0])


class ScaledOnDevice(Module):
    """Scales batches after their transfer, as augmentations on a GPU do."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return batch[0] * 100, batch[1]


def test_rows_pass_the_batch_hooks(tmp_path):
    callback = BivShapCallback(**DEFAULT)
    fit(tmp_path, callback, ScaledOnDevice(), max_epochs=1)
    assert are_rows_of(background(callback), 100 * train_loader().dataset.tensors[0])


class Named(Module):
    def forward(self, numbers, codes):
        return super().forward(torch.cat([numbers, nn.functional.one_hot(codes[:, 0], 3)], dim=1))

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self(batch["numbers"], batch["codes"]), batch["label"])

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.cross_entropy(self(batch["numbers"], batch["codes"]), batch["label"]))


class NamedRows(Dataset):
    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.numbers, self.codes = torch.randn(32, 3, generator=generator), torch.arange(32)[:, None] % 3

    def __len__(self) -> int:
        return 32

    def __getitem__(self, i: int):
        return {"numbers": self.numbers[i], "codes": self.codes[i], "label": self.codes[i, 0]}


@pytest.mark.parametrize(
    "options", [{}, {"input_fn": lambda batch: ((batch["numbers"], batch["codes"]), batch["label"])}]
)
def test_several_inputs_by_name_or_by_function(tmp_path, options):
    """Numbers beside codes of categories are a table: row r of both inputs belongs together."""
    callback = BivShapCallback(**DEFAULT | options)
    data = NamedRows(1)
    fit(
        tmp_path,
        callback,
        Named(),
        DataLoader(data, batch_size=8),
        DataLoader(NamedRows(2), batch_size=8),
        max_epochs=1,
    )
    numbers, codes = callback.runner.resolved.background
    assert (numbers.shape, codes.shape, codes.dtype) == ((32, 3), (32, 1), torch.int64)
    place = (numbers[:, None] == data.numbers[None]).all(dim=2).int().argmax(dim=1)
    assert torch.equal(codes, data.codes[place])


def test_ids_and_normalised_pixels_are_pointed_out(tmp_path, caplog):
    with caplog.at_level("INFO"):
        fit(tmp_path / "text", BivShapCallback(**SOME), TextModule(), DataLoader(Tokens(), batch_size=8),
            DataLoader(Tokens(), batch_size=8), max_epochs=1)  # fmt: skip
    (note,) = [note for note in the_record(tmp_path / "text").notes if note.startswith("absent")]
    assert "0, which may be a word or a category of its own" in note
    assert note in caplog.text
    for name, shift, expected in (("normalised", 0.5, 1), ("plain", 0.0, 0)):
        x = torch.rand(12, 1, 8, 8, generator=torch.Generator().manual_seed(0)) - shift
        loader = DataLoader(TensorDataset(x, torch.arange(12) % 3), batch_size=4)
        options = {
            **SOME,
            "n_evaluations": 600,
            "feature_mask": torch.arange(4).view(1, 2, 2).repeat_interleave(4, 1).repeat_interleave(4, 2),
        }
        caplog.clear()
        with caplog.at_level("INFO"):
            fit(tmp_path / name, BivShapCallback(**options), Pictures(), loader, loader, max_epochs=1)
        assert ("bivshap: absent players are 0\n" in caplog.text) is (
            not expected
        )  # said where nothing is wrong with it
        notes = [note for note in the_record(tmp_path / name).notes if "grey where pixels are normalised" in note]
        assert len(notes) == expected


def test_rows_by_import_path(tmp_path, monkeypatch):
    (tmp_path / "some_rows.py").write_text(
        "import torch\nrows = torch.full((3, 6), 0.5)\ndef make():\n    return rows + 1\nname = 'rows'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert torch.equal(background_of("some_rows:rows"), torch.full((3, 6), 0.5))
    assert torch.equal(background_of("some_rows:make"), torch.full((3, 6), 1.5))
    callback = BivShapCallback(**DEFAULT, background="some_rows:rows")
    fit(tmp_path, callback, max_epochs=1)
    assert the_record(tmp_path).configuration.removal.startswith("mean over 3 background rows #")
    for path, message in [
        ("some_rows:nothing", r"import path of rows, got some_rows:nothing \(module 'some_rows' has no"),
        ("no_such_module_here:rows", "import path of rows, got no_such_module_here:rows"),
        ("some_rows.rows", r"with a colon before the name, got 'some_rows.rows'. Write package.module:rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            background_of(path)
    with pytest.raises(TypeError, match="some_rows:name, which is a str"):
        background_of("some_rows:name")
    sys.modules.pop("some_rows")


def test_numbers_of_rows_are_checked():
    with pytest.raises(ValueError, match="`background` must be at least 1 row, got 0"):
        BivShapCallback(background=0)
    with pytest.raises(TypeError, match="`background` must be rows, a number of rows, or an import path, got True"):
        BivShapCallback(background=True)


def test_rows_that_cannot_be_drawn_are_refused(tmp_path):
    """Texts of different lengths: no row fits them."""
    x = [torch.randn(n) for n in (4, 5, 6, 7)]

    def collate(rows):
        return torch.stack([row for row, _ in rows]), torch.tensor([y for _, y in rows])

    loader = DataLoader([(row, 0) for row in x], batch_size=1, collate_fn=collate)

    class Sums(Module):
        def forward(self, x):
            return torch.stack([x.sum(dim=1), 0 * x[:, 0]], dim=1)

    callback = BivShapCallback(**DEFAULT, background=4, task="binary")
    with pytest.raises(ValueError, match="`background` must be rows where none can be drawn, got 4 as their number"):
        trainer(tmp_path, callback).validate(Sums(), loader, verbose=False)


def test_copies_share_arrays_and_code_and_own_the_rest():
    data = Noisy(table(4))
    data.transform = lambda x: x
    copy = copied(data)
    copy[0]
    assert (data.n_read, data.cache, copy.n_read) == (0, {}, 1)
    assert copy.data.tensors[0] is data.data.tensors[0]
    assert copy.transform is data.transform
    assert copy.numpy.random() != data.numpy.random()  # the copy has drawn once
    with pytest.raises(UnreadableError, match="the dataset cannot be copied"):
        copied({"rows": (k for k in range(3))})


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ([1, 2], "a list is no DataLoader"),
        (DataLoader(TensorDataset(torch.zeros(3)), batch_size=None), "the dataset makes its own batches"),
        (DataLoader(Stream(table(3))), "a Stream has no length"),
        (DataLoader(TensorDataset(torch.zeros(3)), sampler=SubsetRandomSampler([])), "the dataset is empty"),
    ],
)
def test_loaders_that_cannot_be_read(loader, message):
    if message == "the dataset is empty":
        loader = DataLoader(TensorDataset(torch.zeros(0)), batch_size=2)
    with pytest.raises(UnreadableError, match=message):
        drawn_batch(loader, 2, seed=0)


def test_a_leaked_column_is_found_with_rows_and_not_with_zeros(tmp_path):
    """The column is never 0 in the data: against 0 every column seems to matter."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 4, generator=generator) + torch.tensor([0.0, 3.0, 3.0, 3.0])
    y = (x[:, 0] > 0).long()

    class Leaky(pl.LightningModule):
        def forward(self, x):
            score = 6 * x[:, 0] * (x[:, 1:].mean(dim=1) > 1.4)
            return torch.stack([-score, score], dim=1)

        def validation_step(self, batch, batch_idx):
            pass

        def train_dataloader(self):
            return DataLoader(TensorDataset(x, y), batch_size=8)

    shares = []
    for name, options in (("zero", {"baselines": 0}), ("rows", {})):
        callback = BivShapCallback(**DEFAULT | {"n_samples": 12} | options)
        loader = DataLoader(TensorDataset(x, y), batch_size=8)
        trainer(tmp_path / name, callback).validate(Leaky(), loader, verbose=False)
        phi = np.abs([sample.graph.shapley for sample in callback.result.samples])
        shares.append(phi[:, 0].sum() / phi.sum())
    game = Game(Leaky(), x[:1], background=x[:8])
    assert game.removal.n_rows == 8
    assert shares[0] < 0.6
    assert shares[1] > 0.9


@pytest.mark.parametrize("data", ["Data", "InStages"])
def test_the_command_takes_a_number_of_rows(project, call, tmp_path, data):
    """Of the training data, also where that needs to be set up; the same rows as in training."""
    options = [*NAMES[:3], f"audited.{data}", *QUICK, "--audit.n_evaluations=640", "--audit.background=5"]
    code, _, err = call("--checkpoint", "model.ckpt", "--output", tmp_path, *options)
    assert (code, err.count("no background rows")) == (0, 0)
    record = AuditRecord.load(tmp_path / "audit.json")
    assert record.configuration.removal == "mean over 5 rows of the training data"
    (x, _) = drawn_batch(sys.modules["audited"].Data().train_dataloader(), 5, seed=0)
    assert record.configuration.background == setting_text((x,))


def test_the_command_takes_the_import_path_of_rows(project, call, tmp_path):
    options = [*NAMES, *QUICK, "--audit.n_evaluations=640", "--audit.background=audited:ROWS"]
    code, _, _ = call("--checkpoint", "model.ckpt", "--output", tmp_path, *options)
    assert code == 0
    assert AuditRecord.load(tmp_path / "audit.json").configuration.removal.startswith("mean over 3 background rows #")
    code, _, err = call(
        "--checkpoint", "model.ckpt", "--output", tmp_path, *options[:-1], "--audit.background=audited:NO"
    )
    assert code == 2
    assert "`background` must be the import path of rows, got audited:NO" in err
