"""The page docs/paper.md: our figures beside the paper's, from the results of the scripts.

python -m examples.paper.page                          # from the results in examples/paper/results
python -m examples.paper.page --results paper_results  # take over the results of a run first
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from examples.paper import published
from examples.paper.experiment import GAMMAS, OURS, PAPER_NAMES, at_fraction
from examples.paper.figures import save_curves
from examples.paper.remarks import BEYOND, SLIPS
from examples.paper.tables import Page, Results, binomial_error, number, percent

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[2] / "docs"
IMAGES = "images/paper"


def write_models(page: Page) -> None:
    page.add("## The black boxes", "", "Accuracy on the test set, ours / the paper's, in percent.")
    rows = []
    for study, result in page.results.items():
        name = published.STUDIES[study]
        error = binomial_error(result["accuracy"], result["n_test"])
        cell = page.accuracy_cell(
            study, result["accuracy"], error, result["n_test"], published.ACCURACY[name], "accuracy"
        )
        sizes = f"{result['n_train']:,} / {result['n_test']:,}"
        rows.append([study, cell, sizes, published.ROWS[name], " ".join(result["notes"]) or "as in the paper"])
    page.table(["study", "accuracy, %", "rows, train / test", "the paper's", "differences"], rows)


def write_mutual(page: Page) -> None:
    page.add(
        "## (a) Mutual redundancy masking", "",
        "All but one random member of every mutually redundant group are masked (γ = 1e-5): what the paper's figure "
        "ends with, a figure without numbers. An accuracy that the same number of features removed at random reaches "
        "too says nothing. `one left` follows the paper's text and respects the noise of the estimate; `none left` is "
        "the end point of the published code, which takes estimates at face value.",
    )  # fmt: skip
    rows = []
    for study in page.results:
        for method, r in page.methods(study, bivariate=True).items():
            ours, code = r["metrics"]["mutual_default"], r["metrics"]["mutual_paper"]
            one_left = [percent(ours["masked_fraction"][0]), percent(ours["curve"][0], ours["curve_se"][0])]
            control = percent(ours["random_removal_accuracy"], ours["random_removal_accuracy_se"])
            none_left = [percent(code["masked_fraction"][0]), percent(code["curve"][0], code["curve_se"][0])]
            rows.append([study, PAPER_NAMES[method], str(r["n_samples"]), *one_left, control, *none_left])
    page.table_of_methods(
        ["study", "method", "samples", "one left: masked, %", "accuracy, %", "as many at random, %",
         "none left: masked, %", "accuracy, %"],
        rows,
    )  # fmt: skip
    _images(page, "mutual")


def write_directional(page: Page) -> None:
    page.add(
        "## (b) Directional redundancy", "",
        "The paper's two tables, ours / the paper's, in percent: accuracy with the sinks of H masked, accuracy with "
        "everything else masked instead, and the share masked in each, by the rule of the published code. Shares are "
        "taken to agree within two points. Beside them our default: all true sinks, edges decided with their noise, "
        "nothing masked where H has no direction, with as many features removed at random as control.",
    )  # fmt: skip
    rows = []
    for study in page.results:
        name = published.STUDIES[study]
        for method, table in published.SINKS.items():
            if method not in page.methods(study):
                continue
            r = page.results[study]["methods"][method]
            found, ours, theirs = r["metrics"]["sinks"], r["metrics"]["directional_default"], table[name]
            cells = []
            for k, way in enumerate(("mask_sinks", "keep_only_sinks")):
                value, error = found[f"{way}_accuracy"], found[f"{way}_accuracy_se"]
                cells.append(page.accuracy_cell(study, value, error, r["n_samples"], theirs[k], f"{way} {method}"))
            for k, way in enumerate(("mask_sinks", "keep_only_sinks")):
                share = 100 * found[f"{way}_share"]
                same = abs(share - theirs[2 + k]) <= 2
                cells.append(page.compare(study, f"{share:.1f}", same, f"{theirs[2 + k]:g}", f"share {method}"))
            default = percent(ours["mask_sinks_accuracy"], ours["mask_sinks_accuracy_se"])
            control = percent(ours["mask_sinks_random_accuracy"])
            cells.append(f"{default} at {percent(ours['mask_sinks_share_masked'])} (random {control})")
            rows.append([study, PAPER_NAMES[method], str(r["n_samples"]), *cells])
    page.table(
        ["study", "method", "samples", "sinks masked", "the rest masked", "share: sinks", "share: the rest",
         "our default: sinks masked"],
        rows,
    )  # fmt: skip


def write_rankings(page: Page) -> None:
    page.add(
        "## (c) Influential features", "",
        "Post-hoc accuracy in percent with the lowest-ranked tenth and half of the features masked, ours / the "
        "paper's. The paper's Ours is its sampling variant. With few features a tenth is approximate: the first grid "
        "point at or above it is taken.",
    )  # fmt: skip
    rows = []
    for study in page.results:
        name = published.STUDIES[study]
        for method, r in page.methods(study).items():
            found, cells = r["metrics"]["post_hoc"], []
            for share, table in ((0.1, published.POST_HOC_10), (0.5, published.POST_HOC_50)):
                k = at_fraction(found["masked_fraction"], share)
                cells.append(
                    page.accuracy_cell(
                        study, found["curve"][k], found["curve_se"][k], r["n_samples"], table[name].get(method),
                        f"post-hoc {method}",
                    )
                )  # fmt: skip
            area = number(found["area"], found["area_se"])
            rows.append([study, PAPER_NAMES[method], str(r["n_samples"]), *cells, area])
    page.table_of_methods(["study", "method", "samples", "10 % masked", "50 % masked", "area under the curve"], rows)
    page.add(
        "### Insertion and deletion AUC", "",
        "Higher is better for insertion, lower for deletion; ours / the paper's. `published` is the convention of the "
        "authors' code, above the value of the empty input; `half` that of their older code, above 0.5; `default` is "
        "ours, above the empty input and in the direction of the whole one. The paper's figures stand beside "
        "`published`, those of Census beside `half`: only above 0.5 can its deletion be as large as 0.32.",
    )  # fmt: skip
    rows = []
    for study in page.results:
        name = published.STUDIES[study]
        for method, r in page.methods(study).items():
            auc, cells = r["metrics"]["auc"], []
            for way, table in (("insertion", published.INSERTION), ("deletion", published.DELETION)):
                for c in ("published", "half", "default"):
                    theirs = table[name].get(method) if c == published.OFFSET.get(name, "published") else None
                    value, error = auc[f"{way}_{c}"], auc[f"{way}_{c}_se"]
                    cells.append(page.area_cell(study, value, error, theirs, f"{way} {method}"))
            rows.append([study, PAPER_NAMES[method], str(r["n_samples"]), *cells])
    header = ["study", "method", "samples"]
    page.table_of_methods(
        [*header, *(f"{w}: {c}" for w in ("insertion", "deletion") for c in ("published", "half", "default"))], rows
    )
    _images(page, "post_hoc")


def write_times(page: Page) -> None:
    page.add(
        "## (d) Time and evaluations", "",
        "Processor seconds of one thread per sample, ours / the paper's wall-clock seconds (its GPU for images and "
        "texts), and model rows per sample. Only the order of magnitude can be compared. A coalition that is drawn "
        "again, or differs only in features equal to their replacement, is evaluated once, so rows may be fewer than "
        "asked for; trees are read without any.",
    )  # fmt: skip
    rows = []
    for study in page.results:
        theirs = published.SECONDS[published.STUDIES[study]]
        for method, r in page.methods(study).items():
            if method != "random":
                seconds = (
                    f"{r['cpu_seconds']:.3g} / {theirs[method]:g}" if method in theirs else f"{r['cpu_seconds']:.3g}"
                )
                size = f"{r['n_players']:.0f} ({r['n_null']:.0f} null)"
                rows.append(
                    [study, PAPER_NAMES[method], ", ".join(r["used"]), size, seconds, f"{r['evaluations']:,.0f}"]
                )
        for method, r in page.results[study]["methods"].items():
            if "refused" in r:
                rows.append([study, PAPER_NAMES[method], "not run", "", r["refused"].split(". ")[0], ""])
    page.table_of_methods(["study", "method", "explained by", "features", "seconds", "model rows"], rows)


def write_gammas(page: Page) -> None:
    page.add(
        "## (e) Sensitivity to γ", "",
        "Density of H by the paper's rule, accuracy with the sinks masked, and accuracy with one member of each group "
        "left, at the four thresholds of the paper and one more. All in percent.",
    )  # fmt: skip
    rows = []
    for study in page.results:
        for method, r in page.methods(study).items():
            if method not in ("auto", "paper_sampling", "paper_kernel"):
                continue
            cells = []
            for gamma in GAMMAS:
                sinks, groups = (r["metrics"][f"{kind}_{gamma:g}"] for kind in ("directional", "mutual"))
                accuracies = f"{percent(sinks['mask_sinks_accuracy'])}, {percent(groups['curve'][0])}"
                cells.append(f"{percent(groups['density'])}: {accuracies}")
            rows.append([study, PAPER_NAMES[method], *cells])
    page.table(["study", "method", *(f"γ = {gamma:g}" for gamma in GAMMAS)], rows)


def write_spread(page: Page) -> None:
    page.add(
        "## (f) Sampling variance", "",
        "Standard deviation over seeds, on the same samples: of E2 relative to its size, and of the paper's numbers. "
        "The error is that against the exact E2, where the present default is exact.",
    )  # fmt: skip
    rows = []
    for study, result in page.results.items():
        for method, s in result["spread"].items():
            n = s["numbers"]
            cells = [
                percent(n["post_hoc_10"]),
                percent(n["post_hoc_50"]),
                number(n["insertion"]),
                number(n["deletion"]),
            ]
            error = f"{s['relative_error']:.3f}" if "relative_error" in s else ""
            size = f"{s['n_samples']} × {s['n_seeds']}"
            rows.append([study, PAPER_NAMES[method], size, f"{s['relative_deviation']:.3f}", error, *cells])
    header = ["study", "method", "samples × seeds", "E2, relative", "error of E2", "10 % masked", "50 % masked"]
    page.table([*header, "insertion", "deletion"], rows)


def write_figures(page: Page) -> None:
    page.add("## (g) Illustrations", "")
    for study in ("mnist", "cifar10"):
        if "examples" in page.results.get(study, {}):
            e = page.results[study]["examples"]
            page.add(
                f"{study}: {e['n']} pictures, {e['evaluations']:,.0f} model rows each. Middle row: features in "
                "mutually redundant groups at γ = 1e-5, in white. Bottom row: PageRank on G. Below, G and H of the "
                "first picture.",
                "", f"![Examples of {study}]({IMAGES}/{study}_examples.png)", "",
                f"![G and H of a picture of {study}]({IMAGES}/{study}_graphs.png)", "",
            )  # fmt: skip
    if "sentence" in page.results.get("imdb", {}):
        s = page.results["imdb"]["sentence"]
        page.add(
            f'imdb: "The movie is the worst; surprisingly awful", negative with probability {s["negative"]:.3f}, '
            f"explained by {s['method']}; an arrow of G is redundant up to {s['gamma']:g}.",
        )
        theirs = {"worst -> awful": "redundant", "awful -> worst": "redundant", "worst -> surprisingly": "redundant"}
        page.table(
            ["arrow i -> j", "importance of j once i is present", "ours", "the paper"],
            (
                [arrow, f"{a['weight']:+.4f}", "redundant" if a["redundant"] else "not redundant",
                 theirs.get(arrow, "not redundant")]
                for arrow, a in s["arrows"].items()
            ),
        )  # fmt: skip
        page.add(f"![The sentence of the paper: G above H]({IMAGES}/imdb_sentence.png)", "")


def write_subgroups(page: Page) -> None:
    page.add("## (h) Subgroups of genes", "")
    for study in ("genes", "golub"):
        groups = page.results.get(study, {}).get("subgroups")
        if groups:
            page.add(f"{study}: mean graphs of two subgroups; heat maps of the highest-ranked genes.", "")
            page.add(f"![Mean graphs of {study}]({IMAGES}/{study}_subgroups.png)")
            page.table(["subgroup", "samples", "highest-ranked probes"],
                       ([g, str(d["n_samples"]), ", ".join(d["top"][:10])] for g, d in groups.items()))  # fmt: skip
    page.add(
        "Enrichment needs gene sets, which are not part of this repository: `python -m examples.paper.genes "
        "--gene-sets FILE.gmt --annotation PROBES.tsv` adds preranked GSEA (gseapy, 1,000 permutations, as in the "
        "paper) and the hypergeometric test on the highest tenth (Benjamini-Hochberg) to the results. It is tested "
        "on made sets. The paper's own table (COPDGene, macrophage sets at q = 0.02 and 0.01) cannot be repeated: its "
        "data are restricted.", "",
    )  # fmt: skip


def write_beyond(page: Page) -> None:
    page.add("## Beyond the paper, on the same data", "", BEYOND)
    rows = []
    for study in page.results:
        for method, r in page.methods(study).items():
            if method in ("auto", "proxy"):
                m, kernel = r["metrics"], page.methods(study).get("paper_kernel", r)["metrics"]["auc"]
                paper = [number(kernel[f"{w}_default"], kernel[f"{w}_default_se"]) for w in ("insertion", "deletion")]
                shapley = m["log_odds_shapley_auc"]
                cells = [
                    number(m["keep_auc"]["insertion_default"], m["keep_auc"]["insertion_default_se"]),
                    number(shapley["insertion_default"], shapley["insertion_default_se"]), paper[0],
                    number(m["remove_auc"]["deletion_default"], m["remove_auc"]["deletion_default_se"]),
                    number(shapley["deletion_default"], shapley["deletion_default_se"]), paper[1],
                ]  # fmt: skip
                rows.append([study, ", ".join(r["used"]), str(r["n_samples"]), f"{r['evaluations']:,.0f}", *cells])
    page.table(
        ["study", "explained by", "samples", "rows", "insertion: keep", "Shapley order", "the paper's PageRank (K)",
         "deletion: remove", "Shapley order", "the paper's PageRank (K)"],
        rows,
    )  # fmt: skip
    page.add(_beyond_noise(page), "")
    rows = []
    for study in page.results:
        for method, r in page.methods(study).items():
            if method in OURS:
                roles, s = r["metrics"]["roles"], r["metrics"]["structure"]
                shares = [percent(roles[role]) for role in _ROLES]
                rows.append(
                    [study, PAPER_NAMES[method], *shares, percent(s["potential_share"]), percent(s["dead_edges"])]
                )
    page.table(["study", "method", *_ROLES, "E2 from R alone", "edges of H to dead features"], rows)


def _beyond_noise(page: Page) -> str:
    """Where our rankings differ from the paper's by more than two standard errors of the difference."""
    found, n = [], 0
    for study in page.results:
        methods = page.methods(study)
        kernel = methods.get("paper_kernel", {"n_samples": None})
        for method, r in methods.items():
            if method not in ("auto", "proxy") or r["n_samples"] != kernel["n_samples"]:
                continue
            theirs = kernel["metrics"]["auc"]
            for ranking, way in (("keep", "insertion"), ("remove", "deletion")):
                ours, name = r["metrics"][f"{ranking}_auc"], f"{way}_default"
                error = math.hypot(ours[f"{name}_se"], theirs[f"{name}_se"])
                difference, n = ours[name] - theirs[name], n + 1
                if abs(difference) > 2 * error:
                    better = "better" if (difference > 0) is (way == "insertion") else "worse"
                    found.append(f"{study}, {way} of `{ranking}` ({better}, {difference:+.3f} ± {error:.3f})")
    which = "; ".join(found) or "none"
    return (
        "By more than two standard errors, taking the two sides as independent, `keep` and `remove` differ from the "
        f"paper's PageRank on the same samples in these of {n} comparisons, of which one in twenty would by chance: "
        f"{which}. Elsewhere these samples do not tell the rankings apart."
    )


_ROLES = ("irrelevant", "interchangeable", "redundant", "essential", "undecided")


def write_provenance(page: Page) -> None:
    page.add(
        "## Where the numbers come from", "",
        "The commands also take `--data` and `--output`. The commit is the one at which the batches were summed up.",
    )  # fmt: skip
    page.table(
        ["study", "command", "samples", "orders of Ours-SS (paper: 1,000)", "commit", "machine"],
        (
            [s, f"`{r['command']}`", str(_most_samples(r)), f"{r['plan']['orders'] or 1000:,}", f"`{r['commit']}`",
             r["machine"]]
            for s, r in page.results.items()
        ),
    )  # fmt: skip
    page.add("## Slips of the paper and of its code", "", "Found while repeating the experiments.")
    page.table(["where", "slip", "evidence"], SLIPS)


def _most_samples(result: Results) -> int:
    return max(method.get("n_samples", 0) for method in result["methods"].values())


WRITERS: tuple[Callable[[Page], None], ...] = (
    write_models, write_mutual, write_directional, write_rankings, write_times, write_gammas, write_spread,
    write_figures, write_subgroups, write_beyond, write_provenance,
)  # fmt: skip


def make_page(results: Mapping[str, Results]) -> str:
    """The whole page as Markdown."""
    page = Page(results)
    for write in WRITERS:
        write(page)
    return page.text()


def read_results(folder: Path) -> dict[str, Results]:
    """Summaries by study, in the order of the page."""
    return {
        study: json.loads((folder / f"{study}.json").read_text())
        for study in published.STUDIES
        if (folder / f"{study}.json").is_file()
    }


def take_over(run: Path, folder: Path, images: Path) -> None:
    """Copy the summaries and figures of a run to where the page finds them."""
    folder.mkdir(parents=True, exist_ok=True)
    images.mkdir(parents=True, exist_ok=True)
    for study in published.STUDIES:
        summary = run / study / "results.json"
        if summary.is_file():
            shutil.copy(summary, folder / f"{study}.json")
            for figure in (run / study / "figures").glob("*.png"):
                shutil.copy(figure, images / f"{study}_{figure.name}")


def _images(page: Page, kind: str) -> None:
    """Of one study on the paper's own data, and of all others folded."""
    pictures = {study: f"![{study}]({IMAGES}/{study}_{kind}.png)" for study in page.results}
    first = "mnist" if "mnist" in pictures else next(iter(pictures))
    page.add("", f"{first}:", "", pictures.pop(first), "")
    if pictures:
        page.folded(
            f"The pictures of {', '.join(pictures)}", *(line for one in pictures.values() for line in (one, ""))
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, help="output folder of a run whose results are taken over")
    parser.add_argument("--summaries", type=Path, default=RESULTS, help="folder of the summaries")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of paper.md and its pictures")
    options = parser.parse_args(arguments)
    if options.results is not None:
        take_over(options.results, options.summaries, options.docs / IMAGES)
    results = read_results(options.summaries)
    if not results:
        parser.error(f"`--summaries` must hold results, got {options.summaries}. Run python -m examples.paper first.")
    for result in results.values():
        save_curves(result, PAPER_NAMES, options.docs / IMAGES)
    (options.docs / "paper.md").write_text(make_page(results))
    print(f"{options.docs / 'paper.md'}: {', '.join(results)}")


if __name__ == "__main__":
    main()
