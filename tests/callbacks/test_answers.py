"""What an audit says to people: roles, degrees, the relative gamma, regressions, and models with nothing to explain."""

import re
from dataclasses import replace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning.audit.audit import Audit
from bivshap_lightning.audit.record import AuditRecord, RecordError
from bivshap_lightning.audit.record_parts import RELATIVE_GAMMA
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.gate import GateError, Rule, judge
from bivshap_lightning.graph import ROLES
from bivshap_lightning.metrics.catalogue import find_number
from bivshap_lightning.views.html import render_page
from tests.callbacks.modules import Module, Steps, valid_loader
from tests.callbacks.test_bivshap_callback import SOME, trainer

NAMES = ["a", "b", "c", "dead"]


class EitherOr(Steps, pl.LightningModule):
    """Class 1 if a or b is there, however much c adds; the last column has no effect."""

    def forward(self, x):
        score = 8 * x[:, :2].amax(dim=1) - 4 + 2 * x[:, 2] * x[:, 0]
        return torch.stack([-score / 2, score / 2], dim=1)


class Value(pl.LightningModule):
    def forward(self, x):
        return x @ torch.tensor([5.0, 1.0, -2.0])

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.mse_loss(self(batch[0]), batch[1]))


def validated(folder, module, x, y, **options) -> tuple[BivShapCallback, AuditRecord]:
    callback = BivShapCallback(**SOME | {"n_evaluations": None} | options)
    trainer(folder, callback).validate(module, DataLoader(TensorDataset(x, y), batch_size=4), verbose=False)
    (path,) = (folder / "bivshap").glob("*.json")
    return callback, AuditRecord.load(path)


@pytest.fixture(scope="module")
def either(tmp_path_factory):
    x = torch.ones(6, 4)
    return validated(tmp_path_factory.mktemp("run"), EitherOr(), x * torch.arange(1, 7)[:, None] / 6,
                     torch.ones(6).long(), feature_names=NAMES, baselines=0.0)  # fmt: skip


def test_roles_are_logged_recorded_and_add_up(either):
    callback, record = either
    shares = [record.metrics[f"bivshap/roles/{role}"].value for role in ROLES]
    assert sum(shares) == pytest.approx(1)
    for sample, found in zip(callback.result.samples, record.samples, strict=True):
        roles = sample.graph.roles(record.configuration.gamma)
        assert found.roles == roles.roles
        assert found.interchangeable == tuple(tuple(NAMES[k] for k in group) for group in roles.groups)
        assert found.scores["bivshap/roles/n_independent"] == roles.n_independent
        assert found.roles[3] == "irrelevant"
    by_feature = record.roles_of_features
    assert by_feature["dead"] == {role: float(role == "irrelevant") for role in ROLES}
    assert all(sum(shares.values()) == pytest.approx(1) for shares in by_feature.values())
    of_class = record.class_metrics["1"].metrics
    assert sum(of_class[f"bivshap/roles/{role}"].value for role in ROLES) == pytest.approx(1)


def test_substitutes_and_partners_are_recorded_with_errors(either):
    callback, record = either
    gamma = record.configuration.gamma
    for sample, found in zip(callback.result.samples, record.samples, strict=True):
        parts = sample.graph.substitution_parts(gamma)
        assert [(p.player, p.given, p.own) for p in found.substitutes] == [
            (p.player, p.given, p.own) for p in parts.substitutes()
        ]
    assert {record.substitutes[0].player, record.substitutes[0].given} == {"a", "b"}
    assert {record.partners[0].player, record.partners[0].given} == {"a", "c"}
    assert record.classes["1"].substitutes == record.substitutes  # the only class
    listed = {name for pair in (*record.substitutes, *record.partners) for name in (pair.player, pair.given)}
    assert "dead" not in listed


def test_gamma_is_relative_to_what_there_is_to_explain(either):
    callback, record = either
    gains = [abs(sample.gain) for sample in record.samples]
    assert record.configuration.gamma == pytest.approx(0.01 * np.mean(gains), rel=1e-5)
    assert record.configuration.gamma_rule == RELATIVE_GAMMA
    assert callback.settings.gamma is None


def test_a_fixed_gamma_stays_possible(tmp_path):
    _, record = validated(tmp_path, Module(), torch.randn(6, 6), torch.zeros(6).long(), gamma=1e-5)
    assert (record.configuration.gamma, record.configuration.gamma_rule) == (1e-5, "fixed")


def test_records_of_one_rule_are_comparable_although_the_number_differs(either):
    _, record = either
    moved = replace(record, configuration=replace(record.configuration, gamma=2 * record.configuration.gamma))
    rule = [Rule(metric="bivshap/roles/irrelevant", max_absolute_change=0.1)]
    assert judge(moved, rule, record).passed
    fixed = replace(record, configuration=replace(record.configuration, gamma_rule="fixed"))
    with pytest.raises(GateError, match=r"different gamma \(previous 'min\(0.01, 0.15 / F\)"):
        judge(fixed, rule, record)


def test_the_sweep_agrees_with_the_graphs(either):
    callback, record = either
    gammas = [point.gamma for point in record.sweep]
    assert gammas == pytest.approx([record.configuration.gamma * f for f in (0.01, 0.1, 0.3, 1, 3, 10)])
    for point in record.sweep:
        graphs = [sample.graph for sample in callback.result.samples]
        for role in ROLES:
            assert point.roles[role] == pytest.approx(np.mean([g.roles(point.gamma).shares[role] for g in graphs]))
        assert point.density == pytest.approx(np.mean([g.redundancy(point.gamma).density for g in graphs]))
    middle, numbers = record.sweep[3], record.metrics
    for name in ("accuracy_with_representatives", "random_removal_accuracy", "share_removable"):
        assert getattr(middle, name) == pytest.approx(numbers[f"bivshap/redundancy/{name}"].value)


def test_an_untrained_model_has_nothing_to_explain(tmp_path, caplog):
    torch.manual_seed(0)
    untrained = Module().eval()
    nn.init.normal_(untrained.network[-1].weight, std=0.01)
    with caplog.at_level("INFO"):
        callback, record = validated(tmp_path, untrained, torch.randn(12, 6), torch.zeros(12).long(), n_samples=12)
    assert any(note.startswith("nothing to explain here: with all features and with none") for note in record.notes)
    assert callback.summary().startswith("nothing to explain here")
    assert "bivshap: epoch 0, nothing to explain here" in caplog.text
    assert not re.search("removable|accuracy [0-9]|% irrelevant", caplog.text)
    verdict = judge(record, [Rule(metric="bivshap/redundancy/share_undecided", max=0.5)])
    assert verdict.notes == record.notes[:1]
    assert "note: nothing to explain here" in verdict.to_text()
    assert render_page(record, verdict=verdict).count("Nothing to explain here") == 1


class Untrained(Value):
    factor = 0.01

    def forward(self, x):
        return self.factor * x[:, 1]


def test_a_value_that_moves_by_next_to_nothing_of_its_labels_is_not_explained(tmp_path):
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    labels = 5 * x[:, 0] + x[:, 1]
    callback, record = validated(tmp_path / "small", Untrained(), x, labels, n_samples=12, baselines=0.0)
    (note,) = record.nothing_to_explain
    spread = (labels - labels.median()).abs().median().item()
    assert "half of the labels are" in note
    assert float(re.search(r"are ([0-9.]+) or more", note)[1]) == pytest.approx(spread, rel=0.2)
    assert callback.summary().startswith(note)
    assert "removable" not in callback.summary()

    trained = Untrained()
    trained.factor = 5.0
    assert not validated(tmp_path / "large", trained, x, labels, n_samples=12, baselines=0.0)[1].nothing_to_explain
    other_units = validated(tmp_path / "units", Untrained(), x, 100 * x[:, 1], n_samples=12, baselines=0.0)[1]
    assert not other_units.nothing_to_explain


def test_a_model_that_uses_its_inputs_is_explained(either):
    callback, record = either
    assert not any(note.startswith("nothing to explain") for note in record.notes)
    assert "nothing to explain" not in callback.summary()
    assert "othing to explain" not in render_page(record)


def test_an_accuracy_that_its_control_reaches_says_nothing(tmp_path):
    class Constant(Module):
        def forward(self, x):
            return torch.stack([0 * x[:, 0] + 3, 0 * x[:, 0]], dim=1)

    _, record = validated(tmp_path, Constant(), torch.randn(6, 6), torch.zeros(6).long())
    assert any("100 % of the samples, and so does removing as many features at random" in note for note in record.notes)
    assert record.metrics["bivshap/roles/irrelevant"].value == 1
    assert record.metrics["bivshap/roles/interchangeable"].value == 0


def test_most_pairs_undecided_is_said_with_what_lowers_it(tmp_path):
    """Twenty columns and the fewest orders: intervals are wide, and the note says how wide and what narrows them."""

    class Wide(Module):
        def forward(self, x):
            score = torch.tanh(x.sum(dim=1))
            return torch.stack([-score, score], dim=1)

    data = torch.rand(4, 20), torch.ones(4).long()
    _, short = validated(tmp_path, Wide(), *data, method="sampling", n_evaluations=100, baselines=0.0)
    (note,) = (note for note in short.notes if "undecided" in note)
    share = short.metrics["bivshap/redundancy/share_undecided"].value
    assert share > 0.5
    assert note.startswith(f"{share:.0%} of the ordered pairs are undecided".replace("%", " %"))
    half_widths = [
        1.96 * g.standard_error[g.redundancy(short.configuration.gamma).undecided] for g in short.sample_graphs
    ]
    width = np.median(np.concatenate(half_widths)) / short.configuration.gamma
    assert f"reach {width:.2g} times gamma or more" in note
    assert "A larger `n_evaluations` narrows them" in note
    assert "ordered pairs are undecided" in render_page(short)


def test_decided_pairs_are_not_called_undecided(either):
    assert not any("undecided" in note for note in either[1].notes)


def test_a_regression_has_its_own_numbers_and_no_classes(tmp_path):
    x = torch.tensor([[1.0, 1.0, 1.0], [-1.0, 1.0, 0.5], [-2.0, -1.0, 1.0], [0.5, 3.0, 0.0]])
    callback, record = validated(tmp_path, Value(), x, Value()(x) + 0.1, n_samples=4, task="regression")
    assert not [tag for tag in record.metrics if "accuracy" in tag]
    assert set(record.classes) == set(record.class_metrics) == {"output"}
    assert {sample.class_name for sample in record.samples} == {"output"}
    kept = record.metrics["bivshap/share_kept/ours"].value
    assert record.metrics["bivshap/removal_error/ours"].value > 0
    assert 0.5 < kept < 1
    assert f"prediction kept {kept:.3f}" in callback.summary()
    # The model is linear: every method ranks by its terms, whatever the sign of the prediction.
    assert record.metrics["bivshap/share_kept/feature_ablation"].value == pytest.approx(kept, abs=0.05)
    gains = (x @ torch.tensor([5.0, 1.0, -2.0])).abs()
    assert record.metrics["bivshap/redundancy/empty_error"].value == pytest.approx(gains.mean().item(), rel=1e-5)
    assert all(find_number(tag).applies_to("regression") for tag in record.metrics)
    page = render_page(record)
    assert "same prediction" not in page
    assert "4 samples" in page
    assert "of 1 class" not in page
    rule = Rule(metric="bivshap/removal_error/ours", class_name="output", max=100)
    assert judge(record, [rule]).passed


def test_samples_cannot_be_explained_before_gamma_is_known():
    settings = BivShapCallback().settings
    with pytest.raises(ValueError, match="`gamma` must be a number to explain samples, got None"):
        Audit(settings, torch.device("cpu")).explain(nn.Identity(), None, 0.0)
    assert settings.with_relative_gamma([(10, 0.5), (60, -1.5)]).gamma == pytest.approx(0.15 / 60)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"roles": ["essential"]}, "roles must be 4, one per player, got 1"),
        ({"roles": ["essential", "lazy", "essential", "essential"]}, "roles must be among irrelevant"),
        ({"interchangeable": [["a", "dead"]]}, "interchangeable must consist of players of that role"),
        ({"interchangeable": [["a"]]}, "interchangeable must be disjoint, of two players or more"),
        ({"substitutes": [{"player": "a", "given": "dead", "total": 1.0, "own": 1.0, "own_error": 0.0}]},
         "substitutes must consist of relevant players"),
        ({"partners": [{"player": "a", "given": "b", "total": 1.0, "own": 1.0, "own_error": -1.0}]},
         "partners must have errors of 0 or more"),
    ],
)  # fmt: skip
def test_roles_that_contradict_themselves_are_refused(either, change, message):
    content = either[1].to_fields()
    content["samples"][0] |= change
    with pytest.raises(RecordError, match=message):
        AuditRecord.from_fields(content)


def test_roles_that_contradict_the_arrays_are_refused(either, tmp_path):
    _, record = either
    sample = record.samples[0]
    wrong = {"essential": "irrelevant", "irrelevant": "essential", "redundant": "essential", "undecided": "essential",
             "interchangeable": "essential"}  # fmt: skip
    roles = tuple(wrong[role] if k == 3 else role for k, role in enumerate(sample.roles))
    shares = {f"bivshap/roles/{role}": roles.count(role) / 4 for role in ROLES}
    changed = replace(sample, roles=roles, scores={**sample.scores, **shares})
    moved = replace(record, samples=(changed, *record.samples[1:]), metrics={}, class_metrics={}, classes={})
    moved.save(tmp_path / "wrong.json")
    with pytest.raises(RecordError, match=r"samples\[0\].roles must be what the arrays say"):
        AuditRecord.load(tmp_path / "wrong.json")


def test_a_sweep_outside_its_range_is_refused(either):
    content = either[1].to_fields()
    content["sweep"][0]["density"] = 1.5
    with pytest.raises(RecordError, match=r"sweep\[0\] must hold shares from 0 to 1"):
        AuditRecord.from_fields(content)


def test_validation_without_arguments_says_the_same_gamma_on_every_run(tmp_path):
    """The first pass over the samples is deterministic."""
    gammas = []
    for run in ("one", "two"):
        torch.manual_seed(0)
        callback = BivShapCallback(**SOME)
        trainer(tmp_path / run, callback).validate(Module(), valid_loader(), verbose=False)
        gammas.append(callback.runner.resolved.gamma)
    assert gammas[0] == gammas[1] > 0
