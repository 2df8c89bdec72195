"""Writes the archived record of the current format version: `python -m tests.audit.make_archive`.

Run it once when the format version changes, and commit the two files; those of earlier versions stay.
"""

import tempfile
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.audit.record_files import RECORD_VERSION
from bivshap_lightning.callbacks import BivShapCallback, PanelOptions

FOLDER = Path(__file__).parent / "archive"


class Pixels(pl.LightningModule):
    """Classifies pictures of 2 x 2 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))

    def forward(self, x):
        return self.network(x)

    def validation_step(self, batch, batch_idx) -> None:
        self(batch[0])


def main() -> Path:
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(8, 1, 2, 2), torch.arange(8) % 2)
    with tempfile.TemporaryDirectory() as folder:
        callback = BivShapCallback(
            n_samples=4, method="sampling", gamma=0.02, class_names=["cat", "dog"],
            panels=PanelOptions(n_samples=1, draw=False), on_error="raise",
        )  # fmt: skip
        trainer = pl.Trainer(
            default_root_dir=folder, callbacks=[callback], accelerator="cpu", logger=False, enable_progress_bar=False
        )
        trainer.validate(Pixels(), DataLoader(data, batch_size=4), verbose=False)
        (path,) = Path(folder, "bivshap").glob("*.json")
        return AuditRecord.load(path).save(FOLDER / f"version_{RECORD_VERSION}.json")


if __name__ == "__main__":
    print(main())
