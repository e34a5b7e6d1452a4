"""The positions of the lines, bars and labels of a chart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.dashboard.charts import HEIGHT, LEFT, WIDTH, chart, scale


@pytest.mark.parametrize(
    ("low", "high", "levels"),
    [
        (0, 0, [0, 1]),
        (0, 1, [0, 1]),
        (0, 3, [0, 1, 2, 3]),
        (0, 9, [0, 5, 10]),
        (0, 100, [0, 25, 50, 75, 100]),
        (0, 1_116.11, [0, 500, 1_000, 1_500]),
        (0, 0.5, [0, 0.2, 0.4, 0.6]),
        (-9.99, 30, [-10, 0, 10, 20, 30]),
    ],
)
def test_levels_are_round_and_reach_around_every_value(low: float, high: float, levels: list[float]) -> None:
    assert scale(low, high) == pytest.approx(levels)


@given(
    st.lists(st.floats(-1e9, 1e12) | st.integers(-1000, 10**9), min_size=1, max_size=400),
    st.sampled_from(["line", "bars"]),
)
def test_whatever_the_values_everything_stays_inside_the_picture(values: list[float], kind: str) -> None:
    dates = [f"2027-{1 + place // 28 % 12:02}-{1 + place % 28:02}" for place in range(len(values))]
    drawn = chart("It", "What it is.", dates, values, str, "line" if kind == "line" else "bars")
    assert 2 <= len(drawn.levels) <= 8
    for bar in drawn.bars:
        assert LEFT - 0.1 <= bar.x <= bar.x + bar.width <= WIDTH + 0.1
        assert -0.1 <= bar.y <= bar.y + bar.height <= HEIGHT + 0.6
    for tick in drawn.levels:
        assert 0 <= tick.at <= HEIGHT
    assert len(drawn.touches) == len(values)
    assert drawn.days[0].words in dates[0]
    assert drawn.days[-1].words in dates[-1]


def test_whoever_cannot_see_a_chart_is_told_it_in_a_sentence() -> None:
    drawn = chart("Cats", "", ["2027-01-01", "2027-01-02", "2027-01-03"], [1, 5, 2], str)
    assert drawn.words == "Cats from 2027-01-01 to 2027-01-03: first 1, last 2, highest 5 on 2027-01-02."
