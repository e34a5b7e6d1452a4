"""Formats instants, durations, money and numbers for pages. Those that the command line uses too: `domain/formats`."""

import re
from contextvars import ContextVar
from datetime import UTC, tzinfo

from markupsafe import Markup, escape

from latchkey.domain import formats
from latchkey.domain.formats import number as number
from latchkey.domain.formats import percent as percent
from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms
from latchkey.domain.stores.store import store_of

# Not within an escaped character such as &#39;, which has none of these.
_PARTS = re.compile(r"([_@:/-]+)(?=[\w{])")
_UNITS = ((365 * DAY, "year"), (30 * DAY, "month"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"))


# Of the project whose page is being answered; the guard sets it.
ZONE: ContextVar[tzinfo] = ContextVar("time_zone", default=UTC)


def zone() -> str:
    """Its name, beside a field with a time."""
    return str(ZONE.get())


def instant(at: Ms) -> str:
    return formats.instant(at, ZONE.get())


def day(at: Ms) -> str:
    return formats.day(at, ZONE.get())


def typed(at: Ms) -> str:
    """In the format of a datetime-local field."""
    return formats.as_date(at, ZONE.get()).strftime("%Y-%m-%dT%H:%M")


def iso(at: Ms) -> str:
    """In UTC, for scripts and the audit log."""
    return formats.as_date(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(at: Ms) -> str:
    """The time of day to the millisecond, for a log."""
    return f"{formats.as_date(at, ZONE.get()):%H:%M:%S}.{at % 1000:03}"


def ago(at: Ms | None, now: Ms) -> str:
    """How long ago, or how far ahead, in the largest unit."""
    if at is None:
        return "never"
    if abs(now - at) < 10 * SECOND:
        return "just now"
    return f"{span(now - at)} ago" if now >= at else f"in {span(at - now)}"


def span(length: Ms) -> str:
    length = abs(length)
    for unit, name in _UNITS:
        if length >= unit:
            count = length // unit
            return f"{count} {name}{'s' if count != 1 else ''}"
    return f"{max(length // SECOND, 1)} s"


def size(count: int | None) -> str:
    """Bytes in the largest unit: 1.5 GiB."""
    if count is None:
        return "–"
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:,.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:,.1f} {unit}"


def parted(text: str) -> Markup:
    """Text from outside that may break into lines after `_`, `@`, `:`, `/` and `-`, as ids and addresses should."""
    return Markup(_PARTS.sub(r"\1<wbr>", str(escape(text))))  # noqa: S704 - escaped


def store(name: str) -> str:
    """`App Store` for app_store. A store of the operator's own keeps its name."""
    return store_of(name).title or name


def sentence(text: str) -> str:
    """`webhook.created` and `not_enough` as readable text."""
    words = text.replace("_", " ").replace(".", " ").strip()
    return words[:1].upper() + words[1:]
