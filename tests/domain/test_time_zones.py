"""A project's time zone: its names, and days that do not have 24 hours."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.formats import as_date, day, instant
from latchkey.domain.instants import HOUR, LATEST
from latchkey.domain.refusal import Invalid
from latchkey.domain.time_zones import checked_time_zone, instant_of, start_of, time_zones, zone_of
from tests.domain.shop import at


@pytest.mark.parametrize(
    ("zone", "on", "hours"),
    [
        ("UTC", "2026-03-29", 24),
        ("Europe/Berlin", "2026-03-28", 24),
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("America/New_York", "2026-03-08", 23),
        ("America/New_York", "2026-11-01", 25),
        ("Australia/Lord_Howe", "2026-10-04", 23.5),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        # It began at one o'clock.
        ("America/Sao_Paulo", "2018-11-04", 23),
        # Samoa skipped it.
        ("Pacific/Apia", "2011-12-30", 0),
        ("Asia/Kolkata", "2026-03-29", 24),
    ],
)
def test_a_day_has_the_hours_that_clocks_there_show(zone: str, on: str, hours: float) -> None:
    here, begins = zone_of(zone), date.fromisoformat(on)
    assert start_of(begins + timedelta(1), here) - start_of(begins, here) == hours * HOUR


@pytest.mark.parametrize(
    ("zone", "typed", "utc"),
    [
        ("Europe/Berlin", "2026-01-31T09:00", "2026-01-31T08:00"),
        ("Europe/Berlin", "2026-07-31T09:00", "2026-07-31T07:00"),
        # Skipped: clocks went from two to three.
        ("Europe/Berlin", "2026-03-29T02:30", "2026-03-29T01:30"),
        # Twice: the first of them.
        ("Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30"),
        ("America/Sao_Paulo", "2018-11-04T00:00", "2018-11-04T03:00"),
    ],
)
def test_a_time_of_the_wall_clock_is_one_instant(zone: str, typed: str, utc: str) -> None:
    meant = int(datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp() * 1000)
    assert instant_of(datetime.fromisoformat(typed), zone_of(zone)) == meant


@pytest.mark.parametrize(
    ("zone", "of", "written"),
    [
        ("UTC", at("2026-01-31T23:30:00Z"), "2026-01-31 23:30 UTC"),
        ("Europe/Berlin", at("2026-01-31T23:30:00Z"), "2026-02-01 00:30 CET"),
        ("Europe/Berlin", at("2026-10-25T00:30:00Z"), "2026-10-25 02:30 CEST"),
        ("Europe/Berlin", at("2026-10-25T01:30:00Z"), "2026-10-25 02:30 CET"),
        ("America/Sao_Paulo", at("2026-01-31T23:30:00Z"), "2026-01-31 20:30 -03"),
        ("Pacific/Kiritimati", 10**18, "9999-12-31 13:59 +14"),
    ],
)
def test_an_instant_is_written_with_its_zone(zone: str, of: int, written: str) -> None:
    assert instant(of, zone_of(zone)) == written
    assert day(of, zone_of(zone)) == written[:10]


@given(st.sampled_from(time_zones()), st.integers(0, LATEST))
def test_every_instant_is_within_its_day(name: str, now: int) -> None:
    zone = zone_of(name)
    today = as_date(now, zone).date()
    assert start_of(today, zone) <= now < start_of(today + timedelta(1), zone)


@pytest.mark.parametrize("name", ["Europe/Berlin", "UTC", "America/Argentina/Ushuaia", "Etc/GMT+5"])
def test_a_name_of_the_iana_database_is_a_time_zone(name: str) -> None:
    assert checked_time_zone(name) == name


@pytest.mark.parametrize(
    "name", ["", "europe/berlin", "Europe", "CEST", "+02:00", "localtime", "..", "/etc/localtime", "a\0b"]
)
def test_another_name_is_not_and_pages_with_it_are_in_utc(name: str) -> None:
    with pytest.raises(Invalid) as refused:
        checked_time_zone(name)
    assert refused.value.param == "time_zone"
    if name != "localtime":
        assert zone_of(name) is UTC
