"""The positions of lines, bars, marks and labels in the picture of a chart."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.dashboard.drawing.picture import DrawnSeries, Picture, PicturePeriod, picture
from latchkey.dashboard.drawing.scale import MOST, Height, heat, labels, scale
from latchkey.dashboard.drawing.series import line, runs, spark, stacked

NUMBERS = st.none() | st.floats(-1e9, 1e12) | st.integers(-1000, 10**9)


def periods(count: int, running: int = 0) -> list[PicturePeriod]:
    return [PicturePeriod(f"{place + 1}", f"day {place + 1}", place < count - running) for place in range(count)]


def drawn(shape: str, *values: list[float | None], running: int = 0, over: list[float | None] | None = None) -> Picture:
    series = [DrawnSeries(f"Series {place}", one) for place, one in enumerate(values)]
    sum_line = DrawnSeries("Sum", over) if over else None
    return picture(
        "It", "bars" if shape == "bars" else "lines", periods(len(values[0]), running), series, str, str, sum_line
    )


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
    st.integers(1, 60).flatmap(
        lambda count: st.lists(st.lists(NUMBERS, min_size=count, max_size=count), min_size=1, max_size=10)
    ),
    st.sampled_from(["lines", "bars"]),
    st.integers(0, 3),
)
def test_whatever_the_values_everything_stays_inside_the_picture(
    values: list[list[float | None]], shape: str, running: int
) -> None:
    found = drawn(shape, *values, running=running)
    assert 2 <= len(found.levels) <= 8
    assert all(0 <= level.at <= 100 for level in found.levels)
    assert 0 <= found.zero <= 100
    for bars in found.bars:
        for bar in bars.bars:
            assert -0.1 <= bar.x <= bar.x + bar.width <= 100.1
            assert -0.5 <= bar.y <= bar.y + bar.height <= 100.5
    for one in found.lines:
        for number in re.findall(r"-?[\d.]+", one.solid + one.dotted + one.area):
            assert -0.1 <= float(number) <= 1000.1
        assert all(0 <= mark.x <= 100 and 0 <= mark.y <= 100 for mark in one.marks + one.lone)
    assert found.labels[-1].words == str(len(values[0]))


def test_negative_parts_are_stacked_below_zero_and_positive_ones_above() -> None:
    found = drawn("bars", [4.0], [6.0], [-5.0], [-5.0])
    new, more, lost, less = (bars.bars[0] for bars in found.bars)
    assert [level.words for level in found.levels] == ["10", "5", "0", "-5", "-10"]
    assert (new.y + new.height, new.y) == (50, 30)
    assert (more.y + more.height, more.y) == (30, 0)
    assert (lost.y, lost.y + lost.height) == (50, 75)
    assert (less.y, less.y + less.height) == (75, 100)


def test_a_small_value_is_still_to_be_seen() -> None:
    (bars,) = stacked([[1.0, 1_000_000.0]], [True, True], Height([0, 1_000_000]))
    assert bars.bars[0].height > 0.3
    assert bars.bars[0].y + bars.bars[0].height == 100


def test_bars_of_periods_that_are_not_over_say_so() -> None:
    found = drawn("bars", [1.0, 2.0, 3.0], running=1)
    assert [bar.open for bar in found.bars[0].bars] == [False, False, True]
    assert found.open_from == pytest.approx(66.67)
    assert drawn("bars", [1.0, 2.0]).open_from is None


def test_a_line_is_dotted_where_it_leads_into_a_period_that_is_not_over() -> None:
    one = line(1, [0, 1, 2, 3], [True, True, True, False], Height([0, 4]), area=True, marks=0)
    assert one.solid == "M125.0 1000.0L375.0 750.0L625.0 500.0"
    assert one.dotted == "M625.0 500.0L875.0 250.0"
    assert one.area.endswith("L875.0 1000.0L125.0 1000.0Z")


def test_a_missing_value_is_a_gap_and_a_value_between_gaps_is_a_point() -> None:
    values = [1, 2, None, 3, None, 4, 5]
    assert runs(values) == [[0, 1], [3], [5, 6]]
    one = line(1, values, [True] * 7, Height([0, 5]), area=False, marks=0)
    assert one.solid.count("M") == 2
    assert [(point.x, point.y) for point in one.lone] == [(50, 40)]


def test_several_lines_have_marks_and_one_line_needs_none() -> None:
    assert not drawn("lines", [1.0, 2.0]).lines[0].marks
    several = drawn("lines", [1.0] * 80, [2.0] * 80)
    assert all(len(one.marks) == 8 for one in several.lines)
    assert [key.place for key in several.legend] == [1, 2]


def test_more_series_than_colours_are_not_drawn() -> None:
    values: list[list[float | None]] = [[1.0, 2.0]] * 15
    assert len(drawn("lines", *values).lines) == 12


@given(st.integers(1, 500))
def test_labels_fit_at_each_width_and_the_newest_period_has_one(count: int) -> None:
    found = labels([str(place) for place in range(count)])
    for rank, most in enumerate(MOST, 1):
        assert 1 <= sum(label.rank <= rank for label in found) <= most
    assert (found[-1].words, found[-1].rank) == (str(count - 1), 1)
    assert found == tuple(sorted(found, key=lambda label: label.at))
    # The narrowest plot of each width, and a label such as "Nov 2026", in pixels.
    for rank, plot in enumerate((280, 480, 800), 1):
        edges = [
            (one.at * plot / 100 - (56 if one.anchor == "end" else 28), one.at * plot / 100 + 28)
            for one in found
            if one.rank <= rank
        ]
        assert all(end <= start for (_, end), (start, _) in pairwise(edges)), (rank, edges)


@pytest.mark.parametrize(
    ("share", "level"),
    [(None, None), (0, 0), (0.001, 1), (0.1, 1), (0.101, 2), (0.5, 5), (1, 10), (1.3, 10), (-0.2, 0)],
)
def test_a_cell_is_coloured_by_its_share(share: float | None, level: int | None) -> None:
    assert heat(share) == level


def test_a_preview_needs_two_values() -> None:
    assert spark([]) is None
    assert spark([None, 1]) is None
    line = spark([1, 2, 3])
    assert line is not None
    assert line.solid.startswith("M166.7")
    assert line.dotted


def test_who_cannot_see_a_picture_is_told_it_in_a_sentence() -> None:
    found = drawn("lines", [1, 5, None, 2])
    assert found.words == "It from day 1 to day 4: first 1, last 2, highest 5 (day 2)."
    assert drawn("lines", [None, None]).words == "It: no data."
