"""Images through the front door: grids, superpixels, both orders of channels, bytes, and what replaces a part."""

import numpy as np
import pytest
import torch
from torch import nn

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.game.players import Grid, Superpixels
from bivshap_lightning.game.players.images import visible
from bivshap_lightning.game.removal import Blur, ChannelMean, typical_row
from tests.oracles import enumerate_e2


class Eye(nn.Module):
    """A small network that takes images in either order of channels, as floats or as bytes."""

    def __init__(self, channels_last: bool = False) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 36, 3))
        self.channels_last = channels_last

    def forward(self, x):
        x = x.permute(0, 3, 1, 2) if self.channels_last else x
        return self.net(x if x.is_floating_point() else x.float() / 255)


@pytest.fixture
def images():
    torch.manual_seed(1)
    return torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)


@pytest.fixture
def eye():
    torch.manual_seed(0)
    return Eye().eval()


def oracle(model, image, stand_in, segments, target):
    """E2 of one image, one coalition at a time; segments broadcast to the image."""
    n = int(segments.max()) + 1

    def value(present):
        kept = torch.isin(segments, torch.tensor(sorted(present), dtype=torch.long))
        with torch.no_grad():
            return float(model(torch.where(kept, image, stand_in)[None]).double().softmax(dim=1)[0, target])

    return enumerate_e2(value, n)


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("removal", ["zero", "mean colour", "blur"])
def test_images_against_enumeration(removal, channels_last, as_bytes, images, eye):
    eye.channels_last = channels_last
    x = images if as_bytes else images.float() / 255
    x = x.permute(0, 2, 3, 1).contiguous() if channels_last else x
    baselines = {"zero": None, "mean colour": ChannelMean(), "blur": Blur(1.5)}[removal]
    stand_in = torch.zeros_like(x) if baselines is None else baselines(x)
    explanation = BivariateShapley(eye).attribute(x, baselines=baselines, feature_mask=Grid(2))
    assert explanation.method == "exact"
    assert explanation.graph(0).names == ("r0c0", "r0c1", "r1c0", "r1c1")
    for b in range(2):
        expected = oracle(eye, x[b], stand_in[b], Grid(2)(x)[0], int(explanation.target[b]))
        np.testing.assert_allclose(explanation.bivariate[b], expected, atol=1e-6)
        assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize("channels_last", [False, True])
def test_superpixels_differ_from_image_to_image_and_still_share_a_batch(channels_last, eye):
    torch.manual_seed(2)
    eye.channels_last = channels_last
    x = torch.zeros(2, 3, 8, 8)
    x[0, :, :, :3] = torch.tensor([1.0, 0.2, 0.1])[:, None, None]
    x[1] = torch.rand(3, 8, 8)
    x = x.permute(0, 2, 3, 1).contiguous() if channels_last else x
    maker = Superpixels(6, compactness=0.01)
    segments = maker(x)
    counts = [int(s.max()) + 1 for s in segments]
    assert counts[0] != counts[1]
    explanation = BivariateShapley(eye).attribute(x, baselines=0.5, feature_mask=maker)
    assert explanation.player_counts.tolist() == counts
    for b, n in enumerate(counts):
        expected = oracle(eye, x[b], torch.tensor(0.5), segments[b], int(explanation.target[b]))
        np.testing.assert_allclose(explanation.bivariate[b, :n, :n], expected, atol=1e-6)
        alone = BivariateShapley(eye).attribute(x[b : b + 1], baselines=0.5, feature_mask=maker)
        torch.testing.assert_close(explanation.bivariate[b, :n, :n], alone.bivariate[0, :n, :n], atol=1e-6, rtol=0)
        assert explanation.graph(b).n_players == n


def test_slic_may_return_fewer_superpixels_than_asked():
    segments = Superpixels(50)(torch.zeros(1, 1, 6, 6))
    found = segments.unique()
    assert len(found) < 50
    assert found.tolist() == list(range(len(found)))
    one = Superpixels(1)(torch.rand(1, 3, 6, 6))
    assert one.unique().tolist() == [0]


def test_bytes_and_fractions_have_the_same_superpixels(images):
    torch.testing.assert_close(Superpixels(9)(images), Superpixels(9)(images.float() / 255))


def test_channels_are_found():
    assert Grid(2)(torch.zeros(1, 28, 28, 3)).shape == (1, 28, 28, 1)
    assert Grid(2)(torch.zeros(1, 1, 28, 28)).shape == (1, 1, 28, 28)
    assert Grid(2)(torch.zeros(1, 16, 28, 28)).shape == (1, 1, 28, 28)  # feature maps
    assert Grid(2)(torch.zeros(1, 3, 4, 4)).shape == (1, 1, 4, 4)  # either is possible: channels come first


def test_a_grid_never_has_more_patches_than_pixels():
    grid = Grid(5)
    x = torch.zeros(1, 1, 2, 8)
    assert int(grid(x).max()) + 1 == len(grid.names(x)[0]) == 10


def test_a_users_own_segmentation(eye, images):
    x = images.float() / 255
    own = (torch.arange(64).view(1, 1, 8, 8) // 16).expand(2, 1, 8, 8)
    explanation = BivariateShapley(eye).attribute(x, feature_mask=own)
    expected = oracle(eye, x[0], torch.zeros_like(x[0]), own[0], int(explanation.target[0]))
    np.testing.assert_allclose(explanation.bivariate[0], expected, atol=1e-6)
    same = BivariateShapley(eye).attribute(x, feature_mask=lambda images: own)
    torch.testing.assert_close(same.bivariate, explanation.bivariate)


def test_background_images(eye, images):
    x, background = images[:1].float() / 255, torch.rand(3, 3, 8, 8)
    explanation = BivariateShapley(eye).attribute(x, background=background, feature_mask=Grid(2))
    rows = [oracle(eye, x[0], row, Grid(2)(x)[0], int(explanation.target[0])) for row in background]
    np.testing.assert_allclose(explanation.bivariate[0], np.mean(rows, axis=0), atol=1e-6)


def test_blur_keeps_light_and_colours(images):
    x = images.double()
    blurred = Blur(2.0)(x)
    torch.testing.assert_close(blurred.sum(dim=(2, 3)), x.sum(dim=(2, 3)))
    assert bool((blurred.std(dim=(2, 3)) < 0.5 * x.std(dim=(2, 3))).all())
    torch.testing.assert_close(Blur(2.0)(torch.full((1, 3, 4, 4), 7.0)), torch.full((1, 3, 4, 4), 7.0))
    last = Blur(2.0)(x.permute(0, 2, 3, 1))
    torch.testing.assert_close(last.permute(0, 3, 1, 2), blurred)
    assert Blur(9.0)(images).dtype == torch.uint8
    with pytest.raises(ValueError, match="`sigma` must be positive, got 0"):
        Blur(0)


def test_records_say_what_replaced_a_part(eye, images):
    x = images.float() / 255
    descriptions = {
        "image blurred by 2 pixels": Blur(2),
        "mean colour of the image": ChannelMean(),
        "one baseline row for all samples": typical_row(x),
    }
    for description, baselines in descriptions.items():
        assert Game(eye, x, baselines=baselines, feature_mask=Grid(2)).removal.description == description


def test_bad_images_and_sizes_are_refused():
    with pytest.raises(ValueError, match=r"`inputs` must be images \(B, C, H, W\) or \(B, H, W, C\), got \(2, 3\)"):
        Superpixels(4)(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="`n_segments` must be at least 1, got 0"):
        Superpixels(0)
    with pytest.raises(ValueError, match="`n` must be at least 1, got 0"):
        Grid(0)


def test_colours_count_no_more_against_nearness_than_greys():
    data = pytest.importorskip("skimage.data")
    cat = torch.tensor(data.chelsea()[::4, ::4])[None]
    for image in (cat, cat.float().mean(dim=3, keepdim=True)):
        sizes = torch.bincount(Superpixels(50)(image).flatten())
        assert len(sizes) >= 30
        assert sizes.max() / sizes.sum() < 0.1


def test_what_a_picture_shows():
    x = torch.arange(48.0).view(1, 4, 3, 4)
    torch.testing.assert_close(visible(x), x[:, :3])
    assert visible(torch.zeros(1, 5, 6, 2)).shape == (1, 1, 5, 6)
    assert visible(torch.zeros(1, 12, 6, 6)) is None
