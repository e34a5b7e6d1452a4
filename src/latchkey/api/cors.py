"""CORS preflights of browsers on V1 and /rcbilling. The key is the only credential, so any origin is allowed."""

from __future__ import annotations

import re

from latchkey.api.exchange import Exchange

METHODS = b"GET, HEAD, POST, PATCH, DELETE, OPTIONS"
HEADERS = (
    b"authorization, content-type, x-client-version, x-is-sandbox, x-platform, x-platform-version,"
    b" x-request-id, x-version"
)
_HEADER_LIST = re.compile(rb"[A-Za-z0-9_-]+(?:[ \t]*,[ \t]*[A-Za-z0-9_-]+)*")
_LONGEST = 1024


def is_preflight(method: str, headers: dict[bytes, bytes]) -> bool:
    return method == "OPTIONS" and b"origin" in headers and b"access-control-request-method" in headers


async def answer_preflight(exchange: Exchange) -> None:
    asked = exchange.headers.get(b"access-control-request-headers", b"")
    # New clients use new header names: any requested list of names is allowed.
    sane = len(asked) <= _LONGEST and _HEADER_LIST.fullmatch(asked) is not None
    await exchange.reply(
        204,
        b"",
        [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", asked if sane else HEADERS),
            (b"access-control-max-age", b"86400"),
            (b"vary", b"access-control-request-headers"),
        ],
    )
