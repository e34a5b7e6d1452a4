"""One POST to a receiver: guarded, signed, timed, and told in words when it fails."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.http import Url
from pyreqwest.response import Response

from latchkey.delivery import failure
from latchkey.delivery.echo import without_secrets
from latchkey.delivery.resolver import Lookup, NameNotFound, Resolver, system_lookup
from latchkey.delivery.signing import masked, signature
from latchkey.delivery.webhook import Webhook
from latchkey.domain.address import Address, Network, NotAllowed, Target, literal, target
from latchkey.domain.instants import Ms
from latchkey.domain.retry import parse_retry_after

# Of an answer's body so much is kept, and no longer is waited for it: the status has already decided.
BODY_LIMIT = 16 * 1024
BODY_PATIENCE = 5.0
HEADERS_LIMIT = 64
USER_AGENT = f"latchkey/{version('latchkey')}"
# Many servers close a connection that was idle for 5 seconds; a request sent at that very moment would be lost.
_IDLE = timedelta(seconds=4)
_CONNECT = timedelta(seconds=10)
_CLIENTS = 1024


class Answer(Struct, frozen=True):
    """What came of one attempt. Exactly a status of 200 is success; everything else has its `error` in words."""

    at: Ms
    took_ms: int
    status: int | None
    error: str | None
    request_headers: Mapping[str, str]  # secrets masked
    response_headers: tuple[tuple[str, str], ...] = ()
    response_body: bytes = b""
    retry_after_ms: int | None = None

    @property
    def delivered(self) -> bool:
        return self.error is None


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
        self._targets: dict[str, tuple[Target, Url]] = {}

    async def send(self, webhook: Webhook, message_id: str, body: bytes) -> Answer:
        """Send `body` once. Never raises for anything a receiver can do."""
        at = self._now()
        began = time.monotonic()
        headers = self._headers(webhook, message_id, body, at)
        shown = masked(headers)
        try:
            where, url = self._target(webhook.setup.url)
            addresses = self._resolver.known(where)
            if addresses is None:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    addresses = await self._resolver.addresses(where)
            answer = await self._post(url, where, addresses, headers, shown, body, at, began)
            return without_secrets(answer, webhook)
        except (NotAllowed, NameNotFound) as error:
            return Answer(at, _since(began), None, str(error), shown)
        except (PyreqwestError, TimeoutError, OSError, ValueError) as error:
            if failure.never_connected(error):
                self._resolver.forget(self._target(webhook.setup.url)[0])
            took = _since(began)
            return Answer(at, took, None, failure.in_words(error, took, self._timeout_ms), shown)

    async def close(self) -> None:
        self._resolver.close()
        clients, self._clients = list(self._clients.values()), OrderedDict()
        for client in clients:
            await client.close()

    async def _post(
        self,
        url: Url,
        where: Target,
        addresses: Sequence[Address],
        headers: dict[str, str],
        shown: dict[str, str],
        body: bytes,
        at: Ms,
        began: float,
    ) -> Answer:
        for place, address in enumerate(addresses, 1):
            request = self._client(where, address).post(url).headers(headers).body_bytes(body)
            # Finding the name, and addresses that nobody answers at, have used some of the time.
            if (used := _since(began)) > 10:
                request = request.timeout(timedelta(milliseconds=max(1, self._timeout_ms - used)))
            try:
                # 0: hand over the answer with its headers, before any of its body.
                async with request.streamed_read_buffer_limit(0).build_streamed() as response:
                    kept = await _beginning(response)
                    return self._judged(response, kept, shown, at, began)
            except PyreqwestError as error:
                if place == len(addresses) or not failure.never_connected(error):
                    raise
        raise AssertionError("unreachable: a name without addresses is not found")

    def _judged(self, response: Response, kept: bytes, shown: dict[str, str], at: Ms, began: float) -> Answer:
        status = response.status
        error = None if status == 200 else failure.of_status(status, response.get_header("location"))
        return Answer(
            at=at,
            took_ms=_since(began),
            status=status,
            error=error,
            request_headers=shown,
            response_headers=tuple(response.headers.items())[:HEADERS_LIMIT],
            response_body=kept,
            retry_after_ms=parse_retry_after(response.get_header("retry-after"), self._now()) if error else None,
        )

    def _headers(self, webhook: Webhook, message_id: str, body: bytes, at: Ms) -> dict[str, str]:
        timestamp = at // 1000
        headers = {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(webhook.secrets_at(at), message_id, timestamp, body),
        }
        if webhook.setup.authorization is not None:
            headers["Authorization"] = webhook.setup.authorization
        return headers

    def _target(self, url: str) -> tuple[Target, Url]:
        found = self._targets.get(url)
        if found is None:
            known = target(url)
            # The client reads the URL by its own rules. Where the two disagree, the check would be for another host.
            client_sees = Url(url)
            host = client_sees.host_str or ""
            same = host == known.host if known.literal is None else literal(host) == known.literal
            if not same or client_sees.port_or_known_default != known.port:
                raise NotAllowed(f"address not allowed: {url} can be read in two ways")
            if len(self._targets) > _CLIENTS:
                self._targets.clear()
            found = self._targets[url] = known, client_sees
        return found

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


async def _beginning(response: Response) -> bytes:
    """The first part of a body; whatever happens to it, the status stands."""
    declared = response.get_header("content-length")
    kept = b""
    try:
        if declared is not None and declared.isdigit():
            wanted = min(int(declared), BODY_LIMIT)
            while len(kept) < wanted and (chunk := await response.body_reader.read_chunk()) is not None:
                kept += bytes(chunk)
        else:
            # Not for every answer: the timer alone costs as much as a quarter of the request.
            async with asyncio.timeout(BODY_PATIENCE):
                while len(kept) < BODY_LIMIT and (chunk := await response.body_reader.read_chunk()) is not None:
                    kept += bytes(chunk)
    except (PyreqwestError, TimeoutError):
        pass
    return kept[:BODY_LIMIT]


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
