"""Instants are integers of epoch milliseconds, UTC; durations are calendar lengths such as one month."""

import calendar
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

Ms: TypeAlias = int

SECOND: Ms = 1_000
MINUTE: Ms = 60 * SECOND
HOUR: Ms = 60 * MINUTE
DAY: Ms = 24 * HOUR

# Times outside this range are mistakes (seconds or microseconds sent as milliseconds): 2000-01-01 and 2200-01-01.
EARLIEST: Ms = 946_684_800_000
LATEST: Ms = 7_258_118_400_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO_DURATION = re.compile(
    r"P(?:(\d{1,4})Y)?(?:(\d{1,4})M)?(?:(\d{1,4})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,6})S)?)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Duration:
    months: int = 0
    days: int = 0
    ms: Ms = 0
    # As it was written, if it was: P7D and P1W are the same.
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.text or format_duration(self)

    def __bool__(self) -> bool:
        return bool(self.months or self.days or self.ms)


def parse_duration(text: str) -> Duration:
    """An ISO 8601 duration such as P1M, P1Y, P7D, P2W or PT12H; the ValueError says what is wrong."""
    match = _ISO_DURATION.fullmatch(text)
    if match is None or text.endswith(("P", "T")):
        raise ValueError(f"{text!r} is not an ISO 8601 duration such as P1M, P7D or PT12H")
    years, months, weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    ms = hours * HOUR + minutes * MINUTE + seconds * SECOND
    duration = Duration(12 * years + months, 7 * weeks + days, ms, text)
    if not duration:
        raise ValueError(f"{text!r} is a duration of nothing")
    return duration


def format_duration(duration: Duration) -> str:
    """A duration as ISO 8601, in its largest units: P1Y for 12 months, P1W for 7 days."""
    years, months = divmod(duration.months, 12)
    weeks, days = (duration.days // 7, 0) if duration.days % 7 == 0 else (0, duration.days)
    text = "P" + "".join(f"{n}{unit}" for n, unit in ((years, "Y"), (months, "M"), (weeks, "W"), (days, "D")) if n)
    if duration.ms:
        hours, rest = divmod(duration.ms, HOUR)
        minutes, rest = divmod(rest, MINUTE)
        text += "T" + "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M"), (rest // SECOND, "S")) if n)
    return text


def add(at: Ms, duration: Duration, *, times: int = 1, anchor_day: int | None = None) -> Ms:
    """`at` plus a calendar length. The 31st plus a month is the last day of a shorter month. With `anchor_day` the
    month after that returns to the 31st, as stores bill."""
    try:
        moment = _EPOCH + timedelta(milliseconds=at)
        months = moment.year * 12 + moment.month - 1 + duration.months * times
        year, month = divmod(months, 12)
        wanted = anchor_day if anchor_day and duration.months else moment.day
        day = min(wanted, calendar.monthrange(year, month + 1)[1])
        moved = moment.replace(year=year, month=month + 1, day=day)
        moved += timedelta(days=duration.days * times, milliseconds=duration.ms * times)
    except (OverflowError, ValueError):
        raise ValueError("That time is too far in the future.") from None
    return (moved - _EPOCH) // timedelta(milliseconds=1)


def day_of_month(at: Ms) -> int:
    return (_EPOCH + timedelta(milliseconds=at)).day


# One response contains the same few instants many times.
@lru_cache(maxsize=16_384)
def to_iso(at: Ms) -> str:
    """Whole seconds with Z: strict clients parse exactly this form."""
    day, second = divmod(at // 1000, 86_400)
    return _date(day) + _MINUTES[second // 60] + _SECONDS[second % 60]


def end_to_iso(at: Ms, now: Ms) -> str:
    """The end of access as text: rounded up while it is ahead of `now`, so that no client ends access within the last
    second, and down once it is over, so that no client extends it."""
    return to_iso(at + 999 if at > now else at)


# A V1 read formats ten instants. From prepared parts each takes 0.4 µs, with strftime 3.
_MINUTES = [f"T{minute // 60:02}:{minute % 60:02}:" for minute in range(24 * 60)]
_SECONDS = [f"{second:02}Z" for second in range(60)]


@lru_cache(maxsize=4096)
def _date(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).strftime("%Y-%m-%d")
