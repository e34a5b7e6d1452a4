"""How often and how long a call to the provider is retried."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class Patience:
    """All times in seconds. `deadline` covers one call with all its retries."""

    tries: int = 5
    timeout: float = 10.0
    first_wait: float = 0.5
    longest_wait: float = 15.0
    # The usual wait for a 429 that does not say how long.
    busy_wait: float = 60.0
    deadline: float = 120.0

    def wait(self, *, tried: int, spent: float, chance: float, asked: float | None = None) -> float | None:
        """How long to wait after the `tried`-th failure; None to give up.

        `chance` from 0 to 1 is jitter for callers that failed at the same time: half of the wait is fixed.
        `asked` is what the provider wants; a shorter wait would only fail again.
        """
        if tried >= self.tries:
            return None
        wait = min(self.first_wait * 2 ** (tried - 1), self.longest_wait) * (0.5 + chance / 2)
        if asked is not None:
            wait = max(wait, asked)
        return wait if spent + wait < self.deadline else None


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds to wait according to a Retry-After header, a number or a date; None if it is neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)
