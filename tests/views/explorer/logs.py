"""Makes small log directories as the callback writes them: event files with an index, and records beside them.

Run as a script, it writes logs to look at: `python -m tests.views.explorer.logs <folder>`. With `archive` for the
folder it writes the committed logs again, as is needed after a change of the record's format.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch.utils.tensorboard import SummaryWriter

from bivshap_lightning.audit.json_fields import encode
from bivshap_lightning.audit.record import AuditRecord, Run
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.views import write_index
from tests.views.test_html import content_of

HOSTILE = ["<script>alert(1)</script>", '" onload="alert(2)', "<img src=x onerror=alert(3)>", "=1+1", "../../etc"]
CONTROLS = {
    "bivshap/redundancy/random_removal_accuracy": (0.62, 0.05),
    "bivshap/redundancy/empty_accuracy": (0.1, 0.0),
    "bivshap/insertion_auc/ours": (0.71, 0.02),
    "bivshap/insertion_auc/kernel_shap": (0.66, 0.03),
}


def random_graph(n_players: int, seed: int = 0, *, names=None, noise: float = 0.0, n_groups: int = 2):
    """A graph with potential and pairwise part, some groups of stand-ins, and standard errors if there is noise."""
    generator = np.random.default_rng(seed)
    late = generator.gamma(0.7, 0.1, n_players) * (generator.random(n_players) > 0.2)
    pairs = 0.3 * np.minimum.outer(late, late) * generator.normal(-0.2, 0.4, (n_players, n_players))
    pairs = (pairs + pairs.T) / 2
    for group in range(min(n_groups, n_players // 3)):
        members = np.arange(n_players)[group * 3 : group * 3 + 3]
        late[members] = late[members].max() + 0.05
        for i in members:
            for j in members:
                pairs[i, j] = -late[i]
    e2 = late[:, None] + pairs
    np.fill_diagonal(pairs, 0)
    np.fill_diagonal(e2, 0)
    e2 = e2.astype(np.float32).astype(np.float64)
    shapley = (2 * late - pairs.sum(axis=1)).astype(np.float32).astype(np.float64)
    error = None
    if noise:
        error = (noise * generator.random((n_players, n_players))).astype(np.float32).astype(np.float64)
        error[generator.random((n_players, n_players)) < 0.3] = 0
        np.fill_diagonal(error, 0)
    return ExplanationGraph(e2.T.copy(), names=names, shapley=shapley, standard_error=error)


def save_record(path: Path, graphs, labels, *, epoch=0, step=0, words=None, pictures=None, metrics=None) -> AuditRecord:
    """A record of these graphs in its two files."""
    found, arrays = content_of(graphs, labels)
    found["run"] = encode(Run(stage="validate", epoch=epoch, step=step, n_samples=len(graphs)))
    found["metrics"] |= {tag: {"value": v, "standard_error": e} for tag, (v, e) in (metrics or CONTROLS).items()}
    found["cost"] |= {"evaluations_per_sample": {"ours": 256.0, "kernel_shap": 256.0}}
    for position, sentence in (words or {}).items():
        found["samples"][position]["words"] = sentence
    record = replace(AuditRecord.from_fields(found), arrays={**arrays, **(pictures or {})})
    path.parent.mkdir(parents=True, exist_ok=True)
    record.save(path)
    return record


def write_run(folder: Path, steps, graphs_of_step, labels, **options) -> None:
    """A run with a record at each step, as the callback writes it."""
    with SummaryWriter(str(folder)) as writer:
        for epoch, step in enumerate(steps):
            path = folder / "bivshap" / f"validate_epoch{epoch:04d}_step{step:07d}.json"
            save_record(path, graphs_of_step(epoch), labels, epoch=epoch, step=step, **options)
            writer.add_scalar("loss", 1 / (1 + epoch), step)
            write_index(writer, path, step, stage="validate", epoch=epoch)


COLUMNS = ["relationship", "marital_status", "married", "age", "occupation", "hours_per_week", "workclass",
           "capital_gain", "capital_loss", "education", "education_num", "race", "sex", "native_country"]  # fmt: skip


def drifting(names, n_samples: int, noise: float, n_groups: int = 1):
    """Graphs of a model that changes slowly from epoch to epoch."""

    def at(epoch: int):
        found = []
        for sample in range(n_samples):
            first, last = (
                random_graph(len(names), seed, names=names, noise=noise, n_groups=n_groups)
                for seed in (sample, 100 + sample)
            )
            share = min(1.0, epoch / 6)
            mixed = ((1 - share) * first.weights + share * last.weights).astype(np.float32).astype(np.float64)
            shapley = ((1 - share) * first.shapley + share * last.shapley).astype(np.float32).astype(np.float64)
            error = first.standard_error if noise else None
            found.append(ExplanationGraph(mixed, names=names, shapley=shapley, standard_error=error))
        return found

    return at


def picture_arrays(n_players: int, positions) -> dict[str, np.ndarray]:
    """A disc on a dark ground, cut into a grid of parts."""
    side = round(n_players**0.5)
    size = 8 * side
    y, x = np.mgrid[:size, :size]
    disc = (255 * np.exp(-((((x - size / 2) ** 2 + (y - size / 2) ** 2) / (size / 3.5) ** 2) ** 2))).astype(np.uint8)
    segments = ((y // 8) * side + x // 8).astype(np.int32)
    arrays = {}
    for k in positions:
        arrays[f"image_{k}"] = np.stack([disc, disc // 2 + 40, 255 - disc], axis=2)
        arrays[f"segments_{k}"] = segments
    return arrays


def write_examples(folder: Path) -> Path:
    """Runs of a table, of pictures, of texts and of hostile names."""
    write_run(folder / "table", range(0, 70, 10), drifting(COLUMNS, 4, 0.004), ["<=50K", "<=50K", ">50K", ">50K"])
    parts = [f"part {k}" for k in range(64)]
    write_run(
        folder / "pictures", [0, 5], drifting(parts, 2, 0.002, 3), ["cat", "dog"], pictures=picture_arrays(64, [0, 1])
    )
    sentence = ["the", "plot", "is", "not", "bad", "but", "the", "acting", "is", "really", "not", "good", "at", "all"]
    names = [word if word not in sentence[:k] else f"{word} ({k})" for k, word in enumerate(sentence)]
    write_run(folder / "texts", [0], drifting(names, 1, 0.003), ["negative"], words={0: sentence})
    write_run(folder / "hostile", [0, 1], drifting(HOSTILE, 2, 0.0), [HOSTILE[0], HOSTILE[2]])
    return folder


LONG = ["customer_lifetime_value_in_euros_last_12_months", "number_of_support_tickets_opened_since_signup",
        "average_session_length_seconds_mobile", "average_session_length_seconds_desktop",
        "months_since_last_contract_renewal_or_upgrade", "has_accepted_marketing_emails", "billing_country_iso_code",
        "household_income_bracket_estimated_from_postcode", "device_operating_system_major_version",
        "referral_channel_first_touch"]  # fmt: skip


def write_wide_table(folder: Path) -> Path:
    """Two runs of a table of 30 columns with long names, most of which begin and end alike, and ten classes."""
    names = [*LONG, *(f"{name}_lag_{lag}_normalised" for lag in (1, 2) for name in LONG)]
    classes = [f"{plan} plan, {period}" for plan in ("basic", "family", "premium", "student", "business")
               for period in ("paid monthly", "paid once a year in advance")]  # fmt: skip
    runs = folder / "experiments" / "2026-03-churn"
    write_run(runs / "version_12", [0, 10, 20], drifting(names, 10, 0.004), classes)
    write_run(runs / "version_13_larger_hidden_layer", [0, 10], drifting(names, 10, 0.002, 3), classes)
    return folder


def write_archive(folder: Path) -> None:
    """The committed logs."""
    shutil.rmtree(folder, ignore_errors=True)
    write_run(folder / "run", [0, 4], drifting(["a", "b", "c", "d"], 1, 0.01), ["x"])
    (events,) = (folder / "run").glob("events*")
    events.rename(folder / "run" / "events.out.tfevents.1700000000.archive")


if __name__ == "__main__":
    if sys.argv[1] == "archive":
        write_archive(Path(__file__).parent / "archive")
    else:
        write_examples(Path(sys.argv[1]))
