"""ETags of the vendor's native SDKs, in headers of their own.

They always send `X-RevenueCat-ETag`, empty at first. A GET whose content they have already is answered 304 without a
body; the SDK then uses the body it kept, with the time of `X-RevenueCat-Request-Time`. Requests without the header cost
nothing here. Replies to POST never have a tag: the SDKs would store them by URL alone.
"""

from __future__ import annotations

import hashlib

from msgspec import json, structs
from starlette.types import Message

from latchkey.api.exchange import ETAG, Exchange
from latchkey.wire.v1 import Subscriber

_encode = json.Encoder().encode
# The end of the paths whose replies have a tag. The subscriber itself is a hot read and has its own way.
_TAGGED = (b"/offerings", b"/virtual_currencies", b"/product_entitlement_mapping")


def etag_of(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).hexdigest().encode()


def etag_of_subscriber(subscriber: Subscriber) -> bytes:
    """Of all that an app reads. The time of the request is in a header, and no SDK reads `last_seen`."""
    return etag_of(_encode(structs.replace(subscriber, last_seen="")))


def is_tagged(exchange: Exchange) -> bool:
    return (
        exchange.method == "GET"
        and exchange.version == "v1"
        and ETAG in exchange.headers
        and exchange.raw_path.endswith(_TAGGED)
    )


class TaggedSend:
    """An ASGI `send` that adds the tag to a complete reply with status 200, or replaces the reply by 304."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            self._start = message
            return
        start, self._start = self._start, None
        if start is None:
            await self._exchange.send(message)
            return
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            # Not complete, so there is nothing to compare.
            await self._exchange.send(start)
            await self._exchange.send(message)
            return
        self._exchange.etag = etag_of(body)
        if self._exchange.etag == self._exchange.headers[ETAG]:
            await self._exchange.reply(304, b"")
            return
        await self._exchange.send(start)
        await self._exchange.send(message)
