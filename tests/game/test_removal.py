import numpy as np
import pytest
import torch

from bivshap_lightning.game.removal import Removal, typical_row

X = torch.zeros(2, 3)


@pytest.mark.parametrize(
    ("baselines", "rows", "description"),
    [
        (None, [[0.0] * 3], "baseline 0"),
        (1.5, [[1.5] * 3], "baseline 1.5"),
        (torch.tensor(2), [[2.0] * 3], "baseline 2"),
        (torch.tensor([[1.0, 2.0, 3.0]]), [[1.0, 2.0, 3.0]], "one baseline row for all samples"),
        (torch.tensor([1.0, 2.0, 3.0]), [[1.0, 2.0, 3.0]], "one baseline row for all samples"),
        (np.array([1.0, 2.0, 3.0]), [[1.0, 2.0, 3.0]], "one baseline row for all samples"),
        (torch.arange(6.0).view(2, 3), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "one baseline row per sample"),
    ],
)
def test_baselines_as_captum_has_them(baselines, rows, description):
    removal = Removal.from_baselines([X], baselines)
    assert removal.rows[0][:, 0].tolist() == rows
    assert removal.rows[0].dtype == X.dtype
    assert (removal.n_rows, removal.description) == (1, description)


def test_one_entry_per_input():
    removal = Removal.from_baselines([X, torch.zeros(2, 1, dtype=torch.long)], (0.5, 7))
    assert [r.flatten().tolist() for r in removal.rows] == [[0.5] * 3, [7]]
    assert removal.description == "baseline 0.5; baseline 7"
    with pytest.raises(ValueError, match="`baselines` must have one entry per input, got 3 for 1 inputs"):
        Removal.from_baselines([X], (0, 0, 0))


def test_background_rows():
    removal = Removal.from_background([X], [torch.ones(5, 3)])
    assert removal.rows[0].shape == (1, 5, 3)
    assert removal.description == "mean over 5 background rows"
    for rows in (torch.ones(5, 4), torch.ones(0, 3), torch.ones(3)):
        with pytest.raises(ValueError, match="`background` must hold at least one row shaped like a sample"):
            Removal.from_background([X], [rows])
    with pytest.raises(ValueError, match="one tensor of rows per input, got 2 for 1"):
        Removal.from_background([X], [torch.ones(5, 3)] * 2)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"`baselines` must be a number, one row of shape \(3,\).*got \(5, 3\)"):
        Removal.from_baselines([X], torch.zeros(5, 3))
    with pytest.raises(ValueError, match="`baselines` must be finite"):
        Removal.from_baselines([X], float("nan"))
    tokens = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="`baselines` must be whole numbers for integer inputs"):
        Removal.from_baselines([tokens], 0.5)
    with pytest.raises(ValueError, match="`background` must be whole numbers for integer inputs"):
        Removal.from_background([tokens], [torch.full((1, 3), 0.5)])
    assert Removal.from_baselines([tokens], 1.0).rows[0].dtype == torch.long


def test_the_median_of_half_precision():
    rows = torch.tensor([[1.0], [2.0], [4.0]]).half()
    torch.testing.assert_close(typical_row(rows, "median"), torch.tensor([2.0]).half())
