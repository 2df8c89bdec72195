"""Every declared Python: all modules compile, and the parts that need no torch give the same results."""

import configparser
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("numpy", "scipy", "networkx", "scikit-network", "matplotlib", "markupsafe", "tomli; python_version < '3.11'")

# Graph, record, gate and page, none of which may ask for torch.
WITHOUT_TORCH = """
import json, sys
from bivshap_lightning import AuditRecord, ExplanationGraph
from bivshap_lightning.gate import Rule, judge
from bivshap_lightning.views.html import render_page
record = AuditRecord.load(sys.argv[1])
verdict = judge(record, [Rule(metric="bivshap/redundancy/density", max=1.0)])
graph = ExplanationGraph([[0, 0, 1 / 4], [0, 0, 1 / 4], [1 / 6, 1 / 6, 0]], shapley=[1 / 2, 1 / 2, 1 / 2])
page = render_page(record, verdict=verdict)
assert "torch" not in sys.modules
print(json.dumps({
    "passed": verdict.passed,
    "roles": list(graph.roles()),
    "ranking": [round(float(score), 9) for score in graph.ranking()],
    "groups": [list(group) for group in graph.redundancy().groups],
    "page": len(page) > 10_000,
}))
"""


def declared() -> list[str]:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    names = settings["metadata"]["classifiers"].splitlines()
    found = [name.rpartition(" ")[2] for name in names if "Python :: 3." in name]
    assert found
    return found


def interpreter(version: str) -> str:
    """An interpreter of a version, on the PATH or among those of pyenv; a test without one is skipped."""
    candidates = [shutil.which(f"python{version}")]
    candidates += [str(p) for p in sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))]
    for candidate in filter(None, candidates):
        shown = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if shown.returncode == 0 and f"Python {version}." in shown.stdout:
            return candidate
    pytest.skip(f"there is no Python {version} on this machine")


@pytest.mark.parametrize("version", declared())
def test_every_module_compiles(version, tmp_path):
    run = subprocess.run(
        [interpreter(version), "-m", "compileall", "-q", "-f", str(ROOT / "bivshap_lightning")],
        env={**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


def results(python: str) -> dict:
    record = ROOT / "tests" / "audit" / "archive" / "version_3.json"
    run = subprocess.run(
        [python, "-c", WITHOUT_TORCH, str(record)], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_graph_record_gate_and_page_need_no_torch():
    found = results(sys.executable)
    assert len(found.pop("ranking")) == 3
    roles = ["interchangeable", "interchangeable", "essential"]
    assert found == {"passed": True, "roles": roles, "groups": [[0, 1]], "page": True}


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", declared())
def test_graph_record_gate_and_page_work_on_every_python(version, tmp_path):
    """In an environment without torch; packages are downloaded."""
    python = interpreter(version)
    subprocess.run([python, "-m", "venv", str(tmp_path / "env")], check=True)
    inside = str(tmp_path / "env" / "bin" / "python")
    install = [inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", *NEEDED]
    subprocess.run(install, check=True, capture_output=True)
    assert results(inside) == results(sys.executable)
