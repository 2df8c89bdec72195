"""CONTRIBUTING's recipes, applied to a copy of the package as a reader would, and looked for in a real training run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# What a user does after the changes: trains with the callback, and reads what it left.
RUN = '''
import json, sys, torch
import pytorch_lightning as pl
from pytorch_lightning.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import bivshap_lightning
from bivshap_lightning import AuditRecord, Opposite
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.explainers import explainer_names
from bivshap_lightning.game.players import Halves
from bivshap_lightning.gate import Rule, judge

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, x):
        return self.layer(x)
    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])
    def validation_step(self, batch, batch_idx):
        pass
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

class Mine:
    """A user's own explainer, known to nobody."""
    name, is_exact = "mine", False
    def minimum_evaluations(self, game):
        return 0
    def explain(self, game, n_evaluations=None, seed=0):
        scores = torch.arange(game.n_players, dtype=game.dtype).expand(game.n_samples, -1)
        return bivshap_lightning.Explanation.of(
            game, method="mine", seed=seed, shapley=scores, n_evaluations=game.n_evaluations * 0
        )

folder = sys.argv[1]
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(16, 4), torch.arange(16) % 2), batch_size=8)
callback = BivShapCallback(
    n_samples=6, method="small_games", compare_with=["leave_one_out", Mine()], feature_mask=Halves(),
    baselines=Opposite(), on_error="raise",
)
trainer = pl.Trainer(
    callbacks=[callback], max_epochs=1, accelerator="cpu", logger=TensorBoardLogger(folder, name="", version=""),
    enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder,
)
trainer.fit(Net(), loader, loader)
(path,) = __import__("pathlib").Path(folder, "bivshap").glob("*.json")
record = AuditRecord.load(path)
events = EventAccumulator(folder, size_guidance={"tensors": 0})
events.Reload()
verdict = judge(record, [Rule(metric="bivshap/first_step/ours", below=100.0)])
print(json.dumps({
    "package": bivshap_lightning.__file__,
    "names": sorted(explainer_names()),
    "logged": sorted(trainer.callback_metrics),
    "metrics": sorted(record.metrics),
    "first_step": record.metrics["bivshap/first_step/ours"].value,
    "of_mine": record.metrics["bivshap/first_step/mine"].value,
    "scores": [sample.scores["bivshap/first_step/ours"] for sample in record.samples],
    "players": list(record.samples[0].players),
    "removal": record.configuration.removal,
    "method": record.configuration.method,
    "n_compared": record.configuration.n_compared,
    "tags": events.Tags()["tensors"],
    "passed": verdict.passed,
    "reason": judge(record, [Rule(metric="bivshap/first_step/ours", below=-1.0)]).reason,
}))
'''


def blocks(language: str) -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    recipes = text[text.index("## Recipes") :]
    return re.findall(rf"```{language}\n(.*?)```", recipes, flags=re.DOTALL)


def apply(folder: Path) -> None:
    """Write the new files, and put each added line below the line that the recipe shows."""
    for block in blocks("python"):
        head, _, code = block.partition("\n")
        path = folder / head.removeprefix("# ")
        assert not path.exists()
        path.write_text(code)
    for block in blocks("diff"):
        head, there, added = block.splitlines()
        path = folder / head.removeprefix("--- ")
        lines = path.read_text().splitlines()
        assert lines.count(there[1:]) == 1, f"{head}: {there!r} must stand there once"
        lines.insert(lines.index(there[1:]) + 1, added.removeprefix("+"))
        path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    import json

    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(
        ROOT / "bivshap_lightning", folder / "bivshap_lightning", ignore=shutil.ignore_patterns("__pycache__")
    )
    apply(folder)
    run = subprocess.run(
        [sys.executable, "-c", RUN, str(folder / "logs")], cwd=folder, capture_output=True, text=True, timeout=280,
        env={**__import__("os").environ, "PYTHONPATH": str(folder)}, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
    result = json.loads(run.stdout.splitlines()[-1])
    assert result["package"].startswith(str(folder))
    return result


def test_there_is_a_recipe_for_every_usual_change():
    titles = re.findall(r"^### (.*)$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
    assert titles == [
        "A metric",
        "An estimator",
        "Another method to compare with",
        "A kind of player",
        "A removal",
        "A panel",
        "A gate rule",
        "A field of the record",
    ]


def test_a_metric_is_logged_recorded_and_scored_for_every_explainer(found):
    for explainer in ("ours", "leave_one_out", "mine"):
        assert f"bivshap/first_step/{explainer}" in found["logged"]
        assert f"bivshap/first_step/{explainer}" in found["metrics"]
    assert found["first_step"] == pytest.approx(sum(found["scores"]) / 6)


def test_an_estimator_can_be_chosen_by_name(found):
    assert "small_games" in found["names"]
    assert found["method"] == "small_games"


def test_another_method_can_be_compared_with_by_name_or_as_an_object(found):
    assert "leave_one_out" in found["names"]
    assert "mine" not in found["names"]
    assert found["of_mine"] != found["first_step"]


def test_a_kind_of_player_names_the_players(found):
    assert found["players"] == ["left", "right"]


def test_a_removal_is_recorded(found):
    assert found["removal"].startswith("opposite sign")


def test_a_panel_is_in_the_event_file(found):
    assert any(tag.startswith("bivshap/class/0/density") for tag in found["tags"])


def test_a_gate_rule_judges(found):
    assert found["passed"] is True
    assert "below -1" in found["reason"]


def test_a_field_of_the_record_is_written_and_read(found):
    assert found["n_compared"] == 2
