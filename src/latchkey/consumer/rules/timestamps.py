"""Instants: epoch milliseconds internally, ISO 8601 in V1 and in entitlements of webhooks."""

from datetime import UTC, datetime, timedelta

Ms = int

HOUR: Ms = 3_600_000
DAY: Ms = 24 * HOUR
# The years 1 and 9999: no date can be written outside them.
FIRST: Ms = -62_135_596_800_000
LAST: Ms = 253_402_300_799_999

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Formatting a date without a time zone is three times as fast, and every event formats seven.
_NAIVE_EPOCH = _EPOCH.replace(tzinfo=None)


def to_iso(instant: Ms) -> str:
    if not FIRST <= instant <= LAST:
        instant = FIRST if instant < FIRST else LAST
    return (_NAIVE_EPOCH + timedelta(seconds=instant // 1000)).isoformat() + "Z"


def iso_or_none(instant: Ms | None) -> str | None:
    return to_iso(instant) if instant is not None else None


def end_or_none(ends_at: Ms | None, now: Ms) -> str | None:
    """The end of access as text: rounded up while it is ahead of `now`, and down once it is over, as the service rounds
    it."""
    if ends_at is None:
        return None
    return to_iso(ends_at + 999 if ends_at > now else ends_at)


def from_iso(text: str) -> Ms:
    """Any ISO 8601 form; one without a zone is UTC. Raises ValueError for anything else."""
    read = datetime.fromisoformat(text)
    if read.tzinfo is None:
        read = read.replace(tzinfo=UTC)
    return (read - _EPOCH) // timedelta(milliseconds=1)


def from_iso_or_none(text: str | None) -> Ms | None:
    return from_iso(text) if text is not None else None
