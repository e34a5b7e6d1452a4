"""One POST to a receiver: guarded, signed, timed, and told in words when it fails."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.http import Url

from latchkey.delivery.sending import failure
from latchkey.delivery.sending.reply import Answer, Reply
from latchkey.delivery.sending.resolver import Lookup, NameNotFound, Resolver, system_lookup
from latchkey.delivery.sending.signing import masked, signature
from latchkey.delivery.webhook import Webhook
from latchkey.domain.address import Address, Network, NotAllowed, Target, literal, target
from latchkey.domain.instants import Ms
from latchkey.wire.headers import TEST_EVENT

USER_AGENT = f"latchkey/{version('latchkey')}"
# Many servers close a connection that was idle for 5 seconds; a request sent at that very moment would be lost.
_IDLE = timedelta(seconds=4)
_CONNECT = timedelta(seconds=10)
_CLIENTS = 1024


class _Way(Struct):
    """What is known of a URL: how it was read, and the clients for the addresses that were checked last."""

    where: Target
    url: Url
    addresses: Sequence[Address] | None = None
    clients: Sequence[Client] = ()


class Sender:
    """Keeps connections to receivers open; a client for each checked address, so that none can hold up another."""

    def __init__(
        self,
        now: Callable[[], Ms],
        *,
        timeout_ms: int = 60_000,
        allowed: Sequence[Network] = (),
        extra_ca: Path | None = None,
        lookup: Lookup = system_lookup,
    ) -> None:
        self._now = now
        self._timeout_ms = timeout_ms
        self._resolver = Resolver(allowed, lookup)
        self._extra_ca = extra_ca.read_bytes() if extra_ca is not None else None
        self._clients: OrderedDict[tuple[str, int, Address], Client] = OrderedDict()
        self._ways: dict[str, _Way] = {}

    async def send(self, webhook: Webhook, message_id: str, body: bytes, *, is_test: bool = False) -> Answer:
        """Send `body` once. Never raises for anything a receiver can do."""
        reply = await self.post(webhook, message_id, body, self._now(), is_test=is_test)
        return reply if isinstance(reply, Answer) else await reply.read()

    async def post(
        self, webhook: Webhook, message_id: str, body: bytes, at: Ms, *, is_test: bool = False
    ) -> Reply | Answer:
        """Send `body` once and wait for no more than the status; where none comes, the Answer says why."""
        began = time.monotonic()
        headers, shown = self._headers(webhook, message_id, body, at)
        if is_test:
            headers, shown = {**headers, TEST_EVENT: "true"}, {**shown, TEST_EVENT: "true"}
        url = webhook.setup.url
        try:
            way = self._ways.get(url) or self._way(url)
            addresses = self._resolver.known(way.where)
            late = addresses is None
            if addresses is None:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    addresses = await self._resolver.addresses(way.where)
            clients = way.clients if way.addresses is addresses else self._reached(way, addresses)
            for place, client in enumerate(clients, 1):
                request = client.post(way.url).headers(headers).body_bytes(body)
                # Finding the name, and addresses that nobody answers at, have used some of the time.
                if late:
                    request = request.timeout(timedelta(milliseconds=max(1, self._timeout_ms - _since(began))))
                # 0: hand over the answer with its headers, before any of its body.
                streamed = request.streamed_read_buffer_limit(0).build_streamed()
                try:
                    response = await streamed.__aenter__()
                except PyreqwestError as error:
                    if place == len(clients) or not failure.never_connected(error):
                        raise
                    late = True
                else:
                    return Reply(webhook, at, _since(began), shown, streamed, response)
            raise AssertionError("unreachable: a name without addresses is not found")
        except (NotAllowed, NameNotFound) as error:
            return Answer(at, _since(began), None, str(error), shown)
        except (PyreqwestError, TimeoutError, OSError, ValueError) as error:
            if failure.never_connected(error):
                self._resolver.forget(self._ways[url].where)
            took = _since(began)
            return Answer(at, took, None, failure.in_words(error, took, self._timeout_ms), shown)

    async def close(self) -> None:
        self._resolver.close()
        clients, self._clients = list(self._clients.values()), OrderedDict()
        for client in clients:
            await client.close()

    def _headers(self, webhook: Webhook, message_id: str, body: bytes, at: Ms) -> tuple[dict[str, str], dict[str, str]]:
        """As they are sent, and as the log may show them."""
        timestamp = at // 1000
        shown = {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(webhook.secrets_at(at), message_id, timestamp, body),
        }
        authorization = webhook.setup.authorization
        if authorization is None:
            return shown, shown
        sent = {**shown, "Authorization": authorization}
        shown["Authorization"] = masked(authorization)
        return sent, shown

    def _way(self, url: str) -> _Way:
        known = target(url)
        # The client reads the URL by its own rules. Where the two disagree, the check would be for another host.
        client_sees = Url(url)
        host = client_sees.host_str or ""
        same = host == known.host if known.literal is None else literal(host) == known.literal
        if not same or client_sees.port_or_known_default != known.port:
            raise NotAllowed(f"address not allowed: {url} can be read in two ways")
        if len(self._ways) > _CLIENTS:
            self._ways.clear()
        way = self._ways[url] = _Way(known, client_sees)
        return way

    def _reached(self, way: _Way, addresses: Sequence[Address]) -> Sequence[Client]:
        """A client for each of these addresses, kept at hand for as long as the name has them."""
        way.addresses = addresses
        way.clients = [self._client(way.where, one) for one in addresses]
        return way.clients

    def _client(self, where: Target, address: Address) -> Client:
        key = where.host, where.port, address
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = self._build(where, address)
            if len(self._clients) > _CLIENTS:
                self._clients.popitem(last=False)
        else:
            self._clients.move_to_end(key)
        return client

    def _build(self, where: Target, address: Address) -> Client:
        builder = (
            ClientBuilder()
            .timeout(timedelta(milliseconds=self._timeout_ms))
            .connect_timeout(min(_CONNECT, timedelta(milliseconds=self._timeout_ms)))
            .pool_idle_timeout(_IDLE)
            .follow_redirects(False)
            .https_only(True)
            .no_proxy()
            .http2(True)
            # What is kept for the log is what was sent; and nothing small can unpack into something endless.
            .gzip(False)
            .brotli(False)
            .deflate(False)
            .zstd(False)
        )
        if self._extra_ca is not None:
            builder = builder.add_root_certificate_pem(self._extra_ca)
        if where.literal is None:
            # The name stays in the URL (Host, SNI, certificate); the connection goes to the address that was checked.
            builder = builder.resolve(where.host, str(address), where.port)
        return builder.build()


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
