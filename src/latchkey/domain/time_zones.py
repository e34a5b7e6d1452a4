"""A project's time zone: in which days and hours people read times and get their reports. Data stays in UTC."""

from datetime import UTC, date, datetime, time, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid

# Not of a place: the zone of the machine, and the one of a machine that nobody has set up.
_NOWHERE = frozenset({"Factory", "localtime"})


@cache
def time_zones() -> tuple[str, ...]:
    """The names of the IANA database of this machine."""
    return tuple(sorted((available_timezones() | {"UTC"}) - _NOWHERE))


def checked_time_zone(name: str) -> str:
    if name not in time_zones():
        raise Invalid(
            f"{name[:50]!r} is not a time zone. Use a name of the IANA database, such as Europe/Berlin or UTC.",
            param="time_zone",
        )
    return name


@cache
def zone_of(name: str) -> tzinfo:
    """UTC if this machine's database does not know the name: another machine saved it, and pages must still open."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def instant_of(local: datetime, zone: tzinfo) -> Ms:
    """A time of a wall clock. One that comes twice is the first; one that is skipped counts as the time after it."""
    return round(local.replace(tzinfo=zone).timestamp() * 1000)


def start_of(day: date, zone: tzinfo) -> Ms:
    """The first instant of a day, which can have 23 or 25 hours and can begin at one o'clock."""
    return instant_of(datetime.combine(day, time()), zone)
