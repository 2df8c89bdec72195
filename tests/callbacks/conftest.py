"""The project that `bivshap audit` is run on, and the command in this process."""

import contextlib
import importlib
import io
import sys
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from bivshap_lightning import cli
from bivshap_lightning.callbacks import BivShapCallback, PanelOptions
from tests.callbacks.projects import MODULE


@pytest.fixture(scope="session")
def project(tmp_path_factory) -> Path:
    """A folder with the user's module and a checkpoint of it, trained with the callback watching."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "audited.py").write_text(MODULE)
    (folder / "imports_too_much.py").write_text("import no_such_library_anywhere\n")
    (folder / "misspelt.py").write_text("def f(:\n")
    sys.path.insert(0, str(folder))
    audited = importlib.import_module("audited")
    torch.manual_seed(0)
    trainer = pl.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder,
        callbacks=[
            BivShapCallback(
                n_samples=2, compare_with=(), n_evaluations=64, panels=PanelOptions(n_samples=1, n_classes=0)
            )
        ],
    )  # fmt: skip
    trainer.fit(audited.Net(hidden=8), audited.Data())
    trainer.save_checkpoint(folder / "model.ckpt", weights_only=False)
    yield folder
    sys.path.remove(str(folder))
    for name in ("audited", "imports_too_much", "misspelt"):
        sys.modules.pop(name, None)


@pytest.fixture
def call(project, monkeypatch):
    """The command in this process: exit code, standard output, standard error."""
    monkeypatch.chdir(project)

    def call(*arguments) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(["audit", *map(str, arguments)])
        return code, out.getvalue(), err.getvalue()

    return call
