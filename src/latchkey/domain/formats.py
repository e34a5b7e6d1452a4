"""How instants, durations and money are written for people. The command line and the dashboard use the same formats.

instant    2026-01-31 08:00 UTC, or the same in another time zone: 2026-01-31 09:00 CET
duration   1 month
money      ¥10,500
"""

import re
from datetime import UTC, datetime, tzinfo

from latchkey.domain.instants import HOUR, MINUTE, SECOND, Duration, Ms, format_duration, parse_duration
from latchkey.domain.money.amounts import MICROS, NO_CURRENCY

# The latest instant that has a date in every time zone; later ones are shown as this one.
_LATEST = 253_402_214_399_000
# Only signs that mean one currency: $ is the US dollar, ¥ the yen.
_SIGNED = (
    "AUD:A$ BRL:R$ CAD:CA$ EUR:€ GBP:£ HKD:HK$ ILS:₪ "
    "INR:₹ JPY:¥ KRW:₩ MXN:MX$ NGN:₦ NZD:NZ$ PHP:₱ TRY:₺ TWD:NT$ UAH:₴ USD:$ VND:₫"
)
_SIGNS = dict(pair.split(":") for pair in _SIGNED.split())
# ISO 4217: how many decimals a currency has, where it is not two.
_NO_DECIMALS = frozenset(
    "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF".split()  # noqa: SIM905 - one line
)
_THREE_DECIMALS = frozenset({"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"})
_WORDED = re.compile(r"(\d{1,4}) ?(minute|hour|day|week|month|year)s?", re.IGNORECASE)


def instant(at: Ms, zone: tzinfo = UTC, *, seconds: bool = False) -> str:
    """2026-01-31 08:00 UTC"""
    return as_date(at, zone).strftime("%Y-%m-%d %H:%M:%S %Z" if seconds else "%Y-%m-%d %H:%M %Z")


def day(at: Ms, zone: tzinfo = UTC) -> str:
    """2026-01-31"""
    return as_date(at, zone).strftime("%Y-%m-%d")


def as_date(at: Ms, zone: tzinfo = UTC) -> datetime:
    return datetime.fromtimestamp(min(max(at, 0), _LATEST) // 1000, zone)


def duration(text: str | Duration | None, none: str = "") -> str:
    """An ISO 8601 duration in words: `1 month` for P1M, `1 year 6 months` for P18M. Other text stays as it is."""
    if text is None:
        return none
    if isinstance(text, Duration):
        return in_words(text)
    try:
        return in_words(parse_duration(text))
    except ValueError:
        return text


def in_words(length: Duration) -> str:
    years, months = divmod(length.months, 12)
    # Stores call their periods weeks or days; 7 days is a week, 30 days is not 4 weeks and 2 days.
    weeks, days = (length.days // 7, 0) if length.days % 7 == 0 else (0, length.days)
    hours, rest = divmod(length.ms, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    counts = (
        (years, "year"),
        (months, "month"),
        (weeks, "week"),
        (days, "day"),
        (hours, "hour"),
        (minutes, "minute"),
        (rest // SECOND, "second"),
    )
    return " ".join(counted(count, unit) for count, unit in counts if count)


def counted(count: int, unit: str) -> str:
    """1 month, 2 months"""
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def iso_duration(text: str) -> str:
    """The reverse of `duration`: P1M for `1 month`. ISO 8601 stays as it is. The ValueError says what is wrong."""
    found = _WORDED.fullmatch(text.strip())
    if found is None:
        try:
            return format_duration(parse_duration(text.strip().upper()))
        except ValueError:
            raise ValueError(f"{text[:50]!r} is not a duration. Write it as '1 month', '7 days' or P1M.") from None
    count, unit = int(found[1]), found[2].lower()
    if count == 0:
        raise ValueError("A duration is longer than nothing.")
    return f"P{'T' if unit in ('minute', 'hour') else ''}{count}{unit[0].upper()}"


def number(value: int | float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"


def one_line(text: str) -> str:
    """For the header of a mail: a line break would begin another header."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def decimals(currency: str | None) -> int:
    return 0 if currency in _NO_DECIMALS else 3 if currency in _THREE_DECIMALS else 2


def money(micros: int | float | None, currency: str | None = "USD") -> str:
    """Millionths of a unit, written as the currency is: $9.99, ¥10,500, 9.99 CHF."""
    if micros is None or currency == NO_CURRENCY:
        return "–"
    text = f"{abs(micros) / MICROS:,.{decimals(currency)}f}"
    minus = "−" if micros < 0 and text.strip("0.,") else ""
    sign = _SIGNS.get(currency or "")
    return f"{minus}{sign}{text}" if sign else f"{minus}{text} {currency or ''}".rstrip()
