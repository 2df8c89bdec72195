"""What an audit decides: which few features suffice, against enumeration, in the record, on the page and in logs."""

from itertools import chain, combinations

import numpy as np
import pytest
import torch

from bivshap_lightning.audit.record import AuditRecord, RecordError
from bivshap_lightning.audit.record_decisions import SUFFICIENT, SufficientSummary
from bivshap_lightning.gate import Rule, judge
from bivshap_lightning.views.html import render_page
from tests.audit.test_record import changed
from tests.callbacks.test_answers import NAMES, EitherOr, Value, validated


@pytest.fixture(scope="module")
def either(tmp_path_factory):
    """Samples of growing size: the smallest ones are decided without any feature."""
    x = torch.ones(6, 4) * torch.arange(1, 7)[:, None] / 6
    _, record = validated(tmp_path_factory.mktemp("run"), EitherOr(), x, torch.ones(6).long(), feature_names=NAMES)
    return x, record


def keeps(x: torch.Tensor, members) -> bool:
    """Whether the decision of the whole input stands with some of its features alone."""
    alone = torch.zeros(len(x))
    alone[list(members)] = x[list(members)]
    decision, kept = EitherOr()(torch.stack([x, alone])).argmax(dim=1).tolist()
    return decision == kept


def test_sets_are_the_smallest_by_enumeration(either):
    x, record = either
    for sample in record.samples:
        # Samples are recorded in the order in which they were chosen; the size tells which one it is.
        row = next(r for r in x if float(EitherOr().eval()(r[None]).softmax(1).amax()) > 0 and _is(sample, r))
        subsets = chain.from_iterable(combinations(range(4), n) for n in range(5))
        smallest = next(subset for subset in subsets if keeps(row, subset))
        found = sample.sufficient
        assert len(found.members) == len(smallest)
        assert keeps(row, [NAMES.index(name) for name in found.members])
        assert keeps(row, [NAMES.index(name) for name in found.stable_members])
        assert "dead" not in found.stable_members


def _is(sample, row) -> bool:
    """Whether a sample is a row, by what there is to explain: the probability with all features less that with none."""
    target = int(sample.target)
    all_, none = EitherOr()(torch.stack([row, torch.zeros(4)])).softmax(dim=1)[:, target].tolist()
    return sample.gain == pytest.approx(all_ - none, abs=1e-5)


def test_numbers_are_means_over_the_samples_and_can_be_gated(either):
    _, record = either
    sets = [sample.sufficient for sample in record.samples]
    sizes, stable = [len(s.members) for s in sets], [len(s.stable_members) for s in sets]
    assert 0 in sizes
    assert max(sizes) >= 1
    assert record.metrics[f"{SUFFICIENT}size"].value == pytest.approx(np.mean(sizes))
    assert record.metrics[f"{SUFFICIENT}stable_size"].value == pytest.approx(np.mean(stable))
    assert record.metrics[f"{SUFFICIENT}size"].standard_error == pytest.approx(np.std(sizes) / np.sqrt(6))
    assert record.class_metrics["1"].metrics[f"{SUFFICIENT}size"].value == pytest.approx(np.mean(sizes))
    assert judge(record, [Rule(metric=f"{SUFFICIENT}stable_size", max=4)]).passed
    assert not judge(record, [Rule(metric=f"{SUFFICIENT}stable_size", min=3.5)]).passed


def test_the_page_says_how_few_features_suffice(either):
    _, record = either
    page = render_page(record)
    sizes = [len(sample.sufficient.members) for sample in record.samples]
    empty, needed = sizes.count(0), [size for size in sizes if size]
    said = f"In {empty} of 6 samples the decision stands with every feature replaced"
    if empty < len(needed):
        suffice = "suffices" if np.median(sizes) == 1 else "suffice"
        said = f"{np.median(sizes):g} of 4 features {suffice} for a decision (median of 6 samples); in {empty} of them"
    assert said in page
    assert f"The stable set has {record.metrics[f'{SUFFICIENT}stable_size'].value:.1f} on average" in page
    assert "random additions leave the decision" in page


def test_a_value_has_no_decision_to_keep(tmp_path):
    x = torch.randn(6, 3)
    _, record = validated(tmp_path, Value(), x, x @ torch.tensor([5.0, 1.0, -2.0]), task="regression")
    assert all(sample.sufficient is None for sample in record.samples)
    assert not any(tag.startswith(SUFFICIENT) for tag in record.metrics)
    assert "a value has no decision to keep" in render_page(record)


def test_sentences():
    found = SufficientSummary(("a", "b"), ("a", "b"), 0.9, 0.96875, 32, 80)
    assert found.sentence(64) == "2 of 64 features suffice: a, b; 97 % of random additions leave the decision"
    assert found.sentence(64, most=1) == "2 of 64 features suffice; 97 % of random additions leave the decision"
    empty = SufficientSummary((), ("a",), 0.5, 1.0, 32, 80)
    assert empty.sentence(64) == "no feature is needed; with 1, 100 % of random additions leave the decision"


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("members", ["z"], "must be the first of the stable members, got"),
        ("stable_members", ["a", "a"], "stable_members must be different players"),
        ("stable_members", ["z"], "stable_members must be different players"),
        ("agreement", 1.5, r"agreement must lie in \[0, 1\], got 1.5"),
        ("stable_agreement", -1, r"stable_agreement must lie in \[0, 1\], got -1"),
        ("n_evaluations", -1, "must be 0 or more"),
    ],
)
def test_impossible_sets_are_refused(either, name, value, match):
    _, record = either
    position = next(k for k, sample in enumerate(record.samples) if sample.sufficient.members)
    content = changed(record.to_fields(), ("samples", position, "sufficient", name), value)
    with pytest.raises(RecordError, match=match):
        AuditRecord.from_fields(content)
    scores = ("samples", position, "scores", f"{SUFFICIENT}size")
    with pytest.raises(RecordError, match="say of bivshap/sufficient/size what the set says"):
        AuditRecord.from_fields(changed(record.to_fields(), scores, 3.0))
