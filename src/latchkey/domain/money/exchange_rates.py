"""Exchange rates by currency and day, as the operator gave them. Latchkey never asks anybody else for one."""

from __future__ import annotations

import csv
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import partial
from io import StringIO
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec import Struct, field

from latchkey.domain.purchases.purchase import USD
from latchkey.domain.refusal import Invalid

# A rate counts for its own day and for this many days after it: banks publish none on weekends and holidays.
GOOD_FOR_DAYS = 7


class DayRate(NamedTuple):
    """What one unit of a currency was worth in USD on a day."""

    currency: str
    # Days since 1970-01-01, UTC.
    day: int
    # A decimal number as text, so that it stays exact.
    usd: str


class _Currency(NamedTuple):
    # In ascending order, and the rate of each.
    days: Sequence[int]
    rates: Sequence[str]


class Rates(Struct, frozen=True):
    _by_currency: Mapping[str, _Currency] = field(default_factory=dict)

    def on(self, currency: str, day: int) -> DayRate | None:
        """The newest rate that is not after this day and not more than GOOD_FOR_DAYS older. None without one."""
        known = self._by_currency.get(currency)
        if known is None:
            return None
        place = bisect_right(known.days, day) - 1
        if place < 0 or known.days[place] < day - GOOD_FOR_DAYS:
            return None
        return DayRate(currency, known.days[place], known.rates[place])

    def covers(self, currency: str, first: int, last: int) -> bool:
        """Whether each of these days has a rate."""
        known = self._by_currency.get(currency)
        if known is None or not known.days or known.days[0] > first:
            return False
        used = known.days[bisect_right(known.days, first) - 1 : bisect_right(known.days, last)]
        return all(later - 1 - day <= GOOD_FOR_DAYS for day, later in pairwise([*used, last + 1]))

    def plus(self, more: Iterable[DayRate]) -> Rates:
        """With these too. A rate of a day that is known already replaces the known one."""
        found: dict[str, dict[int, str]] = {}
        for currency, day, usd in more:
            found.setdefault(currency, {})[day] = usd
        merged = dict(self._by_currency)
        for currency, given in found.items():
            known = merged.get(currency)
            together = {**dict(zip(known.days, known.rates, strict=True)), **given} if known is not None else given
            days = sorted(together)
            merged[currency] = _Currency(days, [together[day] for day in days])
        return Rates(merged)


NO_RATES = Rates()

# Of a file of rates.
MOST_RATES = 1_000_000
_COLUMNS = ("date", "currency", "usd")
_CURRENCY = re.compile(r"[A-Z]{3}")
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,20})?")
_LONG_DATE = re.compile(r"([0-9]{1,2}) ([A-Za-z]+) ([0-9]{4})")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_NOT_QUOTED = frozenset({"", "N/A"})
_LOWEST, _HIGHEST = Decimal("0.000000001"), Decimal("1000000")
_EPOCH = date(1970, 1, 1).toordinal()
# Fifteen digits times a price of up to ten million units is exact in Decimal arithmetic.
_DIGITS = 15
_QUOTIENT = Context(prec=_DIGITS, rounding=ROUND_HALF_EVEN)
_SHOWN = 10


class Given(NamedTuple):
    """A rate, and the line of the file that gives it."""

    line: int
    rate: DayRate


class RatesRefused(Invalid):
    """The file cannot be used. Nothing of it was taken."""

    def __init__(self, problems: Sequence[tuple[int, str]]) -> None:
        said = [f"line {line}: {words}" for line, words in problems[:_SHOWN]]
        if len(problems) > _SHOWN:
            said.append(f"and {len(problems) - _SHOWN:,} more")
        super().__init__("No rate was taken. " + "; ".join(said) + ".")
        self.problems = tuple(problems)


def read_rates(text: str, today: int) -> list[Given]:
    """The rates of a file. `today` is a day since 1970-01-01; a date after the day that follows it is refused."""
    lines = csv.reader(StringIO(text.removeprefix("\ufeff"), newline=""))
    try:
        header = [cell.strip() for cell in next(lines, [])]
        names = [name.lower() for name in header]
        if sorted(names) == sorted(_COLUMNS):
            found, problems = _read(lines, today, len(names), "three", partial(_own, names))
        elif len(names) > 2 and names[0] == "date" and USD in header:
            found, problems = _read(lines, today, len(names), str(len(names)), partial(_central_bank, header))
        else:
            raise RatesRefused([(1, "the header must be date,currency,usd, or that of the European Central Bank")])
    except csv.Error as error:
        raise RatesRefused([(lines.line_num, f"this is not CSV: {error}")]) from None
    if problems:
        raise RatesRefused(problems)
    if not found:
        raise RatesRefused([(1, "the file has no rates")])
    return found


def day_of(text: str) -> int:
    """The day of an ISO date such as 2026-11-13. ValueError if it is none."""
    if len(text) != 10:
        raise ValueError(text)
    return date.fromisoformat(text).toordinal() - _EPOCH


def date_of(day: int) -> str:
    return date.fromordinal(day + _EPOCH).isoformat()


def plain(number: Decimal) -> str:
    """Without an exponent, and without zeros at the end: one number has one text."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


class _Quote(NamedTuple):
    currency: str
    day: int
    usd: Decimal


def _read(
    lines: Any, today: int, columns: int, expected: str, quotes: Callable[[list[str]], Iterator[_Quote]]
) -> tuple[list[Given], list[tuple[int, str]]]:
    """The rates, and what is wrong with which line. `expected` is the number of columns in words."""
    found: dict[tuple[str, int], Given] = {}
    problems: list[tuple[int, str]] = []
    for cells in lines:
        line = lines.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != columns:
            problems.append((line, f"{expected} columns are expected, not {len(cells)}"))
            continue
        try:
            for quote in quotes([cell.strip() for cell in cells]):
                given = Given(line, DayRate(quote.currency, quote.day, plain(quote.usd)))
                known = found.get(given.rate[:2], given)
                wrong = _wrong(quote, today)
                if wrong is None and known.rate != given.rate:
                    wrong = f"{quote.currency} has another rate for the same day in line {known.line}"
                if wrong is not None:
                    problems.append((line, wrong))
                elif quote.currency != USD:
                    found[given.rate[:2]] = known
        except ValueError as error:
            problems.append((line, str(error)))
        if len(found) > MOST_RATES:
            return [], [(line, f"a file has at most {MOST_RATES:,} rates")]
    return list(found.values()), problems


def _own(names: Sequence[str], cells: Sequence[str]) -> Iterator[_Quote]:
    when, currency, usd = (cells[names.index(column)] for column in _COLUMNS)
    yield _Quote(currency, _day(when), _number(usd))


def _central_bank(header: Sequence[str], cells: Sequence[str]) -> Iterator[_Quote]:
    """Each line ends with a comma, so it has an empty last cell."""
    day, usd = _day(cells[0]), _number(cells[header.index(USD)])
    yield _Quote("EUR", day, usd)
    for currency, cell in zip(header[1:], cells[1:], strict=True):
        if currency not in ("", USD) and cell not in _NOT_QUOTED:
            yield _Quote(currency, day, _QUOTIENT.divide(usd, _number(cell)))


def _wrong(row: _Quote, today: int) -> str | None:
    if not _CURRENCY.fullmatch(row.currency):
        return f"{row.currency[:20]!r} is not a currency such as EUR"
    if row.currency == USD and row.usd != 1:
        return "the rate of USD is always 1"
    if not _LOWEST <= row.usd <= _HIGHEST:
        return f"{plain(row.usd)[:40]} is not a rate from {plain(_LOWEST)} to {plain(_HIGHEST)}"
    if len(plain(row.usd).replace(".", "").lstrip("0")) > _DIGITS:
        return f"a rate has at most {_DIGITS} significant digits"
    # A file may come from where the next day has begun.
    if row.day > today + 1:
        return f"{date_of(row.day)} is in the future"
    return None


def _day(text: str) -> int:
    try:
        if match := _LONG_DATE.fullmatch(text):
            day, month, year = match.groups()
            return date(int(year), _MONTHS.index(month.lower()) + 1, int(day)).toordinal() - _EPOCH
        return day_of(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a date such as 2026-11-13") from None


def _number(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a number such as 1.0834")
    number = Decimal(text)
    if not number:
        raise ValueError("a rate is not zero")
    return number
