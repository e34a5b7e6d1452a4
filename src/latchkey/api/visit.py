"""What a request says about the device it came from."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from latchkey.domain.instants import Ms
from latchkey.usecases.rendering.view import LastSeen

_PRINTABLE = re.compile(rb"[\x20-\x7e]{1,64}")
_COUNTRY = re.compile(rb"[A-Za-z]{2}")
# What proxies send for an unknown country, or for Tor.
_NO_COUNTRY = frozenset({"XX", "T1"})


def visit_of(
    headers: dict[bytes, bytes], now: Ms, *, always: bool, platforms: Container[str] | None = None
) -> LastSeen | None:
    """The visit to record, if the request came from an app or names its platform. With `platforms`, other platforms are
    not recorded."""
    platform = _word(headers.get(b"x-platform"))
    if platform is not None and platforms is not None and platform.lower() not in platforms:
        platform = None
    if platform is None and not always:
        return None
    return LastSeen(
        now,
        platform.lower() if platform is not None else None,
        # A version is meaningless without its platform.
        _word(headers.get(b"x-platform-version")) if platform is not None else None,
        _word(headers.get(b"x-client-version")) or _word(headers.get(b"x-version")),
        country_of(headers),
    )


def country_of(headers: Mapping[bytes, bytes]) -> str | None:
    """Where a request comes from, as a proxy in front says."""
    return _country(headers.get(b"cf-ipcountry")) or _country(headers.get(b"x-country"))


def _word(value: bytes | None) -> str | None:
    if value is None or not _PRINTABLE.fullmatch(value):
        return None
    return value.decode("ascii").strip() or None


def _country(value: bytes | None) -> str | None:
    if value is None or not _COUNTRY.fullmatch(value):
        return None
    country = value.decode("ascii").upper()
    return None if country in _NO_COUNTRY else country
