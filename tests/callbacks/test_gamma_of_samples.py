"""The default gamma of texts of different lengths is each text's own, in every number, picture and sentence."""

import json
from dataclasses import replace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from bivshap_lightning.audit.record import AuditRecord, RecordError
from bivshap_lightning.audit.record_parts import GraphSummary, strongest_pairs
from bivshap_lightning.callbacks import BivShapCallback, PanelOptions
from bivshap_lightning.game.players import Tokens
from bivshap_lightning.gate import GateError, Rule, judge
from bivshap_lightning.gate.judging import graph_pair
from bivshap_lightning.gate.measuring import demand_comparable
from bivshap_lightning.gate.profile import default_gammas
from bivshap_lightning.graph import ROLES
from bivshap_lightning.graph.averaging import mean_of_class
from bivshap_lightning.views.explorer.numbers import describe_record
from bivshap_lightning.views.html import render_page
from tests.callbacks.test_bivshap_callback import trainer

LENGTHS = (3, 20, 40, 5, 20, 40)
LONGEST, N_WORDS = max(LENGTHS), 61
VOCABULARY = ["[PAD]", *(f"word{k}" for k in range(1, N_WORDS))]
SWEEP = (0.01, 0.1, 0.3, 1, 3, 10)


class Texts(Dataset):
    """Texts of different words: a strong one, two that replace each other, and weak ones of all sizes."""

    def __init__(self, lengths):
        self.ids = torch.zeros(len(lengths), LONGEST, dtype=torch.long)
        generator = torch.Generator().manual_seed(0)
        for row, n in zip(self.ids, lengths, strict=True):
            weak = 5 + torch.randperm(N_WORDS - 5, generator=generator)[: n - 3]
            row[:n] = torch.cat([torch.tensor([1, 3, 4]), weak])[:n]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, k):
        ids = self.ids[k]
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor(k % 2)}


class Classifier(pl.LightningModule):
    """Adds the weights of words, and once the larger of the third and the fourth one."""

    def __init__(self):
        super().__init__()
        weights = torch.cat([torch.tensor([0.0, 1.0, 1.0, 0.0, 0.0]), torch.logspace(-4, -0.7, N_WORDS - 5)])
        self.weights, self.idle = weights, nn.Linear(1, 1)

    def score(self, ids):
        either = (ids == 3).any(dim=1) | (ids == 4).any(dim=1)
        return self.weights[ids].sum(dim=1) + 0.5 * either

    def forward(self, input_ids, attention_mask, labels=None):
        score = self.score(input_ids)
        return {"logits": torch.stack([0 * score, score], dim=1)}

    def validation_step(self, batch, batch_idx):
        self(**batch)


def validated(folder, lengths, **options):
    callback = BivShapCallback(
        **{"n_samples": len(lengths), "compare_with": (), "on_error": "raise", "behavior": "logit", "panels": False}
        | options,
        feature_mask=Tokens(VOCABULARY), baselines=0, seed=1,
    )  # fmt: skip
    texts = Texts(lengths)
    trainer(folder, callback).validate(Classifier(), DataLoader(texts, batch_size=2), verbose=False)
    (path,) = (folder / "bivshap").glob("*.json")
    return callback, path, AuditRecord.load(path)


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    return validated(folder, LENGTHS, panels=PanelOptions(n_samples=len(LENGTHS), n_classes=2))


def gammas_of_the_design(callback, lengths):
    """min(0.01, 0.15 / F) of the mean abs(u(all) - u(none)), from the model and the texts alone."""
    ids = Texts(lengths).ids
    sizes = Classifier().score(ids).abs()  # of an empty text the score is 0
    return {n: min(0.01, 0.15 / n) * sizes.mean().item() for n in lengths}


def test_each_sample_has_the_gamma_of_its_length(audited):
    callback, _, record = audited
    right = gammas_of_the_design(callback, LENGTHS)
    assert len(set(right.values())) == 3
    for sample, found in zip(callback.result.samples, record.samples, strict=True):
        graph, gamma = sample.graph, found.gamma
        assert gamma == pytest.approx(right[graph.n_players], rel=1e-5)
        roles = graph.roles(gamma)
        assert found.roles == roles.roles
        assert found.density == graph.redundancy(gamma).density
        pairs = strongest_pairs(graph.substitution_parts(gamma))
        assert (found.substitutes, found.partners) == (pairs["substitutes"], pairs["partners"])
    assert record.configuration.gamma == pytest.approx(min(right.values()), rel=1e-5)
    assert record.gamma_range == (record.configuration.gamma, max(s.gamma for s in record.samples))
    # One gamma for all, as before, says something else of the short texts.
    assert any(
        sample.graph.roles(record.configuration.gamma).roles != found.roles
        for sample, found in zip(callback.result.samples, record.samples, strict=True)
    )


def test_numbers_are_means_over_samples_at_their_own_gammas(audited):
    callback, _, record = audited
    graphs = [sample.graph for sample in callback.result.samples]
    gammas = [sample.gamma for sample in record.samples]
    value = {tag: found.value for tag, found in record.metrics.items()}
    for point, factor in zip(record.sweep, SWEEP, strict=True):
        roles = [graph.roles(factor * gamma) for graph, gamma in zip(graphs, gammas, strict=True)]
        h = [graph.redundancy(factor * gamma) for graph, gamma in zip(graphs, gammas, strict=True)]
        removable = sum(sum(map(len, its.groups)) - len(its.groups) for its in h) / sum(g.n_players for g in graphs)
        assert point.gamma == pytest.approx(factor * record.configuration.gamma)
        assert point.density == pytest.approx(np.mean([its.density for its in h]))
        assert point.share_removable == pytest.approx(removable)
        for role in ROLES:
            assert point.roles[role] == pytest.approx(np.mean([r.shares[role] for r in roles]))
        if factor == 1:
            assert value["bivshap/redundancy/density"] == pytest.approx(point.density)
            assert value["bivshap/redundancy/share_removable"] == pytest.approx(removable)
            masked = sum(len(its.sinks) for its in h if its.sinks or its.sources) / sum(g.n_players for g in graphs)
            assert value["bivshap/redundancy/mask_sinks_share_masked"] == pytest.approx(masked)
            for role in ROLES:
                assert value[f"bivshap/roles/{role}"] == pytest.approx(point.roles[role])


def test_a_mean_graph_has_the_smallest_gamma_of_its_samples(audited):
    callback, _, record = audited
    for name, summary in record.classes.items():
        members = [sample for sample in record.samples if sample.class_name == name]
        graphs = [s.graph for s in callback.result.samples if str(s.label) == name]
        assert len({g.n_players for g in graphs}) > 1
        assert summary.gamma == min(sample.gamma for sample in members)
        mean = mean_of_class(graphs)
        assert summary.roles == mean.roles(summary.gamma).roles
        assert summary.density == mean.redundancy(summary.gamma).density


def test_the_record_round_trips(audited, tmp_path):
    _, path, record = audited
    again = AuditRecord.load(record.save(tmp_path / "again.json"))
    assert (again.samples, again.classes) == (record.samples, record.classes)
    assert all(sample["gamma"] > 0 for sample in json.loads(path.read_text())["samples"])


def with_gammas(record, factor):
    """The record with other thresholds for some or all of its samples and classes."""
    return replace(
        record,
        samples=tuple(replace(s, gamma=factor(s) * s.gamma) for s in record.samples),
        classes={name: replace(c, gamma=factor(c) * c.gamma) for name, c in record.classes.items()},
    )


@pytest.mark.parametrize(
    ("factor", "place"),
    [
        (lambda s: 2 if getattr(s, "index", None) == 2 else 1, r"samples\[2\].gamma must be that of its players"),
        (lambda s: 1 if hasattr(s, "index") else 2, r"classes\['0'\].gamma must be"),
        (lambda s: 3, r"samples\[0\].gamma must be that of its players"),
    ],
)
def test_a_changed_gamma_is_refused(audited, tmp_path, factor, place):
    with pytest.raises(RecordError, match=place):
        with_gammas(audited[2], factor).save(tmp_path / "changed.json")


def test_gammas_that_are_changed_together_contradict_the_arrays(audited, tmp_path):
    record = with_gammas(audited[2], lambda s: 3)
    record = replace(record, configuration=replace(record.configuration, gamma=3 * record.configuration.gamma))
    path = record.save(tmp_path / "changed.json")
    with pytest.raises(RecordError, match="be what the arrays say"):
        AuditRecord.load(path)


def test_some_samples_without_gamma_are_refused(audited, tmp_path):
    first, *others = audited[2].samples
    with pytest.raises(RecordError, match="samples must all have a gamma or none, got 5"):
        replace(audited[2], samples=(replace(first, gamma=None), *others)).save(tmp_path / "changed.json")


@pytest.fixture(scope="module")
def earlier(audited, tmp_path_factory):
    """The same audit as earlier releases recorded it: all texts at the gamma of the longest, and no gammas stated."""
    callback, _, record = audited
    gamma = record.configuration.gamma
    samples = tuple(
        replace(found, **GraphSummary.fields_of(sample.graph, gamma) | {"gamma": None})
        for found, sample in zip(record.samples, callback.result.samples, strict=True)
    )
    classes = {
        name: replace(GraphSummary.of(mean_of_class([s.graph for s in callback.result.samples if str(s.label) == name]),
                                      gamma), gamma=None)
        for name in record.classes
    }  # fmt: skip
    old = replace(record, samples=samples, classes=classes, metrics={}, class_metrics={}, substitutes=(), partners=())
    path = old.save(tmp_path_factory.mktemp("earlier") / "record.json")
    return AuditRecord.load(path)


def test_records_of_earlier_releases_load_and_are_not_compared(audited, earlier):
    assert earlier.gamma_range == (earlier.configuration.gamma,) * 2
    assert "γ = " in render_page(earlier)
    demand_comparable(earlier, earlier)
    with pytest.raises(GateError, match=r"one gamma for samples of different numbers of players in one of them"):
        demand_comparable(audited[2], earlier)
    with pytest.raises(GateError, match=r"Audit both models with the same release\."):
        judge(audited[2], [Rule(metric="bivshap/roles/irrelevant", max_absolute_change=0.1)], earlier)


def test_the_gate_takes_the_gamma_of_the_graph(audited):
    _, _, record = audited
    assert default_gammas(record.sample_graphs) == pytest.approx([s.gamma for s in record.samples], rel=1e-5)
    name, summary = next(iter(record.classes.items()))
    pair = graph_pair(name, record, record)
    h = record.class_graphs[name].redundancy(summary.gamma)
    assert pair.redundant[0].sum() == h.n_redundant


def test_every_gamma_that_is_shown_is_that_of_what_is_shown(audited):
    callback, path, record = audited
    low, high = record.gamma_range
    assert f"(gamma {low:.2g} to {high:.2g} by number of features)" in callback.summary()
    page = render_page(record)
    assert f"at γ = {low:.3g} to {high:.3g} (by a sample&#39;s number of features)" in page
    assert f"2 γ = {2 * low:.3g} to {2 * high:.3g} (by" in page
    assert "Mean graph of each class, at the smallest γ of its samples." in page
    assert "γ is that of the samples with the most features; the others are at the same multiple" in page
    (table,) = path.parent.rglob("at_other_gammas/*.md")
    assert "γ is that of the samples with the most features; the others are at the same multiple" in table.read_text()
    subjects = {subject["id"]: subject["gamma"] for subject in describe_record(record)["subjects"]}
    for sample in record.samples:
        assert subjects[f"sample:{sample.index}"] == sample.gamma
    for name, summary in record.classes.items():
        assert subjects[f"class:{name}"] == summary.gamma
        (ranking,) = path.parent.rglob(f"class/{name}/ranking/*.md")
        if summary.groups:
            said = f"2 gamma = {2 * summary.gamma:.3g} on average"
        else:
            said = f"at gamma = {summary.gamma:.3g}: there are no groups"
        assert said in " ".join(ranking.read_text().split())


def test_texts_of_one_length_have_one_gamma(tmp_path):
    callback, _, record = validated(tmp_path, (20, 20, 20))
    (right,) = gammas_of_the_design(callback, (20, 20, 20)).values()
    gamma = record.configuration.gamma
    assert gamma == pytest.approx(right, rel=1e-5)
    assert {s.gamma for s in (*record.samples, *record.classes.values())} == {gamma}
    _, _, fixed = validated(tmp_path / "fixed", (20, 20, 20), gamma=gamma)
    assert fixed.configuration.gamma_rule == "fixed"
    for name in ("samples", "classes", "metrics", "class_metrics", "sweep", "substitutes", "partners", "notes"):
        assert getattr(fixed, name) == getattr(record, name), name
    page = render_page(record)
    assert f"at γ = {gamma:.3g}: share" in page
    assert "by a sample" not in page
    assert "with the most features" not in page
    assert f"(gamma {gamma:.2g})," in callback.summary()


def test_a_fixed_gamma_is_that_of_all_texts(tmp_path):
    callback, _, record = validated(tmp_path, (3, 20, 40), gamma=0.01)
    assert {s.gamma for s in (*record.samples, *record.classes.values())} == {0.01}
    for sample, found in zip(callback.result.samples, record.samples, strict=True):
        assert found.roles == sample.graph.roles(0.01).roles
