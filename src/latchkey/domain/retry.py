"""When a failed delivery is retried, and when it stops blocking the customer's next one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from latchkey.domain.instants import Ms

_MINUTE, _HOUR = 60, 3600
# Seconds to wait after each failure. After the last one a delivery has been tried for about two days.
SCHEDULE = (
    5, 30, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 20 * _MINUTE, 40 * _MINUTE, 80 * _MINUTE,
    3 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR,
)  # fmt: skip
JITTER = 0.2
LONGEST_WAIT_MS = 24 * _HOUR * 1000
# For this long the retries of a delivery block the customer's next one; then the next one may overtake it.
PATIENCE_MS = 2 * _MINUTE * 1000


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry at `at`. With `others_at`, the delivery stops blocking the customer's later ones, which go on at that
    time."""

    at: Ms
    others_at: Ms | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """All retries are used up; the delivery is kept as failed and can be resent."""


Decision = Retry | GiveUp


def after_failure(
    schedule: Sequence[int], *, tries: int, first_at: Ms, now: Ms, chance: float, retry_after_ms: int | None = None
) -> Decision:
    """What to do after the `tries`-th failure of a delivery first tried at `first_at`.

    `chance` is a random number from 0 to 1, drawn by the caller: with 0.5 the wait is exactly the scheduled one.
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
    """Milliseconds to wait according to a Retry-After header, in seconds or as a date; None if it is neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        # 12 digits are more than enough: the wait is capped anyway, and int() is slow for long input.
        return int(text[:12]) * 1000
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1000) - now)
