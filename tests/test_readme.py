"""What the README and the pages of the site show is run, and every picture of the gallery has its script."""

import re
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from docs.make_gallery import SCRIPTS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")))
BLOCKS = [
    pytest.param(block, id=f"{page}-{k}")
    for page in PAGES
    for k, block in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    )
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gate.toml").write_text('version = 1\n[[rule]]\nmetric = "top1_share"\nmax = 0.5\n')
    names = {"Trainer": pl.Trainer}
    exec(compile(block, "a page", "exec"), names)
    for line in re.findall(r"^(explanation\.\w+\(\d?\)\.names)  # (\(.*\))$", block, flags=re.MULTILINE):
        assert "..." in line[1] or repr(eval(line[0], names)) == line[1]
    if "metric" in names:
        assert torch.isfinite(names["metric"].compute()["share_removable"])


def test_files_named_in_the_readme_exist():
    found = re.findall(r"\]\((?!http)([^)#]+)\)|`(examples/[^`]*)`", README)
    assert len(found) > 10
    for name in found:
        assert (ROOT / (name[0] or name[1])).exists()


def test_every_picture_and_result_of_the_gallery_is_made_by_a_script_and_shown():
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    made = {picture for _, pictures in SCRIPTS.values() for picture in pictures}
    assert {p.name for p in (ROOT / "docs/images/gallery").iterdir()} == made
    assert {p.stem for p in (ROOT / "docs/gallery/said").iterdir()} == {Path(script).stem for script in SCRIPTS}
    for script in SCRIPTS:
        assert (ROOT / script).is_file()
    for picture in made:
        assert f"images/gallery/{picture}" in text


def test_printed_results_name_no_folder_of_the_machine_that_made_them():
    for said in (ROOT / "docs/gallery/said").iterdir():
        assert not re.search(r"(^|[\s:=])/\w+/", said.read_text(encoding="utf-8")), said.name
