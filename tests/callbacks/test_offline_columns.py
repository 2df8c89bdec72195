"""`bivshap audit` of a table says which columns can go: a copy and a dead column are named everywhere."""

import dataclasses
import importlib
import json
import sys

import pytest
import pytorch_lightning as pl
import torch

from bivshap_lightning import cli
from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.views.html import render_page

NAMES = ["age", "hours", "debt", "age in months", "dead"]
MODULE = """
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 1))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        return nn.functional.binary_cross_entropy_with_logits(self(batch[0])[:, 0], batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.02)


class Table(pl.LightningDataModule):
    def loader(self, seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(300, 5, generator=generator)
        x[:, 3] = 12 * x[:, 0] + 1
        x[:, 4] = 0
        noise = 0.2 * torch.randn(300, generator=generator)
        return DataLoader(TensorDataset(x, (x[:, 0] + x[:, 1] - x[:, 2] + noise > 0).float()), batch_size=32)

    def train_dataloader(self):
        return self.loader(0)

    def val_dataloader(self):
        return self.loader(1)
"""


@pytest.fixture(scope="module")
def table_project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    (folder / "table_of_columns.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    module = importlib.import_module("table_of_columns")
    torch.manual_seed(0)
    trainer = pl.Trainer(
        max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    trainer.fit(module.Net(), module.Table())
    trainer.save_checkpoint(folder / "model.ckpt", weights_only=False)
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("table_of_columns", None)


def audit(folder, capsys, output, *further, n_samples=24):
    code = cli.main(
        ["audit", "--checkpoint", str(folder / "model.ckpt"), "--model", "table_of_columns.Net", "--data",
         "table_of_columns.Table", "--trainer.accelerator", "cpu", "-o", str(folder / output), "--audit.panels=false",
         "--audit.compare_with=[]", f"--audit.feature_names={json.dumps(NAMES)}", f"--audit.n_samples={n_samples}",
         *further]
    )  # fmt: skip
    assert code == 0
    return capsys.readouterr().out


def test_a_copy_and_a_dead_column_are_named(table_project, capsys):
    said = json.loads(audit(table_project, capsys, "whole", "--json"))
    record = AuditRecord.load(table_project / "whole" / "audit.json")
    report = record.columns
    assert said["columns"] == json.loads(json.dumps(dataclasses.asdict(report)))
    assert report.n_samples == 24
    assert "dead" in report.can_go
    assert len({"age", "age in months"} & set(report.can_go)) == 1
    assert not {"hours", "debt"} & set(report.can_go)
    by_name = {column.name: column for column in report.columns}
    assert by_name["age"].copies == {"age in months": pytest.approx(1, abs=1e-5)}
    assert by_name["dead"].cost == 0
    assert by_name["dead"].roles["irrelevant"] == 1
    assert by_name["dead"].copies == {}
    # What all columns together save of the loss: with them less without, as the audit's own loss says.
    assert sum(column.cost for column in report.columns) > 0.1
    page = (table_project / "whole" / "report.html").read_text()
    assert "Which columns can go" in page
    assert "Retrain to confirm" in page
    # Written for people: the table before the line.
    lines = audit(table_project, capsys, "text").splitlines()
    assert lines[0].startswith("column")
    assert lines[-2] == f"can go: {', '.join(report.can_go)}. Retrain to confirm."
    assert lines[-1].startswith("bivshap: ")
    _refuses_other_columns(record)


def _refuses_other_columns(record):
    report = record.columns
    first = report.columns[0]
    fakes = {
        "players of every sample": dataclasses.replace(report, columns=report.columns[1:]),
        "columns.n_samples must be 24": dataclasses.replace(report, n_samples=7),
        "follow from the costs": dataclasses.replace(report, can_go=()),
        r"share must lie in \[0, 1\]": _with(report, share=2.0),
        "cost_error must be 0 or more": _with(report, cost_error=-1.0),
        "roles must be what the samples say": _with(report, roles={**first.roles, "essential": 0.123}),
        "must name other columns": _with(report, copies={"height": 1.0}),
        r"copies must lie in \[0, 1\]": _with(report, copies={report.columns[1].name: 3.0}),
        "interchangeable_with must be what": _with(report, interchangeable_with={report.columns[1].name: 25}),
    }
    for match, fake in fakes.items():
        with pytest.raises(RecordError, match=match):
            AuditRecord.from_fields(dataclasses.replace(record, columns=fake).to_fields())


def _with(report, **changes):
    return dataclasses.replace(report, columns=(dataclasses.replace(report.columns[0], **changes), *report.columns[1:]))


def test_shares_are_those_of_the_arrays(table_project, capsys, tmp_path):
    audit(table_project, capsys, "shares")
    record = AuditRecord.load(table_project / "shares" / "audit.json")
    moved = _with(record.columns, share=record.columns.columns[0].share / 2)
    path = dataclasses.replace(record, columns=moved).save(tmp_path / "moved.json")
    with pytest.raises(RecordError, match="share must be what the arrays say"):
        AuditRecord.load(path)


def test_few_samples_say_nothing_about_columns(table_project, capsys):
    assert audit(table_project, capsys, "few", n_samples=8).startswith("bivshap: ")
    record = AuditRecord.load(table_project / "few" / "audit.json")
    assert record.columns is None
    assert "Which columns can go" not in render_page(record)
