"""What a record keeps for its readers: pictures, words, scores of samples and numbers of classes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning.audit.audit import ExplainedSample
from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.audit.recording import pictures_of, to_bytes
from bivshap_lightning.callbacks import BivShapCallback, PanelOptions
from bivshap_lightning.game.players import Tokens
from bivshap_lightning.gate import Rule, judge
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.views.html import render_page
from tests.callbacks.modules import Module, Pictures, TextModule, valid_loader
from tests.callbacks.modules import Tokens as Texts
from tests.callbacks.test_bivshap_callback import trainer

SCORED = (
    "bivshap/post_hoc_accuracy/ours",
    "bivshap/deletion_auc/feature_ablation",
    "bivshap/redundancy/accuracy_with_representatives",
    "bivshap/redundancy/mask_sinks_accuracy",
)


def audited(folder, module, loader, **kwargs):
    """The path of the record of one validation, and the callback."""
    callback = BivShapCallback(**{"compare_with": ["feature_ablation"], "panels": False, "on_error": "raise"} | kwargs)
    trainer(folder, callback).validate(module, loader, verbose=False)
    (path,) = (folder / "bivshap").glob("*.json")
    return path, callback


def test_numbers_of_a_class_are_means_over_its_samples(tmp_path):
    torch.manual_seed(0)
    path, callback = audited(tmp_path, Module(), valid_loader(), n_samples=12, class_names=["low", "mid", "high"])
    record, samples = AuditRecord.load(path), callback.result.samples
    gamma = record.configuration.gamma
    for name, found in record.class_metrics.items():
        members = [s for s in samples if ["low", "mid", "high"][s.label] == name]
        assert found.n_samples == len(members) == 4
        for metric in SCORED:
            values = [s.scores[metric] for s in members]
            assert found.metrics[metric].value == pytest.approx(np.mean(values))
            assert found.metrics[metric].standard_error == pytest.approx(np.std(values) / 2)
        removable = sum(sum(map(len, h.groups)) - len(h.groups) for h in (s.graph.redundancy(gamma) for s in members))
        assert found.metrics["bivshap/redundancy/share_removable"].value == pytest.approx(removable / 24)
    rule = Rule(metric="bivshap/post_hoc_accuracy/ours", class_name="low", min=0, max=1)
    assert judge(path, [rule]).passed


def test_scores_belong_to_their_samples(tmp_path):
    """Each sample audited alone gets the score that it got among others."""
    torch.manual_seed(0)
    module, loader = Module(), valid_loader(6, batch_size=3)
    _, callback = audited(tmp_path / "all", module, loader, n_samples=6)
    scores = {s.graph.weights.tobytes(): s.scores["bivshap/insertion_auc/ours"] for s in callback.result.samples}
    assert len(set(scores.values())) == 6
    for k in range(6):
        alone = DataLoader(TensorDataset(*loader.dataset[k : k + 1]), batch_size=1)
        _, one = audited(tmp_path / str(k), module, alone, n_samples=1)
        (sample,) = one.result.samples
        nearest = min(callback.result.samples, key=lambda s: np.abs(s.graph.weights - sample.graph.weights).sum())
        assert sample.scores["bivshap/insertion_auc/ours"] == pytest.approx(
            nearest.scores["bivshap/insertion_auc/ours"], abs=1e-6
        )


@pytest.mark.parametrize("n_panel_samples", [2, 0])
def test_a_record_keeps_the_pictures_that_a_page_shows(tmp_path, n_panel_samples):
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(12, 1, 8, 8), torch.arange(12) % 3)
    options = {"n_samples": 9, "n_evaluations": 300, "panels": PanelOptions(n_panel_samples, draw=False)}
    path, callback = audited(tmp_path, Pictures(), DataLoader(data, batch_size=4), **options)
    arrays = AuditRecord.load(path).arrays
    kept = sorted(int(name.removeprefix("image_")) for name in arrays if name.startswith("image_"))
    if not n_panel_samples:
        assert kept == []
        return
    assert 3 <= len(kept) <= 3 + n_panel_samples  # one of each class, and the hardest
    assert {callback.result.samples[k].label for k in kept} == {0, 1, 2}
    for k in kept:
        sample, image = callback.result.samples[k], arrays[f"image_{k}"]
        assert image.dtype == np.uint8
        np.testing.assert_allclose(image / 255, sample.image[0], atol=0.5 / 255 + 1e-6)
        np.testing.assert_array_equal(arrays[f"segments_{k}"], sample.segments)
    assert "drawn on the picture" in render_page(path)


def test_normalised_pictures_are_stretched():
    image = np.linspace(-2, 2, 12).reshape(3, 2, 2)
    assert to_bytes(image).shape == (2, 2, 3)
    assert (to_bytes(image).min(), to_bytes(image).max()) == (0, 255)


def test_large_pictures_are_thinned_together_with_their_parts():
    segments = np.arange(300 * 600).reshape(300, 600) // 90_000
    image = np.stack([segments] * 3).astype(np.float32)
    sample = ExplainedSample(0, None, 0.0, ExplanationGraph([[0, 1], [1, 0]]), image=image, segments=segments)
    found = pictures_of([sample], [0])
    assert found["image_0"].shape == (100, 200, 3)
    np.testing.assert_array_equal(found["image_0"][..., 0], 255 * found["segments_0"])
    four_channels = replace(sample, image=np.zeros((4, 300, 600)))
    assert pictures_of([four_channels], [0]) == {}


def test_a_record_keeps_words(tmp_path):
    torch.manual_seed(0)
    words = [f"w{k}" for k in range(20)]
    loader = DataLoader(Texts(), batch_size=8)
    path, _ = audited(tmp_path, TextModule(), loader, n_samples=4, feature_mask=Tokens(words, pad_id=0))
    for sample in AuditRecord.load(path).samples:
        assert len(sample.words) == len(sample.players)
        assert set(sample.words) <= set(words)
    assert "Explanation of the text “w" in render_page(path)
