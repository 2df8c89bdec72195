"""The experiment loop: every method on every sample, measured, written batch by batch, and summed up.

A folder of results holds one run of one study:

* ``<method>/<first>-<last>.json``: sums over a batch of samples, of every metric; a run that is stopped goes on after
  the last of them;
* ``<method>/refused.json``: why a method cannot explain this black box;
* ``spread/<method>.json``: several seeds on the same samples;
* ``extras.json``: what the study has of its own, such as subgroups;
* ``results.json``: the summary of all of them, which the page reads.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from bivshap_lightning import Explanation, Game, __version__
from bivshap_lightning.explainers import Explainer, default_evaluations, explainer_names, find_explainer
from bivshap_lightning.game.shared_rows import SharedRows
from bivshap_lightning.metrics import DirectionalRedundancy, MutualRedundancyMasking, PostHocAccuracy, RoleShares
from bivshap_lightning.metrics.sample_metric import SampleMetric
from examples.paper.l2x import trained_selector
from examples.paper.scores import GAMMA, PublishedSinks, RandomRanking, StepCurves, Structure
from examples.paper.study import Options, Study, parse

PAPER_NAMES = {
    "auto": "ours, present default",
    "paper_sampling": "Ours-SS",
    "paper_kernel": "Ours-K",
    "shapley_sampling": "Sh-Sam",
    "kernel_shap": "kSHAP",
    "l2x": "L2X",
    "shapley_interaction": "Sh-Int",
    "shapley_taylor": "Sh-Tay",
    "shapley_excess": "Sh-Exc",
    "gnn_explainer": "GNNExp",
    "random": "random",
    "proxy": "ours, proxy",
}
"""Explainers by their registered name, and what the paper calls them."""

OURS = ("auto", "proxy", "paper_sampling", "paper_kernel")
GAMMAS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
STATES = ("sums", "squares", "n_samples", "settings_digest")


@dataclass(frozen=True)
class Plan:
    """How much of a study is computed.

    Attributes:
        samples: explained by every method.
        fewer: samples of methods that are slow.
        orders: of the literal sampling algorithm for each feature; None for the paper's 1,000.
        evaluations: model rows per sample of all other methods; None for those of the paper's kernel algorithm.
        repeats: seeds of the spread.
        repeated: samples of the spread.
        without: methods that are left out.
    """

    samples: int = 500
    fewer: Mapping[str, int] = field(default_factory=dict)
    orders: int | None = None
    evaluations: int | None = None
    repeats: int = 5
    repeated: int = 10
    without: tuple[str, ...] = ()

    def samples_of(self, method: str) -> int:
        return min(self.samples, self.fewer.get(method, self.samples))


# Rivals that rank no better for more samples, where a sample takes seconds or minutes.
RIVALS = ("kernel_shap", "shapley_interaction", "shapley_taylor", "shapley_excess", "gnn_explainer", "proxy")
PLANS = {
    "drug": Plan(repeated=50, without=("proxy",)),
    "divorce": Plan(repeats=3),
    "census": Plan(without=("proxy",)),
    "mnist": Plan(100, {"paper_sampling": 20, **dict.fromkeys(RIVALS, 25)}, repeats=3, repeated=2),
    "cifar10": Plan(8, {"paper_sampling": 2, **dict.fromkeys(RIVALS, 4)}, orders=10, repeats=2, repeated=2),
    "imdb": Plan(24, {"paper_sampling": 4, **dict.fromkeys(RIVALS, 8)}, orders=10, repeats=2, repeated=2),
    "genes": Plan(18, dict.fromkeys(RIVALS, 2), orders=100, repeats=2, repeated=2, without=("proxy",)),
    "golub": Plan(34, dict.fromkeys(RIVALS, 2), orders=100, repeats=2, repeated=2, without=("proxy",)),
}
QUICK = Plan(3, {"paper_sampling": 2}, orders=3, evaluations=60, repeats=2, repeated=2)


def methods_of(plan: Plan) -> list[str]:
    """The paper's methods and ours, as far as they are registered, L2X, which is trained, and chance."""
    known = {*explainer_names(), "l2x", "random"}
    return [name for name in PAPER_NAMES if name in known and name not in plan.without]


def explainer_of(method: str, study: Study, folder: Path) -> Explainer:
    """An explainer by name; L2X is trained where the folder of the study does not hold its selector yet."""
    if method == "l2x":
        return trained_selector(study, folder / "l2x.pt")
    return RandomRanking() if method == "random" else find_explainer(method)


def budget(method: str, game: Game, plan: Plan) -> int | None:
    """Model rows per sample: for all methods those of the paper's kernel algorithm, but for its sampling algorithm."""
    if method == "paper_sampling":
        n_active = int((~game.null_players).sum(dim=1).max())
        return None if plan.orders is None else 2 * plan.orders * n_active + 2
    if method in ("random", "l2x") or (method in OURS and plan.evaluations is None):
        return None
    wanted = default_evaluations(game) if plan.evaluations is None else plan.evaluations
    return max(wanted, find_explainer(method).minimum_evaluations(game))


def metrics_of(method: str, explanation: Explanation) -> dict[str, tuple[SampleMetric, Any]]:
    """Metrics by name, and what each of them judges."""
    pagerank = {"method": "pagerank", "personalized": method in OURS}
    found: dict[str, tuple[SampleMetric, Any]] = {
        "post_hoc": (PostHocAccuracy(convention="paper", **pagerank), explanation),
        "auc": (StepCurves(**pagerank), explanation),
    }
    if explanation.bivariate is None:
        return found
    for convention in ("default", "paper"):
        found[f"mutual_{convention}"] = MutualRedundancyMasking(gamma=GAMMA, convention=convention), explanation
        found[f"directional_{convention}"] = DirectionalRedundancy(gamma=GAMMA, convention=convention), explanation
    found["sinks"] = PublishedSinks(), explanation
    if method in OURS:
        found |= {"structure": (Structure(), explanation), "roles": (RoleShares(n_draws=2), explanation)}
        for gamma in GAMMAS:
            h = [graph.redundancy(gamma, rule="paper") for graph in explanation.graphs()]
            found[f"mutual_{gamma:g}"] = MutualRedundancyMasking(gamma=gamma, n_draws=2), h
            found[f"directional_{gamma:g}"] = DirectionalRedundancy(gamma=gamma, n_draws=2), h
    return found


def keep_metrics(explanation: Explanation) -> dict[str, tuple[SampleMetric, Any]]:
    """Metrics of the two rankings that use redundancy, read off an explanation of the log-odds."""
    return {
        "keep_post_hoc": (PostHocAccuracy(convention="paper", method="keep"), explanation),
        "keep_auc": (StepCurves(method="keep"), explanation),
        "remove_auc": (StepCurves(method="remove"), explanation),
        "log_odds_shapley_auc": (StepCurves(method="shapley"), explanation),
    }


def measure(study: Study, method: str, rows: slice, plan: Plan, explainer: Explainer) -> dict[str, Any]:
    """Explain a batch of samples and judge the explanations."""
    game = study.game(rows)
    explanation, times = _timed(lambda: explainer.explain(game, budget(method, game, plan), 0))
    judged = metrics_of(method, explanation)
    if method in ("auto", "proxy"):
        other = study.log_odds_game(rows)
        judged |= keep_metrics(explainer.explain(other, budget(method, other, plan), 0))
    states, shared = {}, SharedRows(game)  # metrics have most coalitions in common
    for name, (metric, what) in judged.items():
        metric.update(shared, what)
        states[name] = {key: getattr(metric, key).tolist() for key in STATES}
    return {
        "n_samples": game.n_samples, **times, "evaluations": float(explanation.n_evaluations.double().sum()),
        "method": explanation.method, "is_bivariate": explanation.bivariate is not None,
        "n_players": int(game.player_counts.sum()), "n_null": int(game.null_players.sum()), "states": states,
    }  # fmt: skip


def batches_of(study: Study, method: str, plan: Plan, folder: Path) -> dict[Path, slice]:
    """The files of a method's batches and the samples in each; files of another plan in the folder do not count."""
    n = min(plan.samples_of(method), len(study))
    rows = [slice(start, min(start + study.batch_size, n)) for start in range(0, n, study.batch_size)]
    return {folder / f"{part.start:05d}-{part.stop:05d}.json": part for part in rows}


def run_method(study: Study, method: str, plan: Plan, folder: Path) -> None:
    """Measure all batches of a method that are not there yet."""
    folder.mkdir(exist_ok=True)
    explainer: Explainer | None = None
    batches = batches_of(study, method, plan, folder)
    for path, rows in tqdm(batches.items(), desc=f"{study.name} {method}", unit="batch", dynamic_ncols=True):
        if path.is_file() or (folder / "refused.json").is_file():
            continue
        try:
            explainer = explainer or explainer_of(method, study, folder.parent)
            measured = measure(study, method, rows, plan, explainer)
        except (TypeError, ValueError) as refusal:
            write_json(folder / "refused.json", {"refused": str(refusal)})
            return
        write_json(path, measured)


def run_spread(study: Study, method: str, plan: Plan, path: Path) -> None:
    """Explain the same samples with several seeds: how much E2 and the paper's numbers depend on chance."""
    if path.is_file():
        return
    game = study.game(slice(0, min(plan.repeated, len(study))))
    reference = find_explainer("auto").explain(game, budget("auto", game, plan), 0)
    matrices, curves = [], []
    for seed in tqdm(range(plan.repeats), desc=f"{study.name} {method} seeds", unit="seed", dynamic_ncols=True):
        explanation = find_explainer(method).explain(game, budget(method, game, plan), seed)
        accuracy, auc = PostHocAccuracy(convention="paper", personalized=True), StepCurves(personalized=True)
        accuracy.update(game, explanation)
        auc.update(game, explanation)
        steps = auc.compute()
        found = accuracy.compute()
        numbers = [found["curve"][at_fraction(found["masked_fraction"].tolist(), share)] for share in (0.1, 0.5)]
        curves.append([*map(float, numbers), float(steps["insertion_published"]), float(steps["deletion_published"])])
        assert explanation.bivariate is not None
        matrices.append(explanation.bivariate.cpu().double())
    stacked = torch.stack(matrices)
    size = float(stacked.mean(dim=0).square().mean().sqrt())
    names = ("post_hoc_10", "post_hoc_50", "insertion", "deletion")
    spread = {
        "n_samples": game.n_samples,
        "n_seeds": plan.repeats,
        "numbers": dict(zip(names, np.std(curves, axis=0, ddof=1).tolist(), strict=True)),
        "relative_deviation": float(stacked.var(dim=0).mean().sqrt()) / max(size, 1e-12),
    }
    if reference.is_exact and reference.bivariate is not None:
        exact = reference.bivariate.cpu().double()
        spread["relative_error"] = float((stacked - exact).square().mean().sqrt() / exact.square().mean().sqrt())
    write_json(path, spread)


def at_fraction(masked: Sequence[float], fraction: float) -> int:
    """The first grid point at which at least this fraction of the features is masked."""
    return next(k for k, share in enumerate(masked) if share >= fraction - 1e-9)


def run(study: Study, options: Options, extras: Callable[..., Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Run a study and write its summary.

    Args:
        study: what is explained.
        options: of the command line.
        extras: of (study, options, folder), further entries of the summary, such as figures.
    """
    plan = plan_of(study.name, options)
    folder = options.folder(study.name)
    if not options.summary:
        more = folder / "extras.json"
        if extras is not None and not more.is_file():
            write_json(more, extras(study, options, folder))
        for method in methods_of(plan):
            run_method(study, method, plan, folder / method)
        (folder / "spread").mkdir(exist_ok=True)
        for method in ("paper_sampling", "paper_kernel", "auto"):
            run_spread(study, method, plan, folder / "spread" / f"{method}.json")
    summary = {**describe(study, plan, options), **summarize(study, folder, plan)}
    write_json(folder / "results.json", summary)
    return summary


def plan_of(name: str, options: Options) -> Plan:
    if options.quick:
        return QUICK
    plan = Plan(without=PLANS[name].without) if options.full else PLANS.get(name, Plan())
    plan = plan if options.samples is None else replace(plan, samples=options.samples)
    return plan if options.orders is None else replace(plan, orders=options.orders)


def describe(study: Study, plan: Plan, options: Options) -> dict[str, Any]:
    """Where the numbers come from."""
    return {
        "study": study.name, "accuracy": study.accuracy, "n_train": study.n_train, "n_test": study.n_test,
        "notes": list(study.notes), "plan": asdict(plan), "version": __version__, "commit": _commit(),
        "command": f"python -m examples.paper.{'genes' if study.name == 'golub' else study.name}{_flags(options)}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, "
        f"{torch.get_num_threads()} thread",
    }  # fmt: skip


def _flags(options: Options) -> str:
    """The flags that repeat a run, but for the folders."""
    given = {name: getattr(options, name) for name in ("samples", "orders", "train", "epochs")}
    return "".join(f" --{name} {value}" for name, value in given.items() if value is not None)


def summarize(study: Study, folder: Path, plan: Plan) -> dict[str, Any]:
    """Add up the batches of every method."""
    methods = {}
    for method in methods_of(plan):
        refused = folder / method / "refused.json"
        paths = batches_of(study, method, plan, folder / method)
        batches = [json.loads(path.read_text()) for path in paths if path.is_file()]
        if refused.is_file():
            methods[method] = json.loads(refused.read_text())
        elif batches:
            methods[method] = _add_up(method, batches)
    spread = {path.stem: json.loads(path.read_text()) for path in sorted((folder / "spread").glob("*.json"))}
    more = folder / "extras.json"
    return {"methods": methods, "spread": spread} | (json.loads(more.read_text()) if more.is_file() else {})


def _add_up(method: str, batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    n = sum(batch["n_samples"] for batch in batches)
    means = {key: sum(batch[key] for batch in batches) / n for key in ("seconds", "cpu_seconds", "evaluations")}
    sizes = {key: sum(batch[key] for batch in batches) / n for key in ("n_players", "n_null")}
    metrics = {}
    for name in batches[0]["states"]:
        total = _empty_metric(method, name)
        for batch in batches:
            state = batch["states"][name]
            total.merge_state({key: torch.tensor(state[key], dtype=getattr(total, key).dtype) for key in STATES})
        metrics[name] = {key: _rounded(value) for key, value in total.compute().items()}
    names = sorted({batch["method"] for batch in batches})
    return {
        "n_samples": n,
        **means,
        **sizes,
        "is_bivariate": batches[0]["is_bivariate"],
        "used": names,
        "metrics": metrics,
    }


def _empty_metric(method: str, name: str) -> SampleMetric:
    """A metric of the same settings as the one whose state was written."""
    shape = (1, 2, 2)
    game = Game(lambda x: x.sum(dim=1), torch.ones(1, 2), behavior="output")
    made = Explanation.of(
        game, method=method, seed=0, shapley=torch.ones(1, 2), bivariate=torch.zeros(shape),
        standard_error=torch.zeros(shape), n_evaluations=game.n_evaluations, is_exact=False,
    )  # fmt: skip
    return (metrics_of(method, made) | keep_metrics(made))[name][0]


def _rounded(value: torch.Tensor) -> Any:
    return np.round(value.double().numpy(), 6).tolist()


def _timed(call: Callable[[], Explanation]) -> tuple[Explanation, dict[str, float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    run = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"


def write_json(path: Path, content: Any) -> None:
    """Write in one step, so that an interrupted run leaves no half of a file."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def main(*names: str, arguments: list[str] | None = None) -> None:
    """Load, run and sum up studies by name, as the scripts of the data sets do."""
    module = import_module(f"examples.paper.{names[0]}")
    options = parse(module.__doc__ or "", arguments)
    torch.set_num_threads(1)
    for name in names:
        try:
            study = module.load(options) if name == names[0] else module.load(options, name)
        except FileNotFoundError as missing:
            sys.exit(str(missing))
        summary = run(study, options, getattr(module, "extras", None))
        print(f"{name}: accuracy {summary['accuracy']:.3f}; results in {options.folder(name)}/results.json")
