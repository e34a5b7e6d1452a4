"""Access that never ends, in fields that must hold a number or a date: the purchase's moment plus 200 years."""

from __future__ import annotations

LIFETIME_YEARS = 200
# Nobody sells a period of a hundred years, and 200 years from any purchase stay above it for a century.
_BEYOND_ANY_PERIOD_MS = 100 * 365 * 24 * 60 * 60 * 1000


def never_ends(ends_at_ms: int | None, now_ms: int) -> bool:
    """Whether an end read from the API stands for "for ever"."""
    return ends_at_ms is None or ends_at_ms - now_ms > _BEYOND_ANY_PERIOD_MS
