"""When a failed delivery is retried, and when it stops blocking the customer's next one."""

from collections.abc import Sequence

from msgspec import Struct

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


class Retry(Struct, frozen=True):
    """Retry at `at`. With `others_at`, the delivery stops blocking the customer's later ones, which go on at that
    time."""

    at: Ms
    others_at: Ms | None = None


class GiveUp(Struct, frozen=True):
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
    # A clock that was ahead at the first try must not let others wait until it is caught up with.
    patience_ends = min(first_at, now) + PATIENCE_MS
    return Retry(at, max(now, patience_ends) if at > patience_ends else None)
