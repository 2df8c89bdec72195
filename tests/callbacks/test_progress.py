"""The progress of an audit in the displays of real Trainers."""

import re

import pytest
import torch
from pytorch_lightning.callbacks import RichProgressBar, TQDMProgressBar

from bivshap_lightning import Game
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.callbacks.progress import LABEL
from bivshap_lightning.game.progress import Portion
from tests.callbacks.modules import Module, train_loader, valid_loader
from tests.callbacks.test_bivshap_callback import SOME, fit, trainer


def test_a_bar_below_those_of_tqdm_counts_samples_and_tells_the_time_left(tmp_path, capsys):
    run = trainer(tmp_path, BivShapCallback(**SOME), TQDMProgressBar(), max_epochs=2, enable_progress_bar=True)
    run.fit(Module(), train_loader(), valid_loader())
    found = re.findall(rf"{LABEL}: +(\d+)%\|[^|]*\| (\d)/6 samples \[[\d:]+<[\d:?]+\]", capsys.readouterr().out)
    assert found.count(("0", "0")) >= 2  # both audits start one
    assert {int(n) for _, n in found} <= set(range(7))


def test_a_task_in_the_display_of_rich_is_used_again_and_hidden_afterwards(tmp_path, capsys):
    seen = []

    class Watched(RichProgressBar):
        def on_validation_end(self, trainer, pl_module) -> None:
            if not trainer.sanity_checking:
                seen.extend(task for task in self.progress.tasks if task.description == LABEL)
            super().on_validation_end(trainer, pl_module)

    display = Watched(console_kwargs={"force_terminal": True, "width": 200})
    run = trainer(tmp_path, BivShapCallback(**SOME), display, max_epochs=3, enable_progress_bar=True)
    run.fit(Module(), train_loader(), valid_loader())
    assert len(seen) == 3
    assert len({task.id for task in seen}) == 1
    assert seen[-1].completed == pytest.approx(6)
    assert not seen[-1].visible
    assert LABEL in capsys.readouterr().out


def test_the_bar_of_rich_moves_while_an_audit_runs(tmp_path, capsys, monkeypatch):
    """Lightning draws its display at its own batches only, so an audit has to ask for it."""
    monkeypatch.setattr("bivshap_lightning.callbacks.progress.SECONDS_PER_DRAWING", 0.0)
    display = RichProgressBar(console_kwargs={"force_terminal": True, "width": 200})
    callback = BivShapCallback(**SOME, perturbations_per_eval=1)
    run = trainer(tmp_path, callback, display, max_epochs=1, enable_progress_bar=True)
    run.fit(Module(), train_loader(), valid_loader())
    drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out)
    counts = [int(n) for n in re.findall(rf"{LABEL} \S+ (\d)/6", drawn)]
    assert counts[0] == 0
    assert len(set(counts)) > 2


@pytest.mark.parametrize("stage", ["validate", "test"])
def test_validation_and_test_alone_have_one_too(tmp_path, capsys, stage):
    run = trainer(tmp_path, BivShapCallback(**SOME), TQDMProgressBar(), enable_progress_bar=True)
    getattr(run, stage)(Module(), valid_loader(), verbose=False)
    assert LABEL in capsys.readouterr().out


def test_silent_where_bars_are_off(tmp_path, capsys):
    fit(tmp_path, BivShapCallback(**SOME), max_epochs=1, enable_progress_bar=False)
    display = TQDMProgressBar()
    display.disable()  # as Lightning does on all processes but the first
    run = trainer(tmp_path, BivShapCallback(**SOME), display, max_epochs=1, enable_progress_bar=True)
    display.disable()
    run.fit(Module(), train_loader(), valid_loader())
    assert LABEL not in capsys.readouterr().out


def test_a_portion_ends_where_it_should_however_wrong_the_expectation():
    class Bar:
        n = 0.0

        def update(self, n: float) -> None:
            assert n >= 0
            self.n += n

    for n_rows, expected in ((10, 1000), (1000, 10), (0, 5)):
        bar = Bar()
        portion = Portion(bar, 3, expected)
        for _ in range(n_rows):
            portion.update(1)
            assert bar.n <= 3 + 1e-9
        portion.finish()
        assert bar.n == pytest.approx(3)


def test_a_game_advances_a_bar_by_its_model_rows():
    rows = []

    class Bar:
        def update(self, n: float) -> None:
            rows.append(n)

    model, x = (lambda x: x.sum(dim=1)), torch.ones(2, 5)
    game = Game(model, x, behavior="output", perturbations_per_eval=3, show_progress=Bar())
    game(torch.eye(5, dtype=torch.bool)[None])
    assert rows == [6, 4]
