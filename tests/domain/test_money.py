"""Amounts as people write them, kept as integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.money import HIGHEST, MICROS, Price, to_micros


@given(st.integers(min_value=0, max_value=HIGHEST * MICROS))
def test_an_amount_survives_the_way_out_and_in_again(micros: int) -> None:
    assert to_micros(Price(micros, "USD").amount) == micros


@pytest.mark.parametrize(("written", "micros"), [(0, 0), (9.99, 9_990_000), (0.1 + 0.2, None), (1e-6, 1), (1e-7, None)])
def test_an_amount_has_at_most_six_decimals(written: float, micros: int | None) -> None:
    if micros is None:
        with pytest.raises(ValueError, match="6 decimals"):
            to_micros(written)
    else:
        assert to_micros(written) == micros


@pytest.mark.parametrize("written", [-0.01, HIGHEST + 0.01, 1e300, float("inf"), float("nan")])
def test_an_amount_beyond_every_price_is_refused(written: float) -> None:
    with pytest.raises(ValueError, match="from 0 to"):
        to_micros(written)
