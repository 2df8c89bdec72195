"""All benchmarks of the estimators in one run: ``python -m benchmarks [--quick] [--write]``.

Prints the machine, accuracy against evaluations, time over bare forward passes, growth with fitted exponents, and what
audits cost at the callback's defaults. ``--write`` makes ``benchmarks/RESULTS.md`` and its figures out of the same
numbers.

The run consists of parts whose numbers are kept in ``build/benchmarks``: a run that was interrupted goes on where it
stopped, as long as neither the package nor the benchmarks have changed since.
"""

import argparse
import hashlib
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import bench_callback, bench_curves, bench_engine, report
from bivshap_lightning.explainers import default_coalitions

HERE = Path(__file__).parent
KEPT = HERE.parent / "build" / "benchmarks"
MINUTES, QUICK_MINUTES = 2.0, 0.15
"""Of training for each model whose audits are timed."""


def machine() -> str:
    """What the numbers were measured on."""
    names = [line for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    processor = names[0].partition(":")[2].strip() if names else platform.machine()
    return (
        f"{platform.system()}, {processor}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; Python "
        f"{platform.python_version()}, torch {torch.__version__} with {torch.get_num_threads()} threads"
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def sources() -> str:
    """Identifies the code that is measured."""
    files = sorted([*HERE.glob("*.py"), *(HERE.parent / "bivshap_lightning").rglob("*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


class Parts:
    """Numbers of the parts of a run, kept on disk until the run is complete.

    Args:
        folder: for the numbers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def find(self, name: str, compute: Callable[[], Any]) -> Any:
        """The numbers of a part, computed unless they are there."""
        path = self.folder / f"{name.replace(' ', '_')}.json"
        if not path.exists():
            start = time.perf_counter()
            found = {"numbers": compute(), "seconds": time.perf_counter() - start}
            path.with_suffix(".new").write_text(json.dumps(found))
            path.with_suffix(".new").replace(path)
            print(f"  {name}: {found['seconds']:.0f} s", flush=True)
        return json.loads(path.read_text())["numbers"]

    def seconds(self) -> float:
        """What all parts took."""
        return sum(json.loads(path.read_text())["seconds"] for path in self.folder.glob("*.json"))

    def forget(self) -> None:
        """Remove the numbers of a complete run."""
        for path in self.folder.glob("*.json"):
            path.unlink()
        self.folder.rmdir()


def collect(parts: Parts, quick: bool, minutes: float | None) -> dict[str, Any]:
    """The numbers of all parts; without `minutes` a quick run trains two small models for a few seconds."""
    small, large = [], []
    trained = list(bench_callback.MODELS)
    if minutes is None:
        minutes, trained = (QUICK_MINUTES, ["table MLP", "text GRU"]) if quick else (MINUTES, trained)
    for kind, seed in bench_curves.trained(quick):
        small += parts.find(f"{kind} {seed}", lambda k=kind, s=seed: bench_curves.accuracy_trained(k, s, quick))
    for n, seed in bench_curves.unanimity(quick):
        large += parts.find(f"unanimity {n} {seed}", lambda n=n, s=seed: bench_curves.accuracy_unanimity(n, s, quick))
    return {
        "machine": parts.find("machine", machine),
        "small": small,
        "large": large,
        "overhead": parts.find("overhead", lambda: bench_engine.overhead(quick)),
        "growth": parts.find("growth", lambda: bench_curves.growth(quick)),
        "audits": [
            parts.find(f"audits {name} {minutes:g}", lambda name=name: bench_callback.measure(name, minutes))
            for name in trained
            if minutes
        ],
    }


def text(found: dict[str, Any], command: str, seconds: float) -> str:
    """The page."""
    e2, phi = ([r for r in found["small"] if r["quantity"] == quantity] for quantity in ("E2", "phi"))
    kinds = ", ".join(dict.fromkeys(row["game"].split()[0] for row in e2))
    n_games = len({row["game"] for row in e2})
    seeds = ", ".join(sorted({row["game"].split()[-1] for row in e2}))
    lines = [
        "# Results", "",
        f"Made by `{command}`. Times only mean something as ratios within one run.", "",
        f"{found['machine']}.", "",
        "## Error of E2 against evaluations", "",
        f"Relative RMSE, geometric mean (best to worst game) over {n_games} tables of models of 13 and 14 players, "
        f"whose exact answer is enumerated: {kinds}. Seeds: {seeds}; settings were chosen on seeds 0 and 1. The last "
        "column is the paper's budget. Interactions of shapiq are turned into E2 as the sums of unanimity "
        "games that they stand for; its ProxySPEX takes so long that it ran on one seed and two budgets only.", "",
        *report.error_table(e2), "", "![error of E2 over evaluations](figures/e2.png)", "",
        "Errors over those of the paper's Algorithm 2 on the same game, geometric mean (worst game); ratios below "
        f"{report.LEAST_RATIO} count as that:", "", *report.ratio_table(e2), "",
        "## Error of Shapley values against evaluations", "",
        "The same games.", "", *report.error_table(phi), "",
        "![error of Shapley values over evaluations](figures/phi.png)", "",
    ]  # fmt: skip
    for n in sorted({int(row["game"].split()[1]) for row in found["large"]}):
        rows = [r for r in found["large"] if r["quantity"] == "E2" and r["game"].split()[1] == str(n)]
        n_games = len({row["game"] for row in rows})
        lines += [f"## Error of E2 with {n} players", ""]
        lines += [f"Sums of {4 * n} unanimity games: {n_games}. The paper's budget is {default_coalitions(n):,}.", ""]
        lines += [*report.error_table(rows), ""]
    lines += ["## Total time over bare forward passes", ""]
    lines += [
        "The same rows through the model alone, in chunks of the same size; best of several turns. Log-odds, which are "
        "estimated when they are asked for, are not part of it.", "",
    ]  # fmt: skip
    lines += ["| case | total, s | forward, s | ratio |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {name} | {t:.3f} | {f:.3f} | {t / f:.2f} |" for name, t, f in found["overhead"]]
    lines += ["", "![total time over bare forward passes](figures/overhead.png)", ""]
    lines += ["## Growth of the estimators' own time", ""]
    lines += ["From values to an estimate, without the model; 40 players, 2 samples, 1,024 rows where not varied. ", ""]
    lines += report.growth_table(found["growth"])
    if found["audits"]:
        lines += ["", "## Audits at the callback's defaults", "", *bench_callback.table_of(found["audits"])]
        lines += ["", "![share of the run that the callback takes](figures/audits.png)"]
    lines += ["", f"All parts together took {seconds / 60:.1f} minutes."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer games, budgets, models and repetitions")
    parser.add_argument("--write", action="store_true", help="write benchmarks/RESULTS.md and its figures")
    parser.add_argument("--minutes", type=float, help="of training for each of the models audited; 0 for none")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    bench_curves.check_conversion()
    parts = Parts(KEPT / f"{'quick' if arguments.quick else 'whole'}-{sources()}")
    found = collect(parts, arguments.quick, arguments.minutes)
    minutes = "" if arguments.minutes is None else f" --minutes {arguments.minutes:g}"
    command = 'make bench BENCH_ARGS="--write' + " --quick" * arguments.quick + minutes + '"'
    page = text(found, command, parts.seconds())
    print(page)
    if arguments.write:
        (HERE / "figures").mkdir(exist_ok=True)
        small = found["small"]
        report.draw_errors([r for r in small if r["quantity"] == "E2"], "E2", HERE / "figures" / "e2.png")
        report.draw_errors([r for r in small if r["quantity"] == "phi"], "Shapley values", HERE / "figures" / "phi.png")
        report.draw_overhead(found["overhead"], HERE / "figures" / "overhead.png")
        if found["audits"]:
            report.draw_audits(found["audits"], HERE / "figures" / "audits.png")
        (HERE / "RESULTS.md").write_text(page)
    parts.forget()


if __name__ == "__main__":
    main()
