"""Other explainers on equal terms: as many model rows as ours, when they run, and what stands in between."""

import math
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from bivshap_lightning.audit.audit import Audit
from bivshap_lightning.audit.batches import Batch
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.audit.selection import SampleChunk
from bivshap_lightning.callbacks import BivShapCallback, PanelOptions
from bivshap_lightning.callbacks.schedule import AuditSchedule
from bivshap_lightning.explainers import Explanation, find_explainer
from tests.callbacks.modules import Module, Sure, train_loader, valid_loader
from tests.callbacks.test_bivshap_callback import SOME, events, fit, trainer

ALL = ("kernel_shap", "shapley_sampling", "integrated_gradients", "feature_ablation", "sampling")
BY_SHARE = {name: value for name, value in SOME.items() if name != "every_n_epochs"}


class Counting:
    """KernelSHAP that notes how many rows it may spend on how many samples."""

    name, is_exact = "counting", False
    asked: ClassVar[list[tuple[int, int]]] = []

    def minimum_evaluations(self, game) -> int:
        return find_explainer("kernel_shap").minimum_evaluations(game)

    def explain(self, game, n_evaluations=None, seed=0) -> Explanation:
        self.asked.append((game.n_samples, n_evaluations))
        return find_explainer("kernel_shap").explain(game, n_evaluations, seed)


def chunk(x: torch.Tensor) -> SampleChunk:
    return SampleChunk(tuple(range(len(x))), tuple(map(str, range(len(x)))), Batch((x,), None))


def test_every_explainer_may_spend_what_ours_spent_on_the_sample():
    """Samples with different numbers of null players get different numbers of rows."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).eval()
    x = torch.randn(3, 9)
    x[1, 4:] = 0  # 4 players: enumerated by 16 rows
    callback = BivShapCallback(method="auto", n_evaluations=100, compare_with=(Counting(), *ALL), gamma=1e-3)
    audit = Audit(callback.settings, torch.device("cpu"))
    Counting.asked.clear()
    result = audit.combine([audit.explain(model, chunk(x), math.inf)])
    ours = audit._explain(audit.game(model, Batch((x,), None))).n_evaluations.tolist()
    assert ours[1] == 16
    assert sorted(Counting.asked) == sorted([(2, ours[0]), (1, 16)])
    assert result.n_evaluations["ours"] == pytest.approx(sum(ours) / 3)
    assert set(result.n_evaluations) == {"ours", "counting", *ALL}
    for name in ALL:
        assert 0 < result.n_evaluations[name] <= result.n_evaluations["ours"], name
    assert result.n_evaluations["feature_ablation"] < 11  # it has converged
    assert result.numbers["bivshap/insertion_auc/counting"] == result.numbers["bivshap/insertion_auc/kernel_shap"]


def test_kernel_shap_costs_no_rows_beside_the_same_design():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).eval()

    def found(*others: str):
        callback = BivShapCallback(method="proxy", n_evaluations=300, compare_with=others, gamma=1e-3)
        audit = Audit(callback.settings, torch.device("cpu"))
        return audit.combine([audit.explain(model, chunk(torch.randn(2, 30).clone()), math.inf)])

    alone, beside = found(), found("kernel_shap")
    # The design has two pairs twice.
    assert beside.n_evaluations["kernel_shap"] == beside.n_evaluations["ours"] == 296
    # Judging it takes rows, up to 2 curves of 31 steps and the fractions between; explaining takes none.
    assert beside.n_forwards - alone.n_forwards <= 2 * (3 * 31)


def test_kernel_shap_costs_few_rows_beside_several_stages():
    """It enumerates one more size than the first stage of ours could, and draws the rest as ours drew it."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(18, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).eval()
    x = 3 * torch.randn(2, 18)

    def found(*others: str):
        callback = BivShapCallback(method="proxy", target_error=0.005, n_evaluations=2048, compare_with=others)
        audit = Audit(replace(callback.settings, gamma=1e-3), torch.device("cpu"))
        return audit.combine([audit.explain(model, chunk(x), math.inf)])

    alone, beside = found(), found("kernel_shap")
    assert beside.n_evaluations["ours"] > 1800
    assert 0.9 * beside.n_evaluations["ours"] < beside.n_evaluations["kernel_shap"] <= beside.n_evaluations["ours"]
    curves = 2 * (3 * 19)
    assert beside.n_forwards - alone.n_forwards <= curves + 0.15 * 2 * 2048


def test_scores_of_samples_with_different_rows_are_those_of_each_sample_alone():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).eval()
    x = torch.randn(3, 9)
    x[0, 4:] = 0
    callback = BivShapCallback(method="auto", n_evaluations=100, compare_with=ALL, gamma=1e-3)

    def scores(rows: torch.Tensor) -> list[dict[str, float]]:
        audit = Audit(callback.settings, torch.device("cpu"))
        return [dict(s.scores) for s in audit.combine([audit.explain(model, chunk(rows), math.inf)]).samples]

    together = scores(x)
    for k in range(3):
        (alone,) = scores(x[k : k + 1])
        judged = [tag for tag in alone if any(tag.endswith(f"/{name}") for name in ALL)]
        assert len(judged) == 3 * len(ALL)
        for tag in judged:
            assert alone[tag] == pytest.approx(together[k][tag], abs=1e-6), tag


class Never(AuditSchedule):
    """An account that allows audits but no comparison."""

    def may_compare(self) -> bool:
        return False


def test_between_comparisons_the_last_numbers_are_logged_again_and_named(tmp_path, caplog):
    from pytorch_lightning.loggers import TensorBoardLogger

    callback = BivShapCallback(**BY_SHARE | {"panels": PanelOptions(all_scalars=True)}, max_share=1.0)
    callback.schedule = Never(None, 1.0)
    logger = TensorBoardLogger(tmp_path, name="", version="")
    with caplog.at_level("INFO"):
        fit(tmp_path, callback, Sure(), max_epochs=3, logger=logger)
    by_epoch = {past["epoch"]: past["numbers"] for past in callback.history}
    assert list(by_epoch) == [0, 1, 2]
    other, ours = "bivshap/insertion_auc/feature_ablation", "bivshap/insertion_auc/ours"
    assert by_epoch[1][other] == by_epoch[0][other]
    assert by_epoch[1][ours] != by_epoch[0][ours]
    assert by_epoch[2][other] != by_epoch[0][other]  # the last epoch compares again
    assert [e.value for e in events(tmp_path).Scalars(other)] == pytest.approx([n[other] for n in by_epoch.values()])
    first, between, last = (AuditRecord.load(path) for path in sorted((tmp_path / "bivshap").glob("*.json")))
    assert (first.run.compared_epoch, between.run.compared_epoch, last.run.compared_epoch) == (None, 0, None)
    assert between.metrics[other] == first.metrics[other]
    assert between.curves["feature_ablation"] == first.curves["feature_ablation"]
    assert between.cost.evaluations_per_sample == first.cost.evaluations_per_sample
    assert "The numbers of feature_ablation are those of epoch 0" in " ".join(between.notes)
    assert [sample.scores[other] for sample in between.samples] == [sample.scores[other] for sample in first.samples]
    lines = [line for line in caplog.messages if line.startswith("bivshap: epoch")]
    assert ["in epoch 0)" in line for line in lines] == [False, True, False]


def test_an_early_stop_ends_with_a_comparison(tmp_path):
    from pytorch_lightning.callbacks import EarlyStopping

    callback = BivShapCallback(**BY_SHARE, max_share=1.0)
    callback.schedule = Never(None, 1.0)
    stop = EarlyStopping("val_loss", patience=1, min_delta=1e9, check_on_train_epoch_end=False)
    run = trainer(tmp_path, callback, stop, max_epochs=30)
    run.fit(Module(), train_loader(), valid_loader())
    assert run.current_epoch < 30
    assert callback.result.compared_epoch is None
    assert set(callback.result.n_evaluations) == {"ours", "feature_ablation"}


def test_without_other_explainers_no_audit_is_repeated_at_the_end(tmp_path):
    callback = BivShapCallback(**BY_SHARE | {"compare_with": ()}, max_share=1.0)
    trainer(tmp_path, callback, max_epochs=2).fit(Module(), train_loader(), valid_loader())
    assert [past["epoch"] for past in callback.history] == [0, 1]
    assert callback.result.compared_epoch is None or callback.result.compared_epoch == 0


class Unsigned(Counting):
    """Scores without a sign: the size of what a column does, whichever way it moves the output."""

    name, is_signed = "unsigned", False

    def explain(self, game, n_evaluations=None, seed=0) -> Explanation:
        found = find_explainer("feature_ablation").explain(game, n_evaluations, seed)
        return replace(found, shapley=found.shapley.abs())


def test_scores_without_a_sign_keep_their_order_where_the_output_falls():
    model = torch.nn.Linear(3, 1)
    model.weight.data, model.bias.data = torch.tensor([[-4.0, -2.0, -1.0]]), torch.zeros(1)
    settings = BivShapCallback(method="exact", compare_with=(Unsigned(),), gamma=1e-3, baselines=0.0).settings
    audit = Audit(replace(settings, task="regression", behavior="output"), torch.device("cpu"))
    found = audit.combine([audit.explain(model, chunk(torch.ones(2, 3)), math.inf)]).numbers
    for number in ("insertion_auc", "deletion_auc", "share_kept"):
        assert found[f"bivshap/{number}/unsigned"] == pytest.approx(found[f"bivshap/{number}/ours"])
