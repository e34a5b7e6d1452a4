"""Converts a price for any period length to a monthly amount."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from latchkey.domain.instants import DAY, Duration, Ms

# The industry's convention: a month has 30 days, or 4 weeks.
_DAYS = 30
_WEEKS = 4

# The lengths that stores sell, for periods of products that are not in the catalog.
_SOLD = {
    1: Duration(days=1),
    3: Duration(days=3),
    7: Duration(days=7),
    14: Duration(days=14),
    28: Duration(days=28),
    30.4: Duration(months=1),
    60.9: Duration(months=2),
    91.3: Duration(months=3),
    182.6: Duration(months=6),
    365.2: Duration(months=12),
}


def monthly(micros: int, length: Duration) -> int:
    """Times 30 for a day, 10 for 3 days, 4 for a week, 2 for 2 weeks, 1 for 4 weeks and for a month; divided by 2 for 2
    months, by 3 for 3, by 6 for 6, by 12 for a year. Any other length by the same measure."""
    months_of_it, parts = _ratio(length)
    whole, rest = divmod(micros * parts, months_of_it)
    # Half a millionth goes to the even neighbour, as `round` does it.
    return whole + (2 * rest + (whole & 1) > months_of_it)


@lru_cache(maxsize=256)
def _ratio(length: Duration) -> tuple[int, int]:
    """Computing with fractions took longer than everything else about a price."""
    found = months(length)
    return found.numerator, found.denominator


def months(length: Duration) -> Fraction:
    if length.days % 7 == 0 and not length.ms:
        return length.months + Fraction(length.days // 7, _WEEKS)
    return length.months + Fraction(length.days * DAY + length.ms, _DAYS * DAY)


def sold_length(span: Ms) -> Duration:
    """The sold length that is closest to this time span."""
    return _SOLD[min(_SOLD, key=lambda days: abs(days * DAY - span))]


_DAYS_A_MONTH = 365.25 / 12
# February has 28 days. Stores may round an introductory period to whole days too.
_LEEWAY = 3.5


@lru_cache(maxsize=1024)
def own_length(span: Ms) -> Duration:
    """The length of a period by its own dates, for introductory periods: whole months where it is close to them (91
    days are 3 months), else whole days."""
    days = max(1, round(span / DAY))
    whole = round(days / _DAYS_A_MONTH)
    if whole and abs(days - whole * _DAYS_A_MONTH) <= _LEEWAY:
        return Duration(months=whole)
    return Duration(days=days)
