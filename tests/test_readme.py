"""What the README shows is run."""

import re
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_python_blocks_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"Trainer": pl.Trainer}
    exec(compile(block, "README.md", "exec"), names)
    if "h" in names:
        assert bool(names["h"].adjacency[0, 1])
        assert not bool(names["h"].adjacency[1, 0])
        assert (names["h"].sources, names["h"].sinks) == ((0,), (1,))
    if "metric" in names:
        assert torch.isfinite(names["metric"].compute()["share_removable"])


def test_files_named_in_the_readme_exist():
    root = Path(__file__).parents[1]
    for name in re.findall(r"\]\((?!http)([^)#]+)\)|`(examples/[^`]+\.py)`", README):
        assert (root / (name[0] or name[1])).exists()
