"""History: the timeline of hand-made records as JSON, text and page."""

import json
import re

import numpy as np
import pytest

from bivshap_lightning.gate import GateError, Rule, calibrate, make_history, save_calibration
from bivshap_lightning.views.html.history import render_history
from bivshap_lightning.views.html.timeline import MAX_FEATURES, draw_bump_chart, draw_drift, drift_ratios
from tests.gate.importance_records import importance_record, retrains, save
from tests.test_cli import call, refused

MOVING = [importance_record([[w, 0.6 - w, 0.4]] * 4, source=f"release{k}.json") for k, w in enumerate((0.1, 0.3, 0.5))]


def test_shares_places_and_drift_by_hand():
    history = make_history(MOVING)
    assert history.features == ("age", "sex", "job")
    assert [entry.name for entry in history.entries] == ["release0", "release1", "release2"]
    assert [entry.shares["age"] for entry in history.entries] == pytest.approx([0.1, 0.3, 0.5])
    assert [entry.places["age"] for entry in history.entries] == [3, 2, 1]
    assert history.entries[0].drift == {}
    assert history.entries[1].drift["drift/rise"] == pytest.approx(np.log(0.31 / 0.11))
    assert history.entries[2].moved[1] == "age: place 2 before, first now, share .30 -> .50"
    assert history.entries[0].roles["essential"] == 1
    assert (history.against, history.thresholds, history.notes) == ("the record before", {}, ())


def test_rules_give_verdicts_and_thresholds():
    rules = [Rule(metric="drift/rise", max=0.8), Rule(metric="top1_share", max=0.9)]
    history = make_history(MOVING, rules=rules)
    assert [entry.verdict.passed for entry in history.entries] == [True, False, True]
    assert len(history.entries[0].verdict.results) == 1  # the first record has none before it
    assert history.thresholds == {"drift/rise": 0.8}
    assert drift_ratios(history)["drift/rise"] == pytest.approx(
        [None, np.log(0.31 / 0.11) / 0.8, np.log(0.51 / 0.31) / 0.8]
    )
    only_changes = make_history(MOVING, rules=rules[:1])
    assert only_changes.entries[0].verdict is None


def test_the_reference_is_what_drift_is_measured_from(tmp_path):
    path, _ = save_calibration(calibrate(retrains(5)), tmp_path / "gate.toml")
    leaked = importance_record(np.full((8, 3), [0.02, 0.03, 0.95]), source="leaked")
    history = make_history([retrains(6)[5], leaked], rules=path)
    assert "mean of 5 trusted records" in history.against
    assert [entry.verdict.passed for entry in history.entries] == [True, False]
    assert set(history.thresholds) == {"drift/shares", "drift/rise", "drift/samples", "drift/ndcg"}
    page = render_history(history)
    assert "1 of 2 records passed" in page
    assert "job: place 3 before, first now, share .21 -&gt; .95" in page
    assert page.count("<img ") == 2


def test_figures_name_what_they_show():
    rules = [Rule(metric="drift/rise", max=0.8), Rule(metric="drift/ndcg", min=0.9)]
    history = make_history(MOVING, rules=rules)
    gids = {artist.get_gid() for artist in draw_bump_chart(history).findobj() if artist.get_gid()}
    assert {"bump:age", "bump:sex", "bump:job", "place:age"} <= gids
    gids = {artist.get_gid() for artist in draw_drift(history).findobj() if artist.get_gid()}
    assert {"threshold", "drift:drift/rise", "drift:drift/ndcg", "name:drift/rise"} <= gids
    two = make_history(MOVING[:2], rules=rules)
    assert draw_drift(two).axes == []


def test_many_features_and_records_are_drawn():
    rng = np.random.default_rng(0)
    names = [f"a rather long name of a column {k}" for k in range(30)]
    records = [importance_record(rng.random((2, 30)), names=names, source=f"r{k}") for k in range(40)]
    history = make_history(records)
    drawn = {a.get_gid() for a in draw_bump_chart(history).findobj() if str(a.get_gid()).startswith("place:")}
    assert len(drawn) == MAX_FEATURES
    assert "40 records" in render_history(history)


def test_pages_escape_names_and_load_nothing():
    names = ("<script>alert(1)</script>", "b", "c")
    history = make_history([importance_record(r.arrays["shapley"], names=names, source=r.source) for r in MOVING])
    page = render_history(history)
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)


def test_samples_that_are_not_shared_are_said():
    other = importance_record([[0.1, 0.5, 0.4]] * 4, keys=("a", "b", "c", "d"), source="other")
    history = make_history([MOVING[0], other])
    assert history.notes[0].startswith("the records share 0 of 4 samples")
    assert history.entries[1].drift["drift/samples"] is None
    assert "the records share 0 of 4 samples" in render_history(history)
    assert history.to_text().startswith("note: the records share 0 of 4 samples")


def test_records_of_words_without_common_features():
    from dataclasses import replace

    history = make_history([replace(record, classes={}) for record in MOVING])
    assert history.features == ()
    assert set(history.entries[1].drift) == {"drift/samples", "drift/roles"}
    assert "no features in common" in render_history(history)


def test_command(tmp_path):
    paths = [save(record, tmp_path / f"m{k}.json") for k, record in enumerate(MOVING)]
    code, output = call("history", *paths, "-o", tmp_path / "history.html")
    assert code == 0
    assert "bivshap: page" in output
    assert "m2" in output
    assert (tmp_path / "history.html").read_text().startswith("<!DOCTYPE html>")
    code, output = call("history", *paths, "--json")
    assert code == 0
    found = json.loads(output)
    assert found["kind"] == "bivshap_lightning.History"
    assert found["entries"][2]["places"]["age"] == 1
    (tmp_path / "gate.toml").write_text('[[rule]]\nmetric = "drift/rise"\nmax = 0.8\n')
    code, output = call("history", *paths, "--rules", tmp_path / "gate.toml", "-o", tmp_path / "history.html")
    assert (code, output.count("FAILED")) == (0, 1)
    assert refused(*call("history", *paths))
    assert refused(*call("history", paths[0], "-o", tmp_path / "history.html"))
    assert refused(*call("history", *paths, "-o", tmp_path / "none" / "history.html"))
    other = save(importance_record([[1, 0, 0]] * 4, removal="baseline 1"), tmp_path / "other.json")
    assert refused(*call("history", paths[0], other, "-o", tmp_path / "history.html"))


def test_one_record_is_refused():
    with pytest.raises(GateError, match=r"`records` must be two or more, oldest first, got 1"):
        make_history(MOVING[:1])
