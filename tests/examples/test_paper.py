"""The experiments of the paper: the loop on bundled data, its numbers against independent code, and the page."""

import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

from bivshap_lightning import ExplanationGraph, Game
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.metrics import DeletionAUC, InsertionAUC, MutualRedundancyMasking, PostHocAccuracy
from examples.paper import census, drug, experiment, page, published
from examples.paper.enrichment import by_symbol, over_representation, preranked, read_annotation, read_gene_sets
from examples.paper.experiment import Plan
from examples.paper.scores import PublishedSinks, RandomRanking, StepCurves, Structure
from examples.paper.study import Options, Study, parse
from examples.paper.tables import agrees

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("BIVSHAP_PAPER_DATA", ROOT.parent / "shared" / "data"))
SCRIPTS = ("drug", "divorce", "census", "mnist", "cifar10", "imdb", "genes")
TINY = Plan(5, {"paper_sampling": 3}, orders=3, evaluations=40, repeats=2, repeated=2, without=("kernel_shap",))

needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="needs the data sets of the paper in ../shared/data, or where BIVSHAP_PAPER_DATA says"
)


@pytest.fixture(scope="module")
def wine():
    """A forest on five columns of a bundled table."""
    data = load_wine()
    x = torch.as_tensor(data.data[:, :5], dtype=torch.float32)
    model = RandomForestClassifier(20, random_state=0).fit(x[::2].numpy(), data.target[::2])
    return Study(
        name="wine", model=model, inputs=x[1::20], labels=data.target[1::20], accuracy=0.8, n_train=89, n_test=89,
        training=x[::2], baselines=x.mean(dim=0, keepdim=True), batch_size=4, notes=("Bundled data.",),
    )  # fmt: skip


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.setitem(experiment.PLANS, "wine", TINY)
    monkeypatch.setitem(published.STUDIES, "wine", "Drug")
    return Options(data=tmp_path / "none", output=tmp_path)


def steps_by_hand(game, order, sample, insert):
    """Values along an order, one coalition at a time."""
    values = []
    for k in range(game.n_players + 1):
        mask = torch.zeros(game.n_samples, 1, game.n_players, dtype=torch.bool)
        mask[sample, 0, order[:k]] = True
        values.append(float(game(mask if insert else ~mask)[sample, 0]))
    return values


def test_step_curves_agree_with_the_package_and_with_a_loop(wine):
    game = wine.game(slice(0, 5))
    explanation = find_explainer("auto").explain(game)
    metric = StepCurves(personalized=True)
    metric.update(game, explanation)
    found = metric.compute()
    for convention, ours in (("default", "default"), ("paper", "half")):
        for kind, way in ((InsertionAUC, "insertion"), (DeletionAUC, "deletion")):
            package = kind(convention=convention, personalized=True)
            package.update(game, explanation)
            assert float(found[f"{way}_{ours}"]) == pytest.approx(float(package.compute()["auc"]), abs=1e-9)
    for way, insert in (("insertion", True), ("deletion", False)):
        areas = []
        for sample in range(5):
            order = explanation.graph(sample).order(personalized=True, oriented=False).tolist()
            values = steps_by_hand(game, order, sample, insert)
            empty = values[0] if insert else values[-1]
            areas.append(sum(max(v - empty, 0) for v in values[:-1]) / game.n_players)
        assert float(found[f"{way}_published"]) == pytest.approx(np.mean(areas), abs=1e-7)


def test_published_sinks_where_there_are_some_and_where_there_are_none():
    game = Game(lambda x: (x * torch.tensor([8.0, 4.0])).amax(dim=1) - 6, torch.ones(2, 2))
    graphs = [ExplanationGraph([[0, 0], [1 / 2, 0]]), ExplanationGraph([[0, 1], [1, 0]])]  # max(2a, b), and no H
    metric = PublishedSinks()
    metric.update(game, graphs)
    found = {key: float(value) for key, value in metric.compute().items()}
    # b is the sink of the first sample. The second has none: nothing is masked, or everything.
    assert found["mask_sinks_accuracy"] == 1
    assert found["mask_sinks_share"] == 1 / 4
    assert found["keep_only_sinks_accuracy"] == 0
    assert found["keep_only_sinks_share"] == 3 / 4


def test_structure_of_a_game_without_pairs_is_its_potential():
    game = Game(lambda x: x @ torch.tensor([3.0, 1.0, 0.0]), torch.ones(1, 3), behavior="output")
    metric = Structure()
    metric.update(game, find_explainer("exact").explain(game))
    found = metric.compute()
    assert float(found["potential_share"]) == pytest.approx(1)
    # H has two edges, both to the player without effect.
    assert float(found["dead_edges"]) == 1


def test_random_ranking_is_seeded(wine):
    game = wine.game(slice(0, 3))
    first, second = (RandomRanking().explain(game, seed=seed).shapley for seed in (0, 0))
    assert torch.equal(first, second)
    assert not torch.equal(first, RandomRanking().explain(game, seed=1).shapley)


@pytest.mark.slow
def test_loop_resumes_and_adds_up(wine, options):
    summary = experiment.run(wine, options)
    methods = summary["methods"]
    assert {"auto", "paper_sampling", "paper_kernel", "shapley_sampling", "shapley_taylor", "random"} <= set(methods)
    assert methods["paper_sampling"]["n_samples"] == 3
    assert methods["auto"]["n_samples"] == 5
    # Batches of four and one sample add up to what one batch of five gives.
    game = wine.game(slice(0, 5))
    explanation = find_explainer("auto").explain(game, 40)
    for name, metric in (
        ("post_hoc", PostHocAccuracy(convention="paper", personalized=True)),
        ("mutual_default", MutualRedundancyMasking(gamma=1e-5)),
    ):
        metric.update(game, explanation)
        for key, value in metric.compute().items():
            np.testing.assert_allclose(methods["auto"]["metrics"][name][key], value.numpy(), atol=2e-6)
    # A batch that is missing is computed again, the others are read.
    folder = options.folder("wine")
    kept, lost = sorted((folder / "auto").glob("*-*.json"))
    lost.unlink()
    kept.write_text(kept.read_text().replace('"seconds": ', '"seconds": 9'))
    again = experiment.run(wine, options)["methods"]["auto"]
    assert again["metrics"] == methods["auto"]["metrics"]
    assert again["seconds"] > methods["auto"]["seconds"]
    assert json.loads((folder / "results.json").read_text())["study"] == "wine"
    # What a run of another plan left behind is not counted a second time.
    (folder / "auto" / "00000-00003.json").write_text(kept.read_text())
    assert experiment.run(wine, options)["methods"]["auto"]["n_samples"] == 5


@pytest.mark.slow
def test_page_of_a_run(wine, options, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(published, "COMPARABLE", ("wine",))
    experiment.run(wine, options)
    page.main(["--results", str(tmp_path), "--summaries", str(tmp_path / "s"), "--docs", str(tmp_path / "docs")])
    text = (tmp_path / "docs" / "paper.md").read_text()
    assert "{" not in text
    assert "Not run for this page: drug, divorce," in text
    for heading in ("(a) Mutual", "(b) Direc", "(c) Influ", "(d) Time", "(e) Sens", "(f) Samp", "Beyond", "Slips"):
        assert f"## {heading}" in text
    assert "| wine | Ours-K | 5 |" in text
    for picture in ("wine_post_hoc.png", "wine_mutual.png"):
        assert (tmp_path / "docs" / "images" / "paper" / picture).stat().st_size > 5_000
    assert "wine" in capsys.readouterr().out


def test_refusals_are_recorded(wine, options, monkeypatch):
    class Never(RandomRanking):
        def explain(self, game, n_evaluations=None, seed=0):
            raise ValueError("`game` must be something else, got this. Use another.")

    monkeypatch.setattr(experiment, "explainer_of", lambda *where: Never())
    experiment.run_method(wine, "random", TINY, options.folder("wine") / "random")
    assert "random" in experiment.summarize(wine, options.folder("wine"), TINY)["methods"]
    refused = json.loads((options.folder("wine") / "random" / "refused.json").read_text())["refused"]
    assert refused.startswith("`game` must be")


def test_methods_join_by_name(monkeypatch):
    assert experiment.methods_of(Plan())[:3] == ["auto", "paper_sampling", "paper_kernel"]
    monkeypatch.setattr(experiment, "explainer_names", lambda: ("auto", "l2x", "gnn_explainer", "other"))
    assert experiment.methods_of(Plan()) == ["auto", "l2x", "gnn_explainer", "random"]
    assert experiment.methods_of(Plan(without=("l2x",))) == ["auto", "gnn_explainer", "random"]


def test_agreement_counts_rounding_and_two_errors():
    assert agrees(0.304, 0.30, 0, 0.01)
    assert not agrees(0.306, 0.30, 0, 0.01)
    assert agrees(0.33, 0.30, 0.01, 0.01)
    assert not agrees(0.34, 0.30, 0.01, 0.01)


def test_published_figures_are_those_of_the_paper():
    assert published.INSERTION["Drug"]["paper_sampling"] == 0.30
    assert "shapley_taylor" not in published.INSERTION["COPD"]
    same = [
        t[c]["paper_sampling"] == t[c]["shapley_sampling"] for t in (published.INSERTION, published.DELETION) for c in t
    ]
    assert same == [True] * 14
    for table in published.SINKS.values():
        assert all(math.isclose(row[2] + row[3], 100, abs_tol=0.11) for row in table.values())
    # The paper's "standard deviations" are standard errors: those of 67 of 68 couples and of 500 samples.
    assert round(100 * math.sqrt(67 / 68 * 1 / 68 / 68), 1) == 1.5
    assert round(100 * math.sqrt(0.968 * 0.032 / 500), 1) == 0.8


def test_committed_page_is_up_to_date():
    results = page.read_results(page.RESULTS)
    assert (page.DOCS / "paper.md").read_text() == page.make_page(results)
    for line in (page.DOCS / "paper.md").read_text().splitlines():
        if line.startswith("!["):
            picture = page.DOCS / line[line.index("](") + 2 : -1]
            assert 1_000 < picture.stat().st_size < 200_000, picture


@pytest.mark.parametrize("script", SCRIPTS)
def test_missing_data_say_where_to_get_them(script, tmp_path):
    module = __import__(f"examples.paper.{script}", fromlist=["load"])
    with pytest.raises(FileNotFoundError, match=r"`--data` must be a folder that holds .* Get it from .*"):
        module.load(Options(data=tmp_path, output=tmp_path))


def test_command_line():
    options = parse("words", ["--data", "d", "--quick", "--samples", "3", "--gene-sets", "a.gmt"])
    assert options.data == Path("d")
    assert options.quick
    assert options.samples == 3
    assert options.gene_sets == Path("a.gmt")


@needs_data
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_run_quickly(script, tmp_path):
    command = [
        sys.executable,
        "-m",
        f"examples.paper.{script}",
        "--data",
        str(DATA),
        "--output",
        str(tmp_path),
        "--quick",
    ]
    if script == "genes":
        probes = np.load(DATA / "gene_expression" / "gse994_airway_smoking.npz")["probes"][::400]
        (tmp_path / "sets.gmt").write_text("\n".join(f"set{k}\t-\t" + "\t".join(probes[k::5]) for k in range(5)))
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    results = json.loads((tmp_path / f"{script}-quick" / "results.json").read_text())
    assert {"auto", "paper_sampling", "paper_kernel", "shapley_excess", "l2x"} <= set(results["methods"])
    refused = {m: r["refused"] for m, r in results["methods"].items() if "refused" in r}
    # GNNExplainer follows gradients, which trees do not have.
    assert set(refused) <= ({"gnn_explainer"} if script in ("drug", "census") else set())
    pictures = {"mnist": 2, "cifar10": 2, "imdb": 1, "genes": 1}.get(script, 0)
    assert len(list((tmp_path / f"{script}-quick").glob("figures/*.png"))) == pictures


@needs_data
@pytest.mark.slow
def test_drug_agrees_with_the_paper_exactly(tmp_path):
    """The forest is read exactly, so these figures have no sampling error; the paper's stand beside them."""
    study = drug.load(Options(data=DATA, output=tmp_path))
    assert study.accuracy == pytest.approx(402 / 472)  # 85.2; paper 85.3
    game = study.game(slice(0, 472))
    explanation = find_explainer("auto").explain(game)
    assert explanation.is_exact
    post_hoc = PostHocAccuracy(convention="paper", personalized=True)
    curves, sinks = StepCurves(personalized=True), PublishedSinks()
    for metric in (post_hoc, curves, sinks):
        metric.update(game, explanation)
    found = {key: round(float(value), 4) for key, value in (curves.compute() | sinks.compute()).items()}
    assert round(float(post_hoc.compute()["curve"][13]), 4) == 0.9915  # paper 99.2
    assert found["mask_sinks_accuracy"] == 1  # paper 100
    assert found["mask_sinks_share"] == 0.435  # paper 43.5
    assert found["keep_only_sinks_accuracy"] == 0.4852  # paper 48.5
    assert found["keep_only_sinks_share"] == 0.565  # paper 56.5
    assert round(found["insertion_published"], 2) == 0.30  # paper 0.30
    assert found["deletion_published"] == pytest.approx(0.105, abs=0.002)  # paper 0.10


@needs_data
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_census_agrees_with_the_paper_but_for_deletion(tmp_path):
    """All 4,096 coalitions of 12 columns are enumerated: exact figures of the first 100 samples, the paper's beside."""
    study = census.load(Options(data=DATA, output=tmp_path))
    assert study.accuracy == pytest.approx(0.875, abs=0.002)  # paper 87.3
    curves, sinks = StepCurves(personalized=True), PublishedSinks()
    for start in (0, 50):
        game = study.game(slice(start, start + 50))
        explanation = find_explainer("auto").explain(game)
        assert explanation.is_exact
        for metric in (curves, sinks):
            metric.update(game, explanation)
    found = {key: float(value) for key, value in (curves.compute() | sinks.compute()).items()}
    assert found["insertion_half"] == pytest.approx(0.4424, abs=0.004)  # paper 0.43
    assert found["deletion_half"] == pytest.approx(0.2873, abs=0.004)  # paper 0.32
    assert found["mask_sinks_accuracy"] == 1  # paper 100
    assert found["keep_only_sinks_accuracy"] == pytest.approx(0.81, abs=0.011)  # paper 82
    assert found["mask_sinks_share"] == pytest.approx(0.2233, abs=0.004)  # paper 23.8


def write_sets(path, sets):
    path.write_text("\n".join("\t".join([name, "made", *genes]) for name, genes in sets.items()))


def test_over_representation_against_enumeration(tmp_path):
    genes = [f"g{k}" for k in range(9)]
    write_sets(tmp_path / "sets.gmt", {"planted": genes[:3], "spread": genes[2:8], "outside": ["h1"]})
    sets = read_gene_sets(tmp_path / "sets.gmt")
    chosen = set(genes[:4])
    rows = {row["name"]: row for row in over_representation(chosen, genes, sets)}
    assert set(rows) == {"planted", "spread"}
    for name, row in rows.items():
        hits = len(sets[name] & chosen)
        draws = list(itertools.combinations(genes, len(chosen)))
        by_chance = sum(len(sets[name] & set(draw)) >= hits for draw in draws) / len(draws)
        assert (row["hits"], row["size"]) == (hits, len(sets[name]))
        assert row["p"] == pytest.approx(by_chance)
    # Benjamini and Hochberg: the smaller p times two, the larger one as it is.
    assert rows["planted"]["q"] == pytest.approx(min(2 * rows["planted"]["p"], rows["spread"]["p"]))
    assert rows["spread"]["q"] == pytest.approx(rows["spread"]["p"])
    with pytest.raises(ValueError, match=r"`chosen` must be part of `background`, got 1 genes outside it"):
        over_representation({"h1"}, genes, sets)


def test_preranked_finds_the_planted_set(tmp_path):
    pytest.importorskip("gseapy", reason="preranked GSEA is done by gseapy")
    rng = np.random.default_rng(0)
    genes = [f"g{k}" for k in range(200)]
    scores = dict(zip(genes, rng.random(200) + np.where(np.arange(200) < 15, 1, 0), strict=True))
    made = {"planted": genes[:15], **{f"other{k}": list(rng.choice(genes[15:], 15, replace=False)) for k in range(6)}}
    write_sets(tmp_path / "sets.gmt", made)
    rows = preranked(scores, read_gene_sets(tmp_path / "sets.gmt"), n_permutations=200)
    assert rows[0]["name"] == "planted"
    assert rows[0]["q"] < 0.05
    assert rows[0]["size"] == 15
    assert rows[0]["normalised"] > max(row["normalised"] for row in rows[1:])


def test_gene_files(tmp_path):
    (tmp_path / "a.tsv").write_text("p1\tCYP1B1\np2\tCYP1B1\np3\t\n")
    found = by_symbol({"p1": 0.1, "p2": 0.3, "p3": 0.2}, read_annotation(tmp_path / "a.tsv"))
    assert found == {"CYP1B1": 0.3, "p3": 0.2}
    (tmp_path / "bad.gmt").write_text("one\tmade\tg1\ntwo\tmade\n")
    with pytest.raises(ValueError, match=r"`--gene-sets` must be a GMT file.* whose line 2 has no genes"):
        read_gene_sets(tmp_path / "bad.gmt")
