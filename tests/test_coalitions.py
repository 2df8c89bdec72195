import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning.coalitions import all_coalitions, pack, unique


@pytest.mark.parametrize("n", [0, 1, 5])
def test_all_coalitions_count_in_binary(n):
    masks = all_coalitions(n)
    assert masks.shape == (2**n, n)
    numbers = (masks.long() * 2 ** torch.arange(n)).sum(dim=1)
    assert numbers.tolist() == list(range(2**n))


@given(st.integers(1, 200), st.integers(1, 30), st.integers(0, 10**6), st.booleans())
def test_unique_equals_numpys(n, k, seed, grouped):
    rng = np.random.default_rng(seed)
    pool = rng.random((5, n)) < 0.5
    masks = torch.tensor(pool[rng.integers(0, 5, size=k)])
    groups = torch.tensor(rng.integers(0, 3, size=k)) if grouped else None
    first, place = unique(masks, groups)
    rows = masks.int() if groups is None else torch.cat([masks.int(), groups[:, None]], dim=1)
    assert len(first) == len(np.unique(rows.numpy(), axis=0))
    assert torch.equal(rows[first][place], rows.to(rows.dtype))
    assert groups is None or torch.equal(groups[first], groups[first].sort().values)


def test_words_tell_all_players_apart():
    n = 130
    masks = torch.cat([torch.zeros(1, n, dtype=torch.bool), torch.eye(n, dtype=torch.bool)])
    assert pack(masks).shape == (n + 1, 3)
    assert len(torch.unique(pack(masks), dim=0)) == n + 1
