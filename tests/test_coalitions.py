from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning import coalitions
from bivshap_lightning.coalitions import all_coalitions, pack, unique


@pytest.mark.parametrize("n", [0, 1, 5])
def test_all_coalitions_count_in_binary(n):
    masks = all_coalitions(n)
    assert masks.shape == (2**n, n)
    numbers = (masks.long() * 2 ** torch.arange(n)).sum(dim=1)
    assert numbers.tolist() == list(range(2**n))


@pytest.mark.parametrize("mixer", [coalitions.MIXER, 0, 2**62])
@given(st.integers(1, 200), st.integers(1, 30), st.integers(0, 10**6), st.booleans())
def test_unique_equals_numpys_however_badly_rows_are_mixed(mixer, n, k, seed, grouped):
    # Times 0 all rows look equal, times 2**62 all that share their first two players.
    with mock.patch.object(coalitions, "MIXER", mixer):
        check_unique_equals_numpys(n, k, seed, grouped)


def check_unique_equals_numpys(n, k, seed, grouped):
    rng = np.random.default_rng(seed)
    pool = rng.random((5, n)) < 0.5
    masks = torch.tensor(pool[rng.integers(0, 5, size=k)])
    groups = torch.tensor(rng.integers(0, 3, size=k)) if grouped else None
    first, place = unique(masks, groups)
    rows = masks.int() if groups is None else torch.cat([masks.int(), groups[:, None]], dim=1)
    assert len(first) == len(np.unique(rows.numpy(), axis=0))
    assert torch.equal(rows[first][place], rows.to(rows.dtype))
    assert groups is None or torch.equal(groups[first], groups[first].sort().values)


def test_groups_too_large_to_be_mixed_stay_apart():
    masks, groups = torch.ones(4, 3, dtype=torch.bool), torch.tensor([0, 2**24, 0, 2**25])  # shifted out of 64 bits
    first, place = unique(masks, groups)
    assert groups[first].tolist() == [0, 2**24, 2**25]
    assert torch.equal(groups[first][place], groups)


def test_an_empty_set_of_players_is_refused():
    with pytest.raises(ValueError, match=r"`masks` must have at least one player, got \(2, 0\)"):
        unique(torch.ones(2, 0, dtype=torch.bool))


def test_words_tell_all_players_apart():
    n = 130
    masks = torch.cat([torch.zeros(1, n, dtype=torch.bool), torch.eye(n, dtype=torch.bool)])
    assert pack(masks).shape == (n + 1, 3)
    assert len(torch.unique(pack(masks), dim=0)) == n + 1
