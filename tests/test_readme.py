"""What the README and the pages about inputs show is run."""

import re
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    pytest.param(block, id=f"{page}-{k}")
    for page in ("README.md", "docs/inputs.md")
    for k, block in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    )
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"Trainer": pl.Trainer}
    exec(compile(block, "README.md", "exec"), names)
    if "h" in names:
        assert bool(names["h"].adjacency[0, 1])
        assert not bool(names["h"].adjacency[1, 0])
        assert (names["h"].sources, names["h"].sinks) == ((0,), (1,))
    for line in re.findall(r"^(explanation\.\w+\(\d?\)\.names)  # (\(.*\))$", block, flags=re.MULTILINE):
        assert "..." in line[1] or repr(eval(line[0], names)) == line[1]
    if "metric" in names:
        assert torch.isfinite(names["metric"].compute()["share_removable"])


def test_files_named_in_the_readme_exist():
    for name in re.findall(r"\]\((?!http)([^)#]+)\)|`(examples/[^`]+\.py)`", README):
        assert (ROOT / (name[0] or name[1])).exists()
