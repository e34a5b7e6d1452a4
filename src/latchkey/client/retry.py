"""How long to wait before a retry. Pure: takes the attempt, the error and a random fraction, returns seconds."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from latchkey.client.errors import ApiError, ClientError, RateLimited, Unreachable

# The wait that the specification defines if the service gives none.
RETRY_AFTER = 60.0
FIRST_BACKOFF = 0.25
LONGEST_BACKOFF = 30.0
# Jitter: clients that retry in unison would hit the same limit again.
SPREAD = 0.1
_PASSING = frozenset({500, 502, 503, 504})


def wait_before_retry(error: ClientError, attempt: int, fraction: float) -> float | None:
    """Seconds to wait after attempt 1, 2, … failed; None if a retry cannot help."""
    if isinstance(error, RateLimited):
        said = error.retry_after
        wait = said if said is not None else RETRY_AFTER * 2.0 ** (attempt - 1)
        return wait * (1 + SPREAD * fraction)
    if isinstance(error, Unreachable) or (isinstance(error, ApiError) and error.status in _PASSING):
        backoff = min(FIRST_BACKOFF * 2.0 ** (attempt - 1), LONGEST_BACKOFF)
        # Half of the wait is fixed, so it is never 0; the other half is jitter.
        wait = backoff * (0.5 + 0.5 * fraction)
        said = error.retry_after if isinstance(error, ApiError) else None
        return max(wait, said) if said is not None else wait
    return None


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds from a Retry-After header, given as seconds or a date; `now` is the time in epoch seconds."""
    if value is None:
        return None
    try:
        return max(0.0, float(int(value)))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (TypeError, ValueError):
        return None
