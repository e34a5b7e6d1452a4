import pytest

from latchkey.domain.charts.period_amounts import monthly, sold_length
from latchkey.domain.instants import DAY, Duration, parse_duration


@pytest.mark.parametrize(
    ("length", "price", "brings"),
    [
        ("P1D", 1_000_000, 30_000_000),
        ("P3D", 1_000_000, 10_000_000),
        ("P1W", 1_000_000, 4_000_000),
        ("P7D", 1_000_000, 4_000_000),
        ("P2W", 1_000_000, 2_000_000),
        ("P4W", 1_000_000, 1_000_000),
        ("P1M", 9_990_000, 9_990_000),
        ("P2M", 9_000_000, 4_500_000),
        ("P3M", 9_000_000, 3_000_000),
        ("P6M", 9_000_000, 1_500_000),
        ("P1Y", 79_990_000, 6_665_833),
        # Not in the usual table of lengths; computed in the same way.
        ("P30D", 1_000_000, 1_000_000),
        ("P10D", 1_000_000, 3_000_000),
        ("P3W", 3_000_000, 4_000_000),
        ("P2Y", 24_000_000, 1_000_000),
        ("PT12H", 1_000_000, 60_000_000),
        ("P1M15D", 3_000_000, 2_000_000),
    ],
)
def test_a_price_brings_this_much_in_a_month(length: str, price: int, brings: int) -> None:
    assert monthly(price, parse_duration(length)) == brings


@pytest.mark.parametrize(
    ("days", "length"),
    [
        (1, Duration(days=1)),
        (7, Duration(days=7)),
        (28, Duration(days=28)),
        (30, Duration(months=1)),
        (31, Duration(months=1)),
        (89, Duration(months=3)),
        (366, Duration(months=12)),
    ],
)
def test_a_period_of_an_unknown_product_has_the_length_that_stores_sell(days: int, length: Duration) -> None:
    assert sold_length(days * DAY) == length
