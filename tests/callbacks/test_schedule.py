"""When audits run: by a number of epochs, or by their share of the run's time; and several callbacks in one Trainer."""

import math
import re

import pytest
from pytorch_lightning.callbacks import EarlyStopping
from pytorch_lightning.loggers import CSVLogger

from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.callbacks.schedule import AuditSchedule
from tests.callbacks.modules import Module, train_loader, valid_loader
from tests.callbacks.test_bivshap_callback import SOME, trainer

BY_SHARE = {name: value for name, value in SOME.items() if name != "every_n_epochs"}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def audited_epochs(max_share: float, audit_seconds: float, n_epochs: int, epoch_seconds: float = 1.0) -> list[int]:
    """Play a run whose epochs and audits take known times."""
    clock, audited = Clock(), []
    schedule = AuditSchedule(None, max_share, clock=clock)
    schedule.start_run()
    for epoch in range(n_epochs):
        clock.now += epoch_seconds
        if schedule.is_due(epoch):
            audited.append(epoch)
            clock.now += audit_seconds
            schedule.add(audit_seconds)
    return audited


def test_cheap_audits_run_every_epoch():
    assert audited_epochs(max_share=0.1, audit_seconds=0.1, n_epochs=20) == list(range(20))


@pytest.mark.parametrize("audit_seconds", [0.5, 3.0, 10.0])
def test_dear_audits_thin_out_to_their_share(audit_seconds):
    n_epochs = 400
    audited = audited_epochs(0.1, audit_seconds, n_epochs)
    spent = len({*audited, n_epochs - 1}) * audit_seconds  # with the one at the end of fitting
    assert audited[0] == 0
    assert spent <= 0.1 * (n_epochs + spent) + 1e-9
    assert spent > 0.1 * (n_epochs + spent) - 2 * audit_seconds  # and no fewer than may be


def test_the_account_survives_a_checkpoint():
    clock = Clock()
    first = AuditSchedule(None, 0.1, clock=clock)
    first.start_run()
    clock.now += 50
    first.add(5.0)
    first.other_seconds = 0.5
    second = AuditSchedule(None, 0.1, clock=clock)
    second.load_state_dict(first.state_dict())
    second.start_run()
    assert (second.run_seconds, second.audit_seconds, second.other_seconds) == (50.0, 5.0, 0.5)
    assert not second.is_due(7)
    clock.now += 60
    assert not second.is_due(8)  # no time would be left for the audit at the end
    clock.now += 60
    assert second.is_due(9)


def test_what_is_done_beside_audits_counts_in_the_account():
    """Audits of .1 s every epoch of 1 s leave no time for .05 s of other work in each."""

    def audited(other_seconds: float) -> int:
        clock, n = Clock(), 0
        schedule = AuditSchedule(None, 0.1, clock=clock)
        schedule.start_run()
        for epoch in range(100):
            clock.now += 1.0
            due = schedule.is_due(epoch)
            with schedule.other_work():
                clock.now += other_seconds
                if due:
                    clock.now += 0.1
                    schedule.add(0.1)
                    n += 1
        assert schedule.other_seconds == pytest.approx(100 * other_seconds)
        assert schedule.audit_seconds + schedule.other_seconds <= 0.1 * schedule.run_seconds + 0.1
        return n

    assert audited(0.0) == 100
    assert 40 < audited(0.05) < 70


def test_logging_and_collecting_samples_are_in_the_account(tmp_path):
    callback = BivShapCallback(**BY_SHARE, max_share=1e-6)
    trainer(tmp_path, callback, max_epochs=3).fit(Module(), train_loader(), valid_loader())
    assert 0 < callback.schedule.other_seconds < callback.schedule.audit_seconds


def test_a_comparison_waits_until_the_account_allows_it():
    """An audit of 1 s, of which other explainers take .8 s, in epochs of 2 s: every epoch is audited, few compare."""
    clock, compared, audited = Clock(), [], []
    schedule = AuditSchedule(None, 0.15, clock=clock)
    schedule.start_run()
    for epoch in range(200):
        clock.now += 2.0
        if schedule.is_due(epoch):
            audited.append(epoch)
            seconds = 1.0 if schedule.may_compare() else 0.2
            compared += [epoch] * (seconds == 1.0)
            clock.now += seconds
            schedule.add(seconds, 0.8 if seconds == 1.0 else None)
    spent = 0.2 * len(audited) + 0.8 * len(compared)
    assert compared[0] == 0
    assert len(audited) > 190
    assert 10 < len(compared) < len(audited) / 5
    assert spent <= 0.15 * schedule.run_seconds + 1e-9


@pytest.mark.parametrize(("audit_seconds", "comparison"), [(3.0, None), (8.0, 5.0), (0.3, 0.1)])
def test_the_next_audit_follows_when_it_was_said_to(audit_seconds, comparison):
    clock = Clock()
    schedule = AuditSchedule(None, 0.1, clock=clock)
    schedule.start_run()
    clock.now += 1.0 + audit_seconds
    said = schedule.next_audit(audit_seconds, comparison, 1.0, math.inf)
    assert "at the end of fitting" in schedule.next_audit(audit_seconds, comparison, 1.0, 1)
    schedule.add(audit_seconds, comparison)
    waited = 0
    while True:
        clock.now += 1.0
        waited += 1
        if schedule.is_due(waited):
            break
    assert abs(int(re.search(r"about (\d+) epochs", said)[1]) - waited) <= 1


def test_nothing_is_said_of_the_next_audit_where_every_epoch_has_one():
    schedule = AuditSchedule(None, 0.1, clock=Clock())
    schedule.start_run()
    assert schedule.next_audit(1e-3, None, 1.0, 10) == ""
    assert AuditSchedule(2).next_audit(100.0, None, 1.0, 10) == ""


def test_an_explicit_schedule_compares_every_time():
    schedule = AuditSchedule(1, 0.1, clock=Clock())
    schedule.start_run()
    schedule.add(1e9, 1e9)
    assert schedule.is_due(1)
    assert schedule.may_compare()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every_n_epochs": 0}, "`every_n_epochs` must be at least 1, got 0"),
        ({"max_share": 0.0}, "`max_share` must lie above 0 and up to 1, got 0.0. Pass 0.1 for a tenth"),
        ({"max_share": 10}, "`max_share` must lie above 0 and up to 1, got 10"),
    ],
)
def test_schedules_that_cannot_be_meant_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        BivShapCallback(**arguments)


def test_the_first_validation_and_the_end_of_fitting_are_audited(tmp_path):
    callback = BivShapCallback(**BY_SHARE, max_share=1e-6)
    logger = CSVLogger(tmp_path)
    run = trainer(tmp_path, callback, max_epochs=4, logger=logger)
    run.fit(Module(), train_loader(), valid_loader())
    assert [past["epoch"] for past in callback.history] == [0, 3]  # named by the last epoch that ran
    assert len(list((tmp_path / "lightning_logs" / "version_0" / "bivshap").glob("*.json"))) == 2
    rows = (tmp_path / "lightning_logs" / "version_0" / "metrics.csv").read_text().splitlines()
    column = rows[0].split(",").index("bivshap/failed")
    assert [row.split(",")[column] for row in rows[1:] if row.split(",")[column]] == ["0.0"] * 5  # 4 epochs and the end


def test_an_early_stop_is_audited_once(tmp_path):
    stop = EarlyStopping("val_loss", patience=1, min_delta=1e9, check_on_train_epoch_end=False)
    callback = BivShapCallback(**BY_SHARE, max_share=1e-6)
    run = trainer(tmp_path, callback, stop, max_epochs=30)
    run.fit(Module(), train_loader(), valid_loader())
    assert run.current_epoch < 30
    assert len(callback.history) == 2


def test_epochs_that_can_be_afforded_are_all_audited_and_not_once_more_at_the_end(tmp_path):
    callback = BivShapCallback(**BY_SHARE, max_share=1.0)
    trainer(tmp_path, callback, max_epochs=3).fit(Module(), train_loader(), valid_loader())
    assert [past["epoch"] for past in callback.history] == [0, 1, 2]


def test_two_callbacks_in_one_trainer(tmp_path):
    """One per class: both log, write and resume under names of their own."""
    callbacks = [BivShapCallback(**SOME, target=0), BivShapCallback(**SOME, target=1)]
    run = trainer(tmp_path, *callbacks, max_epochs=1)
    run.fit(Module(), train_loader(), valid_loader())
    run.save_checkpoint(tmp_path / "last.ckpt")
    for name, callback in zip(("bivshap", "bivshap_2"), callbacks, strict=True):
        own = callback.result.numbers["bivshap/insertion_auc/ours"][0]
        assert run.callback_metrics[f"{name}/insertion_auc/ours"] == pytest.approx(own)
        assert len(list((tmp_path / name).glob("*.json"))) == 1
    resumed = [BivShapCallback(**SOME, target=0), BivShapCallback(**SOME, target=1)]
    again = trainer(tmp_path, *resumed, max_epochs=2)
    again.fit(Module(), train_loader(), valid_loader(), ckpt_path=tmp_path / "last.ckpt")
    assert [[past["epoch"] for past in c.history] for c in resumed] == [[0, 1], [0, 1]]
    assert resumed[1].history[0]["numbers"] == callbacks[1].history[0]["numbers"]


def test_a_name_that_is_no_folder_is_refused():
    with pytest.raises(ValueError, match="`name` must consist of letters, digits"):
        BivShapCallback(name="../elsewhere")
