"""`time_budget`: what an audit takes by a clock that model rows move."""

import pytest
import torch
from torch import nn

from bivshap_lightning.audit.audit import Audit, AuditSettings
from bivshap_lightning.audit.batches import Batch
from bivshap_lightning.audit.selection import SampleChunk

NOW = [0.0]  # an audit restores it with the rest of the model's state, so it starts again with every chunk


class Slow(nn.Module):
    """A network whose rows take a hundredth of a second each, by the clock."""

    def __init__(self, n_players: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(n_players, 16), nn.Tanh(), nn.Linear(16, 3))

    def forward(self, x):
        NOW[0] += 0.01 * len(x)
        return self.network(3 * x)


def audited(budget: float, others, n_players: int = 20, n_chunks: int = 2):
    model = Slow(n_players).eval()
    settings = AuditSettings(
        method="sampling", behavior="probability", link="auto", target=None, n_evaluations=4000, gamma=1e-3, seed=0,
        compare_with=others, baselines=0.0, background=None, feature_mask=None, perturbations_per_eval=None,
        task="multiclass",
    )  # fmt: skip
    audit = Audit(settings, torch.device("cpu"))
    audit.plan.clock = lambda: NOW[0]
    inputs = torch.randn(n_chunks, 4, n_players, generator=torch.Generator().manual_seed(1))
    parts = []
    for k, rows in enumerate(inputs):
        chunk = SampleChunk(tuple(range(4 * k, 4 * k + 4)), ("",) * 4, Batch((rows,), torch.zeros(4, dtype=torch.long)))
        parts.append(audit.explain(model, chunk, NOW[0] + budget / n_chunks))
    result = audit.combine(parts)
    return 0.01 * result.n_forwards / budget, result


@pytest.mark.parametrize("others", [(), ("feature_ablation",), ("kernel_shap", "shapley_sampling", "feature_ablation")])
@pytest.mark.parametrize("budget", [60.0, 120.0, 300.0])
def test_an_audit_ends_within_ten_per_cent_of_its_budget_and_uses_it(others, budget):
    share, result = audited(budget, others)
    assert 0.6 < share <= 1.1, (share, result.n_evaluations, result.skipped)


def test_an_explainer_for_which_there_is_no_time_is_skipped_with_the_reason():
    _, result = audited(1e-3, ("feature_ablation",))
    assert result.skipped["feature_ablation"].startswith("time_budget has 0 s left of the ")


def test_an_ample_budget_changes_nothing():
    share, result = audited(1e6, ("feature_ablation",))
    assert share < 0.1
    assert result.skipped == {}
    assert result.n_evaluations["ours"] > 3000
