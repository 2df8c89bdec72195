"""Argument checks that several packages share: what they return and what they refuse."""

from typing import Literal

import numpy as np
import pytest

from bivshap_lightning.checks import check_choice, check_fraction, check_gamma, check_integer


def test_a_choice_is_one_of_its_literal():
    check_choice("a", Literal["a", "b"], "letter")
    with pytest.raises(ValueError, match=r"`letter` must be one of \('a', 'b'\), got 'c'"):
        check_choice("c", Literal["a", "b"], "letter")


@pytest.mark.parametrize("gamma", [-1e-9, float("nan"), float("inf")])
def test_gamma_is_finite_and_not_negative(gamma):
    assert check_gamma(np.float32(0.5)) == 0.5
    with pytest.raises(ValueError, match="`gamma` must be finite and >= 0"):
        check_gamma(gamma)


@pytest.mark.parametrize("value", [0, 1, -0.5, float("nan")])
def test_a_fraction_lies_strictly_between_zero_and_one(value):
    assert check_fraction(0.95, "confidence") == 0.95
    with pytest.raises(ValueError, match="`confidence` must lie between 0 and 1"):
        check_fraction(value, "confidence")


@pytest.mark.parametrize("value", [0, 2.0, "3", None])
def test_an_integer_has_a_minimum(value):
    assert check_integer(np.int64(3), "n_draws", minimum=1) == 3
    with pytest.raises(ValueError, match="`n_draws` must be a whole number >= 1, got"):
        check_integer(value, "n_draws", minimum=1)
