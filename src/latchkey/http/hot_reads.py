"""The two reads that apps make most, answered before the framework: V1 subscriber and V2 customer.

ETags of the vendor's native SDKs, in headers of their own.

They always send `X-RevenueCat-ETag`, empty at first. A GET whose content they have already is answered 304 without a
body; the SDK then uses the body it kept, with the time of `X-RevenueCat-Request-Time`. Requests without the header cost
nothing here. Replies to POST never have a tag: the SDKs would store them by URL alone.
"""

import hashlib
import re
from collections.abc import Awaitable, Container, Coroutine, Mapping
from typing import Any

from msgspec import json, structs
from starlette.responses import Response
from starlette.types import Message, Send

from latchkey.domain.customers.customer import LastSeen
from latchkey.domain.instants import Ms
from latchkey.domain.user_id import problem_with
from latchkey.engine.admission import Caller
from latchkey.engine.changes import Change, unchanged
from latchkey.engine.reads import CustomerView, ReadResult, look_at, view_for_reading, view_for_v2
from latchkey.http.authentication import (
    Call,
    admitted,
    check_refused_before,
    key_hash,
    require_project,
    require_room,
    require_scope,
    require_secret,
)
from latchkey.http.errors import InvalidAppUserId, Missing
from latchkey.http.exchange import ETAG, Exchange, HeldReply
from latchkey.http.routing import reply
from latchkey.http.services import Services
from latchkey.http.vendor_shape import is_vendors
from latchkey.subjects.customers.render import customer_v2, subscriber_v1
from latchkey.wire.v1 import SubscriberResponse

_encode = json.Encoder().encode
# The end of the paths whose replies have a tag. The subscriber itself is a hot read and has its own way.
_TAGGED = (b"/offerings", b"/virtual_currencies", b"/product_entitlement_mapping")


def etag_of(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).hexdigest().encode()


def is_tagged(exchange: Exchange) -> bool:
    return (
        exchange.method == "GET"
        and exchange.version == "v1"
        and ETAG in exchange.headers
        and exchange.raw_path.endswith(_TAGGED)
    )


def tagged_send(exchange: Exchange) -> Send:
    """Adds the tag to a complete reply with status 200, or replaces the reply by 304."""

    async def finish(start: Message, body: bytes) -> tuple[Message, bytes] | None:
        exchange.etag = etag_of(body)
        if exchange.etag != exchange.headers[ETAG]:
            return start, body
        await exchange.reply(304, b"")
        return None

    return HeldReply(exchange.send, finish, lambda start: start["status"] == 200)


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


V1_ROUTE = "/v1/subscribers/{app_user_id}"
V2_ROUTE = "/v2/projects/{project_id}/customers/{customer_id}"


class Reads:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._now = services.now
        self._admit = services.reader.admit
        self._refused_keys = services.refused_keys

    def answer(self, exchange: Exchange, segments: list[str]) -> Awaitable[tuple[int, bytes]] | None:
        """An awaitable of status and body, if these are the segments of one of the two reads."""
        match segments:
            case ["v1", "subscribers", app_user_id]:
                exchange.route = V1_ROUTE
                return self.subscriber(exchange, app_user_id)
            # A trailing slash is not a customer's id.
            case ["v2", "projects", project_id, "customers", customer_id] if customer_id:
                exchange.route = V2_ROUTE
                return self.customer(exchange, project_id, customer_id)
            case _:
                return None

    async def subscriber(self, exchange: Exchange, app_user_id: str) -> tuple[int, bytes]:
        problem = problem_with(app_user_id)
        answer = await self._ask(exchange, app_user_id, problem)
        caller = admitted(answer.verdict, exchange, self._services)
        if caller.is_public:
            require_room(exchange, self._services, caller, app_user_id)
        if problem is not None:
            raise InvalidAppUserId(problem, param="app_user_id", empty=not app_user_id.strip())
        if not caller.is_public:
            require_scope(caller, "read")
        if answer.row is not None:
            status, view = 200, view_for_reading(answer.row, self._now())
        elif exchange.is_head or caller.email is not None:
            # Sent by link checkers, and by members from the console: it must not change anything.
            raise Missing(f"There is no subscriber {app_user_id!r}.", param="app_user_id")
        else:
            status, view = await self._get_or_create(caller, app_user_id)
        note_visit(exchange, self._services, caller, view)
        shown = seen_subscriber(exchange, caller, view)
        if not caller.is_public:
            exchange.request_time = None
        # Only the vendor's native SDKs send a tag.
        if caller.is_public and (known := exchange.headers.get(ETAG)) is not None and not exchange.is_head:
            # Of all that an app reads. The time of the request is in a header, and no SDK reads `last_seen`.
            exchange.etag = etag_of(_encode(structs.replace(shown.subscriber, last_seen="")))
            if known == exchange.etag:
                return 304, b""
        return status, _encode(shown)

    async def customer(self, exchange: Exchange, project_id: str, customer_id: str) -> tuple[int, bytes]:
        problem = problem_with(customer_id)
        answer = await self._ask(exchange, customer_id, problem)
        caller = admitted(answer.verdict, exchange, self._services)
        require_secret(caller)
        require_scope(caller, "read")
        require_project(caller, project_id)
        if problem is not None:
            raise InvalidAppUserId(problem, param="customer_id", empty=not customer_id.strip())
        if answer.row is None:
            raise Missing(f"There is no customer {customer_id!r}.", param="customer_id")
        view = view_for_v2(answer.row, self._now())
        note_visit(exchange, self._services, caller, view)
        exchange.sequence = view.customer.sequence
        return 200, _encode(customer_v2.customer(view))

    def _ask(self, exchange: Exchange, app_user_id: str, problem: str | None) -> Coroutine[Any, Any, ReadResult]:
        """An invalid id is not looked up; the request is still authenticated and counted."""
        asked = app_user_id if problem is None else None
        if exchange.caller is not None:
            return self._read(exchange.caller, asked)
        hashed = key_hash(exchange.headers.get(b"authorization"))
        return self._check_and_ask(exchange, hashed, asked) if self._refused_keys else self._admit(hashed, asked)

    async def _check_and_ask(self, exchange: Exchange, hashed: bytes, app_user_id: str | None) -> ReadResult:
        await check_refused_before(exchange, self._services, hashed)
        return await self._admit(hashed, app_user_id)

    async def _read(self, caller: Caller, asked: str | None) -> ReadResult:
        row = await self._services.reader.read(caller.project_id, asked) if asked is not None else None
        return ReadResult(caller, row)

    async def _get_or_create(self, caller: Caller, app_user_id: str) -> tuple[int, CustomerView]:
        change = Change(project_id=caller.project_id, app_user_id=app_user_id, apply=unchanged, create=True)
        made = await self._services.changes.make(change)
        return 201 if made.created else 200, made.view(self._now())


def note_visit(exchange: Exchange, services: Services, caller: Caller, view: CustomerView) -> None:
    # Most requests come from servers and are not visits; this check is fast.
    if not caller.is_public and b"x-platform" not in exchange.headers:
        return
    seen = visit_of(exchange.headers, view.now, always=caller.is_public)
    if seen is not None:
        services.presence.note(caller.project_id, view.key, seen)


async def subscriber_reply(call: Call, app_user_id: str, status: int = 200) -> Response:
    """The subscriber, read again after the change."""
    return reply(subscriber(call, await view_of_reply(call, app_user_id)), status)


async def view_of_reply(call: Call, app_user_id: str) -> CustomerView:
    row = await call.services.reader.read(call.project_id, app_user_id)
    if row is None:
        raise Missing(f"There is no subscriber {app_user_id!r}.", param="app_user_id")
    return look_at(row, call.now())


def subscriber(call: Call, view: CustomerView) -> SubscriberResponse:
    """The subscriber as this caller may see it. Also records the visit."""
    note_visit(call.exchange, call.services, call.caller, view)
    return seen_subscriber(call.exchange, call.caller, view)


def seen_subscriber(
    exchange: Exchange, caller: Caller, view: CustomerView, token: str | None = None
) -> SubscriberResponse:
    """The subscriber as this caller, who knows this token, may see it."""
    exchange.request_time = view.now
    return subscriber_v1.subscriber(
        view, subscriber_v1.SubscriberAudience(caller.is_public, token, is_vendors(exchange))
    )
