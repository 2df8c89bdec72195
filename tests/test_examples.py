"""The examples run and end with what they promise."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run_example(name, *arguments):
    """An example in a process of its own; what it printed."""
    command = [sys.executable, f"examples/{name}", *map(str, arguments)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


@pytest.mark.slow
def test_tabular_duplicates(tmp_path):
    said = run_example("tabular_duplicates.py", "--output", tmp_path / "logs")
    assert "Interchangeable: proline = proline (copy)." in said
    assert len(list(tmp_path.rglob("bivshap/*.json"))) == 2
    assert (tmp_path / "logs" / "tabular_duplicates.png").stat().st_size > 10_000


@pytest.mark.slow
def test_black_box_forest(tmp_path):
    said = run_example("black_box_forest.py", "--output", tmp_path)
    assert "Sampling says the same: 9" in said
    assert "100% of the wines are still recognised" in said
    left = re.search(r"One way only: wine \d+ gains 0\.\d+ by its [\w /]+, of which (\d+)% are left", said)
    assert int(left[1]) < 50
    assert "Boosted trees (LightGBM)" in said
    assert (tmp_path / "black_box_forest.png").stat().st_size > 10_000


@pytest.mark.slow
def test_digits_cnn(tmp_path):
    said = run_example("digits_cnn.py", "--output", tmp_path / "digits.png")
    share = float(re.search(r"let (\d+)% of the superpixels go", said)[1])
    stays, at_random = (float(number) for number in re.findall(r"(\d+)% of the decisions stay", said))
    assert share > 30
    assert stays > 95
    assert at_random < stays - 20
    assert (tmp_path / "digits.png").stat().st_size > 10_000


def check_the_papers_sentence(said, picture):
    """Worst and awful stand in for one another; surprisingly is redundant given worst, not the reverse."""
    for line in (
        r"awful once worst is there: .*\d, redundant",
        r"worst once awful is there: .*\d, redundant",
        r"surprisingly once worst is there: .*\d, redundant",
        r"worst once surprisingly is there: .*\d, not redundant",
    ):
        assert re.search(line, said), said
    assert picture.stat().st_size > 10_000


@pytest.mark.slow
def test_text_gru(tmp_path):
    said = run_example("text_gru.py", "--output", tmp_path / "text.png")
    check_the_papers_sentence(said, tmp_path / "text.png")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_text_gru_on_real_reviews(tmp_path):
    reviews = ROOT.parent / "shared" / "data" / "imdb"
    if not reviews.is_dir():
        pytest.skip("needs a folder with imdb_train.jsonl.gz beside the checkout, in ../shared/data/imdb")
    said = run_example("text_gru.py", "--data", reviews, "--output", tmp_path / "text.png")
    check_the_papers_sentence(said, tmp_path / "text.png")
