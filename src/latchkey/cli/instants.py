"""Instants as people read and type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from latchkey.domain import formats
from latchkey.domain.instants import DAY, EARLIEST, HOUR, LATEST, MINUTE, Ms
from latchkey.domain.refusal import Refusal

_UNITS = {"m": MINUTE, "h": HOUR, "d": DAY}


def shown(instant: int | None) -> str:
    return "" if instant is None else formats.instant(instant, seconds=True)


def typed_ahead(text: str, now: Ms) -> Ms:
    """A date and time in UTC, or in how long: 12h, 90d."""
    if ahead := re.fullmatch(r"(\d{1,6})([hd])", text.strip()):
        return min(now + int(ahead[1]) * _UNITS[ahead[2]], LATEST)
    return _moment(text, "in how long: 12h, 90d")


def typed(text: str, now: Ms) -> Ms:
    """A date and time in UTC, or how long ago: 90m, 6h, 3d."""
    if ago := re.fullmatch(r"(\d{1,6})([mhd])", text.strip()):
        return max(now - int(ago[1]) * _UNITS[ago[2]], EARLIEST)
    return _moment(text, "how long ago: 90m, 6h, 3d")


def _moment(text: str, otherwise: str) -> Ms:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        moment = None
    if moment is not None:
        at = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        if EARLIEST <= at <= LATEST:
            return at
    raise Refusal(f"{text[:50]!r} is not a time. Give a date such as 2027-01-31T08:00, or {otherwise}.")
