"""Access that never ends, in fields that must hold a number or a date: the time of the purchase plus 200 years."""

LIFETIME_YEARS = 200
# No product has a period of a hundred years, and 200 years after any purchase is further away than that for a century.
_BEYOND_ANY_PERIOD_MS = 100 * 365 * 24 * 60 * 60 * 1000


def never_ends(ends_at_ms: int | None, now_ms: int) -> bool:
    """Whether an end read from the API means "never"."""
    return ends_at_ms is None or ends_at_ms - now_ms > _BEYOND_ANY_PERIOD_MS
