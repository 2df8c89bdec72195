"""The examples run and end with what they promise."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
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


@pytest.mark.slow
def test_adult_columns(tmp_path):
    """A table in the format of Adult: two columns say the same, most say nothing."""
    rng = np.random.default_rng(0)
    words = {
        "workclass": 3, "education": 8, "marital_status": 3, "occupation": 5, "relationship": 3, "race": 2, "sex": 2,
        "native_country": 4,
    }  # fmt: skip
    rows = []
    for _ in range(1200):
        education, age, sex = rng.integers(8), rng.integers(18, 80), rng.integers(2)
        codes = {name: rng.integers(n) for name, n in words.items()} | {"education": education, "sex": sex}
        texts = {name: f"{name}-{code}" for name, code in codes.items()}
        label = ">50K" if 8 * education + age + 3 * rng.normal() > 75 else "<=50K"
        rows.append([
            age, texts["workclass"], rng.integers(10**6), texts["education"], education, texts["marital_status"],
            texts["occupation"], texts["relationship"], texts["race"], texts["sex"], 0, 0, rng.integers(20, 60),
            texts["native_country"], label,
        ])  # fmt: skip
    (tmp_path / "adult.data").write_text("\n".join(", ".join(map(str, row)) for row in rows))
    said = run_example("adult_columns.py", "--data", tmp_path, "--samples", 40)
    assert re.search(r"^education(_num)? .*copy of education(_num)? \(1\.00\)", said, flags=re.MULTILINE)
    (can_go,) = re.findall(r"can go: (.*)\. Retrain to confirm", said)
    assert {"capital_gain", "capital_loss"} <= set(can_go.split(", "))
    assert "age" not in can_go.split(", ")
    assert len({"education", "education_num"} & set(can_go.split(", "))) == 1
    before, after = map(float, re.search(r"accuracy ([\d.]+) before, ([\d.]+) after", said).groups())
    assert after > before - 0.02


@pytest.mark.slow
def test_gnn_nodes(tmp_path):
    """Two marked neighbours are interchangeable, as nodes and as edges."""
    pytest.importorskip("torch_geometric")
    said = run_example("gnn_nodes.py", "--output", tmp_path)
    node, first, second = re.search(r"Node (\d+) has .* of which (\d+) and (\d+) are marked", said).groups()
    assert f"node {first} and node {second} stand in for one another" in said
    assert f"{first} -> {node} and {second} -> {node} stand in for one another" in said
    shares = [float(share) for share in re.findall(r"Shapley value ([\d.]+)", said)]
    assert shares == pytest.approx([0.5] * 4, abs=0.06)
    assert (tmp_path / "gnn_nodes.png").stat().st_size > 10_000


@pytest.mark.slow
def test_release_history(tmp_path):
    """Accuracy stays, the share of the hidden sensor goes, and the last release is stopped by its name."""
    said = run_example("release_history.py", "--output", tmp_path)
    accuracies, first, second = zip(
        *(map(float, found) for found in re.findall(r"accuracy ([\d.]+), .* A ([\d.]+), of sensor B ([\d.]+)", said)),
        strict=True,
    )
    assert min(accuracies) > 0.95
    assert first[-1] < first[0] / 2
    assert second[-1] > second[0]
    assert re.search(r"release_4 FAILED\n +proline, sensor A: place \d+ before, place \d+ now", said)
    assert (tmp_path / "history.html").stat().st_size > 10_000
