"""`bivshap demo`: a small network on scikit-learn's wine table, audited while it trains, judged and reported.

Ten measured columns, three growers. The subsets of ten columns can be enumerated, so that every number of the audit is
exact. It has a module, two data loaders and `BivShapCallback` in a Trainer, and then does what a user would do with the
record: judge it and write the page. Nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from sklearn.datasets import load_wine
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning.audit.audit import OURS, AuditResult
from bivshap_lightning.audit.record import AuditRecord, PairSummary
from bivshap_lightning.callbacks import BivShapCallback, PanelOptions
from bivshap_lightning.gate import Verdict, judge
from bivshap_lightning.graph import ROLES
from bivshap_lightning.metrics.catalogue import REDUNDANCY, ranking_numbers
from bivshap_lightning.metrics.catalogue import ROLES as ROLES_TAG
from bivshap_lightning.views import draw_axis, render_png
from bivshap_lightning.views.html import render_page

N_EPOCHS, N_TRAINING, N_COLUMNS = 30, 118, 10
LEFT_OUT = ("nonflavanoid_phenols", "proanthocyanins", "magnesium")
PROBE_SIZE, N_ROWS = 24, 2**N_COLUMNS
"""Audited samples, and the model rows per sample that each explainer may spend: enough to enumerate all subsets."""
OTHERS = ("shapley_sampling", "integrated_gradients", "feature_ablation")
RULES = """\
version = 1

# The audit was long enough to tell the role of nearly every column.
[[rule]]
metric = "bivshap/roles/undecided"
max = 0.05

# No decision hangs on a single piece of evidence.
[[rule]]
metric = "bivshap/roles/n_independent"
min = 2

# The network uses most of what was measured.
[[rule]]
metric = "bivshap/roles/irrelevant"
max = 0.4

# The ranking names the columns that carry the decision.
[[rule]]
metric = "bivshap/post_hoc_accuracy/ours"
min = 0.7
"""


@cache
def column_names() -> tuple[str, ...]:
    """The columns of the table that are used.

    Example:
        >>> column_names()[0], len(column_names())
        ('alcohol', 10)
    """
    return tuple(name.replace("_", " ") for name in load_wine().feature_names if name not in LEFT_OUT)


class Wine(pl.LightningModule):
    """A network with one hidden layer for 10 columns and three growers.

    Example:
        >>> Wine()(torch.zeros(2, 10)).shape
        torch.Size([2, 3])
    """

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(N_COLUMNS, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the three growers."""
        scores: Tensor = self.network(x)
        return scores

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """The loss."""
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        """The accuracy."""
        x, y = batch
        self.log("val_accuracy", (self(x).argmax(dim=1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def loaders() -> tuple[DataLoader[Any], DataLoader[Any]]:
    """118 wines for training and the other 60 for validation; the split is always the same.

    Columns are standardised, so that 0, which replaces an absent column, is its mean in the training data.

    Example:
        >>> [len(loader.dataset) for loader in loaders()]
        [118, 60]
    """
    data = load_wine()
    used = [k for k, name in enumerate(data.feature_names) if name not in LEFT_OUT]
    columns, labels = torch.tensor(data.data[:, used], dtype=torch.float32), torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, valid = order[:N_TRAINING], order[N_TRAINING:]
    columns = (columns - columns[train].mean(dim=0)) / columns[train].std(dim=0)
    return (
        DataLoader(TensorDataset(columns[train], labels[train]), batch_size=16, shuffle=True),
        DataLoader(TensorDataset(columns[valid], labels[valid]), batch_size=60),
    )


def train(callbacks: Sequence[pl.Callback] = (), folder: Path | None = None, *, seed: int = 0) -> pl.Trainer:
    """Train the network with callbacks.

    Args:
        callbacks: such as :class:`~bivshap_lightning.callbacks.BivShapCallback`.
        folder: for TensorBoard's files and records; without one nothing is written.
        seed: of the weights and the order of the samples.

    Example:
        >>> trainer = train()
        >>> bool(trainer.callback_metrics["val_accuracy"] > 0.9)
        True
    """
    pl.seed_everything(seed, workers=True, verbose=False)
    logger = False if folder is None else pl.loggers.TensorBoardLogger(folder, name="logs", version="")
    with warnings.catch_warnings():
        # Everything is in memory: loader processes would gain nothing.
        warnings.filterwarnings("ignore", ".*does not have many workers.*")
        trainer = pl.Trainer(
            max_epochs=N_EPOCHS, callbacks=list(callbacks), logger=logger, accelerator="cpu", log_every_n_steps=8,
            enable_model_summary=False, enable_checkpointing=False, enable_progress_bar=sys.stderr.isatty(),
        )  # fmt: skip
        trainer.fit(Wine(), *loaders())
    return trainer


@dataclass(frozen=True)
class Demo:
    """What the demo found and the files it wrote.

    Attributes:
        result: of the last audit.
        record: of the last audit.
        verdict: over its record, by the demo's rules.
        files: what was written, by kind.
        accuracy: of the network on the validation wines.
    """

    result: AuditResult
    record: AuditRecord
    verdict: Verdict
    files: dict[str, Path]
    accuracy: float

    def to_dict(self) -> dict[str, Any]:
        """All of it in JSON's types."""
        return {
            **{kind: str(path) for kind, path in self.files.items()},
            "accuracy": self.accuracy,
            "metrics": {name: value for name, (value, _) in self.result.numbers.items()},
            "verdict": json.loads(self.verdict.to_json()),
        }

    def to_text(self) -> str:
        """All of it for the terminal, and what to open next."""
        files = self.files
        return "\n".join(
            [
                f"A network that names the right grower of {self.accuracy:.1%} of the validation wines.",
                substitutes(self.record),
                roles(self.record),
                table(self.result),
                "",
                self.verdict.to_text(),
                "",
                "What to open next:",
                f"  the page     {files['page']}",
                f"  the picture  {files['picture']}",
                f"  the graphs   {_command('bivshap')} tensorboard {files['logs']}",
                f"  the gate     {_command('bivshap')} gate {files['record']} --rules {files['rules']}",
            ]
        )


def _command(name: str) -> str:
    """How to call a command of this environment from here: by its name if the shell knows it."""
    return name if shutil.which(name) else os.path.relpath(Path(sys.executable).with_name(name))


def run_demo(folder: Path, *, seed: int = 0) -> Demo:
    """Train, audit, judge and report.

    Args:
        folder: where everything goes; made if it is not there.
        seed: as in :func:`train`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {"logs": folder / "logs", "rules": folder / "gate.toml", "page": folder / "report.html"}
    files |= {"picture": folder / "wine.png"}
    files["rules"].write_text(RULES, encoding="utf-8")
    # The first and the last epoch: what training changed can be seen, and the demo stays short.
    callback = BivShapCallback(
        every_n_epochs=N_EPOCHS - 1, n_samples=PROBE_SIZE, n_evaluations=N_ROWS, seed=0,
        compare_with=OTHERS, panels=PanelOptions(n_samples=2), feature_names=column_names(), baselines=0.0,
        class_names=[f"grower {k}" for k in range(3)], on_error="raise",
    )  # fmt: skip
    trainer = train([callback], folder, seed=seed)
    result = callback.result
    if result is None:
        raise RuntimeError("the demo must leave an audit, got none")
    files["record"] = max((files["logs"] / "bivshap").glob("*.json"))
    record = AuditRecord.load(files["record"])
    files["picture"].write_bytes(picture(record))
    verdict = judge(record, files["rules"])
    files["page"].write_text(render_page(record, verdict=verdict), encoding="utf-8")
    return Demo(result, record, verdict, files, float(trainer.callback_metrics["val_accuracy"]))


def picture(record: AuditRecord) -> bytes:
    """The importance of every column for the first grower, and which columns replace each other, as PNG."""
    name, graph = next(iter(record.class_graphs.items()))
    members = [g for s, g in zip(record.samples, record.sample_graphs, strict=True) if s.class_name == name]
    figure = draw_axis(
        graph,
        title=f"What matters for “{name}”",
        subtitle=f"mean over {len(members)} wines of the validation data",
        graphs=members,
        xlabel="probability of the predicted grower",
    )
    return render_png(figure)[0]


def substitutes(record: AuditRecord, n_pairs: int = 5) -> str:
    """The columns that replace each other most, as a table and in one sentence."""
    head = f"{'column':<22}{'given':<22}{'importance gone':>16}{'by the pair itself':>20}"
    lines = ["", "Columns that replace each other:", "", head, "-" * len(head)]
    lines += [f"{p.player:<22}{p.given:<22}{p.total:>16.0%}{p.own:>20.0%}" for p in record.substitutes[:n_pairs]]
    if record.substitutes:
        lines += ["", _in_words(record.substitutes[0])]
    return "\n".join(lines)


def _in_words(pair: PairSummary) -> str:
    return (
        f"Once {pair.given} is known, {pair.total:.0%} of the importance of {pair.player} is gone. {pair.own:.0%} is "
        f"due to this pair: either column moves\nthe network where the other one would. The rest happens with any "
        f"column, because a probability that is nearly 1\ncannot rise much. Shapley values alone show neither."
    )


def roles(record: AuditRecord) -> str:
    """The part that columns play, as shares of a decision's columns."""
    shares = {role: record.metrics[f"{ROLES_TAG}{role}"].value for role in ROLES}
    n_independent = record.metrics[f"{ROLES_TAG}n_independent"].value
    listed = ", ".join(f"{share:.0%} {role}" for role, share in shares.items())
    return (
        f"\nRoles of the {N_COLUMNS} columns in a decision (gamma {record.configuration.gamma:.2g}): {listed}.\n"
        f"A decision rests on {n_independent:.1f} independent pieces of evidence on average."
    )


def table(result: AuditResult) -> str:
    """How our ranking does beside those of Captum's methods, each with the same number of model rows at most."""
    head = f"{'explainer':<22}{'rows per sample':>16}{'post-hoc accuracy':>19}{'insertion AUC':>15}{'deletion AUC':>14}"
    better = f"{'':<38}{'(higher is better)':>19}{'(higher)':>15}{'(lower)':>14}"
    lines = ["", f"Rankings, each from at most {N_ROWS:,} model rows per sample:", "", head, better, "-" * len(head)]
    for explainer in result.curves:
        values = [result.numbers[number.tag_of(explainer)][0] for number in ranking_numbers()]
        spent = result.n_evaluations[explainer]
        lines.append(f"{explainer:<22}{spent:>16,.0f}{values[0]:>19.3f}{values[1]:>15.3f}{values[2]:>14.3f}")
    return "\n".join([*lines, "", _comparison(result), _removal(result)])


def _comparison(result: AuditResult) -> str:
    """Whether any ranking differs from ours by more than two standard errors of post-hoc accuracy."""
    tag = ranking_numbers()[0]
    ours, error = result.numbers[tag.tag_of(OURS)]
    others = {e: result.numbers[tag.tag_of(e)] for e in result.curves if e != OURS}
    apart = {
        e: value - ours for e, (value, its) in others.items() if abs(value - ours) > 2 * (error**2 + its**2) ** 0.5
    }
    if not apart:
        return (
            "With equal budgets no ranking is better than another beyond two standard errors: what the graph adds is "
            "not\na better ranking but which columns replace which."
        )
    return "Beyond two standard errors: " + ", ".join(f"{e} {gap:+.3f} against ours" for e, gap in apart.items()) + "."


def _removal(result: AuditResult) -> str:
    """What can be removed, beside its controls."""
    names = ("share_removable", "accuracy_with_representatives", "random_removal_accuracy", "empty_accuracy")
    removable, accuracy, random, empty = (result.numbers[REDUNDANCY + name][0] for name in names)
    return (
        f"{removable:.0%} of the columns can go while one of each group of H stays: the prediction then stays on "
        f"{accuracy:.0%} of the wines\n(as many columns removed at random {random:.0%}, all removed {empty:.0%})."
    )
