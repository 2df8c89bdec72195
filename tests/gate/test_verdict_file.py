"""A verdict beside its record: read back whole, not believed of other content, refused if damaged."""

import json

import pytest

from bivshap_lightning.cli import main
from bivshap_lightning.gate import GateError, Rule, judge
from bivshap_lightning.gate.verdict_file import load_verdict, save_verdict, verdict_path
from tests.views.explorer.logs import random_graph, save_record

ACCURACY = "bivshap/redundancy/accuracy_with_representatives"
RULES = 'version = 1\n[[rule]]\nmetric = "bivshap/insertion_auc/ours"\nmin = 0.99\n'


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "audit.json"
    save_record(path, [random_graph(4, seed) for seed in range(2)], ["x", "y"])
    return path


def test_without_one_there_is_none(record):
    assert load_verdict(record) is None


def test_it_is_read_back(record):
    verdict = judge(record, [Rule(metric=ACCURACY, min=0.1), Rule(metric="bivshap/insertion_auc/ours", min=0.99)])
    assert save_verdict(verdict, record) == verdict_path(record)
    assert load_verdict(record) == verdict
    assert not load_verdict(record).passed


def test_a_record_that_was_written_again_has_none(record):
    save_verdict(judge(record, [Rule(metric=ACCURACY, min=0.1)]), record)
    save_record(record, [random_graph(4, seed) for seed in range(2, 4)], ["x", "y"])
    assert load_verdict(record) is None


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"record_sha256": 1}', '{"record_sha256": "", "verdict": {}}', "[" * 9999]
)
def test_what_is_no_verdict_is_refused(record, content):
    verdict_path(record).parent.mkdir()
    verdict_path(record).write_text(content)
    with pytest.raises(GateError, match=r"audit\.json"):
        load_verdict(record)


def test_a_large_file_is_not_read(record):
    verdict_path(record).parent.mkdir()
    with verdict_path(record).open("wb") as file:
        file.truncate(2**25)
    with pytest.raises(GateError, match="at most 16,777,216 bytes, got 33,554,432"):
        load_verdict(record)


def test_the_command_keeps_it_on_request(record, capsys):
    rules = record.with_name("gate.toml")
    rules.write_text(RULES)
    assert main(["gate", str(record), "--rules", str(rules)]) == 1
    assert load_verdict(record) is None
    capsys.readouterr()
    assert main(["gate", str(record), "--rules", str(rules), "--keep", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["passed"] is load_verdict(record).passed is False


def test_an_error_replaces_an_earlier_verdict(record):
    rules = record.with_name("gate.toml")
    rules.write_text(RULES)
    main(["gate", str(record), "--rules", str(rules), "--keep"])
    rules.write_text("nonsense")
    assert main(["gate", str(record), "--rules", str(rules), "--keep"]) == 2
    assert "gate.toml" in load_verdict(record).error


def test_a_folder_that_cannot_be_written_is_said(record, capsys):
    rules = record.with_name("gate.toml")
    rules.write_text(RULES)
    verdict_path(record).parent.write_text("a file")
    assert main(["gate", str(record), "--rules", str(rules), "--keep"]) == 2
    assert "`--keep` must be able to write beside" in capsys.readouterr().err
