"""When a delivery that failed is tried again, and when it lets the next one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from latchkey.domain.instants import Ms

_MINUTE, _HOUR = 60, 3600
# Seconds after each failure. With the last one a delivery has been tried for about two days.
SCHEDULE = (
    5, 30, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 20 * _MINUTE, 40 * _MINUTE, 80 * _MINUTE,
    3 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR,
)  # fmt: skip
JITTER = 0.2
LONGEST_WAIT_MS = 24 * _HOUR * 1000
# Through this much of a delivery's retries the customer's next one waits; then it steps aside.
PATIENCE_MS = 2 * _MINUTE * 1000


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again at `at`. Where `others_at` is given, the delivery steps aside and the others go on at that moment."""

    at: Ms
    others_at: Ms | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The schedule is used up; it is kept as failed and can be resent."""


Decision = Retry | GiveUp


def after_failure(
    schedule: Sequence[int], *, tries: int, first_at: Ms, now: Ms, chance: float, retry_after_ms: int | None = None
) -> Decision:
    """What follows the `tries`-th failure of a delivery first tried at `first_at`.

    `chance` is a number from 0 to 1 drawn at the edge: 0.5 waits exactly as long as the schedule says.
    """
    if tries > len(schedule):
        return GiveUp()
    wait = round(schedule[tries - 1] * 1000 * (1 - JITTER + 2 * JITTER * chance))
    if retry_after_ms is not None:
        wait = max(wait, min(retry_after_ms, LONGEST_WAIT_MS))
    at = now + wait
    patience_ends = first_at + PATIENCE_MS
    return Retry(at, max(now, patience_ends) if at > patience_ends else None)


def parse_retry_after(value: str | None, now: Ms) -> int | None:
    """Milliseconds to wait by a Retry-After header, in seconds or as a date; nothing when it is neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        # More digits than any calendar has: the cap decides anyway, and int() would be slow.
        return int(text[:12]) * 1000
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1000) - now)
