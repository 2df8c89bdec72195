"""What a model writes to its Trainer's loggers in `forward` is not written during audits."""

import pytorch_lightning as pl
from pytorch_lightning.loggers import CSVLogger

from bivshap_lightning.callbacks import BivShapCallback
from tests.callbacks.modules import Module, train_loader, valid_loader


class Talkative(Module):
    def forward(self, x):
        if self.logger is not None:
            self.logger.experiment.log_metrics({"seen": 1.0}, step=0)
            self.logger.log_metrics({"rows": float(len(x))}, step=0)
        return super().forward(x)


class Counting(CSVLogger):
    n_rows = 0

    def log_metrics(self, metrics, step=None):
        self.n_rows += "rows" in metrics


def test_forward_does_not_write_to_loggers_during_audits(tmp_path):
    counts = []
    for callbacks in ([], [BivShapCallback(n_samples=4, panels=False, on_error="raise", every_n_epochs=1)]):
        logger = Counting(tmp_path / str(len(callbacks)))
        trainer = pl.Trainer(
            callbacks=callbacks, max_epochs=1, accelerator="cpu", logger=logger, default_root_dir=tmp_path,
            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, num_sanity_val_steps=0,
        )  # fmt: skip
        trainer.fit(Talkative(), train_loader(), valid_loader())
        assert trainer.logger is logger
        counts.append(logger.n_rows)
    assert counts[0] == counts[1] > 0
