"""The page about methods: its table of worked games is what the methods find, its code runs, and no method is missing.

``python -m tests.explainers.test_methods_page`` writes the table.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from bivshap_lightning import Game
from bivshap_lightning.explainers import explainer_names, find_explainer

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
GAMES = {
    "duplicated": lambda x: x[:, 0] + torch.maximum(x[:, 1], x[:, 2]),
    "XOR": lambda x: x.sum(dim=1) % 2,
    "one way": lambda x: torch.maximum(2 * x[:, 0], x[:, 1]) + x[:, 2],
}
METHODS = (
    "exact", "bivariate_banzhaf", "bivariate_beta_shapley", "bivariate_leave_one_out", "shapley_interaction",
    "shapley_taylor", "shapley_excess", "metagame", "asiv",
)  # fmt: skip
TABLE = re.compile(r"(?<=<!-- worked games -->\n).*?(?=<!-- end -->)", flags=re.DOTALL)


def redundant(method: str, game: str) -> str:
    made = Game(GAMES[game], torch.ones(1, 3, dtype=torch.float64), behavior="output")
    adjacency = find_explainer(method).explain(made).graph(0).redundancy(gamma=1e-5).adjacency
    return " ".join(f"`{i}>{j}`" for i, j in np.argwhere(adjacency)) or "none"


def table() -> str:
    head = ["| method | " + " | ".join(f"{game}: redundant" for game in GAMES) + " |", "| --- " * 4 + "|"]
    rows = [f"| `{method}` | " + " | ".join(redundant(method, game) for game in GAMES) + " |" for method in METHODS]
    return "\n".join([*head, *rows]) + "\n"


def test_the_worked_games_are_what_the_methods_find():
    assert TABLE.search(PAGE.read_text(encoding="utf-8"))[0] == table()


def test_every_method_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    missing = [name for name in explainer_names() if f"`{name}`" not in page and not name.startswith("bivariate_")]
    assert missing == ["auto"]


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL))
def test_its_code_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "methods.md", "exec"), {})


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda found: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
