import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning.game.coalitions import all_coalitions, pack, unique


@pytest.mark.parametrize("n", [0, 1, 5])
def test_all_coalitions_count_in_binary(n):
    masks = all_coalitions(n)
    assert masks.shape == (2**n, n)
    numbers = (masks.long() * 2 ** torch.arange(n)).sum(dim=1)
    assert numbers.tolist() == list(range(2**n))


@given(st.integers(1, 200), st.integers(1, 30), st.integers(1, 4), st.integers(0, 10**6))
def test_unique_equals_numpys(n, k, n_samples, seed):
    rng = np.random.default_rng(seed)
    pool = rng.random((5, n)) < 0.5
    masks = torch.tensor(pool[rng.integers(0, 5, size=(n_samples, k))])
    n_distinct = sum(len(np.unique(sample.numpy(), axis=0)) for sample in masks)
    found = unique(masks)
    assert (found is None) == (n_distinct == n_samples * k)
    if found is not None:
        first, place = found
        assert len(first) == n_distinct
        assert torch.equal(masks.flatten(0, 1)[first][place], masks)
        samples = first // k
        assert torch.equal(samples, samples.sort().values)
        assert torch.equal(samples[place], torch.arange(n_samples)[:, None].expand(-1, k))


def test_masks_that_differ_in_one_player_are_distinct():
    n = 130
    masks = torch.cat([torch.zeros(1, n, dtype=torch.bool), torch.eye(n, dtype=torch.bool)])[None]
    assert unique(masks) is None
    first, place = unique(torch.cat([masks, masks[:, [7]]], dim=1))
    assert len(first) == n + 1
    assert place[0, -1] == place[0, 7]


def test_an_empty_set_of_players_is_refused():
    with pytest.raises(ValueError, match=r"`masks` must have at least one player, got \(1, 2, 0\)"):
        unique(torch.ones(1, 2, 0, dtype=torch.bool))


@pytest.mark.parametrize("n", [64, 128])
@pytest.mark.parametrize("offset", [0, 3, 8])
def test_masks_may_lie_anywhere_in_a_larger_tensor(n, offset):
    storage = torch.rand(offset + 2 * n, generator=torch.Generator().manual_seed(0)) < 0.5
    masks = storage[offset:].view(2, n)
    assert torch.equal(pack(masks), pack(masks.clone()))
    assert torch.equal(pack(masks.T.contiguous().T), pack(masks))
    wider = torch.cat([masks, masks[:, :3]], dim=1)
    assert torch.equal(pack(wider[:1, :n]), pack(masks[:1]))


def test_words_tell_all_players_apart():
    n = 130
    masks = torch.cat([torch.zeros(1, n, dtype=torch.bool), torch.eye(n, dtype=torch.bool)])
    assert pack(masks).shape == (n + 1, 3)
    assert len(torch.unique(pack(masks), dim=0)) == n + 1
