"""One POST to a receiver: address check, signature, timeout, and a readable error."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.domain.outgoing_address import Address, Network, NotAllowed, Target
from latchkey.http_client import HttpClient, HttpError, Url
from latchkey.now import real_now
from latchkey.settings import Settings
from latchkey.subjects.webhooks.delivery.destination import Outgoing
from latchkey.subjects.webhooks.delivery.sending import resolver
from latchkey.subjects.webhooks.delivery.sending.mailbox import SCHEME, Mailbox
from latchkey.subjects.webhooks.delivery.sending.reply import Done, Letter, Post, Reply
from latchkey.subjects.webhooks.delivery.sending.request import FIXED, Letterhead
from latchkey.subjects.webhooks.delivery.sending.resolver import Lookup, NameNotFound, Resolver, system_lookup
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.subjects.webhooks.storage.lanes import AttemptResult

# Many servers close a connection that was idle for 5 seconds; a request sent at that moment would fail.
_IDLE = 4.0
_CONNECT = 10.0
# How many clients, URLs and webhooks are cached.
_KEPT = 1024
_NO_RESPONSE = (HttpError, TimeoutError, OSError, ValueError)


class _Route(Struct):
    """The cache entry of a URL: its parsed form, and the clients for the addresses that were checked last.

    Cached by URL, because looking up a client by its address for each delivery is slow.
    """

    where: Target
    url: Url
    addresses: Sequence[Address] | None = None
    clients: Sequence[HttpClient] = ()


class Sender:
    """Keeps connections open. Each checked address has its own client, so that no receiver delays another."""

    def __init__(
        self,
        now: Callable[[], Ms],
        *,
        timeout_ms: int = 60_000,
        allowed: Sequence[Network] = (),
        extra_ca: Path | None = None,
        public_url: str = "",
        mailbox: Mailbox | None = None,
        lookup: Lookup = system_lookup,
    ) -> None:
        self._now = now
        # Of this service, for links to its dashboard.
        self.public_url = public_url.rstrip("/")
        self._mailbox = mailbox
        self._timeout_ms = timeout_ms
        self._resolver = Resolver(allowed, lookup)
        self._extra_ca = extra_ca.read_bytes() if extra_ca is not None else None
        self._clients: OrderedDict[tuple[str, int, Address], HttpClient] = OrderedDict()
        self._routes: dict[str, _Route] = {}
        # By the webhook's key.
        self._letterheads: dict[int, Letterhead] = {}

    async def send(
        self, webhook: Webhook, message_id: str, outgoing: Outgoing, *, is_test: bool = False
    ) -> AttemptResult:
        """Send it once, and wait for the whole response. Never raises, whatever a receiver does."""
        reply = await self.post(webhook, message_id, outgoing, self._now(), is_test=is_test)
        return reply if isinstance(reply, AttemptResult) else await reply.read()

    async def post(
        self,
        webhook: Webhook,
        message_id: str,
        outgoing: Outgoing,
        at: Ms,
        *,
        is_test: bool = False,
        traceparent: str | None = None,
    ) -> Reply | AttemptResult:
        """Send it once, and wait only for the status. Returns the reason if no status arrives."""
        if outgoing.url.startswith(SCHEME):
            if self._mailbox is None:
                return AttemptResult(at, 0, None, "this service sends no mail any more", b"{}")
            return await self._mailbox.send(webhook, message_id, outgoing, at)
        began = time.monotonic()
        letterhead = self._letterhead(webhook)
        headers, shown = letterhead.headers(message_id, outgoing, at, is_test=is_test, traceparent=traceparent)
        return await self._post(Letter(letterhead, outgoing.url, headers, shown, outgoing.body, at, began))

    def begin(self, webhook: Webhook, message_id: str, outgoing: Outgoing, at: Ms, done: Done) -> Post | None:
        """Like `post`, without a task: `done` gets the result. None: the address must be looked up, use `post`."""
        began = time.monotonic()
        url, body, _ = outgoing
        route = self._routes.get(url)
        if route is None or route.addresses is None or self._resolver.known(route.where) is not route.addresses:
            return None
        letterhead = self._letterhead(webhook)
        headers, shown = letterhead.headers(message_id, outgoing, at)
        request = route.clients[0].stream("POST", route.url, headers=headers, body=body)
        return Post(Letter(letterhead, url, headers, shown, body, at, began), request, done, self._failed)

    async def _post(self, letter: Letter, *, tried: int = 0) -> Reply | AttemptResult:
        """Try the receiver's addresses one after the other. `tried`: so many have been tried."""
        try:
            route = self._routes.get(letter.url) or self._route(letter.url)
            addresses = self._resolver.known(route.where)
            late = addresses is None or tried > 0
            if addresses is None:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    addresses = await self._resolver.addresses(route.where)
            clients = route.clients if route.addresses is addresses else self._connect(route, addresses)
            for place, client in enumerate(clients, 1):
                if place <= tried < len(clients):
                    continue
                # The name lookup, and addresses that did not respond, have used some of the time.
                left = max(1, self._timeout_ms - letter.took_ms) / 1000 if late else None
                request = client.stream("POST", route.url, headers=letter.headers, body=letter.body, deadline=left)
                try:
                    return letter.reply(request, await request.__aenter__())
                except HttpError as error:
                    if place == len(clients) or not resolver.never_connected(error):
                        raise
                    late = True
            raise AssertionError("unreachable: a name without addresses is not found")
        except (NotAllowed, NameNotFound) as error:
            return letter.unanswered(str(error))
        except _NO_RESPONSE as error:
            return self._unanswered(letter, error)

    def _failed(self, post: Post, error: Exception) -> None:
        """The first of the receiver's addresses has not responded."""
        route = self._routes.get(post.letter.url)
        if not isinstance(error, _NO_RESPONSE):
            post.done(error)
        elif route is not None and len(route.clients) > 1 and resolver.never_connected(error):
            post.go_on(self._post(post.letter, tried=1))
        else:
            post.done(self._unanswered(post.letter, error))

    def _unanswered(self, letter: Letter, error: Exception) -> AttemptResult:
        route = self._routes.get(letter.url)
        if route is not None and resolver.never_connected(error):
            self._resolver.forget(route.where)
        return letter.unanswered(resolver.in_words(error, letter.took_ms, self._timeout_ms))

    async def close(self) -> None:
        self._resolver.close()
        clients, self._clients = list(self._clients.values()), OrderedDict()
        for client in clients:
            await client.close()

    def _letterhead(self, webhook: Webhook) -> Letterhead:
        known = self._letterheads.get(webhook.key)
        if known is None or known.webhook is not webhook:
            if len(self._letterheads) > _KEPT:
                self._letterheads.clear()
            known = self._letterheads[webhook.key] = Letterhead(webhook)
        return known

    def _route(self, url: str) -> _Route:
        known, client_sees = resolver.parsed(url)
        if len(self._routes) > _KEPT:
            self._routes.clear()
        route = self._routes[url] = _Route(known, client_sees)
        return route

    def _connect(self, route: _Route, addresses: Sequence[Address]) -> Sequence[HttpClient]:
        """A client for each of these addresses, kept with the route until the name has other ones."""
        route.addresses = addresses
        route.clients = [self._client(route.where, address) for address in addresses]
        return route.clients

    def _client(self, where: Target, address: Address) -> HttpClient:
        key = where.host, where.port, address
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = self._build(where, address)
            if len(self._clients) > _KEPT:
                self._clients.popitem(last=False)
        else:
            self._clients.move_to_end(key)
        return client

    def _build(self, where: Target, address: Address) -> HttpClient:
        return HttpClient(
            timeout=self._timeout_ms / 1000,
            connect_timeout=min(_CONNECT, self._timeout_ms / 1000),
            idle_timeout=_IDLE,
            headers=FIXED,
            extra_ca=self._extra_ca,
            # Host header, SNI and certificate use the name; the connection goes to the address that was checked.
            address=(where.host, str(address), where.port) if where.literal is None else None,
            http2=True,
            use_proxy=False,
            # The log stores the bytes that were sent, and a small body cannot decompress into a huge one.
            decompress=False,
        )


def sender_of(settings: Settings, mailbox: Mailbox | None, now: Callable[[], Ms] = real_now) -> Sender:
    return Sender(
        now,
        timeout_ms=settings.webhook_timeout_ms,
        allowed=settings.webhook_allow_networks,
        extra_ca=settings.webhook_extra_ca,
        public_url=settings.public_url,
        mailbox=mailbox,
    )
