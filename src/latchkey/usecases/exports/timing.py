"""When an export runs. Pure."""

from __future__ import annotations

from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms
from latchkey.storage.exports.schedules import Every

# Hours and days begin as in UTC, weeks on Monday; 1970-01-05 was one.
_LENGTH: dict[str, Ms] = {"hour": HOUR, "day": DAY, "week": 7 * DAY}
_MONDAY: Ms = 4 * DAY
_FIRST_RETRY: Ms = 5 * MINUTE
_LONGEST_RETRY: Ms = 6 * HOUR
# Tries of an export that somebody asked for, and that does not run by itself.
_TRIES = 5


def next_time(every: Every, now: Ms) -> Ms | None:
    """The next regular time after `now`; None: it runs only when somebody asks for it."""
    length = _LENGTH.get(every)
    if length is None:
        return None
    start = _MONDAY if every == "week" else 0
    return (now - start) // length * length + length + start


def retry_time(every: Every, failures: int, now: Ms) -> Ms | None:
    """After a failed run: soon, then less and less often, and always at the next regular time. None: given up."""
    wait = min(_FIRST_RETRY << min(failures - 1, 10), _LONGEST_RETRY)
    regular = next_time(every, now)
    if regular is None:
        return now + wait if failures < _TRIES else None
    return min(now + wait, regular)
