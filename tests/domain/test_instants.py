from datetime import date

import pytest

from latchkey.domain.instants import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Duration,
    add,
    day_of_month,
    end_to_iso,
    format_duration,
    parse_duration,
    to_iso,
)
from latchkey.subjects.charts.rules.facts import Resolution, date_of, day_of, period_of
from tests.domain.shop import at


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("P1M", Duration(months=1)),
        ("P1Y", Duration(months=12)),
        ("P1Y6M", Duration(months=18)),
        ("P7D", Duration(days=7)),
        ("P2W", Duration(days=14)),
        ("P1W3D", Duration(days=10)),
        ("PT12H", Duration(ms=12 * HOUR)),
        ("PT90M", Duration(ms=90 * MINUTE)),
        ("P1DT1S", Duration(days=1, ms=SECOND)),
        ("P1Y2M3W4DT5H6M7S", Duration(14, 25, 5 * HOUR + 6 * MINUTE + 7 * SECOND)),
    ],
)
def test_an_iso_duration_is_read_as_a_calendar_length(text: str, duration: Duration) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1YT",
        "1M",
        "p1m",
        "P-1M",
        "P1.5M",
        "P1M ",
        " P1M",
        "P1M\n",
        "P1H",
        "PT1D",
        "P1D1M",
        "P\uff11M",
        "P99999Y",
    ],
)
def test_what_is_no_iso_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not an ISO 8601 duration such as P1M"):
        parse_duration(text)


def test_an_end_is_rounded_up_while_it_lies_ahead_and_down_once_it_is_over() -> None:
    end = at("2026-01-15T12:00") + 1
    assert end_to_iso(end, end - 1) == "2026-01-15T12:00:01Z"
    assert end_to_iso(end, end) == end_to_iso(end, end + 5) == "2026-01-15T12:00:00Z"
    assert end_to_iso(end - 1, end - 2) == end_to_iso(end - 1, end) == "2026-01-15T12:00:00Z"
    assert end_to_iso(end + 998, end) == end_to_iso(end + 999, end) == "2026-01-15T12:00:01Z"


@pytest.mark.parametrize("text", ["P0D", "P0M", "PT0S", "P0Y0M0DT0H"])
def test_a_duration_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a duration of nothing"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("start", "duration", "end"),
    [
        ("2026-01-15", "P1M", "2026-02-15"),
        ("2026-01-31", "P1M", "2026-02-28"),
        ("2028-01-31", "P1M", "2028-02-29"),
        ("2026-03-31", "P1M", "2026-04-30"),
        ("2026-12-31", "P1M", "2027-01-31"),
        ("2026-11-30", "P3M", "2027-02-28"),
        ("2028-02-29", "P1Y", "2029-02-28"),
        ("2028-02-29", "P4Y", "2032-02-29"),
        ("2096-02-29", "P4Y", "2100-02-28"),
        ("2026-02-27", "P2D", "2026-03-01"),
        ("2028-02-27", "P2D", "2028-02-29"),
        ("2026-12-31", "P1W", "2027-01-07"),
        ("2026-01-31", "P1M1D", "2026-03-01"),
    ],
)
def test_a_calendar_length_ends_on_the_same_day_or_the_last_of_a_shorter_month(
    start: str, duration: str, end: str
) -> None:
    assert add(at(start), parse_duration(duration)) == at(end)


def test_the_time_of_day_stays_to_the_millisecond() -> None:
    assert add(at("2026-01-31T23:59:59") + 999, Duration(months=1)) == at("2026-02-28T23:59:59") + 999


def test_hours_are_counted_not_looked_up_in_a_calendar() -> None:
    assert add(at("2026-02-28T18:00"), Duration(ms=12 * HOUR)) == at("2026-03-01T06:00")


@pytest.mark.parametrize(
    ("start", "anchor", "end"),
    [
        ("2026-02-28", 31, "2026-03-31"),
        ("2026-04-30", 31, "2026-05-31"),
        ("2026-02-28", 30, "2026-03-30"),
        ("2026-02-28", 29, "2026-03-29"),
        ("2028-01-31", 31, "2028-02-29"),
        ("2026-02-28", None, "2026-03-28"),
    ],
)
def test_an_anchor_lets_a_month_return_to_the_day_it_was_begun_on(start: str, anchor: int | None, end: str) -> None:
    assert add(at(start), Duration(months=1), anchor_day=anchor) == at(end)


def test_an_anchor_means_nothing_to_weeks() -> None:
    assert add(at("2026-02-28"), Duration(days=7), anchor_day=31) == at("2026-03-07")


def test_many_times_a_length_is_counted_from_its_beginning() -> None:
    assert add(at("2026-01-31"), Duration(months=1), times=2) == at("2026-03-31")
    assert add(at("2026-01-01"), Duration(days=10, ms=HOUR), times=3) == at("2026-01-31") + 3 * HOUR


def test_a_length_beyond_the_calendar_is_a_value_error() -> None:
    for far in (Duration(months=12 * 9_000), Duration(days=9_999 * 366), Duration(ms=9_999 * 366 * DAY)):
        with pytest.raises(ValueError, match="too far in the future"):
            add(at("2026-01-01"), far)


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (999, "1970-01-01T00:00:00Z"),
        (1_000, "1970-01-01T00:00:01Z"),
        (1_794_701_984_999, "2026-11-15T00:19:44Z"),
    ],
)
def test_iso_has_whole_seconds_and_z(instant: int, text: str) -> None:
    assert to_iso(instant) == text


def test_the_day_of_the_month_is_utc() -> None:
    assert day_of_month(at("2026-01-31T23:59:59") + 999) == 31
    assert day_of_month(at("2026-02-01")) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *((one, one) for one in ("P1D", "P3D", "P1W", "P2W", "P1M", "P6M", "P1Y", "PT12H", "P1MT1H30M", "P1Y1M3DT5S")),
        ("P7D", "P1W"),
        ("P12M", "P1Y"),
        ("P14M", "P1Y2M"),
        ("PT90M", "PT1H30M"),
    ],
)
def test_a_duration_is_written_in_its_largest_units(text: str, shown: str) -> None:
    assert format_duration(parse_duration(text)) == shown
    assert parse_duration(shown) == parse_duration(text)


@pytest.mark.parametrize(
    ("day", "resolution", "first"),
    [
        ("2026-01-31", Resolution.DAY, "2026-01-31"),
        ("2026-01-31", Resolution.WEEK, "2026-01-25"),
        ("2026-02-01", Resolution.WEEK, "2026-02-01"),
        ("2026-02-07", Resolution.WEEK, "2026-02-01"),
        ("1969-12-31", Resolution.WEEK, "1969-12-28"),
        ("2028-02-29", Resolution.MONTH, "2028-02-01"),
    ],
)
def test_a_day_belongs_to_the_period_that_begins_on(day: str, resolution: Resolution, first: str) -> None:
    assert str(date_of(period_of(day_of(date.fromisoformat(day)), resolution))) == first
