"""The examples run and end with what they promise. (`make demo` is run by the browser test, which needs its logs.)"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_tabular_duplicates(tmp_path):
    command = [sys.executable, "examples/tabular_duplicates.py", "--output", str(tmp_path / "logs")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    assert "Interchangeable: proline = proline (copy)." in run.stdout
    assert len(list(tmp_path.rglob("bivshap/*.json"))) == 2
